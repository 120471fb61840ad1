"""Scores of released models on private test rows: `private_score`, its result and score files."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from diprime._util.resources import Threads, resolve_n_jobs
from diprime.domain import Task
from diprime.domain.features import Numeric, bounds
from diprime.domain.files import parse_json
from diprime.domain.records import MIXED_GROUPS
from diprime.estimators.parameters import check_max_records
from diprime.estimators.trees import PrivateTrees
from diprime.execution.groups import bound_contributions
from diprime.forest.plan import check_sum
from diprime.privacy.charges import VoidReason, check_fields
from diprime.privacy.ledger import Ledger, aligned
from diprime.privacy.measures import PureEpsilon, exact_epsilon, rounded_text
from diprime.privacy.randomness import RandomSource
from diprime.privacy.session import Request, Session, active_budgets, charges_stated
from diprime.scoring.classes import CalibrationPoint, ClassCurves, RocPoint, plan_of_classes, score_classes
from diprime.scoring.intervals import Estimate, TableReleases
from diprime.scoring.numbers import NumberFacts, plan_of_numbers, score_numbers
from diprime.scoring.rows import TWO, Counted, ScoredPartitions, reference_scores, score_ranges
from diprime.sources import as_source
from diprime.sources.protocol import Roles, RunOptions, Source

MIN_CONFIDENCE = 0.5


def private_score(
    model: Any,
    X: Any,
    y: Any = None,
    epsilon: float = 0.1,
    *,
    groups: Any = None,
    max_records_per_group: int = 1,
    confidence: float = 0.95,
    random_state: Any = None,
) -> PrivateScore:
    """Score a fitted model on private test rows, under epsilon-differential privacy.

    All scores are computed from a few tables of counts, which are released with discrete Laplace noise. The guarantee
    is pure epsilon for adding or removing one test row, so it protects even the number of rows. Each score has a
    confidence interval that accounts for the noise and the sample; with few rows or a small epsilon, it is wide.

    The model must not have been trained on these rows, because the scores would be too good. diprime cannot check this.
    If the model was trained on other rows of the same people, both epsilons add up for them.

    Parameters
    ----------
    model : fitted estimator
        A forest or a boosted model.
    X : table, array or source
        The test rows, as for the ``fit`` of an estimator.
    y : array, column or str
        Their targets, or the name of their column in X. Rows with a class outside the domain count as errors, and
        numbers outside the range are clipped; the share of such rows is released. Rows without a target are dropped
        silently, because a warning would reveal them.
    epsilon : float, default=0.1
        Privacy budget of the score. ``float("inf")`` gives scores without noise, which are not private.
    groups : array, column or str, optional
        The person of each row, or the name of that column, if people have several rows. All rows of a person are then
        protected together. By default, the score describes people, and uses one random row of each. Rows without an
        identifier are dropped.
    max_records_per_group : int, default=1
        Maximum number of rows used per person. If it is above 1, the score describes rows instead of people: up to
        this number of random rows of each person are used, and each row counts as one. The noise is multiplied by this
        number, and the intervals account for the similarity of the rows of a person.
    confidence : float, default=0.95
        Confidence level of the intervals.
    random_state : int, RandomState instance or None, default=None
        Seed for reproducible scores. A seed voids the guarantee, because anyone who knows it can remove the noise.

    Returns
    -------
    score : PrivateScore
        The scores, their intervals and their ledger.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import Categorical, DiPriMeClassifier, Domain, Numeric, private_score
    >>> X = np.random.default_rng(0).uniform(0, 10, size=(20_000, 1))
    >>> y = np.where(X[:, 0] > 6, "yes", "no")
    >>> domain = Domain({"age": Numeric(0, 10)}, target=Categorical(["no", "yes"]))
    >>> model = DiPriMeClassifier(1.0, domain).fit(X[:10_000], y[:10_000])
    >>> score = private_score(model, X[10_000:], y[10_000:], epsilon=0.5)
    >>> score.accuracy.low > 0.9, score.ledger.total
    (True, Fraction(1, 2))
    """
    attached = model._budgets if isinstance(model, PrivateTrees) else ()
    with charges_stated(is_budgeted=bool(active_budgets(attached))):
        return _private_score(model, *as_source(X, y, groups), epsilon, max_records_per_group, confidence, random_state)


def _private_score(
    model: Any,
    data: Source,
    roles: Roles,
    epsilon: Any,
    max_records: Any,
    confidence: Any,
    random_state: Any,
) -> PrivateScore:
    """Check and plan before any row is read, then charge and release."""
    if not isinstance(model, PrivateTrees):
        raise TypeError(f"Only DiPriMe estimators can be scored, got {type(model).__name__}.")
    check_is_fitted(model)
    confidence = _check_confidence(confidence)
    epsilon = exact_epsilon(epsilon)
    n_classes = model.domain_.layout.n_outputs
    is_classifier = model.domain_.task == "classification"
    k = check_max_records(max_records)
    plan = plan_of_classes(n_classes, epsilon, k) if is_classifier else plan_of_numbers(epsilon, k)
    check_sum(sum((charge.total for charge in plan), Fraction(0)), epsilon, "the score")
    source = RandomSource(random_state)
    request = Request(
        "score",
        f"a score of {type(model).__name__}",
        epsilon,
        Fraction(0),
        PureEpsilon(epsilon).loss(1),
        max_records=k,
        voided_by=() if random_state is None else (VoidReason.SEED_OF_SCORE,),
    )
    with Session.begin(model._budgets) as session:
        session.check(request)
        has_groups = data.has_groups(roles, may_read=True)
        expected = model.privacy_.privacy_unit == "person" if has_groups is None else has_groups
        session.protect(people=expected)
        if k > 1 and not expected:
            raise ValueError(f"max_records_per_group={k} requires groups. Pass the person of each row.")
        options = RunOptions(resolve_n_jobs(model.n_jobs), has_groups=expected, mark_outside=True)
        with data.encode(model.domain_, roles, options) as partitions, Threads(options.n_threads) as threads:
            if partitions.of_persons != expected:
                raise ValueError(MIXED_GROUPS)
            model._name_columns(data.columns(roles), model.domain_, reset=False)
            chosen = bound_contributions(partitions, k, source, threads) if expected else partitions
            records = ScoredPartitions(model, chosen, threads)
            with session.spend(request) as account:
                content = _score(model, records, TableReleases(plan, account, source, k), confidence)
    return PrivateScore(account.ledger, confidence, model.forest_.digest, **content)


def _score(model: PrivateTrees, records: Counted, tables: TableReleases, confidence: float) -> dict[str, Any]:
    """Release the tables of a score and return the scores by name."""
    reference = reference_scores(model)
    if model.domain_.task == "classification":
        n_classes = model.domain_.layout.n_outputs
        scores = vars(score_classes(records, n_classes, reference, tables, confidence))
        return {"classes": tuple(np.asarray(model.classes_).tolist()), **scores}
    (predicted,) = reference[1]
    centre = float(np.average(predicted.scores, weights=predicted.weights))
    assert isinstance(model.domain_.target, Numeric)
    facts = NumberFacts(*bounds(model.domain_.target), score_ranges(model)[0], centre)
    return vars(score_numbers(records, facts, tables, confidence))


def _check_confidence(confidence: Any) -> float:
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or not MIN_CONFIDENCE <= confidence < 1:
        raise ValueError(f"confidence must be a number from {MIN_CONFIDENCE} to below 1, got {confidence!r}.")
    return float(confidence)


FORMAT = "diprime score 1"
MAX_CLASSES_SHOWN = 12

_NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "log_loss": "log loss",
    "roc_auc": "ROC AUC",
    "mse": "MSE of clipped targets",
    "mae": "MAE of clipped targets",
    "r2": "R² of clipped targets",
}
LARGE_SHARE = 0.01
"""A score warns if the whole interval of the share of test rows outside the domain is above this."""


@dataclass(frozen=True)
class PrivateScore:
    """Scores of a model on private test rows, released with noise, each with a confidence interval.

    Printing a score shows a table. :meth:`to_json` and :meth:`from_json` are exact. For a regressor, the scores of
    classifiers are None, and vice versa.

    Attributes
    ----------
    ledger : Ledger
        Privacy ledger: the cost of the score for the people in the test rows.
    confidence : float
        Confidence level: the probability with which each interval contains the true score. This is the score on the
        population of which the test rows are a sample.
    model_digest : str
        SHA-256 of the trees of the scored model, in hexadecimal. A report refuses the score of another model.
    records : Estimate
        The number of test rows with a target that are used. Its interval accounts for the noise only.
    outside_domain : Estimate
        The share of these rows with a target outside the domain: an unlisted class, or a number outside the range.
    classes : tuple or None
        The classes, in the order of ``classes_``.
    accuracy, balanced_accuracy : Estimate or None
        The share of right decisions among all records, and its mean over the classes of the domain. Records of classes
        outside the domain count as errors in the accuracy. If the domain has a single class, the balanced accuracy is
        0.5 if the table certainly contains other classes, and unknown otherwise.
    confusion_matrix : tuple of tuples of Estimate, or None
        Share of all records for each pair of classes, ``[true][predicted]``.
    log_loss : Estimate or None
        The mean of -log(p), where p is the predicted probability of the true class, clipped to [0.001, 0.999]. For
        classes outside the domain, p is 0.001.
    roc_auc : Estimate or None
        The area under the ROC curve. For more than two classes, it is the mean over the classes, each against all
        others. Records of classes outside the domain are dropped here and in the curves.
    curves : tuple of ClassCurves
        ROC curve, its area, and calibration: for the second of two classes, or for each of more classes.
    mse, mae, r2 : Estimate or None
        Mean squared error, mean absolute error and R² of targets that are clipped to the range of the domain. Targets
        are rounded to 1/4096 of the range, as in a fit.

    The value of an estimate is None if it is unknown. This is the case if all values are possible, or if the estimate
    is a mean over classes and nothing is known about one of them.
    """

    ledger: Ledger
    confidence: float
    model_digest: str
    records: Estimate
    outside_domain: Estimate
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
        """Task of the model: "classification" or "regression"."""
        return "regression" if self.classes is None else "classification"

    @property
    def curve_classes(self) -> tuple[Any, ...]:
        """The class of each entry of `curves`."""
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
        """The scores that are single numbers, by their names for people."""
        found = {words: getattr(self, name) for name, words in _NAMES.items()}
        outside = "targets outside the range" if self.classes is None else "class not in the domain"
        return {words: e for words, e in found.items() if e is not None} | {outside: self.outside_domain}

    @property
    def subjects(self) -> str:
        """The unit that the score counts: test rows or people."""
        return "people" if self.ledger.max_records_per_group == 1 else "test rows"

    @property
    def estimand(self) -> str:
        """Sentence that states whether the score describes test rows or people."""
        k = self.ledger.max_records_per_group
        if k is None:
            return "The score describes test rows."
        if k == 1:
            return "The score describes people, not rows: one random test row of each person counts."
        return f"The score describes test rows, up to {k} random ones of each person."

    @property
    def warnings(self) -> list[str]:
        """Warnings about targets outside the domain, if there are certainly many of them."""
        if self.outside_domain.low <= LARGE_SHARE:
            return []
        share = f"At least {self.outside_domain.low:.1%} of the {self.subjects} have targets outside"
        if self.classes is None:
            return [f"{share} the range. Errors of clipped targets do not describe them; check the range."]
        return [
            f"{share} the classes of the domain. Accuracy, log loss and the shares count them as errors; other scores "
            "omit them."
        ]

    @property
    def cost_text(self) -> str:
        """Sentence that states the privacy cost of the score."""
        text = f"costs epsilon = {rounded_text(self.ledger.total)} on the test rows"
        return text if self.ledger.is_private else f"{text} (NOT PRIVATE)"

    def __str__(self) -> str:
        percent = f"{100 * self.confidence:g} %"
        rows = [["score", "estimate", f"{percent} interval"]]
        rows += [[name, e.text(".4g"), f"{e.low:.4g} to {e.high:.4g}"] for name, e in self.estimates.items()]
        n = self.records
        rows.append([self.subjects, n.text(".0f"), f"{n.low:.0f} to {n.high:.0f}"])
        lines = [f"Private score: {self.cost_text}", "", *aligned(rows)]
        if self.confusion_matrix is not None and self.classes is not None:
            lines += ["", f"Confusion matrix, shares of all {self.subjects}:", ""]
            lines += aligned(self._confusion_rows(self.classes, self.confusion_matrix))
        return "\n".join([*lines, "", *self._notes()])

    def _confusion_rows(self, classes: Sequence[Any], matrix: Sequence[Sequence[Estimate]]) -> list[list[str]]:
        shown = classes[:MAX_CLASSES_SHOWN]
        rows = [["true \\ predicted", *map(str, shown)]]
        for label, row in zip(shown, matrix, strict=False):
            rows.append([str(label), *(f"{e.text('.1%')} ({e.low:.1%} to {e.high:.1%})" for e in row[: len(shown)])])
        return rows

    def _notes(self) -> list[str]:
        notes = [
            *(f"WARNING: {warning}" for warning in self.warnings),
            self.estimand,
            "Each interval accounts for the noise and the sample, and holds individually.",
            "The model must not have been trained on the test rows. If it was trained on other rows of the same",
            "people, the costs of the model and of the score add up for them.",
        ]
        return [*notes, *(f"NOT PRIVATE: {reason}" for reason in self.ledger.reasons_not_private)]

    # -- files ---------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the score as a dict of plain values, which JSON can represent."""
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
        """Read a score from the output of :meth:`to_dict`; raise `ValueError` if it is not valid."""
        check_fields(data, _TYPES, "the score", _OPTIONAL)
        if data["format"] != FORMAT:
            raise ValueError(
                f"the format of the score is not {FORMAT!r}. Read it with the version of diprime that wrote it."
            )
        if not 0 < data["confidence"] < 1:
            raise ValueError("confidence of the score is not between 0 and 1.")
        if _DIGEST.fullmatch(data["model_digest"]) is None:
            raise ValueError("model_digest of the score is not a SHA-256 in hexadecimal.")
        content: dict[str, Any] = {name: data[name] for name in ("confidence", "model_digest")}
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
        """Read a score from the output of :meth:`to_json`; raise `ValueError` if it is not valid."""
        try:
            data = parse_json(text)
        except (ValueError, RecursionError):
            raise ValueError("the score is not JSON.") from None
        return cls.from_dict(data)


_DIGEST = re.compile("[0-9a-f]{64}")
_LABEL_TYPES = (str, int, float, bool)
_OF_CLASSES = ("accuracy", "balanced_accuracy")
_OF_SEVERAL_CLASSES = ("log_loss", "roc_auc")
_OF_NUMBERS = ("mse", "mae", "r2")
_ESTIMATES = ("records", "outside_domain", *_OF_CLASSES, *_OF_SEVERAL_CLASSES, *_OF_NUMBERS)
_TYPES: dict[str, type] = {
    "format": str,
    "ledger": dict,
    "confidence": float,
    "model_digest": str,
    "classes": list,
    "confusion_matrix": list,
    "curves": list,
    **dict.fromkeys(_ESTIMATES, list),
}
_OPTIONAL = {"classes", "confusion_matrix", *_ESTIMATES} - {"records", "outside_domain"}
_SIZE_OF_ESTIMATE = 3


def _plain(value: Any) -> Any:
    """Return plain JSON data, with estimates and points as lists and infinite ends of intervals as null."""
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
    inside = low if value is None and where != "records" else value
    if any(type(number) is not float or math.isnan(number) for number in (inside, low, high)):
        raise ValueError(f"{where} of the score is not made of numbers.")
    if not low <= inside <= high < math.inf:
        raise ValueError(f"{where} of the score is not in its interval.")
    return Estimate(value, low, high)


def _read_share_estimate(data: Any, where: str) -> Estimate:
    estimate = _read_estimate(data, where)
    if estimate.low < 0 or estimate.high > 1:
        raise ValueError(f"{where} of the score is not between 0 and 1.")
    return estimate


def _read_classes(data: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that only classifiers have."""
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
    """Raise a `ValueError` if a score lacks an estimate of its task, or has one of another task."""
    n_classes = len(score.classes or ())
    expected = set(_OF_CLASSES if n_classes else _OF_NUMBERS)
    expected |= set(_OF_SEVERAL_CLASSES if n_classes > 1 else ())
    found = {name for name in _ESTIMATES if getattr(score, name) is not None} - {"records", "outside_domain"}
    n_curves = {0: 0, 1: 0, TWO: 1}.get(n_classes, n_classes)
    if found != expected or len(score.curves) != n_curves:
        raise ValueError("the score lacks an estimate, or has one of another task.")
