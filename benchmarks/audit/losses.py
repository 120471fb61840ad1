"""The exact privacy loss of a transcript: how much likelier it is with the canary than without.

By the lemma of Neyman and Pearson, no other statistic tells two neighbours apart as well. Random bits that no record
influences, the trees of other rows among them, are the same on both sides: the guarantee holds given them, so an
attacker may know them. The tree of the canary itself is unknown, and its likelihood is the mean over all trees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.audit.transcripts import Release, Transcript, Watch
from diprime.kernels.constants import ABSENT_COST
from diprime.privacy.charges import Mechanism
from diprime.privacy.mechanisms.selection import permute_and_flip_pmf

Array = npt.NDArray[Any]


def log_likelihood(releases: list[Release]) -> float:
    """Return the logarithm of how likely releases are, given what they were drawn for, up to a common constant."""
    return sum(_LIKELIHOODS[release.mechanism](release) for release in releases)


def _laplace(release: Release) -> float:
    return -float(np.abs(release.drawn - release.true).sum()) / float(release.noise)


def _gaussian(release: Release) -> float:
    return -float((((release.drawn - release.true) / release.noise) ** 2).sum()) / 2


def _log_weights(costs: Array, table: Array) -> Array:
    """Return the logarithms of the weights of candidates; some are absent."""
    steps = np.minimum(costs - costs.min(), len(table) - 1)
    weights: Array = np.log(table[steps].astype(np.float64))
    return weights


def _log_sum(logarithms: Array) -> float:
    """Return the logarithm of a sum of numbers, given theirs."""
    largest = float(logarithms.max())
    return largest + float(np.log(np.exp(logarithms - largest).sum()))


def _exponential(release: Release) -> float:
    total = 0.0
    for costs, drawn in zip(release.true, release.drawn, strict=True):
        if drawn >= 0:
            present = costs != ABSENT_COST
            weights = _log_weights(costs[present], release.noise)
            total += weights[np.count_nonzero(present[:drawn])] - _log_sum(weights)
    return total


def _permute_and_flip(release: Release) -> float:
    total = 0.0
    for costs, drawn in zip(release.true, release.drawn, strict=True):
        if drawn >= 0:
            present = costs != ABSENT_COST
            pmf = permute_and_flip_pmf(costs[present].tolist(), release.noise)
            total += float(np.log(float(pmf[np.count_nonzero(present[:drawn])])))
    return total


def _subsets(release: Release) -> float:
    n = len(release.true)
    right = np.arange(1, 2**n - 1)[:, None] >> np.arange(n) & 1
    costs = np.abs((2 * right - 1) @ release.true)
    weights = _log_weights(costs, release.noise)
    drawn = int((1 << np.arange(n))[release.drawn].sum())
    return float(weights[drawn - 1] - _log_sum(weights))


_LIKELIHOODS: dict[str, Callable[[Release], float]] = {
    "laplace": _laplace,
    "gaussian": _gaussian,
    Mechanism.EXPONENTIAL: _exponential,
    Mechanism.PERMUTE_AND_FLIP: _permute_and_flip,
    "subsets": _subsets,
}


def exact_loss(
    watch: Watch, seen: Transcript, *, with_canary: bool, fit_without: Callable[[], Any], fit_with: Callable[[], Any]
) -> float:
    """Return the logarithm of how much likelier a transcript is with the canary, which is the last row, than without.

    Parameters
    ----------
    watch : Watch
        Replays the fits.
    seen : Transcript
        The transcript.
    with_canary : bool
        Whether it is of the table with the canary.
    fit_without, fit_with : callables
        Fit the two tables.
    """
    own_trees = range(seen.n_trees) if seen.trees else [None]
    known = int(seen.trees[0][-1]) if with_canary and seen.trees else None

    def of_tree(own_tree: int | None) -> float:
        if with_canary and own_tree == known:
            return log_likelihood(seen.releases)
        return log_likelihood(watch.replay(fit_with, seen, own_tree).releases)

    with_it = _log_sum(np.array([of_tree(tree) for tree in own_trees])) - np.log(len(own_trees))
    without = log_likelihood(watch.replay(fit_without, seen).releases if with_canary else seen.releases)
    return round(float(with_it - without), 9)  # so that no threshold is between two roundings of the same number
