"""What a record adds to the sums of a round: never more than the sensitivity that is charged, whatever its scores."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.boosting import gradients
from diprime.boosting.gradients import (
    RANGE_BITS,
    SCORE_BITS,
    UNIT,
    LogisticGradients,
    ResidualGradients,
    ScoredRecords,
    SoftmaxGradients,
    gradients_of,
    logistic_table,
)
from diprime.boosting.rounds import EDGES
from diprime.domain.encoding import TargetLayout
from diprime.domain.features import TARGET_UNITS

MAX_SCORE, MIN_SCORE = 2**31 - 1, -(2**31)
EXTREMES = [0, 1, -1, 2**20, -(2**20), 2**30, -(2**30), MAX_SCORE, MIN_SCORE]
N_CLASSES = [1, 3, 5, 26]


def vectors_of(of_task, scores, targets):
    """Return what each record adds, one call a record's cell."""
    scores = np.ascontiguousarray(scores, dtype=np.int32)
    out = []
    for begin in range(0, len(scores), 256):
        n = min(256, len(scores) - begin)
        sums = np.zeros((n, of_task.n_columns), dtype=np.int64)
        block = slice(begin, begin + n)
        targets_of_block = np.ascontiguousarray(targets[block], dtype=np.uint16)
        cells = np.arange(n, dtype=np.uint8)
        of_task.add(ScoredRecords(np.ascontiguousarray(scores[block]), targets_of_block, cells), 0, n, sums)
        out.append(sums)
    return np.concatenate(out)


def squared_norms(of_task, scores, targets):
    return (vectors_of(of_task, scores, targets) ** 2).sum(axis=1)


# -- two classes ------------------------------------------------------------------------------------------------------


def scores_of_all_rows():
    """Return scores on both ends of every row of the table, beyond it, and at the ends of 32 bits."""
    width, half = 1 << gradients._TABLE_SHIFT, len(logistic_table()) // 2
    firsts = np.arange(-half - 3, half + 3, dtype=np.int64) * width
    return np.concatenate([firsts, firsts + width - 1, EXTREMES])[:, None]


def norms_of_two_classes():
    scores = scores_of_all_rows()
    of_task = LogisticGradients()
    return np.stack([squared_norms(of_task, scores, np.full(len(scores), target)) for target in (0, 1)])


def test_sensitivity_of_two_classes_is_exact():
    assert norms_of_two_classes().max() == LogisticGradients().squared_sensitivity


def test_hessian_hardly_increases_the_sensitivity():
    """The gradient of a record that is certain and wrong is one unit, and its Hessian adds at most rounding."""
    assert UNIT**2 <= LogisticGradients().squared_sensitivity <= 1.001 * UNIT**2


def test_every_row_of_the_table_is_used_and_is_the_gradient_at_its_score():
    scores = scores_of_all_rows()
    second, first = (vectors_of(LogisticGradients(), scores, np.full(len(scores), target)) for target in (1, 0))
    p = 1 / (1 + np.exp(-np.clip(scores[:, 0] / 2**SCORE_BITS, -30, 30)))
    assert np.abs(second[:, 0] / UNIT - (1 - p)).max() < 0.002
    assert np.abs(first[:, 0] / UNIT + p).max() < 0.002
    assert np.abs(second[:, 1] / LogisticGradients().weight_unit - p * (1 - p)).max() < 0.001
    assert np.array_equal(second[:, 1], first[:, 1])
    assert len(np.unique(second[:, 0])) == len(np.unique(logistic_table()[:, 0]))


def test_table_beyond_the_sensitivity_is_detected(monkeypatch):
    charged, worse = LogisticGradients().squared_sensitivity, logistic_table().copy()
    worse[len(worse) // 3, 1] += 800
    monkeypatch.setattr(gradients, "logistic_table", lambda: worse)
    assert norms_of_two_classes().max() > charged
    gradients._largest_squared_norm.cache_clear()
    assert LogisticGradients().squared_sensitivity > charged, "what is charged follows from the table itself"
    gradients._largest_squared_norm.cache_clear()


# -- several classes --------------------------------------------------------------------------------------------------


def corners(n_classes):
    """Return scores that are all equal, near each other, as far apart as can be, or as those in between."""
    rng = np.random.default_rng(n_classes)
    rows = [np.full(n_classes, value) for value in EXTREMES]
    for gap in (1, 4095, 4096, 2**18, 2**20, 3 * 2**20, 14 * 2**20, 2**30, MAX_SCORE):
        for n_high in {1, 2, 3, n_classes // 2, n_classes - 1, n_classes} & set(range(1, n_classes + 1)):
            row = np.full(n_classes, -(gap // 2))
            row[rng.permutation(n_classes)[:n_high]] = gap - gap // 2
            rows.append(row)
    rows += list(rng.choice(EXTREMES, (300, n_classes)))
    rows += list(np.rint(rng.normal(0, rng.choice([0.1, 1, 4], (600, 1)) * 2**20, (600, n_classes))))
    return np.array(rows)


@pytest.mark.parametrize("n_classes", N_CLASSES)
def test_no_corner_of_the_scores_of_several_classes_adds_more_than_the_sensitivity(n_classes):
    of_task, scores = SoftmaxGradients(n_classes), corners(n_classes)
    norms = [squared_norms(of_task, scores, np.full(len(scores), target)) for target in range(n_classes)]
    assert np.max(norms) <= of_task.squared_sensitivity
    if n_classes > 1:
        assert np.max(norms) > 0.99 * of_task.squared_sensitivity, "a record that is certain and wrong"


@given(st.data(), st.sampled_from([2, *N_CLASSES]))
@settings(deadline=None, max_examples=150)
def test_no_record_of_several_classes_adds_more_than_the_sensitivity(data, n_classes):
    near = st.integers(-(16 * 2**20), 16 * 2**20)
    row = st.lists(near | st.integers(MIN_SCORE, MAX_SCORE), min_size=n_classes, max_size=n_classes)
    scores = np.array(data.draw(st.lists(row, min_size=1, max_size=5)))
    targets = data.draw(st.lists(st.integers(0, n_classes - 1), min_size=len(scores), max_size=len(scores)))
    of_task = SoftmaxGradients(n_classes)
    assert squared_norms(of_task, scores, np.array(targets)).max() <= of_task.squared_sensitivity


@pytest.mark.parametrize("n_classes", N_CLASSES)
def test_gradients_of_several_classes_are_those_of_the_softmax(n_classes):
    rng = np.random.default_rng(0)
    scores = np.rint(rng.normal(0, 2 * 2**20, (400, n_classes)))
    targets = rng.integers(0, n_classes, 400)
    exps = np.exp((scores - scores.max(axis=1, keepdims=True)) / 2**SCORE_BITS)
    p = exps / exps.sum(axis=1, keepdims=True)
    of_task = SoftmaxGradients(n_classes)
    vectors = vectors_of(of_task, scores, targets)
    assert vectors[:, :n_classes] / UNIT == pytest.approx(np.eye(n_classes)[targets] - p, abs=0.003)
    assert vectors[:, n_classes:] / of_task.weight_unit == pytest.approx(p * (1 - p), abs=0.003)


def test_kernel_with_twice_the_unit_is_detected(monkeypatch):
    add = gradients.boosting.add_softmax
    monkeypatch.setattr(gradients.boosting, "add_softmax", lambda *a: add(*a[:5], a[5] + 1, *a[6:]))
    for n_classes in N_CLASSES[1:]:
        scores = corners(n_classes)
        norms = squared_norms(SoftmaxGradients(n_classes), scores, np.zeros(len(scores)))
        assert norms.max() > SoftmaxGradients(n_classes).squared_sensitivity


# -- numbers ----------------------------------------------------------------------------------------------------------

CLIPS = [1, 2, 3, *EDGES.tolist()]


def norms_of_numbers(clip):
    of_task = ResidualGradients(clip, TARGET_UNITS)
    whole = 1 << RANGE_BITS
    near = np.array([0, 1, whole // 2, whole - 1, whole])[:, None] + [-2, -1, 0, 1, 2, -clip, clip, clip + 1, -clip - 1]
    scores = np.concatenate([near.ravel(), EXTREMES])[:, None]
    targets = [0, 1, TARGET_UNITS // 2, TARGET_UNITS - 1, TARGET_UNITS]
    return np.stack([squared_norms(of_task, scores, np.full(len(scores), target)) for target in targets])


@pytest.mark.parametrize("clip", CLIPS)
def test_residuals_stay_within_the_sensitivity_for_any_clip(clip):
    charged = ResidualGradients(clip, TARGET_UNITS).squared_sensitivity
    assert 0.99 * charged <= norms_of_numbers(clip).max() <= charged


@given(st.integers(1, 1 << RANGE_BITS), st.integers(MIN_SCORE, MAX_SCORE), st.integers(0, TARGET_UNITS))
@settings(deadline=None, max_examples=200)
def test_residual_is_its_share_of_the_clip(clip, score, target):
    of_task = ResidualGradients(clip, TARGET_UNITS)
    residual, count = vectors_of(of_task, [[score]], np.array([target]))[0].tolist()
    exact = min(max(target * of_task.scale - score, -clip), clip) / clip
    assert abs(residual / UNIT - exact) <= 1 / UNIT
    assert count == of_task.weight_unit
    assert residual**2 + count**2 <= of_task.squared_sensitivity


def test_clip_that_is_one_unit_too_large_is_detected(monkeypatch):
    add = gradients.boosting.add_residuals

    def looser(scores, targets, cells, scale, clip, *rest):
        add(scores, targets, cells, scale, clip + 1 + clip // 500, *rest)

    monkeypatch.setattr(gradients.boosting, "add_residuals", looser)
    for clip in CLIPS:
        assert norms_of_numbers(clip).max() > ResidualGradients(clip, TARGET_UNITS).squared_sensitivity


@pytest.mark.parametrize("clip", [0, -1, (1 << RANGE_BITS) + 1])
def test_clip_outside_of_the_range_is_refused(clip):
    with pytest.raises(ValueError, match="clip must be from 1 to"):
        ResidualGradients(clip, TARGET_UNITS)


# -- all --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "kind", "n_scores"),
    [
        (TargetLayout.of_number(TARGET_UNITS), ResidualGradients, 1),
        (TargetLayout.of_classes(1), SoftmaxGradients, 1),
        (TargetLayout.of_classes(2), LogisticGradients, 1),
        (TargetLayout.of_classes(3), SoftmaxGradients, 3),
        (TargetLayout.of_classes(1000), SoftmaxGradients, 1000),
    ],
)
def test_targets_have_their_gradients(layout, kind, n_scores):
    of_task = gradients_of(layout)
    assert type(of_task) is kind
    assert (of_task.n_scores, of_task.n_columns) == (n_scores, 2 * n_scores)


def test_whole_range_of_a_number_is_reached():
    of_task = gradients_of(TargetLayout.of_number(TARGET_UNITS))
    assert of_task.scale * TARGET_UNITS == 1 << RANGE_BITS
    vectors = vectors_of(of_task, [[0], [1 << RANGE_BITS]], np.array([TARGET_UNITS, 0]))
    assert vectors[:, 0].tolist() == [UNIT, -UNIT]
