"""The steps of pipelines that learn from private data beside the private estimator."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.decomposition import PCA
from sklearn.feature_extraction import FeatureHasher
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler

from diprime import DiPriMeClassifier, DiPriMeRegressor, PrivateSearch, fitted_steps
from tests.estimators.domains import NUMBER, YES_NO

MODEL, REGRESSOR = DiPriMeClassifier(1, YES_NO), DiPriMeRegressor(1, NUMBER)


class WithoutTags:
    """A transformer that says nothing about itself."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


class Centred(TransformerMixin, BaseEstimator):
    """A transformer of a user, with the tags that scikit-learn gives by default."""


def columns(*steps, **options):
    return ColumnTransformer([(f"c{i}", step, [i]) for i, step in enumerate(steps)], **options)


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (MODEL, []),
        (PrivateSearch(MODEL, {"max_depth": [1, 2]}), []),
        (make_pipeline(MODEL), []),
        (make_pipeline(FunctionTransformer(np.log), Normalizer(), FeatureHasher(), "passthrough", MODEL), []),
        (make_pipeline(StandardScaler(), MODEL), ["standardscaler"]),
        (make_pipeline(WithoutTags(), Centred(), MODEL), ["withouttags", "centred"]),
        (make_pipeline(Normalizer(), LogisticRegression()), ["logisticregression"]),
        (StandardScaler(), ["StandardScaler"]),
        (GridSearchCV(MODEL, {}), ["GridSearchCV"]),
        (make_pipeline(columns(Normalizer(), "drop"), MODEL), []),
        (
            make_pipeline(columns(OneHotEncoder(), Normalizer(), "passthrough", remainder=SimpleImputer()), MODEL),
            ["columntransformer__c0", "columntransformer__remainder"],
        ),
        (
            Pipeline([("a", make_pipeline(columns(make_pipeline(Normalizer(), PCA())))), ("m", MODEL)]),
            ["a__columntransformer__c0__pca"],
        ),
        (
            make_pipeline(FeatureUnion([("n", Normalizer()), ("p", PCA()), ("d", "drop")]), MODEL),
            ["featureunion__p"],
        ),
        (TransformedTargetRegressor(REGRESSOR, func=np.log, inverse_func=np.exp), []),
        (TransformedTargetRegressor(REGRESSOR, transformer=StandardScaler()), ["transformer"]),
        (TransformedTargetRegressor(make_pipeline(PCA(), REGRESSOR)), ["regressor__pca"]),
        (TransformedTargetRegressor(), ["regressor"]),
    ],
)
def test_steps_that_learn_from_the_data_are_listed(estimator, expected):
    assert fitted_steps(estimator) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [(make_column_selector(dtype_include="number"), []), (lambda X: list(X.columns[X.max() > 1]), ["c"])],
)
def test_column_selectors_that_read_values_are_listed(selector, expected):
    assert fitted_steps(ColumnTransformer([("c", Normalizer(), selector)])) == expected


def test_step_names_are_those_of_parameters():
    pipeline = make_pipeline(columns(make_pipeline(PCA()), remainder=StandardScaler()), MODEL)
    assert set(fitted_steps(pipeline)) < set(pipeline.get_params())


def test_fitted_steps_have_exact_statistics(X, y):
    pipeline = make_pipeline(StandardScaler(), DiPriMeClassifier(1, YES_NO)).fit(X, y)
    assert pipeline[-1].privacy_.is_private
    assert np.allclose(pipeline[0].mean_, np.mean(X, axis=0))
    assert fitted_steps(pipeline) == ["standardscaler"]
