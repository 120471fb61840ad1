"""Gradients of records, and their products with basis functions: never longer than the charged sensitivity."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.boosting import gradients
from diprime.boosting.clipping import EDGES
from diprime.boosting.gradients import (
    BASIS_BITS,
    CLIP,
    RANGE_BITS,
    SCORE_BITS,
    UNIT,
    CurveGrid,
    LogisticGradients,
    ResidualGradients,
    SoftmaxGradients,
    gradients_of,
    logistic_table,
)
from diprime.domain.encoding import TargetLayout
from diprime.domain.features import TARGET_UNITS

MAX_SCORE, MIN_SCORE = 2**31 - 1, -(2**31)
EXTREMES = [0, 1, -1, 2**20, -(2**20), 2**30, -(2**30), MAX_SCORE, MIN_SCORE]
N_CLASSES = [1, 3, 5, 26]


def vectors_of(gradients, scores, targets):
    """Return the vector of each record."""
    scores = np.ascontiguousarray(scores, dtype=np.int32)
    vectors = np.full((len(scores), gradients.n_columns), -99, dtype=np.int64)
    gradients.write(scores, np.ascontiguousarray(targets, dtype=np.uint16), 0, len(scores), vectors)
    return vectors


def squared_norms(gradients, scores, targets):
    """Return the squared norms of all vectors. That of the gradients alone is at most the squared clip."""
    vectors = vectors_of(gradients, scores, targets)
    assert (vectors[:, : gradients.n_scores] ** 2).sum(axis=1).max() <= CLIP**2
    return (vectors**2).sum(axis=1)


# -- two classes ------------------------------------------------------------------------------------------------------


def scores_of_all_rows():
    """Return scores on both ends of every row of the table, beyond it, and at the ends of 32 bits."""
    width, half = 1 << gradients._TABLE_SHIFT, len(logistic_table()) // 2
    firsts = np.arange(-half - 3, half + 3, dtype=np.int64) * width
    return np.concatenate([firsts, firsts + width - 1, EXTREMES])[:, None]


def norms_of_two_classes():
    scores = scores_of_all_rows()
    vectors = [vectors_of(LogisticGradients(), scores, np.full(len(scores), target)) for target in (0, 1)]
    return [(of_target**2).sum(axis=1).max() for of_target in vectors], np.abs(vectors)[..., 0].max()


def test_sensitivity_of_two_classes_is_exact():
    norms, longest = norms_of_two_classes()
    assert max(norms) == LogisticGradients().squared_sensitivity
    assert longest == CLIP


def test_gradients_of_two_classes_are_those_of_the_loss_at_every_score():
    scores = scores_of_all_rows()
    second, first = (vectors_of(LogisticGradients(), scores, np.full(len(scores), target)) for target in (1, 0))
    t = np.clip(scores[:, 0] / 2**SCORE_BITS, -30, 30)
    assert np.abs(second[:, 0] / UNIT - np.minimum(1, np.exp(-t)) / 2).max() < 0.002
    assert np.abs(first[:, 0] / UNIT + np.minimum(1, np.exp(t)) / 2).max() < 0.002
    assert np.abs(second[:, 1] / LogisticGradients().weight_unit - 1 / (1 + np.exp(np.abs(t))) / 2).max() < 0.002
    assert np.array_equal(second[:, 1], first[:, 1])
    assert len(np.unique(second[:, 0])) == len(np.unique(logistic_table()[:, 1])), "all rows of the table are used"


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.8, 0.99])
def test_mean_gradient_of_two_classes_vanishes_at_the_log_odds_and_grows_away_from_it(share):
    scores = np.arange(-9 << SCORE_BITS, 9 << SCORE_BITS, 1 << gradients._TABLE_SHIFT)[:, None]
    first, second = (vectors_of(LogisticGradients(), scores, np.full(len(scores), t))[:, 0] for t in (0, 1))
    mean = share * second + (1 - share) * first
    log_odds = np.log(share / (1 - share))
    low, high = (scores[found, 0] / 2**SCORE_BITS for found in (mean > 0.51, mean < -0.51))  # but for rounding
    assert low.max() - 0.01 <= log_odds <= high.min() + 0.01
    assert high.min() - low.max() < 0.01 + 0.0011 / min(share, 1 - share)
    assert np.diff(mean).max() <= 1, "the mean loss is convex, up to rounding"
    assert np.sign(mean[[0, -1]]).tolist() == [1, -1]


def test_table_beyond_the_sensitivity_is_detected(monkeypatch):
    charged, worse = LogisticGradients().squared_sensitivity, logistic_table().copy()
    worse[len(worse) // 3, 1] += 800
    monkeypatch.setattr(gradients, "logistic_table", lambda: worse)
    assert max(norms_of_two_classes()[0]) > charged
    gradients._largest_squared_norm.cache_clear()
    assert LogisticGradients().squared_sensitivity > charged, "the charge follows from the table"
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
        assert np.max(norms) > 0.99 * CLIP**2, "a record that is certain and wrong"


def test_hessians_of_three_equal_classes_are_the_longest():
    longest = vectors_of(SoftmaxGradients(3), np.zeros((1, 3)), np.array([0]))[0, 3:]
    assert (longest > 0).all()
    for n_classes in range(2, 9):
        hessians = vectors_of(SoftmaxGradients(n_classes), corners(n_classes), np.zeros(len(corners(n_classes))))
        assert ((hessians[:, n_classes:] ** 2).sum(axis=1) <= (longest**2).sum() + 8 * UNIT).all()


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
    expected = np.eye(n_classes)[targets] - p
    expected /= np.maximum(2 * np.linalg.norm(expected, axis=1, keepdims=True), 1)
    of_task = SoftmaxGradients(n_classes)
    vectors = vectors_of(of_task, scores, targets)
    assert vectors[:, :n_classes] / UNIT == pytest.approx(expected, abs=0.003)
    assert vectors[:, n_classes:] / of_task.weight_unit == pytest.approx(p * (1 - p), abs=0.003)


def test_kernel_with_twice_the_unit_is_detected(monkeypatch):
    write = gradients.boosting.softmax
    monkeypatch.setattr(gradients.boosting, "softmax", lambda *a: write(*a[:4], a[4] + 1, *a[5:]))
    for n_classes in N_CLASSES[1:]:
        scores = corners(n_classes)
        vectors = vectors_of(SoftmaxGradients(n_classes), scores, np.zeros(len(scores)))
        assert (vectors**2).sum(axis=1).max() > SoftmaxGradients(n_classes).squared_sensitivity


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
    assert abs(residual / CLIP - exact) <= 1 / CLIP
    assert count == of_task.weight_unit
    assert residual**2 + count**2 <= of_task.squared_sensitivity


def test_clip_that_is_too_large_is_detected(monkeypatch):
    write = gradients.boosting.residuals

    def looser(scores, targets, scale, clip, *rest):
        write(scores, targets, scale, clip + 1 + clip // 500, *rest)

    monkeypatch.setattr(gradients.boosting, "residuals", looser)
    for clip in CLIPS:
        with pytest.raises(AssertionError):
            norms_of_numbers(clip)


@pytest.mark.parametrize("clip", [0, -1, (1 << RANGE_BITS) + 1])
def test_clip_outside_of_the_range_is_refused(clip):
    with pytest.raises(ValueError, match=f"clip .*1 to {1 << RANGE_BITS}.*{clip}"):
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
    assert vectors[:, 0].tolist() == [CLIP, -CLIP]


# -- curves -----------------------------------------------------------------------------------------------------------


def squared_contribution(gradient, basis):
    """Return the squared norm of a record's product of gradient and basis vector, in Python integers."""
    return sum(int(g) ** 2 for g in gradient) * sum(int(b) ** 2 for b in basis)


def shorten(square, values, unit):
    grid = CurveGrid(*(np.zeros(shape, dtype=np.int32) for shape in (0, 1, (0, 256, 1), (0, 256))), 0, unit)
    return grid.shorten(np.array([values]), np.array([[square]]))[0].tolist()


units = st.sampled_from([1 << bits for bits in range(BASIS_BITS + 1)])
near_squares = st.builds(lambda root, by: max(root**2 + by, 0), st.integers(0, 46_340), st.integers(-1, 1))
squares = near_squares | st.integers(0, 2**31 - 1)
vectors = st.lists(st.integers(-CLIP, CLIP), min_size=1, max_size=5)


@given(squares, vectors | st.integers(-CLIP, CLIP).map(lambda g: [g]), units)
@settings(deadline=None, max_examples=500)
def test_shortened_gradient_is_the_longest_integer_within_the_bound(square, values, unit):
    shortened = shorten(square, values, unit)
    longer = max(square, unit**2)
    for value, short in zip(values, shortened, strict=True):
        assert short**2 * longer <= value**2 * unit**2, "exactly"
        assert (abs(short) + 1) ** 2 * longer >= value**2 * unit**2 or abs(short) + 1 > abs(value)
        assert short * value >= 0
    if square <= unit**2:
        assert shortened == values


@pytest.mark.parametrize("unit", [1, 8, 1 << BASIS_BITS])
@pytest.mark.parametrize("by", [-1, 0, 1])
def test_norms_at_perfect_squares_are_not_exceeded(unit, by):
    """A quotient that is an integer, and those next to it, for all integers that divide the largest gradient."""
    for divisor in (1 << k for k in range(11)):
        square = (unit * divisor) ** 2 + by
        (short,) = shorten(square, [CLIP], unit)
        assert short**2 * square <= (CLIP * unit) ** 2 < (short + 1) ** 2 * max(square, unit**2)


@st.composite
def records(draw):
    """Return a grid with the integer basis functions behind it, and records with extreme codes and scores."""
    n_features, n_scores = draw(st.sampled_from([1, 2, 3, 40])), draw(st.sampled_from([1, 1, 3, 5]))
    unit = draw(units)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_functions = draw(st.integers(1, 9))
    reach = draw(st.sampled_from([0, 1, unit // 2 + 1, 2 * unit]))
    basis = rng.integers(-reach, reach + 1, (n_features, n_functions, 256))
    basis[:, :, 250:] = 0  # codes without any value
    constant = int(rng.integers(0, unit + 1))
    values = rng.integers(-(2**24), 2**24, (n_features, 256, n_scores)).astype(np.int32)
    offset = rng.integers(-(2**24), 2**24, n_scores).astype(np.int32)
    features = rng.permutation(n_features).astype(np.int32)
    grid = CurveGrid(features, offset, values, (basis**2).sum(axis=1), constant**2, unit)
    columns = rng.choice([0, 1, 200, 254, 255], (n_features, 30)).astype(np.uint8)
    return grid, basis, constant, columns, rng.integers(0, 2**16, 30)


@given(records())
@settings(deadline=None, max_examples=80)
def test_product_of_gradient_and_basis_vector_is_within_the_charged_bound(drawn):
    grid, basis, constant, columns, targets = drawn
    n_scores = grid.values.shape[2]
    scores, norms = grid.look_up(columns, 0, columns.shape[1])
    kinds = [SoftmaxGradients(n_scores)] if n_scores > 1 else [LogisticGradients(), ResidualGradients(77, TARGET_UNITS)]
    for kind in kinds:
        n_targets = TARGET_UNITS + 1 if isinstance(kind, ResidualGradients) else max(n_scores, 2)
        full = vectors_of(kind, scores, targets % n_targets)[:, :n_scores]
        shortened = grid.shorten(full, norms)
        for i, gradient in enumerate(shortened.tolist()):
            of_codes = [basis[k, :, columns[j, i]].tolist() for k, j in enumerate(grid.features)]
            vector = [constant, *(value for functions in of_codes for value in functions)]
            assert sum(value**2 for value in vector) == int(norms[i, 0])
            assert squared_contribution(gradient, vector) <= (CLIP * grid.unit) ** 2
    expected = grid.offset + sum(grid.values[k, columns[j]].astype(int) for k, j in enumerate(grid.features))
    assert np.array_equal(scores, expected)


def test_gradient_that_is_not_shortened_is_detected(monkeypatch):
    """The test above fails if a norm is too small by one part in a hundred."""
    short = CurveGrid.shorten
    monkeypatch.setattr(CurveGrid, "shorten", lambda grid, full, squares: short(grid, full, squares * 99 // 100))
    with pytest.raises(AssertionError):
        test_norms_at_perfect_squares_are_not_exceeded(1 << BASIS_BITS, 0)


@pytest.mark.parametrize(
    "changed",
    [
        {"values": np.full((2, 256, 1), 1 << 30, dtype=np.int32)},
        {"values": np.full((2, 256, 1), -(1 << 30), dtype=np.int32)},
        {"offset": np.array([-(1 << 31)], dtype=np.int32)},
        {"norms": np.full((2, 256), 1 << 30)},
        {"norms": np.full((2, 256), -1)},
        {"constant": 1 << 31},
        {"constant": -1},
    ],
)
def test_curves_that_would_overflow_are_refused(changed):
    fields = {
        "features": np.arange(2, dtype=np.int32),
        "offset": np.zeros(1, dtype=np.int32),
        "values": np.zeros((2, 256, 1), dtype=np.int32),
        "norms": np.zeros((2, 256), dtype=np.int64),
        "constant": 0,
        "unit": 1,
    }
    CurveGrid(**fields)
    with pytest.raises(ValueError, match="values or norms"):
        CurveGrid(**{**fields, **changed})


def test_constant_scores_have_no_curves():
    grid = CurveGrid.constant_scores(np.array([5, -7], dtype=np.int32))
    scores, norms = grid.look_up(np.zeros((3, 4), dtype=np.uint8), 1, 4)
    assert scores.tolist() == [[5, -7]] * 3
    assert not norms.any()
