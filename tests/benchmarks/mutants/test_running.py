"""Mutants in a small repository: caught, missed, broken, and slow; the repository stays as it is."""

import pytest

from benchmarks.mutants import running
from benchmarks.mutants.catalogue import PatchError
from benchmarks.mutants.choosing_tests import TestChooser
from benchmarks.mutants.copies import Copy
from benchmarks.mutants.running import MutantError, face_tests, run_tests
from tests.benchmarks.mutants.small_repository import FILES, make_repository, mutant

pytestmark = pytest.mark.audit  # each starts pytest several times
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
    assert caught.caught_by == "tests/guarantees/test_fits.py::test_fit_has_full_noise"
    assert caught.seconds > 0
    assert face(copy, mutant("'noise'", "'other'")).caught_by == "tests/test_shown.py::test_name"


def test_tests_of_the_audit_come_last(copy):
    assert face(copy, mutant("LIMIT = 9", "LIMIT = 8")).caught_by == "tests/test_noise.py::test_limit"
    both = mutant("SCALE = 2\nNAME = 'noise'\nLIMIT = 9", "SCALE = 1.5\nNAME = 'noise'\nLIMIT = 8")
    assert face(copy, both).caught_by == "tests/guarantees/test_fits.py::test_fit_has_full_noise"


def test_equivalent_mutant_survives(copy):
    assert face(copy, mutant("SCALE / epsilon", "SCALE / (1 * epsilon)")).caught_by == ""


def test_unimportable_mutant_is_invalid(copy):
    with pytest.raises(MutantError, match="cannot be imported"):
        face(copy, mutant("SCALE = 2", "SCALE = unknown"))
    with pytest.raises(PatchError):
        face(copy, mutant("SCALE = 3", "SCALE = 2"))


def test_timeout_counts_as_caught(copy, monkeypatch):
    monkeypatch.setattr(running, "TEST_SECONDS", 2)
    outcome = face(copy, mutant("    return SCALE", "    while True:\n        pass\n    return SCALE"))
    assert outcome.caught_by == "tests/test_noise.py::test_scale"


def test_passing_until_the_deadline_counts_as_survived(copy):
    slow = mutant("    return SCALE", "    import time\n    time.sleep(60)\n    return SCALE")
    assert face(copy, slow, minutes=0.05).caught_by == ""


def test_failing_tests_are_reported(copy):
    assert run_tests(copy.root, ["tests/test_noise.py", "tests/test_shown.py"], [], 60) == []
    with copy.with_mutant(mutant("SCALE = 2\nNAME = 'noise'", "SCALE = 0\nNAME = ''")):
        failing = run_tests(copy.root, ["tests/test_noise.py", "tests/test_shown.py"], [], 60)
    assert failing == ["tests/test_noise.py::test_scale", "tests/test_shown.py::test_name"]


def test_only_the_copied_repository_is_tested(copy):
    (copy.root / "src/diprime/__init__.py").unlink()
    (copy.root / "src/diprime").rename(copy.root / "src/elsewhere")
    with pytest.raises(MutantError, match="pytest ended with 4"):
        run_tests(copy.root, ["tests/test_noise.py"], [], 60)
