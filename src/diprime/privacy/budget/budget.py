"""The budget of a study, as users see it."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from fractions import Fraction
from types import TracebackType
from typing import Any
from weakref import WeakValueDictionary

from diprime.privacy import spending
from diprime.privacy.budget.log import Entry, Terms
from diprime.privacy.budget.stores import FileStore, LogTransaction, LostStore, MemoryStore
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
from diprime.privacy.spending import BudgetError


class Budget:
    """The privacy budget of a study: one epsilon and delta for all that is released about the same people.

    Inside ``with budget:``, every fit is charged to it, and one that it does not cover is refused before any data are
    read. All that was charged together is (epsilon, delta)-differentially private, although each fit may be chosen by
    what earlier ones showed. A budget is in memory if made by its constructor, and in a file that processes can share
    if made by :meth:`create` and opened by :meth:`open`.

    Charges in pure epsilon, as of forests, add up. So do the μ² of Gaussian ones, as of boosted models: two boosted
    models cost less than the sum of their epsilons. Pure charges alone may add up to epsilon. Once there is a Gaussian
    charge, what the rest may be is decided (docs/privacy.md, "One budget for a study").

    If budgets are nested, each is charged. Fits in other threads are charged as well.

    Parameters
    ----------
    epsilon : float
        The epsilon of the study.
    delta : float, default=0
        The delta of the study. Without it, there is nothing for boosted models.
    pure : float or None, default=None
        The part of epsilon that is kept for releases without delta, if there are others as well. ``None`` lets the
        first release with delta decide, with room for either kind afterwards. To say it beforehand is tighter.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import Budget, DiPriMeRegressor, Domain, Numeric
    >>> x = np.linspace(0, 10, 500)[:, None]
    >>> model = DiPriMeRegressor(1.0, Domain({"x": Numeric(0, 10)}, target=Numeric(0, 10)))
    >>> budget = Budget(epsilon=1.5)
    >>> with budget:
    ...     _ = model.fit(x, x[:, 0])
    >>> budget.epsilon_left()
    Fraction(1, 2)
    >>> with budget:
    ...     model.fit(x, x[:, 0])
    Traceback (most recent call last):
    diprime.privacy.spending.BudgetError: The budget of epsilon = 1.5 does not cover DiPriMeRegressor with epsilon = 1: what is left is epsilon = 0.5 without delta.
    """  # noqa: E501 -- a message is one line

    def __init__(self, epsilon: float, delta: float = 0, *, pure: float | None = None) -> None:
        self._store: MemoryStore | LostStore | FileStore = MemoryStore(Terms.new(epsilon, delta, pure))
        _IN_MEMORY[self.key] = self

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], epsilon: float, delta: float = 0, *, pure: float | None = None
    ) -> Budget:
        """Make a budget in a new file, and raise `FileExistsError` if there is one: a budget is never replaced.

        Parameters
        ----------
        path : str or path
            The file.
        epsilon, delta, pure : float
            As in the constructor.

        Returns
        -------
        budget : Budget
            The budget.
        """
        terms = Terms.new(epsilon, delta, pure)
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

    # -- what it says --------------------------------------------------------------------------------------------------

    @property
    def key(self) -> str:
        """What two objects for the same budget have in common: the path of the file, or the name of the study."""
        return self._store.key

    @property
    def path(self) -> str | None:
        """The path of the file, or None if the budget is in memory."""
        return self._store.path

    @property
    def study(self) -> str:
        """The name of the study, drawn at random; the ledgers of models that were charged carry it."""
        return self._store.read().terms.study

    @property
    def epsilon(self) -> Fraction:
        """The epsilon of the study."""
        return self._store.read().terms.epsilon

    @property
    def delta(self) -> Fraction:
        """The delta of the study."""
        return self._store.read().terms.delta

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What was charged, in order."""
        return self._store.read().entries

    @property
    def spent(self) -> PrivacyLoss:
        """The sum of all pure charges, and that of all Gaussian ones."""
        return self._store.read().state.spent

    @property
    def left(self) -> PrivacyLoss:
        """The largest next charge: either the pure epsilon or the μ², not both. Both are rounded down."""
        state = self._store.read().state
        return PrivacyLoss(state.largest_pure(), state.largest_gaussian())

    def epsilon_left(self, delta: float | Fraction = 0) -> Epsilon:
        """Return the largest epsilon that the next fit may have; it is rounded down.

        Parameters
        ----------
        delta : float, default=0
            The delta of the fit: 0 for a forest, and that of its parameters for a boosted model.

        Returns
        -------
        epsilon : Fraction
            The largest epsilon. It may exceed that of the budget if delta is smaller than that of the budget.
        """
        exact, state = exact_delta(delta), self._store.read().state
        return state.largest_epsilon(exact) if exact else state.largest_pure()

    def to_dict(self) -> dict[str, Any]:
        """Return the budget, what was charged and what is left as plain data; fractions are exact text."""
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
                {"entry": e.number, "time": e.time, "what": e.what, **_loss_as_dict(e.loss)} for e in log.entries
            ],
        }

    def __str__(self) -> str:
        log = self._store.read()
        terms, state = log.terms, log.state
        lines = [
            f"Budget of study {terms.study}: epsilon = {rounded_text(terms.epsilon)}, "
            f"delta = {rounded_text(terms.delta)}",
            "",
            *(f"{e.number:>4}  {e.time}  {e.what}: {loss_text(e.loss)}" for e in log.entries),
            *(() if log.entries else ("Nothing was charged.",)),
            "",
            f"Spent: {loss_text(state.spent)}.",
            f"Left for one more release without delta: epsilon = {rounded_down_text(state.largest_pure())}.",
        ]
        if terms.delta:
            left = rounded_down_text(state.largest_epsilon(terms.delta))
            lines.append(f"Or for one with delta = {rounded_text(terms.delta)}: epsilon = {left}.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        where = "in memory" if self.path is None else f"in {self.path!r}"
        return f"<Budget {where}>"

    # -- spending ------------------------------------------------------------------------------------------------------

    def transaction(self) -> AbstractContextManager[LogTransaction]:
        """Return a context in which nobody else can spend the budget."""
        return self._store.transaction()

    def charge(
        self,
        what: str,
        *,
        epsilon: float | Fraction = 0,
        mu_squared: float | Fraction = 0,
        delta: float | Fraction = 0,
    ) -> None:
        """Charge something that is not released by this library, before it is released.

        Parameters
        ----------
        what : str
            What is released, for the log.
        epsilon : float, default=0
            What it costs in pure epsilon.
        mu_squared : float, default=0
            What it costs in Gaussian differential privacy: μ², which is the squared L2 sensitivity over the variance of
            the noise.
        delta : float, default=0
            The delta that belongs to `epsilon`, if it is not pure.
        """
        loss = ApproximateDP(epsilon, exact_delta(delta)).loss(1) + GaussianDP(mu_squared).loss(1)
        with self.transaction() as transaction:
            transaction.charge(loss, what, None)

    def __enter__(self) -> Budget:
        spending.enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        spending.leave(self)

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


_IN_MEMORY: WeakValueDictionary[str, Budget] = WeakValueDictionary()


def _budget_in(store: FileStore | LostStore) -> Budget:
    budget = Budget.__new__(Budget)
    budget._store = store
    return budget


def _in_file(path: str, study: str) -> Budget:
    """Return a pickled budget; the file is read when it is used, where an error can be understood."""
    return _budget_in(FileStore(path, study))


def _in_memory(study: str, process: int) -> Budget:
    """Return a pickled budget: the same one in the same process, and one that refuses in another."""
    return _IN_MEMORY.get(study) or _budget_in(LostStore(study, process))


def _loss_as_dict(loss: PrivacyLoss) -> dict[str, str]:
    names = ("epsilon", "mu_squared", "delta")
    return {name: exact_text(part) for name, part in zip(names, loss.parts, strict=True)}
