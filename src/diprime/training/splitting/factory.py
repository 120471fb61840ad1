"""The splitter of each method."""

from __future__ import annotations

from fractions import Fraction

from diprime.domain import Domain
from diprime.domain.persons import person_weight
from diprime.privacy.randomness import RandomSource
from diprime.training import defaults
from diprime.training.settings import Settings
from diprime.training.splitting.candidates import CategoricalCandidates
from diprime.training.splitting.joint import JointSplitter
from diprime.training.splitting.levels import Splitter
from diprime.training.splitting.median import MedianSplitter


def make_splitter(domain: Domain, settings: Settings, linear_tail: Fraction, source: RandomSource) -> Splitter:
    """Return the splitter for the settings; only ``"joint"`` uses ``linear_tail``."""
    categories = CategoricalCandidates.draw(domain, source)
    weight = person_weight(settings.max_records_per_group)
    if settings.method == "joint":
        balance = settings.balance
        if balance is None:
            classification = domain.task == "classification"
            balance = defaults.balance(classification=classification, epsilon=settings.epsilon)
        return JointSplitter(domain, categories, settings.max_features, balance, linear_tail, weight)
    return MedianSplitter(
        domain,
        categories,
        settings.max_features,
        "permute-and-flip" if settings.method == "diprime-flip" else "exponential mechanism",
        settings.policy,
        looks_at_data=settings.method != "random",
        person_weight=weight,
    )
