"""What ``"auto"`` means: functions of public numbers and of released counts only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from diprime.privacy.measures import Epsilon

COUNTS_SHARE = Fraction(1, 50)
QUANTILE_SHARE = Fraction(1, 50)
WINDOW_INFORMATION = 1500  # records·epsilon at a node, below which its quantiles are mostly noise
MAX_WINDOWS = 1024  # of a level: each has a table in memory
PAPER_MAX_FEATURES = 5
MAX_DEPTH = 9
MIN_DEPTH = 1
MAX_EXTRA_DEPTH = 3  # for many classes
# Noise no longer matters beyond; a leaf then needs rows to average over, and each counts as this much epsilon.
MAX_EPSILON = 8
RANDOM_FOREST_TREES = 30
MAX_RANDOM_DEPTH = 16
MAX_RANDOM_SUMS = 1 << 24  # of all leaves of all trees: complete trees hold them in memory
MAX_LINEAR_TAIL = Fraction(1, 8)
LINEAR_TAIL_STEPS = 64  # kernels/scoring.py needs a multiple of 1/64


def information(rows: int, epsilon: Epsilon) -> float:
    """Return rows·epsilon, on which the ratio of signal to noise depends; epsilon counts up to a limit."""
    return max(rows, 1) * float(min(epsilon, MAX_EPSILON))


def n_estimators(method: str, rows: int, epsilon: Epsilon, *, classification: bool) -> int:
    """Return the number of trees.

    One tree on all records beats several on parts of them, unless each part is large enough for a deep tree.
    Averages of numbers gain from several trees sooner. Trees whose features are drawn at random gain more from each
    other.
    """
    signal = information(rows, epsilon)
    if method != "joint":
        return 2 if signal < 5_000 else 4  # noqa: PLR2004 -- found by measurement, used once
    two = 2_000_000 if classification else 200_000
    return 1 if signal < two else 2 if signal < 16_000_000 else 4  # noqa: PLR2004 -- found by measurement, used once


def max_depth(rows: int, epsilon: Epsilon, n_trees: int, n_outputs: int) -> int:
    """Return the depth at which a leaf holds enough records to stand out from its noise.

    Depth beyond nine hardly pays, except that many classes take more splits to tell apart.
    """
    per_tree = information(rows, epsilon) / n_trees
    most = MAX_DEPTH + min(MAX_EXTRA_DEPTH, max(0, math.ceil(math.log2(n_outputs) - 1)))
    return min(most, max(MIN_DEPTH, round(math.log2(max(per_tree / 150, 1)))))


def random_forest_depth(rows: int, n_trees: int, n_outputs: int) -> int:
    """Return the depth of the trees of a random forest without noise, which rows limit, and memory and time.

    At this depth, every record could have a leaf of its own. Trees are complete: one of depth d has 2^d leaves, whether
    records reach them or not, so deeper ones take twice the memory for each level.

    Examples
    --------
    >>> random_forest_depth(16_000, 30, 2), random_forest_depth(16_000, 30, 26), random_forest_depth(100, 30, 2)
    (14, 14, 7)
    """
    by_rows = math.ceil(math.log2(max(rows, 2)))
    by_memory = (MAX_RANDOM_SUMS // (n_trees * n_outputs)).bit_length() - 1
    return max(MIN_DEPTH, min(by_rows, by_memory, MAX_RANDOM_DEPTH))


def split_share(method: str) -> Fraction:
    """Return the share of epsilon for splits: the paper's half for its methods."""
    return Fraction(7, 10) if method == "joint" else Fraction(1, 2)


def level_weights(method: str, depth: int, epsilon: Epsilon) -> list[int]:
    """Return how the share for splits is spread over the levels.

    The fewer records a node holds, the more its selection needs.
    """
    if method != "joint" or epsilon == math.inf:
        return [1] * depth
    return [4 + level for level in range(depth)]


def balance(*, classification: bool, epsilon: Epsilon) -> Fraction:
    """Return λ of the joint cost: the penalty for each row that the smaller child falls short."""
    if epsilon == math.inf:
        return Fraction(0)
    return Fraction(1, 50) if classification else Fraction(1, 20)


def linear_tail(class_counts: Sequence[int], epsilon: Epsilon) -> Fraction:
    """Return the share up to which impurity is linear: at most half the rarest class's share."""
    total = sum(class_counts)
    if epsilon == math.inf or len(class_counts) <= 1 or total < 1:
        return Fraction(0)
    rarest = Fraction(max(min(class_counts), 0), total)
    largest = MAX_LINEAR_TAIL * min(1, Fraction(MAX_EPSILON) / epsilon)  # at large epsilon, plain squares do better
    return Fraction(math.floor(LINEAR_TAIL_STEPS * min(largest, rarest / 2)), LINEAR_TAIL_STEPS)


def window_levels(rows: int, epsilon: Epsilon, n_trees: int, depth: int) -> list[int]:
    """Return the levels whose nodes get windows of their own: every other one, as long as nodes have enough records."""
    most = min(MAX_WINDOWS, rows * epsilon / WINDOW_INFORMATION)
    return [level for level in range(2, depth, 2) if n_trees * 2**level <= most]


def window_margins(epsilon: Epsilon) -> tuple[Epsilon, Epsilon]:
    """Return how many of its widths a window is widened by on each side, for splits and for leaves.

    A narrow window makes differences stand out from the noise of selections. Leaf noise is small, so a wider window,
    which clips less of the tails, is better.
    """
    return min(epsilon / 300, Fraction(1)), 4 * max(epsilon, 1)


def max_features(method: str, n_features: int, *, classification: bool, same_rows: bool) -> int:
    """Return the number of features tried at a node.

    A private selection looks at all features for the price of one, and noise and disjoint rows make trees different.
    ``same_rows`` says that neither does; then the numbers are those of scikit-learn's random forests.
    """
    if method == "joint":
        return max(1, math.isqrt(n_features)) if same_rows and classification else n_features
    return 1 if method in ("diprime", "random") else min(PAPER_MAX_FEATURES, n_features)
