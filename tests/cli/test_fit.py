"""Fits to several files, and to large ones, which are encoded on a disk."""

import errno
import os
import re

import numpy as np
import pytest

from diprime.cli import fit
from diprime.cli.fit import are_large, usual_scratch
from diprime.execution import partition
from tests.cli.running import ok, refused


def test_fit_takes_a_pattern_and_a_scratch_folder(folder, parts, tmp_path, monkeypatch):
    made = []
    empty = partition.ScratchStorage.empty
    monkeypatch.setattr(partition.ScratchStorage, "empty", lambda self, *a: made.append(self.folder) or empty(self, *a))
    output, before = tmp_path / "model.diprime", sorted(parts.iterdir())
    arguments = ("fit", f"{parts}/*.parquet", "-d", folder / "domain.toml", "-e", 1, "-o", output)
    ok(*arguments)
    assert not made
    ok(*arguments, "--scratch", parts, "--force")
    assert set(made) == {parts}
    assert sorted(parts.iterdir()) == sorted([*before, output])


def test_large_files_use_the_usual_scratch_folder(folder, parts, tmp_path, monkeypatch):
    path = parts / "people2.parquet"
    monkeypatch.setattr(fit, "_memory", lambda: 16 * path.stat().st_size)
    assert not are_large([path])
    monkeypatch.setattr(fit, "_memory", lambda: 16 * path.stat().st_size - 1)
    assert are_large([path])
    made = []
    empty = partition.ScratchStorage.empty
    monkeypatch.setattr(partition.ScratchStorage, "empty", lambda self, *a: made.append(self.folder) or empty(self, *a))
    arguments = ("fit", path, "-d", folder / "domain.toml", "-e", 1, "-o", tmp_path / "model.diprime")
    for more in ((), ("--person", "name", "--max-records-per-person", 3)):
        made.clear()
        ok(*arguments, *more, "--force")
        assert set(made) == {usual_scratch()}


@pytest.mark.parametrize("n_before", [0, 1, 2, 5])
def test_full_disk_is_reported_in_one_sentence_and_leaves_no_files(folder, parts, n_before, monkeypatch):
    """Whichever file finds no room: codes and targets while data are read, or records before anything is released."""
    monkeypatch.setattr(partition, "PARTITION_ROWS", 1500)
    taken = []

    def take(file, offset, n_bytes):
        taken.append(n_bytes)
        if len(taken) > n_before:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", take, raising=False)
    monkeypatch.setattr(np, "memmap", lambda file, dtype, mode, shape: np.zeros(shape, dtype))
    before, output = sorted(parts.iterdir()), parts / "m.diprime"
    arguments = ("fit", f"{parts}/*.csv", "-d", folder / "domain.toml", "-e", 1, "-o", output, "--scratch", parts)
    refused(*arguments, match=rf"No space .*scratch directory {re.escape(str(parts))}; .*two bytes")
    assert sorted(parts.iterdir()) == before
