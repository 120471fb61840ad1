"""Tests are chosen by imports, the nearest first."""

from pathlib import Path

import pytest

from benchmarks.mutants.catalogue import Mutant, read_catalogue
from benchmarks.mutants.choosing_tests import TestChooser, imported_modules, module_name
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
        ("paper/baselines/recipes.py", "tests/paper/test_baselines.py"),
        ("_util/locked_file.py", "tests/util/test_locked_file.py"),
        ("kernels/sampling.py", "tests/kernels/test_sampling.py"),
    ],
)
def test_the_module_that_mirrors_a_module_or_its_package_is_found(file, mirror):
    assert stages(file)[0] == [mirror]


def test_without_a_mirror_the_whole_folder_comes_first():
    first = stages("training/boosting/settings.py")[0]
    assert "tests/training/boosting/test_whole_fits.py" in first
    assert all(path.startswith("tests/training/boosting/") for path in first)


@pytest.mark.parametrize("mutant", read_catalogue(), ids=lambda mutant: mutant.title)
def test_every_mutant_faces_tests_and_no_module_twice(mutant):
    chosen = [path for stage in CHOOSER.stages(mutant) for path in stage]
    assert chosen
    assert len(set(chosen)) == len(chosen)
    assert "tests/test_golden.py" not in chosen
    assert all((ROOT / path.split("::")[0]).is_file() for path in chosen)


def test_imports_are_read_from_the_source(tmp_path):
    root = make_repository(tmp_path)
    (root / "tests/many.py").write_text("import os, diprime.fit\nfrom diprime import noise, other\nfrom . import x\n")
    assert set(imported_modules(root / "tests/many.py", root)) == {"diprime.fit", "diprime.noise", "diprime"}
    assert module_name(Path("diprime/noise.py")) == "diprime.noise"
    assert module_name(Path("diprime/__init__.py")) == "diprime"
