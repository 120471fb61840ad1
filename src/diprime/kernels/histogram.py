"""Sums over rows: histograms of nodes, routing of rows to children, and totals of leaves.

While trees grow, a row is a *record* of bytes: one code for each feature, padding, and the target in the last two
bytes, low byte first. If records have weights, the weight is in the byte before the target. Records are moved from node
to node, so that every pass reads memory in order. Tables made by domain/encoding.py contain the amount that a target
adds, and its column. In histograms, each node can have its own table. A record of weight w counts as w equal records.

A *bin* packs two sums into 64 bits: the count of rows in the bits from ``shift`` up, and the sum of their values below.
Both stay exact as long as the count is below 2^(64-shift) and the sum below 2^shift. Engines guarantee this: they add
at most ``TargetLayout.max_rows`` rows, counted by weight, to packed bins, and add larger sums in separate integers.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from diprime.kernels import _shim as cython

from diprime.kernels import constants

N_CODES = cython.declare(cython.Py_ssize_t, constants.N_CODES)


def scatter(
    codes: cython.const[cython.uchar][:, ::1],
    targets: cython.const[cython.int][::1],
    trees: cython.const[cython.ushort][::1],
    weights: cython.const[cython.uchar][::1],
    ends: cython.longlong[::1],
    records: cython.uchar[:, ::1],
) -> None:
    """Append each row to the records of its tree. Rows whose tree is not below ``len(ends)`` are dropped.

    ``ends[t]`` is the index of the next record of tree t, which the call advances. ``weights`` is empty if all weights
    are one.
    """
    weighted: cython.bint = weights.shape[0] > 0
    n_features: cython.Py_ssize_t = codes.shape[1]
    last: cython.Py_ssize_t = records.shape[1] - 1
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    to: cython.Py_ssize_t
    with cython.nogil:
        for i in range(trees.shape[0]):
            if trees[i] < ends.shape[0]:
                to = ends[trees[i]]
                ends[trees[i]] = to + 1
                for j in range(n_features):
                    records[to, j] = codes[i, j]
                records[to, last - 1] = targets[i] & 0xFF
                records[to, last] = targets[i] >> 8
                if weighted:
                    records[to, last - 2] = weights[i]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _target(records: cython.const[cython.uchar][:, ::1], i: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the target of a record."""
    return records[i, records.shape[1] - 2] | (records[i, records.shape[1] - 1] << 8)


def accumulate(
    records: cython.const[cython.uchar][:, ::1],
    begins: cython.const[cython.longlong][::1],
    ends: cython.const[cython.longlong][::1],
    slots: cython.const[cython.longlong][::1],
    tables: cython.const[cython.longlong][::1],
    columns: cython.const[cython.ushort][::1],
    amounts: cython.const[cython.ulonglong][:, ::1],
    n_columns: cython.Py_ssize_t,
    weighted: cython.bint,
    bins: cython.ulonglong[:, ::1],
) -> None:
    """Set the slot of each segment to the histogram of its records.

    The bins of code c of feature j begin at (j·256 + c)·n_columns, one for each column. ``tables`` contains the row of
    the amounts that each segment uses.
    """
    weight_at: cython.Py_ssize_t = records.shape[1] - 3
    n_codes: cython.Py_ssize_t = N_CODES
    step: cython.Py_ssize_t = n_codes * n_columns
    n_features: cython.Py_ssize_t = bins.shape[1] // step
    amount: cython.ulonglong
    target: cython.Py_ssize_t
    column: cython.Py_ssize_t
    segment: cython.Py_ssize_t
    slot: cython.Py_ssize_t
    table: cython.Py_ssize_t
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    with cython.nogil:
        for segment in range(begins.shape[0]):
            slot = slots[segment]
            table = tables[segment]
            for j in range(bins.shape[1]):
                bins[slot, j] = 0
            for i in range(begins[segment], ends[segment]):
                target = _target(records, i)
                amount = amounts[table, target]
                if weighted:
                    amount *= records[i, weight_at]
                if n_columns == 1:  # avoids multiplications in the innermost loop
                    for j in range(n_features):
                        bins[slot, j * n_codes + records[i, j]] += amount
                else:
                    column = columns[target]
                    for j in range(n_features):
                        bins[slot, j * step + records[i, j] * n_columns + column] += amount


def subtract(
    parents: cython.const[cython.ulonglong][:, ::1],
    rows: cython.const[cython.longlong][::1],
    smaller: cython.const[cython.longlong][::1],
    larger: cython.const[cython.longlong][::1],
    bins: cython.ulonglong[:, ::1],
) -> None:
    """Set the histogram of each larger child to its parent's minus its sibling's, which is exact for integers."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            for j in range(bins.shape[1]):
                bins[larger[i], j] = parents[rows[i], j] - bins[smaller[i], j]


def partition(
    words: cython.ulonglong[:, ::1],
    records: cython.const[cython.uchar][:, ::1],
    begins: cython.const[cython.longlong][::1],
    ends: cython.const[cython.longlong][::1],
    features: cython.const[cython.int][::1],
    masks: cython.const[cython.uchar][:, ::1],
    middles: cython.longlong[::1],
) -> None:
    """Partition the records of each node in place. The left child comes first, and the right begins at ``middles``.

    A row goes right if the bit of its code is set in the node's mask. ``words`` is the memory of ``records``, eight
    bytes at a time. Every record is swapped with the first record on the right, wherever it goes, so there is no branch
    to mispredict. The order within a child does not matter, because rows are only summed.
    """
    node: cython.Py_ssize_t
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    middle: cython.Py_ssize_t
    feature: cython.Py_ssize_t
    code: cython.Py_ssize_t
    word: cython.ulonglong
    with cython.nogil:
        for node in range(begins.shape[0]):
            feature = features[node]
            middle = begins[node]
            for i in range(begins[node], ends[node]):
                code = records[i, feature]
                for j in range(words.shape[1]):
                    word = words[i, j]
                    words[i, j] = words[middle, j]
                    words[middle, j] = word
                middle += 1 - ((masks[node, code >> 3] >> (code & 7)) & 1)
            middles[node] = middle


def node_sums(
    records: cython.const[cython.uchar][:, ::1],
    begins: cython.const[cython.longlong][::1],
    ends: cython.const[cython.longlong][::1],
    columns: cython.const[cython.ushort][::1],
    amounts: cython.const[cython.ulonglong][::1],
    weighted: cython.bint,
    bins: cython.ulonglong[:, ::1],
) -> None:
    """Add the records of each node to its bins, one per column."""
    amount: cython.ulonglong
    weight_at: cython.Py_ssize_t = records.shape[1] - 3
    target: cython.Py_ssize_t
    node: cython.Py_ssize_t
    i: cython.Py_ssize_t
    with cython.nogil:
        for node in range(begins.shape[0]):
            for i in range(begins[node], ends[node]):
                target = _target(records, i)
                amount = amounts[target]
                if weighted:
                    amount *= records[i, weight_at]
                bins[node, columns[target]] += amount
