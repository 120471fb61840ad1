"""Functions of cluster workers: no text quotes rows, and a rebuilt bundle catches up."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

from diprime._util import InputError
from diprime.domain import Categorical, Domain, Numeric
from diprime.domain.records import EncodedBatches, PersonDigests, Records
from diprime.execution import remote
from diprime.execution.partition import Partition, SampledRecords, total_weight
from diprime.execution.remote import (
    Opaque,
    PartitionBundle,
    StaleState,
    TaskFailure,
    WorkItem,
    redact_errors,
    unwrap,
)

DOMAIN = Domain({"a": Numeric(0, 10), "b": Categorical(["x", "y"])}, Categorical(["no", "yes"]))
SECRET = "Jane Doe, 271828"


class Number:
    """A state that updates overwrite."""

    def __init__(self, value):
        self.value = np.array([value])

    def copy(self):
        return Number(self.value[0])


class Begin:
    def __call__(self, state, threads):
        return Number(state.value[0])


class Append:
    """The update that appends a digit, which shows the order and the number of updates."""

    def __init__(self, digit):
        self.digit = digit

    def __call__(self, state, threads):
        state.value *= 10
        state.value += self.digit
        return state


def see(state, threads):
    return state.value.copy()


def updates(*digits):
    return [[Begin(), Begin()], *([Append(digit), Append(digit)] for digit in digits)]


def item(n_before, updates, run="run"):
    return WorkItem(run, n_before, updates, see)


def bundle():
    return PartitionBundle([Number(1), Number(2)])


def test_opaque_values_have_the_same_text():
    assert repr(Opaque(SECRET)) == str(Opaque(SECRET)) == f"{Opaque(0)}" == "<opaque>"


def encoded(records, domain=DOMAIN, *, digests=None, mark_outside=False, number=0):
    return remote.encode_rows(*map(Opaque, (records, domain, digests, mark_outside, number)))


def test_failure_names_the_error_type_without_its_text():
    @redact_errors
    def count_people(rows):
        raise KeyError(rows)

    failure = count_people(Opaque(SECRET))
    assert isinstance(failure, TaskFailure)
    assert "count people (KeyError)" in failure.sentence
    assert SECRET not in repr(failure)
    with pytest.raises(RuntimeError, match="KeyError"):
        unwrap(failure)


def test_invalid_input_error_keeps_its_text():
    @redact_errors
    def look():
        raise InputError("X lacks column 'a'.")

    with pytest.raises(ValueError, match="lacks column 'a'"):
        unwrap(look())


def test_failures_and_stale_states_are_passed_on():
    failure, one = TaskFailure("It failed.", of_input=False), Opaque(np.ones(2))
    assert remote.add_sums(one, failure, StaleState(3)) is failure
    assert remote.add_sums(StaleState(5), one, StaleState(3)) == StaleState(3)
    assert unwrap(StaleState(3)) == StaleState(3)


def test_sums_are_added_without_changing_them():
    first = np.array([1, 2])
    assert unwrap(remote.add_sums(Opaque(first), Opaque(np.array([10, 20])))).tolist() == [11, 22]
    assert first.tolist() == [1, 2]


@pytest.mark.parametrize("mark_outside", [False, True])
@pytest.mark.parametrize("n", [0, 5])
def test_rows_are_encoded_as_in_memory(n, mark_outside):
    rows = [[1.0, "x"], [11.0, "z"], [None, "y"], [3.0, None], [4.5, "x"]][:n]
    X, y = np.array(rows, dtype=object).reshape(n, 2), ["no", "yes", "other", None, "yes"][:n]
    partition = unwrap(encoded(Records(X, y), mark_outside=mark_outside))
    codes = np.empty((n, 2), dtype=np.uint8)
    partition.rows.read(0, n, codes)
    assert (codes == DOMAIN.encode(X)).all()
    assert (partition.records.target == DOMAIN.encode_target(y, mark_outside=mark_outside)).all()
    with_digest = remote.add_digest(Opaque(partition), Opaque(b"key"))
    assert unwrap(remote.identify_rows(with_digest)) == (n, remote.digest_of(partition, b"key"))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros((2, 3)), ["no", "yes"], "partition 4 .*X has 3 features"),
        (np.zeros((2, 2), dtype=object), ["no"], "partition 4 .*inconsistent"),
    ],
)
def test_partition_of_another_shape_is_invalid_input(X, y, message):
    with pytest.raises(ValueError, match=message):
        unwrap(encoded(Records(X, y), number=4))


@pytest.mark.parametrize("work", [remote.tally_rows, remote.encode_rows])
def test_errors_of_other_packages_are_not_quoted(work):
    """Arrow's errors are derived from ValueError and quote values."""

    class Column(list):
        def __array__(self, *_, **__):
            raise self[0]

    def found(error):
        if work is remote.encode_rows:
            return encoded(Records(np.zeros((1, 2), dtype=object), Column([error])), number=4)
        return work(Opaque(iter([error])), Opaque(_raise), Opaque(None), Opaque(4))

    with pytest.raises(ValueError, match=r"partition 4 .*y has dtype"):
        unwrap(found(ValueError("y has dtype bytes.")))
    failure = found(pa.lib.ArrowInvalid(SECRET))
    assert "(ArrowInvalid)" in failure.sentence
    assert SECRET not in repr(failure)


def _raise(errors, drawn):
    raise next(errors)


def test_digest_of_rows_includes_digests_of_ids():
    digests = PersonDigests(b"key", DOMAIN.missing_texts)
    X, y = np.array([[1.0, "x"], [2.0, "y"]], dtype=object), ["no", "yes"]

    def of_persons(ids):
        return unwrap(encoded(Records(X, y, ids), digests=digests, number=3))

    one, other = (of_persons(ids) for ids in (["ann", "bob"], ["bob", "ann"]))
    assert one.records.persons.tolist() == other.records.persons[::-1].tolist()
    assert remote.digest_of(one, b"key") != remote.digest_of(other, b"key")
    with pytest.raises(ValueError, match=r"partition 3 .*\[2, 2, 1\]"):
        of_persons(["ann"])


def test_bundle_applies_updates_before_a_query():
    made = bundle()
    assert made.work(item(0, updates())).tolist() == [1 + 2]
    assert made.work(item(1, updates(7)[1:])).tolist() == [17 + 27]
    assert made.work(item(2, [])).tolist() == [17 + 27]
    assert made.work(item(2, updates(8, 9)[1:])).tolist() == [1789 + 2789]


def test_update_is_not_applied_twice():
    made = bundle()
    made.work(item(0, updates(7)))
    assert made.work(item(1, updates(7)[1:])).tolist() == [17 + 27]
    assert made.work(item(2, [])).tolist() == [17 + 27]


def test_rebuilt_bundle_is_stale_and_catches_up():
    made = bundle()
    assert made.work(item(3, updates(9)[1:])) == StaleState(0)
    assert made.work(item(3, [])) == StaleState(0)
    assert made.work(item(0, updates(7, 8, 9))).tolist() == [1789 + 2789]


def test_bundle_applies_only_missed_updates():
    made = bundle()
    made.work(item(0, updates(7)))
    assert made.work(item(4, updates(1)[1:])) == StaleState(2)
    assert made.work(item(2, updates(8, 9)[1:])).tolist() == [1789 + 2789]


def test_failed_update_discards_the_states():
    def fail(state, threads):
        state.value += 1
        raise ValueError(SECRET)

    made = bundle()
    made.work(item(0, updates(7)))
    result = remote.work_on_rows(Opaque(made), Opaque(item(2, [[fail, fail]])))
    assert isinstance(result, TaskFailure)
    assert SECRET not in result.sentence
    assert made.work(item(2, [])) == StaleState(0)
    assert made.work(item(0, updates(7))).tolist() == [17 + 27]


def test_pickled_bundle_includes_its_states():
    made = bundle()
    made.work(item(0, updates(7)))
    moved = pickle.loads(pickle.dumps(made))
    assert moved.work(item(2, [])).tolist() == [17 + 27]


def test_pickled_states_do_not_change_with_later_updates():
    """Pickled arrays may be sent later, when their worker applies the next update."""
    made, arrays = bundle(), []
    made.work(item(0, updates(7)))
    packed = pickle.dumps(made, protocol=5, buffer_callback=arrays.append)
    made.work(item(2, updates(8)[1:]))
    assert pickle.loads(packed, buffers=arrays).work(item(2, [])).tolist() == [17 + 27]


class TestDigests:
    @staticmethod
    def partition(codes, target, cut=2):
        batches = EncodedBatches(codes.shape[1], np.split(codes, [cut]))
        return Partition(batches, SampledRecords(np.array(target, dtype=np.int32)))

    @pytest.fixture
    def codes(self):
        return np.arange(10, dtype=np.uint8).reshape(5, 2)

    def test_equal_rows_have_equal_digests(self, codes, monkeypatch):
        one = self.partition(codes, range(5))
        digest = remote.digest_of(one, b"key")
        monkeypatch.setattr("diprime.execution.remote.BLOCK_ROWS", 2)
        assert remote.digest_of(self.partition(codes, range(5), cut=4), b"key") == digest

    def test_different_rows_have_different_digests(self, codes):
        digests = [
            remote.digest_of(self.partition(others, target), key)
            for others, target, key in [
                (codes, range(5), b"key"),
                (codes[::-1].copy(), range(5), b"key"),
                (codes, [0, 1, 2, 3, 5], b"key"),
                (codes[:4], range(4), b"key"),
                (codes[:0], [], b"key"),
                (codes, range(5), b"other"),
            ]
        ]
        assert len(set(digests)) == len(digests)

    def test_changed_rows_are_not_bundled(self, codes):
        key = Opaque(b"key")
        first, second, other = (
            remote.encode_with_digest(lambda part: part, key, Opaque(self.partition(codes, target)))
            for target in ([0] * 5, [1] * 5, [0, 0, 0, 0, 1])
        )
        digests = Opaque([unwrap(remote.identify_rows(part))[1] for part in (first, second)])
        bundled = remote.bundle_partitions(digests, first, second)
        assert unwrap(remote.work_on_rows(bundled, Opaque(WorkItem("run", 0, [], total_weight)))) == 10
        for parts in ([first, other], [second, first], [first]):
            result = remote.work_on_rows(remote.bundle_partitions(digests, *parts), Opaque(item(0, [])))
            with pytest.raises(RuntimeError, match=r"rows .*changed"):
                unwrap(result)

    def test_failed_encoding_is_passed_on(self):
        failure = TaskFailure("It failed.", of_input=False)
        assert remote.encode_with_digest(lambda: failure, Opaque(b"key")) is failure
