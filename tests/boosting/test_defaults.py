"""Rules that choose the numbers of boosting: their limits, and the least share of the budget that follows from them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.boosting import defaults
from diprime.boosting.budget import as_share
from diprime.boosting.train import Shares

TASKS = ["classification", "regression"]
signals = st.floats(0, 15).map(lambda power: 10**power) | st.just(math.inf)


@given(signals, st.sampled_from(TASKS), st.sampled_from([1, 400, 1000, 100_000]), st.sampled_from([10, 10**7]))
@settings(deadline=None, max_examples=300)
def test_no_release_has_less_than_the_least_share(signal, task, n_rounds, n_rows):
    start = as_share(defaults.start_share(signal))
    found = [start, as_share(defaults.COUNT_OF_CONSTANT)]
    if signal >= defaults.CONSTANT:
        shares = Shares.of(1 - start, task, signal)
        n_steps = max(defaults.curve_steps(signal, n_rows), defaults.N_EPOCHS * defaults.WIDE_STEPS)
        found.append(as_share(float(shares.curves) / n_steps))
        if shares.rounds:
            found.append(as_share(float(shares.rounds) / n_rounds))
        if task == "regression":
            found.append(as_share(defaults.clip_share(signal)))
    assert min(found) >= defaults.least_share(n_rounds)


@pytest.mark.parametrize("task", TASKS)
def test_parts_of_the_budget_change_monotonically_with_information(task):
    signals = np.geomspace(1, 1e12, 200).tolist()
    for rule, sign in [
        (defaults.start_share, -1),
        (defaults.clip_share, -1),
        (defaults.clipped_share, -1),
        (lambda signal: defaults.round_share(task, signal), 1),
        (lambda signal: defaults.path(task, signal, 0.5), 1),
        (defaults.n_waves, 1),
        (lambda signal: defaults.curve_steps(signal, 100), -1),
        (lambda signal: len(defaults.clipped_epochs(signal)), 1),
    ]:
        found = np.array([rule(signal) for signal in signals])
        assert (sign * np.diff(found) >= 0).all()
        assert np.isfinite(rule(math.inf)), "without noise"


def ridge(task, signal, spread=1.0):
    return defaults.ridge(task, signal, 20, 400, 0.25, spread)


def test_ridge_of_classes_shrinks_with_the_spread_of_the_scores_alone():
    full = defaults.RIDGE["classification"]
    for signal in (1.0, 300.0, math.inf):
        assert ridge("classification", signal) == ridge("classification", signal, 0.0) == full
        assert ridge("classification", signal, 2 * math.sqrt(2)) == pytest.approx(full / 2)
        assert ridge("classification", signal, 1e6) == full / 4


def test_ridge_of_numbers_is_larger_where_records_are_few_for_their_features():
    assert ridge("regression", 1e6) == ridge("regression", 1e6, 9.0) == defaults.RIDGE["regression"]
    assert ridge("regression", 1e2) > 5 * defaults.RIDGE["regression"]
