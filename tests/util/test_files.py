"""Regular files: all that is there is read, and nothing else is waited for.

Files are written completely or not at all.

A locked file is one process's or one thread's at a time, and a line is on the disk or not there.
"""

import errno
import importlib.util
import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

import diprime._util.files
from diprime._util.files import append_line, atomic_file, create_file, locked_file, read_all, read_regular


def read(path):
    return read_regular(path, 10, "word", ValueError)


def test_read_regular_limits_size(tmp_path):
    (tmp_path / "word").write_bytes(b"0123456789")
    assert read(tmp_path / "word") == b"0123456789"
    (tmp_path / "word").write_bytes(b"")
    assert read(tmp_path / "word") == b""
    (tmp_path / "word").write_bytes(b"0123456789a")
    with pytest.raises(ValueError, match=r"larger .*word\."):
        read(tmp_path / "word")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipe_that_replaces_file_is_refused(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"not a file\.$"):
        read(tmp_path / "pipe")
    regular = os.stat_result((stat.S_IFREG, *[0] * 9))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", lambda path: regular)
        with pytest.raises(ValueError, match=r"not a file\.$"):
            read(tmp_path / "pipe")


def test_growing_file_is_refused(tmp_path, monkeypatch):
    (tmp_path / "word").write_bytes(b"01234")
    before = (tmp_path / "word").stat()
    (tmp_path / "word").write_bytes(b"0123456")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", lambda descriptor: before)
        with pytest.raises(ValueError, match=r"changed .*read\."):
            read(tmp_path / "word")


def test_file_appears_only_when_complete(tmp_path):
    path = tmp_path / "out"
    with atomic_file(path) as file:
        file.write(b"all ")
        assert not path.exists()
        file.write(b"of it")
    assert path.read_bytes() == b"all of it"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt(), SystemExit(1)])
@pytest.mark.parametrize("before", [None, b"what was there"])
def test_failure_preserves_previous_file(tmp_path, failure, before):
    path = tmp_path / "out"
    if before is not None:
        path.write_bytes(before)

    def fail():
        with atomic_file(path) as file:
            file.write(b"half of it")
            raise failure

    with pytest.raises(type(failure)) as caught:
        fail()
    assert not isinstance(failure, OSError) or caught.value.filename == str(path)
    assert os.listdir(tmp_path) == ([] if before is None else ["out"])
    assert before is None or path.read_bytes() == before


def test_permissions_are_the_default_and_links_are_followed(tmp_path):
    (tmp_path / "usual").write_bytes(b"")
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with atomic_file(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE((tmp_path / "usual").stat().st_mode)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipe_is_written_and_remains(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as reader:
        read = reader.submit(pipe.read_bytes)
        with atomic_file(pipe) as file:
            file.write(b"hello")
        assert read.result() == b"hello"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


WRITE_TO_STDOUT = """
from diprime._util.files import atomic_file
with atomic_file('/dev/stdout') as file:
    file.write(b'hello')
"""


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="needs a name for standard output")
def test_standard_output_is_writable_by_name():
    assert (
        subprocess.run([sys.executable, "-c", WRITE_TO_STDOUT], stdout=subprocess.PIPE, check=True).stdout == b"hello"
    )


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="needs a name for standard output")
def test_redirected_output_is_appended_to_file(tmp_path):
    (tmp_path / "all").write_bytes(b"before, ")
    with (tmp_path / "all").open("ab") as file:
        subprocess.run([sys.executable, "-c", WRITE_TO_STDOUT], stdout=file, check=True)
    assert (tmp_path / "all").read_bytes() == b"before, hello"


def test_missing_directory_raises_file_not_found(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere/out'"), atomic_file(tmp_path / "nowhere" / "out") as file:
        file.write(b"something")


def test_file_is_created_once(tmp_path):
    path = str(tmp_path / "log")
    create_file(path, b"first\n")
    with pytest.raises(FileExistsError):
        create_file(path, b"other\n")
    with locked_file(path, append=True) as file:
        append_line(file, b"second\n")
        assert read_all(file, 100) == b"first\nsecond\n"


def test_append_lock_is_exclusive(tmp_path):
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


def test_lock_timeout_names_file(tmp_path, monkeypatch):
    path = str(tmp_path / "log")
    create_file(path, b"")
    monkeypatch.setattr(diprime._util.files, "MAX_SECONDS", 0.05)
    with locked_file(path, append=True):
        for append in (False, True):
            with pytest.raises(TimeoutError, match=r"locked .*lsof") as caught:
                locked_file(path, append=append).__enter__()
            assert caught.value.filename == path
    with locked_file(path, append=True):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no lock that readers share")
def test_readers_share_lock(tmp_path):
    path = str(tmp_path / "log")
    create_file(path, b"text")
    with locked_file(path, append=False) as one, locked_file(path, append=False) as two:
        assert read_all(one, 10) == read_all(two, 10) == b"text"


def test_partial_line_is_removed(tmp_path, monkeypatch):
    path = str(tmp_path / "log")
    create_file(path, b"first\n")
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, line: write(file, line[:3]))
    with locked_file(path, append=True) as file, pytest.raises(OSError, match="completely"):
        append_line(file, b"second\n")
    monkeypatch.undo()
    with locked_file(path, append=False) as file:
        assert read_all(file, 100) == b"first\n"


def test_unwritable_new_file_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "write", lambda file, line: 1)
    with pytest.raises(OSError, match="completely"):
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
        spec = importlib.util.spec_from_file_location("locked_file_of_windows", diprime._util.files.__file__)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return SimpleNamespace(module=module, locks=locks)


@pytest.mark.parametrize("append", [False, True])
def test_windows_locks_and_releases_byte_beyond_file(windows, tmp_path, append):
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


def test_windows_releases_lock_after_error(windows, tmp_path):
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
