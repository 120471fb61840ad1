"""What the guesses of an attack prove: its advantage and a lower bound of epsilon, with their confidence.

Nothing here needs this library: attacks on diffprivlib run in an environment of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import beta, norm

CONFIDENCE = 0.95


def clopper_pearson(hits: int, trials: int, confidence: float) -> tuple[float, float]:
    """Return the exact two-sided confidence interval of a probability."""
    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, hits, trials - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high


@dataclass(frozen=True)
class Guesses:
    """How often an attack said "with the record" of models that were fitted with it, and of those without.

    Attributes
    ----------
    true_hits, n_with : int
        How often it said so of the models with the record, and how many there were.
    false_hits, n_without : int
        The same of the models without.
    """

    true_hits: int
    n_with: int
    false_hits: int
    n_without: int

    @property
    def advantage(self) -> float:
        """The rate of true hits less the rate of false ones: 0 for coins, 1 for certainty."""
        return self.true_hits / self.n_with - self.false_hits / self.n_without

    def _rates(self) -> tuple[tuple[float, float], tuple[float, float]]:
        each = (1 + CONFIDENCE) / 2  # both intervals hold together with the confidence
        return clopper_pearson(self.true_hits, self.n_with, each), clopper_pearson(
            self.false_hits, self.n_without, each
        )

    def advantage_interval(self) -> tuple[float, float]:
        """Return a confidence interval of the advantage."""
        true, false = self._rates()
        return true[0] - false[1], true[1] - false[0]

    def epsilon_at_least(self) -> float:
        """Return what epsilon is at least, with confidence: any smaller one contradicts the guesses."""
        true, false = self._rates()
        said = math.log(true[0] / false[1]) if true[0] > 0 else 0.0
        unsaid = math.log((1 - false[1]) / (1 - true[0])) if false[1] < 1 else 0.0
        return max(said, unsaid, 0.0)


def pure_advantage(epsilon: float) -> float:
    """Return the largest advantage against an epsilon-DP release: (e^ε - 1)/(e^ε + 1)."""
    return math.tanh(epsilon / 2)


def pure_power(epsilon: float, false_rate: float) -> float:
    """Return the largest rate of true hits at a rate of false ones, against an epsilon-DP release."""
    return min(math.exp(epsilon) * false_rate, 1 - math.exp(-epsilon) * (1 - false_rate))


def gaussian_advantage(mu: float) -> float:
    """Return the largest advantage against a μ-Gaussian DP release: 2Φ(μ/2) - 1."""
    return float(2 * norm.cdf(mu / 2) - 1)


def gaussian_power(mu: float, false_rate: float) -> float:
    """Return the largest rate of true hits at a rate of false ones, against a μ-Gaussian DP release."""
    return float(norm.cdf(norm.ppf(false_rate) + mu))


def count_guesses(scores_with: npt.NDArray[np.float64], scores_without: npt.NDArray[np.float64]) -> Guesses:
    """Return the guesses of an attack that says "with" where its score is positive."""
    return Guesses(int((scores_with > 0).sum()), len(scores_with), int((scores_without > 0).sum()), len(scores_without))
