"""Fits to Spark DataFrames: the models of fits in memory, bit for bit, whoever is lost; and predictions on them."""

import datetime as dt
import sys
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyspark", reason="diprime[spark] is not installed")

from pyspark.sql import functions, types

from diprime import (
    Budget,
    Categorical,
    Date,
    DiPriMeBoostingClassifier,
    DiPriMeBoostingRegressor,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Domain,
    Numeric,
)
from diprime.model.files import to_bytes
from diprime.paper import DPRandomForestClassifier
from diprime.sources.spark.executor import SparkExecutor
from tests.spark_sessions import (
    NEEDED,
    folders_of_states,
    kill_a_worker,
    kill_an_executor,
    logs,
    persisted,
)
from tests.watched_queries import before_query

pytestmark = NEEDED

FEATURES = {
    "age": Numeric(0, 100),
    "n": Numeric(0, 50),
    "price": Numeric(0, 1000),
    "kind": Categorical(["a", "b", "c", "d"]),
    "member": Categorical([False, True]),
    "born": Date("1930-01-01", "2010-12-31"),
    "seen": Date("2020-01-01", "2029-12-31", parts=["weekday", "hour"]),
}
NAMES = list(FEATURES)
CLASSES = Domain(FEATURES, Categorical(["high", "low", "mid"]))
NUMBERS = Domain(FEATURES, Numeric(0, 10))
SCHEMA = (
    "age double, n int, price decimal(10, 2), kind string, member boolean, born date, seen timestamp, class string, "
    "number double"
)
ESTIMATORS = {
    "forest of classes": (DiPriMeClassifier, CLASSES, "class", {"n_estimators": 3, "max_depth": 2}),
    "forest of numbers": (DiPriMeRegressor, NUMBERS, "number", {"max_depth": 2}),
    "boosted classes": (DiPriMeBoostingClassifier, CLASSES, "class", {"n_rounds": 5}),
    "boosted numbers": (DiPriMeBoostingRegressor, NUMBERS, "number", {"n_rounds": 5}),
}
N = 400


def table():
    """Return rows with missing values, unknown categories and targets, and values out of range."""
    rng = np.random.default_rng(0)
    rows = []
    for age, n, kind, member in zip(
        rng.uniform(-5, 105, N), rng.integers(-5, 60, N), rng.choice(list("abcdz"), N), rng.random(N) < 0.3, strict=True
    ):
        number = float(np.clip(age / 20 + 4 * member + rng.normal(0, 0.5), -1, 11))
        row = [
            float(age),
            int(n),
            Decimal(int(rng.integers(0, 120_000))) / 100,
            str(kind),
            bool(member),
            dt.date(1925, 1, 1) + dt.timedelta(days=int(rng.integers(0, 32_000))),
            dt.datetime(2019, 6, 1) + dt.timedelta(minutes=int(rng.integers(0, 5_000_000))),
            "low" if number < 3 else "mid" if number < 6 else "high",
            number,
        ]
        rows.append([None if lost else value for value, lost in zip(row, rng.random(len(row)) < 0.05, strict=True)])
    return rows


def model_of(name, **others):
    estimator, domain, _, parameters = ESTIMATORS[name]
    return estimator(epsilon=4, domain=domain, random_state=1, **parameters, **others)


def digits(model):
    """Return all that a model file holds."""
    return to_bytes(model._to_content())


@pytest.fixture(scope="module")
def frame(spark):
    """Return the table in three partitions."""
    return spark.createDataFrame(spark.sparkContext.parallelize(table(), 3), SCHEMA)


@pytest.fixture(scope="module")
def here(frame):
    return frame.toPandas()


def of_target(frame, name):
    """Return the columns of the features and of the target."""
    return frame.select(*NAMES, ESTIMATORS[name][2])


def in_memory(name, here):
    return model_of(name).fit(here[NAMES], here[ESTIMATORS[name][2]])


def on_spark(name, frame, **others):
    return model_of(name, **others).fit(of_target(frame, name), ESTIMATORS[name][2])


class TestFit:
    # tests/matrix has the others
    @pytest.mark.parametrize("name", ["forest of numbers", "boosted classes"])
    def test_model_equals_a_fit_in_memory(self, spark, frame, here, name):
        fitted = on_spark(name, frame)
        assert digits(fitted) == digits(in_memory(name, here))
        assert fitted.feature_names_in_.tolist() == NAMES
        assert persisted(spark) == 0

    def test_table_without_rows_raises_no_error(self, frame, here):
        """One row must not decide about it; Spark leaves out partitions where it finds that there are none."""
        none = frame.limit(0)
        assert none.rdd.getNumPartitions() == 0
        assert digits(on_spark("forest of classes", none)) == digits(in_memory("forest of classes", here[:0]))

    def test_budget_is_charged_once(self, frame):
        with Budget(3) as budget:
            DiPriMeClassifier(epsilon=2, domain=CLASSES, max_depth=1).fit(
                of_target(frame, "forest of classes"), "class"
            )
        assert budget.spent.epsilon == 2

    def test_warnings_name_the_line_of_the_fit(self, frame):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            on_spark("forest of numbers", frame)
        assert [warning.filename for warning in caught if "random_state" in str(warning.message)] == [__file__]


class TestLostProcesses:
    @pytest.mark.parametrize(
        ("name", "number", "kill"),
        [
            ("boosted numbers", 4, kill_a_worker),
            pytest.param("forest of classes", 4, kill_an_executor, marks=pytest.mark.audit),
        ],
    )
    def test_lost_processes_do_not_change_the_model(self, spark, frame, here, monkeypatch, name, number, kill):
        before_query(monkeypatch, SparkExecutor, number, lambda: kill(spark))
        assert digits(on_spark(name, frame)) == digits(in_memory(name, here))

    def test_interrupted_fit_drops_its_rows_and_states(self, spark, frame, monkeypatch):
        before = folders_of_states(spark)  # an executor that was killed leaves one, which is empty

        def interrupt():
            assert persisted(spark) == 1
            assert folders_of_states(spark) > before
            raise KeyboardInterrupt

        before_query(monkeypatch, SparkExecutor, 2, interrupt)
        with pytest.raises(KeyboardInterrupt):
            on_spark("boosted numbers", frame)
        assert persisted(spark) == 0
        assert folders_of_states(spark) == before

    @pytest.mark.audit  # a new executor takes long; test_dask.py has the same test
    def test_changed_rows_of_a_lost_worker_are_refused(self, spark, frame, monkeypatch, tmp_path):
        """The executors lose their rows, and the source has changed by then."""
        source = tmp_path / "source"
        source.write_text("0")

        def read(rows):
            shift = float(source.read_text())
            return ((None if row[0] is None else row[0] + shift, *row[1:]) for row in rows)

        changing = spark.createDataFrame(frame.rdd.mapPartitions(read), SCHEMA)

        def lose():
            source.write_text("20")
            kill_an_executor(spark)

        before_query(monkeypatch, SparkExecutor, 4, lose)
        model = model_of("boosted classes")
        with pytest.raises(RuntimeError, match=r"rows .*changed"):
            model.fit(of_target(changing, "boosted classes"), "class")
        assert not hasattr(model, "forest_")
        assert persisted(spark) == 0


@pytest.fixture(scope="module", name="X")
def rows_with_classes(frame):
    return of_target(frame, "forest of classes")


class TestInvalidInput:
    """Errors are one line, come before a budget is charged, and leave nothing in the executors."""

    @pytest.fixture(autouse=True)
    def nothing_stays(self, spark):
        yield
        assert persisted(spark) == 0

    @staticmethod
    def check(error, message, X, y, **others):
        model = DiPriMeClassifier(epsilon=1, domain=others.pop("domain", CLASSES))
        with Budget(1) as budget, pytest.raises(error, match=message) as caught:
            model.fit(X, y, **others)
        assert budget.spent.epsilon == 0
        assert not hasattr(model, "forest_")
        assert "\n" not in str(caught.value)
        return caught.value

    def test_target_column_instead_of_a_name_is_refused(self, X):
        self.check(TypeError, r"y .*target column .*Column", X, X["class"])
        self.check(TypeError, r"y .*target column .*ndarray", X, np.zeros(N))

    def test_target_of_spark_for_rows_in_memory_is_refused(self, X):
        self.check(TypeError, r"X .*Spark DataFrame .*ndarray", np.zeros((N, 7)), X["class"])

    def test_missing_target_column_is_refused(self, X):
        self.check(ValueError, r"X .*no column .*'klass'", X, "klass")

    def test_duplicate_target_column_is_refused(self, X):
        self.check(ValueError, r"X has 2 columns .*'class'", X.select("*", "class"), "class")

    @pytest.mark.parametrize(
        "made",
        ["array(1)", "map('a', 1)", "struct(1)", "cast('a' as binary)", "interval '1' day", "interval '1' month"],
    )
    def test_unsupported_types_are_refused(self, X, made):
        """They are refused by the schema, for features and targets, and for predictions as well."""
        self.check(TypeError, r"'kind' of X .*unsupported type ", X.withColumn("kind", functions.expr(made)), "class")
        self.check(TypeError, r"'class' of X .*unsupported type ", X.withColumn("class", functions.expr(made)), "class")

    def test_unsupported_types_are_refused_for_predictions(self, X, here):
        other = X.withColumn("kind", functions.array("kind"))
        with pytest.raises(TypeError, match=r"'kind' of X .*unsupported type array<string>"):
            in_memory("boosted numbers", here).predict(other)

    def test_target_of_another_type_is_refused(self, X):
        self.check(TypeError, r"y has dtype .*dates", X.withColumn("class", X["seen"]), "class")

    def test_missing_and_extra_columns_are_refused(self, X):
        self.check(ValueError, "X lacks column 'age'", X.drop("age"), "class")
        self.check(ValueError, "1 other column", X.withColumnRenamed("age", "years"), "class")

    def test_streaming_table_is_refused(self, spark):
        self.check(ValueError, "Streaming DataFrames", spark.readStream.format("rate").load(), "value")

    def test_rdd_is_refused(self, X):
        self.check(TypeError, r"X .*Spark DataFrame .*PipelinedRDD", X.rdd.map(tuple), "class")

    def test_spark_connect_is_refused(self):
        Frame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})
        self.check(TypeError, r"X is a DataFrame .*Spark Connect", Frame(), "class")

    def test_stopped_session_is_refused(self, X, monkeypatch):
        monkeypatch.setattr(X.sparkSession.sparkContext, "_jsc", None)
        try:
            self.check(ValueError, r"session of X .*stopped", X, "class")
        finally:
            monkeypatch.undo()

    def test_groups_column_instead_of_a_name_is_refused(self, X):
        self.check(TypeError, r"groups .*column .*Column", X, "class", groups=X["kind"])

    def test_float_ids_are_refused(self, X):
        domain = Domain({name: FEATURES[name] for name in NAMES[1:]}, CLASSES.target)
        self.check(TypeError, r"groups .*floats", X, "class", groups="age", domain=domain)

    def test_type_that_does_not_fit_an_incomplete_domain_is_refused(self, X):
        open_domain = Domain({**FEATURES, "seen": Numeric()}, CLASSES.target)
        message = r"partition 0 .*'seen' has dtype .*declares numbers"
        self.check(ValueError, message, X, "class", domain=open_domain)

    def test_estimator_that_needs_all_rows_is_refused(self, X):
        baseline = DPRandomForestClassifier(epsilon=1, domain=CLASSES)
        with Budget(1) as budget, pytest.raises(ValueError, match=r"all rows .*process"):
            baseline.fit(X, "class")
        assert budget.spent.epsilon == 0

    def test_errors_of_the_data_are_not_quoted(self, X):
        @functions.udf("double")
        def fail(age):
            raise ValueError("Jane Doe, 271828")

        error = self.check(
            RuntimeError,
            r"Spark .*unavailable \(\w+\)",
            X.coalesce(1).withColumn("age", fail("age")),  # each try of each partition ends a process
            "class",
        )
        assert "Jane" not in str(error)
        assert error.__cause__ is None
        assert error.__suppress_context__

    def test_explaining_rows_on_a_cluster_is_refused(self, X, here):
        with pytest.raises(TypeError, match=r"X is a Spark DataFrame.*toPandas\(\)"):
            in_memory("boosted numbers", here).explain(X)


def test_failed_update_raises_one_line_and_is_not_logged(spark, frame, monkeypatch):
    """Tasks do not fail, for Spark would write the text of their error to its logs."""
    before = folders_of_states(spark)
    apply = SparkExecutor.apply
    monkeypatch.setattr(SparkExecutor, "apply", lambda self, updates: apply(self, [_fail] * len(updates)))
    with (
        Budget(4) as budget,
        pytest.raises(RuntimeError, match=r"work on rows \(LookupError\)") as caught,
    ):
        DiPriMeClassifier(epsilon=4, domain=CLASSES).fit(of_target(frame, "forest of classes"), "class")
    assert budget.spent.epsilon == 0  # the first step comes before anything is released
    assert "314159" not in str(caught.value)
    assert "Executor" in logs()
    assert "314159" not in logs()
    assert persisted(spark) == 0
    assert folders_of_states(spark) == before


def _fail(state, threads):
    raise LookupError("Jane Doe, 314159")


def test_missing_pyspark_raises_import_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "diprime.sources.spark", None)
    Frame = type("DataFrame", (), {"__module__": "pyspark.sql.dataframe"})
    with pytest.raises(ImportError, match=r"pyspark.*pip install 'diprime\[spark\]'"):
        model_of("forest of classes").fit(Frame(), "class")


@pytest.fixture(scope="module", params=["forest of classes", "boosted numbers"])
def model(request, here):
    return in_memory(request.param, here)


class TestPredictions:
    """They are lazy, beside all columns of the rows."""

    def test_predictions_are_lazy_and_equal_those_in_memory(self, model, frame, here):
        predicted = model.predict(frame)
        assert predicted.columns == [*frame.columns, "prediction"]
        found = predicted.toPandas()
        assert (found["prediction"].to_numpy() == model.predict(here[NAMES])).all()
        pd.testing.assert_frame_equal(found[frame.columns], here)

    @pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba", "apply"])
    def test_classes_and_trees_have_a_column_each(self, model, frame, here, method):
        if not hasattr(model, method):
            pytest.skip("regressors have no such method")
        found = getattr(model, method)(frame.drop("class"))
        expected = getattr(model, method)(here[NAMES])
        name = {"predict_proba": "probability", "predict_log_proba": "log_probability", "apply": "leaf"}[method]
        each = range(expected.shape[1]) if method == "apply" else ["high", "low", "mid"]
        names = [f"{name}_{one}" for one in each]
        assert found.columns == [*(c for c in frame.columns if c != "class"), *names]
        assert (found.select(names).toPandas().to_numpy() == expected).all()

    def test_far_times_are_read(self, spark):
        """Nanoseconds cannot hold them: neither fits nor predictions convert them, and no log quotes them."""
        far = [dt.datetime(9999, 12, 31, 23, 59), dt.datetime(1600, 1, 1), dt.datetime(2004, 7, 28)] * 20
        rows = spark.createDataFrame([(time, i / 60) for i, time in enumerate(far)], "seen timestamp, y double")
        domain = Domain({"seen": Date("2000-01-01", "2009-12-31")}, Numeric(0, 1))
        with Budget(1) as budget:
            DiPriMeRegressor(epsilon=1, domain=domain, max_depth=1).fit(rows, "y")
        assert budget.spent.epsilon == 1
        on_cluster, here = (DiPriMeRegressor(epsilon=1, domain=domain, random_state=0) for _ in range(2))
        table = rows.toArrow()
        on_cluster.fit(rows, "y")
        assert digits(on_cluster) == digits(here.fit(table.select(["seen"]), table["y"]))
        found = on_cluster.predict(rows).toArrow()
        assert found["prediction"].to_pylist() == here.predict(table.select(["seen"])).tolist()
        assert found["seen"] == table["seen"]
        assert "9999-12-31" not in logs()
        assert "1600-01-01" not in logs()

    def test_times_are_read_in_the_time_zone_of_the_session(self, spark):
        zone = spark.conf.get("spark.sql.session.timeZone")
        domain = Domain({"seen": Date("2000-01-01", "2000-01-02", parts=["hour"])}, Numeric(0, 1))
        spark.conf.set("spark.sql.session.timeZone", "GMT+03:00")
        try:
            rows = spark.sql("select timestamp'2000-01-01 05:30:00' as seen, 0.5d as y from range(50)")
            on_cluster, here = (DiPriMeRegressor(epsilon=9, domain=domain, random_state=0) for _ in range(2))
            on_cluster.fit(rows, "y")
            here.fit(pd.DataFrame({"seen": [dt.datetime(2000, 1, 1, 5, 30)] * 50}), np.full(50, 0.5))
            assert digits(on_cluster) == digits(here)
            assert on_cluster.predict(rows).first()["prediction"] == here.predict(
                pd.DataFrame({"seen": [dt.datetime(2000, 1, 1, 5, 30)]})
            )
        finally:
            spark.conf.set("spark.sql.session.timeZone", zone)

    @pytest.mark.parametrize("zone_of_test", ["Europe/Berlin", "America/New_York"])
    def test_farthest_times_are_missing(self, spark, zone_of_test):
        """Clocks cannot show them, and Spark fails at one: to the east the last, and to the west the first."""
        zone, times = spark.conf.get("spark.sql.session.timeZone"), (2**63 - 1, -(2**63) + 1, 0, None)
        spark.conf.set("spark.sql.session.timeZone", zone_of_test)
        try:
            rows = spark.createDataFrame([(0.5, time) for time in times], "y double, time long")
            rows = rows.select("y", functions.timestamp_micros("time").alias("seen"))
            found = Domain({"seen": Date("1960-01-01", "2009-12-31")}, Numeric(0, 1)).check(rows, "y")
        finally:
            spark.conf.set("spark.sql.session.timeZone", zone)
        assert vars(found.columns["seen"]) == {"below": 0, "above": 0, "unlisted": 0, "missing": 3, "unreadable": 0}

    def test_time_ids_are_instants_of_any_distance(self, spark):
        zone, times = spark.conf.get("spark.sql.session.timeZone"), (1635640200, 1635643800, -(10**11), 10**11)
        spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        try:
            rows = spark.createDataFrame([(0.5, time) for time in times] * 3, "x double, time long")
            rows = rows.select("x", functions.lit(0.5).alias("y"), functions.timestamp_seconds("time").alias("who"))
            found = Domain({"x": Numeric(0, 1)}, Numeric(0, 1)).check(rows, "y", groups="who")
        finally:
            spark.conf.set("spark.sql.session.timeZone", zone)
        assert found.persons.n_persons == 4, "half past two, both times, and two others"

    def test_missing_columns_of_predictions_are_refused_at_once(self, model, frame):
        with pytest.raises(ValueError, match="X lacks column 'age'"):
            model.predict(frame.drop("age"))

    def test_name_of_an_existing_column_is_refused(self, model, frame):
        with pytest.raises(ValueError, match=r"X .*'prediction'.* predict adds"):
            model.predict(frame.withColumn("Prediction", functions.lit(1)))

    def test_names_with_dots_are_read(self, spark):
        domain = Domain({"a.b": Numeric(0, 1), "c`d": Numeric(0, 1)}, Numeric(0, 1))
        schema = types.StructType([types.StructField(name, types.DoubleType()) for name in ["a.b", "c`d", "y.z"]])
        frame = spark.createDataFrame([(i / 40, 1 - i / 40, i / 40) for i in range(40)], schema)
        model = DiPriMeRegressor(epsilon=1, domain=domain, max_depth=1).fit(frame, "y.z")
        found = model.predict(frame).toPandas()["prediction"]
        assert (found.to_numpy() == model.predict(frame.toPandas()[["a.b", "c`d"]])).all()
