"""The error of a model on records, as one integer that a record changes by a known amount."""

from __future__ import annotations

import numpy as np

from diprime._util.threads import Threads
from diprime.domain import Domain
from diprime.domain.target_layout import TargetLayout
from diprime.engines.partition import Partition
from diprime.estimators.base import sorted_classes
from diprime.estimators.trees import PrivateTrees

CLIP_SHARE = 4
"""Residuals are clipped to this part of the target's range: a smaller range needs less noise."""


def clip_of(layout: TargetLayout) -> int:
    """Return the largest residual that counts in full, in units of an encoded number."""
    return layout.units // CLIP_SHARE


def error_range(layout: TargetLayout) -> int:
    """Return the most that one record, or one person, adds to :func:`error`; the least is 0."""
    return layout.person_units


def error(model: PrivateTrees, part: Partition, domain: Domain, threads: Threads) -> int:
    """Return the number of wrong classes; or the sum of squared residuals, in units of `clip²/layout.units`.

    Residuals are clipped, and the exact sum is divided by a power of two and rounded down. Records count by their
    weights, and those without a target do not count.

    Parameters
    ----------
    model : PrivateTrees
        A fitted model.
    part : Partition
        The records.
    domain : Domain
        The domain of the model.
    threads : Threads
        Where to predict.
    """
    used = part.records.target >= 0
    truth = part.records.target[used].astype(np.int64)
    weights = (
        np.ones(1, dtype=np.int64) if part.records.weights is None else part.records.weights[used].astype(np.int64)
    )
    if domain.task == "classification":
        positions = np.array(sorted_classes(domain)[0])  # of the sorted classes, in the domain
        return int((weights * (positions[model.forest_.decide(part.rows, threads)][used] != truth)).sum())
    predicted = domain.encode_target(model.forest_.predict(part.rows, threads)[:, 0])[used]
    clip = clip_of(domain.layout)
    residuals = np.clip(truth - predicted, -clip, clip)
    return int((weights * residuals**2).sum()) // (clip**2 // domain.layout.units)
