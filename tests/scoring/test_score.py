"""A score as text and as JSON, and what from_json refuses."""

import dataclasses
import json
import math
import re
from fractions import Fraction

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, mean_absolute_error, mean_squared_error, r2_score

import diprime
from diprime import (
    Budget,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Ledger,
    PrivacyWarning,
    PrivateScore,
    private_score,
    sources,
)
from diprime.paper import DPRandomForestClassifier
from diprime.privacy.charges import Mechanism
from diprime.scoring import intervals
from diprime.scoring.classes import CalibrationPoint, ClassCurves, RocPoint
from diprime.scoring.intervals import Estimate
from diprime.scoring.numbers import plan_of_numbers
from tests.small_data import DOMAINS, TASKS, boost, fit, make

DIGEST = "0f" * 32
HALF = Estimate(0.5, 0.25, 0.75)


def ledger(epsilon=Fraction(1, 10)):
    return Ledger(epsilon, charges=plan_of_numbers(epsilon))


def curves(*labels):
    point = RocPoint(0.5, HALF, Estimate(0.875, 0.5, 1.0))
    return tuple(ClassCurves(HALF, (point,), (CalibrationPoint(0.0, 0.5, HALF),)) for _ in labels)


def of_classes(*labels):
    several = len(labels) > 1
    return PrivateScore(
        ledger(),
        0.95,
        DIGEST,
        Estimate(1000.0, 900.0, 1100.0),
        Estimate(0.0, 0.0, 0.005),
        labels,
        HALF,
        HALF,
        tuple(tuple(HALF for _ in labels) for _ in labels),
        Estimate(0.25, 0.125, 2.0) if several else None,
        HALF if several else None,
        curves(*labels[1:]) if len(labels) == 2 else curves(*labels) if several else (),
    )


def of_numbers():
    errors = {"mse": Estimate(2.0, 1.0, 3.0), "mae": HALF, "r2": Estimate(-0.25, -math.inf, 1.0)}
    return PrivateScore(ledger(), 0.9, DIGEST, Estimate(1000.0, 900.0, 1100.0), Estimate(0.25, 0.2, 0.3), **errors)


SCORES = {
    "one": of_classes("only"),
    "two": of_classes("no", "yes"),
    "three": of_classes(1, 2, 3),
    "mixed": of_classes(True, "ü", 2.5),
    "numbers": of_numbers(),
}


@pytest.mark.parametrize("name", SCORES)
def test_json_is_exact(name):
    score = SCORES[name]
    again = PrivateScore.from_json(score.to_json())
    assert again == score
    assert again.to_json() == score.to_json()
    assert [type(label) for label in again.classes or ()] == [type(label) for label in score.classes or ()]


def test_score_text_lists_estimates_intervals_and_cost():
    text = str(SCORES["two"])
    assert text.startswith("Private score: costs epsilon = 0.1 on the test rows\n")
    for name in ("accuracy", "balanced accuracy", "log loss", "ROC AUC"):
        assert name in text
    assert "0.25 to 0.75" in text
    assert "yes               50.0% (25.0% to 75.0%)" in text
    assert "must not have been trained on" in text
    assert "NOT PRIVATE" not in text
    text = str(SCORES["numbers"])
    assert "90 % interval" in text
    assert re.search(r"^MSE of clipped targets +2 +1 to 3$", text, re.MULTILINE)
    assert "-inf to 1" in text


def test_unknown_scores_are_shown_as_not_known():
    unknown = Estimate(None, 0.0, 1.0)
    two = SCORES["two"]
    matrix = ((unknown, unknown), (unknown, unknown))
    score = dataclasses.replace(two, accuracy=unknown, confusion_matrix=matrix)
    text = str(score)
    assert re.search(r"^accuracy +not known +0 to 1$", text, re.MULTILINE)
    assert "not known (0.0% to 100.0%)" in text
    assert json.loads(score.to_json())["accuracy"] == [None, 0.0, 1.0]
    assert PrivateScore.from_json(score.to_json()) == score


def test_score_text_names_its_estimand():
    assert "The score describes test rows." in str(SCORES["two"])
    for k, words, unit in [
        (1, "people, not rows: one random test row", "people"),
        (5, "up to 5 random ones", "test rows"),
    ]:
        paid = dataclasses.replace(ledger(), max_records_per_group=k)
        score = dataclasses.replace(SCORES["two"], ledger=paid)
        assert words in str(score)
        assert re.search(rf"^{unit} +1000 ", str(score), re.MULTILINE)


def test_score_without_noise_is_marked_not_private():
    text = str(dataclasses.replace(SCORES["two"], ledger=ledger(math.inf)))
    assert "costs epsilon = inf on the test rows (NOT PRIVATE)" in text
    assert "NOT PRIVATE: epsilon is infinite, so no noise was added." in text


def test_classes_that_json_cannot_hold_are_refused():
    with pytest.raises(ValueError, match="Only classes"):
        of_classes((1, 2), "b").to_json()


def changed(name, change):
    data = json.loads(SCORES[name].to_json())
    change(data)
    return data


def put(path, value):
    """Return a change of a part of a score."""

    def change(data):
        *parents, last = path
        for key in parents:
            data = data[key]
        data[last] = value

    return change


WRONG = [
    ("two", put(["format"], "diprime score 0"), "format"),
    ("two", put(["more"], 1), "unknown fields"),
    ("two", lambda data: data.pop("ledger"), "ledger"),
    ("two", lambda data: data.pop("accuracy"), "lacks .*estimate"),
    ("two", lambda data: data.pop("roc_auc"), "lacks .*estimate"),
    ("two", lambda data: data.pop("curves"), "curves"),
    ("two", put(["curves"], []), "lacks .*estimate"),
    ("two", put(["mse"], [1.0, 0.0, 2.0]), "another task"),
    ("numbers", lambda data: data.pop("r2"), "lacks .*estimate"),
    ("numbers", put(["classes"], ["a", "b"]), "confusion_matrix"),
    ("numbers", put(["records"], [None, 0.0, 1.0]), "records .*numbers"),
    ("numbers", lambda data: data.pop("outside_domain"), "outside_domain"),
    ("numbers", put(["mse", 1], None), "mse .*numbers"),
    ("two", put(["model_digest"], "0F" * 32), "model_digest"),
    ("two", put(["model_digest"], "0f" * 31), "model_digest"),
    ("two", put(["model_digest"], None), "model_digest"),
    ("two", put(["confidence"], 1.5), "confidence"),
    ("two", put(["confidence"], "0.95"), "confidence"),
    ("two", put(["accuracy"], [0.5, 0.6, 0.7]), "accuracy .*interval"),
    ("two", put(["accuracy"], [0.5, 0.4]), "right length"),
    ("two", put(["accuracy"], [0.5, "0.4", 0.7]), "accuracy .*numbers"),
    ("two", put(["accuracy"], [1, 0, 1]), "accuracy .*numbers"),
    ("two", put(["records"], 3.0), "records"),
    ("two", put(["classes"], ["no", "no"]), "different"),
    ("two", put(["classes"], ["no", None]), "different"),
    ("two", put(["classes"], []), "different"),
    ("two", put(["classes"], ["a", "b", "c"]), "confusion_matrix"),
    ("two", put(["confusion_matrix", 0], [[0.5, 0.4, 0.6]]), "confusion_matrix"),
    ("two", put(["confusion_matrix", 0, 0], [0.5, -0.4, 0.6]), "between 0 and 1"),
    ("two", put(["curves", 0], [1, 2]), "right length"),
    ("two", put(["curves", 0, 1, 0, 0], 2.0), "from 0 to 1"),
    ("two", put(["curves", 0, 1, 0, 1], [0.5, 0.4, 1.6]), "between 0 and 1"),
    ("two", put(["curves", 0, 2, 0, 1], float("nan")), "from 0 to 1"),
    ("two", put(["ledger", "total"], "1/20"), "total and private .*charges"),
    ("two", put(["ledger", "private"], False), "total and private .*charges"),
    ("two", put(["ledger", "charges", 0, "epsilon"], "1/1000"), "total and private .*charges"),
]


@pytest.mark.parametrize(("name", "change", "message"), WRONG)
def test_invalid_scores_are_refused(name, change, message):
    with pytest.raises(ValueError, match=message):
        PrivateScore.from_dict(changed(name, change))


@pytest.mark.parametrize("text", ["", "[]", "3", "{", '{"format": 1, "format": 2}', "[" * 100_000])
def test_invalid_json_is_refused(text):
    with pytest.raises(ValueError, match=r"score .*(JSON|object)"):
        PrivateScore.from_json(text)


LEARNERS = {"forest": fit, "boosted": boost}
KINDS = [(task, kind) for task in TASKS for kind in LEARNERS]


@pytest.fixture(scope="module")
def models():
    return {(task, kind): LEARNERS[kind](task, *make(task, 3000), epsilon=5) for task, kind in KINDS}


@pytest.mark.parametrize("key", KINDS)
@pytest.mark.parametrize(("epsilon", "shown"), [(0.1, "0.1"), (1, "1"), (Fraction(1, 3), "0.333334")])
def test_score_costs_exactly_epsilon(models, key, epsilon, shown):
    score = private_score(models[key], *make(key[0], 2000, 1), epsilon)
    assert score.ledger.total == score.ledger.epsilon == diprime.privacy.measures.exact_epsilon(epsilon)
    assert score.ledger.is_private
    assert score.ledger.delta == 0
    assert all(charge.mechanism == Mechanism.DISCRETE_LAPLACE for charge in score.ledger.charges)
    assert f"costs epsilon = {shown} on the test rows" in str(score)
    assert PrivateScore.from_json(score.to_json()) == score


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
    noisy = [private_score(models[key], X, y, 1.0).estimates for _ in range(5)]
    for name, estimate in exact.items():
        found = [estimates[name] for estimates in noisy]
        assert len(set(found)) > 1, "two are alike once in 700 times, since noise consists of integers"
        assert abs(found[0].value - estimate.value) < 3 * (found[0].high - found[0].low)


@pytest.mark.parametrize("key", KINDS)
def test_seed_voids_the_score_and_repeats_it(models, key):
    data = make(key[0], 800, 1)
    found = []
    for _ in range(2):
        with pytest.warns(PrivacyWarning, match=r"score .*random_state is set"):
            found.append(private_score(models[key], *data, 1.0, random_state=3))
    assert found[0] == found[1]
    assert not found[0].ledger.is_private
    assert "NOT PRIVATE: random_state is set" in str(found[0])


def test_score_is_charged_to_the_study_before_it_is_released(models, monkeypatch):
    budget, table, seen = Budget(2), intervals.discrete_laplace, []

    def release_and_look(*arguments):
        seen.append(len(budget.entries))
        return table(*arguments)

    monkeypatch.setattr(intervals, "discrete_laplace", release_and_look)
    key = KINDS[0]
    with budget:
        score = private_score(models[key], *make(key[0], 200, 1), 0.5)
    assert [entry.loss.epsilon for entry in budget.entries] == [Fraction(1, 2)]
    assert set(seen) == {1}
    assert score.ledger.studies == [budget.study]


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


def test_score_holds_no_arrays_and_no_true_counts(models):
    """No array, and no number of rows: the released numbers of records are noisy."""
    X, y = make("classification", 1234, 1)
    scores = [private_score(models["classification", "forest"], X, y, 0.5) for _ in range(20)]
    assert len({score.records.value for score in scores}) > 10
    assert not any(isinstance(value, np.ndarray) for value in vars(scores[0]).values())


def test_tables_are_released_with_the_charged_epsilon_and_sensitivity(models, monkeypatch):
    """What the mechanism is called with is what the ledger says."""
    used = []
    original = intervals.discrete_laplace

    def spy(values, receipt, sensitivity, streams):
        used.append((receipt.charge.epsilon, sensitivity, receipt.charge.sensitivity.n))
        return original(values, receipt, sensitivity, streams)

    monkeypatch.setattr(intervals, "discrete_laplace", spy)
    for key in KINDS:
        used.clear()
        score = private_score(models[key], *make(key[0], 100, 1), 0.7)
        assert [epsilon for epsilon, *_ in used] == [charge.epsilon for charge in score.ledger.charges]
        assert all(sensitivity == charged for _, sensitivity, charged in used)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        *(
            ({"epsilon": value}, f"^epsilon .*positive number.*got {value!r}")
            for value in (0, -1, float("nan"), "1", None)
        ),
        *(
            ({"confidence": value}, rf"^confidence .*0\.5 to below 1, got {value!r}")
            for value in (0, 1, 95, 0.3, "0.9", True, float("nan"))
        ),
    ],
)
def test_invalid_arguments_raise_before_rows_are_read(models, argument, message):
    def unread():
        raise AssertionError("a row was read")
        yield

    with pytest.raises((ValueError, TypeError), match=message):
        private_score(models["regression", "forest"], sources.batches(unread()), **argument)


def test_unfitted_and_foreign_models_are_refused():
    X, y = make("classification", 50)
    with pytest.raises(NotFittedError):
        private_score(DiPriMeClassifier(domain=DOMAINS["classification"]), X, y)
    baseline = DPRandomForestClassifier(domain=DOMAINS["classification"]).fit(X, y)
    for other in (baseline, "model"):
        with pytest.raises(TypeError, match=f"scored, got {type(other).__name__}"):
            private_score(other, X, y)


def test_shapes_that_do_not_fit_are_refused(models):
    X, y = make("regression", 50)
    with pytest.raises(ValueError, match="inconsistent"):
        private_score(models["regression", "forest"], X, y[1:])
    with pytest.raises(ValueError, match="3 features"):
        private_score(models["regression", "forest"], X[:, 1:], y)


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize("key", KINDS)
def test_groups_score_one_row_per_person(models, key):
    model, (X, y) = models[key], make(key[0], 900, 1)
    alone = private_score(model, X, y, math.inf)
    assert private_score(model, X, y, math.inf, groups=np.arange(900)).estimates == alone.estimates
    # The rows of a person are all alike, so that it does not matter which of them is drawn.
    rows = np.repeat(np.arange(900), np.random.default_rng(1).integers(1, 9, 900))
    persons = private_score(model, X[rows], y[rows], math.inf, groups=[f"person {i}" for i in rows])
    assert persons.estimates == alone.estimates
    assert persons.ledger.max_records_per_group == 1
    assert "One person, up to 1 record, added or removed" in str(persons.ledger)
    nobody = private_score(model, X, y, math.inf, groups=[None] * 900)
    assert nobody.records.value == 0
    ids = np.array([f"person {i}" for i in rows])
    parts = np.array_split(np.random.default_rng(2).permutation(len(rows)), 7)
    split = private_score(model, sources.batches([(X[rows[p]], y[rows[p]], ids[p]) for p in parts]), epsilon=math.inf)
    assert split.estimates == alone.estimates, "a person is the same in all batches, and no two persons are one"
    batches = [(X[:450], y[:450], rows[:450]), (X[450:], y[450:])]
    with pytest.raises(ValueError, match=r"Some batches .*groups"):
        private_score(model, sources.batches(batches), epsilon=1.0)


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_scores_describe_people_or_up_to_k_rows_of_each(models):
    """A tenth of the people have ten rows each, and the model is wrong about all of these."""
    model, (X, y) = models["classification", "forest"], make("classification", 900, 1)
    right = model.predict(X)
    wrong = np.where(right == model.classes_[0], model.classes_[1], model.classes_[0])
    often = np.arange(900) < 90
    rows = np.repeat(np.arange(900), np.where(often, 10, 1))
    target = np.where(often, wrong, right)[rows]
    people = private_score(model, X[rows], target, math.inf, groups=rows)
    assert (people.records.value, people.accuracy.value) == (900, pytest.approx(0.9))
    for k, n_rows in [(4, 90 * 4 + 810), (10, 90 * 10 + 810), (100, 90 * 10 + 810)]:
        score = private_score(model, X[rows], target, math.inf, groups=rows, max_records_per_group=k)
        assert score.records.value == n_rows
        assert score.accuracy.value == pytest.approx(810 / n_rows)
        assert score.ledger.max_records_per_group == k
        assert f"up to {k} random ones of each person" in str(score)
    assert people.accuracy.high - people.accuracy.low < score.accuracy.high - score.accuracy.low
    noisy = private_score(model, X[rows], target, 1.0, groups=rows, max_records_per_group=10)
    assert [charge.sensitivity.n for charge in noisy.ledger.charges] == [10, 10, 20]
    with pytest.raises(ValueError, match="max_records_per_group=2 requires groups"):
        private_score(model, X, y, 1.0, max_records_per_group=2)


def test_score_of_no_batches_has_the_privacy_unit_of_the_model(models):
    model, (X, y) = models["regression", "forest"], make("regression", 300)
    of_persons = DiPriMeRegressor(1.0, model.domain_).fit(X, y, groups=np.arange(300) // 3)
    assert private_score(model, sources.batches([]), epsilon=1.0).ledger.privacy_unit == "record"
    assert private_score(of_persons, sources.batches([]), epsilon=1.0).ledger.privacy_unit == "person"
    with Budget(3) as budget:
        private_score(of_persons, sources.batches([(X[:0], y[:0], [])]), epsilon=1.0)
        private_score(of_persons, sources.batches([]), epsilon=1.0)
    assert len(budget.entries) == 2, "one budget counts persons or records, and not both"


def test_batches_with_none_as_groups_have_no_groups(models):
    model, (X, y) = models["regression", "forest"], make("regression", 300)
    assert private_score(model, sources.batches([(X, y, None)]), epsilon=1.0).ledger.privacy_unit == "record"
    with pytest.raises(ValueError, match=r"Some batches .*groups"):
        private_score(model, sources.batches([(X, y, np.arange(300)), (X, y, None)]), epsilon=1.0)
