"""What the attacks on seeds and positions need of a forest, whichever library it is of.

Nothing here needs this library: attacks on diffprivlib run in an environment of its own.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Classes = npt.NDArray[np.int64]
HIGH = 10.0  # all features are numbers from 0 to 10


class Target(Protocol):
    """A library's forest under attack."""

    def fit(self, X: Floats, y: Classes) -> Any:
        """Fit a model with the library's own randomness."""

    def replay(self, model: Any, seeds: list[int], X: Floats, y: Classes) -> Any:
        """Fit again to a candidate table, with the random bits of a model whose seeds were found."""

    def tree_values(self, model: Any, row: Floats) -> Floats:
        """Return what each tree says of a row: its share of class 1."""
