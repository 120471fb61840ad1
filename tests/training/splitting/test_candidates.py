"""Candidates: what a node can choose from is public, and nothing else is offered."""

import itertools
import math

import numpy as np
import pytest

from diprime.domain import MISSING, Categorical, Domain, Numeric
from diprime.kernels.constants import ABSENT_COST
from diprime.model.regions import Regions
from diprime.privacy.randomness import RandomSource
from diprime.training.splitting.candidates import N_RANDOM_SPLITS, Candidates, CategoricalCandidates, draw_features
from diprime.training.splitting.cost import MEDIAN_COST, Cost
from diprime.training.splitting.histograms import EmptyHistograms, NodeHistograms
from tests.candidate_splits import (
    BINARY,
    CLASSES,
    DOMAIN,
    LAYOUTS,
    codes_of,
    costs_of_all,
    goes_right,
    mask_costs,
    random_levels,
    random_rows,
    root_histograms,
)


def candidates_of(domain, chosen):
    """Return the candidates of some features at one root."""
    categories = CategoricalCandidates.draw(domain, RandomSource(0))
    return Candidates(domain, categories, Regions.roots(domain, 1), np.array([chosen]))


# -- what is offered at a node -----------------------------------------------------------------------------------------


def codes_of_children(possible, features, masks):
    """Return the codes that can occur at the children, for each node and each feature, by listing them."""
    children = []
    for sets, feature, mask in zip(possible, features, masks, strict=True):
        for side in (False, True):
            child = [set(codes) for codes in sets]
            child[feature] = {c for c in child[feature] if bool(goes_right(mask, np.array([c]))[0]) == side}
            children.append(child)
    return children


def check_categorical_offer(offered, codes, own):
    """The masks offered are those of the feature that send the codes left at the node both ways."""
    expected = {mask.tobytes() for mask in own if 0 < goes_right(mask, codes).sum() < len(codes)}
    assert {mask.tobytes() for mask in offered} == expected


def check_numeric_offer(offered, slots, codes):
    """Every threshold within the cells left is offered, with the missing values on either side."""
    rights = goes_right(offered, codes)
    cells, has_missing = codes[codes != MISSING], MISSING in codes
    count = 2 * len(cells) if has_missing else len(cells) - 1
    assert len({right.tobytes() for right in rights}) == len(slots) == count
    # Only the last threshold, with the missing values on the side of all numbers, splits nothing.
    splits_nothing = slots == cells.max() if has_missing else np.zeros(len(slots), dtype=bool)
    assert ((rights.any(axis=1) & ~rights.all(axis=1)) == ~splits_nothing).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_node_is_offered_every_split_of_the_codes_that_its_path_leaves_and_no_other(seed):
    categories = CategoricalCandidates.draw(DOMAIN, RandomSource(seed))
    possible = [[set(codes_of(DOMAIN, j)) for j in range(DOMAIN.n_features)] for _ in range(2)]
    for regions, features, masks in random_levels(DOMAIN, categories, 2, 7, seed):
        splittable = np.array([[len(codes) > 1 for codes in sets] for sets in possible])
        assert (regions.splittable() == splittable).all()
        chosen = np.where(splittable, np.arange(DOMAIN.n_features), -1)
        candidates = Candidates(DOMAIN, categories, regions, chosen)
        empty = EmptyHistograms.of(DOMAIN.n_features, BINARY)
        costs = costs_of_all(candidates, empty, 0, chosen.size, MEDIAN_COST)
        assert (costs[candidates.features < 0] == ABSENT_COST).all()
        for pair in np.flatnonzero(candidates.features >= 0):
            node, feature = divmod(int(pair), DOMAIN.n_features)
            codes = np.array(sorted(possible[node][feature]))
            slots = np.flatnonzero(costs[pair] != ABSENT_COST)
            offered = candidates.masks(np.full(len(slots), pair), slots)
            if DOMAIN.is_categorical[feature]:
                own = categories.masks[categories.starts[feature] :][: categories.sizes[feature]]
                check_categorical_offer(offered, codes, own)
            else:
                check_numeric_offer(offered, slots, codes)
        if features is not None:
            possible = codes_of_children(possible, features, masks)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_what_a_node_is_offered_does_not_depend_on_its_rows(layout):
    categories = CategoricalCandidates.draw(DOMAIN, RandomSource(0))
    candidates = Candidates(DOMAIN, categories, Regions.roots(DOMAIN, 1), np.arange(DOMAIN.n_features)[None])
    empty = EmptyHistograms.of(DOMAIN.n_features, layout)
    expected = costs_of_all(candidates, empty, 0, DOMAIN.n_features, MEDIAN_COST) == ABSENT_COST
    for seed, n in enumerate((1, 1, 1, 2, 5, 50)):
        histograms = root_histograms(*random_rows(DOMAIN, layout, n, seed), layout)
        for cost in (MEDIAN_COST, Cost(1024, 5)):
            found = costs_of_all(candidates, histograms, 0, DOMAIN.n_features, cost) == ABSENT_COST
            assert (found == expected).all()


def test_both_sides_of_missing_values_cost_the_same_where_none_is_missing_and_stay_two_candidates():
    domain, cost = Domain({"x": Numeric(0, 1)}, target=CLASSES), Cost(1024, 5)
    for layout in LAYOUTS.values():
        codes = np.random.default_rng(0).integers(0, 255, size=(60, 1)).astype(np.uint8)
        _, target = random_rows(domain, layout, 60, 0)
        candidates = candidates_of(domain, [0])
        histograms = root_histograms(codes, target, layout)
        costs, mirrored = candidates.costs(histograms, 0, 1, cost)
        assert costs.shape == (1, candidates.n_slots) == (1, 510)
        assert mirrored.tolist() == [1]
        assert (costs[0, :255] != ABSENT_COST).all()
        for slot in (255, 300, 509):  # the masks of the second half cost what the first half says
            mask = candidates.masks(np.array([0]), np.array([slot]))
            assert mask_costs(histograms, [0], [0], mask, cost) == costs[0, slot - 255]


def test_one_missing_value_changes_which_side_is_better_and_not_which_sides_there_are():
    domain = Domain({"x": Numeric(0, 1)}, target=CLASSES)
    for layout in LAYOUTS.values():
        codes = np.random.default_rng(0).integers(0, 255, size=(60, 1)).astype(np.uint8)
        codes[0, 0] = MISSING
        _, target = random_rows(domain, layout, 60, 0)
        candidates = candidates_of(domain, [0])
        costs, mirrored = candidates.costs(root_histograms(codes, target, layout), 0, 1, Cost(1024, 5))
        assert mirrored.tolist() == [0]
        assert (costs != ABSENT_COST).all()
        assert (costs[0, :255] != costs[0, 255:]).any()
        # Where no value can be missing, the second half and the last threshold are no candidates.
        candidates.regions.missing[:] = 0
        costs, mirrored = candidates.costs(root_histograms(codes[1:], target[1:], layout), 0, 1, MEDIAN_COST)
        assert mirrored.tolist() == [0]
        assert ((costs[0] == ABSENT_COST) == (np.arange(510) >= 254)).all()


def test_a_narrow_numeric_feature_has_no_slot_of_a_wide_one():
    candidates = candidates_of(Domain({"narrow": Numeric(edges=[0]), "wide": Numeric(0, 1)}, target=CLASSES), [0, 1])
    bins = np.zeros((1, 2 * 256), dtype=np.uint64)
    costs = costs_of_all(candidates, NodeHistograms(bins, BINARY, 0), 0, 2, MEDIAN_COST)
    assert (costs != ABSENT_COST).sum(axis=1).tolist() == [4, 510]
    bins[0, [MISSING, 256 + MISSING]] = 1 << BINARY.shift
    costs, mirrored = candidates.costs(NodeHistograms(bins, BINARY, 0), 0, 2, MEDIAN_COST)
    assert mirrored.tolist() == [0, 0]
    assert (costs != ABSENT_COST).sum(axis=1).tolist() == [4, 510]


def test_a_categorical_feature_with_more_splits_than_cells_has_a_slot_for_each_of_its_splits():
    candidates = candidates_of(Domain({"x": Numeric(edges=[0]), "c": Categorical(range(8))}, target=CLASSES), [0, 1])
    costs = costs_of_all(candidates, EmptyHistograms.of(2, BINARY), 0, 2, MEDIAN_COST)
    assert candidates.categories.sizes.tolist() == [0, 511]
    assert (costs != ABSENT_COST).sum(axis=1).tolist() == [4, 511]
    slots = np.flatnonzero(costs[0] != ABSENT_COST)
    masks = candidates.masks(np.zeros(4, dtype=np.int64), slots)
    assert goes_right(masks, np.array([0, 1, MISSING])).tolist() == [
        [False, True, False],
        [False, False, False],
        [False, True, True],
        [False, False, True],
    ]


def test_without_categories_only_numeric_features_have_candidates():
    candidates = candidates_of(Domain({"x": Numeric(edges=[0]), "c": Categorical([0, 1])}, target=CLASSES), [-1, 0, 1])
    empty = EmptyHistograms.of(2, BINARY)
    with_categories = costs_of_all(candidates, empty, 0, 3, MEDIAN_COST) != ABSENT_COST
    without = costs_of_all(candidates, empty, 0, 3, MEDIAN_COST, categories=False) != ABSENT_COST
    assert with_categories.sum(axis=1).tolist() == [0, 4, 7]
    assert without.sum(axis=1).tolist() == [0, 4, 0]


# -- the splits of categorical features --------------------------------------------------------------------------------


@pytest.mark.parametrize("k", range(1, 9))
def test_up_to_eight_levels_every_split_is_a_candidate_exactly_once(k):
    domain = Domain({"c": Categorical(range(k))}, target=CLASSES)
    categories = CategoricalCandidates.draw(domain, RandomSource(0))
    codes = np.array(codes_of(domain, 0))
    sides = [tuple(bool(b) for b in row) for row in goes_right(categories.masks, codes)]
    n = len(codes)
    every = {s for s in itertools.product([False, True], repeat=n) if not s[0] and any(s)}
    assert len(sides) == categories.sizes[0] == len(every) == 2 ** (n - 1) - 1
    assert set(sides) == every
    assert CategoricalCandidates.draw(domain, RandomSource(1)).masks.tobytes() == categories.masks.tobytes()


@pytest.mark.parametrize("k", [9, 40, 254, 300])
def test_above_eight_levels_there_is_each_code_against_the_rest_and_a_fixed_number_of_random_splits(k):
    domain = Domain({"x": Numeric(0, 1), "c": Categorical(range(k))}, target=CLASSES)
    categories = CategoricalCandidates.draw(domain, RandomSource(0))
    codes = np.array(codes_of(domain, 1))
    assert len(codes) == min(k, 254) + 2
    assert categories.sizes.tolist() == [0, len(codes) + N_RANDOM_SPLITS]
    sides = goes_right(categories.masks, codes)
    assert (sides[: len(codes)] == np.eye(len(codes), dtype=bool)).all()
    random = sides[len(codes) :]
    assert abs(random.mean() - 0.5) < 5 * 0.5 / math.sqrt(random.size)
    assert CategoricalCandidates.draw(domain, RandomSource(0)).masks.tobytes() == categories.masks.tobytes()
    assert CategoricalCandidates.draw(domain, RandomSource(1)).masks.tobytes() != categories.masks.tobytes()
    outside = np.setdiff1d(np.arange(256), codes)
    assert not goes_right(categories.masks, outside).any()


# -- the features tried at a node --------------------------------------------------------------------------------------


def test_features_are_drawn_uniformly_among_those_that_can_be_split():
    regions = Regions.roots(DOMAIN, 20_000)
    regions.high[:, 4] = 0
    regions.missing[:, 4] = 0  # nothing left of "edge"
    drawn = draw_features(regions, 2, RandomSource(0))
    assert (drawn >= 0).all()
    assert (drawn[:, 0] < drawn[:, 1]).all()
    pairs, counts = np.unique(drawn, axis=0, return_counts=True)
    assert pairs.tolist() == [list(p) for p in itertools.combinations(range(4), 2)]
    assert (abs(counts - 20_000 / 6) < 5 * math.sqrt(20_000 / 6)).all()


def test_where_fewer_features_can_be_split_than_are_tried_the_rest_is_none():
    regions = Regions.roots(DOMAIN, 20_000)
    regions.high[:, 4] = 0
    regions.missing[:, 4] = 0
    assert (draw_features(regions, 5, RandomSource(0)) == [0, 1, 2, 3, -1]).all()
    regions.high[:, 0] = 0
    regions.missing[:, 0] = 0
    regions.allowed[:, 1:] = 0
    drawn = draw_features(regions, 2, RandomSource(0))
    assert (np.sort(drawn, axis=1) == [-1, 1]).all()
