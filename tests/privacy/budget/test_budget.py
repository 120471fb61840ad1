"""The budget as users see it: its numbers and words, its file, and copies that do not double it."""

import copy
import json
import os
import pickle
import subprocess
import sys
from fractions import Fraction

import pytest
from sklearn.base import clone

from diprime import Budget, BudgetError
from diprime.privacy.gaussian_dp import gaussian_budget
from diprime.privacy.measures import PrivacyLoss
from tests.paid import spend

ONE = PrivacyLoss(Fraction(1))
DELTA = Fraction(1, 10**5)
BOOSTED = PrivacyLoss(mu_squared=gaussian_budget(Fraction(1), Fraction(1, 10**6)))


@pytest.fixture(params=["memory", "file"])
def budget(request, tmp_path):
    return Budget(3, 1e-5) if request.param == "memory" else Budget.create(tmp_path / "study.budget", 3, 1e-5)


def test_budget_shows_charges_and_remaining_epsilon(budget):
    assert (budget.epsilon, budget.delta, budget.entries, budget.spent) == (3, DELTA, (), PrivacyLoss())
    assert budget.left == PrivacyLoss(Fraction(3), gaussian_budget(Fraction(3), DELTA))
    assert (budget.remaining_epsilon(), budget.remaining_epsilon(1e-5)) == (3, 3)
    budget.charge("a forest", epsilon=1)
    assert (budget.spent, budget.remaining_epsilon(), budget.remaining_epsilon(1e-5)) == (ONE, 2, 2)
    budget.charge("a boosted model", mu_squared=BOOSTED.mu_squared)
    assert budget.spent == ONE + BOOSTED
    assert 1 < budget.remaining_epsilon() < 2
    assert [(entry.number, entry.description) for entry in budget.entries] == [(1, "a forest"), (2, "a boosted model")]
    text = str(budget)
    assert f"Budget of study {budget.study}: epsilon = 3, delta = 1e-05" in text
    assert "a forest: epsilon = 1\n" in text
    assert "Spent: epsilon = 1, mu^2 = 0.056029." in text


def test_a_budget_as_plain_data_is_exact(budget):
    budget.charge("both", epsilon=1, mu_squared=BOOSTED.mu_squared)
    data = json.loads(json.dumps(budget.to_dict()))
    assert (data["study"], data["epsilon"], data["delta"], data["pure"]) == (budget.study, "3", "1/100000", None)
    (entry,) = data["entries"]
    parts = ("epsilon", "mu_squared", "delta")
    assert PrivacyLoss(*(Fraction(entry[name]) for name in parts)) == ONE + BOOSTED
    assert data["spent"] == {name: entry[name] for name in parts}
    assert data["left"] == dict(zip(parts, map(str, budget.left.parts), strict=True))


def test_a_budget_counts_records_or_persons_but_not_both():
    cases = [
        ("record", "person", "protects single records, .*people"),
        ("person", "record", "protects people, .*Pass groups"),
    ]
    for first, other, message in cases:
        counting = Budget(3, 1e-5)
        with counting:
            spend(people=first == "person")
            counting.charge("something else", epsilon=1)
            with pytest.raises(BudgetError, match=message):
                spend(people=other == "person")
            spend(people=first == "person")
        assert [entry.unit for entry in counting.entries] == [first, None, first]


def test_costs_are_exact_decimals(budget):
    for _ in range(10):
        budget.charge("a score", epsilon=0.1)
    assert budget.spent == ONE
    for cost in ({"epsilon": -1}, {"mu_squared": -1}, {"epsilon": float("nan")}):
        with pytest.raises(ValueError, match="positive number"):
            budget.charge("a mistake", **cost)
    assert len(budget.entries) == 10


def test_pure_epsilon_can_be_reserved(tmp_path):
    for budget in (Budget(3, 1e-5, pure_epsilon=1), Budget.create(tmp_path / "study.budget", 3, 1e-5, pure_epsilon=1)):
        budget.charge("a boosted model", mu_squared=gaussian_budget(Fraction(2), DELTA))
        assert budget.remaining_epsilon() == 1
        assert budget.to_dict()["pure"] == "1"


def test_opened_budget_has_the_charges_of_its_file(tmp_path):
    path = tmp_path / "study.budget"
    made = Budget.create(path, 3, 1e-5)
    made.charge("a forest", epsilon=1)
    opened = Budget.open(path)
    assert (opened.study, opened.entries, opened.path) == (made.study, made.entries, str(path))
    opened.charge("another", epsilon=1)
    assert made.spent == PrivacyLoss(Fraction(2))
    os.symlink(path, tmp_path / "link")
    assert Budget.open(tmp_path / "link").key == made.key


def test_a_file_is_never_replaced(tmp_path):
    path = tmp_path / "study.budget"
    Budget.create(path, 3).charge("a forest", epsilon=1)
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        Budget.create(path, 3)
    assert path.read_bytes() == before


def test_other_files_are_refused(tmp_path):
    (tmp_path / "text").write_text("epsilon = 3\n")
    for path, error in (("text", BudgetError), ("nothing", FileNotFoundError), (".", BudgetError)):
        with pytest.raises(error):
            Budget.open(tmp_path / path)


def test_a_file_that_cannot_be_written_can_still_be_shown(tmp_path, monkeypatch):
    path = tmp_path / "study.budget"
    Budget.create(path, 3)
    opened, open_file = [], os.open
    monkeypatch.setattr(os, "open", lambda path, flags, *mode: opened.append(flags) or open_file(path, flags, *mode))
    str(Budget.open(path))
    assert opened
    assert not any(flags & (os.O_RDWR | os.O_WRONLY) for flags in opened)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b)), clone])
def test_copies_charge_the_one_they_came_from(budget, copied):
    other = copied(budget) if copied is not clone else clone(budget, safe=False)
    other.charge("two", epsilon=2)
    assert budget.spent == other.spent == PrivacyLoss(Fraction(2))
    with pytest.raises(BudgetError):
        budget.charge("two more", epsilon=2)


def in_another_process(*budgets):
    """Unpickle budgets in another process, charge each, and return what it says of them."""
    script = """
import pickle, sys
from fractions import Fraction
from diprime.privacy.measures import PrivacyLoss
for budget in pickle.load(sys.stdin.buffer):
    try:
        budget.charge("a forest", epsilon=Fraction(1, 1))
        print("charged")
    except ValueError as error:
        print(error)
"""
    data = pickle.dumps(pickle.loads(pickle.dumps(budgets)))
    done = subprocess.run([sys.executable, "-c", script], input=data, capture_output=True, check=True)
    return done.stdout.decode().splitlines()


def test_a_file_is_charged_from_another_process_and_memory_is_not(tmp_path):
    memory, file = Budget(3), Budget.create(tmp_path / "study.budget", 3)
    said, refusal = in_another_process(file, memory)
    assert (said, file.spent) == ("charged", ONE)
    assert f"memory of process {os.getpid()} " in refusal
    assert "Budget.create" in refusal
