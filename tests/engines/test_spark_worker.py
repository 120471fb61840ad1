"""What Spark's Python workers run: pieces of encoded rows, states that are kept or made anew, and rows that changed."""

import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyspark", reason="diprime[spark] is not installed")

from diprime.domain import Categorical, Domain, Numeric
from diprime.engines import spark_worker
from diprime.engines.partition import total_weight
from diprime.engines.remote import Failure, Sealed, opened
from diprime.engines.spark_worker import Encoding, Order, encode_pieces, load_piece, measure

DOMAIN = Domain({"a": Numeric(0, 10), "b": Categorical(["x", "y"])}, Categorical(["no", "yes"]))
ENCODING = Encoding(DOMAIN, ["a", "y", "b"], "y", b"key")
SECRET = "Jane Doe, 271828"


@pytest.fixture(autouse=True)
def task(monkeypatch):
    """Let the functions run as in a task of Spark, of partition 7, in a new process."""
    context = SimpleNamespace(partitionId=lambda: 7, cpus=lambda: 2)
    monkeypatch.setattr(spark_worker, "TaskContext", SimpleNamespace(get=lambda: context))
    monkeypatch.setattr(spark_worker, "_kept", {})
    return context


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
    return [load_piece(one.iloc[0].tolist()) for one in made]


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


def order(pieces, *digits, run="run", question=see):
    digests = opened(measure(pieces))[1]
    return Order(run, [[], digests], [[None, Append(digit)] for digit in digits], question)


def answer(pieces, *digits, **others):
    return opened(spark_worker.answer(1, iter(pieces), order(pieces, *digits, **others)))


class TestPieces:
    @pytest.mark.parametrize("piece_bytes", [1, 9, 1 << 25])
    def test_they_are_the_codes_of_the_rows_in_order(self, monkeypatch, piece_bytes):
        monkeypatch.setattr(spark_worker, "PIECE_BYTES", piece_bytes)
        table = frame()
        pieces = [opened(piece) for piece in pieces_of(table)]
        assert [len(piece.target) for piece in pieces] == {1: [3, 3, 3, 1, 0], 9: [6, 4]}.get(piece_bytes, [10])
        assert (np.concatenate([piece.codes for piece in pieces]) == DOMAIN.encode(table[["a", "b"]])).all()
        assert (np.concatenate([piece.target for piece in pieces]) == DOMAIN.encode_target(table["y"])).all()

    def test_a_partition_without_rows_has_one(self):
        assert [opened(piece).codes.shape for piece in pieces_of(frame(0))] == [(0, 2)]
        assert opened(measure(pieces_of(frame(0))))[0] == 0

    def test_a_mistake_is_told_with_the_number_of_the_partition(self):
        failure = measure(pieces_of(frame(), encoding=replace(ENCODING, columns=["other", "y", "b"])))
        with pytest.raises(ValueError, match="In partition 7 of the data: X lacks column 'a'"):
            opened(failure)

    def test_digests_are_those_of_the_rows_and_of_the_fit(self):
        digests = opened(measure(pieces_of(frame())))[1]
        assert opened(measure(pieces_of(frame(), 5)))[1] == digests
        assert opened(measure(pieces_of(frame()[::-1])))[1] != digests
        assert opened(measure(pieces_of(frame().assign(y="no"))))[1] != digests
        assert opened(measure(pieces_of(frame(), encoding=replace(ENCODING, key=b"other"))))[1] != digests

    def test_their_text_does_not_tell_them(self):
        assert repr(pieces_of(frame())) == "[<sealed>]"


class TestAnswers:
    def test_a_step_is_taken_once_by_a_process_that_has_the_state(self):
        pieces = pieces_of(frame())
        Append.taken = 0
        assert answer(pieces, 1) == 101
        assert answer(pieces, 1, 2) == 1012
        assert answer(pieces, 1, 2) == 1012
        assert Append.taken == 2

    def test_a_process_that_has_no_state_takes_all_steps(self):
        pieces = pieces_of(frame())
        answer(pieces, 1, 2)
        spark_worker.forget([])
        assert spark_worker._kept == {}
        Append.taken = 0
        assert answer(pieces, 1, 2, 3) == 10123
        assert Append.taken == 3

    def test_a_task_that_is_done_again_gives_the_same_answer(self):
        pieces = pieces_of(frame())
        assert answer(pieces, 1, 2) == answer(pieces, 1, 2) == 1012
        assert answer(pieces, 1) == 101

    def test_states_of_another_run_are_dropped(self):
        pieces = pieces_of(frame())
        answer(pieces, 1)
        assert answer(pieces, 5, 6, run="other") == 1056
        assert list(spark_worker._kept) == ["other"]

    def test_all_pieces_are_read_though_the_state_is_there(self, monkeypatch):
        monkeypatch.setattr(spark_worker, "PIECE_BYTES", 1)
        pieces = pieces_of(frame())
        for _ in range(2):
            read = iter(pieces)
            spark_worker.answer(1, read, order(pieces, 1))
            assert next(read, None) is None

    def test_the_rows_of_all_pieces_count(self, monkeypatch):
        monkeypatch.setattr(spark_worker, "PIECE_BYTES", 1)
        assert answer(pieces_of(frame()), question=total_weight) == 10

    def test_a_task_has_as_many_threads_as_processors(self):
        seen = []

        def look(state, threads):
            seen.append(threads.n)
            return np.zeros(1)

        answer(pieces_of(frame()), question=look)
        assert seen == [2]


class TestOtherRows:
    @pytest.mark.parametrize("has_state", [True, False])
    @pytest.mark.parametrize("other", [lambda t: t[::-1], lambda t: t[1:], lambda t: t.assign(y="yes")])
    def test_they_are_refused(self, has_state, other):
        pieces = pieces_of(frame())
        if has_state:
            answer(pieces, 1)
        outcome = spark_worker.answer(1, pieces_of(other(frame())), order(pieces, 1))
        with pytest.raises(RuntimeError, match="its rows are not those of the first time, so there is no model"):
            opened(outcome)

    def test_what_could_not_be_encoded_again_is_handed_on(self):
        pieces, failure = pieces_of(frame()), Failure("It failed.", of_input=False)
        assert spark_worker.answer(1, [failure], order(pieces, 1)) is failure

    def test_an_error_is_not_quoted(self):
        def fail(state, threads):
            raise LookupError(SECRET)

        outcome = spark_worker.answer(1, pieces_of(frame()), order(pieces_of(frame()), question=fail))
        assert isinstance(outcome, Failure)
        assert "(LookupError)" in outcome.sentence
        assert SECRET not in repr(outcome)


def test_an_order_can_be_sent():
    sent = pickle.loads(pickle.dumps(Sealed(order(pieces_of(frame()), 1))))
    assert opened(spark_worker.answer(1, pieces_of(frame()), sent.content)) == 101
