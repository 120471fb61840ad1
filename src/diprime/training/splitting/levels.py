"""The selections of one level, and the interface of splitters."""

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
from diprime.privacy.charges import Charge, Receipt
from diprime.privacy.measures import Epsilon
from diprime.privacy.randomness import RandomSource
from diprime.training.splitting.candidates import Candidates
from diprime.training.splitting.histograms import NodeHistograms

BATCH_BYTES = 1 << 20  # size of the costs of a batch: they fit in the processor's cache


class Level(ABC):
    """The selections of one level, ready to be made as histograms arrive.

    Attributes
    ----------
    features : array of shape (n_nodes,)
        The feature of each node's split.
    masks : array of shape (n_nodes, 32)
        The mask of each node's split. A node without candidates sends all its rows left.
    """

    def __init__(self, candidates: Candidates, n_nodes: int) -> None:
        self.candidates = candidates
        self.features: Features = np.zeros(n_nodes, dtype=np.int32)
        self.masks: Masks = np.zeros((n_nodes, MASK_BYTES), dtype=np.uint8)

    def choose(self, histograms: NodeHistograms, begin: int, end: int, threads: Threads) -> None:
        """Choose the splits of the nodes from ``begin`` to ``end`` by their histograms."""
        batch = max(1, BATCH_BYTES // (8 * self.candidates.per_node * self.candidates.n_slots))

        def work(a: int, b: int) -> None:
            for first in range(begin + a, begin + b, batch):
                self._choose(histograms, first, min(first + batch, begin + b))

        threads.run(work, end - begin)

    @abstractmethod
    def _choose(self, histograms: NodeHistograms, first: int, last: int) -> None:
        """Choose the splits of one batch of nodes, from ``first`` to ``last``."""

    def _set(self, nodes: npt.NDArray[np.int64], pairs: npt.NDArray[np.int64], masks: Masks) -> None:
        """Set the splits of some nodes, given their pairs of node and feature and their masks."""
        self.features[nodes] = self.candidates.features[pairs]
        self.masks[nodes] = masks


class Splitter(Protocol):
    """A way of choosing splits.

    Attributes
    ----------
    looks_at_data : bool
        Whether the splits depend on histograms.
    """

    looks_at_data: bool

    def charges(self, level: int, epsilon: Epsilon, times: int, composition: str) -> tuple[Charge, ...]:
        """Return the charges of one level that is made ``times`` times with the same records, each time for epsilon."""

    def level(self, regions: Regions, receipts: Sequence[Receipt], source: RandomSource) -> Level:
        """Prepare a level: make the choices that do not look at data, and use receipts for the selections that do.

        Parameters
        ----------
        regions : Regions
            The regions of the nodes of the level.
        receipts : sequence of Receipt
            The receipts of the :meth:`charges`, in their order.
        source : RandomSource
            The random bits.

        Returns
        -------
        level : Level
            The selections of the level.
        """
