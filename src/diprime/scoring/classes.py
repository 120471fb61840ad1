"""Scores of classifiers, estimated from noisy tables of counts.

With two classes, each record is in one cell of a confusion matrix, and in one cell of a table by class and score bin.
With more classes, the second table counts each record in the score bin of its own class, and a third table counts it in
the score bins of all other classes. The first two tables have one more cell for records of unlisted classes, which
count as errors whose class has a probability of zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from sklearn.isotonic import isotonic_regression

from diprime.privacy.charges import Charge, ReleaseKind
from diprime.privacy.measures import Epsilon
from diprime.scoring.intervals import (
    UNIT,
    Cells,
    Covariance,
    Estimate,
    Floats,
    Part,
    Ratio,
    Reference,
    ScoreBins,
    Sum,
    TableReleases,
    adding_up_to_one,
    make_bins,
    mean_of_shares,
    normal_quantile,
    number_of_bins,
    ratio,
    sampling_moments,
    table_charge,
    total,
)
from diprime.scoring.rows import TWO, Counted, Integers, ScoredRows

CLIP = 0.001
"""Smallest probability in the log loss, so that the loss of one record is bounded."""
OUTSIDE_LOSS = [-math.log(CLIP)]
"""Loss of a record outside the domain, whose class has a predicted probability of zero."""
SURE = 0.9999
"""Confidence required to state that there are records outside the domain."""
MAX_ROC_POINTS = 40
MAX_CALIBRATION_POINTS = 10
CONFUSION_SHARE = Fraction(1, 3)


@dataclass(frozen=True)
class RocPoint:
    """Point of a ROC curve."""

    threshold: float  # probability of the class from which records count as positive
    false_positive_rate: Estimate  # share of positive records among those of other classes
    true_positive_rate: Estimate  # share of positive records among those of the class


@dataclass(frozen=True)
class CalibrationPoint:
    """Frequency of a class among records whose predicted probabilities lie in a range."""

    low: float  # range of predicted probabilities
    high: float
    observed: Estimate  # share of records of the class; within the range if the model is calibrated


@dataclass(frozen=True)
class ClassCurves:
    """Measures of how well the scores of one class distinguish it from all others."""

    roc_auc: Estimate  # area under the ROC curve
    roc_curve: tuple[RocPoint, ...]  # curve at released thresholds, without its ends
    calibration: tuple[CalibrationPoint, ...]  # predicted and observed shares


@dataclass(frozen=True)
class ClassScores:
    """All scores of a classifier; see :class:`~diprime.scoring.PrivateScore`."""

    records: Estimate
    outside_domain: Estimate
    confusion_matrix: tuple[tuple[Estimate, ...], ...]
    accuracy: Estimate
    balanced_accuracy: Estimate
    log_loss: Estimate | None
    roc_auc: Estimate | None
    curves: tuple[ClassCurves, ...]


@dataclass(frozen=True)
class _ClassTables:
    """The released tables, as cells."""

    confusion: Cells
    places: npt.NDArray[np.intp]  # index of (true class, decision) of each of these cells; the last is outside
    # A cell per class and bin of its score (of the second class's score, if there are two), and one outside the domain.
    true_scores: Cells | None
    losses: tuple[Floats, Floats, Floats] | None  # smallest, typical and largest loss in each of these cells
    # For each class with a curve: first the cells of records of other classes, then those of the class itself.
    curves: list[tuple[ScoreBins, Cells]]


def plan_of_classes(n_classes: int, epsilon: Epsilon, max_records: int = 1) -> list[Charge]:
    """Return the charges of the tables of a classifier's score, with up to ``max_records`` records per person."""

    def charge(kind: ReleaseKind, share: Fraction, sensitivity: int, why: str) -> Charge:
        return table_charge(kind, epsilon, share, sensitivity, why, max_records)

    one = "Each record is in one cell of each table, so each table is charged once."
    if n_classes == 1:
        return [charge(ReleaseKind.CONFUSION_MATRIX, Fraction(1), 1, one)]
    if n_classes == TWO:
        return [
            charge(ReleaseKind.CONFUSION_MATRIX, CONFUSION_SHARE, 1, one),
            charge(ReleaseKind.CLASS_SCORES, 1 - CONFUSION_SHARE, 1, one),
        ]
    third = Fraction(1, 3)
    others = (
        "Each record is in one cell of the first and of the second table, and in one cell for each other "
        "class of the third."
    )
    return [
        charge(ReleaseKind.CONFUSION_MATRIX, third, 1, others),
        charge(ReleaseKind.TRUE_CLASS_SCORES, third, 1, others),
        charge(ReleaseKind.OTHER_CLASS_SCORES, third, n_classes - 1, others),
    ]


def score_classes(
    records: Counted,
    n_classes: int,
    reference: tuple[Integers, list[Reference]],
    tables: TableReleases,
    confidence: float,
) -> ClassScores:
    """Release the tables of a score and estimate all scores from them."""
    release = _release_two if n_classes == TWO else _release_many
    released = release(records, n_classes, reference, tables)
    curves = tuple(_curves(bins, cells, confidence) for bins, cells in released.curves)
    auc = None
    if n_classes == TWO:
        auc = curves[0].roc_auc
    elif curves:
        auc = mean_of_shares([_part_of_area(cells, bins, confidence) for bins, cells in released.curves], confidence)
    matrix, outside = _confusion_matrix(released, n_classes, confidence)
    return ClassScores(
        total(released.confusion, confidence),
        outside,
        matrix,
        _accuracy(released, n_classes, confidence),
        _balanced_accuracy(released, n_classes, confidence),
        _log_loss(released, confidence),
        auc,
        curves,
    )


# -- releases ----------------------------------------------------------------------------------------------------------


def _release_two(
    records: Counted, n_classes: int, reference: tuple[Integers, list[Reference]], tables: TableReleases
) -> _ClassTables:
    confusion, confusion_noise = tables.release(records.count(confusion_counts, TWO))
    smaller = float(min(confusion[:2].sum(), confusion[2:4].sum()))
    n_bins = number_of_bins(smaller, tables.epsilon_of_next())
    bins, n_first = bins_of_two(*reference, n_bins)
    cells, noise = tables.release(records.count(counts_of_two, bins, n_first))
    is_second = np.arange(len(bins)) >= n_first
    groups = np.concatenate([is_second, TWO + is_second, [TWO**2]]).astype(np.intp)
    both = Cells.of_counts(cells, noise).with_totals(groups, confusion, [confusion_noise] * len(confusion))
    losses = [np.concatenate([_loss(1 - a), _loss(b), OUTSIDE_LOSS]) for a, b in _probabilities_by_loss(bins)]
    known = both.among(groups < TWO**2)
    return _ClassTables(both, groups, both, (losses[0], losses[1], losses[2]), [(bins, known)])


def confusion_counts(records: ScoredRows, n_classes: int) -> Integers:
    """Count records by true and predicted class, and those outside the domain. Each record is in one cell."""
    places = np.minimum(records.targets * n_classes + records.decisions, n_classes**2)
    return np.bincount(places, minlength=n_classes**2 + 1).astype(np.int64)


def bins_of_two(decisions: Integers, references: Sequence[Reference], n_bins: int) -> tuple[ScoreBins, int]:
    """Return bins of the second class's score, and the number of bins for records predicted as the first class."""
    (reference,) = references
    weights = np.maximum(reference.weights, 0.0)
    share = float(weights[decisions == 1].sum() / max(weights.sum(), 1e-300))
    n_second = min(max(round(share * n_bins), 1), max(n_bins - 1, 1))
    first = make_bins(reference.where(decisions == 0), max(n_bins - n_second, 1), highest=0.5)
    second = make_bins(reference.where(decisions == 1), n_second, lowest=0.5)
    threshold = 0.0 if reference.is_log_odds else 0.5
    edges = np.concatenate([first.edges, [threshold], second.edges])
    both = (np.concatenate([getattr(first, name), getattr(second, name)]) for name in ("low", "middle", "high"))
    return ScoreBins(edges, *both), len(first)


def counts_of_two(records: ScoredRows, bins: ScoreBins, n_first: int) -> Integers:
    """Count records by class and score bin, and those outside the domain. Each record is in one cell.

    The decision determines the side of the threshold, so that the bins add up to the confusion matrix.
    """
    scores = records.scores[:, 0]
    below = np.searchsorted(bins.edges[: n_first - 1], scores, side="right")
    above = n_first + np.searchsorted(bins.edges[n_first:], scores, side="right")
    places = np.where(records.decisions == 0, below, above) + records.targets * len(bins)
    return np.bincount(np.minimum(places, TWO * len(bins)), minlength=TWO * len(bins) + 1).astype(np.int64)


def _release_many(
    records: Counted, n_classes: int, reference: tuple[Integers, list[Reference]], tables: TableReleases
) -> _ClassTables:
    confusion, confusion_noise = tables.release(records.count(confusion_counts, n_classes))
    matrix = Cells.of_counts(confusion, confusion_noise)
    places = np.arange(n_classes**2 + 1)
    if n_classes == 1:
        return _ClassTables(matrix, places, None, None, [])
    sizes = confusion[:-1].reshape(n_classes, n_classes).sum(axis=1)
    n_bins = number_of_bins(float(sizes.sum()) / n_classes, tables.epsilon_of_next())
    bins = [make_bins(one, n_bins) for one in reference[1]]
    first = np.concatenate([[0], np.cumsum([len(b) for b in bins])])
    own_counts, other_counts = np.split(records.count(counts_of_many, bins), [first[-1] + 1])
    own, own_noise = tables.release(own_counts)
    other, other_noise = tables.release(other_counts)
    of_row = confusion_noise.of_sum(n_classes)
    of_others = of_row.of_sum(n_classes - 1)
    curves = []
    for k in range(n_classes):
        here = slice(first[k], first[k + 1])
        two = _joined(Cells.of_counts(other[here], other_noise), Cells.of_counts(own[here], own_noise))
        groups = np.repeat([0, 1], len(bins[k]))
        totals = np.array([sizes.sum() - sizes[k], sizes[k]])
        curves.append((bins[k], two.with_totals(groups, totals, [of_others, of_row])))
    classes = np.repeat(np.arange(n_classes + 1), [*np.diff(first), 1])
    sizes = np.append(sizes, confusion[-1])
    true_scores = Cells.of_counts(own, own_noise).with_totals(classes, sizes, [*[of_row] * n_classes, confusion_noise])
    losses = [np.concatenate([*(_loss(_probabilities_by_loss(b)[i][1]) for b in bins), OUTSIDE_LOSS]) for i in range(3)]
    return _ClassTables(matrix, places, true_scores, (losses[0], losses[1], losses[2]), curves)


def counts_of_many(records: ScoredRows, bins: Sequence[ScoreBins]) -> Integers:
    """Count records by class and score bin, in a table of the class's own records, then in one of all other records.

    A record is in one cell of the first table, and in one cell of the second table for each other class. A record
    outside the domain is in the last cell of the first table, and in no cell of the second.
    """
    own, other = [], []
    is_known = records.targets < len(bins)
    for k, of_class in enumerate(bins):
        places, is_own = of_class.place(records.scores[:, k]), records.targets == k
        own.append(np.bincount(places[is_own], minlength=len(of_class)))
        other.append(np.bincount(places[is_known & ~is_own], minlength=len(of_class)))
    own.append(np.array([np.sum(~is_known)]))
    return np.concatenate([*own, *other]).astype(np.int64)


def _joined(first: Cells, second: Cells) -> Cells:
    counts, deviations = (np.concatenate([getattr(c, n) for c in (first, second)]) for n in ("counts", "deviations"))
    kurtosis = max(first.kurtosis, second.kurtosis)
    return replace(
        first, counts=counts, deviations=deviations, groups=np.zeros(len(counts), dtype=np.intp), kurtosis=kurtosis
    )


# -- decisions ---------------------------------------------------------------------------------------------------------


def _confusion_matrix(
    tables: _ClassTables, n_classes: int, confidence: float
) -> tuple[tuple[tuple[Estimate, ...], ...], Estimate]:
    """Return the share of records in each cell of the confusion matrix, and the share outside the domain."""
    everything = Sum.of(tables.confusion, np.ones(len(tables.places)))
    *shares, outside = adding_up_to_one(
        [
            ratio(
                tables.confusion,
                Sum.of(tables.confusion, (tables.places == place).astype(float)),
                everything,
                confidence,
                is_share=True,
            )
            for place in range(n_classes**2 + 1)
        ]
    )
    return tuple(tuple(shares[k * n_classes : (k + 1) * n_classes]) for k in range(n_classes)), outside


def _accuracy(tables: _ClassTables, n_classes: int, confidence: float) -> Estimate:
    is_right = (tables.places // n_classes == tables.places % n_classes).astype(float)
    right, everything = Sum.of(tables.confusion, is_right), Sum.of(tables.confusion, np.ones(len(is_right)))
    return ratio(tables.confusion, right, everything, confidence, is_share=True)


def _balanced_accuracy(tables: _ClassTables, n_classes: int, confidence: float) -> Estimate:
    """Return the mean recall of the classes of the domain. The recalls have disjoint records and independent noise.

    With a single class, it is one half if there certainly are records of other classes, and otherwise not known.
    """
    if n_classes == 1:
        is_outside = np.array([0.0, 1.0])
        outside = ratio(
            tables.confusion,
            Sum.of(tables.confusion, is_outside),
            Sum.of(tables.confusion, np.ones(2)),
            SURE,
            is_share=True,
        )
        return Estimate(0.5, 0.5, 0.5) if outside.low > 0 else Estimate(None, 0.5, 1.0)
    parts = []
    for k in range(n_classes):
        cells = tables.confusion.among(tables.places // n_classes == k)
        decisions = tables.places[tables.places // n_classes == k] % n_classes
        right = Sum.of(cells, (decisions == k).astype(float))
        parts.append(Part(Ratio.of(cells, right, Sum.of(cells, np.ones(len(decisions))), is_share=True)))
    return mean_of_shares(parts, confidence)


# -- probabilities -----------------------------------------------------------------------------------------------------


def _probabilities_by_loss(bins: ScoreBins) -> list[tuple[Floats, Floats]]:
    """Return pairs of probabilities, of other classes and of the class, with smallest, typical and largest loss."""
    return [(bins.low, bins.high), (bins.middle, bins.middle), (bins.high, bins.low)]


def _loss(probability: Floats) -> Floats:
    return np.asarray(-np.log(np.clip(probability, CLIP, 1 - CLIP)))


def _log_loss(tables: _ClassTables, confidence: float) -> Estimate | None:
    """Return the log loss. Its interval allows for every possible loss of the records in a bin."""
    if tables.true_scores is None or tables.losses is None:
        return None
    cells = tables.true_scores
    n = Sum.of(cells, np.ones(len(cells.counts)))
    bounds = (-math.log(1 - CLIP), -math.log(CLIP))
    low, value, high = (ratio(cells, Sum.of(cells, loss), n, confidence, bounds) for loss in tables.losses)
    return Estimate.within(value.value, low.low, high.high, bounds)


# -- rankings ----------------------------------------------------------------------------------------------------------


def area(cells: Cells, bins: ScoreBins, confidence: float) -> Estimate:
    """Return the area under the ROC curve. Its interval allows for any ranking of the records within a bin."""
    low, middle, high = (ratio(cells, *_ranks_and_pairs(cells, bins, tie), confidence) for tie in (0.0, 0.5, 1.0))
    return Estimate.within(middle.value, low.low, high.high, UNIT)


def _part_of_area(cells: Cells, bins: ScoreBins, confidence: float) -> Part:
    """Return the part of one class in the mean area.

    The classes have independent noise but the same records. In the worst case, their sampling errors add up, and so do
    the unknown ranks within bins.
    """
    ranks, pairs = _ranks_and_pairs(cells, bins, 0.5)
    noise = replace(Ratio.of(cells, ranks, pairs), sampling=Covariance(0.0, 0.0, 0.0))
    if pairs.value <= 0:
        return Part(noise)
    theta = min(max(ranks.value / pairs.value, 0.0), 1.0)
    variance = max(sampling_moments(cells, ranks.weights, pairs.weights).at(theta), 0.0)
    best, worst = (_ranks_and_pairs(cells, bins, tie)[0].value for tie in (1.0, 0.0))
    ties = max(best - ranks.value, ranks.value - worst, 0.0) / pairs.value
    return Part(noise, normal_quantile(confidence) * math.sqrt(variance) / pairs.value, ties)


def _ranks_and_pairs(cells: Cells, bins: ScoreBins, tie: float) -> tuple[Sum, Sum]:
    """Return the number of correctly ordered pairs of a record of the class and one of another, and that of all pairs.

    Pairs within an inexact bin count as ``tie``.
    """
    n = len(bins)
    negative, positive = cells.counts[:n], cells.counts[n:]
    ties = np.where(bins.is_exact, 0.5, tie)
    before = np.cumsum(negative) - negative + ties * negative
    after = positive.sum() - np.cumsum(positive) + ties * positive
    n_negative, n_positive = float(negative.sum()), float(positive.sum())
    ranks = Sum(float(positive @ before), np.concatenate([after, before]))
    weights = np.concatenate([np.full(n, n_positive), np.full(n, n_negative)])
    # The product of two negative sums would be positive.
    product = n_negative * n_positive if min(n_negative, n_positive) > 0 else 0.0
    return ranks, Sum(product, weights)


def _curves(bins: ScoreBins, cells: Cells, confidence: float) -> ClassCurves:
    return ClassCurves(
        area(cells, bins, confidence),
        _roc_curve(bins, cells, confidence),
        _calibration(bins, cells, confidence),
    )


def _roc_curve(bins: ScoreBins, cells: Cells, confidence: float) -> tuple[RocPoint, ...]:
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
    """Make rates decrease with the threshold, as the true rates do, in spite of the noise."""
    values = [rate.value for rate in rates if rate.value is not None]
    if not values or len(values) < len(rates):
        return rates
    falling = isotonic_regression(values, increasing=False, y_min=0, y_max=1).tolist()
    return [Estimate(v, min(r.low, v), max(r.high, v)) for v, r in zip(falling, rates, strict=True)]


def _calibration(bins: ScoreBins, cells: Cells, confidence: float) -> tuple[CalibrationPoint, ...]:
    n = len(bins)
    points = []
    for part in np.array_split(np.arange(n), min(n, MAX_CALIBRATION_POINTS)):
        here = np.isin(np.arange(2 * n) % n, part).astype(float)
        of_class = here * (np.arange(2 * n) >= n)
        observed = ratio(cells, Sum.of(cells, of_class), Sum.of(cells, here), confidence, is_share=True)
        points.append(CalibrationPoint(float(bins.low[part[0]]), float(bins.high[part[-1]]), observed))
    return tuple(points)
