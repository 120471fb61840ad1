"""The private grid: bins of every feature with about equally many records, and categories in order of their targets.

All of it follows from one release: the sums of the records' vectors for each code of each feature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.domain import Domain
from diprime.kernels.constants import CELLS, N_CODES
from diprime.privacy.charges import Receipt
from diprime.privacy.mechanisms.gaussian import rounded_gaussian
from diprime.privacy.randomness import RandomSource
from diprime.training.boosting import defaults

Floats = npt.NDArray[np.float64]

_TINY = 1e-9


@dataclass(frozen=True)
class CodeSums:
    """Released sums of the records' vectors.

    Attributes
    ----------
    sums : array of shape (n_features, 256, n_outputs)
        The sums for each code, in records, or in persons, whose records weigh as one.
    noise : float
        The standard deviation of their noise.
    """

    sums: Floats
    noise: float

    @property
    def counts(self) -> Floats:
        """The released number of records for each code of each feature."""
        return np.asarray(self.sums.sum(axis=2))

    @property
    def count_noise(self) -> float:
        """The standard deviation of the noise of a count."""
        return self.noise * math.sqrt(self.sums.shape[2])


def release_code_sums(
    sums: npt.NDArray[np.int64], units: int, receipt: Receipt, noise: float, source: RandomSource
) -> CodeSums:
    """Release the sums for all codes of all features.

    One record adds, for each feature, a vector of norm at most one unit to the sums of one code. One person adds, by
    the weights of her records, a vector of norm at most ``units``.
    """
    n_features = len(sums)
    released = rounded_gaussian(
        sums.reshape(n_features, -1), receipt, n_features * units**2, source.streams(n_features)
    ).reshape(sums.shape)
    return CodeSums(released / units, noise / units)


class Grid:
    """The bins of all features, which rounds cut into cells.

    Parameters
    ----------
    released : CodeSums
        The released sums.
    domain : Domain
        The domain.
    """

    def __init__(self, released: CodeSums, domain: Domain) -> None:
        self._released = released
        self._is_categorical = domain.is_categorical
        self._n_outputs = released.sums.shape[2]
        self._bins: dict[tuple[int, int], npt.NDArray[np.int64]] = {}

    @property
    def n_orders(self) -> int:
        """By how many outputs categories can be ordered: each of several classes, or the second of two outputs."""
        return self._n_outputs if self._n_outputs > 2 else 1  # noqa: PLR2004 -- as the docstring says

    def is_categorical(self, feature: int) -> bool:
        """Whether a feature is categorical."""
        return bool(self._is_categorical[feature])

    def bins(self, feature: int, order: int) -> npt.NDArray[np.int64]:
        """Return the bin of each code; bins of a numeric feature are in its order, those of categories by an output."""
        categorical = self.is_categorical(feature)
        key = feature, order if categorical else 0
        if key not in self._bins:
            if categorical:
                output = order if self.n_orders > 1 else self._n_outputs - 1
                self._bins[key] = _category_bins(self._released, feature, output)
            else:
                self._bins[key] = _number_bins(self._released.counts[feature, :CELLS], self._released.count_noise)
        return self._bins[key]


def _number_bins(counts: Floats, noise: float) -> npt.NDArray[np.int64]:
    """Return the bins of the codes of a numeric feature. The missing code is in the middle one."""
    bins = _equal_mass(smooth_histogram(counts, noise))
    return np.append(bins, bins[-1] // 2)


def _category_bins(released: CodeSums, feature: int, output: int) -> npt.NDArray[np.int64]:
    """Return the bins of categories in order of the mean of an output, which is shrunk towards that of all records.

    Codes that no record seems to have are in the middle bin.
    """
    sums, counts, noise = released.sums[feature], released.counts[feature], released.count_noise
    seen = np.flatnonzero(counts > noise / 2)
    if not len(seen):
        seen = np.arange(N_CODES)
    weight = np.maximum(counts[seen], 1.0)
    overall = max(sums[:, output].sum(), 0.0) / max(counts.sum(), 1.0)
    trust = weight / (weight + 2 * noise + 1)
    means = trust * sums[seen, output] / weight + (1 - trust) * overall
    order = seen[np.argsort(means, kind="stable")]
    ordered = _equal_mass(np.maximum(counts[order], 0.0))
    bins = np.full(N_CODES, ordered[len(ordered) // 2])
    bins[order] = ordered
    return bins


def _equal_mass(mass: Floats) -> npt.NDArray[np.int64]:
    """Cut an ordered list of masses into bins of about equal mass, numbered without gaps."""
    mass = mass + _TINY
    middle = np.cumsum(mass) - mass / 2
    bins = np.minimum((middle / mass.sum() * defaults.MAX_BINS).astype(np.int64), defaults.MAX_BINS - 1)
    return np.asarray(np.unique(bins, return_inverse=True)[1], dtype=np.int64)


def smooth_histogram(counts: Floats, noise: float) -> Floats:
    """Return non-negative counts, from which noise is removed where neighbouring codes do not differ by more than it.

    Counts are added up in a binary tree. From its root down, the difference of two halves from being alike is shrunk
    by 1 - 2·variance/difference², and to nothing if that is negative.
    """
    n = 1 << (len(counts) - 1).bit_length()
    sums = [np.pad(counts, (0, n - len(counts)))]
    widths = [np.pad(np.ones(len(counts)), (0, n - len(counts)))]
    while len(sums[-1]) > 1:
        sums.append(sums[-1][0::2] + sums[-1][1::2])
        widths.append(widths[-1][0::2] + widths[-1][1::2])
    estimate = np.maximum(sums[-1], 1.0)
    for of_level, width in zip(sums[-2::-1], widths[-2::-1], strict=True):
        estimate = _split_estimate(estimate, of_level, width, noise)
    return estimate[: len(counts)]


def _split_estimate(estimate: Floats, sums: Floats, widths: Floats, noise: float) -> Floats:
    """Return the estimates of the halves of each node of a level."""
    left_width, right_width = widths[0::2], widths[1::2]
    share = left_width / np.maximum(left_width + right_width, 1.0)
    difference = sums[0::2] - share * (sums[0::2] + sums[1::2])
    variance = noise**2 * (left_width * (1 - share) ** 2 + right_width * share**2)
    shrink = np.maximum(0.0, 1 - 2 * variance / np.maximum(difference**2, _TINY))
    left = np.clip(share * estimate + shrink * difference, 0.0, estimate)
    halves = np.empty(len(sums))
    halves[0::2], halves[1::2] = left, estimate - left
    return halves
