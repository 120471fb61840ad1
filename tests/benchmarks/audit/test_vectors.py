"""Models, scores and domains as numbers."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.audit import neighbours
from benchmarks.audit.vectors import numbers_of
from diprime import DiPriMeBoostingRegressor, DiPriMeClassifier, Domain, Numeric, private_score
from diprime.paper import DPRandomForestClassifier

OF = neighbours.misfit()
X, Y, _ = OF.table(with_canary=True)


@pytest.fixture
def model():
    return DiPriMeClassifier(4.0, OF.domain, n_jobs=1, n_estimators=1, max_depth=1).fit(X, Y)


def test_vector_contains_all_arrays_of_a_model_file(model):
    numbers = numbers_of(model).tolist()
    for array in (model.forest_.features, model.forest_.masks, model.forest_.values, model.forest_.counts):
        assert set(array.ravel().astype(float)) <= set(numbers)


def test_vector_contains_header_values(model):
    model.privacy_ = replace(model.privacy_, notes=["There are 80 rows."])
    before = numbers_of(model)
    model.privacy_ = replace(model.privacy_, notes=["There are 81 rows."])
    assert (numbers_of(model) != before).any()


def test_vectors_exist_for_boosting_baselines_scores_and_domains(model):
    target = Numeric(0, 1)
    boosted = DiPriMeBoostingRegressor(1.0, Domain(OF.domain.features, target), n_rounds=2, n_jobs=1)
    boosted.fit(X, np.linspace(0, 1, len(X)))
    assert set(boosted.forest_.offset.ravel()) <= set(numbers_of(boosted))
    forest = DPRandomForestClassifier(4.0, OF.domain, n_estimators=1, max_depth=1, n_jobs=1).fit(X, Y)
    assert set(forest.forest_.values.ravel()) <= set(numbers_of(forest))
    score = private_score(model, X, Y, 4.0)
    assert {score.accuracy.value, score.records.value} <= set(numbers_of(score))
    assert {0.0, 1.0} <= set(numbers_of(Domain({"x": Numeric(0, 1)}, target)))
