"""Dask DataFrames as the rows of a fit. This module needs the extra ``diprime[dask]``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import dask.dataframe as dd
from dask import is_dask_collection

from diprime.domain import Domain
from diprime.engines.dask_executor import DaskPartitions, current_client, encode_on_workers
from diprime.engines.remote import Outcome, Sealed, encode_rows


class DaskTable:
    """A Dask DataFrame of records and a Dask Series of their targets, partition by partition.

    Parameters
    ----------
    X : dask.dataframe.DataFrame
        The records.
    y : dask.dataframe.Series
        The targets, in the same partitions.

    Attributes
    ----------
    no_rows : pandas.DataFrame
        The table without its rows: names and types of its columns.
    """

    def __init__(self, X: Any, y: Any) -> None:
        _check_kinds(X, y)
        _check_partitions(X, y)
        self._X, self._y = X, y
        self.no_rows = X._meta

    @contextmanager
    def partitions(self, domain: Domain, *, shown: bool) -> Iterator[DaskPartitions]:
        """Let the workers of the current client encode the rows, which stay there until the end of a block."""
        with closing(self._encoded(domain, shown=shown)) as partitions:
            yield partitions

    def _encoded(self, domain: Domain, *, shown: bool) -> DaskPartitions:
        """Let the workers encode the rows, and drop their tables."""
        client = current_client()
        domain.reader(self.no_rows)  # mistakes in names and types are told before anything is computed
        pairs = dd.map_partitions(
            _pair, self._X, self._y, meta=(None, "object"), enforce_metadata=False, align_dataframes=False
        )
        tables = client.compute(pairs.to_delayed())
        n = len(tables)
        return encode_on_workers(client, _encode, tables, [Sealed(domain)] * n, list(range(n)), shown=shown)


def _check_kinds(X: Any, y: Any) -> None:
    if not isinstance(X, dd.DataFrame):
        kind = type(X).__name__
        found = f"X is a Dask {kind}" if is_dask_collection(X) else f"y is a Dask collection, and X is a {kind}"
        raise TypeError(f"{found}; give a Dask DataFrame as X, or both in memory.")
    if not isinstance(y, dd.Series):
        raise TypeError(
            f"X is a Dask DataFrame, and y is a {type(y).__name__}; give a Dask Series as y, such as a column of the "
            "table that X is selected from."
        )


def _check_partitions(X: Any, y: Any) -> None:
    """Refuse targets that are not in the partitions of their records; lengths are compared where the rows are."""
    if X.npartitions != y.npartitions:
        raise ValueError(
            f"X has {X.npartitions} partitions, and y has {y.npartitions}; give columns of one Dask DataFrame, or "
            "repartition y as X."
        )
    if X.known_divisions and y.known_divisions and X.divisions != y.divisions:
        raise ValueError(
            "X and y are divided at different places of their index; give columns of one Dask DataFrame, or "
            "repartition y as X."
        )


def _pair(X: Any, y: Any) -> tuple[Any, Any]:
    """Return a partition of the records and that of their targets together."""
    return X, y


def _encode(table: tuple[Any, Any], domain: Sealed, number: int) -> Outcome:
    """Encode a partition on a worker."""
    X, y = table
    return encode_rows(Sealed(X), Sealed(y), domain, Sealed(number))
