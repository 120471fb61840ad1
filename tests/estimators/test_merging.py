"""Models of disjoint populations become one."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError

from diprime import Categorical, DiPriMeClassifier, DiPriMeRegressor, Domain, Ledger, Numeric, merge
from tests.estimators.domains import ABC, NUMBER, YES_NO
from tests.small_data import ESTIMATORS, TASKS, fit, make

not_private = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")


@pytest.mark.parametrize("task", TASKS)
def test_merged_models_predict_as_their_trees_and_cost_the_largest_epsilon(task):
    rows, target = make(task, 3000)
    sizes = {"a": slice(0, 500), "b": slice(500, 1000), "c": slice(1000, 3000)}
    epsilons = {"a": 0.5, "b": 3, "c": 1}
    models = [
        fit(task, rows[part], target[part], epsilon=epsilons[name], n_estimators=2, max_depth=3 + (name == "c"))
        for name, part in sizes.items()
    ]
    merged = merge(models)
    assert type(merged) is ESTIMATORS[task]
    assert merged.forest_.depths.tolist() == [3, 3, 3, 3, 4, 4]
    assert merged.privacy_.total == 3
    assert merged.epsilon == 3
    assert merged.privacy_.is_private
    assert [ledger.total for ledger in merged.privacy_.merged] == [Fraction(1, 2), 3, 1]
    assert Ledger.from_json(merged.privacy_.to_json()) == merged.privacy_
    output = "predict_proba" if task == "classification" else "predict"
    weights = [np.maximum(m.forest_.counts.reshape(2, -1).sum(axis=1), 1).sum() for m in models]
    expected = sum(w * getattr(m, output)(rows) for w, m in zip(weights, models, strict=True)) / sum(weights)
    assert getattr(merged, output)(rows) == pytest.approx(expected)
    assert np.array_equal(merged.apply(rows), np.hstack([m.apply(rows) for m in models]))

    twice = merge([merge(models[:2]), models[2]])
    assert twice.privacy_.total == 3
    assert [ledger.total for ledger in twice.privacy_.merged] == [3, 1]
    assert np.array_equal(twice.predict(rows), merged.predict(rows))
    assert np.array_equal(pickle.loads(pickle.dumps(twice)).predict(rows), merged.predict(rows))
    assert models[0].forest_.n_trees == 2  # the parts stay as they were


@not_private
def test_a_merged_ledger_keeps_what_any_model_waived(X, y):
    private = DiPriMeClassifier(domain=YES_NO).fit(X, y)
    seeded = DiPriMeClassifier(domain=YES_NO, random_state=0).fit(X, y)
    paper = DiPriMeClassifier(domain=YES_NO, accounting="paper").fit(X, y)
    assert merge([private, private]).privacy_.is_private
    for other in (seeded, paper):
        merged = merge([private, other])
        assert not merged.privacy_.is_private
        assert "NOT PRIVATE" in str(merged.privacy_)


def test_models_that_do_not_belong_together_are_not_merged(X, y):
    classifier = DiPriMeClassifier(domain=YES_NO).fit(X, y)
    regressor = DiPriMeRegressor(domain=NUMBER).fit(X, X[:, 0])
    wider = Domain({**ABC, "a": Numeric(0, 11)}, Categorical(["no", "yes"]))
    for models, kind, message in [
        ([], ValueError, "There is nothing to merge"),
        (classifier, TypeError, "models is a single model; give a list"),
        ([classifier, regressor], ValueError, "DiPriMeClassifier and DiPriMeRegressor cannot be merged"),
        ([classifier, DiPriMeClassifier(domain=wider).fit(X, y)], ValueError, "Models of different domains cannot be"),
        ([classifier, DiPriMeClassifier(domain=YES_NO)], NotFittedError, "is not fitted yet"),
        ([classifier, RandomForestClassifier()], TypeError, "Only DiPriMe estimators can be merged, got RandomForest"),
    ]:
        with pytest.raises(kind, match=message):
            merge(models)
    assert merge([classifier]).privacy_.total == 1
