"""Scores of classifiers: what a record adds to the tables, and exact scores without noise."""

import math
from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    confusion_matrix,
    log_loss,
    roc_auc_score,
    roc_curve,
)

from diprime.scoring.classes import (
    CLIP,
    _part_of_area,
    bins_of_two,
    confusion_counts,
    counts_of_many,
    counts_of_two,
    plan_of_classes,
    score_classes,
)
from diprime.scoring.intervals import Cells, Estimate, ScoreBins, TableNoise, make_bins
from diprime.scoring.rows import ScoredRows, shares
from tests.scoring.made_rows import records_of_many, records_of_two, reference_of_many, reference_of_two, tables

RNG = np.random.default_rng(0)
LOG_ODDS = RNG.normal(0.3, 1.5, 4000)
TARGETS = (RNG.random(4000) < 1 / (1 + np.exp(-LOG_ODDS))).astype(int)
LOGITS = RNG.normal(0, 1.5, (4000, 4))
SHARES = shares(LOGITS)
CLASSES = np.array([RNG.choice(4, p=p) for p in SHARES])


def score_two(scores, targets, epsilon=math.inf, seed=0):
    reference = reference_of_two(LOG_ODDS[:1000])
    paid = tables(lambda exact: plan_of_classes(2, exact), epsilon, seed)
    return score_classes(records_of_two(scores, targets), 2, reference, paid, 0.95)


def score_many(scores, targets, epsilon=math.inf, seed=0):
    paid = tables(lambda exact: plan_of_classes(4, exact), epsilon, seed)
    return score_classes(records_of_many(scores, targets), 4, reference_of_many(SHARES[:1000]), paid, 0.95)


def test_without_noise_the_scores_of_two_classes_are_exact():
    found = score_two(LOG_ODDS, TARGETS)
    said, p = (LOG_ODDS > 0).astype(int), 1 / (1 + np.exp(-LOG_ODDS))
    assert found.records.value == 4000
    assert found.accuracy.value == pytest.approx(accuracy_score(TARGETS, said))
    assert found.balanced_accuracy.value == pytest.approx(balanced_accuracy_score(TARGETS, said))
    shares_of_cells = np.array([[cell.value for cell in row] for row in found.confusion_matrix])
    assert shares_of_cells == pytest.approx(confusion_matrix(TARGETS, said) / 4000)
    # Bins are as many as the reference has scores; ranks and losses within them are not known.
    assert found.roc_auc.value == pytest.approx(roc_auc_score(TARGETS, LOG_ODDS), abs=1e-3)
    assert found.log_loss.value == pytest.approx(log_loss(TARGETS, np.clip(p, CLIP, 1 - CLIP)), abs=2e-3)
    false, true, thresholds = roc_curve(TARGETS, p, drop_intermediate=False)
    for point in found.curves[0].roc_curve:
        at = np.flatnonzero(thresholds >= point.threshold)[-1]
        assert point.false_positive_rate.value == pytest.approx(false[at])
        assert point.true_positive_rate.value == pytest.approx(true[at])
    for point in found.curves[0].calibration:
        here = (p >= point.low) & (p < point.high)
        assert point.observed.value == pytest.approx(TARGETS[here].mean())


@pytest.mark.parametrize("score", [score_two, score_many])
def test_number_of_bins_follows_from_released_counts(monkeypatch, score):
    asked = []

    def number_of_bins(n_records, epsilon):
        asked.append(n_records)
        return 8

    monkeypatch.setattr("diprime.scoring.classes.number_of_bins", number_of_bins)
    for seed in range(5):
        score(LOG_ODDS if score is score_two else SHARES, TARGETS if score is score_two else CLASSES, 0.01, seed)
    assert len(set(asked)) == 5, "the same records, and other noise each time"


def test_without_noise_the_scores_of_many_classes_are_exact():
    found = score_many(SHARES, CLASSES)
    said = SHARES.argmax(axis=1)
    assert found.accuracy.value == pytest.approx(accuracy_score(CLASSES, said))
    assert found.balanced_accuracy.value == pytest.approx(balanced_accuracy_score(CLASSES, said))
    shares_of_cells = np.array([[cell.value for cell in row] for row in found.confusion_matrix])
    assert shares_of_cells == pytest.approx(confusion_matrix(CLASSES, said) / 4000)
    assert found.roc_auc.value == pytest.approx(roc_auc_score(CLASSES, SHARES, multi_class="ovr"), abs=1e-3)
    assert found.log_loss.value == pytest.approx(log_loss(CLASSES, SHARES), abs=5e-3)
    assert len(found.curves) == 4


UNIVERSE_OF_TWO = [(score, target) for score in (-3.0, -0.4, 0.0, 0.001, 0.7, 9.0) for target in (0, 1, 2)]
UNIVERSE_OF_MANY = [
    (tuple(row), target) for row in shares(np.random.default_rng(1).normal(0, 2, (8, 4))) for target in range(5)
]


@pytest.mark.parametrize("extra", UNIVERSE_OF_TWO)
def test_record_changes_one_cell_of_each_table_of_two_classes(extra):
    bins, n_first = bins_of_two(*reference_of_two(LOG_ODDS), 12)
    score, target = extra
    for n in (0, 1, 30):
        before = records_of_two(LOG_ODDS[:n], TARGETS[:n])
        after = records_of_two([*LOG_ODDS[:n], score], [*TARGETS[:n], target])
        for count in (lambda r: confusion_counts(r, 2), lambda r: counts_of_two(r, bins, n_first)):
            change = count(after) - count(before)
            assert np.abs(change).sum() == change.max() == 1


@pytest.mark.parametrize("extra", UNIVERSE_OF_MANY)
def test_record_changes_one_cell_and_one_for_each_other_class(extra):
    bins = [make_bins(reference, 6) for reference in reference_of_many(SHARES)[1]]
    row, target = extra
    before = records_of_many(SHARES[:20], CLASSES[:20])
    after = records_of_many(np.vstack([SHARES[:20], row]), np.append(CLASSES[:20], target))
    n_own = sum(map(len, bins)) + 1
    own, other = np.split(counts_of_many(after, bins) - counts_of_many(before, bins), [n_own])
    assert np.abs(own).sum() == 1
    assert np.abs(other).sum() == (3 if target < 4 else 0)
    assert np.abs(confusion_counts(after, 4) - confusion_counts(before, 4)).sum() == 1


def test_rows_of_classes_outside_the_domain_are_errors():
    """As scikit-learn has it for a model that gives them no probability and never predicts them."""
    targets = np.where(RNG.random(4000) < 0.1, 4, CLASSES)
    found = score_many(SHARES, targets)
    said = SHARES.argmax(axis=1)
    assert found.accuracy.value == pytest.approx(accuracy_score(targets, said))
    assert found.outside_domain.value == pytest.approx(np.mean(targets == 4))
    with_none = np.clip(np.column_stack([SHARES, np.zeros(4000)]), CLIP, 1)
    assert found.log_loss.value == pytest.approx(-np.log(with_none[np.arange(4000), targets]).mean(), abs=5e-3)
    known = targets < 4
    assert found.balanced_accuracy.value == pytest.approx(balanced_accuracy_score(targets[known], said[known]))
    assert found.roc_auc.value == pytest.approx(
        roc_auc_score(targets[known], SHARES[known], multi_class="ovr"), abs=1e-3
    )
    two = score_two(LOG_ODDS, np.where(known, TARGETS, 2))
    assert two.accuracy.value == pytest.approx(np.mean(known & ((LOG_ODDS > 0) == TARGETS)))
    assert two.outside_domain.value == pytest.approx(found.outside_domain.value)
    cells = [cell.value for row in two.confusion_matrix for cell in row]
    assert sum(cells) + two.outside_domain.value == pytest.approx(1)


def test_class_outside_the_domain_is_an_error():
    """99.3 % of the rows are of the only class of the domain: the score must not read as a perfect one."""
    targets = (np.arange(10_000) < 70).astype(int)
    paid = tables(lambda exact: plan_of_classes(1, exact), 1.0)
    found = score_classes(
        records_of_many(np.ones((10_000, 1)), targets), 1, reference_of_many(np.ones((5, 1))), paid, 0.95
    )
    assert found.accuracy.high < 0.998
    assert found.outside_domain.low > 0.002
    assert found.balanced_accuracy == Estimate(0.5, 0.5, 0.5)


def test_shares_of_many_noisy_cells_add_up_to_one():
    found = score_many(SHARES[:300], CLASSES[:300], 1.0)
    cells = [cell for row in found.confusion_matrix for cell in row]
    assert sum(cell.value for cell in [*cells, found.outside_domain]) == pytest.approx(1)
    assert all(0 <= cell.low <= cell.value <= cell.high <= 1 for cell in cells)


@pytest.mark.parametrize(("n_classes", "changes"), [(1, [1]), (2, [1, 1]), (3, [1, 1, 2]), (9, [1, 1, 8])])
def test_tables_are_charged_for_the_cells_that_a_record_is_in(n_classes, changes):
    for k in (1, 7):
        plan = plan_of_classes(n_classes, Fraction(1), k)
        assert [charge.sensitivity.n for charge in plan] == [k * change for change in changes]
        assert sum(charge.total for charge in plan) == 1


def test_bins_add_up_to_the_confusion_matrix():
    """Also where rounding puts a decision on the other side of the threshold."""
    records = ScoredRows(TARGETS.astype(np.int64), (RNG.random(4000) < 0.5).astype(np.int64), LOG_ODDS[:, None])
    bins, n_first = bins_of_two(*reference_of_two(LOG_ODDS), 40)
    *table, outside = counts_of_two(records, bins, n_first)
    sums = [[row[:n_first].sum(), row[n_first:].sum()] for row in np.reshape(table, (2, -1))]
    assert np.array_equal([*np.ravel(sums), outside], confusion_counts(records, 2))


def test_intervals_allow_for_any_order_within_bins():
    """Records whose order is wrong within every bin have the same tables, and an area within the interval."""
    scores = np.repeat(np.linspace(-3, 3, 40), 100) + np.tile(np.linspace(0, 0.1, 100), 40)
    bins, _ = bins_of_two(*reference_of_two(LOG_ODDS), 9)
    targets = (RNG.random(4000) < 1 / (1 + np.exp(-scores))).astype(int)
    places = np.searchsorted(bins.edges, scores, side="right")
    sorted_within = {"best": targets.copy(), "worst": targets.copy()}
    for place in np.unique(places):
        here = np.flatnonzero(places == place)
        sorted_within["best"][here] = np.sort(targets[here])
        sorted_within["worst"][here] = np.sort(targets[here])[::-1]
    areas = {}
    for name, sorted_targets in sorted_within.items():
        records = records_of_two(scores, sorted_targets)
        paid = tables(lambda exact: plan_of_classes(2, exact), 1e4)

        def nine(*_):
            return 9

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("diprime.scoring.classes.number_of_bins", nine)
            areas[name] = score_classes(records, 2, reference_of_two(LOG_ODDS), paid, 0.95).roc_auc
    assert areas["best"] == areas["worst"]
    for sorted_targets in sorted_within.values():
        assert areas["best"].low <= roc_auc_score(sorted_targets, scores) <= areas["best"].high
    assert roc_auc_score(sorted_within["best"], scores) - roc_auc_score(sorted_within["worst"], scores) > 0.02


@pytest.mark.parametrize("score", [score_two, score_many])
def test_scores_of_few_records_are_unknown(score):
    data = (LOG_ODDS[:6], TARGETS[:6]) if score is score_two else (SHARES[:6], CLASSES[:6])
    found = score(*data, epsilon=0.05)
    assert found.accuracy.value is None
    assert all(cell.value is None for row in found.confusion_matrix for cell in row)
    assert found.roc_auc.high - found.roc_auc.low > 0.9
    assert found.log_loss.high - found.log_loss.low > 5


@pytest.mark.parametrize("score", [score_two, score_many])
def test_scores_of_no_records_are_unknown(score):
    none = np.zeros(0) if score is score_two else np.zeros((0, 4))
    for epsilon in (0.1, math.inf):
        found = score(none, np.zeros(0, dtype=int), epsilon)
        for estimate in (found.accuracy, found.balanced_accuracy, found.roc_auc):
            assert estimate == Estimate(None, 0, 1)


def test_mean_of_areas_allows_for_any_order_within_bins_and_for_the_sample():
    """Without these terms, intervals for several classes and a perfect model covered 13 % of the areas."""
    bins = ScoreBins(np.array([0.5]), np.array([0, 0.5]), np.array([0.25, 0.75]), np.array([0.5, 1]))
    part = _part_of_area(Cells.of_counts(np.array([40.0, 20, 10, 30]), TableNoise(0.0, 0.0)), bins, 0.95)
    assert part.slack == pytest.approx((40 * 10 + 20 * 30) / 2 / (60 * 40))
    assert part.shared > 0.01
