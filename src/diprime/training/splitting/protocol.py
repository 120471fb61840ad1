"""A way of choosing splits, as growth uses it."""

from __future__ import annotations

from typing import Protocol

from diprime._util.threads import Threads
from diprime.domain.target_layout import Bins
from diprime.model.masks import Features, Masks
from diprime.model.regions import Regions
from diprime.privacy.ledger import Charge
from diprime.privacy.measures import Epsilon
from diprime.privacy.randomness import RandomSource


class Level(Protocol):
    """The selections of one level, ready for the histograms."""

    def choose(self, bins: Bins, begin: int, end: int, threads: Threads) -> None:
        """Choose the splits of the nodes from ``begin`` to ``end``, whose histograms ``bins`` holds."""

    features: Features
    masks: Masks


class Splitter(Protocol):
    """A way of choosing splits."""

    looks_at_data: bool

    def charges(self, level: int, epsilon: Epsilon, composition: str, times: int) -> list[Charge]:
        """Return what one level costs."""

    def level(self, regions: Regions, epsilon: Epsilon, source: RandomSource) -> Level:
        """Prepare a level: make the choices that do not look at data, and take the streams for those that do."""
