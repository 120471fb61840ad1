"""Exported models in onnxruntime: predictions are bit-identical for any domain, model and rows."""

import json
import math
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime import (
    Categorical,
    Date,
    DiPriMeBoostingClassifier,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Domain,
    Forest,
    Integer,
    Ledger,
    Numeric,
    merge,
)
from diprime._util.resources import Threads
from diprime.domain.features import BUCKETS, MISSING, OTHER, PARTS
from diprime.domain.values import MISSING_DATE
from diprime.export import onnx_inputs, to_onnx
from diprime.model.trees import MIN_ROWS_TO_COMPARE_NUMBERS, threshold_mask
from tests.made_additive import DOMAINS, FEATURES, as_model, made_forest, made_model, made_rows
from tests.small_data import fit, make

pytest.importorskip("onnx", reason="onnx is not installed.")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed.")


def session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), options, ["CPUExecutionProvider"])


def assert_same(model, X, inputs=None):
    """Compare the predictions of the exported model with those of the estimator, bit by bit."""
    outputs = session(model).run(None, onnx_inputs(model, X) if inputs is None else inputs)
    if hasattr(model, "classes_"):
        label, probabilities = outputs
        assert label.tolist() == model.predict(X).tolist()
        assert label.dtype.kind == ("O" if model.classes_.dtype.kind == "U" else model.classes_.dtype.kind)
        assert probabilities.tobytes() == model.predict_proba(X).tobytes()
    else:
        assert outputs[0].tobytes() == model.predict(X).tobytes()


# -- any domain, any forest, any rows ----------------------------------------------------------------------------------

finite = st.floats(-1e9, 1e9)
texts = st.text(st.characters(codec="utf-8"), max_size=5)


@st.composite
def numerics(draw):
    if draw(st.booleans()):
        edges = draw(st.lists(finite, min_size=1, max_size=9, unique=True))
        return Numeric(edges=sorted({e + 0.0 for e in edges}))
    low = draw(finite)
    return Numeric(low, low + draw(st.floats(1e-3, 1e9)), scale=draw(st.sampled_from(["linear", "log"])))


category_lists = st.one_of(
    st.lists(texts, min_size=1, max_size=6, unique=True),
    st.lists(st.integers(-(2**53) + 1, 2**53 - 1) | finite | st.just(math.inf), min_size=1, max_size=6, unique=True),
    st.lists(st.booleans(), min_size=1, unique=True),
    st.integers(250, 600).map(range),
    st.integers(250, 600).map(lambda n: [str(i) for i in range(n)]),
)
integers = st.tuples(st.integers(-(2**53), 2**53), st.integers(1, 1000) | st.integers(1, 2**60)).map(
    lambda pair: Integer(pair[0], pair[0] + pair[1])
)
parts = st.lists(st.sampled_from(PARTS), min_size=1)
dates = st.tuples(st.dates(), st.dates(), parts).map(lambda d: Date(*sorted(d[:2]), parts=d[2])) | parts.map(
    lambda p: Date(parts=p)
)
features = st.one_of(numerics(), integers, dates, category_lists.map(Categorical))
targets = st.one_of(
    st.just(Numeric(-5, 7)),
    st.lists(texts, min_size=1, max_size=5, unique=True).map(Categorical),
    st.integers(1, 5).map(lambda n: Categorical(range(n))),
    st.just(Categorical([0.5, 2, -1])),
    st.just(Categorical([False, True])),
)


def values_of(feature):
    """Return a strategy of the values of a column: at, next to and far from those that the domain names."""
    if isinstance(feature, Date):
        near = [*feature.thresholds.tolist(), 0] if feature.has_range else [0]
        moments = st.sampled_from(near).flatmap(lambda t: st.integers(max(t - 1, MISSING_DATE + 1), t + 1))
        calendar = st.integers(-(2**62), 2**62).map(lambda t: np.datetime64(t, "us"))
        return moments.map(lambda t: np.datetime64(t, "us")) | calendar | st.datetimes() | st.none()
    if isinstance(feature, (Numeric, Integer)):
        edges = feature.thresholds
        near = np.unique(np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])).tolist()
        return st.one_of(st.sampled_from([*near, math.nan, math.inf, -math.inf]), st.floats())
    odd = [None] if isinstance(feature.categories[0], str) else [math.nan, math.inf, -math.inf, 2.0**53, 0.1]
    stray = texts if isinstance(feature.categories[0], str) else st.floats()
    return st.one_of(st.sampled_from(feature.categories), st.sampled_from(odd), stray)


@st.composite
def random_models(draw, domain):
    """Draw a model with random trees: a fit to one row, whose forest is replaced."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    depths = np.array(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    n_splits, n_leaves = ((1 << depths) - 1).sum(), (1 << depths).sum()
    chosen = rng.integers(0, domain.n_features, n_splits).astype(np.int32)
    masks = np.empty((n_splits, 32), dtype=np.uint8)
    for split, j in enumerate(chosen):
        if domain.is_categorical[j]:
            bits = np.zeros(256, dtype=np.uint8)
            codes = [*range(domain.n_codes[j]), OTHER, MISSING]
            bits[codes] = rng.integers(0, 2, len(codes))
            masks[split] = np.packbits(bits, bitorder="little")
        else:
            masks[split] = threshold_mask(rng.integers(0, domain.n_codes[j], 1), rng.integers(0, 2, 1) > 0)[0]
    row = [[f.categories[0] if isinstance(f, Categorical) else None for f in domain.features.values()]]
    is_classification = isinstance(domain.target, Categorical)
    estimator = DiPriMeClassifier if is_classification else DiPriMeRegressor
    model = estimator(1, domain, max_depth=1, n_estimators=1, n_jobs=1).fit(
        row, [domain.target.categories[0] if is_classification else 0]
    )
    n_outputs = model.forest_.values.shape[1]
    values = rng.dirichlet(np.ones(n_outputs), n_leaves) if is_classification else rng.uniform(-5, 7, (n_leaves, 1))
    if draw(st.booleans()):
        values = values.round(1) + 0.0  # ties; not -0.0, which no fit gives
    model.forest_ = Forest(depths, chosen, masks, values, rng.normal(5, 5, n_leaves))
    return model


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_forest_predicts_the_same_after_export(data):
    listed = data.draw(st.lists(features, min_size=1, max_size=4))
    domain = Domain({f"feature {i}": f for i, f in enumerate(listed)}, data.draw(targets))
    model = data.draw(random_models(domain))
    n = data.draw(st.integers(1, 12))
    columns = [data.draw(st.lists(values_of(f), min_size=n, max_size=n)) for f in listed]
    rows = [list(row) for row in zip(*columns, strict=True)]
    assert_same(model, rows)


# -- fitted models -----------------------------------------------------------------------------------------------------


def test_merged_forests_of_different_depths_export():
    X, y = make("classification", 400)
    models = [fit("classification", X, y, max_depth=d, n_estimators=n) for d, n in ((1, 2), (5, 1), (3, 2))]
    assert_same(merge(models, disjoint=True), X)


@pytest.mark.parametrize("n", [0, 1, 2, MIN_ROWS_TO_COMPARE_NUMBERS])
def test_any_number_of_rows_is_predicted(n):
    rng = np.random.default_rng(0)
    domain = Domain({"a": Numeric(0, 1), "b": Numeric(1, 9, scale="log")}, Numeric(0, 10))
    X = np.column_stack([rng.random(n), rng.lognormal(0, 1, n)])
    X[rng.random((n, 2)) < 0.1] = np.nan
    model = DiPriMeRegressor(5, domain, n_estimators=2, max_depth=5).fit(X[:500], 10 * X[:500, 0])
    assert_same(model, X)


def test_frames_of_categories_export():
    rng = np.random.default_rng(0)
    n = 500
    cities = [f"city {i}" for i in range(700)]  # more than there are codes, so they share codes
    frame = pd.DataFrame(
        {
            "city": pd.Categorical(rng.choice([*cities, None], n), cities),
            "note": rng.choice(["", "missing", "x", "unlisted", "?", None], n),
            "year": rng.choice([1990, 1991, 2000, 5], n),
            "age": rng.uniform(0, 100, n),
        }
    )
    frame["year"] = frame["year"].astype("Int64").mask(rng.random(n) < 0.1)
    domain = Domain(
        {
            "age": Numeric(0, 90),
            "city": Categorical(cities),
            "note": Categorical(["", "missing", "x"]),
            "year": Categorical(range(1990, 2010)),
        },
        Categorical(["no", "yes"]),
        missing=["?"],
    )
    y = np.where(frame["age"] > 50, "yes", "no")
    model = DiPriMeClassifier(20, domain, n_estimators=3, max_depth=7, balance=0).fit(frame, y)
    assert_same(model, frame)
    exported = to_onnx(model)
    metadata = {item.key: item.value for item in exported.metadata_props}
    assert json.loads(metadata["diprime.numbers"]) == ["age", "year"]
    assert json.loads(metadata["diprime.texts"]) == ["city", "note"]
    assert json.loads(metadata["diprime.missing_texts"]) == ["", "missing 0"]
    assert Ledger.from_json(metadata["diprime.privacy"]) == model.privacy_
    # Inputs made without onnx_inputs, as in another language.
    plain = frame.astype({"city": object})
    table = {
        "numbers": np.column_stack([frame["age"], frame["year"].astype("float64")]),
        "texts": np.column_stack(
            [plain["city"].fillna(""), plain["note"].replace("?", None).fillna("missing 0")]
        ).astype(object),
    }
    assert_same(model, frame, table)


def test_categories_that_share_a_code_predict_the_same():
    domain = Domain({"a": Categorical([str(i) for i in range(600)])}, Categorical(["x", "y"]))
    model = DiPriMeClassifier(1, domain, n_estimators=1, max_depth=8).fit([["1"]], ["x"])
    label, probabilities = session(model).run(
        None, {"texts": np.array([["7"], [str(7 + BUCKETS)], [str(7 + 2 * BUCKETS)]], dtype=object)}
    )
    assert len(label) == 3
    assert (probabilities == probabilities[0]).all()


# -- models that cannot be exported ------------------------------------------------------------------------------------


@pytest.mark.parametrize("categories", [["a", 1], [b"a", b"b"], [(1, 2)], [2**53], [1e300], ["half \ud800"]])
def test_categories_without_an_onnx_type_are_refused(categories):
    domain = Domain({"fine": Numeric(0, 1), "odd one": Categorical(categories)}, Numeric(0, 1))
    model = DiPriMeRegressor(1, domain, max_depth=1).fit([[0.5, categories[0]]], [0.5])
    for export in (to_onnx, lambda m: onnx_inputs(m, [[0.5, categories[0]]])):
        with pytest.raises(ValueError, match=r"'odd one' .*categories .*neither"):
            export(model)


@pytest.mark.parametrize("classes", [["a", 1], [(1, 2), (3, 4)], ["half \ud800", "b"]])
def test_classes_without_an_onnx_type_are_refused(classes):
    model = DiPriMeClassifier(1, Domain({"a": Numeric(0, 1)}, Categorical(classes)), max_depth=1)
    model.fit([[0.5]], [classes[0]])
    with pytest.raises(ValueError, match=r"classes .*neither"):
        to_onnx(model)


def test_wrong_columns_are_refused_like_predict():
    X, y = make("regression", 50)
    model = fit("regression", X, y, max_depth=1)
    with pytest.raises(ValueError, match="X has 3 features"):
        onnx_inputs(model, X[:, :3])
    with pytest.raises(TypeError, match=r"'level' has dtype str, .*declares numbers"):
        onnx_inputs(model, X.astype(str))


def test_missing_matplotlib_is_named_in_the_error(monkeypatch):
    model = fit("regression", *make("regression", 50), max_depth=1)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'diprime\[onnx\]'"):
        to_onnx(model)


@pytest.mark.parametrize("estimator", [DiPriMeClassifier, DiPriMeBoostingClassifier])
def test_dates_are_passed_as_microseconds(estimator):
    when = np.datetime64("2012-10-02", "us") + np.random.default_rng(0).integers(-(10**15), 10**15, 3000)
    X = pd.DataFrame({"n": np.arange(3000) % 24, "when": when.astype("M8[us]")})
    X.loc[:50, "when"] = pd.NaT
    features = {"n": Integer(0, 23), "when": Date("2012-10-02", "2018-09-30", parts=PARTS)}
    model = estimator(5.0, Domain(features, Categorical(["no", "yes"])), n_jobs=1)
    model.fit(X, np.where(X["when"].dt.hour > 11, "yes", "no"))
    inputs = {"numbers": X[["n"]].to_numpy(np.float64), "dates": X[["when"]].to_numpy().astype("M8[us]").view(np.int64)}
    assert inputs["dates"][0, 0] == MISSING_DATE
    run = session(model)
    assert [value.name for value in run.get_inputs()] == ["numbers", "dates"]
    assert json.loads(run.get_modelmeta().custom_metadata_map["diprime.dates"]) == ["when"]
    assert run.run(["label"], inputs)[0].tolist() == model.predict(X).tolist()
    given = onnx_inputs(model, X)
    assert all(np.array_equal(given[name], inputs[name]) for name in inputs)


# -- boosted models ----------------------------------------------------------------------------------------------------


def assert_same_boosted(model, X):
    """Compare scores, labels and predictions bit by bit; exponentials may differ in their last digits."""
    run = session(model)
    names = [output.name for output in run.get_outputs()]
    outputs = dict(zip(names, run.run(None, onnx_inputs(model, X)), strict=True))
    with Threads(1) as threads:
        rows = model.domain_.reader(X)
        predicted, scores = model.forest_.predict(rows, threads), model.forest_.scores(rows, threads)
    if model.domain_.task == "regression":
        assert outputs["prediction"].tobytes() == predicted[:, 0].tobytes()
        return
    assert outputs["scores"].tobytes() == scores.tobytes()
    assert outputs["label"].tolist() == model.classes_[model.forest_.link.decide(scores)].tolist()
    assert outputs["probabilities"] == pytest.approx(predicted, rel=1e-12, abs=1e-300)
    assert outputs["probabilities"].shape == (len(X), len(model.classes_))


@given(
    seed=st.integers(0, 2**32 - 1),
    target=st.sampled_from(sorted(DOMAINS)),
    n_trees=st.integers(1, 20),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
)
@settings(deadline=None, max_examples=20)
def test_any_additive_forest_scores_the_same_after_export(seed, target, n_trees, scale):
    assert_same_boosted(made_model(target, seed, n_trees, scale=scale), made_rows(np.random.default_rng(seed), 15))


@pytest.mark.parametrize("classes", [["only"], [3, 1], [True, False], [0.5, 2, -1]])
def test_classes_of_other_types_and_numbers(classes):
    domain = Domain(FEATURES, Categorical(classes))
    assert_same_boosted(as_model(made_forest(0, domain), domain), made_rows(np.random.default_rng(0), 50))
