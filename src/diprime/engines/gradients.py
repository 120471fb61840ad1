"""The gradients of boosting: public maps from a record's scores and target to a vector of integers.

What a record adds to the sums of a round is bounded by these maps whatever its scores are: the squared L2 norm of its
vector is at most ``squared_sensitivity``. Scores are integers in units of 2^-20 for log-odds; the range of a numeric
target is 2^24 units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from diprime.domain.target_layout import TargetLayout
from diprime.engines.weights import NO_WEIGHTS, Weights
from diprime.kernels import boosting

UNIT_BITS = 11
UNIT = 1 << UNIT_BITS
"""What a gradient of one is in the sums."""
SCORE_BITS = 20
"""A log-odds of one is 2^20 units of a score."""
RANGE_BITS = 24
"""The range of a numeric target is 2^24 units of a score."""

_TABLE_SHIFT = 12
_MAX_LOG_ODDS = 12  # where a gradient is below half a unit
_HESSIAN_FACTOR = 3.3
_EXP_BITS = 20
_COUNT_WEIGHT = 512  # a quarter of a unit: noise of counts matters less than noise of residuals

Scores = npt.NDArray[np.int32]
Targets = npt.NDArray[np.uint16]
Cells = npt.NDArray[np.uint8]
Sums = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ScoredRecords:
    """What the gradients of records follow from, and the cells that they are in.

    Attributes
    ----------
    scores : array of shape (n, n_scores)
        The scores.
    targets : array of shape (n,)
        The encoded targets.
    cells : array of shape (n,)
        The cells of the round.
    weights : array of shape (n,) or (0,)
        How many equal records each counts as; empty if that is one.
    """

    scores: Scores
    targets: Targets
    cells: Cells
    weights: Weights = field(default_factory=lambda: NO_WEIGHTS)


class Gradients(Protocol):
    """A map from scores and target of a record to a vector of ``n_columns`` integers."""

    @property
    def n_scores(self) -> int:
        """The number of scores of a record."""

    @property
    def n_columns(self) -> int:
        """The number of entries of a vector: first the gradients, as many as scores, then the weights."""

    @property
    def squared_sensitivity(self) -> int:
        """A bound on the squared L2 norm of a vector."""

    @property
    def weight_unit(self) -> float:
        """What a Hessian (or a count) of one is in the sums."""

    def add(self, records: ScoredRecords, begin: int, end: int, sums: Sums) -> None:
        """Add the vectors of the records from ``begin`` to ``end``, times their weights, to the sums of their cells."""


@dataclass(frozen=True)
class LogisticGradients:
    """Two classes: g = [second class] - p and 3.3·h with h = p·(1 - p), for which g² + (3.3·h)² <= 1.

    For the first class g² = p², and for the second (1 - p)². By symmetry it suffices that (1 - p)²·(1 + 3.3²·p²) <= 1,
    which holds because 3.3² = 10.89 is below (2 - p)/(p·(1 - p)²) >= 11.09. The bound that is charged is that of the
    rounded table itself.
    """

    @property
    def n_scores(self) -> int:
        """One."""
        return 1

    @property
    def n_columns(self) -> int:
        """Gradient and Hessian."""
        return 2

    @property
    def weight_unit(self) -> float:
        """What a Hessian of one is in the sums."""
        return _HESSIAN_FACTOR * UNIT

    @property
    def squared_sensitivity(self) -> int:
        """The largest squared norm of what the table can add, of either class."""
        return _largest_squared_norm()

    def add(self, records: ScoredRecords, begin: int, end: int, sums: Sums) -> None:
        """Add the vectors of the records from ``begin`` to ``end``, times their weights, to the sums of their cells."""
        r, table = records, logistic_table()
        boosting.add_logistic(r.scores, r.targets, r.cells, table, _TABLE_SHIFT, UNIT, begin, end, r.weights, sums)


@cache
def logistic_table() -> npt.NDArray[np.int16]:
    """Return the gradient of the second class and the Hessian for each cell of a grid of scores, in units."""
    width = 2 ** (_TABLE_SHIFT - SCORE_BITS)
    n = round(_MAX_LOG_ODDS / width)
    p = 1 / (1 + np.exp(-(np.arange(-n, n) + 0.5) * width))
    return np.ascontiguousarray(
        np.stack([np.rint(UNIT * (1 - p)), np.floor(_HESSIAN_FACTOR * UNIT * p * (1 - p))], axis=1).astype(np.int16)
    )


@cache
def _largest_squared_norm() -> int:
    gradients, hessians = logistic_table().astype(np.int64).T
    largest = np.maximum(np.abs(gradients), np.abs(gradients - UNIT))
    return int((largest**2 + hessians**2).max())


@dataclass(frozen=True)
class SoftmaxGradients:
    """Several classes: [class] - p and 2·p·(1 - p) for each class, of which the kernel bounds the norm by √2 units."""

    n_classes: int

    @property
    def n_scores(self) -> int:
        """One for each class."""
        return self.n_classes

    @property
    def n_columns(self) -> int:
        """A gradient and a Hessian for each class."""
        return 2 * self.n_classes

    @property
    def weight_unit(self) -> float:
        """What a Hessian of one is in the sums."""
        return 2.0 * UNIT

    @property
    def squared_sensitivity(self) -> int:
        """Two squared units."""
        return 2 * UNIT**2

    def add(self, records: ScoredRecords, begin: int, end: int, sums: Sums) -> None:
        """Add the vectors of the records from ``begin`` to ``end``, times their weights, to the sums of their cells."""
        shares = np.empty(self.n_classes, dtype=np.int64)
        r, table = records, _exp_table()
        boosting.add_softmax(
            r.scores, r.targets, r.cells, table, _TABLE_SHIFT, UNIT_BITS, begin, end, r.weights, shares, sums
        )


@cache
def _exp_table() -> npt.NDArray[np.int32]:
    """Return exp(-d) on the grid of scores, as long as it is not zero."""
    width = 2 ** (_TABLE_SHIFT - SCORE_BITS)
    n = math.ceil(_EXP_BITS * math.log(2) / width)
    return np.asarray(np.rint(2.0**_EXP_BITS * np.exp(-np.arange(n) * width)).astype(np.int32))


@dataclass(frozen=True)
class ResidualGradients:
    """Numbers: the residual, clamped to ±clip, in units of clip, and a count.

    Attributes
    ----------
    clip : int
        The largest residual that counts in full, in units of a score.
    target_units : int
        The units of an encoded target's range.
    """

    clip: int
    target_units: int

    def __post_init__(self) -> None:
        if not 1 <= self.clip <= 1 << RANGE_BITS:
            raise ValueError("The clip is outside of the range of the target.")

    @property
    def n_scores(self) -> int:
        """One."""
        return 1

    @property
    def n_columns(self) -> int:
        """Residual and count."""
        return 2

    @property
    def weight_unit(self) -> float:
        """What one record is in the sums."""
        return float(_COUNT_WEIGHT)

    @property
    def squared_sensitivity(self) -> int:
        """The residual is at most one unit, and the count is constant."""
        return UNIT**2 + _COUNT_WEIGHT**2

    @property
    def scale(self) -> int:
        """The units of a score in one unit of the encoded target."""
        return (1 << RANGE_BITS) // self.target_units

    def add(self, records: ScoredRecords, begin: int, end: int, sums: Sums) -> None:
        """Add the vectors of the records from ``begin`` to ``end``, times their weights, to the sums of their cells."""
        # Rounded down, so that clip·multiplier is at most a unit, and no clamped residual is more.
        multiplier = (UNIT << 32) // self.clip
        r, of_all = records, (self.scale, self.clip, multiplier, _COUNT_WEIGHT)
        boosting.add_residuals(r.scores, r.targets, r.cells, *of_all, begin, end, r.weights, sums)


def gradients_of(layout: TargetLayout) -> Gradients:
    """Return the gradients of a target; residuals of numbers are clamped to the whole range."""
    if layout.task == "regression":
        return ResidualGradients(1 << RANGE_BITS, layout.units)
    return LogisticGradients() if layout.n_outputs == 2 else SoftmaxGradients(layout.n_outputs)  # noqa: PLR2004 -- as it says
