"""The splitter that settings name.

The joint splitter: one selection a node, at the cost that its charge states, which finds signals.

The median splitter: private medians and a choice among them, each at the cost that its charge states.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from diprime.domain import MISSING, Categorical, Domain, Numeric
from diprime.forest import defaults, splitters
from diprime.forest.candidates import MEDIAN_RANGE, CategoricalCandidates
from diprime.forest.engine import NodeHistograms
from diprime.forest.plan import ForestSettings
from diprime.forest.splitters import JointSplitter, MedianSplitter, quality
from diprime.forest.sums import STRICT
from diprime.kernels.constants import ABSENT_COST
from diprime.model.trees import Regions
from diprime.paper import PUBLISHED
from diprime.privacy.charges import Mechanism, ReleaseKind
from diprime.privacy.measures import PureEpsilon
from diprime.privacy.mechanisms.selection import MAX_CATEGORIES, exponential_pmf
from diprime.privacy.randomness import RandomSource
from tests.candidate_splits import (
    BINARY,
    CLASSES,
    DOMAIN,
    ONE,
    engine_of,
    goes_right,
    grow,
    make_splitter,
    paid_level,
    root_histograms,
)
from tests.spies import Pick, Releases

SETTINGS = ForestSettings(
    epsilon=Fraction(1),
    method="joint",
    n_estimators=1,
    max_depth=3,
    max_features=2,
    split_share=None,
    balance=None,
    disjoint_rows=True,
    policy=STRICT,
    verbose=False,
    max_records_per_group=1,
)
TAIL = Fraction(1, 8)


@pytest.mark.parametrize("policy", [STRICT, PUBLISHED])
@pytest.mark.parametrize(
    ("method", "rule", "looks_at_data"),
    [
        ("diprime", Mechanism.EXPONENTIAL, True),
        ("diprime-exp", Mechanism.EXPONENTIAL, True),
        ("diprime-flip", Mechanism.PERMUTE_AND_FLIP, True),
        ("random", Mechanism.EXPONENTIAL, False),
    ],
)
def test_methods_of_the_paper_split_at_medians(method, rule, looks_at_data, policy):
    splitter = splitters.make_splitter(DOMAIN, replace(SETTINGS, method=method, policy=policy), TAIL, RandomSource(0))
    assert isinstance(splitter, MedianSplitter)
    assert (splitter.rule, splitter.looks_at_data, splitter.max_features) == (rule, looks_at_data, 2)
    assert splitter.policy is policy


@pytest.mark.parametrize("epsilon", [Fraction(1), math.inf])
@pytest.mark.parametrize("target", [DOMAIN.target, Numeric(0, 1)])
def test_joint_takes_its_balance_from_the_settings_or_from_the_defaults(target, epsilon):
    domain, settings = Domain(DOMAIN.features, target), replace(SETTINGS, epsilon=epsilon)
    splitter = splitters.make_splitter(domain, settings, TAIL, RandomSource(0))
    assert isinstance(splitter, JointSplitter)
    assert (splitter.max_features, splitter.linear_tail, splitter.looks_at_data) == (2, TAIL, True)
    classification = target is DOMAIN.target
    assert splitter.balance == defaults.balance(classification=classification, epsilon=epsilon)
    given = splitters.make_splitter(domain, replace(settings, balance=Fraction(1, 3)), TAIL, RandomSource(0))
    assert given.balance == Fraction(1, 3)


@pytest.mark.parametrize("numeric", [True, False])
def test_signal_in_missing_values_is_found(numeric):
    rng = np.random.default_rng(1)
    n = 2000
    missing = rng.random(n) < 0.3
    noise = Numeric(0, 1)
    if numeric:
        domain = Domain({"noise": noise, "signal": Numeric(0, 1)}, target=CLASSES)
        column = np.where(missing, np.nan, rng.random(n))
    else:
        domain = Domain({"noise": noise, "signal": Categorical(range(20))}, target=CLASSES)
        column = np.where(missing, np.nan, rng.integers(0, 20, n))
    codes = domain.encode(np.stack([rng.random(n), column], axis=1))
    target = missing.astype(np.int32)
    splitter = make_splitter("joint", domain, balance=Fraction(0))
    for epsilon in (Fraction(20), math.inf):
        structure = grow(engine_of(codes, target, BINARY), splitter, domain, 1, [epsilon], RandomSource(4))
        assert structure.features[0, 0] == 1
        right = goes_right(structure.masks[0, 0], codes[:, 1])
        assert (right == missing).all() or (right == ~missing).all()


@pytest.mark.parametrize("missing_right", [False, True])
def test_missing_values_go_to_the_similar_side(missing_right):
    rng = np.random.default_rng(1)
    x = rng.random(3000)
    target = (x > 0.5).astype(np.int32)
    x[(rng.random(3000) < 0.4) & ((x > 0.5) == missing_right)] = np.nan
    domain = Domain({"x": Numeric(0, 1)}, target=CLASSES)
    engine = engine_of(domain.encode(x[:, None]), target, BINARY)
    structure = grow(engine, make_splitter("joint", domain), domain, 1, [Fraction(20)], RandomSource(4))
    assert goes_right(structure.masks[0, 0], np.array([MISSING, 0, 254])).tolist() == [missing_right, False, True]


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(3, 2), math.inf])
def test_level_is_charged_one_selection_with_the_calibrated_range(epsilon, monkeypatch):
    splitter = make_splitter("joint", DOMAIN, balance=Fraction(1, 20))
    (charge,) = splitter.charges(3, epsilon, 4, "composition")
    cost = splitter.cost(epsilon)
    assert (charge.kind, charge.level, charge.mechanism) == (ReleaseKind.SPLITS, 3, Mechanism.EXPONENTIAL)
    assert str(charge.sensitivity) == f"cost range {cost.range} in units of 1/{cost.units}"
    assert (charge.measure, charge.n_releases, charge.composition) == (PureEpsilon(epsilon), 4, "composition")
    assert charge.strict_measure is None
    releases = Releases(monkeypatch)
    level = paid_level(splitter, Regions.roots(DOMAIN, 6), epsilon, RandomSource(0))
    (paid,) = releases.selections
    assert level.cost == cost
    assert (paid.epsilon, paid.cost_range, paid.times) == (epsilon, cost.range, 1)
    assert paid.n_candidates == level.candidates.n_slots * DOMAIN.n_features


UNEVEN = Domain(
    {
        "fine": Numeric(0, 1),
        "coarse": Numeric(edges=range(23)),
        "few": Categorical(range(2)),
        "many": Categorical(range(20)),
    },
    target=CLASSES,
)


@pytest.mark.parametrize("person_weight", [1, 12])
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(8)])
def test_features_are_equally_likely_without_signal_for_any_number_of_bins(epsilon, person_weight, monkeypatch):
    releases = Releases(monkeypatch)
    splitter = make_splitter("joint", UNEVEN, balance=Fraction(0), person_weight=person_weight)
    engine = engine_of(UNEVEN.encode(np.zeros((0, 4))), np.zeros(0, dtype=np.int32), BINARY)
    grow(engine, splitter, UNEVEN, 1, [epsilon, epsilon], RandomSource(3))
    for pick in releases.events:
        for costs in pick.costs:
            blocks = np.array(exponential_pmf(costs.tolist(), pick.paid.selection.table)).reshape(4, -1)
            chances = blocks.sum(axis=1).astype(float)
            assert chances[chances > 0] == pytest.approx(1 / (chances > 0).sum(), rel=0.01)


def test_cost_offsets_of_features_follow_from_public_numbers(monkeypatch):
    """Of two tables, one without missing values, the offsets are the same: costs minus those without a base measure."""
    rng = np.random.default_rng(5)
    for missing in (0.0, 0.3):
        table = np.where(rng.random((200, 4)) < missing, np.nan, rng.integers(0, 2, (200, 4)).astype(float))
        engine = engine_of(UNEVEN.encode(table), rng.integers(0, 2, 200).astype(np.int32), BINARY)
        costs = []
        for offsets in (splitters.offsets_of_equal_features, lambda *_: np.zeros(1 << 10, dtype=np.int64)):
            with monkeypatch.context() as patch:
                patch.setattr(splitters, "offsets_of_equal_features", offsets)
                releases = Releases(patch)
                splitter = make_splitter("joint", UNEVEN, balance=Fraction(0))
                grow(engine, splitter, UNEVEN, 1, [Fraction(1)], RandomSource(3))
                costs.append(next(e for e in releases.events if isinstance(e, Pick)).costs.reshape(4, -1))
        present = costs[0] != ABSENT_COST
        added = [set((a - b)[p].tolist()) for a, b, p in zip(*costs, present, strict=True)]
        expected = splitters.offsets_of_equal_features(
            splitter.cost(Fraction(1)).range, Fraction(1), costs[0].shape[1]
        )[[2 * 255, 2 * 24, 7, 276]]
        assert added == [{e} for e in expected.tolist()]


def splitter_of(k, rule=Mechanism.EXPONENTIAL, policy=STRICT):
    return MedianSplitter(DOMAIN, CategoricalCandidates.draw(DOMAIN, RandomSource(0)), k, rule, policy)


def test_many_categories_are_grouped_independently_of_data(monkeypatch):
    k = 100
    domain = Domain({"c": Categorical(range(k))}, target=CLASSES)
    splitter = make_splitter("diprime", domain)
    orders, permutation = [], splitters.permutation

    def watched(stream, n):
        orders.append(permutation(stream, n))
        return orders[-1]

    monkeypatch.setattr(splitters, "permutation", watched)
    releases = Releases(monkeypatch)
    for column in (np.zeros(500), np.arange(500) % k, np.arange(500) ** 2 % 37):
        codes = column.astype(np.uint8)[:, None]
        level = paid_level(splitter, Regions.roots(domain, 1), Fraction(1), RandomSource(3))
        level.choose(root_histograms(codes, np.zeros(500, dtype=np.int32), BINARY), 0, 1, ONE)
        cells = np.bincount(codes[:, 0], minlength=k + 2)
        sums = np.bincount(orders[-1] % MAX_CATEGORIES, weights=cells).astype(int)
        assert releases.selections[-1].picks[-1].counts == sums.tolist()
    assert len(orders) == 3
    assert (orders[0] == orders[1]).all()
    assert (orders[0] == orders[2]).all()
    sizes = np.bincount(orders[0] % MAX_CATEGORIES)
    assert len(sizes) == MAX_CATEGORIES
    assert set(sizes) <= {6, 7}  # 102 codes


def test_random_splits_are_uniform_over_the_thresholds():
    domain = Domain({"x": Numeric(edges=[1, 2, 3])}, target=CLASSES)
    level = paid_level(make_splitter("random", domain), Regions.roots(domain, 16_000), Fraction(0), RandomSource(0))
    level.choose(NodeHistograms.empty(16_000, 1, BINARY), 0, 16_000, ONE)
    masks, counts = np.unique(level.masks, axis=0, return_counts=True)
    assert len(masks) == 8
    assert (abs(counts - 2000) < 5 * math.sqrt(2000)).all()


@pytest.mark.parametrize("rule", [Mechanism.EXPONENTIAL, Mechanism.PERMUTE_AND_FLIP])
@pytest.mark.parametrize("epsilon", [Fraction(3, 2), math.inf])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_medians_and_choices_are_charged_at_their_calibration(k, epsilon, rule, monkeypatch):
    splitter = splitter_of(k, rule)
    charges = splitter.charges(2, epsilon, 3, "composition")
    assert [charge.kind for charge in charges] == [ReleaseKind.MEDIANS, ReleaseKind.CHOICES][: min(k, 2)]
    assert {(charge.level, charge.mechanism, charge.strict_measure) for charge in charges} == {(2, rule, None)}
    assert [charge.n_releases for charge in charges] == [3 * k, 3][: len(charges)]
    assert sum(charge.total for charge in charges) == 3 * epsilon
    releases = Releases(monkeypatch)
    paid_level(splitter, Regions.roots(DOMAIN, 6), epsilon, RandomSource(0))
    ranges = [MEDIAN_RANGE, quality(1).range]
    for paid, charge, cost_range, times in zip(releases.selections, charges, ranges, (k, 1), strict=False):
        assert (paid.epsilon, paid.cost_range, paid.times) == (charge.epsilon, cost_range, times)
        assert charge.sensitivity.n == cost_range
    assert len(releases.selections) == len(charges)


@pytest.mark.parametrize("weight", [2, 5, 12])
def test_medians_and_choices_of_persons_are_charged_for_all_records_of_one(weight, monkeypatch):
    splitter = replace(splitter_of(2), person_weight=weight)
    ranges = [MEDIAN_RANGE * weight, quality(weight).range * weight]
    charges = splitter.charges(2, Fraction(1), 3, "composition")
    assert [charge.sensitivity.n for charge in charges] == ranges
    releases = Releases(monkeypatch)
    paid_level(splitter, Regions.roots(DOMAIN, 6), Fraction(1), RandomSource(0))
    assert [paid.cost_range for paid in releases.selections] == ranges
