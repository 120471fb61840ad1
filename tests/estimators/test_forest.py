"""The estimators as users meet them: scikit-learn's own checks, odd input, labels and tables of every kind."""

import inspect
import math
import os
import pickle
import re
import warnings
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor, VotingClassifier
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import diprime
from diprime import Categorical, DiPriMeClassifier, DiPriMeRegressor, Domain, Ledger, Numeric, PrivacyWarning, merge
from tests.small_data import DOMAINS, ESTIMATORS, METHODS, TASKS, assert_same_forest, fit, make

OLD_SCIKIT_LEARN = sklearn.__version__.startswith(("1.6", "1.7"))
not_private = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
ABC = {name: Numeric(0, 10) for name in "abc"}
YES_NO = Domain(ABC, Categorical(["no", "yes"]))
NUMBER = Domain(ABC, Numeric(0, 10))


@pytest.fixture(scope="module", name="X")
def rows():
    return np.random.default_rng(0).uniform(0, 10, (600, 3))


@pytest.fixture(scope="module")
def y(X):
    return np.where(X[:, 1] > 5, "yes", "no")


# -- scikit-learn's checks --------------------------------------------------------------------------------------------

# The checks of accuracy fit 200 and 300 rows, which say next to nothing at epsilon = 1; at 1000 all must pass.
NEEDS_MORE_ROWS = {"check_classifiers_train", "check_regressors_train", "check_regressors_int"}


@not_private
@parametrize_with_checks([estimator(1000, "infer", random_state=0) for estimator in ESTIMATORS.values()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@not_private
@pytest.mark.parametrize("estimator", ESTIMATORS.values())
def test_scikit_learn_checks_with_default_parameters(estimator):
    results = check_estimator(estimator(domain="infer", random_state=0), on_fail=None, on_skip=None)
    failed = {result["check_name"] for result in results if result["status"] == "failed"}
    assert failed <= NEEDS_MORE_ROWS
    assert len(results) > 45


@pytest.mark.parametrize("estimator", ESTIMATORS.values())
def test_the_documentation_names_every_parameter(estimator):
    text = inspect.getdoc(estimator)
    sections = dict(zip(*[iter(re.split(r"\n?^(\w+)\n-+$\n", text, flags=re.MULTILINE)[1:])] * 2, strict=True))
    assert list(sections) == ["Parameters", "Attributes", "Examples"]
    documented = re.findall(r"^(\w+) : ", sections["Parameters"], flags=re.MULTILINE)
    assert documented == list(inspect.signature(estimator).parameters)
    other = inspect.getdoc(DiPriMeClassifier)
    assert sections["Parameters"] in other  # it is written twice
    fitted = fit_small(estimator)
    documented = set(re.findall(r"^(\w+_) : ", sections["Attributes"], flags=re.MULTILINE))
    assert {name for name in vars(fitted) if name.endswith("_")} <= documented
    assert all(hasattr(fitted, name) for name in documented - {"feature_names_in_"})


def fit_small(estimator):
    task = "classification" if estimator is DiPriMeClassifier else "regression"
    return fit(task, *make(task, 60))


# -- parameters -------------------------------------------------------------------------------------------------------

BAD_PARAMETERS = [
    ("epsilon", 0, ValueError, "epsilon must be a positive number, got 0; infinity means no privacy."),
    ("epsilon", -1.5, ValueError, "epsilon must be a positive number, got -1.5;"),
    ("epsilon", -math.inf, ValueError, "epsilon must be a positive number, got -inf;"),
    ("epsilon", Fraction(-1, 3), ValueError, "epsilon must be a positive number, got Fraction(-1, 3);"),
    ("epsilon", math.nan, ValueError, "epsilon must be a positive number, got nan;"),
    ("epsilon", "1", TypeError, "epsilon must be a positive number, got '1'."),
    ("epsilon", None, TypeError, "epsilon must be a positive number, got None."),
    ("epsilon", True, TypeError, "epsilon must be a positive number, got True."),
    ("epsilon", 1e-15, ValueError, "epsilon is too small: the part of it that pays for noise must be at least 2^-40."),
    (
        "method",
        "forest",
        ValueError,
        "method must be one of 'joint', 'diprime', 'diprime-exp', 'diprime-flip', 'random'",
    ),
    ("method", None, ValueError, "method must be one of"),
    ("accounting", "loose", ValueError, "accounting must be one of 'strict', 'paper', got 'loose'."),
    ("partition", "yes", ValueError, "partition must be one of True, False, got 'yes'."),
    ("partition", 1, ValueError, "partition must be one of True, False, got 1."),
    ("partition", None, ValueError, "partition must be one of True, False, got None."),
    ("n_estimators", 0, ValueError, 'n_estimators must be "auto" or an integer from 1 to 65535, got 0.'),
    ("n_estimators", 10**6, ValueError, 'n_estimators must be "auto" or an integer from 1 to 65535, got 1000000.'),
    ("max_depth", 0, ValueError, 'max_depth must be "auto" or an integer from 1 to 20, got 0.'),
    ("max_depth", 100, ValueError, 'max_depth must be "auto" or an integer from 1 to 20, got 100.'),
    ("max_depth", 1.5, ValueError, 'max_depth must be "auto" or an integer from 1 to 20, got 1.5.'),
    ("max_depth", True, ValueError, 'max_depth must be "auto" or an integer from 1 to 20, got True.'),
    ("max_depth", None, ValueError, 'max_depth must be "auto" or an integer from 1 to 20, got None.'),
    ("max_depth", np.array([1, 2]), ValueError, 'max_depth must be "auto" or an integer from 1 to 20'),
    ("max_features", 4, ValueError, "max_features is 4, but there are only 3 features."),
    ("max_features", 0, ValueError, 'max_features must be "auto", "sqrt", "log2", None, an integer from 1 or a'),
    ("max_features", -1, ValueError, "max_features must be"),
    ("max_features", 1.5, ValueError, "max_features must be"),
    ("max_features", 0.0, ValueError, "max_features must be"),
    ("max_features", True, ValueError, "max_features must be"),
    ("max_features", "all", ValueError, "max_features must be"),
    ("split_share", 0, ValueError, 'split_share must be "auto" or a number strictly between 0 and 1, got 0.'),
    ("split_share", 1.0, ValueError, 'split_share must be "auto" or a number strictly between 0 and 1, got 1.0.'),
    ("split_share", math.nan, ValueError, 'split_share must be "auto" or a number strictly between 0 and 1, got nan.'),
    ("balance", -0.1, ValueError, 'balance must be "auto" or a number from 0 to 1000, got -0.1.'),
    ("balance", "some", ValueError, "balance must be \"auto\" or a number from 0 to 1000, got 'some'."),
    ("n_jobs", 0, ValueError, "n_jobs must not be 0; use None for all cores or a positive number of threads."),
    ("random_state", "seed", ValueError, "'seed' cannot be used to seed a numpy.random.RandomState instance"),
    ("domain", None, ValueError, "DiPriMeClassifier needs to know what is public about the data: pass domain=Domain("),
    ("domain", "auto", TypeError, "domain must be a Domain or 'infer', got a str; write Domain("),
    ("domain", {"a": (0, 1)}, TypeError, "domain must be a Domain or 'infer', got a dict; write Domain("),
    ("domain", NUMBER, ValueError, "DiPriMeClassifier needs a domain whose target is Categorical(…), got Numeric(…)."),
]


@pytest.mark.parametrize(("name", "value", "kind", "message"), BAD_PARAMETERS)
def test_a_bad_parameter_gets_one_clear_sentence(X, y, name, value, kind, message):
    model = DiPriMeClassifier(**{"domain": YES_NO, name: value})
    with pytest.raises(kind) as caught:
        model.fit(X, y)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_a_missing_domain_says_what_to_do(X, y):
    with pytest.raises(ValueError, match=r"domain='infer' to read it from the data, which is not private\.$"):
        DiPriMeRegressor().fit(X, X[:, 0])


def test_a_regressor_needs_a_number_for_its_target(X):
    with pytest.raises(ValueError, match=r"DiPriMeRegressor needs a domain whose target is Numeric\(…\), got Categ"):
        DiPriMeRegressor(domain=YES_NO).fit(X, X[:, 0])


@pytest.mark.parametrize("max_features", [2, 3, None, "sqrt", 0.7])
@pytest.mark.parametrize("method", ["diprime", "random"])
def test_methods_that_draw_one_feature_try_no_more(method, max_features):
    domain = Domain({f"x{i}": Numeric(0, 1) for i in range(9)}, Categorical([0, 1]))
    model = DiPriMeClassifier(domain=domain, method=method, max_features=max_features)
    with pytest.raises(ValueError, match=f'max_features must be 1 for method="{method}"'):
        model.fit(np.zeros((5, 9)), np.zeros(5))
    model.set_params(max_features=1).fit(np.zeros((5, 9)), np.zeros(5))


@pytest.mark.parametrize(
    ("max_features", "expected"),
    [("auto", 5), ("sqrt", 3), ("log2", 3), (None, 10), (4, 4), (np.int64(4), 4), (0.25, 2), (0.01, 1), (1.0, 10)],
)
def test_max_features_says_how_many_medians_are_paid_for(max_features, expected):
    domain = Domain({f"x{i}": Numeric(0, 1) for i in range(10)}, Categorical([0, 1]))
    model = DiPriMeClassifier(domain=domain, method="diprime-exp", max_features=max_features, max_depth=1)
    settings = model._check_settings(10)
    assert settings.max_features == expected
    model.fit(np.zeros((5, 10)), np.zeros(5))


def test_numbers_and_words_of_numpy_are_as_good_as_python_s(X, y):
    model = DiPriMeClassifier(
        np.float32(0.5),
        YES_NO,
        method=np.str_("diprime"),
        n_estimators=np.int16(2),
        max_depth=np.uint8(3),
        split_share=np.float64(0.5),
        partition=np.False_,
    ).fit(X, y)
    assert model.privacy_.total == Fraction(1, 2)
    assert model.forest_.depths.tolist() == [3, 3]


# -- rows -------------------------------------------------------------------------------------------------------------


def bad_rows():
    a = np.ones((4, 3))
    b = np.array(["no", "yes", "no", "yes"])
    frame = pd.DataFrame(a, columns=list("abc"))
    yield "one dimension", a[:, 0], b, ValueError, "Expected 2D array, got 1D array instead: X has shape (4,)."
    yield "three dimensions", a[:, :, None], b, ValueError, "Expected 2D array, got 3D array instead"
    yield "no table", None, b, ValueError, "Expected 2D array, got 0D array instead"
    yield "unequal rows", [[1, 2, 3], [1]], b[:2], ValueError, "X does not have rows of equal length; give a rect"
    yield "two columns", a[:, :2], b, ValueError, "X has 2 features, but the domain has 3 features as input; give"
    yield "another column", frame.rename(columns={"c": "d"}), b, ValueError, "X lacks column 'c' and has column 'd', wh"
    yield "one more", frame.assign(d=1), b, ValueError, "X has column 'd', which the domain does not have; give exactly"
    yield "one less", frame[["a", "b"]], b, ValueError, "X lacks column 'c'; give exactly the columns of the domain"
    yield "twice", frame.set_axis(list("aab"), axis=1), b, ValueError, "X has two columns of the same name; rename one"
    yield "lazy", pl.from_pandas(frame).lazy(), b, TypeError, "X is a lazy frame; call its collect() first."
    yield "text", frame.assign(b=pd.array(["x"] * 4, "string")), b, TypeError, "Feature 'b' has dtype"
    yield "complex", a + 1j, b, ValueError, "Complex data not supported: X has dtype complex128"
    yield "fewer rows", a[:2], b, ValueError, "Found input variables with inconsistent numbers of samples: [2, 4]."
    yield "no target", a, None, ValueError, "DiPriMeClassifier requires y to be passed, but the target y is None."
    yield "two targets", a, np.c_[b, b], ValueError, "y should be a 1d array, got an array of shape (4, 2) instead."
    yield "one target", a, "no", ValueError, "y should be a 1d array, got a str instead."
    yield "masked", a, np.ma.masked_array([1, 0, 1, 0], mask=[0, 1, 0, 0]), TypeError, "y is a masked array; fill it"


@pytest.mark.parametrize(("rows", "target", "kind", "message"), [pytest.param(*r[1:], id=r[0]) for r in bad_rows()])
def test_bad_rows_get_one_clear_sentence(rows, target, kind, message):
    with pytest.raises(kind) as caught:
        DiPriMeClassifier(domain=YES_NO).fit(rows, target)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_column_for_a_target_is_taken_with_a_warning(X, y):
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed") as caught:
        DiPriMeClassifier(domain=YES_NO).fit(X, y[:, None])
    assert caught[0].filename == __file__


@pytest.mark.parametrize("estimator", ESTIMATORS.values())
def test_sample_weight_is_refused_with_the_reason(estimator):
    model = estimator(domain="infer")
    with pytest.raises(
        ValueError, match=r"does not take sample_weight: the noise is calibrated to one record counting"
    ):
        model.fit([[1.0]], [1], sample_weight=[2.0])
    with pytest.raises(TypeError, match=r"fit\(\) got an unexpected keyword argument 'weights'"):
        model.fit([[1.0]], [1], weights=[2.0])
    assert "sample_weight" not in inspect.signature(model.fit).parameters  # so that scikit-learn does not offer it


def test_missing_targets_are_an_error_only_where_the_domain_is_inferred(X, y):
    holes = np.where(X[:, 0] > 9, np.nan, X[:, 0])
    DiPriMeRegressor(domain=NUMBER).fit(X, holes)
    with pytest.raises(ValueError, match=r"^Input y contains NaN"):
        DiPriMeRegressor(domain="infer").fit(X, holes)
    DiPriMeClassifier(domain=YES_NO).fit(X, np.where(X[:, 0] > 9, None, y))
    with pytest.raises(ValueError, match=r"^Input y contains NaN"):
        DiPriMeClassifier(domain="infer").fit(X, np.where(X[:, 0] > 9, None, y))


def test_a_continuous_target_is_no_list_of_classes(X):
    with pytest.raises(ValueError, match=r"^Unknown label type: y is continuous"):
        DiPriMeClassifier(domain="infer").fit(X, X[:, 0])


@pytest.mark.parametrize("epsilon", [1, math.inf])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("n", [0, 1, 2])
def test_hardly_any_rows_fit_for_their_number_is_private(n, task, method, epsilon):
    rows, target = make(task, 10)
    for partition in (True, False):
        model = fit(task, rows[:n], target[:n], method=method, epsilon=epsilon, partition=partition)
        predicted = model.predict(rows)
        assert predicted.shape == (10,)
        if task == "regression":
            assert ((predicted >= 0) & (predicted <= 10)).all()
        else:
            assert set(predicted) <= set("abc")
        assert np.isfinite(model.feature_importances_).all()


@not_private
@pytest.mark.parametrize("task", TASKS)
def test_an_inferred_domain_needs_a_row(task):
    rows, target = make(task, 5)
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        fit(task, rows[:0], target[:0], domain="infer")
    assert fit(task, rows[:1], target[:1], domain="infer").predict(rows).shape == (5,)


@not_private
@pytest.mark.parametrize("domain", ["given", "infer"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", TASKS)
def test_columns_where_all_is_missing_are_no_trouble(task, method, domain):
    rows, target = make(task, 300)
    for columns in ([0], [0, 1, 2, 3]):
        holes = rows.copy()
        holes[:, columns] = np.nan
        domains = {"given": DOMAINS[task], "infer": "infer"}
        model = fit(task, holes, target, method=method, domain=domains[domain], max_depth=5)
        assert len(np.unique(model.predict_proba(holes) if task == "classification" else model.predict(holes))) >= 1


@pytest.mark.parametrize("method", METHODS)
def test_one_class_in_the_data_and_one_in_the_list(X, method):
    only = ["no"] * len(X)
    model = DiPriMeClassifier(domain=YES_NO, method=method).fit(X, only)
    assert model.classes_.tolist() == ["no", "yes"]
    assert np.mean(model.predict(X) == "no") > 0.9
    model = DiPriMeClassifier(domain=Domain(ABC, Categorical(["no"])), method=method).fit(X, only)
    assert model.predict_proba(X).tolist() == [[1.0]] * len(X)


@not_private
@pytest.mark.parametrize("method", METHODS)
def test_ten_thousand_features(method):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 10_000)).astype(np.float32)
    model = DiPriMeClassifier(domain="infer", method=method).fit(rows, rng.integers(0, 2, 100))
    assert model.predict(rows).shape == (100,)


def test_nothing_in_the_values_makes_a_fit_fail():
    odd = [np.nan, np.inf, -np.inf, -0.0, 1e308, -1e308, 5e-324, 2**63, 1.0]
    rows = np.array(np.meshgrid(odd, odd, odd)).reshape(3, -1).T
    model = DiPriMeClassifier(domain=YES_NO).fit(rows, np.resize(["no", "yes", "maybe", ""], len(rows)))
    assert np.isfinite(model.predict_proba(rows)).all()
    objects, target = np.empty((4, 3), dtype=object), np.empty(4, dtype=object)
    objects.flat = [None, "x", 1, {1}, {}, object(), True, 1 + 2j, "2", pd.NA, 10**400, b"1"]
    target.flat = [None, 3, "yes", frozenset()]
    model = DiPriMeClassifier(domain=YES_NO).fit(objects, target)
    assert np.isfinite(model.predict_proba(objects)).all()
    target = np.resize([np.nan, np.inf, -np.inf, 1e308, -5, 3], len(rows))
    assert np.isfinite(DiPriMeRegressor(domain=NUMBER).fit(rows, target).predict(rows)).all()


# -- before and after a fit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba", "apply"])
def test_nothing_is_predicted_before_a_fit(X, method):
    with pytest.raises(NotFittedError, match="This DiPriMeClassifier instance is not fitted yet"):
        getattr(DiPriMeClassifier(domain=YES_NO), method)(X)
    with pytest.raises(NotFittedError):
        DiPriMeClassifier().feature_importances_
    with pytest.raises(NotFittedError):
        DiPriMeRegressor(domain=NUMBER).predict(X)


def test_predicting_other_columns_gets_one_clear_sentence(X, y):
    frame = pd.DataFrame(X, columns=list("abc"))
    model = DiPriMeClassifier(domain=YES_NO).fit(frame, y)
    for rows, message in [
        (X[:, :2], "X has 2 features, but DiPriMeClassifier is expecting 3 features as input."),
        (frame.rename(columns={"c": "d"}), "X lacks column 'c' and has column 'd'"),
        (frame.assign(d=1), "X has column 'd', which the domain does not have"),
        (X[0], "Expected 2D array, got 1D array instead"),
    ]:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
            model.predict(rows)
    with pytest.raises(TypeError, match="X is a lazy frame"):
        model.predict(pl.from_pandas(frame).lazy())
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(X)


def test_no_rows_are_predicted_as_none(X, y):
    model = DiPriMeClassifier(domain=YES_NO).fit(X, y)
    assert model.predict(X[:0]).shape == (0,)
    assert model.predict_proba(X[:0]).shape == (0, 2)
    assert model.apply(X[:0]).shape == (0, model.forest_.n_trees)


def test_a_second_fit_forgets_the_first(X, y):
    model = DiPriMeClassifier(domain=YES_NO).fit(pd.DataFrame(X, columns=list("abc")), y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    other = Domain({"u": Numeric(0, 10)}, Categorical([0, 1, 2]))
    model.set_params(domain=other).fit(X[:, :1], np.zeros(600))
    assert not hasattr(model, "feature_names_in_")
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.n_features_in_ == 1
    assert len(model.privacy_.charges) == len({charge.what for charge in model.privacy_.charges})


# -- what is learnt ---------------------------------------------------------------------------------------------------


@not_private
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns(task, method):
    rows, target = make(task, 6000)
    scores = {}
    for epsilon in (2, math.inf):
        model = fit(task, rows[1000:], target[1000:], method=method, epsilon=epsilon, random_state=0, n_estimators=4)
        scores[epsilon] = model.score(rows[:1000], target[:1000])
    chance = 0.0 if task == "regression" else np.mean(target == "b")
    assert scores[2] > chance + (0.35 if method == "joint" else 0.04)
    assert scores[math.inf] > chance + (0.4 if method == "joint" else 0.1)


@not_private
@pytest.mark.parametrize("ends", [(0, 1000), (-500, 60), (42, 5000)])
def test_numbers_in_a_small_part_of_their_range_are_predicted_there(ends):
    """The window of the leaves is undone: a mean of its shares is a mean of the target."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(0, 1, (4000, 3))
    target = np.where(rows[:, 0] < 0.5, 42.0, 57.0) + rng.uniform(-1, 1, 4000)
    target = np.clip(target, *ends)
    model = DiPriMeRegressor(10, domain=Domain(ABC, Numeric(*ends)), max_depth=2, random_state=0).fit(rows, target)
    predicted = model.predict(rows)
    for side in (rows[:, 0] < 0.45, rows[:, 0] > 0.55):
        assert abs(predicted[side].mean() - target[side].mean()) < 1.5
    assert predicted.min() > max(ends[0] - 1e-9, 30)
    assert predicted.max() < min(ends[1], 70)


@not_private
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", ["joint", "diprime-exp", "diprime-flip"])
def test_importances_find_the_feature_that_matters(task, method):
    model = fit(task, *make(task, 6000), method=method, random_state=0)
    importances = model.feature_importances_
    assert importances.shape == (4,)
    assert (importances >= 0).all()
    assert importances.sum() == pytest.approx(1)
    assert importances.argmax() == 0
    assert importances[0] > 0.5


@pytest.mark.parametrize("task", TASKS)
def test_apply_tells_the_leaves_that_predictions_come_from(task):
    rows, target = make(task, 700)
    model = fit(task, rows, target, n_estimators=3, max_depth=4)
    forest = model.forest_
    leaves = model.apply(rows)
    assert leaves.shape == (700, 3)
    assert leaves.min() >= 0
    assert leaves.max() < 16
    values = forest.values.reshape(3, 16, -1)
    outputs = sum(weight * values[t, leaves[:, t]] for t, weight in enumerate(forest.tree_weights))
    if task == "classification":
        assert model.predict_proba(rows) == pytest.approx(outputs)
        assert model.predict_proba(rows).sum(axis=1) == pytest.approx(np.ones(700))
        assert np.array_equal(model.predict(rows), model.classes_[model.predict_proba(rows).argmax(axis=1)])
        assert np.exp(model.predict_log_proba(rows)) == pytest.approx(outputs)
    else:
        assert model.predict(rows) == pytest.approx(outputs[:, 0])


@pytest.mark.parametrize("task", TASKS)
def test_rounding_leads_no_prediction_out_of_its_range(task):
    rows, target = make(task, 50)
    model = fit(task, rows, target, n_estimators=7, max_depth=1)
    high = {"classification": 1.0, "regression": 10.0}[task]
    values = np.zeros_like(model.forest_.values)
    values[:, 0] = high
    beyond = 0
    for seed in range(50):
        counts = np.random.default_rng(seed).uniform(1, 9, len(model.forest_.counts))
        model.forest_ = replace(model.forest_, values=values, counts=counts)
        beyond += model.forest_.weighted_values[::2, 0].sum() > high
        predicted = model.predict(rows) if task == "regression" else model.predict_proba(rows)[:, 0]
        assert predicted.max() <= high
        assert predicted == pytest.approx(high)
    assert beyond > 0


# -- classes of any type ----------------------------------------------------------------------------------------------

CLASSES = {
    "text": ["no", "yes", "a longer one"],
    "integers": [7, -3, 10**12],
    "Booleans": [True, False],
    "floats": [0.5, -1.25, 3.0],
    "tuples": [(1, 2), (0, "x"), ()],
    "mixed": ["a", 1, (2,), None.__class__],
    "many": list(range(30)),
}


@not_private
@pytest.mark.parametrize("kind", CLASSES)
def test_classes_of_any_type_come_back_as_they_were(kind):
    classes = CLASSES[kind]
    rng = np.random.default_rng(0)
    which = rng.integers(0, len(classes), 1500)
    rows = np.column_stack([which + rng.uniform(-0.3, 0.3, 1500), rng.uniform(0, 1, 1500)])
    domain = Domain({"a": Numeric(-1, 30), "b": Numeric(0, 1)}, Categorical(classes))
    target = np.empty(1500, dtype=object)
    for i, place in enumerate(which):
        target[i] = classes[place]
    # Of thirty classes of one size every cut explains the same: the tree is not balanced, and eight levels are too few.
    learnt = 0.75 if kind == "many" else 0.95
    model = DiPriMeClassifier(math.inf, domain, max_depth=8, random_state=0).fit(rows, target)
    assert set(model.classes_.tolist()) == set(classes)
    assert model.predict_proba(rows).shape == (1500, len(classes))
    predicted = model.predict(rows)
    assert predicted.dtype == model.classes_.dtype
    assert np.mean([a == b for a, b in zip(predicted, target, strict=True)]) > learnt
    if kind not in ("tuples", "mixed"):
        assert model.classes_.tolist() == sorted(classes)
        assert model.classes_.dtype != object
        if kind != "floats":  # scikit-learn's accuracy knows no such classes
            assert model.score(rows, np.array(classes)[which]) > learnt


@not_private
@pytest.mark.parametrize("kind", ["text", "integers", "Booleans", "many"])
def test_classes_are_inferred(kind):
    classes = np.array(CLASSES[kind])
    which = np.random.default_rng(0).integers(0, len(classes), 800)
    model = DiPriMeClassifier(100, "infer", random_state=0).fit(which[:, None].astype(float), classes[which])
    assert model.classes_.tolist() == sorted(CLASSES[kind])


def test_classes_are_sorted_and_probabilities_with_them():
    rows = np.linspace(0, 10, 3000)[:, None]
    target = np.where(rows[:, 0] < 5, "z", "a")
    model = DiPriMeClassifier(10, Domain({"x": Numeric(0, 10)}, Categorical(["z", "m", "a"]))).fit(rows, target)
    assert model.classes_.tolist() == ["a", "m", "z"]
    proba = model.predict_proba([[1.0], [9.0]])
    assert proba[0].argmax() == 2
    assert proba[1].argmax() == 0


# -- tables -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 1000
    colours, numbers = rng.choice(["red", "green", "blue"], n), rng.uniform(0, 10, n)
    colours = [None if i % 17 == 0 else c for i, c in enumerate(colours)]
    numbers = [None if i % 13 == 0 else float(v) for i, v in enumerate(numbers)]
    flags = [bool(v) for v in rng.integers(0, 2, n)]
    target = ["warm" if c == "red" else "cold" for c in colours]
    return {"colour": colours, "number": numbers, "flag": flags}, target


def frames(columns):
    names = ["red", "green", "blue"]
    pandas = pd.DataFrame(columns)
    yield "pandas", pandas
    yield "pandas category", pandas.astype({"colour": pd.CategoricalDtype(names)})
    yield "pandas nullable", pandas.astype({"number": "Float64", "flag": "boolean", "colour": "string"})
    yield "pandas objects", pandas.astype(object)
    yield "polars", pl.DataFrame(columns)
    yield "polars enum", pl.DataFrame(columns).with_columns(pl.col("colour").cast(pl.Enum(names)))
    yield "polars categorical", pl.DataFrame(columns).with_columns(pl.col("colour").cast(pl.Categorical))
    yield "pyarrow", pa.table(columns)
    yield "pyarrow dictionary", pa.table({**columns, "colour": pa.array(columns["colour"]).dictionary_encode()})


@not_private
def test_every_kind_of_table_gives_the_same_model_in_any_order_of_columns(table):
    columns, target = table
    domain = Domain(
        {
            "number": Numeric(0, 10),
            "colour": Categorical(["red", "green", "blue"]),
            "flag": Categorical([False, True]),
        },
        Categorical(["cold", "warm"]),
    )
    arrays = np.array([[n, c, f] for c, n, f in zip(*columns.values(), strict=True)], dtype=object)
    settings = {"epsilon": 5, "domain": domain, "random_state": 0}
    expected = DiPriMeClassifier(**settings).fit(arrays, target)
    proba = expected.predict_proba(arrays)
    assert expected.score(arrays, target) > 0.9
    shuffled = {name: columns[name] for name in ("flag", "colour", "number")}
    for (name, frame), (_, other) in zip(frames(columns), frames(shuffled), strict=True):
        for y in (target, pd.Series(target), pl.Series(target), pa.chunked_array([target])):
            model = DiPriMeClassifier(**settings).fit(frame, y)
            assert_same_forest(model, expected)
        if not (OLD_SCIKIT_LEARN and name.startswith("polars")):  # it does not find the names of polars 2
            assert model.feature_names_in_.tolist() == ["number", "colour", "flag"], name
        for rows in (frame, other):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert np.array_equal(model.predict_proba(rows), proba), name
        assert_same_forest(DiPriMeClassifier(**settings).fit(other, target), expected)


@not_private
def test_a_domain_is_inferred_from_every_kind_of_table(table):
    columns, target = table
    for name, frame in frames(columns):
        model = DiPriMeClassifier(50, "infer", random_state=0).fit(frame, target)
        assert isinstance(model.domain_.features["colour"], Categorical), name
        assert isinstance(model.domain_.features["number"], Numeric), name
        assert model.score(frame, target) > 0.9, name


@not_private
def test_names_that_are_no_text_are_matched_by_their_text(X, y):
    frame = pd.DataFrame(X)
    model = DiPriMeClassifier(50, "infer", random_state=0).fit(frame, y)
    assert not hasattr(model, "feature_names_in_")
    assert np.array_equal(model.predict(frame), model.predict(frame[[2, 0, 1]]))


# -- scikit-learn's tools ---------------------------------------------------------------------------------------------


def test_parameters_survive_get_params_and_clone():
    model = DiPriMeClassifier(0.5, YES_NO, method="diprime", max_depth=3, partition=False)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.domain is model.domain or copy.domain == model.domain
    assert repr(copy) == repr(model)
    assert (
        eval(repr(DiPriMeRegressor(2.0, max_depth=4))).get_params() == DiPriMeRegressor(2.0, max_depth=4).get_params()
    )


@not_private
def test_pipelines_searches_and_cross_validation(X, y):
    model = DiPriMeClassifier(20, YES_NO, random_state=0)
    pipeline = make_pipeline(StandardScaler(), DiPriMeClassifier(20, "infer", random_state=0)).fit(X, y)
    assert pipeline.score(X, y) > 0.85
    with pytest.raises(ValueError, match="does not take sample_weight"):
        pipeline.fit(X, y, diprimeclassifier__sample_weight=np.ones(len(y)))
    assert cross_val_score(model, X, y, cv=3).mean() > 0.85
    grid = {"max_depth": [1, 3], "epsilon": np.array([0.01, 50]), "partition": np.array([True, False])}
    search = GridSearchCV(model, {**grid, "method": np.array(["joint", "random"])}, cv=3).fit(X, y)
    assert search.best_params_["epsilon"] == 50
    assert search.best_params_["method"] == "joint"
    assert search.score(X, y) > 0.9
    numbers = GridSearchCV(DiPriMeRegressor(50, NUMBER, random_state=0), {"max_depth": [1, 4]}, cv=3).fit(X, X[:, 1])
    assert numbers.best_params_ == {"max_depth": 4}
    assert numbers.best_score_ > 0.8


@not_private
def test_ensembles_that_would_weigh_rows_do_without(X, y):
    y = (y == "yes").astype(int)  # they number the classes, so the domain has to list numbers
    model = DiPriMeClassifier(50, Domain(ABC, Categorical([0, 1])), random_state=0)
    assert BaggingClassifier(model, 3, random_state=0).fit(X, y).score(X, y) > 0.85
    assert (
        VotingClassifier([("a", model), ("b", RandomForestClassifier(5))], voting="soft").fit(X, y).score(X, y) > 0.85
    )


@pytest.mark.parametrize("task", TASKS)
def test_saved_models_predict_the_same(task, tmp_path):
    rows, target = make(task, 500)
    model = fit(task, rows, target)
    joblib.dump(model, tmp_path / "model")
    copies = [pickle.loads(pickle.dumps(model, protocol)) for protocol in (2, pickle.HIGHEST_PROTOCOL)]
    copies += [joblib.load(tmp_path / "model"), joblib.load(tmp_path / "model", mmap_mode="r")]
    for copy in copies:
        assert_same_forest(copy, model)
        assert np.array_equal(copy.predict(rows), model.predict(rows))
        assert np.array_equal(copy.apply(rows), model.apply(rows))
        assert copy.privacy_ == model.privacy_
        assert copy.domain_ == model.domain_


def test_data_that_may_not_be_written_to_are_read(X, y, tmp_path):
    frozen, target = X.copy(), X[:, 0].copy()
    frozen.flags.writeable = target.flags.writeable = False
    DiPriMeRegressor(domain=NUMBER).fit(frozen, target).predict(frozen)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    DiPriMeClassifier(domain=YES_NO).fit(mapped, y).predict(mapped)


def test_a_fit_changes_neither_its_rows_nor_its_parameters(X, y):
    before, parameters = X.copy(), DiPriMeClassifier(domain=YES_NO).get_params()
    model = DiPriMeClassifier(domain=YES_NO).fit(X, y)
    assert np.array_equal(X, before)
    assert model.get_params() == parameters


# -- merging ----------------------------------------------------------------------------------------------------------


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
        ([classifier, regressor], ValueError, "A classifier and a regressor cannot be merged"),
        ([classifier, DiPriMeClassifier(domain=wider).fit(X, y)], ValueError, "Models of different domains cannot be"),
        ([classifier, DiPriMeClassifier(domain=YES_NO)], NotFittedError, "is not fitted yet"),
        ([classifier, RandomForestClassifier()], TypeError, "Only DiPriMe estimators can be merged, got RandomForest"),
    ]:
        with pytest.raises(kind, match=message):
            merge(models)
    assert merge([classifier]).privacy_.total == 1


# -- without privacy, a random forest ---------------------------------------------------------------------------------

DATA = Path(os.environ.get("DIPRIME_DATA", Path(__file__).parents[2] / "shared" / "data"))
BUNDLED = {
    "breast cancer": (load_breast_cancer, "classification"),
    "digits": (load_digits, "classification"),
    "wine": (load_wine, "classification"),
    "diabetes": (load_diabetes, "regression"),
}
FILES = {
    "banknote": ("class", "classification", []),
    "robot_wall": ("class", "classification", []),
    "credit_default": ("default payment next month", "classification", ["ID"]),
    "gas_turbine": ("TEY", "regression", []),
    "appliances_energy": ("Appliances", "regression", ["date", "rv1", "rv2"]),
    "parkinsons": ("total_UPDRS", "regression", ["subject#", "motor_UPDRS"]),
}


def load(name):
    if name in BUNDLED:
        loader, task = BUNDLED[name]
        return task, *loader(return_X_y=True)
    target, task, dropped = FILES[name]
    path = DATA / f"{name}.parquet"
    if not path.exists():
        pytest.skip(f"{path} is not there; set DIPRIME_DATA to the directory of the real data")
    frame = pd.read_parquet(path).drop(columns=dropped)
    frame = frame.sample(min(len(frame), 4000), random_state=0)
    return task, frame.drop(columns=target).to_numpy(dtype=np.float64), frame[target].to_numpy()


@not_private
@pytest.mark.parametrize("name", [*BUNDLED, *FILES])
def test_at_infinite_epsilon_joint_is_as_accurate_as_a_random_forest(name):
    """Same number of trees, same depth, all rows for each tree; accuracy, or R² for numbers, less two points."""
    task, rows, target = load(name)
    classes = task == "classification"
    scores = []
    for seed in range(5):  # averages of three still differ by up to two points
        folds = (StratifiedKFold if classes else KFold)(2, shuffle=True, random_state=seed)
        size = {"n_estimators": 30, "max_depth": 6, "random_state": seed}
        joint = ESTIMATORS[task](math.inf, "infer", partition=False, **size)
        forest = (RandomForestClassifier if classes else RandomForestRegressor)(**size)
        scores.append([cross_val_score(model, rows, target, cv=folds).mean() for model in (joint, forest)])
    joint, forest = np.mean(scores, axis=0)
    assert joint >= forest - 0.02


# -- the surface ------------------------------------------------------------------------------------------------------


def test_the_package_offers_what_it_says():
    assert all(hasattr(diprime, name) for name in diprime.__all__)
    assert issubclass(PrivacyWarning, UserWarning)
