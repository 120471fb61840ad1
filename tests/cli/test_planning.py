"""Fits to synthetic data of any domain."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from diprime.cli import planning
from diprime.cli.planning import SyntheticData, rehearse
from diprime.domain import MISSING, OTHER, Categorical, Date, Domain, Integer, Numeric

FEATURES = {
    "a": Numeric(0, 10),
    "b": Numeric(1, 1000, scale="log"),
    "c": Categorical(["x", "y", "z"]),
    "d": Categorical([0, 1, "two", True * 2]),
    "e": Numeric(edges=[0, 18, 65]),
    "f": Categorical([False, True]),
    "g": Categorical(range(400)),
    "h": Integer(-3, 20),
    "i": Integer(0, 10**6),
    "j": Date("2012-10-02", "2018-09-30", parts=["weekday", "month", "hour"]),
    "k": Date(parts=["month"]),
}
TARGETS = {"classes": Categorical(["u", "v", 3]), "number": Numeric(-5, 5)}


@pytest.mark.parametrize("target", TARGETS)
def test_synthetic_rows_take_every_code(target):
    domain = Domain(FEATURES, TARGETS[target])
    X, y = SyntheticData(domain, 0).draw(20_000)
    codes = domain.encode(X)
    for j, n_codes in enumerate(domain.n_codes.tolist()):
        assert np.unique(codes[:, j]).tolist() == list(range(n_codes))
    assert not np.isin(codes[:, domain.is_categorical], [OTHER, MISSING]).any()
    targets = domain.encode_target(y)
    assert targets.min() >= 0
    assert len(np.unique(targets)) > 2


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")  # of the seed
@pytest.mark.parametrize("options", [{}, {"boost": True, "delta": 1e-7, "n_rounds": 50}], ids=["forest", "boosted"])
def test_noise_costs_accuracy_if_epsilon_is_small(target, options, monkeypatch):
    monkeypatch.setattr(planning, "estimator", partial(planning.estimator, random_state=0))
    domain = Domain({name: FEATURES[name] for name in "abc"}, TARGETS[target])
    ticks = []
    noisy, precise = (rehearse(domain, epsilon, 4000, 2, ticks.append, **options) for epsilon in (0.002, 1000))
    assert ticks == [0.5] * 4
    assert noisy.noiseless - noisy.private > 0.1
    assert abs(precise.noiseless - precise.private) < 0.05
    assert precise.noiseless > precise.guess + 0.1
    assert noisy.measure == ("accuracy" if target == "classes" else "R²")
    assert noisy.ledger.total == noisy.ledger.epsilon
    shape = noisy.shape
    if options:
        assert shape.round_noise > 100 * precise.shape.round_noise
        assert shape.n_rounds == 50
        assert noisy.ledger.delta == Fraction(1, 10**7)
    else:
        assert shape.leaf_noise > precise.shape.leaf_noise
        assert shape.records_per_leaf == 4000 / (shape.n_trees * 2**shape.depth)


def test_the_model_without_noise_has_as_many_rounds(monkeypatch):
    fitted = []

    def remembered(*arguments, **options):
        fitted.append(plain(*arguments, **options))
        return fitted[-1]

    plain = planning.estimator
    monkeypatch.setattr(planning, "estimator", remembered)
    rehearse(Domain({"a": Numeric(0, 10)}, TARGETS["classes"]), 1.0, 100, 1, lambda share: None, boost=True)
    assert [model.epsilon for model in fitted] == [1.0, math.inf]
    assert fitted[0].forest_.n_trees == fitted[1].forest_.n_trees


def test_the_noise_of_a_round_is_in_units_of_the_largest_gradient():
    domain = Domain({"a": Numeric(0, 10)}, TARGETS["number"])
    planned = rehearse(domain, 1.0, 100, 1, lambda share: None, boost=True, n_rounds=25)
    rounds = next(charge for charge in planned.ledger.charges if charge.kind == "round sums")
    # A record adds at most one unit and a count of a quarter of a unit.
    assert planned.shape.round_noise == pytest.approx(math.sqrt((1 + 1 / 16) / float(rounds.measure.mu_squared)))
