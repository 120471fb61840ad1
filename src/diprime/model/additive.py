"""A boosted model: trees on one or two features whose values add up to scores, and a link to predictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.domain import Domain
from diprime.domain.encoding import Rows
from diprime.model.effects import Effects, importances, separate
from diprime.model.links import Clip, Link, link_of
from diprime.model.terms import collapse
from diprime.model.trees import (
    MAX_COUNT,
    Codes,
    Floats,
    Structure,
    Trees,
    encode_blocks,
    flat_arrays,
    joined_arrays,
)

MAX_QUANTA = 2.0**48
"""The largest sum of magnitudes, in quanta. Effects are at most 32 times as large, and float64 has 53 bits."""
MAX_EXPONENT = 400
"""The largest magnitude of the quantum's exponent: squares of values neither overflow nor vanish."""


@dataclass(frozen=True, eq=False, repr=False)
class AdditiveForest(Trees):
    """Complete binary trees whose values add up, each of them on one or two features.

    The scores of a row are ``offset`` plus the values of the leaves that it reaches. All of them are integer multiples
    of ``quantum``, small enough that float64 adds them without rounding. So the order of summation does not matter, and
    the trees can be collapsed to `effects` that give the same scores bit for bit.

    Attributes
    ----------
    depths : array of shape (n_trees,)
        The depth of each tree. A tree of depth d has 2^d - 1 splits, in heap order, and 2^d leaves.
    features : array of shape (n_splits,)
        The feature of each split.
    masks : array of shape (n_splits, 32)
        The mask of each split: bit ``code`` says whether rows with that code go right.
    values : array of shape (n_leaves, n_scores)
        What each leaf adds to the scores.
    counts : array of shape (n_leaves,)
        The released weight of each leaf: its number of records, or its sum of Hessians. It may be negative.
    offset : array of shape (n_scores,)
        What the scores of all rows start from.
    quantum : float
        The power of two that values and offset are multiples of.
    code_weights : array of shape (n_features, 256)
        The released number of records that have each code of each feature. Negative ones are taken as zero.
    link : Link
        How scores become predictions.
    """

    offset: Floats
    quantum: float
    code_weights: Floats
    link: Link

    @classmethod
    def of_rounds(
        cls,
        rounds: Sequence[tuple[Structure, Floats, Floats]],
        offset: Floats,
        quantum: float,
        code_weights: Floats,
        domain: Domain,
    ) -> AdditiveForest:
        """Return the model of trees that were learnt one after the other.

        Parameters
        ----------
        rounds : sequence of (structure, values, counts)
            Trees of equal depth: their splits, the values of their leaves, of shape (n_trees, 2^depth, n_scores), and
            the released weights of their leaves, of shape (n_trees, 2^depth). Values are rounded to the quantum.
        offset : array of shape (n_scores,)
            What the scores start from. It is rounded to the quantum.
        quantum : float
            A power of two, such as `quantum_for` returns.
        code_weights : array of shape (n_features, 256)
            The released number of records that have each code of each feature.
        domain : Domain
            The domain, which determines the link.
        """
        depths, features, masks, values, counts = joined_arrays([flat_arrays(*of_round) for of_round in rounds])
        values, offset = rounded_to(quantum, values), rounded_to(quantum, offset)
        link = link_of(domain, quantum)
        return cls(depths, features, masks, values, counts, offset, quantum, code_weights, link)

    @classmethod
    def merge(cls, forests: Sequence[AdditiveForest]) -> AdditiveForest:
        """Return a model whose scores are the mean of the scores of the given models of one domain.

        Each model has the weight of its released number of records, at least one. Values are rounded to a common
        quantum, the finest in which sums are exact.
        """
        sizes = np.array([max(forest.n_records, 1.0) for forest in forests])
        weights = (sizes / sizes.sum()).tolist()
        largest = sum(weight * forest.magnitude for weight, forest in zip(weights, forests, strict=True))
        quantum = max(min(forest.quantum for forest in forests), quantum_for(largest))
        parts = [
            (f.depths, f.features, f.masks, rounded_to(quantum, weight * f.values), f.counts)
            for weight, f in zip(weights, forests, strict=True)
        ]
        offset = sum(weight * forest.offset for weight, forest in zip(weights, forests, strict=True))
        return cls(
            *joined_arrays(parts),
            rounded_to(quantum, np.asarray(offset)),
            quantum,
            np.sum([forest.code_weights for forest in forests], axis=0),
            forests[0].link.in_quanta_of(quantum),
        )

    def check(self, domain: Domain) -> None:
        """Raise a ValueError unless a fit could have produced this model."""
        self.check_trees(domain)
        mantissa, exponent = math.frexp(self.quantum)
        if mantissa != 0.5 or abs(exponent) > MAX_EXPONENT:  # noqa: PLR2004 -- the mantissa of powers of two
            raise ValueError("the quantum is not a power of two of moderate size.")
        for values in (self.values, self.offset):
            if not (np.isfinite(values).all() and (rounded_to(self.quantum, values) == values).all()):
                raise ValueError("a leaf's value or the offset is not a number that is a multiple of the quantum.")
        if not self.magnitude <= MAX_QUANTA * self.quantum:
            raise ValueError("the values of the leaves are too large to be added up exactly.")
        if not (np.abs(self.code_weights) <= MAX_COUNT).all():
            raise ValueError("the number of records of a code is impossible.")
        if self.link != link_of(domain, self.quantum):
            raise ValueError("the link is not that of the target.")
        if isinstance(self.link, Clip) and self.link.limits[0] > self.link.limits[1]:
            raise ValueError("the quantum is too coarse for the range of the target.")
        _ = self.effects  # no tree may split on many features, and the terms must not be too large

    @property
    def magnitude(self) -> float:
        """An upper bound of all scores, and of the bounds that they are clipped to."""
        leaves = np.abs(self.values).max(axis=1)
        with np.errstate(over="ignore"):  # infinity is too large as well
            total = np.abs(self.offset).max() + np.maximum.reduceat(leaves, self.first_leaves[:-1]).sum()
        return max(float(total), self.link.magnitude)

    @property
    def n_records(self) -> float:
        """The released number of records: the mean, over the features, of the sums of `code_weights`."""
        return float(self.code_weights.sum(axis=1).mean())

    @cached_property
    def effects(self) -> Effects:
        """The trees as main effects and interactions, with the same scores bit for bit."""
        constant, terms = collapse(self)
        return separate(self.offset + constant, terms, self.quantum, self.code_weights)

    def scores(self, rows: Rows, threads: Threads) -> Floats:
        """Return the scores of each row: log-odds, one for each class, or one number."""
        out = np.empty((rows.n_rows, len(self.offset)))

        def write(begin: int, end: int, scores: Floats) -> None:
            out[begin:end] = scores

        self._score_blocks(rows, threads, write)
        return out

    def predict(self, rows: Rows, threads: Threads) -> Floats:
        """Return the probability of each class, or one number within the range of the target, for each row."""
        n_outputs = self.link.predict(self.offset[None]).shape[1]
        out = np.empty((rows.n_rows, n_outputs))

        def write(begin: int, end: int, scores: Floats) -> None:
            out[begin:end] = self.link.predict(scores)

        self._score_blocks(rows, threads, write)
        return out

    def decide(self, rows: Rows, threads: Threads) -> npt.NDArray[np.intp]:
        """Return the index of the class with the largest score for each row; the first one in case of ties."""
        out = np.empty(rows.n_rows, dtype=np.intp)

        def write(begin: int, end: int, scores: Floats) -> None:
            out[begin:end] = self.link.decide(scores)

        self._score_blocks(rows, threads, write)
        return out

    def _score_blocks(self, rows: Rows, threads: Threads, write: Callable[[int, int, Floats], None]) -> None:
        """Call ``write(begin, end, scores)`` for blocks of rows."""
        effects = self.effects

        def add(begin: int, end: int, codes: Codes) -> None:
            scores = np.tile(effects.offset, (end - begin, 1))
            effects.add_scores(codes, scores)
            write(begin, end, scores)

        encode_blocks(rows, threads, add)

    def importances(self, n_features: int) -> Floats:
        """Return the importance of each feature: its share of the standard deviations of all effects.

        The standard deviations are over the released numbers of records of each code. An interaction counts half for
        each of its features. The importances sum to 1, or are all 0 if the scores are the same for all rows.
        """
        return importances(self.effects, self.code_weights)


def quantum_for(largest: float) -> float:
    """Return a quantum, as fine as can be, in which values whose magnitudes sum up to ``largest`` add up exactly.

    It leaves a bit for the rounding of the values to the quantum.

    Examples
    --------
    >>> quantum_for(15.0) == 2.0**-43
    True
    """
    exponent = math.frexp(largest)[1] + 1 - round(math.log2(MAX_QUANTA))
    return math.ldexp(1.0, min(max(exponent, -MAX_EXPONENT), MAX_EXPONENT))


def rounded_to(quantum: float, values: Floats) -> Floats:
    """Return the nearest multiples of a power of two."""
    with np.errstate(over="ignore"):
        return np.asarray(np.rint(values / quantum) * quantum)
