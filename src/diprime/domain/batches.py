"""Records that arrive in batches, kept as codes: one byte for each value, whatever its original type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime.domain.persons import Persons

BATCH_SIZES = (2, 3)
"""A batch has records and targets, and perhaps persons."""


class CheckedBatches:
    """Batches of records, each of which is checked to be one when it is read.

    Parameters
    ----------
    batches : iterable of pairs (X, y), or of triples (X, y, groups)
        The batches. They can be read as often as these can.
    """

    def __init__(self, batches: Iterable[tuple[Any, ...]]) -> None:
        self._batches = batches

    @property
    def once(self) -> bool:
        """Whether they can be read only once, as those of a generator."""
        return iter(self._batches) is self._batches

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for batch in self._batches:
            if not isinstance(batch, (tuple, list)) or len(batch) not in BATCH_SIZES:
                raise TypeError(
                    f"batches is a {type(self._batches).__name__} that gives a {type(batch).__name__} for a batch; "
                    "give pairs (X, y) or triples (X, y, groups), and [(X, y)] for a single table."
                )
            yield tuple(batch)


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


def check_lengths(n_rows: int, target: npt.NDArray[np.integer[Any]], persons: Persons | None) -> None:
    """Refuse records, targets and persons that are not equally many."""
    sizes = [n_rows, len(target)] + ([] if persons is None else [len(persons)])
    if len(set(sizes)) > 1:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {sizes}.")
