"""A way of choosing splits, and the selections of one level."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.kernels.constants import MASK_BYTES
from diprime.model.masks import Features, Masks
from diprime.model.regions import Regions
from diprime.privacy.ledger import Charge, Receipt
from diprime.privacy.measures import Epsilon
from diprime.privacy.randomness import RandomSource
from diprime.training.splitting.candidates import Candidates
from diprime.training.splitting.histograms import NodeHistograms

BATCH_BYTES = 1 << 20  # of costs: small enough for the processor's cache


class Level(ABC):
    """The selections of one level, prepared: they wait for histograms.

    Attributes
    ----------
    features : array of shape (n_nodes,)
        The features of the splits chosen so far.
    masks : array of shape (n_nodes, 32)
        Their masks. Where nothing is left to split, every row goes left.
    """

    def __init__(self, candidates: Candidates, n_nodes: int) -> None:
        self.candidates = candidates
        self.features: Features = np.zeros(n_nodes, dtype=np.int32)
        self.masks: Masks = np.zeros((n_nodes, MASK_BYTES), dtype=np.uint8)

    def choose(self, histograms: NodeHistograms, begin: int, end: int, threads: Threads) -> None:
        """Choose the splits of the nodes from ``begin`` to ``end``, whose histograms are given."""
        batch = max(1, BATCH_BYTES // (8 * self.candidates.per_node * self.candidates.n_slots))

        def work(a: int, b: int) -> None:
            for first in range(begin + a, begin + b, batch):
                self._choose(histograms, first, min(first + batch, begin + b))

        threads.run(work, end - begin)

    @abstractmethod
    def _choose(self, histograms: NodeHistograms, first: int, last: int) -> None:
        """Choose the splits of the nodes from ``first`` to ``last``, whose costs fit in memory together."""

    def _set(self, nodes: npt.NDArray[np.int64], pairs: npt.NDArray[np.int64], masks: Masks) -> None:
        """Set the splits of nodes to those of pairs of node and feature."""
        self.features[nodes] = self.candidates.features[pairs]
        self.masks[nodes] = masks


class Splitter(Protocol):
    """A way of choosing splits.

    Attributes
    ----------
    looks_at_data : bool
        Whether it needs histograms.
    """

    looks_at_data: bool

    def charges(self, level: int, epsilon: Epsilon, times: int, composition: str) -> tuple[Charge, ...]:
        """Return what one level costs, made ``times`` times."""

    def level(self, regions: Regions, receipts: Sequence[Receipt], source: RandomSource) -> Level:
        """Prepare a level: make the choices that do not look at data, and pay for the selections that do.

        The receipts are those of the charges.
        """
