"""A score as text and as JSON, and what from_json refuses."""

import copy
import dataclasses
import json
import math
from fractions import Fraction

import pytest

from diprime import Ledger, PrivateScore
from diprime.scoring.classes import CalibrationPoint, ClassCurves, RocPoint
from diprime.scoring.intervals import Estimate
from diprime.scoring.numbers import plan_of_numbers

HALF = Estimate(0.5, 0.25, 0.75)


def ledger(epsilon=Fraction(1, 10)):
    paid = Ledger(epsilon)
    for charge in plan_of_numbers(epsilon):
        paid.pay(charge)
    return paid


def curves(*labels):
    point = RocPoint(0.5, HALF, Estimate(0.875, 0.5, 1.0))
    return tuple(ClassCurves(HALF, (point,), (CalibrationPoint(0.0, 0.5, HALF),)) for _ in labels)


def of_classes(*labels):
    several = len(labels) > 1
    return PrivateScore(
        ledger(),
        0.95,
        Estimate(1000.0, 900.0, 1100.0),
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
    return PrivateScore(ledger(), 0.9, Estimate(1000.0, 900.0, 1100.0), **errors)


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


def test_curves_are_of_the_second_class_or_of_all():
    assert list(SCORES["two"].roc_curve) == ["yes"]
    assert list(SCORES["three"].calibration) == [1, 2, 3]
    assert SCORES["two"].roc_curve["yes"][0].threshold == 0.5
    assert SCORES["numbers"].roc_curve == {}


def test_the_text_has_every_score_its_interval_and_its_cost():
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
    assert "mean squared error   2         1 to 3" in text
    assert "-inf to 1" in text


def test_a_score_without_noise_says_that_it_is_not_private():
    text = str(dataclasses.replace(SCORES["two"], ledger=ledger(math.inf)))
    assert "costs epsilon = inf on the test rows (NOT PRIVATE)" in text
    assert "NOT PRIVATE: epsilon is infinite." in text


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
    ("two", lambda data: data.pop("accuracy"), "lacks an estimate"),
    ("two", lambda data: data.pop("roc_auc"), "lacks an estimate"),
    ("two", lambda data: data.pop("curves"), "curves"),
    ("two", put(["curves"], []), "lacks an estimate"),
    ("two", put(["mse"], [1.0, 0.0, 2.0]), "another task"),
    ("numbers", lambda data: data.pop("r2"), "lacks an estimate"),
    ("numbers", put(["classes"], ["a", "b"]), "confusion_matrix"),
    ("numbers", put(["mse"], [None, 0.0, 1.0]), "not made of numbers"),
    ("numbers", put(["mse", 1], None), "not made of numbers"),
    ("two", put(["confidence"], 1.5), "confidence"),
    ("two", put(["confidence"], "0.95"), "confidence"),
    ("two", put(["accuracy"], [0.5, 0.6, 0.7]), "not in its interval"),
    ("two", put(["accuracy"], [0.5, 0.4]), "right length"),
    ("two", put(["accuracy"], [0.5, "0.4", 0.7]), "not made of numbers"),
    ("two", put(["accuracy"], [1, 0, 1]), "not made of numbers"),
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
    ("two", put(["ledger", "total"], "1/20"), "do not follow"),
    ("two", put(["ledger", "private"], False), "do not follow"),
]


@pytest.mark.parametrize(("name", "change", "message"), WRONG)
def test_what_is_not_a_score_is_refused(name, change, message):
    with pytest.raises(ValueError, match=message):
        PrivateScore.from_dict(changed(name, change))


@pytest.mark.parametrize("text", ["", "[]", "3", "{", '{"format": 1, "format": 2}', "[" * 100_000])
def test_what_is_not_json_is_refused(text):
    with pytest.raises(ValueError, match="the score is not"):
        PrivateScore.from_json(text)


def test_unchanged_data_are_accepted():
    """The changes above are what is refused."""
    for name in SCORES:
        assert PrivateScore.from_dict(changed(name, lambda data: None)) == SCORES[name]
        assert copy.deepcopy(SCORES[name]) == SCORES[name]


def test_a_forged_charge_is_found():
    data = changed("two", lambda data: None)
    data["ledger"]["charges"][0]["epsilon"] = "1/1000"
    with pytest.raises(ValueError, match="do not follow"):
        PrivateScore.from_dict(data)
    assert ledger().total == Fraction(1, 10)
