"""Weights of records: a record of weight w counts as w equal records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.uint8]

NO_WEIGHTS: Weights = np.zeros(0, dtype=np.uint8)
"""Stands for weights that are all one."""


MAX_WEIGHT = 255
MAX_ROWS = 1 << 40
"""The largest number of rows of a fit, or sum of their weights."""
MAX_PARTITION_ROWS = 1 << 31
"""The largest number of rows of a partition."""


def check_sizes(sizes: Sequence[int]) -> None:
    """Refuse more rows, in a partition or in all, than an engine's integers can count."""
    if max(sizes) > MAX_PARTITION_ROWS:
        raise ValueError(f"A partition has more rows than the {MAX_PARTITION_ROWS:,} that are supported.")
    if sum(sizes) > MAX_ROWS:
        raise ValueError(f"There are more rows than the {MAX_ROWS:,} that are supported.")


def check_weight(weight: int) -> None:
    """Refuse a larger sum of weights than an engine's integers can count."""
    if weight > MAX_ROWS:
        raise ValueError(
            f"There are more weighted rows than the {MAX_ROWS:,} that are supported; fewer records of each person, "
            "max_records_per_group, take less room."
        )


def total_of(weights: Weights | None, n: int) -> int:
    """Return the sum of the weights of n records, which is n if all weigh one."""
    return n if weights is None else int(weights.sum(dtype=np.int64))


def weighted_counts(values: npt.NDArray[Any], weights: Weights | None, n: int) -> npt.NDArray[np.int64]:
    """Return how many records have each value below n, by weight."""
    # Float64 adds integers exactly up to 2^53, which no engine's sum of weights comes near.
    return np.bincount(values, weights, minlength=n).astype(np.int64)
