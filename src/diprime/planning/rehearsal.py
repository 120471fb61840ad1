"""Fits to synthetic data of the same domain and size, with and without noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from diprime.domain import Domain
from diprime.estimators.models import Boosted, Model, estimator
from diprime.planning.synthetic import Kind, SyntheticData, stand_in
from diprime.privacy import spending

TEST_ROWS = 20_000


@dataclass(frozen=True)
class Rehearsal:
    """Mean scores on one kind of synthetic data.

    Attributes
    ----------
    kind : str
        The kind of data.
    private, noiseless, guess : float
        Mean scores of the private model, of the same model without noise, and of the best constant prediction.
    """

    kind: str
    private: float
    noiseless: float
    guess: float

    @property
    def lost_to_noise(self) -> float:
        """What the noise costs."""
        return self.noiseless - self.private


@dataclass(frozen=True)
class Settings:
    """What to fit.

    Attributes
    ----------
    domain : Domain
        The domain, which may be open: what is open is learnt from the synthetic data, as a fit learns it.
    n_records : int
        The number of records.
    epsilon : float
        The budget.
    options : dict
        The options of `estimator`. With ``max_records_per_group``, every person has as many records, and with a domain
        that was learnt from persons, one.
    """

    domain: Domain
    n_records: int
    epsilon: float
    options: dict[str, Any]

    @property
    def max_records(self) -> int:
        """The largest number of records of a person."""
        return int(self.options.get("max_records_per_group", 1))

    @property
    def records_per_person(self) -> int | None:
        """The number of records of each person; None if records are protected."""
        return self.max_records if self.max_records > 1 or _is_of_persons(self.domain) else None


def rehearse(settings: Settings, kind: Kind, repeats: int, advance: Callable[[float], None]) -> tuple[Rehearsal, Model]:
    """Fit models to one kind of synthetic data, and return their scores and the last private one."""
    closed = stand_in(settings.domain)
    of_classes = closed.task == "classification"
    scores = []
    for seed in range(repeats):
        truth = SyntheticData(closed, seed, kind)
        model = _fit(settings, settings.epsilon, truth, settings.options)
        noiseless = model  # a second fit would differ by its trees, which is no cost of noise
        if settings.epsilon != math.inf:
            noiseless = _fit(settings, math.inf, truth, settings.options | same_trees(model))
        X, y = truth.draw(TEST_ROWS)
        right = closed.encode_target(y)
        predictions = [closed.encode_target(m.predict(X)) for m in (model, noiseless)]
        if of_classes:
            guess = np.full_like(right, np.argmax(np.bincount(right)))
            scores.append([float(np.mean(right == predicted)) for predicted in (*predictions, guess)])
        else:
            errors = [float(np.mean((right - predicted) ** 2.0)) for predicted in predictions]
            scores.append([1 - error / float(np.var(right)) for error in errors] + [0.0])
        advance(1 / repeats)
    return Rehearsal(kind.name, *np.mean(scores, axis=0).tolist()), model


def same_trees(model: Model) -> dict[str, Any]:
    """Return the parameters with which a fit without noise has the same number and depth of trees."""
    if isinstance(model, Boosted):
        return {"n_rounds": model.forest_.n_trees}
    return {"n_estimators": model.forest_.n_trees, "max_depth": int(model.forest_.depths[0])}


def _fit(settings: Settings, epsilon: float, truth: SyntheticData, options: dict[str, Any]) -> Model:
    batches = truth.batches(settings.n_records, settings.records_per_person)
    model = estimator(settings.domain, epsilon, **options)
    with spending.on_made_up_data():
        return model.fit_batches(batches)


def _is_of_persons(domain: Domain) -> bool:
    """Return whether a domain was learnt from persons, so that only a fit to persons may use it."""
    return domain.origin.ledger is not None and domain.origin.ledger.unit == "person"
