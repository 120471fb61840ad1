"""One fit, from codes to released sums: plan the budget, charge it, spend it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from diprime._util.progress import Progress
from diprime._util.threads import Threads
from diprime.domain import Categorical, Domain
from diprime.domain.encoding import Rows
from diprime.domain.target_layout import TargetLayout
from diprime.engines.assignment import assign_trees, draw_bag
from diprime.engines.local import LocalHistograms
from diprime.model.forest import Structure
from diprime.privacy.ledger import Accounting, Ledger
from diprime.privacy.measures import Epsilon, share_of
from diprime.privacy.mechanisms.selection import Rule
from diprime.privacy.randomness import RandomSource
from diprime.training import defaults
from diprime.training.counts import charge_counts, release_counts
from diprime.training.grow import charge_levels, grow
from diprime.training.leaves import LeafSums, charge_leaves, release
from diprime.training.splitting.candidates import CategoricalCandidates
from diprime.training.splitting.joint import JointSplitter
from diprime.training.splitting.median import MedianSplitter
from diprime.training.splitting.protocol import Splitter
from diprime.training.windows import WindowPlan, charge_window, charge_windows, count_targets, release_windows, widened

Method = Literal["joint", "diprime", "diprime-exp", "diprime-flip", "random"]


@dataclass(frozen=True)
class Settings:
    """Checked parameters of a fit; None stands for "auto"."""

    epsilon: Epsilon
    method: Method
    n_estimators: int | None
    max_depth: int | None
    max_features: int
    split_share: Fraction | None
    balance: Fraction | None
    partition: bool
    accounting: Accounting
    verbose: bool


def make_splitter(
    domain: Domain, layout: TargetLayout, settings: Settings, ends: Fraction, source: RandomSource
) -> Splitter:
    """Return the way of choosing splits that the settings name; ``ends`` is about the impurity of ``"joint"``."""
    families = CategoricalCandidates.draw(domain, source)
    if settings.method == "joint":
        balance = settings.balance
        if balance is None:
            classification = isinstance(domain.target, Categorical)
            balance = defaults.balance(classification=classification, epsilon=settings.epsilon)
        return JointSplitter(domain, layout, families, settings.max_features, balance, ends)
    rule: Rule = "permute-and-flip" if settings.method == "diprime-flip" else "exponential"
    return MedianSplitter(
        domain,
        layout,
        families,
        settings.max_features,
        rule,
        strict=settings.accounting == "strict",
        looks_at_data=settings.method != "random",
    )


def train(
    rows: Rows,
    target: npt.NDArray[np.int32],
    domain: Domain,
    layout: TargetLayout,
    settings: Settings,
    ledger: Ledger,
    source: RandomSource,
    threads: Threads,
) -> tuple[Structure, LeafSums]:
    """Spend the budget: everything that is released is computed here, after its charge.

    Before, records have only been mapped to integers, each by itself.
    """
    joint = settings.method == "joint"
    classification = isinstance(domain.target, Categorical)
    left = Fraction(1)  # of epsilon, for the trees
    n_trees, depth = settings.n_estimators, settings.max_depth
    ends = Fraction(0)
    n_rows = 0
    if n_trees is None or depth is None or joint:
        of_counts = share_of(settings.epsilon, defaults.COUNTS_SHARE)
        left -= defaults.COUNTS_SHARE
        charge_counts(ledger, layout, of_counts)
        counts = release_counts(target, layout, of_counts, source).tolist()
        n_rows = sum(counts)
        if n_trees is None:
            n_trees = defaults.n_estimators(settings.method, n_rows, settings.epsilon, classification=classification)
        if depth is None:
            depth = defaults.max_depth(n_rows, settings.epsilon, n_trees, layout.n_outputs)
        ends = defaults.ends(counts, settings.epsilon)
    if settings.partition:
        n_rounds, n_together = 1, n_trees
        composition = "trees, and nodes of a level, hold disjoint records: it counts once"
    else:
        n_rounds, n_together = n_trees, 1
        composition = "every tree sees all records: it counts once a tree"
    for_splits = for_leaves = layout.whole
    plan = WindowPlan({}, Fraction(0))
    if joint and not classification and settings.epsilon != math.inf:
        of_quantile = share_of(settings.epsilon, defaults.QUANTILE_SHARE)
        charge_window(ledger, of_quantile)
        window = release_windows(count_targets(target, layout), layout, of_quantile, source)
        margins = defaults.window_margins(settings.epsilon)
        for_splits, for_leaves = (widened(window, margin, layout) for margin in margins)
        levels = defaults.window_levels(n_rows, settings.epsilon, n_trees, depth)
        plan = WindowPlan(dict.fromkeys(levels, of_quantile / n_rounds), margins[0])
        left -= 2 * (1 + len(levels)) * defaults.QUANTILE_SHARE
    splitter = make_splitter(domain, layout, settings, ends, source)
    share = settings.split_share or defaults.split_share(settings.method)
    share = share if splitter.looks_at_data else Fraction(0)
    of_tree = share_of(settings.epsilon, left) / n_rounds
    weights = defaults.level_weights(settings.method, depth, settings.epsilon)
    epsilons = [share_of(of_tree, share * Fraction(w, sum(weights))) for w in weights]
    of_leaves = share_of(of_tree, 1 - share)
    charge_windows(ledger, plan, composition, n_rounds)
    charge_levels(ledger, splitter, epsilons, composition, n_rounds)
    paper = settings.accounting == "paper"
    exact_counts = paper and not classification
    charge_leaves(ledger, layout, of_leaves, composition, n_rounds, exact_counts=exact_counts)

    progress = Progress(depth * n_rounds, shown=settings.verbose)
    # Without noise and with the same rows, trees would all be the same: as in a random forest, each gets its own bag.
    bagged = joint and settings.epsilon == math.inf and not settings.partition

    def engine_on(parts: npt.NDArray[np.uint16]) -> LocalHistograms:
        return LocalHistograms(rows, target, parts, n_together, layout, threads, for_splits, for_leaves)

    engine = engine_on(assign_trees(rows.n_rows, n_together, source, threads, equal=paper))
    structures, sums = [], []
    for _ in range(n_rounds):
        if bagged:
            engine = engine_on(draw_bag(rows.n_rows, source))
        structures.append(grow(engine, splitter, domain, n_together, epsilons, plan, source, threads, progress.advance))
        sums.append(engine.sums().reshape(n_together, 2**depth, -1))
    structure = Structure(
        np.concatenate([s.features for s in structures]), np.concatenate([s.masks for s in structures])
    )
    leaves = release(np.concatenate(sums), layout, for_leaves, of_leaves, source, exact_counts=exact_counts)
    return structure, leaves
