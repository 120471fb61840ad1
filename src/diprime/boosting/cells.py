"""The cells of a round: private quantiles of features, the choice of features, and the round's tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.boosting import defaults
from diprime.boosting.gradients import CellGrid
from diprime.domain import Domain
from diprime.kernels.constants import CELLS, MASK_BYTES, MISSING, N_CODES
from diprime.model.effects import code_shares
from diprime.model.estimates import code_counts, smooth_histogram
from diprime.model.trees import Structure
from diprime.privacy.charges import Receipt
from diprime.privacy.mechanisms.gaussian import rounded_gaussian
from diprime.privacy.randomness import RandomSource

Floats = npt.NDArray[np.float64]

_TINY = 1e-9


@dataclass(frozen=True)
class CodeSums:
    """Released sums of the records' vectors, in records or, with groups, in people."""

    sums: Floats  # shape (n_features, 256, n_outputs): sums for each code
    noise: float  # standard deviation of their noise

    @property
    def counts(self) -> Floats:
        """Released number of records with each code of each feature."""
        return np.asarray(self.sums.sum(axis=2))

    @property
    def count_noise(self) -> float:
        """Standard deviation of the noise of a count."""
        return self.noise * math.sqrt(self.sums.shape[2])

    def shares(self, domain: Domain, n_rows: float) -> Floats:
        """Return the denoised share of the records with each code of each feature, shape (n_features, 256)."""
        kinds = zip(self.counts, domain.n_codes.tolist(), domain.is_categorical.tolist(), strict=True)
        return np.stack(
            [
                code_shares(code_counts(counts, self.count_noise, n, is_categorical=is_categorical, total=n_rows))
                for counts, n, is_categorical in kinds
            ]
        )


def release_code_sums(
    sums: npt.NDArray[np.int64], units: int, receipt: Receipt, noise: float, source: RandomSource
) -> CodeSums:
    """Release the sums for all codes of all features.

    For each feature, a record adds a vector of norm at most one unit to the sums of one code. The weighted records of a
    person add a vector of norm at most ``units``.
    """
    n_features = len(sums)
    released = rounded_gaussian(
        sums.reshape(n_features, -1), receipt, n_features * units**2, source.streams(n_features)
    ).reshape(sums.shape)
    return CodeSums(released / units, noise / units)


class Grid:
    """Bins of all features. Rounds group them into cells."""

    def __init__(self, released: CodeSums, domain: Domain) -> None:
        self._released = released
        self._is_categorical = domain.is_categorical
        self._n_outputs = released.sums.shape[2]
        self._bins: dict[tuple[int, int], npt.NDArray[np.int64]] = {}

    @property
    def n_orders(self) -> int:
        """Number of outputs that categories can be ordered by: all classes, or one if there are only two outputs."""
        return self._n_outputs if self._n_outputs > 2 else 1  # noqa: PLR2004 -- as the docstring says

    def is_categorical(self, feature: int) -> bool:
        """Return whether a feature is categorical."""
        return bool(self._is_categorical[feature])

    def bins(self, feature: int, order: int) -> npt.NDArray[np.int64]:
        """Return the bin of each code. Numeric bins follow the values, and categories are ordered by an output."""
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
    """Return the bin of each code of a numeric feature. Missing values get the middle bin."""
    bins = _equal_mass(smooth_histogram(counts, noise))
    return np.append(bins, bins[-1] // 2)


def _category_bins(released: CodeSums, feature: int, output: int) -> npt.NDArray[np.int64]:
    """Return the bins of the categories, ordered by their mean output, shrunk towards the mean of all records."""
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
    """Return bins of about equal mass for an ordered list of masses, numbered without gaps."""
    mass = mass + _TINY
    middle = np.cumsum(mass) - mass / 2
    bins = np.minimum((middle / mass.sum() * defaults.MAX_BINS).astype(np.int64), defaults.MAX_BINS - 1)
    return np.asarray(np.unique(bins, return_inverse=True)[1], dtype=np.int64)


class FeatureChoice:
    """Random choice of features by their gains in earlier rounds.

    The gain of a round is Σ (G² - σ²)/H: the squared error that its cells explain, net of noise. The interaction gain
    is the part that no sum of functions of single features explains.
    """

    def __init__(self, energies: Floats) -> None:
        """Start from the energies of the curves. Features with a negative number are never drawn."""
        self._is_used = energies >= 0
        n = self._n_features = len(energies)
        self._start = np.where(self._is_used, energies, 0.0)
        self._gains, self._visits = np.zeros(n), np.zeros(n)
        self._interactions, self._pairs = np.zeros(n), np.zeros(n)
        self._n_rounds = 0

    def draw(self, n: int, uniforms: Sequence[float]) -> list[int]:
        """Draw one or two distinct features, uniformly or by gain, from n + 1 random numbers in [0, 1)."""
        is_early = self._n_rounds < self._is_used.sum() / 2
        gains = self._start if is_early else np.maximum(self._gains / np.maximum(self._visits, 1e-9), 0.0)
        if uniforms[0] < defaults.EXPLORE or not gains.sum() > 0:
            gains = self._is_used.astype(np.float64)
        weights = gains / gains.sum() + np.where(self._is_used, 1e-3 / self._is_used.sum(), 0.0)
        chosen: list[int] = []
        for uniform in uniforms[1 : n + 1]:
            weights[chosen] = 0.0
            place = np.searchsorted(np.cumsum(weights), uniform * weights.sum(), side="right")
            chosen.append(int(min(place, np.flatnonzero(weights)[-1])))
        return chosen

    def mean_interaction(self, features: Sequence[int]) -> float:
        """Return the mean interaction gain of all earlier pairs that contain one of the features."""
        pairs = self._pairs[list(features)].sum()
        return float(self._interactions[list(features)].sum() / max(pairs, 1.0))

    def learn(self, features: Sequence[int], gain: float, interaction: float) -> None:
        """Record the gains of a round."""
        chosen = list(features)
        self._n_rounds += 1
        self._gains[chosen] = self._gains[chosen] * defaults.GAIN_MEMORY + gain / len(chosen)
        self._visits[chosen] = self._visits[chosen] * defaults.GAIN_MEMORY + 1
        if len(chosen) > 1:
            self._interactions[chosen] += interaction
            self._pairs[chosen] += 1


@dataclass(frozen=True)
class Cut:
    """A feature cut into cells."""

    feature: int
    cells: npt.NDArray[np.int64]  # shape (256,): cell of each code
    depth: int  # base-2 logarithm of the number of cells

    @classmethod
    def draw(cls, grid: Grid, feature: int, n_cells: int, uniforms: Sequence[float]) -> Cut:
        """Cut a feature into at most ``n_cells`` cells, a power of two, with about the same number of records each.

        Three random numbers in [0, 1) choose the order of categories, a shift of all cuts, and the missing cell.
        """
        bins = grid.bins(feature, int(uniforms[0] * grid.n_orders))
        n_bins = int(bins.max()) + 1
        depth = (min(n_cells, max(n_bins, 2)) - 1).bit_length()
        n_cells = 1 << depth
        if n_bins <= n_cells:
            cells = bins.copy()
        else:
            cuts = np.rint((np.arange(1, n_cells) + uniforms[1] - 0.5) / n_cells * n_bins)
            cells = np.searchsorted(cuts, bins, side="right").astype(np.int64)
        if not grid.is_categorical(feature):
            cells[MISSING] = int(uniforms[2] * n_cells)
        return cls(feature, cells, depth)

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return 1 << self.depth

    def masks(self, level: int) -> npt.NDArray[np.uint8]:
        """Return the masks of a level's nodes in the tree of the cells. The upper half of the cells goes right."""
        width = self.n_cells >> level
        middles = np.arange(width // 2, self.n_cells, width)
        return np.packbits(self.cells >= middles[:, None], axis=1, bitorder="little")


def cell_grid(cuts: Sequence[Cut]) -> CellGrid:
    """Return the cells of a round in the form that an engine reads."""
    cells = np.stack([cut.cells for cut in cuts])
    n_cells = 1
    for cut in cuts:
        n_cells *= cut.n_cells
    if len(cuts) > 1:
        cells[0] *= cuts[1].n_cells
    return CellGrid(
        np.array([cut.feature for cut in cuts], dtype=np.int32), np.ascontiguousarray(cells.astype(np.uint8)), n_cells
    )


def cell_tree(cuts: Sequence[Cut]) -> Structure:
    """Return the tree whose leaves, from left to right, are the cells of a round."""
    features: list[npt.NDArray[np.int32]] = []
    masks: list[npt.NDArray[np.uint8]] = []
    repeat = 1
    for cut in cuts:
        for level in range(cut.depth):
            of_level = np.tile(cut.masks(level), (repeat, 1))
            features.append(np.full(len(of_level), cut.feature, dtype=np.int32))
            masks.append(of_level)
        repeat *= cut.n_cells
    return Structure(np.concatenate(features)[None], np.concatenate(masks)[None].reshape(1, -1, MASK_BYTES))
