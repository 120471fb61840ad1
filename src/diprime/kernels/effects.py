"""Scores of additive models: sums of functions of one or two features."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from diprime.kernels import _shim as cython


def scores(
    codes: cython.const[cython.uchar][:, ::1],
    features: cython.const[cython.int][:, ::1],
    cells: cython.const[cython.ushort][:, ::1],
    first_values: cython.const[cython.longlong][::1],
    values: cython.const[cython.double][:, ::1],
    block: cython.Py_ssize_t,
    out: cython.double[:, ::1],
) -> None:
    """Add the values of all terms for row i to ``out[i]``, a block of rows at a time.

    Term t is a function of the features ``features[t]``, or of the first alone if the second is negative. The cell of a
    row is the sum of ``cells[2 * t]`` and ``cells[2 * t + 1]`` at its codes. The values of a term's cells begin at
    ``first_values[t]``.
    """
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    term: cython.Py_ssize_t
    score: cython.Py_ssize_t
    begin: cython.Py_ssize_t
    end: cython.Py_ssize_t
    first: cython.Py_ssize_t
    second: cython.Py_ssize_t
    value: cython.Py_ssize_t
    n_scores: cython.Py_ssize_t = out.shape[1]
    with cython.nogil:
        for k in range((codes.shape[0] + block - 1) // block):
            begin = k * block
            end = min(begin + block, codes.shape[0])
            for term in range(features.shape[0]):
                first = features[term, 0]
                second = features[term, 1]
                if n_scores == 1 and second >= 0:  # the most frequent case, without an inner loop
                    for i in range(begin, end):
                        value = first_values[term] + cells[2 * term, codes[i, first]]
                        value += cells[2 * term + 1, codes[i, second]]
                        out[i, 0] += values[value, 0]
                else:
                    for i in range(begin, end):
                        value = first_values[term] + cells[2 * term, codes[i, first]]
                        if second >= 0:
                            value += cells[2 * term + 1, codes[i, second]]
                        for score in range(n_scores):
                            out[i, score] += values[value, score]
