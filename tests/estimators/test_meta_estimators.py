"""Every meta-estimator of scikit-learn under a budget: its fits are charged, and it warns if it reads data itself."""

import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.experimental import (  # makes some of them known
    enable_halving_search_cv,  # noqa: F401
    enable_iterative_imputer,  # noqa: F401
)
from sklearn.utils import all_estimators

from diprime import Budget, Categorical, DiPriMeClassifier, DiPriMeRegressor, Domain, Numeric, PrivacyWarning
from diprime.estimators.base import READ_PRIVATE_DATA

PARAMETERS = {"estimator", "estimators", "regressor", "steps", "transformer_list", "transformers"}
INITIAL = {"GradientBoostingClassifier", "GradientBoostingRegressor"}  # take an estimator to start from
EPSILON = 100  # of each fit: some meta-estimators refuse constant predictions
META = {
    name: kind
    for name, kind in all_estimators()
    if PARAMETERS & set(inspect.signature(kind.__init__).parameters) or name in INITIAL
}
OF_TRANSFORMERS = {"ColumnTransformer", "FeatureUnion"}  # a private estimator is none
REFUSED = {
    "AdaBoostClassifier": "sample_weight",
    **dict.fromkeys(["AdaBoostRegressor", "BaggingClassifier", "BaggingRegressor"], "not private.*random_state"),
    "RANSACRegressor": "not private.*random_state",
}
WITHOUT_FITS = {*REFUSED, "FrozenEstimator", *OF_TRANSFORMERS}
SEVERAL_TARGETS = {"ClassifierChain", "MultiOutputClassifier", "MultiOutputRegressor", "RegressorChain"}
GRID = {"max_depth": [1, 2]}
OPTIONS = {
    "GridSearchCV": {"param_grid": GRID, "cv": 2},
    "HalvingGridSearchCV": {"param_grid": GRID, "cv": 2},
    "RandomizedSearchCV": {"param_distributions": GRID, "n_iter": 2, "cv": 2},
    "HalvingRandomSearchCV": {"param_distributions": GRID, "cv": 2},
    "OutputCodeClassifier": {"code_size": 20},  # a code of few bits may be the same for all classes
    "RANSACRegressor": {"min_samples": 50},
    "SequentialFeatureSelector": {"n_features_to_select": 1, "cv": 2},
}
# These give some of the columns, or more columns, which the domain does not have: the first fit, of all, is enough.
CHANGE_COLUMNS = {"ClassifierChain", "RFE", "RFECV", "RegressorChain", "SequentialFeatureSelector"}
LIST = (
    (Path(__file__).parents[2] / "docs/budget.md").read_text("utf-8").split("## Meta-estimators")[1].split("\n## ")[0]
)


def tables(is_regressor):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (200, 2))
    y = X[:, 0] if is_regressor else (X[:, 0] > 5).astype(int)
    return X, y


def private(is_regressor, n_columns=2):
    columns = {name: Numeric(0, 10) for name in "ab"[:n_columns]}
    if is_regressor:
        return DiPriMeRegressor(EPSILON, Domain(columns, target=Numeric(0, 10)), max_depth=1)
    return DiPriMeClassifier(EPSILON, Domain(columns, target=Categorical([0, 1])), max_depth=1)


def make_meta(name):
    """Return a meta-estimator of a private one, and data for it."""
    kind, is_regressor = META[name], "Regressor" in name or name == "IterativeImputer"
    X, y = tables(is_regressor)
    if name == "IterativeImputer":
        X[0, 0] = np.nan
    model = private(is_regressor, 1 if name in ("IterativeImputer", "SequentialFeatureSelector") else 2)
    given = {"init"} if name in INITIAL else PARAMETERS & set(inspect.signature(kind.__init__).parameters)
    several = bool(given & {"estimators", "steps", "transformer_list"})
    meta = kind(**{given.pop(): [("model", model)] if several else model}, **OPTIONS.get(name, {}))
    return meta, X, np.column_stack([y, y]) if name in SEVERAL_TARGETS else y


def test_every_meta_estimator_is_listed_in_the_documentation():
    listed = {name: line for line in LIST.split("\n") for name in META if f"`{name}`" in line}
    assert set(listed) == set(META)
    assert {name for name, line in listed.items() if "with a warning" in line} == READ_PRIVATE_DATA
    assert {name for name, line in listed.items() if "refused" in line} == set(REFUSED)


@pytest.mark.parametrize("name", sorted(set(META) - WITHOUT_FITS))
def test_fits_are_charged_and_meta_estimators_that_read_data_warn(name):
    meta, X, y = make_meta(name)
    with warnings.catch_warnings(record=True) as seen, Budget(1000 * EPSILON) as budget:
        warnings.simplefilter("always")
        try:
            meta.fit(X, y)
        except ValueError:
            assert name in CHANGE_COLUMNS
    warned = [str(w.message) for w in seen if issubclass(w.category, PrivacyWarning)]
    assert bool(warned) == (name in READ_PRIVATE_DATA)
    assert all(message.startswith(f"{name} reads ") for message in warned)
    assert budget.entries


@pytest.mark.parametrize("name", REFUSED)
def test_meta_estimators_with_weights_or_seeds_are_refused(name):
    meta, X, y = make_meta(name)
    with Budget(1000 * EPSILON) as budget, pytest.raises(ValueError, match=REFUSED[name]):
        meta.fit(X, y)
    assert not budget.entries


def test_frozen_estimator_is_not_fitted_again():
    meta, X, y = make_meta("FrozenEstimator")
    with Budget(1000 * EPSILON) as budget:
        meta.estimator.fit(X, y)
        meta.fit(X, y)
    assert len(budget.entries) == 1


def test_derived_meta_estimators_warn():
    class OwnSearch(META["GridSearchCV"]):
        pass

    X, y = tables(is_regressor=False)
    with Budget(1000 * EPSILON), pytest.warns(PrivacyWarning, match="GridSearchCV reads "):
        OwnSearch(private(is_regressor=False), GRID, cv=2).fit(X, y)


def test_meta_estimators_do_not_warn_without_a_budget():
    meta, X, y = make_meta("GridSearchCV")
    meta.fit(X, y)
