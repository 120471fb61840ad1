"""The median splitter: private medians and a choice among them, each at the cost that its charge states."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from diprime.domain import Categorical, Domain, Numeric
from diprime.model.regions import Regions
from diprime.paper.accounting import PUBLISHED
from diprime.privacy.mechanisms.subsets import MAX_CATEGORIES
from diprime.privacy.randomness import RandomSource
from diprime.training.policy import STRICT
from diprime.training.splitting import median
from diprime.training.splitting.candidates import CategoricalCandidates
from diprime.training.splitting.cost import MAX_UNITS, MEDIAN_RANGE
from diprime.training.splitting.histograms import EmptyHistograms
from diprime.training.splitting.median import MedianSplitter, quality
from tests.candidate_splits import BINARY, CLASSES, DOMAIN, ONE, make_splitter, paid_level, root_histograms
from tests.spies import Releases


def splitter_of(k, rule="exponential mechanism", policy=STRICT):
    return MedianSplitter(DOMAIN, CategoricalCandidates.draw(DOMAIN, RandomSource(0)), k, rule, policy)


def test_many_levels_are_put_into_groups_without_looking_at_the_data(monkeypatch):
    k = 100
    domain = Domain({"c": Categorical(range(k))}, target=CLASSES)
    splitter = make_splitter("diprime", domain)
    orders, permutation = [], median.permutation

    def watched(stream, n):
        orders.append(permutation(stream, n))
        return orders[-1]

    monkeypatch.setattr(median, "permutation", watched)
    releases = Releases(monkeypatch)
    for column in (np.zeros(500), np.arange(500) % k, np.arange(500) ** 2 % 37):
        codes = column.astype(np.uint8)[:, None]
        level = paid_level(splitter, Regions.roots(domain, 1), Fraction(1), RandomSource(3))
        level.choose(root_histograms(codes, np.zeros(500, dtype=np.int32), BINARY), 0, 1, ONE)
        cells = np.bincount(codes[:, 0], minlength=k + 2)
        sums = np.bincount(orders[-1] % MAX_CATEGORIES, weights=cells).astype(int)
        assert releases.selections[-1].picks[-1].counts == sums.tolist()
    assert len(orders) == 3
    assert (orders[0] == orders[1]).all()
    assert (orders[0] == orders[2]).all()
    sizes = np.bincount(orders[0] % MAX_CATEGORIES)
    assert len(sizes) == MAX_CATEGORIES
    assert set(sizes) <= {6, 7}  # 102 codes


def test_random_splits_are_uniform_over_the_thresholds():
    domain = Domain({"x": Numeric(edges=[1, 2, 3])}, target=CLASSES)
    level = paid_level(make_splitter("random", domain), Regions.roots(domain, 16_000), Fraction(0), RandomSource(0))
    level.choose(EmptyHistograms.of(1, BINARY), 0, 16_000, ONE)
    masks, counts = np.unique(level.masks, axis=0, return_counts=True)
    assert len(masks) == 8
    assert (abs(counts - 2000) < 5 * math.sqrt(2000)).all()


def test_random_splits_are_not_charged():
    assert make_splitter("random", DOMAIN).charges(0, Fraction(1), 1, "") == ()


def test_the_quality_has_the_range_of_the_contract():
    assert splitter_of(3).quality_range == quality(1).range == MAX_UNITS + 2
    assert splitter_of(3, policy=PUBLISHED).quality_range == 8 * MAX_UNITS


@pytest.mark.parametrize("rule", ["exponential mechanism", "permute-and-flip"])
@pytest.mark.parametrize("epsilon", [Fraction(3, 2), math.inf])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_medians_and_choices_are_charged_as_their_weights_are_made(k, epsilon, rule, monkeypatch):
    splitter = splitter_of(k, rule)
    charges = splitter.charges(2, epsilon, 3, "composition")
    assert [charge.kind for charge in charges] == ["medians", "choices"][: min(k, 2)]
    assert {(charge.level, charge.mechanism, charge.strict_measure) for charge in charges} == {(2, rule, None)}
    assert [charge.times for charge in charges] == [3 * k, 3][: len(charges)]
    assert sum(charge.total for charge in charges) == 3 * epsilon
    releases = Releases(monkeypatch)
    paid_level(splitter, Regions.roots(DOMAIN, 6), epsilon, RandomSource(0))
    ranges = [MEDIAN_RANGE, quality(1).range]
    for paid, charge, cost_range, times in zip(releases.selections, charges, ranges, (k, 1), strict=False):
        assert (paid.epsilon, paid.cost_range, paid.times) == (charge.epsilon, cost_range, times)
        assert str(cost_range) in charge.bound.split()
    assert len(releases.selections) == len(charges)


@pytest.mark.parametrize("weight", [2, 5, 12])
def test_medians_and_choices_of_persons_are_charged_for_all_records_of_one(weight, monkeypatch):
    splitter = replace(splitter_of(2), person_weight=weight)
    ranges = [MEDIAN_RANGE * weight, quality(weight).range * weight]
    charges = splitter.charges(2, Fraction(1), 3, "composition")
    assert [charge.calibrated_to for charge in charges] == ranges
    releases = Releases(monkeypatch)
    paid_level(splitter, Regions.roots(DOMAIN, 6), Fraction(1), RandomSource(0))
    assert [paid.cost_range for paid in releases.selections] == ranges


def test_accounting_as_published_charges_all_medians_as_one_and_says_what_they_cost():
    epsilon, k = Fraction(3, 2), 5
    medians, choices = splitter_of(k, policy=PUBLISHED).charges(2, epsilon, 3, "")
    assert (medians.epsilon, medians.times, medians.strict_total) == (epsilon / 2, 3, 3 * k * epsilon / 2)
    assert (choices.epsilon, choices.times) == (epsilon / 2, 3)
    assert choices.strict_total == 3 * epsilon / 2 * Fraction(quality(1).range, 8 * MAX_UNITS)
