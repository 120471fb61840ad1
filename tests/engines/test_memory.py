"""Scratch files: nobody else sees them, and they are gone with the array, or with the process, however it ends."""

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from diprime.engines.memory import MAIN_MEMORY, Scratch

SCRIPT = """
import sys
from pathlib import Path
from diprime.engines.memory import Scratch
array = Scratch(Path(sys.argv[1])).empty((1 << 20,), "u1")
array[:] = 7
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("shape", [(0,), (3, 0), (5,), (3, 7), (1 << 13, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64])
def test_arrays_are_arrays_like_others(shape, dtype, tmp_path):
    for memory in (MAIN_MEMORY, Scratch(tmp_path)):
        array = memory.empty(shape, dtype)
        assert type(array) is np.ndarray
        assert (array.shape, array.dtype) == (shape, dtype)
        assert array.flags.c_contiguous
        array[...] = 3
        assert (array == 3).all()


def test_a_scratch_array_is_in_a_file_that_no_folder_lists(tmp_path):
    array = Scratch(tmp_path).empty((1 << 16,), np.uint8)
    array[:] = 1
    assert not list(tmp_path.iterdir())
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert isinstance(base, np.memmap)


def test_its_file_can_be_opened_by_nobody_else_even_while_it_has_a_name(tmp_path, monkeypatch):
    modes = []
    memmap = np.memmap

    def watched(file, **options):
        modes.append(stat.S_IMODE(os.fstat(file.fileno()).st_mode))
        return memmap(file, **options)

    monkeypatch.setattr(np, "memmap", watched)
    Scratch(tmp_path).empty((10,), np.uint8)
    assert modes == [0o600]


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="room is taken by writing")
def test_the_room_is_taken_before_anything_is_written(tmp_path, monkeypatch):
    taken = []
    take = os.posix_fallocate
    monkeypatch.setattr(os, "posix_fallocate", lambda *a: taken.append(a[1:]) or take(*a))
    Scratch(tmp_path).empty((1000, 3), np.uint64)
    assert taken == [(0, 24_000)]


def test_where_room_cannot_be_taken_zeros_are_written(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    monkeypatch.setattr("diprime.engines.memory._BLOCK_BYTES", 7)
    array = Scratch(tmp_path).empty((10,), np.uint64)
    assert array.tolist() == [0] * 10


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGINT"])
def test_nothing_is_left_however_the_process_ends(tmp_path, name):
    arguments = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(getattr(signal, name))
        process.wait(60)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "There is no room left in the scratch folder"),
        (errno.EACCES, "No file can be made in the scratch"),
    ],
)
def test_an_error_is_one_sentence_that_names_the_folder(tmp_path, number, message, monkeypatch):
    def refuse(*_, **__):
        raise OSError(number, "…")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(OSError, match=message) as error:
        Scratch(tmp_path).empty((10,), np.uint8)
    assert str(tmp_path) in str(error.value)
    assert error.value.errno == number
    with pytest.raises(ValueError, match=r"does not exist; make it, or choose another\.$"):
        Scratch(tmp_path / "none")
