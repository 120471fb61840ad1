"""The smooth part of a boosted model: one curve per feature, all of them fitted at once by noisy gradient descent.

A curve of a number is a sum of a few cosines, and a curve of categories has one value per category. Each step releases
one vector: the gradients of all records, times the values of their basis functions. Its noise depends on the number of
coefficients, which is far smaller than the number of cells that rounds would need, so curves come first.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Progress
from diprime.boosting import defaults
from diprime.boosting.budget import DividedBudget, as_share
from diprime.boosting.curve_noise import Epoch, evidence, noise_factors
from diprime.boosting.engine import BoostingEngine
from diprime.boosting.gradients import CLIP, RANGE_BITS, SCORE_BITS, CurveGrid, Gradients, ResidualGradients
from diprime.domain import Domain, Task
from diprime.kernels.constants import MISSING, N_CODES, OTHER

Floats = npt.NDArray[np.float64]
_Integers = npt.NDArray[np.int64]

_CHUNK = 256  # features whose basis functions are in memory at the same time
_MAX_SCORE = 1 << 30


class _Coefficients:
    """Coefficients with momentum, and their sum over some steps."""

    def __init__(self, *shape: int) -> None:
        self.coefficients = np.zeros(shape)
        self.velocity = np.zeros(shape)
        self.total = np.zeros(shape)
        self.scales: Floats = np.ones(shape[:-1])  # lengths of the basis functions

    def move(self, gradients: Floats, rate: float) -> None:
        """Take a step, given the released sums of gradients times basis functions."""
        of_functions = self.scales[..., None] * gradients.reshape(self.coefficients.shape)
        self.velocity = defaults.MOMENTUM * self.velocity + of_functions
        self.coefficients = self.coefficients + rate * self.velocity


class _Constant(_Coefficients):
    """The constant function."""

    def set_scale(self, scale: float, unit: int) -> None:
        """Set the length of the function."""
        self.scales, self.basis = np.asarray(scale), round(scale * unit)


class _Block(_Coefficients, ABC):
    """Curves of the same kind. Shapes: features, coefficients of a feature, and scores."""

    def __init__(self, features: _Integers, shares: Floats, n_coefficients: int, n_scores: int) -> None:
        super().__init__(len(features), n_coefficients, n_scores)
        self.features = features
        self.shares = shares  # shape (n_features, 256): share of the records with each code
        self.variance = np.zeros((len(features), n_coefficients))  # of the noise of each coefficient
        self.spectrum = np.zeros((len(features), n_coefficients))  # relative squared length of each basis function
        self.epochs: list[Epoch] = []

    def add_epoch(self, n_steps: int, rate: float, noise: float, curvature: float) -> None:
        """Account for the noise of an epoch."""
        self.epochs.append(Epoch(n_steps, rate, noise, curvature, self.scales))
        self.variance += n_steps * (rate / (1 - defaults.MOMENTUM) * noise * self.scales) ** 2

    @abstractmethod
    def noise(self, variance: float) -> list[Floats]:
        """Return independent parts of the noise of each curve, shape (n_parts, 256).

        The single part of categories is the standard deviation of their independent noise.
        """

    @property
    @abstractmethod
    def masses(self) -> Floats:
        """Mean square of each basis function over the records, shape (n_features, n_coefficients)."""

    @abstractmethod
    def set_basis(self, scales: Floats, unit: int) -> Floats:
        """Set the integer basis functions. Return the squared norms of all codes, shape (n_features, 256)."""

    @abstractmethod
    def project(self, sums: _Integers) -> _Integers:
        """Return the sums of gradients times basis functions, in the shape of the coefficients."""

    @abstractmethod
    def values(self, coefficients: Floats) -> Floats:
        """Return the curves at all codes, shape (n_features, 256, n_scores)."""

    @abstractmethod
    def respect_energies(self) -> None:
        """Adapt the spectrum to the released coefficients."""

    def keep(self, kept: npt.NDArray[np.bool_]) -> None:
        """Drop all other features."""
        for name in ("features", "shares", "coefficients", "velocity", "total", "variance", "spectrum"):
            setattr(self, name, getattr(self, name)[kept])
        self.epochs = [replace(epoch, scales=epoch.scales[kept]) for epoch in self.epochs]

    @property
    def energies(self) -> Floats:
        """Mean square of each coefficient's function over the records, shape (n_features, n_coefficients)."""
        return np.asarray(self.masses * (self.coefficients**2).sum(axis=-1))

    @property
    def noise_energies(self) -> Floats:
        """The part of the energies that noise is expected to add."""
        return np.asarray(self.masses * self.variance * self.coefficients.shape[-1])


class _Numbers(_Block):
    """Curves of numbers: cosines of a coordinate, and a value for missing values."""

    def __init__(self, features: _Integers, shares: Floats, n_codes: _Integers, n_waves: int, n_scores: int) -> None:
        super().__init__(features, shares, n_waves + 1, n_scores)
        codes = np.arange(N_CODES)
        is_code = codes < n_codes[:, None]
        mass = np.where(is_code, shares, 0.0) + 1e-12 * is_code
        ranks = (np.cumsum(mass, axis=1) - mass / 2) / mass.sum(axis=1, keepdims=True)
        places = (codes + 0.5) / n_codes[:, None]
        # The coordinate is halfway between the place in the range and the rank. Codes without a number have -1.
        self.coordinates = np.where(is_code, (places + ranks) / 2, -1.0)
        self._set_decay(defaults.SPECTRUM_DECAY)

    def _set_decay(self, decay: float) -> None:
        waves = np.arange(1, self.n_waves + 1)
        relative = waves**-decay
        self.start = np.append(relative / relative.sum(), 0.0)
        # Missing values have about the same norm as numbers, if there are any.
        missing = np.where(self.shares[:, MISSING] > 0, 0.5, 0.0)[:, None]
        self.spectrum = np.tile(self.start, (len(self.features), 1))
        self.spectrum[:, -1:] = missing

    def keep(self, kept: npt.NDArray[np.bool_]) -> None:
        super().keep(kept)
        self.coordinates = self.coordinates[kept]

    @property
    def n_waves(self) -> int:
        """Number of cosines per feature."""
        return self.coefficients.shape[1] - 1

    def refine(self, n_waves: int, decay: float) -> None:
        """Add cosines of higher frequencies."""
        more = n_waves + 1 - self.coefficients.shape[1]

        def padded(array: Floats) -> Floats:
            zeros = np.zeros((len(array), more, *array.shape[2:]))
            return np.concatenate([array[:, :-1], zeros, array[:, -1:]], axis=1)

        for name in ("coefficients", "velocity", "total", "variance"):
            setattr(self, name, padded(getattr(self, name)))
        self.epochs = [replace(epoch, scales=padded(epoch.scales)) for epoch in self.epochs]
        self._set_decay(decay)

    def _functions(self, chunk: slice) -> Floats:
        """Return the basis functions of some features, shape (n_features, n_coefficients, 256)."""
        coordinates = self.coordinates[chunk, None]
        waves = np.arange(1, self.n_waves + 1)[:, None]
        cosines = np.where(coordinates >= 0, np.cos(np.pi * waves * coordinates), 0.0)
        missing = np.zeros((len(cosines), 1, N_CODES))
        missing[:, :, MISSING] = 1.0
        return np.concatenate([cosines, missing], axis=1)

    def _chunks(self) -> list[slice]:
        return [slice(begin, begin + _CHUNK) for begin in range(0, len(self.features), _CHUNK)]

    @property
    def masses(self) -> Floats:
        found = [np.einsum("fkc,fc->fk", self._functions(c) ** 2, self.shares[c]) for c in self._chunks()]
        return np.concatenate([*found, np.zeros((0, self.coefficients.shape[1]))])

    def set_basis(self, scales: Floats, unit: int) -> Floats:
        self.scales = scales
        self._basis = [np.rint(self._functions(c) * scales[c, :, None] * unit).astype(np.int32) for c in self._chunks()]
        norms = [(functions.astype(np.float64) ** 2).sum(axis=1) for functions in self._basis]
        return np.concatenate([*norms, np.zeros((0, N_CODES))])

    def project(self, sums: _Integers) -> _Integers:
        if not len(self.features):
            return np.zeros(self.coefficients.shape, dtype=np.int64)
        return np.concatenate(
            [np.matmul(f.astype(np.int64), sums[c]) for f, c in zip(self._basis, self._chunks(), strict=True)]
        )

    def values(self, coefficients: Floats) -> Floats:
        found = [np.einsum("fkc,fks->fcs", self._functions(c), coefficients[c]) for c in self._chunks()]
        return np.concatenate([*found, np.zeros((0, N_CODES, coefficients.shape[-1]))])

    def noise(self, variance: float) -> list[Floats]:
        found: list[Floats] = []
        for chunk in self._chunks():
            functions = self._functions(chunk)
            products = np.einsum("fic,fc,fjc->fij", functions, self.shares[chunk], functions)
            epochs = [replace(epoch, scales=epoch.scales[chunk]) for epoch in self.epochs]
            found += list(noise_factors(epochs, products, variance).swapaxes(1, 2) @ functions)
        return found

    def respect_energies(self) -> None:
        sizes = np.sqrt(self.energies[:, :-1])
        totals = sizes.sum(axis=1, keepdims=True)
        own = np.divide(sizes, totals, out=np.tile(self.start[:-1], (len(sizes), 1)), where=totals > 0)
        self.spectrum[:, :-1] = (own + self.start[:-1]) / 2


class _Categories(_Block):
    """Curves of categories: a value for each code."""

    def __init__(self, features: _Integers, shares: Floats, n_codes: _Integers, n_scores: int) -> None:
        super().__init__(features, shares, N_CODES, n_scores)
        codes = np.arange(N_CODES)
        self.spectrum = ((codes < n_codes[:, None]) | (codes >= OTHER)).astype(np.float64)

    @property
    def masses(self) -> Floats:
        return self.shares

    def set_basis(self, scales: Floats, unit: int) -> Floats:
        self.scales = scales
        self._basis = np.rint(scales * unit).astype(np.int64)
        return self._basis.astype(np.float64) ** 2

    def project(self, sums: _Integers) -> _Integers:
        return np.asarray(self._basis[..., None] * sums)

    def values(self, coefficients: Floats) -> Floats:
        return coefficients

    def noise(self, variance: float) -> list[Floats]:
        is_code = self.spectrum > 0
        epochs = [replace(epoch, scales=epoch.scales[is_code][:, None]) for epoch in self.epochs]
        noise = np.zeros(is_code.shape)
        noise[is_code] = noise_factors(epochs, self.shares[is_code][:, None, None], variance)[:, 0, 0]
        return [np.abs(of_feature)[None] for of_feature in noise]

    def respect_energies(self) -> None:
        """Keep the spectrum: each record has one category."""


class CurveFit:
    """Noisy gradient descent in the coefficients of all curves."""

    def __init__(
        self,
        engine: BoostingEngine,
        budget: DividedBudget,
        gradients: Gradients,
        shares: Floats,
        domain: Domain,
        start: npt.NDArray[np.int32],
        n_rows: float,
        signal: float,
    ) -> None:
        self.gradients = gradients
        self._engine, self._budget, self._start = engine, budget, start
        self._n_rows, self._signal = n_rows, signal
        self.n_features = len(shares)
        self._n_steps = [defaults.curve_steps(signal, n_rows) // defaults.N_EPOCHS] * defaults.N_EPOCHS
        if self.n_features > defaults.MAX_CURVES:
            self._n_steps[0] = defaults.WIDE_STEPS
        is_categorical, n_codes = domain.is_categorical, domain.n_codes
        numbers, categories = np.flatnonzero(~is_categorical), np.flatnonzero(is_categorical)
        waves, n_scores = defaults.n_waves(signal), gradients.n_scores
        self._numbers = _Numbers(numbers, shares[numbers], n_codes[numbers], waves, n_scores)
        of_categories = _Categories(categories, shares[categories], n_codes[categories], n_scores)
        self._blocks: list[_Block] = [self._numbers, of_categories]
        self._constant = _Constant(n_scores)
        self._n_averaged = 0
        self._set_weights([np.ones(len(block.features)) / self.n_features for block in self._blocks])

    @property
    def _is_regression(self) -> bool:
        return isinstance(self.gradients, ResidualGradients)

    # -- weights of features -------------------------------------------------------------------------------------------

    def _set_weights(self, weights: list[Floats]) -> None:
        """Set the length of all basis functions, given the weights of the features, which sum to one."""
        n_left = sum(len(block.features) for block in self._blocks)
        of_constant = defaults.CONSTANT_WEIGHT if self._is_regression else 1 / n_left
        pairs = list(zip(self._blocks, weights, strict=True))
        mean = sum(float(w @ (block.spectrum * block.masses).sum(axis=1)) for block, w in pairs)
        length = defaults.NORM_SHARE * (of_constant + mean)
        unit = self._budget.basis_unit
        self._constant.set_scale(math.sqrt(of_constant / length), unit)
        norms = [block.set_basis(np.sqrt(w[:, None] * block.spectrum / length), unit) for block, w in pairs]
        self._features = np.concatenate([block.features for block in self._blocks]).astype(np.int32)
        self._norms = np.concatenate(norms).astype(np.int64)

    def _reweight(self) -> None:
        """Give features with larger curves a larger part of the norm."""
        sizes = [np.sqrt(block.energies.sum(axis=1)) for block in self._blocks]
        total, n_left = sum(float(s.sum()) for s in sizes), len(self._features)
        even = min(1.0, max(defaults.EVEN_WEIGHT, defaults.EVEN_FEATURES / n_left))
        for block in self._blocks:
            block.respect_energies()
        own = [s / total if total > 0 else np.full(len(s), 1 / n_left) for s in sizes]
        self._set_weights([(1 - even) * w + even / n_left for w in own])

    def _select(self) -> None:
        """Keep the features with the largest energies, net of noise."""
        net = [(block.energies - block.noise_energies).sum(axis=1) for block in self._blocks]
        kept = np.argsort(-np.concatenate(net), kind="stable")[: defaults.MAX_CURVES]
        is_kept = np.isin(np.arange(self.n_features), kept)
        for block, of_block in zip(self._blocks, np.split(is_kept, np.cumsum([len(n) for n in net])[:-1]), strict=True):
            block.keep(of_block)

    def _refine(self) -> None:
        """Add cosines if high frequencies have much of the energy, clearly more than noise gives them."""
        block = self._numbers
        masses, scores = block.masses[:, :-1], block.coefficients.shape[-1]
        net = (block.energies - block.noise_energies)[:, :-1]
        high = slice(net.shape[1] // 2, None)
        error = math.sqrt(2 * scores * float(((masses * block.variance[:, :-1])[:, high] ** 2).sum()))
        total = float(net.sum())
        roughness = float(net[:, high].sum())
        if total > 0 and roughness > max(defaults.ROUGH * total, defaults.ROUGH_DEVIATIONS * error):
            block.refine(defaults.MANY_WAVES, defaults.ROUGH_DECAY)

    # -- steps ---------------------------------------------------------------------------------------------------------

    @property
    def _unit(self) -> float:
        """Units of a score in a score of one: a log-odds, or the range of the target."""
        return float(1 << (RANGE_BITS if self._is_regression else SCORE_BITS))

    def grid(self) -> CurveGrid:
        """Return the current curves as integers."""
        return self._grid_of(self._constant.coefficients, [block.coefficients for block in self._blocks])

    def _grid_of(self, constant: Floats, coefficients: list[Floats]) -> CurveGrid:
        values = np.concatenate([b.values(c) for b, c in zip(self._blocks, coefficients, strict=True)])
        limit = _MAX_SCORE // (len(values) + 1)

        def integers(scores: Floats) -> npt.NDArray[np.int32]:
            return np.clip(np.rint(scores * self._unit), -limit, limit).astype(np.int32)

        unit = self._budget.basis_unit
        offset = self._start + integers(constant)
        return CurveGrid(self._features, offset, integers(values), self._norms, self._constant.basis**2, unit)

    def run_epoch(self, epoch: int, share: Fraction, progress: Progress) -> None:
        """Run an epoch, which uses up its part of the share of all curves."""
        if epoch:
            if epoch == 1 and self.n_features > defaults.MAX_CURVES:
                self._select()
            if epoch > 1 and self._numbers.n_waves == defaults.WAVES:
                self._refine()
            self._reweight()
        n_steps = self._n_steps[epoch]
        of_step = as_share(float(share) / (defaults.N_EPOCHS * n_steps))
        task: Task = "regression" if self._is_regression else "classification"
        path = defaults.path(task, self._signal, float(share)) * self.gradients.score_unit / self._unit
        rate = (1 - defaults.MOMENTUM) * path / (defaults.N_EPOCHS * n_steps * self._n_rows)
        is_last = epoch == defaults.N_EPOCHS - 1
        for step in range(n_steps):
            noise = self._step(of_step, rate)
            if is_last and step >= n_steps - max(n_steps // 3, 1):
                self._n_averaged += 1
                for part in (self._constant, *self._blocks):
                    part.total += part.coefficients
            progress.advance()
        curvature = self._n_rows * self._moments()[0]
        for block in self._blocks:
            block.add_epoch(n_steps, rate, noise, curvature)

    def _step(self, share: Fraction, rate: float) -> float:
        """Release the projected gradients and move all coefficients. Return the noise."""
        sums = self._engine.curve_sums(self.grid(), self.gradients)
        ends = np.cumsum([len(block.features) for block in self._blocks])[:-1]
        projected = [block.project(part) for block, part in zip(self._blocks, np.split(sums, ends), strict=True)]
        of_constant = self._constant.basis * sums[0].sum(axis=0)
        flat = np.concatenate([of_constant, *(part.ravel() for part in projected)])
        sensitivity = (CLIP * self._budget.basis_unit) ** 2
        unit = self._budget.basis_unit * self.gradients.unit
        released = self._budget.release(flat, sensitivity, share) / unit
        noise = self._budget.noise(sensitivity, share) / unit
        n_scores = self.gradients.n_scores
        if n_scores > 1:  # adding the same number to all scores does not change probabilities
            of_scores = released.reshape(-1, n_scores)
            released = (of_scores - of_scores.mean(axis=1, keepdims=True)).ravel()
            noise *= math.sqrt(1 - 1 / n_scores)
        begin = 0
        for part in (self._constant, *self._blocks):
            size = part.coefficients.size
            part.move(released[begin : begin + size], rate)
            begin += size
        return noise

    @property
    def n_steps(self) -> int:
        """Number of steps of all epochs."""
        return sum(self._n_steps)

    # -- results -------------------------------------------------------------------------------------------------------

    def result(self) -> tuple[CurveGrid, list[Floats]]:
        """Return the curves, averaged over the last steps, and independent parts of the noise of each curve.

        The parts are those of `_Block.noise`. If the curves of classes are hardly above the noise, they are shrunk.
        """
        n = self._n_averaged
        variance = self._n_rows * self._moments()[1]
        noise = [part for block in self._blocks for part in block.noise(variance)]
        kept = 1.0
        if not self._is_regression:
            values = [curve for block in self._blocks for curve in block.values(block.total / n)]
            shares = [share for block in self._blocks for share in block.shares]
            kept = min(1.0, max(0.0, evidence(values, noise, shares) / defaults.CLEAR))
        grid = self._grid_of(self._constant.total / n, [kept * block.total / n for block in self._blocks])
        return grid, [kept * part for part in noise]

    def net_energies(self) -> Floats:
        """Return the variance of each curve over the records, net of noise, or -1 for features without a curve."""
        energies = np.full(self.n_features, -1.0)
        for block in self._blocks:
            energies[block.features] = np.maximum((block.energies - block.noise_energies).sum(axis=1), 0.0)
        return energies

    def _moments(self) -> tuple[float, float]:
        """Return the approximate mean Hessian and mean squared gradient of a record, in one score."""
        if self._is_regression:
            clip = self.gradients.score_unit / self._unit
            return (1 - defaults.clipped_share(self._signal)) / clip, defaults.SPREAD_OF_RESIDUALS**2
        n = self.gradients.n_scores
        if n > 1:  # gradients of classes with equal shares, which are shortened to 1/2
            return (1 - 1 / (n - 1)) / (2 * n * math.sqrt(1 - 1 / n)), 1 / (4 * n)
        # The scores of two classes are treated as normal numbers.
        points, weights = np.polynomial.hermite_e.hermegauss(20)
        start = float(self._start[0] / self._unit + self._constant.coefficients[0])
        scores = np.clip(start + points * math.sqrt(self.net_energies().clip(0).sum()), -50, 50)
        second = 1 / (1 + np.exp(-scores))
        hessian = np.minimum(second, 1 - second) / 2
        square = (second * np.minimum(1, np.exp(-2 * scores)) + (1 - second) * np.minimum(1, np.exp(2 * scores))) / 4
        weights = weights / weights.sum()
        return float(weights @ hessian), float(weights @ square)
