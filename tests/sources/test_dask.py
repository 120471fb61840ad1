"""Fits to Dask DataFrames: the models of fits in memory, bit for bit, whoever is lost; and predictions on them."""

import asyncio
import gc
import io
import logging
import math
import os
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from diprime import (
    Budget,
    Categorical,
    DiPriMeBoostingClassifier,
    DiPriMeBoostingRegressor,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Domain,
    Numeric,
    private_score,
)
from diprime.model.files import to_bytes
from diprime.paper import DPRandomForestClassifier

distributed = pytest.importorskip("distributed", reason="diprime[dask] is not installed")
dd = pytest.importorskip("dask.dataframe", reason="diprime[dask] is not installed")

import dask  # noqa: E402 -- needs Dask

from diprime.sources.dask import executor as dask_executor  # noqa: E402 -- needs Dask
from tests.dask_clusters import (  # noqa: E402 -- needs Dask
    before_encoding,
    before_query,
    cluster,
    kill_a_worker,
    lose_scheduler,
    replicate,
    scheduler_process,
    wait_until,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:This fit is not private. random_state:diprime.PrivacyWarning",  # seeds make fits comparable
    # Workers that are killed, or whose cluster is closed, leave sockets to the garbage collector.
    "ignore:unclosed:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)

FEATURES = {
    "age": Numeric(0, 100),
    "size": Numeric(1, 1000, scale="log"),
    "kind": Categorical(["a", "b", "c", "d"]),
    "side": Categorical([0, 1]),
}
NAMES = list(FEATURES)
CLASSES = Domain(FEATURES, Categorical(["high", "low", "mid"]))
NUMBERS = Domain(FEATURES, Numeric(0, 10))
N = 700

ESTIMATORS = {
    "forest of classes": (DiPriMeClassifier, CLASSES, {"n_estimators": 3}),
    "forest of numbers": (DiPriMeRegressor, NUMBERS, {}),
    "trees of all rows": (DiPriMeClassifier, CLASSES, {"n_estimators": 2, "disjoint_rows": False, "max_depth": 2}),
    "boosted classes": (DiPriMeBoostingClassifier, CLASSES, {"n_rounds": 8}),
    "boosted numbers": (DiPriMeBoostingRegressor, NUMBERS, {"n_rounds": 8}),
}


def table(domain, n=N):
    """Return rows with missing values, unknown categories and targets, and values out of range."""
    rng = np.random.default_rng(0)
    age = rng.uniform(-5, 105, n)
    kind = rng.choice(np.array(["a", "b", "c", "d", "z"], dtype=object), n)
    side = rng.integers(0, 2, n).astype(float)
    signal = np.clip(age / 20 + 4 * side + rng.normal(0, 0.5, n), 0, 10)
    target = signal if domain is NUMBERS else np.digitize(signal, [3, 6]).astype(object)
    if domain is CLASSES:
        target = np.array(["low", "mid", "high"], dtype=object)[target.astype(int)]
    frame = pd.DataFrame({"age": age, "size": rng.lognormal(3, 2, n), "kind": kind, "side": side, "target": target})
    return frame.mask(rng.random(frame.shape) < 0.05)


def model_of(name, **others):
    estimator, domain, parameters = ESTIMATORS[name]
    return estimator(epsilon=4, domain=domain, random_state=1, **parameters, **others)


def in_memory(name):
    frame = table(ESTIMATORS[name][1])
    return model_of(name).fit(frame[NAMES], frame["target"])


def on_dask(name, npartitions=5, **others):
    frame = dd.from_pandas(table(ESTIMATORS[name][1]), npartitions=npartitions)
    model = model_of(name, **others)
    return model.fit(frame, "target") if npartitions % 2 else model.fit(frame[NAMES], frame["target"])


def digits(model):
    """Return all that a model file holds."""
    return to_bytes(model._to_content())


# Of the scope of a class: a fit takes the client that was made last.


@pytest.fixture(scope="class", params=[pytest.param(1, marks=pytest.mark.audit), 3])
def client(request):
    with cluster(request.param) as client:
        yield client


@pytest.fixture(scope="class")
def one_worker():
    with cluster(1) as client:
        yield client


@pytest.fixture(scope="class")
def processes():
    with cluster(2, processes=True) as client:
        yield client


@pytest.fixture(scope="class", params=["forest of classes", "boosted classes", "forest of numbers"])
def model(request):
    return in_memory(request.param)


@pytest.fixture(scope="class")
def rows():
    return table(CLASSES)[NAMES]


class TestFit:
    @pytest.mark.parametrize(
        "name", ["forest of numbers", "trees of all rows", "boosted classes"]
    )  # tests/matrix has the others
    def test_model_equals_a_fit_in_memory(self, client, name):
        assert digits(on_dask(name)) == digits(in_memory(name))

    def test_columns_may_be_in_any_order(self, client):
        frame = dd.from_pandas(table(CLASSES), npartitions=3)
        fitted = model_of("forest of classes").fit(frame[NAMES[::-1]], frame["target"])
        assert digits(fitted) == digits(in_memory("forest of classes"))
        assert fitted.feature_names_in_.tolist() == NAMES

    def test_fit_leaves_nothing_on_the_cluster(self, client):
        gc.disable()  # nothing waits until Python looks for cycles of references
        try:
            on_dask("boosted numbers")
            wait_until(lambda: not any(client.has_what().values()))
        finally:
            gc.enable()

    @pytest.mark.parametrize("reason", ["source", "step", "coordinator"])
    def test_failed_fit_leaves_nothing_on_the_cluster(self, client, monkeypatch, reason):
        """Their errors are kept, as an interactive session does, and with them all that the fit had in hand."""
        frame = dd.from_pandas(table(CLASSES), npartitions=6)
        X, y, errors = frame[NAMES], frame["target"], []
        if reason == "source":
            X = X.map_partitions(_fail_late, meta=X._meta)
        elif reason == "step":
            monkeypatch.setattr("diprime.execution.remote.PartitionBundle._apply", _fail)
        for _ in range(3):
            if reason == "coordinator":
                before_query(monkeypatch, 3, _interrupt)
            with pytest.raises((RuntimeError, KeyboardInterrupt)) as caught:
                model_of("boosted classes").fit(X, y)
            errors.append(caught.value)
            wait_until(lambda: not any(client.has_what().values()))

    def test_tables_are_dropped_after_encoding(self, client, monkeypatch):
        found = []

        def look():
            wait_until(lambda: len(_names_of_results(client)) < 5)
            found.extend(_names_of_results(client))

        before_query(monkeypatch, 2, look)
        on_dask("boosted numbers")
        assert found
        assert all("diprime-" in name for name in found)

    def test_budget_is_charged_once(self, client):
        frame = dd.from_pandas(table(CLASSES), npartitions=2)
        with Budget(3) as budget:
            DiPriMeClassifier(epsilon=2, domain=CLASSES).fit(frame[NAMES], frame["target"])
        assert budget.spent.epsilon == 2


@pytest.mark.usefixtures("one_worker")
class TestInvalidInput:
    """Errors are one line, and come before a budget is charged."""

    @staticmethod
    def frames(npartitions=3):
        frame = dd.from_pandas(table(CLASSES), npartitions=npartitions)
        return frame[NAMES], frame["target"]

    def check(self, error, message, X, y, **others):
        model = DiPriMeClassifier(epsilon=1, domain=others.pop("domain", CLASSES))
        with Budget(1) as budget, pytest.raises(error, match=message) as caught:
            model.fit(X, y, **others)
        assert budget.spent.epsilon == 0
        assert not hasattr(model, "forest_")
        assert "\n" not in str(caught.value)

    def test_different_numbers_of_partitions_are_refused(self):
        self.check(ValueError, "X has 3 partitions, but y has 2", self.frames()[0], self.frames(2)[1])

    def test_different_divisions_are_refused(self):
        X = self.frames()[0]
        moved = dd.from_pandas(table(CLASSES).iloc[::-1].set_index(np.arange(N) + 5)["target"], npartitions=3)
        self.check(ValueError, r"X and y .*index", X, moved)

    def test_different_lengths_are_refused(self):
        X, y = self.frames()
        shorter = y.clear_divisions().map_partitions(lambda part: part[1:], meta=y._meta)
        self.check(ValueError, r"partition 0 .*inconsistent numbers", X.clear_divisions(), shorter)

    def test_target_in_memory_is_refused(self):
        self.check(TypeError, r"y is a ndarray\..*Dask Series", self.frames()[0], np.zeros(N))

    def test_rows_in_memory_are_refused(self):
        self.check(TypeError, r"X is a ndarray\..*Dask DataFrame", np.zeros((N, 4)), self.frames()[1])

    def test_name_of_a_missing_column_is_refused(self):
        self.check(ValueError, r"X .*no column .*'target'; y ", self.frames()[0], "target")

    def test_dask_arrays_are_refused(self):
        X, y = self.frames()
        for target in (y, np.zeros(N)):
            self.check(TypeError, r"X is a Dask Array\.", X[["age"]].to_dask_array(), target)

    def test_missing_columns_are_refused(self):
        X, y = self.frames()
        self.check(ValueError, "X lacks column 'age'", X[NAMES[1:]], y)

    @pytest.mark.parametrize("verified", [False, True])
    @pytest.mark.parametrize("name", ["age", "target"])
    def test_partition_without_a_column_is_refused(self, name, verified):
        """The caller's tasks fail, which select columns; names and types are quoted, as in memory."""
        whole = table(CLASSES)
        parts = [dask.delayed(whole[:300]), dask.delayed(whole[300:].drop(columns=name))]
        frame = dd.from_delayed(parts, meta=whole[:0], verify_meta=verified)
        self.check(ValueError, rf"partition .*lacks column '{name}'", frame[NAMES], frame["target"])

    def test_key_errors_of_the_data_are_not_quoted(self):
        def fail(part):
            raise KeyError("Jane Doe, 271828")

        X, y = self.frames()
        failing = X.map_partitions(fail, meta=X._meta)
        self.check(RuntimeError, r"Dask .*unavailable \(KeyError\)", failing, y)

    def test_partition_with_other_columns_is_refused(self):
        X, y = self.frames()
        other = X.map_partitions(
            lambda part, partition_info=None: (
                part.rename(columns={"age": "years"}) if partition_info and partition_info["number"] == 1 else part
            ),
            meta=X._meta,
            enforce_metadata=False,
        )
        self.check(ValueError, r"partition 1 .*X lacks column 'age' .*1 other", other, y)

    def test_errors_of_the_data_are_not_quoted(self):
        def fail(part):
            raise ValueError("Jane Doe, 271828")

        X, y = self.frames()
        self.check(
            RuntimeError,
            r"Dask .*unavailable \(ValueError\)",
            X.map_partitions(fail, meta=X._meta),
            y,
        )

    def test_groups_in_other_partitions_are_refused(self):
        X, y = self.frames()
        self.check(ValueError, "X has 3 partitions, but groups has 2", X, y, groups=self.frames(2)[1])

    def test_groups_in_memory_are_refused(self):
        X, y = self.frames()
        self.check(TypeError, r"groups is a ndarray\..*Dask Series", X, y, groups=np.zeros(N))

    def test_partition_with_ids_of_another_type_is_refused(self):
        X, y = self.frames()
        ids = X["side"].map_partitions(lambda part: part.fillna(0).astype("int64"), meta=("side", "int64"))
        other = ids.map_partitions(
            lambda part, partition_info=None: part.astype(str) if (partition_info or {}).get("number") == 1 else part,
            meta=("side", "int64"),
            enforce_metadata=False,
        )
        message = r"partition 1 .*groups .*different types .*: numbers and"
        self.check(ValueError, message, X, y, groups=other)

    @pytest.mark.parametrize("groups", [None, "kind"])
    def test_types_that_do_not_fit_an_incomplete_domain_are_refused(self, groups):
        frame = dd.from_pandas(table(CLASSES), npartitions=3)
        X = frame[NAMES].assign(age=dd.to_datetime(frame["age"]))
        open_domain = Domain({**FEATURES, "age": Numeric()}, CLASSES.target)
        groups = None if groups is None else frame[groups]
        message = r"partition 0 .*'age' has dtype .*declares numbers"
        self.check(ValueError, message, X, frame["target"], domain=open_domain, groups=groups)

    def test_changed_order_of_ids_is_refused(self):
        def shuffled(part):
            return part.sample(frac=1, random_state=int.from_bytes(os.urandom(4), "big"))

        frame = dd.from_pandas(table(CLASSES).assign(who=np.arange(N) // 3), npartitions=3)
        frame = frame.map_partitions(shuffled, meta=frame._meta)
        open_domain = Domain({**FEATURES, "age": Numeric()}, CLASSES.target)
        message = r"partition 0 .*identifiers.*order"
        with Budget(1) as budget, pytest.raises(ValueError, match=message):
            DiPriMeClassifier(epsilon=1, domain=open_domain).fit(frame, "target", groups="who")
        assert budget.spent.epsilon == 0

    def test_missing_targets_of_a_score_are_refused(self):
        here, (X, _) = table(CLASSES), self.frames()
        model = DiPriMeClassifier(epsilon=1, domain=CLASSES).fit(here[NAMES], here["target"])
        with Budget(1) as budget, pytest.raises(ValueError, match=r"y .*1d array.*NoneType"):
            private_score(model, X, epsilon=1)
        assert budget.spent.epsilon == 0

    def test_inferring_a_domain_is_refused(self):
        X, y = self.frames()
        with pytest.raises(ValueError, match=r"a Domain, .*domain='infer'"):
            DiPriMeClassifier(epsilon=1, domain="infer").fit(X, y)

    def test_estimator_that_needs_all_rows_is_refused(self):
        X, y = self.frames()
        baseline = DPRandomForestClassifier(epsilon=1, domain=CLASSES)
        with Budget(1) as budget, pytest.raises(ValueError, match=r"all rows .*process"):
            baseline.fit(X, y)
        assert budget.spent.epsilon == 0

    def test_explaining_rows_on_a_cluster_is_refused(self):
        X, _ = self.frames()
        with pytest.raises(TypeError, match=r"X is a Dask DataFrame.*compute\(\)"):
            in_memory("boosted numbers").explain(X)


def test_missing_client_is_refused():
    frame = dd.from_pandas(table(CLASSES), npartitions=2)
    with pytest.raises(ValueError, match="No Dask client"):
        DiPriMeClassifier(epsilon=1, domain=CLASSES).fit(frame[NAMES], frame["target"])


def test_asynchronous_client_is_refused():
    async def fit():
        async with distributed.Client(asynchronous=True, processes=False, n_workers=1, dashboard_address=":0"):
            frame = dd.from_pandas(table(CLASSES), npartitions=2)
            with pytest.raises(ValueError, match="asynchronous=False"):
                DiPriMeClassifier(epsilon=1, domain=CLASSES).fit(frame[NAMES], frame["target"])

    asyncio.run(fit())


class TestPredictions:
    """They are lazy, need no client, and have the types that they say."""

    def test_predictions_are_lazy_and_equal_those_in_memory(self, model, rows):
        predicted = model.predict(dd.from_pandas(rows, npartitions=3))
        assert isinstance(predicted, dd.Series)
        found = predicted.compute(scheduler="sync")
        assert found.dtype == predicted.dtype
        assert (found.index == rows.index).all()
        assert (found.to_numpy() == model.predict(rows)).all()

    @pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba", "decision_function"])
    def test_classes_have_a_column_each(self, model, rows, method):
        if not hasattr(model, method):
            pytest.skip("regressors and forests have no such method")
        predicted = getattr(model, method)(dd.from_pandas(rows, npartitions=3))
        assert isinstance(predicted, dd.DataFrame)
        assert predicted.columns.tolist() == model.classes_.tolist()
        found = predicted.compute(scheduler="sync")
        assert (found.dtypes == predicted.dtypes).all()
        assert (found.to_numpy() == getattr(model, method)(rows)).all()

    def test_wrong_columns_are_found_at_once(self, model, rows):
        with pytest.raises(ValueError, match="lacks column 'age'"):
            model.predict(dd.from_pandas(rows[NAMES[1:]], npartitions=3))

    def test_arrays_are_refused(self, model, rows):
        with pytest.raises(TypeError, match=r"X is a Dask Array\."):
            model.predict(dd.from_pandas(rows[["age"]], npartitions=3).to_dask_array())


class TestLostWorkers:
    @pytest.mark.parametrize(
        ("name", "number"), [pytest.param("forest of numbers", 5, marks=pytest.mark.audit), ("boosted classes", 7)]
    )
    def test_killed_worker_does_not_change_the_model(self, processes, monkeypatch, name, number):
        processes.wait_for_workers(2)
        before_query(monkeypatch, number, lambda: kill_a_worker(processes))
        assert digits(on_dask(name)) == digits(in_memory(name))

    @pytest.mark.parametrize("name", ["forest of classes", pytest.param("boosted classes", marks=pytest.mark.audit)])
    def test_changed_rows_of_a_lost_worker_are_refused(self, processes, monkeypatch, tmp_path, name):
        """A worker loses its rows, and the source has changed by then."""
        processes.wait_for_workers(2)
        source = tmp_path / "source"
        source.write_text("0")
        frame = dd.from_pandas(table(CLASSES), npartitions=5)
        X = frame[NAMES].map_partitions(_shifted, source, meta=frame[NAMES]._meta)

        def lose():
            source.write_text("20")
            kill_a_worker(processes)

        before_query(monkeypatch, 4, lose)
        model = model_of(name)
        with pytest.raises(RuntimeError, match=r"rows .*changed"):
            model.fit(X, frame["target"])
        assert not hasattr(model, "forest_")
        wait_until(lambda: not any(processes.has_what().values()))

    def test_rows_that_change_before_bundling_are_refused(self, processes, monkeypatch, tmp_path):
        """They have been counted, and nothing else: the digest is that of the rows that were counted."""
        processes.wait_for_workers(2)
        source = tmp_path / "source"
        source.write_text("0")
        frame = dd.from_pandas(table(CLASSES), npartitions=5)
        X = frame[NAMES].map_partitions(_shifted, source, meta=frame[NAMES]._meta)
        place = dask_executor._place

        def lose(tasks, *placed):
            source.write_text("20")
            kill_a_worker(processes)
            return place(tasks, *placed)

        monkeypatch.setattr(dask_executor, "_place", lose)
        with Budget(5, 1e-3) as budget, pytest.raises(RuntimeError, match=r"rows .*changed"):
            DiPriMeBoostingClassifier(epsilon=4, domain=CLASSES).fit(X, frame["target"])
        assert budget.spent.epsilon == 0


class TestReplicas:
    """Dask may copy results to further workers at any time; a partition counts once."""

    @pytest.fixture(autouse=True)
    def copies_are_kept(self, processes):
        """Otherwise Dask's memory manager deletes surplus copies every two seconds."""
        processes.amm.stop()
        yield
        processes.amm.start()

    @pytest.mark.parametrize("name", [pytest.param("forest of classes", marks=pytest.mark.audit), "boosted classes"])
    def test_replicated_partition_counts_once(self, processes, monkeypatch, name):
        processes.wait_for_workers(2)
        place = dask_executor._place

        def replicated(tasks, parts, *others):
            replicate(processes, parts, 2)
            return place(tasks, parts, *others)

        monkeypatch.setattr(dask_executor, "_place", replicated)
        assert digits(on_dask(name)) == digits(in_memory(name))

    @pytest.mark.parametrize("short", [pytest.param(0, marks=pytest.mark.audit), math.inf])
    def test_replicated_bundle_counts_once(self, processes, monkeypatch, short):
        """Copies are made in the middle of the fit: of bundles that have taken some steps."""
        monkeypatch.setattr(dask_executor, "SHORT_SECONDS", short)
        processes.wait_for_workers(2)
        made, place = [], dask_executor._place

        def placed(*arguments):
            made.append(place(*arguments))
            return made[0]

        monkeypatch.setattr(dask_executor, "_place", placed)
        query, asked = dask_executor.DaskExecutor.sum, []

        def watched(self, *arguments, **others):
            asked.append(1)
            if len(asked) in (2, 6):  # before there are actors, and when there are
                replicate(processes, made[0].bundles, 2)
            return query(self, *arguments, **others)

        monkeypatch.setattr(dask_executor.DaskExecutor, "sum", watched)
        assert digits(on_dask("boosted classes")) == digits(in_memory("boosted classes"))
        assert len(asked) > 6


class TestLostScheduler:
    """The fit ends at once, although its client tries for a minute to find the scheduler again.

    Before the first question, nothing has been released, and nothing is charged.
    """

    @pytest.mark.parametrize(
        ("number", "noticed", "charged"),
        [
            (1, False, False),
            (2, False, True),
            pytest.param(0, True, False, marks=pytest.mark.audit),
            pytest.param(1, True, False, marks=pytest.mark.audit),
            pytest.param(5, True, True, marks=pytest.mark.audit),
        ],
    )
    def test_lost_scheduler_ends_the_fit_with_one_line(self, monkeypatch, tmp_path, number, noticed, charged):
        model = DiPriMeBoostingClassifier(epsilon=4, domain=CLASSES, n_rounds=8)
        frame = dd.from_pandas(table(CLASSES), npartitions=2)
        with scheduler_process(tmp_path) as process:
            began = []

            def lose():
                lose_scheduler(process, distributed.Client.current(), noticed=noticed)
                began.append(time.monotonic())

            if number == 0:
                before_encoding(monkeypatch, lose)
            else:
                before_query(monkeypatch, number, lose)
            with (
                Budget(5, 1e-3) as budget,
                pytest.raises(RuntimeError, match=r"Dask .*unavailable") as caught,
            ):
                model.fit(frame[NAMES], frame["target"])
            assert time.monotonic() - began[0] < 30
        assert "\n" not in str(caught.value)
        with Budget(5, 1e-3) as whole:
            clone(model).fit(table(CLASSES)[NAMES], table(CLASSES)["target"].fillna("other"))
        assert budget.spent == (whole.spent if charged else Budget(1).spent)
        assert not {"forest_", "privacy_"} & set(vars(model))


def _names_of_results(client):
    return {str(key) for keys in client.has_what().values() for key in keys}


def _fail_late(part, partition_info=None):
    """Fail when the other partitions have been encoded."""
    if partition_info and partition_info["number"] == 3:
        time.sleep(0.3)
        raise ValueError("Jane Doe, 271828")
    return part


def _shifted(part, source):
    return part.assign(age=part["age"] + float(source.read_text()))


def _interrupt():
    raise KeyboardInterrupt


class TaskNames(distributed.SchedulerPlugin):
    """Notes the names of all tasks of a cluster."""

    def __init__(self):
        self.names = set()

    def transition(self, key, *args, **kwargs):
        self.names.add(str(key))


def test_task_names_and_logs_do_not_depend_on_rows(monkeypatch):
    """All names are words and a number that counts; a failure is not logged, for tasks do not fail."""
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    tasks = TaskNames()
    with cluster(2) as client:
        logger = logging.getLogger("distributed")
        logger.addHandler(handler)
        client.cluster.scheduler.add_plugin(tasks)
        on_dask("boosted classes", verbose=0)
        monkeypatch.setattr("diprime.execution.remote.PartitionBundle._apply", _fail)
        with pytest.raises(RuntimeError, match=r"work on rows \(LookupError\)") as caught:
            on_dask("boosted classes")
        logger.removeHandler(handler)
    ours = [name for name in tasks.names if "diprime" in name]
    assert ours
    assert all(pd.Series(ours).str.fullmatch(r"\(?'?diprime-[a-z-]+-[0-9a-f]{14}'?(, \d+\))?"))
    assert "271828" not in log.getvalue() + str(caught.value)
    assert "Compute Failed" not in log.getvalue()


def _fail(self, steps, threads):
    raise LookupError("Jane Doe, 271828")


def test_warnings_name_the_line_of_the_fit():
    with cluster(1), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        on_dask("forest of numbers")
    assert [warning.filename for warning in caught if "random_state" in str(warning.message)] == [__file__]
