"""Input of every kind: bad rows, odd values, classes of any type, and tables of every library."""

import inspect
import math
import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.exceptions import DataConversionWarning, NotFittedError

from diprime import Categorical, DiPriMeClassifier, DiPriMeRegressor, Domain, Numeric, sources
from diprime.paper import DPRandomForestClassifier
from diprime.privacy.measures import share_of
from tests.estimators.domains import ABC, NUMBER, YES_NO
from tests.small_data import BOOSTERS, DOMAINS, ESTIMATORS, METHODS, TASKS, assert_same_forest, fit, make

OLD_SCIKIT_LEARN = sklearn.__version__.startswith(("1.6", "1.7"))
EVERY = [*ESTIMATORS.values(), *BOOSTERS.values()]
not_private = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")


# -- rows -------------------------------------------------------------------------------------------------------------


def bad_rows():
    a = np.ones((4, 3))
    b = np.array(["no", "yes", "no", "yes"])
    frame = pd.DataFrame(a, columns=list("abc"))
    yield "one dimension", a[:, 0], b, ValueError, r"^Expected 2D array, got 1D array instead: X has shape \(4,\)\."
    yield "three dimensions", a[:, :, None], b, ValueError, r"^Expected 2D array, got 3D array instead"
    yield "no table", None, b, ValueError, r"^Expected 2D array, got 0D array instead"
    yield "unequal rows", [[1, 2, 3], [1]], b[:2], ValueError, r"^X .*equal length"
    yield "two columns", a[:, :2], b, ValueError, r"^X has 2 features, .*3 features"
    yield (
        "another column",
        frame.rename(columns={"c": "d"}),
        b,
        ValueError,
        r"^X lacks column 'c' .*1 other column outside",
    )
    yield "one more", frame.assign(d=1), b, ValueError, r"^X .*column 'd' outside"
    yield "one less", frame[["a", "b"]], b, ValueError, r"^X lacks column 'c'\."
    yield "twice", frame.set_axis(list("aab"), axis=1), b, ValueError, r"^X .*two columns .*same name"
    yield "lazy", pl.from_pandas(frame).lazy(), b, TypeError, r"^X is a LazyFrame, .*y "
    yield "text", frame.assign(b=pd.array(["x"] * 4, "string")), b, TypeError, r"'b' has dtype"
    yield "complex", a + 1j, b, ValueError, r"^Complex data not supported: X has dtype complex128"
    yield "fewer rows", a[:2], b, ValueError, r"^Found input variables with inconsistent numbers of samples: \[2, 4\]\."
    yield "no target", a, None, ValueError, r"^DiPriMeClassifier requires y .*None\."
    yield "two targets", a, np.c_[b, b], ValueError, r"^y should be a 1d array, .*\(4, 2\)"
    yield "one target", a, "no", ValueError, r"^y should be a 1d array, .*str "
    yield "masked", a, np.ma.masked_array([1, 0, 1, 0], mask=[0, 1, 0, 0]), TypeError, r"^y is a masked array\."


@pytest.mark.parametrize(("rows", "target", "kind", "message"), [pytest.param(*r[1:], id=r[0]) for r in bad_rows()])
def test_invalid_rows_raise_one_sentence(rows, target, kind, message):
    with pytest.raises(kind, match=message) as caught:
        DiPriMeClassifier(domain=YES_NO).fit(rows, target)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)


def test_column_vector_target_warns(X, y):
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed") as caught:
        DiPriMeClassifier(domain=YES_NO).fit(X, y[:, None])
    assert caught[0].filename == __file__


@pytest.mark.parametrize("estimator", EVERY)
def test_sample_weight_is_refused_with_the_reason(estimator):
    model = estimator(domain="infer")
    with pytest.raises(ValueError, match=rf"^{estimator.__name__} .*sample_weight, .*noise"):
        model.fit([[1.0]], [1], sample_weight=[2.0])
    with pytest.raises(TypeError, match=r"fit\(\) .*'weights'"):
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


def test_continuous_target_is_refused_for_classification(X):
    with pytest.raises(ValueError, match=r"^Unknown label type: y is continuous"):
        DiPriMeClassifier(domain="infer").fit(X, X[:, 0])


@pytest.mark.parametrize("epsilon", [1, math.inf])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("n", [0, 1, 2])
def test_fit_accepts_few_or_no_rows(n, task, method, epsilon):
    rows, target = make(task, 10)
    for disjoint_rows in (True, False):
        model = fit(task, rows[:n], target[:n], method=method, epsilon=epsilon, disjoint_rows=disjoint_rows)
        predicted = model.predict(rows)
        assert predicted.shape == (10,)
        if task == "regression":
            assert ((predicted >= 0) & (predicted <= 10)).all()
        else:
            assert set(predicted) <= set("abc")
        assert np.isfinite(model.feature_importances_).all()


@not_private
@pytest.mark.parametrize("task", TASKS)
def test_inferred_domain_needs_a_row(task):
    rows, target = make(task, 5)
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        fit(task, rows[:0], target[:0], domain="infer")
    assert fit(task, rows[:1], target[:1], domain="infer").predict(rows).shape == (5,)


@not_private
@pytest.mark.parametrize("domain", ["given", "infer"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", TASKS)
def test_columns_without_values_are_accepted(task, method, domain):
    rows, target = make(task, 300)
    for columns in ([0], [0, 1, 2, 3]):
        holes = rows.copy()
        holes[:, columns] = np.nan
        domains = {"given": DOMAINS[task], "infer": "infer"}
        model = fit(task, holes, target, method=method, domain=domains[domain], max_depth=5)
        assert np.isfinite(model.predict_proba(holes) if task == "classification" else model.predict(holes)).all()


@pytest.mark.parametrize("method", METHODS)
def test_single_class_is_accepted(X, method):
    only = ["no"] * len(X)
    model = DiPriMeClassifier(domain=YES_NO, method=method).fit(X, only)
    assert model.classes_.tolist() == ["no", "yes"]
    assert np.mean(model.predict(X) == "no") > 0.9
    model = DiPriMeClassifier(domain=Domain(ABC, Categorical(["no"])), method=method).fit(X, only)
    assert model.predict_proba(X).tolist() == [[1.0]] * len(X)


@not_private
@pytest.mark.parametrize("method", ["joint", "diprime-exp"])
def test_ten_thousand_features_are_accepted(method):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 10_000)).astype(np.float32)
    model = DiPriMeClassifier(domain="infer", method=method).fit(rows, rng.integers(0, 2, 100))
    assert model.predict(rows).shape == (100,)


def test_no_values_raise_errors():
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


METHODS_OF_MODELS = ["predict", "predict_proba", "predict_log_proba", "decision_function", "apply", "explain"]


@pytest.mark.parametrize("estimator", EVERY)
def test_unfitted_models_raise_not_fitted_error(X, tmp_path, estimator):
    model = estimator(domain=YES_NO if estimator.__name__.endswith("Classifier") else NUMBER)
    for method in filter(partial(hasattr, model), METHODS_OF_MODELS):
        with pytest.raises(NotFittedError, match=f"This {estimator.__name__} instance is not fitted yet"):
            getattr(model, method)(X)
    with pytest.raises(NotFittedError):
        model.feature_importances_
    with pytest.raises(NotFittedError):
        model.save(tmp_path / "model.diprime")


def test_predicting_other_columns_raises_one_sentence(X, y):
    frame = pd.DataFrame(X, columns=list("abc"))
    model = DiPriMeClassifier(domain=YES_NO).fit(frame, y)
    for rows, message in [
        (X[:, :2], "X has 2 features, but DiPriMeClassifier is expecting 3 features as input"),
        (frame.rename(columns={"c": "d"}), "X lacks column 'c' .*1 other column"),
        (frame.assign(d=1), "X .*column 'd' outside"),
        (X[0], "Expected 2D array, got 1D array instead"),
    ]:
        with pytest.raises(ValueError, match=f"^{message}"):
            model.predict(rows)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(X)


def test_second_fit_replaces_the_first(X, y):
    model = DiPriMeClassifier(domain=YES_NO).fit(pd.DataFrame(X, columns=list("abc")), y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    other = Domain({"u": Numeric(0, 10)}, Categorical([0, 1, 2]))
    model.set_params(domain=other).fit(X[:, :1], np.zeros(600))
    assert not hasattr(model, "feature_names_in_")
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.n_features_in_ == 1
    assert len(model.privacy_.charges) == len({charge.description for charge in model.privacy_.charges})


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
def test_classes_of_any_type_are_predicted(kind):
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
def test_model_does_not_depend_on_table_type_or_column_order(table):
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


@pytest.mark.parametrize("how", ["table", "batches"])
@pytest.mark.parametrize(
    ("kind", "shares"),
    [
        (DiPriMeClassifier, "diprime.forest.plan.share_of"),
        (DPRandomForestClassifier, "diprime.paper.multiway.share_of"),
    ],
)
def test_plan_that_exceeds_epsilon_is_refused_before_rows_are_read(monkeypatch, kind, shares, how):
    def refuse(*_, **__):
        raise AssertionError("a row was read")

    X, y = make("classification", 20)
    model = kind(domain=DOMAINS["classification"])
    for reads in ("reader", "encode", "encode_target"):
        monkeypatch.setattr(Domain, reads, refuse)
    learn = (lambda: model.fit(X, y)) if how == "table" else (lambda: model.fit(sources.batches([(X, y)])))
    with pytest.raises(AssertionError, match="row was read"):
        learn()
    monkeypatch.setattr(shares, lambda epsilon, share: share_of(epsilon, share) + Fraction(1, 10**30))
    with pytest.raises(AssertionError, match=r"plan of .* spends"):
        learn()
