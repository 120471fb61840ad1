"""The benchmark of equal models fits the same rows everywhere, and notices a model that differs."""

from functools import partial

import pytest

from benchmarks.scale import identity
from benchmarks.scale.identity import FEATURES, Table, in_memory, make_rows
from tests.spark_sessions import needs_spark

WITHOUT_CLUSTERS = {name: way for name, way in identity.WAYS.items() if not name.startswith(("Dask", "Spark"))}


def test_rows_have_all_that_is_hard():
    rows = make_rows(2000)
    assert rows.isna().any().all()
    assert {"unknown"} < set(rows["kind"])
    assert {"unknown"} < set(rows["classification"])
    assert rows["age"].min() < 0
    assert rows["age"].max() > 100
    assert list(rows)[: len(FEATURES)] == list(FEATURES)


def test_models_are_the_same_in_memory_and_from_files(monkeypatch, tmp_path):
    monkeypatch.setattr(identity, "WAYS", WITHOUT_CLUSTERS)
    lines = list(identity.report(600, tmp_path))
    rows = [line.split(" | ") for line in lines if "`" in line and line.startswith("| ")]
    assert [row[0] for row in rows] == [f"| {name}" for name in WITHOUT_CLUSTERS]
    assert len({tuple(row[1:]) for row in rows}) == 1
    assert len(set(rows[0][1:])) == 4
    assert not list(tmp_path.iterdir())


def test_models_are_the_same_on_dask(tmp_path):
    pytest.importorskip("distributed", reason="diprime[dask] is not installed")
    table = Table(tmp_path, 600)
    on_dask = identity.digests(identity.WAYS["Dask, 1 worker"], table)
    assert on_dask == identity.digests(in_memory, table)


@needs_spark
def test_models_are_the_same_in_spark(spark, tmp_path):
    table, forests = Table(tmp_path, 600), [("forest", "classification"), ("forest", "regression")]
    in_spark = identity.digests(partial(identity.fit_on, spark), table, forests)
    assert in_spark == identity.digests(in_memory, table, forests), "and tests/estimators/test_spark.py has boosting"


def test_a_model_that_differs_is_an_error(monkeypatch, tmp_path):
    def fewer_rows(models, table):
        table.frame = table.frame[:-100]
        in_memory(models, table)

    monkeypatch.setattr(identity, "WAYS", {"memory": in_memory, "elsewhere": fewer_rows})
    with pytest.raises(AssertionError, match="Models of elsewhere differ"):
        list(identity.report(600, tmp_path))
