"""Explanations: contributions add up to the scores, of boosted models bit for bit and in any order."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime import Categorical, Domain, Explanation, Numeric, merge
from diprime._util.resources import Threads
from diprime.inspection.explanation import explain, targets_of
from tests.encoded_rows import EncodedRows
from tests.made_additive import DOMAINS, as_model, made_codes, made_forest
from tests.small_data import DOMAINS as FIT_DOMAINS
from tests.small_data import TASKS, fit, make

TARGETS = sorted(DOMAINS)


def explained(forest, domain, codes, n_threads=1):
    with Threads(n_threads) as threads:
        return explain(forest, domain, EncodedRows(codes), threads, targets_of(as_model(forest, domain)))


@given(
    seed=st.integers(0, 2**32 - 1),
    target=st.sampled_from(TARGETS),
    n_trees=st.integers(1, 20),
    scale=st.sampled_from([1e-30, 1.0, 1e6]),
)
@settings(deadline=None, max_examples=30)
def test_contributions_add_up_to_the_scores_in_any_order(seed, target, n_trees, scale):
    rng = np.random.default_rng(seed)
    forest, domain = made_forest(seed, DOMAINS[target], n_trees, scale=scale), DOMAINS[target]
    codes = made_codes(rng, domain, 30)
    explanation = explained(forest, domain, codes)
    with Threads(1) as threads:
        rows = EncodedRows(codes)
        expected = forest.predict(rows, threads) if target == "number" else forest.scores(rows, threads)
    assert np.array_equal(explanation.scores, expected)
    parts = [np.tile(explanation.offset, (30, 1)), *np.moveaxis(explanation.contributions, 1, 0)]
    total = np.zeros_like(expected)
    for part in rng.permutation(len(parts)):
        total += parts[part]
    assert np.array_equal(total, expected)
    assert explanation.contributions.shape == (30, len(explanation.terms), len(explanation.offset))


def test_clipping_is_a_term():
    domain = DOMAINS["number"]
    forest = made_forest(2, domain, scale=3.0)
    codes = made_codes(np.random.default_rng(0), domain, 200)
    explanation = explained(forest, domain, codes, n_threads=2)
    with Threads(1) as threads:
        scores = forest.scores(EncodedRows(codes), threads)
    outside = (scores < -1.1) | (scores > 10.3)
    assert outside.any()
    assert not outside.all()
    assert np.array_equal(explanation.contributions[:, -1] != 0, outside)
    assert np.array_equal(explanation.scores - explanation.contributions[:, -1], scores)


def test_the_offset_is_the_mean_score():
    domain = Domain({"a": Numeric(0, 255), "b": Numeric(0, 255)}, DOMAINS["two"].target)
    forest = made_forest(0, domain, 20)
    weights = np.zeros((2, 256))
    weights[:, :255] = np.random.default_rng(0).integers(0, 9, (2, 255))
    weights[1] *= weights[0].sum() / weights[1].sum()
    forest = replace(forest, code_weights=weights, n_records=weights[0].sum())
    grid = np.stack(np.meshgrid(np.arange(255), np.arange(255), indexing="ij"), axis=-1).reshape(-1, 2)
    explanation = explained(forest, domain, grid.astype(np.uint8))
    mass = np.multiply.outer(weights[0, :255], weights[1, :255]).ravel()
    assert explanation.offset == pytest.approx(np.average(explanation.scores, axis=0, weights=mass))
    for t in range(len(explanation.terms)):
        assert np.average(explanation.contributions[:, t, 0], weights=mass) == pytest.approx(0, abs=1e-9)


def small():
    return Explanation(
        (("age",), ("hours",), ("age", "hours"), ()),
        (None,),
        np.array([-1.5]),
        np.array([[[0.25], [-0.5], [0.125], [0.0]], [[0.0], [0.0], [0.0], [2.5]]]),
        np.array([[-1.625], [1.0]]),
    )


def test_a_row_as_text_has_the_largest_contributions_first():
    lines = small().row(0).splitlines()
    assert lines[0] == "row 0: prediction -1.625"
    assert [line.split()[-1] for line in lines[1:]] == ["-1.5", "-0.5", "+0.25", "+0.125"]
    assert lines[-1].startswith("  age × hours  ")
    assert small().row(1).splitlines()[1:] == ["  offset                 -1.5", "  clipping to the range  +2.5"]
    short = small().row(0, most=1).splitlines()
    assert short[-1].split() == ["2", "more", "terms", "+0.375"]


def test_columns_for_a_frame():
    columns = small().to_dict()
    assert columns == {
        "age": [0.25, 0.0], "hours": [-0.5, 0.0], "age × hours": [0.125, 0.0], "clipping to the range": [0.0, 2.5]
    }  # fmt: skip
    forest, domain = made_forest(0, DOMAINS["three"]), DOMAINS["three"]
    explanation = explained(forest, domain, made_codes(np.random.default_rng(0), domain, 4))
    kind = explanation.terms.index(("kind",))
    assert explanation.to_dict(2)["kind"] == explanation.contributions[:, kind, 2].tolist()


# -- forests ----------------------------------------------------------------------------------------------------------

CASES = [
    ("classification", {}),
    ("regression", {}),
    ("classification", {"n_estimators": 3, "max_depth": 4}),
    ("regression", {"epsilon": float("inf"), "disjoint_rows": False, "n_estimators": 3, "max_depth": 6}),
    ("classification", {"class_weight": "balanced"}),
    ("regression", {"max_records_per_group": 1, "method": "diprime-flip"}),
]


def explained_fit(task, parameters, n=400):
    X, y = make(task, n)
    model = fit(task, X, y, **parameters)
    return model, X[:50], model.explain(X[:50])


@pytest.mark.parametrize(("task", "parameters"), CASES)
def test_contributions_add_up_to_the_prediction(task, parameters):
    model, X, found = explained_fit(task, parameters)
    assert isinstance(found, Explanation)
    predicted = model.predict_proba(X) if task == "classification" else model.predict(X)[:, None]
    assert found.scores == pytest.approx(predicted, abs=1e-9)
    assert found.offset + found.contributions.sum(axis=1) == pytest.approx(predicted, abs=1e-9)
    assert found.terms == tuple((name,) for name in FIT_DOMAINS[task].encoded_feature_names)
    assert found.targets == (("a", "b", "c") if task == "classification" else (None,))
    assert found.are_probabilities == (task == "classification")


def test_second_of_two_classes_is_explained():
    X, y = make("classification", 400)
    domain = Domain(FIT_DOMAINS["classification"].features, Categorical(["a", "other"]))
    model = fit("classification", X, np.where(y == "a", "a", "other"), domain=domain)
    found = model.explain(X[:5])
    assert found.targets == ("other",)
    assert found.offset + found.contributions.sum(axis=1) == pytest.approx(model.predict_proba(X[:5])[:, 1:], abs=1e-9)
    assert found.row(0).startswith("row 0: probability of other: ")


def test_unused_features_contribute_nothing_and_equal_ones_the_same():
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
    merged = merge(parts, disjoint=True)
    weights = merged.forest_.tree_weights
    expected = sum(w * part.explain(X[:9]).contributions for w, part in zip(weights, parts, strict=True))
    assert merged.explain(X[:9]).contributions == pytest.approx(expected)


@pytest.mark.parametrize("task", TASKS)
def test_explanations_depend_on_the_model_and_the_row_alone(task, tmp_path):
    model, X, found = explained_fit(task, {"n_jobs": 3})
    alone = model.explain(X[7:8])
    assert np.array_equal(alone.contributions[0], found.contributions[7])
    assert model.explain(X[:0]).contributions.shape[0] == 0


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_contributions_of_forests_to_noise_are_marked_and_come_last():
    """At 1,000 records without signal, the largest contribution was printed like one that can be relied on."""
    rng = np.random.default_rng(0)
    X, domain = rng.random((4000, 3)), Domain({name: Numeric(0, 1) for name in "abc"}, Categorical([0, 1]))
    noise = fit("classification", X[:1000], rng.integers(0, 2, 1000), domain=domain, random_state=0).explain(X[:2])
    assert not noise.above_noise.any()
    assert noise.row(0).count("not above noise") == len(noise.row(0).splitlines()) - 2 > 0
    signal = fit("classification", X, (X[:, 1] > 0.6) * 1, domain=domain, random_state=0).explain(X[:2])
    assert signal.above_noise.tolist() == [[False, True, False]] * 2
    assert signal.row(0).splitlines()[2].startswith("  b ")
    assert "not above noise" not in signal.row(0).splitlines()[2]
