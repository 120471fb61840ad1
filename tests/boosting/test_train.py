"""Division of the budget among the parts of a fit, numbers of records, and trees of curves."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.boosting import defaults
from diprime.boosting.budget import as_share
from diprime.boosting.cells import CodeSums
from diprime.boosting.start import Counts
from diprime.boosting.train import Shares, _curve_tree, number_of_records
from diprime.domain import Categorical, Domain, Numeric
from diprime.kernels.constants import MISSING, N_CODES, OTHER
from tests.small_data import TASKS

signals = st.floats(1.4, 12).map(lambda power: 10**power) | st.just(float("inf"))


@given(signals, st.sampled_from(TASKS))
@settings(deadline=None, max_examples=200)
def test_parts_of_the_budget_add_up_to_what_is_left(signal, task):
    left = 1 - as_share(defaults.start_share(signal))
    shares = Shares.of(left, task, signal)
    n_clips = 0
    if task == "regression":
        n_clips = len(defaults.clipped_epochs(signal)) + (shares.rounds > 0)
    clips = n_clips * as_share(defaults.clip_share(signal))
    assert shares.curves + shares.rounds + clips == left
    assert shares.curves > Fraction(1, 10)
    assert (shares.rounds > 0) == (defaults.round_share(task, signal) > 0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_number_of_records_has_the_stated_noise(n_classes):
    """Each mean of 2000 squares is within 6 standard deviations of 1: false alarms of 4e-9."""
    rng = np.random.default_rng(0)
    squares = []
    for _ in range(2000):
        counts = Counts(np.full(n_classes, 500.0) + rng.normal(0, 20, n_classes), 20.0)
        sums = rng.normal(0, 3, (4, 256, n_classes))
        sums[:, 0] += 500
        of_rounds = [(500 * n_classes + rng.normal(0, noise), noise) for noise in (20.0, 40.0)]
        found, noise = number_of_records(counts, CodeSums(sums, 3.0), of_rounds)
        squares.append(((found - 500 * n_classes) / noise) ** 2)
    assert np.mean(squares) == pytest.approx(1, abs=6 * np.sqrt(2 / 2000))
    assert noise < 15


def test_number_of_records_is_exact_without_noise():
    sums = np.zeros((2, N_CODES, 2))
    sums[:, 0] = 50.0
    assert number_of_records(Counts(np.array([60.0, 40.0]), 0.0), CodeSums(sums, 0.0), [(100.0, 0.0)]) == (100.0, 0.0)


@pytest.mark.parametrize(
    "feature",
    [
        Numeric(edges=[0.5]),
        Numeric(0, 1),
        Categorical(["only"]),
        Categorical(range(12)),
        Categorical(range(254)),
    ],
)
def test_tree_of_a_curve_leads_every_code_to_its_own_value(feature):
    domain = Domain({"x": feature}, Numeric(0, 1))
    rng = np.random.default_rng(0)
    values, counts = rng.integers(-9, 9, (N_CODES, 2)).astype(np.int32), rng.random(N_CODES)
    curve = _curve_tree(0, values, np.zeros((1, N_CODES)), counts, domain)
    bits = np.unpackbits(curve.structure.masks[0], axis=1, bitorder="little")
    codes = [*range(int(domain.n_codes[0])), *([OTHER] if domain.is_categorical[0] else []), MISSING]
    leaves = []
    for code in codes:
        node = 0
        while node < len(bits):
            node = 2 * node + 1 + int(bits[node, code])
        leaves.append(node - len(bits))
    assert len(set(leaves)) == len(codes)
    assert np.array_equal(curve.values[leaves], values[codes])
    assert np.array_equal(curve.weights[leaves], counts[codes])
    others = np.setdiff1d(np.arange(len(curve.weights)), leaves)
    assert not curve.values[others].any()
    assert not curve.weights[others].any()
