"""Scores of released models on private test rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from itertools import chain, islice
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from diprime.domain.batches import CheckedBatches
from diprime.domain.features import Numeric, bounds
from diprime.domain.persons import has_groups
from diprime.estimators.parameters import EPSILON, RANDOM_STATE
from diprime.estimators.trees import PrivateTrees
from diprime.privacy import spending
from diprime.privacy.ledger import Ledger, PrivacyWarning
from diprime.privacy.measures import PureEpsilon
from diprime.privacy.randomness import RandomSource
from diprime.scoring.classes import plan_of_classes, score_classes
from diprime.scoring.numbers import NumberFacts, plan_of_numbers, score_numbers
from diprime.scoring.records import Records, read_records, reference_scores, score_ranges
from diprime.scoring.release import Tables
from diprime.scoring.score import PrivateScore

MIN_CONFIDENCE = 0.5


def private_score(
    model: Any,
    X: Any,
    y: Any,
    epsilon: float = 0.1,
    *,
    groups: Any = None,
    confidence: float = 0.95,
    random_state: Any = None,
) -> PrivateScore:
    """Score a fitted model on private test rows, at the price of epsilon.

    All scores are computed from a few tables of counts, which are released with discrete Laplace noise: pure
    epsilon-differential privacy for adding or removing one test row, the number of rows included among what is
    protected. Each score has a confidence interval that knows of the noise and of the sample. Where there are too few
    rows for so small an epsilon, the intervals say so: they are wide.

    The rows must not have been trained on, or the scores are too good; that is for the caller to know. If the test rows
    are of the people whose rows the model was trained on, the epsilons of both add up for them.

    Parameters
    ----------
    model : fitted estimator
        A forest or a boosted model.
    X : array or data frame of shape (n, n_features)
        The test rows.
    y : array or column of shape (n,)
        Their targets. Rows whose target is missing, or not a class of the domain, are left out without a warning,
        which would reveal them.
    epsilon : float, default=0.1
        The privacy budget of the score. Infinity gives scores without noise, which are not private.
    groups : array or column of shape (n,), optional
        The person of each row, where persons have several: one row of each, drawn at random, is used, so that all rows
        of a person are protected together. Rows without one are left out.
    confidence : float, default=0.95
        The probability with which each interval covers the true score.
    random_state : None, int or RandomState, default=None
        A seed gives the same noise again; whoever knows it can subtract the noise, so the score is not private.

    Returns
    -------
    score : PrivateScore
        The scores, their intervals, and the ledger of what they cost.

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
    batch = (X, y) if groups is None else (X, y, groups)
    return _private_score(model, [batch], epsilon, confidence, random_state)


def private_score_batches(
    model: Any,
    batches: Iterable[tuple[Any, ...]],
    epsilon: float = 0.1,
    *,
    confidence: float = 0.95,
    random_state: Any = None,
) -> PrivateScore:
    """Score a fitted model on test rows that need not fit in memory, such as a file that is read in chunks.

    The score equals the one that `private_score` gives for all batches together. Of each row only its target and what
    the model says of it are kept.

    Parameters
    ----------
    model : fitted estimator
        A forest or a boosted model.
    batches : iterable of pairs (X, y), or of triples (X, y, groups)
        Test rows, targets and persons, as for `private_score`. The iterable is read once. Without any batch, the score
        protects persons if the model does.
    epsilon, confidence, random_state
        As for `private_score`.

    Returns
    -------
    score : PrivateScore
        The scores, their intervals, and the ledger of what they cost.
    """
    return _private_score(model, batches, epsilon, confidence, random_state)


def _private_score(
    model: Any, batches: Iterable[tuple[Any, ...]], epsilon: Any, confidence: Any, random_state: Any
) -> PrivateScore:
    """Plan, pay and release. Every release of a score passes through here."""
    if not isinstance(model, PrivateTrees):
        raise TypeError(f"Only DiPriMe estimators can be scored, got {type(model).__name__}.")
    check_is_fitted(model)
    confidence = _check_confidence(confidence)
    ledger = Ledger(EPSILON.check(epsilon))
    n_classes = model.domain_.layout.n_outputs
    is_classifier = model.domain_.task == "classification"
    plan = plan_of_classes(n_classes, ledger.epsilon) if is_classifier else plan_of_numbers(ledger.epsilon)
    if random_state is not None:
        ledger.waive("random_state was set, so whoever knows it can take the noise off the score.")
        warnings.warn(f"This score is not private: {ledger.waivers[0]}", PrivacyWarning, stacklevel=3)
    source: RandomSource = RANDOM_STATE.check(random_state)
    words = f"a score of {type(model).__name__}"
    loss = PureEpsilon(ledger.epsilon).loss(1)
    budgets = spending.in_force(model._budgets)
    spending.refuse_waived(ledger.waivers, words, budgets)
    spending.check(loss, words, budgets, unit=None)  # whether there are persons, the first batch will tell
    tables = Tables(plan, ledger, source)
    batches, of_persons = _with_persons(batches, model)
    ledger.unit_records = 1 if of_persons else None
    records = read_records(model, batches, source if of_persons else None)
    ledger.studies = spending.charge(loss, words, budgets, unit=ledger.unit, waivers=ledger.waivers)
    content = _score(model, records, tables, confidence)
    if ledger.total != ledger.epsilon:
        raise AssertionError(f"The ledger's total, {ledger.total}, is not epsilon, {ledger.epsilon}.")
    return PrivateScore(ledger, confidence, **content)


def _with_persons(batches: Iterable[tuple[Any, ...]], model: PrivateTrees) -> tuple[Iterable[tuple[Any, ...]], bool]:
    """Return the batches, and whether the first has persons; without any batch, whether the model protects them."""
    iterator = iter(CheckedBatches(batches))
    first = list(islice(iterator, 1))
    return chain(first, iterator), has_groups(first[0]) if first else model.privacy_.unit == "person"


def _score(model: PrivateTrees, records: Records, tables: Tables, confidence: float) -> dict[str, Any]:
    """Release the tables of a score, and return the scores by name."""
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
