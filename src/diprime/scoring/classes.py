"""The scores of classifiers, from noisy tables of counts.

Two classes: each record is in one cell of a confusion matrix, and in one cell of a table by class and bin of its score.
More classes: the second table holds, for each record, the bin of the score of its own class, and a third one the bins
of the scores of all other classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from sklearn.isotonic import isotonic_regression

from diprime.privacy.charges import Charge
from diprime.privacy.measures import Epsilon
from diprime.scoring.bins import Bins, Reference, make_bins, number_of_bins
from diprime.scoring.cells import Cells, Floats, Noise
from diprime.scoring.intervals import (
    UNIT,
    Estimate,
    Sum,
    between,
    mean_of_independent,
    normal_quantile,
    ratio,
    sampling_moments,
    total,
)
from diprime.scoring.records import TWO, Records
from diprime.scoring.release import Tables, table_charge

CLIP = 0.001
"""Log loss takes probabilities below it as equal to it: without a bound, one record could cost anything."""
MAX_ROC_POINTS = 40
MAX_CALIBRATION_POINTS = 10
CONFUSION_SHARE = Fraction(1, 3)

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RocPoint:
    """A point of a ROC curve.

    Attributes
    ----------
    threshold : float
        Records with at least this probability of the class count as positive.
    false_positive_rate, true_positive_rate : Estimate
        The shares of the records of other classes, and of the class, that do.
    """

    threshold: float
    false_positive_rate: Estimate
    true_positive_rate: Estimate


@dataclass(frozen=True)
class CalibrationPoint:
    """How often a class occurs among records whose predicted probabilities lie in a range.

    Attributes
    ----------
    low, high : float
        The range of predicted probabilities.
    observed : Estimate
        The share of records of the class. It lies in the range if the model is calibrated.
    """

    low: float
    high: float
    observed: Estimate


@dataclass(frozen=True)
class ClassCurves:
    """How well the scores of one class tell it from all others.

    Attributes
    ----------
    roc_auc : Estimate
        The area under the ROC curve.
    roc_curve : tuple of RocPoint
        The curve at released thresholds, without its ends.
    calibration : tuple of CalibrationPoint
        Predicted and observed shares.
    """

    roc_auc: Estimate
    roc_curve: tuple[RocPoint, ...]
    calibration: tuple[CalibrationPoint, ...]


@dataclass(frozen=True)
class ClassScores:
    """All scores of a classifier; :class:`~diprime.scoring.score.PrivateScore` says what they are."""

    records: Estimate
    confusion_matrix: tuple[tuple[Estimate, ...], ...]
    accuracy: Estimate
    balanced_accuracy: Estimate
    log_loss: Estimate | None
    roc_auc: Estimate | None
    curves: tuple[ClassCurves, ...]


@dataclass(frozen=True)
class _Tables:
    """What was released, as cells.

    ``confusion`` has ``places``, the index of (true class, decision) of each of its cells. ``true_scores`` has a cell
    for each class and bin of the score of that class; for two classes, bins of the score of the second. ``curves``
    has, for each class that has a curve, the cells of the records of other classes and then of the class itself.
    """

    confusion: Cells
    places: npt.NDArray[np.intp]
    true_scores: Cells | None
    losses: tuple[Floats, Floats, Floats] | None
    curves: list[tuple[Bins, Cells]]


def plan_of_classes(n_classes: int, epsilon: Epsilon) -> list[Charge]:
    """Return the charges of the tables of a classifier's score."""
    one = "each record is in one cell of each table, and the tables add up"
    if n_classes == 1:
        return [table_charge("confusion matrix", epsilon, Fraction(1), 1, one)]
    if n_classes == TWO:
        return [
            table_charge("confusion matrix", epsilon, CONFUSION_SHARE, 1, one),
            table_charge("scores by class", epsilon, 1 - CONFUSION_SHARE, 1, one),
        ]
    third = Fraction(1, 3)
    others = "each record is in one cell of each of the first two tables and in one for each other class of the third"
    return [
        table_charge("confusion matrix", epsilon, third, 1, others),
        table_charge("scores of true classes", epsilon, third, 1, others),
        table_charge("scores of other classes", epsilon, third, n_classes - 1, others),
    ]


def score_classes(
    records: Records,
    n_classes: int,
    reference: tuple[Integers, list[Reference]],
    tables: Tables,
    confidence: float,
) -> ClassScores:
    """Release the tables of a score, and estimate all scores from them."""
    release = _release_two if n_classes == TWO else _release_many
    released = release(records, n_classes, reference, tables)
    curves = tuple(_curves(bins, cells, confidence) for bins, cells in released.curves)
    auc = None
    if n_classes == TWO:
        auc = curves[0].roc_auc
    elif curves:
        auc = _macro_auc([area(cells, bins, confidence) for bins, cells in released.curves])
    confusion = _confusion_matrix(released, n_classes, confidence)
    return ClassScores(
        total(released.confusion, confidence),
        confusion,
        _accuracy(released, n_classes, confidence),
        _balanced_accuracy(released, n_classes, confidence),
        _log_loss(released, confidence),
        auc,
        curves,
    )


# -- releases ----------------------------------------------------------------------------------------------------------


def _release_two(
    records: Records, n_classes: int, reference: tuple[Integers, list[Reference]], tables: Tables
) -> _Tables:
    confusion, confusion_noise = tables.release(confusion_counts(records, TWO))
    smaller = float(min(confusion[:2].sum(), confusion[2:].sum()))
    n_bins = number_of_bins(smaller, tables.epsilon_of_next())
    bins, n_first = bins_of_two(*reference, n_bins)
    cells, noise = tables.release(counts_of_two(records, bins, n_first))
    is_second = np.arange(len(bins)) >= n_first
    groups = np.concatenate([is_second, TWO + is_second]).astype(np.intp)
    both = Cells.of_counts(cells, noise).with_totals(groups, confusion, [confusion_noise] * 4)
    losses = [np.concatenate([_loss(1 - a), _loss(b)]) for a, b in _probabilities_by_loss(bins)]
    return _Tables(both, groups, both, (losses[0], losses[1], losses[2]), [(bins, both)])


def confusion_counts(records: Records, n_classes: int) -> Integers:
    """Count records by true and by predicted class: a record is in one cell."""
    places = records.targets * n_classes + records.decisions
    return np.bincount(places, minlength=n_classes**2).astype(np.int64)


def bins_of_two(decisions: Integers, references: Sequence[Reference], n_bins: int) -> tuple[Bins, int]:
    """Return bins of the score of the second class, and how many are of records predicted to be of the first."""
    (reference,) = references
    weights = np.maximum(reference.weights, 0.0)
    share = float(weights[decisions == 1].sum() / max(weights.sum(), 1e-300))
    n_second = min(max(round(share * n_bins), 1), max(n_bins - 1, 1))
    first = make_bins(reference.where(decisions == 0), max(n_bins - n_second, 1), highest=0.5)
    second = make_bins(reference.where(decisions == 1), n_second, lowest=0.5)
    threshold = 0.0 if reference.is_log_odds else 0.5
    edges = np.concatenate([first.edges, [threshold], second.edges])
    both = (np.concatenate([getattr(first, name), getattr(second, name)]) for name in ("low", "middle", "high"))
    return Bins(edges, *both), len(first)


def counts_of_two(records: Records, bins: Bins, n_first: int) -> Integers:
    """Count records by class and by bin of their score: a record is in one cell.

    The decision tells on which side of the threshold a record is, so that the bins add up to the confusion matrix.
    """
    scores = records.scores[:, 0]
    below = np.searchsorted(bins.edges[: n_first - 1], scores, side="right")
    above = n_first + np.searchsorted(bins.edges[n_first:], scores, side="right")
    places = np.where(records.decisions == 0, below, above) + records.targets * len(bins)
    return np.bincount(places, minlength=TWO * len(bins)).astype(np.int64)


def _release_many(
    records: Records, n_classes: int, reference: tuple[Integers, list[Reference]], tables: Tables
) -> _Tables:
    confusion, confusion_noise = tables.release(confusion_counts(records, n_classes))
    matrix = Cells.of_counts(confusion, confusion_noise)
    places = np.arange(n_classes**2)
    if n_classes == 1:
        return _Tables(matrix, places, None, None, [])
    sizes = confusion.reshape(n_classes, n_classes).sum(axis=1)
    n_bins = number_of_bins(float(sizes.sum()) / n_classes, tables.epsilon_of_next())
    bins = [make_bins(one, n_bins) for one in reference[1]]
    first = np.concatenate([[0], np.cumsum([len(b) for b in bins])])
    own_counts, other_counts = counts_of_many(records, bins)
    own, own_noise = tables.release(own_counts)
    other, other_noise = tables.release(other_counts)
    of_row = Noise(confusion_noise.variance * n_classes, confusion_noise.kurtosis / n_classes)
    of_others = Noise(of_row.variance * (n_classes - 1), of_row.kurtosis / (n_classes - 1))
    curves = []
    for k in range(n_classes):
        here = slice(first[k], first[k + 1])
        two = _joined(Cells.of_counts(other[here], other_noise), Cells.of_counts(own[here], own_noise))
        groups = np.repeat([0, 1], len(bins[k]))
        totals = np.array([sizes.sum() - sizes[k], sizes[k]])
        curves.append((bins[k], two.with_totals(groups, totals, [of_others, of_row])))
    classes = np.repeat(np.arange(n_classes), np.diff(first))
    true_scores = Cells.of_counts(own, own_noise).with_totals(classes, sizes, [of_row] * n_classes)
    losses = [np.concatenate([_loss(_probabilities_by_loss(b)[i][1]) for b in bins]) for i in range(3)]
    return _Tables(matrix, places, true_scores, (losses[0], losses[1], losses[2]), curves)


def counts_of_many(records: Records, bins: Sequence[Bins]) -> tuple[Integers, Integers]:
    """Count records by the bin of the score of each class, apart for those of the class and for all others.

    A record is in one cell of the first table, and in as many cells of the second as there are other classes.
    """
    own, other = [], []
    for k, of_class in enumerate(bins):
        places, is_own = of_class.place(records.scores[:, k]), records.targets == k
        own.append(np.bincount(places[is_own], minlength=len(of_class)))
        other.append(np.bincount(places[~is_own], minlength=len(of_class)))
    return np.concatenate(own).astype(np.int64), np.concatenate(other).astype(np.int64)


def _joined(first: Cells, second: Cells) -> Cells:
    counts, deviations = (np.concatenate([getattr(c, n) for c in (first, second)]) for n in ("counts", "deviations"))
    none = np.zeros(1)
    return Cells(
        counts, deviations, np.zeros(len(counts), dtype=np.intp), none, none, max(first.kurtosis, second.kurtosis)
    )


# -- decisions ---------------------------------------------------------------------------------------------------------


def _confusion_matrix(tables: _Tables, n_classes: int, confidence: float) -> tuple[tuple[Estimate, ...], ...]:
    """Return the share of all records in each cell of the confusion matrix."""
    everything = Sum.of(tables.confusion, np.ones(len(tables.places)))
    shares = [
        ratio(
            tables.confusion,
            Sum.of(tables.confusion, (tables.places == place).astype(float)),
            everything,
            confidence,
            is_share=True,
        )
        for place in range(n_classes**2)
    ]
    return tuple(tuple(shares[k * n_classes : (k + 1) * n_classes]) for k in range(n_classes))


def _accuracy(tables: _Tables, n_classes: int, confidence: float) -> Estimate:
    is_right = (tables.places // n_classes == tables.places % n_classes).astype(float)
    right, everything = Sum.of(tables.confusion, is_right), Sum.of(tables.confusion, np.ones(len(is_right)))
    return ratio(tables.confusion, right, everything, confidence, is_share=True)


def _balanced_accuracy(tables: _Tables, n_classes: int, confidence: float) -> Estimate:
    """Return the mean of the classes' recalls, which depend on different records and different noise."""
    recalls = []
    for k in range(n_classes):
        cells = tables.confusion.among(tables.places // n_classes == k)
        decisions = tables.places[tables.places // n_classes == k] % n_classes
        right = Sum.of(cells, (decisions == k).astype(float))
        recalls.append(ratio(cells, right, Sum.of(cells, np.ones(len(decisions))), confidence, is_share=True))
    return mean_of_independent(recalls)


# -- probabilities -----------------------------------------------------------------------------------------------------


def _probabilities_by_loss(bins: Bins) -> list[tuple[Floats, Floats]]:
    """Return probabilities with the smallest, a typical and the largest loss, of other classes and of the class."""
    return [(bins.low, bins.high), (bins.middle, bins.middle), (bins.high, bins.low)]


def _loss(probability: Floats) -> Floats:
    return np.asarray(-np.log(np.clip(probability, CLIP, 1 - CLIP)))


def _log_loss(tables: _Tables, confidence: float) -> Estimate | None:
    """Return the log loss; its interval allows for all losses that records of a bin may have."""
    if tables.true_scores is None or tables.losses is None:
        return None
    cells = tables.true_scores
    n = Sum.of(cells, np.ones(len(cells.counts)))
    bounds = (-math.log(1 - CLIP), -math.log(CLIP))
    low, value, high = (ratio(cells, Sum.of(cells, loss), n, confidence, bounds) for loss in tables.losses)
    return between(low, value.value, high)


# -- rankings ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Area:
    """The area under a ROC curve, and what its interval is made of.

    Attributes
    ----------
    estimate : Estimate
        The area.
    ties : float
        What ranking within bins adds to either side.
    sampling : float
        The standard error by sampling, times the quantile of the interval.
    """

    estimate: Estimate
    ties: float
    sampling: float


def area(cells: Cells, bins: Bins, confidence: float) -> Area:
    """Return the area under the ROC curve. Its interval allows for any ranking of the records within a bin."""
    middle = _area_with_ties(cells, bins, 0.5, confidence)
    low, high = (_area_with_ties(cells, bins, tie, confidence) for tie in (0.0, 1.0))
    estimate = between(low, middle.value, high)
    n = len(bins)
    pairs = max(float(cells.counts[:n].sum()), 1.0) * max(float(cells.counts[n:].sum()), 1.0)
    ranks, product = _ranks_and_pairs(cells, bins, 0.5)
    variance = sampling_moments(cells, ranks.weights, product.weights).at(middle.value)
    is_vacuous = (estimate.low, estimate.high) == UNIT
    ties = 1.0 if is_vacuous else max(high.value - middle.value, middle.value - low.value)
    return Area(estimate, ties, normal_quantile(confidence) * math.sqrt(max(variance, 0.0)) / pairs)


def _ranks_and_pairs(cells: Cells, bins: Bins, tie: float) -> tuple[Sum, Sum]:
    """Return the number of pairs of records, one of the class and one of others, in right order, and that of all."""
    n = len(bins)
    negative, positive = cells.counts[:n], cells.counts[n:]
    ties = np.where(bins.is_exact, 0.5, tie)
    before = np.cumsum(negative) - negative + ties * negative
    after = positive.sum() - np.cumsum(positive) + ties * positive
    n_negative, n_positive = float(negative.sum()), float(positive.sum())
    ranks = Sum(float(positive @ before), np.concatenate([after, before]))
    weights = np.concatenate([np.full(n, n_positive), np.full(n, n_negative)])
    # Two negative sums would have a positive product.
    product = n_negative * n_positive if min(n_negative, n_positive) > 0 else 0.0
    return ranks, Sum(product, weights)


def _area_with_ties(cells: Cells, bins: Bins, tie: float, confidence: float) -> Estimate:
    return ratio(cells, *_ranks_and_pairs(cells, bins, tie), confidence)


def _macro_auc(areas: Sequence[Area]) -> Estimate:
    """Return the mean of the areas of all classes.

    The noise of each is independent, so its squares add up. The records are the same: in the worst case the errors of
    sampling add up, and so does what is unknown about ranks within bins, or about classes that drown in noise.
    """
    n = len(areas)
    value = math.fsum(a.estimate.value for a in areas) / n
    sampling, ties = (math.fsum(getattr(a, name) for a in areas) / n for name in ("sampling", "ties"))

    def reach(sides: Sequence[float]) -> float:
        noise = [max(max(s - a.ties, 0.0) ** 2 - a.sampling**2, 0.0) for s, a in zip(sides, areas, strict=True)]
        return ties + math.sqrt(sampling**2 + math.fsum(noise) / n**2)

    below = reach([a.estimate.value - a.estimate.low for a in areas])
    above = reach([a.estimate.high - a.estimate.value for a in areas])
    return Estimate(value, max(value - below, 0.0), min(value + above, 1.0))


def _curves(bins: Bins, cells: Cells, confidence: float) -> ClassCurves:
    return ClassCurves(
        area(cells, bins, confidence).estimate,
        _roc_curve(bins, cells, confidence),
        _calibration(bins, cells, confidence),
    )


def _roc_curve(bins: Bins, cells: Cells, confidence: float) -> tuple[RocPoint, ...]:
    n = len(bins)
    n_points = min(n - 1, MAX_ROC_POINTS)
    cuts = np.unique(np.linspace(1, n - 1, n_points).round().astype(int)) if n_points else np.zeros(0, dtype=int)
    rates = []
    for side in (0, 1):
        all_of_side = (np.arange(2 * n) // n == side).astype(float)
        everything = Sum.of(cells, all_of_side)
        above = [Sum.of(cells, all_of_side * (np.arange(2 * n) % n >= cut)) for cut in cuts]
        rates.append(_falling([ratio(cells, part, everything, confidence, is_share=True) for part in above]))
    thresholds = bins.low[cuts].tolist()
    return tuple(RocPoint(t, false, true) for t, false, true in zip(thresholds, *rates, strict=True))


def _falling(rates: list[Estimate]) -> list[Estimate]:
    """Return rates that fall as the threshold rises, as the true ones do; noise may have made them rise."""
    if not rates:
        return rates
    values = isotonic_regression([rate.value for rate in rates], increasing=False, y_min=0, y_max=1).tolist()
    return [Estimate(v, min(r.low, v), max(r.high, v)) for v, r in zip(values, rates, strict=True)]


def _calibration(bins: Bins, cells: Cells, confidence: float) -> tuple[CalibrationPoint, ...]:
    n = len(bins)
    points = []
    for part in np.array_split(np.arange(n), min(n, MAX_CALIBRATION_POINTS)):
        here = np.isin(np.arange(2 * n) % n, part).astype(float)
        of_class = here * (np.arange(2 * n) >= n)
        observed = ratio(cells, Sum.of(cells, of_class), Sum.of(cells, here), confidence, is_share=True)
        points.append(CalibrationPoint(float(bins.low[part[0]]), float(bins.high[part[-1]]), observed))
    return tuple(points)
