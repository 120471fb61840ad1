"""Answers do not depend on where partitions are, how the rows are cut into them, or whether states are lost."""

import numpy as np
import pytest

from diprime._util.resources import Threads
from diprime.boosting.engine import BoostingEngine
from diprime.domain.encoding import TargetLayout
from diprime.domain.records import EncodedBatches
from diprime.execution.executor import InProcess
from diprime.execution.partition import Partition, SampledRecords
from diprime.forest.engine import BagAssignment, ForestEngine, IndependentAssignment
from diprime.paper import EqualParts
from diprime.privacy.randomness import RandomSource
from tests.encoded_rows import EncodedRows, bins_of, score_engine, tree_engine
from tests.execution.direct_counts import LAYOUTS, windows_of
from tests.execution.numpy_engine import NumpyEngine
from tests.execution.numpy_scores import NumpyBoostingEngine
from tests.execution.replaying import ReplayingExecutor, assert_equal
from tests.execution.test_weights import score_answers

N_FEATURES = 6
CUTS = {"one": [], "three": [150, 151], "empty ones": [0, 0, 120, 300, 300], "many": list(range(10, 300, 10))}
ASSIGNMENTS = [IndependentAssignment(3), BagAssignment(), EqualParts(3)]


def drawn_rows(layout, n, *, weighted=False):
    rng = np.random.default_rng(n)
    codes = rng.choice([0, 1, 2, 3, 200, 254, 255], (n, N_FEATURES)).astype(np.uint8)
    target = rng.integers(-1, layout.n_targets, n).astype(np.int32)
    weights = rng.choice([1, 2, 3, 200], n).astype(np.uint8)
    return codes, target, weights if weighted else None


def answers(engine, layout, assignment):
    """Return all that an engine answers to three levels, twice: the second time with other trees of the rows."""
    rng = np.random.default_rng(1)
    said = [engine.target_counts()]
    source = RandomSource(7)
    for _ in range(2):
        engine.assign_trees(assignment, source)
        engine.start()
        n_nodes = assignment.n_trees
        for level in range(3):
            if level == 1 and layout.task == "regression":
                low = rng.integers(0, 2000, n_nodes)
                engine.set_windows(windows_of(*zip(low, low + 1 + rng.integers(0, 2000, n_nodes), strict=True)))
            said += [bins_of(engine, *chunk) for chunk in [(0, n_nodes)]]
            splits = rng.integers(0, N_FEATURES, n_nodes), rng.integers(0, 256, (n_nodes, 32))
            engine.route(splits[0].astype(np.int32), splits[1].astype(np.uint8))
            n_nodes *= 2
            said += [engine.node_target_counts(), engine.node_sums(layout.whole_range)]
    return said


def replaying(kind):
    """Return an engine whose executor loses every state."""

    def make(executor, *rest):
        states = [
            Partition(EncodedBatches(part.rows.n_features, [part.rows.codes]), part.records)
            for part in executor._states
        ]
        return kind(ReplayingExecutor(states, executor.sizes, Threads(1)), *rest)

    return make


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize("kind", [ForestEngine, replaying(ForestEngine)], ids=["in process", "replaying"])
@pytest.mark.parametrize("assignment", ASSIGNMENTS, ids=lambda assignment: type(assignment).__name__)
@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("name", LAYOUTS)
def test_forest_sums_do_not_depend_on_partitions(name, cuts, assignment, kind):
    layout = LAYOUTS[name]
    codes, target, weights = drawn_rows(layout, 300, weighted=True)
    expected = tree_engine(EncodedRows(codes), target, layout, Threads(1), weights, kind=NumpyEngine)
    found = tree_engine(EncodedRows(codes), target, layout, Threads(1), weights, kind=kind, cuts=cuts)
    assert_same(answers(found, layout, assignment), answers(expected, layout, assignment))


@pytest.mark.parametrize("kind", [BoostingEngine, replaying(BoostingEngine)], ids=["in process", "replaying"])
@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("name", LAYOUTS)
def test_boosting_sums_do_not_depend_on_partitions(name, cuts, kind):
    layout = LAYOUTS[name]
    codes, target, weights = drawn_rows(layout, 300, weighted=True)
    found, expected = (
        score_answers(score_engine(EncodedRows(codes), target, layout, Threads(1), weights, kind=k, cuts=c), layout, 3)
        for k, c in ((kind, cuts), (NumpyBoostingEngine, []))
    )
    assert_same(found, expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("max_rows", [255, 300, 1000])
@pytest.mark.parametrize("cuts", [[], [50], [100, 101, 250]], ids=str)
@pytest.mark.parametrize("name", LAYOUTS)
def test_rows_beyond_a_bin_are_counted_in_two_planes(name, cuts, max_rows, weighted, monkeypatch):
    layout = LAYOUTS[name]
    codes, target, weights = drawn_rows(layout, 400, weighted=weighted)
    made = [tree_engine(EncodedRows(codes), target, layout, Threads(1), weights, kind=NumpyEngine)]
    monkeypatch.setattr(TargetLayout, "max_rows", max_rows)
    made.append(tree_engine(EncodedRows(codes), target, layout, Threads(2), weights, cuts=cuts))
    assert made[1]._wide == (weighted or max_rows < 400)
    expected, found = (answers(engine, layout, IndependentAssignment(3)) for engine in made)
    assert_same(found, expected)


def test_comparison_detects_a_missing_partition():
    class Forgetful(InProcess):
        def sum(self, question, out=None):
            total = super().sum(question)
            return total - question(self._states[1], self._threads)

    def make(executor, *rest):
        return ForestEngine(Forgetful(executor._states, executor.sizes, Threads(1)), *rest)

    layout = LAYOUTS["binary"]
    codes, target, _ = drawn_rows(layout, 300)
    engines = [
        tree_engine(EncodedRows(codes), target, layout, Threads(1), kind=k, cuts=[150]) for k in (make, NumpyEngine)
    ]
    found, expected = (answers(engine, layout, IndependentAssignment(3)) for engine in engines)
    with pytest.raises(AssertionError):
        assert_same(found, expected)


def watched(asked):
    """Return a kind of engine whose questions are noted."""

    class Watched(InProcess):
        def sum(self, question, out=None):
            asked.append(question)
            return super().sum(question, out)

    return lambda executor, *rest: ForestEngine(Watched(executor._states, executor.sizes, Threads(1)), *rest)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("n_right", [5, 7, 9])
@pytest.mark.parametrize("name", LAYOUTS)
def test_smaller_sibling_over_all_partitions_is_counted(name, n_right, wide, monkeypatch):
    """One of six goes right in the first partition; in the second, more than half do."""
    layout, asked = LAYOUTS[name], []
    if wide:
        monkeypatch.setattr(TargetLayout, "max_rows", 10)
    codes = np.full((16, 2), 9, dtype=np.uint8)
    codes[:, 1] = 200
    codes[0, 1] = codes[6 : 5 + n_right, 1] = 77
    target = np.arange(16, dtype=np.int32) % layout.n_targets
    engine = tree_engine(EncodedRows(codes), target, layout, Threads(1), kind=watched(asked), cuts=[6])
    assert engine._wide == wide
    engine.assign_trees(IndependentAssignment(1), RandomSource(0))
    engine.start()
    engine.histograms(0, 1)
    asked.clear()
    mask = np.zeros((1, 32), dtype=np.uint8)
    mask[0, 77 // 8] = 1 << 77 % 8
    engine.route(np.ones(1, dtype=np.int32), mask)
    engine.histograms(0, 2)
    assert [question.nodes.tolist() for question in asked] == [[int(n_right < 8)]]
    assert engine.node_target_counts().sum(axis=1).tolist() == [16 - n_right, n_right]


def test_level_is_one_query():
    asked = []
    codes, target, _ = drawn_rows(LAYOUTS["binary"], 300)
    engine = tree_engine(EncodedRows(codes), target, LAYOUTS["binary"], Threads(1), kind=watched(asked), cuts=[100])
    engine.assign_trees(IndependentAssignment(3), RandomSource(0))
    engine.start()
    asked.clear()
    for level in range(3):
        n_nodes = 3 << level
        engine.histograms(0, n_nodes)
        engine.route(np.zeros(n_nodes, dtype=np.int32), np.full((n_nodes, 32), 2, dtype=np.uint8))
    engine.node_sums(LAYOUTS["binary"].whole_range)
    assert len(asked) == 4


@pytest.mark.parametrize("make", [lambda *a: ForestEngine(a[0], 1, *a[1:]), lambda *a: BoostingEngine(*a[:2])])
def test_memory_is_allocated_before_the_charge(make):
    class Full:
        def empty(self, shape, dtype):
            raise MemoryError

    part = Partition(EncodedRows(np.zeros((3, 1), dtype=np.uint8)), SampledRecords(np.zeros(3, dtype=np.int32)), Full())
    with pytest.raises(MemoryError):
        make(InProcess([part], [3], Threads(1)), LAYOUTS["binary"], Threads(1))


def test_sums_reuse_the_given_memory():
    layout = LAYOUTS["binary"]
    codes, target, _ = drawn_rows(layout, 300)
    parts = [
        Partition(EncodedRows(c), SampledRecords(t)) for c, t in ((codes[:99], target[:99]), (codes[99:], target[99:]))
    ]
    executor = InProcess(parts, [99, 201], Threads(1))
    out = np.zeros(2, dtype=np.int64)

    def question(state, threads, out=None):
        answer = np.empty(2, dtype=np.int64) if out is None else out
        answer[:] = [state.rows.n_rows, 1]
        return answer

    assert executor.sum(question, out) is out
    assert out.tolist() == [300, 2]
    assert executor.sum(question).tolist() == [300, 2]
