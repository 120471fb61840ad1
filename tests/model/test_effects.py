"""Main effects and interactions: they add up to the terms exactly, and each has mean zero over each feature."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.model.effects import Effects, code_shares, deviation, importances, segment_shares, separate
from diprime.model.terms import Term, collapse
from tests.made_additive import DOMAINS, made_forest

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
    expected = forest.offset + constant + sum(term.values(codes) for term in terms)
    assert np.array_equal(effects.offset + sum(term.values(codes) for term in effects.terms), expected)
    out = np.tile(effects.offset, (60, 1))
    effects.add_scores(codes, out)
    assert np.array_equal(out, expected)
    for term in effects.terms:
        assert np.array_equal(np.rint(term.table / forest.quantum) * forest.quantum, term.table)
        assert term.table.any()
        for axis, shares in enumerate(segment_shares(term, forest.code_weights)):
            means = np.tensordot(shares, term.table, ([0], [axis]))
            assert means == pytest.approx(0, abs=4 * forest.quantum)


def test_an_interaction_gives_its_main_effects_away():
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
    assert importances(effects, np.ones((2, 256))).tolist() == [0, 0]


def test_codes_without_records_share_alike():
    assert code_shares(np.zeros(256)).tolist() == [1 / 256] * 256
    assert code_shares(np.full(256, -1.0)).tolist() == [1 / 256] * 256
    shares = code_shares(np.concatenate([[-5.0, 1.0, 3.0], np.zeros(253)]))
    assert shares[:3].tolist() == [0, 0.25, 0.75]


def test_importances_are_shares_of_standard_deviations():
    weights = np.ones((3, 256))
    weights[0, :128] = 0  # feature 0 is constant
    terms = (
        Term((0,), (HALVES,), table(-100, 0)),
        Term((1,), (HALVES,), table(-3, 3)),
        Term((1, 2), (HALVES, HALVES), table([2, -2], [-2, 2])),
    )
    assert [deviation(term, weights) for term in terms] == [0, 3, 2]
    assert importances(Effects(np.zeros(1), terms), weights).tolist() == [0, 0.8, 0.2]


def test_what_is_added_to_all_classes_alike_is_not_important():
    terms = (
        Term((0,), (HALVES,), np.array([[5.0, 5.0, 5.0], [-5.0, -5.0, -5.0]])),
        Term((1,), (HALVES,), np.array([[1.0, 0.0, -1.0], [-1.0, 0.0, 1.0]])),
    )
    assert importances(Effects(np.zeros(3), terms), np.ones((2, 256))).tolist() == [0, 1]
