"""No change of the code changes a seeded fit, or how a model file of an earlier version is read."""

import json

import numpy as np
import pytest

import diprime
from tests.golden import CASES, FIXTURES, PATH, describe, describe_case, make

GOLDEN = json.loads(PATH.read_text(encoding="utf-8"))
# The digests of the fits when their files were written: fits may change since, files are read as they are.
OF_FILES = json.loads((FIXTURES / "digests.json").read_text(encoding="utf-8"))


def assert_described(found, expected):
    """Compare digests exactly, and floats up to what differs from one processor's arithmetic to another's."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        expected_value = pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value
        assert found[name] == expected_value, name


def test_every_case_has_a_digest():
    assert list(GOLDEN) == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_seeded_fit_is_as_it_was(name):
    assert_described(describe_case(CASES[name]), GOLDEN[name])


@pytest.mark.parametrize(
    "path", sorted(FIXTURES.glob("*/*.diprime")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_file_of_an_earlier_version_is_read_as_it_was_written(path, tmp_path):
    case = next(case for case in CASES.values() if case.file_name == path.stem)
    model = diprime.load(path)
    X = make(case.target, 500, seed=99)[0]
    assert_described(describe(model, X), OF_FILES[path.stem])
    model.save(tmp_path / "again.diprime")
    again = diprime.load(tmp_path / "again.diprime")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert str(again.privacy_) == str(model.privacy_)


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_digests_of_boosting_notice_a_change():
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
def test_digests_notice_a_change():
    """A digest that nothing changes would prove nothing."""
    case = CASES["joint, two"]
    other = describe(case.estimator(random_state=8).fit(*case.data()), make("two", 500, seed=99)[0])
    assert all(other[name] != GOLDEN["joint, two"][name] for name in ("structure", "values", "predictions"))
    other = describe(case.estimator(epsilon=1.5).fit(*case.data()), make("two", 500, seed=99)[0])
    assert other["ledger"] != GOLDEN["joint, two"]["ledger"]
