"""Histograms to integer costs of candidate splits.

The cost of sending n_L rows left and n_R right is ``balance·max(0, enough - min(n_L, n_R)) - floor(unit·G)``. The
first part is the number of rows that the smaller side lacks. G is the part of the impurity that depends on the split,
over both children and all columns, in units of one record:

    G = weight·Σ (x²/((1 - 2·ends)·n) + 2·y),
    x = S - ends·n, kept between 0 and (1 - 2·ends)·n,  y = S - (1 - ends)·n, kept above 0,

S the sum of a column in a child of n rows. With ``ends = 0`` it is Σ S²/n, the sum of squared errors; docs/privacy.md
has the impurity that it comes from. ``scale`` is unit·weight/whole and ``whole`` what a record adds, at most. With
``scale = 0`` the cost is that of balance alone, whose least value is at the median.

Floats stand between two integers only. S < 2^38, n and ``whole`` (a power of two) are integers and ``ends`` a multiple
of 2^-6, so that x, y and the products with n are exact. Squares, their sums over the columns, bringing them over the
product of the weights, and adding y are at most c + 6 roundings of relative size 2^-53 for c columns; scaling is by a
power of two. The value is below unit·n, which is 2^36 for numbers (n < 2^26, c = 1) and 2^41 for classes (n < 2^31): an
error below (c + 6)·2^-12 units, less than a quarter for up to 1000 classes. The range of the cost (splitters.py) pays
for the floor and for this error.
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
def _middle(s: cython.double, n: cython.double, ends: cython.double) -> cython.double:
    """Return x of a column with sum s; n is the number of rows times ``whole``."""
    return min(max(s - ends * n, 0.0), (1.0 - 2.0 * ends) * n)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _beyond(s: cython.double, n: cython.double, ends: cython.double) -> cython.double:
    """Return y of a column with sum s; n is the number of rows times ``whole``."""
    return max(s - (1.0 - ends) * n, 0.0)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _cost(
    squares_left: cython.double,
    squares_right: cython.double,
    beyond: cython.double,
    n_left: cython.longlong,
    n_right: cython.longlong,
    scale: cython.double,
    whole: cython.double,
    ends: cython.double,
    balance: cython.longlong,
    enough: cython.longlong,
) -> cython.longlong:
    # An empty child has no squares: called one row, it leaves the other child's quotient as it is, without a branch.
    # One division by the product of the weights takes half the time of two.
    weight_left: cython.double = (1.0 - 2.0 * ends) * whole * cython.cast(cython.double, max(n_left, 1))
    weight_right: cython.double = (1.0 - 2.0 * ends) * whole * cython.cast(cython.double, max(n_right, 1))
    gain: cython.double = (squares_left * weight_right + squares_right * weight_left) / (weight_left * weight_right)
    lacking: cython.longlong = max(enough - min(n_left, n_right), 0)
    return balance * lacking - cython.cast(cython.longlong, (gain + 2.0 * beyond) * scale)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _threshold_costs_of_one_column(
    bins: cython.const[cython.ulonglong][:, ::1],
    node: cython.Py_ssize_t,
    base: cython.Py_ssize_t,
    shift: cython.Py_ssize_t,
    low: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    high: cython.Py_ssize_t,
    missing_left: cython.bint,
    scale: cython.double,
    whole: cython.double,
    ends: cython.double,
    balance: cython.longlong,
    enough: cython.longlong,
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
    x: cython.double
    y: cython.double
    of_left: cython.double
    of_right: cython.double
    code: cython.Py_ssize_t
    value_bits = (value_bits << shift) - 1
    for code in range(low, high + 1):
        total += bins[node, base + code]
    n_total = total >> shift
    if not missing_left:
        running = 0
    for code in range(low, last + 1):
        running += bins[node, base + code]
        n_left = running >> shift
        a = cython.cast(cython.double, cython.cast(cython.longlong, running & value_bits))
        b = cython.cast(cython.double, cython.cast(cython.longlong, (total - running) & value_bits))
        of_left = whole * cython.cast(cython.double, n_left)
        of_right = whole * cython.cast(cython.double, n_total - n_left)
        x = _middle(a, of_left, ends)
        y = _middle(b, of_right, ends)
        costs[row, slot + code] = _cost(
            x * x,
            y * y,
            _beyond(a, of_left, ends) + _beyond(b, of_right, ends),
            n_left,
            n_total - n_left,
            scale,
            whole,
            ends,
            balance,
            enough,
        )
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
    last: cython.Py_ssize_t,
    high: cython.Py_ssize_t,
    missing_left: cython.bint,
    scale: cython.double,
    whole: cython.double,
    ends: cython.double,
    balance: cython.longlong,
    enough: cython.longlong,
    counts: cython.longlong[::1],
    sums: cython.double[:, ::1],
    costs: cython.longlong[:, ::1],
    row: cython.Py_ssize_t,
    slot: cython.Py_ssize_t,
) -> cython.longlong:
    """Fill ``costs[row, slot + t]`` for the thresholds t from low to last; return the number missing.

    Threshold t sends the codes up to t left; at the node codes from low to high can occur. ``counts`` and ``sums`` are
    scratch: rows to the left, and squares to the left, to the right, and what is beyond.
    """
    if n_columns == 1:
        return _threshold_costs_of_one_column(
            bins,
            node,
            base,
            shift,
            low,
            last,
            high,
            missing_left,
            scale,
            whole,
            ends,
            balance,
            enough,
            costs,
            row,
            slot,
        )
    value_bits: cython.ulonglong = 1
    missing: cython.Py_ssize_t = base + MISSING * n_columns
    n_missing: cython.longlong = 0
    n_total: cython.longlong
    running: cython.ulonglong
    total: cython.ulonglong
    a: cython.double
    b: cython.double
    x: cython.double
    of_left: cython.double
    of_right: cython.double
    code: cython.Py_ssize_t
    column: cython.Py_ssize_t
    value_bits = (value_bits << shift) - 1
    for column in range(n_columns):
        n_missing += bins[node, missing + column] >> shift
    n_total = n_missing if missing_left else 0
    for code in range(low, high + 1):
        for column in range(n_columns):
            n_total += bins[node, base + code * n_columns + column] >> shift
        counts[code] = n_total
        sums[0, code] = 0.0
        sums[1, code] = 0.0
        sums[2, code] = 0.0
    if not missing_left:
        n_total += n_missing
    for column in range(n_columns):
        # Count and value add up in one bin: the running sum carries both, as does the total.
        running = bins[node, missing + column]
        total = running
        for code in range(low, high + 1):
            total += bins[node, base + code * n_columns + column]
        if not missing_left:
            running = 0
        for code in range(low, last + 1):
            running += bins[node, base + code * n_columns + column]
            a = cython.cast(cython.double, cython.cast(cython.longlong, running & value_bits))
            b = cython.cast(cython.double, cython.cast(cython.longlong, (total - running) & value_bits))
            of_left = whole * cython.cast(cython.double, counts[code])
            of_right = whole * cython.cast(cython.double, n_total - counts[code])
            x = _middle(a, of_left, ends)
            sums[0, code] += x * x
            x = _middle(b, of_right, ends)
            sums[1, code] += x * x
            sums[2, code] += _beyond(a, of_left, ends) + _beyond(b, of_right, ends)
    for code in range(low, last + 1):
        costs[row, slot + code] = _cost(
            sums[0, code],
            sums[1, code],
            sums[2, code],
            counts[code],
            n_total - counts[code],
            scale,
            whole,
            ends,
            balance,
            enough,
        )
    return n_missing


def numeric_costs(
    bins: cython.const[cython.ulonglong][:, ::1],
    nodes: cython.const[cython.longlong][::1],
    features: cython.const[cython.longlong][::1],
    low: cython.const[cython.uchar][::1],
    high: cython.const[cython.uchar][::1],
    missing: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    n_columns: cython.Py_ssize_t,
    shift: cython.Py_ssize_t,
    scale: cython.double,
    whole: cython.double,
    ends: cython.double,
    balance: cython.longlong,
    enough: cython.longlong,
    counts: cython.longlong[::1],
    sums: cython.double[:, ::1],
    twice: cython.uchar[::1],
    costs: cython.longlong[:, ::1],
) -> None:
    """Fill row ``rows[i]`` of the costs with the splits of a numeric feature at a node; other slots are absent.

    Slot t of the first half is threshold t with the missing values left; the same slot of the second half has them
    right. At the node only the codes from ``low[i]`` to ``high[i]`` can occur, and missing values only if
    ``missing[i]``; then the threshold ``high[i]`` is a candidate too, which puts missing values apart from all numbers
    or, on their side, splits nothing. Where missing values can occur but none does, both halves cost the same: only the
    first is written, and ``twice[rows[i]]`` set.
    """
    half: cython.Py_ssize_t = costs.shape[1] // 2
    i: cython.Py_ssize_t
    code: cython.Py_ssize_t
    last: cython.Py_ssize_t
    n_missing: cython.longlong
    with cython.nogil:
        for i in range(nodes.shape[0]):
            last = high[i] if missing[i] else high[i] - 1
            for code in range(low[i]):
                costs[rows[i], code] = ABSENT_COST
            for code in range(last + 1, half):
                costs[rows[i], code] = ABSENT_COST
            n_missing = _threshold_costs(
                bins,
                nodes[i],
                features[i] * 256 * n_columns,
                n_columns,
                shift,
                low[i],
                last,
                high[i],
                True,
                scale,
                whole,
                ends,
                balance,
                enough,
                counts,
                sums,
                costs,
                rows[i],
                0,
            )
            twice[rows[i]] = missing[i] and n_missing == 0
            if twice[rows[i]]:
                continue
            for code in range(half, costs.shape[1]):
                costs[rows[i], code] = ABSENT_COST
            if missing[i]:
                _threshold_costs(
                    bins,
                    nodes[i],
                    features[i] * 256 * n_columns,
                    n_columns,
                    shift,
                    low[i],
                    last,
                    high[i],
                    False,
                    scale,
                    whole,
                    ends,
                    balance,
                    enough,
                    counts,
                    sums,
                    costs,
                    rows[i],
                    half,
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
    whole: cython.double,
    ends: cython.double,
    balance: cython.longlong,
    enough: cython.longlong,
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
    beyond: cython.double = 0.0
    a: cython.double
    b: cython.double
    x: cython.double
    of_left: cython.double
    of_right: cython.double
    code: cython.Py_ssize_t
    column: cython.Py_ssize_t
    value_bits = (value_bits << shift) - 1
    for code in range(256):
        for column in range(n_columns):
            bin_ = bins[node, base + code * n_columns + column]
            if (masks[mask, code >> 3] >> (code & 7)) & 1:
                n_right += bin_ >> shift
            else:
                n_left += bin_ >> shift
    of_left = whole * cython.cast(cython.double, n_left)
    of_right = whole * cython.cast(cython.double, n_right)
    for column in range(n_columns):
        left = 0
        right = 0
        for code in range(256):
            bin_ = bins[node, base + code * n_columns + column]
            if (masks[mask, code >> 3] >> (code & 7)) & 1:
                right += bin_ & value_bits
            else:
                left += bin_ & value_bits
        a = cython.cast(cython.double, cython.cast(cython.longlong, left))
        b = cython.cast(cython.double, cython.cast(cython.longlong, right))
        x = _middle(a, of_left, ends)
        squares_left += x * x
        x = _middle(b, of_right, ends)
        squares_right += x * x
        beyond += _beyond(a, of_left, ends) + _beyond(b, of_right, ends)
    return _cost(squares_left, squares_right, beyond, n_left, n_right, scale, whole, ends, balance, enough)


def mask_costs(
    bins: cython.const[cython.ulonglong][:, ::1],
    nodes: cython.const[cython.longlong][::1],
    features: cython.const[cython.longlong][::1],
    masks: cython.const[cython.uchar][:, ::1],
    n_columns: cython.Py_ssize_t,
    shift: cython.Py_ssize_t,
    scale: cython.double,
    whole: cython.double,
    ends: cython.double,
    balance: cython.longlong,
    enough: cython.longlong,
    costs: cython.longlong[::1],
) -> None:
    """Fill ``costs[i]`` with the cost of sending the codes in ``masks[i]`` of a feature right at a node."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(nodes.shape[0]):
            costs[i] = _mask_cost(
                bins,
                nodes[i],
                features[i] * 256 * n_columns,
                n_columns,
                shift,
                masks,
                i,
                scale,
                whole,
                ends,
                balance,
                enough,
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
    whole: cython.double,
    ends: cython.double,
    balance: cython.longlong,
    enough: cython.longlong,
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
                        whole,
                        ends,
                        balance,
                        enough,
                    )
