"""Synthetic data of a domain: nothing but what is public about the data goes into them.

Nobody knows without the data what they are like, so there are several kinds. How much accuracy noise costs differs
between them, as it does between real tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime.domain import Categorical, Date, Domain, Integer, Numeric
from diprime.domain.kinds import Feature
from diprime.domain.moments import DAY
from diprime.domain.tables import Array, Table, object_array, table_of

GRID = 8
"""The number of steps of each of two features that interact."""
BATCH_ROWS = 50_000
FOUR_YEARS = 1461 * DAY  # every day of the calendar occurs
OPEN_RANGE = (1.0, 1000.0)
OPEN_LEVELS = tuple(f"level {i}" for i in range(10))
OPEN_CLASSES = ("class 0", "class 1")

Floats = npt.NDArray[np.float64]
Places = dict[str, Floats]
"""Where the values of each coded feature lie, from 0 to 1."""


@dataclass(frozen=True)
class Kind:
    """A kind of synthetic data.

    Attributes
    ----------
    name : str
        What to call it.
    n_informative : int
        The number of features that have effects.
    interacts : bool
        Whether pairs of features have effects, by steps, or single features, in a line.
    skew : int
        The power to which uniform values are raised: 1 fills the ranges evenly, 3 puts half of all values into an
        eighth of them.
    class_signal : float
        The standard deviation of the classes' scores, to which standard Gumbel noise is added.
    number_signal, number_noise : float
        Standard deviations of what can be predicted of a number and of the rest, as shares of the target's range.
    """

    name: str
    n_informative: int
    interacts: bool
    skew: int
    class_signal: float
    number_signal: float
    number_noise: float


KINDS = (
    Kind("simple", 1, interacts=False, skew=1, class_signal=8.0, number_signal=0.2, number_noise=0.03),
    Kind("smooth", 5, interacts=False, skew=1, class_signal=3.0, number_signal=0.15, number_noise=0.1),
    Kind("rough", 5, interacts=True, skew=3, class_signal=6.0, number_signal=0.15, number_noise=0.05),
)


def stand_in(domain: Domain) -> Domain:
    """Return a domain in which everything open has a range or levels that are made up.

    Numbers are from 1 to 1000, text has ten levels, and there are two classes.
    """
    features = {name: _closed(feature, OPEN_LEVELS) for name, feature in domain.features.items()}
    target = _closed(domain.target, OPEN_CLASSES)
    assert isinstance(target, Numeric | Categorical)
    return replace(domain, features=features, target=target)


def _closed(feature: Feature, levels: tuple[str, ...]) -> Feature:
    if not feature.is_open:
        return feature
    if isinstance(feature, Categorical):
        return Categorical(levels)
    assert isinstance(feature, Numeric)
    return replace(feature, low=OPEN_RANGE[0], high=OPEN_RANGE[1])


class SyntheticData:
    """Independent features, and a target with effects of a few of them.

    Parameters
    ----------
    domain : Domain
        The domain of the data, without anything open.
    seed : int
        The seed of the effects and of the rows.
    kind : Kind
        The kind of data.
    """

    def __init__(self, domain: Domain, seed: int, kind: Kind) -> None:
        self._domain = domain
        self._kind = kind
        self._rng = np.random.default_rng(seed)
        n_scores = domain.layout.n_outputs if domain.task == "classification" else 1
        names = [domain.names[i] for i in self._rng.permutation(domain.n_features)[: kind.n_informative]]
        self._effects: list[tuple[tuple[str, ...], Floats]]
        if kind.interacts and len(names) > 1:
            self._effects = [(pair, self._random(GRID * GRID, n_scores)) for pair in pairwise(names)]
        else:
            self._effects = [((name,), self._effect(name, n_scores)) for name in names]

    def _random(self, size: int, n_scores: int) -> Floats:
        return _standardized(self._rng.normal(size=(size, n_scores)))

    def _effect(self, name: str, n_scores: int) -> Floats:
        """Return the effect of each code of a feature on the scores: linear for numbers, random for categories."""
        n_codes = int(self._domain.n_codes[self._domain.names.index(name)])
        if isinstance(self._domain.coded[name], Categorical):
            return self._random(n_codes, n_scores)
        return _standardized(np.linspace(-1, 1, n_codes)[:, None] * self._rng.choice([-1.0, 1.0], n_scores))

    def batches(self, n_rows: int, rows_per_person: int | None = None) -> SyntheticBatches:
        """Return batches of new rows and their targets; if persons have so many rows each, their numbers as well."""
        return SyntheticBatches(self, n_rows, rows_per_person, int(self._rng.integers(1 << 62)))

    def draw(self, n_rows: int, rng: np.random.Generator | None = None) -> tuple[Table, Array]:
        """Draw rows and their targets."""
        rng = self._rng if rng is None else rng
        columns: dict[str, Array] = {}
        places: Places = {}
        for name, feature in self._domain.features.items():
            columns[name], of_column = self._draw_column(name, feature, n_rows, rng)
            places |= of_column
        return table_of(columns), self._target(self._scores(places, n_rows), rng)

    def _draw_column(self, name: str, feature: Feature, n_rows: int, rng: np.random.Generator) -> tuple[Array, Places]:
        """Draw values of a column; return them and their places, for each coded feature."""
        shares = rng.random(n_rows) ** self._kind.skew
        if isinstance(feature, Date):
            first, last = (feature.first_moment, feature.last_moment) if feature.has_range else (0, FOUR_YEARS)
            moments = first + (shares * (last - first)).astype(np.int64)
            places = {coded: _middle(part.codes(moments), part.n_cells) for coded, part in feature.coded(name).items()}
            return moments.astype("datetime64[us]"), places
        n_codes = feature.n_codes if isinstance(feature, Categorical) else feature.n_cells
        codes = np.minimum((n_codes * shares).astype(np.int64), n_codes - 1)
        if isinstance(feature, Categorical):
            return _values(feature, codes), {name: _middle(codes, n_codes)}
        return _values(feature, codes), {name: shares ** (1 / self._kind.skew)}

    def _scores(self, places: Places, n_rows: int) -> Floats:
        scores: Floats = np.zeros((n_rows, 1))
        for names, effect in self._effects:
            size = len(effect) if len(names) == 1 else GRID
            steps = [np.minimum((size * places[name]).astype(np.int64), size - 1) for name in names]
            at = steps[0] if len(names) == 1 else steps[0] * GRID + steps[1]
            scores = scores + effect[at] / math.sqrt(len(self._effects))
        return scores

    def _target(self, scores: Floats, rng: np.random.Generator) -> Array:
        target, kind = self._domain.target, self._kind
        if isinstance(target, Categorical):
            classes = (kind.class_signal * scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
            return np.asarray(object_array(target.levels)[classes])
        assert target.low is not None
        assert target.high is not None
        shares = 0.5 + kind.number_signal * scores[:, 0] + kind.number_noise * rng.normal(size=len(scores))
        return np.asarray(target.low + (target.high - target.low) * shares.clip(0, 1))


@dataclass(frozen=True)
class SyntheticBatches:
    """Batches of synthetic rows, the same ones whenever they are read: an open domain takes several passes."""

    data: SyntheticData
    n_rows: int
    rows_per_person: int | None
    seed: int

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        rng = np.random.default_rng(self.seed)
        for start in range(0, self.n_rows, BATCH_ROWS):
            stop = min(start + BATCH_ROWS, self.n_rows)
            persons = [] if self.rows_per_person is None else [np.arange(start, stop) // self.rows_per_person]
            yield (*self.data.draw(stop - start, rng), *persons)


def _standardized(effect: Floats) -> Floats:
    spread = effect.std(axis=0)
    return np.asarray((effect - effect.mean(axis=0)) / np.where(spread > 0, spread, 1))


def _middle(codes: npt.NDArray[np.integer[Any]], n_codes: int) -> Floats:
    """Return the middle of the place of each code."""
    return np.asarray((codes + 0.5) / n_codes)


def _values(feature: Numeric | Integer | Categorical, codes: npt.NDArray[np.int64]) -> Array:
    """Return values that have these codes."""
    if isinstance(feature, Categorical):
        return object_array(feature.levels)[codes]
    if isinstance(feature, Integer):
        return np.array([feature.low, *feature.first_values])[codes]
    cells = np.concatenate([[np.nextafter(feature.thresholds[0], -np.inf)], feature.thresholds])
    return np.asarray(cells[codes])
