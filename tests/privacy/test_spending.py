"""From those who spend to the budgets in force: all of them are charged, or none is."""

import threading
from fractions import Fraction

import pytest

from diprime import Budget, BudgetError
from diprime.privacy import spending
from diprime.privacy.measures import PrivacyLoss

ONE = PrivacyLoss(Fraction(1))


def test_without_a_budget_nothing_is_checked_or_charged():
    spending.check(PrivacyLoss(Fraction(10**9)), "much")
    assert spending.charge(PrivacyLoss(Fraction(10**9)), "much") == []
    spending.refuse_waived(["it has a seed."], "a fit")


def test_a_budget_in_force_is_charged_and_its_study_returned():
    budget = Budget(2)
    with budget:
        spending.check(ONE, "one")
        assert budget.entries == ()
        assert spending.charge(ONE, "one") == [budget.study]
    assert spending.charge(ONE, "outside") == []
    assert [(entry.what, entry.loss) for entry in budget.entries] == [("one", ONE)]


def test_what_does_not_fit_is_refused_by_check_and_by_charge():
    budget = Budget(Fraction(1, 2))
    with budget:
        for call in (spending.check, spending.charge):
            with pytest.raises(BudgetError, match="does not cover a forest"):
                call(ONE, "a forest")
    assert budget.entries == ()


def test_what_a_domain_cost_is_named_to_those_who_have_not_counted_it():
    counted, other = Budget(3), Budget(Fraction(6, 5))
    with counted, other:
        earlier = spending.Earlier(PrivacyLoss(Fraction(3, 10)), [counted.study])
        message = (
            r"^The budget of epsilon = 1\.2 does not cover a forest with epsilon = 1, and its domain with "
            r"epsilon = 0\.3: what is left is epsilon = 1\.2 without delta\.$"
        )
        for call in (spending.check, spending.charge):
            with pytest.raises(BudgetError, match=message):
                call(ONE, "a forest with epsilon = 1", earlier=earlier)
        half = PrivacyLoss(Fraction(1, 2))
        spending.charge(half, "half", earlier=earlier)
        spending.charge(PrivacyLoss(Fraction(1, 10)), "a tenth", earlier=spending.Earlier(PrivacyLoss()))
    assert [entry.what for entry in counted.entries] == ["half", "a tenth"]
    assert [entry.what for entry in other.entries] == ["half, and its domain with epsilon = 0.3", "a tenth"]
    assert other.spent == PrivacyLoss(Fraction(9, 10))


def test_nested_budgets_are_all_charged_or_none_is(tmp_path):
    budgets = [Budget(3), Budget.create(tmp_path / "a", 2), Budget(1), Budget.create(tmp_path / "b", 4)]
    with budgets[0], budgets[1], budgets[2], budgets[3]:
        assert sorted(spending.charge(ONE, "fits all")) == sorted(budget.study for budget in budgets)
        with pytest.raises(BudgetError, match="The budget of epsilon = 1 "):
            spending.charge(ONE, "fits all but one")
    assert [len(budget.entries) for budget in budgets] == [1] * 4


def test_a_budget_that_is_entered_twice_is_charged_once(tmp_path):
    memory, file = Budget(3), Budget.create(tmp_path / "study.budget", 3)
    with memory, memory, file, Budget.open(tmp_path / "study.budget"):
        spending.charge(ONE, "one")
    assert memory.spent == file.spent == ONE
    assert spending.in_force() == ()
    with memory:
        with memory:
            pass
        assert spending.in_force() == (memory,)


def test_a_budget_is_left_when_an_error_is_raised():
    with pytest.raises(KeyError), Budget(1):
        raise KeyError
    assert spending.in_force() == ()


def test_carried_budgets_are_charged_beside_those_in_force():
    carried, entered = Budget(2), Budget(2)
    with entered:
        spending.charge(ONE, "one", [carried])
    spending.charge(ONE, "one", [carried])
    assert (len(carried.entries), len(entered.entries)) == (2, 1)


def test_threads_that_others_start_are_charged():
    budget = Budget(5)
    with budget:
        threads = [threading.Thread(target=spending.charge, args=(ONE, "one")) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert budget.spent == PrivacyLoss(Fraction(5))


@pytest.mark.parametrize("in_file", [False, True])
def test_threads_cannot_spend_the_last_part_twice(in_file, tmp_path):
    budget = Budget.create(tmp_path / "study.budget", 3) if in_file else Budget(3)
    outcomes, start = [], threading.Barrier(8)

    def spend():
        start.wait()
        try:
            spending.charge(ONE, "one")
            outcomes.append(True)
        except BudgetError:
            outcomes.append(False)

    with budget:
        threads = [threading.Thread(target=spend) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(outcomes) == [False] * 5 + [True] * 3
    assert len(budget.entries) == 3


def test_what_is_not_private_is_refused_under_a_budget():
    with Budget(1), pytest.raises(BudgetError, match=r"No budget covers a fit, which would not be private: a seed\."):
        spending.refuse_waived(["a seed."], "a fit")
    with Budget(1):
        spending.refuse_waived([], "a fit")
    with pytest.raises(BudgetError):
        spending.refuse_waived(["a seed."], "a fit", [Budget(1)])


def test_what_is_fitted_to_made_up_data_is_charged_to_no_budget_in_force():
    budget, carried = Budget(1), Budget(1)
    found = []
    with budget:
        with spending.on_made_up_data():
            spending.refuse_waived(["it has a seed."], "a fit")
            assert spending.charge(ONE, "made up") == []
            assert spending.in_force([carried]) == (carried,)
            thread = threading.Thread(target=lambda: found.append(spending.in_force()))
            thread.start()
            thread.join()
        with pytest.raises(KeyError), spending.on_made_up_data():
            raise KeyError
        assert spending.in_force() == (budget,)
    assert found == [(budget,)]  # other threads fit to real data meanwhile
    assert budget.entries == ()
