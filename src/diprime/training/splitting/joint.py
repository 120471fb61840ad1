"""One private selection over all features and thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from diprime._util.threads import Threads
from diprime.domain.domain import Domain
from diprime.domain.target_layout import Bins, TargetLayout
from diprime.model.masks import Features, Masks
from diprime.model.regions import Regions
from diprime.privacy.ledger import Charge
from diprime.privacy.measures import Epsilon
from diprime.privacy.mechanisms.selection import select
from diprime.privacy.mechanisms.weights import weight_table
from diprime.privacy.randomness import RandomSource
from diprime.training.splitting.candidates import BATCH_BYTES, CategoricalCandidates, _Candidates, draw_features
from diprime.training.splitting.cost import Cost
from diprime.training.splitting.protocol import Level


@dataclass
class JointSplitter:
    """One selection over all features and thresholds, by impurity and by what the smaller side lacks.

    The balance term keeps the paper's insight: where a node is too small to show a signal, the split falls near the
    median instead of anywhere. In a large node it only keeps children from being tiny.
    """

    domain: Domain
    layout: TargetLayout
    families: CategoricalCandidates
    max_features: int
    balance: Fraction
    ends: Fraction
    looks_at_data: bool = True

    def charges(self, level: int, epsilon: Epsilon, composition: str, times: int) -> list[Charge]:
        """Return what one level costs: one selection a node."""
        cost = Cost.joint(epsilon, self.balance, self.ends)
        bound = f"cost range {cost.range} in units of 1/{cost.units}"
        return [Charge(f"splits of level {level}", "exponential mechanism", bound, epsilon, times, composition)]

    def level(self, regions: Regions, epsilon: Epsilon, source: RandomSource) -> Level:
        """Prepare the selections of a level."""
        return _JointLevel(self, regions, epsilon, source)


class _JointLevel:
    def __init__(self, splitter: JointSplitter, regions: Regions, epsilon: Epsilon, source: RandomSource) -> None:
        chosen = draw_features(regions, splitter.max_features, source)
        self.candidates = _Candidates(splitter.domain, splitter.layout, splitter.families, regions, chosen)
        self.cost = Cost.joint(epsilon, splitter.balance, splitter.ends)
        self.table = weight_table(epsilon, self.cost.range, self.candidates.n_slots * self.candidates.per_node)
        self.streams = source.streams(len(regions))
        self.features: Features = np.zeros(len(regions), dtype=np.int32)
        self.masks: Masks = np.zeros((len(regions), 32), dtype=np.uint8)

    def choose(self, bins: Bins, begin: int, end: int, threads: Threads) -> None:
        per_node, n_slots = self.candidates.per_node, self.candidates.n_slots
        batch = max(1, BATCH_BYTES // (8 * per_node * n_slots))

        def work(a: int, b: int) -> None:
            for first in range(begin + a, begin + b, batch):
                last = min(first + batch, begin + b)
                costs, twice = self.candidates.costs(bins, first * per_node, last * per_node, begin, self.cost)
                costs, twice = costs.reshape(last - first, -1), twice.reshape(last - first, -1)
                picks = select("exponential", costs, self.table, self.streams[first:last], twice)
                # Where nothing is left to split, every row goes left.
                nodes = first + np.flatnonzero(picks >= 0)
                pairs, slots = np.divmod(picks[picks >= 0], n_slots)
                pairs += nodes * per_node
                self.features[nodes] = self.candidates.features[pairs]
                self.masks[nodes] = self.candidates.masks(pairs, slots)

        threads.run(work, end - begin)
