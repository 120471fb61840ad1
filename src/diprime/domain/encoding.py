"""Rows and targets to codes, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.domain.codes import BUCKETS, CELLS, MISSING, OTHER, TARGET_UNITS
from diprime.domain.dates import Date, DatePart
from diprime.domain.features import MAX_LISTED, Categorical, Numeric, bounds, linear_formula
from diprime.domain.hashing import HashIndex
from diprime.domain.integers import Integer
from diprime.domain.kinds import Feature, coded_features
from diprime.domain.levels import ABSENT, UNLISTED, LevelIndex
from diprime.domain.tables import BLOCK_ROWS, Array, Column, Table, as_floats, is_kernel_ready, row_blocks
from diprime.kernels import encoding

BLOCK_CODES = 2**18
"""The size of a block in codes: it stays in the processor's cache while its columns are written one by one."""
MIN_BLOCK_ROWS = 256
"""The smallest size of a block in rows, however many features there are."""

Codes = npt.NDArray[np.uint8]
"""Codes of records."""

_Encoder = Callable[[int, int, Codes], None]
"""Writes the codes of rows start to stop: of one coded feature, of those of one column, or of all."""


class Rows(Protocol):
    """Encoded rows, read a block at a time; :class:`RowReader` is one implementation."""

    n_rows: int
    n_features: int
    numbers: npt.NDArray[Any] | None  # the original values, if all features are numbers and the kernels can read them

    def thresholds(self) -> Sequence[npt.NDArray[np.float64]]:
        """Return the thresholds of every feature, if there are ``numbers``."""

    def read(self, start: int, stop: int, out: npt.NDArray[np.uint8]) -> None:
        """Write the codes of the rows from ``start`` to ``stop``."""


class RowReader:
    """The rows of one table, as codes of a domain.

    Parameters
    ----------
    table : Table
        The table.
    features : sequence of Numeric, Integer, Date or Categorical
        The declared features, in order.
    encode_rows : callable or None
        Writes the codes of all columns as if every feature were numeric with a linear scale.
    column_encoders : sequence of (int or slice, callable)
        For each column that `encode_rows` does not encode correctly, where its codes are and what writes them
        afterwards.

    Attributes
    ----------
    n_rows, n_features : int
        The number of rows and of coded features.
    numbers : ndarray of shape (n_rows, n_features) or None
        The original values, if they are a matrix that the kernels can read and every feature has thresholds of floats.
    """

    def __init__(
        self,
        table: Table,
        features: Sequence[Feature],
        encode_rows: _Encoder | None,
        column_encoders: Sequence[tuple[int | slice, _Encoder]],
        n_features: int,
    ) -> None:
        self.n_rows = table.n_rows
        self.n_features = n_features
        all_numbers = all(isinstance(feature, (Numeric, Integer)) for feature in features)
        self.numbers = table.matrix if all_numbers and _is_readable_by_row(table.matrix) else None
        self._features = features
        self._encode_rows = encode_rows
        self._column_encoders = column_encoders

    def thresholds(self) -> list[npt.NDArray[np.float64]]:
        """Return the thresholds of every feature; all of them are numbers."""
        return [feature.thresholds for feature in self._features if isinstance(feature, (Numeric, Integer))]

    def read(self, start: int, stop: int, out: Codes) -> None:
        """Write the codes of the rows from ``start`` to ``stop``; ``out`` is C-ordered."""
        size = min(BLOCK_ROWS, max(MIN_BLOCK_ROWS, BLOCK_CODES // self.n_features))
        for a, b in row_blocks(start, stop, size):
            codes = out[a - start : b - start]
            if self._encode_rows is not None:
                self._encode_rows(a, b, codes)
            for place, encode in self._column_encoders:
                encode(a, b, codes[:, place])


class RowEncoding:
    """The encoding of rows: everything that follows from the features alone, computed once for all tables.

    Parameters
    ----------
    features : mapping of str to Numeric, Integer, Date or Categorical
        The declared features, in order.
    """

    def __init__(self, features: Mapping[str, Feature]) -> None:
        self._names = list(features)
        self._features = list(features.values())
        self._n_coded = len(coded_features(features))
        self._places = list(_places(features))
        self._low, self._cells_per_unit = np.zeros(len(features)), np.zeros(len(features))
        self._nonlinear: list[int] = []  # their low and cells per unit stay 0
        for j, feature in enumerate(self._features):
            formula = linear_formula(feature)
            if formula is None:
                self._nonlinear.append(j)
            else:
                self._low[j], self._cells_per_unit[j] = formula
        self._has_dates = any(isinstance(feature, Date) for feature in self._features)
        self._indices = {j: level_index(f) for j, f in enumerate(self._features) if isinstance(f, Categorical)}

    def reader(self, table: Table) -> RowReader:
        """Match the columns of a table to the features, and return a reader of its rows."""
        column = match_columns(self._names, table)
        encode_rows = self._matrix_encoder(table.matrix)
        by_column = range(len(self._features)) if encode_rows is None else self._nonlinear
        column_encoders = [(self._places[j], self._column_encoder(j, column(j))) for j in by_column]
        return RowReader(table, self._features, encode_rows, column_encoders, self._n_coded)

    def _matrix_encoder(self, matrix: Array | None) -> _Encoder | None:
        """Return what encodes all columns of a matrix at once, or None if it is better encoded column by column."""
        if matrix is None or len(self._nonlinear) == len(self._features):
            return None
        if self._has_dates:
            return None  # no matrix of numbers has columns of dates
        if is_kernel_ready(matrix) and not matrix.flags.c_contiguous:
            return None  # its columns can be read in place, its rows cannot
        return lambda start, stop, out: encoding.encode_rows(
            as_floats(matrix[start:stop]), self._low, self._cells_per_unit, out
        )

    def _column_encoder(self, j: int, column: Column) -> _Encoder:
        feature = self._features[j]
        where = f"Feature {self._names[j]!r}"
        if isinstance(feature, Categorical):
            return _level_encoder(self._indices[j], column, where)
        if isinstance(feature, Date):
            return _date_encoder(list(feature.coded("").values()), column, where)
        column.check_numeric(where)
        formula = linear_formula(feature)
        if formula is not None:
            low, cells_per_unit = formula
            return lambda start, stop, out: encoding.encode_linear(column.floats(start, stop), low, cells_per_unit, out)
        thresholds = np.full(CELLS, np.nan)  # the kernel takes this many and ignores NaN
        thresholds[: len(feature.thresholds)] = feature.thresholds
        return lambda start, stop, out: encoding.encode_sorted(column.floats(start, stop), thresholds, out)


def match_columns(names: Sequence[str], table: Table) -> Callable[[int], Column]:
    """Match the columns of a table to features, and return a function from a feature's index to its column."""
    if table.names is None:
        if table.n_columns != len(names):
            raise ValueError(
                f"X has {table.n_columns} features, but the domain has {len(names)} features as input; "
                "give the columns of the domain, in its order."
            )
        return table.column
    given = {name: j for j, name in enumerate(table.names)}
    known = set(names)
    missing = [n for n in names if n not in given]
    extra = [n for n in given if n not in known]
    if missing or extra:
        parts = [f"lacks {_list_columns(missing)}"] if missing else []
        parts += [f"has {_list_columns(extra)}, which the domain does not have"] if extra else []
        raise ValueError(f"X {' and '.join(parts)}; give exactly the columns of the domain, in any order.")
    return lambda j: table.column(given[names[j]])


def level_index(feature: Categorical) -> LevelIndex | HashIndex:
    """Return what finds the positions of values among the levels of a feature, or their buckets."""
    return LevelIndex(feature.levels) if feature.buckets is None else HashIndex(feature.buckets)


def _is_readable_by_row(matrix: Array | None) -> bool:
    return matrix is not None and is_kernel_ready(matrix) and matrix.flags.c_contiguous


def _level_encoder(index: LevelIndex | HashIndex, column: Column, where: str) -> _Encoder:
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
    """Yield where the codes of each declared feature are: at an index, or for dates in a slice."""
    begin = 0
    for feature in features.values():
        n = len(feature.coded("")) if isinstance(feature, Date) else 1
        yield slice(begin, begin + n) if isinstance(feature, Date) else begin
        begin += n


def _list_columns(names: Sequence[str]) -> str:
    shown = ", ".join(repr(n) for n in names[:MAX_LISTED])
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"{'column' if len(names) == 1 else 'columns'} {shown}{more}"


def encode_classes(target: Categorical, column: Column, n_threads: int) -> npt.NDArray[np.int32]:
    """Return the positions of a target's classes; -1 for a class that is missing or not in the list."""
    _check_not_numbered(target, column)
    find = LevelIndex(target.levels).finder(column, "y")
    return _encode_target(lambda start, stop: np.maximum(find(start, stop), -1), column.n_rows, n_threads)


def _check_not_numbered(target: Categorical, column: Column) -> None:
    """Raise an error if the dtype holds whole numbers where all classes are text, as where scikit-learn numbers them.

    Numbers cannot stand for the classes of the domain: scikit-learn numbers those that it finds in the data, so that a
    class without any record would change what the others mean. Nor would text be understood as a prediction.
    """
    of_text = all(isinstance(level, str) for level in target.levels)
    if of_text and column.kind == "number" and "int" in column.dtype.lower():
        raise TypeError(
            f"y has dtype {column.dtype}, but its levels in the domain are text; convert y or, for a meta-estimator of "
            f"scikit-learn that numbers the classes before it fits, declare target=Categorical(range("
            f"{len(target.levels)})) (voting, bagging, stacking) or Categorical([0, 1]) (one-vs-rest)."
        )


def encode_numbers(target: Numeric, column: Column, n_threads: int) -> npt.NDArray[np.int32]:
    """Round a numeric target to a multiple of ``1 / TARGET_UNITS`` of its range, in these units; -1 for NaN."""
    column.check_numeric("y")
    low, high = bounds(target)

    def encode(start: int, stop: int) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # a value that overflows is clamped
            values = column.floats(start, stop).astype(np.float64)
            units = np.rint((values - low) / (high - low) * TARGET_UNITS)
        return np.where(np.isnan(units), -1, np.clip(units, 0, TARGET_UNITS))

    return _encode_target(encode, column.n_rows, n_threads)


def _encode_target(encode: Callable[[int, int], Array], n_rows: int, n_threads: int) -> npt.NDArray[np.int32]:
    out = np.empty(n_rows, dtype=np.int32)

    def write(first: int, last: int) -> None:
        for start, stop in row_blocks(first, last):
            out[start:stop] = encode(start, stop)

    with Threads(n_threads if n_rows > BLOCK_ROWS else 1) as threads:
        threads.run(write, n_rows, at_least=BLOCK_ROWS)
    return out
