"""The engine of boosting against one in plain NumPy: call by call, and in whole fits."""

import numpy as np
import pytest

from diprime._util.resources import Threads
from diprime.boosting import rows
from diprime.boosting.clipping import EDGES
from diprime.boosting.engine import BoostingEngine
from diprime.boosting.gradients import (
    CLIP,
    MAX_CELLS,
    RANGE_BITS,
    CellGrid,
    CurveGrid,
    ResidualGradients,
    gradients_of,
)
from diprime.domain.encoding import TargetLayout
from diprime.domain.features import TARGET_UNITS
from tests.encoded_rows import EncodedRows, random_curves, score_engine
from tests.execution.numpy_scores import NumpyBoostingEngine
from tests.small_data import TASKS, assert_same_forest, boost, make

LAYOUTS = {
    "one": TargetLayout.of_classes(1),
    "two": TargetLayout.of_classes(2),
    "five": TargetLayout.of_classes(5),
    "number": TargetLayout.of_number(TARGET_UNITS),
}
N_FEATURES = 3


def draw_rows(layout, n, seed=0):
    """Return codes and targets, some of which are missing."""
    rng = np.random.default_rng(seed)
    codes = rng.choice([0, 1, 2, 50, 254, 255], (n, N_FEATURES)).astype(np.uint8)
    return codes, rng.integers(-1, layout.n_targets, n).astype(np.int32)


def draw_grid(rng):
    n = int(rng.integers(1, 3))
    sizes = rng.choice([1, 2, 4, 16], n)
    cells = np.stack([rng.integers(0, size, 256) for size in sizes])
    if n > 1:
        cells[0] *= sizes[1]
    features = rng.permutation(N_FEATURES)[:n].astype(np.int32)
    return CellGrid(features, np.ascontiguousarray(cells.astype(np.uint8)), int(np.prod(sizes)))


def answers(kind, layout, codes, target, n_threads=1, n_rounds=6, seed=1, weights=None):
    """Return everything that an engine says in some rounds, in some of which scores do not move or are asked twice."""
    rng = np.random.default_rng(seed)
    gradients = gradients_of(layout)
    with Threads(n_threads) as threads:
        engine = score_engine(EncodedRows(codes), target, layout, threads, weights, kind=kind)
        said = [engine.target_counts(), engine.code_sums()]
        for _ in range(2):
            curves = random_curves(rng, N_FEATURES, gradients.n_scores)
            said.append(engine.curve_sums(curves, gradients))
            engine.start(curves)  # again, as before every change of the clip
        for number in range(n_rounds):
            if layout.task == "regression":
                said.append(engine.residual_counts(gradients.scale, EDGES))
                gradients = ResidualGradients(int(rng.choice(EDGES)), layout.units)
            grid = draw_grid(rng)
            said.append(engine.gradient_sums(grid, gradients))
            steps = rng.integers(-(2**19), 2**19, (grid.n_cells, gradients.n_scores)).astype(np.int32)
            if number != 3:
                engine.move_scores(steps)
            if layout.task == "regression":
                said.append(engine.residual_counts(gradients.scale, EDGES))
    return said


def assert_same(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


@pytest.mark.parametrize("n", [0, 1, 2, 300])
@pytest.mark.parametrize("name", LAYOUTS)
def test_all_sums_are_those_of_plain_numpy(name, n):
    layout = LAYOUTS[name]
    codes, target = draw_rows(layout, n)
    assert_same(answers(BoostingEngine, layout, codes, target), answers(NumpyBoostingEngine, layout, codes, target))


@pytest.mark.parametrize("name", LAYOUTS)
def test_sums_do_not_depend_on_threads_nor_on_blocks(name, monkeypatch):
    monkeypatch.setattr(rows, "_MIN_SHARD_ROWS", 10)
    for name_of_size in ("BLOCK_ROWS", "ROUND_BLOCK_ROWS", "CURVE_BLOCK_ROWS"):
        monkeypatch.setattr(rows, name_of_size, 7)
    layout = LAYOUTS[name]
    codes, target = draw_rows(layout, 500)
    expected = answers(NumpyBoostingEngine, layout, codes, target)
    for n_threads in (1, 2, 5):
        assert_same(answers(BoostingEngine, layout, codes, target, n_threads), expected)


@pytest.mark.parametrize("name", LAYOUTS)
def test_sums_do_not_depend_on_threads_for_many_rows(name):
    """So many rows that they are shared among threads, in several blocks."""
    layout = LAYOUTS[name]
    codes, target = draw_rows(layout, 2 * rows._MIN_SHARD_ROWS + 3)
    expected = answers(NumpyBoostingEngine, layout, codes, target, n_rounds=2)
    for n_threads in (1, 2):
        assert_same(answers(BoostingEngine, layout, codes, target, n_threads, n_rounds=2), expected)


@pytest.mark.parametrize("name", LAYOUTS)
def test_rows_without_a_target_are_left_out(name):
    layout = LAYOUTS[name]
    codes, target = draw_rows(layout, 200)
    known = target >= 0
    assert 0 < known.sum() < 200 or name == "number"
    target[:5] = -1
    known = target >= 0
    expected = answers(BoostingEngine, layout, codes[known], target[known])
    assert_same(answers(BoostingEngine, layout, codes, target), expected)
    assert expected[0].sum() == known.sum()


@pytest.mark.parametrize("name", LAYOUTS)
def test_weighted_record_counts_as_so_many_equal_ones(name):
    layout = LAYOUTS[name]
    codes, target = draw_rows(layout, 150)
    weights = np.random.default_rng(2).integers(1, 9, 150).astype(np.uint8)

    repeated = np.repeat(codes, weights, axis=0), np.repeat(target, weights)
    found = answers(BoostingEngine, layout, codes, target, weights=weights)
    assert_same(found, answers(NumpyBoostingEngine, layout, *repeated))


def test_order_of_rows_does_not_matter():
    layout = LAYOUTS["five"]
    codes, target = draw_rows(layout, 200)
    order = np.random.default_rng(5).permutation(200)
    expected = answers(BoostingEngine, layout, codes, target)
    assert_same(answers(BoostingEngine, layout, codes[order], target[order]), expected)


def test_residuals_on_an_edge_are_in_the_bin_above():
    layout = LAYOUTS["number"]
    codes, target = np.zeros((1, 1), dtype=np.uint8), np.array([TARGET_UNITS], dtype=np.int32)
    edges = np.array([10, 20, 30])
    for residual, place in [(0, 0), (9, 0), (-9, 0), (10, 1), (-10, 1), (19, 1), (20, 2), (29, 2), (30, 3), (999, 3)]:
        engine = score_engine(EncodedRows(codes), target, layout, Threads(1))
        engine.start(CurveGrid.constant_scores(np.array([(1 << RANGE_BITS) - residual], dtype=np.int32)))
        assert engine.residual_counts(1 << (RANGE_BITS - 12), edges).tolist() == [int(i == place) for i in range(4)]


def test_more_cells_than_a_byte_holds_are_refused():
    cells = np.zeros((2, 256), dtype=np.uint8)
    features = np.array([0, 1], dtype=np.int32)
    CellGrid(features, cells, MAX_CELLS)
    for n_cells in (0, MAX_CELLS + 1):
        with pytest.raises(ValueError, match=f"n_cells .*{MAX_CELLS}"):
            CellGrid(features, cells, n_cells)
    cells[0, 7], cells[1, 9] = 200, 55
    CellGrid(features, cells, 256)
    with pytest.raises(ValueError, match=f"n_cells .*{MAX_CELLS}"):
        CellGrid(features, cells, 255)


def test_second_engine_has_the_same_public_methods():
    first, second = (
        {name for name in vars(engine) if name[0] != "_"} for engine in (BoostingEngine, NumpyBoostingEngine)
    )
    assert first == second


# -- whole fits -------------------------------------------------------------------------------------------------------

ENGINE = "diprime.estimators.boosting.BoostingEngine"


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize("epsilon", [1.0, float("inf")])
@pytest.mark.parametrize("n", [0, 1, 1200])
@pytest.mark.parametrize("task", TASKS)
def test_second_engine_gives_bit_identical_models(task, n, epsilon, monkeypatch):
    X, y = make(task, n)
    expected = boost(task, X, y, epsilon=epsilon, random_state=3, n_rounds=40)
    monkeypatch.setattr(ENGINE, NumpyBoostingEngine)
    found = boost(task, X, y, epsilon=epsilon, random_state=3, n_rounds=40)
    assert_same_forest(found, expected)
    assert str(found.privacy_) == str(expected.privacy_)


def moved_too_far(engine, steps):
    NumpyBoostingEngine.move_scores(engine, steps)
    engine._scores[0, 0] += 1 << 19


def with_a_record_more(engine, grid, gradients):
    sums = NumpyBoostingEngine.curve_sums(engine, grid, gradients)
    sums[0, 0, 0] += CLIP  # of one class only, because adding the same to all changes nothing
    return sums


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize(("name", "mistake"), [("move_scores", moved_too_far), ("curve_sums", with_a_record_more)])
@pytest.mark.parametrize("task", TASKS)
def test_wrong_second_engine_is_detected(task, name, mistake, monkeypatch):
    X, y = make(task, 300)
    expected = boost(task, X, y, epsilon=float("inf"), random_state=3)
    monkeypatch.setattr(ENGINE, type("Wrong", (NumpyBoostingEngine,), {name: mistake}))
    with pytest.raises(AssertionError):
        assert_same_forest(boost(task, X, y, epsilon=float("inf"), random_state=3), expected)
