"""Noise in the functions of a boosted model, estimated by replaying its rounds with noise alone.

Replays start with the noise of the curves, which the fit has computed from its rules. A round adds noise to the scores,
and later rounds correct part of it, because the gradients of records depend on their scores. To first order in the
noise, a round with rate r, weights W and denominators D = max(W, floor) + ridge changes the noise δ in a cell by

    r / D · (S - W·mean(δ) + n),

where n is the noise of the released gradient sum, with known variance, and S is the sampling error of the true sum,
which is the same in all rounds. A replay draws S once and n in every round, and repeats all rounds with their original
cells. Many replays give the variance of every value of every function.

All of this is computed from released and public numbers. Features are treated as independent, as in
`diprime.model.effects`, and the weight of a cell is the product of profiles over its features. Here, a feature of an
interaction has at most `MAX_PAIR_ATOMS` groups of codes. The pseudorandom draws are not secret and always the same, so
equal models show equal numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from diprime.kernels import trees as trees_kernel
from diprime.model.effects import Clip, dividing_splits, features_of_trees, first_codes, segments_of

if TYPE_CHECKING:
    from diprime.model.additive import AdditiveForest

MAX_REPLAYS, MIN_REPLAYS = 200, 40
MAX_VALUES = 1 << 24
"""Maximum number of values in all replays, unless there are only `MIN_REPLAYS` replays."""
MAX_PAIR_ATOMS = 16
WINDOW = 32
"""Number of rounds over which total weights are averaged."""
UNCERTAINTY = 0.5
"""Approximate relative error of the weight of a cell, if computed as the product of its features' profiles."""
PROFILE_LIMITS = 0.05, 20.0

LEAST_SHARE = 1e-3
"""Minimum share of a class in the weights of records."""

_TINY = 1e-9

Floats = npt.NDArray[np.float64]
_Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Atoms:
    """Groups of a feature's codes, and their shares of the records."""

    of_code: _Integers  # shape (256,): group of each code
    shares: Floats  # shape (n_atoms,): share of the records in each group: positive, with a sum of one
    codes: npt.NDArray[np.uint8]  # shape (n_atoms,): one code of each group

    @classmethod
    def of_masks(cls, masks: npt.NDArray[np.uint8], code_shares: Floats) -> Atoms:
        """Return groups of codes that no mask separates, ordered by the fraction of masks that send them right."""
        bits = np.unpackbits(masks, axis=1, bitorder="little")
        segments = segments_of(np.packbits(bits, axis=0).T).astype(np.int64)
        codes = first_codes(segments.astype(np.uint8))
        rank = np.argsort(np.argsort(bits[:, codes].mean(axis=0), kind="stable"))
        of_code = rank[segments]
        shares = np.bincount(of_code, code_shares) + _TINY
        return cls(of_code, shares / shares.sum(), first_codes(of_code.astype(np.uint8)).astype(np.uint8))


@dataclass(frozen=True, eq=False)
class FunctionNoise:
    """Noise of the main effects and interactions of a model in many replays, by their features."""

    terms: dict[tuple[int, ...], Floats]  # shape (n_replays, n_scores, n_atoms[, n_atoms]): noise of the effect
    atoms: dict[tuple[int, ...], tuple[_Integers, ...]]  # shape (256,) for each feature: atom of each code
    shares: dict[tuple[int, ...], tuple[Floats, ...]]  # share of the records in each atom, for each feature

    def at(self, features: tuple[int, ...], codes: tuple[_Integers, ...]) -> Floats:
        """Return the noise of an effect at some codes of its features, of shape (n_replays, n_codes, ..., n_scores)."""
        places = (of_code[c] for of_code, c in zip(self.atoms[features], codes, strict=True))
        cells: tuple[Any, ...] = (slice(None), slice(None), *np.ix_(*places))
        return np.moveaxis(self.terms[features][cells], 1, -1)

    def deviations(self, features: tuple[int, ...], codes: tuple[_Integers, ...]) -> Floats:
        """Return the standard deviation of the noise of an effect at some codes of its features."""
        return np.asarray(np.sqrt((self.at(features, codes) ** 2).mean(axis=0)))


@dataclass(frozen=True, eq=False)
class _Round:
    """Tree as a grid of cells of one or two features."""

    features: tuple[int, ...]
    cells: tuple[_Integers, ...]  # shape (n_atoms,): for each feature, the cell of each atom
    leaves: _Integers  # shape (n_cells, [n_cells]): leaf of each cell


def noise_of_functions(forest: AdditiveForest) -> FunctionNoise:
    """Return the noise of the functions of a model, which is the sum over all models that were merged into it."""
    design = _Design(forest)
    ends = np.cumsum([0, *forest.steps.sizes]).tolist()
    rng = np.random.default_rng(0)
    parts = [_Replay(design, begin, end, rng).run() for begin, end in pairwise(ends)]
    return design.effects_of(parts)


class _Design:
    """Data shared by all replays of a model: the cells of its trees, and their shares of the records."""

    def __init__(self, forest: AdditiveForest) -> None:
        self.forest = forest
        self.code_shares = forest.code_shares
        divides = dividing_splits(forest)
        self.atoms: dict[int, Atoms] = {}
        for j in np.unique(forest.features[divides]).tolist():
            masks = np.unique(forest.masks[divides & (forest.features == j)], axis=0)
            self.atoms[j] = Atoms.of_masks(masks, self.code_shares[j])
        self.features = features_of_trees(forest)
        self.pairs = sorted({features for features in self.features if len(features) > 1})
        self.groups = {pair: tuple(self._groups_of(pair, j) for j in pair) for pair in self.pairs}
        self.n_scores = len(forest.offset)
        p = forest.link.predict(forest.effects.offset[None])[0] if self.n_scores > 1 else np.ones(1)
        p = np.maximum(p, LEAST_SHARE) / np.maximum(p, LEAST_SHARE).sum()
        self.curvature = np.diag(p) - np.outer(p, p) if self.n_scores > 1 else np.ones((1, 1))
        self.mean_curvature = float(np.diag(self.curvature).mean())
        self.hessians = np.diag(self.curvature) / self.mean_curvature
        sizes = [len(atoms.shares) for atoms in self.atoms.values()]
        sizes += [math.prod(int(of.max()) + 1 for of in groups) for groups in self.groups.values()]
        self.n_replays = max(MIN_REPLAYS, min(MAX_REPLAYS, MAX_VALUES // max(sum(sizes) * self.n_scores, 1)))

    def _groups_of(self, pair: tuple[int, ...], j: int) -> _Integers:
        """Return the group of each atom of a feature in an interaction, whose trees do not separate these groups."""
        trees = [t for t, features in enumerate(self.features) if features == pair]
        splits = np.isin(self.forest.tree_of_split, trees) & (self.forest.features == j)
        own = Atoms.of_masks(np.unique(self.forest.masks[splits], axis=0), self.code_shares[j])
        coarse = np.arange(len(own.shares)) if len(own.shares) <= MAX_PAIR_ATOMS else _blocks(own.shares)
        return np.asarray(coarse[own.of_code[self.atoms[j].codes]])

    def pair_shares(self, pair: tuple[int, ...], shares: Sequence[Floats]) -> tuple[Floats, ...]:
        """Return the shares of the groups of an interaction, given the shares of the atoms."""
        return tuple(np.bincount(of, s).astype(np.float64) for of, s in zip(self.groups[pair], shares, strict=True))

    def bend(self, noise: Floats) -> Floats:
        """Return the response of a record's gradients to noise in its scores, with the opposite sign."""
        return noise if self.n_scores == 1 else np.tensordot(self.curvature, noise, ([1], [1])).swapaxes(0, 1)

    @cached_property
    def rounds(self) -> list[_Round]:
        """All trees as cells of their features."""
        return [self._round(tree) for tree in range(self.forest.n_trees)]

    def _round(self, tree: int) -> _Round:
        """Return a tree as a grid of cells. In the trees of a fit, the cuts of one feature do not depend on another."""
        features = self.features[tree]
        atoms = [self.atoms[j].codes for j in features]
        cells, representatives = [], []
        for side, codes in enumerate(atoms):
            rows = np.stack([np.full(len(codes), of[0]) for of in atoms], axis=1)
            rows[:, side] = codes
            _, first, cell = np.unique(self._leaves(tree, rows), return_index=True, return_inverse=True)
            cells.append(cell.ravel())
            representatives.append(codes[first])
        if not features:
            return _Round((), (), self._leaves(tree, np.zeros((1, 0), dtype=np.uint8)).astype(np.int64))
        grid = np.stack(np.meshgrid(*representatives, indexing="ij"), axis=-1)
        leaves = self._leaves(tree, grid.reshape(-1, len(features)).astype(np.uint8))
        return _Round(features, tuple(cells), leaves.reshape(grid.shape[:-1]).astype(np.int64))

    def _leaves(self, tree: int, codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
        """Return the leaves of rows in a tree, given their codes of its features."""
        forest = self.forest
        splits = slice(*forest.first_splits[tree : tree + 2])
        columns = np.searchsorted(self.features[tree], forest.features[splits]).astype(np.int32)
        out = np.empty((len(codes), 1), dtype=np.int32)
        trees_kernel.leaves(
            np.hstack([codes, np.zeros((len(codes), 1), dtype=np.uint8)]),
            forest.depths[tree : tree + 1],
            np.zeros(2, dtype=np.int64),
            columns,
            forest.masks[splits],
            np.empty(max(len(codes), 1), dtype=np.int32),
            out,
        )
        return out[:, 0]

    def effects_of(self, parts: list[_Replay]) -> FunctionNoise:
        """Return the noise of the effects, centred with the record shares as weights."""
        main = {j: np.sum([part.main[j] for part in parts], axis=0) for j in self.atoms}
        terms, atoms, shares = {}, {}, {}
        for pair in self.pairs:
            first, second = shares[pair] = self.pair_shares(pair, [self.atoms[j].shares for j in pair])
            noise = np.sum([part.pair[pair] for part in parts], axis=0)
            mean, rows, columns, terms[pair] = _separate(noise, first, second)
            groups = self.groups[pair]
            main[pair[0]] += (rows + mean)[..., groups[0]]
            main[pair[1]] += (columns + mean)[..., groups[1]]
            atoms[pair] = tuple(of[self.atoms[j].of_code] for of, j in zip(groups, pair, strict=True))
        for j, noise in main.items():
            of_atoms = self.atoms[j].shares
            terms[(j,)] = noise - (noise @ of_atoms)[..., None]
            atoms[(j,)] = (self.atoms[j].of_code,)
            shares[(j,)] = (of_atoms,)
        return FunctionNoise(terms, atoms, shares)


class _Replay:
    """All replays of one fit, with the noise so far as a constant, main effects and interactions."""

    def __init__(self, design: _Design, begin: int, end: int, rng: np.random.Generator) -> None:
        n_curves = int(design.forest.steps.is_curve[begin:end].sum())
        self._design, self._trees, self._rng = design, range(begin + n_curves, end), rng
        n = design.n_replays, design.n_scores
        self._totals = self._total_weights()
        self._weights = self._profiles()
        self._pair_weights = {p: design.pair_shares(p, [self._weights[j] for j in p]) for p in design.pairs}
        self._chance = self._draw_chance()
        self.constant = np.zeros((*n, 1))
        self.main = {j: np.zeros((*n, len(weights))) for j, weights in self._weights.items()}
        n_before = int(design.forest.steps.is_curve[:begin].sum())
        self._add_curves(begin, design.forest.steps.curve_noise[n_before : n_before + n_curves])
        self.pair = {pair: np.zeros((*n, *map(len, weights))) for pair, weights in self._pair_weights.items()}

    def _add_curves(self, begin: int, noise: Sequence[Floats]) -> None:
        """Add the noise of the curves, which the rounds then reduce."""
        design = self._design
        for tree, parts in enumerate(noise, begin):
            for j in design.features[tree]:
                of_atoms = parts[:, design.atoms[j].codes]
                n_drawn = of_atoms.shape[1] if design.forest.is_categorical[j] else len(of_atoms)
                drawn = self._rng.standard_normal((design.n_replays, design.n_scores, n_drawn))
                self.main[j] += drawn * of_atoms if design.forest.is_categorical[j] else drawn @ of_atoms

    def _total_weights(self) -> Floats:
        """Return the total weight of the cells of each round, averaged over blocks of `WINDOW` rounds."""
        forest = self._design.forest
        sums = np.add.reduceat(forest.counts, forest.first_leaves[:-1])[self._trees.start : self._trees.stop]
        if not len(sums):
            return sums
        starts = np.arange(0, len(sums), WINDOW)
        lengths = np.diff([*starts, len(sums)])
        return np.maximum(np.repeat(np.add.reduceat(sums, starts) / lengths, lengths), 0.0)

    def _profiles(self) -> dict[int, Floats]:
        """Return the weight shares of each feature's atoms: record shares times the mean weight of their records."""
        design = self._design
        found = {j: np.zeros((2, len(atoms.shares))) for j, atoms in design.atoms.items()}
        for tree, total in zip(self._trees, self._totals.tolist(), strict=True):
            of_tree = design.rounds[tree]
            counts = design.forest.counts[design.forest.first_leaves[tree] + of_tree.leaves]
            for side, (j, cells) in enumerate(zip(of_tree.features, of_tree.cells, strict=True)):
                released = counts.sum(axis=1 - side) if counts.ndim > 1 else counts
                expected = total * np.bincount(cells, design.atoms[j].shares)
                found[j] += np.stack([released, expected])[:, cells]
        shares = {}
        for j, (released, expected) in found.items():
            ratio = np.divide(released, expected, out=np.ones_like(released), where=expected > 1)
            weights = design.atoms[j].shares * np.clip(ratio, *PROFILE_LIMITS)
            shares[j] = weights / weights.sum()
        return shares

    def _draw_chance(self) -> dict[tuple[int, ...], Floats]:
        """Return draws of the sampling error of gradients for each effect, and for their mean under the key ()."""
        design = self._design
        if not self._trees:
            return {}
        spread = design.forest.steps.table[self._trees.stop - 1, 4]
        records = max(self._totals[-1] / design.mean_curvature, 1.0)
        values, vectors = np.linalg.eigh(design.curvature)
        root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T * spread / math.sqrt(records)

        def draw(weights: Floats) -> Floats:
            drawn = self._rng.standard_normal((design.n_replays, design.n_scores, weights.size))
            return np.asarray((root @ drawn).reshape(*drawn.shape[:2], *weights.shape) / np.sqrt(weights))

        chance: dict[tuple[int, ...], Floats] = {(): draw(np.ones(1))}
        for j, weights in self._weights.items():
            drawn = draw(weights)
            if design.forest.is_categorical[j]:
                together, apart = self._chance_in_order(j, records, spread)
                blocks = _blocks(weights)
                in_blocks = draw(np.ones(int(blocks.max()) + 1))[..., blocks] / np.sqrt(weights)
                drawn = together * in_blocks + apart * drawn
            chance[(j,)] = drawn - (drawn @ weights)[..., None]
        for pair, (first, second) in self._pair_weights.items():
            chance[pair] = _separate(draw(np.outer(first, second)), first, second)[-1]
        return chance

    def _chance_in_order(self, j: int, records: float, spread: float) -> tuple[Floats, Floats]:
        """Return factors of the sampling error of each atom of categories: for the part in their order, and the rest.

        Rounds cut categories in the order of their released mean targets. As far as the noise of this order allows,
        categories with similar sampling errors are therefore in the same cell, where the errors do not cancel.
        """
        design, noise = self._design, self._design.forest.code_noise
        if design.n_scores > 1 or not isinstance(design.forest.link, Clip):
            n_classes = max(design.n_scores, 2)
            ratio = noise**2 * (n_classes - 1) / n_classes**2 / design.mean_curvature
        else:
            low, high = design.forest.link.limits
            ratio = noise**2 / 4 * ((high - low) / max(spread, _TINY)) ** 2
        atoms, shares = design.atoms[j], design.code_shares[j]
        weights = shares * (self._weights[j] / atoms.shares)[atoms.of_code]
        known = weights * records / (weights * records + ratio + _TINY)  # the squared correlation with the order
        of_atoms = np.bincount(atoms.of_code, weights) + _TINY
        apart = np.bincount(atoms.of_code, weights * (1 - known)) / of_atoms
        return np.sqrt(np.bincount(atoms.of_code, known)), np.sqrt(apart)

    def run(self) -> _Replay:
        """Replay all rounds."""
        for tree, total in zip(self._trees, self._totals.tolist(), strict=True):
            self._take(tree, total)
        return self

    def _take(self, tree: int, total: float) -> None:
        design, of_tree = self._design, self._design.rounds[tree]
        rate, floor, ridge, noise, _ = design.forest.steps.table[tree].tolist()
        released = design.forest.counts[design.forest.first_leaves[tree] + of_tree.leaves].ravel()
        factor = rate / (np.maximum(design.hessians[:, None] * released, floor) + ridge)
        sides = [_Side.of(cells, self._weights[j]) for j, cells in zip(of_tree.features, of_tree.cells, strict=True)]
        groups = self._cells_of_groups(of_tree.features, sides)
        sides = [self._of_groups(of_tree.features, side, group) for side, group in enumerate(groups)] or sides
        error = self._mean_error(of_tree.features, sides, groups)
        shares = sides[0].shares if sides else np.ones(1)
        shares = np.outer(shares, sides[1].shares).ravel() if len(sides) > 1 else shares
        pull = self._weights_of_cells(tree, total * shares, released) / design.mean_curvature * error
        steps = factor * (pull + noise * self._rng.standard_normal(pull.shape))
        if not sides:
            self.constant += steps
        elif len(sides) == 1:
            mean = (steps @ sides[0].shares)[..., None]
            self.constant += mean
            self.main[of_tree.features[0]] += (steps - mean)[..., sides[0].cells]
        else:
            steps = steps.reshape(*steps.shape[:2], *of_tree.leaves.shape)
            mean, rows, columns, pure = _separate(steps, sides[0].shares, sides[1].shares)
            self.constant += mean
            self.main[of_tree.features[0]] += rows[..., sides[0].cells]
            self.main[of_tree.features[1]] += columns[..., sides[1].cells]
            self.pair[of_tree.features] += pure[..., groups[0].cells[:, None], groups[1].cells]

    def _weights_of_cells(self, tree: int, expected: Floats, released: Floats) -> Floats:
        """Return the weights of the cells of a round: as released if their noise is small, otherwise as expected."""
        _, floor, ridge, _, _ = self._design.forest.steps.table[tree].tolist()
        trust = expected**2 / (expected**2 + (floor - ridge) ** 2 / UNCERTAINTY**2 + _TINY)
        weights = trust * released + (1 - trust) * expected
        # A weight above the denominator of the steps would make steps longer than Newton steps.
        return np.asarray(np.clip(weights, 0.0, np.maximum(released, floor) + ridge))

    def _cells_of_groups(self, features: tuple[int, ...], sides: list[_Side]) -> list[_Side]:
        """Return the cell of each group of atoms of an interaction: the cell that contains most of the group."""
        if len(sides) == 1:
            return []
        found = []
        per_side = self._design.groups.get(features, ()), self._pair_weights.get(features, ())
        for j, of_atoms, weights, side in zip(features, *per_side, sides, strict=True):
            n_cells = len(side.shares)
            both = np.bincount(of_atoms * n_cells + side.cells, self._weights[j], minlength=len(weights) * n_cells)
            found.append(_Side.of(both.reshape(len(weights), n_cells).argmax(axis=1), weights, n_cells))
        return found

    def _of_groups(self, pair: tuple[int, ...], side: int, group: _Side) -> _Side:
        """Return the cells of a feature's atoms, with each group in one cell, so that no noise can amplify itself."""
        cells = group.cells[self._design.groups[pair][side]]
        return _Side.of(cells, self._weights[pair[side]], len(group.shares))

    def _mean_error(self, features: tuple[int, ...], sides: list[_Side], groups: list[_Side]) -> Floats:
        """Return the mean deviation from zero of the records' gradients in each cell of a round."""

        def of_effect(key: tuple[int, ...], noise: Floats) -> Floats:
            return np.asarray(self._chance[key] - self._design.bend(noise))

        error = of_effect((), self.constant)
        means = [of_effect((j,), self.main[j]) @ side.average for j, side in zip(features, sides, strict=True)]
        if len(sides) < 2:  # noqa: PLR2004 -- no interaction
            return np.asarray(error + sum(means))
        both = groups[0].average.T @ of_effect(features, self.pair[features]) @ groups[1].average
        both += means[0][..., None] + means[1][..., None, :]
        return np.asarray(error + both.reshape(*both.shape[:2], -1))


@dataclass(frozen=True, eq=False)
class _Side:
    """Cells of a feature in a round."""

    cells: _Integers  # shape (n_atoms,): cell of each atom, or of each group of atoms
    shares: Floats  # shape (n_cells,): share of the weight in each cell
    average: Floats  # shape (n_atoms, n_cells): matrix that maps values of atoms to means of cells

    @classmethod
    def of(cls, cells: _Integers, weights: Floats, n_cells: int = 0) -> _Side:
        """Return the cells of a feature, given the cell and the weight of each atom."""
        shares = np.asarray(np.bincount(cells, weights, minlength=n_cells), dtype=np.float64)
        average = np.zeros((len(cells), len(shares)))
        average[np.arange(len(cells)), cells] = weights / shares[cells]
        return cls(cells, shares, average)


def _blocks(shares: Floats) -> _Integers:
    """Return the block of each atom. There are at most `MAX_PAIR_ATOMS` blocks, with about equal shares."""
    middles = np.cumsum(shares) - shares / 2
    return np.asarray(np.unique((middles * MAX_PAIR_ATOMS).astype(np.int64), return_inverse=True)[1])


def _separate(values: Floats, first: Floats, second: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the mean of a function of two features, its main effects and its interaction."""
    rows, columns = values @ second, first @ values
    mean = (rows @ first)[..., None]
    rows, columns = rows - mean, columns - mean
    return mean, rows, columns, values - mean[..., None] - rows[..., None] - columns[..., None, :]
