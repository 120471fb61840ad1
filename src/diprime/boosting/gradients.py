"""The gradients of boosting, and the cells in which an engine adds them up.

Gradients are public maps from a record's scores and target to a vector of integers. For all scores, the squared L2 norm
of the vector is at most ``squared_sensitivity``, which bounds the contribution of a record to the sums of a round.
Scores are integers in units of 2^-20 for log-odds; the range of a numeric target is 2^24 units. A record of weight w
counts as w equal records in every count and every sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from diprime.domain.encoding import TargetLayout
from diprime.kernels import boosting

UNIT_BITS = 11
UNIT = 1 << UNIT_BITS
"""Value of a gradient of one in the sums."""
SCORE_BITS = 20
"""A log-odds of one is 2^20 units of a score."""
RANGE_BITS = 24
"""The range of a numeric target is 2^24 units of a score."""

_TABLE_SHIFT = 12
_MAX_LOG_ODDS = 12  # the gradient here is below half a unit
_HESSIAN_FACTOR = 3.3
_EXP_BITS = 20
_COUNT_WEIGHT = 512  # a quarter of a unit, because the noise of counts matters less than the noise of residuals

Scores = npt.NDArray[np.int32]
Targets = npt.NDArray[np.uint16]
Cells = npt.NDArray[np.uint8]
Sums = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ScoredRecords:
    """Scores and targets of records, which determine their gradients, and their cells and weights."""

    scores: Scores  # shape (n, n_scores)
    targets: Targets  # shape (n,): encoded targets
    cells: Cells  # shape (n,): cells of the round
    # shape (n,) or (0,): empty if all weights are one
    weights: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))


class Gradients(Protocol):
    """Map from a record's scores and target to a vector of integers: a gradient for each score, then weights."""

    @property
    def n_scores(self) -> int:
        """Number of scores of a record."""

    @property
    def n_columns(self) -> int:
        """Length of a vector."""

    @property
    def weight_unit(self) -> float:
        """Value of a Hessian, or a count, of one in the sums."""

    @property
    def squared_sensitivity(self) -> int:
        """Upper bound on the squared L2 norm of a vector."""

    def add(self, records: ScoredRecords, begin: int, end: int, sums: Sums) -> None:
        """Add the weighted vectors of the records from ``begin`` to ``end`` to the sums of their cells."""


@dataclass(frozen=True)
class LogisticGradients:
    """Two classes: g = [second class] - p and 3.3·h with h = p·(1 - p), for which g² + (3.3·h)² <= 1.

    For the first class g² = p², and for the second (1 - p)². By symmetry it suffices that (1 - p)²·(1 + 3.3²·p²) <= 1,
    which holds because 3.3² = 10.89 is below (2 - p)/(p·(1 - p)²) >= 11.09. The charged bound is computed from the
    rounded table itself.
    """

    n_scores: ClassVar[int] = 1
    n_columns: ClassVar[int] = 2
    weight_unit: ClassVar[float] = _HESSIAN_FACTOR * UNIT

    @property
    def squared_sensitivity(self) -> int:
        """Largest squared norm in the table, for either class."""
        return _largest_squared_norm()

    def add(self, records: ScoredRecords, begin: int, end: int, sums: Sums) -> None:
        """Add the weighted vectors of the records from ``begin`` to ``end`` to the sums of their cells."""
        r, table = records, logistic_table()
        boosting.add_logistic(r.scores, r.targets, r.cells, table, _TABLE_SHIFT, UNIT, begin, end, r.weights, sums)


@cache
def logistic_table() -> npt.NDArray[np.int16]:
    """Return the gradient of the second class and the Hessian on a grid of scores, in units."""
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
    """Several classes: [class] - p and 2·p·(1 - p) for each class. The kernel limits the norm to √2 units."""

    n_classes: int

    weight_unit: ClassVar[float] = 2.0 * UNIT

    @property
    def n_scores(self) -> int:
        """Number of scores: one per class."""
        return self.n_classes

    @property
    def n_columns(self) -> int:
        """Length of a vector: a gradient and a Hessian per class."""
        return 2 * self.n_classes

    @property
    def squared_sensitivity(self) -> int:
        """Upper bound on the squared norm: two squared units."""
        return 2 * UNIT**2

    def add(self, records: ScoredRecords, begin: int, end: int, sums: Sums) -> None:
        """Add the weighted vectors of the records from ``begin`` to ``end`` to the sums of their cells."""
        shares = np.empty(self.n_classes, dtype=np.int64)
        r, table = records, _exp_table()
        boosting.add_softmax(
            r.scores, r.targets, r.cells, table, _TABLE_SHIFT, UNIT_BITS, begin, end, r.weights, shares, sums
        )


@cache
def _exp_table() -> npt.NDArray[np.int32]:
    """Return exp(-d) on the grid of scores, up to the last value that does not round to zero."""
    width = 2 ** (_TABLE_SHIFT - SCORE_BITS)
    n = math.ceil(_EXP_BITS * math.log(2) / width)
    return np.asarray(np.rint(2.0**_EXP_BITS * np.exp(-np.arange(n) * width)).astype(np.int32))


@dataclass(frozen=True)
class ResidualGradients:
    """Numeric targets: the residual, clipped to ±clip, in units of the clip, and a count."""

    n_scores: ClassVar[int] = 1
    n_columns: ClassVar[int] = 2
    weight_unit: ClassVar[float] = float(_COUNT_WEIGHT)

    clip: int  # bound at which residuals are clipped, in units of a score
    target_units: int  # range of an encoded target, in its units

    def __post_init__(self) -> None:
        if not 1 <= self.clip <= 1 << RANGE_BITS:
            raise ValueError(f"clip must be from 1 to {1 << RANGE_BITS}, the range of the target, got {self.clip}.")

    @property
    def squared_sensitivity(self) -> int:
        """Upper bound on the squared norm: the residual is at most one unit, and the count is constant."""
        return UNIT**2 + _COUNT_WEIGHT**2

    @property
    def scale(self) -> int:
        """Number of score units in one unit of the encoded target."""
        return (1 << RANGE_BITS) // self.target_units

    def add(self, records: ScoredRecords, begin: int, end: int, sums: Sums) -> None:
        """Add the weighted vectors of the records from ``begin`` to ``end`` to the sums of their cells."""
        # Rounded down, so that clip·multiplier, and therefore any clipped residual, is at most one unit.
        multiplier = (UNIT << 32) // self.clip
        r, of_all = records, (self.scale, self.clip, multiplier, _COUNT_WEIGHT)
        boosting.add_residuals(r.scores, r.targets, r.cells, *of_all, begin, end, r.weights, sums)


def gradients_of(layout: TargetLayout) -> Gradients:
    """Return the gradients for a target. Residuals of numeric targets are clipped to the whole range."""
    if layout.task == "regression":
        return ResidualGradients(1 << RANGE_BITS, layout.units)
    return LogisticGradients() if layout.n_outputs == 2 else SoftmaxGradients(layout.n_outputs)  # noqa: PLR2004 -- as it says


MAX_CELLS = 256
"""Maximum number of cells of a round, because a cell is stored as one byte."""


@dataclass(frozen=True)
class CellGrid:
    """Cells of a round: the product of the cells of one or two features.

    A record's cell is the sum of the cells of its codes. The cells of the first of two features are multiples of the
    number of cells of the second.
    """

    features: npt.NDArray[np.int32]  # shape (1,) or (2,)
    cells: npt.NDArray[np.uint8]  # shape (1, 256) or (2, 256): cell of each code of each feature
    n_cells: int  # at most 256

    def __post_init__(self) -> None:
        if not 1 <= self.n_cells <= MAX_CELLS or self.cells.max(axis=1).sum(dtype=np.int64) >= self.n_cells:
            raise ValueError(f"n_cells must be from 1 to {MAX_CELLS}, and above all cells, got {self.n_cells}.")
