"""The theorems of the paper: bounds hold, exactly or by simulation, or are refuted here."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from diprime import Categorical, DiPriMeClassifier, Domain, Numeric, PrivacyWarning
from diprime.domain.target_layout import TargetLayout
from diprime.paper import theory
from diprime.privacy.mechanisms.selection import exponential_pmf, permute_and_flip_pmf
from diprime.privacy.mechanisms.weights import weight_table
from diprime.privacy.randomness import RandomSource
from diprime.training.leaves import plain_means, release
from tests.goodness import fits

EPSILONS = st.floats(0.01, 5)


def sse(y):
    return float(np.sum((y - y.mean()) ** 2)) if len(y) else 0.0


def sse_of_split(y, k):
    return sse(y[:k]) + sse(y[k:])


def correct_of_split(y, k):
    """Return how many rows are in the majority of their child."""
    return sum(max(np.count_nonzero(part == 0), np.count_nonzero(part == 1)) for part in (y[:k], y[k:]))


def purity_of_split(y, k):
    return min(max(np.mean(part), 1 - np.mean(part)) for part in (y[:k], y[k:]))


def expected_accuracy(y, k, epsilon):
    """Return the accuracy of a split's noisy leaves, exactly."""
    right = 0.0
    for part in (y[:k], y[k:]):
        margin = abs(2 * np.count_nonzero(part) - len(part))
        right += (len(part) + margin) / 2 - margin * theory.flip_probability(margin, epsilon)
    return right / len(y)


@st.composite
def splits(draw, targets):
    """Draw targets in the order of the feature, a split of them, and t, which its smaller child reaches."""
    y = np.array(draw(st.lists(targets, min_size=3, max_size=40)))
    k = draw(st.integers(1, len(y) - 1))
    t = draw(st.integers(1, min(k, len(y) - k)))
    assume(2 * t < len(y))
    return y, k, t


# -- Theorem 1 ---------------------------------------------------------------------------------------------------------


def noisy_sse_excess(y, k, epsilon):
    """Return what the split and the paper's leaves cost in squared error, exactly."""
    noise = sum(n * 2 * (2 / (n * epsilon)) ** 2 for n in (k, len(y) - k))
    return sse_of_split(y, k) + noise - sse_of_split(y, len(y) // 2)


@given(splits(st.floats(-1, 1)), EPSILONS)
def test_squared_error_rises_by_no_more_than_both_bounds(split, epsilon):
    y, k, t = split
    excess = noisy_sse_excess(y, k, epsilon)
    ours = theory.sse_excess(len(y), t, epsilon, private_leaves=False)
    assert excess <= ours * (1 + 1e-9)
    assert ours <= theory.published_sse_excess(len(y), t, epsilon)


@pytest.mark.parametrize("n", [10, 11, 100, 101])
def test_bound_on_squared_error_is_attained(n):
    y = np.where(np.arange(n) < n // 2, -1.0, 1.0)
    for t in range(1, (n + 1) // 2):
        assert noisy_sse_excess(y, n - t, 0.7) == pytest.approx(theory.sse_excess(n, t, 0.7, private_leaves=False))


def test_published_bound_on_squared_error_exceeds_any_squared_error():
    """No split has an SSE above N·B², so a bound above it, for the split alone, says nothing."""
    for t in range(1, 375):
        assert theory.published_sse_excess(1000, t, epsilon=math.inf) > 1000
    assert theory.published_sse_excess(1000, 375, epsilon=math.inf) == 1000


def test_bounds_on_squared_error_scale_with_the_target():
    for bound in (theory.published_sse_excess, theory.sse_excess):
        assert bound(100, 20, 0.5, 3.0) == pytest.approx(9 * bound(100, 20, 0.5))


def test_noise_on_the_mean_of_a_leaf_is_as_simulated():
    rng = np.random.default_rng(0)
    n, epsilon = 30, 0.4
    y = rng.uniform(-1, 1, n)
    means = y.mean() + rng.laplace(0, 2 / (n * epsilon), (50_000, 1))
    simulated = np.mean(np.sum((y - means) ** 2, axis=1)) - sse(y)
    assert simulated == pytest.approx(8 / (n * epsilon**2), rel=0.05)


def test_noise_scaled_by_the_true_count_is_not_private():
    """Two leaves that differ by one row, and a released mean whose probabilities differ by more than any e^epsilon."""
    epsilon = 1.0

    def log_density(mean, n):
        scale = 2 / (n * epsilon)
        return -abs(mean) / scale - math.log(2 * scale)  # all targets are 0, so the true mean is 0

    losses = [log_density(mean, 10) - log_density(mean, 11) for mean in (1.0, 10.0, 100.0, 1000.0)]
    assert losses == sorted(losses)
    assert losses[1] > epsilon
    assert losses[3] > 100 * epsilon


def simulated_leaf_sse(y, epsilon, n_draws=5000):
    """Return the mean squared error, summed over the rows, of leaves as the library releases them."""
    layout = TargetLayout.of_number(4096)
    high = np.round((y + 1) / 2 * layout.units).astype(np.int64)
    sums = np.array([len(y) * layout.units - high.sum(), high.sum()])
    sums = np.tile(sums, (n_draws, 1, 1))
    leaves = release(sums, layout, layout.whole, Fraction(str(epsilon)), RandomSource(1), exact_counts=False)
    predictions = 2 * plain_means(leaves)[:, :, 1] - 1
    return np.mean(np.sum((y - predictions) ** 2, axis=1))


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("kind", ["steps", "even", "low"])
def test_squared_error_of_private_leaves_is_within_its_bound(epsilon, kind):
    """Sums with discrete noise, clamped: the library's own leaves, on targets that lose much, some and nothing."""
    n = 60
    i = np.arange(n)
    y = {"steps": np.where(i < n // 2, -1.0, 1.0), "even": np.linspace(-1, 1, n), "low": np.full(n, -1.0)}[kind]
    for t in (1, 5, 20, 29):
        simulated = simulated_leaf_sse(y[:t], epsilon) + simulated_leaf_sse(y[t:], epsilon)
        assert simulated - sse_of_split(y, n // 2) <= theory.sse_excess(n, t, epsilon)


# -- Theorem 2 ---------------------------------------------------------------------------------------------------------


@given(splits(st.integers(0, 1)), EPSILONS)
def test_accuracy_falls_by_no_more_than_the_corrected_bound(split, epsilon):
    y, k, t = split
    loss = correct_of_split(y, len(y) // 2) / len(y) - expected_accuracy(y, k, epsilon)
    assert loss <= theory.accuracy_loss(len(y), t, epsilon) + 1e-12
    assert loss <= theory.accuracy_loss(len(y), t, epsilon, purity_of_split(y, k)) + 1e-12


@pytest.mark.parametrize("n", [10, 11, 100, 101])
def test_what_the_split_costs_in_the_corrected_bound_is_attained(n):
    y = (np.arange(n) >= n // 2).astype(int)
    for t in range(1, (n + 1) // 2):
        assert 1 - correct_of_split(y, n - t) / n == pytest.approx(theory.accuracy_loss(n, t, epsilon=1e6))


def test_published_bound_on_accuracy_does_not_hold():
    """The counter-example: perfect at the median, no noise to speak of in the leaves, and yet 39 % are lost."""
    y = np.repeat([0, 1], 50)
    k, t, epsilon = 11, 10, 10.0
    loss = correct_of_split(y, 50) / 100 - expected_accuracy(y, k, epsilon)
    assert loss == pytest.approx(0.39, abs=1e-6)
    assert theory.published_accuracy_loss(t, epsilon, purity_of_split(y, k)) < 2e-5
    assert loss <= theory.accuracy_loss(100, t, epsilon, purity_of_split(y, k)) <= 0.41


@given(splits(st.integers(0, 1)), EPSILONS)
def test_published_bound_on_accuracy_holds_against_the_same_split(split, epsilon):
    """What its proof proves: noisy leaves beside exact leaves of one and the same split."""
    y, k, t = split
    loss = correct_of_split(y, k) / len(y) - expected_accuracy(y, k, epsilon)
    assert loss <= theory.published_accuracy_loss(t, epsilon, purity_of_split(y, k)) + 1e-12


@pytest.mark.parametrize(("few", "many"), [(0, 1), (0, 5), (3, 4), (20, 22)])
def test_flips_of_a_leaf_are_as_simulated(few, many):
    rng = np.random.default_rng(0)
    epsilon, draws = 0.5, 400_000
    a, b = (np.maximum(0, n + rng.laplace(0, 1 / epsilon, draws)) for n in (few, many))
    flipped = np.count_nonzero((a > b) | ((a == b) & (rng.random(draws) < 0.5)))
    p = theory.flip_probability(many - few, epsilon)
    assert fits([flipped, draws - flipped], [p, 1 - p])


@given(st.integers(1, 10_000), EPSILONS)
def test_noise_costs_a_leaf_few_mistakes_whatever_its_size(margin, epsilon):
    assert margin * theory.flip_probability(margin, epsilon) <= 0.2935 / epsilon


# -- Theorem 3 and Corollary 1 -----------------------------------------------------------------------------------------


def imbalance(probabilities, t):
    """Return the probability that the smaller child has at most t rows."""
    n = len(probabilities) - 1
    left = np.arange(n + 1)
    return float(probabilities[np.minimum(left, n - left) <= t].sum())


def core_of(values, t):
    """Return the length that the rows in the middle cover, all but t on each side."""
    return values[len(values) - t - 1] - values[t]


@given(st.lists(st.integers(0, 100), min_size=2, max_size=30), st.floats(0, 3), st.data())
def test_occupancy_is_within_its_bounds_and_above_random(values, epsilon, data):
    values = np.sort(np.array(values, dtype=float))
    t = data.draw(st.integers(0, (len(values) - 1) // 2))
    s = data.draw(st.integers(t, (len(values) - 1) // 2))
    core, inner = core_of(values, t), core_of(values, s)
    exact = imbalance(theory.left_count_probabilities(values, 0, 100, epsilon), t)
    at_random = imbalance(theory.left_count_probabilities(values, 0, 100, 0), t)
    assert at_random == pytest.approx(1 - theory.random_occupancy(100, core))
    assert exact <= at_random + 1e-12
    assert 1 - exact >= theory.occupancy(100, core, epsilon) - 1e-12
    assert 1 - exact >= theory.occupancy(100, core, epsilon, inner=inner, rows_between=s - t) - 1e-12
    for further in ({}, {"inner": inner, "rows_between": s - t}):
        assert exact <= theory.against_random(100, core, epsilon, **further) * at_random + 1e-12


def test_published_occupancy_is_attained_in_the_limit():
    """All rows but one at the ends of their parts: all of the middle is but one row better than the edge."""
    n, t, epsilon = 20, 5, 0.3
    values = np.concatenate([np.zeros(t), [0.4], np.full(n - t - 1, 0.7)])
    values[n - t :] = 1.0
    exact = imbalance(theory.left_count_probabilities(values, 0, 1, epsilon), t)
    assert 1 - exact == pytest.approx(theory.occupancy(1, core_of(values, t), epsilon))


def test_more_is_known_further_inside():
    published = theory.occupancy(1, 0.5, 0.05)
    assert published < 0.52
    assert theory.occupancy(1, 0.5, 0.05, inner=0.25, rows_between=125) > 0.99
    assert theory.occupancy(1, 0.5, 0.05, inner=0.5, rows_between=0) == published


def root_splits(X, y, domain, method, n_trees, epsilon_split, **parameters):
    """Return the numbers of rows that go left at the roots of many independent trees of the library."""
    share = 0.5
    with pytest.warns(PrivacyWarning):
        model = DiPriMeClassifier(
            n_trees * epsilon_split / share, domain, method=method, n_estimators=n_trees, max_depth=1, n_jobs=1,
            split_share=share, partition=False, random_state=0, **parameters,
        ).fit(X, y)  # fmt: skip
    return np.count_nonzero(model.apply(X) == 0, axis=0)


@pytest.mark.parametrize("method", ["diprime", "random"])
def test_splits_of_the_library_follow_the_exact_law(method):
    """On the grid lengths are numbers of thresholds; cells as values, half a cell off the range, count them."""
    epsilon, n_trees = 0.05, 2000
    cells = np.sort(np.minimum(np.random.default_rng(0).exponential(40, 60).astype(int), 254))
    domain = Domain({"x": Numeric(0, 255)}, target=Categorical([0, 1]))
    left = root_splits(cells[:, None] + 0.5, cells % 2, domain, method, n_trees, epsilon)
    law = theory.left_count_probabilities(cells + 0.5, 0.5, 254.5, epsilon if method == "diprime" else 0)
    assert fits(np.bincount(left, minlength=61), law)
    t = 15
    core = core_of(cells, t)
    more_than_t = np.mean(np.minimum(left, 60 - left) > t)
    bound = theory.occupancy(254, core, epsilon if method == "diprime" else 0)
    assert more_than_t > bound - 6 * math.sqrt(0.25 / n_trees)


@given(st.lists(st.integers(0, 6), min_size=2, max_size=8), st.fractions(Fraction(1, 20), 3))
def test_both_mechanisms_of_the_library_are_above_random_exactly(cells, epsilon):
    """Corollary 1 in fractions, for rounded weights and for permute-and-flip, with thresholds after cells 0 to 5."""
    left = [sum(cell <= threshold for cell in cells) for threshold in range(6)]
    costs = [abs(2 * k - len(cells)) for k in left]
    table = weight_table(epsilon, 2, len(costs))
    for pmf in (exponential_pmf(costs, table), permute_and_flip_pmf(costs, table)):
        for t in range(len(cells) // 2):
            unbalanced = [min(k, len(cells) - k) <= t for k in left]
            assert sum(p for p, bad in zip(pmf, unbalanced, strict=True) if bad) <= Fraction(sum(unbalanced), 6)


def test_score_of_categories_as_printed_prefers_imbalance():
    """The paper scores a set C of categories by +||C| - |X without C||; the exponential mechanism seeks high scores."""
    counts, epsilon = (8, 1, 1), 1.0
    scores = np.array([abs(2 * count - sum(counts)) for count in counts])  # each category against the other two
    as_printed = np.exp(epsilon * scores / 2) / np.exp(epsilon * scores / 2).sum()
    as_meant = np.exp(-epsilon * scores / 2) / np.exp(-epsilon * scores / 2).sum()
    unbalanced = scores == 8  # one row against nine
    assert as_meant[unbalanced].sum() < 2 / 3 < as_printed[unbalanced].sum()


def test_choosing_among_medians_can_be_less_balanced_than_random():
    """Two features, one spread evenly, one that tells a tenth of the rows from the rest, and the target with it."""
    n = 200
    told = (np.arange(n) % 10 == 0).astype(int)
    X = np.column_stack([np.linspace(0, 1, n), told])
    domain = Domain({"spread": Numeric(0, 1), "telling": Numeric(0, 1)}, target=Categorical([0, 1]))
    unbalanced = {
        method: np.mean([min(left, n - left) <= 20 for left in root_splits(X, told, domain, method, 500, 10.0, **k)])
        for method, k in {"diprime-exp": {"max_features": 2}, "diprime": {}, "random": {}}.items()
    }
    assert unbalanced["diprime-exp"] > 0.99
    # A random split of the even feature, drawn half of the time, leaves a child 20 rows or fewer one time in five.
    assert unbalanced["random"] == pytest.approx(0.6, abs=0.12)
    assert unbalanced["diprime"] == pytest.approx(0.5, abs=0.12)


# -- Arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.sse_excess(10, 5, 1.0), "least_rows must be above 0 and below half of n_rows, got 5 of 10"),
        (lambda: theory.published_sse_excess(10, 0, 1.0), "least_rows must be above 0"),
        (lambda: theory.accuracy_loss(10, 6, 1.0), "least_rows must be above 0"),
        (lambda: theory.sse_excess(10, 2, 0.0), "epsilon must be positive, got 0.0"),
        (lambda: theory.sse_excess(10, 2, 1.0, -1.0), "bound must be positive"),
        (lambda: theory.published_accuracy_loss(2, math.nan, 0.7), "epsilon must be positive, got nan"),
        (lambda: theory.accuracy_loss(10, 2, 1.0, 0.4), "purity must be between 0.5 and 1, got 0.4"),
        (lambda: theory.occupancy(1.0, 2.0, 1.0), "Lengths must rise from 0 over inner and core to width"),
        (lambda: theory.occupancy(1.0, 0.5, 1.0, inner=0.6), "Lengths must rise"),
        (lambda: theory.occupancy(1.0, 0.5, -1.0), "must not be negative, got -1.0 and 0"),
        (lambda: theory.left_count_probabilities([2.0], 0, 1, 1.0), "low must be below high and values between them"),
        (lambda: theory.left_count_probabilities([], 1, 0, 1.0), "low must be below high"),
    ],
)
def test_arguments_out_of_range_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_bounds_are_defined_at_their_ends():
    assert theory.occupancy(1.0, 1.0, 0.0) == 1.0
    assert theory.occupancy(1.0, 1.0, 1.0, inner=0.0) == 1.0
    assert theory.occupancy(1.0, 0.5, 1e6, inner=0.0, rows_between=3) == 0.0
    assert theory.against_random(1.0, 1.0, 1.0) == 0.0
    assert theory.left_count_probabilities([0.5, 0.5], 0, 1, 1e5).tolist() == [0.5, 0.0, 0.5]
