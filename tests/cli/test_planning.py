"""Fits to synthetic data of any domain."""

from functools import partial

import numpy as np
import pytest

from diprime.cli import planning
from diprime.cli.planning import SyntheticData, rehearse
from diprime.domain import MISSING, OTHER, Categorical, Domain, Numeric

FEATURES = {
    "a": Numeric(0, 10),
    "b": Numeric(1, 1000, scale="log"),
    "c": Categorical(["x", "y", "z"]),
    "d": Categorical([0, 1, "two", True * 2]),
    "e": Numeric(edges=[0, 18, 65]),
    "f": Categorical([False, True]),
    "g": Categorical(range(400)),
}
TARGETS = {"classes": Categorical(["u", "v", 3]), "number": Numeric(-5, 5)}


@pytest.mark.parametrize("target", TARGETS)
def test_synthetic_rows_take_every_code(target):
    domain = Domain(FEATURES, TARGETS[target])
    X, y = SyntheticData(domain, 0).draw(20_000)
    codes = domain.encode(X)
    for j, n_codes in enumerate(domain.n_codes.tolist()):
        assert np.unique(codes[:, j]).tolist() == list(range(n_codes))
    assert not np.isin(codes[:, domain.is_categorical], [OTHER, MISSING]).any()
    targets = domain.encode_target(y)
    assert targets.min() >= 0
    assert len(np.unique(targets)) > 2


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")  # of the seed
def test_noise_costs_accuracy_if_epsilon_is_small(target, monkeypatch):
    monkeypatch.setattr(planning, "estimator", partial(planning.estimator, random_state=0))
    domain = Domain({name: FEATURES[name] for name in "abc"}, TARGETS[target])
    ticks = []
    noisy, precise = (rehearse(domain, epsilon, 4000, 2, ticks.append) for epsilon in (0.002, 1000))
    assert ticks == [0.5] * 4
    assert noisy.noiseless - noisy.private > 0.1
    assert abs(precise.noiseless - precise.private) < 0.05
    assert precise.noiseless > precise.guess + 0.1
    assert noisy.leaf_noise > precise.leaf_noise
    assert noisy.measure == ("accuracy" if target == "classes" else "R²")
    assert noisy.records_per_leaf == 4000 / (noisy.n_trees * 2**noisy.depth)
    assert noisy.ledger.total == noisy.ledger.epsilon
