"""The joint splitter: one selection a node, at the cost that its charge states, which finds signals."""

import math
from fractions import Fraction

import numpy as np
import pytest

from diprime.domain import MISSING, Categorical, Domain, Numeric
from diprime.kernels.constants import ABSENT_COST
from diprime.model.regions import Regions
from diprime.privacy.measures import PureEpsilon
from diprime.privacy.mechanisms.selection import exponential_pmf
from diprime.privacy.randomness import RandomSource
from diprime.training.splitting import joint
from tests.candidate_splits import BINARY, CLASSES, DOMAIN, engine_of, goes_right, grow, make_splitter, paid_level
from tests.spies import Pick, Releases


@pytest.mark.parametrize("numeric", [True, False])
def test_a_signal_that_is_all_in_missingness_is_found(numeric):
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
def test_missing_values_go_to_the_side_that_they_resemble(missing_right):
    rng = np.random.default_rng(1)
    x = rng.random(3000)
    target = (x > 0.5).astype(np.int32)
    x[(rng.random(3000) < 0.4) & ((x > 0.5) == missing_right)] = np.nan
    domain = Domain({"x": Numeric(0, 1)}, target=CLASSES)
    engine = engine_of(domain.encode(x[:, None]), target, BINARY)
    structure = grow(engine, make_splitter("joint", domain), domain, 1, [Fraction(20)], RandomSource(4))
    assert goes_right(structure.masks[0, 0], np.array([MISSING, 0, 254])).tolist() == [missing_right, False, True]


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(3, 2), math.inf])
def test_a_level_is_charged_one_selection_with_the_range_that_its_weights_are_made_for(epsilon, monkeypatch):
    splitter = make_splitter("joint", DOMAIN, balance=Fraction(1, 20))
    (charge,) = splitter.charges(3, epsilon, 4, "composition")
    cost = splitter.cost(epsilon)
    assert (charge.kind, charge.level, charge.mechanism) == ("splits", 3, "exponential mechanism")
    assert charge.bound == f"cost range {cost.range} in units of 1/{cost.units}"
    assert (charge.measure, charge.times, charge.composition) == (PureEpsilon(epsilon), 4, "composition")
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


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(8)])
def test_without_a_signal_all_features_are_equally_likely_however_finely_they_are_cut(epsilon, monkeypatch):
    releases = Releases(monkeypatch)
    splitter = make_splitter("joint", UNEVEN, balance=Fraction(0))
    engine = engine_of(UNEVEN.encode(np.zeros((0, 4))), np.zeros(0, dtype=np.int32), BINARY)
    grow(engine, splitter, UNEVEN, 1, [epsilon, epsilon], RandomSource(3))
    for pick in releases.events:
        for costs in pick.costs:
            blocks = np.array(exponential_pmf(costs.tolist(), pick.paid.selection.table)).reshape(4, -1)
            chances = blocks.sum(axis=1).astype(float)
            assert chances[chances > 0] == pytest.approx(1 / (chances > 0).sum(), rel=0.01)


def test_what_is_added_to_the_costs_of_a_feature_follows_from_public_numbers(monkeypatch):
    """Of two tables, one without missing values, the offsets are the same: costs minus those without a base measure."""
    rng = np.random.default_rng(5)
    for missing in (0.0, 0.3):
        table = np.where(rng.random((200, 4)) < missing, np.nan, rng.integers(0, 2, (200, 4)).astype(float))
        engine = engine_of(UNEVEN.encode(table), rng.integers(0, 2, 200).astype(np.int32), BINARY)
        costs = []
        for offsets in (joint.offsets_of_equal_features, lambda *_: np.zeros(1 << 10, dtype=np.int64)):
            with monkeypatch.context() as patch:
                patch.setattr(joint, "offsets_of_equal_features", offsets)
                releases = Releases(patch)
                splitter = make_splitter("joint", UNEVEN, balance=Fraction(0))
                grow(engine, splitter, UNEVEN, 1, [Fraction(1)], RandomSource(3))
                costs.append(next(e for e in releases.events if isinstance(e, Pick)).costs.reshape(4, -1))
        present = costs[0] != ABSENT_COST
        added = [set((a - b)[p].tolist()) for a, b, p in zip(*costs, present, strict=True)]
        expected = joint.offsets_of_equal_features(splitter.cost(Fraction(1)).range, Fraction(1), costs[0].shape[1])[
            [2 * 255, 2 * 24, 7, 276]
        ]
        assert added == [{e} for e in expected.tolist()]
