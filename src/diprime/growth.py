"""The loop over levels: histograms, private selection, routing; the same for every splitter and every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.budget import Epsilon, Ledger
from diprime.domain import Domain
from diprime.histograms import N_CODES, Engine
from diprime.kernels.constants import MASK_BYTES
from diprime.parallel import Threads
from diprime.randomness import RandomSource
from diprime.splitters import Features, Masks, Regions, Splitter
from diprime.windows import WindowPlan, release_windows, widened


@dataclass(frozen=True)
class Structure:
    """The splits of complete trees of one depth, in heap order: the children of split i are 2i + 1 and 2i + 2.

    Attributes
    ----------
    features : array of shape (n_trees, 2^depth - 1)
        The feature of each split.
    masks : array of shape (n_trees, 2^depth - 1, 32)
        Which codes go right.
    """

    features: Features
    masks: Masks


def charge_levels(
    ledger: Ledger, splitter: Splitter, epsilons: Sequence[Epsilon], composition: str, times: int
) -> None:
    """Charge the splits of all levels of a forest."""
    for level, epsilon in enumerate(epsilons):
        for charge in splitter.charges(level, epsilon, composition, times):
            ledger.charge(charge)


def grow(
    engine: Engine,
    splitter: Splitter,
    domain: Domain,
    n_trees: int,
    epsilons: Sequence[Epsilon],
    plan: WindowPlan,
    source: RandomSource,
    threads: Threads,
    advance: Callable[[], None] = lambda: None,
) -> Structure:
    """Grow trees that share the rows of an engine, one level for each epsilon.

    The nodes of a level hold disjoint rows, so that a level costs its epsilon once; :func:`charge_levels` and, for
    windows, ``charge_windows`` have paid. The depth is fixed in advance and empty nodes split like any other.
    Afterwards the engine's nodes are the leaves.
    """
    engine.start()
    regions = Regions.roots(domain, n_trees)
    features: list[npt.NDArray[np.int32]] = [np.zeros((n_trees, 0), dtype=np.int32)]
    masks: list[npt.NDArray[np.uint8]] = [np.zeros((n_trees, 0, MASK_BYTES), dtype=np.uint8)]
    nothing = np.zeros((1, domain.n_features * N_CODES * engine.layout.n_columns), dtype=np.uint64)
    for number, epsilon in enumerate(epsilons):
        if number in plan.epsilons:
            windows = release_windows(engine.targets(), engine.layout, plan.epsilons[number], source)
            engine.look_through(widened(windows, plan.margin, engine.layout))
        level = splitter.level(regions, epsilon, source)
        if splitter.looks_at_data:
            for begin, end in engine.chunks():
                level.choose(engine.histograms(begin, end), begin, end, threads)
        else:
            level.choose(nothing, 0, len(regions), threads)
        engine.route(level.features, level.masks)
        regions = regions.children(level.features, level.masks)
        features.append(level.features.reshape(n_trees, -1))
        masks.append(level.masks.reshape(n_trees, -1, MASK_BYTES))
        advance()
    return Structure(np.concatenate(features, axis=1), np.concatenate(masks, axis=1))
