"""One fit, from an engine to released sums: plan the budget, pay, release."""

from __future__ import annotations

import numpy as np

from diprime._util.progress import Progress
from diprime._util.threads import Threads
from diprime.domain import Domain
from diprime.engines.assignment import BagAssignment, TreeAssignment
from diprime.engines.protocol import Engine
from diprime.model.trees import Structure
from diprime.privacy.ledger import Ledger
from diprime.privacy.randomness import RandomSource
from diprime.training import defaults
from diprime.training.counts import release_counts
from diprime.training.estimates import LeafSums
from diprime.training.grow import Grower
from diprime.training.leaves import release_leaves
from diprime.training.plan import BudgetPlan, ForestShape, TreePlan
from diprime.training.settings import Settings
from diprime.training.splitting.factory import make_splitter
from diprime.training.windows import release_windows, widened


def train(
    engine: Engine,
    domain: Domain,
    settings: Settings,
    plan: BudgetPlan,
    ledger: Ledger,
    source: RandomSource,
    threads: Threads,
) -> tuple[Structure, LeafSums]:
    """Spend the budget: everything that is released is computed here, from an engine's sums, after it is paid for."""
    layout = domain.layout.of_persons(settings.max_records_per_group)

    counts: list[int] = []
    if plan.counts is not None:
        receipt = ledger.pay(plan.counts)
        counts = release_counts(engine.target_counts(), layout, receipt, source)
    shape = ForestShape.make(settings, domain, counts)

    margins = defaults.window_margins(settings.epsilon)
    split_window = leaf_window = layout.whole_range
    if plan.window is not None:
        receipt = ledger.pay(plan.window)
        window = release_windows(engine.target_counts()[None, :], layout, receipt, source)
        split_window, leaf_window = (widened(window, margin, layout) for margin in margins)

    splitter = make_splitter(domain, settings, shape.linear_tail, source)
    trees = TreePlan.make(plan, settings, domain, shape, splitter)
    receipts = trees.pay(ledger)

    # Without noise and with the same rows, trees would all be the same: as in a random forest, each gets its own bag.
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
    return Structure.concatenate(structures), leaves
