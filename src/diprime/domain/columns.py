"""Arrays, data frames and lists as columns that are read in blocks of rows.

The kind of a column, and the errors raised for it, depend on its dtype alone and never on its values. Object columns
may hold values of any type, whose methods may raise anything. Such exceptions are caught, because they could reveal a
value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from diprime.domain.values import (
    MISSING_DATE,
    Moments,
    instants_of_array,
    moments_of_array,
    moments_of_values,
    number_of,
)

BLOCK_ROWS = 16_384
"""Maximum number of rows that are read, and copied if necessary, at a time."""

Array = npt.NDArray[Any]
"""Array of any dtype."""
_Block = TypeVar("_Block")

_SAME_NAMES = "X has two columns of the same name; rename one of them."
"""The names are omitted, because without a header they would be those of a record."""

_INTERRUPTIONS = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""Exceptions that are never about a value. A panic of polars, which may be, is not an `Exception`."""

_CONVERTIBLE = {"ms": 82 * 10**14, "us": 82 * 10**17}
"""Moments up to the year 261,000, by unit. polars panics at moments some thousand years farther away."""


@dataclass(frozen=True)
class Column:
    """One column of the data.

    ``block``: returns rows ``start`` to ``stop`` as an array of numbers, objects, moments, or indices into `labels`,
    with -1 for missing. ``of``: kind of the values or labels according to the dtype, if it is not `kind`. Instants are
    dates with a time zone. Booleans are objects, because NumPy and pandas store them as such if one is missing.
    ``has_stated_kind``: whether the dtype determines the kind of the values. Objects, nulls, text and NumPy Booleans do
    not: one missing value turns Booleans into objects, and one text turns numbers into text. ``instants``: returns rows
    ``start`` to ``stop`` of a date column as exact integers, None for missing, in wall-clock time, or in UTC if the
    dtype has a time zone.
    """

    n_rows: int
    kind: Literal["number", "text", "object", "labels", "date"]  # kind of the column, according to its dtype
    block: Callable[[int, int], Array]
    values: Callable[[int, int], Sequence[Any]]  # returns rows ``start`` to ``stop`` as Python values
    dtype: str  # name of the dtype, for error messages
    labels: Sequence[Any] | None = None  # labels of a dictionary-encoded column
    declared: bool = False  # whether the labels belong to the dtype, rather than being collected from the values
    boolean: bool = False
    integer: bool = False
    of: str | None = None
    has_stated_kind: bool = True
    instants: Callable[[int, int], Array] | None = None

    @property
    def kind_of_values(self) -> str:
        """Kind of the values, according to the dtype; "nothing" if all of them are missing."""
        return self.of or self.kind

    @property
    def holds(self) -> str:
        """Kind of the values, without distinguishing floats from numbers and instants from dates."""
        return {"float": "number", "instant": "date"}.get(self.kind_of_values, self.kind_of_values)

    def floats(self, start: int, stop: int) -> Array:
        """Return rows as float32 or float64, NaN if missing."""
        block = self.block(start, stop)
        return _objects_to_floats(block) if self.kind == "object" else as_floats(block)

    def check_numeric(self, where: str) -> None:
        """Raise an error if the dtype cannot hold numbers."""
        if self.kind not in ("number", "object"):
            raise TypeError(
                f"{where} has dtype {self.dtype}, but the domain declares numbers. Convert the column to numbers, "
                f"or declare it {'Date' if self.kind == 'date' else 'Categorical'} in the domain."
            )

    def moment_reader(self) -> Callable[[int, int], Moments]:
        """Return a function that reads rows as moments, `MISSING_DATE` if missing or unreadable."""
        if self.kind == "date":
            return self.block
        if self.labels is not None:
            of_label = np.append(moments_of_values(self.labels), MISSING_DATE)
            return lambda start, stop: of_label[self.block(start, stop)]  # -1, for missing, selects the last entry
        if self.kind == "number":
            return lambda start, stop: np.full(stop - start, MISSING_DATE)
        return lambda start, stop: moments_of_values(self.values(start, stop))

    def check_dates(self, where: str) -> None:
        """Raise an error if the dtype cannot hold dates."""
        if self.holds in ("number", "bytes"):
            raise TypeError(
                f"{where} has dtype {self.dtype}, but the domain declares dates. Convert the column to dates, or "
                "declare it Numeric in the domain. A column without any value needs a dtype of dates or objects."
            )


@dataclass(frozen=True)
class ColumnTable:
    """Columns of equal length."""

    n_rows: int
    n_columns: int
    column: Callable[[int], Column]  # returns a column by its index
    names: list[str] | None = None  # names of the columns; None if columns are matched by position
    matrix: Array | None = None  # the data, if they are an array of numbers


def is_kernel_ready(array: Array) -> bool:
    """Return whether the kernels can read an array in place."""
    return array.dtype in (np.float32, np.float64) and array.flags.aligned  # dtypes are only equal in native byte order


def as_floats(block: Array) -> Array:
    """Return a block as float32 or float64, without a copy if the kernels can read it in place."""
    if is_kernel_ready(block):
        return block
    with np.errstate(over="ignore", invalid="ignore"):  # long doubles beyond float64 become infinite
        return block.astype(np.float64, order="C")


def _objects_to_floats(block: Array) -> npt.NDArray[np.float64]:
    # One value at a time, because no record may affect the encoding of another one: NumPy converts dates and numbers
    # differently if the block also contains other values.
    return np.fromiter(map(number_of, block), dtype=np.float64, count=len(block))


def read_table(X: Any) -> ColumnTable:
    """Read the records. Errors depend on shapes, names and dtypes only. A `ColumnTable` is returned unchanged."""
    if isinstance(X, ColumnTable):
        return X
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise TypeError("Sparse data are not supported: X is a sparse matrix; convert it with X.toarray().")
    X = _wrap_bare_columns(X)
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError:
        raise ValueError(_SAME_NAMES) from None
    if isinstance(frame, nw.DataFrame):
        return _read_frame(frame)
    if hasattr(X, "collect") and hasattr(X, "lazy"):
        raise TypeError("X is a lazy frame; call its collect() first.")
    _refuse_collections(X, "X")
    if isinstance(X, (str, bytes, Mapping)) or not (isinstance(X, Iterable) or _is_array(X, "X")):
        raise ValueError(
            f"Expected 2D array, got 0D array instead: X is a {type(X).__name__}; give an array, a list of rows or a "
            "data frame."
        )
    array = np.asarray(X) if _is_array(X, "X") else _rows_to_array(list(X))
    if array.ndim != 2:  # noqa: PLR2004 -- rows and columns
        advice = (
            "Reshape your data either using array.reshape(-1, 1) if your data has a single feature or "
            "array.reshape(1, -1) if it contains a single sample."
        )
        raise ValueError(f"Expected 2D array, got {array.ndim}D array instead: X has shape {array.shape}. {advice}")
    _array_column(array, "X")  # checks the dtype, even without columns
    matrix = array if array.dtype.kind in "biuf" else None
    return ColumnTable(len(array), array.shape[1], lambda j: _array_column(array[:, j], "X"), matrix=matrix)


def table_of(columns: Mapping[str, Array]) -> ColumnTable:
    """Return arrays of equal length as a table, without using a data-frame library."""
    found = [_array_column(array, f"Column {name!r}") for name, array in columns.items()]
    return ColumnTable(found[0].n_rows if found else 0, len(found), found.__getitem__, list(columns))


def read_target(y: Any) -> Column:
    """Read the targets, which are one column of classes or numbers."""
    column = read_column(y, "y")
    if column.kind == "date":
        raise TypeError(f"y has dtype {column.dtype}; convert dates to numbers first, such as days since a date.")
    return column


def read_column(values: Any, where: str) -> Column:
    """Read one column, such as the targets. ``where`` is its name in errors."""
    values = _wrap_bare_columns(values)
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return _series_column(series, where)
    frame = nw.from_native(values, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        table = _read_frame(frame)
        if table.n_columns != 1:
            raise ValueError(f"{where} should be a 1d array, got a table of {table.n_columns} columns instead.")
        return table.column(0)
    _refuse_collections(values, where)
    if isinstance(values, (str, bytes, Mapping)) or not (isinstance(values, Iterable) or _is_array(values, where)):
        raise ValueError(f"{where} should be a 1d array, got a {type(values).__name__} instead.")
    array = np.asarray(values) if _is_array(values, where) else object_array([_unwrap_single(v) for v in values])
    if array.shape[1:] == (1,):
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{where} should be a 1d array, got an array of shape {array.shape} instead.")
    return _array_column(array, where)


def _refuse_collections(values: Any, where: str) -> None:
    """Refuse Dask and Spark collections, which NumPy would fetch from the cluster."""
    kind = type(values)
    if hasattr(values, "__dask_graph__"):
        raise TypeError(f"{where} is a Dask {kind.__name__}, which is not in memory; call its compute() first.")
    if kind.__module__.partition(".")[0] == "pyspark":
        raise TypeError(f"{where} is a Spark {kind.__name__}, which is not in memory; call its toPandas() first.")


def _read_frame(frame: nw.DataFrame[Any]) -> ColumnTable:
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        raise ValueError(_SAME_NAMES)
    columns = [
        _series_column(frame.get_column(original), f"Column {name!r} of X")
        for name, original in zip(names, frame.columns, strict=True)
    ]
    return ColumnTable(len(frame), len(names), columns.__getitem__, names)


def _wrap_bare_columns(values: Any) -> Any:
    """Wrap a bare pandas or pyarrow column, because NumPy would choose its dtype by whether values are missing."""
    library = type(values).__module__.partition(".")[0]
    if library == "pyarrow":
        import pyarrow as pa

        if isinstance(values, pa.Array):
            return pa.chunked_array([values])
        if isinstance(values, pa.RecordBatch):
            return pa.Table.from_batches([values])
    if library == "pandas":
        import pandas as pd

        if isinstance(values, (pd.Index, pd.api.extensions.ExtensionArray)):
            return pd.Series(values)
    return values


def _is_array(values: Any, where: str) -> bool:
    """Return whether values are an array with a dtype, rather than a list or another iterable.

    The values of a list are read one by one. NumPy would choose one dtype for all of them, so that a record could
    affect the encoding of others, as a float among large integers does.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{where} is a masked array. Fill the masked values with NaN first.")
    return any(hasattr(values, name) for name in ("__array__", "__array_interface__", "__array_struct__"))


def _rows_to_array(rows: list[Any]) -> Array:
    """Return a list of rows as an array of objects. A cell may be a tuple, which NumPy would unpack."""
    if not rows or not isinstance(rows[0], (list, tuple, np.ndarray)):
        return object_array(rows)
    width = len(rows[0])
    if not all(isinstance(row, (list, tuple, np.ndarray)) and len(row) == width for row in rows):
        raise ValueError("X does not have rows of equal length; give a rectangular table.")
    return object_array([cell for row in rows for cell in row]).reshape(len(rows), width)


def _unwrap_single(value: Any) -> Any:
    """Return the element of a list or array with a single element, such as a row of a one-column target."""
    # A zero-dimensional array, such as np.ma.masked, has no length.
    shape = value.shape if isinstance(value, np.ndarray) else (len(value),) if isinstance(value, list) else ()
    return value[0] if shape == (1,) else value


def _refuse_durations(where: str, dtype: object) -> NoReturn:
    raise TypeError(
        f"{where} has dtype {dtype}. Convert durations and times of day to numbers first, for example to hours."
    )


def _array_column(array: Array, where: str) -> Column:
    kind = array.dtype.kind
    if kind == "m":
        _refuse_durations(where, array.dtype)
    if kind == "M":
        return Column(
            len(array),
            "date",
            lambda start, stop: moments_of_array(array[start:stop]),
            lambda start, stop: array[start:stop].tolist(),
            str(array.dtype),
            instants=lambda start, stop: instants_of_array(array[start:stop]),
        )
    if kind == "c":
        raise ValueError(
            f"Complex data not supported: {where} has dtype {array.dtype}. Pass the real and imaginary parts as "
            "two columns."
        )
    kinds: dict[str, Literal["number", "text", "object"]] = {"O": "object", "U": "text", "S": "text", "T": "text"}
    if kind not in "biufOUST":
        raise TypeError(f"{where} has dtype {array.dtype}, which is neither numbers nor text; convert it first.")
    return Column(
        len(array),
        kinds.get(kind, "number"),
        lambda start, stop: array[start:stop],
        lambda start, stop: array[start:stop].tolist(),
        "str" if kind in "US" else str(array.dtype),  # the dtype itself reveals the length of the longest text
        boolean=kind == "b",
        integer=kind in "iu",
        of={"S": "bytes", "f": "float", "b": "object"}.get(kind),
        has_stated_kind=kind in "iuf",
    )


def _series_column(series: nw.Series[Any], where: str) -> Column:
    native: Any = series.to_native()
    if series.implementation.is_pandas() and isinstance(native.dtype, np.dtype):
        return _array_column(native.to_numpy(), where)  # narwhals would guess the kind of objects from their values
    dtype = series.dtype
    name = str(dtype).partition("(")[0]  # without the categories
    values = _value_reader(series)
    if dtype in (nw.Categorical, nw.Enum):
        dictionary = _dictionary_encoding(series, native)
        if dictionary is not None:
            indices, labels, declared = dictionary
            return Column(len(series), "labels", indices, values, name, labels, declared, of=_kind_of_labels(native))

    def objects(start: int, stop: int) -> Array:
        return object_array(values(start, stop))

    if dtype in (nw.Categorical, nw.Enum, nw.String, nw.Binary):
        of = "bytes" if dtype == nw.Binary else None if dtype == nw.String else _kind_of_labels(native)
        return Column(len(series), "text", objects, values, name, of=of, has_stated_kind=False)
    if dtype == nw.Object or _has_null_dtype(native):
        of = "nothing" if _has_null_dtype(native) else None
        return Column(len(series), "object", objects, values, name, of=of, has_stated_kind=False)
    if dtype in (nw.Date, nw.Datetime) or _has_pandas_zone(native):
        return _date_column(series, values)
    if dtype.is_temporal():
        _refuse_durations(where, dtype)
    if not (dtype.is_numeric() or dtype == nw.Boolean):
        raise TypeError(f"{where} has dtype {dtype}, which is neither numbers nor text; convert it first.")
    return _number_column(series, values, where)


def _number_column(series: nw.Series[Any], values: Callable[[int, int], Sequence[Any]], where: str) -> Column:
    floats = _floats_in_place(series)
    if floats is not None:
        return replace(_array_column(floats, where), dtype=str(series.dtype))  # the same as if a value is missing
    is_boolean = series.dtype == nw.Boolean
    of = "object" if is_boolean else "float" if series.dtype.is_float() else None
    return Column(
        len(series),
        "number",
        _number_reader(series),
        values,
        str(series.dtype),
        boolean=is_boolean,
        integer=series.dtype.is_integer(),
        of=of,
    )


def _value_reader(series: nw.Series[Any]) -> Callable[[int, int], Sequence[Any]]:
    """Return a function that reads rows as Python values. An unreadable value becomes one that equals no category."""

    def join(rows: Sequence[list[Any]]) -> list[Any]:
        return [value for row in rows for value in row]

    return _each_alone(lambda start, stop: series[start:stop].to_list(), [object()], join)


def _has_pandas_zone(native: Any) -> bool:
    """Return whether a pandas column has a time zone; narwhals does not recognise all of them."""
    return getattr(getattr(native, "dtype", None), "tz", None) is not None


def _date_column(series: nw.Series[Any], values: Callable[[int, int], Sequence[Any]]) -> Column:
    native: Any = series.to_native()
    if _has_pandas_zone(native):

        def reader(read: Callable[[Any], Array], missing: Any) -> Callable[[int, int], Array]:
            return _each_alone(lambda start, stop: read(native.iloc[start:stop]), np.full(1, missing), np.concatenate)

        is_zoned = True
        block = reader(lambda part: moments_of_array(part.dt.tz_localize(None).to_numpy()), MISSING_DATE)
        instants = reader(lambda part: instants_of_array(part.dt.tz_convert(None).to_numpy()), None)
    else:
        series = _in_pyarrow(series, native)
        is_zoned = isinstance(series.dtype, nw.Datetime) and series.dtype.time_zone is not None
        block, instants = _date_reader(series), _instant_reader(series)
    name, of = ("Date", None) if series.dtype == nw.Date else ("Datetime", "instant" if is_zoned else None)
    return Column(len(series), "date", block, values, name, of=of, instants=instants)


def _in_pyarrow(series: nw.Series[Any], native: Any) -> nw.Series[Any]:
    """Convert an Arrow-backed pandas column to pyarrow, because pandas 2 shifts it to UTC when removing its zone."""
    if not series.implementation.is_pandas() or type(native.dtype).__name__ != "ArrowDtype":
        return series
    return nw.from_native(_wrap_bare_columns(native.array.__arrow_array__()), series_only=True)


def _date_reader(series: nw.Series[Any]) -> Callable[[int, int], Moments]:
    """Return a function that reads rows as moments, in wall-clock time, whatever the time zone."""

    def read(start: int, stop: int) -> Moments:
        part = series[start:stop]
        if isinstance(part.dtype, nw.Datetime) and part.dtype.time_zone is not None:
            _check_convertible(part, part.dtype.time_unit)
            part = part.dt.replace_time_zone(None)
        array = part.to_numpy()
        return moments_of_array(array) if array.dtype.kind == "M" else moments_of_values(array.tolist())

    return _each_alone(read, np.full(1, MISSING_DATE), np.concatenate)


def _check_convertible(part: nw.Series[Any], unit: str) -> None:
    """Raise an error for dates at which polars would panic and print to standard error."""
    limit = _CONVERTIBLE.get(unit)
    if limit and part.implementation.is_polars() and not part.cast(nw.Int64).is_between(-limit, limit).all():
        raise OverflowError("A date is too far away to be converted.")


def _instant_reader(series: nw.Series[Any]) -> Callable[[int, int], Array]:
    """Return a function that reads rows as exact instants."""

    def read(start: int, stop: int) -> Array:
        part = series[start:stop]
        if isinstance(part.dtype, nw.Datetime) and part.dtype.time_zone is not None:
            part = part.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return instants_of_array(np.asarray(part.to_numpy(), dtype=np.datetime64))

    return _each_alone(read, np.full(1, None), np.concatenate)


def _each_alone(
    read: Callable[[int, int], _Block], missing: _Block, join: Callable[[Sequence[_Block]], _Block]
) -> Callable[[int, int], _Block]:
    """Return a reader that reads rows one by one if reading a block fails, so that only failing rows are missing."""

    def attempt(start: int, stop: int) -> _Block | None:
        try:
            return read(start, stop)
        except _INTERRUPTIONS:
            raise
        except BaseException:  # noqa: BLE001 -- an error would reveal a value: a date may be too far, polars may panic
            return None

    def block(start: int, stop: int) -> _Block:  # refers not to itself: a cycle would keep the values after the fit
        found = attempt(start, stop)
        if found is not None:
            return found
        # In the same way, so that no record changes how another one is read.
        rows = [attempt(at, at + 1) for at in range(start, stop)]
        return join([missing if row is None else row for row in rows])

    return block


def _has_null_dtype(native: Any) -> bool:
    """Return whether a column has the null dtype, which does not determine the kind of its values."""
    return str(getattr(native, "dtype", getattr(native, "type", ""))).lower().startswith("null")


def _floats_in_place(series: nw.Series[Any]) -> Array | None:
    """Return a column of floats as an array without a copy, or None if that is impossible."""
    implementation, native = series.implementation, series.to_native()
    if not series.dtype.is_float():
        return None
    if implementation.is_polars() and native.n_chunks() == 1 and not native.null_count():
        return np.asarray(native.to_numpy())
    if implementation.is_pyarrow() and native.num_chunks == 1 and not native.null_count:
        return np.asarray(native.chunk(0).to_numpy())
    return None


def _number_reader(series: nw.Series[Any]) -> Callable[[int, int], Array]:
    """Return a function that reads rows of numbers or Booleans as floats, NaN if missing."""
    dtype = series.dtype
    has_128_bits = dtype in (nw.Int128, nw.UInt128)  # NumPy has no such integers

    def block(start: int, stop: int) -> Array:
        part = series[start:stop]
        if dtype.is_decimal():  # pyarrow would not round to the nearest float
            return _objects_to_floats(object_array(part.to_list()))
        if has_128_bits or not (dtype.is_integer() or dtype == nw.Boolean):
            return part.cast(nw.Float32 if dtype == nw.Float32 else nw.Float64).to_numpy()
        # NumPy rounds integers beyond 2**53; pyarrow would raise an error.
        result = part.fill_null(False if dtype == nw.Boolean else 0).to_numpy().astype(np.float64)
        result[part.is_null().to_numpy()] = np.nan
        return result

    return block


def object_array(values: Sequence[Any]) -> Array:
    """Return values as an array of objects."""
    return np.fromiter(values, dtype=object, count=len(values))  # np.array would unpack sequences


_Dictionary = tuple[Callable[[int, int], Array], list[Any], bool]
"""Reader of a column's indices into its labels, the labels, and whether these belong to the dtype."""


def _dictionary_encoding(series: nw.Series[Any], native: Any) -> _Dictionary | None:
    """Return the dictionary encoding of a categorical column, or None if there is none that can be read."""
    implementation = series.implementation
    if implementation.is_pandas() and hasattr(native, "cat"):
        codes = native.cat.codes.to_numpy()
        return (lambda start, stop: codes[start:stop]), native.cat.categories.tolist(), True
    if implementation.is_polars():
        return _polars_dictionary(native, is_enum=series.dtype == nw.Enum)
    if implementation.is_pyarrow():
        return _arrow_dictionary(native)
    return None


def _kind_of_labels(native: Any) -> str:
    """Return the kind of the labels of a categorical column, according to its dtype."""
    arrow = getattr(native, "type", getattr(getattr(native, "dtype", None), "pyarrow_dtype", None))
    if arrow is not None and hasattr(arrow, "value_type"):  # pyarrow, or Arrow-backed pandas
        import pyarrow as pa

        labels: Any = pa.chunked_array([], type=arrow.value_type)
    elif hasattr(native, "cat") and hasattr(native.cat, "categories"):  # pandas
        if not len(native.cat.categories):
            return "nothing"
        labels = native.cat.categories[:0]
    else:  # polars
        return "text"
    try:
        return read_column(labels, "labels").kind_of_values
    except TypeError:  # a dtype that only labels may have, such as durations
        return "object"


def _polars_dictionary(native: Any, *, is_enum: bool) -> _Dictionary:
    if is_enum:
        labels: list[Any] = native.dtype.categories.to_list()
        codes = np.arange(len(labels))
    else:  # a Categorical shares its codes with the whole process; use only those in this column
        distinct = native.drop_nulls().unique()
        labels, codes = distinct.to_list(), distinct.to_physical().to_numpy()
    index_of_code = np.full(int(np.max(codes, initial=0)) + 2, -1)  # the last entry is for nulls
    index_of_code[codes] = np.arange(len(labels))

    def indices(start: int, stop: int) -> Array:
        block: Array = native[start:stop].to_physical().cast(int).fill_null(-1).to_numpy()
        return index_of_code[block]

    return indices, labels, is_enum


def _arrow_dictionary(native: Any) -> _Dictionary | None:
    try:
        unified = native.unify_dictionaries()
        labels = unified.chunk(0).dictionary.to_pylist() if unified.num_chunks else []
    except Exception:  # noqa: BLE001 -- with nulls or too many labels: read as text, with the same codes
        return None

    def indices(start: int, stop: int) -> Array:
        chunks = [c.indices.cast("int64").fill_null(-1) for c in unified.slice(start, stop - start).chunks]
        return np.concatenate([np.zeros(0, dtype=np.int64), *(c.to_numpy(zero_copy_only=False) for c in chunks)])

    return indices, labels, False


def python_value(value: Any) -> Any:
    """Convert a NumPy scalar to the equal Python value; return other values unchanged."""
    return value.item() if isinstance(value, (np.bool_, np.number, np.str_, np.bytes_)) else value


def row_blocks(start: int, stop: int, size: int = BLOCK_ROWS) -> Iterator[tuple[int, int]]:
    """Yield the bounds of consecutive blocks of at most ``size`` rows, from ``start`` to ``stop``."""
    for a in range(start, stop, size):
        yield a, min(a + size, stop)
