"""Neighbouring data with the same released numbers: models are equal to the bit, and the numbers cost what was charged.

Every release goes through three functions. Here they are replaced: on one data set they draw, on its neighbour they say
what was drawn before. Whatever else a fit makes of its records shows as a difference between the two models, and the
exact loss of all that was drawn must stay below the total of the ledger.
"""

import itertools
import math
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from diprime import Categorical, DiPriMeClassifier, DiPriMeRegressor, Domain, Numeric, leaves, splitters
from diprime import growth as forest_growth
from diprime.baselines import (
    DPDecisionForestClassifier,
    DPRandomForestClassifier,
    DPRandomForestRegressor,
    growth,
    recipes,
)
from diprime.domain.target_layout import TargetLayout, Windows
from diprime.privacy.mechanisms.laplace import discrete_laplace, laplace_scale
from diprime.privacy.mechanisms.selection import ABSENT_COST, _weights, permute_and_flip_pmf, select
from diprime.privacy.mechanisms.subsets import subset_median, subset_median_pmf
from diprime.training import counts as overview
from diprime.training import defaults, windows
from diprime.training import train as training

contributions = TargetLayout.contributions

TARGETS = {"binary": list("pq"), "classes": list("pqrs"), "number": [0.0, 3.0, 7.7, 11.0]}
FEATURES = {"x": Numeric(edges=[1, 2]), "letter": Categorical(["a", "b"]), "y": Numeric(edges=[0, 5])}
VALUES = {"x": [0, 1.5, 9, None], "letter": ["a", "b", "z", None], "y": [-1, 3, 7, None]}
METHODS = ["joint", "diprime", "diprime-exp", "diprime-flip", "random"]
BASELINES = {
    "binary": [DPRandomForestClassifier, DPDecisionForestClassifier],
    "classes": [DPRandomForestClassifier, DPDecisionForestClassifier],
    "number": [DPRandomForestRegressor],
}


class Transcript:
    """Stands in for the mechanisms: draws and keeps what was drawn, or repeats an earlier transcript."""

    def __init__(self, monkeypatch, earlier=None):
        self.releases = []
        self.earlier = None if earlier is None else iter(earlier.releases)
        for module in (splitters, windows, growth):
            monkeypatch.setattr(module, "select", self.select)
        for module in (overview, leaves, recipes):
            monkeypatch.setattr(module, "discrete_laplace", self.discrete_laplace)
        monkeypatch.setattr(splitters, "subset_median", self.subset_median)
        self.looks = []
        self.earlier_looks = None if earlier is None else iter(earlier.looks)
        monkeypatch.setattr(TargetLayout, "contributions", lambda *arguments: self.contributions(*arguments))

    def released(self, draw, made_for, private):
        """Return a draw, or the earlier one of a mechanism that was made for the same."""
        if self.earlier is not None:
            draw, made_for_earlier, _ = next(self.earlier)
            assert made_for == made_for_earlier, "what a mechanism is made for follows from what was released"
        self.releases.append((draw, made_for, private))
        return draw.copy()

    def select(self, rule, costs, table, streams, twice=None):
        if twice is not None:
            blocks = costs.reshape(*twice.shape, -1)
            half = blocks.shape[2] // 2
            blocks[twice > 0, half:] = blocks[twice > 0, :half]
        made_for = (rule, costs.shape, (costs == ABSENT_COST).tobytes(), table.tobytes())
        return self.released(select(rule, costs, table, streams), made_for, (costs, table))

    def discrete_laplace(self, values, epsilon, sensitivity, streams):
        made_for = (values.shape, epsilon, sensitivity)
        return self.released(discrete_laplace(values, epsilon, sensitivity, streams), made_for, values)

    def subset_median(self, counts, table, stream):
        return self.released(subset_median(counts, table, stream), (len(counts), table.tobytes()), (counts, table))

    def contributions(self, layout, windows):
        """Return what targets add: for selections to cost what was charged, it must not depend on records."""
        look = (windows.low.tolist(), windows.high.tolist())
        if self.earlier_looks is not None:
            assert look == next(self.earlier_looks), "the windows that targets are seen through follow from releases"
        self.looks.append(look)
        return contributions(layout, windows)


def exponential_p(costs, table, drawn):
    """Return the exact probability of one candidate; of the thousands of a window, all would take long."""
    weights = _weights(costs, table)
    return Fraction(weights[drawn], sum(weights))


def permute_and_flip_p(costs, table, drawn):
    return permute_and_flip_pmf(costs, table)[drawn]


def loss_of(one, two):
    """Return how much likelier all that was released is on the first data set, as a logarithm."""
    loss = 0.0
    for (draw, made_for, before), (_, _, after) in zip(one.releases, two.releases, strict=True):
        if isinstance(before, np.ndarray):
            numerator, denominator = laplace_scale(Fraction(made_for[1]), made_for[2])
            loss += float((abs(draw - after) - abs(draw - before)).sum()) * denominator / numerator
        elif isinstance(before[0], list):
            p, q = (subset_median_pmf(*private)[tuple(draw)] for private in (before, after))
            loss += math.log(p) - math.log(q)
        else:
            pmf = exponential_p if made_for[0] == "exponential" else permute_and_flip_p
            for node in np.flatnonzero((before[0] != after[0]).any(axis=1)):
                p, q = (pmf(costs[node].tolist(), table, draw[node]) for costs, table in (before, after))
                loss += math.log(p) - math.log(q)
    return loss


def fits_of_neighbours(task, make, seed, monkeypatch):
    """Fit two neighbours with the same coins and the same releases; return the models and the loss."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([0, 1, 3, 30]))
    X = np.empty((n + 1, 3), dtype=object)
    for j, values in enumerate(VALUES.values()):
        X[:, j] = [values[i] for i in rng.integers(len(values), size=n + 1)]
    y = np.array([TARGETS[task][i] for i in rng.integers(len(TARGETS[task]), size=n + 1)], dtype=object)
    coins = rng.integers(60, size=n + 1)
    monkeypatch.setattr(
        training, "assign_trees", lambda n_rows, n_parts, *_, **__: (coins[:n_rows] % n_parts).astype(np.uint16)
    )
    sizes = [n, n + 1] if rng.random() < 0.5 else [n + 1, n]
    models, transcripts = [], [None]
    for size in sizes:
        transcripts.append(Transcript(monkeypatch, transcripts[-1]))
        batches = [(X[: size // 2], y[: size // 2]), (X[size // 2 : size], y[size // 2 : size])]
        models.append(make(seed).fit_batches(batches) if seed % 2 else make(seed).fit(X[:size], y[:size]))
    assert next(transcripts[-1].earlier, None) is None, "as much is released of the one as of the other"
    return models, loss_of(*transcripts[1:])


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


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", TARGETS)
def test_a_model_is_made_of_what_the_ledger_charged_and_nothing_else(task, method, partition, monkeypatch):
    for seed, epsilon in itertools.product(range(4), [Fraction(1, 2), Fraction(8)]):
        models, loss = fits_of_neighbours(task, forest(task, method, partition, epsilon), seed, monkeypatch)
        assert pickle.dumps(models[0]) == pickle.dumps(models[1])
        assert models[0].privacy_.total == epsilon
        assert abs(loss) <= epsilon * (1 + 1e-9)


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize(("task", "kind"), [(task, kind) for task, kinds in BASELINES.items() for kind in kinds])
def test_a_baseline_is_made_of_what_the_ledger_charged_and_nothing_else(task, kind, monkeypatch):
    for seed, epsilon in itertools.product(range(4), [Fraction(1, 2), Fraction(8)]):

        def make(seed, epsilon=epsilon):
            return kind(epsilon, domain_of(task), n_estimators=2, max_depth=2, n_bins=2, n_jobs=1, random_state=seed)

        models, loss = fits_of_neighbours(task, make, seed, monkeypatch)
        assert pickle.dumps(models[0]) == pickle.dumps(models[1])
        assert models[0].privacy_.total == epsilon
        assert abs(loss) <= epsilon * (1 + 1e-9)


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_a_true_count_in_a_leaf_is_found(monkeypatch):
    release = training.release

    def leaky(sums, layout, *arguments, **options):
        released = release(sums, layout, *arguments, **options)
        return replace(released, counts=sums.sum(axis=-1) / layout.units)

    monkeypatch.setattr(training, "release", leaky)
    models, _ = fits_of_neighbours("binary", forest("binary", "joint", True, Fraction(1)), 1, monkeypatch)
    assert pickle.dumps(models[0]) != pickle.dumps(models[1])


def window_levels(model):
    return [c.what[-1] for c in model.privacy_.charges if c.what.startswith("target windows of level")]


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("n_trees", [1, 3])
def test_windows_of_nodes_are_made_of_what_the_ledger_charged_and_nothing_else(n_trees, partition, monkeypatch):
    monkeypatch.setattr(defaults, "WINDOW_NEEDS", Fraction(1, 1000))
    with_windows = 0
    for seed, epsilon in itertools.product(range(6), [Fraction(1, 2), Fraction(8)]):
        make = forest("number", "joint", partition, epsilon, n_estimators=n_trees, max_depth=5)
        models, loss = fits_of_neighbours("number", make, seed, monkeypatch)
        assert pickle.dumps(models[0]) == pickle.dumps(models[1])
        assert models[0].privacy_.total == epsilon
        assert abs(loss) <= epsilon * (1 + 1e-9)
        with_windows += window_levels(models[0]) == ["2", "4"]
    assert with_windows >= 6, "a released count that is not negative is enough"


def of_their_numbers(targets, layout, *_):
    """Return windows that tell how many records a node has."""
    return Windows(np.zeros(len(targets), dtype=np.int64), 2 + targets.sum(axis=1))


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize("module", [training, forest_growth])
@pytest.mark.parametrize("partition", [True, False])
def test_a_window_that_was_not_released_is_found(partition, module, monkeypatch):
    monkeypatch.setattr(defaults, "WINDOW_NEEDS", Fraction(1, 1000))
    monkeypatch.setattr(module, "release_windows", of_their_numbers)
    make = forest("number", "joint", partition, Fraction(8), n_estimators=2, max_depth=3)
    with pytest.raises(AssertionError, match="follow from releases"):
        fits_of_neighbours("number", make, 1, monkeypatch)


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_a_window_that_was_not_released_is_found_on_the_model(monkeypatch):
    """The leaves tell the window of all records."""
    monkeypatch.setattr(Transcript, "contributions", lambda _, layout, windows: contributions(layout, windows))
    monkeypatch.setattr(training, "release_windows", of_their_numbers)
    models, _ = fits_of_neighbours("number", forest("number", "joint", True, Fraction(1)), 1, monkeypatch)
    assert pickle.dumps(models[0]) != pickle.dumps(models[1])


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_levels_with_windows_that_follow_from_the_true_count_are_found(monkeypatch):
    """The models would have different ledgers, and different numbers of releases."""
    true_rows = []
    original = training.release_counts
    monkeypatch.setattr(
        training, "release_counts", lambda target, *rest: true_rows.append(len(target)) or original(target, *rest)
    )
    monkeypatch.setattr(defaults, "window_levels", lambda *_: [2] if true_rows[-1] % 2 else [])
    make = forest("number", "joint", True, Fraction(8), n_estimators=1, max_depth=3)
    with pytest.raises(AssertionError, match="follow"):
        fits_of_neighbours("number", make, 1, monkeypatch)
