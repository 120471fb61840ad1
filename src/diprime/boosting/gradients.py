"""The gradients of boosting, and the cells and curves for which an engine adds them up.

Gradients are public maps from a record's scores and target to a vector of integers. For all scores, the squared L2 norm
of the vector is at most ``squared_sensitivity``, which bounds the contribution of a record to the sums of a round.
Scores are integers in units of 2^-20 for log-odds; the range of a numeric target is 2^24 units. A record of weight w
counts as w equal records in every count and every sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from diprime.domain.encoding import TargetLayout
from diprime.kernels import boosting
from diprime.kernels.constants import N_CODES

UNIT_BITS = 11
UNIT = 1 << UNIT_BITS
"""Value of a gradient of one in the sums, for classes."""
CLIP = UNIT // 2
"""Upper bound on the norm of the gradients of a record, in the sums."""
SCORE_BITS = 20
"""A log-odds of one is 2^20 units of a score."""
RANGE_BITS = 24
"""The range of a numeric target is 2^24 units of a score."""

_TABLE_SHIFT = 12
_MAX_LOG_ODDS = 12  # the gradient here is below half a unit
_EXP_BITS = 20
_COUNT_WEIGHT = CLIP // 4  # because the noise of counts matters less than the noise of residuals

Scores = npt.NDArray[np.int32]
Targets = npt.NDArray[np.uint16]
Cells = npt.NDArray[np.uint8]
Sums = npt.NDArray[np.int64]


class Gradients(Protocol):
    """Map from a record's scores and target to a vector of integers: a gradient for each score, then weights."""

    @property
    def n_scores(self) -> int:
        """Number of scores of a record."""

    @property
    def n_columns(self) -> int:
        """Length of a vector."""

    @property
    def unit(self) -> float:
        """Value of a gradient of one in the sums."""

    @property
    def weight_unit(self) -> float:
        """Value of a Hessian, or a count, of one in the sums."""

    @property
    def score_unit(self) -> float:
        """Units of a score in a gradient of one divided by a weight of one."""

    @property
    def squared_sensitivity(self) -> int:
        """Upper bound on the squared L2 norm of a vector.

        The norm of the gradients alone is at most `CLIP`, unless they are for rounds only.
        """

    @property
    def for_rounds(self) -> Gradients:
        """The gradients for rounds, which may be longer than those for curves."""

    def write(self, scores: Scores, targets: Targets, begin: int, end: int, vectors: Sums) -> None:
        """Write the vectors of the records from ``begin`` to ``end`` into the rows of ``vectors``."""


@dataclass(frozen=True)
class LogisticGradients:
    """Two classes, with the score t as the log-odds of the second class.

    The loss of a record with margin m, which is t for the second class and -t for the first, is exp(-m)/2 for m >= 0
    and (1 - m)/2 below. It is convex, and its mean is smallest at the true log-odds. The gradient is min(1, exp(-m))/2
    towards the record's class, and the weight is the expected Hessian, min(p, 1 - p)/2 with p = 1/(1 + exp(-t)).
    """

    n_scores: ClassVar[int] = 1
    n_columns: ClassVar[int] = 2
    unit: ClassVar[float] = float(UNIT)
    weight_unit: ClassVar[float] = float(UNIT)
    score_unit: ClassVar[float] = float(1 << SCORE_BITS)

    @property
    def squared_sensitivity(self) -> int:
        """Largest squared norm in the table, for either class."""
        return _largest_squared_norm()

    @property
    def for_rounds(self) -> LogisticGradients:
        """The same gradients."""
        return self

    def write(self, scores: Scores, targets: Targets, begin: int, end: int, vectors: Sums) -> None:
        """Write the vectors of the records from ``begin`` to ``end`` into the rows of ``vectors``."""
        boosting.logistic(scores, targets, logistic_table(), _TABLE_SHIFT, begin, end, vectors)


@cache
def logistic_table() -> npt.NDArray[np.int16]:
    """Return the gradients of the first and the second class and the Hessian on a grid of scores, in units."""
    width = 2 ** (_TABLE_SHIFT - SCORE_BITS)
    n = round(_MAX_LOG_ODDS / width)
    scores = (np.arange(-n, n) + 0.5) * width
    second = np.rint(CLIP * np.minimum(1.0, np.exp(-scores)))
    hessian = np.floor(CLIP / (1 + np.exp(np.abs(scores))))
    return np.ascontiguousarray(np.stack([-second[::-1], second, hessian], axis=1).astype(np.int16))


@cache
def _largest_squared_norm() -> int:
    first, second, hessians = logistic_table().astype(np.int64).T
    return int((np.maximum(first**2, second**2) + hessians**2).max())


@dataclass(frozen=True)
class SoftmaxGradients:
    """Several classes: [class] - p, shortened to a norm of at most ``clip``, and p·(1 - p) for each class.

    Shortened gradients need less noise, so curves use them. Predictions then differ somewhat from the true shares of
    the classes, so rounds do not.
    """

    n_classes: int
    clip: int = CLIP  # in units; the norm is never larger than √2

    unit: ClassVar[float] = float(UNIT)
    weight_unit: ClassVar[float] = float(UNIT)
    score_unit: ClassVar[float] = float(1 << SCORE_BITS)

    @property
    def for_rounds(self) -> SoftmaxGradients:
        """The same gradients without a limit below their largest norm."""
        return SoftmaxGradients(self.n_classes, 2 * UNIT)

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
        """Upper bound on the squared norm of the gradients, and 4/27 for the Hessians, in squared units."""
        return min(self.clip**2, 2 * UNIT**2) + 4 * UNIT**2 // 27

    def write(self, scores: Scores, targets: Targets, begin: int, end: int, vectors: Sums) -> None:
        """Write the vectors of the records from ``begin`` to ``end`` into the rows of ``vectors``."""
        boosting.softmax(scores, targets, _exp_table(), _TABLE_SHIFT, UNIT_BITS, self.clip, begin, end, vectors)


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
    unit: ClassVar[float] = float(CLIP)
    weight_unit: ClassVar[float] = float(_COUNT_WEIGHT)

    clip: int  # bound at which residuals are clipped, in units of a score
    target_units: int  # range of an encoded target, in its units

    def __post_init__(self) -> None:
        if not 1 <= self.clip <= 1 << RANGE_BITS:
            raise ValueError(f"clip must be from 1 to {1 << RANGE_BITS}, the range of the target, got {self.clip}.")

    @property
    def score_unit(self) -> float:
        """Units of a score in a gradient of one divided by a weight of one: the clip."""
        return float(self.clip)

    @property
    def squared_sensitivity(self) -> int:
        """Upper bound on the squared norm: the residual is at most `CLIP`, and the count is constant."""
        return CLIP**2 + _COUNT_WEIGHT**2

    @property
    def for_rounds(self) -> ResidualGradients:
        """The same gradients."""
        return self

    @property
    def scale(self) -> int:
        """Number of score units in one unit of the encoded target."""
        return (1 << RANGE_BITS) // self.target_units

    def write(self, scores: Scores, targets: Targets, begin: int, end: int, vectors: Sums) -> None:
        """Write the vectors of the records from ``begin`` to ``end`` into the rows of ``vectors``."""
        # Rounded down, so that clip·multiplier, and therefore any clipped residual, is at most `CLIP`.
        multiplier = (CLIP << 32) // self.clip
        of_all = self.scale, self.clip, multiplier, _COUNT_WEIGHT
        boosting.residuals(scores, targets, *of_all, begin, end, vectors)


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


BASIS_BITS = 10
"""Basis functions are integers in units of 2^-10, or larger ones if there is much noise."""


@dataclass(frozen=True)
class CurveGrid:
    """Curves of some features: their current values, and squared norms of the vectors of their basis functions.

    The squared norm of a record's vector is the sum of its codes' norms plus ``constant``, in squares of ``unit``.
    """

    features: npt.NDArray[np.int32]  # shape (n_features,)
    offset: npt.NDArray[np.int32]  # shape (n_scores,): scores without the curves
    values: npt.NDArray[np.int32]  # shape (n_features, 256, n_scores): contribution of each code to the scores
    norms: npt.NDArray[np.int64]  # shape (n_features, 256): squared norm of the basis functions of each code
    constant: int
    unit: int  # basis functions of one, in integers

    def __post_init__(self) -> None:
        # Sums of 32-bit integers must not overflow.
        scores = np.abs(self.values).max(axis=1).sum(axis=0, dtype=np.int64) + np.abs(self.offset.astype(np.int64))
        norms = self.norms.max(axis=1).sum() + self.constant
        if (self.norms < 0).any() or self.constant < 0 or max(int(scores.max()), int(norms)) >= 1 << 31:
            raise ValueError("The values or norms of the curves are too large.")

    @classmethod
    def constant_scores(cls, offset: npt.NDArray[np.int32]) -> CurveGrid:
        """Return the grid without any curve, in which all records have the same scores."""
        values = np.zeros((0, N_CODES, len(offset)), dtype=np.int32)
        return cls(np.zeros(0, dtype=np.int32), offset, values, np.zeros((0, N_CODES), dtype=np.int64), 0, 1)

    @cached_property
    def _tables(self) -> Sums:
        """Values as the upper halves of 64-bit integers. The lower half of the first score contains the norm."""
        tables = self.values.astype(np.int64) << 32
        tables[:, :, 0] += self.norms
        return tables

    def look_up(self, columns: npt.NDArray[np.uint8], begin: int, end: int) -> tuple[Scores, Sums]:
        """Return the scores of the records from ``begin`` to ``end``, and the squared norms of their vectors."""
        sums = np.tile(self.offset.astype(np.int64) << 32, (end - begin, 1))
        sums[:, 0] += self.constant
        boosting.look_up(columns, self.features, self._tables, begin, end, sums)
        return (sums >> 32).astype(np.int32), sums[:, :1] & 0xFFFFFFFF

    def shorten(self, gradients: Sums, squares: Sums) -> Sums:
        """Return gradients, shortened so that their norm times that of the record's vector is at most `CLIP` units."""
        longer = np.maximum(squares, self.unit**2)
        sizes = (np.abs(gradients) * (self.unit / np.sqrt(longer))).astype(np.int64)  # rounded down
        # A floating-point quotient can be wrong by one. The integers here are below 2^21 · 2^31.
        squared = gradients**2 * self.unit**2
        sizes += (sizes + 1) ** 2 * longer <= squared
        sizes -= sizes**2 * longer > squared
        return np.asarray(np.sign(gradients) * sizes)
