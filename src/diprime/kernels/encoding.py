"""Encoding of numeric values. These are the only loops that read raw feature values."""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover
    from diprime.kernels import _shim as cython

from diprime.kernels import constants

MISSING = cython.declare(cython.int, constants.MISSING)
LAST_CELL = cython.declare(cython.double, constants.CELLS - 1)
floating = cython.fused_type(cython.float, cython.double)


def encode_rows(
    x: cython.const[floating][:, ::1],
    low: cython.const[cython.double][::1],
    inverse: cython.const[cython.double][::1],
    out: cython.uchar[:, ::1],
) -> None:
    """Write the bins of a C-ordered matrix: (x - low) * inverse by column, truncated and clipped to [0, 254].

    NaN gets the code of missing values. The conditional expressions compile without branches, so the loop over a row is
    vectorised and its running time does not depend on the values. The order of the comparisons maps NaN to 0, because
    the conversion of NaN to an integer is undefined.
    """
    last_cell: cython.double = LAST_CELL
    missing: cython.int = MISSING
    n: cython.Py_ssize_t = x.shape[0]
    width: cython.Py_ssize_t = x.shape[1]
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    position: cython.double
    clamped: cython.double
    with cython.nogil:
        for i in range(n):
            for j in range(width):
                position = (cython.cast(cython.double, x[i, j]) - low[j]) * inverse[j]
                clamped = position if position > 0.0 else 0.0
                clamped = clamped if clamped < last_cell else last_cell
                out[i, j] = cython.cast(cython.int, clamped) if position == position else missing


def encode_linear(
    x: cython.const[floating][:], low: cython.double, inverse: cython.double, out: cython.uchar[:]
) -> None:
    """Write the bins of one column of any stride, by the formula of `encode_rows`."""
    last_cell: cython.double = LAST_CELL
    missing: cython.int = MISSING
    n: cython.Py_ssize_t = x.shape[0]
    i: cython.Py_ssize_t
    position: cython.double
    clamped: cython.double
    with cython.nogil:
        for i in range(n):
            position = (cython.cast(cython.double, x[i]) - low) * inverse
            clamped = position if position > 0.0 else 0.0
            clamped = clamped if clamped < last_cell else last_cell
            out[i] = cython.cast(cython.int, clamped) if position == position else missing


def encode_sorted(
    x: cython.const[floating][:], thresholds: cython.const[cython.double][::1], out: cython.uchar[:]
) -> None:
    """Write the number of thresholds, of 255 ascending ones, at or below each value. NaN gets the missing code.

    Shorter lists are padded with NaN, which is at or below no number, so the binary search always takes eight steps.
    """
    missing: cython.int = MISSING
    n: cython.Py_ssize_t = x.shape[0]
    i: cython.Py_ssize_t
    value: cython.double
    cell: cython.int
    step: cython.int
    with cython.nogil:
        for i in range(n):
            value = cython.cast(cython.double, x[i])
            cell = 0
            step = 128
            while step > 0:
                cell += step * (thresholds[cell + step - 1] <= value)
                step >>= 1
            out[i] = cell if value == value else missing
