"""Numbers to cells: the only loops that see raw feature values."""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover
    from diprime.kernels import _shim as cython

floating = cython.fused_type(cython.float, cython.double)


def encode_rows(
    x: cython.const[floating][:, ::1],
    low: cython.const[cython.double][::1],
    inverse: cython.const[cython.double][::1],
    out: cython.uchar[:, ::1],
) -> None:
    """Write the cells of a C-ordered matrix: clamp(trunc((x - low) * inverse), 0, 254) by column, 255 for NaN.

    Both selections are free of branches, so the compiler vectorises the loop over a row and its time does not depend
    on the values. The order of the comparisons sends NaN to 0, where the conversion to an integer is defined.
    """
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
                clamped = clamped if clamped < 254.0 else 254.0
                out[i, j] = cython.cast(cython.int, clamped) if position == position else 255


def encode_linear(
    x: cython.const[floating][:], low: cython.double, inverse: cython.double, out: cython.uchar[:]
) -> None:
    """Write the cells of one column with any strides, by the formula of `encode_rows`."""
    n: cython.Py_ssize_t = x.shape[0]
    i: cython.Py_ssize_t
    position: cython.double
    clamped: cython.double
    with cython.nogil:
        for i in range(n):
            position = (cython.cast(cython.double, x[i]) - low) * inverse
            clamped = position if position > 0.0 else 0.0
            clamped = clamped if clamped < 254.0 else 254.0
            out[i] = cython.cast(cython.int, clamped) if position == position else 255


def encode_sorted(
    x: cython.const[floating][:], thresholds: cython.const[cython.double][::1], out: cython.uchar[:]
) -> None:
    """Write how many of 255 ascending thresholds are at or below each number, 255 for NaN.

    Shorter lists end in NaN, which is at or below nothing: the search always takes the same eight steps.
    """
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
            out[i] = cell if value == value else 255
