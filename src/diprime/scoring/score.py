"""A private score: estimates with intervals, what they cost, and files of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from diprime.domain import Task
from diprime.domain.files import parse_json
from diprime.privacy.charges import check_fields
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import rounded_text
from diprime.scoring.classes import CalibrationPoint, ClassCurves, RocPoint
from diprime.scoring.intervals import Estimate
from diprime.scoring.records import TWO

FORMAT = "diprime score 1"
MAX_CLASSES_SHOWN = 12

_NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "log_loss": "log loss",
    "roc_auc": "ROC AUC",
    "mse": "mean squared error",
    "mae": "mean absolute error",
    "r2": "R²",
}


@dataclass(frozen=True)
class PrivateScore:
    """Scores of a model on private test rows, released with noise, each with a confidence interval.

    Printing a score shows a table. :meth:`to_json` and :meth:`from_json` are exact. Scores of a classifier are None for
    a regressor, and the reverse.

    Attributes
    ----------
    ledger : Ledger
        What the score cost, of the privacy of the people in the test rows.
    confidence : float
        The probability with which each interval covers the true score, that of the model on all people that the
        test rows are a sample of.
    records : Estimate
        The number of test rows with a valid target. Its interval is for its noise alone.
    classes : tuple or None
        The classes, in the order of ``classes_``.
    accuracy, balanced_accuracy : Estimate or None
        The share of right decisions, of all records and on average over the classes.
    confusion_matrix : tuple of tuples of Estimate, or None
        The share of all records that are of each class and predicted to be of each class: ``[true][predicted]``.
    log_loss : Estimate or None
        The mean of -log(p), p the predicted probability of a record's own class, clipped to [0.001, 0.999].
    roc_auc : Estimate or None
        The area under the ROC curve; for more than two classes the mean over the classes, each against all others.
    curves : tuple of ClassCurves
        ROC curve, its area and calibration: of the second class if there are two, of each class if there are more.
    mse, mae, r2 : Estimate or None
        Mean squared error, mean absolute error and R². Targets are clamped to the range of the domain, and rounded
        to 1/4096 of it, as in a fit.
    """

    ledger: Ledger
    confidence: float
    records: Estimate
    classes: tuple[Any, ...] | None = None
    accuracy: Estimate | None = None
    balanced_accuracy: Estimate | None = None
    confusion_matrix: tuple[tuple[Estimate, ...], ...] | None = None
    log_loss: Estimate | None = None
    roc_auc: Estimate | None = None
    curves: tuple[ClassCurves, ...] = ()
    mse: Estimate | None = None
    mae: Estimate | None = None
    r2: Estimate | None = None

    @property
    def task(self) -> Task:
        """What the model learnt."""
        return "regression" if self.classes is None else "classification"

    @property
    def curve_classes(self) -> tuple[Any, ...]:
        """The classes that `curves` are about."""
        classes = self.classes or ()
        return classes[1:] if len(classes) == TWO else classes[: len(self.curves)]

    @property
    def roc_curve(self) -> dict[Any, tuple[RocPoint, ...]]:
        """The points of the ROC curve of each class of `curves`."""
        return {k: curve.roc_curve for k, curve in zip(self.curve_classes, self.curves, strict=True)}

    @property
    def calibration(self) -> dict[Any, tuple[CalibrationPoint, ...]]:
        """The calibration of each class of `curves`."""
        return {k: curve.calibration for k, curve in zip(self.curve_classes, self.curves, strict=True)}

    @property
    def estimates(self) -> dict[str, Estimate]:
        """The scores that are single numbers, by their names in words."""
        found = {words: getattr(self, name) for name, words in _NAMES.items()}
        return {words: estimate for words, estimate in found.items() if estimate is not None}

    @property
    def cost_text(self) -> str:
        """What the score costs, in one sentence."""
        text = f"costs epsilon = {rounded_text(self.ledger.total)} on the test rows"
        return text if self.ledger.is_private else f"{text} (NOT PRIVATE)"

    def __str__(self) -> str:
        percent = f"{100 * self.confidence:g} %"
        rows = [["score", "estimate", f"{percent} interval"]]
        for name, e in [*self.estimates.items(), ("test rows", self.records)]:
            digits = ".0f" if name == "test rows" else ".4g"
            rows.append([name, f"{e.value:{digits}}", f"{e.low:{digits}} to {e.high:{digits}}"])
        lines = [f"Private score: {self.cost_text}", "", *_table(rows)]
        if self.confusion_matrix is not None and self.classes is not None:
            lines += ["", "Confusion matrix, shares of all test rows:", ""]
            lines += _table(self._confusion_rows(self.classes, self.confusion_matrix))
        return "\n".join([*lines, "", *self._notes()])

    def _confusion_rows(self, classes: Sequence[Any], matrix: Sequence[Sequence[Estimate]]) -> list[list[str]]:
        shown = classes[:MAX_CLASSES_SHOWN]
        rows = [["true \\ predicted", *map(str, shown)]]
        for label, row in zip(shown, matrix, strict=False):
            rows.append([str(label), *(f"{e.value:.1%} ({e.low:.1%} to {e.high:.1%})" for e in row[: len(shown)])])
        return rows

    def _notes(self) -> list[str]:
        notes = [
            "Intervals allow for the noise and for the sample. The test rows must not have been trained on. If they "
            "are of people",
            "whose records the model was trained on, the costs of both add up for these people.",
        ]
        return [*notes, *(f"NOT PRIVATE: {objection}" for objection in self.ledger.objections)]

    # -- files ---------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the score as plain data."""
        data: dict[str, Any] = {"format": FORMAT}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "ledger":
                data["ledger"] = value.to_dict()
            elif value is not None:
                data[field.name] = _plain(value)
        if self.classes is not None and any(type(label) not in _LABEL_TYPES for label in self.classes):
            raise ValueError("Only classes that are strings, numbers, true or false can be written to a file.")
        return data

    def to_json(self) -> str:
        """Return the score as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, data: Any) -> PrivateScore:
        """Return the score that :meth:`to_dict` described; raise `ValueError` if anything is wrong with it."""
        check_fields(data, _TYPES, "the score", _OPTIONAL)
        if data["format"] != FORMAT:
            raise ValueError(f"the format of the score is not {FORMAT!r}.")
        if not 0 < data["confidence"] < 1:
            raise ValueError("confidence of the score is not between 0 and 1.")
        content: dict[str, Any] = {"confidence": data["confidence"]}
        content["ledger"] = Ledger.from_dict(data["ledger"])
        for name in _ESTIMATES:
            if name in data:
                content[name] = _read_estimate(data[name], name)
        if "classes" in data:
            content |= _read_classes(data)
        score = cls(**content)
        _check_completeness(score)
        return score

    @classmethod
    def from_json(cls, text: str) -> PrivateScore:
        """Return the score that :meth:`to_json` wrote; raise `ValueError` if anything is wrong with it."""
        try:
            data = parse_json(text)
        except (ValueError, RecursionError):
            raise ValueError("the score is not JSON.") from None
        return cls.from_dict(data)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return lines


_LABEL_TYPES = (str, int, float, bool)
_OF_CLASSES = ("accuracy", "balanced_accuracy")
_OF_SEVERAL_CLASSES = ("log_loss", "roc_auc")
_OF_NUMBERS = ("mse", "mae", "r2")
_ESTIMATES = ("records", *_OF_CLASSES, *_OF_SEVERAL_CLASSES, *_OF_NUMBERS)
_TYPES: dict[str, type] = {
    "format": str,
    "ledger": dict,
    "confidence": float,
    "classes": list,
    "confusion_matrix": list,
    "curves": list,
    **dict.fromkeys(_ESTIMATES, list),
}
_OPTIONAL = {"classes", "confusion_matrix", *_ESTIMATES} - {"records"}
_SIZE_OF_ESTIMATE = 3


def _plain(value: Any) -> Any:
    """Return estimates and points as lists; an infinite end of an interval as null."""
    if isinstance(value, (Estimate, RocPoint, CalibrationPoint, ClassCurves)):
        return [_plain(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _read_list(data: Any, where: str, length: int | None = None) -> list[Any]:
    if type(data) is not list or (length is not None and len(data) != length):
        raise ValueError(f"{where} of the score is not a list of the right length.")
    return data


def _read_share(data: Any, where: str) -> float:
    if type(data) is not float or not 0 <= data <= 1:
        raise ValueError(f"{where} of the score is not a number from 0 to 1.")
    return data


def _read_estimate(data: Any, where: str) -> Estimate:
    value, low, high = _read_list(data, where, _SIZE_OF_ESTIMATE)
    low = -math.inf if low is None and where == "r2" else low
    if any(type(number) is not float or math.isnan(number) for number in (value, low, high)):
        raise ValueError(f"{where} of the score is not made of numbers.")
    if not low <= value <= high < math.inf:
        raise ValueError(f"{where} of the score is not in its interval.")
    return Estimate(value, low, high)


def _read_share_estimate(data: Any, where: str) -> Estimate:
    estimate = _read_estimate(data, where)
    if estimate.low < 0 or estimate.high > 1:
        raise ValueError(f"{where} of the score is not between 0 and 1.")
    return estimate


def _read_classes(data: dict[str, Any]) -> dict[str, Any]:
    """Return what only classifiers have."""
    classes = data["classes"]
    if not classes or any(type(label) not in _LABEL_TYPES for label in classes) or len(set(classes)) < len(classes):
        raise ValueError("classes of the score are not different strings, numbers, true or false.")
    matrix = _read_list(data.get("confusion_matrix"), "confusion_matrix", len(classes))
    rows = (_read_list(row, "confusion_matrix", len(classes)) for row in matrix)
    return {
        "classes": tuple(classes),
        "confusion_matrix": tuple(_read_all(row, "confusion_matrix", _read_share_estimate) for row in rows),
        "curves": _read_all(data["curves"], "curves", _read_curves),
    }


def _read_all(data: Any, where: str, read: Callable[[Any, str], Any]) -> tuple[Any, ...]:
    return tuple(read(item, where) for item in _read_list(data, where))


def _read_curves(data: Any, where: str) -> ClassCurves:
    area, roc, calibration = _read_list(data, where, 3)
    return ClassCurves(
        _read_share_estimate(area, where),
        _read_all(roc, where, _read_roc_point),
        _read_all(calibration, where, _read_calibration_point),
    )


def _read_roc_point(data: Any, where: str) -> RocPoint:
    threshold, false, true = _read_list(data, where, 3)
    rates = (_read_share_estimate(rate, where) for rate in (false, true))
    return RocPoint(_read_share(threshold, where), *rates)


def _read_calibration_point(data: Any, where: str) -> CalibrationPoint:
    low, high, observed = _read_list(data, where, 3)
    return CalibrationPoint(_read_share(low, where), _read_share(high, where), _read_share_estimate(observed, where))


def _check_completeness(score: PrivateScore) -> None:
    """Refuse a score that lacks an estimate of its task, or has one of another."""
    n_classes = len(score.classes or ())
    expected = set(_OF_CLASSES if n_classes else _OF_NUMBERS)
    expected |= set(_OF_SEVERAL_CLASSES if n_classes > 1 else ())
    found = {name for name in _ESTIMATES if getattr(score, name) is not None} - {"records"}
    n_curves = {0: 0, 1: 0, TWO: 1}.get(n_classes, n_classes)
    if found != expected or len(score.curves) != n_curves:
        raise ValueError("the score lacks an estimate, or has one of another task.")
