"""Spark DataFrames as the rows of a fit. This module needs the extra ``diprime[spark]``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame

from diprime.domain import Domain
from diprime.engines.spark_executor import SparkPartitions, encoded, told


class SparkTable:
    """A Spark DataFrame of records, one of whose columns is the target.

    Parameters
    ----------
    X : pyspark.sql.DataFrame
        The records, with their targets.
    y : str
        The name of the column of the targets.

    Attributes
    ----------
    no_rows : pandas.DataFrame
        The columns of the records, without rows.
    """

    def __init__(self, X: Any, y: Any) -> None:
        check_frame(X)
        _check_target(X, y)
        self._X, self._y = X, y
        with told():
            self.no_rows = X.limit(0).toPandas().drop(columns=y)

    @contextmanager
    def partitions(self, domain: Domain, *, shown: bool) -> Iterator[SparkPartitions]:
        """Let the executors encode the rows, which stay there until the end of a block; Spark has a bar of its own."""
        domain.reader(self.no_rows)  # mistakes in names and types are told before anything is computed
        with encoded(self._X, self._y, domain) as partitions:
            yield partitions


def check_frame(X: Any) -> None:
    """Refuse what is no Spark DataFrame, or has no executors to fit in."""
    if "connect" in type(X).__module__.split("."):
        raise TypeError(
            f"X is a {type(X).__name__} of Spark Connect, which cannot keep encoded rows in the executors; run the "
            "script where Spark's driver is, for example with spark-submit."
        )
    if not isinstance(X, DataFrame):
        raise TypeError(
            f"X is a {type(X).__name__}, and not a DataFrame of pyspark.sql; give a Spark DataFrame, or a table in "
            "memory."
        )
    if X.sparkSession.sparkContext._jsc is None:
        raise ValueError("The Spark session of X has been stopped; start another one, and read X with it.")
    if X.isStreaming:
        raise ValueError("X is a stream, which has no end; give a Spark DataFrame that is read from files or a table.")


def _check_target(X: DataFrame, y: Any) -> None:
    if not isinstance(y, str):
        raise TypeError(
            f"X is a Spark DataFrame, and y is a {type(y).__name__}; give the name of the target's column in X."
        )
    n = X.columns.count(y)
    if n != 1:
        found = "no column" if n == 0 else f"{n} columns"
        raise ValueError(f"X has {found} named {y!r}; y is the name of the target's column in X.")
