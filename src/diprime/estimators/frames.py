"""Tables on a cluster, seen from the estimators: which they are, and predictions on them.

Nothing of a cluster's library is imported before somebody gives such a table.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
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

    def partitions(self, domain: Domain, *, shown: bool) -> Partitions:
        """Encode the rows where they are; ``shown`` says whether to draw a progress bar."""


def _is_of_dask(values: Any) -> bool:
    return type(values).__module__.partition(".")[0] == "dask"


def distributed_table(X: Any, y: Any) -> DistributedTable | None:
    """Return the table of X and y if they are on a cluster, and None if they are in this process."""
    if not (_is_of_dask(X) or _is_of_dask(y)):
        return None
    return cast(DistributedTable, _dask_module("diprime.engines.dask_frames").DaskTable(X, y))


def _dask_module(name: str) -> Any:
    """Import a module that needs Dask."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ImportError("Tables of Dask need dask.dataframe and distributed; pip install 'diprime[dask]'.") from None


def on_frames(method: _Method) -> _Method:
    """Let a method that predicts rows take a table on a cluster, and return a lazy collection there.

    Where the method gives a number or a class for each row, that is a series. Where it gives several, it is a data
    frame, whose columns are the classes if there is one for each.
    """

    @wraps(method)
    def predict(self: Any, X: Any) -> Any:
        if not _is_of_dask(X):
            return method(self, X)
        predictor = copy.copy(self).set_params(n_jobs=1)  # a worker has threads for tasks, not for each of them
        return _dask_module("diprime.estimators.dask_frames").predict_partitions(X, predictor, method.__name__)

    return cast(_Method, predict)
