"""Models as lists of numbers: what somebody can compute with who has the file of a model, and nothing else."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime import Domain, PrivateSearch
from diprime.estimators.trees import PrivateTrees
from diprime.model.files import MAGIC, to_bytes
from diprime.paper.multiway import MultiwayForest
from diprime.scoring import PrivateScore

Floats = npt.NDArray[np.float64]

_LENGTH = 8  # bytes of the length of a header
_ARRAYS = ("features", "masks", "values", "counts", "offset", "code_weights")
_OF_MULTIWAY = ("roots", "features", "first_children", "values")


def numbers_of(released: Any) -> Floats:
    """Return all numbers in what was released: a fitted estimator or search, a score, or a learnt domain."""
    if isinstance(released, PrivateTrees):
        return _of_model(released)
    if isinstance(released, PrivateSearch):
        return _of_model(released.best_estimator_)
    if isinstance(released, PrivateScore):
        return _of_score(released)
    if isinstance(released, Domain):
        return _of_text(repr(released.to_dict()))
    forest: MultiwayForest = released.forest_  # a comparator: it has no files
    arrays = [np.asarray(getattr(forest, name), dtype=np.float64).ravel() for name in _OF_MULTIWAY]
    return np.concatenate([[len(forest.features)], *arrays])


def _of_model(model: PrivateTrees) -> Floats:
    """Return the numbers of a model file: its arrays, and its length and a digest of its header beside them."""
    data = to_bytes(model._to_content())
    start = len(MAGIC) + _LENGTH
    header = data[start : start + int.from_bytes(data[len(MAGIC) : start], "little")]
    forest: Any = model.forest_
    arrays = [np.asarray(getattr(forest, name), dtype=np.float64) for name in _ARRAYS if hasattr(forest, name)]
    head = [float(len(data)), float(zlib.crc32(header) % 10_007)]
    return np.concatenate([head, *(array.ravel() for array in arrays)])


def _of_score(score: PrivateScore) -> Floats:
    estimates = [score.records, *score.estimates.values(), *(e for row in score.confusion_matrix or () for e in row)]
    return np.array([number for e in estimates for number in (e.value, e.low, e.high)], dtype=np.float64)


def _of_text(text: str) -> Floats:
    """Return the numbers that stand in a text."""
    cleaned = "".join(c if c.isdigit() or c in "+-.e" else " " for c in text)
    return np.array([number for word in cleaned.split() if (number := _number(word)) is not None])


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def as_matrix(vectors: Sequence[Floats]) -> Floats:
    """Return a row for each vector; where some are shorter, numbers are missing."""
    width = max((len(vector) for vector in vectors), default=0)
    matrix = np.full((len(vectors), width), np.nan)
    for row, vector in zip(matrix, vectors, strict=True):
        row[: len(vector)] = vector
    return matrix
