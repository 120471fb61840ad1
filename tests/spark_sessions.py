"""Small Spark cluster for all tests of a process: a driver, two executors with two cores each, and their workers."""

import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest

NEEDED = [
    pytest.mark.skipif(sys.platform != "linux", reason="the cluster is started and killed as on Linux"),
    pytest.mark.skipif(not (shutil.which("java") or os.environ.get("JAVA_HOME")), reason="there is no Java"),
    pytest.mark.filterwarnings(
        "ignore:This fit is not private. random_state:diprime.PrivacyWarning",  # seeds make fits comparable
        "ignore:PySpark does not yet fully support pandas:FutureWarning",
        "ignore:The copy keyword is deprecated",  # by pandas; PySpark uses it
        "ignore:unclosed:ResourceWarning",  # Py4J leaves sockets to the garbage collector
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ),
]
"""Marks of tests that need the cluster."""


def needs_spark(test):
    """Mark a test that needs the cluster."""
    for mark in NEEDED:
        test = mark(test)
    return test


_FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@contextmanager
def spark_session(home):
    """Yield a session whose files are in a new temporary directory."""
    with tempfile.TemporaryDirectory() as folder, _session(home, folder) as session:
        yield session


@contextmanager
def _session(home, folder):
    import pyspark
    from pyspark.sql import SparkSession

    for item in Path(pyspark.__file__).parent.iterdir():
        if item.name != "work":  # executors write their logs there
            (home / item.name).symlink_to(item)
    settings = {
        "spark.master": "local-cluster[2,2,1024]",
        "spark.executor.memory": "1g",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "spark.executorEnv.TMPDIR": folder,  # short enough for socket names
        "spark.local.dir": str(home / "local"),
        "spark.locality.wait": "6s",  # keeps tasks near their rows even on slow machines
        "spark.python.unix.domain.socket.enabled": "true",  # makes tasks faster
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.executor.extraJavaOptions": _FAST_START,
    }
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("SPARK_HOME", str(home))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"--driver-java-options '{_FAST_START}' pyspark-shell")
        session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()


def logs():
    """Return the logs of all executors."""
    return "".join(path.read_text() for path in Path(os.environ["SPARK_HOME"], "work").glob("*/*/stderr"))


def persisted(session):
    """Return the number of persisted RDDs."""
    return len(session.sparkContext._jsc.getPersistentRDDs())


def folders_of_states(session):
    """Return the directories through which Python workers share the states of a fit, one per executor."""
    return set(Path(session.sparkContext.getConf().get("spark.executorEnv.TMPDIR")).glob("diprime-*"))


def worker_pids(session):
    """Return the process ids of Python workers with states of a fit, mapped to those of their executors."""

    def pids(_):
        from diprime.sources.spark.workers import _caches

        time.sleep(0.1)  # so that all workers get some of the tasks
        daemon = os.getppid()
        executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
        return [(os.getpid(), executor)] if any(states._bundles for states in _caches.values()) else []

    return dict(session.sparkContext.range(16, numSlices=16).mapPartitions(pids).collect())


def kill_a_worker(session):
    """Kill a Python worker that has a state."""
    os.kill(min(worker_pids(session)), signal.SIGKILL)


def kill_an_executor(session):
    """Kill an executor, which loses its cached rows."""
    os.kill(min(worker_pids(session).values()), signal.SIGKILL)
