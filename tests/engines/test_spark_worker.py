"""What Spark's Python workers run: pieces of encoded rows, states that are kept or made anew, and other rows."""

import os
import pickle
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyspark", reason="diprime[spark] is not installed")

from diprime.domain import Categorical, Domain, Numeric
from diprime.engines import spark_worker
from diprime.engines.partition import total_weight
from diprime.engines.remote import Behind, Failure, Sealed, Task, opened
from diprime.engines.spark_states import drop_all
from diprime.engines.spark_worker import Encoding, Order, encode_pieces, place

DOMAIN = Domain({"a": Numeric(0, 10), "b": Categorical(["x", "y"])}, Categorical(["no", "yes"]))
ENCODING = Encoding(DOMAIN, ["a", "y", "b"], "y", b"key")
SECRET = "Jane Doe, 271828"


@pytest.fixture(autouse=True)
def _task(monkeypatch):
    """Let the functions run as in a task of Spark, of partition 7, in a new process without others."""
    context = SimpleNamespace(partitionId=lambda: 7, cpus=lambda: 2)
    monkeypatch.setattr(spark_worker, "TaskContext", SimpleNamespace(get=lambda: context))
    monkeypatch.setattr(os, "getppid", os.getpid)
    yield
    drop_all()


def frame(n=10):
    rng = np.random.default_rng(n)
    b, y = rng.choice(["x", "y", "z"], n), rng.choice(["no", "yes"], n)
    return pd.DataFrame({"a": rng.uniform(-1, 11, n), "y": y, "b": b})


def pieces_of(table, size=3, encoding=ENCODING):
    """Return the pieces of a partition that arrives in batches, whose columns have numbers."""
    table = table.set_axis(list("012"), axis="columns")
    batches = [table[i : i + size] for i in range(0, len(table), size)]
    made = list(encode_pieces(iter(batches), encoding))
    assert all(len(one) == 1 and list(one) == ["piece"] for one in made)
    return [one.iloc[0].tolist() for one in made]


def unpacked(pieces):
    return [pickle.loads(packed) for (packed,) in pieces]


class Append:
    """The step that appends a digit to a number, so that the order of steps and their number tell."""

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


def order(digest, *digits, n_before=0, question=see):
    """Order the steps that append digits, or those of them that come after some."""
    steps = [[None, Append(digit)] for digit in digits]
    return Order("fit", Task("run", n_before, steps[n_before:], question), [b"", digest])


def begin(pieces):
    """Let the worker have the rows, as partition 1; return their digest."""
    n_rows, digest = opened(place(1, iter(pieces), "fit"))
    assert n_rows == sum(len(opened(piece).target) for piece in unpacked(pieces))
    return digest


def answer(digest, *digits, **others):
    """Let the partition answer without its rows."""
    return opened(spark_worker.answer(1, iter([]), order(digest, *digits, **others)))


def answer_from_rows(pieces, digest, *digits, **others):
    return opened(spark_worker.answer_from_rows(1, iter(pieces), order(digest, *digits, **others)))


class TestPieces:
    @pytest.mark.parametrize("piece_bytes", [1, 9, 1 << 25])
    def test_they_are_the_codes_of_the_rows_in_order(self, monkeypatch, piece_bytes):
        monkeypatch.setattr(spark_worker, "PIECE_BYTES", piece_bytes)
        table = frame()
        pieces = [opened(piece) for piece in unpacked(pieces_of(table))]
        assert [len(piece.target) for piece in pieces] == {1: [3, 3, 3, 1, 0], 9: [6, 4]}.get(piece_bytes, [10])
        assert (np.concatenate([piece.codes for piece in pieces]) == DOMAIN.encode(table[["a", "b"]])).all()
        assert (np.concatenate([piece.target for piece in pieces]) == DOMAIN.encode_target(table["y"])).all()

    def test_a_partition_without_rows_has_one(self):
        assert [opened(piece).codes.shape for piece in unpacked(pieces_of(frame(0)))] == [(0, 2)]
        assert opened(place(1, pieces_of(frame(0)), "fit"))[0] == 0

    def test_a_mistake_is_told_with_the_number_of_the_partition(self):
        failure = place(1, pieces_of(frame(), encoding=replace(ENCODING, columns=["other", "y", "b"])), "fit")
        with pytest.raises(ValueError, match="In partition 7 of the data: X lacks column 'a'"):
            opened(failure)

    def test_digests_are_those_of_the_rows_and_of_the_fit(self):
        digest = begin(pieces_of(frame()))
        assert begin(pieces_of(frame(), 5)) == digest
        assert begin(pieces_of(frame()[::-1])) != digest
        assert begin(pieces_of(frame().assign(y="no"))) != digest
        assert begin(pieces_of(frame(), encoding=replace(ENCODING, key=b"other"))) != digest

    def test_the_digests_of_all_pieces_count(self, monkeypatch):
        monkeypatch.setattr(spark_worker, "PIECE_BYTES", 1)
        pieces = pieces_of(frame())
        digest = begin(pieces)
        others = [begin(pieces[:i] + pieces_of(frame(3))[:1] + pieces[i + 1 :]) for i in range(len(pieces))]
        assert digest not in [*others, begin(pieces[::-1]), begin(pieces[:-1])]

    def test_their_text_does_not_tell_them(self):
        assert repr(unpacked(pieces_of(frame()))) == "[<sealed>]"


class TestAnswers:
    def test_a_step_is_taken_once(self):
        digest = begin(pieces_of(frame()))
        Append.taken = 0
        assert answer(digest, 1) == 101
        assert answer(digest, 1, 2, n_before=1) == 1012
        assert answer(digest, 1, 2, n_before=2) == 1012
        assert Append.taken == 2

    def test_without_a_state_a_partition_is_behind(self):
        assert answer(b"", 1) == Behind(0)

    def test_a_state_of_other_rows_is_none(self):
        """Spark has placed rows twice, and taken the answer of the other task."""
        digest, other = begin(pieces_of(frame())), begin(pieces_of(frame()[1:]))
        assert answer(digest, 1) == Behind(0)
        assert answer(other, 1) == 91

    def test_a_state_that_lacks_steps_is_behind(self):
        digest = begin(pieces_of(frame()))
        answer(digest, 1)
        assert answer(digest, 1, 2, 3, n_before=2) == Behind(1)

    def test_that_there_are_no_rows_is_read(self):
        """Spark would end the worker."""
        for do in (partial(spark_worker.answer, 1, order=order(b"")), partial(spark_worker.forget, fit="fit")):
            nothing = iter([None])
            do(nothing)
            assert next(nothing, "the end") == "the end"

    def test_a_process_that_has_no_state_takes_all_steps(self):
        pieces = pieces_of(frame())
        digest = begin(pieces)
        answer(digest, 1, 2)
        spark_worker.forget([], "fit")
        assert answer(digest, 1, 2) == Behind(0)
        Append.taken = 0
        assert answer_from_rows(pieces, digest, 1, 2, 3) == 10123
        assert answer(digest, 1, 2, 3, 4, n_before=3) == 101234
        assert Append.taken == 4

    def test_a_process_that_has_a_state_takes_the_steps_that_it_lacks(self):
        pieces = pieces_of(frame())
        digest = begin(pieces)
        answer(digest, 1)
        Append.taken = 0
        assert answer_from_rows(pieces, digest, 1, 2) == 1012
        assert Append.taken == 1

    def test_a_task_that_is_done_again_gives_the_same_answer(self):
        digest = begin(pieces_of(frame()))
        assert answer(digest, 1, 2) == answer(digest, 1, 2) == 1012
        assert answer(digest, 1) == 101

    def test_all_pieces_are_read_though_the_state_is_there(self, monkeypatch):
        monkeypatch.setattr(spark_worker, "PIECE_BYTES", 1)
        pieces = pieces_of(frame())
        read = iter(pieces)
        spark_worker.answer_from_rows(1, read, order(begin(pieces), 1))
        assert next(read, None) is None

    def test_the_rows_of_all_pieces_count(self, monkeypatch):
        monkeypatch.setattr(spark_worker, "PIECE_BYTES", 1)
        digest = begin(pieces_of(frame()))
        assert answer(digest, question=total_weight) == 10

    def test_a_task_has_as_many_threads_as_processors(self):
        seen = []

        def look(state, threads):
            seen.append(threads.n)
            return np.zeros(1)

        digest = begin(pieces_of(frame()))
        answer(digest, question=look)
        assert seen == [2]


class TestOtherRows:
    @pytest.mark.parametrize("has_state", [True, False])
    @pytest.mark.parametrize("other", [lambda t: t[::-1], lambda t: t[1:], lambda t: t.assign(y="yes")])
    def test_they_are_refused(self, has_state, other):
        digest = begin(pieces_of(frame()))
        if not has_state:
            drop_all()
        outcome = spark_worker.answer_from_rows(1, pieces_of(other(frame())), order(digest, 1))
        with pytest.raises(RuntimeError, match="its rows are not those of the first time, so there is no model"):
            opened(outcome)

    def test_they_are_not_kept(self):
        digest = begin(pieces_of(frame()))
        drop_all()
        spark_worker.answer_from_rows(1, pieces_of(frame()[1:]), order(digest, 1))
        assert answer(digest, 1) == Behind(0)

    def test_what_could_not_be_encoded_again_is_handed_on(self):
        digest, failure = begin(pieces_of(frame())), Failure("It failed.", of_input=False)
        assert spark_worker.answer_from_rows(1, [[pickle.dumps(failure)]], order(digest, 1)) == failure

    def test_an_error_is_not_quoted(self):
        def fail(state, threads):
            raise LookupError(SECRET)

        digest = begin(pieces_of(frame()))
        outcome = spark_worker.answer(1, [], order(digest, question=fail))
        assert isinstance(outcome, Failure)
        assert "(LookupError)" in outcome.sentence
        assert SECRET not in repr(outcome)


def test_an_order_can_be_sent():
    digest = begin(pieces_of(frame()))
    sent = pickle.loads(pickle.dumps(Sealed(order(digest, 1))))
    assert opened(spark_worker.answer(1, [], sent.content)) == 101
