"""From the released sums of a round to the steps of its cells. All of it is post-processing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.training.boosting import defaults

Floats = npt.NDArray[np.float64]

_PAIR = 2


@dataclass(frozen=True)
class RoundSums:
    """The released sums of a round, in records, or in persons, whose records weigh as one.

    Attributes
    ----------
    gradients, weights : arrays of shape (n_cells, n_scores)
        The sums of gradients, and of Hessians or counts.
    gradient_noise, weight_noise : float
        The standard deviations of their noise.
    """

    gradients: Floats
    weights: Floats
    gradient_noise: float
    weight_noise: float

    def ridge(self, factor: float) -> float:
        """Return the weight that is added to every cell: a multiple of the noise of its gradient, and not too little.

        What restrains noise restrains chance in small cells as well, so the larger of the two is enough.
        """
        return max(factor * self.gradient_noise, defaults.LEAST_RIDGE)

    def safe_weights(self, factor: float) -> Floats:
        """Return the weights, not below what noise alone could make of them."""
        return np.maximum(self.weights, self.ridge(factor) + self.weight_noise)

    def steps(self, factor: float) -> Floats:
        """Return the Newton steps of all cells, shrunk by the ridge."""
        return np.asarray(self.gradients / (self.safe_weights(factor) + self.ridge(factor)))

    def gain(self, factor: float) -> float:
        """Return the squared error that the cells explain, net of noise."""
        return float(((self.gradients**2 - self.gradient_noise**2) / self.safe_weights(factor)).sum())

    def interaction_gain(self, factor: float, shape: tuple[int, ...]) -> float:
        """Return the part of the gain that is neither a function of the rows nor of the columns of the cells.

        Parameters
        ----------
        factor : float
            The ridge.
        shape : tuple of int
            The numbers of cells of each feature.
        """
        if len(shape) < _PAIR:
            return 0.0
        weights = self.safe_weights(factor).reshape(*shape, -1)
        means = self.gradients.reshape(*shape, -1) / weights
        rows, columns = means.mean(axis=1, keepdims=True), means.mean(axis=0, keepdims=True)
        interaction = means - rows - columns + means.mean(axis=(0, 1), keepdims=True)
        free = (shape[0] - 1) * (shape[1] - 1) / (shape[0] * shape[1])
        return float((weights * interaction**2).sum() - self.gradient_noise**2 * free * (1 / weights).sum())


def integer_steps(steps: Floats, unit: float, n_rounds: int) -> npt.NDArray[np.int32]:
    """Return steps in units of a score, clamped so that no score of so many rounds leaves 32 bits."""
    limit = (1 << 30) // n_rounds
    return np.clip(np.rint(steps * unit), -limit, limit).astype(np.int32)
