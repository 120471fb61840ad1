"""Mutants in a small repository: caught, missed, broken, and slow; the repository stays as it is."""

import pytest

from benchmarks.mutants import running
from benchmarks.mutants.catalogue import PatchError
from benchmarks.mutants.choosing_tests import TestChooser
from benchmarks.mutants.copies import Copy
from benchmarks.mutants.running import MutantError, face_tests, run_tests
from tests.benchmarks.mutants.small_repository import FILES, make_repository, mutant

SOURCE = "src/diprime/noise.py"


@pytest.fixture
def copy(tmp_path):
    return Copy(tmp_path / "copy", make_repository(tmp_path / "repository"))


def face(copy, planted, minutes=5.0):
    outcome = face_tests(planted, copy, TestChooser(copy.root).stages(planted), minutes)
    assert (copy.root / SOURCE).read_text() == FILES[SOURCE], "the mutant is taken out again"
    return outcome


def test_a_mutant_is_caught_by_the_nearest_test_that_fails(copy):
    assert face(copy, mutant("SCALE = 2", "SCALE = 0")).caught_by == "tests/test_noise.py::test_scale"
    caught = face(copy, mutant("SCALE = 2", "SCALE = 1.5"))
    assert caught.caught_by == "tests/guarantees/test_fits.py::test_a_fit_has_all_of_its_noise"
    assert caught.seconds > 0
    assert face(copy, mutant("'noise'", "'other'")).caught_by == "tests/test_shown.py::test_name"


def test_a_mutant_that_changes_nothing_is_caught_by_nothing(copy):
    assert face(copy, mutant("SCALE / epsilon", "SCALE / (1 * epsilon)")).caught_by == ""


def test_a_mutant_that_cannot_be_imported_is_no_mutant(copy):
    with pytest.raises(MutantError, match="cannot be imported"):
        face(copy, mutant("SCALE = 2", "SCALE = unknown"))
    with pytest.raises(PatchError):
        face(copy, mutant("SCALE = 3", "SCALE = 2"))


def test_a_test_that_does_not_end_has_noticed(copy, monkeypatch):
    monkeypatch.setattr(running, "TEST_SECONDS", 2)
    outcome = face(copy, mutant("    return SCALE", "    while True:\n        pass\n    return SCALE"))
    assert outcome.caught_by == "tests/test_noise.py::test_scale"


def test_tests_that_pass_until_there_is_no_time_left_have_not(copy):
    slow = mutant("    return SCALE", "    import time\n    time.sleep(60)\n    return SCALE")
    assert face(copy, slow, minutes=0.05).caught_by == ""


def test_the_tests_that_fail_are_told(copy):
    assert run_tests(copy.root, ["tests/test_noise.py", "tests/test_shown.py"], [], 60) == []
    with copy.with_mutant(mutant("SCALE = 2\nNAME = 'noise'", "SCALE = 0\nNAME = ''")):
        failing = run_tests(copy.root, ["tests/test_noise.py", "tests/test_shown.py"], [], 60)
    assert failing == ["tests/test_noise.py::test_scale", "tests/test_shown.py::test_name"]


def test_a_repository_other_than_the_copy_is_not_tested(copy):
    (copy.root / "src/diprime/__init__.py").unlink()
    (copy.root / "src/diprime").rename(copy.root / "src/elsewhere")
    with pytest.raises(MutantError, match="pytest ended with 4"):
        run_tests(copy.root, ["tests/test_noise.py"], [], 60)
