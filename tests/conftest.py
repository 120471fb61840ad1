"""What tests of several packages share."""

import pytest

from tests.spark_sessions import spark_session


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Let one process run all tests with ``spark`` in their names: Spark takes long to start."""
    from xdist.scheduler import LoadScopeScheduling

    class OneSpark(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return "spark" if "spark" in nodeid else nodeid

    return OneSpark(config, log) if config.getoption("dist") == "load" else None


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Start Spark, for all tests of this process."""
    pytest.importorskip("pyspark", reason="diprime[spark] is not installed")
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session
