"""What Spark's Python workers run: blocks of encoded rows, states that are kept or made anew, and other rows."""

import os
import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="diprime[spark] is not installed")

from diprime.domain import Categorical, Domain, Numeric
from diprime.domain.records import DrawnPart
from diprime.execution.remote import StaleState, TaskFailure, WorkItem, unwrap
from diprime.sources.spark import workers as spark_workers
from diprime.sources.spark.workers import (
    Columns,
    EncodingJob,
    PartitionJob,
    TallyJob,
    clear_all,
    encode_blocks,
    place,
    tally_batches,
)

DOMAIN = Domain({"a": Numeric(0, 10), "b": Categorical(["x", "y"])}, Categorical(["no", "yes"]))
ENCODING = EncodingJob(DOMAIN, Columns(["a", "y", "b"], "y", None), None, False, b"key")
SECRET = "Jane Doe, 271828"


@pytest.fixture(autouse=True)
def _task(monkeypatch):
    """Let the functions run as in a task of Spark, of partition 7, in a new process without others."""
    context = SimpleNamespace(partitionId=lambda: 7, cpus=lambda: 2)
    monkeypatch.setattr(spark_workers, "TaskContext", SimpleNamespace(get=lambda: context))
    monkeypatch.setattr(os, "getppid", os.getpid)
    yield
    clear_all()


def frame(n=10):
    rng = np.random.default_rng(n)
    b, y = rng.choice(["x", "y", "z"], n), rng.choice(["no", "yes"], n)
    return pd.DataFrame({"a": rng.uniform(-1, 11, n), "y": y, "b": b})


def blocks_of(table, size=3, encoding=ENCODING):
    """Return the blocks of a partition that arrives in batches, whose columns have numbers."""
    rows = pa.Table.from_pandas(table.set_axis(list("012"), axis="columns"), preserve_index=False)
    made = list(encode_blocks(iter(rows.to_batches(size)), encoding))
    assert all(one.num_rows == 1 and one.schema.names == ["block"] for one in made)
    return [one["block"].to_pylist() for one in made]


def unpacked(blocks):
    return [pickle.loads(packed) for (packed,) in blocks]


class Append:
    """The update that appends a digit to a number, which shows the order and the number of updates."""

    taken = 0

    def __init__(self, digit):
        self.digit = digit

    def __call__(self, state, threads):
        Append.taken += 1
        before = state.value if isinstance(state, Number) else state.rows.n_rows
        return Number(before * 10 + self.digit)


class Number:
    def __init__(self, value):
        self.value = value


def see(state, threads):
    return np.array([state.value])


def job(digest, *digits, n_before=0, query=see):
    """Return a query after the updates that append digits, of which workers should have had some."""
    updates = [[None, Append(digit)] for digit in digits]
    return PartitionJob("fit", WorkItem("run", n_before, updates[n_before:], query), [b"", digest])


def begin(blocks):
    """Let the worker have the rows, as partition 1; return their digest."""
    n_rows, digest = unwrap(place(1, iter(blocks), "fit"))
    assert n_rows == sum(len(unwrap(block).records.target) for block in unpacked(blocks))
    return digest


def answer(digest, *digits, **others):
    """Let the partition answer without its rows."""
    return unwrap(spark_workers.answer(1, iter([]), job(digest, *digits, **others)))


def answer_from_rows(blocks, digest, *digits, **others):
    return unwrap(spark_workers.answer_from_rows(1, iter(blocks), job(digest, *digits, **others)))


class TestTallies:
    """The rows of a partition are counted where they are, and of persons those that are drawn."""

    @staticmethod
    def tallied(tally, drawn=None):
        rows = pa.Table.from_pandas(frame().set_axis(list("012"), axis="columns"), preserve_index=False)
        tally_job = TallyJob(Columns(["a", "y", "b"], "y", "b"), tally, drawn)
        (found,) = tally_batches(iter(rows.to_batches(4)), tally_job)
        return pickle.loads(found["block"][0].as_py())

    def test_records_have_the_columns_of_their_roles(self):
        records = unwrap(
            self.tallied(lambda batches, drawn: [(r.X.column_names, len(r.y), len(r.groups)) for r in batches])
        )
        assert records == [(["a"], n, n) for n in (4, 4, 2)]

    @pytest.mark.parametrize("n_parts", [8, 7])
    def test_each_part_gets_its_drawn_records_or_none(self, n_parts):
        """It is partition 7, of which there may be fewer when records are drawn."""
        drawn = [DrawnPart(bytes([number]), np.full(1, number, dtype=np.uint8)) for number in range(n_parts)]
        found = unwrap(self.tallied(lambda batches, drawn: drawn, drawn))
        assert (found.mark, found.used.tolist()) == ((b"\x07", [7]) if n_parts == 8 else (b"", []))

    def test_failed_tally_is_not_quoted(self):
        def fail(batches, drawn):
            raise LookupError(SECRET)

        failure = self.tallied(fail)
        assert "tally rows (LookupError)" in failure.sentence
        assert SECRET not in repr(failure)


class TestBlocks:
    @pytest.mark.parametrize("block_bytes", [1, 9, 1 << 25])
    def test_they_are_the_codes_of_the_rows_in_order(self, monkeypatch, block_bytes):
        monkeypatch.setattr(spark_workers, "BLOCK_BYTES", block_bytes)
        table = frame()
        blocks = [unwrap(block) for block in unpacked(blocks_of(table))]
        assert [len(block.records.target) for block in blocks] == {1: [3, 3, 3, 1, 0], 9: [6, 4]}.get(block_bytes, [10])
        assert (np.concatenate([block.codes for block in blocks]) == DOMAIN.encode(table[["a", "b"]])).all()
        assert (np.concatenate([block.records.target for block in blocks]) == DOMAIN.encode_target(table["y"])).all()

    def test_invalid_input_error_names_the_partition(self):
        failure = place(
            1, blocks_of(frame(), encoding=replace(ENCODING, columns=Columns(["other", "y", "b"], "y", None))), "fit"
        )
        with pytest.raises(ValueError, match=r"partition 7 .*X lacks column 'a'"):
            unwrap(failure)

    def test_digests_are_those_of_the_rows_and_of_the_fit(self):
        digest = begin(blocks_of(frame()))
        assert begin(blocks_of(frame(), 5)) == digest
        assert begin(blocks_of(frame()[::-1])) != digest
        assert begin(blocks_of(frame().assign(y="no"))) != digest
        assert begin(blocks_of(frame(), encoding=replace(ENCODING, key=b"other"))) != digest

    def test_digest_covers_all_blocks(self, monkeypatch):
        monkeypatch.setattr(spark_workers, "BLOCK_BYTES", 1)
        blocks = blocks_of(frame())
        digest = begin(blocks)
        others = [begin(blocks[:i] + blocks_of(frame(3))[:1] + blocks[i + 1 :]) for i in range(len(blocks))]
        assert digest not in [*others, begin(blocks[::-1]), begin(blocks[:-1])]

    def test_their_text_does_not_tell_them(self):
        assert repr(unpacked(blocks_of(frame()))) == "[<opaque>]"


class TestAnswers:
    def test_update_is_applied_once(self):
        digest = begin(blocks_of(frame()))
        Append.taken = 0
        assert answer(digest, 1) == 101
        assert answer(digest, 1, 2, n_before=1) == 1012
        assert answer(digest, 1, 2, n_before=2) == 1012
        assert Append.taken == 2

    def test_state_of_other_rows_is_not_used(self):
        """Spark has placed rows twice, and taken the answer of the other task."""
        digest, other = begin(blocks_of(frame())), begin(blocks_of(frame()[1:]))
        assert answer(digest, 1) == StaleState(0)
        assert answer(other, 1) == 91

    def test_state_without_some_updates_is_stale(self):
        digest = begin(blocks_of(frame()))
        answer(digest, 1)
        assert answer(digest, 1, 2, 3, n_before=2) == StaleState(1)

    def test_process_without_a_state_applies_all_updates(self):
        blocks = blocks_of(frame())
        digest = begin(blocks)
        answer(digest, 1, 2)
        spark_workers.forget([], "fit")
        assert answer(digest, 1, 2) == StaleState(0)
        Append.taken = 0
        assert answer_from_rows(blocks, digest, 1, 2, 3) == 10123
        assert answer(digest, 1, 2, 3, 4, n_before=3) == 101234
        assert Append.taken == 4

    def test_process_with_a_state_applies_missed_updates(self):
        blocks = blocks_of(frame())
        digest = begin(blocks)
        answer(digest, 1)
        Append.taken = 0
        assert answer_from_rows(blocks, digest, 1, 2) == 1012
        assert Append.taken == 1

    def test_all_blocks_are_read_even_if_there_is_a_state(self, monkeypatch):
        monkeypatch.setattr(spark_workers, "BLOCK_BYTES", 1)
        blocks = blocks_of(frame())
        read = iter(blocks)
        spark_workers.answer_from_rows(1, read, job(begin(blocks), 1))
        assert next(read, None) is None

    def test_task_has_one_thread_per_processor(self):
        seen = []

        def look(state, threads):
            seen.append(threads.n)
            return np.zeros(1)

        digest = begin(blocks_of(frame()))
        answer(digest, query=look)
        assert seen == [2]


class TestChangedRows:
    @pytest.mark.parametrize("has_state", [True, False])
    @pytest.mark.parametrize("other", [lambda t: t[::-1], lambda t: t[1:], lambda t: t.assign(y="yes")])
    def test_they_are_refused(self, has_state, other):
        digest = begin(blocks_of(frame()))
        if not has_state:
            clear_all()
        result = spark_workers.answer_from_rows(1, blocks_of(other(frame())), job(digest, 1))
        with pytest.raises(RuntimeError, match=r"rows .*changed"):
            unwrap(result)

    def test_they_build_no_state(self):
        digest = begin(blocks_of(frame()))
        clear_all()
        spark_workers.answer_from_rows(1, blocks_of(frame()[1:]), job(digest, 1))
        assert answer(digest, 1) == StaleState(0)

    def test_failed_encoding_is_passed_on(self):
        digest, failure = begin(blocks_of(frame())), TaskFailure("It failed.", of_input=False)
        assert spark_workers.answer_from_rows(1, [[pickle.dumps(failure)]], job(digest, 1)) == failure

    def test_errors_are_not_quoted(self):
        def fail(state, threads):
            raise LookupError(SECRET)

        digest = begin(blocks_of(frame()))
        result = spark_workers.answer(1, [], job(digest, query=fail))
        assert isinstance(result, TaskFailure)
        assert "(LookupError)" in result.sentence
        assert SECRET not in repr(result)
