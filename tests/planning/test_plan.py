"""What a plan says is what a fit would have."""

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from diprime import Budget, Categorical, Domain, Numeric, plan
from diprime.estimators.models import estimator
from diprime.planning.plan import PROMISE
from diprime.privacy import spending

DOMAIN = Domain({"a": Numeric(0, 10), "c": Categorical(["x", "y", "z"])}, Categorical(["u", "v", 3]))


def test_a_plan_has_the_shape_and_the_ledger_of_a_forest():
    ticks = []
    planned, precise = (
        plan(DOMAIN, 4000, epsilon, repeats=2, on_progress=ticks.append, max_depth=4) for epsilon in (0.1, 1000)
    )
    assert ticks == [1 / 6] * 12
    assert planned.ledger.total == planned.ledger.epsilon == Fraction(1, 10)
    assert planned.of_domain is None
    assert (planned.measure, planned.n_records, planned.shape.depth) == ("accuracy", 4000, 4)
    assert planned.shape.leaf_noise > precise.shape.leaf_noise
    assert planned.shape.records_per_leaf == 4000 / (planned.shape.n_trees * 2**4)
    simple, smooth, rough = planned.rehearsals
    lost = [max(made.lost_to_noise, 0) for made in (simple, smooth, rough)]
    assert planned.lost_to_noise == (min(lost), max(lost))
    for words in ("of depth 4", f"smooth  {smooth.private:.3f}", f"rough   {rough.private:.3f}", PROMISE):
        assert words in str(planned)


def test_the_noise_of_a_round_is_in_units_of_the_largest_gradient():
    domain = Domain({"a": Numeric(0, 10)}, Numeric(-5, 5))
    planned = plan(domain, 100, 1.0, repeats=1, boost=True, n_rounds=25)
    rounds = next(charge for charge in planned.ledger.charges if charge.kind == "round sums")
    # A record adds at most one unit and a count of a quarter of a unit.
    assert planned.shape.round_noise == pytest.approx(math.sqrt((1 + 1 / 16) / float(rounds.measure.mu_squared)))
    assert planned.shape.n_rounds == 25
    assert planned.measure == "R²"


@pytest.mark.parametrize("wrong", [{"n_records": 0}, {"n_records": 1.5}, {"n_records": True}, {"repeats": 0}])
def test_numbers_that_are_no_numbers_of_records_or_repeats(wrong):
    arguments = {"n_records": 10, "repeats": 1} | wrong
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} = .* is not a positive whole number"):
        plan(DOMAIN, epsilon=1.0, **arguments)


def test_any_whole_number_will_do():
    planned = plan(DOMAIN, np.int64(100), 1.0, repeats=np.int8(1), n_estimators=1, max_depth=1)
    assert (planned.n_records, type(planned.n_records)) == (100, int)


def test_without_noise_nothing_is_lost_to_it():
    planned = plan(DOMAIN, 1000, math.inf, repeats=1, n_estimators=3, max_depth=3)
    assert [rehearsal.lost_to_noise for rehearsal in planned.rehearsals] == [0, 0, 0]
    assert "Noise costs from 0.000 to 0.000" in str(planned)


@pytest.mark.parametrize("feature", [Numeric(0, 10), Numeric()])
def test_rehearsals_are_not_charged_to_a_budget_but_what_a_caller_does_meanwhile_is(feature):
    in_force = []
    with Budget(1.0) as budget:
        plan(
            Domain({"a": feature}, Categorical(["u", "v"])),
            100,
            0.25,
            repeats=1,
            on_progress=lambda share: in_force.append(spending.in_force()),
            n_estimators=1,
            max_depth=1,
        )
    assert budget.entries == ()
    assert in_force == [(budget,)] * 3


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
    planned = plan(domain, 6000, 2.0, repeats=1, **options)
    groups = {} if max_records == 1 else {"groups": np.arange(6000) // max_records}
    model = estimator(domain, 2.0, **options).fit(*real_rows(6000, target), **groups)
    assert planned.ledger == model.privacy_
    learning = [charge for charge in planned.ledger.charges if charge.what.startswith("domain: ")]
    assert sum(charge.total for charge in learning) == Fraction(2, 10)
    assert planned.ledger.total == 2
    assert planned.rehearsals[1].noiseless > planned.rehearsals[1].guess + 0.1


def test_classes_that_a_fit_could_not_learn_are_refused_by_its_plan():
    with pytest.raises(ValueError, match="without a delta they cannot be learnt"):
        plan(Domain(OPEN, Categorical()), 100, 1.0, repeats=1)
