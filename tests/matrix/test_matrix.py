"""Everything works on every source, and gives the same bits for the same seed.

A new source is a function here, and a line in `SOURCES`.
"""

from functools import cache, partial
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

from diprime import (
    Categorical,
    DiPriMeBoostingRegressor,
    DiPriMeClassifier,
    Domain,
    Numeric,
    PrivateSearch,
    private_score,
    sources,
)
from diprime.model.files import to_bytes
from tests.spark_sessions import NEEDED

pytestmark = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")  # seeds make results comparable

N = 360
CUTS = [0, 130, 130, 170, N]
"""Where partitions and batches begin: one has no rows, and most people have records in several."""
FEATURES = {"age": Numeric(0, 100), "kind": Categorical(["a", "b", "c"])}
OPEN = {"age": Numeric(), "kind": Categorical()}
NAMES = list(FEATURES)


# What is fitted -----------------------------------------------------------------------------------------------------


def rows(boost):
    """Return a frame with missing values, unlisted ones, people with many records, and records without a person."""
    rng = np.random.default_rng(5)
    age, kind = rng.normal(50, 25, N), rng.choice(np.array(["a", "b", "c", "z"], dtype=object), N)
    number = age / 20 + (kind == "a") + rng.normal(0, 0.5, N)
    target = number if boost else np.where(number > 2.5, "yes", "no").astype(object)
    frame = pd.DataFrame({"age": age, "kind": kind, "target": target}).mask(rng.random((N, 3)) < 0.05)
    people = np.where(rng.random(N) < 0.25, "dominant", rng.integers(0, 90, N).astype(str)).astype(object)
    return frame.assign(person=np.where(rng.random(N) < 0.05, None, people))


def target_of(boost):
    return Numeric(0, 5) if boost else Categorical(["no", "yes"])


def estimator(boost, *, features=FEATURES, epsilon=30, seed=1, k=1):
    domain = Domain(features, target_of(boost))
    if boost:
        return DiPriMeBoostingRegressor(epsilon, domain, n_rounds=3, random_state=seed, max_records_per_group=k)
    return DiPriMeClassifier(epsilon, domain, n_estimators=2, max_depth=1, random_state=seed, max_records_per_group=k)


def digits(model):
    """Return all that a model file holds."""
    return to_bytes(model._to_content())


@cache
def fitted(boost):
    frame = rows(boost)
    return estimator(boost).fit(frame[NAMES], frame["target"])


# What is done with it -----------------------------------------------------------------------------------------------


def fit(boost, X, y, groups, *, k=1, features=FEATURES):
    model = estimator(boost, features=features, k=k)
    return digits(model.fit(X, y, groups=groups))


def learn(boost, X, y, groups):
    task = "regression" if boost else "classification"
    domain = Domain.learn(X, y, 80, delta=0.01, features=OPEN, task=task, groups=groups, random_state=2)
    return domain, str(domain.origin.ledger)


def score(boost, X, y, groups, *, k=1):
    return private_score(fitted(boost), X, y, 30, groups=groups, max_records_per_group=k, random_state=3)


def search(boost, X, y, groups, *, k=1):
    settings = {"n_rounds": [2, 3]} if boost else {"max_depth": [1, 2]}
    model = estimator(boost, epsilon=1.0, seed=None, k=k)
    found = PrivateSearch(model, settings, epsilon=40, random_state=4).fit(X, y, groups=groups)
    return found.best_params_, digits(found.best_estimator_)


def check(boost, X, y, groups):
    found = Domain(FEATURES, target_of(boost)).check(X, y, groups=groups)
    return str(found), found.persons and found.persons.to_dict()


def predict(boost, X, y, groups):
    found = fitted(boost).predict(X)
    for bring in ("toPandas", "compute"):
        found = getattr(found, bring)() if hasattr(found, bring) else found
    return np.asarray(found["prediction"] if isinstance(found, pd.DataFrame) else found).tolist()


RECORDS = ("target", None)
PEOPLE = ("target", "person")
OPERATIONS = {
    "fit": (fit, *RECORDS),
    "fit to people": (partial(fit, k=2), *PEOPLE),
    "fit of an incomplete domain": (partial(fit, features=OPEN), *RECORDS),
    "fit of an incomplete domain to people": (partial(fit, features=OPEN, k=2), *PEOPLE),
    "Domain.learn": (learn, *RECORDS),
    "Domain.learn from people": (learn, *PEOPLE),
    "private_score": (score, *RECORDS),
    "private_score of people": (partial(score, k=2), *PEOPLE),
    "PrivateSearch": (search, *RECORDS),
    "PrivateSearch of people": (partial(search, k=2), *PEOPLE),
    "Domain.check": (check, *RECORDS),
    "Domain.check of people": (check, *PEOPLE),
    "predict": (predict, None, None),
}
"""What is done, and the columns of the targets and of the people that it takes."""


# Where the rows are -------------------------------------------------------------------------------------------------


def in_a_table(frame, request):
    return frame


def in_batches(frame, request, scratch=None):
    """Return batches of what would be columns of a table: no column has a name."""
    parts = [frame[a:b] for a, b in pairwise(CUTS)]
    return sources.batches([(part[NAMES], part.get("target"), part.get("person")) for part in parts], scratch=scratch)


def in_scratch_files(frame, request):
    return in_batches(frame, request, request.getfixturevalue("tmp_path"))


def in_files(frame, request):
    """Return files, the first of which decides about the order of columns; one has no rows."""
    folder = request.getfixturevalue("tmp_path")
    for number, (a, b) in enumerate(pairwise(CUTS)):
        frame[a:b].to_parquet(folder / f"{number}.parquet")
    return sources.files(f"{folder}/*.parquet")


def in_text_files(frame, request):
    folder = request.getfixturevalue("tmp_path")
    for number, (a, b) in enumerate(pairwise(CUTS)):
        frame[a:b].to_csv(folder / f"{number}.csv", index=False)
    return sources.files(f"{folder}/*.csv", scratch=folder)


def in_a_database(frame, request):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    return duckdb.from_arrow(pa.Table.from_pandas(frame))


def in_a_data_set(frame, request):
    return pyarrow.dataset.dataset([pa.Table.from_pandas(frame[a:b]) for a, b in pairwise(CUTS)])


def in_a_reader(frame, request):
    """Return a stream that can be read only once, as that of a cursor, and a place for a copy."""
    parts = [pa.RecordBatch.from_pandas(frame[a:b], preserve_index=False) for a, b in pairwise(CUTS)]
    reader = pa.RecordBatchReader.from_batches(parts[0].schema, parts)
    return sources.batches(reader, scratch=request.getfixturevalue("tmp_path"))


def in_a_lazy_frame(frame, request):
    return pl.concat([pl.from_pandas(frame[a:b]).lazy() for a, b in pairwise(CUTS)], how="vertical_relaxed")


@pytest.fixture(scope="module")
def client():
    pytest.importorskip("distributed", reason="diprime[dask] is not installed")
    from tests.dask_clusters import cluster

    with cluster(2, protocol="tcp") as client:
        yield client


def in_dask(frame, request):
    """Return a table whose partitions are on two workers."""
    request.getfixturevalue("client")
    import dask.dataframe as dd

    parts = [frame[a:b] for a, b in pairwise(CUTS)]
    return dd.from_map(lambda i: parts[i], range(len(parts)), meta=frame[:0])


def in_spark(frame, request):
    """Return a table whose partitions are in the executors; Spark has no missing numbers but nulls."""
    session = request.getfixturevalue("spark")
    parts = [frame[a:b].astype(object).where(frame[a:b].notna(), None).values.tolist() for a, b in pairwise(CUTS)]
    types = {name: "double" if kind.kind == "f" else "string" for name, kind in frame.dtypes.items()}
    rdd = session.sparkContext.parallelize(parts, len(parts)).flatMap(lambda part: part)
    return session.createDataFrame(rdd, ", ".join(map(" ".join, types.items())))


SOURCES = {
    "table": in_a_table,
    "batches": in_batches,
    "scratch": in_scratch_files,
    "files": in_files,
    "files of text": in_text_files,
    "Arrow stream of a database": in_a_database,
    "Arrow stream of a data set": in_a_data_set,
    "Arrow stream that is read once": in_a_reader,
    "lazy frame": in_a_lazy_frame,
    "dask": in_dask,
    "spark": in_spark,
}
NAMELESS = {"batches", "scratch"}
"""Those whose columns have no names."""


def done(operation, boost, source="table", request=None):
    """Return what an operation finds in the rows of a source."""
    run, *names = OPERATIONS[operation]
    given = SOURCES[source](rows(boost)[[*NAMES, *filter(None, names)]], request)
    return run(boost, given, *([None, None] if source in NAMELESS else names))


expected = cache(partial(done))


def cases():
    """Yield all sources, operations and kinds of models; on clusters, the audit has every other one."""
    for i, source in enumerate(list(SOURCES)[1:]):
        for j, operation in enumerate(OPERATIONS):
            for boost in (False, True):
                is_slow = source in ("dask", "spark") and (i + j + boost) % 2
                marks = [*(NEEDED if source == "spark" else ()), *([pytest.mark.audit] if is_slow else ())]
                case = f"{source}-{operation}-{'boosting' if boost else 'forest'}"
                yield pytest.param(source, operation, boost, marks=marks, id=case)


@pytest.mark.parametrize(("source", "operation", "boost"), cases())
def test_every_source_is_bit_identical_to_a_table(source, operation, boost, request):
    assert done(operation, boost, source, request) == expected(operation, boost)
