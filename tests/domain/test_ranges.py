"""The public intervals of ranges: what one record changes, and what their penalties prefer."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.domain.ranges import N_PARTS, parts, per_doubling, scales
from diprime.domain.tables import read_target

FAMILIES = {"scales": scales(1.0), "parts": parts(-4.0, 4.0), "part of a scale": parts(0.0, 2.0**-40)}


def outside(family, values):
    return family.outside(family.tally(read_target(np.asarray(values, dtype=np.float64))))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
@given(values=st.lists(st.floats(), max_size=6))
@settings(deadline=None, max_examples=60)
def test_outside_is_what_comparing_says(family, values):
    finite = [v for v in values if not math.isnan(v)]
    some = np.random.default_rng(0).integers(0, len(family), 50)
    found = outside(family, values)
    for interval in some.tolist():
        low, high = family.bounds(interval)
        assert found[interval] == sum(not low <= v <= high for v in finite)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
@given(values=st.lists(st.floats() | st.integers(-4, 4).map(float), max_size=4), record=st.floats())
@settings(deadline=None, max_examples=60)
def test_a_record_adds_one_or_nothing_to_every_cost(family, values, record):
    change = outside(family, [*values, record]) - outside(family, values)
    assert set(change.tolist()) <= {0, 1}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_record_adds_no_more_where_there_are_many(family):
    rng = np.random.default_rng(0)
    for n in (9, 10, 11, 100, 10_000):
        values = rng.normal(0, 3, n)
        for record in (0.0, 5.0, -1e300, math.inf):
            change = outside(family, [*values, record]) - outside(family, values)
            assert set(change.tolist()) <= {0, 1}


def test_the_ends_of_intervals_belong_to_them():
    family = FAMILIES["parts"]
    edge = float(family.edges[7])
    values = [edge, np.nextafter(edge, -math.inf), np.nextafter(edge, math.inf)]
    starts = np.flatnonzero((family.low == 7) & (family.high == 9))
    ends = np.flatnonzero((family.low == 5) & (family.high == 7))
    assert outside(family, values)[starts[0]] == 1
    assert outside(family, values)[ends[0]] == 1


def test_wider_intervals_around_the_same_have_larger_penalties():
    for family in (FAMILIES["scales"], FAMILIES["parts"]):
        widths = np.array([high - low for low, high in map(family.bounds, range(len(family)))])
        of_zero = family.low == family.low[0]
        order = np.argsort(widths[of_zero])
        assert (np.diff(family.penalties[of_zero][order]) > 0).all()


def test_scales_reach_the_ends_of_float64_and_parts_are_exact():
    family = FAMILIES["scales"]
    assert family.edges[-1] >= 1e280
    assert family.edges[0] == -family.edges[-1]
    fine = parts(0.0, 2.0**-100)
    assert len(fine.edges) == N_PARTS + 1
    assert fine.edges[3] * N_PARTS == 3 * 2.0**-100


def test_the_penalty_of_a_doubling_follows_the_number_of_records():
    assert per_doubling(1e9, 0.1) == per_doubling(5, math.inf) == 3.0
    assert per_doubling(-50, 0.1) == 0.3
    assert 0.3 < per_doubling(1000, 0.1) < 3.0
