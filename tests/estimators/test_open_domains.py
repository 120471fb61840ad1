"""Estimators that are given an open domain learn it first, and pay for it from their own budget."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone

from diprime import (
    Categorical,
    DiPriMeBoostingClassifier,
    DiPriMeBoostingRegressor,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Domain,
    Ledger,
    Numeric,
    load,
    merge,
    sources,
)
from diprime.export import to_onnx
from diprime.paper import DPRandomForestClassifier
from diprime.privacy.gaussian_dp import gaussian_budget
from diprime.report import render

RNG = np.random.default_rng(1)
X = np.empty((3000, 3), dtype=object)
X[:, 0], X[:, 1] = RNG.uniform(0, 100, 3000), RNG.normal(0, 1e-3, 3000)
X[:, 2] = RNG.choice(["u", "v", "w"], 3000)
NUMBER = X[:, 0].astype(float) * 3 + 50 * (X[:, 2] == "u")
CLASS = np.where(NUMBER > 150, "high", "low")
OPEN = {"a": Numeric(), "b": Numeric(), "c": Categorical()}
CLASSES = Categorical(["low", "high"])

FITS = {
    "forest of classes": (DiPriMeClassifier, CLASSES, CLASS),
    "forest of numbers": (DiPriMeRegressor, Numeric(), NUMBER),
    "boosted classes": (DiPriMeBoostingClassifier, CLASSES, CLASS),
    "boosted open classes": (DiPriMeBoostingClassifier, Categorical(), CLASS),
    "boosted numbers": (DiPriMeBoostingRegressor, Numeric(), NUMBER),
    "baseline": (DPRandomForestClassifier, CLASSES, CLASS),
}


def fitted(name, epsilon=2.0):
    estimator, target, y = FITS[name]
    return estimator(epsilon, Domain(OPEN, target)).fit(X, y)


@pytest.mark.parametrize("name", FITS)
def test_learning_a_domain_is_part_of_the_budget(name):
    model = fitted(name)
    ledger, domain = model.privacy_, model.domain_
    assert ledger.total == ledger.epsilon == 2
    assert ledger.is_private
    assert domain.origin.kind == "learned"
    assert domain.origin.ledger.total == Fraction(2, 10)
    assert tuple(c for c in ledger.charges if c.kind.is_of_domain) == domain.origin.ledger.charges
    assert domain.features["a"].low < 50 < domain.features["a"].high
    assert domain.is_complete
    assert Ledger.from_json(ledger.to_json()) == ledger


@pytest.mark.parametrize("name", ["boosted numbers", "boosted open classes"])
def test_boosting_composes_both_measures(name):
    ledger = fitted(name).privacy_
    loss, delta = ledger.loss, Fraction(1, 10**6)
    assert ledger.delta == ledger.total_delta == delta
    assert loss.epsilon == Fraction(2, 10)
    assert loss.delta == delta / 10  # categories of text are counted
    assert loss.mu_squared == gaussian_budget(Fraction(18, 10), delta - loss.delta)


@pytest.mark.parametrize("name", ["forest of numbers", "boosted classes", "boosted open classes"])
def test_models_with_learnt_domains_are_saved_and_reported(name, tmp_path):
    model = fitted(name)
    y = FITS[name][2]
    score = model.score(X, y)
    assert score > 0.8
    model.save(tmp_path / "m")
    back = load(tmp_path / "m")
    assert np.array_equal(back.predict(X), model.predict(X))
    assert back.domain_.origin == model.domain_.origin
    page = render(back)
    assert "domain: feature ranges" in page
    assert "Declared and privately learnt facts" in page
    assert merge([model, back], disjoint=True).privacy_.total == 2


def test_learnt_domain_is_added_to_the_budget():
    domain = Domain.learn(X, NUMBER, 0.5, features=OPEN, target=Numeric())
    for estimator in (DiPriMeRegressor, DiPriMeBoostingRegressor):
        ledger = estimator(1.0, domain).fit(X, NUMBER).privacy_
        assert ledger.total == ledger.epsilon == Fraction(3, 2)
        assert ledger.is_private


def test_second_fit_with_a_learnt_domain_charges_it_again():
    model = fitted("forest of numbers")
    again = clone(model).set_params(domain=model.domain_).fit(X, NUMBER)
    assert again.privacy_.total == Fraction(22, 10)


def test_one_pass_batches_are_refused_for_incomplete_domains():
    batches = [(X[:1500], NUMBER[:1500]), (X[1500:], NUMBER[1500:])]
    model = DiPriMeRegressor(2.0, Domain(OPEN, Numeric()))
    assert model.fit(sources.batches(batches)).privacy_.total == 2
    with pytest.raises(ValueError, match=r"incomplete, .*several passes"):
        model.fit(sources.batches(iter(batches)))


def test_buckets_cannot_be_exported():
    pytest.importorskip("onnx")
    with pytest.raises(ValueError, match=r"hash buckets, .*ONNX"):
        to_onnx(fitted("forest of numbers"))
