"""Models, scores and domains as numbers."""

import numpy as np
import pytest

from benchmarks.audit import neighbours
from benchmarks.audit.vectors import as_matrix, numbers_of
from diprime import DiPriMeBoostingRegressor, DiPriMeClassifier, Domain, Numeric, PrivateSearch, private_score
from diprime.baselines import DPRandomForestClassifier

OF = neighbours.misfit()
X, Y, _ = OF.table(with_canary=True)


@pytest.fixture
def model():
    return DiPriMeClassifier(4.0, OF.domain, n_jobs=1, n_estimators=1, max_depth=1).fit(X, Y)


def test_all_arrays_of_a_model_file_are_there(model):
    numbers = numbers_of(model).tolist()
    for array in (model.forest_.features, model.forest_.masks, model.forest_.values, model.forest_.counts):
        assert set(array.ravel().astype(float)) <= set(numbers)


def test_what_only_the_header_says_changes_a_number(model):
    model.privacy_.remarks.append("There are 80 rows.")
    before = numbers_of(model)
    model.privacy_.remarks[-1] = "There are 81 rows."
    assert (numbers_of(model) != before).any()


def test_boosted_models_comparators_scores_and_domains_have_numbers(model):
    target = Numeric(0, 1)
    boosted = DiPriMeBoostingRegressor(1.0, Domain(OF.domain.features, target), n_rounds=2, n_jobs=1)
    boosted.fit(X, np.linspace(0, 1, len(X)))
    assert set(boosted.forest_.offset.ravel()) <= set(numbers_of(boosted))
    forest = DPRandomForestClassifier(4.0, OF.domain, n_estimators=1, max_depth=1, n_jobs=1).fit(X, Y)
    assert set(forest.forest_.values.ravel()) <= set(numbers_of(forest))
    score = private_score(model, X, Y, 4.0)
    assert {score.accuracy.value, score.records.value} <= set(numbers_of(score))
    assert {0.0, 1.0} <= set(numbers_of(Domain({"x": Numeric(0, 1)}, target)))


def test_a_search_has_the_numbers_of_the_model_that_it_chose():
    forest = DiPriMeClassifier(domain=OF.domain, n_jobs=1, n_estimators=1, max_depth=1)
    search = PrivateSearch(forest, {"split_share": [0.5, 0.7]}, epsilon=4, rule="all", refit=False).fit(X, Y)
    assert set(search.best_estimator_.forest_.values.ravel().astype(float)) <= set(numbers_of(search))


def test_rows_of_different_lengths_make_a_matrix():
    matrix = as_matrix([np.array([1.0, 2.0]), np.array([3.0])])
    assert matrix.shape == (2, 2)
    assert np.isnan(matrix).sum() == 1
