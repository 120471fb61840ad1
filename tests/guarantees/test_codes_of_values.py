"""The code of a value depends on the value and the domain alone: one property for every way in which values arrive.

Each path stores a value beside hostile neighbours, which may change the type of their column, and the code of the value
must be the one that it has alone. Sources have the value in two batches or files, of which one has the neighbours. A
library that refuses to store them, and a dtype or a text that the domain refuses, are no failures: none gives a code.

To add a source, add a path to `IN_MEMORY`: for a type of column "x", it returns a function that stores values. A source
has the first value twice, and a target "y". Add its name to `SOURCES`, and its types to `ANY`, `GUESSED` or `KINDS`.
"""

import datetime
import io
import math
import pickle
import re
import shutil
import tempfile
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diprime import sources
from diprime._util import InputError
from diprime._util.resources import Threads
from diprime.domain import MISSING, Categorical, Date, Domain, Integer, Numeric, learning
from diprime.domain.columns import read_table
from diprime.domain.encoding import bucket_of
from diprime.domain.learning import scale_intervals
from diprime.domain.records import Records
from diprime.domain.values import MISSING_TEXTS
from diprime.execution.remote import Opaque, encode_rows
from diprime.sources.arrow import ArrowStream
from diprime.sources.data_files import DataFile
from diprime.sources.protocol import LocalSource, Roles, RunOptions
from tests.spark_sessions import needs_spark

BIG = 2**53
FEATURES = {
    "categories": Categorical([0, 1, 7, 2.5, BIG, BIG + 2, 2**63]),
    "mixed categories": Categorical(["a", 1, "2", BIG + 1, "2020-01-01"]),
    "categories of text": Categorical(["a", "1", str(BIG + 1), "2020-01-01"]),
    "buckets": Categorical(n_buckets=254),
    "linear": Numeric(0, 10),
    "edges": Numeric(edges=[0.05, 0.1, 1, 2, 1e15, float(BIG), float(BIG + 2)]),
    "integer": Integer(0, 5),
    "large integer": Integer(BIG - 100, BIG + 100),
    "date": Date("2019-01-01", "2021-01-01", parts=["weekday", "month", "hour"]),
}
DOMAIN_OF = {name: Domain({"x": feature}, Categorical([0, 1]), missing=["?"]) for name, feature in FEATURES.items()}
MARKERS = [*sorted(MISSING_TEXTS), "?", " NA ", "? "]

INTEGERS = st.sampled_from([0, 1, 2, 7, BIG - 1, BIG, BIG + 1, BIG + 3, 2**63 - 1, -(2**63)]) | st.integers(
    -(2**63), 2**63 - 1
)
FLOATS = st.sampled_from([0.1, 2.5, -0.0, 1.0, float(BIG), 1e300, math.inf]) | st.floats(allow_nan=False)
DECIMALS = st.integers(-(10**17), 10**17).map(lambda n: Decimal(n).scaleb(-3))
TIMES = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1)) | st.sampled_from(
    [datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, 9)]
)
PLAIN_TEXTS = ["a", "1", "1.0", " 1", "01", "1e0", "true", "2.5", str(BIG + 1), "2020-01-01", "é", "?x", "na"]
TEXTS = st.sampled_from([*PLAIN_TEXTS, *MARKERS]) | INTEGERS.map(str)
NEIGHBOURS = st.sampled_from(
    [
        None, math.nan, 0.5, 1, -1, 2**64, 10**400, 1e300, True, "abc", "2020-01-01", b"x", [BIG], {"a": 1}, object(),
        Decimal("0.5"), Decimal("sNaN"), pd.NaT, pd.NA, datetime.date(2020, 1, 1), datetime.datetime(9999, 12, 31),
        datetime.datetime(1, 1, 1), datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc),
        np.datetime64(-100_000, "Y"), np.datetime64(5, "ns"), np.timedelta64(1, "s"),
    ]
)  # fmt: skip

FOLDER = Path(tempfile.mkdtemp())


@pytest.fixture(autouse=True, scope="session")  # a worker of xdist leaves the module and comes back
def no_files_stay():
    yield
    shutil.rmtree(FOLDER)


IN_MEMORY = {
    "array": lambda dtype: lambda values: np.array(values, dtype=dtype)[:, None],
    "pandas": lambda dtype: lambda values: pd.DataFrame({"x": pd.Series(values, dtype=dtype)}),
    "polars": lambda dtype: lambda values: pl.DataFrame({"x": pl.Series(values, dtype=dtype)}),
    "pyarrow": lambda dtype: lambda values: pa.table({"x": pa.array(values, type=dtype)}),
    "pandas categories": lambda dtype: lambda values: pd.DataFrame({"x": pd.Series(values).astype(dtype)}),
    "pandas on Arrow": lambda dtype: lambda values: pd.DataFrame({"x": pd.Series(values, dtype=pd.ArrowDtype(dtype))}),
    "Parquet": lambda dtype: lambda values: _through_parquet(pl.Series("x", values, dtype=dtype)),
    "pandas to polars": lambda dtype: (
        lambda values: pl.from_pandas(pd.DataFrame({"x": pd.Series(values, dtype=dtype)}))
    ),
    "pandas to pyarrow": lambda dtype: lambda values: pa.Table.from_pandas(pd.DataFrame({"x": pd.Series(values)})),
    "read_csv": lambda dtype: lambda values: pd.read_csv(io.StringIO(_csv(values)), dtype=dtype, keep_default_na=False),
    "read_csv with defaults": lambda dtype: lambda values: pd.read_csv(io.StringIO(_csv(values)), dtype=dtype),
    "batches": lambda dtype: lambda values: _in_batches(values, dtype),
    "scratch files": lambda dtype: lambda values: _in_batches(values, dtype, FOLDER),
    "Parquet files": lambda dtype: lambda values: _in_files(_write_parquet, (values[:1], dtype), (values, dtype)),
    "Parquet files of two types": lambda dtypes: (
        lambda values: _in_files(_write_parquet, *zip((values[:1], _as_floats(values)), dtypes, strict=True))
    ),
    "CSV and Parquet files": lambda dtype: (
        lambda values: sources.files([_write_csv(values[:1]), _write_parquet(values, dtype)])
    ),
    "Arrow stream": lambda dtype: lambda values: ArrowStream(_first_twice(pa.array(values, dtype))),
    "copied Arrow stream": lambda dtype: (
        lambda values: ArrowStream(_first_twice(pa.array(values, dtype)).to_reader(), FOLDER).repeatable()
    ),
    "lazy frame": lambda dtype: (
        lambda values: ArrowStream(
            pl.LazyFrame({"x": pl.Series([values[0], *values], dtype=dtype), "y": [0] * (len(values) + 1)})
        )
    ),
    "DuckDB": lambda dtype: lambda values: ArrowStream(_in_duckdb(_first_twice(pa.array(values, dtype)))),
    "CSV files": lambda _: lambda values: _in_files(_write_csv, (values[:1],), (values,)),
}
SOURCES = {
    "batches", "scratch files", "Parquet files", "Parquet files of two types", "CSV and Parquet files", "Arrow stream",
    "copied Arrow stream", "lazy frame", "DuckDB", "CSV files",
}  # fmt: skip
"""The paths on which values arrive in several batches or files, which takes longer."""
ANY = {
    "array": [object], "pandas": [None, object], "pandas categories": ["category"], "pandas to pyarrow": [None],
    "batches": [None, object], "scratch files": [None], "CSV files": [None],
}  # fmt: skip
GUESSED = {
    "array": [None], "polars": [None], "pyarrow": [None], "Parquet": [None], "pandas to polars": [None],
    "Parquet files": [None], "CSV and Parquet files": [None], "Arrow stream": [None],
}  # fmt: skip
DTYPES_OF_INTEGERS = {
    "array": [np.int64, np.float64, np.longdouble],
    "pandas": ["Int64", "Float64", float],
    "polars": [pl.Int64, pl.Int128, pl.Float64],
    "pyarrow": [pa.int64(), pa.float64(), pa.dictionary(pa.int32(), pa.int64())],
    "pandas on Arrow": [pa.int64(), pa.float64(), pa.decimal128(38, 3)],
    "Parquet": [pl.Int64, pl.Float64],
    "read_csv": [None, object],
    "batches": ["Int64", float, pd.ArrowDtype(pa.int64())],
    "scratch files": [float],
    "Parquet files": [pa.int64(), pa.decimal128(38, 3)],
    "Parquet files of two types": [(pa.int64(), pa.float64())],
    "Arrow stream": [pa.dictionary(pa.int32(), pa.int64())],
    "copied Arrow stream": [pa.int64(), pa.dictionary(pa.int32(), pa.int64())],
    "lazy frame": [pl.Int128],
    "DuckDB": [pa.int64()],
}
DTYPES_OF_TIMES = {
    "array": ["M8[us]", "M8[ns]"],
    "pandas": ["M8[us]", "M8[ns]", "M8[us, Asia/Tokyo]"],
    "polars": [pl.Datetime("us"), pl.Datetime("ns")],
    "pyarrow": [pa.timestamp("us"), pa.timestamp("ns")],
    "pandas on Arrow": [pa.timestamp("us"), pa.timestamp("ns")],
    "Parquet": [pl.Datetime("us")],
    "read_csv": [None],
    "batches": ["M8[ns]", pd.ArrowDtype(pa.timestamp("us"))],
    "Parquet files": [pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC")],
    "copied Arrow stream": [pa.timestamp("ns", "UTC")],
    "lazy frame": [pl.Datetime("us")],
    "DuckDB": [pa.timestamp("ns"), pa.timestamp("us", "UTC")],
}
KINDS = {
    "integers": (INTEGERS, DTYPES_OF_INTEGERS),
    "floats": (
        FLOATS,
        {"array": [np.float64], "pandas": ["Float64", float], "polars": [pl.Float64], "read_csv": [object]},
    ),
    "decimals": (
        DECIMALS,
        {name: [pa.decimal128(38, 3)] for name in ("pyarrow", "pandas on Arrow", "copied Arrow stream", "DuckDB")},
    ),
    "times": (TIMES, DTYPES_OF_TIMES),
    "texts": (
        TEXTS,
        {
            "array": [str],
            "pandas": ["str", "string"],
            "polars": [pl.String, pl.Categorical],
            "read_csv": [str],
            "read_csv with defaults": [str, None],
            "Arrow stream": [pa.string_view()],
            "copied Arrow stream": [pa.string_view(), pa.dictionary(pa.int32(), pa.string())],
            "lazy frame": [pl.Categorical],
            "DuckDB": [pa.dictionary(pa.int32(), pa.string())],
        },
    ),
}


def paths_of(*, sources):
    """Return all paths of values in a table, or in several batches or files."""
    return [
        pytest.param(kind, IN_MEMORY[container](dtype), id=f"{kind}-{container} {dtype}")
        for kind, (_, typed) in KINDS.items()
        for paths in (ANY, GUESSED, typed)
        for container, dtypes in paths.items()
        if (container in SOURCES) == sources
        for dtype in dtypes
    ]


TABLES, BATCHED = paths_of(sources=False), paths_of(sources=True)


def _csv(values, target=""):
    return "\n".join([f"x{',y' if target else ''}", *(f'"{_text(value)}"{target}' for value in values), ""])


def _text(value):
    return "" if value is None else str(value).replace('"', '""')


def _in_batches(values, dtype, scratch=None):
    batches = [(pd.DataFrame({"x": pd.Series(part, dtype=dtype)}), [0] * len(part)) for part in (values[:1], values)]
    return sources.batches(batches, scratch=scratch)


def _in_files(write, *files):
    return sources.files([write(*file, name=name) for file, name in zip(files, "ab", strict=True)])


def _write_csv(values, name="a"):
    path = FOLDER / f"{name}.csv"
    path.write_text(_csv(values, target=",0"))
    return path


def _write_parquet(values, dtype, name="a"):
    path = FOLDER / f"{name}.parquet"
    pq.write_table(pa.table({"x": pa.array(values, type=dtype), "y": [0] * len(values)}), path)
    return path


def _first_twice(column):
    """Return a table of two batches, the first of which has only the first value."""
    table = pa.table({"x": column, "y": [0] * len(column)})
    return pa.concat_tables([table[:1], table])


def _in_duckdb(table):
    return pytest.importorskip("duckdb", reason="duckdb is not installed").from_arrow(table)


def _as_floats(values):
    return np.array(values, dtype=float)


def _through_parquet(column):
    file = io.BytesIO()
    column.to_frame().write_parquet(file)
    file.seek(0)
    return pl.read_parquet(file)


def stored(path, values):
    """Return a table of values, and None if its library cannot store them, or would change the first one."""
    try:
        table = path(values)
    except Exception:  # noqa: BLE001 -- libraries raise many
        return None
    except pl.exceptions.PanicException:
        return None
    # NumPy makes a date of 0 beside a timedelta64 and a datetime64.
    became_date = isinstance(table, np.ndarray) and table.dtype.kind == "M" and isinstance(values[0], int)
    return None if became_date else table


def first_code(domain, table):
    """Return the code of the first record, which a source has twice; None if the domain refuses the dtype or text."""
    try:
        if not isinstance(table, LocalSource):
            return domain.encode(table)[0].tolist()
        with table.encode(domain, Roles("y"), RunOptions()) as partitions, Threads(1) as threads:
            codes = np.concatenate(partitions.executor(threads).collect(read_codes))
        return only(codes[:2].tolist())
    except (TypeError, InputError) as error:
        return None if is_refused(error) else str(error)


def is_refused(error):
    """Return whether a dtype is refused, or a text in a file that is no number or date."""
    return "dtype" in str(error) or re.search(r"'x', in row \d", str(error)) is not None


def only(found):
    """Return what is found in all parts of a source, one or two, or else both; None if one is refused."""
    return None if None in found else found[0] if found[0] == found[-1] else found


def read_codes(partition, threads, out=None):
    """Return the codes of all rows of a partition."""
    codes = np.empty((partition.rows.n_rows, partition.rows.n_features), dtype=np.uint8)
    partition.rows.read(0, len(codes), codes)
    return codes


def learnt_from_first(feature, table):
    """Return how the first record counts where an open feature is learnt; None if the feature refuses it."""
    try:
        if isinstance(table, LocalSource):
            domain = Domain({"x": feature}, Categorical([0, 1]), missing=["?"])
            return only([learnt_from_first(feature, X) for X in table.features(domain) if len(X)])
        column = read_table(table).column(0)
        used = np.arange(column.n_rows) == 0
        if isinstance(feature, Categorical):
            if column.kind_of_values == "bytes":
                return None  # which no fit takes for categories
            counts = Counter()
            learning._count_values(column, used, MISSING_TEXTS | {"?"}, counts)
            # A category is a number or the text that spells it, by the dtype; codes are the same.
            return {bucket_of(value, 1 << 60) for value in counts}
        return np.flatnonzero(scale_intervals(1.0).tally(learning._numbers(column, feature, "x"), used)).tolist()
    except (TypeError, InputError) as error:
        return None if is_refused(error) else str(error)


def check_code_and_count(kind, path, data):
    """Check the code of a value beside hostile neighbours, and how it counts where a domain is learnt."""
    value = data.draw(KINDS[kind][0])
    others = data.draw(st.lists(NEIGHBOURS, max_size=2))
    table = stored(path, [value, *others])
    if table is None:
        return
    for name, domain in DOMAIN_OF.items():
        assert first_code(domain, table) in (None, first_code(domain, [[value]])), name
    for feature in (Numeric(), Date(), Categorical()):
        found = learnt_from_first(feature, table)
        assert found is None or found == learnt_from_first(feature, [[value]]), feature


PLAIN = {
    "integers": 1, "floats": 2.5, "decimals": Decimal("2.500"), "times": datetime.datetime(2020, 1, 1), "texts": "a",
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "path", "is_source"), [
    *(pytest.param(*path.values, False, id=path.id) for path in TABLES),
    *(pytest.param(*path.values, True, id=path.id) for path in BATCHED),
])  # fmt: skip
def test_every_path_stores_a_plain_value(kind, path, is_source):
    table = path([PLAIN[kind]])
    assert isinstance(table, LocalSource) == is_source, "SOURCES must list the paths that return sources"
    codes = [first_code(domain, table) for domain in DOMAIN_OF.values()]
    assert any(isinstance(code, list) for code in codes), "no domain accepts the value, so other tests find no error"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "path"), TABLES)
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_value_of_a_table_counts_independently_of_hostile_neighbours(kind, path, data):
    check_code_and_count(kind, path, data)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "path"), BATCHED)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_value_of_a_source_counts_independently_of_hostile_neighbours(kind, path, data):
    check_code_and_count(kind, path, data)


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "path"), [*TABLES, *BATCHED])
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_many_values_count_independently_of_hostile_neighbours(kind, path, data):
    check_code_and_count(kind, path, data)


@pytest.mark.parametrize("marker", MARKERS)
def test_missing_value_markers_have_one_code_on_all_paths(tmp_path, marker):
    values = [marker, "a"]
    (tmp_path / "a.csv").write_text(_csv(values))
    pl.DataFrame({"x": values}).write_parquet(tmp_path / "b.parquet")
    tables = [
        pd.read_csv(tmp_path / "a.csv"),
        pd.read_csv(tmp_path / "a.csv", dtype=object, keep_default_na=False),
        pl.read_csv(tmp_path / "a.csv"),
        pd.read_parquet(tmp_path / "b.parquet"),
        pd.DataFrame({"x": pd.Categorical(values)}),
        pa.table({"x": pa.array(values).dictionary_encode()}),
    ]
    for name in ("mixed categories", "categories of text", "buckets"):
        domain = DOMAIN_OF[name]
        decoded = [
            pa.table(next(DataFile(tmp_path / file).read(domain.features, domain.missing_texts))[0])
            for file in ("a.csv", "b.parquet")
        ]
        for table in (*tables, *decoded):
            codes = domain.encode(table)
            assert codes[0] == MISSING != codes[1]
            sent = Records(table, [0, 1]), pickle.loads(pickle.dumps(domain))
            on_worker = encode_rows(*map(Opaque, (*sent, None, False, 0)))
            found = np.empty((2, 1), dtype=np.uint8)
            on_worker.content.rows.read(0, 2, found)
            assert (found == codes).all()


def test_declared_category_overrides_a_missing_value_marker(tmp_path):
    (tmp_path / "a.csv").write_text(_csv(["None", "NA", "?", " ? ", "a"]))
    domain = Domain({"x": Categorical(["a", "None", "?"])}, Categorical([0, 1]), missing=["?"])
    tables = [
        pd.read_csv(tmp_path / "a.csv", keep_default_na=False),
        pl.read_csv(tmp_path / "a.csv"),
        pa.table(next(DataFile(tmp_path / "a.csv").read(domain.features, domain.missing_texts))[0]),
    ]
    for table in tables:
        assert domain.encode(table)[:, 0].tolist() == [1, MISSING, 2, 2, 0]


def test_missing_identifier_moves_one_record():
    ids = np.random.default_rng(0).integers(BIG, 2**63 - 1, 300).tolist()
    counts = [
        np.bincount(DOMAIN_OF["buckets"].encode(pd.DataFrame({"x": rows}))[:, 0], minlength=256)
        for rows in (ids, [*ids, None])
    ]
    assert ((counts[0] - counts[1]) ** 2).sum() == 1


VALUES = {
    "whole": [BIG, BIG + 1, BIG + 2, 7, 2**63 - 1],
    "float": [0.1, 2.5, -0.0, 1.0, float(BIG)],
    "exact": [Decimal("0.100"), Decimal(BIG), Decimal(BIG + 1), Decimal("-2.5"), Decimal(7)],
    "text": ["1", "01", str(BIG + 1), "2020-01-01", " a"],
    "time": [datetime.datetime(2020, month, 28, 9, 30) for month in range(1, 6)],
}
HOSTILE = {
    "whole": [None, 0, -(2**63)],
    "float": [None, math.nan, 1e300],
    "exact": [None, Decimal(10**30), Decimal("0.001")],
    "text": [None, "abc", "9" * 400],
    "time": [None, datetime.datetime(9999, 12, 31, 23, 59), datetime.datetime(1600, 1, 1)],
}
OF_OTHER_TYPES = {
    "whole": [0.5, 2**64, "abc"],
    "float": [10**400, "abc", True],
    "exact": [0.5, "abc", True],
    "text": [1, 0.5, Decimal("2.50")],
    "time": [datetime.date(2020, 1, 1), np.datetime64(5, "ns"), "abc"],
}
"""Further neighbours in columns of objects, which Dask may convert to text; it would quote bytes and lists."""
ON_CLUSTERS = Domain(
    {name: FEATURES["date"] if name == "time" else Categorical(n_buckets=254) for name in VALUES}, Categorical([0, 1])
)


def count_codes(partition, threads, out=None):
    """Return how many rows of a partition have each code of each feature."""
    return np.stack([np.bincount(column, minlength=256) for column in read_codes(partition, threads).T])


def counted_on_a_cluster(table):
    """Return the counts of all codes of a table on a cluster."""
    with table.encode(ON_CLUSTERS, Roles("y"), RunOptions()) as partitions, Threads(1) as threads:
        return partitions.executor(threads).sum(count_codes)


def counted_alone(columns):
    """Return the counts of the codes that values have alone, in memory."""
    codes = [ON_CLUSTERS.encode([list(row)])[0] for row in zip(*columns.values(), strict=True)]
    return np.stack([np.bincount(column, minlength=256) for column in np.transpose(codes)])


def with_neighbours(*others):
    """Yield columns and numbers of partitions: without hostile neighbours, and with some in two orders."""
    yield VALUES, 3
    for more in (HOSTILE, *others):
        after = {name: [*VALUES[name], *more[name]] for name in VALUES}
        yield after, 3
        yield {name: column[::-1] for name, column in after.items()}, 1


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_dask_codes_depend_on_values_alone():
    dd = pytest.importorskip("dask.dataframe", reason="diprime[dask] is not installed")
    from diprime.sources.dask import DaskTable
    from tests.dask_clusters import cluster

    with cluster(2):
        for columns, n_parts in with_neighbours(OF_OTHER_TYPES):
            size = -(-len(columns["whole"]) // n_parts)
            cut = [{name: c[at * size :][:size] for name, c in columns.items()} for at in range(n_parts)]
            frames = [pd.DataFrame(part).assign(y=0) for part in cut]  # pandas chooses dtypes by values
            table = dd.from_map(lambda i, of=frames: of[i], range(n_parts), meta=frames[0].iloc[:0])
            found = counted_on_a_cluster(DaskTable(table[list(VALUES)], table["y"], None))
            assert (found == counted_alone(columns)).all()


@needs_spark
def test_spark_codes_depend_on_values_alone(spark):
    from diprime.sources.spark import SparkTable

    schema = "whole bigint, float double, exact decimal(38, 3), text string, time timestamp_ntz, y int"
    for columns, n_parts in with_neighbours():
        rows = [(*row, 0) for row in zip(*columns.values(), strict=True)]
        table = spark.createDataFrame(rows, schema).repartition(n_parts)
        assert (counted_on_a_cluster(SparkTable(table, Roles("y"))) == counted_alone(columns)).all()


@needs_spark
@pytest.mark.parametrize("kind", ["array<bigint>", "struct<a: bigint>", "map<string, bigint>", "binary"])
def test_spark_refuses_nested_columns_by_type(spark, kind):
    from diprime.sources.spark import SparkTable

    for rows in ([], [(None, 0)]):
        with pytest.raises(TypeError, match=r"'whole' of X .*unsupported type"):
            SparkTable(spark.createDataFrame(rows, f"whole {kind}, y int"), Roles("y"))


OF_CONTAINERS = [
    pa.list_(pa.int64()),
    pa.struct({"a": pa.int64()}),
    pa.map_(pa.string(), pa.int64()),
    pa.list_(pa.int64(), 2),
]


@pytest.mark.parametrize("dtype", OF_CONTAINERS, ids=["list", "struct", "map", "array"])
@pytest.mark.parametrize("empty", [False, True], ids=["missing", "no rows"])
@pytest.mark.parametrize("name", FEATURES)
def test_nested_columns_are_refused_by_dtype(dtype, empty, name):
    column = pa.array([] if empty else [None], type=dtype)
    table = pa.table({"x": column})
    frames = [table, pl.from_arrow(table), pd.DataFrame({"x": pd.Series(column, dtype=pd.ArrowDtype(dtype))})]
    for frame in frames:
        with pytest.raises(TypeError, match=r"'x' of X has dtype .*neither"):
            DOMAIN_OF[name].encode(frame)
        with pytest.raises(TypeError, match=r"has dtype .*neither"):
            DOMAIN_OF[name].encode_target(frame["x"])
