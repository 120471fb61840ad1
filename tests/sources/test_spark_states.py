"""Each state of a Spark partition is in one worker; others forward tasks to it, and do without it if it is gone."""

import errno
import gc
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from diprime.execution.remote import Opaque, PartitionBundle, WorkItem, unwrap

pytest.importorskip("pyspark", reason="diprime[spark] is not installed")
from diprime.sources.spark import workers as spark_workers
from diprime.sources.spark.workers import StateCache, cache_of, clear_all, clear_cache

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no sockets with names on Windows")
FIT = "0123456789abcdef"
ROWS = b"digest"


@pytest.fixture(autouse=True)
def directory(monkeypatch, tmp_path):
    """Let workers use a directory of the test, whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory() as path:
        monkeypatch.setattr(tempfile, "tempdir", path)
        yield Path(path, f"diprime-{FIT}-{os.getppid()}")
        clear_all()


class State:
    """A state that counts its updates."""

    def __init__(self):
        self.n = 0


def update(state, threads):
    state.n += 1
    return state


def n_updates(state, threads):
    return np.array([state.n])


def bundle():
    return Opaque(PartitionBundle([State()]))


def item(n_before):
    """Apply one update."""
    return Opaque(WorkItem("run", n_before, [[update]], n_updates))


def counted(result):
    return unwrap(result).tolist()


def leave_a_socket(path):
    """Let a process listen, and end."""
    code = "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def test_owner_of_a_state_answers_other_workers():
    owner, other = cache_of(FIT), StateCache(FIT)
    owner.put(3, ROWS, bundle())
    assert [counted(worker.work(3, ROWS, item(i))) for i, worker in enumerate([other, owner, other])] == [[1], [2], [3]]
    assert (len(owner._bundles), len(other._bundles)) == (1, 0)


@pytest.mark.parametrize("worker", [cache_of, StateCache])
def test_state_of_other_rows_is_not_used(worker):
    cache_of(FIT).put(3, ROWS, bundle())
    assert worker(FIT).work(3, b"other", item(0)) is None
    assert counted(worker(FIT).work(3, ROWS, item(0))) == [1]


def test_state_of_an_ended_worker_is_rebuilt(directory):
    """Its socket is there without a listener."""
    directory.mkdir(mode=0o700)
    leave_a_socket(directory / "1")
    (directory / "of-3").symlink_to("1")
    other = StateCache(FIT)
    assert other.work(3, ROWS, item(0)) is None
    cache_of(FIT).put(3, ROWS, bundle())
    assert counted(other.work(3, ROWS, item(0))) == [1]


def test_failure_is_returned_to_the_other_worker():
    cache_of(FIT).put(3, ROWS, bundle())
    with pytest.raises(RuntimeError, match=r"work on rows \(LookupError\)") as caught:
        unwrap(StateCache(FIT).work(3, ROWS, Opaque(WorkItem("run", 0, [[_fail]], n_updates))))
    assert "Jane" not in str(caught.value)


def _fail(state, threads):
    raise LookupError("Jane Doe, 271828")


def test_any_worker_can_clear_all_states(directory):
    """This includes a worker that has ended, and left its socket."""
    owner = StateCache(FIT)  # of another process, as far as this one knows
    owner.put(3, ROWS, bundle())
    leave_a_socket(directory / "1")
    (directory / "of-5").symlink_to("1")
    clear_cache(FIT)
    assert len(owner._bundles) == 0
    assert not directory.exists()
    assert StateCache(FIT).work(3, ROWS, item(0)) is None


def test_states_of_an_earlier_fit_are_dropped(directory):
    before = cache_of(FIT)
    before.put(3, ROWS, bundle())
    cache_of("other")
    assert not directory.exists()
    assert len(before._bundles) == 0
    assert StateCache(FIT).work(3, ROWS, item(0)) is None
    assert list(spark_workers._caches) == ["other"]


def test_cleared_worker_leaves_the_states_of_others(directory, monkeypatch):
    owner, other = cache_of(FIT), StateCache(FIT)
    owner.put(3, ROWS, bundle())
    monkeypatch.setattr(os, "getpid", lambda: 1)
    other.put(4, ROWS, bundle())
    other.clear()
    monkeypatch.undo()
    assert [path.name for path in directory.iterdir() if not path.name.isdigit()] == ["of-3"]


@pytest.mark.parametrize("mode", [0o755, 0o701])
def test_directory_with_public_permissions_is_not_used(directory, mode):
    directory.mkdir()
    directory.chmod(mode)
    owner = cache_of(FIT)
    owner.put(3, ROWS, bundle())
    assert list(directory.iterdir()) == []
    assert StateCache(FIT).work(3, ROWS, item(0)) is None
    assert counted(owner.work(3, ROWS, item(0))) == [1]


def test_directory_of_another_user_is_not_used(directory, monkeypatch):
    directory.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    cache_of(FIT).put(3, ROWS, bundle())
    assert list(directory.iterdir()) == []


def test_link_to_a_directory_is_not_used(directory, tmp_path):
    tmp_path.chmod(0o700)
    directory.symlink_to(tmp_path)
    cache_of(FIT).put(3, ROWS, bundle())
    assert list(tmp_path.iterdir()) == []


def test_directory_has_private_permissions(directory):
    cache_of(FIT).put(3, ROWS, bundle())
    assert directory.stat().st_mode & 0o777 == 0o700


def test_worker_without_a_socket_uses_only_its_own_states(monkeypatch, tmp_path):
    """The path of a socket has about a hundred characters at most."""
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    owner = cache_of(FIT)
    owner.put(3, ROWS, bundle())
    assert StateCache(FIT).work(3, ROWS, item(0)) is None
    assert counted(owner.work(3, ROWS, item(0))) == [1]
    cache_of("other")
    assert list(long.iterdir()) == []


def test_platform_without_sockets_leaves_no_directory(directory, monkeypatch):
    """As on Windows."""
    monkeypatch.delattr(os, "geteuid")
    owner = cache_of(FIT)
    owner.put(3, ROWS, bundle())
    assert counted(owner.work(3, ROWS, item(0))) == [1]
    clear_cache(FIT)
    assert not directory.exists()


def test_worker_with_too_many_open_files_waits():
    """They may be closed; meanwhile, it does not try all the time."""
    states, tried = StateCache(FIT), []

    class Full:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def accept(self):
            tried.append(time.monotonic())
            if len(tried) == 3:
                states._listening = None
            raise OSError(errno.EMFILE, "Too many open files")

    states._listening = Thread(target=states._serve, args=[Full()])
    states._listening.start()
    while len(tried) < 3:
        time.sleep(0.01)
    assert tried[2] - tried[0] > spark_workers._PAUSE_SECONDS


def test_earlier_objects_are_frozen_during_a_fit():
    cache_of(FIT)
    assert gc.get_freeze_count() > 1000
    clear_cache(FIT)
    assert gc.get_freeze_count() == 0
