"""Regions: the codes that can occur at a node are those that all splits on its path let through."""

import numpy as np
import pytest

from diprime.domain import MISSING, OTHER, Domain, Numeric
from diprime.model.masks import threshold_mask
from diprime.model.regions import Regions
from tests.candidate_splits import CLASSES as TARGET
from tests.candidate_splits import DOMAIN


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
def test_regions_are_the_codes_that_all_splits_of_the_path_let_through(seed):
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
