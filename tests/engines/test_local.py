"""The engine: however rows are sharded, chunked and subtracted, the sums are those of counting them directly."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime import histograms
from diprime._util.threads import Threads
from diprime.domain.target_layout import TargetLayout, Windows
from tests.encoded_rows import local_histograms

LAYOUTS = {
    "one class": TargetLayout.of_classes(1),
    "binary": TargetLayout.of_classes(2),
    "classes": TargetLayout.of_classes(5),
    "number": TargetLayout.of_number(4096),
}
N_FEATURES = 3


def random_rows(layout, n, seed, n_parts=1, left_out=0.1):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 256, size=(n, N_FEATURES)).astype(np.uint8)
    codes[:, 0] %= 5  # a feature of few codes
    high = layout.units + 1 if layout.units > 1 else layout.n_outputs
    target = rng.integers(0, high, size=n).astype(np.int32)
    target[rng.random(n) < left_out] = -1
    return codes, target, rng.integers(0, n_parts, size=n).astype(np.uint16)


def random_splits(n_nodes, seed):
    """Return features and masks; some nodes send all rows to one side, so that empty nodes follow."""
    rng = np.random.default_rng(seed)
    masks = rng.integers(0, 256, size=(n_nodes, 32)).astype(np.uint8)
    masks[rng.random(n_nodes) < 0.2] = 0
    masks[rng.random(n_nodes) < 0.2] = 255
    return rng.integers(0, N_FEATURES, size=n_nodes).astype(np.int32), masks


def windows_of(*pairs):
    low, high = np.array(pairs, dtype=np.int64).T
    return Windows(low, high)


def random_windows(n_nodes, seed):
    """Return windows of all widths, siblings' no more alike than others'."""
    rng = np.random.default_rng(seed)
    width = 2 ** rng.integers(0, 13, size=n_nodes)
    low = rng.integers(0, 4097 - width)
    return Windows(low, low + width)


def seen_through(windows, target, nodes, layout):
    """Return numeric targets as the windows of their nodes show them: ends are those of the range, in whole units."""
    if layout.units == 1:
        return target
    seen = []
    for v, node in zip(target, nodes, strict=True):
        low, high = int(windows.low[node]), int(windows.high[node])
        share = min(max(Fraction(int(v) - low, high - low), Fraction(0)), Fraction(1))
        seen.append(math.floor(share * layout.units + Fraction(1, 2)))
    return np.array(seen, dtype=np.int32)


def vectors_of(target, layout):
    if layout.units > 1:
        return np.stack([layout.units - target, target], axis=1).astype(np.int64)
    return np.eye(layout.n_outputs, dtype=np.int64)[target]


def counted(codes, target, nodes, n_nodes, layout):
    """Count rows directly: (node, feature, code, column) as pairs of count and sum of values."""
    shape = (n_nodes, N_FEATURES, 256, layout.n_columns)
    counts, values = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    column = target if layout.n_columns > 1 else np.zeros_like(target)
    value = np.ones_like(target) if layout.n_columns > 1 else target
    for j in range(N_FEATURES):
        np.add.at(counts, (nodes, j, codes[:, j], column), 1)
        np.add.at(values, (nodes, j, codes[:, j], column), value)
    return counts.reshape(n_nodes, -1), values.reshape(n_nodes, -1)


def check_levels(
    codes, target, parts, n_parts, layout, n_threads, depth, seed, look=lambda level: True, windows=(), own_from=()
):
    """Compare an engine with direct counting, level by level, and its leaf sums; return how the chunks fell.

    ``windows`` are those of all splits and of leaves; at the levels of ``own_from``, nodes get windows of their own.
    """
    kept = target >= 0
    codes_kept, nodes = codes[kept], parts[kept].astype(np.int64)
    everyone = np.zeros_like(nodes)
    for_splits, for_leaves = (
        (seen_through(w, target[kept], everyone, layout) for w in windows) if windows else [target[kept]] * 2
    )
    chunks = []
    with Threads(n_threads) as threads:
        engine = local_histograms(codes, target, parts, n_parts, layout, threads, *windows)
        engine.start()
        for level in range(depth):
            n_nodes = n_parts * 2**level
            if level in own_from:
                own = random_windows(n_nodes, seed + 100 * level)
                for_splits = seen_through(own, target[kept], nodes, layout)
                engine.set_windows(own)
            if look(level):
                counts, values = counted(codes_kept, for_splits, nodes, n_nodes, layout)
                bounds = list(engine.chunks())
                assert [b for b, _ in bounds] == [0, *(e for _, e in bounds[:-1])]
                assert bounds[-1][1] == n_nodes
                chunks.append(len(bounds))
                for begin, end in bounds:
                    bins = engine.histograms(begin, end)
                    assert len(bins) == end - begin
                    assert (bins >> np.uint64(layout.shift) == counts[begin:end].astype(np.uint64)).all()
                    low = bins & np.uint64((1 << layout.shift) - 1)
                    assert (low == values[begin:end].astype(np.uint64)).all()
            features, masks = random_splits(n_nodes, seed + level)
            at = codes_kept[np.arange(len(nodes)), features[nodes]]
            nodes = 2 * nodes + ((masks[nodes, at >> 3] >> (at & 7)) & 1)
            engine.route(features, masks)
            sums = np.zeros((2 * n_nodes, layout.n_outputs), dtype=np.int64)
            np.add.at(sums, nodes, vectors_of(for_leaves, layout))
            assert (engine.sums() == sums).all()
    return chunks


@pytest.mark.parametrize("n_threads", [1, 2, 3, 7])
@pytest.mark.parametrize("name", LAYOUTS)
def test_histograms_by_subtraction_and_shards_are_those_of_direct_counting(name, n_threads):
    layout = LAYOUTS[name]
    rows = random_rows(layout, 40_000, 1, n_parts=3)
    chunks = check_levels(*rows, 3, layout, n_threads, 4, 5)
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
def test_splits_and_leaves_see_numbers_each_through_their_own_window(windows, n_threads):
    layout = LAYOUTS["number"]
    check_levels(*random_rows(layout, 3000, 8, n_parts=2), 2, layout, n_threads, 3, 2, windows=windows)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("nodes_per_chunk", [None, 4, 12])
@pytest.mark.parametrize("own_from", [(0,), (2,), (1, 3), (2, 3)])
def test_every_node_sees_numbers_through_the_last_window_of_its_own_or_its_ancestors(
    monkeypatch, own_from, nodes_per_chunk, n_threads
):
    """Leaves do not; and what was counted through one window is not subtracted from what was through another."""
    layout = LAYOUTS["number"]
    if nodes_per_chunk:  # in chunks from the second level on, or from the fourth on; otherwise never
        monkeypatch.setattr(histograms, "CHUNK_BYTES", nodes_per_chunk * 8 * N_FEATURES * 256)
    rows = random_rows(layout, 20_000, 11, n_parts=3)
    windows = windows_of((300, 3000)), windows_of((1000, 1700))
    chunks = check_levels(*rows, 3, layout, n_threads, 5, 3, windows=windows, own_from=own_from)
    assert chunks == [-(-3 * 2**level // (nodes_per_chunk or 99)) for level in range(5)]


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("looked", [(0, 3, 4), (2, 4), (1, 2, 3)])
def test_windows_outlast_levels_at_which_no_one_looks(looked, n_threads):
    layout = LAYOUTS["number"]
    rows = random_rows(layout, 9_000, 12, n_parts=2)
    check_levels(*rows, 2, layout, n_threads, 5, 1, look=lambda level: level in looked, own_from=(1, 3))


def test_classes_are_the_same_through_the_windows_of_nodes():
    layout = LAYOUTS["classes"]
    check_levels(*random_rows(layout, 3000, 13, n_parts=2), 2, layout, 1, 4, 1, own_from=(1, 2))


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("name", LAYOUTS)
def test_targets_are_counted_by_node_and_value_whatever_the_windows(name, n_threads):
    layout = LAYOUTS[name]
    codes, target, parts = random_rows(layout, 9000, 14, n_parts=3)
    target[:2] = 0, layout.n_targets - 1
    kept = target >= 0
    codes_kept, target_kept, nodes = codes[kept], target[kept], parts[kept].astype(np.int64)
    windows = windows_of((1000, 1001)), windows_of((300, 301))
    with Threads(n_threads) as threads:
        engine = local_histograms(codes, target, parts, 3, layout, threads, *windows)
        for level in range(4):
            n_nodes = 3 * 2**level
            values = layout.units + 1 if layout.units > 1 else layout.n_outputs
            expected = np.bincount(nodes * values + target_kept, minlength=n_nodes * values).reshape(n_nodes, values)
            found = engine.targets()
            assert found.dtype == np.int64
            np.testing.assert_array_equal(found, expected)
            if level == 2 and name == "number":
                engine.set_windows(random_windows(n_nodes, 0))
                np.testing.assert_array_equal(engine.targets(), expected)
            features, masks = random_splits(n_nodes, level)
            at = codes_kept[np.arange(len(nodes)), features[nodes]]
            nodes = 2 * nodes + ((masks[nodes, at >> 3] >> (at & 7)) & 1)
            engine.route(features, masks)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("nodes_per_chunk", [2, 4, 6])
def test_small_chunks_change_nothing(monkeypatch, n_threads, nodes_per_chunk):
    layout = LAYOUTS["classes"]
    monkeypatch.setattr(histograms, "CHUNK_BYTES", nodes_per_chunk * 8 * N_FEATURES * 256 * layout.n_columns + 100)
    rows = random_rows(layout, 14_000, 2, n_parts=3)
    chunks = check_levels(*rows, 3, layout, n_threads, 4, 9)
    assert chunks == [-(-3 * 2**level // nodes_per_chunk) for level in range(4)]


def test_a_histogram_wider_than_a_chunk_still_comes_two_nodes_at_a_time(monkeypatch):
    monkeypatch.setattr(histograms, "CHUNK_BYTES", 1)
    layout = LAYOUTS["binary"]
    assert check_levels(*random_rows(layout, 300, 2), 1, layout, 1, 4, 9) == [1, 1, 2, 4]


@pytest.mark.parametrize("n_threads", [1, 3])
def test_levels_at_which_no_one_looks_do_not_spoil_the_next(n_threads):
    layout = LAYOUTS["number"]
    rows = random_rows(layout, 9_000, 3, n_parts=2)
    check_levels(*rows, 2, layout, n_threads, 5, 1, look=lambda level: level in (0, 2, 3))


@pytest.mark.parametrize("n_threads", [1, 2, 7])
@pytest.mark.parametrize("name", LAYOUTS)
def test_no_rows_and_rows_that_are_all_left_out(name, n_threads):
    layout = LAYOUTS[name]
    check_levels(*random_rows(layout, 0, 0, n_parts=2), 2, layout, n_threads, 3, 0)
    check_levels(*random_rows(layout, 50, 0, n_parts=2, left_out=2), 2, layout, n_threads, 3, 0)


@given(
    st.sampled_from(sorted(LAYOUTS)),
    st.lists(st.integers(0, 9000), min_size=1, max_size=6),
    st.sampled_from([1, 2, 3, 7]),
    st.integers(0, 1000),
)
@settings(derandomize=True, deadline=None, max_examples=30)
def test_segments_of_any_sizes_are_shared_among_threads(name, sizes, n_threads, seed):
    layout = LAYOUTS[name]
    codes, target, _ = random_rows(layout, sum(sizes), seed, left_out=0)
    parts = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes)).astype(np.uint16)
    check_levels(codes, target, parts, len(sizes), layout, n_threads, 2, seed)


@pytest.mark.parametrize("where", [0, 3, 6])
def test_all_rows_in_one_of_many_nodes_are_shared_among_threads(where):
    layout = LAYOUTS["binary"]
    codes, target, _ = random_rows(layout, 35_000, 4)
    check_levels(codes, target, np.full(35_000, where, dtype=np.uint16), 7, layout, 7, 3, 4)


def test_starting_again_puts_every_row_back_at_its_root():
    layout = LAYOUTS["number"]
    codes, target, parts = random_rows(layout, 2000, 6, n_parts=3)
    engine = local_histograms(codes, target, parts, 3, layout, Threads(1))
    first, totals = engine.histograms(0, 3).copy(), engine.sums()
    for seed in range(2):
        for level in range(3):
            for chunk in engine.chunks():
                engine.histograms(*chunk)
            engine.route(*random_splits(3 * 2**level, seed))
            assert (engine.sums().reshape(3, -1, 2).sum(axis=1) == totals).all(), "routing loses no one"
        engine.start()
        assert (engine.histograms(0, 3) == first).all()
        assert (engine.sums() == totals).all()


@pytest.mark.parametrize("level_of_windows", [0, 1, 2])
def test_starting_again_forgets_the_windows_of_nodes(level_of_windows):
    layout = LAYOUTS["number"]
    codes, target, parts = random_rows(layout, 2000, 6, n_parts=3)
    windows = windows_of((500, 2000)), windows_of((100, 4000))
    engine = local_histograms(codes, target, parts, 3, layout, Threads(1), *windows)

    def grow(*, own):
        seen = []
        for level in range(3):
            if own and level == level_of_windows:
                engine.set_windows(random_windows(3 * 2**level, 7))
            seen += [engine.histograms(0, 3 * 2**level).copy(), engine.sums()]
            if level < 2:
                engine.route(*random_splits(3 * 2**level, level))
        return seen

    plain = grow(own=False)
    engine.start()
    through_windows = grow(own=True)
    engine.start()
    again = grow(own=False)
    assert all((a == b).all() for a, b in zip(plain, again, strict=True))
    alike = [(a == b).all() for a, b in zip(plain, through_windows, strict=True)]
    assert alike == [x for level in range(3) for x in (level < level_of_windows, True)]


def test_rows_left_out_are_nowhere():
    layout = LAYOUTS["classes"]
    codes, target, parts = random_rows(layout, 500, 7, n_parts=4, left_out=0.5)
    kept = target >= 0
    whole = local_histograms(codes, target, parts, 4, layout, Threads(1))
    clean = local_histograms(codes[kept], target[kept], parts[kept], 4, layout, Threads(1))
    assert (whole.histograms(0, 4) == clean.histograms(0, 4)).all()
    assert (whole.sums() == clean.sums()).all()


def test_the_order_of_rows_does_not_matter():
    layout = LAYOUTS["number"]
    codes, target, parts = random_rows(layout, 500, 7, n_parts=4)
    order = np.random.default_rng(0).permutation(500)
    one = local_histograms(codes, target, parts, 4, layout, Threads(1))
    other = local_histograms(codes[order], target[order], parts[order], 4, layout, Threads(1))
    assert (one.histograms(0, 4) == other.histograms(0, 4)).all()


def test_as_many_trees_as_are_allowed():
    layout = LAYOUTS["binary"]
    codes, target, _ = random_rows(layout, 10, 0, left_out=0)
    target[3] = -1
    parts = np.full(10, 65534, dtype=np.uint16)
    engine = local_histograms(codes, target, parts, 65535, layout, Threads(1))
    sums = engine.sums()
    assert sums.shape == (65535, 2)
    assert sums[65534].sum() == sums.sum() == 9


# -- layouts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_record_is_a_vector_of_non_negative_entries_that_sum_to_the_units(name):
    layout = LAYOUTS[name]
    high = layout.units + 1 if layout.units > 1 else layout.n_outputs
    for value in {0, 1 % high, high // 2, high - 1}:
        target = np.array([value], dtype=np.int32)
        engine = local_histograms(
            np.zeros((1, 1), dtype=np.uint8), target, np.zeros(1, dtype=np.uint16), 1, layout, Threads(1)
        )
        vector = engine.sums()[0]
        assert len(vector) == layout.n_outputs
        assert (vector >= 0).all()
        assert vector.sum() == layout.units
        assert (vector == vectors_of(target, layout)[0]).all()


windows = st.tuples(st.integers(0, 4096), st.integers(0, 4096)).filter(lambda w: w[0] < w[1]).map(windows_of)


@given(windows)
@settings(deadline=None, max_examples=50)
def test_through_any_window_a_number_is_a_number_of_the_whole_range_by_its_own_value_alone(window):
    """One record is still one vector of norm ``units``: what bounds its influence does not depend on the window."""
    layout = LAYOUTS["number"]
    adds = layout.contributions(window)
    assert adds.columns.shape == (layout.units + 1,)
    assert adds.amounts.shape == (1, layout.units + 1)
    assert adds.amounts.dtype == np.uint64
    assert not adds.columns.any()
    assert (adds.amounts >> np.uint64(layout.shift) == 1).all(), "one row each"
    values = (adds.amounts[0] & np.uint64((1 << layout.shift) - 1)).astype(np.int64)
    assert (values >= 0).all()
    assert (values <= layout.units).all()
    assert (np.diff(values) >= 0).all()
    assert not values[: window.low[0] + 1].any()
    assert (values[window.high[0] :] == layout.units).all()
    everyone = np.zeros(layout.units + 1, dtype=np.int64)
    assert (values == seen_through(window, range(layout.units + 1), everyone, layout)).all()
    vectors = layout.vectors(adds.amounts[0, :, None])
    assert (vectors >= 0).all()
    assert (vectors.sum(axis=1) == layout.units).all()


@given(st.lists(windows, min_size=1, max_size=5))
@settings(deadline=None, max_examples=50)
def test_several_windows_are_a_table_each(several):
    layout = LAYOUTS["number"]
    together = Windows(*(np.concatenate([getattr(w, end) for w in several]) for end in ("low", "high")))
    assert len(together) == len(several)
    adds = layout.contributions(together)
    assert adds.columns.shape == (layout.units + 1,)
    np.testing.assert_array_equal(
        adds.amounts, np.concatenate([layout.contributions(window).amounts for window in several]), strict=True
    )


def test_windows_are_widened_each_by_its_own_amount_and_never_beyond_the_range():
    found = windows_of((0, 10), (500, 600), (4000, 4096), (30, 4090)).widened(np.array([3, 0, 7, 50]), 4096)
    assert found.low.tolist() == [0, 500, 3993, 0]
    assert found.high.tolist() == [13, 600, 4096, 4096]


def test_the_whole_range_leaves_numbers_as_they_are():
    layout = LAYOUTS["number"]
    assert (layout.whole.low.tolist(), layout.whole.high.tolist()) == ([0], [4096])
    assert layout.vectors(layout.contributions(layout.whole).amounts[0, :, None])[:, 1].tolist() == list(range(4097))


@pytest.mark.parametrize("name", ["one class", "binary", "classes"])
def test_classes_are_the_same_through_any_window(name):
    layout = LAYOUTS[name]
    for windows in (layout.whole, windows_of((0, 1)), windows_of((2, 3)), windows_of((0, 1), (2, 3), (7, 9))):
        adds = layout.contributions(windows)
        assert adds.amounts.shape == (len(windows), layout.n_outputs)
        for amounts in adds.amounts:
            bins = np.zeros((layout.n_outputs, layout.n_columns), dtype=np.uint64)
            bins[np.arange(layout.n_outputs), adds.columns] = amounts
            assert (layout.vectors(bins) == np.eye(layout.n_outputs, dtype=np.int64)).all()


@given(windows, windows, st.integers(0, 4096), st.integers(0, 100))
@settings(deadline=None, max_examples=30)
def test_one_more_record_changes_one_bin_of_each_feature_and_one_leaf_by_one_vector(
    for_splits, for_leaves, value, seed
):
    layout = LAYOUTS["number"]
    codes, target, parts = random_rows(layout, 30, seed, n_parts=2, left_out=0)
    target[-1] = value
    with_it = local_histograms(codes, target, parts, 2, layout, Threads(1), for_splits, for_leaves)
    without = local_histograms(codes[:-1], target[:-1], parts[:-1], 2, layout, Threads(1), for_splits, for_leaves)
    bins = with_it.histograms(0, 2) - without.histograms(0, 2)
    place = parts[-1], np.arange(N_FEATURES) * 256 + codes[-1]
    amount = (1 << layout.shift) + int(seen_through(for_splits, [value], [0], layout)[0])
    assert (bins[place] == np.uint64(amount)).all()
    bins[place] = 0
    assert not bins.any()
    sums = with_it.sums() - without.sums()
    assert (sums >= 0).all()
    assert sums.sum(axis=1).tolist() == [layout.units * (p == parts[-1]) for p in range(2)]
    assert sums[parts[-1], 1] == seen_through(for_leaves, [value], [0], layout)[0]


@given(st.integers(0, 4096), st.integers(0, 2), st.integers(0, 2), st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_under_windows_of_nodes_too_one_more_record_changes_one_node_by_one_amount(value, level, further, seed):
    """The windows are released: the same with the record and without it. Further levels subtract siblings."""
    layout = LAYOUTS["number"]
    codes, target, parts = random_rows(layout, 60, seed, n_parts=2, left_out=0)
    target[-1] = value
    with_it = local_histograms(codes, target, parts, 2, layout, Threads(1))
    without = local_histograms(codes[:-1], target[:-1], parts[:-1], 2, layout, Threads(1))
    node = int(parts[-1])
    for here in range(level + further + 1):
        n_nodes = 2 * 2**here
        if here == level:
            own = random_windows(n_nodes, seed)
            amount = (1 << layout.shift) + int(seen_through(own, [value], [node], layout)[0])
            with_it.set_windows(own)
            without.set_windows(own)
        bins = with_it.histograms(0, n_nodes) - without.histograms(0, n_nodes)
        if here >= level:
            place = node, np.arange(N_FEATURES) * 256 + codes[-1]
            assert (bins[place] == np.uint64(amount)).all()
            bins[place] = 0
            assert not bins.any()
        targets = with_it.targets() - without.targets()
        assert targets[node, value] == np.abs(targets).sum() == 1
        features, masks = random_splits(n_nodes, seed + here)
        code = int(codes[-1, features[node]])
        node = 2 * node + (int(masks[node, code >> 3]) >> (code & 7) & 1)
        with_it.route(features, masks)
        without.route(features, masks)


def test_sums_at_the_largest_number_of_rows_do_not_run_into_each_other():
    for layout in LAYOUTS.values():
        most = np.uint64(layout.max_rows)
        value = most * np.uint64(layout.units)
        assert int(value) < 1 << layout.shift
        assert int(most) < 1 << (64 - layout.shift)
        bin_ = np.array([[(most << np.uint64(layout.shift)) + value]], dtype=np.uint64)
        if layout.n_columns == 1:
            expected = [0, int(value)][: layout.n_outputs]
            assert layout.vectors(bin_).tolist() == [expected if layout.n_outputs == 2 else [0]]


def test_too_many_rows_are_refused_before_anything_is_summed(monkeypatch):
    monkeypatch.setattr(TargetLayout, "max_rows", 9)
    layout = LAYOUTS["binary"]
    local_histograms(*random_rows(layout, 9, 0), 1, layout, Threads(1))
    with pytest.raises(ValueError, match="more rows than the 9"):
        local_histograms(*random_rows(layout, 10, 0), 1, layout, Threads(1))
    with pytest.raises(ValueError, match="at most 1000"):
        TargetLayout.of_classes(1001)
