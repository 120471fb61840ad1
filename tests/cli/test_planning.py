"""Fits to synthetic data of any domain."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import polars as pl
import pytest

from diprime.cli import planning
from diprime.cli.planning import estimator, rehearse
from diprime.domain import Categorical, Domain, Numeric

FEATURES = {"a": Numeric(0, 10), "b": Numeric(1, 1000, scale="log"), "c": Categorical(["x", "y", "z"])}
TARGETS = {"classes": Categorical(["u", "v", 3]), "number": Numeric(-5, 5)}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")  # of the seed
@pytest.mark.parametrize("options", [{}, {"boost": True, "delta": 1e-7, "n_rounds": 50}], ids=["forest", "boosted"])
def test_noise_costs_accuracy_if_epsilon_is_small(target, options, monkeypatch):
    monkeypatch.setattr(planning, "estimator", partial(planning.estimator, random_state=0))
    domain = Domain(FEATURES, TARGETS[target])
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


# Open domains --------------------------------------------------------------------------------------------------------

OPEN = {"a": Numeric(), "b": Numeric(scale="log"), "c": Categorical(), "d": Numeric(0, 1)}
BOOSTED = {"boost": True, "delta": 1e-5, "n_rounds": 20}
FOREST = {"n_estimators": 2, "max_depth": 3}
OPEN_TARGETS = {
    "classes": (Categorical(["no", "yes"]), FOREST),
    "open number": (Numeric(), FOREST),
    "boosted, open classes": (Categorical(), BOOSTED),
    "boosted, open number": (Numeric(), BOOSTED),
}


def real_rows(n_rows, target):
    """Return rows that have nothing in common with the synthetic ones."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(-40, 1e-3, n_rows)
    columns = {"a": numbers, "b": rng.lognormal(9, 1, n_rows), "c": rng.choice(["p", "q"], n_rows), "d": numbers}
    y = pl.Series(numbers) if isinstance(target, Numeric) else pl.Series(rng.choice(["no", "yes"], n_rows))
    return pl.DataFrame(columns), y


@pytest.mark.parametrize("max_records", [1, 3])
@pytest.mark.parametrize("case", OPEN_TARGETS)
def test_the_planned_ledger_of_an_open_domain_is_that_of_a_fit(case, max_records):
    target, options = OPEN_TARGETS[case]
    domain, options = Domain(OPEN, target), options | {"max_records_per_group": max_records}
    planned = rehearse(domain, 2.0, 6000, 1, lambda share: None, **options)
    groups = {} if max_records == 1 else {"groups": np.arange(6000) // max_records}
    model = estimator(domain, 2.0, **options).fit(*real_rows(6000, target), **groups)
    assert planned.ledger == model.privacy_
    learning = [charge for charge in planned.ledger.charges if charge.what.startswith("domain: ")]
    assert sum(charge.total for charge in learning) == Fraction(2, 10)
    assert planned.ledger.total == 2
    assert planned.noiseless > planned.guess + 0.1


def test_classes_that_a_fit_could_not_learn_are_refused_by_its_plan():
    with pytest.raises(ValueError, match="without a delta they cannot be learnt"):
        rehearse(Domain(OPEN, Categorical()), 1.0, 100, 1, lambda share: None)
