"""Synthetic data of a domain: nothing but what is public about the data goes into them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from diprime.cli.text_values import level_column
from diprime.domain import Categorical, Date, Domain, Integer, Numeric
from diprime.domain.kinds import Feature
from diprime.domain.moments import DAY

INFORMATIVE_FEATURES = 5
CLASS_SIGNAL = 3.0  # standard deviation of the classes' scores, to which standard Gumbel noise is added
NUMBER_SIGNAL, NUMBER_NOISE = 0.15, 0.1  # standard deviations as shares of the target's range
BATCH_ROWS = 50_000
FOUR_YEARS = 1461 * DAY  # every day of the calendar occurs
OPEN_RANGE = (1.0, 1000.0)
OPEN_LEVELS = tuple(f"level {i}" for i in range(10))
OPEN_CLASSES = ("class 0", "class 1")


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
    """Independent features, uniform over the domain's cells and levels, and a target with additive effects of a few.

    Parameters
    ----------
    domain : Domain
        The domain of the data, without anything open.
    seed : int
        The seed of the effects and of the rows.
    """

    def __init__(self, domain: Domain, seed: int) -> None:
        self._domain = domain
        self._rng = np.random.default_rng(seed)
        n_scores = domain.layout.n_outputs if domain.task == "classification" else 1
        names = list(domain.names)
        chosen = self._rng.permutation(len(names))[:INFORMATIVE_FEATURES]
        self._effects = {names[i]: self._effect(int(domain.n_codes[i]), n_scores, names[i]) for i in chosen}

    def _effect(self, n_codes: int, n_scores: int, name: str) -> npt.NDArray[np.float64]:
        """Return the effect of each code of a feature on the scores: linear for numbers, random for categories."""
        if isinstance(self._domain.coded[name], Categorical):
            effect = self._rng.normal(size=(n_codes, n_scores))
        else:
            effect = np.linspace(-1, 1, n_codes)[:, None] * self._rng.choice([-1.0, 1.0], n_scores)
        spread = effect.std(axis=0)
        return np.asarray((effect - effect.mean(axis=0)) / np.where(spread > 0, spread, 1))

    def batches(self, n_rows: int, rows_per_person: int | None = None) -> SyntheticBatches:
        """Return batches of new rows and their targets; if persons have so many rows each, their numbers as well."""
        return SyntheticBatches(self, n_rows, rows_per_person, int(self._rng.integers(1 << 62)))

    def draw(self, n_rows: int, rng: np.random.Generator | None = None) -> tuple[pl.DataFrame, pl.Series]:
        """Draw rows and their targets."""
        rng = self._rng if rng is None else rng
        columns = {}
        scores: npt.NDArray[np.float64] = np.zeros((n_rows, 1))
        for name, feature in self._domain.features.items():
            columns[name], codes_by_name = self._draw_column(name, feature, n_rows, rng)
            for coded, codes in codes_by_name.items():
                if coded in self._effects:
                    scores = scores + self._effects[coded][codes] / math.sqrt(len(self._effects))
        return pl.DataFrame(columns), self._target(scores, rng)

    def _draw_column(
        self, name: str, feature: Feature, n_rows: int, rng: np.random.Generator
    ) -> tuple[pl.Series, dict[str, npt.NDArray[np.integer[Any]]]]:
        """Draw values of a column; return them and their codes, for each coded feature."""
        if isinstance(feature, Date):
            ends = (feature.first_moment, feature.last_moment) if feature.has_range else (0, FOUR_YEARS)
            moments = rng.integers(*ends, n_rows, endpoint=True)
            codes_by_name = {coded: part.codes(moments) for coded, part in feature.coded(name).items()}
            return pl.Series(name, moments).cast(pl.Datetime("us")), dict(codes_by_name)
        codes = rng.integers(0, feature.n_codes if isinstance(feature, Categorical) else feature.n_cells, n_rows)
        return _values(feature, codes, name), {name: codes}

    def _target(self, scores: npt.NDArray[np.float64], rng: np.random.Generator) -> pl.Series:
        target = self._domain.target
        if isinstance(target, Categorical):
            classes = (CLASS_SIGNAL * scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
            return level_column("target", classes, target.levels)
        assert target.low is not None
        assert target.high is not None
        shares = 0.5 + NUMBER_SIGNAL * scores[:, 0] + NUMBER_NOISE * rng.normal(size=len(scores))
        return pl.Series("target", target.low + (target.high - target.low) * shares.clip(0, 1))


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


def _values(feature: Numeric | Integer | Categorical, codes: npt.NDArray[np.int64], name: str) -> pl.Series:
    """Return values that have these codes."""
    if isinstance(feature, Categorical):
        return level_column(name, codes, feature.levels)
    if isinstance(feature, Integer):
        return pl.Series(name, np.array([feature.low, *feature.first_values])[codes])
    cells = np.concatenate([[np.nextafter(feature.thresholds[0], -np.inf)], feature.thresholds])
    return pl.Series(name, cells[codes])
