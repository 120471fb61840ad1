import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.domain.codes import cells_per_unit, linear_thresholds, log_thresholds
from diprime.kernels.encoding import encode_linear

RANGES = [(0, 1), (17, 90), (-1, 1), (-1e-3, 1e6), (0.1, 0.3), (-1e307, 1e307), (0, 1e-300), (-90, -17), (0, 255)]
ranges = (
    st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
    .map(sorted)
    .filter(lambda r: r[1] - r[0] > 1e-9 * max(abs(r[0]), abs(r[1])) and r[1] - r[0] > 1e-300)
)


def cells(low, high, values):
    """Return the cells that the kernel computes."""
    out = np.empty(len(values), dtype=np.uint8)
    encode_linear(values, low, cells_per_unit(low, high), out)
    return out.tolist()


def check_thresholds_exact(low, high):
    t = linear_thresholds(low, high)
    assert t.dtype == np.float64
    assert len(t) == 254
    assert (np.diff(t) > 0).all()
    assert cells(low, high, t) == list(range(1, 255))
    assert cells(low, high, np.nextafter(t, -np.inf)) == list(range(254))


@pytest.mark.parametrize("bounds", RANGES)
def test_linear_thresholds_are_the_first_floats_of_their_cells(bounds):
    check_thresholds_exact(*bounds)


@pytest.mark.parametrize("bounds", RANGES)
def test_linear_cells_have_equal_width(bounds):
    low, high = bounds
    ideal = low + (high - low) * (np.arange(1, 255) / 255)
    np.testing.assert_allclose(linear_thresholds(low, high), ideal, rtol=0, atol=1e-14 * (high - low) + 1e-320)


@given(ranges)
@settings(max_examples=60, deadline=None)
def test_linear_thresholds_are_exact_on_any_range(bounds):
    check_thresholds_exact(*bounds)


def test_thresholds_repeat_if_the_range_holds_too_few_floats():
    low, high = 2.0**53, 2.0**53 + 16
    t = linear_thresholds(low, high)
    x = low + np.arange(-4.0, 22.0)
    assert (np.diff(t) >= 0).all()
    assert cells(low, high, x) == [int((t <= v).sum()) for v in x]
    assert cells(low, high, x)[-1] == 254


def test_log_cells_are_geometric():
    t = log_thresholds(1e-3, 1e5)
    np.testing.assert_allclose(t, np.geomspace(1e-3, 1e5, 256)[1:-1], rtol=1e-13)


@pytest.mark.parametrize(("low", "high"), [(0, 1e6), (-50, 50), (-1e308, 1e308)])
def test_log_scale_from_zero_covers_six_decades(low, high):
    t = log_thresholds(low, high)
    fractions = (t / 4 - low / 4) / (high / 4 - low / 4)
    np.testing.assert_allclose(np.log1p(1e6 * fractions) / math.log1p(1e6), np.arange(1, 255) / 255, rtol=1e-8)
    assert (np.diff(t) > 0).all()
