"""Outcomes are kept as long as what they depend on is the same, and the report says what became of every mutant."""

from dataclasses import replace

import pytest

from benchmarks.mutants.report import report
from benchmarks.mutants.results import Results, patched_definition
from benchmarks.mutants.running import Outcome
from tests.benchmarks.mutants.small_repository import make_repository, mutant

CAUGHT = Outcome("tests/test_noise.py::test_scale", 1.5)
MUTANT = mutant("SCALE = 2", "SCALE = 1")


@pytest.fixture
def root(tmp_path):
    return make_repository(tmp_path)


@pytest.fixture
def results(root):
    results = Results(root / "mutants.jsonl", root)
    results.add(MUTANT, CAUGHT, root)
    return results


def test_outcomes_round_trip(root, results):
    results.add_passing([CAUGHT.caught_by], root)
    again = Results(root / "mutants.jsonl", root)
    assert again.outcome(MUTANT) == CAUGHT
    assert again.unproven([MUTANT]) == []
    assert again.outcome(replace(MUTANT, name="other")) is None


def test_catch_is_valid_until_patch_source_or_test_change(root, results):
    assert results.outcome(replace(MUTANT, new="SCALE = 0")) is None
    (root / "tests/test_shown.py").write_text("")
    noise = root / "tests/test_noise.py"
    noise.write_text("import os\n" + noise.read_text() + "\n\ndef test_other():\n    pass\n")
    assert results.outcome(MUTANT) == CAUGHT, "other tests, or imports for them, have changed"
    noise.write_text(noise.read_text() + "\n\nHELPER = 1\n")
    assert results.outcome(MUTANT) is None
    results.add(MUTANT, CAUGHT, root)
    (root / "tests/test_noise.py").write_text("def test_scale(): assert False\n")
    assert results.outcome(MUTANT) is None
    results.add(MUTANT, CAUGHT, root)
    source = (root / MUTANT.file).read_text()
    (root / MUTANT.file).write_text(source + "\n\nOTHER = 3\n")
    assert results.outcome(MUTANT) == CAUGHT, "another definition was added"
    (root / MUTANT.file).write_text(source.replace("SCALE = 2", "SCALE = 2 + 0"))
    assert results.outcome(MUTANT) is None


def test_a_patch_belongs_to_the_innermost_function_or_to_statements():
    source = "A = 1\nB = 2\n\n\nclass C:\n    def f(self):\n        def g():\n            return 5\n        return g\n"
    for old, name in (("return 5", "g"), ("return g", "f"), ("self):\n        def", "f")):
        assert patched_definition(source, old).startswith(f"FunctionDef(name='{name}'")
    assert patched_definition(source, "class C").startswith("ClassDef(name='C'")
    assert patched_definition(source, "B = 2") != patched_definition(source, "A = 1")
    changed = source.replace("A = 1", "A = 9")
    assert patched_definition(changed, "return 5") == patched_definition(source, "return 5")


def test_survival_is_valid_until_any_of_its_tests_changes(root, results):
    results.add(MUTANT, Outcome("", 9.0), root)
    assert results.outcome(MUTANT) == Outcome("", 9.0)
    (root / "tests/guarantees/test_fits.py").write_text("")
    assert results.outcome(MUTANT) is None


def test_catch_requires_a_test_that_passes_without_the_mutant(root, results):
    assert results.unproven([MUTANT]) == [CAUGHT.caught_by]
    assert "also fails without the mutant" in report([MUTANT], results)
    results.add_passing([CAUGHT.caught_by], root)
    assert results.unproven([MUTANT]) == []
    assert "also fails without the mutant" not in report([MUTANT], results)
