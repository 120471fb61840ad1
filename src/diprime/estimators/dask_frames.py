"""Predictions on Dask DataFrames. This module needs the extra ``diprime[dask]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import dask.dataframe as dd
import pandas as pd


def predict_partitions(X: Any, model: Any, method: str) -> Any:
    """Return the predictions of a method on every partition, as a lazy Dask Series or DataFrame.

    Parameters
    ----------
    X : dask.dataframe.DataFrame
        The rows.
    model : estimator
        The fitted estimator.
    method : str
        The name of its method.
    """
    if not isinstance(X, dd.DataFrame):
        raise TypeError(f"X is a {type(X).__name__} of Dask; give a Dask DataFrame with the columns of the domain.")
    predictor = _Predictor(model, method)
    return X.map_partitions(predictor, meta=predictor(X._meta), token=method)


@dataclass(frozen=True, repr=False, eq=False)
class _Predictor:
    """The predictions of a method on the rows of a partition.

    Attributes
    ----------
    model : estimator
        The fitted estimator.
    method : str
        The name of its method.
    """

    model: Any
    method: str

    def __call__(self, rows: pd.DataFrame) -> pd.Series | pd.DataFrame:
        """Predict rows; the result has their index."""
        predicted = getattr(self.model, self.method)(rows)
        if predicted.ndim == 1:
            return pd.Series(predicted, index=rows.index)
        columns = range(predicted.shape[1]) if self.method == "apply" else self.model.classes_  # a tree or a class each
        return pd.DataFrame(predicted, index=rows.index, columns=columns)

    def __dask_tokenize__(self) -> str:
        """Return a name of its own: to compare models takes longer than to predict once more."""
        return uuid4().hex
