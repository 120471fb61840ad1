"""Tables of a score are paid for, in the order of a plan that adds up, and have the noise that was charged."""

import math
from fractions import Fraction

import numpy as np
import pytest

from diprime.privacy.ledger import Ledger
from diprime.privacy.mechanisms.laplace import discrete_laplace_pmf
from diprime.privacy.randomness import RandomSource
from diprime.scoring.classes import plan_of_classes
from diprime.scoring.numbers import plan_of_numbers
from diprime.scoring.release import Tables, table_charge
from tests.exact_exp import TOO_LITTLE_NOISE
from tests.goodness import fits

PLANS = {
    "one class": lambda epsilon: plan_of_classes(1, epsilon),
    "two classes": lambda epsilon: plan_of_classes(2, epsilon),
    "five classes": lambda epsilon: plan_of_classes(5, epsilon),
    "numbers": plan_of_numbers,
}


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(7, 3), math.inf])
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_every_plan_adds_up_to_epsilon(plan, epsilon):
    assert sum(charge.total for charge in plan(epsilon)) == epsilon
    assert all(charge.bound == f"L1 sensitivity {charge.calibrated_to}" for charge in plan(epsilon))


def test_a_plan_that_does_not_add_up_is_refused_before_anything_is_released():
    ledger = Ledger(Fraction(1))
    for plan in (plan_of_numbers(Fraction(1, 2)), plan_of_numbers(Fraction(2)), []):
        with pytest.raises(AssertionError, match="adds up"):
            Tables(plan, ledger, RandomSource(0))
    assert ledger.charges == []


def test_each_table_is_charged_when_it_is_released_and_once():
    ledger = Ledger(Fraction(1))
    tables = Tables(plan_of_classes(2, Fraction(1)), ledger, RandomSource(0))
    assert tables.epsilon_of_next() == Fraction(1, 3)
    tables.release(np.zeros(4, dtype=np.int64))
    assert ledger.total == Fraction(1, 3)
    tables.release(np.zeros((2, 9), dtype=np.int64))
    assert ledger.total == 1
    with pytest.raises(IndexError):
        tables.release(np.zeros(4, dtype=np.int64))


def released(epsilon, sensitivity, draws=40_000):
    charge = table_charge("a table", epsilon, Fraction(1), sensitivity, "")
    tables = Tables([charge], Ledger(epsilon), RandomSource(5))
    return tables.release(np.full(draws, 7, dtype=np.int64), sensitivity)


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(Fraction(1, 3), 1), (Fraction(2), 4)])
def test_tables_have_the_noise_that_was_charged(epsilon, sensitivity):
    counts, noise = released(epsilon, sensitivity)
    drawn = np.rint(counts * sensitivity).astype(int) - 7
    values = np.arange(-40, 41)
    assert np.var(counts) == pytest.approx(noise.variance, rel=0.1)

    def follows(epsilon):
        inner = [float(discrete_laplace_pmf(int(x), epsilon, sensitivity)[0]) for x in values]
        found = [int((drawn == x).sum()) for x in values]
        return fits([*found, len(drawn) - sum(found)], [*inner, 1 - sum(inner)])

    assert follows(epsilon)
    assert not follows(epsilon / TOO_LITTLE_NOISE)


def test_without_noise_a_table_is_exact():
    counts, noise = released(math.inf, 2, 10)
    assert counts.tolist() == [3.5] * 10
    assert noise.variance == 0
