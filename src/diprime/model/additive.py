"""Boosted models: trees on one or two features whose values add up to scores, and a link to predictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Threads
from diprime.domain import Domain
from diprime.domain.encoding import Rows
from diprime.model.effects import (
    Clip,
    Effects,
    Link,
    Steps,
    code_shares,
    collapse,
    features_of_trees,
    link_of,
    separate,
)
from diprime.model.estimates import code_counts
from diprime.model.function_noise import FunctionNoise, noise_of_functions
from diprime.model.trees import (
    MAX_COUNT,
    Codes,
    Dtype,
    Floats,
    Structure,
    Trees,
    encode_blocks,
    flat_arrays,
    joined_arrays,
)

MAX_QUANTA = 2.0**48
"""Maximum sum of magnitudes, in quanta. Effects are at most 32 times as large, and float64 has 53 bits."""
MAX_EXPONENT = 400
"""Maximum magnitude of the quantum's exponent, so that squares of values neither overflow nor vanish."""


@dataclass(frozen=True, eq=False, repr=False)
class AdditiveForest(Trees):
    """Additive model: complete binary trees on one or two features each, whose values add up.

    The first trees of a fit are curves, which separate all codes of a feature. The others are rounds.

    The scores of a row are ``offset`` plus the values of the leaves that it reaches. All of these are integer multiples
    of ``quantum``, small enough that float64 adds them without rounding. The order of summation therefore does not
    matter, and the trees can be collapsed to `effects` with bit-identical scores.

    Attributes
    ----------
    depths : array of shape (n_trees,)
        Depth of each tree. A tree of depth d has 2^d - 1 splits, in heap order, and 2^d leaves.
    features : array of shape (n_splits,)
        Feature of each split.
    masks : array of shape (n_splits, 32)
        Mask of each split. Rows go right if the bit of their code is set.
    values : array of shape (n_leaves, n_scores)
        Contribution of each leaf to the scores.
    counts : array of shape (n_leaves,)
        Released weight of each leaf: its number of records, or its sum of Hessians. It may be negative.
    offset : array of shape (n_scores,)
        Initial scores of all rows.
    quantum : float
        Power of two of which values and offset are multiples.
    code_weights : array of shape (n_features, 256)
        Released number of records with each code of each feature, including noise; see `code_counts`.
    code_noise : float
        Standard deviation of this noise.
    n_records, records_noise : float
        Released number of records, or of people, and the standard deviation of its noise.
    steps : Steps
        Rules that turned released sums into leaf values. They determine the noise of the values.
    n_codes : array of shape (n_features,)
        Number of categories or bins of each feature.
    is_categorical : array of shape (n_features,)
        Whether a feature is categorical.
    link : Link
        Map from scores to predictions.
    """

    offset: Floats
    quantum: float
    code_weights: Floats
    code_noise: float
    n_records: float
    records_noise: float
    steps: Steps
    n_codes: npt.NDArray[np.int64]
    is_categorical: npt.NDArray[np.bool_]
    link: Link

    @classmethod
    def of_rounds(
        cls,
        rounds: Sequence[tuple[Structure, Floats, Floats]],
        offset: Floats,
        quantum: float,
        counts_of_records: tuple[Floats, float, float, float],
        steps: Steps,
        domain: Domain,
    ) -> AdditiveForest:
        """Return the model of consecutive rounds, with values and offset rounded to the quantum.

        A round consists of the splits of trees of equal depth, their leaf values, and the released weights of their
        leaves. ``counts_of_records`` are ``code_weights``, ``code_noise``, ``n_records`` and ``records_noise``.
        """
        depths, features, masks, values, counts = joined_arrays([flat_arrays(*of_round) for of_round in rounds])
        values, offset = rounded_to(quantum, values), rounded_to(quantum, offset)
        link = link_of(domain, quantum)
        kinds = domain.n_codes, domain.is_categorical
        return cls(depths, features, masks, values, counts, offset, quantum, *counts_of_records, steps, *kinds, link)

    @classmethod
    def merge(cls, forests: Sequence[AdditiveForest]) -> AdditiveForest:
        """Return the model whose scores are the mean of the models' scores, weighted by released record counts.

        All models must have the same domain. Values are rounded to the finest common quantum in which sums are exact.
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
            math.hypot(*(forest.code_noise for forest in forests)),
            sum(forest.n_records for forest in forests),
            math.hypot(*(forest.records_noise for forest in forests)),
            Steps.merge([forest.steps for forest in forests], weights),
            forests[0].n_codes,
            forests[0].is_categorical,
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
        for counts, name in ((self.code_weights, "records of a code"), (self.n_records, "records")):
            if not (np.abs(counts) <= MAX_COUNT).all():
                raise ValueError(f"the number of {name} is impossible.")
        if not (0 <= self.code_noise <= MAX_COUNT and 0 <= self.records_noise <= MAX_COUNT):
            raise ValueError("the noise of the numbers of records is impossible.")
        self.steps.check(self.n_trees)
        if self.link != link_of(domain, self.quantum):
            raise ValueError("the link is not that of the target.")
        if isinstance(self.link, Clip) and self.link.limits[0] > self.link.limits[1]:
            raise ValueError("the quantum is too coarse for the range of the target.")
        self._check_curves()
        _ = self.effects  # no tree may split on many features, and the terms must not be too large

    def _check_curves(self) -> None:
        features = compress(features_of_trees(self), self.steps.is_curve)
        for of_curve, noise in zip(features, self.steps.curve_noise, strict=True):
            if len(of_curve) > 1 or (self.is_categorical[list(of_curve)].any() and len(noise) != 1):
                raise ValueError("a curve has several features, or noise of an impossible shape.")

    @property
    def file_arrays(self) -> list[npt.NDArray[Any]]:
        """The arrays in the format and order of model files. The depths are in the header."""
        own = (self.offset, self.code_weights, self.steps.table, *self.steps.curve_noise)
        return [*super().file_arrays, *(array.astype("<f8") for array in own)]

    @property
    def curves(self) -> list[int]:
        """Indices of the trees that are curves of a feature. A constant model has none."""
        return list(np.flatnonzero(self.steps.is_curve & (self.depths > 0)).tolist())

    @property
    def rounds(self) -> list[int]:
        """Indices of the trees that are rounds."""
        return list(np.flatnonzero(~self.steps.is_curve).tolist())

    @property
    def magnitude(self) -> float:
        """Upper bound on the magnitude of all scores, and of the range that they are clipped to."""
        leaves = np.abs(self.values).max(axis=1)
        with np.errstate(over="ignore"):  # infinity is also too large
            total = np.abs(self.offset).max() + np.maximum.reduceat(leaves, self.first_leaves[:-1]).sum()
        return max(float(total), self.link.magnitude)

    @cached_property
    def effects(self) -> Effects:
        """The trees as main effects and interactions, with bit-identical scores."""
        constant, terms = collapse(self)
        return separate(self.offset + constant, terms, self.quantum, self.code_counts)

    @cached_property
    def code_counts(self) -> Floats:
        """Denoised number of records with each code: at least zero, and `n_records` in total for each feature."""
        total = max(self.n_records, 0.0)
        return np.stack(
            [
                code_counts(weights, self.code_noise, int(n), is_categorical=bool(c), total=total)
                for weights, n, c in zip(self.code_weights, self.n_codes, self.is_categorical, strict=True)
            ]
        )

    @property
    def code_shares(self) -> Floats:
        """Share of the records with each code."""
        return np.stack([code_shares(counts) for counts in self.code_counts])

    @cached_property
    def noise(self) -> FunctionNoise:
        """Noise of the effects, computed from released numbers."""
        return noise_of_functions(self)

    def scores(self, rows: Rows, threads: Threads) -> Floats:
        """Return the scores of each row: log-odds, one score per class, or a prediction before clipping."""
        return self._map_scores(rows, threads, np.empty((rows.n_rows, len(self.offset))), lambda scores: scores)

    def predict(self, rows: Rows, threads: Threads) -> Floats:
        """Return the class probabilities of each row, or a prediction within the range of the target."""
        n_outputs = self.link.predict(self.offset[None]).shape[1]
        return self._map_scores(rows, threads, np.empty((rows.n_rows, n_outputs)), self.link.predict)

    def decide(self, rows: Rows, threads: Threads) -> npt.NDArray[np.intp]:
        """Return the index of the class with the largest score for each row, or the first one in case of ties."""
        return self._map_scores(rows, threads, np.empty(rows.n_rows, dtype=np.intp), self.link.decide)

    def _map_scores(
        self, rows: Rows, threads: Threads, out: npt.NDArray[Dtype], function: Callable[[Floats], npt.NDArray[Any]]
    ) -> npt.NDArray[Dtype]:
        """Fill ``out`` with a function of the scores of rows, block by block."""
        effects = self.effects

        def add(begin: int, end: int, codes: Codes) -> None:
            scores = np.tile(effects.offset, (end - begin, 1))
            effects.add_scores(codes, scores)
            out[begin:end] = function(scores)

        encode_blocks(rows, threads, add)
        return out


def quantum_for(largest: float) -> float:
    """Return the finest quantum in which rounded values add up exactly, if their magnitudes sum to ``largest``.

    >>> quantum_for(15.0) == 2.0**-43
    True
    """
    exponent = math.frexp(largest)[1] + 1 - round(math.log2(MAX_QUANTA))
    return math.ldexp(1.0, min(max(exponent, -MAX_EXPONENT), MAX_EXPONENT))


def rounded_to(quantum: float, values: Floats) -> Floats:
    """Return the nearest multiples of a power of two."""
    with np.errstate(over="ignore"):
        return np.asarray(np.rint(values / quantum) * quantum)
