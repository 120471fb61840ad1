"""The benchmark of Dask compares equal models, and its report has a line for each contender."""

import numpy as np
import pytest

pytest.importorskip("distributed", reason="diprime[dask] is not installed")

from benchmarks.scale import on_dask
from tests.dask_clusters import cluster

pytestmark = pytest.mark.filterwarnings(
    "ignore:This fit is not private:diprime.PrivacyWarning",
    # A cluster that is closed leaves sockets to the garbage collector.
    "ignore:unclosed:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


def test_the_report(monkeypatch):
    monkeypatch.setattr(on_dask, "boosting", lambda X, y, n_rounds=None: on_dask.forest(X, y))  # it takes long
    monkeypatch.setattr(on_dask, "lightgbm", lambda X, y: None)  # it need not be installed
    with cluster(2) as client:
        lines = list(on_dask.report(client, 2000, 1))
    rows = [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ")][1:]
    assert rows[:4] == ["forest, memory", "forest, dask", "boosting, memory", "boosting, dask"]
    assert rows[4:] == ["boosting, 10 rounds, dask", "LightGBM's Dask interface, 10 rounds"]
    assert "equal, bit for bit" in lines[-1]


def test_what_is_told_is_the_median_over_rounds_and_pairs():
    base = on_dask.Taken(np.array([[2.0, 1, 1], [4, 1, 1], [100, 1, 9]]), None)
    slower = on_dask.Taken(np.array([[3.0, 1, 1], [4, 1, 1], [200, 1, 1]]), None)
    assert base.median.tolist() == [4, 1, 1]
    assert slower.ratio(base) == 1.5


def test_models_that_differ_are_noticed(monkeypatch):
    made = iter(range(100))

    def forest(X, y):
        return on_dask.DiPriMeClassifier(epsilon=1, domain=on_dask.domain(), random_state=next(made)).fit(X, y)

    monkeypatch.setattr(on_dask, "forest", forest)
    with cluster(1) as client, pytest.raises(AssertionError, match="the models differ"):
        list(on_dask.report(client, 2000, 1))
