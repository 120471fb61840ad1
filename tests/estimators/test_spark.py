"""Fits to Spark DataFrames: the models of fits in memory, bit for bit, whoever is lost; and predictions on them."""

import datetime as dt
import subprocess
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
    PrivateSearch,
)
from diprime.engines.spark_executor import SparkExecutor
from diprime.model.files import to_bytes
from tests.spark_sessions import (
    NEEDED,
    folders_of_states,
    kill_a_worker,
    kill_an_executor,
    logs,
    persisted,
)
from tests.watched_questions import before_question

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
    """Return rows with missing values, unknown levels and targets, and values out of range."""
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
    @pytest.mark.parametrize("name", ESTIMATORS)
    def test_the_model_is_that_of_a_fit_in_memory(self, spark, frame, here, name):
        fitted = on_spark(name, frame)
        assert digits(fitted) == digits(in_memory(name, here))
        assert fitted.feature_names_in_.tolist() == NAMES
        assert persisted(spark) == 0

    @pytest.mark.parametrize("n_partitions", [1, 5])
    def test_the_number_of_partitions_changes_nothing(self, spark, here, n_partitions):
        """Of five partitions, two have no rows."""
        rows, cuts = table(), {1: [N], 5: [0, 90, 250, N, N]}[n_partitions]
        parts = [rows[a:b] for a, b in zip([0, *cuts], cuts, strict=False)]
        rdd = spark.sparkContext.parallelize(parts, len(parts)).flatMap(lambda part: part)
        frame = spark.createDataFrame(rdd, SCHEMA)
        assert frame.rdd.getNumPartitions() == n_partitions
        assert digits(on_spark("boosted classes", frame)) == digits(in_memory("boosted classes", here))

    def test_whether_there_are_rows_makes_no_error(self, frame, here):
        """One row must not decide about it; Spark leaves out partitions where it finds that there are none."""
        none = frame.limit(0)
        assert none.rdd.getNumPartitions() == 0
        assert digits(on_spark("forest of classes", none)) == digits(in_memory("forest of classes", here[:0]))

    def test_a_budget_is_charged_once(self, frame):
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
        ("name", "number", "kill"), [("boosted numbers", 4, kill_a_worker), ("forest of classes", 4, kill_an_executor)]
    )
    def test_they_cost_time_only(self, spark, frame, here, monkeypatch, name, number, kill):
        before_question(monkeypatch, SparkExecutor, number, lambda: kill(spark))
        assert digits(on_spark(name, frame)) == digits(in_memory(name, here))

    def test_an_interrupted_fit_leaves_nothing(self, spark, frame, monkeypatch):
        before = folders_of_states(spark)  # an executor that was killed leaves one, which is empty

        def interrupt():
            assert persisted(spark) == 1
            assert folders_of_states(spark) > before
            raise KeyboardInterrupt

        before_question(monkeypatch, SparkExecutor, 2, interrupt)
        with pytest.raises(KeyboardInterrupt):
            on_spark("boosted numbers", frame)
        assert persisted(spark) == 0
        assert folders_of_states(spark) == before

    def test_rows_that_are_others_when_computed_again_are_refused(self, spark, frame, monkeypatch, tmp_path):
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

        before_question(monkeypatch, SparkExecutor, 4, lose)
        model = model_of("boosted classes")
        with pytest.raises(RuntimeError, match="its rows are not those of the first time, so there is no model"):
            model.fit(of_target(changing, "boosted classes"), "class")
        assert not hasattr(model, "forest_")
        assert persisted(spark) == 0


@pytest.fixture(scope="module", name="X")
def rows_with_classes(frame):
    return of_target(frame, "forest of classes")


class TestMistakes:
    """Errors are one sentence, come before a budget is charged, and leave nothing in the executors."""

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
        assert str(caught.value).count(". ") == 0
        return caught.value

    def test_a_target_that_is_no_name(self, X):
        self.check(TypeError, "y is a Column; give the name of the target's column", X, X["class"])
        self.check(TypeError, "y is a ndarray; give the name", X, np.zeros(N))

    def test_a_target_without_a_table(self, X):
        self.check(TypeError, "X is a ndarray, and not a DataFrame of pyspark.sql", np.zeros((N, 7)), X["class"])

    def test_a_target_that_is_not_there(self, X):
        self.check(ValueError, "X has no column named 'klass'", X, "klass")

    def test_a_target_that_is_there_twice(self, X):
        self.check(ValueError, "X has 2 columns named 'class'", X.select("*", "class"), "class")

    def test_lacking_and_other_columns(self, X):
        self.check(ValueError, "X lacks column 'age'", X.drop("age"), "class")
        self.check(ValueError, "has column 'years'", X.withColumnRenamed("age", "years"), "class")

    def test_a_stream(self, spark):
        self.check(ValueError, "X is a stream", spark.readStream.format("rate").load(), "value")

    def test_other_tables_of_spark(self, X):
        self.check(TypeError, "X is a PipelinedRDD, and not a DataFrame", X.rdd.map(tuple), "class")

    def test_spark_connect(self):
        Frame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})
        self.check(TypeError, "X is a DataFrame of Spark Connect", Frame(), "class")

    def test_a_session_that_was_stopped(self, X, monkeypatch):
        monkeypatch.setattr(X.sparkSession.sparkContext, "_jsc", None)
        try:
            self.check(ValueError, "The Spark session of X has been stopped", X, "class")
        finally:
            monkeypatch.undo()

    def test_groups(self, X):
        self.check(ValueError, "Groups cannot be given with tables on a cluster", X, "class", groups="kind")

    def test_an_open_domain(self, X):
        open_domain = Domain({**FEATURES, "age": Numeric()}, CLASSES.target)
        self.check(ValueError, "The domain is open", X, "class", domain=open_domain)

    def test_an_estimator_that_needs_all_rows(self, X):
        search = PrivateSearch(DiPriMeClassifier(domain=CLASSES), [{"max_depth": 1}, {"max_depth": 2}], epsilon=1)
        with Budget(1) as budget, pytest.raises(ValueError, match="needs all of its rows in this process"):
            search.fit(X, "class")
        assert budget.spent.epsilon == 0

    def test_data_that_cannot_be_computed_are_not_quoted(self, X):
        @functions.udf("double")
        def fail(age):
            raise ValueError("Jane Doe, 271828")

        error = self.check(RuntimeError, r"lost Spark or its data \(\w+\)", X.withColumn("age", fail("age")), "class")
        assert "Jane" not in str(error)
        assert error.__cause__ is None
        assert error.__suppress_context__

    def test_rows_to_explain(self, X, here):
        with pytest.raises(TypeError, match=r"X is a Spark DataFrame, which is not in memory; call its toPandas\(\)"):
            in_memory("boosted numbers", here).explain(X)


def test_a_step_that_fails_is_one_sentence_and_is_not_logged(spark, frame, monkeypatch):
    """Tasks do not fail, for Spark would write the text of their error to its logs."""
    before = folders_of_states(spark)
    advance = SparkExecutor.advance
    monkeypatch.setattr(SparkExecutor, "advance", lambda self, steps: advance(self, [_fail] * len(steps)))
    with (
        Budget(4) as budget,
        pytest.raises(RuntimeError, match=r"could not work on rows \(LookupError\)") as caught,
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


def test_what_spark_needs_is_told_where_it_is_lacking(monkeypatch):
    monkeypatch.setitem(sys.modules, "diprime.engines.spark_frames", None)
    Frame = type("DataFrame", (), {"__module__": "pyspark.sql.dataframe"})
    with pytest.raises(ImportError, match=r"Tables of Spark need pyspark.*pip install 'diprime\[spark\]'"):
        model_of("forest of classes").fit(Frame(), "class")


def test_the_package_does_not_import_spark():
    code = "import diprime, sys; assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture(scope="module", params=["forest of classes", "boosted numbers"])
def model(request, here):
    return in_memory(request.param, here)


class TestPredictions:
    """They are lazy, beside all columns of the rows."""

    def test_predictions(self, model, frame, here):
        predicted = model.predict(frame)
        assert predicted.columns == [*frame.columns, "prediction"]
        found = predicted.toPandas()
        assert (found["prediction"].to_numpy() == model.predict(here[NAMES])).all()
        pd.testing.assert_frame_equal(found[frame.columns], here)

    @pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba", "apply"])
    def test_a_column_for_each_class_or_tree(self, model, frame, here, method):
        if not hasattr(model, method):
            pytest.skip("regressors have no such method")
        found = getattr(model, method)(frame.drop("class"))
        expected = getattr(model, method)(here[NAMES])
        name = {"predict_proba": "probability", "predict_log_proba": "log_probability", "apply": "leaf"}[method]
        each = range(expected.shape[1]) if method == "apply" else ["high", "low", "mid"]
        names = [f"{name}_{one}" for one in each]
        assert found.columns == [*(c for c in frame.columns if c != "class"), *names]
        assert (found.select(names).toPandas().to_numpy() == expected).all()

    def test_lacking_columns_are_told_at_once(self, model, frame):
        with pytest.raises(ValueError, match="X lacks column 'age'"):
            model.predict(frame.drop("age"))

    def test_a_name_that_is_taken(self, model, frame):
        with pytest.raises(ValueError, match="X has a column 'prediction', which predict would add"):
            model.predict(frame.withColumn("Prediction", functions.lit(1)))

    def test_names_with_dots(self, spark):
        domain = Domain({"a.b": Numeric(0, 1), "c`d": Numeric(0, 1)}, Numeric(0, 1))
        schema = types.StructType([types.StructField(name, types.DoubleType()) for name in ["a.b", "c`d", "y.z"]])
        frame = spark.createDataFrame([(i / 40, 1 - i / 40, i / 40) for i in range(40)], schema)
        model = DiPriMeRegressor(epsilon=1, domain=domain, max_depth=1).fit(frame, "y.z")
        found = model.predict(frame).toPandas()["prediction"]
        assert (found.to_numpy() == model.predict(frame.toPandas()[["a.b", "c`d"]])).all()
