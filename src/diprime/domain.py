"""What is public about the data: ranges, levels, classes, and the small integers that records become.

Nothing here depends on the values met in a data set: out-of-range numbers are clamped, unseen levels and missing
values have codes of their own, and the errors are about shapes, names and types. `Domain.infer` alone reads values.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from functools import cached_property
from itertools import pairwise, repeat
from types import MappingProxyType
from typing import Any, Literal, NoReturn

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from diprime.kernels import encoding

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

__all__ = ["MISSING", "OTHER", "TARGET_UNITS", "Categorical", "Domain", "Numeric"]

MISSING = 255
"""The code of a missing value, for every feature."""
OTHER = 254
"""The code of a value that is not among a categorical feature's levels."""
TARGET_UNITS = 4096
"""The integer that stands for the top of a numeric target's range."""

_CELLS = 255
_BUCKETS = 254
_LOG_DEPTH = 1_000_000  # how far below its range a log scale that starts at or below zero looks: six decades
_EXACT = 2**53  # below it every integer is a float64
_WIDEST = 8e307  # half the largest range that float64 can subtract, for inferred domains
_BLOCK_ROWS = 16_384
_BLOCK_CODES = 2**18  # a block of codes stays in the processor's cache while its columns are written one by one
_DECIMAL = Context(prec=50)

_Array = npt.NDArray[Any]
_Codes = npt.NDArray[np.uint8]


# ---------------------------------------------------------------------------------------------------------------------
# Features


def _finite(value: Any, name: str) -> float:
    """Return a bound as a float; -0.0 becomes 0.0."""
    if isinstance(value, (bool, np.bool_, str, bytes)):
        raise ValueError(f"{name} = {value!r} is not a number; give a finite number.")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} = {_short(value)} is not a float64 number; give a finite number.") from None
    if not math.isfinite(number):
        raise ValueError(f"{name} = {number} is not finite; give the public bound that you would clamp to.")
    return number + 0.0


def _short(value: object) -> str:
    """Shorten a value for an error message; integers may be too long even to print."""
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True, repr=False)
class Numeric:
    """A numeric feature or target, with its public range.

    Parameters
    ----------
    low, high : float, optional
        The public range, ``low < high``. Numbers outside are clamped to it. Choose it from what is known beforehand,
        never from the data. Needed unless `edges` is given.
    scale : {"linear", "log"}, default="linear"
        How the 255 cells of the range are laid out: of equal width, or geometric. A log scale whose `low` is zero or
        negative has cells of equal width in ``log1p(1e6 * (x - low) / (high - low))``: six decades.
    edges : sequence of float, optional
        Instead of a scale, 1 to 254 strictly increasing inner edges; `low` and `high` are then only remarks.

    Attributes
    ----------
    thresholds : ndarray of float64
        The code of x is the number of thresholds at or below x, exactly: ``thresholds[i]`` is the smallest float64
        whose code is above i. They ascend, and repeat only where the range holds too few floats.
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
            raise ValueError(f"scale = {_short(self.scale)} is unknown; use 'linear' or 'log', or give edges.")
        if self.edges is not None:
            object.__setattr__(self, "edges", self._checked_edges(self.edges))
            if self.scale != "linear":
                raise ValueError("edges and scale = 'log' are both given; edges alone say where the cells are.")
        elif self.low is None or self.high is None:
            raise ValueError("low and high are both needed unless edges are given; write for example Numeric(0, 100).")
        if self.low is None or self.high is None:
            return
        if not self.low < self.high:
            raise ValueError(f"low = {_plain(self.low)} is not below high = {_plain(self.high)}; give low < high.")
        if self.edges is None and self.scale == "linear":
            width = self.high - self.low
            # Not 255 / width: Python raises where C gives infinity.
            if math.isinf(width) or width * sys.float_info.max < 2 * _CELLS:
                raise ValueError(
                    f"the range from low = {_plain(self.low)} to high = {_plain(self.high)} is too "
                    f"{'wide' if math.isinf(width) else 'narrow'} for float64 arithmetic; rescale the feature."
                )

    @staticmethod
    def _checked_edges(edges: Any) -> tuple[float, ...]:
        if isinstance(edges, (str, bytes, Mapping, set, frozenset)) or not isinstance(edges, Iterable):
            raise ValueError(f"edges = {_short(edges)} is not a sequence of numbers; give for example [0, 18, 65].")
        result = tuple(_finite(e, f"edges[{i}]") for i, e in enumerate(edges))
        if not 1 <= len(result) < _CELLS:
            raise ValueError(f"edges has {len(result)} numbers; give 1 to {_CELLS - 1}.")
        for i, (a, b) in enumerate(pairwise(result)):
            if not a < b:
                raise ValueError(f"edges[{i + 1}] = {_plain(b)} is not above edges[{i}] = {_plain(a)}; sort them.")
        return result

    def __repr__(self) -> str:
        parts = [_plain(b) if b is not None else "None" for b in (self.low, self.high)]
        if self.edges is not None:
            parts = [] if self.low is None and self.high is None else parts
            parts.append(f"edges=[{', '.join(map(_plain, self.edges))}]")
        if self.scale != "linear":
            parts.append(f"scale={self.scale!r}")
        return f"Numeric({', '.join(parts)})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("low", "high", "scale", "edges")}  # not what is derived

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return _CELLS if self.edges is None else len(self.edges) + 1

    @cached_property
    def thresholds(self) -> npt.NDArray[np.float64]:
        """The smallest float64 of every cell but the first."""
        if self.edges is not None:
            result = np.array(self.edges, dtype=np.float64)
        elif self.scale == "log":
            result = self._log_thresholds()
        else:
            result = self._linear_thresholds()
        result.flags.writeable = False
        return result

    @property
    def _is_linear(self) -> bool:
        return self.edges is None and self.scale == "linear"

    @property
    def _range(self) -> tuple[float, float]:
        assert self.low is not None
        assert self.high is not None
        return self.low, self.high

    @property
    def _inverse(self) -> float:
        low, high = self._range
        return _CELLS / (high - low)

    @cached_property
    def _search_table(self) -> npt.NDArray[np.float64]:
        """Thresholds as `encode_sorted` wants them."""
        table = np.full(_CELLS, np.nan)
        table[: len(self.thresholds)] = self.thresholds
        return table

    def _linear_thresholds(self) -> npt.NDArray[np.float64]:
        """Find, by bisection over the floats, where the kernel's formula steps up.

        The formula never decreases in x, rounding included, so the floats of a cell are an interval. Its ends depend
        on the rounding and are found by asking the formula, not by solving it.
        """
        low, high = self._range
        inverse = self._inverse
        wanted = np.arange(1, _CELLS, dtype=np.float64)
        below = np.full(_CELLS - 1, _float_to_order(low))
        above = np.full(_CELLS - 1, _float_to_order(high))
        for _ in range(64):  # one for each bit of an order
            middle = (below >> 1) + (above >> 1) + (below & above & 1)  # halves first: the sum may not fit 64 bits
            reached = (_order_to_float(middle) - low) * inverse >= wanted
            above = np.where(reached, middle, above)
            below = np.where(reached, below, middle)
        return _order_to_float(above) + 0.0

    def _log_thresholds(self) -> npt.NDArray[np.float64]:
        """Lay out the cells in decimal arithmetic, so that every machine gets the same bits."""
        c = _DECIMAL
        low, high = (Decimal(b) for b in self._range)
        ratio = c.divide(high, low) if low > 0 else Decimal(_LOG_DEPTH + 1)
        step = c.exp(c.divide(c.ln(ratio), Decimal(_CELLS)))
        powers = [step]
        while len(powers) < _CELLS - 1:
            powers.append(c.multiply(powers[-1], step))
        if low > 0:
            exact = [c.multiply(low, p) for p in powers]
        else:
            unit = c.divide(c.subtract(high, low), Decimal(_LOG_DEPTH))
            exact = [c.add(low, c.multiply(unit, c.subtract(p, Decimal(1)))) for p in powers]
        return np.array([float(e) for e in exact]) + 0.0


def _float_to_order(value: float) -> int:
    """Return the place of a float among all floats: neighbours differ by one."""
    bits = int(np.array(abs(value), dtype=np.float64).view(np.int64))
    return bits if value >= 0 else -bits


def _order_to_float(order: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Invert `_float_to_order`."""
    magnitude = np.abs(order).view(np.float64)
    return np.where(order < 0, -magnitude, magnitude)


def _plain(number: float) -> str:
    """Write a float exactly, and without a fraction where it has none."""
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


@dataclass(frozen=True, init=False, repr=False)
class Categorical:
    """A categorical feature or target, with its public levels.

    Parameters
    ----------
    levels : sequence of hashable
        The levels, in order, without repetitions. ``None`` and NaN are not levels: they mean "missing". Numbers are
        levels by value, as in any Python mapping: 1, 1.0 and True are the same level.

    Attributes
    ----------
    levels : tuple
        The levels; those that came as NumPy scalars are plain Python values.
    n_codes : int
        The number of codes that levels take. Up to 254 levels, level i has code i; of more, level i falls in the
        public bucket ``i % 254``. Unseen levels have code 254 and missing values 255. (As classes of a target, levels
        never share a bucket.)

    Examples
    --------
    >>> Categorical(["F", "M"]).n_codes
    2
    >>> Categorical(range(1000)).n_codes
    254
    """

    levels: tuple[Hashable, ...]

    def __init__(self, levels: Iterable[Hashable]) -> None:
        if isinstance(levels, (str, bytes)) or not isinstance(levels, Iterable):
            raise ValueError(f"levels = {_short(levels)} is not a list of levels; give for example ['F', 'M'].")
        if isinstance(levels, (set, frozenset)):
            raise ValueError("levels is a set, whose order changes from run to run; give a list.")
        result = tuple(_python_value(v) for v in levels)
        if not result:
            raise ValueError("levels is empty; give at least one level.")
        first: dict[Hashable, int] = {}
        for i, level in enumerate(result):
            if _is_missing(level):
                raise ValueError(f"levels[{i}] = {_short(level)} means missing, which always has a code; leave it out.")
            try:
                j = first.setdefault(level, i)
            except TypeError:
                raise TypeError(f"levels[{i}] = {_short(level)} is not hashable; use strings or numbers.") from None
            if j != i:
                same = "" if type(level) is type(result[j]) else f" (it equals {_short(result[j])})"
                raise ValueError(f"levels[{i}] = {_short(level)} repeats levels[{j}]{same}; give each level once.")
        object.__setattr__(self, "levels", result)

    def __repr__(self) -> str:
        shown = [_short(v) for v in self.levels[:10]]
        more = f", ... {len(self.levels)} levels" if len(self.levels) > 10 else ""
        return f"Categorical([{', '.join(shown)}{more}])"

    def __getstate__(self) -> dict[str, Any]:
        return {"levels": self.levels}  # not what is derived

    @property
    def n_codes(self) -> int:
        """The number of codes that levels take."""
        return min(len(self.levels), _BUCKETS)

    @cached_property
    def _places(self) -> dict[Hashable, int]:
        return {level: i for i, level in enumerate(self.levels)}

    @cached_property
    def _numbers(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]] | None:
        """Levels that a number can equal, sorted, with their places; None where float64 could confuse them."""
        pairs = []
        for i, level in enumerate(self.levels):
            if isinstance(level, (bool, int, float)):
                if not (abs(level) < _EXACT or level in (math.inf, -math.inf)):
                    return None
                pairs.append((float(level), i))
            elif not isinstance(level, (str, bytes)):
                return None
        pairs.sort()
        return np.array([p[0] for p in pairs], dtype=np.float64), np.array([p[1] for p in pairs], dtype=np.int64)

    @cached_property
    def _number_cells(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]] | None:
        """Give each numeric level a cell of its own, where the kernel has enough of them, and the cells' places."""
        if self._numbers is None or len(self._numbers[0]) > _CELLS // 2 or not np.isfinite(self._numbers[0]).all():
            return None
        numbers, places = self._numbers
        thresholds = np.full(_CELLS, np.nan)
        thresholds[: 2 * len(numbers) : 2] = numbers
        thresholds[1 : 2 * len(numbers) : 2] = np.nextafter(numbers, np.inf)
        place_of_cell = np.full(256, -1, dtype=np.int64)
        place_of_cell[1 : 2 * len(numbers) : 2] = places
        place_of_cell[MISSING] = -2
        return thresholds, place_of_cell

    def _placer(self, column: _Column) -> Callable[[int, int], npt.NDArray[np.int64]]:
        """Return a function from a block of rows to places among the levels: -1 for none of them, -2 for missing."""
        if column.labels is not None:
            table = np.array([*self._place_values(column.labels), -2], dtype=np.int64)
            return lambda start, stop: table[column.block(start, stop)]  # a missing value is -1: the last entry
        if column.kind == "number" and self._numbers is not None:
            return lambda start, stop: self._place_numbers(_as_floats(column.block(start, stop)))
        return lambda start, stop: self._place_values(column.values(start, stop))

    def _place_numbers(self, values: _Array) -> npt.NDArray[np.int64]:
        if self._number_cells is not None:
            thresholds, place_of_cell = self._number_cells
            cells = np.empty(len(values), dtype=np.uint8)
            encoding.encode_sorted(values, thresholds, cells)
            return place_of_cell[cells]
        assert self._numbers is not None
        numbers, places = self._numbers
        result = np.full(len(values), -1, dtype=np.int64)
        if len(numbers):
            at = np.minimum(np.searchsorted(numbers, values), len(numbers) - 1)
            np.copyto(result, places[at], where=numbers[at] == values)
        result[np.isnan(values)] = -2
        return result

    def _place_values(self, values: Sequence[Any]) -> npt.NDArray[np.int64]:
        find = self._places.get
        try:
            result = np.fromiter(map(find, values, repeat(-1)), dtype=np.int64, count=len(values))
        except Exception:  # unhashable, or with an odd __eq__: whatever the data hold, they are not a level
            result = np.fromiter((_try_find(find, v) for v in values), dtype=np.int64, count=len(values))
        for i in np.flatnonzero(result < 0).tolist():
            if type(values[i]) is not str and _is_missing(values[i]):
                result[i] = -2
        return result


def _try_find(find: Callable[[Any, int], int], value: Any) -> int:
    try:
        return find(value, -1)
    except Exception:
        return -1


def _python_value(value: Any) -> Any:
    """Turn a NumPy scalar into the Python value that it equals."""
    return value.item() if isinstance(value, (np.bool_, np.number, np.str_, np.bytes_)) else value


def _is_missing(value: Any) -> bool:
    """Tell None, NaN, NaT and pandas.NA, without importing pandas."""
    if value is None or type(value).__name__ == "NAType":
        return True
    try:
        return value.is_nan() if isinstance(value, Decimal) else bool(value != value)
    except Exception:
        return False


# ---------------------------------------------------------------------------------------------------------------------
# Tables: every kind of X as columns that are read a block of rows at a time


@dataclass(frozen=True)
class _Column:
    """One column of the data.

    `block` gives rows start to stop as an array: numbers, objects, or places in `labels` (-1 for missing); `values`
    gives them as Python values. `kind` follows from the dtype alone, and so do the errors raised for it.
    """

    kind: Literal["number", "text", "object", "labels"]
    block: Callable[[int, int], _Array]
    values: Callable[[int, int], Sequence[Any]]
    dtype: str
    labels: Sequence[Any] | None = None
    declared: bool = False  # the labels come from the dtype, not from the values
    boolean: bool = False

    def floats(self, start: int, stop: int) -> _Array:
        """Return rows as float32 or float64, NaN where missing."""
        block = self.block(start, stop)
        return _objects_to_floats(block) if self.kind == "object" else _as_floats(block)

    def check_numeric(self, where: str) -> None:
        """Refuse a column whose dtype does not hold numbers."""
        if self.kind not in ("number", "object"):
            raise TypeError(
                f"{where} has dtype {self.dtype}, where numbers are expected; convert it to numbers, or declare it "
                "Categorical in the domain."
            )


@dataclass(frozen=True)
class _Table:
    n_rows: int
    n_columns: int
    column: Callable[[int], _Column]
    names: list[str] | None = None  # None: columns are matched by position
    matrix: _Array | None = None  # all the columns as numbers, where X is such an array


def _is_kernel_ready(array: _Array) -> bool:
    return array.dtype in (np.float32, np.float64) and array.dtype.isnative and array.flags.aligned


def _as_floats(block: _Array) -> _Array:
    """Return float32 and float64 as they are, for the kernels to read in place, and anything else as float64."""
    if _is_kernel_ready(block):
        return block
    with np.errstate(over="ignore"):  # long doubles beyond float64 become infinite, and are clamped
        return block.astype(np.float64, order="C")


def _objects_to_floats(block: _Array) -> npt.NDArray[np.float64]:
    if not any(isinstance(v, (np.ndarray, np.complexfloating)) for v in block):  # NumPy would warn about them
        try:
            return block.astype(np.float64)
        except Exception:  # one value is no number: take them one by one
            pass
    return np.fromiter(map(_object_to_float, block), dtype=np.float64, count=len(block))


def _object_to_float(value: Any) -> float:
    try:
        return math.nan if isinstance(value, (np.ndarray, np.complexfloating)) else float(value)
    except OverflowError:
        try:
            return math.inf if value > 0 else -math.inf
        except Exception:
            return math.nan
    except Exception:
        return math.nan


def _no_times(where: str, dtype: object) -> NoReturn:
    raise TypeError(f"{where} has dtype {dtype}; convert dates and times to numbers first, such as days since a date.")


def _array_column(array: _Array, where: str) -> _Column:
    kind = array.dtype.kind
    if kind in "mM":
        _no_times(where, array.dtype)
    if kind == "c":
        raise ValueError(f"Complex data not supported: {where} has dtype {array.dtype}; give its parts as two columns.")
    kinds: dict[str, Literal["number", "text", "object"]] = {"O": "object", "U": "text", "S": "text", "T": "text"}
    if kind not in "biufOUST":
        raise TypeError(f"{where} has dtype {array.dtype}, which is neither numbers nor text; convert it first.")
    return _Column(
        kinds.get(kind, "number"),
        lambda start, stop: array[start:stop],
        lambda start, stop: array[start:stop].tolist(),
        str(array.dtype),
        boolean=kind == "b",
    )


def _series_column(series: nw.Series[Any], where: str) -> _Column:
    native: Any = series.to_native()
    implementation = series.implementation
    if implementation.is_pandas() and isinstance(native.dtype, np.dtype):
        return _array_column(native.to_numpy(), where)  # asked of pandas: narwhals guesses what objects are from values
    dtype = series.dtype
    if dtype.is_temporal():
        _no_times(where, dtype)

    def values(start: int, stop: int) -> Sequence[Any]:
        return series[start:stop].to_list()

    if dtype in (nw.Categorical, nw.Enum):
        places, labels, declared = _dictionary(series, native)
        if places is not None:
            return _Column("labels", places, values, str(dtype), labels, declared)
    if dtype in (nw.Categorical, nw.Enum, nw.String, nw.Binary):
        return _Column("text", lambda start, stop: _to_objects(values(start, stop)), values, str(dtype))
    nulls = str(getattr(native, "dtype", getattr(native, "type", ""))).lower().startswith("null")
    if dtype.is_numeric() or dtype == nw.Boolean or nulls:
        array = None
        if dtype.is_float() and implementation.is_polars() and native.n_chunks() == 1 and not native.null_count():
            array = native.to_numpy()  # no copy
        if dtype.is_float() and implementation.is_pyarrow() and native.num_chunks == 1 and not native.null_count:
            array = native.chunk(0).to_numpy()  # no copy
        if array is not None:
            return _array_column(array, where)
        target = nw.Float32 if dtype == nw.Float32 else nw.Float64

        def block(start: int, stop: int) -> _Array:
            return series[start:stop].cast(target).to_numpy()

        return _Column("number", block, values, str(dtype), boolean=dtype == nw.Boolean)
    if dtype == nw.Object:
        return _Column("object", lambda start, stop: _to_objects(values(start, stop)), values, str(dtype))
    raise TypeError(f"{where} has dtype {dtype}, which is neither numbers nor text; convert it first.")


def _to_objects(values: Sequence[Any]) -> _Array:
    result = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):  # one by one: NumPy would unpack sequences
        result[i] = value
    return result


def _dictionary(
    series: nw.Series[Any], native: Any
) -> tuple[Callable[[int, int], _Array] | None, Sequence[Any] | None, bool]:
    """Return the places of a dictionary-coded column, its labels, and whether these belong to the dtype."""
    implementation = series.implementation
    if implementation.is_pandas() and hasattr(native, "cat"):
        codes = native.cat.codes.to_numpy()
        return (lambda start, stop: codes[start:stop]), native.cat.categories.tolist(), True
    if implementation.is_polars():
        if series.dtype == nw.Enum:
            labels: list[Any] = native.dtype.categories.to_list()
            numbers = np.arange(len(labels))
        else:  # a Categorical's numbers are shared by the whole process: keep those that occur
            distinct = native.drop_nulls().unique()
            labels, numbers = distinct.to_list(), distinct.to_physical().to_numpy()
        table = np.full(int(numbers.max(initial=0)) + 2, -1)  # its last entry is for nulls
        table[numbers] = np.arange(len(labels))

        def places(start: int, stop: int) -> _Array:
            at: _Array = native[start:stop].to_physical().cast(int).fill_null(-1).to_numpy()
            return table[at]

        return places, labels, series.dtype == nw.Enum
    if implementation.is_pyarrow():
        unified = native.unify_dictionaries()
        labels = unified.chunk(0).dictionary.to_pylist() if unified.num_chunks else []

        def indices(start: int, stop: int) -> _Array:
            chunks = [c.indices.cast("int64").fill_null(-1) for c in unified.slice(start, stop - start).chunks]
            return np.concatenate([np.zeros(0, dtype=np.int64), *(c.to_numpy(zero_copy_only=False) for c in chunks)])

        return indices, labels, False
    return None, None, False


def _read_table(X: Any) -> _Table:
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise TypeError("Sparse data are not supported: X is a sparse matrix; convert it with X.toarray().")
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError:
        raise ValueError("X has two columns of the same name; rename one of them.") from None
    if isinstance(frame, nw.DataFrame):
        return _read_frame(frame)
    if hasattr(X, "collect") and hasattr(X, "lazy"):
        raise TypeError("X is a lazy frame; call its collect() first.")
    array = _to_array(X, "X")
    if array.ndim != 2:
        advice = (
            "Reshape your data either using array.reshape(-1, 1) if your data has a single feature or "
            "array.reshape(1, -1) if it contains a single sample."
        )
        raise ValueError(f"Expected 2D array, got {array.ndim}D array instead: X has shape {array.shape}. {advice}")
    _array_column(array, "X")  # for its checks of the dtype
    matrix = array if array.dtype.kind in "biuf" else None
    return _Table(len(array), array.shape[1], lambda j: _array_column(array[:, j], "X"), matrix=matrix)


def _read_frame(frame: nw.DataFrame[Any]) -> _Table:
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise ValueError(f"X has two columns named {twice!r}; rename one of them.")
    columns = [
        _series_column(frame.get_column(original), f"Column {name!r} of X")
        for name, original in zip(names, frame.columns, strict=True)
    ]
    return _Table(len(frame), len(names), columns.__getitem__, names)


def _to_array(values: Any, where: str) -> _Array:
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{where} is a masked array; fill it first, with NaN for what is missing.")
    try:
        array = np.asarray(values)
        if array.dtype.kind in "US" and isinstance(values, (list, tuple)):
            array = np.asarray(values, dtype=object)  # NumPy has turned the numbers beside text into text
    except ValueError:
        raise ValueError(f"{where} does not have rows of equal length; give a rectangular table.") from None
    return array


def _read_target(y: Any) -> tuple[int, _Column]:
    series = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return len(series), _series_column(series, "y")
    frame = nw.from_native(y, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        table = _read_frame(frame)
        if table.n_columns != 1:
            raise ValueError(f"y should be a 1d array, got a table of {table.n_columns} columns instead.")
        return table.n_rows, table.column(0)
    array = _to_array(y, "y")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {array.shape} instead.")
    return len(array), _array_column(array, "y")


def _spans(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    for a in range(start, stop, size):
        yield a, min(a + size, stop)


# ---------------------------------------------------------------------------------------------------------------------
# The domain


@dataclass(frozen=True, eq=False, repr=False)
class Domain:
    """The public facts about a data set: its features and its target.

    Parameters
    ----------
    features : mapping of str to Numeric or Categorical
        The features, in order. Columns of data frames are matched by name, columns of arrays by position.
    target : Numeric or Categorical
        The classes, or the range of a numeric target (which must be linear: transform the target instead).

    Attributes
    ----------
    names : tuple of str
        The names of the features.
    n_features : int
        Their number.
    is_categorical : ndarray of bool
        Which features are categorical.
    n_codes : ndarray of int
        How many codes each feature's cells or levels take, "other" and "missing" not counted.

    Examples
    --------
    >>> domain = Domain(
    ...     {"age": Numeric(0, 255), "sex": Categorical(["F", "M"])},
    ...     target=Categorical(["no", "yes"]),
    ... )
    >>> domain.encode([[36.5, "M"], [None, "?"], [300, "F"]])
    array([[ 36,   1],
           [255, 254],
           [254,   0]], dtype=uint8)
    >>> domain.encode_target(["yes", "no", None])
    array([ 1,  0, -1], dtype=int32)
    >>> Domain.from_toml(domain.to_toml()) == domain
    True
    """

    features: Mapping[str, Numeric | Categorical]
    target: Numeric | Categorical

    def __post_init__(self) -> None:
        if not isinstance(self.features, Mapping):
            raise TypeError("features is not a mapping; give a dict of names to Numeric(...) or Categorical(...).")
        features = dict(self.features)
        if not features:
            raise ValueError("features is empty; a domain has at least one feature.")
        for name, feature in features.items():
            if not isinstance(name, str):
                raise TypeError(f"The feature name {_short(name)} is not a string; name the features with strings.")
            if not isinstance(feature, (Numeric, Categorical)):
                raise TypeError(f"Feature {name!r} is {_short(feature)}; give Numeric(...) or Categorical(...).")
        if not isinstance(self.target, (Numeric, Categorical)):
            raise TypeError(f"target is {_short(self.target)}; give Numeric(low, high) or Categorical(classes).")
        if isinstance(self.target, Numeric) and not self.target._is_linear:
            raise ValueError(
                "target has edges or a log scale; give Numeric(low, high) and transform the target itself."
            )
        object.__setattr__(self, "features", MappingProxyType(features))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        # The order of the features is part of a domain: codes are columns.
        return self.target == other.target and tuple(self.features.items()) == tuple(other.features.items())

    def __hash__(self) -> int:
        return hash((tuple(self.features.items()), self.target))

    def __reduce__(self) -> tuple[Any, ...]:
        return Domain, (dict(self.features), self.target)

    def __repr__(self) -> str:
        shown = [f"{name!r}: {feature!r}" for name, feature in list(self.features.items())[:10]]
        more = f", ... {self.n_features} features" if self.n_features > 10 else ""
        return f"Domain({{{', '.join(shown)}{more}}}, target={self.target!r})"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(self.features)

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.features)

    @cached_property
    def is_categorical(self) -> npt.NDArray[np.bool_]:
        """Which features are categorical."""
        return _frozen(np.array([isinstance(f, Categorical) for f in self.features.values()], dtype=np.bool_))

    @cached_property
    def n_codes(self) -> npt.NDArray[np.int64]:
        """How many codes each feature's cells or levels take."""
        counts = [f.n_codes if isinstance(f, Categorical) else f.n_cells for f in self.features.values()]
        return _frozen(np.array(counts, dtype=np.int64))

    @cached_property
    def _linear(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], list[int]]:
        """The low ends and inverse widths of all features (0 where not linear), and which are not linear."""
        low, inverse = np.zeros(self.n_features), np.zeros(self.n_features)
        others = []
        for j, feature in enumerate(self.features.values()):
            if isinstance(feature, Numeric) and feature._is_linear:
                low[j], inverse[j] = feature._range[0], feature._inverse
            else:
                others.append(j)
        return low, inverse, others

    # -- encoding -----------------------------------------------------------------------------------------------------

    def encode(self, X: Any, *, n_threads: int = 1) -> _Codes:
        """Turn records into codes.

        Parameters
        ----------
        X : array, list of lists, or pandas, polars or pyarrow table of shape (n, n_features)
            The records. No more of it than a block of rows is ever copied.
        n_threads : int, default=1
            How many threads share the rows.

        Returns
        -------
        codes : ndarray of uint8, shape (n, n_features), C-ordered
            Cells and levels as numbered by `Numeric.thresholds` and `Categorical.levels`; 254 for a level that is
            not in the list, 255 for a missing value.
        """
        table = self._match(_read_table(X))
        matrix, others = table.matrix, self._linear[2]
        if matrix is not None and len(others) == self.n_features:
            matrix = None
        if matrix is not None and _is_kernel_ready(matrix) and not matrix.flags.c_contiguous:
            matrix = None  # read in place, column by column
        features = list(self.features.items())
        encoders = {
            j: _encoder(features[j][1], table.column(j), f"Feature {features[j][0]!r}")
            for j in (range(self.n_features) if matrix is None else others)
        }
        out = np.empty((table.n_rows, self.n_features), dtype=np.uint8)
        if n_threads <= 1 or out.size < _BLOCK_CODES:
            self._encode_rows(matrix, encoders, out, 0, len(out))
        else:
            spans = list(_spans(0, len(out), -(-len(out) // n_threads)))
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(lambda span: self._encode_rows(matrix, encoders, out, *span), spans))
        return out

    def _encode_rows(
        self, matrix: _Array | None, encoders: Mapping[int, _Encoder], out: _Codes, start: int, stop: int
    ) -> None:
        low, inverse, _ = self._linear
        size = min(_BLOCK_ROWS, max(256, _BLOCK_CODES // self.n_features))
        for a, b in _spans(start, stop, size):
            if matrix is not None:  # every column as if it were linear; the encoders write over those that are not
                encoding.encode_rows(_as_floats(matrix[a:b]), low, inverse, out[a:b])
            for j, encode in encoders.items():
                encode(a, b, out[a:b, j])

    def encode_target(self, y: Any) -> npt.NDArray[np.int32]:
        """Turn targets into integers.

        Parameters
        ----------
        y : array, list, or pandas, polars or pyarrow column of shape (n,)
            The targets.

        Returns
        -------
        codes : ndarray of int32, shape (n,)
            For a categorical target the place of the class, -1 where it is missing or not in the list. For a numeric
            target ``round(4096 * (y - low) / (high - low))``, halves to even, clamped to 0 and 4096; -1 for NaN.
        """
        n, column = _read_target(y)
        out = np.empty(n, dtype=np.int32)
        if isinstance(self.target, Categorical):
            places = self.target._placer(column)
            for a, b in _spans(0, n, _BLOCK_ROWS):
                out[a:b] = np.maximum(places(a, b), -1)
            return out
        column.check_numeric("y")
        low, high = self.target._range
        for a, b in _spans(0, n, _BLOCK_ROWS):
            values = column.floats(a, b).astype(np.float64)
            with np.errstate(over="ignore"):  # what overflows is clamped
                units = np.rint((values - low) / (high - low) * TARGET_UNITS)
            out[a:b] = np.where(np.isnan(units), -1, np.clip(units, 0, TARGET_UNITS))
        return out

    def _match(self, table: _Table) -> _Table:
        """Put the columns in the domain's order."""
        if table.names is None:
            if table.n_columns != self.n_features:
                raise ValueError(
                    f"X has {table.n_columns} features, but the domain has {self.n_features} features as input; "
                    "give the columns of the domain, in its order."
                )
            return table
        given = {name: j for j, name in enumerate(table.names)}
        missing = [n for n in self.names if n not in given]
        extra = [n for n in given if n not in self.features]
        if missing or extra:
            parts = [f"lacks {_listed(missing)}"] if missing else []
            parts += [f"has {_listed(extra)}, which the domain does not have"] if extra else []
            raise ValueError(f"X {' and '.join(parts)}; give exactly the columns of the domain, in any order.")
        return replace(table, column=lambda j: table.column(given[self.names[j]]), names=list(self.names))

    # -- reading a domain from data -----------------------------------------------------------------------------------

    @classmethod
    def infer(cls, X: Any, y: Any, task: Literal["classification", "regression"]) -> Domain:
        """Read a domain from the data. It tells about them: **not private**.

        Parameters
        ----------
        X : array, list of lists, or pandas, polars or pyarrow table
            The records. Numbers become `Numeric` over the finite values' range; text, Booleans and dictionaries become
            `Categorical`, with the levels of the dtype where it has them (pandas ``category``, polars ``Enum``).
        y : array, list or column
            The targets; none may be missing or infinite.
        task : {"classification", "regression"}
            What the target is.

        Returns
        -------
        domain : Domain
            Features of arrays are named x0, x1, and so on.
        """
        if task not in ("classification", "regression"):
            raise ValueError(f"task = {_short(task)} is unknown; use 'classification' or 'regression'.")
        table = _read_table(X)
        shape = (table.n_rows, table.n_columns)
        for count, what in zip(shape, ("sample", "feature"), strict=True):
            if not count:
                raise ValueError(f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required.")
        n, target = _read_target(y)
        if n != table.n_rows:
            raise ValueError(f"Found input variables with inconsistent numbers of samples: [{table.n_rows}, {n}].")
        names = table.names or [f"x{j}" for j in range(table.n_columns)]
        features = {name: _infer_feature(table.column(j), n) for j, name in enumerate(names)}
        return cls(features, _infer_classes(target, n) if task == "classification" else _infer_range(target, n))

    # -- files --------------------------------------------------------------------------------------------------------

    def to_toml(self) -> str:
        """Write the domain as TOML, pleasant to edit by hand.

        Returns
        -------
        text : str
            One table for each feature, in order, and one for the target. `from_toml` reads it back exactly.

        Examples
        --------
        >>> print(Domain({"age": Numeric(17, 90)}, Categorical(["no", "yes"])).to_toml())
        [features.age]
        kind = "numeric"
        low = 17
        high = 90
        <BLANKLINE>
        [target]
        kind = "categorical"
        levels = ["no", "yes"]
        <BLANKLINE>
        """
        tables = [(f"features.{_toml_key(n)}", _to_plain(f, f"features.{n}")) for n, f in self.features.items()]
        tables.append(("target", _to_plain(self.target, "target")))
        texts = []
        for header, content in tables:
            lines = [f"{key} = {_toml_value(value)}" for key, value in content.items()]
            texts.append("\n".join([f"[{header}]", *lines]) + "\n")
        return "\n".join(texts)

    @classmethod
    def from_toml(cls, text: str) -> Domain:
        """Read what `to_toml` writes.

        Parameters
        ----------
        text : str
            The content of the file. Whatever is wrong with it is a `ValueError` that names the place.

        Returns
        -------
        domain : Domain
            The domain.
        """
        if not isinstance(text, str):
            raise TypeError(f"text is {_short(text)}; give the content of a TOML file as a string.")
        try:
            content = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"This is not valid TOML: {error}") from None
        return cls._from_plain(content)

    def to_json(self) -> str:
        """Write the domain as JSON.

        Returns
        -------
        text : str
            The same content as `to_toml`. `from_json` reads it back exactly.
        """
        content = {
            "features": {_text(n, "A feature name"): _to_plain(f, f"features.{n}") for n, f in self.features.items()},
            "target": _to_plain(self.target, "target"),
        }
        return json.dumps(content, ensure_ascii=False, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Domain:
        """Read what `to_json` writes.

        Parameters
        ----------
        text : str
            The content of the file. Whatever is wrong with it is a `ValueError` that names the place.

        Returns
        -------
        domain : Domain
            The domain.
        """
        if not isinstance(text, str):
            raise TypeError(f"text is {_short(text)}; give the content of a JSON file as a string.")
        try:
            content = json.loads(text, object_pairs_hook=_without_repetition)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"This is not valid JSON: {error}") from None
        return cls._from_plain(content)

    @classmethod
    def _from_plain(cls, content: Any) -> Domain:
        _check_keys(content, "the file", {"features", "target"}, {"features", "target"})
        if not isinstance(content["features"], dict) or not content["features"]:
            raise ValueError("features is not a table of at least one feature; write for example [features.age].")
        features = {name: _from_plain(f, f"features.{_short(name)[1:-1]}") for name, f in content["features"].items()}
        target = _from_plain(content["target"], "target")
        try:
            return cls(features, target)
        except ValueError as error:
            raise ValueError(f"target: {error}") from None


_Encoder = Callable[[int, int, _Codes], None]
"""Writes the codes of rows start to stop of one column."""


def _encoder(feature: Numeric | Categorical, column: _Column, where: str) -> _Encoder:
    if isinstance(feature, Categorical):
        find = feature._placer(column)

        def encode_levels(start: int, stop: int, out: _Codes) -> None:
            places = find(start, stop)
            codes = places % _BUCKETS
            codes[places == -1] = OTHER
            codes[places == -2] = MISSING
            out[:] = codes

        return encode_levels
    column.check_numeric(where)
    if feature._is_linear:
        low, inverse = feature._range[0], feature._inverse
        return lambda start, stop, out: encoding.encode_linear(column.floats(start, stop), low, inverse, out)
    thresholds = feature._search_table
    return lambda start, stop, out: encoding.encode_sorted(column.floats(start, stop), thresholds, out)


def _frozen(array: _Array) -> _Array:
    array.flags.writeable = False
    return array


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(n) for n in names[:10])
    return f"{'column' if len(names) == 1 else 'columns'} {shown}{f' and {len(names) - 10} more' * (len(names) > 10)}"


# ---------------------------------------------------------------------------------------------------------------------
# Inference


def _infer_feature(column: _Column, n: int) -> Numeric | Categorical:
    if column.boolean:
        return Categorical([False, True])
    if column.declared and column.labels is not None:
        return Categorical(list(column.labels) or [""])
    if column.kind == "number" or (column.kind == "object" and _holds_numbers(column, n)):
        low, high = math.inf, -math.inf
        for a, b in _spans(0, n, _BLOCK_ROWS):
            values = column.floats(a, b)
            if not math.isfinite(values.max()) or not math.isfinite(values.min()):
                values = values[np.isfinite(values)]
            low = min(low, float(values.min(initial=math.inf)))
            high = max(high, float(values.max(initial=-math.inf)))
        return Numeric(*_valid_range(low, high))
    return Categorical(_distinct(column, n) or [""])


def _holds_numbers(column: _Column, n: int) -> bool:
    """Tell whether a column of objects has nothing but numbers and missing values."""
    numbers = (int, float, np.integer, np.floating, Decimal)
    for a, b in _spans(0, n, _BLOCK_ROWS):
        for v in column.values(a, b):
            if isinstance(v, bool) or not (isinstance(v, numbers) or _is_missing(v)):
                return False
    return True


def _valid_range(low: float, high: float) -> tuple[float, float]:
    """Make a range that `Numeric` accepts out of an observed one: not empty, not a point, not wider than float64."""
    if low > high:
        return 0.0, 1.0
    low, high = (min(max(bound, -_WIDEST), _WIDEST) for bound in (low, high))
    if high - low < 1e-300:
        half = max(1.0, abs(low)) / 2
        low, high = max(low - half, -_WIDEST), min(high + half, _WIDEST)
    return low, high


def _distinct(column: _Column, n: int) -> list[Any]:
    """Return the hashable values that occur, sorted where they can be, else in order of appearance."""
    seen: dict[Any, None] = {}
    for a, b in _spans(0, n, _BLOCK_ROWS):
        values = column.values(a, b)
        if column.kind == "number" and isinstance(values, list):
            values = list(dict.fromkeys(values))  # hashable all of them
        for value in values:
            if not _is_missing(value):
                try:
                    seen.setdefault(_python_value(value))
                except Exception:  # unhashable: it will be "other"
                    continue
    try:
        return sorted(seen)
    except Exception:
        return list(seen)


def _infer_classes(column: _Column, n: int) -> Categorical:
    for a, b in _spans(0, n, _BLOCK_ROWS):
        if column.kind == "number":
            _check_finite(column.floats(a, b))
            continue
        values = [v for v in column.values(a, b) if type(v) is not str]
        if any(map(_is_missing, values)):
            raise ValueError("Input y contains NaN or another missing value; leave those rows out.")
        _check_finite(np.array([v for v in values if isinstance(v, (float, np.floating))], dtype=np.float64))
    if column.declared and column.labels:
        return Categorical(column.labels)
    classes = _distinct(column, n)
    if not classes:
        raise ValueError("Input y contains no hashable value; give class labels that are strings or numbers.")
    return Categorical(classes)


def _check_finite(values: _Array) -> None:
    if np.isnan(values).any():
        raise ValueError("Input y contains NaN, or values that are not numbers; leave those rows out.")
    if np.isinf(values).any():
        raise ValueError("Input y contains infinity or a value too large for float64; leave those rows out.")


def _infer_range(column: _Column, n: int) -> Numeric:
    column.check_numeric("y")
    low, high = math.inf, -math.inf
    for a, b in _spans(0, n, _BLOCK_ROWS):
        values = column.floats(a, b)
        _check_finite(values)
        low, high = min(low, float(values.min())), max(high, float(values.max()))
    return Numeric(*_valid_range(low, high))


# ---------------------------------------------------------------------------------------------------------------------
# Plain data, TOML and JSON


def _to_plain(feature: Numeric | Categorical, where: str) -> dict[str, Any]:
    if isinstance(feature, Categorical):
        for i, level in enumerate(feature.levels):
            if type(level) not in (str, int, float, bool):
                raise TypeError(
                    f"{where}.levels[{i}] = {_short(level)} is a {type(level).__name__}; only strings, integers, "
                    "floats and Booleans can be written to a file."
                )
            if isinstance(level, str):
                _text(level, f"{where}.levels[{i}]")
        return {"kind": "categorical", "levels": list(feature.levels)}
    content: dict[str, Any] = {"kind": "numeric"}
    for name in ("low", "high"):
        if getattr(feature, name) is not None:
            content[name] = _number(getattr(feature, name))
    if feature.edges is not None:
        content["edges"] = [_number(e) for e in feature.edges]
    if feature.scale != "linear":
        content["scale"] = feature.scale
    return content


def _number(value: float) -> int | float:
    """Return whole numbers as integers, which are what people write."""
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


def _text(value: str, where: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise TypeError(f"{where} = {value!a} is not valid Unicode and cannot be written to a file.") from None
    return value


def _toml_key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _toml_value(_text(name, "A feature name"))


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        parts = [_toml_value(v) for v in value]
        line = f"[{', '.join(parts)}]"
        return line if len(line) <= 100 else "[\n" + "".join(f"    {p},\n" for p in parts) + "]"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for DEL, which TOML wants escaped too.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {_short(key)} occurs twice in one object.")
        result[key] = value
    return result


def _check_keys(content: Any, where: str, allowed: set[str], needed: set[str]) -> None:
    if not isinstance(content, dict):
        raise ValueError(f"{where} is {_short(content)}; it should be a table with {', '.join(sorted(needed))}.")
    for key in content:
        if key not in allowed:
            raise ValueError(f"{where} has the unknown key {_short(key)}; use {', '.join(sorted(allowed))}.")
    for key in sorted(needed):
        if key not in content:
            raise ValueError(f"{where} lacks {key}; it should have {', '.join(sorted(needed))}.")


def _from_plain(content: Any, where: str) -> Numeric | Categorical:
    kind = content.get("kind") if isinstance(content, dict) else None
    if kind == "categorical":
        _check_keys(content, where, {"kind", "levels"}, {"kind", "levels"})
        levels = content["levels"]
        if not isinstance(levels, list):
            raise ValueError(f"{where}.levels is {_short(levels)}; it should be a list.")
        for i, level in enumerate(levels):
            if type(level) not in (str, int, float, bool):
                raise ValueError(f"{where}.levels[{i}] is {_short(level)}; use strings, numbers, true or false.")
    elif kind == "numeric":
        _check_keys(content, where, {"kind", "low", "high", "scale", "edges"}, {"kind"})
    else:
        _check_keys(content, where, {"kind", "low", "high", "scale", "edges", "levels"}, {"kind"})
        raise ValueError(f"{where}.kind is {_short(kind)}; use 'numeric' or 'categorical'.")
    arguments = {key: value for key, value in content.items() if key != "kind"}
    try:
        return Categorical(**arguments) if kind == "categorical" else Numeric(**arguments)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from None
