"""What charges releases to the budgets of a study: the one way from those who spend to the budgets in force.

Whoever releases something about private data calls :func:`check` before any of the data are read, and :func:`charge`
right before the first release. Between the two, a mistake costs nothing; after the second, a crash loses budget and not
privacy. Without a budget in force both do nothing.

Budgets in force are those of all ``with budget:`` blocks of this process, in whatever thread they were entered: a
thread that somebody else starts for a fit, as joblib does, must not escape. An object that is sent to another process
carries its budgets along (``carried``). Only what is fitted to made-up data escapes (:func:`on_made_up_data`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, Protocol

from diprime.privacy.measures import PrivacyLoss, loss_text

Unit = Literal["record", "person"]
"""Whom a release protects: one record, or one person with several records. A budget counts one of the two."""


class BudgetError(ValueError):
    """A release that a budget refuses, or a budget that cannot be used. Nothing has been released."""


class Transaction(Protocol):
    """A budget that nobody else can spend meanwhile."""

    @property
    def study(self) -> str:
        """The name of the study, which ledgers of models carry."""

    def check(self, loss: PrivacyLoss, what: str, unit: Unit | None = None) -> None:
        """Raise `BudgetError` unless the budget covers a loss."""

    def charge(self, loss: PrivacyLoss, what: str, unit: Unit | None = None) -> None:
        """Charge a loss that the budget covers. When this returns, a crash cannot undo it."""


class Spendable(Protocol):
    """A budget, as those who spend see it."""

    @property
    def key(self) -> str:
        """What two objects for the same budget have in common."""

    @property
    def study(self) -> str:
        """The name of the study, which ledgers of models carry."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Return a context in which nobody else can spend the budget."""


@dataclass(frozen=True)
class Earlier:
    """What was spent earlier on the domain of a release.

    Attributes
    ----------
    loss : PrivacyLoss
        What it cost.
    studies : sequence of str
        The studies whose budgets were charged then; all others have to count it now.
    """

    loss: PrivacyLoss
    studies: Sequence[str] = ()

    def added(self, loss: PrivacyLoss, study: str) -> PrivacyLoss:
        """Return a loss, and with it what a study has not counted."""
        return loss if study in self.studies else self.loss + loss

    def named(self, what: str, study: str) -> str:
        """Return the words for a release, and with them what a study has not counted."""
        if study in self.studies or self.loss == PrivacyLoss():
            return what
        return f"{what}, and its domain with {loss_text(self.loss)}"


NOTHING = Earlier(PrivacyLoss())
_in_force: list[Spendable] = []
_entering = threading.Lock()
_is_made_up: ContextVar[bool] = ContextVar("_is_made_up", default=False)


def _renew_lock() -> None:
    """Make a new lock in a process that was forked: nobody there releases one that another thread held."""
    global _entering
    _entering = threading.Lock()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_renew_lock)


def enter(budget: Spendable) -> None:
    """Put a budget in force, beside those that are."""
    with _entering:
        _in_force.append(budget)


def leave(budget: Spendable) -> None:
    """Take a budget out of force that was put in force; if it was twice, once."""
    with _entering:
        positions = [i for i, other in enumerate(_in_force) if other is budget]
        del _in_force[positions[-1]]


@contextmanager
def on_made_up_data() -> Iterator[None]:
    """Charge nothing in this block to the budgets in force: what it fits is made up, and tells of nobody.

    This holds for the thread, or task, that enters the block, and for no other. Code of a caller must not run in it.
    """
    token = _is_made_up.set(True)
    try:
        yield
    finally:
        _is_made_up.reset(token)


def in_force(carried: Iterable[Spendable] = ()) -> tuple[Spendable, ...]:
    """Return the budgets that a release is charged to, each once, in an order that is the same for everybody."""
    entered = () if _is_made_up.get() else tuple(_in_force)
    budgets = {budget.key: budget for budget in (*carried, *entered)}
    return tuple(budgets[key] for key in sorted(budgets))  # in one order, so that two processes never wait for another


def check(
    loss: PrivacyLoss,
    what: str,
    carried: Sequence[Spendable] = (),
    *,
    unit: Unit | None = "record",
    earlier: Earlier = NOTHING,
) -> None:
    """Raise `BudgetError` unless all budgets in force cover a loss; to be called before any data are read."""
    for budget in in_force(carried):
        with budget.transaction() as transaction:
            study = transaction.study
            transaction.check(earlier.added(loss, study), earlier.named(what, study), unit)


def charge(
    loss: PrivacyLoss,
    what: str,
    carried: Sequence[Spendable] = (),
    *,
    unit: Unit = "record",
    waivers: Sequence[str] = (),
    earlier: Earlier = NOTHING,
) -> list[str]:
    """Charge a loss to all budgets in force and return their studies; to be called right before the first release.

    If one of them does not cover the loss, raise `BudgetError` and charge none. ``carried`` should have the budgets
    that were in force when the work began: a block that was left meanwhile has to pay for what was begun in it.
    """
    refuse_waived(waivers, what, carried)  # a budget may have come into force since the work began
    with ExitStack() as stack:
        transactions = [stack.enter_context(budget.transaction()) for budget in in_force(carried)]
        studies = [transaction.study for transaction in transactions]
        losses = [(earlier.added(loss, study), earlier.named(what, study)) for study in studies]
        for transaction, (of_study, words) in zip(transactions, losses, strict=True):
            transaction.check(of_study, words, unit)
        for transaction, (of_study, words) in zip(transactions, losses, strict=True):
            transaction.charge(of_study, words, unit)
        return studies


def refuse_waived(waivers: Sequence[str], what: str, carried: Sequence[Spendable] = ()) -> None:
    """Raise `BudgetError` if a budget is in force and something is not private; to be called before data are read.

    What a release without a guarantee costs cannot be said, so no budget covers it.
    """
    if waivers and in_force(carried):
        raise BudgetError(f"No budget covers {what}, which would not be private: {waivers[0]}")
