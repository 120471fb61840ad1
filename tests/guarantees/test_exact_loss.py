"""The privacy loss of a level's splits: exact for all small data sets, and measured on many trees."""

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy.stats import beta

from diprime.domain import MISSING, OTHER, Categorical, Domain, Numeric
from diprime.domain.encoding import TargetLayout
from diprime.forest.candidates import MEDIAN_COST, Cost
from diprime.forest.splitters import _JointLevel, quality
from diprime.kernels.constants import ABSENT_COST
from diprime.model.trees import Regions
from diprime.privacy.charges import Mechanism
from diprime.privacy.mechanisms import selection
from diprime.privacy.mechanisms.selection import (
    exp_upper,
    exponential_pmf,
    permute_and_flip_pmf,
    subset_median_pmf,
    weight_table,
)
from diprime.privacy.randomness import RandomSource
from tests.candidate_splits import (
    costs_of_all,
    engine_of,
    grow,
    histograms_of,
    in_order,
    make_splitter,
    mask_costs,
    paid_level,
    root_histograms,
)
from tests.guarantees.neighbours import encoded

TINY = Domain({"x": Numeric(edges=[0.5]), "c": Categorical(["a"])}, target=Categorical(["no", "yes"]))
TINY_NUMBER = Domain(TINY.features, target=Numeric(0, 1))
# All the records that codes can tell apart, but for the category "other".
TINY_RECORDS = list(itertools.product([0.0, 1.0, None], ["a", "b"], ["no", "yes"]))
NUMBER_RECORDS = list(itertools.product([0.0, 1.0, None], ["a", "b"], [0.0, 0.5, 1.0]))
EPSILON = Fraction(3, 2)
BINARY = TargetLayout.of_classes(2)


def splitter_of(method, domain, balance=Fraction(1, 10)):
    linear_tail = Fraction(1, 8) if domain.layout.units == 1 else Fraction(0)
    return make_splitter(method, domain, balance=balance, linear_tail=linear_tail)


# -- the distribution of a root's split, in fractions ------------------------------------------------------------------


def joint_distribution(level, histograms):
    """Return the distribution of one selection over all features and thresholds."""
    candidates = level.candidates
    costs = costs_of_all(candidates, histograms, 0, candidates.per_node, level.cost).ravel()
    result = {}
    for at, p in enumerate(exponential_pmf(costs.tolist(), level.selection.table)):
        if costs[at] != ABSENT_COST:
            pair, slot = divmod(at, candidates.n_slots)
            mask = candidates.masks(np.array([pair]), np.array([slot]))[0]
            key = (int(candidates.features[pair]), mask.tobytes())
            result[key] = result.get(key, 0) + p
    return result


def subset_medians(level, histograms, pair):
    """Return the masks of a categorical feature's medians out of all subsets, with their probabilities."""
    feature = int(level.candidates.features[pair])
    codes = [*range(level.splitter.domain.n_codes[feature]), OTHER, MISSING]
    counts = histograms.counts(0, feature)[codes].tolist()
    for right, p in subset_median_pmf(counts, level.medians.table).items():
        bits = np.zeros(256, dtype=np.uint8)
        bits[codes] = right
        yield np.packbits(bits, bitorder="little"), p


def listed_medians(level, histograms, pair, pmf):
    """Return the masks of a feature's medians out of the listed candidates, with their probabilities."""
    costs = costs_of_all(level.candidates, histograms, pair, pair + 1, MEDIAN_COST)[0]
    slots = np.flatnonzero(costs != ABSENT_COST)
    masks = level.candidates.masks(np.full(len(slots), pair), slots)
    return zip(masks, pmf(costs[slots].tolist(), level.medians.table), strict=True)


def median_distribution(level, histograms):
    """Return the distribution of a choice among private medians."""
    flip = level.splitter.rule == Mechanism.PERMUTE_AND_FLIP
    pmf = permute_and_flip_pmf if flip else exponential_pmf
    medians = []
    for pair, feature in enumerate(level.candidates.features.tolist()):
        of_subsets = level.candidates.kind[pair] == 1 and not flip
        found = subset_medians(level, histograms, pair) if of_subsets else listed_medians(level, histograms, pair, pmf)
        medians.append([(feature, mask, p) for mask, p in found])
    if level.choices is None:
        return {(feature, mask.tobytes()): p for feature, mask, p in medians[0]}

    @cache
    def choice(costs):
        return pmf(costs, level.choices.table)

    def with_cost(feature, mask, p):
        (cost,) = mask_costs(histograms, [0], [feature], mask[None], quality(1))
        return (feature, mask.tobytes()), p, int(cost)

    result = {}
    for drawn in itertools.product(*([with_cost(*option) for option in options] for options in medians)):
        probability = math.prod(p for _, p, _ in drawn)
        for (key, _, _), p in zip(drawn, choice(tuple(cost for *_, cost in drawn)), strict=True):
            result[key] = result.get(key, 0) + probability * p
    return result


def exact_distribution(level, histograms):
    """Return the distribution of the split of a root out of the level's own costs and weights."""
    distribution = joint_distribution if isinstance(level, _JointLevel) else median_distribution
    return distribution(level, histograms)


# -- the exact privacy loss --------------------------------------------------------------------------------------------


def largest_loss(first, second, epsilon):
    """Return whether two distributions are epsilon-close, decided in integers, and the largest log-ratio as a float."""
    assert first.keys() == second.keys()
    bits = 100
    shrink = exp_upper(epsilon, bits)  # at least 2^bits·e^-epsilon: a bound that holds for it holds for e^-epsilon
    close, loss = True, 0.0
    for key, p in first.items():
        q = second[key]
        close &= p * shrink <= q * 2**bits and q * shrink <= p * 2**bits
        loss = max(loss, abs(math.log(p / q)))
    return close, loss


def losses_of_all_neighbours(method, domain, kinds, sizes, level_for):
    """Yield closeness and loss for all data sets up to a size and every record added to them."""
    level = level_for(splitter_of(method, domain), Regions.roots(domain, 1))

    @cache
    def distribution(data):
        histograms = root_histograms(*encoded(domain, [kinds[i] for i in data]), domain.layout)
        result = exact_distribution(level, histograms)
        assert sum(result.values()) == 1
        return result

    for size in sizes:
        for data in itertools.combinations_with_replacement(range(len(kinds)), size):
            for record in range(len(kinds)):
                neighbour = tuple(sorted((*data, record)))
                yield largest_loss(distribution(data), distribution(neighbour), EPSILON)


def honest(splitter, regions):
    """Prepare a level that was paid for with EPSILON."""
    return paid_level(splitter, regions, EPSILON, RandomSource(0))


def twice_the_weights(epsilon, *rest):
    """Return the table that a wrong factor ½ would make."""
    return weight_table(2 * epsilon, *rest)


def twice_the_budget(splitter, regions):
    """Prepare a level whose tables are all made for 2·epsilon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "weight_table", twice_the_weights)
        return honest(splitter, regions)


def half_the_range(splitter, regions):
    """Prepare a level whose costs are said to change half as much as they do."""
    of_range = Cost.range
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cost, "range", property(lambda cost: of_range.fget(cost) // 2))
        patch.setattr("diprime.forest.splitters.MEDIAN_RANGE", 1)
        return honest(splitter, regions)


CASES = [
    ("joint", TINY, TINY_RECORDS, (0, 1, 2)),
    ("joint", TINY_NUMBER, NUMBER_RECORDS, (0, 1)),
    ("diprime", TINY, TINY_RECORDS, (0, 1, 2)),
    ("diprime-exp", TINY, TINY_RECORDS, (0, 1)),
    ("diprime-flip", TINY, TINY_RECORDS, (0, 1)),
]


@pytest.mark.parametrize(("method", "domain", "kinds", "sizes"), CASES)
def test_split_of_a_level_loses_at_most_its_epsilon(method, domain, kinds, sizes):
    found = list(losses_of_all_neighbours(method, domain, kinds, sizes, honest))
    assert all(close for close, _ in found)
    assert max(loss for _, loss in found) > float(EPSILON) / 8, "a test in which nothing happens shows nothing"


@pytest.mark.parametrize("feature", [0, 1])
def test_private_median_loses_at_most_its_epsilon(feature):
    def level_for(splitter, regions):
        levels = (paid_level(splitter, regions, EPSILON, RandomSource(seed)) for seed in range(20))
        return next(level for level in levels if level.candidates.features[0] == feature)

    found = list(losses_of_all_neighbours("diprime", TINY, TINY_RECORDS, (0, 1, 2), level_for))
    assert all(close for close, _ in found)
    assert max(loss for _, loss in found) > float(EPSILON) / 2


@pytest.mark.parametrize("broken", [twice_the_budget, half_the_range])
@pytest.mark.parametrize("method", ["joint", "diprime"])
def test_exact_loss_detects_doubled_epsilon_and_halved_range(method, broken):
    sizes = (2, 3) if method == "joint" else (2,)
    kinds = TINY_RECORDS[:8] if method == "joint" else TINY_RECORDS
    found = list(losses_of_all_neighbours(method, TINY, kinds, sizes, broken))
    assert not all(close for close, _ in found)


def one_region(regions, node):
    """Return the region of a single node."""
    arrays = (regions.low, regions.high, regions.missing, regions.allowed)
    return Regions(*(array[node : node + 1] for array in arrays), regions.categorical_index)


def distribution_of_two_levels(splitter, rows):
    """Return the distribution of the splits of a root and of its two children."""
    codes, target = encoded(TINY, rows)
    root = Regions.roots(TINY, 1)
    top = exact_distribution(honest(splitter, root), root_histograms(codes, target, BINARY))
    result = {}
    for (feature, mask), p in top.items():
        features = np.array([feature], dtype=np.int32)
        masks = np.frombuffer(mask, dtype=np.uint8)[None].copy()
        engine = engine_of(codes, target, BINARY)
        engine.route(features, masks)
        regions, histograms = root.children(features, masks), histograms_of(engine, 2)
        children = [
            exact_distribution(
                honest(splitter, one_region(regions, node)),
                in_order(histograms.bins[node : node + 1], BINARY),
            )
            for node in (0, 1)
        ]
        for (a, p_a), (b, p_b) in itertools.product(children[0].items(), children[1].items()):
            result[feature, mask, a, b] = p * p_a * p_b
    assert sum(result.values()) == 1
    return result


def test_two_levels_lose_at_most_their_sum():
    splitter = splitter_of("joint", TINY)
    losses = []
    for rows, record in [
        ([], TINY_RECORDS[0]),
        (TINY_RECORDS[:3], TINY_RECORDS[3]),
        ([TINY_RECORDS[i] for i in (0, 0, 7, 7)], TINY_RECORDS[7]),
    ]:
        distributions = (distribution_of_two_levels(splitter, data) for data in (rows, [*rows, record]))
        close, loss = largest_loss(*distributions, 2 * EPSILON)
        assert close
        losses.append(loss)
    assert max(losses) > 0.05


# -- the audit: many trees, grown as they are in a fit -----------------------------------------------------------------

AUDIT_TREES = 60_000
AUDIT_DOMAIN = Domain({"x": Numeric(edges=[0.5])}, target=Categorical(["no", "yes"]))
AUDIT_EPSILON = Fraction(1)


def audited_splitter(method):
    return splitter_of(method, AUDIT_DOMAIN, balance=Fraction(1))


def observed_splits(method, codes, target, seed):
    """Grow one-level trees, each on its own copy of the data; count the splits."""
    trees = np.repeat(np.arange(AUDIT_TREES), len(codes)).astype(np.uint16)
    engine = engine_of(np.tile(codes, (AUDIT_TREES, 1)), np.tile(target, AUDIT_TREES), BINARY, trees, AUDIT_TREES)
    splitter, source = audited_splitter(method), RandomSource(seed)
    structure = grow(engine, splitter, AUDIT_DOMAIN, AUDIT_TREES, [AUDIT_EPSILON], source)
    masks, counts = np.unique(structure.masks[:, 0, [0, 31]], axis=0, return_counts=True)
    return {mask.tobytes(): int(count) for mask, count in zip(masks, counts, strict=True)}


def proven_loss(method, error=1e-9):
    """Return a lower confidence bound of the privacy loss between two neighbouring data sets."""
    # Cells 0 and 1, and missing values 255. "Cell 0 alone" is a bad split of the first data set, less so of the second.
    codes = np.array([[1], [1], [255], [255]], dtype=np.uint8)
    target = np.array([0, 0, 1, 1], dtype=np.int32)
    first = observed_splits(method, codes, target, 1)
    codes, target = np.vstack([codes, [[0]]]).astype(np.uint8), np.append(target, 0).astype(np.int32)
    second = observed_splits(method, codes, target, 2)
    n, loss = AUDIT_TREES, 0.0
    for key in first | second:
        for a, b in itertools.permutations([first.get(key, 0), second.get(key, 0)]):
            low = beta.ppf(error, a, n - a + 1) if a else 0.0
            high = beta.isf(error, b + 1, n - b) if b < n else 1.0
            loss = max(loss, math.log(low / high) if low > 0 else 0.0)
    return loss


@pytest.mark.parametrize("method", ["joint", "diprime", "diprime-flip"])
def test_audit_of_many_trees_passes_and_detects_twice_the_budget(monkeypatch, method):
    assert proven_loss(method) <= AUDIT_EPSILON
    monkeypatch.setattr(selection, "weight_table", twice_the_weights)
    assert proven_loss(method) > AUDIT_EPSILON


@pytest.mark.parametrize("method", ["joint", "diprime", "diprime-flip"])
def test_audited_trees_follow_the_exact_distribution(method):
    codes, target = np.array([[1], [1], [255], [0]], dtype=np.uint8), np.array([0, 1, 1, 1], dtype=np.int32)
    level = paid_level(audited_splitter(method), Regions.roots(AUDIT_DOMAIN, 1), AUDIT_EPSILON, RandomSource(0))
    exact = exact_distribution(level, root_histograms(codes, target, BINARY))
    seen = observed_splits(method, codes, target, 3)
    assert len(exact) == 4
    for (_, mask), p in exact.items():
        count = seen[mask[:1] + mask[31:]]
        assert abs(count - AUDIT_TREES * p) < 5 * math.sqrt(AUDIT_TREES * p * (1 - p))
