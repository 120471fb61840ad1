"""Training asks the protocol and nothing else: another engine gives the same model, bit for bit."""

import warnings

import numpy as np
import pytest

from diprime import PrivacyWarning
from diprime.domain.target_layout import TargetLayout
from diprime.engines.partitioned import PartitionedEngine
from diprime.engines.protocol import Engine
from tests.engines.numpy_engine import NumpyEngine
from tests.golden import CASES
from tests.small_data import assert_same_forest

# Forests of few rows, on which the plain engine does not take long: all methods, tasks and ways to share rows.
NAMES = [name for name, case in CASES.items() if case.kind is None and case.n <= 1500]


@pytest.mark.parametrize("name", NAMES)
def test_a_second_engine_gives_the_same_bits(monkeypatch, name):
    made = []

    def make(*arguments):
        made.append(NumpyEngine(*arguments))
        return made[-1]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        expected = CASES[name].fit()
        monkeypatch.setattr("diprime.estimators.forest.PartitionedEngine", make)
        found = CASES[name].fit()
    assert made, "the other engine was used"
    assert_same_forest(found, expected)
    assert str(found.privacy_) == str(expected.privacy_)


@pytest.mark.parametrize("name", NAMES)
def test_sums_apart_give_the_same_bits_as_packed_ones(monkeypatch, name):
    """Where bins are wide, costs are computed in integers: with so few rows, floats round to the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        expected = CASES[name].fit()
        monkeypatch.setattr(TargetLayout, "max_rows", 255)
        found = CASES[name].fit()
    assert_same_forest(found, expected)


@pytest.mark.parametrize("engine", [PartitionedEngine, NumpyEngine])
def test_engines_have_what_the_protocol_asks_for_and_nothing_else(engine):
    asked = {name for name in vars(Engine) if not name.startswith("_")}
    assert {name for name in vars(engine) if not name.startswith("_")} == asked


def test_the_comparison_notices_an_engine_that_counts_one_record_less(monkeypatch):
    class Forgetful(NumpyEngine):
        def node_sums(self, window):
            sums = super().node_sums(window)
            sums[np.argmax(sums.sum(axis=1)), 0] -= 1
            return sums

    case = CASES["joint, two"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        expected = case.fit()
        monkeypatch.setattr("diprime.estimators.forest.PartitionedEngine", Forgetful)
        found = case.fit()
    with pytest.raises(AssertionError):
        assert_same_forest(found, expected)
