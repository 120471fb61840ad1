"""From the scores of an additive model to what it predicts: probabilities of classes, or a number."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from diprime.domain import Categorical, Domain, Numeric
from diprime.domain.features import bounds

Floats = npt.NDArray[np.float64]

_BINARY = 2


class Link(ABC):
    """How scores of shape (n, n_scores) become predictions."""

    @property
    @abstractmethod
    def n_scores(self) -> int:
        """The number of scores of a row."""

    @abstractmethod
    def predict(self, scores: Floats) -> Floats:
        """Return the probabilities of the classes, or one number, for each row."""

    @property
    def magnitude(self) -> float:
        """The largest magnitude of a number that predictions are clipped to."""
        return 0.0

    def in_quanta_of(self, quantum: float) -> Link:
        """Return the link for scores that are multiples of another quantum."""
        return self

    def decide(self, scores: Floats) -> npt.NDArray[np.intp]:
        """Return the index of the class with the largest score; the first one in case of ties."""
        return np.asarray(scores.argmax(axis=1))


@dataclass(frozen=True)
class Logistic(Link):
    """Two classes: the score is the log-odds of the second."""

    @property
    def n_scores(self) -> int:
        """One."""
        return 1

    def predict(self, scores: Floats) -> Floats:
        """Return the probabilities of both classes."""
        odds = np.exp(-np.abs(scores))  # of the less likely class, so that nothing overflows
        likely, unlikely = 1 / (1 + odds), odds / (1 + odds)
        positive = scores > 0
        return np.hstack([np.where(positive, unlikely, likely), np.where(positive, likely, unlikely)])

    def decide(self, scores: Floats) -> npt.NDArray[np.intp]:
        """Return 1 where the score is positive, and 0 elsewhere."""
        return (scores[:, 0] > 0).astype(np.intp)


@dataclass(frozen=True)
class Softmax(Link):
    """Any other number of classes: probabilities are proportional to the exponentials of the scores.

    Attributes
    ----------
    n_classes : int
        The number of classes.
    """

    n_classes: int

    @property
    def n_scores(self) -> int:
        """One for each class."""
        return self.n_classes

    def predict(self, scores: Floats) -> Floats:
        """Return the probabilities of the classes."""
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Clip(Link):
    """A numeric target: the score is in its unit, and is clipped to its range.

    Attributes
    ----------
    low, high : float
        The range of the target.
    quantum : float
        The number that all scores are multiples of.
    """

    low: float
    high: float
    quantum: float

    @property
    def limits(self) -> tuple[float, float]:
        """The range of predictions: that of the target, rounded inwards, so that predictions are multiples too."""
        return math.ceil(self.low / self.quantum) * self.quantum, math.floor(self.high / self.quantum) * self.quantum

    @property
    def magnitude(self) -> float:
        """The larger magnitude of the ends of the range."""
        return max(abs(self.low), abs(self.high))

    def in_quanta_of(self, quantum: float) -> Link:
        """Return the link for scores that are multiples of another quantum."""
        return replace(self, quantum=quantum)

    @property
    def n_scores(self) -> int:
        """One."""
        return 1

    def predict(self, scores: Floats) -> Floats:
        """Return the scores, clipped to the range."""
        return np.clip(scores, *self.limits)


def link_of(domain: Domain, quantum: float) -> Link:
    """Return the link of a domain's target, for scores that are multiples of ``quantum``."""
    if isinstance(domain.target, Numeric):
        return Clip(*bounds(domain.target), quantum)
    assert isinstance(domain.target, Categorical)
    n_classes = len(domain.target.levels)
    return Logistic() if n_classes == _BINARY else Softmax(n_classes)
