"""Which features a round cuts, and into how many cells: by what earlier rounds released, net of their noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from diprime.training.boosting import defaults

Floats = npt.NDArray[np.float64]


class FeatureChoice:
    """Gains of features so far, and draws of features by them.

    The gain of a round is Σ (G² - σ²)/H, the squared error that its cells explain, without what noise explains. The
    interaction gain is the part of it that no sum of functions of single features explains.

    Parameters
    ----------
    n_features : int
        The number of features.
    """

    def __init__(self, n_features: int) -> None:
        self._n_features = n_features
        self._gains = np.zeros(n_features)
        self._visits = np.zeros(n_features)
        self._interactions = np.zeros(n_features)
        self._pairs = np.zeros(n_features)
        self._n_rounds = 0

    def draw(self, n: int, uniforms: Sequence[float]) -> list[int]:
        """Draw n different features, all with the same probability or by their gains.

        Parameters
        ----------
        n : int
            One or two.
        uniforms : sequence of n + 1 floats
            Random numbers in [0, 1).
        """
        gains = np.maximum(self._gains / np.maximum(self._visits, 1e-9), 0.0)
        early = self._n_rounds < self._n_features / 2
        if early or uniforms[0] < defaults.EXPLORE or not gains.sum() > 0:
            gains = np.ones(self._n_features)
        weights = gains / gains.sum() + 1e-3 / self._n_features
        chosen: list[int] = []
        for uniform in uniforms[1 : n + 1]:
            weights[chosen] = 0.0
            place = np.searchsorted(np.cumsum(weights), uniform * weights.sum(), side="right")
            chosen.append(int(min(place, np.flatnonzero(weights)[-1])))
        return chosen

    def mean_interaction(self, features: Sequence[int]) -> float:
        """Return the mean interaction gain of the rounds so far that one of the features was part of."""
        pairs = self._pairs[list(features)].sum()
        return float(self._interactions[list(features)].sum() / max(pairs, 1.0))

    def learn(self, features: Sequence[int], gain: float, interaction: float) -> None:
        """Take note of the gains of a round."""
        chosen = list(features)
        self._n_rounds += 1
        self._gains[chosen] = self._gains[chosen] * defaults.GAIN_MEMORY + gain / len(chosen)
        self._visits[chosen] = self._visits[chosen] * defaults.GAIN_MEMORY + 1
        if len(chosen) > 1:
            self._interactions[chosen] += interaction
            self._pairs[chosen] += 1
