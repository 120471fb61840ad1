"""Shapley values of the features in one complete binary tree.

If only the features in a set S are known, the prediction of a tree is a sum over its leaves,

    v(S) = Σ value · Π_{j in S} a_j · Π_{j not in S} b_j,

with products over the features j on the path to the leaf. Here a_j is 1 if the row follows the path at all splits on j,
and 0 otherwise; b_j is the product of the shares of records that follow it. The Shapley value of j in such a product is

    (a_j - b_j) · ∫ Π_{i ≠ j} ((1 - t)·b_i + t·a_i) dt,  t from 0 to 1,

the mean over all orders in which features become known, where t is the share of features before j. The integrand is a
polynomial whose degree is below the number of features on the path. Gauss-Legendre quadrature with half as many points
is therefore exact, up to rounding.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from diprime.kernels import _shim as cython


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _follow(
    leaf: cython.Py_ssize_t,
    depth: cython.Py_ssize_t,
    features: cython.const[cython.int][::1],
    shares: cython.const[cython.double][::1],
    path: cython.longlong[:, ::1],
    factors: cython.double[:, ::1],
) -> cython.Py_ssize_t:
    """Write the path to a leaf and b_j of each of its features, and return the number of these features.

    Level k of the path, from the leaf up, has the split ``path[0, k]``, goes right if ``path[1, k]`` is set, and uses
    feature number ``path[2, k]`` of the path, which is feature ``path[3, path[2, k]]`` of the data.
    """
    node: cython.Py_ssize_t = (1 << depth) - 1 + leaf
    n_slots: cython.Py_ssize_t = 0
    level: cython.Py_ssize_t
    slot: cython.Py_ssize_t
    parent: cython.Py_ssize_t
    for level in range(depth):
        parent = (node - 1) // 2
        slot = 0
        while slot < n_slots and path[3, slot] != features[parent]:
            slot += 1
        if slot == n_slots:
            path[3, slot] = features[parent]
            factors[0, slot] = 1.0
            n_slots += 1
        factors[0, slot] *= shares[node]
        path[0, level] = parent
        path[1, level] = 1 - node % 2
        path[2, level] = slot
        node = parent
    return n_slots


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _coefficients(
    n_slots: cython.Py_ssize_t,
    points: cython.const[cython.double][::1],
    weights: cython.const[cython.double][::1],
    factors: cython.double[:, ::1],
) -> cython.void:
    """Set ``factors[3, j]`` to the Shapley value of feature j of the path, for a leaf of value one."""
    slot: cython.Py_ssize_t
    i: cython.Py_ssize_t
    q: cython.Py_ssize_t
    t: cython.double
    product: cython.double
    for slot in range(n_slots):
        factors[3, slot] = 0.0
    for q in range(points.shape[0]):
        t = points[q]
        product = weights[q]
        for slot in range(n_slots):
            factors[2, slot] = product  # product over the preceding features
            product *= (1.0 - t) * factors[0, slot] + t * factors[1, slot]
        product = 1.0
        for i in range(n_slots):
            slot = n_slots - 1 - i
            factors[3, slot] += factors[2, slot] * product
            product *= (1.0 - t) * factors[0, slot] + t * factors[1, slot]
    for slot in range(n_slots):
        factors[3, slot] *= factors[1, slot] - factors[0, slot]


def shapley(
    codes: cython.const[cython.uchar][:, ::1],
    features: cython.const[cython.int][::1],
    masks: cython.const[cython.uchar][:, ::1],
    shares: cython.const[cython.double][::1],
    values: cython.const[cython.double][:, ::1],
    points: cython.const[cython.double][::1],
    weights: cython.const[cython.double][::1],
    path: cython.longlong[:, ::1],
    factors: cython.double[:, ::1],
    out: cython.double[:, ::1],
) -> None:
    """Add the Shapley values of row i to ``out[i]``: for each feature, one value per output.

    ``shares`` contains each node's share of its parent's records, in heap order. ``points`` and ``weights`` define a
    quadrature from 0 to 1. ``path`` and ``factors`` are scratch memory with four rows, and one column per level.
    """
    depth: cython.Py_ssize_t = 0
    n_outputs: cython.Py_ssize_t = values.shape[1]
    n_slots: cython.Py_ssize_t
    leaf: cython.Py_ssize_t
    row: cython.Py_ssize_t
    level: cython.Py_ssize_t
    slot: cython.Py_ssize_t
    at: cython.Py_ssize_t
    output: cython.Py_ssize_t
    code: cython.Py_ssize_t
    is_reached: cython.bint
    with cython.nogil:
        while (1 << depth) < values.shape[0]:
            depth += 1
        for leaf in range(values.shape[0]):
            n_slots = _follow(leaf, depth, features, shares, path, factors)
            for row in range(codes.shape[0]):
                for slot in range(n_slots):
                    factors[1, slot] = 1.0
                for level in range(depth):
                    slot = path[2, level]
                    code = codes[row, path[3, slot]]
                    if ((masks[path[0, level], code >> 3] >> (code & 7)) & 1) != path[1, level]:
                        factors[1, slot] = 0.0
                is_reached = True
                for slot in range(n_slots):
                    if factors[0, slot] == 0.0 and factors[1, slot] == 0.0:
                        is_reached = False  # the leaf adds nothing, whichever features are known
                if not is_reached:
                    continue
                _coefficients(n_slots, points, weights, factors)
                for slot in range(n_slots):
                    at = path[3, slot] * n_outputs
                    for output in range(n_outputs):
                        out[row, at + output] += factors[3, slot] * values[leaf, output]
