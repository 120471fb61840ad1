"""The splitter that settings name."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from diprime.domain import Domain, Numeric
from diprime.paper.accounting import PUBLISHED
from diprime.privacy.randomness import RandomSource
from diprime.training import defaults
from diprime.training.policy import STRICT
from diprime.training.settings import Settings
from diprime.training.splitting.candidates import CategoricalCandidates
from diprime.training.splitting.factory import make_splitter
from diprime.training.splitting.joint import JointSplitter
from diprime.training.splitting.median import MedianSplitter
from tests.candidate_splits import DOMAIN

SETTINGS = Settings(
    epsilon=Fraction(1),
    method="joint",
    n_estimators=1,
    max_depth=3,
    max_features=2,
    split_share=None,
    balance=None,
    partition=True,
    policy=STRICT,
    verbose=False,
)
TAIL = Fraction(1, 8)


@pytest.mark.parametrize("policy", [STRICT, PUBLISHED])
@pytest.mark.parametrize(
    ("method", "rule", "looks_at_data"),
    [
        ("diprime", "exponential mechanism", True),
        ("diprime-exp", "exponential mechanism", True),
        ("diprime-flip", "permute-and-flip", True),
        ("random", "exponential mechanism", False),
    ],
)
def test_the_methods_of_the_paper_split_at_medians(method, rule, looks_at_data, policy):
    splitter = make_splitter(DOMAIN, replace(SETTINGS, method=method, policy=policy), TAIL, RandomSource(0))
    assert isinstance(splitter, MedianSplitter)
    assert (splitter.rule, splitter.looks_at_data, splitter.max_features) == (rule, looks_at_data, 2)
    assert splitter.policy is policy


@pytest.mark.parametrize("epsilon", [Fraction(1), math.inf])
@pytest.mark.parametrize("target", [DOMAIN.target, Numeric(0, 1)])
def test_joint_takes_its_balance_from_the_settings_or_from_the_defaults(target, epsilon):
    domain, settings = Domain(DOMAIN.features, target), replace(SETTINGS, epsilon=epsilon)
    splitter = make_splitter(domain, settings, TAIL, RandomSource(0))
    assert isinstance(splitter, JointSplitter)
    assert (splitter.max_features, splitter.linear_tail, splitter.looks_at_data) == (2, TAIL, True)
    classification = target is DOMAIN.target
    assert splitter.balance == defaults.balance(classification=classification, epsilon=epsilon)
    given = make_splitter(domain, replace(settings, balance=Fraction(1, 3)), TAIL, RandomSource(0))
    assert given.balance == Fraction(1, 3)


def test_the_candidates_are_the_first_thing_drawn():
    splitter = make_splitter(DOMAIN, SETTINGS, TAIL, RandomSource(5))
    drawn = CategoricalCandidates.draw(DOMAIN, RandomSource(5))
    assert splitter.categories.masks.tobytes() == drawn.masks.tobytes()
