"""Explanations of forests: they add up, use released numbers only, and obey the axioms of Shapley values."""

from dataclasses import replace

import numpy as np
import pytest

from diprime import Categorical, Domain, Explanation, Numeric, merge
from diprime.model.shapley import mean_value, node_shares
from tests.small_data import DOMAINS, TASKS, fit, make

CASES = [
    ("classification", {}),
    ("regression", {}),
    ("classification", {"n_estimators": 3, "max_depth": 4}),
    ("regression", {"epsilon": float("inf"), "partition": False, "n_estimators": 3, "max_depth": 6}),
    ("classification", {"class_weight": "balanced"}),
    ("regression", {"max_records_per_group": 1, "method": "diprime-flip"}),
]


def explained(task, parameters, n=400):
    X, y = make(task, n)
    model = fit(task, X, y, **parameters)
    return model, X[:50], model.explain(X[:50])


@pytest.mark.parametrize(("task", "parameters"), CASES)
def test_contributions_add_up_to_the_prediction(task, parameters):
    model, X, found = explained(task, parameters)
    assert isinstance(found, Explanation)
    predicted = model.predict_proba(X) if task == "classification" else model.predict(X)[:, None]
    assert found.scores == pytest.approx(predicted, abs=1e-9)
    assert found.offset + found.contributions.sum(axis=1) == pytest.approx(predicted, abs=1e-9)
    assert found.terms == tuple((name,) for name in DOMAINS[task].names)
    assert found.targets == (("a", "b", "c") if task == "classification" else (None,))
    assert found.are_probabilities == (task == "classification")


def test_of_two_classes_the_second_is_explained():
    X, y = make("classification", 400)
    domain = Domain(DOMAINS["classification"].features, Categorical(["a", "other"]))
    model = fit("classification", X, np.where(y == "a", "a", "other"), domain=domain)
    found = model.explain(X[:5])
    assert found.targets == ("other",)
    assert found.offset + found.contributions.sum(axis=1) == pytest.approx(model.predict_proba(X[:5])[:, 1:], abs=1e-9)
    assert found.row(0).startswith("row 0: probability of other ")


def test_a_feature_that_no_split_uses_adds_nothing_and_equal_ones_add_the_same():
    X = np.random.default_rng(0).uniform(0, 1, (3000, 3))
    domain = Domain({name: Numeric(0, 1) for name in "abc"}, Numeric(0, 1))
    model = fit("regression", X, X[:, 0], domain=domain, epsilon=float("inf"), max_depth=3)
    assert set(model.forest_.features.tolist()) == {0}
    found = model.explain(X[:20]).contributions
    assert (found[:, 1:] == 0).all()
    assert np.abs(found[:, 0]).max() > 0.1
    structure = model.forest_  # the same splits on another feature: its contributions are those of the first
    other = replace(structure, features=np.full_like(structure.features, 2))
    model.forest_ = other
    assert model.explain(X[:20, ::-1].copy()).contributions[:, 2] == pytest.approx(found[:, 0])


def test_contributions_of_a_forest_are_the_weighted_means_of_those_of_its_trees():
    X, y = make("regression", 600)
    parts = [fit("regression", X[i::2], y[i::2]) for i in (0, 1)]
    merged = merge(parts)
    weights = merged.forest_.tree_weights
    expected = sum(w * part.explain(X[:9]).contributions for w, part in zip(weights, parts, strict=True))
    assert merged.explain(X[:9]).contributions == pytest.approx(expected)


@pytest.mark.parametrize("task", TASKS)
def test_explanations_depend_on_the_model_and_the_row_alone(task, tmp_path):
    model, X, found = explained(task, {"n_jobs": 3})
    alone = model.explain(X[7:8])
    assert np.array_equal(alone.contributions[0], found.contributions[7])
    assert model.explain(X[:0]).contributions.shape[0] == 0


def test_shares_are_of_released_counts_and_halves_where_there_are_none():
    assert node_shares(np.array([5.0])).tolist() == [1.0]
    shares = node_shares(np.array([0.0, -1.0, 6.0, 2.0]))
    assert shares.tolist() == [1.0, 0.0, 1.0, 0.5, 0.5, 0.75, 0.25]
    assert mean_value(shares, np.array([[1.0], [2.0], [3.0], [7.0]])).tolist() == [4.0]
