"""The benchmark of Spark compares equal models, and its report has a line for each fit."""

import pytest

pytest.importorskip("pyspark", reason="diprime[spark] is not installed")

from benchmarks.scale import on_spark
from diprime import DiPriMeClassifier
from tests.spark_sessions import NEEDED

pytestmark = [*NEEDED, pytest.mark.filterwarnings("ignore:This fit is not private:diprime.PrivacyWarning")]


def small_forest(*data, seed=0):
    return DiPriMeClassifier(epsilon=1, domain=on_spark.domain(), max_depth=1, random_state=seed).fit(*data)


def test_the_report(spark):
    lines = list(on_spark.report(spark, 20_000, 1, {"small forest": small_forest}))
    assert [line.split(" | ")[0] for line in lines if line.startswith("| small")] == ["| small forest"]
    assert "equal, bit for bit" in lines[-1]


def test_models_that_differ_are_noticed(spark):
    seeds = iter(range(100))
    with pytest.raises(AssertionError, match="the models differ"):
        list(on_spark.report(spark, 20_000, 1, {"any": lambda *data: small_forest(*data, seed=next(seeds))}))
