"""A rehearsal on made-up data of any domain."""

from functools import partial

import numpy as np
import pytest

from diprime.cli import planning
from diprime.cli.planning import MadeUpData, rehearse
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
def test_made_up_rows_fill_the_domain(target):
    domain = Domain(FEATURES, TARGETS[target])
    X, y = MadeUpData(domain, 0).draw(20_000)
    codes = domain.encode(X)
    for j, n_codes in enumerate(domain.n_codes.tolist()):
        assert np.unique(codes[:, j]).tolist() == list(range(n_codes))
    assert not np.isin(codes[:, domain.is_categorical], [OTHER, MISSING]).any()
    targets = domain.encode_target(y)
    assert targets.min() >= 0
    assert len(np.unique(targets)) > 2


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")  # of the seed
def test_noise_costs_accuracy_where_records_are_few(target, monkeypatch):
    monkeypatch.setattr(planning, "estimator", partial(planning.estimator, random_state=0))
    domain = Domain({name: FEATURES[name] for name in "abc"}, TARGETS[target])
    ticks = []
    few, many = (rehearse(domain, epsilon, 4000, 2, ticks.append) for epsilon in (0.002, 1000))
    assert ticks == [0.5] * 4
    assert few.noiseless - few.private > 0.1
    assert abs(many.noiseless - many.private) < 0.05
    assert many.noiseless > many.guess + 0.1
    assert few.leaf_noise > many.leaf_noise
    assert few.measure == ("accuracy" if target == "classes" else "R²")
    assert few.records_per_leaf == 4000 / (few.n_trees * 2**few.depth)
    assert few.ledger.total == few.ledger.epsilon
