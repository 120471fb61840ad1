"""What tests of several packages share."""

import pytest

from tests.spark_sessions import spark_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Start Spark, for all tests of this process."""
    pytest.importorskip("pyspark", reason="diprime[spark] is not installed")
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session
