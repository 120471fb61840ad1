"""The attack on seeds finds those of a fit that keeps one, and none in others."""

import pytest
from sklearn.ensemble import RandomForestClassifier

from benchmarks.attacks.our_target import OurForest
from benchmarks.attacks.seeds import attack, stored_seeds, tables
from diprime import PrivacyWarning

pytestmark = pytest.mark.filterwarnings(f"ignore::{PrivacyWarning.__module__}.{PrivacyWarning.__name__}")


def test_seeds_of_another_library_are_recovered():
    forest = RandomForestClassifier(3, random_state=11).fit(*tables()[0])
    assert stored_seeds(forest)[0] == 11
    assert set(stored_seeds(forest)) >= {tree.random_state for tree in forest.estimators_}


def test_diprime_models_keep_no_seed_unless_given():
    table = tables()[0]
    assert stored_seeds(OurForest(1.0, 1).fit(*table)) == []
    assert stored_seeds(OurForest(1.0, 1, random_state=7).fit(*table)) == [7]


@pytest.mark.audit
def test_known_seed_reveals_the_record():
    # Without a seed, 24 coins are all right with a probability of 6e-8.
    assert attack(OurForest(1.0, 2, random_state=7), 24).advantage == 1
    assert attack(OurForest(1.0, 2), 24).advantage < 1
