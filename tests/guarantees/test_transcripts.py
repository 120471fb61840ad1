"""Neighbouring data with the same released numbers: models are equal to the bit, and the numbers cost what was charged.

On one data set the mechanisms draw; on its neighbour they answer what was drawn before. Whatever else a fit makes of
its records shows as a difference between the two models. The exact loss of everything that was drawn must stay below
the total of the ledger, and the loss of the releases of each charge below what that charge costs.
"""

import itertools
import math
import pickle
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from diprime import Categorical, DiPriMeClassifier, DiPriMeRegressor, Domain, Numeric
from diprime.baselines import DPDecisionForestClassifier, DPRandomForestClassifier, DPRandomForestRegressor
from diprime.domain.target_layout import TargetLayout, Windows
from diprime.engines.assignment import IndependentAssignment
from diprime.kernels.constants import ABSENT_COST
from diprime.privacy.mechanisms import selection
from diprime.privacy.mechanisms.laplace import DISCRETE_LAPLACE, laplace_scale
from diprime.privacy.mechanisms.selection import _weights, permute_and_flip_pmf
from diprime.privacy.mechanisms.subsets import subset_median_pmf
from diprime.privacy.mechanisms.weights import weight_table
from diprime.training import defaults, grow, train
from tests.encoded_rows import draws_by
from tests.paid import receipt
from tests.spies import Noise, Pick, Releases

contributions = TargetLayout.contributions
pytestmark = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")

TARGETS = {"binary": list("pq"), "classes": list("pqrs"), "number": [0.0, 3.0, 7.7, 11.0]}
FEATURES = {"x": Numeric(edges=[1, 2]), "letter": Categorical(["a", "b"]), "y": Numeric(edges=[0, 5])}
VALUES = {"x": [0, 1.5, 9, None], "letter": ["a", "b", "z", None], "y": [-1, 3, 7, None]}
METHODS = ["joint", "diprime", "diprime-exp", "diprime-flip", "random"]
BASELINES = {
    "binary": [DPRandomForestClassifier, DPDecisionForestClassifier],
    "classes": [DPRandomForestClassifier, DPDecisionForestClassifier],
    "number": [DPRandomForestRegressor],
}


# -- transcripts -------------------------------------------------------------------------------------------------------


def charge_of(event):
    """Return what paid for a release; None where nobody did."""
    return event.charge if isinstance(event, Noise) else event.paid.charge


def public_part(event):
    """Return what a mechanism was called with, except the private numbers that it protects."""
    kind, charge = type(event), charge_of(event)
    if isinstance(event, Noise):
        return kind, charge, event.times, event.sensitivity, event.values.shape
    of_weights = (event.paid.rule, event.paid.times, event.paid.table.tobytes())
    if isinstance(event, Pick):
        absent = event.costs == ABSENT_COST
        return kind, charge, *of_weights, event.sets.tolist(), event.costs.shape, absent.tobytes()
    return kind, charge, *of_weights, event.place, len(event.counts)


class Transcript(Releases):
    """Every release of a fit: drawn, or the same as in an earlier transcript."""

    def __init__(self, monkeypatch, earlier=None):
        super().__init__(monkeypatch)
        self.earlier = None if earlier is None else iter(earlier.events)
        self.seen_windows = []
        self.earlier_windows = None if earlier is None else iter(earlier.seen_windows)
        monkeypatch.setattr(TargetLayout, "contributions", lambda *arguments: self.contributions(*arguments))

    def answer(self, event, draw):
        """Return a draw, or the earlier one of a mechanism that was called with the same."""
        drawn = draw()  # in any case: it uses a receipt
        if self.earlier is None:
            return drawn
        earlier = next(self.earlier)
        same = public_part(event) == public_part(earlier)  # pytest would take minutes to say how they differ
        assert same, "what a mechanism is made for follows from what was released"
        return earlier.drawn

    def contributions(self, layout, windows):
        """Return what targets add: for selections to cost what was charged, it must not depend on records."""
        seen = (windows.low.tolist(), windows.high.tolist())
        if self.earlier_windows is not None:
            same = seen == next(self.earlier_windows)
            assert same, "the windows that targets are seen through follow from releases"
        self.seen_windows.append(seen)
        return contributions(layout, windows)

    @property
    def is_complete(self):
        """Whether everything that was released before was released again."""
        return next(self.earlier, None) is None


# -- the loss of a transcript ------------------------------------------------------------------------------------------


def exponential_p(costs, table, drawn):
    """Return the exact probability of one candidate; of the thousands of a window, all would take long."""
    weights = _weights(costs, table)
    return Fraction(weights[drawn], sum(weights))


def permute_and_flip_p(costs, table, drawn):
    return permute_and_flip_pmf(costs, table)[drawn]


def loss_of_release(one, two):
    """Return how much likelier what was released is on the first data set, as a logarithm."""
    if isinstance(one, Noise):
        numerator, denominator = laplace_scale(Fraction(one.charge.epsilon), one.sensitivity)
        further = (abs(one.drawn - two.values) - abs(one.drawn - one.values)).sum()
        return float(further) * denominator / numerator
    table = one.paid.table
    if isinstance(one, Pick):
        p_of = exponential_p if one.paid.rule == "exponential mechanism" else permute_and_flip_p
        nodes = np.flatnonzero((one.costs != two.costs).any(axis=1))
        ratios = [
            [p_of(event.costs[node].tolist(), table, one.drawn[node]) for event in (one, two)]
            for node in nodes
        ]  # fmt: skip
    else:
        ratios = [[subset_median_pmf(event.counts, table)[tuple(one.drawn)] for event in (one, two)]]
    return sum(math.log(p) - math.log(q) for p, q in ratios)


def losses_of(one, two):
    """Return the loss of all releases of each charge."""
    losses = defaultdict(float)
    for event, other in zip(one.events, two.events, strict=True):
        losses[charge_of(event)] += loss_of_release(event, other)
    return dict(losses)


def check_losses(losses, ledger, epsilon):
    """Every charge covers what its releases lose, what nobody pays for loses nothing, and the total is epsilon."""
    for charge, loss in losses.items():
        assert charge is None or charge in ledger.charges
        assert abs(loss) <= (charge.total if charge else 0) * (1 + 1e-9)
    assert ledger.total == epsilon
    assert abs(sum(losses.values())) <= epsilon * (1 + 1e-9)


# -- fits of neighbours ------------------------------------------------------------------------------------------------


def draw_records(task, n, rng):
    X = np.empty((n, len(VALUES)), dtype=object)
    for j, values in enumerate(VALUES.values()):
        X[:, j] = [values[i] for i in rng.integers(len(values), size=n)]
    return X, np.array([TARGETS[task][i] for i in rng.integers(len(TARGETS[task]), size=n)], dtype=object)


def fits_of_neighbours(task, make, seed):
    """Fit two neighbours with the same coins and the same releases; return the models and the losses."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([0, 1, 3, 30]))
    X, y = draw_records(task, n + 1, rng)
    coins = rng.integers(60, size=n + 1)
    models, transcripts = [], [None]
    for size in [n, n + 1] if rng.random() < 0.5 else [n + 1, n]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(IndependentAssignment, "draws", draws_by(coins))
            transcripts.append(Transcript(patch, transcripts[-1]))
            batches = [(X[: size // 2], y[: size // 2]), (X[size // 2 : size], y[size // 2 : size])]
            models.append(make(seed).fit_batches(batches) if seed % 2 else make(seed).fit(X[:size], y[:size]))
    assert transcripts[-1].is_complete, "as much is released of the one as of the other"
    return models, losses_of(*transcripts[1:])


def domain_of(task):
    target = Numeric(0, 10) if task == "number" else Categorical(TARGETS[task])
    return Domain(FEATURES, target)


def forest(task, method, partition, epsilon, **of_all):
    shape = {"max_features": 2} if method in ("diprime-exp", "diprime-flip") else {}
    kind = DiPriMeRegressor if task == "number" else DiPriMeClassifier

    def make(seed):
        sizes = of_all or ({} if seed % 3 else {"n_estimators": 3, "max_depth": 2})
        return kind(
            epsilon, domain_of(task), method=method, partition=partition, n_jobs=1, random_state=seed, **shape, **sizes
        )

    return make


def baseline(task, kind, epsilon):
    def make(seed):
        return kind(epsilon, domain_of(task), n_estimators=2, max_depth=2, n_bins=2, n_jobs=1, random_state=seed)

    return make


@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", TARGETS)
def test_a_model_is_made_of_what_the_ledger_charged_and_nothing_else(task, method, partition):
    for seed, epsilon in itertools.product(range(4), [Fraction(1, 2), Fraction(8)]):
        models, losses = fits_of_neighbours(task, forest(task, method, partition, epsilon), seed)
        assert pickle.dumps(models[0]) == pickle.dumps(models[1])
        check_losses(losses, models[0].privacy_, epsilon)


@pytest.mark.parametrize(("task", "kind"), [(task, kind) for task, kinds in BASELINES.items() for kind in kinds])
def test_a_baseline_is_made_of_what_the_ledger_charged_and_nothing_else(task, kind):
    for seed, epsilon in itertools.product(range(4), [Fraction(1, 2), Fraction(8)]):
        models, losses = fits_of_neighbours(task, baseline(task, kind, epsilon), seed)
        assert pickle.dumps(models[0]) == pickle.dumps(models[1])
        check_losses(losses, models[0].privacy_, epsilon)


def node_window_levels(model):
    return [charge.level for charge in model.privacy_.charges if charge.kind == "target windows"]


@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("n_trees", [1, 3])
def test_windows_of_nodes_are_made_of_what_the_ledger_charged_and_nothing_else(n_trees, partition, monkeypatch):
    monkeypatch.setattr(defaults, "WINDOW_INFORMATION", Fraction(1, 1000))
    with_windows = 0
    for seed, epsilon in itertools.product(range(6), [Fraction(1, 2), Fraction(8)]):
        make = forest("number", "joint", partition, epsilon, n_estimators=n_trees, max_depth=5)
        models, losses = fits_of_neighbours("number", make, seed)
        assert pickle.dumps(models[0]) == pickle.dumps(models[1])
        check_losses(losses, models[0].privacy_, epsilon)
        with_windows += node_window_levels(models[0]) == [2, 4]
    assert with_windows >= 6, "a released count that is not negative is enough"


def notice_every_record(monkeypatch):
    """Let every default that may follow from released counts change with each record."""
    monkeypatch.setattr(defaults, "n_estimators", lambda method, rows, *_, **__: 1 + rows % 2)
    monkeypatch.setattr(defaults, "max_depth", lambda rows, *_: 1 + rows % 3)
    monkeypatch.setattr(defaults, "window_levels", lambda rows, *_: [0] if rows % 2 else [])
    monkeypatch.setattr(
        defaults, "linear_tail", lambda counts, *_: Fraction(sum(counts) % 8 if len(counts) > 1 else 0, 64)
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", TARGETS)
def test_the_shape_of_a_forest_follows_from_released_counts_and_not_from_true_ones(task, method, monkeypatch):
    notice_every_record(monkeypatch)
    shape = {"n_estimators": "auto", "max_depth": "auto"}
    for seed, partition in itertools.product(range(3), [True, False]):
        models, losses = fits_of_neighbours(task, forest(task, method, partition, Fraction(8), **shape), seed)
        assert pickle.dumps(models[0]) == pickle.dumps(models[1])
        check_losses(losses, models[0].privacy_, Fraction(8))


# -- the power of the replay: what is not released, or costs more than its charge, is found ----------------------------


def test_a_true_count_in_a_leaf_is_found(monkeypatch):
    release_leaves = train.release_leaves

    def leaky(sums, layout, *rest):
        return replace(release_leaves(sums, layout, *rest), counts=sums.sum(axis=-1) / layout.units)

    monkeypatch.setattr(train, "release_leaves", leaky)
    models, _ = fits_of_neighbours("binary", forest("binary", "joint", True, Fraction(1)), 1)
    assert pickle.dumps(models[0]) != pickle.dumps(models[1])


def of_their_numbers(target_counts, *_):
    """Return windows that tell how many records a node has."""
    return Windows(np.zeros(len(target_counts), dtype=np.int64), 2 + target_counts.sum(axis=1))


@pytest.mark.parametrize("module", [train, grow])
@pytest.mark.parametrize("partition", [True, False])
def test_a_window_that_was_not_released_is_found(partition, module, monkeypatch):
    monkeypatch.setattr(defaults, "WINDOW_INFORMATION", Fraction(1, 1000))
    monkeypatch.setattr(module, "release_windows", of_their_numbers)
    make = forest("number", "joint", partition, Fraction(8), n_estimators=2, max_depth=3)
    with pytest.raises(AssertionError, match="follow from releases"):
        fits_of_neighbours("number", make, 1)


def test_a_window_that_was_not_released_is_found_on_the_model(monkeypatch):
    """The leaves tell the window of all records."""
    monkeypatch.setattr(Transcript, "contributions", lambda _, layout, windows: contributions(layout, windows))
    monkeypatch.setattr(train, "release_windows", of_their_numbers)
    models, _ = fits_of_neighbours("number", forest("number", "joint", True, Fraction(1)), 1)
    assert pickle.dumps(models[0]) != pickle.dumps(models[1])


def test_levels_with_windows_that_follow_from_the_true_count_are_found(monkeypatch):
    """The models would have different ledgers, and different numbers of releases."""
    true_rows = []
    release_counts = train.release_counts

    def watched(target_counts, *rest):
        true_rows.append(target_counts.sum())
        return release_counts(target_counts, *rest)

    monkeypatch.setattr(train, "release_counts", watched)
    monkeypatch.setattr(defaults, "window_levels", lambda *_: [2] if true_rows[-1] % 2 else [])
    make = forest("number", "joint", True, Fraction(8), n_estimators=1, max_depth=3)
    with pytest.raises(AssertionError, match="follow"):
        fits_of_neighbours("number", make, 1)


def leaf_sums_that_count_a_record_twice(monkeypatch):
    release_leaves = train.release_leaves
    monkeypatch.setattr(train, "release_leaves", lambda sums, *rest: release_leaves(2 * sums, *rest))


def counts_that_count_a_record_twice(monkeypatch):
    release_counts = train.release_counts
    monkeypatch.setattr(train, "release_counts", lambda counts, *rest: release_counts(2 * counts, *rest))


def counts_that_another_ledger_paid_for(monkeypatch):
    release_counts = train.release_counts

    def elsewhere(counts, layout, _, source):
        return release_counts(counts, layout, receipt(DISCRETE_LAPLACE, Fraction(1, 100)), source)

    monkeypatch.setattr(train, "release_counts", elsewhere)


def weights_made_for_more(monkeypatch):
    """Make weights for four times the epsilon: random records are seldom the worst case, which test_exact_loss has."""
    monkeypatch.setattr(selection, "weight_table", lambda epsilon, *rest: weight_table(4 * epsilon, *rest))


def is_covered(losses, ledger, epsilon):
    try:
        check_losses(losses, ledger, epsilon)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize(
    ("task", "method", "break_it"),
    [
        ("binary", "diprime", leaf_sums_that_count_a_record_twice),
        ("number", "joint", leaf_sums_that_count_a_record_twice),
        ("classes", "joint", counts_that_count_a_record_twice),
        ("number", "joint", counts_that_another_ledger_paid_for),
        ("number", "joint", weights_made_for_more),
        ("binary", "joint", weights_made_for_more),
        ("binary", "diprime", weights_made_for_more),
        ("binary", "diprime-exp", weights_made_for_more),
        ("binary", "diprime-flip", weights_made_for_more),
    ],
)
def test_releases_that_lose_more_than_their_charge_are_found(task, method, break_it, monkeypatch):
    break_it(monkeypatch)
    make, covered = forest(task, method, True, Fraction(8)), []
    for seed in range(12):
        models, losses = fits_of_neighbours(task, make, seed)
        covered.append(is_covered(losses, models[0].privacy_, Fraction(8)))
    assert not all(covered)


def test_a_shape_that_follows_from_true_counts_is_found(monkeypatch):
    notice_every_record(monkeypatch)
    release_counts = train.release_counts

    def leaky(counts, *rest):
        release_counts(counts, *rest)
        return counts.tolist()

    monkeypatch.setattr(train, "release_counts", leaky)
    make = forest("binary", "joint", True, Fraction(8), n_estimators="auto", max_depth="auto")
    with pytest.raises(AssertionError, match="follows from what was released"):
        fits_of_neighbours("binary", make, 1)
