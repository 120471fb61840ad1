"""The site in a browser, page by page, on a phone and on a desk; ``make docs`` builds it and says where it is."""

import base64
import functools
import http.server
import os
import re
import threading
from pathlib import Path

import pytest

from tests.browser import Browser

SITE = Path(os.environ["DIPRIME_SITE"]).resolve() if "DIPRIME_SITE" in os.environ else None
PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html")) if SITE else []
NOT_TUTORIALS = {"tutorials/index.html", "tutorials/report.html"}
TUTORIALS = [page for page in PAGES if page.startswith("tutorials/") and page not in NOT_TUTORIALS]
PRINTED_PAGES = {"privacy-officers.html": 1, "promise.html": 2, "reading-a-report.html": 2, "threat-model.html": 2}
WIDTHS = {"phone": (390, 844), "desk": (1280, 900)}

pytestmark = [
    pytest.mark.skipif(SITE is None, reason="The site is tested by `make docs`, which builds it."),
    pytest.mark.skipif(not Browser.INSTALLED, reason="Chromium and its driver are not installed."),
]

# What is wider than the window and not in something that scrolls by itself.
TOO_WIDE = """
document.getAnimations().forEach((a) => { if (a instanceof CSSTransition) a.finish(); });
const page = document.documentElement;
if (page.scrollWidth <= window.innerWidth) return [];
return [...document.querySelectorAll("body *")]
  .filter((e) => e.getBoundingClientRect().right > window.innerWidth + 1)
  .map((e) => e.outerHTML.slice(0, 80)).slice(0, 3).concat(page.scrollWidth);
"""
WITHOUT_WORDS = "return [...document.images].filter((i) => !i.alt.trim() || !i.naturalWidth).map((i) => i.outerHTML)"
NOT_RENDERED = r"""
const raw = [...document.querySelectorAll(".arithmatex")].map((e) => e.textContent);
const broken = (formula) => !formula.getBoundingClientRect().width || formula.querySelector("merror");
const prose = document.querySelector("article")?.cloneNode(true);
prose?.querySelectorAll("pre, code, math").forEach((e) => e.remove());
raw.push(...(prose?.textContent.match(/\S*\w\^\S*/g) ?? []));
return raw.concat([...document.querySelectorAll("math")].filter(broken).map((formula) => formula.outerHTML));
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.driver.quit()


def visit(browser, url):
    browser.errors(), browser.requests()  # those of the page before
    browser.driver.get(url)


@pytest.mark.parametrize("page", PAGES)
def test_page_fits_a_phone_and_a_desktop_screen(browser, address, page):
    visit(browser, address + page)
    assert browser.run(WITHOUT_WORDS) == []
    for name, size in WIDTHS.items():
        browser.resize(*size)
        browser.comes_to_hold(lambda: browser.run(TOO_WIDE) == [], seconds=5)  # when the menu has slid away
        assert browser.run(TOO_WIDE) == [], name
        assert browser.run(NOT_RENDERED) == [], name
    assert browser.errors() == []
    assert [url for url in browser.requests() if not url.startswith(address)] == []


@pytest.mark.parametrize("page", TUTORIALS)
def test_tutorial_shows_its_output_and_figures(browser, address, page):
    visit(browser, address + page)
    assert browser.run("return document.querySelectorAll('.output pre').length") >= 2
    assert browser.run("return document.querySelectorAll('article img').length") > 0


def test_site_contains_every_tutorial():
    scripts = Path(__file__).parents[2].glob("docs/tutorials/*.py")
    assert sorted(f"tutorials/{script.stem}.html" for script in scripts) == TUTORIALS


def test_formulas_are_rendered(browser, address):
    visit(browser, address + "promise.html")
    assert browser.run("return document.querySelectorAll('math').length") >= 4


@pytest.mark.parametrize(("page", "n_pages"), PRINTED_PAGES.items())
def test_pages_for_privacy_officers_fit_on_paper(browser, address, page, n_pages):
    visit(browser, address + page)
    printed = browser.driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    pdf = base64.b64decode(printed["data"])
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf)) <= n_pages


def test_search_finds_a_page(browser, address):
    visit(browser, address + "index.html")
    browser.run("document.querySelector('[data-md-component=search-query]').focus()")
    browser.press("permute")
    found = "return [...document.querySelectorAll('.md-search-result__item')].map((e) => e.textContent).join()"
    assert browser.comes_to_hold(lambda: "Selections" in browser.run(found))


def test_reference_shows_values_and_names(browser, address):
    visit(browser, address + "reference/estimators.html")
    text = browser.run("return document.querySelector('article').textContent")
    assert "epsilon=1.0" in text
    assert "EPSILON" not in text
    assert ":meth:" not in text
    assert "predict_proba" in text
