"""Histograms to integer costs of candidate splits.

The cost of sending n_L rows left and n_R right is ``balance·|n_L - n_R| - floor(unit·G)``. G is the part of the sum
of squared errors that depends on the split: with ``scale = unit·(weight of a column)/Q²``,
unit·G = scale·(Σ_columns S_L²/n_L + Σ_columns S_R²/n_R), an empty child counting zero. With ``scale = 0`` the cost is
the imbalance alone, whose least value is at the median.

Floats stand between two integers only: S² is formed in float64 (S < 2^38, so S itself is exact), added over the
columns, brought over the product of the counts and scaled by a power of two. With c columns these are at most c + 5
roundings of relative size 2^-53. The value is below unit·n, which is 2^36 for numbers (n < 2^26, c = 1) and 2^41
for classes (n < 2^31): an error below (c + 5)·2^-12 units, less than a quarter for up to 1000 classes. The range of the
cost (splitters.py) pays for the floor and for this error.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from diprime.kernels import _shim as cython

MISSING = cython.declare(cython.Py_ssize_t, 255)
ABSENT_COST = cython.declare(cython.longlong, 1 << 62)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _cost(
    squares_left: cython.double,
    squares_right: cython.double,
    n_left: cython.longlong,
    n_right: cython.longlong,
    scale: cython.double,
    balance: cython.longlong,
) -> cython.longlong:
    # An empty child has no squares: called one row, it leaves the other child's quotient as it is, without a branch.
    # One division by the product of the counts takes half the time of two.
    weight_left: cython.double = max(n_left, 1)
    weight_right: cython.double = max(n_right, 1)
    gain: cython.double = (squares_left * weight_right + squares_right * weight_left) / (weight_left * weight_right)
    return balance * abs(n_left - n_right) - cython.cast(cython.longlong, gain * scale)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _threshold_costs_of_one_column(
    bins: cython.const[cython.ulonglong][:, ::1],
    node: cython.Py_ssize_t,
    base: cython.Py_ssize_t,
    shift: cython.Py_ssize_t,
    low: cython.Py_ssize_t,
    high: cython.Py_ssize_t,
    missing_left: cython.bint,
    scale: cython.double,
    balance: cython.longlong,
    costs: cython.longlong[:, ::1],
    row: cython.Py_ssize_t,
    slot: cython.Py_ssize_t,
) -> cython.longlong:
    """Do what ``_threshold_costs`` does, in one pass: half the time, for two classes and for numbers."""
    value_bits: cython.ulonglong = 1
    running: cython.ulonglong = bins[node, base + MISSING]
    total: cython.ulonglong = running
    n_missing: cython.longlong = running >> shift
    n_total: cython.longlong
    n_left: cython.longlong
    a: cython.double
    b: cython.double
    code: cython.Py_ssize_t
    value_bits = (value_bits << shift) - 1
    for code in range(low, high + 1):
        total += bins[node, base + code]
    n_total = total >> shift
    if not missing_left:
        running = 0
    for code in range(low, high if missing_left else high + 1):
        running += bins[node, base + code]
        n_left = running >> shift
        a = cython.cast(cython.double, cython.cast(cython.longlong, running & value_bits))
        b = cython.cast(cython.double, cython.cast(cython.longlong, (total - running) & value_bits))
        costs[row, slot + code] = _cost(a * a, b * b, n_left, n_total - n_left, scale, balance)
    return n_missing


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _threshold_costs(
    bins: cython.const[cython.ulonglong][:, ::1],
    node: cython.Py_ssize_t,
    base: cython.Py_ssize_t,
    n_columns: cython.Py_ssize_t,
    shift: cython.Py_ssize_t,
    low: cython.Py_ssize_t,
    high: cython.Py_ssize_t,
    missing_left: cython.bint,
    scale: cython.double,
    balance: cython.longlong,
    counts: cython.longlong[::1],
    squares: cython.double[:, ::1],
    costs: cython.longlong[:, ::1],
    row: cython.Py_ssize_t,
    slot: cython.Py_ssize_t,
) -> cython.longlong:
    """Fill ``costs[row, slot + t]`` for each threshold t of the codes from low to high; return the number missing.

    Threshold t sends the codes up to t left. The threshold ``high``, all numbers left, is a split only if the missing
    values go right.
    """
    if n_columns == 1:
        return _threshold_costs_of_one_column(
            bins, node, base, shift, low, high, missing_left, scale, balance, costs, row, slot
        )
    value_bits: cython.ulonglong = 1
    missing: cython.Py_ssize_t = base + MISSING * n_columns
    n_missing: cython.longlong = 0
    n_total: cython.longlong = 0
    running: cython.ulonglong
    total: cython.ulonglong
    a: cython.double
    b: cython.double
    code: cython.Py_ssize_t
    column: cython.Py_ssize_t
    value_bits = (value_bits << shift) - 1
    for code in range(low, high + 1):
        counts[code] = 0
        squares[0, code] = 0.0
        squares[1, code] = 0.0
    for column in range(n_columns):
        # Count and value add up in one bin: the running sum carries both, as does the total.
        running = bins[node, missing + column]
        n_missing += running >> shift
        total = running
        for code in range(low, high + 1):
            total += bins[node, base + code * n_columns + column]
        n_total += total >> shift
        if not missing_left:
            running = 0
        for code in range(low, high + 1):
            running += bins[node, base + code * n_columns + column]
            counts[code] += running >> shift
            a = cython.cast(cython.double, cython.cast(cython.longlong, running & value_bits))
            b = cython.cast(cython.double, cython.cast(cython.longlong, (total - running) & value_bits))
            squares[0, code] += a * a
            squares[1, code] += b * b
    for code in range(low, high if missing_left else high + 1):
        costs[row, slot + code] = _cost(
            squares[0, code], squares[1, code], counts[code], n_total - counts[code], scale, balance
        )
    return n_missing


def numeric_costs(
    bins: cython.const[cython.ulonglong][:, ::1],
    nodes: cython.const[cython.longlong][::1],
    features: cython.const[cython.longlong][::1],
    n_cells: cython.const[cython.longlong][::1],
    low: cython.const[cython.uchar][::1],
    high: cython.const[cython.uchar][::1],
    missing: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    n_columns: cython.Py_ssize_t,
    shift: cython.Py_ssize_t,
    scale: cython.double,
    balance: cython.longlong,
    counts: cython.longlong[::1],
    squares: cython.double[:, ::1],
    costs: cython.longlong[:, ::1],
) -> None:
    """Fill row ``rows[i]`` of the costs with the splits of a numeric feature at a node; other slots are absent.

    Slot t is threshold t with the missing values left; slot n_cells - 1 + t the same with the missing values right.
    At the node only the codes from ``low[i]`` to ``high[i]`` can occur, and missing values only if ``missing[i]``.
    """
    i: cython.Py_ssize_t
    code: cython.Py_ssize_t
    base: cython.Py_ssize_t
    slot: cython.Py_ssize_t
    with cython.nogil:
        for i in range(nodes.shape[0]):
            base = features[i] * 256 * n_columns
            slot = n_cells[i] - 1
            if not missing[i] or low[i] > 0 or high[i] < slot or costs.shape[1] > 2 * slot + 1:
                for code in range(costs.shape[1]):
                    costs[rows[i], code] = ABSENT_COST
            if (
                missing[i]
                and _threshold_costs(
                    bins,
                    nodes[i],
                    base,
                    n_columns,
                    shift,
                    low[i],
                    high[i],
                    False,
                    scale,
                    balance,
                    counts,
                    squares,
                    costs,
                    rows[i],
                    slot,
                )
                == 0
            ):  # none is missing: both sides cost the same
                for code in range(low[i], high[i]):
                    costs[rows[i], code] = costs[rows[i], slot + code]
            else:
                _threshold_costs(
                    bins,
                    nodes[i],
                    base,
                    n_columns,
                    shift,
                    low[i],
                    high[i],
                    True,
                    scale,
                    balance,
                    counts,
                    squares,
                    costs,
                    rows[i],
                    0,
                )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _mask_cost(
    bins: cython.const[cython.ulonglong][:, ::1],
    node: cython.Py_ssize_t,
    base: cython.Py_ssize_t,
    n_columns: cython.Py_ssize_t,
    shift: cython.Py_ssize_t,
    masks: cython.const[cython.uchar][:, ::1],
    mask: cython.Py_ssize_t,
    scale: cython.double,
    balance: cython.longlong,
) -> cython.longlong:
    """Return the cost of the split that sends the codes in a mask right."""
    value_bits: cython.ulonglong = 1
    bin_: cython.ulonglong
    left: cython.ulonglong
    right: cython.ulonglong
    n_left: cython.longlong = 0
    n_right: cython.longlong = 0
    squares_left: cython.double = 0.0
    squares_right: cython.double = 0.0
    a: cython.double
    b: cython.double
    code: cython.Py_ssize_t
    column: cython.Py_ssize_t
    value_bits = (value_bits << shift) - 1
    for column in range(n_columns):
        left = 0
        right = 0
        for code in range(256):
            bin_ = bins[node, base + code * n_columns + column]
            if (masks[mask, code >> 3] >> (code & 7)) & 1:
                n_right += bin_ >> shift
                right += bin_ & value_bits
            else:
                n_left += bin_ >> shift
                left += bin_ & value_bits
        a = cython.cast(cython.double, cython.cast(cython.longlong, left))
        b = cython.cast(cython.double, cython.cast(cython.longlong, right))
        squares_left += a * a
        squares_right += b * b
    return _cost(squares_left, squares_right, n_left, n_right, scale, balance)


def mask_costs(
    bins: cython.const[cython.ulonglong][:, ::1],
    nodes: cython.const[cython.longlong][::1],
    features: cython.const[cython.longlong][::1],
    masks: cython.const[cython.uchar][:, ::1],
    n_columns: cython.Py_ssize_t,
    shift: cython.Py_ssize_t,
    scale: cython.double,
    balance: cython.longlong,
    costs: cython.longlong[::1],
) -> None:
    """Fill ``costs[i]`` with the cost of sending the codes in ``masks[i]`` of a feature right at a node."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(nodes.shape[0]):
            costs[i] = _mask_cost(
                bins, nodes[i], features[i] * 256 * n_columns, n_columns, shift, masks, i, scale, balance
            )


def family_costs(
    bins: cython.const[cython.ulonglong][:, ::1],
    nodes: cython.const[cython.longlong][::1],
    features: cython.const[cython.longlong][::1],
    starts: cython.const[cython.longlong][::1],
    sizes: cython.const[cython.longlong][::1],
    masks: cython.const[cython.uchar][:, ::1],
    allowed: cython.const[cython.uchar][:, ::1],
    rows: cython.const[cython.longlong][::1],
    n_columns: cython.Py_ssize_t,
    shift: cython.Py_ssize_t,
    scale: cython.double,
    balance: cython.longlong,
    costs: cython.longlong[:, ::1],
) -> None:
    """Fill row ``rows[i]`` with the splits of a categorical feature at a node: a run of a public family of masks.

    Only the codes in ``allowed[i]`` can occur at the node; a mask that puts all of them on one side splits nothing,
    and its slot is absent.
    """
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    byte: cython.Py_ssize_t
    left: cython.int
    right: cython.int
    with cython.nogil:
        for i in range(nodes.shape[0]):
            for j in range(costs.shape[1]):
                costs[rows[i], j] = ABSENT_COST
            for j in range(sizes[i]):
                left = 0
                right = 0
                for byte in range(32):
                    left |= allowed[i, byte] & ~masks[starts[i] + j, byte]
                    right |= allowed[i, byte] & masks[starts[i] + j, byte]
                if left != 0 and right != 0:
                    costs[rows[i], j] = _mask_cost(
                        bins,
                        nodes[i],
                        features[i] * 256 * n_columns,
                        n_columns,
                        shift,
                        masks,
                        starts[i] + j,
                        scale,
                        balance,
                    )
