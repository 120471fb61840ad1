"""Spark DataFrames as sources. Requires the extra ``diprime[spark]``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions, types
from sklearn.utils.validation import check_is_fitted

from diprime.domain import Domain
from diprime.domain.records import DrawnPart, PersonDigests, Tally
from diprime.sources.protocol import Roles, RunOptions, Source, check_names
from diprime.sources.spark.executor import SparkPartitions, encoded, redact_cluster_errors, tallied
from diprime.sources.spark.workers import Columns, EncodingJob, TallyJob

T = TypeVar("T")


class SparkTable(Source):
    """Spark DataFrame of records, with columns of targets and groups."""

    def __init__(self, X: Any, roles: Roles) -> None:
        check_frame(X)
        _check_roles(X, roles)
        numbered = X.toDF(*map(str, range(len(X.columns))))  # names may differ in case only
        fields = enumerate(X.schema.fields)
        read = numbered.select(*(arrow_column(str(i), one, is_id=one.name == roles.groups) for i, one in fields))
        self._X = read.toDF(*X.columns)
        self._columns = Columns(X.columns, *roles)
        with redact_cluster_errors():
            self._nothing = self._X.limit(0).toArrow()

    def columns(self, roles: Roles) -> Any:
        """Return an empty pyarrow table of the features."""
        return self._nothing.drop_columns([name for name in roles if name is not None])

    def collect(
        self, tally: Tally[T], drawn: Sequence[DrawnPart] | None = None, *, domain: Domain, roles: Roles
    ) -> list[T]:
        """Tally each partition in the executors."""
        return tallied(self._X, TallyJob(self._columns, tally, drawn))

    @contextmanager
    def encode(self, domain: Domain, roles: Roles, options: RunOptions) -> Iterator[SparkPartitions]:
        """Encode the rows in the executors, which keep them until the end of the block. Spark shows the progress."""
        domain.reader(self.columns(roles))  # raise errors about names and types before anything is computed
        target, ids = (None if name is None else self._nothing[name] for name in roles)
        domain.encode_target(target)
        digests = None if ids is None else PersonDigests.of_kind(ids, domain.missing_texts)
        encoding = EncodingJob(domain, self._columns, digests, options.mark_outside, uuid4().bytes)
        with encoded(self._X, encoding) as partitions:
            yield partitions


def open_source(X: Any, y: Any, groups: Any) -> tuple[SparkTable, Roles]:
    """Return a Spark DataFrame as a source, and the names of its columns of targets and groups."""
    roles = Roles(y, groups)
    return SparkTable(X, roles), roles


_READ = (
    types.NumericType,
    types.StringType,
    types.CharType,
    types.VarcharType,
    types.BooleanType,
    types.DateType,
    types.TimestampType,
    types.TimestampNTZType,
    types.NullType,
)
"""Supported column types."""
FARTHEST = (1 << 63) - (1 << 38)
"""Limit of times, in microseconds from 1970. Spark may fail at farther times outside UTC, so they are missing."""


def arrow_column(name: str, field: types.StructField, *, is_id: bool = False) -> Column:
    """Return a column for Arrow in Python workers, with times in the session's time zone.

    Ids remain instants, because two instants have the same local time when clocks are set back. Arrow represents all
    times of Spark, whereas pandas would use nanoseconds, and fail at a single time outside their range.
    """
    if not isinstance(field.dataType, _READ):
        raise TypeError(
            f"Column {field.name!r} of X has the unsupported type {field.dataType.simpleString()}. Convert it "
            "to numbers, text or dates."
        )
    column = functions.col(f"`{name.replace('`', '``')}`")
    if is_id or not isinstance(field.dataType, types.TimestampType):
        return column
    first, last = (functions.timestamp_micros(functions.lit(end)) for end in (-FARTHEST, FARTHEST))
    return functions.when(column.between(first, last), column).cast("timestamp_ntz")


def check_frame(X: Any) -> None:
    """Refuse objects other than Spark DataFrames with executors."""
    if "connect" in type(X).__module__.split("."):
        raise TypeError(
            f"X is a {type(X).__name__} of Spark Connect, which is not supported. Run the script in the process "
            "of the Spark driver, for example with spark-submit."
        )
    if not isinstance(X, DataFrame):
        raise TypeError(f"X must be a Spark DataFrame or a table in memory, got a {type(X).__name__}.")
    if X.sparkSession.sparkContext._jsc is None:
        raise ValueError("The Spark session of X has been stopped. Start another one, and read X again.")
    if X.isStreaming:
        raise ValueError(
            "Streaming DataFrames are not supported. Pass a Spark DataFrame that is read from files or a table."
        )


def _check_roles(X: DataFrame, roles: Roles) -> None:
    for role, name, what in zip(("y", "groups"), roles, ("target", "person"), strict=True):
        if not (name is None or isinstance(name, str)):
            raise TypeError(
                f"X is a Spark DataFrame, so {role} must be the name of the {what} column in X, got a "
                f"{type(name).__name__}."
            )
    check_names(X.columns, roles)


NAMES = {
    "predict": "prediction",
    "predict_proba": "probability",
    "predict_log_proba": "log_probability",
    "decision_function": "decision",
    "apply": "leaf",
}
"""Column that a method adds. If it adds several, the class or the number of the tree is appended to each name."""

_TYPES: dict[str, type[types.DataType]] = {
    "b": types.BooleanType,
    "i": types.LongType,
    "f": types.DoubleType,
    "U": types.StringType,
}


def predict_partitions(X: Any, model: Any, method: str) -> Any:
    """Return the rows with the predictions of a method, as a lazy Spark DataFrame.

    Rows of Spark have no index, so the result contains all columns of X. Columns that are not in the domain are not
    read.
    """
    check_frame(X)
    check_is_fitted(model)
    known = [name for name in X.columns if name in model.domain_.column_names]
    inputs = [arrow_column(name, X.schema[name]) for name in known]
    nothing = X.select(*inputs).limit(0).toArrow().rename_columns(known)
    predicted = getattr(model, method)(nothing)  # for the type and shape
    names = _names(model, method, predicted)
    _check_names(names, X.columns, method)
    kind = _TYPES.get(predicted.dtype.kind)
    if kind is None:
        raise TypeError("The classes have several types, which a Spark column cannot contain. Predict in memory.")
    schema = types.StructType([types.StructField(name, kind()) for name in names])

    def predict(*columns: pa.Array) -> pa.Array:
        return _predicted(model, method, pa.table(list(columns), names=known), names)

    added = f"diprime_{uuid4().hex}"
    of_rows = functions.arrow_udf(predict, schema)(*inputs)
    return X.select("*", of_rows.alias(added)).select("*", f"{added}.*").drop(added)


def _predicted(model: Any, method: str, rows: pa.Table, names: Sequence[str]) -> pa.Array:
    """Return the predictions for some rows as a Spark struct column with one field per name."""
    predicted = getattr(model, method)(rows).reshape(rows.num_rows, len(names))
    return pa.StructArray.from_arrays([pa.array(column) for column in predicted.T], names=names)


def _names(model: Any, method: str, predicted: Any) -> list[str]:
    """Return the names of the columns that a method adds: one, or one per tree or class."""
    if predicted.ndim == 1:
        return [NAMES[method]]
    each = range(predicted.shape[1]) if method == "apply" else model.classes_
    return [f"{NAMES[method]}_{one}" for one in each]


def _check_names(names: Sequence[str], columns: Sequence[str], method: str) -> None:
    """Refuse names that already exist, ignoring case as Spark does."""
    taken = {name.lower() for name in columns}
    for name in names:
        if name.lower() in taken:
            raise ValueError(
                f"X has a column {name!r}, but {method} adds a column of this name. Rename or drop it first."
            )
    if len({name.lower() for name in names}) < len(names):
        raise ValueError(
            f"{method} would add several columns of the same name, because the names of some classes are too "
            "similar. Predict in memory."
        )
