"""Arrow streams as a source: how often they are read, which columns, and what errors tell."""

import datetime
import errno
import gc
import os
import re
import stat
import sys
import tempfile
import traceback
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from diprime import Budget, Categorical, DiPriMeClassifier, Domain, Integer, Numeric, private_score, sources
from diprime.domain.columns import read_table
from diprime.sources import arrow

pytestmark = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")  # seeds make results comparable

DOMAIN = Domain({"a": Numeric(0, 10), "b": Integer(0, 9)}, Categorical(["no", "yes"]))
OPEN = Domain({"a": Numeric(), "b": Integer(0, 9)}, Categorical(["no", "yes"]))
N = 700


def rows(n=N):
    rng = np.random.default_rng(0)
    a = rng.uniform(0, 10, n)
    columns = {"other": [[1]] * n, "person": rng.integers(0, 90, n), "b": rng.integers(0, 9, n), "a": a}
    return pa.table({"target": np.where(a > 5, "yes", "no"), **columns})


class Stream:
    """A stream that counts how often it begins, and may fail at the end."""

    def __init__(self, table, error=None):
        self.table, self.error, self.n_begun = table, error, 0

    def __arrow_c_stream__(self, requested_schema=None):
        self.n_begun += 1
        return pa.RecordBatchReader.from_batches(self.table.schema, self._batches()).__arrow_c_stream__()

    def _batches(self):
        yield from self.table.to_batches(max_chunksize=200)
        if self.error is not None:
            raise self.error


class Cursor:
    """A cursor of ADBC, as far as it is used."""

    def __init__(self, table):
        self.readers = [table.to_reader(200)]

    def fetch_record_batch(self):
        return self.readers.pop()


class FailingCursor:
    def fetch_record_batch(self):
        raise MemoryError


ONCE = {
    "Cursor": Cursor,
    "RecordBatchReader": lambda table: table.to_reader(200),
    "Stream": Stream,
    "Scanner": lambda table: pyarrow.dataset.dataset(table).scanner(),
}

AGAIN = {
    "relation": lambda table: duckdb_relation(records=table)("SELECT * FROM records"),
    "lazy frame": lambda table: pl.from_arrow(table).lazy(),
    "data set": pyarrow.dataset.dataset,
}


def fit(X, domain=DOMAIN, **options):
    model = DiPriMeClassifier(2.0, domain, random_state=1, max_records_per_group=2 if options else 1)
    return model.fit(X, "target", **options).forest_.digest


def duckdb_relation(**tables):
    """Return a function from SQL to relations of DuckDB on some tables."""
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    for name, table in tables.items():
        duckdb.register(name, table)
    return duckdb.sql


def learn(X, *, seed=1, **options):
    found = Domain.learn(X, "target", 20.0, features=OPEN.features, target=OPEN.target, random_state=seed, **options)
    return found, str(found.origin.ledger)


@pytest.mark.parametrize("in_scratch", [False, True], ids=["memory", "scratch"])
@pytest.mark.parametrize("kind", ONCE)
def test_streams_that_are_read_once_are_learnt_from(kind, in_scratch, tmp_path):
    def once(table):
        return sources.batches(ONCE[kind](table), scratch=tmp_path) if in_scratch else ONCE[kind](table)

    for options in ({}, {"groups": "person"}):
        used = rows().select(["b", "a", "target", *options.values()])
        assert fit(once(rows()), OPEN, **options) == fit(used, OPEN, **options)
        assert learn(once(used), **options) == learn(used, **options)
    assert list(tmp_path.iterdir()) == []
    model = DiPriMeClassifier(2.0, OPEN).fit(once(rows()), "target")
    assert model.feature_names_in_.tolist() == ["a", "b"]


def test_stream_that_is_learnt_from_is_opened_once():
    stream = Stream(rows())
    fit(stream, OPEN, groups="person")
    assert stream.n_begun == 1


def test_dictionaries_of_each_batch_are_copied(tmp_path):
    """They may differ from batch to batch, which only one of Arrow's two file formats can store."""
    names = [["x", "y"], ["z", "x"], ["w"], []]
    batches = [
        pa.record_batch({"a": pa.DictionaryArray.from_arrays(pa.array(range(len(part)), pa.int8()), part or ["?"])})
        for part in names
    ]
    domain = Domain({"a": Categorical()}, Categorical(["no", "yes"]))
    for scratch in (None, tmp_path):
        reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
        source = arrow.ArrowStream(reader, scratch).repeatable()
        for _ in range(2):
            assert [X["a"].to_pylist() for X in source.features(domain) if len(X)] == [part for part in names if part]


@pytest.mark.parametrize("in_scratch", [False, True], ids=["memory", "scratch"])
def test_batches_of_different_types_are_not_copied(in_scratch, tmp_path):
    batches = [pa.record_batch({"a": pa.array([1, 2], kind)}) for kind in (pa.float64(), pa.int64())]
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, batches)
    source = arrow.ArrowStream(reader, tmp_path if in_scratch else None).repeatable()
    with pytest.raises(arrow.InputError, match=r"batches of X .*different types"):
        list(source.features(OPEN))


def test_stream_is_not_copied_if_nothing_is_learnt(copies, tmp_path):
    """Without delta, categories are hashed, so the fit reads the stream once."""
    domain = Domain({"a": Numeric(0, 1), "b": Numeric(0, 1), "person": Categorical()}, OPEN.target)
    table = rows().select(["a", "b", "person", "target"])
    assert fit(sources.batches(table.to_reader(200), scratch=tmp_path), domain) == fit(table, domain)
    assert copies.numbers == []


class Copies:
    """The scratch files that streams are copied to."""

    def __init__(self, monkeypatch):
        self.modes, self.numbers = [], []
        self._map = arrow.mmap
        monkeypatch.setattr(arrow, "mmap", self._watched)

    def _watched(self, number, *arguments, **options):
        found = os.fstat(number)
        self.modes.append(stat.S_IMODE(found.st_mode))
        self.numbers.append(found.st_ino)
        return self._map(number, *arguments, **options)

    def mapped(self):
        """Return how many of them the process has mapped into memory: they are on the disk as long as it has."""
        files = [line.split()[4] for line in Path("/proc/self/maps").read_text().splitlines()]
        return sum(files.count(str(number)) for number in self.numbers)


@pytest.fixture
def copies(monkeypatch):
    return Copies(monkeypatch)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_copy_is_in_a_private_file_without_a_name_until_the_fit_ends(copies, tmp_path, monkeypatch):
    collect, seen = arrow.ArrowStream.collect, []

    def watched(*arguments, **options):
        found = collect(*arguments, **options)
        seen.append((copies.mapped(), list(tmp_path.iterdir())))
        return found

    monkeypatch.setattr(arrow.ArrowStream, "collect", watched)
    gc.disable()  # it does not end with the next collection of garbage only
    try:
        source = sources.batches(rows().to_reader(200), scratch=tmp_path)
        DiPriMeClassifier(2.0, OPEN).fit(source, "target", groups="person")
        assert seen == [(1, [])] * 3
        assert copies.mapped() == 0
        nothing_known = Domain({"a": Numeric(), "b": Numeric()}, OPEN.target)
        with pytest.raises(ValueError, match=r"Too few .*range .*feature"):
            DiPriMeClassifier(1e-6, nothing_known, random_state=1).fit(
                sources.batches(rows().to_reader(200), scratch=tmp_path), "target"
            )
        assert copies.mapped() == 0
    finally:
        gc.enable()
    assert copies.modes == [0o600] * 2


def test_copy_has_only_the_columns_that_are_used(tmp_path):
    for groups, names in [(None, ["target", "b", "a"]), ("person", ["target", "person", "b", "a"])]:
        source = arrow.ArrowStream(rows().to_reader(200), tmp_path).repeatable()
        assert sum(len(batch.X) for batch in source.records(OPEN, arrow.Roles("target", groups))) == N
        assert source._stream.to_reader().schema.names == names


@pytest.mark.parametrize("in_scratch", [False, True], ids=["memory", "scratch"])
def test_stream_is_not_read_beyond_the_budget(in_scratch, tmp_path):
    used = rows().select(["b", "a", "target"])
    source = sources.batches(used.to_reader(200), scratch=tmp_path if in_scratch else None)
    with Budget(0.5):
        for paid in (lambda: DiPriMeClassifier(1.0, OPEN).fit(source, "target"), lambda: learn(source, seed=None)):
            with pytest.raises(ValueError, match="budget"):
                paid()
    assert fit(source, OPEN) == fit(used, OPEN)
    with pytest.raises(ValueError, match=r"X .*already"):  # the copy has ended with the fit
        fit(source, OPEN)


class FullFile:
    """A file on a disk without space, which the system may notice only when a buffer is written."""

    def __init__(self, file, when):
        self._file, self._when = file, when

    def __getattr__(self, name):
        if name == self._when:
            raise OSError(errno.ENOSPC, "full")
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()


@pytest.mark.parametrize("when", ["write", "flush"])
def test_full_disk_is_not_charged(when, tmp_path, monkeypatch):
    make = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **options: FullFile(make(**options), when))
    paid = {"fit": lambda X: DiPriMeClassifier(2.0, OPEN).fit(X, "target"), "learn": partial(learn, seed=None)}
    for of_copy in paid.values():
        expected = rf"scratch directory {re.escape(str(tmp_path))};.*all rows of X"
        with Budget(30) as budget, pytest.raises(OSError, match=expected) as error:
            of_copy(sources.batches(rows().select(["a", "b", "target"]).to_reader(200), scratch=tmp_path))
        assert error.value.errno == errno.ENOSPC
        [note] = error.value.__notes__
        assert "not charged" in note
        assert budget.entries == ()


def test_large_stream_is_copied_in_little_memory(tmp_path):
    n_batches = 30
    schema = pa.schema({"a": pa.float64(), "b": pa.int64()})

    def made():
        for seed in range(n_batches):
            a = np.random.default_rng(seed).random(arrow.BATCH_ROWS)
            yield pa.record_batch([pa.array(a), pa.array(a.astype(int)).cast(pa.int64())], schema)

    before = pa.total_allocated_bytes()
    source = arrow.ArrowStream(pa.RecordBatchReader.from_batches(schema, made()), tmp_path).repeatable()
    for _ in range(2):
        used = [pa.total_allocated_bytes() for _ in source.features(OPEN)]
        assert len(used) == n_batches + 1
        assert max(used) - before < 4 * 16 * arrow.BATCH_ROWS  # a few batches


def test_used_reader_is_refused_before_the_charge():
    reader = rows().to_reader()
    model = DiPriMeClassifier(1.0, DOMAIN).fit(reader, "target")
    with Budget(4) as budget:
        for again in (lambda: model.fit(reader, "target"), lambda: private_score(model, reader, "target", 1.0)):
            with pytest.raises(ValueError, match=r"X .*already .*only once"):
                again()
    assert budget.entries == ()


def test_stream_is_opened_once_per_fit():
    stream = Stream(rows())
    for n_fits, options in enumerate(({}, {"groups": "person"}), start=1):
        fit(stream, **options)
        assert stream.n_begun == n_fits
    model = DiPriMeClassifier(2.0, DOMAIN).fit(rows().select(["a", "b", "target"]), "target")
    private_score(model, stream, "target", 1.0)
    assert DOMAIN.check(stream, "target").n_rows == N
    assert len(model.predict_proba(stream)) == N
    assert stream.n_begun == 5


@pytest.mark.parametrize("make", AGAIN.values(), ids=AGAIN)
def test_queries_are_read_again_for_each_pass(make):
    again = make(rows())
    assert fit(again, OPEN) == fit(again, OPEN) == fit(rows().select(["a", "b", "target"]), OPEN)


@pytest.mark.parametrize("make", AGAIN.values(), ids=AGAIN)
def test_batch_sizes_are_bounded(make):
    n_rows = 3 * arrow.BATCH_ROWS + 5
    source = arrow.ArrowStream(make(pa.table({"a": np.zeros(n_rows), "b": np.zeros(n_rows, int)})))
    sizes = [len(X) for X in source.features(DOMAIN)]
    assert sum(sizes) == n_rows
    assert max(sizes) <= arrow.BATCH_ROWS


@pytest.mark.parametrize("make", [*ONCE.values(), *AGAIN.values()], ids=[*ONCE, *AGAIN])
def test_batches_have_the_types_of_the_schema(make):
    """One without a value would have another type if values decided."""
    values = [datetime.date(2020, 1, 1), None, None]
    table = pa.table({"a": pa.array(values), "b": pa.array([1, None, None], pa.int8())})
    batches = make(pa.concat_tables([table, table[1:], table[:1]]))
    types = [read_table(batch).column(0).kind for batch in arrow.ArrowStream(batches).features(DOMAIN)]
    assert set(types) == {"date"}


def test_large_file_of_a_data_set_is_read_in_little_memory(tmp_path):
    n_rows = 20 * arrow.BATCH_ROWS
    table = pa.table({"a": np.random.default_rng(0).random(n_rows), "b": np.zeros(n_rows, int)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=arrow.BATCH_ROWS)
    size = table.nbytes
    del table
    used = [pa.total_allocated_bytes()]
    for batch in arrow.ArrowStream(pyarrow.dataset.dataset(tmp_path)).features(DOMAIN):
        used.append(pa.total_allocated_bytes())
        n_rows -= len(batch)
    assert n_rows == 0
    assert max(used) - used[0] < size / 2  # a few batches


def test_float_ids_in_a_file_of_a_data_set_are_refused(tmp_path):
    """A data set has the types of its first file, and makes integers of the floats that were rounded in another."""
    large = rows(3).set_column(2, "person", [[2**53, 2**53 + 1, None]])
    pq.write_table(large, tmp_path / "a.parquet")
    model = DiPriMeClassifier(1.0, DOMAIN)
    model.fit(pa.dataset.dataset(tmp_path), "target", groups="person")
    rounded = large["person"].cast(pa.float64(), safe=False)
    pq.write_table(large.set_column(2, "person", rounded).drop(["b"]), tmp_path / "b.parquet")
    data_set = pa.dataset.dataset(tmp_path)
    assert data_set.schema.field("person").type == pa.int64()
    chosen = data_set.filter(pa.dataset.field("a") >= 0)
    for refused in (data_set, chosen, pa.dataset.dataset([data_set, data_set])):
        with pytest.raises(TypeError, match=r"groups .*floats"):
            model.fit(refused, "target", groups="person")
    model.fit(data_set, "target")


def test_time_ids_that_a_data_set_rounds_to_days_are_refused(tmp_path):
    """Of the ids of another file, which are times, the hours are cut off: two people would be one."""
    day, hour = datetime.datetime(2020, 1, 1), datetime.timedelta(hours=1)
    for name, times in {"a": pa.array([day] * 3, pa.date32()), "b": pa.array([day, day + hour, None])}.items():
        pq.write_table(rows(3).set_column(2, "person", times), tmp_path / f"{name}.parquet")
    model = DiPriMeClassifier(1.0, DOMAIN)
    model.fit(pa.dataset.dataset(tmp_path / "a.parquet"), "target", groups="person")
    with pytest.raises(ValueError, match=r"'person' of X .*times .*days"):
        model.fit(pa.dataset.dataset(tmp_path), "target", groups="person")


def test_filtered_and_partitioned_data_sets_are_read(tmp_path):
    pq.write_to_dataset(rows().drop("other"), tmp_path, partition_cols=["b"])
    data_set = pa.dataset.dataset(tmp_path, partitioning="hive")
    for chosen in (data_set, data_set.filter(pa.dataset.field("a") > 3)):
        assert fit(chosen, groups="person") == fit(chosen.to_table(), groups="person")


@pytest.mark.parametrize("make", AGAIN.values(), ids=AGAIN)
def test_streams_without_rows_have_columns(make):
    empty = rows(0)
    assert fit(make(empty)) == fit(empty.select(["a", "b", "target"]))
    model = DiPriMeClassifier(2.0, DOMAIN).fit(make(empty), "target")
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.predict(make(empty)).shape == (0,)


def test_wrong_names_are_refused_before_the_charge():
    mistakes = [
        ("nothing", None, DOMAIN, r"X .*no column .*'nothing'; y "),
        ("target", "nobody", DOMAIN, r"X .*no column .*'nobody'; groups "),
        ("target", "target", DOMAIN, r"y and groups .*'target'"),
        ("b", None, DOMAIN, "X lacks column 'b'"),
        ("target", None, Domain({"z": Numeric(0, 1)}, DOMAIN.target), "X lacks column 'z'"),
    ]
    with Budget(1) as budget:
        for y, groups, domain, match in mistakes:
            for make in (Stream, pyarrow.dataset.dataset):
                with pytest.raises(ValueError, match=match):
                    DiPriMeClassifier(1.0, domain).fit(make(rows()), y, groups=groups)
        with pytest.raises(ValueError, match=r"X .*no column .*'nothing'"):
            Domain.learn(pyarrow.dataset.dataset(rows().select(["a", "b"])), "nothing", 1.0, target=DOMAIN.target)
        with pytest.raises(TypeError, match=r"X is a Stream.* y .*ndarray"):
            DiPriMeClassifier(1.0, DOMAIN).fit(Stream(rows()), np.zeros(N))
        with pytest.raises(ValueError, match=r"X .*two columns .*same name"):
            DiPriMeClassifier(1.0, DOMAIN).fit(Stream(rows().rename_columns(["target", "x", "y", "a", "a"])), "target")
        with pytest.raises(TypeError, match=r"'a' of X .*List"):
            DiPriMeClassifier(1.0, DOMAIN).fit(Stream(rows().drop("a").rename_columns({"other": "a"})), "target")
    assert budget.entries == ()


def test_errors_of_libraries_are_not_quoted(tmp_path):
    """DuckDB and PostgreSQL quote what they cannot convert, and so does what reads their streams."""
    secret = "secret-4711"
    text = pl.LazyFrame({"a": [secret], "b": [1], "target": ["yes"]})
    query = duckdb_relation(records=text.collect().to_arrow())
    failing = [
        query("SELECT a::DOUBLE AS a, b, target FROM records"),
        Stream(rows(), ValueError(secret)),
        text.with_columns(pl.col("a").cast(pl.Float64)),
    ]
    copied = sources.batches(Stream(rows(), ValueError(secret)), scratch=tmp_path)
    for stream, domain in [*((stream, DOMAIN) for stream in failing), (failing[1], OPEN), (copied, OPEN)]:
        with (
            Budget(1) as budget,
            pytest.raises(ValueError, match=r"X .*cannot be .*\(\w+\)") as found,
        ):
            DiPriMeClassifier(1.0, domain).fit(stream, "target")
        assert budget.entries == ()
        [note] = found.value.__notes__
        assert "not charged" in note
        assert found.value.__context__ is None
        assert secret not in "".join(traceback.format_exception(found.value))


def test_errors_without_values_pass(monkeypatch):
    with pytest.raises(MemoryError):
        DiPriMeClassifier(1.0, DOMAIN).fit(FailingCursor(), "target")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pyarrow"):
        DiPriMeClassifier(1.0, DOMAIN).fit(Cursor(rows()), "target")


def test_tables_and_columns_in_memory_are_not_streams():
    table = rows()
    frame = pl.from_arrow(table)
    for eager in (
        table,
        frame,
        table["a"],
        frame["a"],
        table.to_batches()[0],
        table.to_pandas(),
        np.zeros((2, 2)),
        [[1]],
    ):
        assert not arrow.is_stream(eager)
    assert read_table(table.select(["a"]).to_batches()[0]).n_rows == N


def test_batches_are_stored_in_a_scratch_directory(tmp_path):
    expected = fit(rows().select(["a", "b", "target"]))
    assert fit(sources.batches(Stream(rows()), scratch=tmp_path)) == expected
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="nowhere"):
        fit(sources.batches(Stream(rows()), scratch=tmp_path / "nowhere"))
