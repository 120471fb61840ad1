"""Predictions on Dask DataFrames. This module needs the extra ``diprime[dask]``."""

from __future__ import annotations

from typing import Any

import dask
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
    meta = _predict(X._meta, model, method)
    return X.map_partitions(_predict, dask.delayed(model), method, meta=meta, token=method)


def _predict(rows: pd.DataFrame, model: Any, method: str) -> pd.Series | pd.DataFrame:
    """Predict the rows of a partition, with its index."""
    predicted = getattr(model, method)(rows)
    if predicted.ndim == 1:
        return pd.Series(predicted, index=rows.index)
    columns = range(predicted.shape[1]) if method == "apply" else model.classes_  # a tree or a class each
    return pd.DataFrame(predicted, index=rows.index, columns=columns)
