"""Weight tables: no entry falls faster than the exponential, wherever a table is cut."""

import decimal
import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diprime.privacy.mechanisms.weights import MAX_TABLE_LENGTH, decimal_below, exp_upper, weight_table
from tests.exact_exp import TOO_LITTLE_NOISE, exp_bounds


def test_the_bounds_of_exp_bound_it():
    for x in (Fraction(0), Fraction(1, 10**9), Fraction(1), Fraction(7, 3), Fraction(50)):
        low, high = exp_bounds(x)
        with decimal.localcontext(decimal.Context(prec=80)):
            reference = (decimal.Decimal(x.numerator) / decimal.Decimal(x.denominator)).exp()
            near = reference * decimal.Decimal(10) ** -75
            assert Fraction(reference - near) < low <= high < Fraction(reference + near)


@given(
    st.fractions(Fraction(1, 10**6), 80) | st.builds(Fraction, st.integers(1, 2**20), st.integers(1, 2**60)),
    st.sampled_from([8, 60, 120, 256]),
)
@example(Fraction(1), 60)
@example(Fraction(1, 2**70), 60)
@example(Fraction(10**4), 60)
@example(Fraction(1), 256)
@example(Fraction(200, 7), 256)
@settings(deadline=None)
def test_exp_upper_is_above_by_less_than_two(x, bits):
    bound, (low, high) = exp_upper(x, bits), exp_bounds(x)
    assert bound * low >= 2**bits
    assert (bound - 2) * high < 2**bits


@given(st.fractions(Fraction(1, 10**9), 10**6), st.sampled_from([3, 60, 125]))
@example(Fraction(1, 3), 60)
@example(Fraction(2, 3), 60)
@settings(deadline=None)
def test_an_exponent_is_rounded_down_and_by_little(x, digits):
    below = Fraction(decimal_below(x, digits))
    assert 0 <= x - below < x * Fraction(1, 10 ** (digits - 1))


def test_exp_upper_where_decimals_underflow():
    assert exp_upper(Fraction(10**9)) == 1


@pytest.mark.parametrize(
    "context",
    [decimal.Context(prec=3, rounding=decimal.ROUND_DOWN), decimal.Context(traps=[decimal.Inexact])],
    ids=["few digits", "inexact trapped"],
)
def test_exp_upper_does_not_depend_on_the_caller_s_decimal_context(context):
    xs = [Fraction(1, 3), Fraction(1, 10**6), Fraction(30)]
    expected = [exp_upper(x) for x in xs]
    with decimal.localcontext(context):
        assert [exp_upper(x) for x in xs] == expected


TABLE_PARAMETERS = [
    (epsilon, cost_range, n)
    for epsilon in (Fraction(1, 50), Fraction(1, 3), Fraction(1), Fraction(10), Fraction(1000))
    for cost_range in (1, 2, 1026)
    for n in (1, 2, 1000, 2**17, 2**40, 2**61)
]


@pytest.mark.parametrize(("epsilon", "cost_range", "n_candidates"), TABLE_PARAMETERS)
def test_tables_fall_no_faster_than_the_exponential(epsilon, cost_range, n_candidates):
    """e^(-j·epsilon/R) <= W[k+j]/W[k] <= 1: step by step, and so for any j; constant past the end."""
    table = [int(w) for w in weight_table(epsilon, cost_range, n_candidates)]
    x = epsilon / cost_range
    low, high = exp_bounds(x)
    step = math.floor(low * 2**120)
    assert all(after * step >= before << 120 for before, after in itertools.pairwise(table))
    assert all(0 < after < before for before, after in itertools.pairwise(table))
    # No more is given away than rounding up takes: one in each entry, and a table that ends where it stands still.
    assert all((after - 1 - Fraction(1, 2**12)) * high < before for before, after in itertools.pairwise(table[:2000]))
    factor = Fraction(exp_upper(x), 2**60)
    assert len(table) == MAX_TABLE_LENGTH or math.ceil(table[-1] * factor) == table[-1]
    assert n_candidates * table[0] < 2**63
    assert table[0] == min(2**46, 2 ** (63 - n_candidates.bit_length()))


def test_a_table_with_another_epsilon_is_caught():
    """The same inequality does not hold for a table with 30 % too little noise."""
    table = [int(w) for w in weight_table(TOO_LITTLE_NOISE, 2, 10)]
    low, _ = exp_bounds(Fraction(1, 2))
    assert any(after * low < before for before, after in itertools.pairwise(table))


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**30), Fraction(1, 2**60), Fraction(1, 2**47), Fraction(1, 10**5)])
def test_tables_of_tiny_epsilons(epsilon):
    table = [int(w) for w in weight_table(epsilon, 1, 4)]
    low, _ = exp_bounds(epsilon)
    assert all(after * low >= before for before, after in itertools.pairwise(table[:1000]))
    assert 1 <= len(table) <= MAX_TABLE_LENGTH
    if epsilon <= Fraction(1, 2**47):
        assert table == [2**46]


def test_tables_without_privacy_and_without_room():
    assert weight_table(math.inf, 2, 10).tolist() == [1, 0]
    with pytest.raises(ValueError, match="too many"):
        weight_table(Fraction(1), 2, 2**62)


def test_tables_cannot_be_changed():
    for epsilon in (Fraction(1), math.inf):
        with pytest.raises(ValueError, match="read-only"):
            weight_table(epsilon, 2, 10)[0] = 3
