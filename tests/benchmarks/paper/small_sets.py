"""Small made-up data sets in the shape of the benchmarks' real ones."""

import numpy as np
import pandas as pd

from benchmarks.data import Dataset
from benchmarks.paper.tables import POWERS
from diprime import Categorical, Domain, Numeric
from tests.small_data import make

COLUMNS = ["a", "b", "c", "d"]


def numeric_set(task):
    """Return a data set of four numeric features."""
    X, y = make(task, 300)
    frame = pd.DataFrame(np.nan_to_num(X), columns=COLUMNS)
    if task == "classification":
        y = (y == "a").astype(int)
    target = Numeric(0, 10) if task == "regression" else Categorical([0, 1])
    domain = Domain({name: Numeric(0, 1000) for name in frame}, target)
    return Dataset(task, task, task, frame, y, domain, (), (), epsilon=1.0, min_leaf=25, max_features=2)


def named_set(name, n_rows=600):
    """Return a data set of three numeric features and a categorical one under the name of a real one."""
    task = "regression" if name in POWERS else "classification"
    X, y = make(task, n_rows)
    frame = pd.DataFrame(np.nan_to_num(X), columns=COLUMNS)
    frame["b"] = (frame["b"] % 3).round()
    frame["d"] = np.arange(n_rows) % 3.0
    if task == "regression":
        y = (y - y.min()) / (y.max() - y.min())
        target = Numeric(0, 1)
    else:
        y, target = (y == "a").astype(int), Categorical([0, 1])
    features = {c: Numeric(float(frame[c].min()), float(frame[c].max())) for c in "abc"}
    features["d"] = Categorical(sorted(frame["d"].unique().tolist()))
    domain = Domain(features, target)
    return Dataset(name, name, task, frame, y, domain, ("d",), ("b", "d"), epsilon=2.0, min_leaf=10, max_features=2)
