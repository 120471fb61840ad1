"""What ``"auto"`` means: functions of public numbers and of the released row count only."""

from __future__ import annotations

import math
from fractions import Fraction

from diprime.budget import Epsilon

ROW_COUNT_SHARE = Fraction(1, 50)
SPLIT_SHARE = Fraction(3, 5)
N_FEATURES_OF_PAPER = 5
MOST_DEPTH = 9
LEAST_DEPTH = 2
# At epsilon = inf a leaf needs rows only to average over; this is how many times a row counts there.
MOST_EPSILON = 8


def information(rows: int, epsilon: Epsilon) -> float:
    """Return rows·epsilon, on which the signal above the noise depends; epsilon counts up to a limit."""
    return max(rows, 1) * float(min(epsilon, MOST_EPSILON))


def n_estimators(rows: int, epsilon: Epsilon) -> int:
    """Return the number of trees: one where records are few, more where each tree can still afford its depth."""
    signal = information(rows, epsilon)
    return 1 if signal < 200_000 else 2 if signal < 2_000_000 else 4


def max_depth(rows: int, epsilon: Epsilon, n_trees: int) -> int:
    """Return the depth at which a leaf holds enough records to stand out from its noise."""
    per_tree = information(rows, epsilon) / n_trees
    return min(MOST_DEPTH, max(LEAST_DEPTH, round(math.log2(max(per_tree / 70, 1)))))


def balance(*, classification: bool, epsilon: Epsilon) -> Fraction:
    """Return λ of the joint cost."""
    if epsilon == math.inf:
        return Fraction(0)
    return Fraction(1, 100) if classification else Fraction(1, 50)


def max_features(method: str, n_features: int, *, classification: bool, same_rows: bool) -> int:
    """Return the number of features tried at a node.

    One private selection may look at all features for the price of one, and noise and disjoint rows make trees
    different. ``same_rows`` says that neither does; then the numbers are those of scikit-learn's random forests.
    """
    if method == "joint":
        return max(1, math.isqrt(n_features)) if same_rows and classification else n_features
    return 1 if method in ("diprime", "random") else min(N_FEATURES_OF_PAPER, n_features)
