"""Levels of every splitter: what they choose splits what is left at a node, once, whatever the batches are."""

from fractions import Fraction

import numpy as np
import pytest

from diprime._util.threads import Threads
from diprime.domain import OTHER, Categorical, Domain, Numeric
from diprime.model.regions import Regions
from diprime.privacy.charges import UnpaidReleaseError
from diprime.privacy.randomness import RandomSource
from diprime.training.splitting import levels
from tests.candidate_splits import (
    BINARY,
    CLASSES,
    DOMAIN,
    METHODS,
    ONE,
    engine_of,
    goes_right,
    grow,
    histograms_of,
    make_splitter,
    paid_level,
    random_rows,
)
from tests.paid import pay


def splits_of_levels(structure, domain):
    """Yield the regions, features and masks of each level of a single tree."""
    regions = Regions.roots(domain, 1)
    depth = (structure.features.shape[1] + 1).bit_length() - 1
    for level in range(depth):
        here = slice(2**level - 1, 2 ** (level + 1) - 1)
        features, masks = structure.features[0, here], structure.masks[0, here]
        yield regions, features, masks
        regions = regions.children(features, masks)
    yield regions, None, None


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("k", [33, 300])
def test_categorical_splits_with_many_levels_separate_the_levels_left_at_every_node(method, k):
    domain = Domain({"c": Categorical(range(k))}, target=CLASSES)
    rng = np.random.default_rng(0)
    values = rng.integers(0, k + 3, size=4000)
    codes = domain.encode(values[:, None])
    assert (codes[values < k, 0] == values[values < k] % 254).all()
    assert (codes[values >= k, 0] == OTHER).all()
    target = (codes[:, 0] % 2).astype(np.int32)
    splitter = make_splitter(method, domain)
    structure = grow(engine_of(codes, target, BINARY), splitter, domain, 1, [Fraction(1)] * 4, RandomSource(2))
    for regions, features, masks in splits_of_levels(structure, domain):
        codes_left = [np.flatnonzero(np.unpackbits(a[0], bitorder="little")) for a in regions.allowed]
        for mask, left in zip(masks, codes_left, strict=True) if features is not None else ():
            if len(left) > 1:
                assert 0 < goes_right(mask, left).sum() < len(left)
            else:
                assert not mask.any()
    if method in ("diprime", "diprime-exp"):  # medians: each node is cut near its middle, whatever its levels are
        root = goes_right(structure.masks[0, 0], codes[:, 0])
        assert abs(root.mean() - 0.5) < 0.05


@pytest.mark.parametrize("method", METHODS)
def test_a_node_with_nothing_left_to_split_sends_everything_left(method):
    domain = Domain(
        {"a": Categorical([False, True]), "b": Categorical([False, True]), "e": Numeric(edges=[0])}, target=CLASSES
    )
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, size=(300, 3)).astype(np.uint8)
    target = rng.integers(0, 2, size=300).astype(np.int32)
    engine = engine_of(codes, target, BINARY)
    structure = grow(engine, make_splitter(method, domain), domain, 1, [Fraction(1)] * 11, RandomSource(0))
    nodes, n_done = np.zeros(len(codes), dtype=np.int64), 0
    for regions, features, masks in splits_of_levels(structure, domain):
        done = ~regions.splittable().any(axis=1)
        if features is not None:
            n_done += done.sum()
            assert not masks[done].any()
            assert not features[done].any()
            nodes = 2 * nodes + [goes_right(masks[n], codes[i, features[n]]) for i, n in enumerate(nodes)]
    assert n_done > 500, "4 + 4 + 3 codes can be separated by nine levels"
    sums = engine.node_sums(BINARY.whole_range)
    assert sums.shape == (2**11, 2)
    np.testing.assert_array_equal(sums[:, 1], np.bincount(nodes, weights=target, minlength=2**11))
    np.testing.assert_array_equal(sums[:, 0], np.bincount(nodes, weights=1 - target, minlength=2**11))
    for leaf in np.unique(nodes[done[nodes]]):
        assert len(np.unique(codes[nodes == leaf], axis=0)) == 1, "a leaf of its own for each combination of values"
    assert done[nodes].mean() > 0.5


def chosen_splits(splitter, histograms, n_nodes, batches, threads):
    level = paid_level(splitter, Regions.roots(DOMAIN, n_nodes), Fraction(1), RandomSource(7))
    for begin, end in batches:
        level.choose(histograms, begin, end, threads)
    return level.features.tolist(), level.masks.tolist()


@pytest.mark.parametrize("method", METHODS)
def test_splits_do_not_depend_on_batches_and_threads(method, monkeypatch):
    codes, target = random_rows(DOMAIN, BINARY, 400, 0)
    engine = engine_of(codes, target, BINARY, np.arange(400, dtype=np.uint16) % 20, 20)
    histograms, splitter = histograms_of(engine, 20), make_splitter(method, DOMAIN)
    whole = chosen_splits(splitter, histograms, 20, [(0, 20)], ONE)
    assert chosen_splits(splitter, histograms, 20, [(12, 20), (0, 12)], ONE) == whole
    with Threads(2) as threads:
        assert chosen_splits(splitter, histograms, 20, [(0, 20)], threads) == whole
    monkeypatch.setattr(levels, "BATCH_BYTES", 1)
    assert chosen_splits(splitter, histograms, 20, [(0, 20)], ONE) == whole


@pytest.mark.parametrize("method", METHODS)
def test_the_split_of_a_node_is_chosen_once(method):
    codes, target = random_rows(DOMAIN, BINARY, 40, 0)
    histograms = histograms_of(engine_of(codes, target, BINARY))
    level = paid_level(make_splitter(method, DOMAIN), Regions.roots(DOMAIN, 1), Fraction(1), RandomSource(0))
    level.choose(histograms, 0, 1, ONE)
    with pytest.raises(UnpaidReleaseError, match="picked from twice"):
        level.choose(histograms, 0, 1, ONE)


@pytest.mark.parametrize("method", METHODS[:4])
def test_a_level_uses_its_receipts_up(method):
    splitter, regions = make_splitter(method, DOMAIN), Regions.roots(DOMAIN, 3)
    receipts = [pay(charge) for charge in splitter.charges(0, Fraction(1), 1, "")]
    splitter.level(regions, receipts, RandomSource(0))
    assert [receipt.unused for receipt in receipts] == [0] * len(receipts)
    with pytest.raises(UnpaidReleaseError, match="paid releases are left"):
        splitter.level(regions, receipts, RandomSource(0))
