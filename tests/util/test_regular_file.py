"""Regular files: all that is there is read, and nothing else is waited for."""

import os
import stat
from pathlib import Path

import pytest

from diprime._util.regular_file import read_regular


def read(path):
    return read_regular(path, 10, "word", ValueError)


def test_a_file_of_the_largest_size_is_read(tmp_path):
    (tmp_path / "word").write_bytes(b"0123456789")
    assert read(tmp_path / "word") == b"0123456789"
    (tmp_path / "word").write_bytes(b"")
    assert read(tmp_path / "word") == b""
    (tmp_path / "word").write_bytes(b"0123456789a")
    with pytest.raises(ValueError, match=r"^is larger than any word\.$"):
        read(tmp_path / "word")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_also_if_it_takes_the_place_of_a_file(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is not a file"):
        read(tmp_path / "pipe")
    regular = os.stat_result((stat.S_IFREG, *[0] * 9))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", lambda path: regular)
        with pytest.raises(ValueError, match="is not a file"):
            read(tmp_path / "pipe")


def test_a_file_that_grows_is_refused(tmp_path, monkeypatch):
    (tmp_path / "word").write_bytes(b"01234")
    before = (tmp_path / "word").stat()
    (tmp_path / "word").write_bytes(b"0123456")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", lambda descriptor: before)
        with pytest.raises(ValueError, match="was changed while it was read"):
            read(tmp_path / "word")
