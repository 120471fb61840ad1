"""Columns of dates give several encoded features: what users pass has columns, what models split on has features."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from diprime import (
    Categorical,
    Date,
    DiPriMeBoostingClassifier,
    DiPriMeBoostingRegressor,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Domain,
    Integer,
    Numeric,
    load,
    merge,
    sources,
)
from diprime.inspection.views import drawn_trees, read_tree
from diprime.paper import DPRandomForestClassifier
from diprime.report import render

FEATURES = {
    "temperature": Numeric(-20, 40),
    "when": Date("2012-10-02", "2018-09-30", parts=["weekday", "hour"]),
    "lanes": Integer(1, 6),
}
CODED = ("temperature", "when", "when.weekday", "when.hour", "lanes")
ESTIMATORS = [DiPriMeClassifier, DiPriMeRegressor, DiPriMeBoostingClassifier, DiPriMeBoostingRegressor]
BOOSTED = (DiPriMeBoostingClassifier, DiPriMeBoostingRegressor)


def made_table(n):
    rng = np.random.default_rng(0)
    seconds = rng.integers(0, 6 * 365 * 86_400, n)
    when = pd.Series(np.datetime64("2012-10-02", "s") + seconds)
    table = pd.DataFrame({"temperature": rng.uniform(-20, 40, n), "when": when, "lanes": rng.integers(1, 7, n)})
    busy = ((when.to_numpy().astype("M8[D]").astype(int) + 3) % 7 < 5) & when.dt.hour.between(7, 18)
    return table, busy.to_numpy().astype(int)


X, y = made_table(6000)


def fitted(estimator, X=X, y=y, **parameters):
    target = Categorical([0, 1]) if estimator._task == "classification" else Numeric(0, 1)
    return estimator(20.0, Domain(FEATURES, target), **parameters).fit(X, y)


@pytest.fixture(scope="module", params=ESTIMATORS, ids=lambda e: e.__name__)
def model(request):
    return fitted(request.param)


def test_models_learn_from_parts_of_dates(model):
    predicted = model.predict(X) > 0.5
    assert (predicted == y).mean() > 0.85
    importance = dict(zip(model.domain_.encoded_feature_names, model.feature_importances_, strict=True))
    assert tuple(importance) == CODED
    assert importance["when.hour"] + importance["when.weekday"] > 0.6


def test_scikit_learn_attributes_are_those_of_columns(model):
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == list(FEATURES)
    expected = model.predict(X)
    assert np.array_equal(model.predict(pl.from_pandas(X)[["lanes", "when", "temperature"]]), expected)
    assert np.array_equal(fitted_copy(model).predict(X), expected)
    with pytest.raises(ValueError, match="is expecting 3 features"):
        model.predict(np.zeros((2, 5)))
    with pytest.raises(ValueError, match="X lacks column 'when'"):
        model.predict(X.drop(columns="when"))
    with pytest.raises(TypeError, match=r"'when' has dtype int64, .*declares dates"):
        model.predict(X.assign(when=1))


def fitted_copy(model):
    return pickle.loads(pickle.dumps(model))


def test_files_preserve_features(model, tmp_path):
    model.save(tmp_path / "m.diprime")
    copy = load(tmp_path / "m.diprime")
    assert copy.domain_ == model.domain_
    assert copy.n_features_in_ == 3
    assert copy.feature_names_in_.tolist() == list(FEATURES)
    assert np.array_equal(copy.predict(X), model.predict(X))


def test_object_and_text_rows_are_predicted_alike(model):
    rows = [[t, when.to_pydatetime(), n] for t, when, n in X.head(50).itertuples(index=False)]
    texts = [[t, str(when), n] for t, when, n in rows]
    unnamed = clone(model).fit(X.head(50).to_numpy(), y[:50])
    assert np.array_equal(unnamed.predict(rows), unnamed.predict(texts))
    assert not hasattr(unnamed, "feature_names_in_")


def test_reports_name_values_and_parts(model):
    page = render(model)
    assert "dates from 2012-10-02 to 2018-09-30, their weekday and hour" in page
    assert "integers from 1 to 6" in page
    assert "5, from 3 columns, because a date column gives several" in page
    assert "when.hour" in page


@pytest.mark.parametrize("estimator", [DiPriMeClassifier, DiPriMeBoostingClassifier])
def test_trees_show_values(estimator):
    model = fitted(estimator)
    words = {c for i in range(len(drawn_trees(model.forest_))) for c in read_tree(model, i).conditions}
    assert any(c.startswith("when.weekday ≤ Friday") for c in words)
    assert any(c.startswith(("when.hour ≥ 7", "when.hour ≤ 6")) for c in words)


def test_errors_about_batches_do_not_quote_column_names():
    whole = DiPriMeClassifier(1.0, Domain(FEATURES, Categorical([0, 1])))
    names = ["secret", "2013-01-01", "5"]
    for columns in (names, ["secret", "secret", "5"]):
        with pytest.raises(ValueError, match="X") as caught:
            whole.fit(sources.batches([(X, y), (X.set_axis(columns, axis=1), y)]))
        assert "secret" not in str(caught.value)
        assert "2013" not in str(caught.value)


def test_merged_and_inferred_models_and_baselines_accept_dates():
    both = merge(
        [fitted(DiPriMeRegressor, X[:3000], y[:3000]), fitted(DiPriMeRegressor, X[3000:], y[3000:])], disjoint=True
    )
    assert both.predict(X).shape == (6000,)
    with pytest.warns(match="not private"):
        inferred = DiPriMeClassifier(5.0, "infer").fit(X, y)
    assert inferred.domain_.features["when"].parts == ("weekday", "month", "hour")
    assert inferred.domain_.features["lanes"] == Integer(1, 6)
    baseline = DPRandomForestClassifier(5.0, Domain(FEATURES, Categorical([0, 1]))).fit(X, y)
    assert baseline.predict(X).shape == (6000,)
