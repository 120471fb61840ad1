"""The ledger: totals that follow from its charges, merged ledgers, its text, and an exact file."""

import json
import math
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.privacy import ledger as ledger_module
from diprime.privacy.charges import Bound, BoundKind, Charge, Mechanism, ReleaseKind, StudyCharge, VoidReason
from diprime.privacy.gaussian_dp import epsilon_upper_bound, gaussian_budget
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import ApproximateDP, GaussianDP, PrivacyLoss, PureEpsilon, rounded_text

HALF, MILLIONTH = Fraction(1, 2), Fraction(1, 10**6)
NORTH, SOUTH = "0123456789abcdef" * 2, "fedcba9876543210" * 2
CHECKSUM = "0123456789abcdef"


def pure(epsilon, times=1, kind=ReleaseKind.LEAF_SUMS, **fields):
    return Charge(kind, Mechanism.DISCRETE_LAPLACE, Bound(BoundKind.L1, 1), PureEpsilon(epsilon), times, **fields)


def gaussian(mu_squared, times=1, **fields):
    bound = Bound(BoundKind.SQUARED_L2, 1)
    return Charge(ReleaseKind.CODE_SUMS, Mechanism.ROUNDED_GAUSSIAN, bound, GaussianDP(mu_squared), times, **fields)


def approximate(epsilon, delta, times=1):
    bound, measure = Bound(BoundKind.L1, 1), ApproximateDP(epsilon, delta)
    return Charge(ReleaseKind.DOMAIN_CATEGORIES, Mechanism.THRESHOLDED_LAPLACE, bound, measure, times)


def ledger_of(*charges, epsilon=Fraction(1), **fields):
    return Ledger(epsilon, charges=charges, **fields)


def spent(epsilon, delta=MILLIONTH, of_pure=Fraction(0)):
    """Return a ledger whose Gaussian charge takes all that a pure one leaves."""
    charges = [pure(of_pure)] if of_pure else []
    return ledger_of(*charges, gaussian(gaussian_budget(epsilon - of_pure, delta)), epsilon=epsilon, delta=delta)


def of_studies(*studies, epsilon=1):
    return ledger_of(pure(epsilon), epsilon=epsilon, study_charges=[StudyCharge(study, CHECKSUM) for study in studies])


def of_people(max_records_per_group, epsilon=Fraction(1)):
    return ledger_of(pure(epsilon), epsilon=epsilon, max_records_per_group=max_records_per_group)


# Totals and reasons --------------------------------------------------------------------------------------------------


def test_a_ledger_cannot_be_changed():
    ledger = Ledger(1, charges=[pure(1)], notes=["a remark"])
    for name in ("epsilon", "charges", "voided_by"):
        with pytest.raises(FrozenInstanceError):
            setattr(ledger, name, ())
    assert (type(ledger.charges), type(ledger.notes)) == (tuple, tuple)


def test_totals_are_exact_sums():
    ledger = ledger_of(*[pure(0.1)] * 10, pure(Fraction(1), times=0))
    assert ledger.total == ledger.strict_total == 1
    assert isinstance(ledger.total, Fraction)
    assert ledger.total_delta == 0
    assert ledger_of(gaussian(Fraction(1), times=0), gaussian(Fraction(0)), delta=MILLIONTH).total == 0
    assert ledger_of(pure(math.inf, times=0), epsilon=math.inf).total == 0


@pytest.mark.parametrize("of_pure", [Fraction(0), Fraction(1, 50), Fraction(1, 3)])
@pytest.mark.parametrize("epsilon", [Fraction(1), 1 + Fraction(1, 1 << 40), Fraction(4, 3), Fraction(7, 2)])
def test_the_total_of_a_budget_that_is_spent_is_the_budget_to_the_last_digit(epsilon, of_pure):
    ledger = spent(epsilon, of_pure=of_pure)
    assert ledger.total == ledger.strict_total == ledger.epsilon == epsilon
    assert (ledger.delta, ledger.total_delta) == (MILLIONTH, MILLIONTH)
    assert ledger.loss == PrivacyLoss(of_pure, gaussian_budget(epsilon - of_pure, MILLIONTH))
    assert ledger.is_private


def test_reasons_not_private_are_listed():
    infinite, published = (
        "epsilon is infinite, so no noise was added.",
        "The fit used the accounting of the DiPriMe paper, which understates the privacy loss.",
    )
    seed = str(VoidReason.SEED_OF_MODEL)
    for ledger, reasons in (
        (ledger_of(pure(1)), []),
        (ledger_of(pure(1), voided_by=[VoidReason.SEED_OF_MODEL]), [seed]),
        (ledger_of(pure(1), accounting="paper", voided_by=[VoidReason.SEED_OF_MODEL]), [published, seed]),
        (ledger_of(pure(math.inf), epsilon=math.inf), [infinite]),
        (ledger_of(gaussian(math.inf), epsilon=math.inf, delta=MILLIONTH), [infinite]),
        (ledger_of(gaussian(Fraction(1)), epsilon=math.inf), [infinite]),
        (ledger_of(gaussian(Fraction(1)), epsilon=math.inf, delta=MILLIONTH), []),
    ):
        assert ledger.reasons_not_private == reasons
        assert ledger.is_private is not bool(reasons)


def test_a_charge_may_have_another_true_cost():
    ledger = ledger_of(
        pure(HALF, 2, strict_measure=PureEpsilon(math.inf)),
        pure(HALF / 2, 4, kind=ReleaseKind.SPLITS, strict_measure=PureEpsilon(HALF)),
        epsilon=2,
        accounting="paper",
    )
    assert (ledger.total, ledger.strict_total) == (2, math.inf)
    assert [c.strict_total for c in ledger.charges] == [math.inf, 2]
    assert "Strict accounting: splits cost epsilon = 2." in str(ledger)
    assert Ledger.from_json(ledger.to_json()) == ledger
    assert Ledger.merge([ledger, Ledger(1)]).strict_total == math.inf
    exact = ledger_of(pure(Fraction(1, 3), times=3))
    assert "strict" not in json.dumps(exact.to_dict()["charges"])
    assert Ledger.merge([exact, exact]).charges[0].strict_measure is None


def test_a_gaussian_charge_has_no_epsilon_of_its_own():
    with pytest.raises(TypeError, match=r"Gaussian, .*no epsilon"):
        gaussian(Fraction(1)).epsilon
    assert gaussian(Fraction(1, 3), times=3).total == 1
    assert gaussian(Fraction(1, 3), times=3).loss == PrivacyLoss(Fraction(0), Fraction(1))


def test_shares_are_those_of_a_measure():
    """Pure and approximate charges both add to epsilon."""
    charges = [pure(Fraction(1)), approximate(Fraction(3), MILLIONTH), gaussian(Fraction(1)), gaussian(Fraction(3))]
    assert [ledger_of(*charges, epsilon=math.inf).share(c) for c in charges] == [0.25, 0.75, 0.25, 0.75]
    assert Ledger(1).share(charges[0]) == 0
    assert ledger_of(pure(math.inf), epsilon=math.inf).share(pure(math.inf)) == 0


def test_several_records_have_a_multiple_of_epsilon_and_of_mu():
    ledger = ledger_of(pure(Fraction(1, 10)), gaussian(Fraction(1, 100)), delta=MILLIONTH)
    assert ledger.epsilon_for_units(1) == ledger.total
    for n in (2, 5):
        expected = Fraction(n, 10) + epsilon_upper_bound(Fraction(n**2, 100), MILLIONTH)
        assert ledger.epsilon_for_units(n) == expected
    assert ledger_of(pure(Fraction(1, 3))).epsilon_for_units(5) == Fraction(5, 3)


# Merged ledgers ------------------------------------------------------------------------------------------------------


def test_disjoint_populations_cost_the_largest():
    small, large = ledger_of(pure(Fraction(1))), ledger_of(pure(Fraction(5, 2)), epsilon=Fraction(5))
    merged = Ledger.merge([small, large])
    assert merged.total == merged.epsilon == Fraction(5, 2)  # what was spent, not what was allowed
    assert merged.is_private
    assert merged.merged == (small, large)
    assert "largest" in str(merged)
    assert Ledger.merge([merged, small]).total == Fraction(5, 2)


def test_disjoint_populations_of_gaussian_releases_cost_the_largest():
    small, large = spent(Fraction(1)), spent(Fraction(3, 2))
    merged = Ledger.merge([small, large])
    assert merged.total == merged.epsilon == Fraction(3, 2)
    assert (merged.delta, merged.loss, len(merged.charges)) == (MILLIONTH, large.loss, 1)
    assert Ledger.merge([merged, small]).total == Fraction(3, 2)
    unspent = ledger_of(gaussian(Fraction(1, 7)), epsilon=Fraction(5), delta=MILLIONTH)
    assert Ledger.merge([unspent, small]).total == unspent.total == epsilon_upper_bound(Fraction(1, 7), MILLIONTH)


def test_disjoint_populations_of_both_measures_are_bounded_by_the_largest_of_each():
    parts = [
        ledger_of(pure(HALF)),
        spent(Fraction(1), of_pure=Fraction(1, 4)),
        spent(Fraction(1), Fraction(1, 1000)),
    ]
    merged = Ledger.merge(parts)
    mu_squared = parts[2].loss.mu_squared
    assert merged.loss == PrivacyLoss(HALF, mu_squared)
    assert merged.delta == Fraction(1, 1000)
    assert merged.total == merged.epsilon == HALF + epsilon_upper_bound(mu_squared, merged.delta)
    assert all(merged.total >= part.total for part in parts)
    assert Ledger.from_json(merged.to_json()) == merged
    assert Ledger.merge(parts[:1] * 2).to_dict()["delta"] == "0"


def test_merging_keeps_every_reason_against_privacy():
    good = ledger_of(pure(1))
    seeded = replace(good, voided_by=[VoidReason.SEED_OF_MODEL])
    infinite = ledger_of(pure(math.inf), epsilon=math.inf)
    assert Ledger.merge([good, good]).is_private
    for bad in (seeded, replace(good, accounting="paper"), infinite):
        for order in ([good, bad], [bad, good]):
            assert not Ledger.merge(order).is_private
    assert Ledger.merge([seeded, good, seeded]).voided_by == (VoidReason.SEED_OF_MODEL,)
    assert Ledger.merge([good, infinite]).total == math.inf


def test_ledgers_of_one_study_cannot_be_merged():
    merged = Ledger.merge([of_studies(NORTH), of_studies(SOUTH, epsilon=2), of_studies(), of_studies()])
    assert (merged.studies, merged.total) == ([NORTH, SOUTH], 2)
    assert Ledger.from_json(merged.to_json()) == merged
    for other in (of_studies(NORTH), of_studies(SOUTH), merged):
        with pytest.raises(ValueError, match=r"same people"):
            Ledger.merge([merged, other])


def test_ledgers_of_persons_merge_with_their_kind_only():
    merged = Ledger.merge([of_people(2), of_people(5, HALF)])
    assert (merged.max_records_per_group, merged.total) == (5, 1)
    assert Ledger.from_dict(merged.to_dict()) == merged
    assert Ledger.merge([of_people(None)] * 2).max_records_per_group is None
    with pytest.raises(ValueError, match=r"protects people .*single records"):
        Ledger.merge([of_people(1), of_people(None)])
    for unit in ({}, {"unit_records": 4}):
        data = {name: value for name, value in merged.to_dict().items() if name != "unit_records"}
        with pytest.raises(ValueError, match=r"another privacy unit"):
            Ledger.from_dict({**data, **unit})


# Text ----------------------------------------------------------------------------------------------------------------


def test_text_is_a_table_of_charges():
    composition = "Nodes contain disjoint records."
    splits = pure(Fraction(1, 8), 3, kind=ReleaseKind.SPLITS, composition=composition)
    text = str(ledger_of(splits, pure(Fraction(1, 4), composition=composition), epsilon=Fraction(2)))
    lines = text.splitlines()
    assert lines[0] == "Privacy ledger: epsilon = 0.625 of 2, delta = 0"
    row = next(line for line in lines if line.startswith("splits"))
    assert row.split()[-3:] == ["0.125", "3", "0.375"]
    assert "One record added or removed: epsilon = 0.625; one record replaced: epsilon = 1.25." in text
    assert text.count("Composition: Nodes contain disjoint records.") == 1
    assert "NOT PRIVATE" not in text
    assert "number of people" not in text
    assert all(line == line.rstrip() for line in lines)


def test_text_of_gaussian_charges_states_both_measures_and_delta():
    ledger = spent(Fraction(1), of_pure=Fraction(1, 50))
    text = str(ledger)
    assert text.splitlines()[0] == "Privacy ledger: epsilon = 1 of 1, delta = 1e-06"
    rows = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert rows["release"][-4:] == ["measure", "each", "releases", "cost"]
    assert rows["leaf sums"][-4:] == ["epsilon", "0.02", "1", "0.02"]
    assert rows["code sums"][-4:] == ["mu^2", "0.0539672", "1", "0.0539672"]
    assert "The charges add up to epsilon = 0.02, mu^2 = 0.0539672. At delta = 1e-06, this is:" in text
    replaced = rounded_text(Fraction(1, 25) + epsilon_upper_bound(4 * ledger.loss.mu_squared, MILLIONTH))
    assert f"One record added or removed: epsilon = 1; one record replaced: epsilon = {replaced}." in text
    assert "far smaller than one divided by the number of people" in text
    assert "NOT PRIVATE" not in text


def test_text_states_reasons_not_private_of_the_ledger_and_of_its_parts():
    ledger = Ledger(Fraction(2), accounting="paper", voided_by=[VoidReason.INFERRED_DOMAIN])
    text, merged = str(ledger), str(Ledger.merge([Ledger(Fraction(1)), ledger]))
    assert text.splitlines()[0].endswith("(NOT PRIVATE: see below)")
    assert text.count("NOT PRIVATE") == 3
    assert f"NOT PRIVATE: {VoidReason.INFERRED_DOMAIN}" in text
    assert "Model 1 of 2." in merged
    assert "Model 2 of 2." in merged
    assert merged.count(f"NOT PRIVATE: {VoidReason.INFERRED_DOMAIN}") == 2


def test_text_states_the_privacy_unit():
    record, person, several = str(of_people(None)), str(of_people(1)), str(of_people(3))
    assert "One record added or removed: epsilon = 1; one record replaced: epsilon = 2." in record
    assert "person" not in record
    assert "One person, up to 1 record, added or removed: epsilon = 1; one person replaced: epsilon = 2." in person
    assert "One person, up to 3 records, added or removed: epsilon = 1; one person replaced: epsilon = 2." in several
    assert "At most 3 of them are used" in several
    assert of_people(3).total == of_people(None).total, "charges are what a person pays"


# Files ---------------------------------------------------------------------------------------------------------------

costs = st.fractions(min_value=Fraction(1, 10**6), max_value=100) | st.sampled_from([Fraction(0), math.inf])
measures = st.builds(PureEpsilon, costs) | st.builds(GaussianDP, costs)
charges = st.builds(
    Charge,
    st.sampled_from(ReleaseKind),
    st.sampled_from(Mechanism),
    st.builds(Bound, st.sampled_from(BoundKind), st.integers(0, 2**99), st.integers(1, 2**99)),
    measures,
    st.integers(0, 9),
    st.text(max_size=8),
    st.none() | st.integers(0, 30),
    st.none() | measures,
    st.integers(0, 9),
)
ledgers = st.builds(
    Ledger,
    costs.filter(bool),
    st.sampled_from(["strict", "paper"]),
    st.lists(charges, max_size=3),
    st.lists(st.sampled_from(VoidReason), max_size=2),
    delta=st.sampled_from([Fraction(0), MILLIONTH, Fraction(1, 3)]),
).map(lambda ledger: ledger if ledger.accounting == "paper" else without_strict_measures(ledger))


def without_strict_measures(ledger):
    return replace(ledger, charges=[replace(charge, strict_measure=None) for charge in ledger.charges])


@given(st.lists(ledgers, min_size=1, max_size=3))
@settings(deadline=None, max_examples=40)
def test_json_round_trip_keeps_the_ledger(some):
    for ledger in [*some, Ledger.merge(some)]:
        text = ledger.to_json()
        back = Ledger.from_json(text)
        assert back == ledger
        assert back.total == ledger.total
        assert back.is_private == ledger.is_private
        assert back.to_json() == text
        assert str(back) == str(ledger)


def data_of_a_ledger():
    bound = Bound(BoundKind.COST_RANGE, 2)
    third, half = PureEpsilon(Fraction(1, 3)), PureEpsilon(HALF)
    fields = ReleaseKind.SPLITS, Mechanism.PERMUTE_AND_FLIP, bound, third, 2, "levels add up", 7, half
    return Ledger(Fraction(1), "paper", [Charge(*fields)]).to_dict()


def data_of_a_gaussian_ledger():
    return ledger_of(gaussian(Fraction(1, 30)), delta=MILLIONTH).to_dict()


def test_json_is_plain_and_exact():
    data = data_of_a_ledger()
    assert (data["epsilon"], data["total"], data["private"]) == ("1", "2/3", False)
    assert data["charges"] == [
        {
            "kind": "splits",
            "mechanism": "permute-and-flip",
            "bound": {"kind": "cost-range", "n": 2, "units": 1},
            "measure": "pure epsilon",
            "epsilon": "1/3",
            "times": 2,
            "composition": "levels add up",
            "level": 7,
            "strict_epsilon": "1/2",
        }
    ]
    data = data_of_a_gaussian_ledger()
    assert (data["delta"], data["private"]) == ("1/1000000", True)
    assert (data["charges"][0]["measure"], data["charges"][0]["mu_squared"]) == ("Gaussian", "1/30")
    assert "epsilon" not in data["charges"][0]
    assert json.loads(Ledger(math.inf).to_json(), parse_constant=pytest.fail)["epsilon"] == "inf"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"measure": "zero-concentrated"}, "measure of charge 0 .*unknown"),
        ({"measure": None}, "measure of charge 0"),
        ({"level": -1}, "charge 0 .*impossible level"),
        ({"level": None}, "level of charge 0"),
        ({"level": 1.0}, "level of charge 0"),
        ({"times": -1}, "charge 0 .*impossible number .*releases"),
        ({"times": 2**32}, "charge 0 .*impossible number .*releases"),
        ({"times": True}, "times of charge 0"),
        ({"epsilon": "-1/3"}, "epsilon of charge 0"),
        ({"epsilon": "1/2"}, "total and private .*charges"),
        ({"strict_epsilon": "nan"}, "strict_epsilon of charge 0"),
        ({"strict_epsilon": None}, "strict_epsilon of charge 0"),
        ({"what": "splits of level 7"}, "unknown fields"),
        ({"kind": 3}, "kind of charge 0"),
        ({"delta": "1"}, r"charge 0|delta"),
        ({"delta": "x"}, r"charge 0|delta"),
        ({"mu_squared": "1"}, "charge 0 .*two measures"),
        *(
            ({name: ...}, f"{name} of charge 0")
            for name in ("kind", "mechanism", "bound", "measure", "epsilon", "times", "composition")
        ),
    ],
)
def test_altered_charge_is_refused(change, reason):
    data = data_of_a_ledger()
    assert Ledger.from_dict(data).charges[0].level == 7
    fields = {**data["charges"][0], **change}
    data["charges"][0] = {name: value for name, value in fields.items() if value is not ...}
    with pytest.raises(ValueError, match=reason):
        Ledger.from_dict(data)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"measure": "pure epsilon"}, "measure of charge 0 .*unknown"),
        ({"epsilon": "1/30"}, "charge 0 .*two measures"),
        ({"mu_squared": "-1"}, "mu_squared of charge 0"),
        ({"mu_squared": "1/10"}, "total and private .*charges"),
        ({"mu_squared": "inf"}, "total and private .*charges"),
        ({"strict_epsilon": "1", "strict_mu_squared": "1"}, "charge 0 .*two measures"),
        ({"mu_squared": 1}, "mu_squared of charge 0"),
    ],
)
def test_altered_gaussian_charge_is_refused(change, reason):
    data = data_of_a_gaussian_ledger()
    assert Ledger.from_dict(data).total < 1
    data["charges"][0].update(change)
    with pytest.raises(ValueError, match=reason):
        Ledger.from_dict(data)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"receipts": []}, "ledger .*unknown fields"),
        ({"delta": ...}, "delta .*ledger .*missing"),
        ({"remarks": ...}, "remarks .*ledger .*missing"),
        ({"total": "1/2"}, "total and private .*charges"),
        ({"total": None}, "total of the ledger"),
        ({"total": "inf"}, "total and private .*charges"),
        ({"total": "inf", "private": False}, "total and private .*charges"),
        ({"private": False}, "total and private .*charges"),
        ({"private": 1}, "private of the ledger"),
        ({"accounting": "none"}, "accounting .*neither"),
        ({"waivers": [1]}, "unknown VoidReason"),
        ({"merged": [{}]}, "ledger 0 of the ledger"),
        ({"charges": ["splits"]}, "charge 0 .*object"),
        ({"delta": "1/1000000000"}, "total and private .*charges"),
        ({"delta": "0"}, "total and private .*charges"),
        ({"delta": "1"}, "delta .*0 to below 1"),
        ({"delta": "inf"}, "delta .*0 to below 1"),
        ({"delta": 0}, "delta of the ledger"),
        ({"delta": "1e-6"}, "delta .*ledger .*fraction"),
        *(({"unit_records": bad}, "unit_records") for bad in (0, -1, "3", 2.0, True, None)),
        *(
            ({"studies": bad}, "studies of the ledger")
            for bad in ([1], ["north"], [NORTH], [f"{NORTH}:{CHECKSUM}0"], NORTH, None)
        ),
    ],
)
def test_altered_ledger_is_refused(change, reason):
    fields = {**data_of_a_gaussian_ledger(), **change}
    with pytest.raises(ValueError, match=reason):
        Ledger.from_dict({name: value for name, value in fields.items() if value is not ...})


def test_a_ledger_of_another_total_or_a_smaller_delta_than_its_charges_is_refused():
    data = ledger_of(approximate(Fraction(1), MILLIONTH), delta=MILLIONTH).to_dict()
    assert Ledger.from_dict(data).is_private
    for change in ({"delta": "0"}, {"delta": "1/10000000"}, {"total": "2"}, {"total": "1/2"}):
        with pytest.raises(ValueError, match=r"total and private .*charges"):
            Ledger.from_dict({**data, **change})


def test_a_file_makes_no_more_work_than_a_limit():
    """Fractions of a thousand digits are rounded before bounds are computed, and there are not too many ledgers."""
    data = data_of_a_gaussian_ledger()
    data["charges"][0]["mu_squared"] = f"{10**998 + 1}/{10**999}"
    data["total"] = "2"
    assert Ledger.from_dict(data).loss.mu_squared > Fraction(1, 10)
    most = ledger_module._MAX_GAUSSIAN - 1
    assert len(Ledger.from_dict({**data, "merged": [data] * most}).merged) == most
    with pytest.raises(ValueError, match="Gaussian charges"):
        Ledger.from_dict({**data, "merged": [data] * (most + 1)})


def merged_data():
    """Return a merged ledger as data: one with a seed, which costs more, and one without."""
    seeded = ledger_of(
        gaussian(Fraction(1, 10)), epsilon=Fraction(2), delta=MILLIONTH, voided_by=[VoidReason.SEED_OF_MODEL]
    )
    return Ledger.merge([seeded, ledger_of(gaussian(Fraction(1, 20)), delta=MILLIONTH)]).to_dict()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data["charges"][0].update(mu_squared="1/100"), "ledger costs less"),
        (lambda data: data.update(waivers=[], private=True), "stronger guarantee"),
        (lambda data: data.update(delta="1/10000000", total="10"), "stronger guarantee"),
        (lambda data: data["merged"][1].update(accounting="paper", private=False), "stronger guarantee"),
        (lambda data: data["charges"][0].update(strict_mu_squared="inf"), "different true cost"),
    ],
)
def test_a_merged_ledger_never_promises_more_than_its_parts(change, message):
    assert Ledger.from_dict(merged_data()).voided_by
    data = merged_data()
    change(data)
    with pytest.raises(ValueError, match=message):
        Ledger.from_dict(data)


def test_a_file_cannot_hide_that_merged_ledgers_are_of_one_study():
    data = Ledger.merge([of_studies(NORTH), of_studies(SOUTH)]).to_dict()
    with pytest.raises(ValueError, match="other studies"):
        Ledger.from_dict({**data, "studies": [f"{NORTH}:{CHECKSUM}"]})
    data["merged"][1]["studies"] = [f"{NORTH}:{CHECKSUM}"]
    with pytest.raises(ValueError, match=r"same people"):
        Ledger.from_dict({**data, "studies": [f"{NORTH}:{CHECKSUM}"]})
