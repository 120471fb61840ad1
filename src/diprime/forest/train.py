"""Training of a forest, level by level, from the sums of an engine. This module never sees a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Progress, Threads
from diprime.domain import Domain
from diprime.domain.encoding import ClippingRanges, TargetLayout
from diprime.forest import defaults
from diprime.forest.candidates import Level, Splitter
from diprime.forest.engine import BagAssignment, ForestEngine, NodeHistograms, TreeAssignment
from diprime.forest.plan import BudgetPlan, ForestSettings, TreePlan, TreeReceipts, TreeShape
from diprime.forest.splitters import make_splitter
from diprime.forest.sums import release_counts, release_leaves, release_windows, widened
from diprime.kernels.constants import MASK_BYTES
from diprime.model.estimates import CONSTANT_NOTE, LeafSums, window_notes
from diprime.model.trees import Features, Masks, Regions, Structure
from diprime.privacy.measures import Epsilon
from diprime.privacy.randomness import RandomSource
from diprime.privacy.session import Account


@dataclass(frozen=True)
class Grower:
    """Engine, splitter and settings for growing trees level by level.

    ``split_window``: clipping range of numeric targets for splits, until nodes get their own. ``stops``: whether nodes
    without a useful split send all their records left, which saves time. This depends on private values, so it must be
    False in private fits.
    """

    engine: ForestEngine
    splitter: Splitter
    domain: Domain  # codes that can occur at the roots
    layout: TargetLayout  # encoding of the target in sums, and total weight of a person's records
    source: RandomSource
    threads: Threads
    split_window: ClippingRanges
    margin: Epsilon = Fraction(0)  # widening of the nodes' own clipping ranges on both sides, in widths
    stops: bool = False

    def grow(self, n_trees: int, receipts: TreeReceipts, advance: Callable[[], None] = lambda: None) -> Structure:
        """Grow trees that share the rows of the engine, one level for each entry of the receipts.

        The nodes of a level contain disjoint rows, so a level costs its epsilon once. The depth is fixed in advance,
        and empty nodes split like any other. Afterwards, the engine's nodes are the leaves.
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
            level.choose(NodeHistograms.empty(n_nodes, self.domain.n_features, self.layout), 0, n_nodes, self.threads)
            return
        mixed = self._mixed_nodes() if self.stops else np.ones(n_nodes, dtype=np.bool_)
        for begin, end in self.engine.chunks():
            if mixed[begin:end].any():
                level.choose(self.engine.histograms(begin, end), begin, end, self.threads)
        level.features[~mixed], level.masks[~mixed] = 0, 0

    def _mixed_nodes(self) -> npt.NDArray[np.bool_]:
        """Return which nodes have several records that are not all of one class, so that a split could help."""
        sums = self.engine.node_sums(self.layout.whole_range)
        return np.asarray((sums.sum(axis=1) > self.layout.units) & ((sums > 0).sum(axis=1) > 1))


def train(
    engine: ForestEngine,
    domain: Domain,
    settings: ForestSettings,
    plan: BudgetPlan,
    account: Account,
    source: RandomSource,
    threads: Threads,
) -> tuple[Structure, LeafSums]:
    """Make all releases of a fit from the sums of an engine, each after it is charged."""
    layout = domain.layout.of_persons(settings.max_records_per_group)

    counts: list[int] = []
    if plan.counts is not None:
        receipt = account.pay(plan.counts)
        counts = release_counts(engine.target_counts(), layout, receipt, source)
    shape = TreeShape.make(settings, domain, counts)
    if shape.depth == 0 and settings.max_depth is None:
        account.note([CONSTANT_NOTE])

    margins = defaults.window_margins(settings.epsilon)
    split_window = leaf_window = layout.whole_range
    if plan.window is not None:
        receipt = account.pay(plan.window)
        window = release_windows(engine.target_counts()[None, :], layout, receipt, source)
        if defaults.information(shape.n_rows, settings.epsilon) >= defaults.SCARCE:
            split_window, leaf_window = (widened(window, margin, layout) for margin in margins)

    splitter = make_splitter(domain, settings, shape.linear_tail, source)
    trees = TreePlan.make(plan, settings, domain, shape, splitter)
    receipts = trees.pay(account)

    # Without noise and with the same rows, all trees would be equal, so each gets its own bag as in a random forest.
    bagged = settings.is_random_forest
    assignment: TreeAssignment = BagAssignment() if bagged else settings.policy.assignment(trees.n_trees)
    grower = Grower(engine, splitter, domain, layout, source, threads, split_window, margins[0], bagged)
    progress = Progress(trees.depth * trees.n_rounds, "levels", shown=settings.verbose)
    structures, sums = [], []
    for number in range(trees.n_rounds):
        if number == 0 or bagged:
            engine.assign_trees(assignment, source)
        structures.append(grower.grow(trees.n_trees, receipts, progress.advance))
        sums.append(engine.node_sums(leaf_window).reshape(trees.n_trees, 2**trees.depth, -1))
    leaves = release_leaves(np.concatenate(sums), layout, leaf_window, receipts.leaves, settings.policy, source)
    if plan.window is not None:
        account.note(window_notes(window, layout.units, plan.window.epsilon, leaves.counts.sum()))
    return Structure.concatenate(structures), leaves
