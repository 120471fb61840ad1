"""The attack on positions: take away the first row, so that all others move up by one place.

If the rows are cut into parts by position, a part for each tree, every part gets another row: one record that is
removed changes all trees, each of which was paid for as if it were the only one. The table has as many rows as there
are trees, with alternating classes, so that in every tree the class changes.
"""

from __future__ import annotations

import numpy as np

from benchmarks.attacks.evidence import Guesses, count_guesses
from benchmarks.attacks.protocol import HIGH, Classes, Floats, Target

N_TREES = 10


def tables() -> tuple[tuple[Floats, Classes], tuple[Floats, Classes]]:
    """Return a table with a row in front, and without."""
    X, y = np.full((N_TREES, 1), HIGH / 2), np.arange(N_TREES) % 2
    return (X, y), (X[1:], y[1:])


def scores(target: Target, X: Floats, y: Classes, fits: int) -> Floats:
    """Return, for each fit, how much the trees alternate as the classes of the whole table do."""
    signs = np.where(np.arange(N_TREES) % 2 == 1, 1.0, -1.0)
    row = np.full((1, 1), HIGH / 2)
    return np.array([signs @ target.tree_values(target.fit(X, y), row) for _ in range(fits)])


def attack(target: Target, fits: int) -> Guesses:
    """Attack as many fits of each table; half of them choose the threshold, the other half count."""
    with_row, without = (scores(target, X, y, fits) for X, y in tables())
    half = fits // 2
    best = max(
        np.unique(np.concatenate([with_row[:half], without[:half]])).tolist(),
        key=lambda t: count_guesses(with_row[:half] - t, without[:half] - t).epsilon_at_least(),
    )
    return count_guesses(with_row[half:] - best, without[half:] - best)
