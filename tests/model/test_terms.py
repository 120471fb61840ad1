"""Trees collapse to functions of one or two features, exactly."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime import Categorical, Domain, Numeric
from diprime.model import terms as terms_module
from diprime.model.additive import AdditiveForest
from diprime.model.masks import threshold_mask
from diprime.model.terms import collapse, first_codes, segments_of
from diprime.model.trees import Structure, Trees, flat_arrays
from tests.made_additive import DOMAINS, made_forest


def walk(trees, codes):
    """Return the sums of the values of the leaves that rows reach, one split at a time."""
    total = np.zeros((len(codes), trees.values.shape[1]))
    split = leaf = 0
    for depth in trees.depths.tolist():
        for row, code in enumerate(codes):
            node = 0
            for _ in range(depth):
                value = int(code[trees.features[split + node]])
                node = 2 * node + 1 + (int(trees.masks[split + node, value // 8]) >> (value % 8) & 1)
            total[row] += trees.values[leaf + node - (2**depth - 1)]
        split, leaf = split + 2**depth - 1, leaf + 2**depth
    return total


@given(
    seed=st.integers(0, 2**32 - 1),
    target=st.sampled_from(sorted(DOMAINS)),
    n_trees=st.integers(1, 12),
    oblivious=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_terms_add_up_to_the_trees(seed, target, n_trees, oblivious):
    forest = made_forest(seed, DOMAINS[target], n_trees, oblivious=oblivious)
    codes = np.random.default_rng(seed).integers(0, 256, (50, 5)).astype(np.uint8)
    constant, terms = collapse(forest)
    assert np.array_equal(constant + sum(term.values(codes) for term in terms), walk(forest, codes))
    assert len({term.features for term in terms}) == len(terms)
    for term in terms:
        assert list(term.features) == sorted(set(term.features))
        assert term.table.shape[:-1] == tuple(s.max() + 1 for s in term.segments)
        for segments in term.segments:
            assert (np.diff(first_codes(segments)) > 0).all()
            assert segments.dtype == np.uint8


def tree(features, masks, values):
    depth = len(features).bit_length()
    structure = Structure(np.array([features], dtype=np.int32), np.array([masks], dtype=np.uint8))
    return flat_arrays(structure, np.array(values, dtype=np.float64).reshape(1, 2**depth, 1), np.ones((1, 2**depth)))


def above(threshold):
    return threshold_mask(np.array([threshold]), np.array([True]))[0]


def joined(*trees):
    return Trees(*(np.concatenate(arrays) for arrays in zip(*trees, strict=True)))


def test_trees_on_the_same_features_are_one_term():
    trees = joined(
        tree([1], [above(9)], [0, 1]),
        tree([1], [above(19)], [0, 10]),
        tree([2, 1, 1], [above(4), above(9), above(9)], [0, 100, 200, 300]),
        tree([1, 2, 2], [above(19), above(4), above(6)], [0, 1000, 2000, 3000]),
    )
    constant, (main, pair) = collapse(trees)
    assert constant == 0
    assert main.features == (1,)
    assert main.table[:, 0].tolist() == [0, 1, 11]
    assert main.segments[0].tolist() == [0] * 10 + [1] * 10 + [2] * 236
    assert pair.features == (1, 2)
    assert pair.table.shape == (3, 3, 1)
    assert pair.table[0, :, 0].tolist() == [0, 1200, 1200]
    assert pair.table[2, :, 0].tolist() == [2100, 2300, 3300]


def test_features_that_separate_nothing_do_not_count():
    none, all_right = np.zeros(32, dtype=np.uint8), np.full(32, 255, dtype=np.uint8)
    trees = joined(
        tree([0, 1, 2], [none, above(9), above(9)], [5, 6, 7, 8]),  # right of the root nothing arrives
        tree([0], [none], [40, 1]),
        tree([2], [all_right], [1, 50]),
    )
    constant, terms = collapse(trees)
    assert constant == 90
    assert [term.features for term in terms] == [(1, 2)]
    assert terms[0].table[:, :, 0].tolist() == [[5, 5], [6, 6]]


def test_a_tree_on_three_features_is_refused():
    with pytest.raises(ValueError, match="more than 2 features"):
        collapse(joined(tree([0, 1, 2], [above(1), above(2), above(3)], [0, 1, 2, 3])))


def test_terms_that_are_too_large_are_refused(monkeypatch):
    forest = made_forest(0, DOMAINS["three"])
    n_values = sum(term.table.size for term in collapse(forest)[1])
    monkeypatch.setattr(terms_module, "MAX_TERM_VALUES", n_values)
    collapse(forest)
    monkeypatch.setattr(terms_module, "MAX_TERM_VALUES", n_values - 1)
    with pytest.raises(ValueError, match="too many cells"):
        collapse(forest)


def test_segments_are_numbered_by_their_first_codes():
    rows = np.array([3, 3, 1, 2, 1, 3])[:, None]
    assert segments_of(rows).tolist() == [0, 0, 1, 2, 1, 0]
    assert first_codes(segments_of(rows)).tolist() == [0, 2, 3]


def test_up_to_256_segments_of_both_features():
    """Every code of two features has a segment of its own: the largest table that a pair can have."""
    rng = np.random.default_rng(0)
    domain = Domain({"a": Categorical(range(254)), "b": Categorical(range(254)), "c": Numeric(0, 1)}, Numeric(0, 1))
    bits = ((np.arange(256)[:, None] >> np.arange(8)) & 1).T.astype(np.uint8)
    masks = np.packbits(bits, axis=1, bitorder="little")
    rounds = []
    for a, b in zip(masks, masks[::-1], strict=True):
        structure = Structure(np.array([[0, 1, 1]], dtype=np.int32), np.array([[a, b, b]]))
        rounds.append((structure, rng.integers(-9, 9, (1, 4, 1)).astype(float), np.ones((1, 4))))
    forest = AdditiveForest.of_rounds(rounds, np.zeros(1), 2.0**-10, np.ones((3, 256)), domain)
    forest.check(domain)
    (term,) = collapse(forest)[1]
    assert term.table.shape == (256, 256, 1)
    codes = rng.integers(0, 256, (300, 3)).astype(np.uint8)
    assert np.array_equal(term.values(codes), walk(forest, codes))
    out = np.tile(forest.effects.offset, (300, 1))
    forest.effects.add_scores(codes, out)
    assert np.array_equal(out, walk(replace(forest), codes))


def test_trees_that_separate_nothing_are_a_constant():
    none = np.zeros(32, dtype=np.uint8)
    constant, terms = collapse(joined(tree([0], [none], [1, 2]), tree([1, 1, 1], [none] * 3, [4, 5, 6, 7])))
    assert (constant.tolist(), terms) == ([5], [])
