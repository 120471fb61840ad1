"""Rows and targets to codes, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.domain.codes import BUCKETS, CELLS, MISSING, OTHER, TARGET_UNITS
from diprime.domain.features import Categorical, Feature, Numeric, bounds, linear_formula
from diprime.domain.levels import ABSENT, UNLISTED, LevelIndex
from diprime.domain.tables import BLOCK_ROWS, Array, Column, Table, as_floats, is_kernel_ready, spans
from diprime.kernels import encoding

BLOCK_CODES = 2**18
"""A block of so many codes stays in the processor's cache while its columns are written one by one."""

Codes = npt.NDArray[np.uint8]
"""Codes of records."""

_Encoder = Callable[[int, int, Codes], None]
"""Writes the codes of rows start to stop of one column."""


class Rows(Protocol):
    """Encoded rows, read a block at a time; :class:`RowReader` is one."""

    n_rows: int
    n_features: int
    numbers: npt.NDArray[Any] | None  # the rows themselves, if they are nothing but numbers that kernels can read

    def thresholds(self) -> Sequence[npt.NDArray[np.float64]]:
        """Return the thresholds of every feature, where there are ``numbers``."""

    def read(self, start: int, stop: int, out: npt.NDArray[np.uint8]) -> None:
        """Write the codes of the rows from ``start`` to ``stop``."""


class RowReader:
    """The rows of one table, as codes of a domain.

    Attributes
    ----------
    n_rows, n_features : int
        The shape of the table.
    numbers : ndarray of shape (n_rows, n_features) or None
        The rows as they are, if they are a matrix that kernels can read and every feature is numeric.
    """

    def __init__(
        self,
        n_rows: int,
        n_features: int,
        matrix: Array | None,
        low: npt.NDArray[np.float64],
        inverse: npt.NDArray[np.float64],
        encoders: Mapping[int, _Encoder],
        numbers: Array | None,
        features: Sequence[Feature],
    ) -> None:
        self.n_rows = n_rows
        self.n_features = n_features
        self._matrix = matrix
        self._low, self._inverse = low, inverse
        self._encoders = encoders
        self.numbers = numbers
        self._features = features

    def thresholds(self) -> list[npt.NDArray[np.float64]]:
        """Return the thresholds of every feature, all of them numeric."""
        return [feature.thresholds for feature in self._features if isinstance(feature, Numeric)]

    def read(self, start: int, stop: int, out: Codes) -> None:
        """Write the codes of the rows from ``start`` to ``stop``; ``out`` is C-ordered."""
        size = min(BLOCK_ROWS, max(256, BLOCK_CODES // self.n_features))
        for a, b in spans(start, stop, size):
            codes = out[a - start : b - start]
            if self._matrix is not None:  # all columns as if they were linear; the encoders write over the others
                encoding.encode_rows(as_floats(self._matrix[a:b]), self._low, self._inverse, codes)
            for j, encode in self._encoders.items():
                encode(a, b, codes[:, j])


class RowEncoding:
    """How tables become codes: what follows from the features alone, made once for every table.

    Parameters
    ----------
    features : mapping of str to Numeric or Categorical
        The features, in order.
    """

    def __init__(self, features: Mapping[str, Feature]) -> None:
        self._names = list(features)
        self._features = list(features.values())
        self._low, self._inverse = np.zeros(len(features)), np.zeros(len(features))
        self._others: list[int] = []  # not linear: their low and inverse stay 0
        for j, feature in enumerate(self._features):
            formula = linear_formula(feature)
            if formula is None:
                self._others.append(j)
            else:
                self._low[j], self._inverse[j] = formula
        self._indices = {j: LevelIndex(f.levels) for j, f in enumerate(self._features) if isinstance(f, Categorical)}

    def reader(self, table: Table) -> RowReader:
        """Match the columns of a table to the features, and return what encodes its rows."""
        column = self.columns(table)
        matrix = table.matrix
        n_features = len(self._features)
        if matrix is not None and len(self._others) == n_features:
            matrix = None
        if matrix is not None and is_kernel_ready(matrix) and not matrix.flags.c_contiguous:
            matrix = None  # read in place, column by column
        encoders = {j: self._encoder(j, column(j)) for j in (range(n_features) if matrix is None else self._others)}
        numbers = table.matrix
        if numbers is not None and not (is_kernel_ready(numbers) and numbers.flags.c_contiguous and not self._indices):
            numbers = None
        return RowReader(table.n_rows, n_features, matrix, self._low, self._inverse, encoders, numbers, self._features)

    def columns(self, table: Table) -> Callable[[int], Column]:
        """Match the columns of a table to the features, and return them by place."""
        names = self._names
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
            parts = [f"lacks {_listed(missing)}"] if missing else []
            parts += [f"has {_listed(extra)}, which the domain does not have"] if extra else []
            raise ValueError(f"X {' and '.join(parts)}; give exactly the columns of the domain, in any order.")
        return lambda j: table.column(given[names[j]])

    def _encoder(self, j: int, column: Column) -> _Encoder:
        feature = self._features[j]
        if isinstance(feature, Categorical):
            return _level_encoder(self._indices[j], column, f"Feature {self._names[j]!r}")
        column.check_numeric(f"Feature {self._names[j]!r}")
        formula = linear_formula(feature)
        if formula is not None:
            low, inverse = formula
            return lambda start, stop, out: encoding.encode_linear(column.floats(start, stop), low, inverse, out)
        thresholds = np.full(CELLS, np.nan)  # the length that the kernel wants
        thresholds[: len(feature.thresholds)] = feature.thresholds
        return lambda start, stop, out: encoding.encode_sorted(column.floats(start, stop), thresholds, out)


def _level_encoder(index: LevelIndex, column: Column, where: str) -> _Encoder:
    find = index.finder(column, where)

    def encode(start: int, stop: int, out: Codes) -> None:
        places = find(start, stop)
        codes = places % BUCKETS
        codes[places == UNLISTED] = OTHER
        codes[places == ABSENT] = MISSING
        out[:] = codes

    return encode


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(n) for n in names[:10])
    return f"{'column' if len(names) == 1 else 'columns'} {shown}{f' and {len(names) - 10} more' * (len(names) > 10)}"


def encode_classes(target: Categorical, column: Column, n_threads: int) -> npt.NDArray[np.int32]:
    """Return the places of a target's classes; -1 where they are missing or not in the list."""
    find = LevelIndex(target.levels).finder(column, "y")
    return _encode_target(lambda start, stop: np.maximum(find(start, stop), -1), column.n_rows, n_threads)


def encode_numbers(target: Numeric, column: Column, n_threads: int) -> npt.NDArray[np.int32]:
    """Round a numeric target to `TARGET_UNITS` steps of its range; -1 for NaN."""
    column.check_numeric("y")
    low, high = bounds(target)

    def encode(start: int, stop: int) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is clamped
            values = column.floats(start, stop).astype(np.float64)
            units = np.rint((values - low) / (high - low) * TARGET_UNITS)
        return np.where(np.isnan(units), -1, np.clip(units, 0, TARGET_UNITS))

    return _encode_target(encode, column.n_rows, n_threads)


def _encode_target(encode: Callable[[int, int], Array], n_rows: int, n_threads: int) -> npt.NDArray[np.int32]:
    out = np.empty(n_rows, dtype=np.int32)

    def write(first: int, last: int) -> None:
        for start, stop in spans(first, last):
            out[start:stop] = encode(start, stop)

    with Threads(n_threads if n_rows > BLOCK_ROWS else 1) as threads:
        threads.run(write, n_rows, at_least=BLOCK_ROWS)
    return out
