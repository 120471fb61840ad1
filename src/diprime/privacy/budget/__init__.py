"""Privacy budgets of studies, in memory or in a file that several processes share.

A budget adds up all releases about the same people. :mod:`~diprime.privacy.budget.log` defines the lines of a budget's
file and the rule by which charges are accepted.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from types import TracebackType
from typing import Any
from weakref import WeakValueDictionary

from diprime._util.files import append_line, create_file, locked_file, read_all
from diprime.privacy.budget.log import MAX_BYTES, Entry, Log, Terms
from diprime.privacy.charges import StudyCharge
from diprime.privacy.measures import (
    ApproximateDP,
    Epsilon,
    GaussianDP,
    PrivacyLoss,
    exact_delta,
    exact_text,
    loss_text,
    rounded_down_text,
    rounded_text,
)
from diprime.privacy.session import BudgetError, Unit, activate, deactivate

__all__ = ["Budget", "Entry"]


class LogTransaction:
    """A log that is locked against other charges."""

    def __init__(self, log: Log, keep: Callable[[Log], None]) -> None:
        self.log = log
        self._keep = keep

    @property
    def study(self) -> str:
        """Name of the study."""
        return self.log.terms.study

    def check(self, loss: PrivacyLoss, description: str, unit: Unit | None = None) -> None:
        """Raise `BudgetError` unless the budget covers a loss."""
        self.log.after(loss, description, unit)

    def charge(self, loss: PrivacyLoss, description: str, unit: Unit | None = None) -> StudyCharge:
        """Charge a loss."""
        log = self.log.after(loss, description, unit)
        self._keep(log)
        self.log = log
        return log.last_charge


class MemoryStore:
    """A log in the memory of the process that made it. In every other process, the store refuses all charges."""

    path = None

    def __init__(self, study: str, log: Log | None, process: int) -> None:
        self.key = study
        self.process = process
        self._log = log
        self._spending = threading.RLock()

    @contextmanager
    def transaction(self) -> Iterator[LogTransaction]:
        """Yield the log, and refuse in a process that was forked after its creation or that unpickled the budget."""
        if os.getpid() != self.process or self._log is None:
            raise BudgetError(
                f"The budget is in the memory of process {self.process} and cannot be charged from process "
                f"{os.getpid()}. Create it in a file with Budget.create, or fit in one process (n_jobs=1)."
            )
        with self._spending:
            yield LogTransaction(self._log, self._keep)

    def read(self) -> Log:
        """Return the current log."""
        with self.transaction() as transaction:
            return transaction.log

    def _keep(self, log: Log) -> None:
        self._log = log


class FileStore:
    """A log in a file, which is read and verified again for every charge."""

    def __init__(self, path: str, study: str | None = None) -> None:
        self.path = self.key = path
        self.study = study
        self._seen: tuple[Entry, ...] = ()  # the charges when the file was last read or written

    @classmethod
    def create(cls, path: str, terms: Terms) -> FileStore:
        """Create a file, and raise `FileExistsError` if it exists."""
        create_file(path, terms.line())
        return cls(path, terms.study)

    @contextmanager
    def transaction(self) -> Iterator[LogTransaction]:
        """Yield the log, with the file locked."""
        with locked_file(self.path, append=True) as file:
            log = self._read(file)

            def keep(longer: Log) -> None:
                append_line(file, longer.last_line)
                self._seen = longer.entries

            yield LogTransaction(log, keep)

    def read(self, *, may_be_cut: bool = False) -> Log:
        """Return the current log. The file need not be writable."""
        with locked_file(self.path, append=False) as file:
            return self._read(file, may_be_cut=may_be_cut)

    def _read(self, file: int, *, may_be_cut: bool = False) -> Log:
        """Return the log, unless it belongs to another study or has lost charges since it was last read."""
        log = Log.read(read_all(file, MAX_BYTES), self.path, may_be_cut=may_be_cut)
        if log.terms.study != (self.study or log.terms.study):
            raise BudgetError(f"{self.path} was replaced by the budget of another study. Restore the original file.")
        if log.entries[: len(self._seen)] != self._seen:
            raise BudgetError(
                f"Charges are missing from {self.path}. Restore it from a copy that contains all charges."
            )
        self.study, self._seen = log.terms.study, log.entries
        return log


class Budget:
    """Privacy budget of a study: one epsilon and delta for all releases about the same people.

    Inside ``with budget:``, every fit is charged to the budget, and a fit that the budget does not cover is refused
    before any data are read. All charged releases together are (epsilon, delta)-differentially private, even if each is
    chosen after seeing earlier results. The constructor makes a budget in memory. :meth:`create` and :meth:`open` keep
    it in a file, which processes can share.

    Charges in pure epsilon, such as those of forests, add up. So do the μ² of Gaussian charges, such as those of
    boosted models, so two boosted models cost less than the sum of their epsilons. Pure charges alone may add up to
    epsilon. The first Gaussian charge limits the later charges of both kinds (docs/proofs/budgets.md, section 11).

    If budgets are nested, each is charged. Fits in other threads are charged as well.

    Parameters
    ----------
    epsilon : float
        The epsilon of the study.
    delta : float, default=0
        Delta of the study. Boosted models require a delta above 0.
    pure_epsilon : float or None, default=None
        Part of epsilon to reserve for releases without delta. With ``None``, the first release with delta divides the
        rest between both kinds, which costs slightly more.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import Budget, DiPriMeRegressor, Domain, Numeric
    >>> x = np.linspace(0, 10, 500)[:, None]
    >>> model = DiPriMeRegressor(1.0, Domain({"x": Numeric(0, 10)}, target=Numeric(0, 10)))
    >>> budget = Budget(epsilon=1.5)
    >>> with budget:
    ...     _ = model.fit(x, x[:, 0])
    >>> budget.remaining_epsilon()
    Fraction(1, 2)
    >>> with budget:  # doctest: +IGNORE_EXCEPTION_DETAIL
    ...     model.fit(x, x[:, 0])
    Traceback (most recent call last):
    diprime.privacy.session.BudgetError: The budget of epsilon = 1.5 does not cover DiPriMeRegressor with epsilon = 1. The remaining budget is epsilon = 0.5 without delta.
    """  # noqa: E501 -- a message is one line

    def __init__(self, epsilon: float, delta: float = 0, *, pure_epsilon: float | None = None) -> None:
        log = Log.new(Terms.new(epsilon, delta, pure_epsilon))
        self._store: MemoryStore | FileStore = MemoryStore(log.terms.study, log, os.getpid())
        _IN_MEMORY[self.key] = self

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], epsilon: float, delta: float = 0, *, pure_epsilon: float | None = None
    ) -> Budget:
        """Create a budget in a new file. An existing budget is never replaced: `FileExistsError` is raised instead.

        Parameters
        ----------
        path : str or path
            The file.
        epsilon, delta, pure_epsilon : float
            As for the constructor.

        Returns
        -------
        budget : Budget
            The budget.
        """
        terms = Terms.new(epsilon, delta, pure_epsilon)
        return _budget_in(FileStore.create(os.path.realpath(path), terms))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Budget:
        """Open the budget in a file.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        budget : Budget
            The budget. Its file is read and verified anew for each charge.
        """
        real = os.path.realpath(path)
        if os.path.exists(real) and not os.path.isfile(real):
            raise BudgetError(f"{path} is not a file.")
        budget = _budget_in(FileStore(real))
        budget._store.read()
        return budget

    # -- state ---------------------------------------------------------------------------------------------------------

    @property
    def key(self) -> str:
        """Key that is the same for all objects of one budget: the path of the file, or the name of the study."""
        return self._store.key

    @property
    def path(self) -> str | None:
        """Path of the file, or None if the budget is in memory."""
        return self._store.path

    @property
    def study(self) -> str:
        """Random name of the study, which the ledgers of its models contain."""
        return self._store.read().terms.study

    @property
    def epsilon(self) -> Fraction:
        """Epsilon of the study."""
        return self._store.read().terms.epsilon

    @property
    def delta(self) -> Fraction:
        """Delta of the study."""
        return self._store.read().terms.delta

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The charges, in order."""
        return self._store.read().entries

    @property
    def spent(self) -> PrivacyLoss:
        """Sum of all charges, by measure."""
        return self._store.read().state.spent

    @property
    def left(self) -> PrivacyLoss:
        """Largest possible next charge: either the pure epsilon or the μ², not both. Both are rounded down."""
        state = self._store.read().state
        return PrivacyLoss(state.largest_pure(), state.largest_gaussian())

    def remaining_epsilon(self, delta: float | Fraction = 0) -> Epsilon:
        """Return the largest epsilon that the next fit may have, rounded down.

        Parameters
        ----------
        delta : float, default=0
            The delta of the fit: 0 for a forest, and that of its parameters for a boosted model.

        Returns
        -------
        epsilon : Fraction
            The largest epsilon. It may exceed that of the budget if `delta` is smaller than that of the budget.
        """
        exact, state = exact_delta(delta), self._store.read().state
        return state.largest_epsilon(exact) if exact else state.largest_pure()

    def to_dict(self) -> dict[str, Any]:
        """Return the budget, its charges and the remaining budget as plain data; fractions are exact text."""
        log = self._store.read()
        terms, state = log.terms, log.state
        return {
            "study": terms.study,
            "created": terms.created,
            "epsilon": exact_text(terms.epsilon),
            "delta": exact_text(terms.delta),
            "pure": None if terms.pure is None else exact_text(terms.pure),
            "spent": _loss_as_dict(state.spent),
            "left": _loss_as_dict(PrivacyLoss(state.largest_pure(), state.largest_gaussian())),
            "entries": [
                {"entry": e.number, "time": e.time, "description": e.description, **_loss_as_dict(e.loss)}
                for e in log.entries
            ],
        }

    def __str__(self) -> str:
        log = self._store.read()
        terms, state = log.terms, log.state
        lines = [
            f"Budget of study {terms.study}: epsilon = {rounded_text(terms.epsilon)}, "
            f"delta = {rounded_text(terms.delta)}",
            "",
            *(f"{e.number:>4}  {e.time}  {e.description}: {loss_text(e.loss)}" for e in log.entries),
            *(() if log.entries else ("Nothing was charged.",)),
            "",
            f"Spent: {loss_text(state.spent)}.",
            f"Remaining for one more release without delta: epsilon = {rounded_down_text(state.largest_pure())}.",
        ]
        if terms.delta:
            left = rounded_down_text(state.largest_epsilon(terms.delta))
            lines.append(f"Or for one more release with delta = {rounded_text(terms.delta)}: epsilon = {left}.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        where = "in memory" if self.path is None else f"in {self.path!r}"
        return f"<Budget {where}>"

    # -- spending ------------------------------------------------------------------------------------------------------

    def transaction(self) -> AbstractContextManager[LogTransaction]:
        """Return a context in which the budget is locked."""
        return self._store.transaction()

    def charge(
        self,
        description: str,
        *,
        epsilon: float | Fraction = 0,
        mu_squared: float | Fraction = 0,
        delta: float | Fraction = 0,
    ) -> None:
        """Charge a release of another program, before it is made.

        Parameters
        ----------
        description : str
            Description of the release, for the log.
        epsilon : float, default=0
            Cost in pure epsilon.
        mu_squared : float, default=0
            Cost in Gaussian differential privacy: μ² is the squared L2 sensitivity divided by the variance of the
            noise.
        delta : float, default=0
            The delta that belongs to `epsilon`, if it is not pure.
        """
        loss = ApproximateDP(epsilon, exact_delta(delta)).loss(1) + GaussianDP(mu_squared).loss(1)
        with self.transaction() as transaction:
            transaction.charge(loss, description, None)

    def __enter__(self) -> Budget:
        activate(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        deactivate(self)

    # -- copies --------------------------------------------------------------------------------------------------------

    def __copy__(self) -> Budget:
        return self

    def __deepcopy__(self, memo: Any) -> Budget:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        store = self._store
        if isinstance(store, FileStore):
            return _in_file, (store.path, store.study)
        return _in_memory, (store.key, store.process)


def read_log(path: str | os.PathLike[str]) -> Log:
    """Return the log in the file of a budget, even if its last line is incomplete."""
    return FileStore(os.path.realpath(path)).read(may_be_cut=True)


_IN_MEMORY: WeakValueDictionary[str, Budget] = WeakValueDictionary()


def _budget_in(store: FileStore | MemoryStore) -> Budget:
    budget = Budget.__new__(Budget)
    budget._store = store
    return budget


def _in_file(path: str, study: str) -> Budget:
    """Return an unpickled budget. Its file is read on first use, where an error is easier to understand."""
    return _budget_in(FileStore(path, study))


def _in_memory(study: str, process: int) -> Budget:
    """Return an unpickled budget: the same object in the same process, and in another one that refuses all charges."""
    return _IN_MEMORY.get(study) or _budget_in(MemoryStore(study, None, process))


def _loss_as_dict(loss: PrivacyLoss) -> dict[str, str]:
    names = ("epsilon", "mu_squared", "delta")
    return {name: exact_text(part) for name, part in zip(names, loss.parts, strict=True)}
