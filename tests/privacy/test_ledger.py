"""The ledger: charges that add up exactly, a budget that is not exceeded, and a file that keeps all of it."""

import json
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.privacy.ledger import Charge, Ledger
from diprime.privacy.measures import PureEpsilon, exact_epsilon

positive = st.fractions(min_value=Fraction(1, 10**6), max_value=100)


def charge(epsilon, times=1, kind="leaf sums", composition=""):
    return Charge(kind, "discrete Laplace", "L1 sensitivity 1", PureEpsilon(epsilon), times, composition)


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
measures = st.builds(PureEpsilon, positive | st.sampled_from([Fraction(0), math.inf]))
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
)


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
