"""The two ways to choose a setting: among all of them, or by random stopping.

The ledger of the search pays for everything before the first release. Each fit has a ledger of its own, whose budget is
what the search paid for one fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from diprime._util.threads import Threads
from diprime.domain import Domain
from diprime.engines.partition import LocalPartitions, Partition
from diprime.estimators.parameters import N_JOBS
from diprime.estimators.trees import PrivateTrees
from diprime.privacy.charges import Receipt
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import GaussianDP, Measure
from diprime.privacy.mechanisms.laplace import discrete_laplace
from diprime.privacy.mechanisms.selection import Selection
from diprime.privacy.mechanisms.stopping import best_of_random_number
from diprime.privacy.randomness import RandomSource
from diprime.search.errors import error, error_range
from diprime.search.plan import FITS, Candidate, Fit, SearchPlan


@dataclass(frozen=True)
class Chooser:
    """Fits settings to one part of the records, and chooses among them by another.

    Attributes
    ----------
    plan : SearchPlan
        The candidates and the charges.
    training, choosing : Partition
        The two parts of the records.
    domain : Domain
        The domain of the records.
    ledger : Ledger
        The ledger of the search.
    source : RandomSource
        The random bits.
    threads : Threads
        Where errors are computed.
    """

    plan: SearchPlan
    training: Partition
    choosing: Partition
    domain: Domain
    ledger: Ledger
    source: RandomSource
    threads: Threads

    def choose_among_all(self) -> Candidate:
        """Fit all settings, and return one of them, fitted, by the exponential mechanism."""
        plan = self.plan
        receipt = self.ledger.pay(plan.fits)
        choice = (self.ledger if plan.choice_adds else self._ledger_of_choosers()).pay(plan.choice)
        fitted = [self._fit(candidate, _use(receipt)) for candidate in plan.candidates]
        costs = np.array([[error(c.model, self.choosing, self.domain, self.threads) for c in fitted]])
        selection = Selection(choice, self.source.streams(1), cost_range=self._error_range, n_candidates=len(fitted))
        return fitted[int(selection.pick(np.arange(1), costs)[0])]

    def choose_by_stopping(self, max_fits: int) -> Candidate:
        """Fit a random number of random settings, and return the one whose noisy error is least."""
        candidates = self.plan.candidates

        def repeat(measure: Measure) -> tuple[int, Candidate]:
            drawn = int(self.source.integers(len(candidates), 1)[0])
            fitted = self._fit(candidates[drawn], measure)
            receipt = self._ledger_of_choosers().pay(self.plan.choice)
            errors = np.array([[error(fitted.model, self.choosing, self.domain, self.threads)]])
            noisy = discrete_laplace(errors, receipt, self._error_range, self.source.streams(1))
            return int(noisy[0, 0]), fitted

        receipt = self.ledger.pay(self.plan.fits)
        return best_of_random_number(repeat, receipt, max_fits, self.source)

    def _ledger_of_choosers(self) -> Ledger:
        """Open the ledger of the records that choose: none of them trains, so that they have the budget to themselves.

        In random stopping, the budget is that of one repetition.
        """
        return Ledger(self.plan.choice.total, unit_records=self.ledger.unit_records)

    @property
    def _error_range(self) -> int:
        return error_range(self.domain.layout.of_persons(self.ledger.unit_records or 1))

    def _fit(self, candidate: Candidate, measure: Measure) -> Candidate:
        """Return a copy of a candidate that is fitted, for what was paid."""
        model = type(candidate.model)(**candidate.model.get_params(deep=False))
        if candidate.model._budgets:
            model._budgets = candidate.model._budgets
        # A share of μ² has no budget of its own in epsilon: that of all shares covers it.
        budget = candidate.tried.settings.epsilon
        ledger = Ledger(
            budget,
            delta=self.ledger.delta,
            waivers=list(self.ledger.waivers),
            unit_records=self.ledger.unit_records,
            studies=list(self.ledger.studies),
        )
        learn(model, candidate.tried, self.training, self.domain, ledger, self.source)
        if ledger.loss != measure.loss(1):
            raise AssertionError(f"A fit cost {ledger.loss}, and {measure.loss(1)} was paid for it.")
        return replace(candidate, model=model)


def learn(
    model: PrivateTrees, fit: Fit, part: Partition, domain: Domain, ledger: Ledger, source: RandomSource
) -> PrivateTrees:
    """Fit a model to some records as planned, pay from a ledger, and return the model."""
    with Threads(N_JOBS.check(model.n_jobs)) as threads:
        prepared = model._prepare(LocalPartitions([part]), domain, fit.settings, threads)
        forest = model._learn(prepared, domain, fit.settings, fit.plan, ledger, source)
    model._set_fitted(domain, ledger, forest)
    return model


def _use(receipt: Receipt) -> Measure:
    """Use up one of the fits that were paid for, and return what it may cost."""
    n_fits = receipt.charge.times
    if isinstance(receipt.charge.measure, GaussianDP):
        return receipt.use_gaussian(FITS, calibrated_to=n_fits)
    return receipt.use(FITS, calibrated_to=n_fits)
