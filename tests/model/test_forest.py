"""The flat arrays of a forest: prediction agrees with a plain walk down each tree."""

import pickle

import numpy as np
import pytest

from diprime import Categorical, DiPriMeClassifier, Domain, Forest, Numeric
from diprime._util.threads import Threads
from diprime.model.forest import MIN_ROWS_TO_COMPARE_NUMBERS
from diprime.model.trees import Structure
from tests.encoded_rows import EncodedRows


def random_forest(seed, n_trees=3, depth=3, n_features=4, n_outputs=2):
    rng = np.random.default_rng(seed)
    n_splits, n_leaves = 2**depth - 1, 2**depth
    structure = Structure(
        rng.integers(0, n_features, (n_trees, n_splits)).astype(np.int32),
        rng.integers(0, 256, (n_trees, n_splits, 32)).astype(np.uint8),
    )
    return Forest.of_trees(
        structure, rng.random((n_trees, n_leaves, n_outputs)), rng.uniform(1, 9, (n_trees, n_leaves))
    )


def walk_one_by_one(forest, codes):
    """Walk every row down every tree. Return the leaves, and the mean of their values weighted by tree."""
    leaves = np.empty((len(codes), forest.n_trees), dtype=int)
    outputs = np.zeros((len(codes), forest.values.shape[1]))
    sizes = []
    split = leaf = 0
    for tree, depth in enumerate(forest.depths.tolist()):
        for row, code in enumerate(codes):
            node = 0
            for _ in range(depth):
                feature, mask = forest.features[split + node], forest.masks[split + node]
                value = int(code[feature])
                node = 2 * node + 1 + (int(mask[value // 8]) >> (value % 8) & 1)
            leaves[row, tree] = node - (2**depth - 1)
        counts = forest.counts[leaf : leaf + 2**depth]
        sizes.append(max(counts.sum(), 1.0))
        outputs += sizes[-1] * forest.values[leaf + leaves[:, tree]]
        split, leaf = split + 2**depth - 1, leaf + 2**depth
    return leaves, outputs / sum(sizes)


def random_codes(n, seed=0, n_features=4):
    return np.random.default_rng(seed).integers(0, 256, (n, n_features)).astype(np.uint8)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("n_outputs", [1, 2, 5])
@pytest.mark.parametrize("depth", [1, 2, 6])
def test_apply_and_predict_walk_the_trees(depth, n_outputs, n_threads):
    forest, codes = random_forest(depth, depth=depth, n_outputs=n_outputs), random_codes(900)
    leaves, outputs = walk_one_by_one(forest, codes)
    with Threads(n_threads) as threads:
        assert np.array_equal(forest.apply(EncodedRows(codes), threads), leaves)
        assert forest.predict(EncodedRows(codes), threads) == pytest.approx(outputs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_comparing_raw_numbers_predicts_the_same_as_encoding_them(dtype):
    rng = np.random.default_rng(0)
    features = {
        "a": Numeric(-3, 3),
        "b": Numeric(0, 50, scale="log"),
        "c": Numeric(edges=[-1, 0.5]),
        "d": Numeric(0, 1),
    }
    domain = Domain(features, Categorical(["x", "y", "z"]))
    edges = np.concatenate([[np.nan, np.inf, -np.inf], *(f.thresholds for f in features.values())])
    shape = (MIN_ROWS_TO_COMPARE_NUMBERS, 4)
    X = np.where(rng.random(shape) < 0.5, rng.choice(edges, shape), rng.normal(size=shape)).astype(dtype)
    y = rng.choice(["x", "y", "z"], MIN_ROWS_TO_COMPARE_NUMBERS)
    forest = DiPriMeClassifier(1000, domain, n_estimators=3, max_depth=7).fit(X, y).forest_
    rows = domain.reader(X)
    assert rows.numbers is not None
    with Threads(2) as threads:
        as_codes = EncodedRows(domain.encode(X))
        assert np.array_equal(forest.predict(rows, threads), forest.predict(as_codes, threads))
        assert np.array_equal(forest.decide(rows, threads), forest.predict(rows, threads).argmax(axis=1))
    mixed = Domain({**features, "d": Categorical([0, 1])}, Categorical([0, 1]))
    assert mixed.reader(X).numbers is None
    assert domain.reader(np.asfortranarray(X)).numbers is None


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257])
def test_any_number_of_rows_is_predicted(n):
    forest, codes = random_forest(0), random_codes(n)
    with Threads(2) as threads:
        assert forest.predict(EncodedRows(codes), threads).shape == (n, 2)
        assert np.array_equal(forest.apply(EncodedRows(codes), threads), walk_one_by_one(forest, codes)[0])


def test_a_merged_forest_holds_trees_of_different_depths():
    forests = [random_forest(1, depth=2), random_forest(2, depth=5, n_trees=1), random_forest(3, depth=1)]
    merged, codes = Forest.merge(forests), random_codes(300)
    assert merged.depths.tolist() == [2, 2, 2, 5, 1, 1, 1]
    leaves, outputs = walk_one_by_one(merged, codes)
    with Threads(1) as threads:
        assert np.array_equal(merged.apply(EncodedRows(codes), threads), leaves)
        assert np.array_equal(
            merged.apply(EncodedRows(codes), threads),
            np.hstack([f.apply(EncodedRows(codes), threads) for f in forests]),
        )
        assert merged.predict(EncodedRows(codes), threads) == pytest.approx(outputs)
        # A merged prediction is the mean of the parts' predictions, weighted by their released counts.
        sizes = [f.counts.sum() for f in forests]
        parts = [f.predict(EncodedRows(codes), threads) * size for f, size in zip(forests, sizes, strict=True)]
        assert merged.predict(EncodedRows(codes), threads) == pytest.approx(sum(parts) / sum(sizes))


def test_trees_with_a_negative_count_get_the_weight_of_one_record():
    forest = random_forest(0, n_trees=2, depth=1)
    negative = Forest(forest.depths, forest.features, forest.masks, forest.values, np.array([50.0, 49.0, -30.0, 2.0]))
    assert negative.tree_weights == pytest.approx([0.99, 0.01])


def tree_of_depth_two(features, values, counts):
    """Return a forest of one tree that splits on the given features."""
    structure = Structure(np.array([features], dtype=np.int32), np.zeros((1, 3, 32), dtype=np.uint8))
    values = np.array(values, dtype=np.float64).reshape(1, 4, -1)
    return Forest.of_trees(structure, values, np.array([counts], dtype=np.float64))


def test_importances_are_sums_of_squares_between_siblings():
    # The root splits on feature 2: means 1 and 5, with 4 rows each. Below, feature 0 separates 0 from 2, and feature 1
    # separates nothing.
    forest = tree_of_depth_two([2, 0, 1], [0, 2, 5, 5], [2, 2, 2, 2])
    gains = np.array([2 * 2 / 4 * 4, 0, 4 * 4 / 8 * 16, 0])
    assert forest.importances(4) == pytest.approx(gains / gains.sum())


def test_importances_treat_negative_counts_as_zero():
    forest = tree_of_depth_two([2, 0, 1], [0, 2, 5, 4], [2, -3, 2, 2])
    gains = np.array([0, 2 * 2 / 4, 2 * 4 / 6 * 4.5**2])
    assert forest.importances(3) == pytest.approx(gains / gains.sum())


@pytest.mark.parametrize("counts", [[0, 0, 0, 0], [-1, -2, 0, -5], [9, 9, 9, 9]])
def test_importances_are_zero_if_no_split_removes_error(counts):
    importances = tree_of_depth_two([2, 0, 1], [3, 3, 3, 3], counts).importances(3)
    assert importances.tolist() == [0, 0, 0]


def test_importances_of_random_forests_are_shares():
    for seed in range(20):
        importances = random_forest(seed, depth=5).importances(6)
        assert (importances >= 0).all()
        assert importances.sum() == pytest.approx(1)
        assert importances[4:].tolist() == [0, 0]  # features that no split uses


def test_a_forest_survives_pickling_and_can_be_compared():
    forest, codes = random_forest(0), random_codes(50)
    copy = pickle.loads(pickle.dumps(forest))
    with Threads(1) as threads:
        assert np.array_equal(copy.predict(EncodedRows(codes), threads), forest.predict(EncodedRows(codes), threads))
    assert (copy == forest) is False  # identity: comparing the arrays would raise an error
    assert forest in [forest]


def test_read_only_arrays_predict():
    forest, codes = random_forest(0), random_codes(50)
    for array in (codes, *vars(forest).values()):
        array.flags.writeable = False
    with Threads(1) as threads:
        assert forest.predict(EncodedRows(codes), threads) == pytest.approx(walk_one_by_one(forest, codes)[1])
        assert forest.apply(EncodedRows(codes), threads).shape == (50, 3)


def test_importances_take_time_in_proportion_to_the_trees(monkeypatch):
    """The sizes of all trees are added up once, and not for each tree."""
    forest = random_forest(0, n_trees=50)
    calls = []
    monkeypatch.setattr(np, "cumsum", lambda *a, _sum=np.cumsum, **k: calls.append(a) or _sum(*a, **k))
    forest.importances(4)
    assert len(calls) == 2


def test_what_is_cached_is_not_pickled():
    forest = random_forest(0)
    before = pickle.dumps(forest)
    forest.importances(4)
    assert pickle.dumps(forest) == before


def test_importances_add_up_over_trees_of_different_depths():
    forest = Forest.merge([random_forest(seed, depth=depth) for seed, depth in enumerate((2, 4, 2))])
    gains = np.zeros(4)
    for tree, depth in enumerate(forest.depths.tolist()):
        first_split, first_leaf = forest.first_splits[tree], forest.first_leaves[tree]
        for split in range(2**depth - 1):
            level = (split + 1).bit_length() - 1
            width = 2 ** (depth - level)  # the leaves below the split
            begin = first_leaf + (split + 1 - 2**level) * width
            means, sizes = [], []
            for child in (slice(begin, begin + width // 2), slice(begin + width // 2, begin + width)):
                sizes.append(forest.counts[child].sum())
                means.append((forest.values[child] * forest.counts[child][:, None]).sum(axis=0) / sizes[-1])
            gains[forest.features[first_split + split]] += (
                sizes[0] * sizes[1] / sum(sizes) * ((means[0] - means[1]) ** 2).sum()
            )
    assert forest.importances(4) == pytest.approx(gains / gains.sum())
