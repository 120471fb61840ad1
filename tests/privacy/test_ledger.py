"""The ledger: charges that add up exactly, a budget that is not exceeded, and a file that keeps all of it."""

import contextlib
import copy
import json
import math
import pickle
import threading
import time
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.privacy import ledger as ledger_module
from diprime.privacy.charges import Charge, Receipt, UnpaidReleaseError
from diprime.privacy.gaussian_dp import delta_upper_bound, epsilon_upper_bound, gaussian_budget
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import (
    ApproximateDP,
    GaussianDP,
    PrivacyLoss,
    PureEpsilon,
    exact_epsilon,
    rounded_text,
)
from tests import paid

positive = st.fractions(min_value=Fraction(1, 10**6), max_value=100)


MILLIONTH = Fraction(1, 10**6)


def charge(epsilon, times=1, kind="leaf sums", composition=""):
    return Charge(kind, "discrete Laplace", "L1 sensitivity 1", PureEpsilon(epsilon), times, composition)


def gaussian(mu_squared, times=1, kind="cells", composition=""):
    return Charge(kind, "rounded Gaussian", "squared sensitivity 1", GaussianDP(mu_squared), times, composition)


# Ledger --------------------------------------------------------------------------------------------------------------


def test_ten_tenths_are_one_and_no_more_fits():
    ledger = Ledger(exact_epsilon(1.0))
    for _ in range(10):
        ledger.pay(charge(exact_epsilon(0.1)))
    assert ledger.total == 1
    assert isinstance(ledger.total, Fraction)
    with pytest.raises(ValueError, match="does not cover a thirteenth"):
        ledger.pay(charge(Fraction(1, 10**30), kind="a thirteenth"))
    assert len(ledger.charges) == 10
    assert ledger.total == 1
    ledger.pay(charge(Fraction(1), times=0))
    assert ledger.total == 1


@given(st.lists(st.tuples(positive, st.integers(0, 5)), max_size=6), positive)
@settings(deadline=None, max_examples=60)
def test_a_charge_is_accepted_exactly_if_the_budget_covers_it(costs, budget):
    ledger, spent = Ledger(budget), Fraction(0)
    for epsilon, times in costs:
        entry = charge(epsilon, times)
        assert entry.total == epsilon * times
        if spent + epsilon * times <= budget:
            ledger.pay(entry)
            spent += epsilon * times
        else:
            with pytest.raises(ValueError, match="does not cover"):
                ledger.pay(entry)
        assert ledger.total == spent <= budget


def test_a_finite_budget_covers_no_infinite_charge_and_an_infinite_one_covers_all():
    with pytest.raises(ValueError, match="does not cover"):
        Ledger(Fraction(10**9)).pay(charge(math.inf))
    ledger = Ledger(math.inf)
    ledger.pay(charge(math.inf, times=3))
    ledger.pay(charge(Fraction(1)))
    assert ledger.total == math.inf
    assert not ledger.is_private
    ledger = Ledger(math.inf)
    ledger.pay(charge(math.inf, times=0))
    assert ledger.total == 0


def test_what_takes_the_promise_away():
    def fresh(**how):
        ledger = Ledger(Fraction(1), **how)
        ledger.pay(charge(Fraction(1)))
        return ledger

    assert fresh().is_private
    assert not fresh(accounting="paper").is_private
    waived = fresh()
    waived.waive("the seed is known.")
    assert not waived.is_private
    assert waived.total == 1
    assert not Ledger(math.inf, charges=[charge(math.inf)]).is_private


texts = st.text(max_size=8)
costs = positive | st.sampled_from([Fraction(0), math.inf])
measures = st.builds(PureEpsilon, costs) | st.builds(GaussianDP, costs)
charges = st.builds(
    Charge,
    texts,
    texts,
    texts,
    measures,
    st.integers(0, 9),
    texts,
    st.none() | st.integers(0, 30),
    st.none() | measures,
)
ledgers = st.builds(
    Ledger,
    positive | st.just(math.inf),
    st.sampled_from(["strict", "paper"]),
    st.lists(charges, max_size=3),
    st.lists(texts, max_size=2),
    delta=st.sampled_from([Fraction(0), MILLIONTH, Fraction(1, 3)]),
).map(lambda ledger: ledger if ledger.accounting == "paper" else without_strict_measures(ledger))


def without_strict_measures(ledger):
    return replace(ledger, charges=[replace(charge, strict_measure=None) for charge in ledger.charges])


@given(st.lists(ledgers, min_size=1, max_size=3))
@settings(deadline=None, max_examples=40)
def test_a_ledger_comes_back_from_json_as_it_was(some):
    for ledger in [*some, Ledger.merge(some)]:
        text = ledger.to_json()
        back = Ledger.from_json(text)
        assert back == ledger
        assert back.total == ledger.total
        assert back.is_private == ledger.is_private
        assert back.to_json() == text
        assert str(back) == str(ledger)


def test_json_is_plain_and_exact():
    ledger = Ledger(Fraction(1, 3))
    ledger.pay(charge(Fraction(1, 7), times=2))
    data = json.loads(ledger.to_json())
    assert data["epsilon"] == "1/3"
    assert data["total"] == "2/7"
    assert data["private"] is True
    assert data["charges"][0]["epsilon"] == "1/7"
    assert data["charges"][0]["times"] == 2
    assert json.loads(Ledger(math.inf).to_json(), parse_constant=pytest.fail)["epsilon"] == "inf"


def test_disjoint_populations_cost_the_largest():
    small, large = Ledger(Fraction(1)), Ledger(Fraction(5))
    small.pay(charge(Fraction(1)))
    large.pay(charge(Fraction(5, 2)))
    merged = Ledger.merge([small, large])
    assert merged.total == merged.epsilon == Fraction(5, 2)  # what was spent, not what was allowed
    assert merged.is_private
    assert merged.merged == [small, large]
    assert "max" in str(merged).lower() or "largest" in str(merged)
    twice = Ledger.merge([merged, small])
    assert twice.total == Fraction(5, 2)
    assert twice.is_private


def test_merging_keeps_every_reason_against_privacy():
    good, seeded, paper, infinite = (
        Ledger(Fraction(1)),
        Ledger(Fraction(1)),
        Ledger(Fraction(1), "paper"),
        Ledger(math.inf),
    )
    seeded.waive("the seed is known.")
    infinite.pay(charge(math.inf))
    assert Ledger.merge([good, good]).is_private
    for bad in (seeded, paper, infinite):
        for order in ([good, bad], [bad, good]):
            assert not Ledger.merge(order).is_private
    merged = Ledger.merge([seeded, good, seeded])
    assert merged.waivers == ["the seed is known."]
    assert Ledger.merge([good, infinite]).total == math.inf


def test_it_reads_as_a_table():
    ledger = Ledger(Fraction(2))
    ledger.pay(charge(Fraction(1, 8), times=3, kind="splits", composition="nodes hold disjoint records"))
    ledger.pay(charge(Fraction(1, 4), kind="leaf sums", composition="nodes hold disjoint records"))
    text = str(ledger)
    lines = text.splitlines()
    assert lines[0] == "Privacy ledger: epsilon = 0.625 of 2, delta = 0"
    row = next(line for line in lines if line.startswith("splits"))
    assert row.split()[-3:] == ["0.125", "3", "0.375"]
    assert "One record added or removed: epsilon = 0.625; one record replaced: epsilon = 1.25." in text
    assert text.count("Composition: nodes hold disjoint records.") == 1
    assert "NOT PRIVATE" not in text
    assert all(line == line.rstrip() for line in lines)


def test_it_says_what_is_not_private():
    ledger = Ledger(Fraction(2), accounting="paper")
    ledger.waive("the domain was read from the data.")
    text = str(ledger)
    assert text.splitlines()[0].endswith("(NOT PRIVATE: see below)")
    assert text.count("NOT PRIVATE") == 3
    assert "NOT PRIVATE" not in str(Ledger(Fraction(1)))
    assert "NOT PRIVATE: the domain was read from the data." in text
    merged = str(Ledger.merge([Ledger(Fraction(1)), ledger]))
    assert "Model 1 of 2." in merged
    assert "Model 2 of 2." in merged
    assert merged.count("NOT PRIVATE: the domain was read from the data.") == 2


def test_infinity_is_printed_as_such():
    ledger = Ledger(math.inf)
    ledger.pay(charge(math.inf))
    assert str(ledger).startswith("Privacy ledger: epsilon = inf of inf")
    assert "replaced: epsilon = inf." in str(ledger)


def test_ledgers_do_not_share_their_lists():
    a, b = Ledger(Fraction(1)), Ledger(Fraction(1))
    a.pay(charge(Fraction(1)))
    a.waive("x")
    assert b.charges == []
    assert b.waivers == []


# What releases truly cost --------------------------------------------------------------------------------------------


def test_a_charge_may_say_what_its_release_truly_costs():
    ledger = Ledger(2, "paper")
    ledger.pay(Charge("means", "Laplace", "none", PureEpsilon(Fraction(1, 2)), 2, strict_measure=PureEpsilon(math.inf)))
    quarter, half = PureEpsilon(Fraction(1, 4)), PureEpsilon(Fraction(1, 2))
    ledger.pay(Charge("splits", "exponential mechanism", "none", quarter, 4, strict_measure=half))
    assert (ledger.total, ledger.strict_total) == (2, math.inf)
    assert [c.strict_total for c in ledger.charges] == [math.inf, 2]
    assert "Strict accounting: splits cost epsilon = 2." in str(ledger)
    assert Ledger.from_json(ledger.to_json()) == ledger
    assert Ledger.merge([ledger, Ledger(1)]).strict_total == math.inf


def test_a_charge_that_says_nothing_costs_what_is_charged():
    ledger = Ledger(1)
    ledger.pay(charge(Fraction(1, 3), times=3))
    assert ledger.strict_total == ledger.total == 1
    assert "strict" not in json.dumps(ledger.to_dict()["charges"])
    assert Ledger.merge([ledger, ledger]).charges[0].strict_measure is None


def test_objections_say_why_a_total_is_no_guarantee():
    ledger = Ledger(Fraction(1))
    assert ledger.objections == []
    ledger.waive("a seed was set.")
    assert ledger.objections == ["a seed was set."]
    assert Ledger(1, "paper", waivers=["x"]).objections == [
        "accounting as published, which counts less than is spent.",
        "x",
    ]
    ledger = Ledger(math.inf)
    ledger.pay(Charge("leaf sums", "none", "none", PureEpsilon(math.inf)))
    assert ledger.objections == ["epsilon is infinite."]


def test_charges_of_all_levels_are_of_one_kind():
    charges = [
        Charge(kind, "", "", PureEpsilon(Fraction(1)), level=level)
        for kind, level in (("splits", 0), ("splits", 11), ("leaf sums", None))
    ]
    assert [c.kind for c in charges] == ["splits", "splits", "leaf sums"]
    assert [c.what for c in charges] == ["splits of level 0", "splits of level 11", "leaf sums"]


# Gaussian charges ----------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.booleans(), st.fractions(0, Fraction(1, 10)), st.integers(0, 3)), max_size=6))
@settings(deadline=None, max_examples=60)
def test_a_charge_of_either_measure_is_accepted_if_the_budget_is_proven_to_cover_it(costs):
    ledger, epsilon, mu_squared = Ledger(Fraction(1), delta=MILLIONTH), Fraction(0), Fraction(0)
    for is_gaussian, cost, times in costs:
        entry = (gaussian if is_gaussian else charge)(cost, times)
        after = (epsilon + (not is_gaussian) * cost * times, mu_squared + is_gaussian * cost * times)
        if after[0] <= 1 and (not after[1] or delta_upper_bound(after[1], 1 - after[0]) <= MILLIONTH):
            ledger.pay(entry)
            epsilon, mu_squared = after
        else:
            with pytest.raises(ValueError, match="does not cover"):
                ledger.pay(entry)
        assert ledger.loss == PrivacyLoss(epsilon, mu_squared)
        assert ledger.total <= 1
        assert ledger.is_private
        assert mu_squared == 0 or delta_upper_bound(mu_squared, ledger.total - epsilon) <= MILLIONTH


@pytest.mark.parametrize("pure", [Fraction(0), Fraction(1, 50), Fraction(1, 3)])
@pytest.mark.parametrize("epsilon", [Fraction(1), 1 + Fraction(1, 1 << 40), Fraction(4, 3), Fraction(7, 2)])
def test_a_budget_that_is_spent_is_the_total(epsilon, pure):
    """To the last digit, although the epsilon of a loss is rounded otherwise."""
    ledger = Ledger(epsilon, delta=1e-6)
    budget = gaussian_budget(epsilon - pure, MILLIONTH)
    if pure:
        ledger.pay(charge(pure))
    for share in (Fraction(1, 10), Fraction(2, 10), Fraction(7, 10)):
        ledger.pay(gaussian(budget * share / 3, times=3))
    assert ledger.total == ledger.epsilon == epsilon
    assert ledger.strict_total == epsilon
    assert (ledger.delta, ledger.total_delta) == (MILLIONTH, MILLIONTH)
    assert ledger.loss == PrivacyLoss(pure, budget)
    assert ledger.is_private
    with pytest.raises(ValueError, match="does not cover the rest"):
        ledger.pay(gaussian(Fraction(1, 10**9), kind="the rest"))
    with pytest.raises(ValueError, match="does not cover the rest"):
        ledger.pay(charge(Fraction(1, 10**7), kind="the rest"))


def test_without_delta_no_gaussian_charge_is_covered_and_delta_alone_changes_nothing():
    with pytest.raises(ValueError, match="does not cover"):
        Ledger(Fraction(100)).pay(gaussian(Fraction(1, 10**12)))
    ledger = Ledger(Fraction(1), delta=MILLIONTH)
    ledger.pay(charge(Fraction(1)))
    assert (ledger.total, ledger.total_delta) == (1, 0)
    assert "delta = 0" in str(ledger)
    ledger.pay(gaussian(Fraction(0)))
    ledger.pay(gaussian(Fraction(1), times=0))
    assert ledger.total == 1


def test_an_infinite_budget_covers_every_gaussian_charge():
    with pytest.raises(ValueError, match="does not cover"):
        Ledger(Fraction(10**9), delta=0.5).pay(gaussian(math.inf))
    ledger = Ledger(math.inf, delta=MILLIONTH)
    ledger.pay(gaussian(Fraction(1)))
    assert ledger.total == epsilon_upper_bound(Fraction(1), MILLIONTH)
    assert ledger.is_private
    ledger.pay(gaussian(math.inf))
    assert ledger.total == math.inf
    assert ledger.objections == ["epsilon is infinite."]
    without_delta = Ledger(math.inf, charges=[gaussian(Fraction(1))])
    assert without_delta.total == math.inf
    assert without_delta.objections == ["epsilon is infinite."]


def test_a_gaussian_charge_has_no_epsilon_of_its_own():
    with pytest.raises(TypeError, match="in Gaussian, and has no epsilon"):
        gaussian(Fraction(1)).epsilon
    assert gaussian(Fraction(1, 3), times=3).total == 1
    assert gaussian(Fraction(1, 3), times=3).loss == PrivacyLoss(Fraction(0), Fraction(1))


def test_shares_are_those_of_a_measure():
    pure, first, second = charge(Fraction(1)), gaussian(Fraction(1)), gaussian(Fraction(3))
    ledger = Ledger(math.inf, charges=[pure, first, second])
    assert [ledger.share(c) for c in (pure, first, second)] == [1, 0.25, 0.75]
    assert Ledger(1).share(pure) == 0
    assert Ledger(math.inf, charges=[charge(math.inf)]).share(charge(math.inf)) == 0


def test_shares_of_epsilon_are_those_of_pure_and_of_approximate_charges_together():
    pure, approximate, mu = charge(Fraction(1)), levels(Fraction(3), MILLIONTH), gaussian(Fraction(1))
    ledger = Ledger(math.inf, charges=[pure, approximate, mu])
    assert [ledger.share(c) for c in (pure, approximate, mu)] == [0.25, 0.75, 1]


def test_a_ledger_without_noise_can_be_printed_if_it_has_a_delta():
    text = str(Ledger(math.inf, delta=MILLIONTH, charges=[levels(math.inf, MILLIONTH)]))
    assert "epsilon = inf; one record replaced: epsilon = inf, delta = 1." in text
    assert "NOT PRIVATE: epsilon is infinite." in text


def test_a_group_of_records_has_a_multiple_of_mu():
    ledger = Ledger(Fraction(1), delta=MILLIONTH)
    ledger.pay(charge(Fraction(1, 10)))
    ledger.pay(gaussian(Fraction(1, 100)))
    assert ledger.epsilon_of_group(1) == ledger.total
    for n in (2, 5):
        expected = Fraction(n, 10) + epsilon_upper_bound(Fraction(n**2, 100), MILLIONTH)
        assert ledger.epsilon_of_group(n) == expected
    pure = Ledger(Fraction(1), charges=[charge(Fraction(1, 3))])
    assert pure.epsilon_of_group(5) == Fraction(5, 3)


def spent(epsilon, delta, pure=Fraction(0)):
    ledger = Ledger(epsilon, delta=delta)
    if pure:
        ledger.pay(charge(pure))
    ledger.pay(gaussian(gaussian_budget(epsilon - pure, ledger.delta)))
    return ledger


def test_disjoint_populations_of_gaussian_releases_cost_the_largest():
    small, large = spent(Fraction(1), MILLIONTH), spent(Fraction(3, 2), MILLIONTH)
    merged = Ledger.merge([small, large])
    assert merged.total == merged.epsilon == Fraction(3, 2)
    assert merged.delta == MILLIONTH
    assert merged.loss == large.loss
    assert len(merged.charges) == 1
    assert merged.is_private
    assert Ledger.merge([merged, small]).total == Fraction(3, 2)
    unspent = Ledger(Fraction(5), delta=MILLIONTH, charges=[gaussian(Fraction(1, 7))])
    assert Ledger.merge([unspent, small]).total == unspent.total == epsilon_upper_bound(Fraction(1, 7), MILLIONTH)


def test_disjoint_populations_of_both_measures_are_bounded_by_the_largest_of_each():
    pure = Ledger(Fraction(1), charges=[charge(Fraction(1, 2))])
    mixed, other = spent(Fraction(1), MILLIONTH, Fraction(1, 4)), spent(Fraction(1), Fraction(1, 1000))
    merged = Ledger.merge([pure, mixed, other])
    assert merged.loss == PrivacyLoss(Fraction(1, 2), other.loss.mu_squared)
    assert merged.delta == Fraction(1, 1000)
    assert merged.total == merged.epsilon == Fraction(1, 2) + epsilon_upper_bound(other.loss.mu_squared, merged.delta)
    for part in (pure, mixed, other):
        assert merged.total >= part.total
    assert Ledger.from_json(merged.to_json()) == merged
    assert Ledger.merge([pure, pure]).to_dict()["delta"] == "0"


def test_a_ledger_of_gaussian_charges_reads_as_a_table():
    ledger = spent(Fraction(1), MILLIONTH, Fraction(1, 50))
    text = str(ledger)
    assert text.splitlines()[0] == "Privacy ledger: epsilon = 1 of 1, delta = 1e-06"
    rows = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert rows["release"][-4:] == ["measure", "each", "times", "cost"]
    assert rows["leaf sums"][-4:] == ["epsilon", "0.02", "1", "0.02"]
    assert rows["cells"][-4:] == ["mu^2", "0.0539672", "1", "0.0539672"]
    assert "Sum of the charges: epsilon = 0.02, mu^2 = 0.0539672. At delta = 1e-06 that is:" in text
    replaced = rounded_text(Fraction(1, 25) + epsilon_upper_bound(4 * ledger.loss.mu_squared, MILLIONTH))
    assert f"One record added or removed: epsilon = 1; one record replaced: epsilon = {replaced}." in text
    assert "far below one over the number of persons" in text
    assert "NOT PRIVATE" not in text
    assert "number of persons" not in str(Ledger(Fraction(1), charges=[charge(Fraction(1))]))


# Files ---------------------------------------------------------------------------------------------------------------


def data_of_a_gaussian_ledger():
    ledger = Ledger(Fraction(1), delta=MILLIONTH)
    ledger.pay(gaussian(Fraction(1, 30)))
    return ledger.to_dict()


def test_json_of_gaussian_charges_is_plain_and_exact():
    data = data_of_a_gaussian_ledger()
    assert data["delta"] == "1/1000000"
    assert data["charges"][0]["measure"] == "Gaussian"
    assert data["charges"][0]["mu_squared"] == "1/30"
    assert "epsilon" not in data["charges"][0]
    assert Ledger.from_dict(data).loss == PrivacyLoss(Fraction(0), Fraction(1, 30))


def test_a_ledger_without_a_delta_has_none():
    data = data_of_a_ledger()
    assert data.pop("delta") == "0"
    assert Ledger.from_dict(data).delta == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"measure": "pure epsilon"}, "is not known, or is not that of its cost"),
        ({"epsilon": "1/30"}, "costs of two measures"),
        ({"mu_squared": "-1"}, "mu_squared of charge 0"),
        ({"mu_squared": "1/10"}, "do not follow"),
        ({"mu_squared": "inf"}, "do not follow"),
        ({"strict_epsilon": "1", "strict_mu_squared": "1"}, "costs of two measures"),
        ({"mu_squared": 1}, "mu_squared of charge 0"),
    ],
)
def test_a_gaussian_charge_that_is_not_as_it_was_written_is_refused(change, reason):
    data = data_of_a_gaussian_ledger()
    assert Ledger.from_dict(data).total < 1
    data["charges"][0].update(change)
    with pytest.raises(ValueError, match=reason):
        Ledger.from_dict(data)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"delta": "1/1000000000"}, "do not follow"),
        ({"delta": "0"}, "do not follow"),
        ({"delta": "1"}, "from 0 to below 1"),
        ({"delta": "inf"}, "from 0 to below 1"),
        ({"delta": 0}, "delta of the ledger"),
        ({"delta": "1e-6"}, "delta of the ledger is not a fraction"),
        ({"total": "1/2"}, "do not follow"),
        ({"total": "inf"}, "do not follow"),
        ({"total": "inf", "private": False}, "do not follow"),
        ({"private": False}, "do not follow"),
    ],
)
def test_a_gaussian_ledger_that_is_not_as_it_was_written_is_refused(change, reason):
    with pytest.raises(ValueError, match=reason):
        Ledger.from_dict({**data_of_a_gaussian_ledger(), **change})


def test_a_file_makes_no_more_work_than_a_limit():
    """Fractions of a thousand digits are rounded before bounds are computed, and there are not too many ledgers."""
    data = data_of_a_gaussian_ledger()
    data["charges"][0]["mu_squared"] = f"{10**998 + 1}/{10**999}"
    data["total"] = "2"
    assert Ledger.from_dict(data).loss.mu_squared > Fraction(1, 10)
    most = ledger_module._MAX_GAUSSIAN - 1
    assert len(Ledger.from_dict({**data, "merged": [data] * most}).merged) == most
    many = {**data, "merged": [data] * (most + 1)}
    with pytest.raises(ValueError, match="ledgers have Gaussian charges"):
        Ledger.from_dict(many)


def merged_data():
    """Return a merged ledger as data: one with a seed, which costs more, and one without."""
    parts = [Ledger(Fraction(2), delta=MILLIONTH), Ledger(Fraction(1), delta=MILLIONTH)]
    for part, mu_squared in zip(parts, (Fraction(1, 10), Fraction(1, 20)), strict=True):
        part.pay(Charge("sums", "rounded Gaussian", "", GaussianDP(mu_squared)))
    parts[0].waive("random_state was set.")
    return Ledger.merge(parts).to_dict()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data["charges"][0].update(mu_squared="1/100"), "costs less than"),
        (lambda data: data.update(waivers=[], private=True), "promises more than"),
        (lambda data: data.update(delta="1/10000000", total="10"), "promises more than"),
        (lambda data: data["merged"][1].update(accounting="paper", private=False), "promises more than"),
        (lambda data: data["charges"][0].update(strict_mu_squared="inf"), "true cost is another"),
    ],
)
def test_a_merged_ledger_never_promises_more_than_its_parts(change, message):
    assert Ledger.from_dict(merged_data()).waivers
    data = merged_data()
    change(data)
    with pytest.raises(ValueError, match=message):
        Ledger.from_dict(data)


def test_a_charge_keeps_its_kind_level_and_true_cost_in_json():
    ledger = Ledger(Fraction(1), "paper")
    third, half = PureEpsilon(Fraction(1, 3)), PureEpsilon(Fraction(1, 2))
    ledger.pay(Charge("splits", "permute-and-flip", "cost range 2", third, 2, "levels add up", 7, half))
    data = json.loads(ledger.to_json())["charges"][0]
    assert data == {
        "kind": "splits",
        "mechanism": "permute-and-flip",
        "bound": "cost range 2",
        "measure": "pure epsilon",
        "epsilon": "1/3",
        "times": 2,
        "composition": "levels add up",
        "level": 7,
        "strict_epsilon": "1/2",
    }
    (back,) = Ledger.from_json(ledger.to_json()).charges
    assert (back.kind, back.level, back.measure, back.strict_measure) == ("splits", 7, third, half)
    assert back == ledger.charges[0]


def data_of_a_ledger():
    ledger = Ledger(Fraction(1))
    ledger.pay(Charge("splits", "permute-and-flip", "cost range 2", PureEpsilon(Fraction(1, 3)), level=7))
    return ledger.to_dict()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"measure": "zero-concentrated"}, "measure of charge 0 of the ledger is not known"),
        ({"measure": None}, "measure of charge 0"),
        ({"level": -1}, "impossible level"),
        ({"level": None}, "level of charge 0"),
        ({"level": 1.0}, "level of charge 0"),
        ({"times": -1}, "impossible number of times"),
        ({"times": 2**32}, "impossible number of times"),
        ({"times": True}, "times of charge 0"),
        ({"epsilon": "-1/3"}, "epsilon of charge 0"),
        ({"epsilon": "1/2"}, "do not follow"),
        ({"strict_epsilon": "nan"}, "strict_epsilon of charge 0"),
        ({"strict_epsilon": None}, "strict_epsilon of charge 0"),
        ({"what": "splits of level 7"}, "unknown fields"),
        ({"kind": 3}, "kind of charge 0"),
    ],
)
def test_a_charge_that_is_not_as_it_was_written_is_refused(change, reason):
    data = data_of_a_ledger()
    assert Ledger.from_dict(data).charges[0].level == 7
    data["charges"][0].update(change)
    with pytest.raises(ValueError, match=reason):
        Ledger.from_dict(data)


@pytest.mark.parametrize("name", ["kind", "mechanism", "bound", "measure", "epsilon", "times", "composition"])
def test_a_charge_that_lacks_a_field_is_refused(name):
    data = data_of_a_ledger()
    del data["charges"][0][name]
    with pytest.raises(ValueError, match=f"{name} of charge 0"):
        Ledger.from_dict(data)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"receipts": []}, "the ledger has unknown fields"),
        ({"total": "1"}, "do not follow"),
        ({"total": None}, "total of the ledger"),
        ({"private": False}, "do not follow"),
        ({"private": 1}, "private of the ledger"),
        ({"accounting": "none"}, "neither"),
        ({"waivers": [1]}, "not all text"),
        ({"merged": [{}]}, "ledger 0 of the ledger"),
        ({"charges": ["splits"]}, "charge 0 of the ledger is not an object"),
    ],
)
def test_a_ledger_that_is_not_as_it_was_written_is_refused(change, reason):
    with pytest.raises(ValueError, match=reason):
        Ledger.from_dict({**data_of_a_ledger(), **change})


# Receipts ------------------------------------------------------------------------------------------------------------


def test_only_a_ledger_makes_receipts():
    with pytest.raises(UnpaidReleaseError, match=r"Ledger\.pay"):
        Receipt(charge(Fraction(1)), object())
    with pytest.raises(UnpaidReleaseError, match=r"Ledger\.pay"):
        Receipt(charge(Fraction(1)), Ledger(Fraction(1)))
    with pytest.raises(AttributeError):
        Receipt.__new__(Receipt).use("discrete Laplace")
    with pytest.raises(TypeError, match="subclassed"):
        type("Free", (Receipt,), {})


def test_no_receipt_comes_of_a_charge_that_the_budget_does_not_cover():
    ledger = Ledger(Fraction(1))
    with pytest.raises(ValueError, match="does not cover"):
        ledger.pay(charge(Fraction(1, 2), times=3))
    with pytest.raises(ValueError, match="cannot be negative"):
        ledger.pay(charge(Fraction(1, 2), times=-3))
    with pytest.raises(ValueError, match="cannot be negative"):
        ledger.pay(charge(Fraction(0), times=-1))
    assert ledger.charges == []


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps, lambda r: copy.deepcopy({"paid": [r]})])
def test_a_receipt_is_not_copied(take):
    receipt = paid.receipt("discrete Laplace")
    with pytest.raises(TypeError, match="cannot be copied"):
        take(receipt)
    assert receipt.unused == 1


def test_a_receipt_pays_for_the_mechanism_that_was_charged():
    receipt = paid.receipt("permute-and-flip", times=2)
    with pytest.raises(UnpaidReleaseError, match="charged for permute-and-flip, but released by discrete Laplace"):
        receipt.use("discrete Laplace")
    assert receipt.unused == 2  # what was refused has used up nothing


def test_a_receipt_pays_for_as_many_releases_as_were_charged():
    receipt = paid.receipt("discrete Laplace", Fraction(1, 3), times=5)
    assert receipt.use("discrete Laplace") == PureEpsilon(Fraction(1, 3))
    assert receipt.use("discrete Laplace", 2) == PureEpsilon(Fraction(1, 3))
    with pytest.raises(UnpaidReleaseError, match="2 of 5 paid releases are left, 3 requested"):
        receipt.use("discrete Laplace", 3)
    receipt.use("discrete Laplace", 2)
    for times in (1, 2):
        with pytest.raises(UnpaidReleaseError, match="0 of 5 paid releases are left"):
            receipt.use("discrete Laplace", times)
    with pytest.raises(UnpaidReleaseError, match="0 of 0 paid releases are left"):
        paid.receipt("discrete Laplace", times=0).use("discrete Laplace")


@pytest.mark.parametrize("times", [0, -1, -(10**9), 0.5, math.nan])
def test_a_release_that_uses_up_nothing_is_refused(times):
    receipt = paid.receipt("discrete Laplace", times=3)
    with pytest.raises(UnpaidReleaseError, match="requested"):
        receipt.use("discrete Laplace", times)
    assert receipt.unused == 3


def test_what_a_receipt_says_cannot_be_set():
    receipt = paid.receipt("discrete Laplace")
    for name, value in (("unused", 10), ("charge", charge(math.inf)), ("more", 1)):
        with pytest.raises(AttributeError):
            setattr(receipt, name, value)


def at_once(work, n=8):
    """Call a function in n threads at the same time; return how many calls were not refused."""
    start, done = threading.Barrier(n), []

    def attempt():
        start.wait()
        with contextlib.suppress(UnpaidReleaseError, ValueError):
            done.append(work())

    workers = [threading.Thread(target=attempt) for _ in range(n)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return len(done)


def test_threads_do_not_use_the_same_receipt():
    class SlowInt(int):
        """Takes its time after it was compared, for others to be compared as well."""

        def __le__(self, other):
            result = int(self) <= other
            time.sleep(0.02)
            return result

    receipt = paid.receipt("discrete Laplace", times=3)
    assert at_once(lambda: receipt.use("discrete Laplace", SlowInt(1))) == 3
    assert receipt.unused == 0


def test_threads_do_not_spend_the_same_budget():
    class SlowFraction(Fraction):
        def __lt__(self, other):
            result = Fraction(self) < other
            time.sleep(0.02)
            return result

    ledger = Ledger(SlowFraction(1))
    assert at_once(lambda: ledger.pay(charge(Fraction(1, 3)))) == 3
    assert ledger.total == 1


# -- the study ---------------------------------------------------------------------------------------------------------

NORTH, SOUTH = "0123456789abcdef" * 2, "fedcba9876543210" * 2


def charged_to(*studies, epsilon=1):
    ledger = Ledger(Fraction(epsilon), studies=list(studies))
    ledger.pay(Charge("sums", "discrete Laplace", "L1 sensitivity 1", PureEpsilon(Fraction(epsilon))))
    return ledger


def test_a_ledger_keeps_the_studies_that_were_charged():
    ledger = charged_to(NORTH, SOUTH)
    assert Ledger.from_json(ledger.to_json()) == ledger
    assert Ledger.from_json(ledger.to_json()).studies == [NORTH, SOUTH]
    assert f"Charged to the budget of study {SOUTH}." in str(ledger)
    assert "studies" not in charged_to().to_dict()


def test_ledgers_of_one_study_cannot_be_merged():
    merged = Ledger.merge([charged_to(NORTH), charged_to(SOUTH, epsilon=2), charged_to(), charged_to()])
    assert (merged.studies, merged.total) == ([NORTH, SOUTH], 2)
    assert Ledger.from_json(merged.to_json()) == merged
    for other in (charged_to(NORTH), charged_to(SOUTH), merged):
        with pytest.raises(ValueError, match="about the same people"):
            Ledger.merge([merged, other])


@pytest.mark.parametrize("studies", [[1], ["north"], [NORTH + "0"], NORTH, None])
def test_names_of_studies_that_cannot_be_are_refused(studies):
    with pytest.raises(ValueError, match="studies of the ledger"):
        Ledger.from_dict({**charged_to().to_dict(), "studies": studies})


def test_a_file_cannot_hide_that_merged_ledgers_are_of_one_study():
    data = Ledger.merge([charged_to(NORTH), charged_to(SOUTH)]).to_dict()
    with pytest.raises(ValueError, match="has other studies"):
        Ledger.from_dict({**data, "studies": [NORTH]})
    data["merged"][1]["studies"] = [NORTH]
    with pytest.raises(ValueError, match="about the same people"):
        Ledger.from_dict({**data, "studies": [NORTH]})


# -- persons ----------------------------------------------------------------------------------------------------------


def ledger_of(unit_records, epsilon=Fraction(1)):
    ledger = Ledger(epsilon, unit_records=unit_records)
    ledger.pay(Charge("leaf sums", "discrete Laplace", "L1 sensitivity 6", PureEpsilon(epsilon)))
    return ledger


def test_a_ledger_says_who_is_protected():
    record, person, several = str(ledger_of(None)), str(ledger_of(1)), str(ledger_of(3))
    assert "One record added or removed: epsilon = 1; one record replaced: epsilon = 2." in record
    assert "person" not in record
    assert "One person, up to 1 record, added or removed: epsilon = 1; one person replaced: epsilon = 2." in person
    assert "One person, up to 3 records, added or removed: epsilon = 1; one person replaced: epsilon = 2." in several
    assert "At most 3 of them are used" in several
    assert ledger_of(3).total == ledger_of(None).total, "charges are what a person pays"


def test_a_ledger_of_persons_is_written_and_read():
    for unit in (None, 1, 3):
        data = ledger_of(unit).to_dict()
        assert data.get("unit_records") == unit
        assert Ledger.from_dict(data) == ledger_of(unit)
    for bad in (0, -1, "3", 2.0, True, None):
        with pytest.raises(ValueError, match="unit_records"):
            Ledger.from_dict({**ledger_of(3).to_dict(), "unit_records": bad})


def test_ledgers_of_persons_merge_with_their_kind_only():
    merged = Ledger.merge([ledger_of(2), ledger_of(5, Fraction(1, 2))])
    assert (merged.unit_records, merged.total) == (5, 1)
    assert Ledger.from_dict(merged.to_dict()) == merged
    assert Ledger.merge([ledger_of(None)] * 2).unit_records is None
    with pytest.raises(ValueError, match="protects persons"):
        Ledger.merge([ledger_of(1), ledger_of(None)])
    for unit in (None, 4):
        data = merged.to_dict()
        del data["unit_records"]
        with pytest.raises(ValueError, match="protects others than a ledger that was merged into it"):
            Ledger.from_dict(data if unit is None else {**data, "unit_records": unit})


# Charges with a delta of their own, and ledgers that are included --------------------------------------------------


def levels(epsilon, delta, times=1):
    return Charge("levels", "thresholded Laplace", "L1 sensitivity 1", ApproximateDP(epsilon, delta), times)


def test_a_budget_covers_deltas_as_well():
    ledger = Ledger(Fraction(1), delta=Fraction(1, 10**6))
    ledger.pay(levels(Fraction(1, 2), Fraction(1, 10**6)))
    assert (ledger.total, ledger.total_delta) == (Fraction(1, 2), Fraction(1, 10**6))
    assert ledger.is_private
    with pytest.raises(ValueError, match=r"does not cover levels: epsilon = 0\.5, delta = 1e-06 is spent"):
        ledger.pay(levels(Fraction(1, 4), Fraction(1, 10**9)))
    with pytest.raises(ValueError, match="does not cover"):
        Ledger(Fraction(1)).pay(levels(Fraction(1, 2), Fraction(1, 10**9)))


def test_gaussian_charges_get_what_deltas_leave():
    epsilon, delta, part = Fraction(1), Fraction(1, 10**6), Fraction(1, 10**7)
    rest = gaussian_budget(epsilon - Fraction(1, 4), delta - part)
    ledger = Ledger(epsilon, delta=delta)
    ledger.pay(levels(Fraction(1, 4), part))
    ledger.pay(Charge("sums", "rounded Gaussian", "L2 sensitivity 1", GaussianDP(rest)))
    assert (ledger.total, ledger.total_delta) == (epsilon, delta)
    too_much = Ledger(epsilon, delta=delta)
    too_much.pay(levels(Fraction(1, 4), part))
    with pytest.raises(ValueError, match="does not cover sums"):
        too_much.pay(Charge("sums", "rounded Gaussian", "L2 sensitivity 1", GaussianDP(rest * Fraction(1001, 1000))))


def test_deltas_are_kept_in_files_shown_and_merged():
    ledger = Ledger(Fraction(1), delta=Fraction(1, 10**6))
    ledger.pay(levels(Fraction(1, 2), Fraction(1, 10**7), times=2))
    assert Ledger.from_json(ledger.to_json()) == ledger
    assert "replaced: epsilon = 2, delta = 7.43657e-07" in str(ledger)  # (1 + e) * 2e-7
    merged = Ledger.merge([ledger, ledger])
    assert merged.loss == ledger.loss
    assert Ledger.from_json(merged.to_json()) == merged


def test_a_ledger_that_hides_a_delta_is_refused():
    ledger = Ledger(Fraction(1), delta=Fraction(1, 10**6))
    ledger.pay(levels(Fraction(1), Fraction(1, 10**6)))
    data = ledger.to_dict()
    for change in ({"delta": "0"}, {"delta": "1/10000000"}):
        with pytest.raises(ValueError, match="total and private of the ledger do not follow"):
            Ledger.from_dict({**data, **change})
    for wrong in ({"delta": "1"}, {"delta": "x"}, {"mu_squared": "1"}):
        with pytest.raises(ValueError, match=r"charge 0|delta"):
            Ledger.from_dict({**data, "charges": [{**data["charges"][0], **wrong}]})


def test_an_included_ledger_counts_in_full():
    domain = Ledger(Fraction(1, 5), delta=Fraction(1, 10**7), waivers=["a seed"], remarks=["a remark"])
    domain.pay(levels(Fraction(1, 5), Fraction(1, 10**7)))
    ledger = Ledger(Fraction(1), delta=Fraction(1, 10**6))
    ledger.include(domain)
    assert (ledger.epsilon, ledger.delta) == (Fraction(6, 5), Fraction(11, 10**7))
    assert ledger.charges == domain.charges
    assert (ledger.waivers, ledger.remarks) == (["a seed"], ["a remark"])
    assert not ledger.is_private
