"""Main effects and interactions: the terms of an additive model, centred so that each shows what only it contributes.

A function of two features contains functions of each. Here they are moved to the main effects of the features, and all
means to the offset, so that every term has mean zero over each of its features. The means are taken over the released
numbers of records of each code; features are taken as independent, because nothing is released about pairs of codes.

All values are integer multiples of a quantum, and sums of such numbers are exact in float64. What is moved is rounded
to the quantum, so the sum of all terms and the offset stays exactly what it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from diprime.kernels import adding
from diprime.kernels.constants import N_CODES
from diprime.model.terms import Term, first_codes, segments_of
from diprime.model.trees import Codes, Floats

ADD_BLOCK_ROWS = 512
"""How many rows are looked up in one term after the other. Their codes stay in the processor's first cache."""

_Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Effects:
    """An additive model as its offset, main effects and interactions.

    Attributes
    ----------
    offset : array of shape (n_scores,)
        The mean of the scores.
    terms : tuple of Term
        The terms that are not zero: main effects first, then interactions, in the order of their features.
    """

    offset: Floats
    terms: tuple[Term, ...]

    def add_scores(self, codes: Codes, out: Floats) -> None:
        """Add the terms of rows to ``out``, of shape (n, n_scores)."""
        adding.scores(codes, *self.flat_terms, ADD_BLOCK_ROWS, out)

    @cached_property
    def flat_terms(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint16], _Integers, Floats]:
        """The terms as flat arrays: what `adding.scores` takes."""
        n_scores = len(self.offset)
        features = np.full((len(self.terms), 2), -1, dtype=np.int32)
        cells = np.zeros((2 * len(self.terms), N_CODES), dtype=np.uint16)
        for t, term in enumerate(self.terms):
            features[t, : len(term.features)] = term.features
            strides = np.cumprod([1, *term.table.shape[1:-1]])[::-1]
            for side, (segments, stride) in enumerate(zip(term.segments, strides, strict=True)):
                cells[2 * t + side] = segments.astype(np.int64) * stride  # NumPy 1 would wrap at 255
        tables = [term.table.reshape(-1, n_scores) for term in self.terms]
        first_values = np.cumsum([0, *map(len, tables)])[:-1]
        return features, cells, first_values, np.concatenate([*tables, np.zeros((0, n_scores))])


def separate(offset: Floats, terms: list[Term], quantum: float, code_weights: Floats) -> Effects:
    """Return the effects that add up to given terms.

    Parameters
    ----------
    offset : array of shape (n_scores,)
        The constant.
    terms : list of Term
        The terms, at most one for each set of features. All values are multiples of the quantum.
    quantum : float
        A power of two.
    code_weights : array of shape (n_features, 256)
        The released number of records of each code; negative ones are taken as zero.
    """
    constant = _to_integers(offset, quantum)
    used = {j for term in terms for j in term.features}
    main = {j: np.zeros((N_CODES, len(offset)), dtype=np.int64) for j in sorted(used)}
    pairs = []
    for term in terms:
        table = _to_integers(term.table, quantum)
        if len(term.features) == 1:
            main[term.features[0]] += table[term.segments[0]]
            continue
        mean, by_first, by_second = _means(table, *segment_shares(term, code_weights))
        constant += mean
        main[term.features[0]] += by_first[term.segments[0]]
        main[term.features[1]] += by_second[term.segments[1]]
        pure = table - mean - by_first[:, None] - by_second
        pairs.append(Term(term.features, term.segments, _to_floats(pure, quantum)))
    mains = []
    for j, by_code in main.items():
        mean = _rounded(code_shares(code_weights[j]) @ by_code)
        constant += mean
        segments = segments_of(by_code)
        mains.append(Term((j,), (segments,), _to_floats(by_code[first_codes(segments)] - mean, quantum)))
    return Effects(_to_floats(constant, quantum), tuple(term for term in (*mains, *pairs) if term.table.any()))


def _means(table: _Integers, first: Floats, second: Floats) -> tuple[_Integers, _Integers, _Integers]:
    """Return the mean of a table, and how the means of its rows and of its columns differ from it, rounded."""
    by_first, by_second = np.tensordot(table, second, ([1], [0])), np.tensordot(first, table, ([0], [0]))
    mean = first @ by_first
    return _rounded(mean), _rounded(by_first - mean), _rounded(by_second - mean)


def code_shares(code_weights: Floats) -> Floats:
    """Return the share of the records that has each code of a feature; equal shares if no code has any."""
    weights = np.maximum(code_weights, 0.0)
    largest = weights.max()
    if largest == 0:
        return np.full(N_CODES, 1 / N_CODES)
    return np.asarray(weights / largest / (weights / largest).sum())  # the sum of large weights could overflow


def segment_shares(term: Term, code_weights: Floats) -> list[Floats]:
    """Return, for each feature of a term, the share of the records that is in each segment."""
    return [
        np.bincount(segments, code_shares(code_weights[j])).astype(np.float64)
        for j, segments in zip(term.features, term.segments, strict=True)
    ]


def deviation(term: Term, code_weights: Floats) -> float:
    """Return the standard deviation of a term over the records; that of several scores is of their differences."""
    table = term.table
    if table.shape[-1] > 1:  # what is added to all scores alike changes no probability
        table = table - table.mean(axis=-1, keepdims=True)
    squares = np.asarray((table**2).mean(axis=-1))
    for shares in segment_shares(term, code_weights):
        squares = np.tensordot(shares, squares, ([0], [0]))
    return float(np.sqrt(squares))


def importances(effects: Effects, code_weights: Floats) -> Floats:
    """Return the importance of each feature: its share of the standard deviations of all terms.

    An interaction counts half for each of its features. The importances sum to 1, or are all 0 if there are no terms.
    """
    shares = np.zeros(len(code_weights))
    for term in effects.terms:
        shares[list(term.features)] += deviation(term, code_weights) / len(term.features)
    total = shares.sum()
    return shares / total if total > 0 else shares


def _to_integers(values: Floats, quantum: float) -> _Integers:
    return np.asarray((values / quantum).astype(np.int64))


def _to_floats(integers: _Integers, quantum: float) -> Floats:
    return np.asarray(integers * np.float64(quantum))


def _rounded(values: Floats) -> _Integers:
    return np.rint(values).astype(np.int64)
