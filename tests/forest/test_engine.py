"""Training asks the protocol and nothing else: another engine gives the same model, bit for bit.

The engine: however rows are sharded, chunked and subtracted, the sums are those of counting them directly.
"""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime import PrivacyWarning
from diprime._util.resources import Threads
from diprime.domain.encoding import ClippingRanges, TargetLayout
from diprime.execution import partition
from diprime.forest import engine as partitioned
from diprime.privacy.randomness import RandomSource
from tests.encoded_rows import EncodedRows, FixedAssignment, bins_of, tree_engine
from tests.execution.direct_counts import LAYOUTS, N_FEATURES, DirectCounts, MadeRows, seen_through, windows_of
from tests.execution.numpy_engine import NumpyEngine
from tests.golden import CASES
from tests.small_data import assert_same_forest

# Forests of few rows, on which the plain engine does not take long: all methods, tasks and ways to share rows.
NAMES = [name for name, case in CASES.items() if case.kind is None and case.n <= 1500]


@pytest.mark.parametrize("name", NAMES)
def test_second_engine_gives_bit_identical_models(monkeypatch, name):
    made = []

    def make(*arguments):
        made.append(NumpyEngine(*arguments))
        return made[-1]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        expected = CASES[name].fit()
        monkeypatch.setattr("diprime.estimators.forest.ForestEngine", make)
        found = CASES[name].fit()
    assert made, "the other engine was used"
    assert_same_forest(found, expected)
    assert str(found.privacy_) == str(expected.privacy_)


@pytest.mark.parametrize("name", NAMES)
def test_wide_and_packed_bins_give_bit_identical_models(monkeypatch, name):
    """Where bins are wide, costs are computed in integers: with so few rows, floats round to the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        expected = CASES[name].fit()
        monkeypatch.setattr(TargetLayout, "max_rows", 255)
        found = CASES[name].fit()
    assert_same_forest(found, expected)


def test_engine_that_loses_a_record_is_detected(monkeypatch):
    class Forgetful(NumpyEngine):
        def node_sums(self, window):
            sums = super().node_sums(window)
            sums[np.argmax(sums.sum(axis=1)), 0] -= 1
            return sums

    case = CASES["joint, two"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        expected = case.fit()
        monkeypatch.setattr("diprime.estimators.forest.ForestEngine", Forgetful)
        found = case.fit()
    with pytest.raises(AssertionError):
        assert_same_forest(found, expected)


NUMBER = LAYOUTS["number"]


def random_splits(n_nodes, seed):
    """Return features and masks; some nodes send all rows to one side, so that empty nodes follow."""
    rng = np.random.default_rng(seed)
    masks = rng.integers(0, 256, size=(n_nodes, 32)).astype(np.uint8)
    masks[rng.random(n_nodes) < 0.2] = 0
    masks[rng.random(n_nodes) < 0.2] = 255
    return rng.integers(0, N_FEATURES, size=n_nodes).astype(np.int32), masks


def random_windows(n_nodes, seed):
    """Return windows of all widths, siblings' no more alike than others'."""
    rng = np.random.default_rng(seed)
    width = 2 ** rng.integers(0, 13, size=n_nodes)
    low = rng.integers(0, 4097 - width)
    return ClippingRanges(low, low + width)


def check_histograms(engine, expected):
    """Compare the histograms of a level, chunk by chunk; return the number of chunks."""
    counts, values = expected.histograms()
    shift = np.uint64(expected.layout.shift)
    bounds = list(engine.chunks())
    assert [b for b, _ in bounds] == [0, *(e for _, e in bounds[:-1])]
    assert bounds[-1][1] == expected.n_nodes
    for begin, end in bounds:
        bins = bins_of(engine, begin, end)
        assert len(bins) == end - begin
        assert (bins >> shift == counts[begin:end].astype(np.uint64)).all()
        assert (bins & ((np.uint64(1) << shift) - np.uint64(1)) == values[begin:end].astype(np.uint64)).all()
    return len(bounds)


def check_levels(made, n_threads, depth, seed, look=lambda level: True, windows=None, own_from=()):
    """Compare an engine with direct counting, level by level, and its leaf sums; return how the chunks fell.

    ``windows`` are those of all splits and of leaves; at the levels of ``own_from``, nodes get windows of their own.
    """
    expected = DirectCounts(made)
    for_splits, for_leaves = windows or [made.layout.whole_range] * 2
    chunks = []
    with Threads(n_threads) as threads:
        engine = made.engine(threads)
        for each in (engine, expected):
            each.set_windows(for_splits)
        for level in range(depth):
            if level in own_from:
                for each in (engine, expected):
                    each.set_windows(random_windows(expected.n_nodes, seed + 100 * level))
            if look(level):
                chunks.append(check_histograms(engine, expected))
            splits = random_splits(expected.n_nodes, seed + level)
            for each in (engine, expected):
                each.route(*splits)
            assert (engine.node_sums(for_leaves) == expected.node_sums(for_leaves)).all()
    return chunks


# -- histograms and leaf sums ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [1, 2, 3, 7])
@pytest.mark.parametrize("name", LAYOUTS)
def test_histograms_by_subtraction_and_shards_are_those_of_direct_counting(name, n_threads):
    chunks = check_levels(MadeRows.draw(LAYOUTS[name], 40_000, 1, n_trees=3), n_threads, 4, 5)
    assert chunks == [1, 1, 1, 1]


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize(
    "windows",
    [
        (windows_of((1000, 1700)), windows_of((300, 2400))),
        (windows_of((300, 2400)), windows_of((1000, 1700))),
        (windows_of((4095, 4096)), windows_of((0, 1))),
        (windows_of((0, 4096)), windows_of((2000, 2016))),
    ],
)
def test_splits_and_leaves_have_separate_clipping_ranges(windows, n_threads):
    check_levels(MadeRows.draw(NUMBER, 3000, 8, n_trees=2), n_threads, 3, 2, windows=windows)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("nodes_per_chunk", [None, 4, 12])
@pytest.mark.parametrize("own_from", [(0,), (2,), (1, 3), (2, 3)])
def test_node_uses_the_latest_clipping_range_on_its_path(monkeypatch, own_from, nodes_per_chunk, n_threads):
    """Leaves do not; and what was counted through one window is not subtracted from what was through another."""
    if nodes_per_chunk:  # in chunks from the second level on, or from the fourth on; otherwise never
        monkeypatch.setattr(partitioned, "CHUNK_BYTES", nodes_per_chunk * 8 * N_FEATURES * 256)
    made = MadeRows.draw(NUMBER, 20_000, 11, n_trees=3)
    windows = windows_of((300, 3000)), windows_of((1000, 1700))
    chunks = check_levels(made, n_threads, 5, 3, windows=windows, own_from=own_from)
    assert chunks == [-(-3 * 2**level // (nodes_per_chunk or 99)) for level in range(5)]


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("looked", [(0, 3, 4), (2, 4), (1, 2, 3)])
def test_clipping_ranges_persist_through_levels_without_histograms(looked, n_threads):
    made = MadeRows.draw(NUMBER, 9_000, 12, n_trees=2)
    check_levels(made, n_threads, 5, 1, look=lambda level: level in looked, own_from=(1, 3))


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("nodes_per_chunk", [2, 4, 6])
def test_small_chunks_change_nothing(monkeypatch, n_threads, nodes_per_chunk):
    layout = LAYOUTS["classes"]
    monkeypatch.setattr(partitioned, "CHUNK_BYTES", nodes_per_chunk * 8 * N_FEATURES * 256 * layout.n_columns + 100)
    chunks = check_levels(MadeRows.draw(layout, 14_000, 2, n_trees=3), n_threads, 4, 9)
    assert chunks == [-(-3 * 2**level // nodes_per_chunk) for level in range(4)]


@pytest.mark.parametrize("n_threads", [1, 2, 7])
@pytest.mark.parametrize("name", LAYOUTS)
def test_no_rows_and_only_rows_without_a_target(name, n_threads):
    check_levels(MadeRows.draw(LAYOUTS[name], 0, 0, n_trees=2), n_threads, 3, 0)
    check_levels(MadeRows.draw(LAYOUTS[name], 50, 0, n_trees=2, left_out=2), n_threads, 3, 0)


@given(
    st.sampled_from(sorted(LAYOUTS)),
    st.lists(st.integers(0, 9000), min_size=1, max_size=6),
    st.sampled_from([1, 2, 3, 7]),
    st.integers(0, 1000),
)
@settings(derandomize=True, deadline=None, max_examples=30)
def test_segments_of_any_sizes_are_shared_among_threads(name, sizes, n_threads, seed):
    made = MadeRows.draw(LAYOUTS[name], sum(sizes), seed, left_out=0)
    trees = np.repeat(np.arange(len(sizes)), sizes)
    made.trees, made.n_trees = np.random.default_rng(seed).permutation(trees).astype(np.uint16), len(sizes)
    check_levels(made, n_threads, 2, seed)


# -- counts of targets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("name", LAYOUTS)
def test_target_counts_of_nodes_are_independent_of_clipping_ranges(name, n_threads):
    layout = LAYOUTS[name]
    made = MadeRows.draw(layout, 9000, 14, n_trees=3)
    made.target[:2] = 0, layout.n_targets - 1
    expected = DirectCounts(made)
    with Threads(n_threads) as threads:
        engine = made.engine(threads)
        engine.set_windows(windows_of((1000, 1001)))
        for level in range(4):
            found = engine.node_target_counts()
            assert found.dtype == np.int64
            np.testing.assert_array_equal(found, expected.node_target_counts())
            if level == 2 and name == "number":
                engine.set_windows(random_windows(expected.n_nodes, 0))
                np.testing.assert_array_equal(engine.node_target_counts(), found)
            splits = random_splits(expected.n_nodes, level)
            engine.route(*splits)
            expected.route(*splits)


@pytest.mark.parametrize(
    ("target", "expected"),
    [([], [0] * 5), ([-1, -1], [0] * 5), ([4, -1, 0, 4], [1, 0, 0, 0, 2]), ([2], [0, 0, 1, 0, 0])],
)
def test_valid_targets_are_counted_before_trees_are_assigned(target, expected):
    rows = EncodedRows(np.zeros((len(target), 1), dtype=np.uint8))
    engine = tree_engine(rows, np.array(target, dtype=np.int32), TargetLayout.of_number(4), Threads(1))
    found = engine.target_counts()
    assert found.dtype == np.int64
    assert found.tolist() == expected


@pytest.mark.parametrize("name", LAYOUTS)
def test_target_counts_include_records_without_a_tree(name):
    made = MadeRows.draw(LAYOUTS[name], 500, 3, n_trees=2)
    expected = DirectCounts(made).node_target_counts().sum(axis=0)
    engine = made.engine(Threads(1))
    assert engine.target_counts().shape == (made.layout.n_targets,)
    assert (engine.target_counts() == expected).all()
    engine.route(*random_splits(2, 0))
    assert (engine.target_counts() == expected).all()
    engine.assign_trees(FixedAssignment(np.full(500, 2, dtype=np.uint16), 2), RandomSource(0))
    engine.start()
    assert not engine.node_target_counts().any()
    assert (engine.target_counts() == expected).all()


# -- trees -------------------------------------------------------------------------------------------------------------


def test_assignment_is_drawn_once_for_all_rows_from_the_given_bits():
    made = MadeRows.draw(LAYOUTS["classes"], 300, 5, n_trees=4)
    asked, coins = [], RandomSource(0)

    class Assignment(FixedAssignment):
        def draws(self, sizes, source):
            asked.append((sizes, source))
            return super().draws(sizes, source)

    engine = tree_engine(EncodedRows(made.codes), made.target, made.layout, Threads(1))
    engine.assign_trees(Assignment(made.trees, 4), coins)
    engine.start()
    assert asked == [([300], coins)], "rows without a target are assigned as well: leaving them out moves no other"
    assert (engine.node_target_counts() == DirectCounts(made).node_target_counts()).all()


@pytest.mark.parametrize("n_threads", [1, 2])
def test_second_assignment_equals_a_first_one(n_threads):
    """As every tree that learns from a bag of its own does."""
    first, second = (MadeRows.draw(NUMBER, 9000, 6, n_trees=n) for n in (3, 2))
    with Threads(n_threads) as threads:
        engine = first.engine(threads)
        engine.set_windows(windows_of((5, 6)))
        for level in range(3):
            bins_of(engine, 0, 3 * 2**level)
            engine.route(*random_splits(3 * 2**level, level))
        engine.assign_trees(FixedAssignment(second.trees, 2), RandomSource(0))
        engine.start()
        expected = DirectCounts(second)
        for level in range(3):
            check_histograms(engine, expected)
            for each in (engine, expected):
                each.route(*random_splits(2 * 2**level, level))


@pytest.mark.parametrize("kind", ["one for all", "one for each node"])
@pytest.mark.parametrize("level_of_windows", [0, 1, 2])
def test_restart_discards_clipping_ranges(level_of_windows, kind):
    engine = MadeRows.draw(NUMBER, 2000, 6, n_trees=3).engine(Threads(1))
    for_leaves = windows_of((100, 4000))

    def grow(*, through_windows):
        seen = []
        for level in range(3):
            if through_windows and level == level_of_windows:
                several = kind == "one for each node"
                engine.set_windows(random_windows(3 * 2**level, 7) if several else windows_of((500, 2000)))
            seen += [bins_of(engine, 0, 3 * 2**level), engine.node_sums(for_leaves)]
            if level < 2:
                engine.route(*random_splits(3 * 2**level, level))
        return seen

    plain = grow(through_windows=False)
    engine.start()
    through_windows = grow(through_windows=True)
    engine.start()
    again = grow(through_windows=False)
    assert all((a == b).all() for a, b in zip(plain, again, strict=True))
    alike = [(a == b).all() for a, b in zip(plain, through_windows, strict=True)]
    assert alike == [x for level in range(3) for x in (level < level_of_windows, True)]


def test_largest_number_of_trees():
    made = MadeRows.draw(LAYOUTS["binary"], 10, 0, left_out=0)
    made.target[3] = -1
    made.trees, made.n_trees = np.full(10, 65534, dtype=np.uint16), 65535
    sums = made.engine(Threads(1)).node_sums(made.layout.whole_range)
    assert sums.shape == (65535, 2)
    assert sums[65534].sum() == sums.sum() == 9


# -- one record more ---------------------------------------------------------------------------------------------------

windows = st.tuples(st.integers(0, 4096), st.integers(0, 4096)).filter(lambda w: w[0] < w[1]).map(windows_of)


def engines_of_neighbours(n, seed, value):
    """Return rows, and two engines: with all of the rows, and without the last, whose target is given."""
    made = MadeRows.draw(NUMBER, n, seed, n_trees=2, left_out=0)
    made.target[-1] = value
    return made, made.engine(Threads(1)), made.only(slice(-1)).engine(Threads(1))


def assert_one_bin_of_each_feature_differs(with_it, without, node, codes, amount, n_nodes):
    bins = bins_of(with_it, 0, n_nodes) - bins_of(without, 0, n_nodes)
    place = node, np.arange(N_FEATURES) * 256 + codes
    assert (bins[place] == np.uint64(amount)).all()
    bins[place] = 0
    assert not bins.any()


@given(windows, windows, st.integers(0, 4096), st.integers(0, 100))
@settings(deadline=None, max_examples=30)
def test_one_more_record_changes_one_bin_of_each_feature_and_one_leaf_by_one_vector(
    for_splits, for_leaves, value, seed
):
    made, with_it, without = engines_of_neighbours(30, seed, value)
    for engine in (with_it, without):
        engine.set_windows(for_splits)
    tree = int(made.trees[-1])
    amount = (1 << NUMBER.shift) + int(seen_through(for_splits, [value], [0], NUMBER)[0])
    assert_one_bin_of_each_feature_differs(with_it, without, tree, made.codes[-1], amount, 2)
    sums = with_it.node_sums(for_leaves) - without.node_sums(for_leaves)
    assert (sums >= 0).all()
    assert sums.sum(axis=1).tolist() == [NUMBER.units * (p == tree) for p in range(2)]
    assert sums[tree, 1] == seen_through(for_leaves, [value], [0], NUMBER)[0]


@given(st.integers(0, 4096), st.integers(0, 2), st.integers(0, 2), st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_record_changes_one_node_under_clipping_ranges_of_nodes(value, level, further, seed):
    """The windows are released: the same with the record and without it. Further levels subtract siblings."""
    made, *engines = engines_of_neighbours(60, seed, value)
    with_it, without = engines
    node, amount = int(made.trees[-1]), (1 << NUMBER.shift) + value
    for here in range(level + further + 1):
        n_nodes = 2 * 2**here
        if here == level:
            own = random_windows(n_nodes, seed)
            amount = (1 << NUMBER.shift) + int(seen_through(own, [value], [node], NUMBER)[0])
            for engine in engines:
                engine.set_windows(own)
        assert_one_bin_of_each_feature_differs(with_it, without, node, made.codes[-1], amount, n_nodes)
        targets = with_it.node_target_counts() - without.node_target_counts()
        assert targets[node, value] == np.abs(targets).sum() == 1
        features, masks = random_splits(n_nodes, seed + here)
        code = int(made.codes[-1, features[node]])
        node = 2 * node + (int(masks[node, code >> 3]) >> (code & 7) & 1)
        for engine in engines:
            engine.route(features, masks)


def test_too_many_rows_are_refused_before_anything_is_summed(monkeypatch):
    monkeypatch.setattr(partition, "MAX_ROWS", 9)
    MadeRows.draw(LAYOUTS["binary"], 9, 0).engine(Threads(1))
    rows = EncodedRows(np.zeros((10, 1), dtype=np.uint8))
    rows.read = None
    with pytest.raises(ValueError, match="maximum of 9 rows"):
        tree_engine(rows, np.zeros(10, dtype=np.int32), LAYOUTS["binary"], Threads(1))
