"""How close a reconstructed table comes to the true one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks.attacks.reconstruction.tables import Rows, histogram


class Closeness(NamedTuple):
    """How close a reconstructed table comes to the true one.

    Attributes
    ----------
    error : float
        The share of wrong values, after rows have been matched so that it is smallest (Hungarian method).
    exact : float
        The share of the true rows that the reconstructed table has too, each counted as often as it is in both.
    """

    error: float
    exact: float


def closeness(true: Rows, guess: Rows) -> Closeness:
    """Compare two tables of equally many rows, whose order does not matter."""
    distances = (true[:, None, :] != guess[None, :, :]).mean(axis=2)
    matched = linear_sum_assignment(distances)
    common = np.minimum(histogram(true), histogram(guess)).sum()
    return Closeness(float(distances[matched].mean()), float(common / len(true)))
