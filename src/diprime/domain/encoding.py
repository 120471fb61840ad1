"""Encoding of rows and targets as codes, and of target codes as the integer vectors that histograms add up."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Threads
from diprime.domain.columns import BLOCK_ROWS, Array, Column, ColumnTable, as_floats, is_kernel_ready, row_blocks
from diprime.domain.features import (
    BUCKETS,
    CELLS,
    MAX_LISTED,
    MISSING,
    N_CODES,
    OTHER,
    TARGET_UNITS,
    Categorical,
    Date,
    DatePart,
    Feature,
    Integer,
    Numeric,
    bounds,
    coded_features,
    linear_formula,
)
from diprime.domain.records import person_weight
from diprime.domain.values import MISSING_DATE, Markers, canonical_value, is_marker, moment_of_text, spelled_value
from diprime.kernels import encoding

UNLISTED = -1
"""Position of a value that is not a listed category."""
ABSENT = -2
"""Position of a missing value."""

EXACT = 2**53
"""Integers of smaller magnitude are float64 numbers, and no other integer rounds to one of them."""

_Positions = npt.NDArray[np.int64]

_PLAIN_TYPES = {str, float, int, bool, type(None)}
"""Values of these types that are equal in Python have the same canonical form."""
_TEXT_OF_KINDS = {"text": "text", "number": "numbers", "bytes": "bytes"}

_DIGEST_BYTES = 8

BLOCK_CODES = 2**18
"""Size of a block in codes, which stays in the processor's cache while its columns are written one by one."""
MIN_BLOCK_ROWS = 256
"""Minimum number of rows of a block, however many features there are."""

Codes = npt.NDArray[np.uint8]
"""Codes of records."""
_Encoder = Callable[[int, int, Codes], None]
"""Writes the codes of rows ``start`` to ``stop``: of one encoded feature, of one column, or of all columns."""

Task = Literal["classification", "regression"]
"""Task of a model: to predict one of a list of classes, or a number."""
Bins = npt.NDArray[np.uint64]

MAX_CLASSES = 1000  # the error bound of kernels/split_costs.py holds up to here
MAX_ROWS_BITS = 31
NUMBER_ROWS_BITS = 26  # for a numeric target; the rest of a bin contains the sum of values


class CategoryIndex:
    """Index that finds the positions of values among categories.

    Text that is not a category is compared as the number or date that it represents. A number that is not a category is
    compared with the numbers that categories represent. Therefore, the codes do not change if a library has read a
    column as text, or as numbers, because of another record. Lookup tables contain nothing about a data set,
    because fitted models contain them.
    """

    def __init__(self, categories: Sequence[Hashable], missing: Markers = frozenset()) -> None:
        self._categories = categories
        self._missing = missing

    def finder(self, column: Column, where: str) -> Callable[[int, int], _Positions]:
        """Return a function that maps rows ``start`` to ``stop`` of a column to positions, `UNLISTED` or `ABSENT`."""
        self._check_dtype(column, where)
        if column.kind == "number":
            return lambda start, stop: self._find_numbers(as_floats(column.block(start, stop)))
        return position_finder(column, self.position)

    def _check_dtype(self, column: Column, where: str) -> None:
        """Raise an error if no category can have the dtype, because every value would silently be `UNLISTED`."""
        held = column.holds
        if held == "date" and not any(
            isinstance(n, str) and moment_of_text(n) != MISSING_DATE for n in self._positions
        ):
            raise TypeError(
                f"{where} has dtype {column.dtype}, but the domain declares categories. Declare it Date instead."
            )
        kinds = list(dict.fromkeys(map(_kind_of_category, self._categories)))
        if held in _TEXT_OF_KINDS and held not in kinds:
            categories = " and ".join(_TEXT_OF_KINDS.get(kind, "Python objects") for kind in kinds)
            empty = " A column without any value needs a dtype of text or objects." if held == "number" else ""
            raise TypeError(
                f"{where} has dtype {column.dtype}, but its categories in the domain are {categories}. List the "
                f"categories as {_TEXT_OF_KINDS[held]}, or convert the column.{empty}"
            )

    def position(self, value: Any) -> int:
        """Return the position of a value, `UNLISTED` or `ABSENT`. Methods of the value may raise any exception."""
        canonical = value if type(value) is str else canonical_value(value)
        if canonical is None:
            return ABSENT
        found = self._positions.get(canonical, UNLISTED)
        if found == UNLISTED and isinstance(canonical, str):
            meaning = meaning_of(canonical) if self._has_spellings else canonical.strip()
            found = self._positions.get(meaning, UNLISTED)
        return ABSENT if found == UNLISTED and is_marker(canonical, self._missing) else found

    @cached_property
    def _positions(self) -> dict[Hashable, int]:
        positions: dict[Any, int] = {canonical_value(category): i for i, category in enumerate(self._categories)}
        for text in [category for category in positions if isinstance(category, str)]:
            positions.setdefault(meaning_of(text), positions[text])
        return positions

    @cached_property
    def _has_spellings(self) -> bool:
        """Whether any category is or represents a number or date. Otherwise, text need not be converted."""
        return any(not isinstance(category, str) or spelled_value(category) is not None for category in self._positions)

    @cached_property
    def _numbers(self) -> tuple[npt.NDArray[np.float64], _Positions]:
        """Sorted numbers among the categories, including those written as text, and their positions."""
        pairs = sorted((float(n), i) for n, i in self._positions.items() if isinstance(n, (int, float)))
        return np.array([p[0] for p in pairs], dtype=np.float64), np.array([p[1] for p in pairs], dtype=np.int64)

    @cached_property
    def _cells(self) -> tuple[npt.NDArray[np.float64], _Positions] | None:
        """Thresholds that give each numeric category its own bin, and the position of each bin, or None."""
        numbers, positions = self._numbers
        if 2 * len(numbers) > CELLS or not np.isfinite(numbers).all():  # the kernel cannot separate them
            return None
        thresholds = np.full(CELLS, np.nan)
        thresholds[: 2 * len(numbers) : 2] = numbers
        with np.errstate(over="ignore"):  # infinity follows the largest float
            thresholds[1 : 2 * len(numbers) : 2] = np.nextafter(numbers, np.inf)
        position_of_cell = np.full(N_CODES, UNLISTED, dtype=np.int64)
        position_of_cell[1 : 2 * len(numbers) : 2] = positions
        position_of_cell[MISSING] = ABSENT
        return thresholds, position_of_cell

    def _find_numbers(self, values: Array) -> _Positions:
        if self._cells is not None:
            thresholds, position_of_cell = self._cells
            cells = np.empty(len(values), dtype=np.uint8)
            encoding.encode_sorted(values, thresholds, cells)
            return position_of_cell[cells]
        numbers, positions = self._numbers  # not empty, as otherwise _cells would be set
        at = np.minimum(np.searchsorted(numbers, values), len(numbers) - 1)
        result = np.where(numbers[at] == values, positions[at], UNLISTED)
        result[np.isnan(values)] = ABSENT
        return result


def position_finder(column: Column, position: Callable[[Any], int]) -> Callable[[int, int], _Positions]:
    """Return a function that maps rows to positions, given a function of single values that may raise any exception."""
    if column.labels is not None:
        table = np.append(_find_values(column.labels, position), ABSENT)
        return lambda start, stop: table[column.block(start, stop)]  # -1, for missing, selects the last entry
    if column.kind != "date":
        return lambda start, stop: _find_values(column.values(start, stop), position)
    read = column.moment_reader()

    def find_dates(start: int, stop: int) -> _Positions:
        moments, inverse = np.unique(read(start, stop), return_inverse=True)
        return _find_values(moments.view("M8[us]"), position)[inverse]

    return find_dates


def _find_values(values: Sequence[Any] | Array, position: Callable[[Any], int]) -> _Positions:
    def find(value: Any) -> int:
        try:
            return position(value)
        except Exception:  # noqa: BLE001 -- methods of a private value may raise anything
            return UNLISTED

    if not set(map(type, values)) <= _PLAIN_TYPES:
        return np.fromiter(map(find, values), dtype=np.int64, count=len(values))
    found = {value: find(value) for value in dict.fromkeys(values)}  # each value is looked up once
    return np.fromiter(map(found.__getitem__, values), dtype=np.int64, count=len(values))


def _kind_of_category(category: Hashable) -> str:
    kinds = {str: "text", int: "number", float: "number", bytes: "bytes"}
    return kinds.get(type(canonical_value(category)), "object")


def plain_value(value: Any) -> str | int | float | None:
    """Return the canonical form of a number, a date or Unicode text, or None for other values."""
    canonical = canonical_value(value)
    if isinstance(canonical, str):
        return canonical if _is_unicode(canonical) else None
    return canonical if isinstance(canonical, (int, float)) else None


def meaning_of(value: str | float) -> str | float:
    """Return the number or date that a plain value represents, or otherwise the value without outer spaces."""
    if not isinstance(value, str):
        return value
    spelled = spelled_value(value)
    return value.strip() if spelled is None else spelled


def bucket_of(value: str | float, n_buckets: int) -> int:
    """Return the bucket of a plain value. Text that represents a number or date has the same bucket as the latter."""
    digest = hashlib.blake2b(str(meaning_of(value)).encode(), digest_size=_DIGEST_BYTES).digest()
    return int.from_bytes(digest, "little") % n_buckets


class HashIndex:
    """Index that finds the buckets of values, as `CategoryIndex` finds positions."""

    def __init__(self, n_buckets: int, missing: Markers = frozenset()) -> None:
        self._n_buckets = n_buckets
        self._missing = missing

    def finder(self, column: Column, where: str) -> Callable[[int, int], npt.NDArray[np.int64]]:
        """Return a function that maps rows ``start`` to ``stop`` to buckets, `ABSENT` or `UNLISTED`."""
        if column.kind_of_values == "bytes":
            raise TypeError(f"{where} has dtype {column.dtype}; convert bytes to text.")
        return position_finder(column, self.position)

    def position(self, value: Any) -> int:
        """Return the bucket of a value, `UNLISTED` or `ABSENT`. Methods of the value may raise any exception."""
        plain = plain_value(value)
        if plain is None:
            return ABSENT if canonical_value(value) is None else UNLISTED
        return ABSENT if is_marker(plain, self._missing) else bucket_of(plain, self._n_buckets)


def _is_unicode(text: str) -> bool:
    try:
        str.encode(text, "utf-8")
    except UnicodeEncodeError:
        return False
    return True


class Rows(Protocol):
    """Encoded rows, which are read in blocks, for example a :class:`RowReader`."""

    n_rows: int
    n_features: int
    numbers: npt.NDArray[Any] | None  # the original values, if all features are numbers and the kernels can read them

    def thresholds(self) -> Sequence[npt.NDArray[np.float64]]:
        """Return the thresholds of every feature, if there are ``numbers``."""

    def read(self, start: int, stop: int, out: npt.NDArray[np.uint8]) -> None:
        """Write the codes of rows ``start`` to ``stop``."""


@dataclass(eq=False)
class RowReader:
    """Rows of one table, as codes of a domain."""

    n_rows: int
    n_features: int
    numbers: npt.NDArray[Any] | None  # the original values, if the kernels can read them and compare thresholds
    _features: Sequence[Feature]
    _encode_rows: _Encoder | None  # writes all codes at once
    _column_encoders: Sequence[tuple[int | slice, _Encoder]]  # then write the codes of the other columns

    def thresholds(self) -> list[npt.NDArray[np.float64]]:
        """Return the thresholds of every feature. All features must be numeric."""
        return [feature.thresholds for feature in self._features if isinstance(feature, (Numeric, Integer))]

    def read(self, start: int, stop: int, out: Codes) -> None:
        """Write the codes of rows ``start`` to ``stop`` to the C-ordered array ``out``."""
        size = min(BLOCK_ROWS, max(MIN_BLOCK_ROWS, BLOCK_CODES // self.n_features))
        for a, b in row_blocks(start, stop, size):
            codes = out[a - start : b - start]
            if self._encode_rows is not None:
                self._encode_rows(a, b, codes)
            for place, encode in self._column_encoders:
                encode(a, b, codes[:, place])


class RowEncoding:
    """Encoding of rows: everything that follows from the features alone, computed once for all tables."""

    def __init__(self, features: Mapping[str, Feature], missing: Markers) -> None:
        self._names = list(features)
        self._features = list(features.values())
        self._n_coded = len(coded_features(features))
        self._all_numbers = all(isinstance(feature, (Numeric, Integer)) for feature in self._features)
        self._places = list(_places(features))
        self._low, self._cells_per_unit = np.zeros(len(features)), np.zeros(len(features))
        self._nonlinear: list[int] = []  # their low and cells_per_unit stay 0
        for j, feature in enumerate(self._features):
            formula = linear_formula(feature)
            if formula is None:
                self._nonlinear.append(j)
            else:
                self._low[j], self._cells_per_unit[j] = formula
        self._indices = {
            j: category_index(f, missing) for j, f in enumerate(self._features) if isinstance(f, Categorical)
        }

    def reader(self, table: ColumnTable) -> RowReader:
        """Match the columns of a table to the features, and return a reader of its rows."""
        column = match_columns(self._names, table)
        encode_rows = self._matrix_encoder(table.matrix)
        by_column = range(len(self._features)) if encode_rows is None else self._nonlinear
        column_encoders = [(self._places[j], self._column_encoder(j, column(j))) for j in by_column]
        is_ready = table.matrix is not None and is_kernel_ready(table.matrix) and table.matrix.flags.c_contiguous
        numbers = table.matrix if is_ready and self._all_numbers else None
        return RowReader(table.n_rows, self._n_coded, numbers, self._features, encode_rows, column_encoders)

    def _matrix_encoder(self, matrix: Array | None) -> _Encoder | None:
        """Return an encoder of all columns of a matrix, or None if it is better encoded column by column."""
        if matrix is None or len(self._nonlinear) == len(self._features):
            return None
        if is_kernel_ready(matrix) and not matrix.flags.c_contiguous:
            return None  # its columns can be read in place, its rows cannot
        return lambda start, stop, out: encoding.encode_rows(
            as_floats(matrix[start:stop]), self._low, self._cells_per_unit, out
        )

    def _column_encoder(self, j: int, column: Column) -> _Encoder:
        feature = self._features[j]
        where = f"Feature {self._names[j]!r}"
        if isinstance(feature, Categorical):
            return _category_encoder(self._indices[j], column, where)
        if isinstance(feature, Date):
            return _date_encoder(list(feature.encoded_features("").values()), column, where)
        column.check_numeric(where)
        formula = linear_formula(feature)
        if formula is not None:
            low, cells_per_unit = formula
            return lambda start, stop, out: encoding.encode_linear(column.floats(start, stop), low, cells_per_unit, out)
        thresholds = np.full(CELLS, np.nan)  # the kernel takes this many and ignores NaN
        thresholds[: len(feature.thresholds)] = feature.thresholds
        return lambda start, stop, out: encoding.encode_sorted(column.floats(start, stop), thresholds, out)


def match_columns(names: Sequence[str], table: ColumnTable) -> Callable[[int], Column]:
    """Match the columns of a table to features, and return a function from a feature's index to its column."""
    if table.names is None:
        if table.n_columns != len(names):
            raise ValueError(
                f"X has {table.n_columns} features, but the domain has {len(names)} features as input. Pass the "
                "columns of the domain, in its order."
            )
        return table.column
    given = {name: j for j, name in enumerate(table.names)}
    known = set(names)
    missing = [n for n in names if n not in given]
    extra = [n for n in given if n not in known]
    if missing or extra:
        parts = [f"lacks {_list_columns(missing)}"] if missing else []
        if extra:
            # If columns are missing, the header may be a record, so the other names are not shown.
            others = f"{len(extra)} other column{'s' * (len(extra) > 1)}" if missing else _list_columns(extra)
            parts.append(f"has {others} outside the domain")
        raise ValueError(
            f"X {' and '.join(parts)}. Pass exactly the columns of the domain (domain.column_names), in any order."
        )
    return lambda j: table.column(given[names[j]])


def category_index(feature: Categorical, missing: Markers) -> CategoryIndex | HashIndex:
    """Return the index that finds the positions, or the buckets, of a feature's values."""
    if feature.n_buckets is not None:
        return HashIndex(feature.n_buckets, missing)
    return CategoryIndex(feature.categories, missing)


def _category_encoder(index: CategoryIndex | HashIndex, column: Column, where: str) -> _Encoder:
    find = index.finder(column, where)

    def encode(start: int, stop: int, out: Codes) -> None:
        positions = find(start, stop)
        codes = positions % BUCKETS
        codes[positions == UNLISTED] = OTHER
        codes[positions == ABSENT] = MISSING
        out[:] = codes

    return encode


def _date_encoder(coded: Sequence[Date | DatePart], column: Column, where: str) -> _Encoder:
    column.check_dates(where)
    read = column.moment_reader()

    def encode(start: int, stop: int, out: Codes) -> None:
        moments = read(start, stop)
        for i, feature in enumerate(coded):
            out[:, i] = feature.codes(moments)

    return encode


def _places(features: Mapping[str, Feature]) -> Iterable[int | slice]:
    """Yield the positions of each declared feature's codes: an index, or a slice for dates."""
    begin = 0
    for feature in features.values():
        n = len(feature.encoded_features("")) if isinstance(feature, Date) else 1
        yield slice(begin, begin + n) if isinstance(feature, Date) else begin
        begin += n


def _list_columns(names: Sequence[str]) -> str:
    shown = ", ".join(repr(n) for n in names[:MAX_LISTED])
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"{'column' if len(names) == 1 else 'columns'} {shown}{more}"


def encode_classes(
    target: Categorical, column: Column, n_threads: int, missing: Markers, unlisted: int = -1
) -> npt.NDArray[np.int32]:
    """Return the positions of classes, -1 for a missing class, and ``unlisted`` for a class that is not listed."""
    _check_not_numbered(target, column)
    find = CategoryIndex(target.categories, missing).finder(column, "y")

    def encode(start: int, stop: int) -> Array:
        found = find(start, stop)
        return np.where(found == UNLISTED, unlisted, np.maximum(found, -1))

    return _encode_target(encode, column.n_rows, n_threads)


def _check_not_numbered(target: Categorical, column: Column) -> None:
    """Raise an error if the dtype is numeric but all classes are text, as when scikit-learn encodes the classes.

    Numbers cannot replace the classes of the domain. scikit-learn numbers the classes found in the data, so a class
    without records would change the meaning of the others. It would not understand text predictions either.
    """
    of_text = all(isinstance(category, str) for category in target.categories)
    if of_text and column.holds == "number":
        raise TypeError(
            f"y has dtype {column.dtype}, but its classes in the domain are text. Convert y. For a "
            "meta-estimator of scikit-learn that encodes classes as integers, declare "
            f"target=Categorical(range({len(target.categories)})) (voting, bagging, stacking) or Categorical([0, "
            "1]) (one-vs-rest)."
        )


def encode_numbers(target: Numeric, column: Column, n_threads: int, outside: int = 0) -> npt.NDArray[np.int32]:
    """Round a numeric target to a multiple of ``1 / TARGET_UNITS`` of its range, in these units, with -1 for NaN.

    Values outside the range are clipped, and ``outside`` is added to their codes.
    """
    column.check_numeric("y")
    low, high = bounds(target)

    def encode(start: int, stop: int) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # overflowing values are clipped
            values = column.floats(start, stop).astype(np.float64)
            units = np.rint((values - low) / (high - low) * TARGET_UNITS)
        codes = np.clip(units, 0, TARGET_UNITS) + outside * ((values < low) | (values > high))
        return np.where(np.isnan(units), -1, codes)

    return _encode_target(encode, column.n_rows, n_threads)


def _encode_target(encode: Callable[[int, int], Array], n_rows: int, n_threads: int) -> npt.NDArray[np.int32]:
    out = np.empty(n_rows, dtype=np.int32)

    def write(first: int, last: int) -> None:
        for start, stop in row_blocks(first, last):
            out[start:stop] = encode(start, stop)

    with Threads(n_threads if n_rows > BLOCK_ROWS else 1) as threads:
        threads.run(write, n_rows, at_least=BLOCK_ROWS)
    return out


@dataclass(frozen=True)
class ClippingRanges:
    """Clipping ranges of nodes, as parts of a numeric target's range in its integer units."""

    low: npt.NDArray[np.int64]  # shape (n_nodes,): lower bounds
    high: npt.NDArray[np.int64]  # shape (n_nodes,): upper bounds, ``low < high``

    def __len__(self) -> int:
        return len(self.low)

    def widened(self, by: npt.NDArray[np.int64], units: int) -> ClippingRanges:
        """Return ranges that are wider by ``by`` on both sides, within the target's range."""
        return ClippingRanges(np.maximum(self.low - by, 0), np.minimum(self.high + by, units))


@dataclass(frozen=True)
class Contributions:
    """Contribution of every encoded target to a bin: public tables with one entry per value of the target.

    ``amounts`` (n_windows, n_targets): packed count and value that a target adds, for each clipping range that may
    apply.
    """

    columns: npt.NDArray[np.uint16]  # shape (n_targets,): column of a target
    amounts: npt.NDArray[np.uint64]


@dataclass(frozen=True)
class TargetLayout:
    """Representation of targets as integers: every record adds a vector of ``n_outputs`` entries that sum to ``units``.

    ``person_weight``: sum of the weights of one person's records. A record of weight w counts as w equal records, so
    the vectors of a person add up to ``person_units``.
    """

    n_outputs: int  # entries of a record's vector: classes, or (units - v, v) for a number v
    units: int  # sum of a record's vector: 1 for classes, a power of two for numbers
    shift: int  # low bits of a bin, which contain the sum of values; the higher bits count rows
    person_weight: int = 1

    @classmethod
    def of_classes(cls, n_classes: int) -> TargetLayout:
        """Return the one-hot layout of classes."""
        if n_classes > MAX_CLASSES:
            raise ValueError(f"The target has {n_classes} classes, but at most {MAX_CLASSES} are supported.")
        return cls(n_classes, 1, 32)

    @classmethod
    def of_number(cls, units: int) -> TargetLayout:
        """Return the layout of a number v in [0, units], a power of two, as the two-class point (units - v, v)."""
        if units <= 1:
            raise ValueError(f"A number needs at least two units, got {units}; one unit is a class.")
        return cls(2, units, NUMBER_ROWS_BITS + units.bit_length() - 1)

    def of_persons(self, max_records: int) -> TargetLayout:
        """Return the layout for persons with up to ``max_records`` records, which share a fixed weight."""
        return replace(self, person_weight=person_weight(max_records))

    @property
    def person_units(self) -> int:
        """Sum of all entries of the vectors of a person's records, by weight."""
        return self.units * self.person_weight

    @property
    def task(self) -> Task:
        """Task of the model. Only vectors of classes sum to one."""
        return "classification" if self.units == 1 else "regression"

    @property
    def n_columns(self) -> int:
        """Bins of a histogram cell. A vector of two entries needs only one: it follows from the count and one entry."""
        return 1 if self.n_outputs <= 2 else self.n_outputs  # noqa: PLR2004 -- two entries

    @property
    def column_weight(self) -> float:
        """Weight of a column's S² in the sum of squared errors ½·Σ‖t - t̄‖²; of two entries, both vary alike."""
        return 1.0 if self.n_columns == 1 else 0.5

    @property
    def max_rows(self) -> int:
        """Maximum number of rows, or sum of weights, in a bin. Beyond it, counts and values are summed separately."""
        return (1 << min(MAX_ROWS_BITS, 64 - self.shift)) - 1

    @property
    def n_targets(self) -> int:
        """Number of values of an encoded target."""
        return self.n_outputs if self.units == 1 else self.units + 1

    @property
    def whole_range(self) -> ClippingRanges:
        """Clipping range that leaves a numeric target unchanged."""
        return ClippingRanges(np.array([0]), np.array([self.units]))

    def contributions(self, windows: ClippingRanges) -> Contributions:
        """Return the contributions of targets. Numbers are rescaled from their clipping range to the whole range."""
        targets = np.arange(self.n_targets)
        columns = np.zeros_like(targets)
        if self.units > 1:
            width = (windows.high - windows.low)[:, None]
            places = np.clip(targets - windows.low[:, None], 0, width)
            values = (2 * places * self.units + width) // (2 * width)  # rounded
        elif self.n_columns > 1:
            columns, values = targets, np.ones((len(windows), self.n_targets), dtype=np.int64)
        else:
            values = np.tile(targets, (len(windows), 1))
        amounts = (np.uint64(1) << np.uint64(self.shift)) + values.astype(np.uint64)
        return Contributions(columns.astype(np.uint16), amounts)

    def count_contributions(self) -> Contributions:
        """Return contributions that count the records with each value of the target, in one column per value."""
        columns = np.arange(self.n_targets, dtype=np.uint16)
        return Contributions(columns, np.ones((1, self.n_targets), dtype=np.uint64))

    def unpacked(self, bins: Bins) -> tuple[Bins, Bins]:
        """Return the counts and the sums of values of bins."""
        return bins >> np.uint64(self.shift), bins & np.uint64((1 << self.shift) - 1)

    def vectors(self, bins: Bins) -> npt.NDArray[np.int64]:
        """Return the sums of the records' vectors, from bins whose last axis is the columns."""
        counts, sums = (plane.astype(np.int64) for plane in self.unpacked(bins))
        if self.n_columns > 1:
            return np.asarray(sums)
        rest = counts * self.units - sums
        return np.asarray(np.concatenate([rest, sums], axis=-1)[..., : self.n_outputs])
