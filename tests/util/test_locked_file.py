"""A locked file is one process's or one thread's at a time, and a line is on the disk or not there."""

import os
import threading

import pytest

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
