"""Released counts, and how much the noise in them moves sums of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime.privacy.measures import Epsilon
from diprime.privacy.mechanisms.laplace import laplace_scale, laplace_variance

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """The noise of one release: the variance of each number, and its excess kurtosis.

    Attributes
    ----------
    variance : float
        The variance, in records squared.
    kurtosis : float
        The excess kurtosis: 3 for a Laplace distribution, more for a discrete one of small scale, 0 without noise.
    """

    variance: float
    kurtosis: float

    @classmethod
    def of_release(cls, epsilon: Epsilon, sensitivity: int, units: int = 1) -> Noise:
        """Return the noise of a release by discrete Laplace, in which ``units`` stand for one record."""
        if epsilon == math.inf:
            return cls(0.0, 0.0)
        numerator, denominator = laplace_scale(Fraction(epsilon), sensitivity)
        q = math.exp(-denominator / numerator)  # the cumulants are those of a difference of two geometric variables
        return cls(laplace_variance(epsilon, sensitivity) / units**2, (1 + 4 * q + q * q) / (2 * max(q, 1e-300)))


@dataclass(frozen=True)
class Cells:
    """Counts of disjoint sets of records, estimated from released numbers.

    Groups of cells may have been released twice: cell by cell, and as totals. The estimates then are the combination
    of least variance, in which every cell of a group moves alike.

    Attributes
    ----------
    counts : array of shape (n_cells,)
        Unbiased estimates, which may be negative.
    deviations : array of shape (n_cells,)
        The standard deviation of the noise of each number that was released of a single cell.
    groups : array of shape (n_cells,)
        The group of each cell.
    pulls : array of shape (n_groups,)
        How far the sum of a group was moved towards its total, from 0 to 1.
    total_deviations : array of shape (n_groups,)
        The standard deviation of the noise of each total.
    kurtosis : float
        The largest excess kurtosis of the noise of any released number.
    """

    counts: Floats
    deviations: Floats
    groups: npt.NDArray[np.intp]
    pulls: Floats
    total_deviations: Floats
    kurtosis: float

    @classmethod
    def of_counts(cls, counts: npt.NDArray[np.int64] | Floats, noise: Noise) -> Cells:
        """Return cells that were released once."""
        n = len(counts)
        deviations = np.full(n, math.sqrt(noise.variance))
        none = np.zeros(1)
        return cls(np.asarray(counts, dtype=float), deviations, np.zeros(n, dtype=np.intp), none, none, noise.kurtosis)

    def with_totals(self, groups: npt.NDArray[np.intp], totals: Floats, total_noise: list[Noise]) -> Cells:
        """Return the cells combined with totals of groups of them, which were released independently."""
        n_groups = len(totals)
        variances = np.array([noise.variance for noise in total_noise])
        sums = np.bincount(groups, self.counts, n_groups)
        own = np.bincount(groups, self.deviations**2, n_groups)
        sizes = np.maximum(np.bincount(groups, minlength=n_groups), 1)
        pulls = own / np.maximum(own + variances, 1e-300)
        counts = self.counts + (pulls * (totals - sums) / sizes)[groups]
        kurtosis = max(self.kurtosis, *(noise.kurtosis for noise in total_noise))
        return Cells(counts, self.deviations, groups, pulls, np.sqrt(variances), kurtosis)

    def among(self, kept: npt.NDArray[np.bool_]) -> Cells:
        """Return some of the cells: all of a group, or none."""
        return Cells(
            self.counts[kept],
            self.deviations[kept],
            self.groups[kept],
            self.pulls,
            self.total_deviations,
            self.kurtosis,
        )

    def spread(self, weights: Floats) -> Floats:
        """Return the standard deviation that each released number contributes to a weighted sum of the counts."""
        n_groups = len(self.pulls)
        sizes = np.maximum(np.bincount(self.groups, minlength=n_groups), 1)
        moved = self.pulls * np.bincount(self.groups, weights, n_groups) / sizes
        return np.concatenate([(weights - moved[self.groups]) * self.deviations, moved * self.total_deviations])
