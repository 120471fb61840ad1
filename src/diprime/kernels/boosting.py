"""Rounds of boosting: updates of the scores of records, and gradient sums in the cells of a round.

Scores are fixed-point integers, and a record's gradient is an integer vector that depends only on its own scores and
target. The sums therefore do not depend on the order of the records, and involve no floating-point numbers. A record of
weight w counts as w equal records; ``weights`` is empty if all weights are one.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from diprime.kernels import _shim as cython


def move(
    columns: cython.const[cython.uchar][:, ::1],
    features: cython.const[cython.int][::1],
    cells_of_codes: cython.const[cython.uchar][:, ::1],
    steps: cython.const[cython.int][:, ::1],
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    cells: cython.uchar[::1],
    scores: cython.int[:, ::1],
) -> None:
    """Add the steps of their cells to the scores of the records from ``begin`` to ``end``, then set their new cells.

    ``columns[j]`` contains the codes of feature j. The new cell of a record is the sum of ``cells_of_codes[k]`` at its
    code of ``features[k]``, for one or two features.
    """
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    n_scores: cython.Py_ssize_t = scores.shape[1]
    first: cython.Py_ssize_t = features[0]
    second: cython.Py_ssize_t = features[features.shape[0] - 1]
    with cython.nogil:
        if n_scores == 1:
            for i in range(begin, end):
                scores[i, 0] += steps[cells[i], 0]
        else:
            for i in range(begin, end):
                for k in range(n_scores):
                    scores[i, k] += steps[cells[i], k]
        if features.shape[0] == 1:
            for i in range(begin, end):
                cells[i] = cells_of_codes[0, columns[first, i]]
        else:
            for i in range(begin, end):
                cells[i] = cells_of_codes[0, columns[first, i]] + cells_of_codes[1, columns[second, i]]


def add_logistic(
    scores: cython.const[cython.int][:, ::1],
    targets: cython.const[cython.ushort][::1],
    cells: cython.const[cython.uchar][::1],
    table: cython.const[cython.short][:, ::1],
    shift: cython.int,
    unit: cython.int,
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    weights: cython.const[cython.uchar][::1],
    sums: cython.longlong[:, ::1],
) -> None:
    """Add the gradients and Hessians of the records from ``begin`` to ``end`` to their cells, for two classes.

    Row ``(score >> shift) + len(table) / 2`` of the table, or the nearest existing row, contains the gradient of the
    second class and the Hessian. The gradient of the first class is smaller by ``unit``.
    """
    i: cython.Py_ssize_t
    weighted: cython.bint = weights.shape[0] > 0
    weight: cython.longlong = 1
    row: cython.int
    middle: cython.int = table.shape[0] // 2
    last: cython.int = table.shape[0] - 1
    with cython.nogil:
        for i in range(begin, end):
            row = (scores[i, 0] >> shift) + middle
            row = min(max(row, 0), last)
            if weighted:
                weight = weights[i]
            sums[cells[i], 0] += weight * (table[row, 0] - unit * (1 - targets[i]))
            sums[cells[i], 1] += weight * table[row, 1]


def add_softmax(
    scores: cython.const[cython.int][:, ::1],
    targets: cython.const[cython.ushort][::1],
    cells: cython.const[cython.uchar][::1],
    table: cython.const[cython.int][::1],
    shift: cython.int,
    unit_bits: cython.int,
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    weights: cython.const[cython.uchar][::1],
    shares: cython.longlong[::1],
    sums: cython.longlong[:, ::1],
) -> None:
    """Add the gradients and Hessians of the records from ``begin`` to ``end`` to their cells, for K classes.

    ``table[d >> shift]`` is exp(-d), times ``table[0]`` <= 2^20, for the distance d of a score from the largest score;
    beyond the end of the table it is zero. Each class has a share p of the unit, rounded down, so the shares add up to
    at most one unit. The gradient is unit·[class] - p, and the Hessian is 2·p·(unit - p)/unit. If the vector of a
    record is longer than √2 units, only its gradient is added. The gradient alone is never longer, because the shares
    of the other classes add up to at most unit - p, for the share p of its own class. ``shares`` is scratch memory.
    """
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    n: cython.Py_ssize_t = scores.shape[1]
    own: cython.Py_ssize_t
    cell: cython.Py_ssize_t
    length: cython.Py_ssize_t = table.shape[0]
    largest: cython.int
    place: cython.longlong
    total: cython.longlong
    inverse: cython.longlong
    gradient: cython.longlong
    hessian: cython.longlong
    norm: cython.longlong
    weighted: cython.bint = weights.shape[0] > 0
    weight: cython.longlong = 1
    one: cython.longlong = 1
    unit: cython.longlong = one << unit_bits
    with cython.nogil:
        for i in range(begin, end):
            largest = scores[i, 0]
            for k in range(1, n):
                largest = max(largest, scores[i, k])
            total = 0
            for k in range(n):
                place = largest
                place = (place - scores[i, k]) >> shift
                shares[k] = table[place] if place < length else 0
                total += shares[k]
            inverse = (one << 42) // total
            own = targets[i]
            cell = cells[i]
            norm = 0
            if weighted:
                weight = weights[i]
            for k in range(n):
                shares[k] = (shares[k] * inverse) >> (42 - unit_bits)
                gradient = (unit if k == own else 0) - shares[k]
                hessian = (2 * shares[k] * (unit - shares[k])) >> unit_bits
                norm += gradient * gradient + hessian * hessian
                sums[cell, k] += weight * gradient
            if norm <= 2 * unit * unit:
                for k in range(n):
                    sums[cell, n + k] += weight * ((2 * shares[k] * (unit - shares[k])) >> unit_bits)


def add_residuals(
    scores: cython.const[cython.int][:, ::1],
    targets: cython.const[cython.ushort][::1],
    cells: cython.const[cython.uchar][::1],
    scale: cython.int,
    clip: cython.int,
    multiplier: cython.longlong,
    count: cython.int,
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    weights: cython.const[cython.uchar][::1],
    sums: cython.longlong[:, ::1],
) -> None:
    """Add the residuals and counts of the records from ``begin`` to ``end`` to their cells, for numeric targets.

    The residual scale·target - score is clipped to ±clip, multiplied by multiplier/2^32 and rounded. Each record adds
    ``count`` to the counts.
    """
    i: cython.Py_ssize_t
    residual: cython.longlong
    half: cython.longlong = 1 << 31
    limit: cython.longlong = clip
    weighted: cython.bint = weights.shape[0] > 0
    times: cython.longlong = 1
    with cython.nogil:
        for i in range(begin, end):
            residual = targets[i]
            residual = residual * scale - scores[i, 0]
            residual = min(max(residual, -limit), limit)
            if weighted:
                times = weights[i]
            sums[cells[i], 0] += times * ((residual * multiplier + half) >> 32)
            sums[cells[i], 1] += times * count
