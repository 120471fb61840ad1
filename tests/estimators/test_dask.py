"""Fits to Dask DataFrames: the models of fits in memory, bit for bit, whoever is lost; and predictions on them."""

import asyncio
import gc
import io
import logging
import subprocess
import sys
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
    PrivateSearch,
)
from diprime.model.files import to_bytes

distributed = pytest.importorskip("distributed", reason="diprime[dask] is not installed")
dd = pytest.importorskip("dask.dataframe", reason="diprime[dask] is not installed")

from tests.dask_clusters import (  # noqa: E402 -- needs Dask
    before_encoding,
    before_question,
    cluster,
    kill_a_worker,
    lose_scheduler,
    scheduler_process,
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
    "trees of all rows": (DiPriMeClassifier, CLASSES, {"n_estimators": 2, "partition": False, "max_depth": 2}),
    "boosted classes": (DiPriMeBoostingClassifier, CLASSES, {"n_rounds": 8}),
    "boosted numbers": (DiPriMeBoostingRegressor, NUMBERS, {"n_rounds": 8}),
}


def table(domain, n=N):
    """Return rows with missing values, unknown levels and targets, and values out of range."""
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
    return model_of(name, **others).fit(frame[NAMES], frame["target"])


def digits(model):
    """Return all that a model file holds."""
    return to_bytes(model._to_content())


# Of the scope of a class: a fit takes the client that was made last.


@pytest.fixture(scope="class", params=[1, 3])
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
    @pytest.mark.parametrize("name", ESTIMATORS)
    def test_the_model_is_that_of_a_fit_in_memory(self, client, name):
        assert digits(on_dask(name)) == digits(in_memory(name))

    def test_the_number_of_partitions_changes_nothing(self, client):
        assert digits(on_dask("boosted classes", 1)) == digits(on_dask("boosted classes", 30))

    def test_partitions_without_rows_change_nothing(self, client):
        frame = table(CLASSES)
        parts = [frame[:0], frame[:300], frame[:0], frame[300:], frame[:0]]
        on_cluster = dd.from_map(lambda i: parts[i], range(5), meta=frame[:0])
        fitted = model_of("forest of classes").fit(on_cluster[NAMES], on_cluster["target"])
        assert digits(fitted) == digits(in_memory("forest of classes"))

    def test_columns_may_be_in_any_order(self, client):
        frame = dd.from_pandas(table(CLASSES), npartitions=3)
        fitted = model_of("forest of classes").fit(frame[NAMES[::-1]], frame["target"])
        assert digits(fitted) == digits(in_memory("forest of classes"))
        assert fitted.feature_names_in_.tolist() == NAMES

    def test_a_fit_leaves_nothing_on_the_cluster(self, client):
        gc.disable()  # nothing waits until Python looks for cycles of references
        try:
            on_dask("boosted numbers")
            until = time.monotonic() + 60  # releasing takes its time
            while any(client.has_what().values()):
                assert time.monotonic() < until
                time.sleep(0.01)
        finally:
            gc.enable()

    def test_progress_is_shown(self, client, monkeypatch, capsys):
        monkeypatch.setattr("diprime._util.progress._DELAY_SECONDS", -1)
        on_dask("boosted numbers", npartitions=4, verbose=1)
        told = capsys.readouterr().err
        assert "Encoding [##############################] 4/4 partitions" in told
        assert "8/8 rounds" in told

    def test_a_budget_is_charged_once(self, client):
        frame = dd.from_pandas(table(CLASSES), npartitions=2)
        with Budget(3) as budget:
            DiPriMeClassifier(epsilon=2, domain=CLASSES).fit(frame[NAMES], frame["target"])
        assert budget.spent.epsilon == 2


@pytest.mark.usefixtures("one_worker")
class TestMistakes:
    """Errors are one sentence, and come before a budget is charged."""

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
        assert str(caught.value).count(". ") == 0

    def test_other_numbers_of_partitions(self):
        self.check(ValueError, "X has 3 partitions, and y has 2", self.frames()[0], self.frames(2)[1])

    def test_other_divisions(self):
        X = self.frames()[0]
        moved = dd.from_pandas(table(CLASSES).iloc[::-1].set_index(np.arange(N) + 5)["target"], npartitions=3)
        self.check(ValueError, "divided at different places", X, moved)

    def test_other_lengths(self):
        X, y = self.frames()
        shorter = y.clear_divisions().map_partitions(lambda part: part[1:], meta=y._meta)
        self.check(ValueError, "In partition 0 of the data: .*inconsistent numbers", X.clear_divisions(), shorter)

    def test_a_target_in_memory(self):
        self.check(TypeError, "y is a ndarray; give a Dask Series", self.frames()[0], np.zeros(N))

    def test_rows_in_memory(self):
        self.check(TypeError, "X is a ndarray; give a Dask DataFrame", np.zeros((N, 4)), self.frames()[1])

    def test_the_name_of_a_column(self):
        self.check(TypeError, "y is a str; give a Dask Series", self.frames()[0], "target")

    def test_arrays(self):
        X, y = self.frames()
        for target in (y, np.zeros(N)):
            match = "X is a Dask Array; give a Dask DataFrame"
            self.check(TypeError, match, X[["age"]].to_dask_array(), target)

    def test_lacking_columns(self):
        X, y = self.frames()
        self.check(ValueError, "X lacks column 'age'", X[NAMES[1:]], y)

    def test_a_partition_with_other_columns(self):
        X, y = self.frames()
        other = X.map_partitions(
            lambda part, partition_info=None: (
                part.rename(columns={"age": "years"}) if partition_info and partition_info["number"] == 1 else part
            ),
            meta=X._meta,
            enforce_metadata=False,
        )
        self.check(ValueError, "In partition 1 of the data: X lacks column 'age' and has column 'years'", other, y)

    def test_data_that_cannot_be_computed_are_not_quoted(self):
        def fail(part):
            raise ValueError("Jane Doe, 271828")

        X, y = self.frames()
        self.check(
            RuntimeError, r"lost the Dask cluster or its data \(ValueError\)", X.map_partitions(fail, meta=X._meta), y
        )

    def test_groups(self):
        X, y = self.frames()
        self.check(ValueError, "Groups cannot be given with tables on a cluster", X, y, groups=y)

    def test_an_open_domain(self):
        X, y = self.frames()
        self.check(
            ValueError, "The domain is open", X, y, domain=Domain({**FEATURES, "age": Numeric()}, CLASSES.target)
        )

    def test_a_domain_to_infer(self):
        X, y = self.frames()
        with pytest.raises(ValueError, match="needs a Domain for tables on a cluster"):
            DiPriMeClassifier(epsilon=1, domain="infer").fit(X, y)

    def test_an_estimator_that_needs_all_rows(self):
        X, y = self.frames()
        search = PrivateSearch(DiPriMeClassifier(domain=CLASSES), [{"max_depth": 1}, {"max_depth": 2}], epsilon=1)
        with Budget(1) as budget, pytest.raises(ValueError, match="needs all of its rows in this process"):
            search.fit(X, y)
        assert budget.spent.epsilon == 0

    def test_rows_to_explain(self):
        X, _ = self.frames()
        with pytest.raises(TypeError, match="X is a Dask DataFrame, which is not in memory"):
            in_memory("boosted numbers").explain(X)


def test_without_a_client_an_error_says_how_to_make_one():
    frame = dd.from_pandas(table(CLASSES), npartitions=2)
    with pytest.raises(ValueError, match="There is no Dask client"):
        DiPriMeClassifier(epsilon=1, domain=CLASSES).fit(frame[NAMES], frame["target"])


def test_an_asynchronous_client_is_refused():
    async def fit():
        async with distributed.Client(asynchronous=True, processes=False, n_workers=1, dashboard_address=":0"):
            frame = dd.from_pandas(table(CLASSES), npartitions=2)
            with pytest.raises(ValueError, match="The Dask client is asynchronous"):
                DiPriMeClassifier(epsilon=1, domain=CLASSES).fit(frame[NAMES], frame["target"])

    asyncio.run(fit())


def test_the_package_does_not_import_dask():
    code = "import diprime, sys; assert not {'dask', 'distributed'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


class TestPredictions:
    """They are lazy, need no client, and have the types that they say."""

    def test_predictions(self, model, rows):
        predicted = model.predict(dd.from_pandas(rows, npartitions=3))
        assert isinstance(predicted, dd.Series)
        found = predicted.compute(scheduler="sync")
        assert found.dtype == predicted.dtype
        assert (found.index == rows.index).all()
        assert (found.to_numpy() == model.predict(rows)).all()

    @pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba", "decision_function"])
    def test_a_column_for_each_class(self, model, rows, method):
        if not hasattr(model, method):
            pytest.skip("regressors and forests have no such method")
        predicted = getattr(model, method)(dd.from_pandas(rows, npartitions=3))
        assert isinstance(predicted, dd.DataFrame)
        assert predicted.columns.tolist() == model.classes_.tolist()
        found = predicted.compute(scheduler="sync")
        assert (found.dtypes == predicted.dtypes).all()
        assert (found.to_numpy() == getattr(model, method)(rows)).all()

    def test_a_column_for_each_tree(self, model, rows):
        found = model.apply(dd.from_pandas(rows, npartitions=3)).compute(scheduler="sync")
        assert found.columns.tolist() == list(range(found.shape[1]))
        assert (found.to_numpy() == model.apply(rows)).all()

    def test_wrong_columns_are_found_at_once(self, model, rows):
        with pytest.raises(ValueError, match="lacks column 'age'"):
            model.predict(dd.from_pandas(rows[NAMES[1:]], npartitions=3))

    def test_arrays_are_refused(self, model, rows):
        with pytest.raises(TypeError, match="give a Dask DataFrame"):
            model.predict(dd.from_pandas(rows[["age"]], npartitions=3).to_dask_array())


class TestLostWorkers:
    @pytest.mark.parametrize(("name", "number"), [("forest of numbers", 5), ("boosted classes", 7)])
    def test_a_worker_that_is_killed_costs_time_only(self, processes, monkeypatch, name, number):
        processes.wait_for_workers(2)
        before_question(monkeypatch, number, lambda: kill_a_worker(processes))
        assert digits(on_dask(name)) == digits(in_memory(name))


class TestLostScheduler:
    """The fit ends at once, although its client tries for a minute to find the scheduler again.

    Before the first question, nothing has been released, and nothing is charged.
    """

    @pytest.mark.parametrize(
        ("number", "noticed", "charged"),
        [(0, True, False), (1, True, False), (1, False, False), (2, False, True), (5, True, True)],
    )
    def test_the_fit_ends_with_one_sentence(self, monkeypatch, tmp_path, number, noticed, charged):
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
                before_question(monkeypatch, number, lose)
            with Budget(5, 1e-3) as budget, pytest.raises(RuntimeError, match="has lost the Dask cluster") as caught:
                model.fit(frame[NAMES], frame["target"])
            assert time.monotonic() - began[0] < 30
        assert str(caught.value).count(". ") == 0
        with Budget(5, 1e-3) as whole:
            clone(model).fit(table(CLASSES)[NAMES], table(CLASSES)["target"].fillna("other"))
        assert budget.spent == (whole.spent if charged else Budget(1).spent)
        assert not {"forest_", "privacy_"} & set(vars(model))


class TaskNames(distributed.SchedulerPlugin):
    """Notes the names of all tasks of a cluster."""

    def __init__(self):
        self.names = set()

    def transition(self, key, *args, **kwargs):
        self.names.add(str(key))


def test_names_of_tasks_and_logs_tell_nothing_of_rows(monkeypatch):
    """All names are words and a number that counts; a failure is not logged, for tasks do not fail."""
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    tasks = TaskNames()
    with cluster(2) as client:
        logger = logging.getLogger("distributed")
        logger.addHandler(handler)
        client.cluster.scheduler.add_plugin(tasks)
        on_dask("boosted classes", verbose=0)
        monkeypatch.setattr("diprime.engines.remote.Bundle._take", _fail)
        with pytest.raises(RuntimeError, match=r"could not work on rows \(LookupError\)") as caught:
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
