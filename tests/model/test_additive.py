"""Additive forests: scores are sums of leaf values, exactly, whatever the threads and however trees are collapsed."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime import Categorical, Domain, Numeric
from diprime._util.resources import Threads
from diprime.model.additive import MAX_QUANTA, AdditiveForest, quantum_for
from diprime.model.effects import Clip, Logistic
from diprime.model.trees import READ_BLOCK_ROWS
from tests.encoded_rows import EncodedRows
from tests.made_additive import DOMAINS, made_codes, made_forest

TARGETS = sorted(DOMAINS)


def scores_of(forest, codes, n_threads=1):
    with Threads(n_threads) as threads:
        return forest.scores(EncodedRows(codes), threads)


def walked(forest, codes):
    """Return the sums of the values of the leaves that ``apply`` finds, from the last tree to the first."""
    with Threads(1) as threads:
        leaves = forest.apply(EncodedRows(codes), threads)
    total = np.zeros((len(codes), len(forest.offset)))
    for tree in reversed(range(forest.n_trees)):
        total += forest.values[forest.first_leaves[tree] + leaves[:, tree]]
    return total + forest.offset


@given(
    seed=st.integers(0, 2**32 - 1),
    target=st.sampled_from(TARGETS),
    n_trees=st.integers(1, 20),
    oblivious=st.booleans(),
    scale=st.sampled_from([1e-30, 1.0, 1e6]),
)
@settings(deadline=None, max_examples=60)
def test_scores_are_sums_of_leaf_values_bit_for_bit(seed, target, n_trees, oblivious, scale):
    forest = made_forest(seed, DOMAINS[target], n_trees, oblivious=oblivious, scale=scale)
    forest.check(DOMAINS[target])
    codes = np.random.default_rng(seed).integers(0, 256, (40, 5)).astype(np.uint8)
    assert np.array_equal(scores_of(forest, codes), walked(forest, codes))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [0, 1, 511, 513, 3 * READ_BLOCK_ROWS + 1])
def test_predictions_follow_from_the_scores_with_any_number_of_threads(target, n):
    forest = made_forest(1, DOMAINS[target])
    rows = EncodedRows(made_codes(np.random.default_rng(0), DOMAINS[target], n))
    for n_threads in (1, 3):
        with Threads(n_threads) as threads:
            scores = forest.scores(rows, threads)
            assert np.array_equal(scores, walked(forest, rows.codes))
            assert np.array_equal(forest.predict(rows, threads), forest.link.predict(scores))
            assert np.array_equal(forest.decide(rows, threads), forest.link.decide(scores))


def test_numbers_are_encoded_as_by_the_domain():
    domain = Domain({"a": Numeric(-3, 3), "b": Numeric(1, 50, scale="log")}, Categorical(["x", "y"]))
    forest = made_forest(0, domain, 30)
    X = np.random.default_rng(0).normal(size=(5000, 2)).astype(np.float32)
    with Threads(2) as threads:
        assert np.array_equal(forest.scores(domain.reader(X), threads), scores_of(forest, domain.encode(X)))


def test_the_shapes_of_predictions():
    codes = made_codes(np.random.default_rng(0), DOMAINS["two"], 9)
    with Threads(1) as threads:
        shapes = {t: made_forest(0, DOMAINS[t]).predict(EncodedRows(codes), threads).shape for t in TARGETS}
    assert shapes == {"two": (9, 2), "three": (9, 3), "number": (9, 1)}


def test_numbers_stay_within_the_range_of_the_target():
    forest = made_forest(0, DOMAINS["number"], scale=20.0)
    codes = made_codes(np.random.default_rng(0), DOMAINS["number"], 500)
    with Threads(1) as threads:
        predicted = forest.predict(EncodedRows(codes), threads)
    assert predicted.min() == forest.link.limits[0] > -1.1
    assert predicted.max() == forest.link.limits[1] < 10.3
    assert (forest.link.limits[0] + 1.1, 10.3 - forest.link.limits[1]) == pytest.approx((0, 0), abs=1e-10)


# What no fit could have made is refused ------------------------------------------------------------------------------


def changed(forest, name, value):
    array = np.array(getattr(forest, name))
    array.reshape(-1)[-1] = value
    return replace(forest, **{name: array})


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("features", 5, "split .*feature .*domain"),
        ("features", -1, "split .*feature .*domain"),
        ("values", np.nan, "multiple of the quantum"),
        ("values", np.inf, "multiple of the quantum"),
        ("values", 2.0**40, "too large"),
        ("values", 1e308, "multiple of the quantum"),
        ("values", 2.0**-60, "multiple of the quantum"),
        ("offset", np.nan, "multiple of the quantum"),
        ("offset", -(2.0**40), "too large"),
        ("counts", np.inf, "leaf's number .*records"),
        ("code_weights", np.nan, "number .*records of a code"),
        ("code_weights", -1e17, "number .*records of a code"),
    ],
)
def test_impossible_arrays_are_refused(name, value, reason):
    for target in TARGETS:
        with pytest.raises(ValueError, match=reason):
            changed(made_forest(0, DOMAINS[target]), name, value).check(DOMAINS[target])


@pytest.mark.parametrize("quantum", [0.0, -0.5, 0.75, np.nan, np.inf, 2.0**-500, 2.0**500])
def test_a_quantum_that_is_no_power_of_two_is_refused(quantum):
    forest = made_forest(0, DOMAINS["two"])
    with pytest.raises(ValueError, match=r"quantum .*power of two"):
        replace(forest, quantum=quantum).check(DOMAINS["two"])


def test_unfit_quantum_or_link_is_refused():
    domain = DOMAINS["number"]
    forest = made_forest(0, domain, 1)
    narrow = Domain(domain.features, Numeric(0.25, 0.75))
    zeros = replace(forest, values=forest.values * 0, offset=forest.offset * 0, quantum=1.0)
    with pytest.raises(ValueError, match="too coarse"):
        replace(zeros, link=Clip(0.25, 0.75, 1.0)).check(narrow)
    with pytest.raises(ValueError, match="link"):
        replace(forest, link=Logistic()).check(domain)
    with pytest.raises(ValueError, match="link"):
        replace(forest, link=Clip(0, 10.3, forest.quantum)).check(domain)


def test_sums_of_magnitudes_may_reach_the_limit_but_not_exceed_it():
    forest = made_forest(0, DOMAINS["two"], 1)
    single = replace(forest, values=np.full_like(forest.values, MAX_QUANTA / 2), quantum=1.0)
    at_limit = replace(single, offset=np.array([-MAX_QUANTA / 2]))
    at_limit.check(DOMAINS["two"])
    with pytest.raises(ValueError, match="too large"):
        replace(single, offset=np.array([MAX_QUANTA / 2 + 1])).check(DOMAINS["two"])


def test_a_range_that_is_too_wide_for_the_quantum_is_refused():
    domain = Domain({"a": Numeric(0, 1)}, Numeric(0, 2.0**20))
    forest = made_forest(0, domain, 1, quantum=2.0**-28)
    forest.check(domain)
    finer = made_forest(0, domain, 1, quantum=2.0**-29)
    with pytest.raises(ValueError, match="too large"):
        finer.check(domain)


# Merging -------------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32 - 1), target=st.sampled_from(TARGETS), n=st.integers(1, 4))
@settings(deadline=None, max_examples=40)
def test_a_merged_model_has_the_weighted_mean_of_the_scores(seed, target, n):
    rng = np.random.default_rng(seed)
    domain = DOMAINS[target]
    forests = [made_forest(seed + i, domain, int(rng.integers(1, 6))) for i in range(n)]
    forests = [replace(f, n_records=f.n_records * rng.uniform(0.1, 9)) for f in forests]
    merged = AdditiveForest.merge(forests)
    merged.check(domain)
    codes = made_codes(rng, domain, 30)
    assert np.array_equal(scores_of(merged, codes), walked(merged, codes))  # sums are exact again
    weights = np.array([f.n_records for f in forests])
    expected = np.average([scores_of(f, codes) for f in forests], axis=0, weights=weights)
    assert scores_of(merged, codes) == pytest.approx(expected, abs=1e-9)
    assert merged.n_records == pytest.approx(weights.sum())
    assert np.array_equal(merged.counts, np.concatenate([f.counts for f in forests]))


def test_merged_model_has_the_finest_exact_quantum():
    fine, coarse = (made_forest(0, DOMAINS["number"], quantum=quantum) for quantum in (2.0**-40, 2.0**-10))
    assert AdditiveForest.merge([fine, coarse]).quantum == 2.0**-40
    huge = made_forest(0, DOMAINS["number"], scale=1e30)
    merged = AdditiveForest.merge([fine, huge])
    assert merged.quantum >= merged.magnitude / MAX_QUANTA
    assert merged.link == Clip(-1.1, 10.3, merged.quantum)


def test_models_without_records_are_merged_with_weight_one():
    forest = made_forest(0, DOMAINS["two"])
    empty = replace(forest, n_records=-1.0)
    codes = made_codes(np.random.default_rng(0), DOMAINS["two"], 30)
    merged = AdditiveForest.merge([empty, empty])
    assert scores_of(merged, codes) == pytest.approx(scores_of(empty, codes), abs=1e-9)


def test_merged_models_add_up_their_numbers_of_records():
    forest = made_forest(0, DOMAINS["two"])
    north, south = (
        replace(forest, n_records=300.0, records_noise=3.0),
        replace(forest, n_records=-7.0, records_noise=4.0),
    )
    merged = AdditiveForest.merge([north, south])
    assert (merged.n_records, merged.records_noise) == (293.0, 5.0)


# The rest ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [1e-300, 1e-9, 1.0, 15.9, 16.0, 1e20])
def test_a_quantum_leaves_room_for_rounding(largest):
    quantum = quantum_for(largest)
    assert largest <= MAX_QUANTA / 2 * quantum
    assert quantum == 2.0**-400 or largest >= MAX_QUANTA / 8 * quantum


def test_pickled_additive_forest_holds_no_cached_effects():
    forest, codes = made_forest(0, DOMAINS["three"]), made_codes(np.random.default_rng(0), DOMAINS["three"], 20)
    expected = scores_of(forest, codes)
    copy = pickle.loads(pickle.dumps(forest))
    assert "effects" in vars(forest)
    assert "effects" not in vars(copy)
    assert np.array_equal(scores_of(copy, codes), expected)
    assert repr(copy).startswith("<AdditiveForest of 8 trees of depth ")
