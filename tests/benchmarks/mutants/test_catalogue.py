"""The list of mutants fits the source as it is, so that it cannot grow out of date unnoticed."""

import ast
from collections import Counter
from functools import cache

import pytest

from benchmarks.mutants.catalogue import Mutant, PatchError, read_catalogue, source_of
from benchmarks.paths import ROOT

CATALOGUE = read_catalogue()
AREAS = {
    "noise", "ranges", "charges", "candidates", "windows", "partitions", "streams", "keys", "limits", "files",
    "messages", "comparators", "boosting", "budget", "persons", "scores", "search", "learning", "engines",
    "clusters", "values",
}  # fmt: skip


@cache
def tree_of(source):
    """Return the syntax of a module, which many mutants share."""
    return ast.dump(ast.parse(source))


@pytest.mark.parametrize("mutant", CATALOGUE, ids=lambda mutant: mutant.title)
def test_every_patch_applies_and_changes_the_code(mutant):
    source = source_of(mutant)
    patched = mutant.applied(source)
    assert ast.dump(ast.parse(patched)) != tree_of(source), "not only a comment"
    assert mutant.breaks.endswith(".")
    assert "|" not in mutant.name
    for test in mutant.tests:
        assert (ROOT / test.split("::")[0]).is_file(), test


def test_there_are_mutants_of_every_kind():
    sizes = Counter(mutant.area for mutant in CATALOGUE)
    assert set(sizes) == AREAS
    assert sum(sizes.values()) >= 80
    assert sizes["budget"] >= 28
    assert min(sizes.values()) >= 4
    assert len({mutant.title for mutant in CATALOGUE}) == len(CATALOGUE)
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in CATALOGUE}) == len(CATALOGUE)


def test_patch_that_does_not_apply_is_refused():
    stale = Mutant("noise", "stale", "src/diprime/x.py", "a = 1", "a = 2", "It is stale.")
    assert stale.applied("a = 1\nb = a\n") == "a = 2\nb = a\n"
    for source in ("a = 3\n", "a = 1\na = 1\n"):
        with pytest.raises(PatchError, match=r"noise/stale: its old text is [02] times in src/diprime/x.py"):
            stale.applied(source)


@pytest.mark.parametrize(
    "text", ["[a]\nfile = 'a.py'\n", "[a]\nfile = 'a'\nold = ''\nnew = 'b'\nbreaks = 'c.'\n", "a = 1\n"]
)
def test_invalid_mutant_is_refused(text, tmp_path):
    (tmp_path / "area.toml").write_text(text)
    with pytest.raises(PatchError, match="area/a: "):
        read_catalogue(tmp_path)
