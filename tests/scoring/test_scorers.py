"""Whole scores: what they cost, what voids them, and that only noisy numbers leave."""

import hashlib
import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, mean_absolute_error, mean_squared_error, r2_score

import diprime
from diprime import (
    Budget,
    DiPriMeClassifier,
    DiPriMeRegressor,
    PrivacyWarning,
    PrivateScore,
    merge,
    private_score,
    private_score_batches,
)
from diprime.baselines import DPRandomForestClassifier
from diprime.scoring import release
from tests.small_data import DOMAINS, TASKS, boost, fit, make

# What seeded scores of seeded models print; a change that means to change scores changes these, and says why.
DIGESTS = {
    ("classification", "forest"): "3fdb1426d8a0b5be",
    ("classification", "boosted"): "6150ec7178c3f667",
    ("regression", "forest"): "4b50c959a39f0abd",
    ("regression", "boosted"): "e56f771d2a1491c8",
}


@pytest.fixture(scope="module")
def models():
    return {
        (task, kind): learn(task, *make(task, 3000), epsilon=5)
        for task in TASKS
        for kind, learn in (("forest", fit), ("boosted", boost))
    }


KINDS = list(DIGESTS)


@pytest.mark.parametrize("key", KINDS)
@pytest.mark.parametrize(("epsilon", "shown"), [(0.1, "0.1"), (1, "1"), (Fraction(1, 3), "0.333334")])
def test_a_score_costs_epsilon_and_its_ledger_says_so(models, key, epsilon, shown):
    score = private_score(models[key], *make(key[0], 2000, 1), epsilon)
    assert score.ledger.total == score.ledger.epsilon == diprime.privacy.measures.exact_epsilon(epsilon)
    assert score.ledger.is_private
    assert score.ledger.delta == 0
    assert all(charge.mechanism == "discrete Laplace" for charge in score.ledger.charges)
    assert f"costs epsilon = {shown} on the test rows" in str(score)
    assert PrivateScore.from_json(score.to_json()) == score


def test_the_default_epsilon_is_a_tenth(models):
    score = private_score(models["regression", "forest"], *make("regression", 500, 1))
    assert score.ledger.total == Fraction(1, 10)
    assert score.confidence == 0.95


@pytest.mark.parametrize("kind", ["forest", "boosted"])
def test_without_noise_scores_are_those_of_scikit_learn(models, kind):
    X, y = make("classification", 2000, 1)
    model = models["classification", kind]
    score = private_score(model, X, y, math.inf)
    assert score.accuracy.value == pytest.approx(accuracy_score(y, model.predict(X)))
    assert not score.ledger.is_private
    assert "NOT PRIVATE: epsilon is infinite" in str(score)
    X, y = make("regression", 2000, 1)
    model = models["regression", kind]
    score, predicted = private_score(model, X, y, math.inf), model.predict(X)
    assert score.mse.value == pytest.approx(mean_squared_error(y, predicted), rel=2e-3)
    assert score.mae.value == pytest.approx(mean_absolute_error(y, predicted), rel=2e-3)
    assert score.r2.value == pytest.approx(r2_score(y, predicted), abs=2e-3)


@pytest.mark.parametrize("key", KINDS)
def test_noise_is_fresh_and_moderate(models, key):
    X, y = make(key[0], 4000, 1)
    exact = private_score(models[key], X, y, math.inf).estimates
    a, b = (private_score(models[key], X, y, 1.0).estimates for _ in range(2))
    for name, estimate in exact.items():
        assert a[name] != b[name]
        assert abs(a[name].value - estimate.value) < 3 * (a[name].high - a[name].low)


@pytest.mark.parametrize("key", KINDS)
def test_a_seed_voids_the_score_and_repeats_it(models, key):
    data = make(key[0], 800, 1)
    found = []
    for _ in range(2):
        with pytest.warns(PrivacyWarning, match="This score is not private: random_state was set"):
            found.append(private_score(models[key], *data, 1.0, random_state=3))
    assert found[0] == found[1]
    assert not found[0].ledger.is_private
    assert "NOT PRIVATE: random_state was set" in str(found[0])


def test_a_score_is_charged_to_the_study_before_it_is_released(models, monkeypatch):
    budget, table, seen = Budget(2), release.discrete_laplace, []

    def release_and_look(*arguments):
        seen.append(len(budget.entries))
        return table(*arguments)

    monkeypatch.setattr(release, "discrete_laplace", release_and_look)
    key = KINDS[0]
    with budget:
        score = private_score(models[key], *make(key[0], 200, 1), 0.5)
    assert [entry.loss.epsilon for entry in budget.entries] == [Fraction(1, 2)]
    assert set(seen) == {1}
    assert score.ledger.studies == [budget.study]


def digest(key):
    learn = {"forest": fit, "boosted": boost}[key[1]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        model = learn(key[0], *make(key[0], 1000), random_state=5)
        score = private_score(model, *make(key[0], 800, 1), 1.0, random_state=3)
    # Ten digits: the last ones of logarithms differ from one processor to another.
    values = [f"{value:.10g}" for e in [score.records, *score.estimates.values()] for value in (e.value, e.low, e.high)]
    return hashlib.sha256(" ".join(values).encode()).hexdigest()[:16]


@pytest.mark.parametrize("key", KINDS)
def test_seeded_scores_are_as_they_were(key):
    assert digest(key) == DIGESTS[key]


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize("key", KINDS)
def test_batches_files_copies_and_merged_models_are_scored_alike(models, key, tmp_path):
    model, (X, y) = models[key], make(key[0], 900, 1)
    expected = private_score(model, X, y, 1.0, random_state=1)
    batches = ((X[i : i + 250], y[i : i + 250]) for i in range(0, 900, 250))
    assert private_score_batches(model, batches, 1.0, random_state=1) == expected
    model.save(tmp_path / "model.diprime")
    for copy in (diprime.load(tmp_path / "model.diprime"), pickle.loads(pickle.dumps(model))):
        assert private_score(copy, X, y, 1.0, random_state=1) == expected
    assert private_score(merge([model, model]), X, y, 1.0).ledger.total == 1


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize("task", TASKS)
def test_columns_of_frames_are_found_by_name(task):
    X, y = make(task, 900, 1)
    names = list(DOMAINS[task].names)
    frame = pd.DataFrame(X, columns=names)
    model = fit(task, frame, y, epsilon=5)
    a, b = (private_score(model, rows, y, 1.0, random_state=1) for rows in (frame, frame[names[::-1]]))
    assert a == b


@pytest.mark.parametrize("key", KINDS)
def test_shapes_and_text_depend_on_public_things_only(models, key):
    """Of empty, small and large tests with the same released numbers of bins, only numbers differ."""

    def shape(value):
        if isinstance(value, dict):
            return {name: shape(part) for name, part in value.items()}
        if isinstance(value, list):
            return [shape(part) for part in value]
        return value if isinstance(value, (str, bool, int)) else float

    X, y = make(key[0], 3000, 1)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("diprime.scoring.classes.number_of_bins", lambda *_: 12)
        for n in (0, 1, 3000):
            found.append(shape(private_score(models[key], X[:n], y[:n], 1.0).to_dict()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("key", KINDS)
def test_values_never_cause_errors_or_warnings(models, key):
    task = key[0]
    X, y = make(task, 60, 1)
    X = X.astype(object)
    X[::7], X[1::7] = None, 1e300
    y = y.astype(object)
    y[::5] = None
    y[1::5] = "?" if task == "classification" else float("inf")
    assert private_score(models[key], X, y, 0.1).ledger.total == Fraction(1, 10)


def test_nothing_private_is_kept(models):
    """No array, and no number of rows: the released numbers of records are noisy."""
    X, y = make("classification", 1234, 1)
    scores = [private_score(models["classification", "forest"], X, y, 0.5) for _ in range(20)]
    assert len({score.records.value for score in scores}) > 10
    assert not any(isinstance(value, np.ndarray) for value in vars(scores[0]).values())


def test_all_is_paid_before_it_is_released(models, monkeypatch):
    """What the mechanism is called with is what the ledger says."""
    used = []
    original = release.discrete_laplace

    def spy(values, receipt, sensitivity, streams):
        used.append((receipt.charge.epsilon, sensitivity, receipt.charge.calibrated_to))
        return original(values, receipt, sensitivity, streams)

    monkeypatch.setattr(release, "discrete_laplace", spy)
    for key in KINDS:
        used.clear()
        score = private_score(models[key], *make(key[0], 100, 1), 0.7)
        assert [epsilon for epsilon, *_ in used] == [charge.epsilon for charge in score.ledger.charges]
        assert all(sensitivity == charged for _, sensitivity, charged in used)


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), "1", None])
def test_a_wrong_epsilon_is_refused_before_rows_are_read(models, epsilon):
    with pytest.raises((ValueError, TypeError), match="epsilon must be a positive number"):
        private_score_batches(models["regression", "forest"], _unread(), epsilon)


@pytest.mark.parametrize("confidence", [0, 1, 95, 0.3, "0.9", True, float("nan")])
def test_a_wrong_confidence_is_refused_before_rows_are_read(models, confidence):
    with pytest.raises(ValueError, match=r"confidence must be a number from 0\.5 to below 1"):
        private_score_batches(models["regression", "forest"], _unread(), confidence=confidence)


def _unread():
    raise AssertionError("a row was read")
    yield


def test_more_confidence_is_wider(models):
    X, y = make("regression", 2000, 1)
    wide, narrow = (private_score(models["regression", "forest"], X, y, 5.0, confidence=c).mse for c in (0.999, 0.6))
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_only_fitted_models_of_ours_are_scored():
    X, y = make("classification", 50)
    with pytest.raises(NotFittedError):
        private_score(DiPriMeClassifier(domain=DOMAINS["classification"]), X, y)
    baseline = DPRandomForestClassifier(domain=DOMAINS["classification"]).fit(X, y)
    for other in (baseline, "model"):
        with pytest.raises(TypeError, match="Only DiPriMe estimators can be scored"):
            private_score(other, X, y)


def test_shapes_that_do_not_fit_are_refused(models):
    X, y = make("regression", 50)
    with pytest.raises(ValueError, match="inconsistent"):
        private_score(models["regression", "forest"], X, y[1:])
    with pytest.raises(ValueError, match="3 features"):
        private_score(models["regression", "forest"], X[:, 1:], y)


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize("key", KINDS)
def test_of_each_person_one_row_is_scored(models, key):
    model, (X, y) = models[key], make(key[0], 900, 1)
    alone = private_score(model, X, y, math.inf)
    assert private_score(model, X, y, math.inf, groups=np.arange(900)).estimates == alone.estimates
    # The rows of a person are all alike, so that it does not matter which of them is drawn.
    rows = np.repeat(np.arange(900), np.random.default_rng(1).integers(1, 9, 900))
    persons = private_score(model, X[rows], y[rows], math.inf, groups=[f"person {i}" for i in rows])
    assert persons.estimates == alone.estimates
    assert persons.ledger.unit_records == 1
    assert "One person, up to 1 record, added or removed" in str(persons.ledger)
    nobody = private_score(model, X, y, math.inf, groups=[None] * 900)
    assert nobody.records.value == 0
    batches = [(X[:450], y[:450], rows[:450]), (X[450:], y[450:])]
    with pytest.raises(ValueError, match="Some batches have groups and some do not"):
        private_score_batches(model, batches, 1.0)


def test_without_any_batch_the_score_protects_whom_the_model_protects(models):
    model, (X, y) = models["regression", "forest"], make("regression", 300)
    of_persons = DiPriMeRegressor(1.0, model.domain_).fit(X, y, groups=np.arange(300) // 3)
    assert private_score_batches(model, [], 1.0).ledger.unit == "record"
    assert private_score_batches(of_persons, [], 1.0).ledger.unit == "person"
    with Budget(3) as budget:
        private_score_batches(of_persons, [(X[:0], y[:0], [])], 1.0)
        private_score_batches(of_persons, [], 1.0)
    assert len(budget.entries) == 2, "one budget counts persons or records, and not both"


def test_no_groups_are_as_good_as_none(models):
    model, (X, y) = models["regression", "forest"], make("regression", 300)
    assert private_score_batches(model, [(X, y, None)], 1.0).ledger.unit == "record"
    with pytest.raises(ValueError, match="Some batches have groups and some do not"):
        private_score_batches(model, [(X, y, np.arange(300)), (X, y, None)], 1.0)
