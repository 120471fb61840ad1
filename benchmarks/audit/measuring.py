"""One audit: many fits of two neighbours, a search for an event on one half of them, and its test on the other."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.audit.bounds import Seen
from benchmarks.audit.cases import Case
from benchmarks.audit.events import Objective, Reader, Statistic, best_event
from benchmarks.audit.losses import exact_loss
from benchmarks.audit.transcripts import Transcript, Watch, watching
from benchmarks.audit.vectors import as_matrix, numbers_of
from diprime import PrivacyWarning
from diprime.privacy.gaussian_dp import delta_upper_bound
from diprime.privacy.ledger import Ledger

Floats = npt.NDArray[np.float64]

MIN_FITS = 40


@dataclass(frozen=True)
class Claim:
    """What a ledger says.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee.
    mu : float
        The μ of Gaussian DP; 0 where all releases are pure.
    """

    epsilon: float
    delta: float
    mu: float

    @classmethod
    def of(cls, released: Any) -> Claim:
        """Return the claim of a fitted estimator, a score or a learnt domain."""
        ledger = _ledger(released)
        return cls(float(ledger.total), float(ledger.total_delta), math.sqrt(float(ledger.loss.mu_squared)))

    @property
    def half_epsilon(self) -> float:
        """Where δ is audited: at the claimed ε itself it is too small to be seen."""
        return self.epsilon / 2

    @property
    def half_delta(self) -> float:
        """The δ at half of ε that follows from μ."""
        return float(delta_upper_bound(Fraction(self.mu) ** 2, Fraction(self.half_epsilon)))


def _ledger(released: Any) -> Ledger:
    for holder, name in ((released, "privacy_"), (released, "ledger"), (getattr(released, "origin", None), "ledger")):
        ledger = getattr(holder, name, None)
        if isinstance(ledger, Ledger):
            return ledger
    raise TypeError("What is audited has no ledger.")


@dataclass(frozen=True)
class Bound:
    """A lower bound, and what it was found by.

    Attributes
    ----------
    source : {"model", "transcript"}
        What the attacker sees.
    measure : {"ε", "μ", "δ"}
        What is bounded; δ is at half of the claimed ε.
    value, claim : float
        The bound, and what is claimed.
    event : str
        The event.
    seen : tuple of int
        How often it was seen on the side on which it is likelier, and on the other.
    """

    source: str
    measure: str
    value: float
    claim: float
    event: str
    seen: tuple[int, int]

    @property
    def exceeds(self) -> bool:
        """Whether the claim is refuted."""
        return self.value > self.claim


@dataclass(frozen=True)
class Result:
    """The audit of a case.

    Attributes
    ----------
    case, neighbours : str
        Their names.
    control : str
        What is broken; empty for the library as it is.
    claim : Claim
        What the ledgers say.
    fits, tested : int
        The number of fits of each side, and of those that tested the events.
    error : float
        The probability that a bound is above the truth, at most.
    bounds : tuple of Bound
        The bounds.
    largest_loss : float or None
        The largest exact loss of a transcript that was seen; None where transcripts were not replayed.
    seconds : float
        How long it took.
    commit : str
        The commit that was audited.
    """

    case: str
    neighbours: str
    control: str
    claim: Claim
    fits: int
    tested: int
    error: float
    bounds: tuple[Bound, ...]
    largest_loss: float | None
    seconds: float
    commit: str = ""

    @property
    def name(self) -> tuple[str, str, str]:
        """What is broken, the case and the neighbours."""
        return self.control, self.case, self.neighbours

    @property
    def key(self) -> tuple[tuple[str, str, str], Claim]:
        """What distinguishes it from other results."""
        return self.name, self.claim

    @property
    def exceeds(self) -> bool:
        """Whether a claim is refuted."""
        return any(bound.exceeds for bound in self.bounds)

    @property
    def passes(self) -> bool:
        """Whether it is as it should be: controls are refuted, and nothing else is."""
        return self.exceeds is bool(self.control)


@dataclass(frozen=True)
class Side:
    """All fits of one table."""

    transcripts: Floats
    models: Floats
    losses: Floats

    def part(self, begin: int, end: int) -> Side:
        """Return some of the fits."""
        return Side(self.transcripts[begin:end], self.models[begin:end], self.losses[begin:end])


def audit(case: Case, n: int, error: float, keys: Callable[[], bytes], control: str = "") -> Result:
    """Audit a case with so many fits of each table; the bounds are wrong with a probability of at most ``error``."""
    start = time.monotonic()
    n = max(n, MIN_FITS)
    with warnings.catch_warnings(), case.setting(), watching(keys) as watch:
        warnings.simplefilter("ignore", PrivacyWarning)  # controls are not private, and say so
        claim, sides = _fit_all(case, n, watch)
    losses = np.concatenate([side.losses for side in sides])
    largest = None if np.isnan(losses).all() else float(np.nanmax(np.abs(losses)))
    bounds = _bounds(claim, sides, error)
    seconds = time.monotonic() - start
    return Result(case.name, case.neighbours.name, control, claim, n, n - n // 2, error, bounds, largest, seconds)


def _fit_all(case: Case, n: int, watch: Watch) -> tuple[Claim, list[Side]]:
    """Fit both tables; return what is claimed, and the fits of each."""
    tables = [case.neighbours.table(with_canary=with_it) for with_it in (False, True)]
    fits = [lambda table=table: case.release(*table) for table in tables]
    sides, claims = [], set()
    for with_canary in (False, True):
        seen: list[tuple[Floats, Floats, float]] = []
        for _ in range(n):
            released, transcript = watch.record(fits[with_canary])
            if not seen:  # what is claimed follows from the parameters
                claims.add(Claim.of(released))
            loss = _loss(watch, transcript, fits, with_canary=with_canary) if case.exact else math.nan
            seen.append((transcript.numbers, numbers_of(released), loss))
        transcripts, models, losses = zip(*seen, strict=True)
        sides.append(Side(as_matrix(transcripts), as_matrix(models), np.array(losses)))
    (claim,) = claims
    return claim, _same_width(sides)


def _loss(watch: Watch, seen: Transcript, fits: Sequence[Callable[[], Any]], *, with_canary: bool) -> float:
    return exact_loss(watch, seen, with_canary=with_canary, fit_without=fits[0], fit_with=fits[1])


def _same_width(sides: Sequence[Side]) -> list[Side]:
    """Return sides whose fits have as many numbers; those that one side lacks are missing."""

    def widened(matrices: Sequence[Floats]) -> list[Floats]:
        width = max(matrix.shape[1] for matrix in matrices)
        return [np.pad(m, ((0, 0), (0, width - m.shape[1])), constant_values=np.nan) for m in matrices]

    transcripts = widened([side.transcripts for side in sides])
    models = widened([side.models for side in sides])
    return [Side(t, m, side.losses) for t, m, side in zip(transcripts, models, sides, strict=True)]


# -- bounds ------------------------------------------------------------------------------------------------------------


def _measures(claim: Claim) -> dict[str, tuple[float, Callable[[Seen, float], Any]]]:
    """Return what is bounded, with its claim and its bound."""
    if not claim.mu:
        return {"ε": (claim.epsilon, lambda seen, error: seen.epsilon(error, claim.delta))}
    return {
        "μ": (claim.mu, lambda seen, error: seen.mu(error)),
        "δ": (claim.half_delta, lambda seen, error: seen.delta(claim.half_epsilon, error)),
    }


def _bounds(claim: Claim, sides: Sequence[Side], error: float) -> tuple[Bound, ...]:
    """Learn from a quarter of the fits, choose events by another, and test them on the other half."""
    exact = not any(np.isnan(side.losses).any() for side in sides)
    n = len(sides[0].losses)
    quarters = [0, n // 4, n // 2, n]
    learnt_from, chosen_by, tested_by = ([side.part(a, b) for side in sides] for a, b in pairwise(quarters))
    measures = _measures(claim)
    readers = {
        "model": Reader.learn("model", *(side.models for side in learnt_from)),
        "transcript": Reader.learn("transcript", *(side.transcripts for side in learnt_from)),
    }
    # The exact loss is tested by itself: among many other events one that is worse may look better by chance.
    groups = [(source, _statistics_of(source, reader)) for source, reader in readers.items()]
    groups += [("transcript", _exact_loss)] if exact else []
    found = []
    for source, statistics in groups:
        choice, test = (statistics(part) for part in (chosen_by, tested_by))
        for measure, (claimed, bound) in measures.items():
            of_each = error / (len(groups) * len(measures))
            event = best_event([*choice.values()], _expected(bound, of_each))
            seen = event.seen(test[event.statistic])
            value = float(bound(seen, of_each))
            found.append(Bound(source, measure, value, claimed, str(event), (seen.likelier, seen.other)))
    return tuple(found)


def _expected(bound: Callable[[Seen, float], Any], error: float) -> Objective:
    """Return what a bound will be, about, if an event is seen as often in twice as many fits, which test it."""
    return lambda seen: bound(Seen(2 * seen.likelier, 2 * seen.n_likelier, 2 * seen.other, 2 * seen.n_other), error)


def _statistics_of(source: str, reader: Reader) -> Callable[[Sequence[Side]], dict[str, Statistic]]:
    """Return a function that returns the statistics of what was released by some fits, by their names."""

    def statistics(sides: Sequence[Side]) -> dict[str, Statistic]:
        matrices = [side.models if source == "model" else side.transcripts for side in sides]
        nothing = Statistic("nothing", *(np.zeros(len(matrix)) for matrix in matrices))
        return {statistic.name: statistic for statistic in [*reader.statistics(*matrices), nothing]}

    return statistics


def _exact_loss(sides: Sequence[Side]) -> dict[str, Statistic]:
    return {"exact loss": Statistic("exact loss", *(side.losses for side in sides))}
