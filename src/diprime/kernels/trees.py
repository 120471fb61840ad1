"""Leaves and predictions of complete binary trees.

A tree of depth d has 2^d - 1 splits in heap order (the children of node i are 2i + 1 and 2i + 2) and 2^d leaves. A row
goes right if the bit of its code is set in the split's mask, for numeric and categorical features alike.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from diprime.kernels import _shim as cython

floating = cython.fused_type(cython.float, cython.double)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _walk(
    codes: cython.const[cython.uchar][:, ::1],
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    depth: cython.Py_ssize_t,
    first_split: cython.Py_ssize_t,
    features: cython.const[cython.int][::1],
    masks: cython.const[cython.uchar][:, ::1],
    nodes: cython.int[::1],
) -> cython.void:
    """Set ``nodes[i]`` to the leaf of row begin + i, level by level, so that several rows are processed in parallel."""
    i: cython.Py_ssize_t
    _: cython.Py_ssize_t
    split: cython.Py_ssize_t
    code: cython.Py_ssize_t
    for i in range(end - begin):
        nodes[i] = 0
    for _ in range(depth):
        for i in range(end - begin):
            split = first_split + nodes[i]
            code = codes[begin + i, features[split]]
            nodes[i] = 2 * nodes[i] + 1 + ((masks[split, code >> 3] >> (code & 7)) & 1)
    for i in range(end - begin):
        nodes[i] -= (1 << depth) - 1


def leaves(
    codes: cython.const[cython.uchar][:, ::1],
    depths: cython.const[cython.longlong][::1],
    first_splits: cython.const[cython.longlong][::1],
    features: cython.const[cython.int][::1],
    masks: cython.const[cython.uchar][:, ::1],
    nodes: cython.int[::1],
    out: cython.int[:, ::1],
) -> None:
    """Set ``out[i, t]`` to the leaf of row i in tree t. ``nodes`` is scratch memory for a block of rows."""
    i: cython.Py_ssize_t
    tree: cython.Py_ssize_t
    size: cython.Py_ssize_t = nodes.shape[0]
    block: cython.Py_ssize_t
    begin: cython.Py_ssize_t
    end: cython.Py_ssize_t
    with cython.nogil:
        for block in range((codes.shape[0] + size - 1) // size):
            begin = block * size
            end = min(begin + size, codes.shape[0])
            for tree in range(depths.shape[0]):
                _walk(codes, begin, end, depths[tree], first_splits[tree], features, masks, nodes)
                for i in range(end - begin):
                    out[begin + i, tree] = nodes[i]


def predict(
    codes: cython.const[cython.uchar][:, ::1],
    depths: cython.const[cython.longlong][::1],
    first_splits: cython.const[cython.longlong][::1],
    first_leaves: cython.const[cython.longlong][::1],
    features: cython.const[cython.int][::1],
    masks: cython.const[cython.uchar][:, ::1],
    values: cython.const[cython.double][:, ::1],
    nodes: cython.int[::1],
    out: cython.double[:, ::1],
) -> None:
    """Add the values of the leaves of row i to ``out[i]``. ``nodes`` is scratch memory for a block of rows.

    The trees are added in order, because floating-point sums depend on the order.
    """
    i: cython.Py_ssize_t
    tree: cython.Py_ssize_t
    size: cython.Py_ssize_t = nodes.shape[0]
    block: cython.Py_ssize_t
    begin: cython.Py_ssize_t
    end: cython.Py_ssize_t
    output: cython.Py_ssize_t
    with cython.nogil:
        for block in range((codes.shape[0] + size - 1) // size):
            begin = block * size
            end = min(begin + size, codes.shape[0])
            for tree in range(depths.shape[0]):
                _walk(codes, begin, end, depths[tree], first_splits[tree], features, masks, nodes)
                for i in range(end - begin):
                    for output in range(out.shape[1]):
                        out[begin + i, output] += values[first_leaves[tree] + nodes[i], output]


def predict_numbers(
    numbers: cython.const[floating][:, ::1],
    depths: cython.const[cython.longlong][::1],
    first_splits: cython.const[cython.longlong][::1],
    first_leaves: cython.const[cython.longlong][::1],
    features: cython.const[cython.int][::1],
    limits: cython.const[floating][::1],
    missing_right: cython.const[cython.uchar][::1],
    values: cython.const[cython.double][:, ::1],
    nodes: cython.int[::1],
    out: cython.double[:, ::1],
) -> None:
    """Predict like ``predict``, for rows of numbers that are not encoded.

    A number goes right if it is at or above the limit of the split, which is the smallest number of the first bin on
    the right. NaN goes right if ``missing_right`` is set. The search for missing values reads each block of rows in
    order, which also brings the block into the processor's cache.
    """
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    tree: cython.Py_ssize_t
    size: cython.Py_ssize_t = nodes.shape[0]
    block: cython.Py_ssize_t
    begin: cython.Py_ssize_t
    end: cython.Py_ssize_t
    output: cython.Py_ssize_t
    level: cython.Py_ssize_t
    split: cython.Py_ssize_t
    leaf: cython.Py_ssize_t
    node: cython.int
    right: cython.int
    missing: cython.int
    number: floating
    with cython.nogil:
        for block in range((numbers.shape[0] + size - 1) // size):
            begin = block * size
            end = min(begin + size, numbers.shape[0])
            missing = 0
            for i in range(end - begin):
                for j in range(numbers.shape[1]):
                    missing |= numbers[begin + i, j] != numbers[begin + i, j]
            for tree in range(depths.shape[0]):
                for i in range(end - begin):
                    nodes[i] = 0
                for level in range(depths[tree]):
                    if missing:
                        for i in range(end - begin):
                            node = nodes[i]
                            split = first_splits[tree] + node
                            number = numbers[begin + i, features[split]]
                            right = (number >= limits[split]) | ((number != number) & missing_right[split])
                            nodes[i] = 2 * node + 1 + right
                    else:  # without missing values, half the instructions are enough
                        for i in range(end - begin):
                            node = nodes[i]
                            split = first_splits[tree] + node
                            nodes[i] = 2 * node + 1 + (numbers[begin + i, features[split]] >= limits[split])
                for i in range(end - begin):
                    leaf = first_leaves[tree] + nodes[i] - ((1 << depths[tree]) - 1)
                    for output in range(out.shape[1]):
                        out[begin + i, output] += values[leaf, output]
