"""Tests are chosen by imports, the nearest first."""

from pathlib import Path

import pytest

from benchmarks.mutants.catalogue import Mutant, read_catalogue
from benchmarks.mutants.choosing_tests import TestChooser, imported_modules
from benchmarks.paths import ROOT
from tests.benchmarks.mutants.small_repository import make_repository, mutant

CHOOSER = TestChooser(ROOT)


def stages(file, **more):
    return CHOOSER.stages(Mutant("area", "name", f"src/diprime/{file}", "a", "b", "c", **more))


def test_mirrors_come_first_then_importers_then_guarantees(tmp_path):
    chooser = TestChooser(make_repository(tmp_path))
    expected = [["tests/test_noise.py"], ["tests/test_shown.py"], ["tests/guarantees/test_fits.py"]]
    assert chooser.stages(mutant("2", "1")) == expected, "by way of a helper, and never digests of seeded fits"
    named = chooser.stages(mutant("2", "1", tests=("tests/guarantees/test_fits.py",)))
    assert named == [["tests/guarantees/test_fits.py", "tests/test_noise.py"], ["tests/test_shown.py"]]


@pytest.mark.parametrize(
    ("file", "mirror"),
    [
        ("privacy/budget/log.py", "tests/privacy/budget/test_log.py"),
        ("sources/dask/workers.py", "tests/sources/test_dask.py"),
        ("_util/files.py", "tests/util/test_files.py"),
        ("kernels/sampling.py", "tests/kernels/test_sampling.py"),
    ],
)
def test_mirror_of_a_module_or_package_is_found(file, mirror):
    assert stages(file)[0] == [mirror]


@pytest.mark.parametrize(
    ("file", "near"),
    [
        ("estimators/base.py", "tests/estimators/test_open_domains.py"),
        ("scoring/rows.py", "tests/scoring/test_score.py"),
        ("report/figures.py", "tests/report/test_scores.py"),
        ("cli/models.py", "tests/cli/test_people.py"),
        ("privacy/budget/__init__.py", "tests/privacy/budget/test_log.py"),
    ],
)
def test_tests_of_the_same_package_come_second_even_if_they_import_only_public_names(file, near):
    assert any(near in stage for stage in stages(file)[:2])


@pytest.mark.audit
def test_modules_are_tested_by_mirror_then_package():
    for path in (ROOT / "src/diprime").rglob("*.py"):
        file = path.relative_to(ROOT / "src/diprime")
        folder = Path("tests", *(part.lstrip("_") for part in file.parent.parts))
        mirror, tests = folder / f"test_{path.stem}.py", (ROOT / folder).glob("test_*.py")
        chosen = stages(file.as_posix())
        assert chosen, file
        assert "tests/test_golden.py" not in chosen[0] + chosen[-1], file
        if folder != Path("tests"):
            assert {test.relative_to(ROOT).as_posix() for test in tests} <= {
                t for stage in chosen[:2] for t in stage
            }, file
        if (ROOT / mirror).is_file():
            assert chosen[0] == [mirror.as_posix()], file


def test_tests_import_what_a_package_exports_and_what_their_fixtures_import(tmp_path):
    root = make_repository(tmp_path)
    (root / "src/diprime/__init__.py").write_text("from diprime.fit import scale\n")
    (root / "tests/public").mkdir()
    (root / "tests/public/test_names.py").write_text("from diprime import scale\n")
    (root / "tests/fixtures").mkdir()
    (root / "tests/fixtures/conftest.py").write_text("from diprime.noise import scale\n")
    (root / "tests/fixtures/test_scale.py").touch()
    expected = {"diprime", "diprime.fit", "diprime.noise"}
    assert set(imported_modules(root / "tests/public/test_names.py", root)) == expected
    importing = ["tests/fixtures/test_scale.py", "tests/public/test_names.py"]
    assert importing in TestChooser(root).stages(mutant("2", "1"))


@pytest.mark.audit
def test_every_mutant_has_tests_without_duplicates():
    for planted in read_catalogue():
        chosen = [path for stage in CHOOSER.stages(planted) for path in stage]
        assert chosen, planted.title
        assert len(set(chosen)) == len(chosen), planted.title
        assert "tests/test_golden.py" not in chosen, planted.title
        assert all((ROOT / path.split("::")[0]).is_file() for path in chosen), planted.title
