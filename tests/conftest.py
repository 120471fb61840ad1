"""What tests of several packages share."""

import pytest

from tests.spark_sessions import spark_session


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Let one process run all tests that need Spark, which takes long to start: pytest -n auto --dist loadgroup."""
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            if "spark" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Start Spark, for all tests of this process."""
    pytest.importorskip("pyspark", reason="diprime[spark] is not installed")
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session
