"""Domains learnt privately: what they cost, what they find, and that nothing depends on a single record."""

import math
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

from diprime import Budget, Categorical, Date, DiPriMeRegressor, Domain, Integer, Numeric, PrivacyWarning, merge
from diprime.domain import Origin, learning
from diprime.domain.codes import BUCKETS
from diprime.domain.learning import LearningPlan, cost_unit
from diprime.domain.ranges import parts, scales
from diprime.privacy.measures import ApproximateDP
from diprime.privacy.mechanisms.selection import Selection, exponential_pmf
from tests.exact_exp import exp_bounds

RNG = np.random.default_rng(0)
N = 20_000
FRAME = pd.DataFrame(
    {
        "age": RNG.integers(18, 90, N),
        "pressure": RNG.normal(1013, 5, N),
        "tiny": RNG.uniform(0, 1e-9, N),
        "debt": -RNG.lognormal(8, 1, N),
        "city": RNG.choice(["Graz", "Linz", "Wien"], N),
        "flag": RNG.random(N) < 0.3,
    }
)
CLASSES = np.where(RNG.random(N) < 0.4, "no", "yes")


# What is found -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_ranges_cover_nearly_all_values_and_little_else(seed):
    domain = Domain.learn(FRAME, CLASSES, 2.0, target=Categorical(["no", "yes"]), random_state=seed)
    for name in ("age", "pressure", "tiny", "debt"):
        feature, values = domain.features[name], FRAME[name]
        assert ((values < feature.low) | (values > feature.high)).mean() < 0.02, name
        spread = values.quantile(0.999) - values.quantile(0.001)
        assert feature.high - feature.low < 16 * spread, name
    assert domain.features["age"].low == int(domain.features["age"].low)
    assert domain.features["city"] == Categorical(buckets=BUCKETS)
    assert domain.features["flag"] == Categorical([False, True])


def test_without_noise_the_range_is_the_least_that_covers_all():
    domain = Domain.learn(FRAME[["age", "pressure"]], FRAME["tiny"], math.inf)
    for feature, values in zip(
        [*domain.features.values(), domain.target], map(FRAME.get, ["age", "pressure", "tiny"]), strict=True
    ):
        assert feature.low <= values.min()
        assert feature.high >= values.max()
    assert domain.features["age"] == Integer(18, 89)
    assert not domain.origin.ledger.is_private


def test_frequent_levels_and_classes_are_found_and_rare_ones_are_not():
    frame = FRAME[["city"]].copy()
    frame.loc[7, "city"] = "a village of one"
    domain = Domain.learn(frame, CLASSES, 1.0, delta=1e-6)
    assert domain.features["city"] == Categorical(["Graz", "Linz", "Wien"])
    assert domain.target == Categorical(["no", "yes"])
    assert domain.origin.ledger.total_delta == Fraction(1, 10**6)


def test_levels_that_are_numbers_are_found_in_order():
    domain = Domain.learn(np.zeros((500, 1)), [3, 1.0, "b", "a", 2.5] * 100, 5.0, delta=1e-3, task="classification")
    assert domain.target.levels == (1, 2.5, 3, "a", "b")


@pytest.mark.parametrize("index", [0, 3])
def test_ranges_are_those_that_were_picked_whatever_the_data(monkeypatch, index):
    monkeypatch.setattr(Selection, "pick", lambda *_: np.array([index]))
    domain = Domain.learn(FRAME[["pressure"]], FRAME["debt"], 2.0)
    low, high = parts(*scales(1.0).bounds(index)).bounds(index)
    for feature in (domain.features["pressure"], domain.target):
        assert (feature.low, feature.high) == (low, high)


def test_the_penalty_of_wide_ranges_follows_from_the_released_number_of_records(monkeypatch):
    release, seen = learning.discrete_laplace, []

    def release_more(values, *rest):
        release(values, *rest)
        return values + 12_345

    def penalty(n_records, epsilon):
        seen.append(n_records)
        return 1.0

    monkeypatch.setattr(learning, "discrete_laplace", release_more)
    monkeypatch.setattr(learning, "per_doubling", penalty)
    Domain.learn(FRAME[["pressure"]], FRAME["debt"], 2.0)
    assert set(seen) == {N + 12_345}


def test_an_outlier_does_not_stretch_the_range():
    values = np.append(RNG.normal(0, 1, 5000), [1e300, -1e12, math.inf])
    feature = Domain.learn(values[:, None], values, 2.0, target=Numeric(0, 1), random_state=0).features["x0"]
    assert -20 < feature.low < -2 < 2 < feature.high < 20


# What is open, and what it costs -------------------------------------------------------------------------------------


def test_declared_features_cost_nothing_and_stay_as_they_are():
    known = {"age": Numeric(0, 120), "pressure": Numeric(edges=[1000, 1020])}
    domain = Domain.learn(FRAME[["age", "pressure", "tiny"]], CLASSES, 0.5, features=known, target=Categorical(["no"]))
    assert {name: domain.features[name] for name in known} == known
    kinds = {charge.kind: charge.times for charge in domain.origin.ledger.charges}
    assert kinds["domain: ranges of features"] == 1
    assert domain.origin.ledger.total == Fraction(1, 2)


def test_what_needs_no_release_costs_nothing():
    domain = Domain.learn(FRAME[["city", "flag"]], CLASSES, 0.5, target=Categorical(["no", "yes"]))
    assert domain.origin.ledger.total == 0
    assert domain.origin.ledger.charges == []
    assert domain.origin.ledger.is_private


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1, 3), Fraction(7), math.inf])
@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 10**6)])
def test_every_plan_adds_up(epsilon, delta):
    features = {"a": Numeric(), "b": Numeric(scale="log"), "c": Categorical(), "d": Numeric(0, 1), "e": Categorical()}
    for target in (Numeric(), Numeric(0, 1), Categorical(["x"])):
        plan = LearningPlan.make(features, target, epsilon, delta)
        assert sum(charge.total for charge in plan.charges) == epsilon
        levels = [charge for charge in plan.charges if isinstance(charge.measure, ApproximateDP)]
        assert sum(charge.loss.delta for charge in levels) == delta


def test_an_open_log_scale_stays_one():
    domain = Domain.learn(FRAME[["debt"]], FRAME["tiny"], 2.0, features={"debt": Numeric(scale="log")})
    assert domain.features["debt"].scale == "log"


def test_a_seed_is_a_waiver():
    domain = Domain.learn(FRAME[["age"]], FRAME["tiny"], 1.0, random_state=3)
    again = Domain.learn(FRAME[["age"]], FRAME["tiny"], 1.0, random_state=3)
    assert domain == again
    assert not domain.origin.ledger.is_private
    assert "random_state was set" in domain.origin.ledger.waivers[0]


def test_open_domains_are_not_encoded_with():
    domain = Domain({"a": Numeric(), "b": Categorical()}, Numeric(0, 1))
    assert domain.is_open
    assert domain.open_features == ("a", "b")
    assert Domain.from_toml(domain.to_toml()) == domain
    for use in (lambda: domain.encode([[1, 2]]), lambda: domain.encode_target([1]), lambda: domain.layout):
        with pytest.raises(ValueError, match="The domain is open: feature 'a' has no range or levels; give them"):
            use()
    with pytest.raises(ValueError, match="The domain is open: the target has"):
        Domain({"a": Numeric(0, 1)}, Numeric()).encode([[1]])


@pytest.mark.parametrize(
    ("y", "arguments", "words"),
    [
        (CLASSES, {}, "without a delta they cannot be learnt"),
        (FRAME["age"], {}, "which may be classes or a quantity; give task"),
        (CLASSES, {"task": "ranking"}, "use 'classification' or 'regression'"),
        (CLASSES, {"features": {"height": Numeric()}, "target": Categorical(["no"])}, "X has no column 'height'"),
        (CLASSES[:7], {"target": Categorical(["no"])}, "inconsistent numbers of samples"),
    ],
)
def test_mistakes_are_explained(y, arguments, words):
    with pytest.raises(ValueError, match=words):
        Domain.learn(FRAME[["age"]], y, 1.0, **arguments)


def test_kinds_follow_from_dtypes():
    y = pl.Series([True, False])
    days, times = [date(2020, 1, 1), None], [None, datetime(2021, 1, 1, 12)]
    columns = {"a": [1, 2], "b": [0.5, None], "c": ["x", None], "d": [True, None], "e": days, "f": times}
    frame = pl.DataFrame(columns)
    domain = Domain.learn(frame, y, 1.0)
    kinds = [Integer, Numeric, Categorical, Categorical, Date, Date]
    assert all(isinstance(f, (k, Numeric)) for f, k in zip(domain.features.values(), kinds, strict=True))
    assert [type(f) for name, f in domain.features.items() if name != "a"] == kinds[1:], "noise may make a's too wide"
    assert domain.features["e"].parts == ("weekday", "month")
    assert domain.features["f"].parts == ("weekday", "month", "hour")
    assert domain.target == Categorical([False, True])
    with pytest.raises(TypeError, match="expected; convert it to numbers"):
        Domain.learn(frame[["c"]], y, 1.0, features={"c": Numeric()})


def test_ranges_of_dates_are_learnt_and_cover_them():
    rng = np.random.default_rng(3)
    hours = rng.integers(0, 4 * 365 * 24, 5000)
    times = (np.datetime64("2015-03-01") + hours.astype("m8[h]")).astype("M8[us]")
    domain = Domain.learn(pl.DataFrame({"when": times}), rng.random(5000), 2.0)
    when = domain.features["when"]
    assert isinstance(when, Date)
    inside = (pl.Series(times).dt.timestamp("us") >= when.first_moment) & (
        pl.Series(times).dt.timestamp("us") <= when.last_moment
    )
    assert inside.mean() > 0.95
    assert when.low.year >= 1900
    assert when.high.year < 2100
    assert Domain.from_toml(domain.to_toml()) == domain


def test_a_range_beyond_all_integers_is_one_of_numbers():
    assert learning._with_range(Numeric(), {"whole"}, 0.0, 2.0**900) == Numeric(0, 2.0**900)
    assert learning._with_range(Numeric(), {"whole"}, -0.5, 3.5) == Integer(-1, 4)
    far = learning._with_range(Numeric(), {"date"}, 2.0**800, 2.0**900)
    assert (far.low, far.parts) == (date.max, ("weekday", "month"))


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_one_record_of_each_person_is_used(delta):
    """Where the records of a person are alike, it does not matter which is drawn, nor how many there are."""
    names = ["age", "city"]
    options = {"delta": delta, "random_state": 1, "task": "regression"}
    alone = Domain.learn(FRAME[names], FRAME["tiny"], 1.0, groups=FRAME.index, **options)
    rows = np.repeat(np.arange(len(FRAME)), np.random.default_rng(1).integers(1, 9, len(FRAME)))
    several = FRAME.iloc[rows]
    learnt = Domain.learn(several[names], several["tiny"], 1.0, groups=[f"p{i}" for i in rows], **options)
    assert learnt == alone == Domain.learn(FRAME[names], FRAME["tiny"], 1.0, **options)
    assert (learnt.origin.ledger.unit, learnt.origin.ledger.unit_records) == ("person", 1)
    nobody = Domain.learn(several[names], several["tiny"], 1.0, groups=[None] * len(rows), **options)
    assert nobody.origin.ledger.total == 1


def test_models_of_persons_take_domains_of_persons_and_no_others():
    X, y, ids = FRAME[["age"]], FRAME["tiny"], FRAME.index
    of_records, of_persons = Domain.learn(X, y, 1.0), Domain.learn(X, y, 1.0, groups=ids)
    with pytest.raises(ValueError, match=r"learnt from single records.*give groups to Domain\.learn"):
        DiPriMeRegressor(1.0, of_records).fit(X, y, groups=ids)
    with pytest.raises(ValueError, match=r"learnt from persons.*give groups to fit"):
        DiPriMeRegressor(1.0, of_persons).fit(X, y)
    model = DiPriMeRegressor(1.0, of_persons, max_records_per_group=3).fit(X, y, groups=ids)
    assert (model.privacy_.total, model.privacy_.whole_unit) == (2, "one person, up to 3 records,")
    open_domain = Domain({"age": Numeric()}, Numeric())
    for fit in (
        lambda model: model.fit(X, y, groups=ids),
        lambda model: model.fit_batches([(X[:100], y[:100], ids[:100]), (X[100:], y[100:], ids[100:])]),
    ):
        model = fit(DiPriMeRegressor(1.0, open_domain))
        assert (model.privacy_.total, model.privacy_.unit) == (1, "person")
    with pytest.raises(ValueError, match="Some batches have groups and some do not"):
        DiPriMeRegressor(1.0, open_domain).fit_batches([(X[:100], y[:100], ids[:100]), (X[100:], y[100:])])


# No record decides about an error, and none is told apart ------------------------------------------------------------


HOSTILE = [
    [None, None, None],
    [math.nan] * 3,
    [math.inf, -math.inf, math.nan],
    [1e308, -1e308, 5e-324],
    [7.0, 7.0, 7.0],
    [],
]


@pytest.mark.parametrize("values", HOSTILE, ids=str)
@pytest.mark.parametrize("epsilon", [0.01, 5.0, math.inf])
def test_no_values_are_an_error(values, epsilon):
    table = np.array(values, dtype=np.float64)[:, None]
    domain = Domain.learn(table, np.array(values, dtype=np.float64), epsilon, delta=1e-6)
    assert domain.features["x0"].low < domain.features["x0"].high
    domain.encode(table)
    objects = np.array([object() for _ in values] + ["\ud800"], dtype=object)
    assert not Domain.learn(objects[:, None], objects, epsilon, delta=1e-6).is_open


def costs_of(X, y, picks, monkeypatch):
    """Learn a domain with given picks, and return the costs of every selection."""
    seen, replayed = [], iter(picks)

    def pick(self, sets, costs, mirrored=None):
        seen.append((costs[0].copy(), self.table))
        return np.array([next(replayed)])

    with monkeypatch.context() as patch:
        patch.setattr(Selection, "pick", pick)
        patch.setattr(
            learning,
            "discrete_laplace",
            lambda values, receipt, *_: (receipt.use("discrete Laplace"), np.array([[90]]))[1],
        )
        Domain.learn(X, y, Fraction(3), random_state=0)
    return seen


def test_transcripts_of_neighbours_are_as_likely_as_the_charges_say(monkeypatch):
    """Whatever was picked, each pick is as likely for a neighbour as its charge says, all costs looked at exactly."""
    rng = np.random.default_rng(5)
    n_scales, n_parts = len(scales(1.0)), 256 * 257 // 2
    for record in ([0.3, -7.0], [math.nan, 1e300], [0.0, 64.0]):
        X, y = rng.normal(0, 3, (40, 2)), rng.uniform(0, 50, 40)
        picks = [*rng.integers(0, n_scales, 3).tolist(), *rng.integers(0, n_parts, 3).tolist()]
        with_record = np.vstack([X, [record]]), np.append(y, 20.0)
        first = costs_of(X, y, picks, monkeypatch)
        second = costs_of(*with_record, picks, monkeypatch)
        plan = LearningPlan.make({"a": Numeric(), "b": Numeric()}, Numeric(), Fraction(3), Fraction(0))
        charges = [plan.ranges["features"][0]] * 2 + [plan.ranges["target"][0]]
        charges += [plan.ranges["features"][1]] * 2 + [plan.ranges["target"][1]]
        assert len(first) == len(second) == len(charges) == 6
        for (before, table), (after, _), charge, pick in zip(first, second, charges, picks, strict=True):
            p, q = (exponential_pmf(costs.tolist(), table)[pick] for costs in (before, after))
            assert max(p / q, q / p) <= exp_bounds(charge.epsilon)[0]


def test_every_release_that_was_paid_for_is_made_and_no_other(monkeypatch):
    """Ranges of two columns use up two releases: one that used up less could be made again."""
    pay, receipts = learning._Payments.pay, []

    def keep(self, charge):
        receipts.append(pay(self, charge))
        return receipts[-1]

    monkeypatch.setattr(learning._Payments, "pay", keep)
    Domain.learn(FRAME[["age", "pressure", "city"]], FRAME["debt"], 2.0, delta=1e-6)
    assert [receipt.charge.times for receipt in receipts] == [1, 2, 1, 2, 1, 1]
    assert [receipt.unused for receipt in receipts] == [0] * 6


def test_a_budget_is_charged_before_the_first_release(monkeypatch):
    budget, release, seen = Budget(5.0), learning.discrete_laplace, []

    def release_and_look(*arguments):
        seen.append(len(budget.entries))
        return release(*arguments)

    monkeypatch.setattr(learning, "discrete_laplace", release_and_look)
    with budget:
        Domain.learn(FRAME[["pressure"]], FRAME["debt"], 2.0)
    assert seen == [1]
    assert len(budget.entries) == 1


def test_the_unit_of_costs_keeps_tables_of_weights_short():
    assert cost_unit(Fraction(1, 4)) == 1024
    assert cost_unit(math.inf) == 1 << 16
    assert cost_unit(Fraction(1, 10**9)) == 1


def test_estimators_warn_where_the_domain_was_learnt_with_a_seed():
    domain = Domain.learn(FRAME[["age"]], FRAME["tiny"], 1.0, random_state=3)
    with pytest.warns(PrivacyWarning, match="take the noise off the domain"):
        model = DiPriMeRegressor(1.0, domain).fit(FRAME[["age"]], FRAME["tiny"])
    assert not model.privacy_.is_private


def test_a_target_of_whole_numbers_is_one_of_numbers():
    X, y = FRAME[["age"]], np.arange(len(FRAME)) % 50
    domain = Domain.learn(X, y, 5.0, task="regression")
    assert isinstance(domain.target, Numeric)
    assert DiPriMeRegressor(5.0, Domain({"age": Numeric()}, Numeric())).fit(X, y).privacy_.total == 5


class Hostile(str):
    def __eq__(self, other):
        raise AssertionError("a value")

    __hash__ = None

    def __lt__(self, other):
        raise AssertionError("a value")

    def encode(self, *_):
        raise AssertionError("a value")


def test_values_with_methods_of_their_own_decide_about_nothing():
    column = pl.Series("c", [Hostile("x")] * 600 + [Hostile("y")] * 600, dtype=pl.Object)
    domain = Domain.learn(pl.DataFrame({"c": column}), [True, False] * 600, 5.0, delta=1e-3)
    assert domain.features["c"].levels == ("x", "y")
    assert {type(level) for level in domain.features["c"].levels} == {str}


def test_what_is_learnt_can_be_paid_for_once_only():
    X, y = FRAME[["age", "pressure"]], FRAME["tiny"]
    domain = Domain.learn(X, y, 1.0, task="regression")
    for reopened in (
        replace(domain, features={**domain.features, "age": Numeric()}),
        Domain({"age": Numeric(), "pressure": Numeric()}, Numeric(0, 1), origin=Origin("read")),
    ):
        with pytest.raises(ValueError, match="in a domain that is declared"):
            DiPriMeRegressor(1.0, reopened).fit(X, y)
    declared = Domain(domain.features, domain.target)
    models = [DiPriMeRegressor(1.0, d).fit(X, y) for d in (declared, domain)]
    assert merge(models).domain_.origin == domain.origin
    assert DiPriMeRegressor(1.0, merge(models).domain_).fit(X, y).privacy_.total == 2


def test_splits_are_chosen_from_all_features_of_a_learnt_date(monkeypatch):
    """One open column of dates has four features once it is learnt, and the settings count those."""
    planned = []
    plan = DiPriMeRegressor._plan
    monkeypatch.setattr(
        DiPriMeRegressor,
        "_plan",
        lambda self, settings, domain: planned.append(settings) or plan(self, settings, domain),
    )
    frame, y = pl.DataFrame({"when": [datetime(2020, 1, 1)] * 50}), np.zeros(50)
    for fit in (lambda model: model.fit(frame, y), lambda model: model.fit_batches([(frame, y)])):
        model = fit(DiPriMeRegressor(1.0, Domain({"when": Numeric()}, Numeric(0, 1))))
        assert planned[-1].max_features == model.domain_.n_features == 4
        assert planned[-1].epsilon == Fraction(9, 10)


CLASH = "The parts of 'when' have a feature 'when.month', as another column has; rename one."


@pytest.mark.parametrize("moment", [date(2020, 1, 1), datetime(2020, 1, 1)])
def test_names_that_clash_with_parts_of_dates_are_refused_before_anything_is_paid_for(moment):
    """What the values are makes no difference: names and dtypes decide."""
    y, budget = np.zeros(50), Budget(1)
    for values in ([moment] * 50, [None] * 50):
        when = pl.Series("when", values, dtype=pl.Date if type(moment) is date else pl.Datetime)
        frame = pl.DataFrame({"when": when, "when.month": np.zeros(50)})
        with budget, pytest.raises(ValueError, match="rename one") as said:
            Domain.learn(frame, y, target=Numeric(0, 1))
        assert str(said.value) == CLASH
        domain = Domain({"when": Numeric(), "when.month": Numeric(0, 1)}, Numeric(0, 1))
        with budget, pytest.raises(ValueError, match="rename one"):
            DiPriMeRegressor(0.5, domain).fit(frame, y)
    assert budget.entries == ()


def test_names_that_clash_with_no_part_are_fine():
    y, when = np.zeros(50), pl.Series([date(2020, 1, 1)] * 50)
    dates = Domain.learn(pl.DataFrame({"when": when, "when.hour": np.zeros(50)}), y, target=Numeric(0, 1))
    assert dates.names == ("when", "when.weekday", "when.month", "when.hour")  # a date has no hour
    numbers = Domain.learn(pl.DataFrame({"when": np.zeros(50), "when.hour": np.zeros(50)}), y, target=Numeric(0, 1))
    assert numbers.names == ("when", "when.hour")


def test_dates_in_a_column_of_objects_do_not_vanish():
    days = [date(2020, 1, 1 + i % 3) for i in range(3000)]
    frame, y = pd.DataFrame({"when": pd.Series(days, dtype=object)}), np.tile([0.0, 0.5, 1.0], 1000)
    hashed = Domain.learn(frame, y, epsilon=1.0, target=Numeric(0, 1))
    assert len(set(hashed.encode(frame)[:, 0].tolist())) == 3
    listed = Domain.learn(frame, y, epsilon=1.0, delta=1e-6, target=Numeric(0, 1))
    assert listed.features["when"] == Categorical(["2020-01-01", "2020-01-02", "2020-01-03"])
    assert listed.encode(frame)[:, 0].tolist() == [0, 1, 2] * 1000
    declared = Domain.learn(frame, y, features={"when": Date("2020-01-01", "2020-01-31")}, target=Numeric(0, 1))
    assert len(set(declared.encode(frame)[:, 0].tolist())) == 3
