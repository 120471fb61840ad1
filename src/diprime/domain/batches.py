"""Records that arrive in batches, kept as codes: one byte for each value, whatever its original type."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime.domain import Domain


class EncodedBatches:
    """The rows of several batches, as :class:`diprime.domain.encoding.Rows`.

    Parameters
    ----------
    n_features : int
        The number of features.
    batches : list of ndarray of uint8, shape (n, n_features)
        The codes of each batch.

    Attributes
    ----------
    n_rows, n_features : int
        The shape of all batches together.
    numbers : None
        The original values are not kept.
    """

    numbers: npt.NDArray[Any] | None = None

    def __init__(self, n_features: int, batches: list[npt.NDArray[np.uint8]]) -> None:
        self.n_features = n_features
        self._batches = batches
        self._bounds = np.concatenate([[0], np.cumsum([len(batch) for batch in batches], dtype=np.int64)])
        self.n_rows = int(self._bounds[-1])

    def thresholds(self) -> list[npt.NDArray[np.float64]]:
        """Return an empty list: there are no ``numbers`` to compare with thresholds."""
        return []

    def read(self, start: int, stop: int, out: npt.NDArray[np.uint8]) -> None:
        """Write the codes of the rows from ``start`` to ``stop``."""
        first, last = np.searchsorted(self._bounds, [start, stop], side="right") - 1
        inner = self._bounds[first + 1 : last + 1].tolist()
        for batch, (a, b) in enumerate(pairwise([start, *inner, stop]), start=int(first)):
            if a < b:
                offset = int(self._bounds[batch])
                out[a - start : b - start] = self._batches[batch][a - offset : b - offset]


def encode_batches(
    batches: Iterable[tuple[Any, Any]], domain: Domain, n_threads: int
) -> tuple[EncodedBatches, npt.NDArray[np.int32]]:
    """Encode batches of records and targets as they arrive; only the codes are kept."""
    codes: list[npt.NDArray[np.uint8]] = []
    targets: list[npt.NDArray[np.int32]] = [np.zeros(0, dtype=np.int32)]
    for X, y in batches:
        codes.append(domain.encode(X, n_threads=n_threads))
        targets.append(domain.encode_target(y, n_threads=n_threads))
        if len(codes[-1]) != len(targets[-1]):
            sizes = [len(codes[-1]), len(targets[-1])]
            raise ValueError(f"Found input variables with inconsistent numbers of samples: {sizes}.")
    return EncodedBatches(domain.n_features, codes), np.concatenate(targets)
