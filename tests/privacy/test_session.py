"""One session for every paid computation: what it refuses, what it charges, and what it verifies."""

import contextlib
import math
import threading
import time
import warnings
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime import Budget, BudgetError, PrivacyWarning
from diprime.privacy.charges import Bound, BoundKind, Charge, Mechanism, ReleaseKind, UnpaidReleaseError, VoidReason
from diprime.privacy.gaussian_dp import delta_upper_bound, gaussian_budget
from diprime.privacy.measures import ApproximateDP, GaussianDP, PrivacyLoss, PureEpsilon
from diprime.privacy.session import (
    Account,
    Request,
    Session,
    activate,
    active_budgets,
    charges_stated,
    deactivate,
    notes_of,
    without_charging,
)
from tests import paid
from tests.paid import charge_of, nothing, request, session_of, so_far, spend

ONE, MILLIONTH = PrivacyLoss(Fraction(1)), Fraction(1, 10**6)


def check(epsilon=1, label="one", attached=(), *, people=None, learning=None, **fields):
    with Session.begin(attached) as session:
        if people is not None:
            session.protect(people=people)
        session.check(request(epsilon, label, **fields), learning)


def domain_ledger(epsilon, *budgets):
    """Return the ledger of a domain that was learnt under some budgets."""
    return spend(epsilon, "ranges", budgets)


def at_once(work, *refusals, n=8):
    """Call a function in n threads at the same time, and return the number of calls that were not refused."""
    start, done = threading.Barrier(n), []

    def attempt():
        start.wait()
        with contextlib.suppress(*refusals):
            done.append(work())

    threads = [threading.Thread(target=attempt) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(done)


# -- budgets ----------------------------------------------------------------------------------------------------------


def test_without_a_budget_nothing_is_checked_or_charged():
    check(10**9)
    assert spend(10**9).study_charges == ()
    check(voided_by=(VoidReason.SEED_OF_DOMAIN,))


def test_an_active_budget_is_charged_and_its_study_is_in_the_ledger():
    budget = Budget(2)
    with budget:
        check()
        assert budget.entries == ()
        assert spend().studies == [budget.study]
    assert spend(label="outside").studies == []
    assert [(entry.description, entry.loss) for entry in budget.entries] == [("one", ONE)]


def test_a_request_that_no_budget_covers_is_refused_by_check_and_by_spend():
    budget = Budget(Fraction(1, 2))
    with budget:
        for call in (check, spend):
            with pytest.raises(BudgetError, match="not cover a forest"):
                call(1, "a forest")
    assert budget.entries == ()


def test_a_request_without_cost_is_not_in_the_log():
    nothing_open = replace(request(), epsilon=Fraction(0), loss=PrivacyLoss())
    with Budget(1) as budget, session_of(nothing_open) as account:
        pass
    assert account.ledger.total == 0
    assert budget.entries == ()


def test_the_cost_of_a_domain_is_named_to_budgets_that_have_not_counted_it():
    counted, other = Budget(3), Budget(Fraction(6, 5))
    domain = domain_ledger(Fraction(3, 10), counted)
    with counted, other:
        message = (
            r"epsilon = 1\.2 .*a forest with epsilon = 1, .*epsilon = 0\.3 .*domain\. "
            r".*epsilon = 1\.2 without delta\."
        )
        for call in (check, spend):
            with pytest.raises(BudgetError, match=message):
                call(1, "a forest with epsilon = 1", included=domain)
        spend(Fraction(1, 2), "half", included=domain)
        spend(Fraction(1, 10), "a tenth")
    assert [entry.description for entry in counted.entries] == ["ranges", "half", "a tenth"]
    assert [entry.description for entry in other.entries] == ["half, including epsilon = 0.3 for its domain", "a tenth"]
    assert other.spent == PrivacyLoss(Fraction(9, 10))


def test_cost_of_learning_first_is_checked_with_the_fit():
    learning = request(Fraction(3, 10), "ranges")
    with Budget(Fraction(6, 5)):
        check(Fraction(9, 10), learning=learning)
        with pytest.raises(BudgetError, match=r"a forest, including epsilon = 0\.3 for its domain\. "):
            check(1, "a forest", learning=learning)


def test_nested_budgets_are_all_charged_or_none_is(tmp_path):
    budgets = [Budget(3), Budget.create(tmp_path / "a", 2), Budget(1), Budget.create(tmp_path / "b", 4)]
    with budgets[0], budgets[1], budgets[2], budgets[3]:
        assert sorted(spend().studies) == sorted(budget.study for budget in budgets)
        with pytest.raises(BudgetError, match="The budget of epsilon = 1 "):
            spend()
    assert [len(budget.entries) for budget in budgets] == [1] * 4


def test_a_budget_that_is_entered_twice_is_charged_once(tmp_path):
    memory, file = Budget(3), Budget.create(tmp_path / "study.budget", 3)
    with memory, memory, file, Budget.open(tmp_path / "study.budget"):
        spend()
    assert memory.spent == file.spent == ONE
    assert active_budgets() == ()
    with memory:
        with memory:
            pass
        assert active_budgets() == (memory,)


def test_deactivating_a_budget_keeps_later_ones_active():
    first, second = Budget(3), Budget(3)
    activate(first)
    activate(second)
    deactivate(first)
    try:
        assert active_budgets() == (second,)
        spend()
    finally:
        deactivate(second)
    assert (len(first.entries), len(second.entries)) == (0, 1)


def test_a_budget_is_left_when_an_error_is_raised():
    with pytest.raises(KeyError), Budget(1):
        raise KeyError
    assert active_budgets() == ()


def test_attached_budgets_are_charged_beside_active_ones():
    attached, active = Budget(2), Budget(2)
    with active:
        spend(attached=[attached])
    spend(attached=[attached])
    assert (len(attached.entries), len(active.entries)) == (2, 1)


def test_a_budget_that_is_left_or_entered_during_a_session_is_charged():
    left, entered = Budget(3), Budget(3)
    with left:
        session_block = Session.begin()
        session = session_block.__enter__()
    session.protect(people=False)
    with entered, session.spend(request()) as account:
        account.pay(nothing(1)).cancel()
    session_block.__exit__(None, None, None)
    assert left.spent == entered.spent == ONE


def test_threads_that_others_start_are_charged():
    budget = Budget(5)
    with budget:
        assert at_once(spend, n=5) == 5
    assert budget.spent == PrivacyLoss(Fraction(5))


@pytest.mark.parametrize("in_file", [False, True])
def test_threads_cannot_spend_the_last_part_twice(in_file, tmp_path):
    with Budget.create(tmp_path / "study.budget", 3) if in_file else Budget(3) as budget:
        assert at_once(spend, BudgetError) == 3
    assert len(budget.entries) == 3


def test_synthetic_data_is_charged_to_no_active_budget():
    budget, attached = Budget(1), Budget(1)
    found = []
    with budget:
        with without_charging():
            check(voided_by=(VoidReason.SEED_OF_DOMAIN,))
            assert spend(label="made up").studies == []
            assert active_budgets([attached]) == (attached,)
            thread = threading.Thread(target=lambda: found.append(active_budgets()))
            thread.start()
            thread.join()
        with pytest.raises(KeyError), without_charging():
            raise KeyError
        assert active_budgets() == (budget,)
    assert found == [(budget,)]  # other threads fit to real data meanwhile
    assert budget.entries == ()


# -- guarantees that are void ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [{"voided_by": (VoidReason.SEED_OF_DOMAIN,)}, {"accounting": "paper"}])
def test_a_request_that_is_not_private_is_refused_under_a_budget(fields):
    with Budget(1) as budget:
        for call in (check, spend):
            with pytest.raises(BudgetError, match=r"a fit .*not private\. "):
                call(1, "a fit", **fields)
    with pytest.raises(BudgetError), Session.begin([Budget(1)]) as session:
        session.require_private("a fit", ["a seed."])
    with Budget(1), Session.begin() as session:
        session.require_private("a fit", [])
    assert budget.entries == ()


def test_a_request_that_is_not_private_warns_at_the_line_of_the_user_before_it_is_charged():
    asked = Request("fit", "a fit", Fraction(1), Fraction(0), ONE, "paper", voided_by=(VoidReason.SEED_OF_MODEL,))
    with pytest.warns(PrivacyWarning) as caught, session_of(asked) as account:
        account.pay(nothing(1)).cancel()
    assert {warning.filename for warning in caught} == {paid.__file__}
    messages = [str(warning.message) for warning in caught]
    assert messages == [f"This fit is not private: {reason}" for reason in asked.reasons_not_private]
    assert "accounting of the DiPriMe paper, which understates the privacy loss" in messages[1]
    assert not account.ledger.is_private
    with Budget(1) as budget, without_charging(), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PrivacyWarning), session_of(asked):
            pass
    assert budget.entries == ()


# -- the privacy unit -------------------------------------------------------------------------------------------------


def test_the_ledger_states_the_privacy_unit_of_the_session():
    assert spend(people=False, max_records=3).max_records_per_group is None
    assert spend(people=True, max_records=3).max_records_per_group == 3
    with Session.begin() as session:
        session.protect(people=False)
        with pytest.raises(AssertionError, match="set twice"):
            session.protect(people=True)


def test_budget_of_records_refuses_a_session_that_protects_people():
    with Budget(3) as budget:
        spend()
        with Session.begin() as session:
            session.check(request())
            with pytest.raises(BudgetError, match="protects people"):
                session.protect(people=True)
    assert len(budget.entries) == 1


@pytest.mark.parametrize(("people", "message"), [(True, "learnt without groups"), (False, "learnt with groups")])
def test_a_domain_that_was_learnt_for_another_unit_is_refused(people, message):
    domain = spend(people=not people)
    for call in (check, spend):
        with pytest.raises(ValueError, match=message):
            call(people=people, included=domain)


# -- the account ------------------------------------------------------------------------------------------------------


def paying(*charges, use=True, **fields):
    """Pay charges in a session, use their receipts, and return the ledger."""
    with session_of(request(**fields)) as account:
        receipts = [account.pay(charge) for charge in charges]
        for receipt in receipts if use else ():
            receipt.use(receipt.charge.mechanism, receipt.unused)
    return account.ledger


def test_ledger_lists_charges_after_those_of_the_domain():
    domain = domain_ledger(Fraction(1, 5))
    halves = [charge_of(Mechanism.DISCRETE_LAPLACE, PureEpsilon(Fraction(1, 4)), 2, i) for i in (1, 2)]
    ledger = paying(*halves, included=domain, notes=("a note",))
    assert ledger.charges == (*domain.charges, *halves)
    assert (ledger.total, ledger.epsilon) == (Fraction(6, 5), Fraction(6, 5))
    assert ledger.notes == ("a note",)


def test_the_delta_of_the_domain_is_added():
    epsilon, delta = Fraction(1, 5), Fraction(1, 10**7)
    categories = charge_of(Mechanism.THRESHOLDED_LAPLACE, ApproximateDP(epsilon, delta), 1, 1)
    asked = replace(request(epsilon), delta=delta, loss=categories.loss)
    with session_of(asked) as account:
        account.pay(categories).use_approximate(categories.mechanism, bound=categories.sensitivity)
    domain = account.ledger
    again = charge_of(Mechanism.THRESHOLDED_LAPLACE, ApproximateDP(epsilon, 10 * delta), 1, 1)
    with session_of(replace(asked, delta=10 * delta, loss=again.loss, included=domain)) as account:
        account.pay(again).use_approximate(again.mechanism, bound=again.sensitivity)
    assert (account.ledger.epsilon, account.ledger.delta) == (2 * epsilon, 11 * delta)
    assert account.ledger.charges == (categories, again)


@given(st.lists(st.tuples(st.booleans(), st.fractions(0, Fraction(1, 4)), st.integers(0, 3)), max_size=7))
@settings(deadline=None, max_examples=60)
def test_a_charge_is_accepted_exactly_if_the_budget_is_proven_to_cover_it(costs):
    account, epsilon, mu_squared = paid.open_account(Fraction(1), MILLIONTH), Fraction(0), Fraction(0)
    for is_gaussian, cost, times in costs:
        measure = GaussianDP(cost) if is_gaussian else PureEpsilon(cost)
        charge = charge_of(Mechanism.NONE, measure, times, 1)
        after = (epsilon + (not is_gaussian) * cost * times, mu_squared + is_gaussian * cost * times)
        if after[0] <= 1 and (not after[1] or delta_upper_bound(after[1], 1 - after[0]) <= MILLIONTH):
            assert account.pay(charge).charge == charge
            epsilon, mu_squared = after
        else:
            with pytest.raises(ValueError, match="cover sums of nodes"):
                account.pay(charge)
        ledger = so_far(account)
        assert ledger.loss == PrivacyLoss(epsilon, mu_squared)
        assert ledger.total <= 1
        assert mu_squared == 0 or delta_upper_bound(mu_squared, ledger.total - epsilon) <= MILLIONTH


@pytest.mark.parametrize(
    ("budget", "refused"),
    [
        ((Fraction(10**9), 0), PureEpsilon(math.inf)),
        ((Fraction(10**9), Fraction(1, 2)), GaussianDP(math.inf)),
        ((Fraction(100), 0), GaussianDP(Fraction(1, 10**12))),
        ((Fraction(1), 0), ApproximateDP(Fraction(1, 2), Fraction(1, 10**9))),
    ],
)
def test_a_finite_budget_covers_no_other_measure_and_an_infinite_one_covers_all(budget, refused):
    charge = charge_of(Mechanism.NONE, refused, 1, 1)
    account = paid.open_account(*budget)
    with pytest.raises(ValueError, match="does not cover"):
        account.pay(charge)
    with pytest.raises(ValueError, match="cannot be negative"):
        account.pay(replace(charge, n_releases=-1))
    assert so_far(account).charges == ()
    assert paid.open_account(math.inf, Fraction(1, 2)).pay(charge).unused == 1


def test_gaussian_charges_use_the_delta_that_approximate_ones_leave():
    delta = MILLIONTH / 10
    rest = gaussian_budget(Fraction(3, 4), MILLIONTH - delta)
    categories = charge_of(Mechanism.THRESHOLDED_LAPLACE, ApproximateDP(Fraction(1, 4), delta), 1, 1)
    account = paid.open_account(Fraction(1), MILLIONTH)
    account.pay(categories)
    with pytest.raises(ValueError, match=r"cover sums of nodes.* delta = 1e-07 .*spent"):
        account.pay(charge_of(Mechanism.NONE, GaussianDP(rest * Fraction(1001, 1000)), 1, 1))
    account.pay(charge_of(Mechanism.NONE, GaussianDP(rest), 1, 1))
    assert (so_far(account).total, so_far(account).total_delta) == (1, MILLIONTH)
    for measure in (GaussianDP(Fraction(1, 10**9)), PureEpsilon(Fraction(1, 10**7)), ApproximateDP(0, delta)):
        with pytest.raises(ValueError, match="does not cover"):
            account.pay(charge_of(Mechanism.NONE, measure, 1, 1))


def test_threads_do_not_spend_the_last_part_of_an_account_twice():
    class SlowFraction(Fraction):
        def __lt__(self, other):
            result = Fraction(self) < other
            time.sleep(0.02)
            return result

    account = paid.open_account(SlowFraction(1))
    assert at_once(lambda: account.pay(nothing(Fraction(1, 3))), ValueError) == 3
    assert so_far(account).total == 1


def test_total_other_than_epsilon_raises():
    with pytest.raises(AssertionError, match="The ledger's total, 1/2, is not epsilon, 1"):
        paying(charge_of(Mechanism.DISCRETE_LAPLACE, PureEpsilon(Fraction(1, 2)), 1, 1))


def test_loss_other_than_the_charged_one_raises():
    cheap = replace(request(), loss=PrivacyLoss(Fraction(1, 2)))
    with pytest.raises(AssertionError, match=r"ledger's loss, .*charged, "), session_of(cheap) as account:
        account.pay(nothing(1)).cancel()


def test_unused_receipt_raises():
    half = charge_of(Mechanism.DISCRETE_LAPLACE, PureEpsilon(Fraction(1, 2)), 2, 1)
    with pytest.raises(AssertionError, match="sums of nodes: 2 of 2 releases were not made"):
        paying(half, use=False)


def test_only_a_session_opens_accounts():
    with pytest.raises(UnpaidReleaseError, match=r"Session .*accounts"):
        Account(object(), spend())
    with pytest.raises(TypeError, match="subclassed"):
        type("Free", (Account,), {})


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), 2])
def test_an_account_that_is_closed_pays_for_nothing(epsilon):
    """Whether its charges do not add up, or one of them is refused."""
    with pytest.raises((AssertionError, ValueError)), session_of(request()) as account:
        account.pay(nothing(epsilon))
    with pytest.raises(UnpaidReleaseError, match="the account is closed"):
        account.pay(nothing(1))
    with pytest.raises(AssertionError, match="The account is open"):
        account.ledger


# -- subaccounts ------------------------------------------------------------------------------------------------------

FITS = Charge(ReleaseKind.FITS, Mechanism.OWN_LEDGERS, Bound(BoundKind.FITS, 2), PureEpsilon(Fraction(1, 2)), 2, n=2)


def with_subaccount(loss, epsilon, *charges):
    with session_of(request(max_records=3), people=True) as account:
        receipt = account.pay(FITS)
        receipt.use(Mechanism.OWN_LEDGERS, 2, bound=FITS.sensitivity)
        with account.subaccount(receipt, loss, epsilon) as part:
            for charge in charges:
                part.pay(charge).cancel()
        account.choose(part.ledger)
    return account.ledger


def test_a_subaccount_has_a_ledger_of_its_part():
    half = Fraction(1, 2)
    ledger = with_subaccount(PrivacyLoss(half), half, nothing(half))
    (part,) = ledger.merged
    assert (ledger.total, part.total, part.epsilon) == (1, half, half)
    assert (part.charges, part.max_records_per_group) == ((nothing(half),), 3)


def test_subaccount_of_another_cost_raises():
    half = Fraction(1, 2)
    with pytest.raises(AssertionError, match=r"ledger's loss, .*charged, "):
        with_subaccount(PrivacyLoss(half), half, nothing(Fraction(1, 4)))
    with pytest.raises(ValueError, match="does not cover"):
        with_subaccount(PrivacyLoss(half), half, nothing(1))


def test_a_subaccount_beyond_its_receipt_is_refused():
    with pytest.raises(UnpaidReleaseError, match=r"epsilon = 2 .*more .*charged"):
        with_subaccount(PrivacyLoss(Fraction(2)), Fraction(2))


# -- notes of errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("a mistake"), MemoryError(), KeyboardInterrupt(), SystemExit(143)])
def test_errors_state_whether_the_budget_was_charged(error):
    def fail(*charged):
        with charges_stated(is_budgeted=True), Session.begin():
            for label in charged:
                spend(label=label)
            raise error

    with Budget(9):
        for charged, note in (
            ((), "The budget was not charged."),
            (("a domain",), "The budget was charged for a domain."),
            (("a domain", "a forest"), "The budget was charged for a domain and a forest."),
        ):
            error.__notes__ = []
            with pytest.raises(type(error)):
                fail(*charged)
            assert notes_of(error) == [note]


def test_a_charge_that_fails_is_not_stated_unless_it_was_interrupted(monkeypatch):
    budget = Budget(9)
    for error, note in (
        (OSError(28, "No space left on device"), "The budget was not charged."),
        (KeyboardInterrupt(), "The budget was charged for a forest."),  # the line may be on the disk
    ):

        def fail(log, error=error):
            raise error

        monkeypatch.setattr(budget._store, "_keep", fail)
        with budget, pytest.raises(type(error)):
            spend(label="a forest")
        assert notes_of(error) == [note]


def test_errors_without_a_budget_have_no_note():
    with pytest.raises(ValueError, match="a mistake") as caught, Session.begin():
        raise ValueError("a mistake")
    assert notes_of(caught.value) == []
