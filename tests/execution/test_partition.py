"""Partitions: batches become rows in the same order, in memory or in scratch files, which are private and disappear."""

import errno
import os
import signal
import stat
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from diprime import Categorical, DiPriMeClassifier, Domain, Numeric, sources
from diprime._util.resources import Threads
from diprime.domain.records import numbers_of
from diprime.execution import partition
from diprime.execution.partition import IN_MEMORY, ScratchStorage, encode_batches, total_weight
from tests.encoded_rows import joined

DOMAIN = Domain({"a": Numeric(0, 10), "b": Categorical(["x", "y"])}, target=Categorical([0, 1]))


def made_batches(sizes):
    """Return batches of so many rows, some of which have no valid target."""
    rng = np.random.default_rng(0)
    for n in sizes:
        X = np.empty((n, 2), dtype=object)
        X[:, 0], X[:, 1] = rng.random(n) * 10, rng.choice(["x", "y", "z"], n)
        yield X, rng.integers(0, 3, n)


@pytest.mark.parametrize("sizes", [[], [0], [5], [3, 0, 4], [10], [7, 13, 1], [25]], ids=str)
def test_scratch_partitions_have_all_rows_in_order(sizes, tmp_path, monkeypatch):
    monkeypatch.setattr(partition, "PARTITION_ROWS", 5)
    in_memory = encode_batches(made_batches(sizes), DOMAIN, 1)
    written = encode_batches(made_batches(sizes), DOMAIN, 1, scratch=ScratchStorage(tmp_path))
    n = sum(sizes)
    executor = written.executor(Threads(1))
    assert list(executor.sizes) == ([5] * (n // 5) + [n % 5] * (n % 5 > 0) or [0])
    assert executor.sum(total_weight) == n
    for one, other in zip(joined(executor), joined(in_memory.executor(Threads(1))), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    assert not written.of_persons
    assert not list(tmp_path.iterdir())
    assert in_memory.whole().memory is IN_MEMORY


def test_groups_of_all_batches_have_common_digests(tmp_path, monkeypatch):
    monkeypatch.setattr(partition, "PARTITION_ROWS", 4)
    of_persons = [(*batch, np.arange(len(batch[1]))) for batch in made_batches([3, 2])]
    for partitions in (
        encode_batches(of_persons, DOMAIN, 1),
        encode_batches(of_persons, DOMAIN, 1, scratch=ScratchStorage(tmp_path)),
    ):
        assert partitions.of_persons
        persons = np.concatenate([part.records.persons for part in partitions.parts])
        assert numbers_of(persons)[0].tolist() == [0, 1, 2, 0, 1]
    assert encode_batches([], DOMAIN, 1, of_persons=True).of_persons
    assert encode_batches([], DOMAIN, 1, scratch=ScratchStorage(tmp_path), of_persons=True).of_persons


@pytest.mark.parametrize("is_open", [True, False])
def test_missing_groups_are_refused_with_and_without_scratch(is_open, tmp_path):
    domain = Domain({"a": Numeric() if is_open else Numeric(0, 10), "b": Categorical(["x", "y"])}, DOMAIN.target)
    model = DiPriMeClassifier(1.0, domain, max_records_per_group=3)
    without = list(made_batches([3, 2]))
    of_persons = [(*batch, np.arange(len(batch[1]))) for batch in without]
    for scratch in (None, tmp_path):
        with pytest.raises(ValueError, match="max_records_per_group=3 requires groups"):
            model.fit(sources.batches(without, scratch=scratch))
    if not is_open:
        assert model.fit(sources.batches(of_persons, scratch=tmp_path)).privacy_.max_records_per_group == 3


SCRIPT = """
import sys
from pathlib import Path
from diprime.execution.partition import ScratchStorage
array = ScratchStorage(Path(sys.argv[1])).empty((1 << 20,), "u1")
array[:] = 7
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("shape", [(0,), (3, 0), (5,), (3, 7), (1 << 13, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64])
def test_arrays_of_all_storages_are_ordinary(shape, dtype, tmp_path):
    for memory in (IN_MEMORY, ScratchStorage(tmp_path)):
        array = memory.empty(shape, dtype)
        assert type(array) is np.ndarray
        assert (array.shape, array.dtype) == (shape, dtype)
        assert array.flags.c_contiguous
        array[...] = 3
        assert (array == 3).all()


def test_scratch_array_is_in_an_unlisted_file(tmp_path):
    array = ScratchStorage(tmp_path).empty((1 << 16,), np.uint8)
    array[:] = 1
    assert not list(tmp_path.iterdir())
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert isinstance(base, np.memmap)


def test_scratch_file_has_private_permissions(tmp_path, monkeypatch):
    modes = []
    memmap = np.memmap

    def watched(file, **options):
        modes.append(stat.S_IMODE(os.fstat(file.fileno()).st_mode))
        return memmap(file, **options)

    monkeypatch.setattr(np, "memmap", watched)
    ScratchStorage(tmp_path).empty((10,), np.uint8)
    assert modes == [0o600]


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="room is taken by writing")
def test_disk_space_is_allocated_before_writing(tmp_path, monkeypatch):
    taken = []
    take = os.posix_fallocate
    monkeypatch.setattr(os, "posix_fallocate", lambda *a: taken.append(a[1:]) or take(*a))
    ScratchStorage(tmp_path).empty((1000, 3), np.uint64)
    assert taken == [(0, 24_000)]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_no_file_is_left_after_the_process_ends(tmp_path, name):
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
        (errno.ENOSPC, "No space .*scratch"),
        (errno.EACCES, "create .*scratch"),
    ],
)
def test_error_names_the_directory(tmp_path, number, message, monkeypatch):
    def refuse(*_, **__):
        raise OSError(number, "…")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(OSError, match=message) as error:
        ScratchStorage(tmp_path).empty((10,), np.uint8)
    assert str(tmp_path) in str(error.value)
    assert error.value.errno == number
    with pytest.raises(ValueError, match=r"none .*exist\."):
        ScratchStorage(tmp_path / "none")
