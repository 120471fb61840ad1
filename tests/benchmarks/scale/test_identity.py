"""The benchmark of equal models fits the same rows everywhere, and notices a model that differs."""

from functools import partial

import pytest

from benchmarks.scale import identity
from benchmarks.scale.identity import FEATURES, Table, in_memory, make_rows
from tests.spark_sessions import needs_spark

WITHOUT_CLUSTERS = {name: way for name, way in identity.WAYS.items() if not name.startswith(("Dask", "Spark"))}


def test_rows_contain_all_difficult_values():
    rows = make_rows(2000)
    assert rows.isna().any().all()
    assert {"unknown"} < set(rows["kind"])
    assert {"unknown"} < set(rows["classification"])
    assert rows["age"].min() < 0
    assert rows["age"].max() > 100
    assert list(rows)[: len(FEATURES)] == list(FEATURES)


@pytest.mark.audit
def test_models_from_memory_and_files_are_identical(monkeypatch, tmp_path):
    monkeypatch.setattr(identity, "WAYS", WITHOUT_CLUSTERS)
    lines = list(identity.report(600, tmp_path))
    rows = [line.split(" | ") for line in lines if "`" in line and line.startswith("| ")]
    assert [row[0] for row in rows] == [f"| {name}" for name in WITHOUT_CLUSTERS]
    assert len({tuple(row[1:]) for row in rows}) == 1
    assert len(set(rows[0][1:])) == 4
    assert not list(tmp_path.iterdir())


@pytest.mark.audit
def test_models_from_dask_are_identical(tmp_path):
    pytest.importorskip("distributed", reason="diprime[dask] is not installed")
    table = Table(tmp_path, 600)
    on_dask = identity.digests(identity.WAYS["Dask, 1 worker"], table)
    assert on_dask == identity.digests(in_memory, table)


@pytest.mark.audit
@needs_spark
def test_models_from_spark_are_identical(spark, tmp_path):
    table, forests = Table(tmp_path, 600), [("forest", "classification"), ("forest", "regression")]
    in_spark = identity.digests(partial(identity.fit_on, spark), table, forests)
    assert in_spark == identity.digests(in_memory, table, forests), "and tests/sources/test_spark.py has boosting"


def test_different_model_is_an_error(monkeypatch, tmp_path):
    def fewer_rows(models, table):
        table.frame = table.frame[:-100]
        in_memory(models, table)

    monkeypatch.setattr(identity, "WAYS", {"memory": in_memory, "elsewhere": fewer_rows})
    with pytest.raises(AssertionError, match="Models of elsewhere differ"):
        list(identity.report(600, tmp_path))
