"""Whole boosted fits: what they learn, and data at the edges of what there can be."""

import math

import numpy as np
import pytest

import diprime._util.resources
from diprime import Categorical, DiPriMeBoostingClassifier, DiPriMeBoostingRegressor, Domain, Numeric, sources
from diprime.boosting import defaults
from diprime.kernels.constants import N_CODES
from tests.small_data import BOOSTERS, DOMAINS, TASKS, assert_same_forest, boost, make

pytestmark = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")

INFINITY = float("inf")


def one_number(target):
    return Domain({"x": Numeric(0, 10)}, target)


# -- what is learnt ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "least"), [(1, 0.75), (INFINITY, 0.86)])
@pytest.mark.parametrize("task", TASKS)
def test_simple_relations_are_learnt(task, epsilon, least):
    X, y = make(task, 9000)
    model = boost(task, X[3000:], y[3000:], epsilon=epsilon, n_rounds=150, random_state=0)
    assert model.score(X[:3000], y[:3000]) > least
    assert model.privacy_.total == epsilon


@pytest.mark.parametrize("labels", [["no", "yes"], ["yes", "no"], ["b", "c", "a"], list("zyxwv"), [3, 1, 2]])
def test_classes_in_any_order_of_the_domain(labels):
    """The domain lists them in one order, ``classes_`` and the scores have another."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (4000, 1))
    place = np.minimum((X[:, 0] / 10 * len(labels)).astype(int), len(labels) - 1)
    y = np.array(labels)[place]
    model = DiPriMeBoostingClassifier(20, one_number(Categorical(labels)), n_rounds=100, random_state=0).fit(X, y)
    assert model.classes_.tolist() == sorted(labels)
    assert model.score(X, y) > 0.9
    middles = (np.arange(len(labels))[:, None] + 0.5) / len(labels) * 10
    assert model.predict(middles).tolist() == labels
    probabilities = model.predict_proba(middles)
    assert [model.classes_[k] for k in probabilities.argmax(axis=1)] == labels
    scores = model.decision_function(middles)
    if len(labels) == 2:
        assert scores.shape == (2,)
        assert [model.classes_[int(score > 0)] for score in scores] == labels
    else:
        assert [model.classes_[k] for k in scores.argmax(axis=1)] == labels


def test_categories_are_learnt_in_any_order():
    rng = np.random.default_rng(0)
    rate = rng.permutation(40) / 39
    kinds = rng.integers(0, 40, 20_000)
    domain = Domain({"kind": Categorical(range(40))}, Numeric(0, 1))
    y = np.clip(rate[kinds] + rng.normal(0, 0.05, 20_000), 0, 1)
    model = DiPriMeBoostingRegressor(2, domain, n_rounds=150, random_state=0).fit(kinds[:, None].astype(float), y)
    predicted = model.predict(np.arange(40.0)[:, None])
    assert np.abs(predicted - rate).mean() < 0.06
    unseen = model.predict([[None], [99]])
    assert ((unseen >= 0) & (unseen <= 1)).all()


def test_missing_values_are_informative():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (20_000, 1))
    missing = rng.random(20_000) < 0.3
    X[missing] = np.nan
    y = np.where(missing, 9.0, 2.0)
    model = DiPriMeBoostingRegressor(5, one_number(Numeric(0, 10)), n_rounds=200, random_state=0).fit(X, y)
    assert model.predict([[np.nan]])[0] > 6
    assert model.predict([[5.0]])[0] < 4


def test_interactions_are_learnt_if_requested():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (8000, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    domain = Domain({"a": Numeric(-1, 1), "b": Numeric(-1, 1)}, Categorical(["same", "other"]))
    scores = {
        wanted: DiPriMeBoostingClassifier(5, domain, interactions=wanted, n_rounds=100, random_state=0)
        .fit(X, y)
        .score(X, y)
        for wanted in (True, False)
    }
    assert scores[True] > 0.85
    assert scores[False] < 0.6
    single = DiPriMeBoostingClassifier(5, domain, interactions=False, n_rounds=30).fit(X, y)
    trees = np.split(single.forest_.features, single.forest_.first_splits[1:-1])
    assert all(len(set(tree.tolist())) == 1 for tree in trees)


# -- edges ------------------------------------------------------------------------------------------------------------


def assert_sound(model, X):
    """Check that a fitted model is one that a file could hold, and that it predicts."""
    model.forest_.check(model.domain_)
    assert np.isfinite(model.forest_.values).all()
    if model._task == "classification":
        probabilities = model.predict_proba(X)
        assert np.isfinite(probabilities).all()
        assert probabilities.sum(axis=1) == pytest.approx(np.ones(len(X)))
        assert set(model.predict(X).tolist()) <= set(model.classes_.tolist())
    else:
        low, high = model.domain_.output_range
        assert ((model.predict(X) >= low) & (model.predict(X) <= high)).all()
    assert model.feature_importances_.shape == (model.domain_.n_features,)


@pytest.mark.parametrize("epsilon", [1e-3, 1, 1e6, 1e12, INFINITY])
@pytest.mark.parametrize("n", [0, 1, 2, 500])
@pytest.mark.parametrize("task", TASKS)
def test_any_number_of_rows_and_any_epsilon(task, n, epsilon):
    X, y = make(task, n)
    model = boost(task, X, y, epsilon=epsilon)
    assert_sound(model, make(task, 50, seed=1)[0])
    assert model.privacy_.total == model.privacy_.epsilon
    n_curves, n_rounds = len(model.forest_.curves), len(model.forest_.rounds)
    assert (n_curves, n_rounds) in [(0, 0), (4, 0), (4, 20)]
    if n >= 500 or epsilon == INFINITY:
        assert (n_curves, n_rounds) == ((0, 0) if epsilon < 1 else (4, 0) if epsilon == 1 else (4, 20))


@pytest.mark.parametrize("n_rounds", [1, 2, 3, 7])
@pytest.mark.parametrize("task", TASKS)
def test_few_rounds(task, n_rounds):
    X, y = make(task, 2000)
    model = boost(task, X, y, n_rounds=n_rounds, epsilon=50)
    assert_sound(model, X)
    assert len(model.forest_.rounds) == n_rounds


@pytest.mark.parametrize("learning_rate", [0, 0.001, 1])
@pytest.mark.parametrize("task", TASKS)
def test_any_learning_rate(task, learning_rate):
    X, y = make(task, 2000)
    model = boost(task, X, y, learning_rate=learning_rate, epsilon=50)
    assert_sound(model, X)
    forest = model.forest_
    of_rounds = forest.values[forest.first_leaves[len(forest.curves)] :]
    assert len(forest.rounds) == 20
    assert (of_rounds == 0).all() == (learning_rate == 0)


@pytest.mark.parametrize("n_classes", [1, 2, 3, 26, 100])
@pytest.mark.parametrize("epsilon", [1e-3, 1, INFINITY])
def test_any_number_of_classes(n_classes, epsilon):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(0, 10, (3000, 1)), rng.integers(0, n_classes, 3000)
    domain = one_number(Categorical(range(n_classes)))
    model = DiPriMeBoostingClassifier(epsilon, domain, n_rounds=10).fit(X, y)
    assert_sound(model, X)
    assert model.predict_proba(X).shape == (3000, n_classes)


def test_class_without_records():
    X, y = np.linspace(0, 10, 1000)[:, None], np.repeat(["b", "c"], 500)
    domain = one_number(Categorical(list("abcd")))
    model = DiPriMeBoostingClassifier(10, domain, n_rounds=60, random_state=0).fit(X, y)
    assert_sound(model, X)
    assert set(model.predict(X).tolist()) == {"b", "c"}


@pytest.mark.parametrize("task", TASKS)
def test_constant_and_missing_features(task):
    X, y = make(task, 1000)
    for filling in (5.0, np.nan, 1e9, -1e9):
        for epsilon in (1, INFINITY):
            assert_sound(boost(task, np.full_like(X, filling), y, epsilon=epsilon), X)


def test_one_feature_of_one_level():
    domain = Domain({"side": Categorical(["only"])}, Numeric(0, 1))
    X = np.array([["only"]] * 50, dtype=object)
    model = DiPriMeBoostingRegressor(1, domain, n_rounds=10).fit(X, np.full(50, 0.5))
    assert_sound(model, X)


@pytest.mark.parametrize("task", TASKS)
def test_targets_that_are_all_missing(task):
    X, y = make(task, 100)
    nothing = np.full(100, None if task == "classification" else np.nan)
    model = boost(task, X, nothing, random_state=0)
    assert_same_forest(model, boost(task, X[:0], y[:0], random_state=0))


@pytest.mark.parametrize("ends", [(-1e-6, 1e-6), (-1e9, 1e12), (5, 6), (-3.7, -1.1)])
def test_numbers_of_any_range(ends):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (5000, 1))
    y = ends[0] + (ends[1] - ends[0]) * X[:, 0] / 10
    model = DiPriMeBoostingRegressor(20, one_number(Numeric(*ends)), n_rounds=100, random_state=0).fit(X, y)
    assert_sound(model, X)
    assert model.score(X, y) > 0.9


# -- the same model ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_batches_give_the_model_of_all_rows(task):
    X, y = make(task, 1500)
    model = BOOSTERS[task](domain=DOMAINS[task], n_rounds=20, n_jobs=1, random_state=5)
    batches = [(X[a:b], y[a:b]) for a, b in ((0, 1), (1, 700), (700, 700), (700, 1500))]
    assert_same_forest(model.fit(sources.batches(iter(batches))), boost(task, X, y, random_state=5))


@pytest.mark.parametrize("task", TASKS)
def test_seed_gives_the_same_model_on_any_number_of_threads(task):
    X, y = make(task, 70_000)
    first = boost(task, X, y, random_state=5, n_jobs=1)
    for n_jobs in (2, 5):
        assert_same_forest(boost(task, X, y, random_state=5, n_jobs=n_jobs), first)
    assert not np.array_equal(boost(task, X, y, random_state=6).forest_.counts[:2], first.forest_.counts[:2])


@pytest.mark.parametrize("task", TASKS)
def test_without_a_seed_fits_differ(task):
    X, y = make(task, 500)
    assert not np.array_equal(boost(task, X, y).forest_.code_weights, boost(task, X, y).forest_.code_weights)


@pytest.mark.parametrize("task", TASKS)
def test_model_scores_equal_training_scores(task, monkeypatch):
    """What training believes of a record is what the model says of it."""
    kept = []

    class Kept(diprime.boosting.engine.BoostingEngine):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            kept.append(self)

    monkeypatch.setattr("diprime.estimators.boosting.BoostingEngine", Kept)
    X, y = make(task, 400)
    model = boost(task, X, y, epsilon=50)
    engine = kept[0]
    (state,) = engine._executor._states
    final = state.scores + engine._steps[state.cells]
    if task == "regression":
        low, high = DOMAINS[task].output_range
        expected = np.clip(low + (high - low) * final[:, 0] / (1 << 24), low, high)
        assert model.predict(X) == pytest.approx(expected, abs=1e-9)
    else:
        assert model.decision_function(X) == pytest.approx(final / (1 << 20), abs=1e-9)


@pytest.mark.parametrize("task", TASKS)
def test_released_weights_of_codes_count_the_records(task):
    X, y = make(task, 3000)
    weights = boost(task, X, y, epsilon=50).forest_.code_weights
    assert weights.shape == (4, N_CODES)
    assert weights.sum(axis=1) == pytest.approx([3000] * 4, abs=150)


@pytest.mark.parametrize(
    ("task", "epsilon", "most"), [("classification", 0.1, 500), ("regression", 0.1, 363), ("regression", 1.0, 40)]
)
def test_number_of_records_is_combined_from_all_releases(task, epsilon, most):
    """Merged models are weighted by it. From the first count alone, its noise would be 628, 363 and 42."""
    X, y = make(task, 3000)
    found = [boost(task, X, y, epsilon=epsilon, random_state=seed, n_rounds=200).forest_ for seed in range(6)]
    assert max(forest.records_noise for forest in found) < most
    deviations = np.array([(forest.n_records - len(X)) / forest.records_noise for forest in found])
    assert np.abs(deviations).max() < 4.5
    assert (deviations**2).mean() < 4, "P < 1e-3"


@pytest.mark.parametrize("task", TASKS)
def test_progress_shows_steps_without_the_number_of_rows(task, capsys, monkeypatch):
    seconds = iter(range(10**6))
    monkeypatch.setattr(diprime._util.resources.time, "monotonic", lambda: float(next(seconds)))
    boost(task, *make(task, 977), epsilon=INFINITY, n_rounds=8, verbose=1)
    out, err = capsys.readouterr()
    assert out == ""
    drawn = err.rstrip("\n").split("\r")[1:]
    n = 8 + defaults.curve_steps(INFINITY, 977)
    assert [text.split("] ")[1] for text in drawn] == [f"{i}/{n} steps" for i in range(1, n + 1)]
    assert "977" not in err
    boost(task, *make(task, 977), n_rounds=8)
    assert capsys.readouterr() == ("", "")


def test_infinite_epsilon_learns_exactly():
    X = np.repeat([[1.0], [9.0]], 500, axis=0)
    y = np.repeat([2.0, 7.0], 500)
    domain = one_number(Numeric(0, 10))
    model = DiPriMeBoostingRegressor(math.inf, domain, n_rounds=200, random_state=0).fit(X, y)
    assert model.predict([[1.0], [9.0]]) == pytest.approx([2.0, 7.0], abs=0.05)
