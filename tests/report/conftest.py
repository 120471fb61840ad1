"""The browser that shows reports."""

import pytest

from tests.browser import Browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    pytest.importorskip("selenium", reason="Selenium is not installed.")
    if not Browser.INSTALLED:
        pytest.skip("Chromium or its driver is not installed (Debian: chromium and chromium-driver).")
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.driver.quit()
