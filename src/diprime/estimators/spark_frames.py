"""Predictions on Spark DataFrames. This module needs the extra ``diprime[spark]``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pandas as pd
from pyspark.sql import functions
from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, StructField, StructType
from sklearn.utils.validation import check_is_fitted

from diprime.engines.spark_frames import check_frame

NAMES = {
    "predict": "prediction",
    "predict_proba": "probability",
    "predict_log_proba": "log_probability",
    "decision_function": "decision",
    "apply": "leaf",
}
"""The column that a method adds; where it adds several, the class follows, or the number of the tree."""

_TYPES: dict[str, type[DataType]] = {"b": BooleanType, "i": LongType, "f": DoubleType, "U": StringType}


def predict_partitions(X: Any, model: Any, method: str) -> Any:
    """Return the rows with the predictions of a method, as a lazy Spark DataFrame.

    Rows of Spark have no index, so that all columns of X are kept, and those that the model does not know, such as
    keys, are not looked at.

    Parameters
    ----------
    X : pyspark.sql.DataFrame
        The rows.
    model : estimator
        The fitted estimator.
    method : str
        The name of its method.
    """
    check_frame(X)
    check_is_fitted(model)
    known = [name for name in X.columns if name in model.domain_.columns]
    inputs = [functions.col(f"`{name.replace('`', '``')}`") for name in known]
    predicted = getattr(model, method)(X.select(*inputs).limit(0).toPandas())  # for its type and shape
    names = _names(model, method, predicted)
    _check_names(names, X.columns, method)
    kind = _TYPES.get(predicted.dtype.kind)
    if kind is None:
        raise TypeError("The classes are of several types, which no column of Spark can hold; predict in memory.")
    schema = StructType([StructField(name, kind()) for name in names])

    def predict(*columns: pd.Series) -> pd.DataFrame:
        return _predicted(model, method, dict(zip(known, columns, strict=True)), names)

    added = f"diprime_{uuid4().hex}"
    of_rows = functions.pandas_udf(predict, schema)(*inputs)
    return X.select("*", of_rows.alias(added)).select("*", f"{added}.*").drop(added)


def _predicted(model: Any, method: str, columns: dict[str, pd.Series], names: Sequence[str]) -> pd.DataFrame:
    """Return the predictions on some rows, as columns of Spark."""
    rows = pd.DataFrame(columns)
    predicted = getattr(model, method)(rows)
    return pd.DataFrame(predicted.reshape(len(rows), len(names)), columns=names)


def _names(model: Any, method: str, predicted: Any) -> list[str]:
    """Return the names of the columns that a method adds: one, or one for each tree or class."""
    if predicted.ndim == 1:
        return [NAMES[method]]
    each = range(predicted.shape[1]) if method == "apply" else model.classes_
    return [f"{NAMES[method]}_{one}" for one in each]


def _check_names(names: Sequence[str], columns: Sequence[str], method: str) -> None:
    """Refuse names that there are already, in upper case or lower case: Spark does not tell these apart."""
    taken = {name.lower() for name in columns}
    for name in names:
        if name.lower() in taken:
            raise ValueError(f"X has a column {name!r}, which {method} would add; rename or drop it first.")
    if len({name.lower() for name in names}) < len(names):
        raise ValueError(f"The classes are alike as names of columns of Spark, which {method} adds; predict in memory.")
