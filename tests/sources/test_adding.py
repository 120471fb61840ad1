"""Adding a source, as CONTRIBUTING.md describes it: a class and a line in a registry."""

import sqlite3
from contextlib import contextmanager
from itertools import pairwise
from types import SimpleNamespace
from typing import NamedTuple

import pandas as pd
import pytest

from diprime import sources
from diprime.domain.records import PersonDigests, Records
from diprime.execution.remote import Opaque, RemotePartitions, encode_rows, unwrap
from diprime.sources.protocol import LocalSource, Roles, Source, check_names
from tests.execution.replaying import ReplayingExecutor
from tests.matrix.test_matrix import CUTS, NAMES, OPERATIONS, expected, rows

pytestmark = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")  # seeds make results comparable


class Query(NamedTuple):
    """What a library could call a query, which gives rows when it runs."""

    connection: sqlite3.Connection
    text: str


class QuerySource(LocalSource):
    """The module of the toy source."""

    def __init__(self, query):
        self.query = query

    def columns(self, roles):
        cursor = self.query.connection.execute(self.query.text)
        names = [column[0] for column in cursor.description]
        check_names(names, roles)
        return pd.DataFrame(columns=[name for name in names if name not in roles], dtype=object)

    def records(self, domain, roles):
        columns = self.columns(roles).columns
        cursor = self.query.connection.execute(self.query.text)
        names = [column[0] for column in cursor.description]
        while batch := cursor.fetchmany(100):
            frame = pd.DataFrame(batch, columns=names, dtype=object)
            yield Records(frame[columns], *(None if role is None else frame[role] for role in roles))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_local_source_needs_one_class_and_one_line(operation, monkeypatch):
    line = (lambda X: isinstance(X, Query), QuerySource)
    monkeypatch.setattr(sources, "LOCAL_SOURCES", (*sources.LOCAL_SOURCES, line))
    run, *names = OPERATIONS[operation]
    connection = sqlite3.connect(":memory:")
    rows(False).to_sql("records", connection, index=False)
    query = Query(connection, f"SELECT {', '.join([*NAMES, *filter(None, names)])} FROM records")
    assert run(False, query, *names) == expected(operation, False)
    connection.close()


class Table(list):
    """A table of a library for clusters: frames, each of which is on some worker."""

    __module__ = "toy_cluster.tables"


class ToyPartitions(RemotePartitions):
    """Partitions on workers that lose their states after every query."""

    def __init__(self, parts, of_persons):
        self.parts, self.of_persons = parts, of_persons

    def executor(self, threads, first=(), sizes=None):
        executor = ReplayingExecutor(self.parts, sizes or [part.rows.n_rows for part in self.parts], threads)
        for steps in first:
            executor.apply(steps)
        return executor


class ToySource(Source):
    """The class of the toy backend, with what would run on workers."""

    def __init__(self, table, roles):
        names = [name for name in table[0].columns if name not in roles]
        self.parts = [
            Records(frame[names], *(None if role is None else frame[role] for role in roles)) for frame in table
        ]

    def columns(self, roles):
        return self.parts[0].X[:0]

    def collect(self, tally, drawn=None, *, domain, roles):
        return [tally([part], None if drawn is None else drawn[i]) for i, part in enumerate(self.parts)]

    @contextmanager
    def encode(self, domain, roles, options):
        ids = self.parts[0].groups
        digests = None if ids is None else PersonDigests.of_kind(ids[:0], domain.missing_texts)
        how = domain, digests, options.mark_outside
        encoded = [unwrap(encode_rows(*map(Opaque, (part, *how, i)))) for i, part in enumerate(self.parts)]
        yield ToyPartitions(encoded, digests is not None)


def open_source(X, y, groups):
    roles = Roles(y, groups)
    return ToySource(X, roles), roles


def predict_partitions(X, model, method):
    return [value for frame in X for value in getattr(model, method)(frame[NAMES])]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_backend_needs_one_class_and_one_line(operation, monkeypatch):
    backend = SimpleNamespace(open_source=open_source, predict_partitions=predict_partitions)
    monkeypatch.setitem(sources.BACKENDS, "toy_cluster", (lambda: backend, "Install it."))
    run, *names = OPERATIONS[operation]
    frame = rows(False)[[*NAMES, *filter(None, names)]]
    table = Table(frame[a:b] for a, b in pairwise(CUTS))
    assert run(False, table, *names) == expected(operation, False)
