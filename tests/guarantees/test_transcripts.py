"""Neighbouring data with the same released numbers: models are equal to the bit, and the numbers cost what was charged.

On one data set the mechanisms draw; on its neighbour they answer what was drawn before. Whatever else a fit makes of
its records shows as a difference between the two models. The exact loss of everything that was drawn must stay below
the total of the ledger, and the loss of the releases of each charge below what that charge costs.
"""

import itertools
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from diprime import Categorical, DiPriMeClassifier, DiPriMeRegressor, Domain, Numeric, sources
from diprime.domain.encoding import ClippingRanges
from diprime.forest import defaults, train
from diprime.paper import DPDecisionForestClassifier, DPRandomForestClassifier, DPRandomForestRegressor
from diprime.privacy.charges import Mechanism, ReleaseKind
from diprime.privacy.mechanisms import selection
from diprime.privacy.mechanisms.selection import weight_table
from tests.guarantees.replay import (
    FEATURES,
    Transcript,
    check_losses,
    contributions,
    draw_records,
    losses_of,
    replay,
)
from tests.paid import receipt


@pytest.fixture(autouse=True)
def scarce_or_not(monkeypatch):
    """Let fits of the few records here be on both sides of what is scarce information."""
    monkeypatch.setattr(defaults, "SCARCE", 10)


pytestmark = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")

TARGETS = {"binary": list("pq"), "classes": list("pqrs"), "number": [0.0, 3.0, 7.7, 11.0]}
METHODS = ["joint", "diprime", "diprime-exp", "diprime-flip", "random"]
BASELINES = {
    "binary": [DPRandomForestClassifier, DPDecisionForestClassifier],
    "classes": [DPRandomForestClassifier, DPDecisionForestClassifier],
    "number": [DPRandomForestRegressor],
}


# -- fits of neighbours ------------------------------------------------------------------------------------------------


def fits_of_neighbours(task, make, seed):
    """Fit two neighbours with the same coins and the same releases; return the models and the losses."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([0, 1, 3, 30]))
    X, y = draw_records(TARGETS[task], n + 1, rng)
    coins = rng.integers(60, size=n + 1)

    def fit(size):
        batches = [(X[: size // 2], y[: size // 2]), (X[size // 2 : size], y[size // 2 : size])]
        return make(seed).fit(sources.batches(batches)) if seed % 2 else make(seed).fit(X[:size], y[:size])

    models, transcripts = replay(fit, n, n + 1, rng, coins)
    return models, losses_of(*transcripts)


def domain_of(task):
    target = Numeric(0, 10) if task == "number" else Categorical(TARGETS[task])
    return Domain(FEATURES, target)


def forest(task, method, disjoint_rows, epsilon, **of_all):
    shape = {"max_features": 2} if method in ("diprime-exp", "diprime-flip") else {}
    kind = DiPriMeRegressor if task == "number" else DiPriMeClassifier

    def make(seed):
        sizes = of_all or ({} if seed % 3 else {"n_estimators": 3, "max_depth": 2})
        return kind(
            epsilon,
            domain_of(task),
            method=method,
            disjoint_rows=disjoint_rows,
            n_jobs=1,
            random_state=seed,
            **shape,
            **sizes,
        )

    return make


def baseline(task, kind, epsilon):
    def make(seed):
        return kind(epsilon, domain_of(task), n_estimators=2, max_depth=2, n_bins=2, n_jobs=1, random_state=seed)

    return make


@pytest.mark.parametrize("disjoint_rows", [True, False])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", TARGETS)
def test_model_contains_only_charged_releases(task, method, disjoint_rows):
    for seed, epsilon in itertools.product(range(4), [Fraction(1, 2), Fraction(8)]):
        models, losses = fits_of_neighbours(task, forest(task, method, disjoint_rows, epsilon), seed)
        assert pickle.dumps(models[0]) == pickle.dumps(models[1])
        check_losses(losses, models[0].privacy_, epsilon)


@pytest.mark.parametrize(("task", "kind"), [(task, kind) for task, kinds in BASELINES.items() for kind in kinds])
def test_baseline_contains_only_charged_releases(task, kind):
    for seed, epsilon in itertools.product(range(4), [Fraction(1, 2), Fraction(8)]):
        models, losses = fits_of_neighbours(task, baseline(task, kind, epsilon), seed)
        assert pickle.dumps(models[0]) == pickle.dumps(models[1])
        check_losses(losses, models[0].privacy_, epsilon)


def node_window_levels(model):
    return [charge.level for charge in model.privacy_.charges if charge.kind == ReleaseKind.NODE_WINDOWS]


@pytest.mark.parametrize("disjoint_rows", [True, False])
@pytest.mark.parametrize("n_trees", [1, 3])
def test_clipping_ranges_of_nodes_contain_only_charged_releases(n_trees, disjoint_rows, monkeypatch):
    monkeypatch.setattr(defaults, "WINDOW_INFORMATION", Fraction(1, 1000))
    with_windows = 0
    for seed, epsilon in itertools.product(range(6), [Fraction(1, 2), Fraction(8)]):
        make = forest("number", "joint", disjoint_rows, epsilon, n_estimators=n_trees, max_depth=5)
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
def test_forest_shape_depends_on_released_counts_only(task, method, monkeypatch):
    notice_every_record(monkeypatch)
    shape = {"n_estimators": "auto", "max_depth": "auto"}
    for seed, disjoint_rows in itertools.product(range(3), [True, False]):
        models, losses = fits_of_neighbours(task, forest(task, method, disjoint_rows, Fraction(8), **shape), seed)
        assert pickle.dumps(models[0]) == pickle.dumps(models[1])
        check_losses(losses, models[0].privacy_, Fraction(8))


# -- the power of the replay: what is not released, or costs more than its charge, is found ----------------------------


def test_exact_count_in_a_leaf_is_detected(monkeypatch):
    release_leaves = train.release_leaves

    def leaky(sums, layout, *rest):
        return replace(release_leaves(sums, layout, *rest), counts=sums.sum(axis=-1) / layout.units)

    monkeypatch.setattr(train, "release_leaves", leaky)
    models, _ = fits_of_neighbours("binary", forest("binary", "joint", True, Fraction(1)), 1)
    assert pickle.dumps(models[0]) != pickle.dumps(models[1])


def windows_of_true_numbers(monkeypatch, kind):
    """Let windows of one kind tell how many records a node has, and give up the receipts for them."""
    release_windows = train.release_windows

    def leaky(target_counts, layout, receipt, source):
        if receipt.charge.kind is not kind:
            return release_windows(target_counts, layout, receipt, source)
        receipt.cancel()
        return ClippingRanges(np.zeros(len(target_counts), dtype=np.int64), 2 + target_counts.sum(axis=1))

    monkeypatch.setattr(train, "release_windows", leaky)
    monkeypatch.setattr(defaults, "SCARCE", Fraction(1, 1000))  # or a fit of so few records ignores them


@pytest.mark.parametrize("kind", [ReleaseKind.TARGET_WINDOW, ReleaseKind.NODE_WINDOWS])
@pytest.mark.parametrize("disjoint_rows", [True, False])
def test_unreleased_clipping_range_is_detected(disjoint_rows, kind, monkeypatch):
    monkeypatch.setattr(defaults, "WINDOW_INFORMATION", Fraction(1, 1000))
    windows_of_true_numbers(monkeypatch, kind)
    make = forest("number", "joint", disjoint_rows, Fraction(8), n_estimators=2, max_depth=3)
    with pytest.raises(AssertionError, match="follow from releases"):
        fits_of_neighbours("number", make, 1)


def test_unreleased_clipping_range_on_the_model_is_detected(monkeypatch):
    """The leaves tell the window of all records."""
    monkeypatch.setattr(Transcript, "contributions", lambda _, layout, windows: contributions(layout, windows))
    windows_of_true_numbers(monkeypatch, ReleaseKind.TARGET_WINDOW)
    models, _ = fits_of_neighbours("number", forest("number", "joint", True, Fraction(1)), 1)
    assert pickle.dumps(models[0]) != pickle.dumps(models[1])


def test_clipping_ranges_by_exact_counts_are_detected(monkeypatch):
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

    def elsewhere(counts, layout, own, source):
        own.cancel()
        return release_counts(counts, layout, receipt(Mechanism.DISCRETE_LAPLACE, Fraction(1, 100)), source)

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
def test_releases_that_lose_more_than_their_charge_are_detected(task, method, break_it, monkeypatch):
    break_it(monkeypatch)
    make, covered = forest(task, method, True, Fraction(8)), []
    for seed in range(12):
        models, losses = fits_of_neighbours(task, make, seed)
        covered.append(is_covered(losses, models[0].privacy_, Fraction(8)))
    assert not all(covered)


def test_forest_shape_from_exact_counts_is_detected(monkeypatch):
    notice_every_record(monkeypatch)
    release_counts = train.release_counts

    def leaky(counts, *rest):
        release_counts(counts, *rest)
        return counts.tolist()

    monkeypatch.setattr(train, "release_counts", leaky)
    make = forest("binary", "joint", True, Fraction(8), n_estimators="auto", max_depth="auto")
    with pytest.raises(AssertionError, match=r"follows .*released"):
        fits_of_neighbours("binary", make, 1)
