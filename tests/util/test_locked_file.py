"""A locked file is one process's or one thread's at a time, and a line is on the disk or not there."""

import errno
import importlib.util
import os
import sys
import threading
from types import SimpleNamespace

import pytest

import diprime._util.locked_file
from diprime._util.locked_file import append_line, create_file, locked_file, read_all


def test_a_file_is_created_once(tmp_path):
    path = str(tmp_path / "log")
    create_file(path, b"first\n")
    with pytest.raises(FileExistsError):
        create_file(path, b"other\n")
    with locked_file(path, append=True) as file:
        append_line(file, b"second\n")
        assert read_all(file, 100) == b"first\nsecond\n"


def test_a_file_that_does_not_exist_is_not_made(tmp_path):
    with pytest.raises(FileNotFoundError), locked_file(str(tmp_path / "log"), append=True):
        pass
    assert os.listdir(tmp_path) == []


def test_who_appends_is_alone(tmp_path):
    path = str(tmp_path / "log")
    create_file(path, b"")
    order, inside = [], threading.Event()

    def come_later(append):
        inside.wait()
        with locked_file(path, append=append):
            order.append("later")

    threads = [threading.Thread(target=come_later, args=(append,)) for append in (False, True)]
    for thread in threads:
        thread.start()
    with locked_file(path, append=True):
        inside.set()
        threads[0].join(0.2)
        order.append("first")
    for thread in threads:
        thread.join()
    assert order == ["first", "later", "later"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no lock that readers share")
def test_readers_do_not_wait_for_each_other(tmp_path):
    path = str(tmp_path / "log")
    create_file(path, b"text")
    with locked_file(path, append=False) as one, locked_file(path, append=False) as two:
        assert read_all(one, 10) == read_all(two, 10) == b"text"


def test_a_line_that_is_cut_short_is_taken_back(tmp_path, monkeypatch):
    path = str(tmp_path / "log")
    create_file(path, b"first\n")
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, line: write(file, line[:3]))
    with locked_file(path, append=True) as file, pytest.raises(OSError, match="whole"):
        append_line(file, b"second\n")
    monkeypatch.undo()
    with locked_file(path, append=False) as file:
        assert read_all(file, 100) == b"first\n"


def test_a_new_file_that_cannot_be_written_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "write", lambda file, line: 1)
    with pytest.raises(OSError, match="whole"):
        create_file(str(tmp_path / "log"), b"first\n")
    assert os.listdir(tmp_path) == []


# Windows, with a stand-in for its locks ------------------------------------------------------------------------------

LOCKED_BYTE = 1 << 40


class WindowsLocks:
    """What is documented of ``msvcrt.locking``: locks of bytes from the position of a descriptor on, for it alone."""

    LK_UNLCK, LK_LOCK, LK_NBLCK = 0, 1, 2

    def __init__(self):
        self.holders, self.calls, self.refused = {}, [], threading.Event()
        self._one_at_a_time = threading.Lock()

    def locking(self, file, mode, n_bytes):
        with self._one_at_a_time:
            position = os.lseek(file, 0, os.SEEK_CUR)
            self.calls.append((mode, position, n_bytes))
            key = (os.fstat(file).st_ino, position)
            wanted = None if mode == self.LK_NBLCK else file  # whoever has it: nobody to lock, this one to unlock
            if self.holders.get(key) != wanted:
                self.refused.set()
                raise OSError(errno.EACCES, "Permission denied")
            if mode == self.LK_NBLCK:
                self.holders[key] = file
            else:
                del self.holders[key]


@pytest.fixture
def windows(monkeypatch):
    """Return the module as Windows imports it, and its locks."""
    locks = WindowsLocks()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "win32")
        patch.setitem(sys.modules, "msvcrt", locks)
        spec = importlib.util.spec_from_file_location("locked_file_of_windows", diprime._util.locked_file.__file__)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return SimpleNamespace(module=module, locks=locks)


@pytest.mark.parametrize("append", [False, True])
def test_windows_locks_one_byte_beyond_the_file_and_releases_it(windows, tmp_path, append):
    path = str(tmp_path / "log")
    windows.module.create_file(path, b"first\n")
    with windows.module.locked_file(path, append=append) as file:
        assert list(windows.locks.holders.values()) == [file]
        assert windows.module.read_all(file, 100) == b"first\n"
        if append:
            windows.module.append_line(file, b"second\n")
    assert windows.locks.holders == {}
    assert windows.locks.calls == [(mode, LOCKED_BYTE, 1) for mode in (WindowsLocks.LK_NBLCK, WindowsLocks.LK_UNLCK)]
    assert os.path.getsize(path) == (13 if append else 6), "a lock beyond the end writes nothing"


def test_windows_releases_the_lock_after_a_mistake(windows, tmp_path):
    path = str(tmp_path / "log")
    windows.module.create_file(path, b"")
    with pytest.raises(ZeroDivisionError), windows.module.locked_file(path, append=True):
        1 / 0
    assert windows.locks.holders == {}


@pytest.mark.parametrize("append", [False, True])
def test_windows_waits_until_the_lock_is_free(windows, tmp_path, append):
    path, order = str(tmp_path / "log"), []
    windows.module.create_file(path, b"")

    def come_later():
        with windows.module.locked_file(path, append=append):
            order.append("later")

    thread = threading.Thread(target=come_later)
    with windows.module.locked_file(path, append=True):
        thread.start()
        assert windows.locks.refused.wait(60)
        order.append("first")
    thread.join(60)
    assert order == ["first", "later"]
    assert windows.locks.holders == {}
    assert {position for _, position, _ in windows.locks.calls} == {LOCKED_BYTE}


def test_windows_that_is_interrupted_while_it_waits_releases_nothing_of_others(windows, tmp_path, monkeypatch):
    path = str(tmp_path / "log")
    windows.module.create_file(path, b"")

    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(windows.module.time, "sleep", interrupt)
    with windows.module.locked_file(path, append=True) as file:
        with pytest.raises(KeyboardInterrupt), windows.module.locked_file(path, append=True):
            pass
        assert list(windows.locks.holders.values()) == [file]


def test_windows_does_not_wait_for_what_is_no_lock_of_others(windows, tmp_path, monkeypatch):
    path = str(tmp_path / "log")
    windows.module.create_file(path, b"")

    def unsupported(*_):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(windows.locks, "locking", unsupported)
    with pytest.raises(OSError, match="Invalid argument"), windows.module.locked_file(path, append=True):
        pass
