"""Plans state the ledger and the shape of a fit, and simulate its scores."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import polars as pl
import pytest

from diprime import Budget, Categorical, Domain, Numeric, plan, planning
from diprime.estimators.models import make_estimator
from diprime.planning import KINDS, PROMISE, SimulationSettings, simulate
from diprime.privacy.session import active_budgets

DOMAIN = Domain({"a": Numeric(0, 10), "c": Categorical(["x", "y", "z"])}, Categorical(["u", "v", 3]))


def test_plan_of_forest_states_shape_ledger_and_costs():
    ticks = []
    planned, precise = (
        plan(DOMAIN, 4000, epsilon, repeats=2, on_progress=ticks.append, max_depth=4) for epsilon in (0.1, 1000)
    )
    assert ticks == [1 / 6] * 12
    assert planned.ledger.total == planned.ledger.epsilon == Fraction(1, 10)
    assert planned.domain_ledger is None
    assert (planned.measure, planned.n_records, planned.shape.depth) == ("accuracy", 4000, 4)
    assert planned.shape.leaf_noise > precise.shape.leaf_noise
    assert planned.shape.records_per_leaf == 4000 / (planned.shape.n_trees * 2**4)
    simple, smooth, rough = planned.simulations
    lost = [max(made.noise_cost, 0) for made in (simple, smooth, rough)]
    assert planned.noise_cost == (min(lost), max(lost))
    assert planned.privacy_cost[1] == max(r.non_private - r.private for r in planned.simulations)
    for words in ("of depth 4", f"smooth  {smooth.private:.3f}", f"{rough.non_private:.3f}, best guess", PROMISE):
        assert words in str(planned)


@pytest.mark.parametrize(
    ("n_records", "shape", "words"),
    [
        (50, (0, 0), "predicts the same for all rows"),
        (500, (2, 0), "Curves: 2, each on one feature.\nRounds: none."),
        (4000, (2, 25), "Rounds: 25, "),
    ],
)
def test_plan_of_boosting_states_curves_and_rounds(n_records, shape, words):
    domain = Domain({"a": Numeric(0, 10), "b": Categorical(["x", "y"])}, Numeric(-5, 5))
    planned = plan(domain, n_records, 1.0, repeats=1, boost=True, n_rounds=25)
    assert (planned.shape.n_curves, planned.shape.n_rounds) == shape
    assert words in str(planned)
    assert planned.measure == "R²"


@pytest.mark.parametrize("wrong", [{"n_records": 0}, {"n_records": 1.5}, {"n_records": True}, {"repeats": 0}])
def test_counts_must_be_positive_integers(wrong):
    arguments = {"n_records": 10, "repeats": 1} | wrong
    [(name, value)] = wrong.items()
    with pytest.raises(ValueError, match=rf"^{name} .*positive integer, got {value}"):
        plan(DOMAIN, epsilon=1.0, **arguments)


def test_plan_warns_where_a_model_is_no_better_than_guessing():
    domain = Domain({f"x{i}": Numeric(0, 1) for i in range(10)}, Categorical(["no", "yes"]))
    tiny, ample = (plan(domain, 300, epsilon, repeats=2) for epsilon in (0.001, 1000.0))
    assert tiny.no_better_than_guessing == ("simple", "smooth", "rough")
    assert "On any data, the model is no better than guessing" in str(tiny)
    assert "simple" not in ample.no_better_than_guessing


@pytest.mark.parametrize("feature", [Numeric(0, 10), Numeric()])
def test_simulations_are_not_charged_but_budgets_of_callbacks_stay_active(feature):
    active = []
    with Budget(1.0) as budget:
        plan(
            Domain({"a": feature}, Categorical(["u", "v"])),
            10_000,
            0.25,
            repeats=1,
            on_progress=lambda share: active.append(active_budgets()),
            n_estimators=1,
            max_depth=1,
        )
    assert budget.entries == ()
    assert active == [(budget,)] * 3


def test_plan_refuses_too_few_records_to_learn_ranges():
    with pytest.raises(ValueError, match=r"about 100 records .*few records .*epsilon\.$"):
        plan(Domain({"a": Numeric()}, Categorical(["u", "v"])), 100, 0.25, repeats=1)


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
    """Return rows that differ from the synthetic ones."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(-40, 1e-3, n_rows)
    columns = {"a": numbers, "b": rng.lognormal(9, 1, n_rows), "c": rng.choice(["p", "q"], n_rows), "d": numbers}
    y = pl.Series(numbers) if isinstance(target, Numeric) else pl.Series(rng.choice(["no", "yes"], n_rows))
    return pl.DataFrame(columns), y


@pytest.mark.parametrize("max_records", [1, 3])
@pytest.mark.parametrize("case", OPEN_TARGETS)
def test_planned_ledger_of_undeclared_ranges_equals_that_of_a_fit(case, max_records):
    target, options = OPEN_TARGETS[case]
    domain, options = Domain(OPEN, target), options | {"max_records_per_group": max_records}
    planned = plan(domain, 6000, 2.0, repeats=1, **options)
    groups = {} if max_records == 1 else {"groups": np.arange(6000) // max_records}
    model = make_estimator(domain, 2.0, **options).fit(*real_rows(6000, target), **groups)
    # Remarks on the released ranges depend on the rows.
    assert replace(planned.ledger, notes=[]) == replace(model.privacy_, notes=[])
    learning = [charge for charge in planned.ledger.charges if charge.description.startswith("domain: ")]
    assert sum(charge.total for charge in learning) == Fraction(2, 10)
    assert planned.ledger.total == 2
    assert planned.simulations[1].noiseless > planned.simulations[1].guess + 0.1


FEATURES = {"a": Numeric(0, 10), "b": Numeric(1, 1000, scale="log"), "c": Categorical(["x", "y", "z"])}
SIMPLE_TARGETS = {"classes": Categorical(["u", "v", 3]), "number": Numeric(-5, 5)}


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")  # of the seed
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("target", SIMPLE_TARGETS)
@pytest.mark.parametrize("options", [{}, {"boost": True, "delta": 1e-7, "n_rounds": 50}], ids=["forest", "boosted"])
def test_noise_costs_accuracy_if_epsilon_is_small(target, options, kind, monkeypatch):
    monkeypatch.setattr(planning, "make_estimator", partial(planning.make_estimator, random_state=0))
    domain = Domain(FEATURES, SIMPLE_TARGETS[target])
    ticks = []
    (noisy, _), (precise, _) = (
        simulate(SimulationSettings(domain, 4000, epsilon, options), kind, 2, ticks.append) for epsilon in (0.002, 1000)
    )
    assert ticks == [0.5] * 4
    assert noisy.kind == kind.name
    assert noisy.noise_cost == noisy.noiseless - noisy.private > 0.03
    assert abs(precise.noise_cost) < 0.05
    assert precise.noiseless > precise.guess + 0.1


@pytest.mark.parametrize(("n_records", "n_rounds"), [(100, [0, 1, 1000]), (20_000, [400, 400, 1000])])
def test_noiseless_model_has_as_many_rounds_as_private_one(monkeypatch, n_records, n_rounds):
    fitted = []

    def recorded(*arguments, **options):
        fitted.append(plain(*arguments, **options))
        return fitted[-1]

    plain = planning.make_estimator
    monkeypatch.setattr(planning, "make_estimator", recorded)
    domain = Domain({"a": Numeric(0, 10)}, SIMPLE_TARGETS["classes"])
    simulate(SimulationSettings(domain, n_records, 1.0, {"boost": True}), KINDS[0], 1, lambda share: None)
    assert [model.epsilon for model in fitted] == [1.0, math.inf, math.inf]
    assert [len(model.forest_.rounds) for model in fitted] == n_rounds
