"""Rows to sums: accumulate histograms, sort rows into children, add up leaves.

A row in growth is one *record* of bytes: a code for each feature, some bytes of nothing, and in the last two the
target, low byte first. Records move from node to node, so that every pass reads memory in order. What a target adds,
and to which column, is looked up in tables made by histograms.py; in histograms, nodes may have tables of their own.

A *bin* is one 64-bit sum: the count of rows in the bits from ``shift`` up, the sum of their values below. Adding to a
bin keeps both exact as long as the count stays below 2^(64-shift) and the sum below 2^shift, which histograms.py
guarantees for the largest number of rows accepted.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from diprime.kernels import _shim as cython


def deal(
    codes: cython.const[cython.uchar][:, ::1],
    targets: cython.const[cython.int][::1],
    parts: cython.const[cython.ushort][::1],
    ends: cython.longlong[::1],
    records: cython.uchar[:, ::1],
) -> None:
    """Write each row's record at the end of its part; a row whose part is beyond ``ends`` is left out.

    ``ends[p]`` is where part p begins, and afterwards where it ends.
    """
    n_features: cython.Py_ssize_t = codes.shape[1]
    last: cython.Py_ssize_t = records.shape[1] - 1
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    to: cython.Py_ssize_t
    with cython.nogil:
        for i in range(parts.shape[0]):
            if parts[i] < ends.shape[0]:
                to = ends[parts[i]]
                ends[parts[i]] = to + 1
                for j in range(n_features):
                    records[to, j] = codes[i, j]
                records[to, last - 1] = targets[i] & 255
                records[to, last] = targets[i] >> 8


def accumulate(
    records: cython.const[cython.uchar][:, ::1],
    begins: cython.const[cython.longlong][::1],
    ends: cython.const[cython.longlong][::1],
    slots: cython.const[cython.longlong][::1],
    tables: cython.const[cython.longlong][::1],
    columns: cython.const[cython.ushort][::1],
    amounts: cython.const[cython.ulonglong][:, ::1],
    n_columns: cython.Py_ssize_t,
    bins: cython.ulonglong[:, ::1],
) -> None:
    """Set each segment's slot to the histogram of its records: bin (feature·256 + code)·columns + column."""
    step: cython.Py_ssize_t = 256 * n_columns
    n_features: cython.Py_ssize_t = bins.shape[1] // step
    last: cython.Py_ssize_t = records.shape[1] - 1
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
                target = records[i, last - 1] + 256 * records[i, last]
                amount = amounts[table, target]
                if n_columns == 1:  # no multiplication in the innermost loop of all
                    for j in range(n_features):
                        bins[slot, j * 256 + records[i, j]] += amount
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
    """Set the larger child's histogram to the parent's less the smaller child's: exact, for sums of integers."""
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
    """Sort the records of each node in place: those of its left child first; ``middles`` is where the right begins.

    ``words`` is the memory of ``records``, eight bytes at a time. Bit ``code`` of a node's mask says whether a row with
    that code goes right. The order of rows within a node is of no consequence: all that is ever formed of them are
    sums. Every record is swapped with the first that went right, so that there is no branch to mispredict.
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


def add_up(
    records: cython.const[cython.uchar][:, ::1],
    begins: cython.const[cython.longlong][::1],
    ends: cython.const[cython.longlong][::1],
    columns: cython.const[cython.ushort][::1],
    amounts: cython.const[cython.ulonglong][::1],
    bins: cython.ulonglong[:, ::1],
) -> None:
    """Add the records of each node to its bins, one for each column."""
    last: cython.Py_ssize_t = records.shape[1] - 1
    target: cython.Py_ssize_t
    node: cython.Py_ssize_t
    i: cython.Py_ssize_t
    with cython.nogil:
        for node in range(begins.shape[0]):
            for i in range(begins[node], ends[node]):
                target = records[i, last - 1] + 256 * records[i, last]
                bins[node, columns[target]] += amounts[target]
