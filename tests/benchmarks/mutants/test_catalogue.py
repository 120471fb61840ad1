"""The list of mutants fits the source as it is, so that it cannot grow out of date unnoticed."""

import ast
from collections import Counter

import pytest

from benchmarks.mutants.catalogue import Mutant, PatchError, read_catalogue, select, source_of
from benchmarks.paths import ROOT

CATALOGUE = read_catalogue()
AREAS = {
    "noise", "ranges", "charges", "candidates", "windows", "partitions", "streams", "keys", "limits", "files",
    "messages", "comparators", "boosting", "budget", "persons", "scores", "search", "learning", "engines",
    "clusters",
}  # fmt: skip


@pytest.mark.parametrize("mutant", CATALOGUE, ids=lambda mutant: mutant.title)
def test_every_patch_fits_and_changes_what_the_source_does(mutant):
    source = source_of(mutant)
    patched = mutant.applied(source)
    assert ast.dump(ast.parse(patched)) != ast.dump(ast.parse(source)), "not only a comment"
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


def test_a_patch_that_does_not_fit_is_refused():
    stale = Mutant("noise", "stale", "src/diprime/x.py", "a = 1", "a = 2", "It is stale.")
    assert stale.applied("a = 1\nb = a\n") == "a = 2\nb = a\n"
    for source in ("a = 3\n", "a = 1\na = 1\n"):
        with pytest.raises(PatchError, match=r"noise/stale: its old text is [02] times in src/diprime/x.py"):
            stale.applied(source)


def test_kernels_that_are_compiled_are_known():
    kernels = {mutant.file: mutant.kernel for mutant in CATALOGUE if mutant.kernel}
    assert set(kernels.values()) <= {"boosting", "histogram", "sampling", "scoring", "adding", "encoding", "walking"}
    assert Mutant("a", "b", "src/diprime/kernels/constants.py", "a", "b", "c").kernel is None
    assert Mutant("a", "b", "src/diprime/training/leaves.py", "a", "b", "c").kernel is None


def test_areas_and_mutants_are_selected_by_name():
    one = CATALOGUE[0]
    assert select(CATALOGUE, []) == CATALOGUE
    assert select(CATALOGUE, [one.title]) == [one]
    assert {mutant.area for mutant in select(CATALOGUE, ["keys", "budget"])} == {"keys", "budget"}
    with pytest.raises(PatchError, match="There is no mutant, and no area of mutants, 'nothing'"):
        select(CATALOGUE, ["nothing"])


@pytest.mark.parametrize(
    "text", ["[a]\nfile = 'a.py'\n", "[a]\nfile = 'a'\nold = ''\nnew = 'b'\nbreaks = 'c.'\n", "a = 1\n"]
)
def test_a_table_that_is_no_mutant_is_refused(text, tmp_path):
    (tmp_path / "area.toml").write_text(text)
    with pytest.raises(PatchError, match="area/a: "):
        read_catalogue(tmp_path)
