"""The first look at a fit's records: how many there are, and of which classes.

Everything here is released, and charged, before a tree grows; the rules of :mod:`diprime.defaults` make trees, depth
and costs of it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diprime.domain.target_layout import TargetLayout
from diprime.privacy.ledger import Charge, Ledger
from diprime.privacy.measures import Epsilon
from diprime.privacy.mechanisms.laplace import discrete_laplace
from diprime.privacy.randomness import RandomSource

Target = npt.NDArray[np.int32]


def charge_counts(ledger: Ledger, layout: TargetLayout, epsilon: Epsilon) -> None:
    """Charge the counts of a fit's records."""
    what = "class counts" if layout.units == 1 else "row count"
    ledger.charge(Charge(what, "discrete Laplace", "L1 sensitivity 1", epsilon))


def release_counts(
    target: Target, layout: TargetLayout, epsilon: Epsilon, source: RandomSource
) -> npt.NDArray[np.int64]:
    """Release how many records each class has, or how many have a numeric target; :func:`charge_counts` has paid.

    One record adds one to one of the counts.
    """
    valid = target[target >= 0]
    counts = np.bincount(valid, minlength=layout.n_outputs) if layout.units == 1 else np.array([len(valid)])
    return np.asarray(discrete_laplace(counts.astype(np.int64)[None, :], epsilon, 1, source.streams(1))[0])
