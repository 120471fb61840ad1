"""A record of weight w counts as w equal records, in every answer of every engine."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime._util.resources import Threads
from diprime.boosting.engine import BoostingEngine
from diprime.boosting.gradients import CellGrid, ResidualGradients, gradients_of
from diprime.boosting.rows import BeginScores
from diprime.domain.encoding import ClippingRanges, TargetLayout
from diprime.execution import partition as module
from diprime.execution.partition import Partition, SampledRecords, total_weight
from diprime.forest.engine import ForestEngine
from diprime.forest.rows import begin_trees
from diprime.privacy.randomness import RandomSource
from tests.encoded_rows import EncodedRows, FixedAssignment, bins_of, random_curves, score_engine, tree_engine
from tests.execution.direct_counts import LAYOUTS
from tests.execution.numpy_engine import NumpyEngine
from tests.execution.numpy_scores import NumpyBoostingEngine

N_FEATURES = 6  # with a target, the eight bytes of a word: a weight needs another one
ONE = Threads(1)


def weighted_rows(layout, n, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 256, (n, N_FEATURES)).astype(np.uint8)
    target = rng.integers(-1, layout.n_targets, n).astype(np.int32)
    weights = rng.choice([0, 1, 2, 3, 12, 204, 255], n).astype(np.uint8)
    target[weights == 0] = -1
    return codes, target, weights, rng.integers(0, 2, n).astype(np.uint16)


def repeated(weights, *arrays):
    times = np.maximum(weights, 1)  # rows without a target are left out anyway
    return [np.repeat(array, times, axis=0) for array in arrays]


def tree_answers(engine, trees, layout, seed):
    """Return all answers of an engine over two levels, with windows of nodes on the second."""
    rng = np.random.default_rng(seed)
    answers = [engine.target_counts()]
    engine.assign_trees(FixedAssignment(trees, 2), RandomSource(0))
    engine.start()
    for _ in range(2):
        parts = [bins_of(engine, a, b) for a, b in engine.chunks()]
        answers += [np.concatenate(parts), engine.node_target_counts(), engine.node_sums(layout.whole_range)]
        n_nodes = len(answers[-1])
        engine.route(
            rng.integers(0, N_FEATURES, n_nodes).astype(np.int32), rng.integers(0, 256, (n_nodes, 32)).astype(np.uint8)
        )
        if layout.task == "regression":
            low = rng.integers(0, 2000, 2 * n_nodes)
            engine.set_windows(ClippingRanges(low, low + rng.integers(1, 2000, 2 * n_nodes)))
    return answers


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@given(n=st.integers(0, 40), seed=st.integers(0, 2**20))
@settings(deadline=None, max_examples=25)
def test_forest_sums_treat_weights_as_repetitions(layout, n, seed):
    codes, target, weights, trees = weighted_rows(layout, n, seed)
    many_codes, many_target, many_trees = repeated(weights, codes, target, trees)
    expected = tree_answers(tree_engine(EncodedRows(many_codes), many_target, layout, ONE), many_trees, layout, seed)
    for kind in (ForestEngine, NumpyEngine):
        found = tree_answers(
            tree_engine(EncodedRows(codes), target, layout, ONE, weights, kind=kind), trees, layout, seed
        )
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def score_answers(engine, layout, seed):
    rng = np.random.default_rng(seed)
    gradients = gradients_of(layout)
    curves = random_curves(rng, N_FEATURES, gradients.n_scores)
    answers = [engine.target_counts(), engine.code_sums(), engine.curve_sums(curves, gradients)]
    engine.start(curves)
    for _ in range(3):
        grid = CellGrid(
            rng.choice(N_FEATURES, 2, replace=False).astype(np.int32),
            (rng.integers(0, 4, (2, 256)) * [[4], [1]]).astype(np.uint8),
            16,
        )
        answers.append(engine.gradient_sums(grid, gradients))
        engine.move_scores(rng.integers(-(2**20), 2**20, (16, gradients.n_scores)).astype(np.int32))
        if isinstance(gradients, ResidualGradients):
            answers.append(engine.residual_counts(gradients.scale, np.array([1000, 2**18, 2**22])))
    return answers


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@given(n=st.integers(0, 40), seed=st.integers(0, 2**20))
@settings(deadline=None, max_examples=25)
def test_boosting_sums_treat_weights_as_repetitions(layout, n, seed):
    codes, target, weights, _ = weighted_rows(layout, n, seed)
    many_codes, many_target = repeated(weights, codes, target)
    expected = score_answers(score_engine(EncodedRows(many_codes), many_target, layout, ONE), layout, seed)
    for kind in (BoostingEngine, NumpyBoostingEngine):
        found = score_answers(score_engine(EncodedRows(codes), target, layout, ONE, weights, kind=kind), layout, seed)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("make", [tree_engine, score_engine])
def test_too_large_sums_of_weights_are_refused(make, monkeypatch):
    layout = TargetLayout.of_number(4096)
    monkeypatch.setattr(module, "MAX_ROWS", 100)
    rows, target = EncodedRows(np.zeros((10, 2), dtype=np.uint8)), np.zeros(10, dtype=np.int32)
    make(rows, target, layout, ONE, np.full(10, 10, dtype=np.uint8))
    with pytest.raises(ValueError, match=r"record weight .*maximum of 100\."):
        make(rows, target, layout, ONE, np.array([11] + [10] * 9, dtype=np.uint8))


def test_sum_of_weights_does_not_overflow():
    rows = EncodedRows(np.zeros((8, 1), dtype=np.uint8))
    part = Partition(rows, SampledRecords(np.zeros(8, dtype=np.int32), np.full(8, 128, dtype=np.uint8)))
    for state in (part, begin_trees(part, ONE), BeginScores(1)(part, ONE)):
        assert total_weight(state, ONE) == 1024


def test_too_many_rows_or_weights_are_refused():
    most, of_partition = 1 << 40, 1 << 31
    module.check_weight(most)
    module.check_sizes([of_partition] * 512)
    with pytest.raises(ValueError, match=r"record weight .*1,099,511,627,776\. .*max_records_per_group"):
        module.check_weight(most + 1)
    with pytest.raises(ValueError, match=r"data .*1,099,511,627,776 rows\.$"):
        module.check_sizes([*[of_partition] * 512, 1])
    with pytest.raises(ValueError, match=r"partition .*2,147,483,648 rows"):
        module.check_sizes([0, of_partition + 1])
