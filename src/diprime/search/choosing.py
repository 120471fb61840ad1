"""Division of the records, errors of fitted models, and the two rules that select a setting.

The account of the search is charged for everything before the first release. Each fit has a subaccount with the amount
that was charged for one fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Threads, resolve_n_jobs
from diprime.domain import Domain
from diprime.domain.encoding import Codes, Rows, TargetLayout
from diprime.domain.records import Persons, numbers_of
from diprime.estimators.base import sorted_classes
from diprime.estimators.trees import PrivateTrees
from diprime.execution.executor import Executor, PartialSum
from diprime.execution.partition import Partition, Partitions, SampledRecords, UpdatedPartitions, stored
from diprime.model.additive import AdditiveForest
from diprime.model.trees import Forest
from diprime.privacy.charges import Bound, BoundKind, Mechanism, Receipt
from diprime.privacy.measures import GaussianDP, Measure
from diprime.privacy.mechanisms.laplace import discrete_laplace
from diprime.privacy.mechanisms.selection import Selection, best_of_random_number
from diprime.privacy.randomness import RandomSource
from diprime.privacy.session import Account
from diprime.search.plan import Candidate, Fit, SearchPlan, error_range

_DRAW_BITS = 32

Mask = npt.NDArray[np.bool_]


# -- records for training and records for selection --------------------------------------------------------------------


class GroupSizes(NamedTuple):
    """The people of a partition in order of appearance, with their numbers of rows."""

    persons: Persons
    n_rows: npt.NDArray[np.int64]
    n_unknown: int


def group_sizes(state: Partition, threads: Threads, out: PartialSum | None = None) -> GroupSizes:
    """Return the people of a partition and their numbers of rows (the query of a division by people)."""
    persons = state.records.persons
    assert persons is not None
    numbers, firsts = numbers_of(persons)
    n_rows = np.bincount(numbers + 1, minlength=len(firsts) + 1)
    return GroupSizes(persons[firsts], n_rows[1:], int(n_rows[0]))


class SelectedRows:
    """Selection of rows, which implements :class:`diprime.domain.encoding.Rows`."""

    numbers: npt.NDArray[Any] | None = None

    def __init__(self, rows: Rows, places: npt.NDArray[np.uint32]) -> None:
        self._rows = rows
        self._places = places
        self.n_rows = len(places)
        self.n_features = rows.n_features

    def thresholds(self) -> list[npt.NDArray[np.float64]]:
        """Return an empty list, because there are no ``numbers`` to compare with thresholds."""
        return []

    def read(self, start: int, stop: int, out: Codes) -> None:
        """Write the codes of the rows from ``start`` to ``stop``."""
        if start == stop:
            return
        places = self._places[start:stop]
        first, last = int(places[0]), int(places[-1]) + 1
        codes: Codes = np.empty((last - first, self.n_features), dtype=np.uint8)
        self._rows.read(first, last, codes)
        out[:] = codes[places - first]


@dataclass(frozen=True)
class TakePart:
    """Update that keeps the rows of one part, in their order."""

    # Packed bits that are set in the selection part: one per row; or one per person in order of appearance, and one for
    # all rows without an identifier.
    drawn: npt.NDArray[np.uint8]
    chooses: bool  # whether to keep the selection part

    def __call__(self, state: Partition, threads: Threads) -> Partition:
        """Return the rows of the part."""
        used = state.records
        drawn = np.unpackbits(self.drawn).astype(np.bool_)
        if used.persons is None:
            here = drawn[: len(used.target)] == self.chooses
        else:
            numbers, firsts = numbers_of(used.persons)
            numbers[numbers < 0] = len(firsts)
            here = drawn[numbers] == self.chooses
        places = np.flatnonzero(here)
        target = stored(used.target[places], state.memory, np.int32)
        weights = None if used.weights is None else stored(used.weights[places], state.memory, np.uint8)
        rows = SelectedRows(state.rows, stored(places, state.memory, np.uint32))
        return replace(state, rows=rows, records=SampledRecords(target, weights))


def divide(
    all_records: Partitions, holdout: Fraction, source: RandomSource, threads: Threads
) -> tuple[Partitions, Partitions]:
    """Divide the records at random into those that train and those that select, about a share ``holdout`` of all.

    The part of a record, or of all records of a person, is drawn from fresh randomness, independently of all records.
    Adding or removing one therefore leaves every other record in its part.
    """
    executor = all_records.executor(threads)
    threshold = np.uint64(int(holdout * (1 << _DRAW_BITS)))
    if all_records.of_persons:
        drawn, n_rows = _draw_groups(executor.collect(group_sizes), threshold, source)
    else:
        chooses = source.integers(1 << _DRAW_BITS, sum(executor.sizes)) < threshold
        drawn = np.split(chooses, np.cumsum(executor.sizes)[:-1])
        n_rows = [np.ones(n, dtype=np.int64) for n in executor.sizes]

    def part(*, chooses: bool) -> UpdatedPartitions:
        steps = [TakePart(np.packbits(of_part), chooses) for of_part in drawn]
        sizes = [int(n[of_part == chooses].sum()) for n, of_part in zip(n_rows, drawn, strict=True)]
        return UpdatedPartitions(all_records, [steps], sizes)

    return part(chooses=False), part(chooses=True)


def _draw_groups(
    found: Sequence[GroupSizes], threshold: np.uint64, source: RandomSource
) -> tuple[list[Mask], list[npt.NDArray[np.int64]]]:
    """Draw a part for each person, and one for all rows without one; return draws and row counts by partition."""
    numbers, firsts = numbers_of(np.concatenate([of_part.persons for of_part in found]))
    chooses = source.integers(1 << _DRAW_BITS, len(firsts) + 1) < threshold
    ends = np.cumsum([len(of_part.persons) for of_part in found])[:-1]
    drawn = [np.append(chooses[of_part], chooses[-1]) for of_part in np.split(numbers, ends)]
    return drawn, [np.append(of_part.n_rows, of_part.n_unknown) for of_part in found]


# -- errors ------------------------------------------------------------------------------------------------------------

CLIP_SHARE = 4
"""Residuals are clipped to the target's range divided by this, because a smaller range requires less noise."""


def clip_of(layout: TargetLayout) -> int:
    """Return the clipping bound of residuals, in units of an encoded number."""
    return layout.units // CLIP_SHARE


@dataclass(frozen=True)
class ErrorSum:
    """Query for the weighted number of wrong classes, or the weighted sum of squared, clipped residuals."""

    forest: Forest | AdditiveForest
    domain: Domain

    def __call__(self, state: Partition, threads: Threads, out: PartialSum | None = None) -> PartialSum:
        """Predict and add up the errors of a partition."""
        target, weights = state.records.target, state.records.weights
        used = target >= 0  # records without a target do not count
        truth = target[used].astype(np.int64)
        weight = np.ones(1, dtype=np.int64) if weights is None else weights[used].astype(np.int64)
        if self.domain.task == "classification":
            positions = np.array(sorted_classes(self.domain)[0])  # of the sorted classes in the domain
            wrong = positions[self.forest.decide(state.rows, threads)][used] != truth
            return np.asarray((weight * wrong).sum())
        predicted = self.domain.encode_target(self.forest.predict(state.rows, threads)[:, 0])[used]
        clip = clip_of(self.domain.layout)
        residuals = np.clip(truth - predicted, -clip, clip)
        return np.asarray((weight * residuals**2).sum())


def error(model: PrivateTrees, records: Executor, domain: Domain) -> int:
    """Return the number of wrong classes, or the sum of squared residuals in units of `clip²/layout.units`, floored."""
    total = int(records.sum(ErrorSum(model.forest_, domain)))
    if domain.task == "classification":
        return total
    return total // (clip_of(domain.layout) ** 2 // domain.layout.units)


# -- rules -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chooser:
    """Selector that fits settings to the ``training`` records and compares their errors on the ``choosing`` records."""

    plan: SearchPlan
    training: Partitions
    choosing: Executor
    domain: Domain
    account: Account
    source: RandomSource

    def choose_among_all(self) -> Candidate:
        """Fit all settings, and return the fitted candidate that the exponential mechanism selects."""
        plan, account = self.plan, self.account
        receipt = account.pay(plan.fits)
        choice = account.pay(plan.choice) if plan.choice_adds else None
        fitted = [self._fit(candidate, receipt, _use(receipt)) for candidate in plan.candidates]
        costs = np.array([[error(c.model, self.choosing, self.domain) for c in fitted]])
        if choice is not None:
            return self._pick(fitted, costs, choice)
        with self._account_of_choosers(receipt) as choosers:
            return self._pick(fitted, costs, choosers.pay(plan.choice))

    def choose_by_stopping(self, max_fits: int) -> Candidate:
        """Fit a random number of random settings, and return the fitted candidate with the smallest noisy error."""
        candidates = self.plan.candidates

        def repeat(measure: Measure) -> tuple[int, Candidate]:
            drawn = int(self.source.integers(len(candidates), 1)[0])
            fitted = self._fit(candidates[drawn], receipt, measure)
            errors = np.array([[error(fitted.model, self.choosing, self.domain)]])
            with self._account_of_choosers(receipt) as choosers:
                paid = choosers.pay(self.plan.choice)
                noisy = discrete_laplace(errors, paid, self._error_range, self.source.streams(1))
            return int(noisy[0, 0]), fitted

        receipt = self.account.pay(self.plan.fits)
        return best_of_random_number(repeat, receipt, max_fits, self.source)

    def _pick(self, fitted: Sequence[Candidate], costs: npt.NDArray[np.int64], choice: Receipt) -> Candidate:
        selection = Selection(choice, self.source.streams(1), cost_range=self._error_range, n_candidates=len(fitted))
        return fitted[int(selection.pick(np.arange(1), costs)[0])]

    def _account_of_choosers(self, receipt: Receipt) -> AbstractContextManager[Account]:
        """Open the account of the choosing records, which do not train and alone bear the cost of the selection."""
        choice = self.plan.choice
        return self.account.subaccount(receipt, choice.loss, choice.total)

    @property
    def _error_range(self) -> int:
        return error_range(self.domain.layout.of_persons(self.account.max_records_per_group or 1))

    def _fit(self, candidate: Candidate, receipt: Receipt, measure: Measure) -> Candidate:
        """Return a fitted copy of a candidate, charged to a subaccount with the amount of one fit."""
        model = type(candidate.model)(**candidate.model.get_params(deep=False))
        if candidate.model._budgets:
            model._budgets = candidate.model._budgets
        # A share of μ² has no epsilon of its own, so the subaccount states the epsilon of all shares.
        budget = candidate.tried.settings.epsilon
        with self.account.subaccount(receipt, measure.loss(1), budget) as account:
            forest = fit_candidate(model, candidate.tried, self.training, self.domain, account, self.source)
        model._set_fitted(self.domain, account.ledger, forest)
        return replace(candidate, model=model)


def fit_candidate(
    model: PrivateTrees, fit: Fit, records: Partitions, domain: Domain, account: Account, source: RandomSource
) -> Forest | AdditiveForest:
    """Fit a model to some records as planned, and charge the account."""
    with Threads(resolve_n_jobs(model.n_jobs)) as threads:
        prepared = model._build_engine(records, domain, fit.settings, threads)
        forest: Forest | AdditiveForest = model._train(prepared, domain, fit.settings, fit.plan, account, source)
    return forest


def _use(receipt: Receipt) -> Measure:
    """Use one of the charged fits, and return its measure."""
    bound = Bound(BoundKind.FITS, receipt.charge.n_releases)
    if isinstance(receipt.charge.measure, GaussianDP):
        return receipt.use_gaussian(Mechanism.OWN_LEDGERS, bound=bound)
    return receipt.use(Mechanism.OWN_LEDGERS, bound=bound)
