"""States of Spark's partitions are in one worker each: others hand tasks on to it, and do without it if it is gone."""

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

from diprime.engines import spark_states
from diprime.engines.remote import Bundle, Sealed, Task, opened
from diprime.engines.spark_states import States, drop_all, forget, states_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no sockets with names on Windows")
FIT = "0123456789abcdef"
ROWS = b"digest"


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """Let workers meet in a folder of the test, whose path is short enough for a socket's."""
    with tempfile.TemporaryDirectory() as path:
        monkeypatch.setattr(tempfile, "tempdir", path)
        yield Path(path, f"diprime-{FIT}-{os.getppid()}")
        drop_all()


class State:
    """A state that counts its steps."""

    def __init__(self):
        self.n = 0


def step(state, threads):
    state.n += 1
    return state


def n_steps(state, threads):
    return np.array([state.n])


def bundle():
    return Sealed(Bundle([State()]))


def task(n_before):
    """Take one step."""
    return Sealed(Task("run", n_before, [[step]], n_steps))


def counted(outcome):
    return opened(outcome).tolist()


def leave_a_socket(path):
    """Let a process listen, and end."""
    code = "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def test_a_worker_that_has_a_state_does_the_tasks_of_others():
    owner, other = states_of(FIT), States(FIT)
    owner.keep(3, ROWS, bundle())
    assert [counted(worker.work(3, ROWS, task(i))) for i, worker in enumerate([other, owner, other])] == [[1], [2], [3]]
    assert (owner.n_here, other.n_here) == (1, 0)


def test_partitions_have_states_of_their_own():
    owner, other = states_of(FIT), States(FIT)
    for number in (0, 1):
        owner.keep(number, ROWS, bundle())
    assert [counted(other.work(number, ROWS, task(0))) for number in (0, 1)] == [[1], [1]]


def test_nobody_has_a_state():
    assert states_of(FIT).work(3, ROWS, task(0)) is None
    states_of(FIT).keep(4, ROWS, bundle())
    assert States(FIT).work(3, ROWS, task(0)) is None


@pytest.mark.parametrize("worker", [states_of, States])
def test_a_state_of_other_rows_is_none(worker):
    states_of(FIT).keep(3, ROWS, bundle())
    assert worker(FIT).work(3, b"other", task(0)) is None
    assert counted(worker(FIT).work(3, ROWS, task(0))) == [1]


def test_the_owner_has_ended(folder):
    """Its socket is there, and nobody listens; then another worker makes the state anew."""
    folder.mkdir(mode=0o700)
    leave_a_socket(folder / "1")
    (folder / "of-3").symlink_to("1")
    other = States(FIT)
    assert other.work(3, ROWS, task(0)) is None
    states_of(FIT).keep(3, ROWS, bundle())
    assert counted(other.work(3, ROWS, task(0))) == [1]


def test_a_failure_is_handed_back():
    states_of(FIT).keep(3, ROWS, bundle())
    with pytest.raises(RuntimeError, match=r"could not work on rows \(LookupError\)") as caught:
        opened(States(FIT).work(3, ROWS, Sealed(Task("run", 0, [[_fail]], n_steps))))
    assert "Jane" not in str(caught.value)


def _fail(state, threads):
    raise LookupError("Jane Doe, 271828")


def test_any_worker_can_let_all_forget(folder):
    """Also where one has ended, and left its socket."""
    owner = States(FIT)  # of another process, as far as this one knows
    owner.keep(3, ROWS, bundle())
    leave_a_socket(folder / "1")
    (folder / "of-5").symlink_to("1")
    forget(FIT)
    assert owner.n_here == 0
    assert not folder.exists()
    assert States(FIT).work(3, ROWS, task(0)) is None


def test_states_of_another_fit_are_dropped(folder):
    before = states_of(FIT)
    before.keep(3, ROWS, bundle())
    states_of("other")
    assert not folder.exists()
    assert before.n_here == 0
    assert States(FIT).work(3, ROWS, task(0)) is None
    assert list(spark_states._of_process) == ["other"]


def test_a_worker_that_drops_its_states_leaves_those_of_others(folder, monkeypatch):
    owner, other = states_of(FIT), States(FIT)
    owner.keep(3, ROWS, bundle())
    monkeypatch.setattr(os, "getpid", lambda: 1)
    other.keep(4, ROWS, bundle())
    other.drop()
    monkeypatch.undo()
    assert [path.name for path in folder.iterdir() if not path.name.isdigit()] == ["of-3"]


@pytest.mark.parametrize("mode", [0o755, 0o701])
def test_a_folder_that_others_can_open_is_not_used(folder, mode):
    folder.mkdir()
    folder.chmod(mode)
    owner = states_of(FIT)
    owner.keep(3, ROWS, bundle())
    assert list(folder.iterdir()) == []
    assert States(FIT).work(3, ROWS, task(0)) is None
    assert counted(owner.work(3, ROWS, task(0))) == [1]


def test_a_folder_of_another_user_is_not_used(folder, monkeypatch):
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    states_of(FIT).keep(3, ROWS, bundle())
    assert list(folder.iterdir()) == []


def test_a_link_to_a_folder_is_not_used(folder, tmp_path):
    tmp_path.chmod(0o700)
    folder.symlink_to(tmp_path)
    states_of(FIT).keep(3, ROWS, bundle())
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_for_its_owner_alone(folder):
    states_of(FIT).keep(3, ROWS, bundle())
    assert folder.stat().st_mode & 0o777 == 0o700


def test_without_a_socket_a_worker_keeps_states_for_itself(monkeypatch, tmp_path):
    """The path of a socket has about a hundred characters at most."""
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    owner = states_of(FIT)
    owner.keep(3, ROWS, bundle())
    assert States(FIT).work(3, ROWS, task(0)) is None
    assert counted(owner.work(3, ROWS, task(0))) == [1]
    states_of("other")
    assert list(long.iterdir()) == []


def test_where_there_are_no_such_sockets_nothing_is_left(folder, monkeypatch):
    """As on Windows."""
    monkeypatch.delattr(os, "geteuid")
    owner = states_of(FIT)
    owner.keep(3, ROWS, bundle())
    assert counted(owner.work(3, ROWS, task(0))) == [1]
    forget(FIT)
    assert not folder.exists()


def test_a_worker_that_has_too_many_open_files_waits():
    """They may be closed; meanwhile, it does not try all the time."""
    states, tried = States(FIT), []

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
    assert tried[2] - tried[0] > spark_states._PAUSE_SECONDS


def test_garbage_collection_leaves_out_what_was_there_before():
    states_of(FIT)
    assert gc.get_freeze_count() > 1000
    forget(FIT)
    assert gc.get_freeze_count() == 0
