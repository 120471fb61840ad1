"""The public facts about one column: `Numeric` and `Categorical`, which hold nothing that is read from data."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime.domain.codes import BUCKETS, CELLS, cells_per_unit, linear_thresholds, log_thresholds
from diprime.domain.tables import is_missing, python_value

MAX_LISTED = 10
"""The largest number of names or levels that a message or a representation lists."""

_MAX_REPR_LENGTH = 60
_MAX_WHOLE = 1e15  # larger whole numbers read better in scientific notation


@dataclass(frozen=True, repr=False)
class Numeric:
    """A numeric feature or target, with its public range.

    Parameters
    ----------
    low, high : float, optional
        The public range, ``low < high``. Numbers outside are clamped to it. Choose it from prior knowledge, never from
        the data. ``Numeric()``, without both and without `edges`, is open: its range is learnt privately, by
        `Domain.learn` or by the estimator that is given such a domain, and paid for.
    scale : {"linear", "log"}, default="linear"
        Whether the 255 cells of the range have equal widths or form a geometric sequence. If `low` is not positive, the
        cells of a log scale have equal widths in ``log1p(1e6 * (x - low) / (high - low))``, which covers six decades.
    edges : sequence of float, optional
        Instead of a scale, 1 to 254 strictly increasing edges between the cells. `low` and `high` are then optional and
        do not affect the codes.

    Attributes
    ----------
    thresholds : ndarray of float64
        The code of x is the number of thresholds at or below x: ``thresholds[i]`` is the smallest float64 whose code is
        above i, exactly. Thresholds are sorted, and repeat only if the range holds too few floats.
    n_cells : int
        The number of cells, ``len(thresholds) + 1``.

    Examples
    --------
    >>> age = Numeric(0, 255)
    >>> age.n_cells, age.thresholds[:3].tolist()
    (255, [1.0, 2.0, 3.0])
    >>> Numeric(edges=[0, 18, 65]).n_cells
    4
    >>> Numeric(0, 1e6, scale="log")
    Numeric(0, 1000000, scale='log')
    """

    low: float | None = None
    high: float | None = None
    scale: str = field(default="linear", kw_only=True)
    edges: Sequence[float] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _finite(getattr(self, name), name))
        if self.scale not in ("linear", "log"):
            raise ValueError(f"scale = {short(self.scale)} is unknown; use 'linear' or 'log', or give edges.")
        if self.edges is not None:
            object.__setattr__(self, "edges", _checked_edges(self.edges))
            if self.scale != "linear":
                raise ValueError("edges and scale = 'log' are both given; edges alone say where the cells are.")
        elif (self.low is None) is not (self.high is None):
            raise ValueError("low and high are both needed unless edges are given; write for example Numeric(0, 100).")
        if self.low is not None and self.high is not None:
            _check_range(self.low, self.high, is_linear=self.edges is None and self.scale == "linear")

    def __repr__(self) -> str:
        parts = ["None" if b is None else str(int_if_whole(b)) for b in (self.low, self.high)]
        parts = [] if self.low is None and self.high is None else parts
        if self.edges is not None:
            parts.append(f"edges=[{', '.join(str(int_if_whole(e)) for e in self.edges)}]")
        if self.scale != "linear":
            parts.append(f"scale={self.scale!r}")
        return f"Numeric({', '.join(parts)})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("low", "high", "scale", "edges")}  # not the cached thresholds

    @property
    def is_open(self) -> bool:
        """Whether the range is still to be learnt."""
        return self.low is None and self.edges is None

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return CELLS if self.edges is None else len(self.edges) + 1

    @cached_property
    def thresholds(self) -> npt.NDArray[np.float64]:
        """The smallest float64 of every cell but the first."""
        if self.is_open:
            raise ValueError("This range is open: learn it with Domain.learn, or write for example Numeric(0, 100).")
        if self.edges is not None:
            result = np.array(self.edges, dtype=np.float64)
        else:
            result = (log_thresholds if self.scale == "log" else linear_thresholds)(*bounds(self))
        result.flags.writeable = False
        return result


@dataclass(frozen=True, init=False, repr=False)
class Categorical:
    """A categorical feature or target, with its public levels.

    Parameters
    ----------
    levels : sequence of hashable, optional
        The levels, in order, each of them once. ``None`` and NaN are not levels: they stand for missing values. Levels
        are compared by value, like the keys of a dict: 1, 1.0 and True are the same level. ``Categorical()`` is open:
        its levels are learnt privately, by `Domain.learn` or by an estimator.
    buckets : int, optional
        Instead of levels, the number of buckets, at most 254, over which a public hash function spreads all values.
        Which values there are then need not be known; those that share a bucket are not told apart. A target has no
        buckets.

    Attributes
    ----------
    levels : tuple
        The levels; NumPy scalars are converted to Python values. The levels of buckets are "bucket 0", "bucket 1", and
        so on.
    n_codes : int
        The number of codes of the levels. Level i has code ``i % 254``, so that levels share codes if there are more
        than 254. Values that are not levels have code 254, missing values 255. The classes of a target never share a
        code.

    Examples
    --------
    >>> Categorical(["F", "M"]).n_codes
    2
    >>> Categorical(range(1000)).n_codes
    254
    >>> Categorical(buckets=64).n_codes
    64
    """

    levels: tuple[Hashable, ...]
    buckets: int | None

    def __init__(self, levels: Iterable[Hashable] | None = None, *more: Hashable, buckets: int | None = None) -> None:
        if more:
            raise TypeError(f"Categorical takes its levels as one list; write Categorical({short([levels, *more])}).")
        object.__setattr__(self, "buckets", buckets)
        if buckets is not None:
            object.__setattr__(self, "levels", _names_of_buckets(levels, buckets))
        else:
            object.__setattr__(self, "levels", () if levels is None else _checked_levels(levels))

    def __repr__(self) -> str:
        if self.buckets is not None:
            return f"Categorical(buckets={self.buckets})"
        if self.is_open:
            return "Categorical()"
        shown = [short(v) for v in self.levels[:MAX_LISTED]]
        more = f", ... {len(self.levels)} levels" if len(self.levels) > MAX_LISTED else ""
        return f"Categorical([{', '.join(shown)}{more}])"

    @property
    def is_open(self) -> bool:
        """Whether the levels are still to be learnt."""
        return not self.levels

    @property
    def n_codes(self) -> int:
        """The number of codes of the levels."""
        return min(len(self.levels), BUCKETS)


def bounds(feature: Numeric) -> tuple[float, float]:
    """Return the range of a feature that has one; every feature without edges does."""
    assert feature.low is not None
    assert feature.high is not None
    return feature.low, feature.high


def is_linear(feature: Numeric) -> bool:
    """Return whether the cells of a range have equal widths."""
    return feature.edges is None and feature.scale == "linear"


def linear_formula(feature: object) -> tuple[float, float] | None:
    """Return the lower bound and the cells per unit of a feature with a linear scale; None for any other feature."""
    if not isinstance(feature, Numeric) or not is_linear(feature):
        return None
    low, high = bounds(feature)
    return low, cells_per_unit(low, high)


def int_if_whole(number: float) -> int | float:
    """Return a whole number as an integer, as people write it, unless it is very large."""
    return int(number) if number.is_integer() and abs(number) < _MAX_WHOLE else number


def short(value: object) -> str:
    """Return the representation of a value for an error message, shortened if it is long."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 -- __repr__ may raise anything; Python refuses to print very long integers
        text = f"a {type(value).__name__}"
    return text if len(text) <= _MAX_REPR_LENGTH else text[: _MAX_REPR_LENGTH - 3] + "..."


def _finite(value: Any, name: str) -> float:
    """Return a bound as a float; -0.0 becomes 0.0."""
    if isinstance(value, (bool, np.bool_, str, bytes)):
        raise ValueError(f"{name} = {value!r} is not a number; give a finite number.")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} = {short(value)} is not a float64 number; give a finite number.") from None
    if not math.isfinite(number):
        raise ValueError(f"{name} = {number} is not finite; give the public bound that you would clamp to.")
    return number + 0.0


def _check_range(low: float, high: float, *, is_linear: bool) -> None:
    if not low < high:
        raise ValueError(f"low = {int_if_whole(low)} is not below high = {int_if_whole(high)}; give low < high.")
    width = high - low
    # The kernels multiply by CELLS / width, which must stay below the largest float.
    if is_linear and (math.isinf(width) or width * sys.float_info.max < 2 * CELLS):
        raise ValueError(
            f"the range from low = {int_if_whole(low)} to high = {int_if_whole(high)} is too "
            f"{'wide' if math.isinf(width) else 'narrow'} for float64 arithmetic; rescale the feature."
        )


def _checked_levels(levels: Any) -> tuple[Hashable, ...]:
    if isinstance(levels, (str, bytes)) or not isinstance(levels, Iterable):
        raise ValueError(f"levels = {short(levels)} is not a list of levels; give for example ['F', 'M'].")
    if isinstance(levels, (set, frozenset)):
        raise ValueError("levels is a set, whose order changes from run to run; give a list.")
    result = tuple(python_value(v) for v in levels)
    if not result:
        raise ValueError("levels is empty; give at least one level.")
    first: dict[Hashable, int] = {}
    for i, level in enumerate(result):
        if is_missing(level):
            raise ValueError(f"levels[{i}] = {short(level)} means missing, which always has a code; leave it out.")
        try:
            j = first.setdefault(level, i)
        except TypeError:
            raise TypeError(f"levels[{i}] = {short(level)} is not hashable; use strings or numbers.") from None
        if j != i:
            same = "" if type(level) is type(result[j]) else f" (it equals {short(result[j])})"
            raise ValueError(f"levels[{i}] = {short(level)} repeats levels[{j}]{same}; give each level once.")
    return result


def _names_of_buckets(levels: object, buckets: Any) -> tuple[str, ...]:
    if levels is not None:
        raise ValueError("levels and buckets are both given; buckets are for values that cannot be listed.")
    if isinstance(buckets, bool) or not isinstance(buckets, int) or not 1 <= buckets <= BUCKETS:
        raise ValueError(f"buckets = {short(buckets)} is not a whole number from 1 to {BUCKETS}.")
    return tuple(f"bucket {i}" for i in range(buckets))


def _checked_edges(edges: Any) -> tuple[float, ...]:
    if isinstance(edges, (str, bytes, Mapping, set, frozenset)) or not isinstance(edges, Iterable):
        raise ValueError(f"edges = {short(edges)} is not a sequence of numbers; give for example [0, 18, 65].")
    result = tuple(_finite(e, f"edges[{i}]") for i, e in enumerate(edges))
    if not 1 <= len(result) < CELLS:
        raise ValueError(f"edges has {len(result)} numbers; give 1 to {CELLS - 1}.")
    for i, (a, b) in enumerate(pairwise(result)):
        if not a < b:
            raise ValueError(
                f"edges[{i + 1}] = {int_if_whole(b)} is not above edges[{i}] = {int_if_whole(a)}; sort them."
            )
    return result
