"""Released trees: masks of splits, regions of nodes, and predictions, which agree with a plain walk down each tree."""

import pickle

import numpy as np
import pytest

from diprime import Categorical, DiPriMeClassifier, Domain, Forest, Numeric
from diprime._util.resources import Threads
from diprime.domain import MISSING, OTHER
from diprime.kernels.constants import MASK_BYTES
from diprime.model.trees import MIN_ROWS_TO_COMPARE_NUMBERS, Regions, Structure, read_threshold_mask, threshold_mask
from tests.candidate_splits import CLASSES as TARGET
from tests.candidate_splits import DOMAIN
from tests.encoded_rows import EncodedRows

THRESHOLDS = np.repeat(np.arange(MISSING), 2)
MISSING_RIGHT = np.tile([False, True], MISSING)


def test_codes_above_the_threshold_go_right():
    masks = threshold_mask(THRESHOLDS, MISSING_RIGHT)
    assert masks.shape == (len(THRESHOLDS), MASK_BYTES)
    bits = np.unpackbits(masks, axis=1, bitorder="little").astype(bool)
    assert (bits[:, :MISSING] == (np.arange(MISSING) > THRESHOLDS[:, None])).all()
    assert (bits[:, MISSING] == MISSING_RIGHT).all()


def test_reading_inverts_writing():
    thresholds, missing_right = read_threshold_mask(threshold_mask(THRESHOLDS, MISSING_RIGHT))
    assert (thresholds == THRESHOLDS).all()
    assert (missing_right == MISSING_RIGHT).all()


def test_no_splits_have_no_masks():
    masks = threshold_mask(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool))
    assert masks.shape == (0, MASK_BYTES)
    assert [len(part) for part in read_threshold_mask(masks)] == [0, 0]


def codes_of(feature):
    """Return the set of all codes of a feature."""
    others = [OTHER] if DOMAIN.is_categorical[feature] else []
    return {*range(DOMAIN.n_codes[feature]), *others, MISSING}


def random_mask(feature, rng):
    if DOMAIN.is_categorical[feature]:
        return rng.integers(0, 256, 32).astype(np.uint8)
    return threshold_mask(rng.integers(0, DOMAIN.n_codes[feature], 1), rng.integers(0, 2, 1) > 0)[0]


def codes_in(regions, node, feature):
    """Return the set of codes that a region allows."""
    if DOMAIN.is_categorical[feature]:
        mask = regions.allowed[node, regions.categorical_index[feature]]
        return set(np.flatnonzero(np.unpackbits(mask, bitorder="little")).tolist())
    cells = range(int(regions.low[node, feature]), int(regions.high[node, feature]) + 1)
    return {*cells, *([MISSING] if regions.missing[node, feature] else [])}


def children_of(codes, feature, mask):
    """Return the sets of codes of both children, given those of the parent, one set for each feature."""
    goes_right = np.unpackbits(mask, bitorder="little")
    for side in (0, 1):
        yield [{c for c in s if goes_right[c] == side} if j == feature else s for j, s in enumerate(codes)]


@pytest.mark.parametrize("seed", range(10))
def test_regions_are_the_codes_that_reach_a_node(seed):
    rng = np.random.default_rng(seed)
    regions = Regions.roots(DOMAIN, 2)
    expected = [[codes_of(j) for j in range(DOMAIN.n_features)]] * 2
    for _ in range(7):
        features = rng.integers(0, DOMAIN.n_features, len(regions)).astype(np.int32)
        masks = np.stack([random_mask(feature, rng) for feature in features])
        expected = [c for codes, f, m in zip(expected, features, masks, strict=True) for c in children_of(codes, f, m)]
        regions = regions.children(features, masks)
        assert len(regions) == len(expected)
        for node, codes in enumerate(expected):
            assert [codes_in(regions, node, j) for j in range(DOMAIN.n_features)] == codes


@pytest.mark.parametrize("seed", range(10))
def test_a_feature_is_splittable_if_two_of_its_codes_can_occur(seed):
    rng = np.random.default_rng(seed)
    regions = Regions.roots(DOMAIN, 1)
    assert regions.splittable().all()
    for _ in range(9):
        features = rng.integers(0, DOMAIN.n_features, len(regions)).astype(np.int32)
        regions = regions.children(features, np.stack([random_mask(feature, rng) for feature in features]))
    n_codes = [[len(codes_in(regions, node, j)) for j in range(DOMAIN.n_features)] for node in range(len(regions))]
    assert np.array_equal(regions.splittable(), np.array(n_codes) > 1)


def test_missing_values_are_separated_only_once():
    domain = Domain({"x": Numeric(edges=[0])}, target=TARGET)
    regions = Regions.roots(domain, 1)
    mask = threshold_mask(np.array([1]), np.array([True]))  # all numbers left, missing values right
    children = regions.children(np.zeros(1, dtype=np.int32), mask)
    assert children.splittable().tolist() == [[True], [False]]
    assert children.missing.tolist() == [[0], [1]]
    last = children.children(np.zeros(2, dtype=np.int32), threshold_mask(np.array([0, 0]), np.array([False, False])))
    assert not last.splittable().any()


def test_a_domain_without_categorical_features_has_regions():
    domain = Domain({"x": Numeric(edges=[0])}, target=TARGET)
    regions = Regions.roots(domain, 3)
    assert len(regions) == 3
    assert regions.allowed.shape == (3, 0, 32)
    assert regions.splittable().tolist() == [[True]] * 3


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


def test_cached_values_are_not_pickled():
    forest = random_forest(0)
    before = pickle.dumps(forest)
    _ = forest.first_leaves
    assert pickle.dumps(forest) == before
