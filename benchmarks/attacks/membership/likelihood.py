"""The likelihood ratio of Carlini et al. (2022): models with the record against models without, each a Gaussian."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

RIDGE = 1e-3  # of the variance of each statistic, so that some may be equal in all shadow models
TINY = 1e-9


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian distribution of statistics of models."""

    mean: Floats
    precision: Floats
    log_determinant: float

    @classmethod
    def of(cls, statistics: Floats, scale: Floats) -> Gaussian:
        """Return the Gaussian of shadow models, of shape (n_models, n_statistics)."""
        covariance = np.cov(statistics, rowvar=False, ddof=1).reshape(len(scale), len(scale))
        covariance = covariance + np.diag(RIDGE * scale**2 + TINY)
        return cls(statistics.mean(axis=0), np.linalg.inv(covariance), float(np.linalg.slogdet(covariance)[1]))

    def log_density(self, statistics: Floats) -> Floats:
        """Return the logarithm of the density, up to a constant."""
        d = statistics - self.mean
        return np.asarray(-0.5 * (np.einsum("ij,jk,ik->i", d, self.precision, d) + self.log_determinant))


def log_ratio(shadows_with: Floats, shadows_without: Floats, statistics: Floats) -> Floats:
    """Return how much more likely statistics are with the record than without, as a logarithm.

    Parameters
    ----------
    shadows_with, shadows_without : arrays of shape (n_models, n_statistics)
        The statistics of shadow models, which the attacker fits to tables with the record and without.
    statistics : array of shape (n_models, n_statistics)
        Those of the models under attack.
    """
    scale = np.vstack([shadows_with, shadows_without]).std(axis=0)
    inside, outside = (Gaussian.of(s, scale) for s in (shadows_with, shadows_without))
    return np.asarray(inside.log_density(statistics) - outside.log_density(statistics))
