"""Arrays, data frames and lists as columns that are read a block of rows at a time.

What a column is follows from its dtype alone, and so do the errors: never from the values met.
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

BLOCK_ROWS = 16_384
"""The most rows that are read, and where necessary copied, at a time."""

Array = npt.NDArray[Any]
"""An array of any dtype."""

_NO_NUMBERS = (np.ndarray, np.complexfloating, np.datetime64, np.timedelta64)


@dataclass(frozen=True)
class Column:
    """One column of the data.

    `block` gives rows start to stop as an array: numbers, objects, or places in `labels` (-1 for missing); `values`
    gives them as Python values. `kind` follows from the dtype alone, and so do the errors raised for it.
    """

    n_rows: int
    kind: Literal["number", "text", "object", "labels"]
    block: Callable[[int, int], Array]
    values: Callable[[int, int], Sequence[Any]]
    dtype: str
    labels: Sequence[Any] | None = None
    declared: bool = False  # the labels come from the dtype, not from the values
    boolean: bool = False

    def floats(self, start: int, stop: int) -> Array:
        """Return rows as float32 or float64, NaN where missing."""
        block = self.block(start, stop)
        return _objects_to_floats(block) if self.kind == "object" else as_floats(block)

    def check_numeric(self, where: str) -> None:
        """Refuse a column whose dtype does not hold numbers."""
        if self.kind not in ("number", "object"):
            raise TypeError(
                f"{where} has dtype {self.dtype}, where numbers are expected; convert it to numbers, or declare it "
                "Categorical in the domain."
            )


@dataclass(frozen=True)
class Table:
    """Columns of equal length."""

    n_rows: int
    n_columns: int
    column: Callable[[int], Column]
    names: list[str] | None = None  # None: columns are matched by position
    matrix: Array | None = None  # all the columns as numbers, where X is such an array


def is_kernel_ready(array: Array) -> bool:
    """Tell whether the kernels can read an array in place."""
    return array.dtype in (np.float32, np.float64) and array.flags.aligned  # in the machine's own byte order


def as_floats(block: Array) -> Array:
    """Return float32 and float64 as they are, for the kernels to read in place, and anything else as float64."""
    if is_kernel_ready(block):
        return block
    with np.errstate(over="ignore", invalid="ignore"):  # long doubles beyond float64 become infinite, and are clamped
        return block.astype(np.float64, order="C")


def _objects_to_floats(block: Array) -> npt.NDArray[np.float64]:
    # One by one: NumPy reads a block of dates and numbers differently if it also holds a value that is neither, and
    # no record may change what another one becomes.
    return np.fromiter(map(_object_to_float, block), dtype=np.float64, count=len(block))


def _object_to_float(value: Any) -> float:
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return math.nan if isinstance(value, _NO_NUMBERS) else float(value)
    except OverflowError:
        try:
            return math.inf if value > 0 else -math.inf
        except Exception:
            return math.nan
    except Exception:
        return math.nan


def read_table(X: Any) -> Table:
    """Read the records; only shapes, names and dtypes can be wrong."""
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise TypeError("Sparse data are not supported: X is a sparse matrix; convert it with X.toarray().")
    X = _as_column_or_frame(X)
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError:
        raise ValueError("X has two columns of the same name; rename one of them.") from None
    if isinstance(frame, nw.DataFrame):
        return _read_frame(frame)
    if hasattr(X, "collect") and hasattr(X, "lazy"):
        raise TypeError("X is a lazy frame; call its collect() first.")
    if isinstance(X, (str, bytes, Mapping)) or not (isinstance(X, Iterable) or _is_array(X, "X")):
        raise ValueError(
            f"Expected 2D array, got 0D array instead: X is a {type(X).__name__}; give an array, a list of rows or a "
            "data frame."
        )
    array = np.asarray(X) if _is_array(X, "X") else _rows_to_array(list(X))
    if array.ndim != 2:
        advice = (
            "Reshape your data either using array.reshape(-1, 1) if your data has a single feature or "
            "array.reshape(1, -1) if it contains a single sample."
        )
        raise ValueError(f"Expected 2D array, got {array.ndim}D array instead: X has shape {array.shape}. {advice}")
    _array_column(array, "X")  # for its checks of the dtype
    matrix = array if array.dtype.kind in "biuf" else None
    return Table(len(array), array.shape[1], lambda j: _array_column(array[:, j], "X"), matrix=matrix)


def read_target(y: Any) -> Column:
    """Read the targets: one column."""
    y = _as_column_or_frame(y)
    series = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return _series_column(series, "y")
    frame = nw.from_native(y, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        table = _read_frame(frame)
        if table.n_columns != 1:
            raise ValueError(f"y should be a 1d array, got a table of {table.n_columns} columns instead.")
        return table.column(0)
    if isinstance(y, (str, bytes, Mapping)) or not (isinstance(y, Iterable) or _is_array(y, "y")):
        raise ValueError(f"y should be a 1d array, got a {type(y).__name__} instead.")
    array = np.asarray(y) if _is_array(y, "y") else _to_objects([_unwrapped(value) for value in y])
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {array.shape} instead.")
    return _array_column(array, "y")


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


def _as_column_or_frame(values: Any) -> Any:
    """Put bare columns of pandas and pyarrow into a series or table: how NumPy reads them depends on missing values."""
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
    """Tell arrays, which have a dtype, from lists and the like.

    The values of a list stay what they are: one dtype for all, which NumPy would choose, lets a record change what
    others become, as a float among large integers does.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{where} is a masked array; fill it first, with NaN for what is missing.")
    return any(hasattr(values, name) for name in ("__array__", "__array_interface__", "__array_struct__"))


def _rows_to_array(rows: list[Any]) -> Array:
    """Return a list of rows as an array of objects, cell by cell, for a cell may be a tuple."""
    if not rows or not isinstance(rows[0], (list, tuple, np.ndarray)):
        return _to_objects(rows)
    width = len(rows[0])
    if not all(isinstance(row, (list, tuple, np.ndarray)) and len(row) == width for row in rows):
        raise ValueError("X does not have rows of equal length; give a rectangular table.")
    array = np.empty((len(rows), width), dtype=object)
    for i, row in enumerate(rows):
        for j in range(width):
            array[i, j] = row[j]
    return array


def _unwrapped(value: Any) -> Any:
    """Return what a list of one holds, as in a column of targets."""
    shape = value.shape if isinstance(value, np.ndarray) else (len(value),) if isinstance(value, list) else ()
    return value[0] if shape == (1,) else value  # an array may have no length at all: np.ma.masked is one


def _no_times(where: str, dtype: object) -> NoReturn:
    raise TypeError(f"{where} has dtype {dtype}; convert dates and times to numbers first, such as days since a date.")


def _array_column(array: Array, where: str) -> Column:
    kind = array.dtype.kind
    if kind in "mM":
        _no_times(where, array.dtype)
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
        "str" if kind in "US" else str(array.dtype),  # how long the longest text is, is nobody's business
        boolean=kind == "b",
    )


def _series_column(series: nw.Series[Any], where: str) -> Column:
    native: Any = series.to_native()
    implementation = series.implementation
    if implementation.is_pandas() and isinstance(native.dtype, np.dtype):
        return _array_column(native.to_numpy(), where)  # asked of pandas: narwhals guesses what objects are from values
    dtype = series.dtype
    if dtype.is_temporal():
        _no_times(where, dtype)

    name = str(dtype).partition("(")[0]  # without the categories

    def value(at: int) -> Any:
        try:
            return series[at : at + 1].to_list()[0]
        except Exception:  # text that is no text: it is not a level
            return object()

    def values(start: int, stop: int) -> Sequence[Any]:
        try:
            return series[start:stop].to_list()
        except Exception:
            return [value(at) for at in range(start, stop)]

    if dtype in (nw.Categorical, nw.Enum):
        dictionary = _dictionary(series, native)
        if dictionary is not None:
            places, labels, declared = dictionary
            return Column(len(series), "labels", places, values, name, labels, declared)
    if dtype in (nw.Categorical, nw.Enum, nw.String, nw.Binary):
        return Column(len(series), "text", lambda start, stop: _to_objects(values(start, stop)), values, name)
    nulls = str(getattr(native, "dtype", getattr(native, "type", ""))).lower().startswith("null")
    if nulls:  # nothing says of what
        return Column(len(series), "object", lambda start, stop: _to_objects(values(start, stop)), values, name)
    if dtype.is_numeric() or dtype == nw.Boolean:
        if dtype.is_float() and implementation.is_polars() and native.n_chunks() == 1 and not native.null_count():
            return _array_column(native.to_numpy(), where)  # no copy
        if dtype.is_float() and implementation.is_pyarrow() and native.num_chunks == 1 and not native.null_count:
            return _array_column(native.chunk(0).to_numpy(), where)  # no copy

        def block(start: int, stop: int) -> Array:
            part = series[start:stop]
            of_128_bits = dtype in (nw.Int128, nw.UInt128)  # which NumPy does not have
            if of_128_bits or not (dtype.is_integer() or dtype == nw.Boolean):
                return part.cast(nw.Float32 if dtype == nw.Float32 else nw.Float64).to_numpy()
            # Converted by NumPy, which rounds large integers where pyarrow fails on them.
            result = part.fill_null(False if dtype == nw.Boolean else 0).to_numpy().astype(np.float64)
            result[part.is_null().to_numpy()] = np.nan
            return result

        return Column(len(series), "number", block, values, name, boolean=dtype == nw.Boolean)
    if dtype == nw.Object:
        return Column(len(series), "object", lambda start, stop: _to_objects(values(start, stop)), values, name)
    raise TypeError(f"{where} has dtype {dtype}, which is neither numbers nor text; convert it first.")


def _to_objects(values: Sequence[Any]) -> Array:
    result = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):  # one by one: NumPy would unpack sequences
        result[i] = value
    return result


def _dictionary(series: nw.Series[Any], native: Any) -> tuple[Callable[[int, int], Array], list[Any], bool] | None:
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
        table = np.full(int(np.max(numbers, initial=0)) + 2, -1)  # its last entry is for nulls
        table[numbers] = np.arange(len(labels))

        def places(start: int, stop: int) -> Array:
            at: Array = native[start:stop].to_physical().cast(int).fill_null(-1).to_numpy()
            return table[at]

        return places, labels, series.dtype == nw.Enum
    if implementation.is_pyarrow():
        try:
            unified = native.unify_dictionaries()
            labels = unified.chunk(0).dictionary.to_pylist() if unified.num_chunks else []
        except Exception:  # nulls or too many labels in the chunks' dictionaries: read value by value, to the same end
            return None

        def indices(start: int, stop: int) -> Array:
            chunks = [c.indices.cast("int64").fill_null(-1) for c in unified.slice(start, stop - start).chunks]
            return np.concatenate([np.zeros(0, dtype=np.int64), *(c.to_numpy(zero_copy_only=False) for c in chunks)])

        return indices, labels, False
    return None


def python_value(value: Any) -> Any:
    """Turn a NumPy scalar into the Python value that it equals."""
    return value.item() if isinstance(value, (np.bool_, np.number, np.str_, np.bytes_)) else value


def is_missing(value: Any) -> bool:
    """Tell None, NaN, NaT and pandas.NA, without importing pandas."""
    if value is None or type(value).__name__ == "NAType":
        return True
    try:
        return value.is_nan() if isinstance(value, Decimal) else bool(value != value)
    except Exception:
        return False


def spans(start: int, stop: int, size: int = BLOCK_ROWS) -> Iterator[tuple[int, int]]:
    """Cut the rows from start to stop into blocks of at most `size`."""
    for a in range(start, stop, size):
        yield a, min(a + size, stop)
