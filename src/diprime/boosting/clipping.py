"""The bound at which the residuals of numeric targets are clipped, from released histograms of residuals."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from diprime.boosting import defaults
from diprime.boosting.budget import DividedBudget, as_share
from diprime.boosting.engine import BoostingEngine
from diprime.boosting.gradients import RANGE_BITS, CurveGrid, ResidualGradients

Floats = npt.NDArray[np.float64]

_STEPS_PER_OCTAVE = 2
_N_EDGES = 16 * _STEPS_PER_OCTAVE

EDGES: npt.NDArray[np.int64] = np.array(
    [math.ceil(2 ** (RANGE_BITS - i / _STEPS_PER_OCTAVE)) for i in range(_N_EDGES - 1, -1, -1)]
)
"""Candidate clips, in units of a score: from about 2^-15 of the target's range to all of it."""


class Clipping:
    """Clipping bound of the residuals, which changes only if released tails differ clearly from the wanted one."""

    def __init__(
        self, engine: BoostingEngine, budget: DividedBudget, target_units: int, n_rows: float, signal: float
    ) -> None:
        self._engine, self._budget = engine, budget
        self._edges = EDGES if signal >= defaults.FINE_CLIPS else EDGES[1::_STEPS_PER_OCTAVE]
        self._share = as_share(defaults.clip_share(signal))
        self._noise = budget.noise(1, self._share)
        self._wanted = defaults.clipped_share(signal) * n_rows
        self._n_rows = n_rows
        self.gradients = ResidualGradients(defaults.FIRST_CLIP, target_units)

    def measure(self, scores: CurveGrid) -> bool:
        """Release the histogram of the residuals, and change the clip.

        Return whether most residuals are within one fortieth of the target's range, by the released counts.
        """
        self._engine.start(scores)
        counts = self._engine.residual_counts(self.gradients.scale, self._edges)
        released = self._budget.release(counts, 1, self._share)
        tails = np.cumsum(released[::-1])[::-1][1:]  # records at or above each edge
        noises = self._noise * np.sqrt(np.arange(len(self._edges), 0, -1))
        place = int(np.searchsorted(self._edges, self.gradients.clip))
        if tails[place] > self._wanted + noises[place]:
            while place < len(tails) - 1 and tails[place] > self._wanted + noises[place]:
                place += 1
        else:
            while place > 0 and tails[place - 1] < self._wanted - noises[place - 1]:
                place -= 1
        self.gradients = ResidualGradients(int(self._edges[place]), self.gradients.target_units)
        return self._are_close(released)

    def _are_close(self, released: Floats) -> bool:
        n_close = int(np.searchsorted(self._edges, (1 << RANGE_BITS) / (2 * defaults.PARTS), side="right"))
        evidence = defaults.DEVIATIONS * self._noise * math.sqrt(n_close)
        return bool(released[:n_close].sum() - evidence >= defaults.CLOSE * max(self._n_rows, 1.0))
