"""Values of ``"auto"``, computed only from public numbers and released counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from diprime.privacy.measures import Epsilon

COUNTS_SHARE = Fraction(1, 50)
QUANTILE_SHARE = Fraction(1, 50)
WINDOW_INFORMATION = 1500  # records·epsilon of a node below which its quantiles are mostly noise
# Records·epsilon below which clipping ranges are mostly noise, and leaves need the budget more than splits, because
# their means would be worse than the mean of all records.
SCARCE = 300
MIN_SPLIT_SHARE, MAX_SPLIT_SHARE = Fraction(1, 10), Fraction(7, 10)
MAX_WINDOWS = 1024  # per level, because each has a table in memory
PAPER_MAX_FEATURES = 5
CONSTANT = 40  # records·epsilon of a tree below which one mean of all records beats the means of two leaves
FEWEST = 100  # smallest plausible number of records: lower released counts are more likely due to noise
MAX_DEPTH = 9  # deeper trees are hardly better
MIN_DEPTH = 1  # minimum depth of random forests without noise
MAX_EXTRA_DEPTH = 3  # extra depth for many classes, which need more splits to separate
# Maximum epsilon in records·epsilon. Beyond it, noise does not matter, but a leaf still needs records to average.
MAX_EPSILON = 8
RANDOM_FOREST_TREES = 30
MAX_RANDOM_DEPTH = 16
MAX_RANDOM_SUMS = 1 << 24  # maximum number of sums of all leaves, which complete trees hold in memory
MAX_LINEAR_TAIL = Fraction(1, 8)
LINEAR_TAIL_STEPS = 64  # kernels/split_costs.py needs a multiple of 1/64


def information(rows: int, epsilon: Epsilon) -> float:
    """Return rows·epsilon, which determines the signal-to-noise ratio. Epsilon counts up to `MAX_EPSILON`."""
    return max(rows, 1) * float(min(epsilon, MAX_EPSILON))


def n_estimators(method: str, rows: int, epsilon: Epsilon, *, classification: bool) -> int:
    """Return the number of trees.

    One tree on all records beats several trees on parts of them, unless each part is large enough for a deep tree.
    Regression benefits from several trees at smaller sizes. Averaging helps more if features are drawn at random.
    """
    signal = information(rows, epsilon)
    if method != "joint":
        return 2 if signal < 5_000 else 4  # noqa: PLR2004 -- found by measurement, used once
    two = 2_000_000 if classification else 200_000
    return 1 if signal < two else 2 if signal < 16_000_000 else 4  # noqa: PLR2004 -- found by measurement, used once


def max_depth(rows: int, epsilon: Epsilon, n_trees: int, n_outputs: int) -> int:
    """Return the depth at which a leaf has enough records to exceed its noise, or 0 if there is none."""
    per_tree = information(rows, epsilon) / n_trees
    if per_tree < CONSTANT and FEWEST * epsilon < CONSTANT:
        return 0
    most = MAX_DEPTH + min(MAX_EXTRA_DEPTH, max(0, math.ceil(math.log2(n_outputs) - 1)))
    return min(most, max(1, round(math.log2(max(per_tree / 150, 1)))))


def random_forest_depth(rows: int, n_trees: int, n_outputs: int) -> int:
    """Return the depth of the trees of a random forest without noise.

    Every record could have a leaf of its own, if memory and time allow. Complete trees of depth d have 2^d leaves,
    whether records reach them or not, so each further level doubles the memory.

    >>> random_forest_depth(16_000, 30, 2), random_forest_depth(16_000, 30, 26), random_forest_depth(100, 30, 2)
    (14, 14, 7)
    """
    by_rows = math.ceil(math.log2(max(rows, 2)))
    by_memory = (MAX_RANDOM_SUMS // (n_trees * n_outputs)).bit_length() - 1
    return max(MIN_DEPTH, min(by_rows, by_memory, MAX_RANDOM_DEPTH))


def split_share(method: str, rows: int, epsilon: Epsilon) -> Fraction:
    """Return the share of epsilon for splits: half for the paper's methods, otherwise less if information is scarce."""
    if method != "joint":
        return Fraction(1, 2)
    return min(MAX_SPLIT_SHARE, max(MIN_SPLIT_SHARE, Fraction(information(rows, epsilon)) / SCARCE))


def level_weights(method: str, depth: int, epsilon: Epsilon) -> list[int]:
    """Return the weights of the levels in the share for splits. Nodes with fewer records need more."""
    if method != "joint" or epsilon == math.inf:
        return [1] * depth
    return [4 + level for level in range(depth)]


def balance(*, classification: bool, epsilon: Epsilon) -> Fraction:
    """Return λ of the joint cost, the penalty for each row that the smaller child falls short."""
    if epsilon == math.inf:
        return Fraction(0)
    return Fraction(1, 50) if classification else Fraction(1, 20)


def linear_tail(class_counts: Sequence[int], epsilon: Epsilon) -> Fraction:
    """Return the class share up to which impurity is linear: at most half the share of the rarest class."""
    total = sum(class_counts)
    if epsilon == math.inf or len(class_counts) <= 1 or total < 1:
        return Fraction(0)
    rarest = Fraction(max(min(class_counts), 0), total)
    largest = MAX_LINEAR_TAIL * min(1, Fraction(MAX_EPSILON) / epsilon)  # squared errors are better at large epsilon
    return Fraction(math.floor(LINEAR_TAIL_STEPS * min(largest, rarest / 2)), LINEAR_TAIL_STEPS)


def window_levels(rows: int, epsilon: Epsilon, n_trees: int, depth: int) -> list[int]:
    """Return the levels whose nodes get their own clipping ranges: every second level, while nodes are large enough."""
    most = min(MAX_WINDOWS, rows * epsilon / WINDOW_INFORMATION)
    return [level for level in range(2, depth, 2) if n_trees * 2**level <= most]


def window_margins(epsilon: Epsilon) -> tuple[Epsilon, Epsilon]:
    """Return how far clipping ranges are widened on each side, in widths, for splits and for leaves.

    With a narrow range, differences exceed the noise of selections. The noise of leaves is small, so a wider range,
    which clips less of the tails, is better for them.
    """
    return min(epsilon / 300, Fraction(1)), 4 * max(epsilon, 1)


def max_features(method: str, n_features: int, *, classification: bool, same_rows: bool) -> int:
    """Return the number of features tried at a node.

    One private selection considers all features at no extra cost, and noise and disjoint rows make trees different. If
    ``same_rows`` is set, neither does, and the numbers are those of scikit-learn's random forests.
    """
    if method == "joint":
        return max(1, math.isqrt(n_features)) if same_rows and classification else n_features
    return 1 if method in ("diprime", "random") else min(PAPER_MAX_FEATURES, n_features)
