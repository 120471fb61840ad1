"""Seeded fits, texts for users, and the reading of model files of earlier versions do not change unintentionally."""

import json
from difflib import unified_diff

import numpy as np
import pytest

import diprime
from tests.golden import CASES, FIXTURES, OUTPUTS, PATH, describe, describe_case, describe_output, make

GOLDEN = json.loads(PATH.read_text(encoding="utf-8"))
# Digests of the fits when the files were written. Fits may have changed since then, but not the content of the files.
OF_FILES = json.loads((FIXTURES / "digests.json").read_text(encoding="utf-8"))


def assert_described(found, expected):
    """Compare digests and texts exactly, and floats up to differences between processors."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        expected_value = pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value
        is_text = isinstance(value, list) and isinstance(found[name], list)
        changed = "\n".join(unified_diff(value, found[name], "golden", "found", n=1, lineterm="")) if is_text else ""
        assert found[name] == expected_value, f"{name}: see 'Golden results' in CONTRIBUTING.md\n{changed}"


def test_every_case_has_a_digest():
    assert list(GOLDEN) == [*CASES, *OUTPUTS]


@pytest.mark.parametrize("name", CASES)
def test_seeded_fit_matches_its_digest(name):
    assert_described(describe_case(CASES[name]), GOLDEN[name])


@pytest.mark.parametrize("name", OUTPUTS)
def test_output_matches_its_digest(name):
    assert_described(describe_output(name), GOLDEN[name])


@pytest.mark.parametrize(
    "path", sorted(FIXTURES.glob("*/*.diprime")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_committed_model_file_is_read_and_rewritten_identically(path, tmp_path):
    case = next(case for case in CASES.values() if case.file_name == path.stem)
    model = diprime.load(path)
    X = make(case.target, 500, seed=99)[0]
    assert_described(describe(model, X), OF_FILES[path.stem])
    model.save(tmp_path / "again.diprime")
    again = diprime.load(tmp_path / "again.diprime")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert str(again.privacy_) == str(model.privacy_)


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_boosting_digest_changes_with_the_model():
    case = CASES["boosting of settings, two"]
    expected = GOLDEN[case.name]
    for change, same in (
        ({"random_state": 8}, {"ledger"}),
        ({"delta": 1e-8}, set()),
        ({"learning_rate": 0.31}, {"ledger"}),
    ):
        other = describe(case.estimator(**change).fit(*case.data()), make("two", 500, seed=99)[0])
        assert {name for name in expected if other[name] == expected[name]} <= same | {"predictions"}


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_forest_digest_changes_with_the_model():
    """A constant digest would prove nothing."""
    case = CASES["joint, two"]
    other = describe(case.estimator(random_state=8).fit(*case.data()), make("two", 500, seed=99)[0])
    assert all(other[name] != GOLDEN["joint, two"][name] for name in ("structure", "values", "predictions"))
    other = describe(case.estimator(epsilon=1.5).fit(*case.data()), make("two", 500, seed=99)[0])
    assert other["ledger"] != GOLDEN["joint, two"]["ledger"]
