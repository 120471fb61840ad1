"""The loop over levels: histograms, private selection, routing; the same for every splitter and every engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from diprime._util.threads import Threads
from diprime.domain import Domain
from diprime.domain.target_layout import TargetLayout, Windows
from diprime.engines.protocol import Engine
from diprime.kernels.constants import MASK_BYTES
from diprime.model.masks import Features, Masks
from diprime.model.regions import Regions
from diprime.model.trees import Structure
from diprime.privacy.measures import Epsilon
from diprime.privacy.randomness import RandomSource
from diprime.training.plan import TreeReceipts
from diprime.training.splitting.histograms import EmptyHistograms, NodeHistograms
from diprime.training.splitting.levels import Level, Splitter
from diprime.training.windows import release_windows, widened


@dataclass(frozen=True)
class Grower:
    """What the levels of trees are grown by.

    Attributes
    ----------
    engine : Engine
        The owner of the rows.
    splitter : Splitter
        The way of choosing splits.
    domain : Domain
        What can occur at the roots.
    layout : TargetLayout
        How the target becomes sums, and how much the records of a person weigh.
    source : RandomSource
        The random bits.
    threads : Threads
        The threads that compute costs and select.
    split_window : Windows
        The window through which the splits of all nodes see a numeric target, until nodes get their own.
    margin : Fraction or float
        How many of its widths a node's own window is widened by, on both sides.
    """

    engine: Engine
    splitter: Splitter
    domain: Domain
    layout: TargetLayout
    source: RandomSource
    threads: Threads
    split_window: Windows
    margin: Epsilon = Fraction(0)

    def grow(self, n_trees: int, receipts: TreeReceipts, advance: Callable[[], None] = lambda: None) -> Structure:
        """Grow trees that share the rows of the engine, one level for each entry of the receipts.

        The nodes of a level hold disjoint rows, so that a level costs its epsilon once. The depth is fixed in advance
        and empty nodes split like any other. Afterwards the engine's nodes are the leaves.
        """
        self.engine.start()
        self.engine.set_windows(self.split_window)
        regions = Regions.roots(self.domain, n_trees)
        features: list[Features] = [np.zeros((n_trees, 0), dtype=np.int32)]
        masks: list[Masks] = [np.zeros((n_trees, 0, MASK_BYTES), dtype=np.uint8)]
        for number, paid in enumerate(receipts.levels):
            if number in receipts.node_windows:
                counts = self.engine.node_target_counts()
                windows = release_windows(counts, self.layout, receipts.node_windows[number], self.source)
                self.engine.set_windows(widened(windows, self.margin, self.layout))
            level = self.splitter.level(regions, paid, self.source)
            self._choose(level, len(regions))
            self.engine.route(level.features, level.masks)
            regions = regions.children(level.features, level.masks)
            features.append(level.features.reshape(n_trees, -1))
            masks.append(level.masks.reshape(n_trees, -1, MASK_BYTES))
            advance()
        return Structure(np.concatenate(features, axis=1), np.concatenate(masks, axis=1))

    def _choose(self, level: Level, n_nodes: int) -> None:
        """Choose the splits of a level from histograms, a chunk at a time."""
        if not self.splitter.looks_at_data:
            level.choose(EmptyHistograms.of(self.domain.n_features, self.layout), 0, n_nodes, self.threads)
            return
        for begin, end in self.engine.chunks():
            found = self.engine.histograms(begin, end)
            histograms = NodeHistograms(found.bins, self.layout, begin, found.rows, found.values)
            level.choose(histograms, begin, end, self.threads)
