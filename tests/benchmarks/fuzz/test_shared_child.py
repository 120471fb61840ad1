"""One process does for many files what a child does for each, and another goes on where a file ends it."""

import polars as pl
import pytest

from benchmarks.fuzz.shared_child import Server, SharedChild
from diprime.cli import parquet_child
from diprime.cli.parquet_file import DamagedFileError, _Child

CHILD = """
import os, sys, time
from pathlib import Path

def begin(memory, import_path):
    sys.path[:] = import_path

def numbers(file, limit, request):
    word = Path(file).read_text()
    if word == "abort":
        os.abort()
    if word == "fail":
        raise ValueError("rows")
    yield len(word)
    if request() != "null\\n":
        for _ in range(3):
            yield limit["rows"]
    if word == "abort later":
        os.abort()
"""
"""Stands for the child: a file has a word, which says what it does."""


@pytest.fixture
def server(tmp_path, monkeypatch):
    path = tmp_path / "child.py"
    path.write_text(CHILD)
    monkeypatch.setattr(parquet_child, "__file__", str(path))
    return Server(1000)


def child_of(server, tmp_path, word):
    path = tmp_path / "word"
    path.write_text(word)
    return SharedChild(server, path)


def test_every_file_gets_its_own_answers(server, tmp_path):
    for word in ("one", "three"):
        child = child_of(server, tmp_path, word)
        assert child.next_number() == len(word)
        child.ask([["a"], 10])
        assert child.next_number() == 10_000_000 + 1000 * len(word), "and that two more are left does no harm"
    assert child_of(server, tmp_path, "seven").next_number() == 5
    assert child_of(server, tmp_path, "nobody asks").next_number() == 11
    assert server.n_ended == 0


@pytest.mark.parametrize(("word", "n_ended"), [("abort", 2), ("fail", 0)])
def test_a_file_that_ends_its_child_is_refused_and_the_next_is_read(server, tmp_path, word, n_ended):
    for _ in range(2):
        with pytest.raises(DamagedFileError):
            child_of(server, tmp_path, word).next_number()
        child = child_of(server, tmp_path, "sound")
        assert child.next_number() == 5
    assert server.n_ended == n_ended


def test_an_end_that_nobody_waits_for_is_not_that_of_the_next_file(server, tmp_path):
    child = child_of(server, tmp_path, "abort later")
    assert child.next_number() == 11
    child.ask([["a"], 10])
    assert child.next_number() == 10_000_000 + 11_000
    assert child_of(server, tmp_path, "sound").next_number() == 5
    assert server.n_ended == 1


def test_it_says_what_a_child_says(tmp_path):
    server, path = Server(10_000), tmp_path / "t.parquet"
    pl.DataFrame({"a": range(25), "b": ["x"] * 25}).write_parquet(path)
    for child in (SharedChild(server, path), _Child(path)):
        assert child.next_number() == 25
        child.ask([["b"], 10])
        assert [child.next_number() for _ in range(3)] == [10, 10, 5]
    assert server.seconds > 0
    path.write_bytes(b"PAR1 and nothing else")
    for child in (SharedChild(server, path), _Child(path)):
        with pytest.raises(DamagedFileError):
            child.next_number()
