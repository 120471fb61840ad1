"""Links: scores become probabilities that sum to one, or numbers within the range.

Trees collapse to functions of one or two features, exactly.

Main effects and interactions: they add up to the terms exactly, and each has mean zero over each feature.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diprime import Categorical, Domain, Numeric
from diprime.model import effects as terms_module
from diprime.model.effects import (
    Clip,
    Logistic,
    Softmax,
    Term,
    code_shares,
    collapse,
    deviation,
    first_codes,
    link_of,
    segment_shares,
    segments_of,
    separate,
)
from diprime.model.trees import Structure, Trees, flat_arrays, threshold_mask
from tests.made_additive import DOMAINS, additive_forest, made_forest

SCORES = np.array([-1e300, -800.0, -3.0, -1e-9, 0.0, 1e-9, 2.0, 800.0, 1e300])


def domain(target):
    return Domain({"a": Numeric(0, 1)}, target)


def test_the_target_has_its_link():
    assert link_of(domain(Categorical(["a", "b"])), 1.0) == Logistic()
    assert link_of(domain(Categorical(["a", "b", "c"])), 1.0) == Softmax(3)
    assert link_of(domain(Categorical(["a"])), 1.0) == Softmax(1)
    assert link_of(domain(Numeric(0.1, 2)), 0.5) == Clip(0.1, 2, 0.5)
    assert [link_of(domain(Categorical(range(n))), 1.0).n_scores for n in (1, 2, 3)] == [1, 1, 3]


def test_log_odds_become_probabilities():
    probabilities = Logistic().predict(SCORES[:, None])
    assert probabilities.sum(axis=1) == pytest.approx(1)
    assert probabilities[:, 1] == pytest.approx(
        [0, 0, 1 / (1 + math.exp(3)), 0.5, 0.5, 0.5, 1 / (1 + math.exp(-2)), 1, 1]
    )
    assert (np.diff(probabilities[:, 1]) >= 0).all()
    assert np.array_equal(Logistic().predict(-SCORES[:, None]), probabilities[:, ::-1])
    assert Logistic().decide(SCORES[:, None]).tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1]


def test_scores_of_classes_become_probabilities():
    scores = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [-1e300, 1e300, 0.0], [5.0, 5.0, -800.0]])
    probabilities = Softmax(3).predict(scores)
    assert probabilities.sum(axis=1) == pytest.approx(1)
    assert probabilities[1] == pytest.approx(np.exp([1, 2, 3]) / np.exp([1, 2, 3]).sum())
    assert Softmax(3).decide(scores).tolist() == [0, 2, 1, 0]
    assert Softmax(1).predict(np.array([[3.0]])).tolist() == [[1.0]]


def test_numbers_are_clipped_to_multiples_of_the_quantum_within_the_range():
    link = Clip(0.3, 1.7, 0.25)
    assert link.limits == (0.5, 1.5)
    assert link.predict(np.array([[-1e300], [0.25], [0.75], [1.75]])).tolist() == [[0.5], [0.5], [0.75], [1.5]]
    assert link.in_quanta_of(0.125).limits == (0.375, 1.625)
    assert link.magnitude == 1.7
    assert Clip(-3.0, 1.0, 0.25).magnitude == 3
    assert Logistic().in_quanta_of(0.5) == Logistic()


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
@example(seed=29940, target="three", n_trees=1, oblivious=False)
@settings(deadline=None, max_examples=60)
def test_terms_add_up_to_the_trees(seed, target, n_trees, oblivious):
    forest = made_forest(seed, DOMAINS[target], n_trees, oblivious=oblivious)
    codes = np.random.default_rng(seed).integers(0, 256, (50, 5)).astype(np.uint8)
    constant, terms = collapse(forest)
    constants = np.tile(constant, (len(codes), 1))  # there may be no terms
    assert np.array_equal(sum((term.values(codes) for term in terms), constants), walk(forest, codes))
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


def test_features_without_dividing_splits_are_ignored():
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
    with pytest.raises(ValueError, match="many cells"):
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
    forest = additive_forest(rounds, np.zeros(1), 2.0**-10, np.ones((3, 256)), domain)
    forest.check(domain)
    (term,) = collapse(forest)[1]
    assert term.table.shape == (256, 256, 1)
    codes = rng.integers(0, 256, (300, 3)).astype(np.uint8)
    assert np.array_equal(term.values(codes), walk(forest, codes))
    out = np.tile(forest.effects.offset, (300, 1))
    forest.effects.add_scores(codes, out)
    assert np.array_equal(out, walk(replace(forest), codes))


def test_trees_without_dividing_splits_are_a_constant():
    none = np.zeros(32, dtype=np.uint8)
    constant, terms = collapse(joined(tree([0], [none], [1, 2]), tree([1, 1, 1], [none] * 3, [4, 5, 6, 7])))
    assert (constant.tolist(), terms) == ([5], [])


HALVES = np.repeat([0, 1], 128).astype(np.uint8)
QUARTERS = np.repeat([0, 1, 2, 3], 64).astype(np.uint8)


def table(*rows):
    return np.array(rows, dtype=np.float64)[..., None]


@given(seed=st.integers(0, 2**32 - 1), target=st.sampled_from(sorted(DOMAINS)), n_trees=st.integers(1, 12))
@settings(deadline=None, max_examples=60)
def test_effects_add_up_to_the_terms_and_are_centred(seed, target, n_trees):
    forest = made_forest(seed, DOMAINS[target], n_trees, oblivious=False)
    codes = np.random.default_rng(seed).integers(0, 256, (60, 5)).astype(np.uint8)
    constant, terms = collapse(forest)
    effects = forest.effects
    start = np.tile(forest.offset + constant, (60, 1))  # there may be no terms
    expected = start + sum(term.values(codes) for term in terms)
    offsets = np.tile(effects.offset, (60, 1))
    assert np.array_equal(offsets + sum(term.values(codes) for term in effects.terms), expected)
    out = np.tile(effects.offset, (60, 1))
    effects.add_scores(codes, out)
    assert np.array_equal(out, expected)
    for term in effects.terms:
        assert np.array_equal(np.rint(term.table / forest.quantum) * forest.quantum, term.table)
        assert term.table.any()
        for axis, shares in enumerate(segment_shares(term, forest.code_counts)):
            means = np.tensordot(shares, term.table, ([0], [axis]))
            assert means == pytest.approx(0, abs=4 * forest.quantum)


def test_main_effects_are_separated_from_interactions():
    # Half of the records have codes below 128 of feature 0, and a quarter of them of feature 1.
    weights = np.ones((2, 256))
    weights[1, 128:] = 3
    pair = Term((0, 1), (HALVES, HALVES), table([0, 0], [0, 16]))
    effects = separate(np.array([1.0]), [pair], 0.5, weights)
    assert effects.offset == 1 + 16 * 0.5 * 0.75
    first, second, pure = effects.terms
    assert first.table[:, 0].tolist() == [-6, 6]
    assert second.table[:, 0].tolist() == [-6, 2]
    assert pure.table[..., 0].tolist() == [[6, -2], [-6, 2]]
    assert [term.features for term in effects.terms] == [(0,), (1,), (0, 1)]


def test_a_sum_of_main_effects_has_no_interaction():
    pair = Term((0, 1), (HALVES, QUARTERS), table([1, 2, 3, 4], [11, 12, 13, 14]))
    effects = separate(np.zeros(1), [pair], 0.5, np.ones((2, 256)))
    assert [term.features for term in effects.terms] == [(0,), (1,)]
    assert effects.terms[1].table[:, 0].tolist() == [-1.5, -0.5, 0.5, 1.5]


def test_main_effects_of_a_term_and_of_pairs_add_up():
    main = Term((0,), (QUARTERS,), table(0, 4, 8, 12))
    pair = Term((0, 1), (HALVES, HALVES), table([0, 0], [8, 8]))
    (term,) = separate(np.zeros(1), [main, pair], 1.0, np.ones((2, 256))).terms
    assert term.table[:, 0].tolist() == [-10, -6, 6, 10]
    assert term.segments[0].tolist() == QUARTERS.tolist()


def test_effects_that_cancel_are_no_terms():
    main = Term((0,), (HALVES,), table(8, 0))
    pair = Term((0, 1), (HALVES, HALVES), table([0, 0], [8, 8]))
    effects = separate(np.zeros(1), [main, pair], 1.0, np.ones((2, 256)))
    assert effects.terms == ()
    assert effects.offset == 8


def test_codes_without_records_share_alike():
    assert code_shares(np.zeros(256)).tolist() == [1 / 256] * 256
    assert code_shares(np.full(256, -1.0)).tolist() == [1 / 256] * 256
    shares = code_shares(np.concatenate([[-5.0, 1.0, 3.0], np.zeros(253)]))
    assert shares[:3].tolist() == [0, 0.25, 0.75]


def test_deviations_are_over_the_records():
    weights = np.ones((3, 256))
    weights[0, :128] = 0  # feature 0 is constant
    terms = (
        Term((0,), (HALVES,), table(-100, 0)),
        Term((1,), (HALVES,), table(-3, 3)),
        Term((1, 2), (HALVES, HALVES), table([2, -2], [-2, 2])),
    )
    assert [deviation(term, weights) for term in terms] == [0, 3, 2]


def test_effects_common_to_all_classes_have_no_deviation():
    terms = (
        Term((0,), (HALVES,), np.array([[5.0, 5.0, 5.0], [-5.0, -5.0, -5.0]])),
        Term((1,), (HALVES,), np.array([[1.0, 0.0, -1.0], [-1.0, 0.0, 1.0]])),
    )
    assert [deviation(term, np.ones((2, 256))) for term in terms] == pytest.approx([0, np.sqrt(2 / 3)])
