"""The theorems of the paper: each bound is checked, exactly or by simulation, or refuted by a counter-example."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from diprime import Categorical, DiPriMeClassifier, Domain, Numeric, PrivacyWarning
from diprime.domain.encoding import TargetLayout
from diprime.forest.sums import STRICT, leaf_charge, release_leaves
from diprime.paper import PUBLISHED, theory
from diprime.privacy.mechanisms.selection import exponential_pmf, permute_and_flip_pmf, weight_table
from diprime.privacy.randomness import RandomSource
from tests.goodness import fits
from tests.paid import pay

EPSILONS = st.floats(0.01, 5)


def sse(y):
    return float(np.sum((y - y.mean()) ** 2)) if len(y) else 0.0


def sse_of_split(y, k):
    return sse(y[:k]) + sse(y[k:])


def correct_of_split(y, k):
    """Return how many rows belong to the majority class of their child."""
    return sum(max(np.count_nonzero(part == 0), np.count_nonzero(part == 1)) for part in (y[:k], y[k:]))


def purity_of_split(y, k):
    return min(max(np.mean(part), 1 - np.mean(part)) for part in (y[:k], y[k:]))


def expected_accuracy(y, k, epsilon):
    """Return the exact expected accuracy of a split with noisy leaves."""
    correct = 0.0
    for part in (y[:k], y[k:]):
        margin = abs(2 * np.count_nonzero(part) - len(part))
        correct += (len(part) + margin) / 2 - margin * theory.flip_probability(margin, epsilon)
    return correct / len(y)


@st.composite
def splits(draw, targets):
    """Draw targets in the order of the feature, a split of them, and a t that the smaller child reaches."""
    y = np.array(draw(st.lists(targets, min_size=3, max_size=40)))
    k = draw(st.integers(1, len(y) - 1))
    t = draw(st.integers(1, min(k, len(y) - k)))
    assume(2 * t < len(y))
    return y, k, t


# -- Theorem 1 ---------------------------------------------------------------------------------------------------------


def noisy_sse_excess(y, k, epsilon):
    """Return the exact increase of the squared error by the split and the noise of the paper's leaves."""
    noise = sum(n * 2 * (2 / (n * epsilon)) ** 2 for n in (k, len(y) - k))
    return sse_of_split(y, k) + noise - sse_of_split(y, len(y) // 2)


@given(splits(st.floats(-1, 1)), EPSILONS)
def test_both_bounds_on_squared_error_hold(split, epsilon):
    y, k, t = split
    excess = noisy_sse_excess(y, k, epsilon)
    corrected = theory.sse_excess(len(y), t, epsilon, private_leaves=False)
    assert excess <= corrected * (1 + 1e-9)
    assert corrected <= theory.published_sse_excess(len(y), t, epsilon)


@pytest.mark.parametrize("n", [10, 11, 100, 101])
def test_bound_on_squared_error_is_attained(n):
    y = np.where(np.arange(n) < n // 2, -1.0, 1.0)
    for t in range(1, (n + 1) // 2):
        assert noisy_sse_excess(y, n - t, 0.7) == pytest.approx(theory.sse_excess(n, t, 0.7, private_leaves=False))


def test_published_bound_on_squared_error_exceeds_any_squared_error():
    """No split has an SSE above N·B², so a bound above it, even without noise, is trivial."""
    for t in range(1, 375):
        assert theory.published_sse_excess(1000, t, epsilon=math.inf) > 1000
    assert theory.published_sse_excess(1000, 375, epsilon=math.inf) == 1000


def test_noise_scaled_by_the_true_count_is_not_private():
    """Two leaves differ by one row, and the privacy loss of the released mean is unbounded."""
    epsilon = 1.0

    def log_density(mean, n):
        scale = 2 / (n * epsilon)
        return -abs(mean) / scale - math.log(2 * scale)  # all targets are 0, so the true mean is 0

    losses = [log_density(mean, 10) - log_density(mean, 11) for mean in (1.0, 10.0, 100.0, 1000.0)]
    assert losses == sorted(losses)
    assert losses[1] > epsilon
    assert losses[3] > 100 * epsilon


def simulated_leaf_sse(y, epsilon, n_draws=5000):
    """Return the expected SSE of a leaf as the library releases it, by simulation."""
    layout = TargetLayout.of_number(4096)
    high = np.round((y + 1) / 2 * layout.units).astype(np.int64)
    sums = np.array([len(y) * layout.units - high.sum(), high.sum()])
    sums = np.tile(sums, (n_draws, 1, 1))
    receipt = pay(leaf_charge(layout, Fraction(str(epsilon)), 1, "", STRICT))
    leaves = release_leaves(sums, layout, layout.whole_range, receipt, STRICT, RandomSource(1))
    predictions = 2 * PUBLISHED.leaf_means(leaves, layout)[:, :, 1] - 1
    return np.mean(np.sum((y - predictions) ** 2, axis=1))


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("kind", ["steps", "even", "low"])
def test_squared_error_of_private_leaves_is_within_its_bound(epsilon, kind):
    """The library's own leaves, with targets for which the split costs much, little or nothing."""
    n = 60
    i = np.arange(n)
    y = {"steps": np.where(i < n // 2, -1.0, 1.0), "even": np.linspace(-1, 1, n), "low": np.full(n, -1.0)}[kind]
    for t in (1, 5, 20, 29):
        simulated = simulated_leaf_sse(y[:t], epsilon) + simulated_leaf_sse(y[t:], epsilon)
        assert simulated - sse_of_split(y, n // 2) <= theory.sse_excess(n, t, epsilon)


# -- Theorem 2 ---------------------------------------------------------------------------------------------------------


@given(splits(st.integers(0, 1)), EPSILONS)
def test_corrected_bound_on_accuracy_holds(split, epsilon):
    y, k, t = split
    loss = correct_of_split(y, len(y) // 2) / len(y) - expected_accuracy(y, k, epsilon)
    assert loss <= theory.accuracy_loss(len(y), t, epsilon) + 1e-12
    assert loss <= theory.accuracy_loss(len(y), t, epsilon, purity_of_split(y, k)) + 1e-12


@pytest.mark.parametrize("n", [10, 11, 100, 101])
def test_cost_of_the_split_in_the_corrected_bound_is_attained(n):
    y = (np.arange(n) >= n // 2).astype(int)
    for t in range(1, (n + 1) // 2):
        assert 1 - correct_of_split(y, n - t) / n == pytest.approx(theory.accuracy_loss(n, t, epsilon=1e6))


def test_published_bound_on_accuracy_does_not_hold():
    """A counter-example: the median split is perfect, the noise is negligible, and the loss is 39 %."""
    y = np.repeat([0, 1], 50)
    k, t, epsilon = 11, 10, 10.0
    loss = correct_of_split(y, 50) / 100 - expected_accuracy(y, k, epsilon)
    assert loss == pytest.approx(0.39, abs=1e-6)
    assert theory.published_accuracy_loss(t, epsilon, purity_of_split(y, k)) < 2e-5
    assert loss <= theory.accuracy_loss(100, t, epsilon, purity_of_split(y, k)) <= 0.41


@given(splits(st.integers(0, 1)), EPSILONS)
def test_published_bound_on_accuracy_holds_against_the_same_split(split, epsilon):
    """This is what its proof shows: noisy leaves are compared with exact leaves of the same split."""
    y, k, t = split
    loss = correct_of_split(y, k) / len(y) - expected_accuracy(y, k, epsilon)
    assert loss <= theory.published_accuracy_loss(t, epsilon, purity_of_split(y, k)) + 1e-12


@pytest.mark.parametrize(("few", "many"), [(0, 1), (0, 5), (3, 4), (20, 22)])
def test_flip_probability_agrees_with_a_simulation(few, many):
    rng = np.random.default_rng(0)
    epsilon, draws = 0.5, 400_000
    a, b = (np.maximum(0, n + rng.laplace(0, 1 / epsilon, draws)) for n in (few, many))
    flipped = np.count_nonzero((a > b) | ((a == b) & (rng.random(draws) < 0.5)))
    p = theory.flip_probability(many - few, epsilon)
    assert fits([flipped, draws - flipped], [p, 1 - p])


@given(st.integers(1, 10_000), EPSILONS)
def test_noise_costs_a_leaf_few_mistakes_at_any_size(margin, epsilon):
    assert margin * theory.flip_probability(margin, epsilon) <= 0.2935 / epsilon


# -- Theorem 3 and Corollary 1 -----------------------------------------------------------------------------------------


def imbalance(probabilities, t):
    """Return the probability that the smaller child has at most t rows."""
    n = len(probabilities) - 1
    left = np.arange(n + 1)
    return float(probabilities[np.minimum(left, n - left) <= t].sum())


def core_of(values, t):
    """Return the length of the interval that all rows but t on each side span."""
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
    for refined in ({}, {"inner": inner, "rows_between": s - t}):
        assert exact <= theory.against_random(100, core, epsilon, **refined) * at_random + 1e-12


def test_published_occupancy_is_attained_in_the_limit():
    """All thresholds in the middle are only one row better than those outside."""
    n, t, epsilon = 20, 5, 0.3
    values = np.concatenate([np.zeros(t), [0.4], np.full(n - t - 1, 0.7)])
    values[n - t :] = 1.0
    exact = imbalance(theory.left_count_probabilities(values, 0, 1, epsilon), t)
    assert 1 - exact == pytest.approx(theory.occupancy(1, core_of(values, t), epsilon))


def root_splits(X, y, domain, method, n_trees, epsilon_split, **parameters):
    """Fit many independent trees of depth one, and return how many rows go left in each."""
    share = 0.5
    with pytest.warns(PrivacyWarning):
        model = DiPriMeClassifier(
            n_trees * epsilon_split / share, domain, method=method, n_estimators=n_trees, max_depth=1, n_jobs=1,
            split_share=share, disjoint_rows=False, random_state=0, **parameters,
        ).fit(X, y)  # fmt: skip
    return np.count_nonzero(model.apply(X) == 0, axis=0)


@pytest.mark.parametrize("method", ["diprime", "random"])
def test_splits_of_the_library_have_the_exact_distribution(method):
    """On a grid, lengths are numbers of thresholds, so values are cells plus one half."""
    epsilon, n_trees = 0.05, 2000
    cells = np.sort(np.minimum(np.random.default_rng(0).exponential(40, 60).astype(int), 254))
    domain = Domain({"x": Numeric(0, 255)}, target=Categorical([0, 1]))
    left = root_splits(cells[:, None] + 0.5, cells % 2, domain, method, n_trees, epsilon)
    expected = theory.left_count_probabilities(cells + 0.5, 0.5, 254.5, epsilon if method == "diprime" else 0)
    assert fits(np.bincount(left, minlength=61), expected)
    t = 15
    core = core_of(cells, t)
    more_than_t = np.mean(np.minimum(left, 60 - left) > t)
    bound = theory.occupancy(254, core, epsilon if method == "diprime" else 0)
    assert more_than_t > bound - 6 * math.sqrt(0.25 / n_trees)


@given(st.lists(st.integers(0, 6), min_size=2, max_size=8), st.fractions(Fraction(1, 20), 3))
def test_both_mechanisms_of_the_library_are_at_least_as_balanced_as_random(cells, epsilon):
    """Corollary 1 in exact arithmetic, for rounded weights and permute-and-flip, with thresholds after cells 0 to 5."""
    left = [sum(cell <= threshold for cell in cells) for threshold in range(6)]
    costs = [abs(2 * k - len(cells)) for k in left]
    table = weight_table(epsilon, 2, len(costs))
    for pmf in (exponential_pmf(costs, table), permute_and_flip_pmf(costs, table)):
        for t in range(len(cells) // 2):
            unbalanced = [min(k, len(cells) - k) <= t for k in left]
            assert sum(p for p, bad in zip(pmf, unbalanced, strict=True) if bad) <= Fraction(sum(unbalanced), 6)


def test_score_of_categories_as_printed_prefers_imbalance():
    """The paper's score of a set C of categories is +||C| - |X without C||, but the mechanism prefers high scores."""
    counts, epsilon = (8, 1, 1), 1.0
    scores = np.array([abs(2 * count - sum(counts)) for count in counts])  # each category against the other two
    as_printed = np.exp(epsilon * scores / 2) / np.exp(epsilon * scores / 2).sum()
    as_intended = np.exp(-epsilon * scores / 2) / np.exp(-epsilon * scores / 2).sum()
    unbalanced = scores == 8  # one row against nine
    assert as_intended[unbalanced].sum() < 2 / 3 < as_printed[unbalanced].sum()


def test_choosing_among_medians_can_be_less_balanced_than_random():
    """One feature is spread evenly. The other separates a tenth of the rows, which are one of the classes."""
    n = 200
    target = (np.arange(n) % 10 == 0).astype(int)
    X = np.column_stack([np.linspace(0, 1, n), target])
    domain = Domain({"even": Numeric(0, 1), "informative": Numeric(0, 1)}, target=Categorical([0, 1]))
    unbalanced = {
        method: np.mean([min(left, n - left) <= 20 for left in root_splits(X, target, domain, method, 500, 10.0, **k)])
        for method, k in {"diprime-exp": {"max_features": 2}, "diprime": {}, "random": {}}.items()
    }
    assert unbalanced["diprime-exp"] > 0.99
    # Half of the random splits use the even feature, and a fifth of these leave a child with at most 20 rows.
    assert unbalanced["random"] == pytest.approx(0.6, abs=0.12)
    assert unbalanced["diprime"] == pytest.approx(0.5, abs=0.12)


# -- Arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.sse_excess(10, 5, 1.0), "least_rows .*n_rows, got 5 of 10"),
        (lambda: theory.published_sse_excess(10, 0, 1.0), "least_rows .*n_rows, got 0 of 10"),
        (lambda: theory.accuracy_loss(10, 6, 1.0), "least_rows .*n_rows, got 6 of 10"),
        (lambda: theory.sse_excess(10, 2, 0.0), "epsilon .*positive, got 0.0"),
        (lambda: theory.sse_excess(10, 2, 1.0, -1.0), "bound .*positive, got -1.0"),
        (lambda: theory.published_accuracy_loss(2, math.nan, 0.7), "epsilon .*positive, got nan"),
        (lambda: theory.accuracy_loss(10, 2, 1.0, 0.4), "purity .*0.5 and 1, got 0.4"),
        (
            lambda: theory.occupancy(1.0, 2.0, 1.0),
            "0 <= inner <= core <= width .*inner=2.0, core=2.0 and width=1.0",
        ),
        (lambda: theory.occupancy(1.0, 0.5, 1.0, inner=0.6), "inner <= core <= width .*inner=0.6"),
        (lambda: theory.occupancy(1.0, 0.5, -1.0), "epsilon and rows_between .*got -1.0 and 0"),
        (lambda: theory.left_count_probabilities([2.0], 0, 1, 1.0), "low .*below high .*low=0 and high=1"),
        (lambda: theory.left_count_probabilities([], 1, 0, 1.0), "low .*below high .*low=1 and high=0"),
    ],
)
def test_arguments_out_of_range_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
