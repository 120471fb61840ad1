"""Fits to synthetic data of any domain."""

import math
from functools import partial

import pytest

from diprime.domain import Categorical, Domain, Numeric
from diprime.planning import rehearsal
from diprime.planning.rehearsal import Settings, rehearse
from diprime.planning.synthetic import KINDS

FEATURES = {"a": Numeric(0, 10), "b": Numeric(1, 1000, scale="log"), "c": Categorical(["x", "y", "z"])}
TARGETS = {"classes": Categorical(["u", "v", 3]), "number": Numeric(-5, 5)}


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")  # of the seed
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("options", [{}, {"boost": True, "delta": 1e-7, "n_rounds": 50}], ids=["forest", "boosted"])
def test_noise_costs_accuracy_if_epsilon_is_small(target, options, kind, monkeypatch):
    monkeypatch.setattr(rehearsal, "estimator", partial(rehearsal.estimator, random_state=0))
    domain = Domain(FEATURES, TARGETS[target])
    ticks = []
    (noisy, _), (precise, _) = (
        rehearse(Settings(domain, 4000, epsilon, options), kind, 2, ticks.append) for epsilon in (0.002, 1000)
    )
    assert ticks == [0.5] * 4
    assert noisy.kind == kind.name
    assert noisy.lost_to_noise == noisy.noiseless - noisy.private > 0.03
    assert abs(precise.lost_to_noise) < 0.05
    assert precise.noiseless > precise.guess + 0.1


def test_the_model_without_noise_has_as_many_rounds(monkeypatch):
    fitted = []

    def remembered(*arguments, **options):
        fitted.append(plain(*arguments, **options))
        return fitted[-1]

    plain = rehearsal.estimator
    monkeypatch.setattr(rehearsal, "estimator", remembered)
    domain = Domain({"a": Numeric(0, 10)}, TARGETS["classes"])
    rehearse(Settings(domain, 100, 1.0, {"boost": True}), KINDS[0], 1, lambda share: None)
    assert [model.epsilon for model in fitted] == [1.0, math.inf]
    assert fitted[0].forest_.n_trees == fitted[1].forest_.n_trees
