"""Fixtures and hooks for the tests of all packages."""

import gc
import os

import pytest

from tests.spark_sessions import spark_session


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Let ``-n auto`` start one process more than there are cores, because cluster tests mostly wait."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Run all Spark tests in one process, all Dask tests in one, and all cases of any other function in one.

    Starting clusters is slow, and the cases of a function share what it computes once.
    """
    from xdist.scheduler import LoadScopeScheduling

    class OneOfEachCluster(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return cluster_of(nodeid) or nodeid.split("[")[0]

    config.option.loadscopereorder = False  # the order is that below
    return OneOfEachCluster(config, log) if config.getoption("dist") == "load" else None


def pytest_collection_modifyitems(items):
    """Run tests first that search all objects, while these are few, and then cluster tests, which take minutes."""
    items.sort(key=lambda item: 0 if "keys_after_fits" in item.nodeid else 1 if cluster_of(item.nodeid) else 2)


def pytest_collection_finish():
    """Exempt the tests and all modules from garbage collection, because they stay until the end."""
    gc.collect()
    gc.freeze()


def cluster_of(nodeid):
    """Return the kind of cluster that a test uses, or None."""
    return next((kind for kind in ("spark", "dask") if kind in nodeid), None)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Yield the Spark session of all tests in this process."""
    pytest.importorskip("pyspark", reason="diprime[spark] is not installed")
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session
