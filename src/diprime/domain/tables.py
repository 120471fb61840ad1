"""Arrays, data frames and lists as columns that are read a block of rows at a time.

The kind of a column, and the errors raised for it, depend on its dtype alone and never on its values. Object columns
may hold values of any type, whose methods may raise anything; such an exception is caught, for it would reveal a value.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, NoReturn

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from diprime.domain import moments

BLOCK_ROWS = 16_384
"""The largest number of rows that are read, and if necessary copied, at a time."""

Array = npt.NDArray[Any]
"""An array of any dtype."""

_NEVER_NUMERIC = (np.ndarray, np.complexfloating, np.datetime64, np.timedelta64)

_INTERRUPTIONS = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""What is not about a value, unlike all other errors: a panic of polars is no `Exception`, but may tell of one."""


@dataclass(frozen=True)
class Column:
    """One column of the data.

    Attributes
    ----------
    n_rows : int
        The number of rows.
    kind : {"number", "text", "object", "labels", "date"}
        What the column holds, according to its dtype.
    block : callable
        Return rows ``start`` to ``stop`` as an array: numbers, objects, moments, or indices into `labels`, -1 for
        missing.
    values : callable
        Return rows ``start`` to ``stop`` as Python values.
    dtype : str
        The name of the dtype, for error messages.
    labels : sequence or None
        The labels of a dictionary-encoded column.
    declared : bool
        Whether the labels belong to the dtype, rather than being collected from the values.
    boolean : bool
        Whether the dtype is Boolean.
    of : {"number", "text", "bytes", "object", "date", "nothing"} or None
        What single values, or labels, are according to the dtype, where `kind` does not say so.
    """

    n_rows: int
    kind: Literal["number", "text", "object", "labels", "date"]
    block: Callable[[int, int], Array]
    values: Callable[[int, int], Sequence[Any]]
    dtype: str
    labels: Sequence[Any] | None = None
    declared: bool = False
    boolean: bool = False
    of: str | None = None

    @property
    def kind_of_values(self) -> str:
        """What single values are, according to the dtype; "nothing" where it says that all are missing."""
        return self.of or self.kind

    def floats(self, start: int, stop: int) -> Array:
        """Return rows as float32 or float64, NaN where missing."""
        block = self.block(start, stop)
        return _objects_to_floats(block) if self.kind == "object" else as_floats(block)

    def check_numeric(self, where: str) -> None:
        """Raise an error if the dtype cannot hold numbers."""
        if self.kind not in ("number", "object"):
            raise TypeError(
                f"{where} has dtype {self.dtype}, where numbers are expected; convert it to numbers, or declare it "
                f"{'Date' if self.kind == 'date' else 'Categorical'} in the domain."
            )

    def moment_reader(self) -> Callable[[int, int], moments.Moments]:
        """Return a function that reads rows ``start`` to ``stop`` as moments, `NEVER` where missing or unreadable."""
        if self.kind == "date":
            return self.block
        if self.labels is not None:
            of_label = np.append(moments.of_values(self.labels), moments.NEVER)
            return lambda start, stop: of_label[self.block(start, stop)]  # -1, for a missing value, is the last entry
        if self.kind == "number":
            return lambda start, stop: np.full(stop - start, moments.NEVER)
        return lambda start, stop: moments.of_values(self.values(start, stop))

    def check_dates(self, where: str) -> None:
        """Raise an error if the dtype cannot hold dates.

        Columns of floats pass, because a column of text or objects without any value is often read as floats, all of
        them NaN.
        """
        if self.kind == "number" and not self.dtype.lower().startswith("float"):
            raise TypeError(
                f"{where} has dtype {self.dtype}, where dates are expected; convert it to dates, or declare it Numeric "
                "in the domain."
            )


@dataclass(frozen=True)
class Table:
    """Columns of equal length.

    Attributes
    ----------
    n_rows, n_columns : int
        The shape.
    column : callable
        Return a column by its index.
    names : list of str or None
        The names of the columns; None if columns are matched by position.
    matrix : ndarray or None
        The data, if they are an array of numbers.
    """

    n_rows: int
    n_columns: int
    column: Callable[[int], Column]
    names: list[str] | None = None
    matrix: Array | None = None


def is_kernel_ready(array: Array) -> bool:
    """Return whether the kernels can read an array in place."""
    return array.dtype in (np.float32, np.float64) and array.flags.aligned  # not in foreign byte order


def as_floats(block: Array) -> Array:
    """Return a block as float32 or float64; one that the kernels can read in place is not copied."""
    if is_kernel_ready(block):
        return block
    with np.errstate(over="ignore", invalid="ignore"):  # long doubles beyond float64 become infinite
        return block.astype(np.float64, order="C")


def _objects_to_floats(block: Array) -> npt.NDArray[np.float64]:
    # One value at a time, because no record may change what another one is encoded to: NumPy converts dates and numbers
    # differently if the same block holds a value that is neither.
    return np.fromiter(map(_object_to_float, block), dtype=np.float64, count=len(block))


def _object_to_float(value: Any) -> float:
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return math.nan if isinstance(value, _NEVER_NUMERIC) else float(value)
    except OverflowError:
        try:
            return math.inf if value > 0 else -math.inf
        except Exception:  # noqa: BLE001 -- comparison with a private value may raise anything
            return math.nan
    except Exception:  # noqa: BLE001 -- __float__ of a private value may raise anything
        return math.nan


def read_table(X: Any) -> Table:
    """Read the records; errors are about shapes, names and dtypes only. A `Table` is returned as it is."""
    if isinstance(X, Table):
        return X
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise TypeError("Sparse data are not supported: X is a sparse matrix; convert it with X.toarray().")
    X = _wrap_bare_columns(X)
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError:
        raise ValueError("X has two columns of the same name; rename one of them.") from None
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
    _array_column(array, "X")  # checks the dtype, also where there are no columns
    matrix = array if array.dtype.kind in "biuf" else None
    return Table(len(array), array.shape[1], lambda j: _array_column(array[:, j], "X"), matrix=matrix)


def table_of(columns: Mapping[str, Array]) -> Table:
    """Return arrays of equal length as a table, without a library of data frames."""
    found = [_array_column(array, f"Column {name!r}") for name, array in columns.items()]
    return Table(found[0].n_rows if found else 0, len(found), found.__getitem__, list(columns))


def read_target(y: Any) -> Column:
    """Read the targets, which are one column of classes or numbers."""
    column = read_column(y, "y")
    if column.kind == "date":
        raise TypeError(f"y has dtype {column.dtype}; convert dates to numbers first, such as days since a date.")
    return column


def read_column(values: Any, where: str) -> Column:
    """Read one column, such as the targets; errors call it ``where``."""
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
    """Refuse what Dask or Spark has on a cluster, which NumPy would fetch."""
    kind = type(values)
    if hasattr(values, "__dask_graph__"):
        raise TypeError(f"{where} is a Dask {kind.__name__}, which is not in memory; call its compute() first.")
    if kind.__module__.partition(".")[0] == "pyspark":
        raise TypeError(f"{where} is a Spark {kind.__name__}, which is not in memory; call its toPandas() first.")


def _read_frame(frame: nw.DataFrame[Any]) -> Table:
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise ValueError(f"X has two columns named {twice!r}; rename one of them.")
    columns = [
        _series_column(frame.get_column(original), f"Column {name!r} of X")
        for name, original in zip(names, frame.columns, strict=True)
    ]
    return Table(len(frame), len(names), columns.__getitem__, names)


def _wrap_bare_columns(values: Any) -> Any:
    """Wrap a bare pandas or pyarrow column in a series or table.

    NumPy would choose the dtype of a bare column by whether values are missing.
    """
    library = type(values).__module__.partition(".")[0]
    if library == "pyarrow":
        pyarrow: Any = importlib.import_module("pyarrow")
        if isinstance(values, pyarrow.Array):
            return pyarrow.chunked_array([values])
        if isinstance(values, pyarrow.RecordBatch):
            return pyarrow.Table.from_batches([values])
    if library == "pandas":
        pandas: Any = importlib.import_module("pandas")
        if isinstance(values, (pandas.Index, pandas.api.extensions.ExtensionArray)):
            return pandas.Series(values)
    return values


def _is_array(values: Any, where: str) -> bool:
    """Return whether values are an array, with a dtype, rather than a list or another iterable.

    The values of a list are read one by one. NumPy would choose one dtype for all of them, so that a record could
    change what others are encoded to, as a float among large integers does.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{where} is a masked array; fill it first, with NaN for what is missing.")
    return any(hasattr(values, name) for name in ("__array__", "__array_interface__", "__array_struct__"))


def _rows_to_array(rows: list[Any]) -> Array:
    """Return a list of rows as an array of objects; a cell may be a tuple, which NumPy would unpack."""
    if not rows or not isinstance(rows[0], (list, tuple, np.ndarray)):
        return object_array(rows)
    width = len(rows[0])
    if not all(isinstance(row, (list, tuple, np.ndarray)) and len(row) == width for row in rows):
        raise ValueError("X does not have rows of equal length; give a rectangular table.")
    array = np.empty((len(rows), width), dtype=object)
    for i, row in enumerate(rows):
        for j in range(width):
            array[i, j] = row[j]
    return array


def _unwrap_single(value: Any) -> Any:
    """Return the element of a list or array of one element, such as a row of a one-column target."""
    # A zero-dimensional array, such as np.ma.masked, has no length.
    shape = value.shape if isinstance(value, np.ndarray) else (len(value),) if isinstance(value, list) else ()
    return value[0] if shape == (1,) else value


def _refuse_durations(where: str, dtype: object) -> NoReturn:
    raise TypeError(f"{where} has dtype {dtype}; convert durations and times of the day to numbers first, as in hours.")


def _array_column(array: Array, where: str) -> Column:
    kind = array.dtype.kind
    if kind == "m":
        _refuse_durations(where, array.dtype)
    if kind == "M":
        return Column(
            len(array),
            "date",
            lambda start, stop: moments.of_array(array[start:stop]),
            lambda start, stop: array[start:stop].tolist(),
            str(array.dtype),
        )
    if kind == "c":
        raise ValueError(f"Complex data not supported: {where} has dtype {array.dtype}; give its parts as two columns.")
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
        of="bytes" if kind == "S" else None,
    )


def _series_column(series: nw.Series[Any], where: str) -> Column:
    native: Any = series.to_native()
    if series.implementation.is_pandas() and isinstance(native.dtype, np.dtype):
        return _array_column(native.to_numpy(), where)  # narwhals would guess the dtype of objects from their values
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
        return Column(len(series), "text", objects, values, name, of=of)
    if dtype == nw.Object or _has_null_dtype(native):
        return Column(len(series), "object", objects, values, name, of="nothing" if _has_null_dtype(native) else None)
    if dtype in (nw.Date, nw.Datetime):
        return Column(len(series), "date", _date_reader(_in_pyarrow(series, native)), values, name)
    if dtype.is_temporal():
        _refuse_durations(where, dtype)
    if not (dtype.is_numeric() or dtype == nw.Boolean):
        raise TypeError(f"{where} has dtype {dtype}, which is neither numbers nor text; convert it first.")
    floats = _floats_in_place(series, native)
    return _number_column(series, values) if floats is None else _array_column(floats, where)


def _number_column(series: nw.Series[Any], values: Callable[[int, int], Sequence[Any]]) -> Column:
    is_boolean = series.dtype == nw.Boolean
    return Column(len(series), "number", _number_reader(series), values, str(series.dtype), boolean=is_boolean)


def _value_reader(series: nw.Series[Any]) -> Callable[[int, int], Sequence[Any]]:
    """Return a function that reads rows as Python values; a value that cannot be read becomes one that is no level."""

    def value(at: int) -> Any:
        try:
            return series[at : at + 1].to_list()[0]
        except _INTERRUPTIONS:
            raise
        except BaseException:  # noqa: BLE001 -- an error would reveal that a value is invalid; polars may even panic
            return object()

    def values(start: int, stop: int) -> Sequence[Any]:
        try:
            return series[start:stop].to_list()
        except _INTERRUPTIONS:
            raise
        except BaseException:  # noqa: BLE001 -- one invalid value fails the block: read the others one by one
            return [value(at) for at in range(start, stop)]

    return values


def _in_pyarrow(series: nw.Series[Any], native: Any) -> nw.Series[Any]:
    """Return a column of pandas that Arrow backs as one of pyarrow: pandas 2 shifts it to UTC without its zone."""
    if not series.implementation.is_pandas() or type(native.dtype).__name__ != "ArrowDtype":
        return series
    return nw.from_native(_wrap_bare_columns(native.array.__arrow_array__()), series_only=True)


def _date_reader(series: nw.Series[Any]) -> Callable[[int, int], moments.Moments]:
    """Return a function that reads rows as moments: as the wall clock shows them, whatever the time zone."""

    def read(start: int, stop: int) -> moments.Moments:
        part = series[start:stop]
        if isinstance(part.dtype, nw.Datetime) and part.dtype.time_zone is not None:
            part = part.dt.replace_time_zone(None)
        array = part.to_numpy()
        return moments.of_array(array) if array.dtype.kind == "M" else moments.of_values(array.tolist())

    def block(start: int, stop: int) -> moments.Moments:
        try:
            return read(start, stop)
        except _INTERRUPTIONS:
            raise
        except BaseException:  # noqa: BLE001 -- an error about a date that is too far away would reveal it
            if stop - start == 1:
                return np.full(1, moments.NEVER)
        # In the same way, so that no record changes how another one is read.
        return np.concatenate([block(at, at + 1) for at in range(start, stop)])

    return block


def _has_null_dtype(native: Any) -> bool:
    """Return whether a column has the dtype of nulls, which does not say what the missing values are."""
    return str(getattr(native, "dtype", getattr(native, "type", ""))).lower().startswith("null")


def _floats_in_place(series: nw.Series[Any], native: Any) -> Array | None:
    """Return a column of floats as an array without a copy, or None if that is not possible."""
    implementation = series.implementation
    if not series.dtype.is_float():
        return None
    if implementation.is_polars() and native.n_chunks() == 1 and not native.null_count():
        return np.asarray(native.to_numpy())
    if implementation.is_pyarrow() and native.num_chunks == 1 and not native.null_count:
        return np.asarray(native.chunk(0).to_numpy())
    return None


def _number_reader(series: nw.Series[Any]) -> Callable[[int, int], Array]:
    """Return a function that reads rows of a column of numbers or Booleans as floats, NaN where missing."""
    dtype = series.dtype
    has_128_bits = dtype in (nw.Int128, nw.UInt128)  # NumPy has no such integers

    def block(start: int, stop: int) -> Array:
        part = series[start:stop]
        if has_128_bits or not (dtype.is_integer() or dtype == nw.Boolean):
            return part.cast(nw.Float32 if dtype == nw.Float32 else nw.Float64).to_numpy()
        # NumPy rounds integers beyond 2**53; pyarrow would raise an error.
        result = part.fill_null(False if dtype == nw.Boolean else 0).to_numpy().astype(np.float64)
        result[part.is_null().to_numpy()] = np.nan
        return result

    return block


def object_array(values: Sequence[Any]) -> Array:
    """Return values as an array of objects."""
    result = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):  # assigning all at once would unpack sequences
        result[i] = value
    return result


_Dictionary = tuple[Callable[[int, int], Array], list[Any], bool]
"""A reader of a column's indices into its labels, the labels, and whether these belong to the dtype."""


def _dictionary_encoding(series: nw.Series[Any], native: Any) -> _Dictionary | None:
    """Return the dictionary encoding of a categorical column, or None if it has none that can be read."""
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
    """Return what the labels of a categorical column are, according to its dtype."""
    arrow = getattr(native, "type", getattr(getattr(native, "dtype", None), "pyarrow_dtype", None))
    if arrow is not None and hasattr(arrow, "value_type"):  # pyarrow, or pandas that it backs
        labels: Any = importlib.import_module("pyarrow").chunked_array([], type=arrow.value_type)
    elif hasattr(native, "cat") and hasattr(native.cat, "categories"):  # pandas
        labels = native.cat.categories[:0]
    else:  # polars
        return "text"
    try:
        return read_column(labels, "labels").kind_of_values
    except (TypeError, ValueError):  # a dtype, such as that of durations, that only a column of labels may have
        return "object"


def _polars_dictionary(native: Any, *, is_enum: bool) -> _Dictionary:
    if is_enum:
        labels: list[Any] = native.dtype.categories.to_list()
        codes = np.arange(len(labels))
    else:  # the codes of a Categorical are shared by the whole process: keep those of this column
        distinct = native.drop_nulls().unique()
        labels, codes = distinct.to_list(), distinct.to_physical().to_numpy()
    index_of_code = np.full(int(np.max(codes, initial=0)) + 2, -1)  # its last entry is for nulls
    index_of_code[codes] = np.arange(len(labels))

    def indices(start: int, stop: int) -> Array:
        block: Array = native[start:stop].to_physical().cast(int).fill_null(-1).to_numpy()
        return index_of_code[block]

    return indices, labels, is_enum


def _arrow_dictionary(native: Any) -> _Dictionary | None:
    try:
        unified = native.unify_dictionaries()
        labels = unified.chunk(0).dictionary.to_pylist() if unified.num_chunks else []
    except Exception:  # noqa: BLE001 -- dictionaries with nulls or too many labels: read as text, with equal codes
        return None

    def indices(start: int, stop: int) -> Array:
        chunks = [c.indices.cast("int64").fill_null(-1) for c in unified.slice(start, stop - start).chunks]
        return np.concatenate([np.zeros(0, dtype=np.int64), *(c.to_numpy(zero_copy_only=False) for c in chunks)])

    return indices, labels, False


def python_value(value: Any) -> Any:
    """Convert a NumPy scalar to the equal Python value; return other values unchanged."""
    return value.item() if isinstance(value, (np.bool_, np.number, np.str_, np.bytes_)) else value


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas.NA, without importing pandas."""
    if value is None or type(value).__name__ == "NAType":
        return True
    try:
        return value.is_nan() if isinstance(value, Decimal) else bool(value != value)  # noqa: PLR0124 -- true of NaN
    except Exception:  # noqa: BLE001 -- __ne__ of a private value may raise anything
        return False


def row_blocks(start: int, stop: int, size: int = BLOCK_ROWS) -> Iterator[tuple[int, int]]:
    """Divide the rows from ``start`` to ``stop`` into blocks of at most ``size`` rows."""
    for a in range(start, stop, size):
        yield a, min(a + size, stop)
