"""Tables on a cluster, seen from the estimators: which they are, and predictions on them.

Nothing of a cluster's library is imported before somebody gives such a table.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from diprime.domain import Domain
from diprime.engines.partition import Partitions

GROUPS_ON_CLUSTER = (
    "Groups cannot be given with tables on a cluster, because the records of each person are chosen in one process; "
    "give tables in memory, or one record of each person."
)

_Method = TypeVar("_Method", bound=Callable[..., Any])


class DistributedTable(Protocol):
    """Records and targets in partitions on a cluster.

    Attributes
    ----------
    no_rows : data frame
        The table of the records without its rows.
    """

    @property
    def no_rows(self) -> Any:
        """The table of the records without its rows."""

    def partitions(self, domain: Domain, *, shown: bool) -> AbstractContextManager[Partitions]:
        """Encode the rows where they are, for as long as a block lasts; ``shown`` asks for a progress bar."""


@dataclass(frozen=True)
class _Library:
    """A library of tables on clusters.

    Attributes
    ----------
    frames : str
        The name of the modules for its tables.
    table : str
        The class of its tables, in the module of the engines.
    lacking : str
        What an error says where it cannot be imported.
    """

    frames: str
    table: str
    lacking: str

    def module(self, package: str) -> Any:
        """Import a module that needs the library."""
        try:
            return importlib.import_module(f"diprime.{package}.{self.frames}")
        except ImportError:
            raise ImportError(self.lacking) from None


_LIBRARIES = {
    "dask": _Library(
        "dask_frames", "DaskTable", "Tables of Dask need dask.dataframe and distributed; pip install 'diprime[dask]'."
    ),
    "pyspark": _Library(
        "spark_frames", "SparkTable", "Tables of Spark need pyspark, pandas and pyarrow; pip install 'diprime[spark]'."
    ),
}


def _library_of(values: Any) -> _Library | None:
    """Return the library of a table on a cluster, and None for all that is in this process."""
    return _LIBRARIES.get(type(values).__module__.partition(".")[0])


def distributed_table(X: Any, y: Any) -> DistributedTable | None:
    """Return the table of X and y if they are on a cluster, and None if they are in this process."""
    library = _library_of(X) or _library_of(y)
    if library is None:
        return None
    return cast(DistributedTable, getattr(library.module("engines"), library.table)(X, y))


def on_frames(method: _Method) -> _Method:
    """Let a method that predicts rows take a table on a cluster, and return a lazy collection there.

    With Dask, where the method gives a number or a class for each row, that is a series. Where it gives several, it is
    a data frame, whose columns are the classes if there is one for each. With Spark, whose rows have no index, it is
    the table with further columns.
    """

    @wraps(method)
    def predict(self: Any, X: Any) -> Any:
        library = _library_of(X)
        if library is None:
            return method(self, X)
        predictor = copy.copy(self).set_params(n_jobs=1)  # a worker has threads for tasks, not for each of them
        return library.module("estimators").predict_partitions(X, predictor, method.__name__)

    return cast(_Method, predict)
