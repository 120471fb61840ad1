"""What workers of a cluster run: no text tells about rows, and a bundle that was made anew catches up."""

import pickle
import sys

import numpy as np
import pytest

from diprime.domain import Categorical, Domain, Numeric
from diprime.engines import remote
from diprime.engines.remote import Behind, Bundle, Failure, MistakeError, Sealed, Task, guarded, opened

DOMAIN = Domain({"a": Numeric(0, 10), "b": Categorical(["x", "y"])}, Categorical(["no", "yes"]))
SECRET = "Jane Doe, 271828"


class Number:
    """A state that steps overwrite."""

    def __init__(self, value):
        self.value = np.array([value])

    def copy(self):
        return self


class Begin:
    def __call__(self, state, threads):
        return Number(state.value[0])


class Append:
    """The step that appends a digit, so that the order of steps and their number tell."""

    def __init__(self, digit):
        self.digit = digit

    def __call__(self, state, threads):
        state.value *= 10
        state.value += self.digit
        return state


def see(state, threads):
    return state.value.copy()


def steps(*digits):
    return [[Begin(), Begin()], *([Append(digit), Append(digit)] for digit in digits)]


def task(n_before, steps, run="run"):
    return Task(run, n_before, steps, see)


def bundle():
    return Bundle([Number(1), Number(2)])


def test_the_text_of_a_sealed_value_is_always_the_same():
    assert repr(Sealed(SECRET)) == str(Sealed(SECRET)) == f"{Sealed(0)}" == "<sealed>"


def test_a_sealed_value_is_as_large_as_its_arrays():
    codes = np.zeros((1000, 8), dtype=np.uint8)
    assert 8000 <= sys.getsizeof(Sealed([codes])) < 9000
    assert 16000 <= sys.getsizeof(Sealed(bundle_of_rows(1000, 12))) < 18000


def bundle_of_rows(n, n_features):
    domain = Domain({f"f{j}": Numeric(0, 1) for j in range(n_features)}, Categorical([0, 1]))
    arguments = np.zeros((n, n_features)), np.zeros(n, dtype=np.int64), domain, 0
    return Bundle([opened(remote.encode_rows(*map(Sealed, arguments)))])


def test_an_error_tells_its_kind_and_not_its_text():
    @guarded
    def count_people(rows):
        raise KeyError(rows)

    failure = count_people(Sealed(SECRET))
    assert isinstance(failure, Failure)
    assert "could not count people (KeyError)" in failure.sentence
    assert SECRET not in repr(failure)
    with pytest.raises(RuntimeError, match="KeyError"):
        opened(failure)


def test_a_mistake_is_told():
    @guarded
    def look():
        raise MistakeError("X lacks column 'a'.")

    with pytest.raises(ValueError, match="lacks column 'a'"):
        opened(look())


def test_failures_and_lost_states_are_handed_on():
    failure, one = Failure("It failed.", of_input=False), Sealed(np.ones(2))
    assert remote.add_answers(one, failure, Behind(3)) is failure
    assert remote.add_answers(Behind(5), one, Behind(3)) == Behind(3)
    assert opened(Behind(3)) == Behind(3)


def test_answers_are_added_up_and_stay_as_they_are():
    first = np.array([1, 2])
    assert opened(remote.add_answers(Sealed(first), Sealed(np.array([10, 20])))).tolist() == [11, 22]
    assert first.tolist() == [1, 2]


@pytest.mark.parametrize("n", [0, 5])
def test_rows_are_encoded_as_in_memory(n):
    rows = [[1.0, "x"], [11.0, "z"], [None, "y"], [3.0, None], [4.5, "x"]][:n]
    X, y = np.array(rows, dtype=object).reshape(n, 2), ["no", "yes", "other", None, "yes"][:n]
    partition = opened(remote.encode_rows(Sealed(X), Sealed(y), Sealed(DOMAIN), Sealed(0)))
    codes = np.empty((n, 2), dtype=np.uint8)
    partition.rows.read(0, n, codes)
    assert (codes == DOMAIN.encode(X)).all()
    assert (partition.records.target == DOMAIN.encode_target(y)).all()
    assert opened(remote.count_rows(Sealed(partition))) == n


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros((2, 3)), ["no", "yes"], "In partition 4 of the data: X has 3 features"),
        (np.zeros((2, 2)), ["no"], "In partition 4 of the data: .*inconsistent"),
    ],
)
def test_a_partition_of_another_shape_is_a_mistake(X, y, message):
    with pytest.raises(ValueError, match=message):
        opened(remote.encode_rows(Sealed(X), Sealed(y), Sealed(DOMAIN), Sealed(4)))


def test_a_bundle_takes_steps_and_answers():
    made = bundle()
    assert made.work(task(0, steps())).tolist() == [1 + 2]
    assert made.work(task(1, steps(7)[1:])).tolist() == [17 + 27]
    assert made.work(task(2, [])).tolist() == [17 + 27]
    assert made.work(task(2, steps(8, 9)[1:])).tolist() == [1789 + 2789]


def test_a_step_is_not_taken_twice():
    made = bundle()
    made.work(task(0, steps(7)))
    assert made.work(task(1, steps(7)[1:])).tolist() == [17 + 27]
    assert made.work(task(2, [])).tolist() == [17 + 27]


def test_a_bundle_that_was_made_anew_is_behind_and_catches_up():
    made = bundle()
    assert made.work(task(3, steps(9)[1:])) == Behind(0)
    assert made.work(task(3, [])) == Behind(0)
    assert made.work(task(0, steps(7, 8, 9))).tolist() == [1789 + 2789]


def test_a_bundle_that_missed_some_steps_takes_only_these():
    made = bundle()
    made.work(task(0, steps(7)))
    assert made.work(task(4, steps(1)[1:])) == Behind(2)
    assert made.work(task(2, steps(8, 9)[1:])).tolist() == [1789 + 2789]


def test_a_task_of_the_past_begins_again():
    made = bundle()
    made.work(task(0, steps(7, 8)))
    assert made.work(task(1, steps(7)[1:])) == Behind(0)
    assert made.work(task(0, steps(7))).tolist() == [17 + 27]


def test_another_run_begins_with_the_rows():
    made = bundle()
    made.work(task(0, steps(7)))
    assert made.work(task(2, [], "other")) == Behind(0)
    assert made.work(task(0, steps(5), "other")).tolist() == [15 + 25]


def test_after_a_step_that_failed_a_bundle_begins_again():
    def fail(state, threads):
        state.value += 1
        raise ValueError(SECRET)

    made = bundle()
    made.work(task(0, steps(7)))
    outcome = remote.work_on_rows(Sealed(made), Sealed(task(2, [[fail, fail]])))
    assert isinstance(outcome, Failure)
    assert SECRET not in outcome.sentence
    assert made.work(task(2, [])) == Behind(0)
    assert made.work(task(0, steps(7))).tolist() == [17 + 27]


def test_a_bundle_is_moved_with_its_states():
    made = bundle()
    made.work(task(0, steps(7)))
    moved = pickle.loads(pickle.dumps(made))
    assert moved.work(task(2, [])).tolist() == [17 + 27]
