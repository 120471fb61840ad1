"""Boosting: scores of records, their gradients, and gradient sums in the cells of a round or for the codes of features.

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


def logistic(
    scores: cython.const[cython.int][:, ::1],
    targets: cython.const[cython.ushort][::1],
    table: cython.const[cython.short][:, ::1],
    shift: cython.int,
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    vectors: cython.longlong[:, ::1],
) -> None:
    """Write the gradients and Hessians of the records from ``begin`` to ``end`` for two classes.

    Row ``(score >> shift) + len(table) / 2`` of the table, or the nearest existing row, contains the gradient of the
    first and the second class, and the Hessian.
    """
    i: cython.Py_ssize_t
    row: cython.int
    middle: cython.int = table.shape[0] // 2
    last: cython.int = table.shape[0] - 1
    with cython.nogil:
        for i in range(begin, end):
            row = (scores[i, 0] >> shift) + middle
            row = min(max(row, 0), last)
            vectors[i - begin, 0] = table[row, targets[i]]
            vectors[i - begin, 1] = table[row, 2]


def softmax(
    scores: cython.const[cython.int][:, ::1],
    targets: cython.const[cython.ushort][::1],
    table: cython.const[cython.int][::1],
    shift: cython.int,
    unit_bits: cython.int,
    clip: cython.longlong,
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    vectors: cython.longlong[:, ::1],
) -> None:
    """Write the gradients and Hessians of the records from ``begin`` to ``end`` for K classes.

    ``table[d >> shift]`` is exp(-d), times ``table[0]`` <= 2^20, for the distance d of a score from the largest score;
    beyond the end of the table it is zero. Each class has a share p of the unit, rounded down, so the shares add up to
    at most one unit. The gradient is unit·[class] - p, shortened to a norm of at most ``clip``. The Hessian is
    p·(unit - p)/unit, rounded down, or zero for all classes if its squared norm would exceed 4/27 of a squared unit.
    """
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    n: cython.Py_ssize_t = scores.shape[1]
    own: cython.Py_ssize_t
    length: cython.Py_ssize_t = table.shape[0]
    largest: cython.int
    place: cython.longlong
    total: cython.longlong
    inverse: cython.longlong
    share: cython.longlong
    value: cython.longlong
    norm: cython.longlong
    norm_of_hessian: cython.longlong
    root: cython.longlong
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
                vectors[i - begin, k] = table[place] if place < length else 0
                total += vectors[i - begin, k]
            inverse = (one << 42) // total
            own = targets[i]
            norm = 0
            norm_of_hessian = 0
            for k in range(n):
                share = (vectors[i - begin, k] * inverse) >> (42 - unit_bits)
                value = (unit if k == own else 0) - share
                norm += value * value
                vectors[i - begin, k] = value
                value = (share * (unit - share)) >> unit_bits
                norm_of_hessian += value * value
                vectors[i - begin, n + k] = value
            if norm > clip * clip:
                root = cython.cast(cython.longlong, cython.cast(cython.double, norm) ** 0.5)
                while root * root < norm:  # rounded up, whatever the floating-point root is
                    root += 1
                for k in range(n):
                    value = vectors[i - begin, k]
                    if value >= 0:
                        vectors[i - begin, k] = (clip * value) // root
                    else:
                        vectors[i - begin, k] = -((clip * -value) // root)
            if 27 * norm_of_hessian > 4 * unit * unit:
                for k in range(n):
                    vectors[i - begin, n + k] = 0


def residuals(
    scores: cython.const[cython.int][:, ::1],
    targets: cython.const[cython.ushort][::1],
    scale: cython.int,
    clip: cython.int,
    multiplier: cython.longlong,
    count: cython.int,
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    vectors: cython.longlong[:, ::1],
) -> None:
    """Write the residuals and counts of the records from ``begin`` to ``end`` for numeric targets.

    The residual scale·target - score is clipped to ±clip, multiplied by multiplier/2^32 and rounded. Each record has
    the same ``count``.
    """
    i: cython.Py_ssize_t
    residual: cython.longlong
    half: cython.longlong = 1 << 31
    limit: cython.longlong = clip
    with cython.nogil:
        for i in range(begin, end):
            residual = targets[i]
            residual = residual * scale - scores[i, 0]
            residual = min(max(residual, -limit), limit)
            vectors[i - begin, 0] = (residual * multiplier + half) >> 32
            vectors[i - begin, 1] = count


def add_to_cells(
    vectors: cython.const[cython.longlong][:, ::1],
    cells: cython.const[cython.uchar][::1],
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    weights: cython.const[cython.uchar][::1],
    sums: cython.longlong[:, ::1],
) -> None:
    """Add the weighted vectors of the records from ``begin`` to ``end`` to the sums of their cells."""
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    n: cython.Py_ssize_t = vectors.shape[1]
    weighted: cython.bint = weights.shape[0] > 0
    weight: cython.longlong = 1
    with cython.nogil:
        for i in range(begin, end):
            if weighted:
                weight = weights[i]
            for k in range(n):
                sums[cells[i], k] += weight * vectors[i - begin, k]


def look_up(
    columns: cython.const[cython.uchar][:, ::1],
    features: cython.const[cython.int][::1],
    tables: cython.const[cython.longlong][:, :, ::1],
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    sums: cython.longlong[:, ::1],
) -> None:
    """Add ``tables[k]`` at the code of ``features[k]``, for all k, for the records from ``begin`` to ``end``."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    s: cython.Py_ssize_t
    n: cython.Py_ssize_t = tables.shape[2]
    with cython.nogil:
        for k in range(features.shape[0]):
            j = features[k]
            if n == 1:
                for i in range(begin, end):
                    sums[i - begin, 0] += tables[k, columns[j, i], 0]
            else:
                for i in range(begin, end):
                    for s in range(n):
                        sums[i - begin, s] += tables[k, columns[j, i], s]


def add_to_codes(
    columns: cython.const[cython.uchar][:, ::1],
    features: cython.const[cython.int][::1],
    vectors: cython.const[cython.longlong][:, ::1],
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    sums: cython.longlong[:, :, ::1],
) -> None:
    """Add the vectors of the records from ``begin`` to ``end`` to ``sums[k]`` at the code of ``features[k]``."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    s: cython.Py_ssize_t
    n: cython.Py_ssize_t = vectors.shape[1]
    with cython.nogil:
        for k in range(features.shape[0]):
            j = features[k]
            if n == 1:
                for i in range(begin, end):
                    sums[k, columns[j, i], 0] += vectors[i - begin, 0]
            else:
                for i in range(begin, end):
                    for s in range(n):
                        sums[k, columns[j, i], s] += vectors[i - begin, s]
