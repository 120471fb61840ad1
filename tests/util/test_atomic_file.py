"""Files are written completely or not at all."""

import errno
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from diprime._util.atomic_file import atomic_file


def test_a_file_appears_only_when_it_is_complete(tmp_path):
    path = tmp_path / "out"
    with atomic_file(path) as file:
        file.write(b"all ")
        assert not path.exists()
        file.write(b"of it")
    assert path.read_bytes() == b"all of it"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt(), SystemExit(1)])
@pytest.mark.parametrize("before", [None, b"what was there"])
def test_a_failure_leaves_the_previous_file(tmp_path, failure, before):
    path = tmp_path / "out"
    if before is not None:
        path.write_bytes(before)

    def fail():
        with atomic_file(path) as file:
            file.write(b"half of it")
            raise failure

    with pytest.raises(type(failure)):
        fail()
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
def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
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
from diprime._util.atomic_file import atomic_file
with atomic_file('/dev/stdout') as file:
    file.write(b'hello')
"""


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="needs a name for standard output")
def test_standard_output_can_be_named_as_a_file():
    assert (
        subprocess.run([sys.executable, "-c", WRITE_TO_STDOUT], stdout=subprocess.PIPE, check=True).stdout == b"hello"
    )


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="needs a name for standard output")
def test_a_file_behind_standard_output_is_appended_to(tmp_path):
    (tmp_path / "all").write_bytes(b"before, ")
    with (tmp_path / "all").open("ab") as file:
        subprocess.run([sys.executable, "-c", WRITE_TO_STDOUT], stdout=file, check=True)
    assert (tmp_path / "all").read_bytes() == b"before, hello"


def test_the_error_of_a_full_disk_names_the_file(tmp_path):
    def fill():
        with atomic_file(tmp_path / "out") as file:
            file.write(b"half of it")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: .*out'"):
        fill()
    assert os.listdir(tmp_path) == []


def test_a_missing_folder_is_the_usual_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere/out'"), atomic_file(tmp_path / "nowhere" / "out") as file:
        file.write(b"something")
