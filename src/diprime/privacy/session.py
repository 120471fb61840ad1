"""Sessions: the steps of every paid computation, whether a fit, a learnt domain, a score or a search.

::

    with Session.begin(attached) as session:      # the budgets that are active now will be charged
        session.protect(people=...)               # sets the privacy unit: people or single records
        session.check(request)                    # before a row is read: is it private, and do all budgets cover it?
        ...                                       # read the rows, reserve all memory and disk space
        with session.spend(request) as account:   # charges all budgets, or none
            receipt = account.pay(charge)         # every release requires a receipt, and only an account issues them
        account.ledger                            # verified: the total, the loss, and no unused receipt

Until :meth:`Session.spend`, errors cost nothing. After it, a crash loses budget but never privacy. Without an active
budget, the steps are the same, but no budget is charged.

A budget is active inside its ``with budget:`` block, in all threads of the process, because threads that other
libraries such as joblib start for a fit must be charged as well. An object that is sent to another process carries its
budgets along (``attached``). Only fits to synthetic data are exempt (:func:`without_charging`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, Protocol, final

from diprime._util import warn
from diprime._util.resources import check_room
from diprime.privacy.charges import ISSUED_BY_AN_ACCOUNT, Charge, Receipt, StudyCharge, UnpaidReleaseError, VoidReason
from diprime.privacy.gaussian_dp import covers
from diprime.privacy.ledger import Accounting, Ledger, PrivacyWarning
from diprime.privacy.measures import Epsilon, PrivacyLoss, exact_delta, loss_text, rounded_text

Unit = Literal["record", "person"]
"""Privacy unit: one record, or one person with several records. A budget uses one of the two."""


class BudgetError(ValueError):
    """A release that a budget refuses, or a budget that cannot be used. Nothing has been released."""


class Transaction(Protocol):
    """A budget that is locked against other charges."""

    @property
    def study(self) -> str:
        """Name of the study, which ledgers of models contain."""

    def check(self, loss: PrivacyLoss, description: str, unit: Unit | None = None) -> None:
        """Raise `BudgetError` unless the budget covers a loss."""

    def charge(self, loss: PrivacyLoss, description: str, unit: Unit | None = None) -> StudyCharge:
        """Charge a loss that the budget covers. Once this returns, a crash cannot undo the charge."""


class ChargeableBudget(Protocol):
    """Interface of a budget for sessions."""

    @property
    def key(self) -> str:
        """Key that is the same for all objects of one budget."""

    @property
    def study(self) -> str:
        """Name of the study, which ledgers of models contain."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Return a context in which the budget is locked."""


_active: list[ChargeableBudget] = []
_activating = threading.Lock()
_is_synthetic: ContextVar[bool] = ContextVar("_is_synthetic", default=False)
_stated: ContextVar[list[str] | None] = ContextVar("_stated", default=None)


def _renew_lock() -> None:
    """Replace the lock in a forked process, where a thread that held it no longer exists."""
    global _activating
    _activating = threading.Lock()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_renew_lock)


def activate(budget: ChargeableBudget) -> None:
    """Add a budget to the active ones."""
    with _activating:
        _active.append(budget)


def deactivate(budget: ChargeableBudget) -> None:
    """Deactivate a budget once, even if it was activated several times."""
    with _activating:
        positions = [i for i, other in enumerate(_active) if other is budget]
        del _active[positions[-1]]


@contextmanager
def without_charging() -> Iterator[None]:
    """Charge no active budget in this block, which may only fit to synthetic data.

    This applies only to the thread or task that enters the block. Callers' code must not run in it.
    """
    token = _is_synthetic.set(True)
    try:
        yield
    finally:
        _is_synthetic.reset(token)


def active_budgets(attached: Iterable[ChargeableBudget] = ()) -> tuple[ChargeableBudget, ...]:
    """Return the budgets that a release is charged to, without duplicates, in the same order in every process."""
    active = () if _is_synthetic.get() else tuple(_active)
    budgets = {budget.key: budget for budget in (*attached, *active)}
    return tuple(budgets[key] for key in sorted(budgets))  # a common order, so that processes cannot deadlock


@contextmanager
def charges_stated(*, is_budgeted: bool) -> Iterator[None]:
    """Add a note to every error of this block that states whether a budget was charged.

    In nested blocks, the outermost adds the note.
    """
    if _stated.get() is not None or not is_budgeted:
        yield
        return
    charged: list[str] = []
    token = _stated.set(charged)
    try:
        yield
    except BaseException as error:
        statement = f"was charged for {' and '.join(charged)}" if charged else "was not charged"
        set_notes(error, [f"The budget {statement}.", *notes_of(error)])
        raise
    finally:
        _stated.reset(token)


@contextmanager
def stating(label: str, charges: Sequence[StudyCharge]) -> Iterator[None]:
    """Note the charge that this block makes, for error messages.

    It is noted before it is made, and kept after an interruption, which may come after the charge.
    """
    stated = _stated.get()
    if stated is None:
        yield
        return
    stated.append(label)
    try:
        yield
    except Exception:
        if not charges:  # otherwise, at least one budget was charged
            stated.remove(label)
        raise


def set_notes(error: BaseException, notes: list[str]) -> None:
    """Set the notes of an error, which ``add_note`` extends from Python 3.11 on."""
    error.__notes__ = notes  # type: ignore[attr-defined]


def notes_of(error: BaseException) -> list[str]:
    """Return the notes of an error."""
    return list(getattr(error, "__notes__", ()))


OPENED_BY_A_SESSION = object()
"""Token that `Account` requires. Only this module may use it."""
OTHER_UNIT: dict[Unit, str] = {
    "person": "The domain was learnt without groups, so it protects single records, but this fit protects "
    "people. Pass groups to Domain.learn.",
    "record": "The domain was learnt with groups, so it protects people, but this fit protects single records. "
    "Pass groups to fit.",
}


@dataclass(frozen=True)
class Request:
    """A paid computation, described by public facts before any row is read."""

    kind: Literal["fit", "domain", "score"]
    label: str  # entry in the logs of budgets
    epsilon: Epsilon  # budget of the computation
    delta: Fraction
    loss: PrivacyLoss  # cost, which is charged to budgets and must equal the ledger's loss
    accounting: Accounting = "strict"
    max_records: int = 1  # maximum number of records used per person
    voided_by: tuple[VoidReason, ...] = ()
    included: Ledger | None = None  # ledger of the domain, if it was learnt
    notes: tuple[str, ...] = ()  # sentences for the ledger

    @property
    def reasons_not_private(self) -> list[str]:
        """Reasons why the result is not private."""
        published = (
            ["The fit uses the accounting of the DiPriMe paper, which understates the privacy loss."]
            if self.accounting == "paper"
            else []
        )
        return [*map(str, self.voided_by), *published]

    def owed_to(self, study: str, learning: Request | None) -> tuple[PrivacyLoss, str]:
        """Return the loss to charge to a study, including a domain that the study has not paid, and the log entry."""
        of_domain = PrivacyLoss() if learning is None else learning.loss
        if self.included is not None and study not in self.included.studies:
            of_domain = of_domain + self.included.loss
        if of_domain == PrivacyLoss():
            return self.loss, self.label
        return self.loss + of_domain, f"{self.label}, including {loss_text(of_domain)} for its domain"


class Session:
    """Steps of one paid computation, as shown in the module docstring."""

    def __init__(self, budgets: tuple[ChargeableBudget, ...]) -> None:
        self._budgets = budgets
        self._people: bool | None = None
        self._checked: tuple[Request, Request | None] | None = None

    @classmethod
    @contextmanager
    def begin(cls, attached: Iterable[ChargeableBudget] = ()) -> Iterator[Session]:
        """Begin a session, in which every error states whether a budget was charged.

        It charges the budgets that are active now, even if their blocks are left meanwhile, and the attached budgets of
        an object.
        """
        budgets = active_budgets(attached)
        with charges_stated(is_budgeted=bool(budgets)):
            yield cls(budgets)

    @property
    def is_budgeted(self) -> bool:
        """Whether a budget would be charged."""
        return bool(self._active())

    def require_private(self, label: str, reasons: Sequence[object]) -> None:
        """Raise `BudgetError` if a budget is active and there are reasons not to be private: the cost has no bound."""
        if reasons and self.is_budgeted:
            raise BudgetError(f"A budget cannot be charged for {label} that is not private. {reasons[0]}")

    def protect(self, *, people: bool) -> None:
        """Set the privacy unit, once: people with all of their records, or single records."""
        if self._people is not None:
            raise AssertionError("The privacy unit of a session is set twice.")
        self._people = people
        if self._checked is not None:
            self.check(*self._checked)

    def check(self, request: Request, learning: Request | None = None) -> None:
        """Refuse a request that is not private or that a budget does not cover. Call this before reading data.

        ``learning`` is the request that first learns an incomplete domain, from the same budgets.
        """
        self._checked = request, learning
        self.require_private(request.label, request.reasons_not_private)
        self._check_unit(request)
        for budget in self._active():
            with budget.transaction() as transaction:
                transaction.check(*request.owed_to(transaction.study, learning), self._unit)

    @contextmanager
    def spend(self, request: Request) -> Iterator[Account]:
        """Charge the budgets for a request, and open the account that issues its receipts in this block."""
        self.require_private(request.label, request.reasons_not_private)  # a budget may have become active meanwhile
        self._check_unit(request)
        _warn_of(request)
        account = Account(OPENED_BY_A_SESSION, self._opening(request, self._charge(request)))
        with account._open(account._so_far().loss + request.loss, of_whole_budget=True):
            yield account

    def _charge(self, request: Request) -> tuple[StudyCharge, ...]:
        """Charge all budgets, or none of them if one does not cover the request or memory is short."""
        charges: list[StudyCharge] = []
        if request.loss == PrivacyLoss():
            return ()
        with ExitStack() as stack:
            transactions = [stack.enter_context(budget.transaction()) for budget in self._active()]
            if transactions:
                check_room()
            owed = [request.owed_to(transaction.study, None) for transaction in transactions]
            for transaction, (loss, label) in zip(transactions, owed, strict=True):
                transaction.check(loss, label, self._unit)
            if transactions:
                stack.enter_context(stating(request.label, charges))
            for transaction, (loss, label) in zip(transactions, owed, strict=True):
                charges.append(transaction.charge(loss, label, self._unit))
        return tuple(charges)

    def _opening(self, request: Request, study_charges: tuple[StudyCharge, ...]) -> Ledger:
        """Return the ledger before the first release. The cost of the domain is added to its budget."""
        included = request.included or Ledger(Fraction(0))
        return Ledger(
            request.epsilon + included.total,
            request.accounting,
            included.charges,
            request.voided_by,
            delta=exact_delta(request.delta + included.total_delta),
            study_charges=study_charges,
            notes=(*included.notes, *request.notes),
            max_records_per_group=request.max_records if self._people else None,
        )

    def _active(self) -> tuple[ChargeableBudget, ...]:
        return active_budgets(self._budgets)

    @property
    def _unit(self) -> Unit | None:
        return None if self._people is None else "person" if self._people else "record"

    def _check_unit(self, request: Request) -> None:
        """Refuse a domain that was learnt for another privacy unit, because the two costs would not add up."""
        if self._unit is not None and request.included is not None and request.included.privacy_unit != self._unit:
            raise ValueError(OTHER_UNIT[self._unit])


@final
class Account:
    """The charges of one running computation.

    Only a `Session` opens accounts, and only an account issues receipts.
    """

    __slots__ = ("_chosen", "_is_open", "_ledger", "_lock", "_notes", "_opening", "_receipts")

    def __init__(self, opener: object, opening: Ledger) -> None:
        if opener is not OPENED_BY_A_SESSION:
            raise UnpaidReleaseError("Only a Session opens accounts.")
        self._opening = opening
        self._receipts: list[Receipt] = []
        self._notes: list[str] = []
        self._chosen: list[Ledger] = []
        self._is_open = False
        self._ledger: Ledger | None = None
        self._lock = threading.Lock()  # keeps two threads from spending the same part of a budget

    def __init_subclass__(cls) -> None:
        raise TypeError("Account cannot be subclassed: a subclass could skip the payment.")

    @property
    def max_records_per_group(self) -> int | None:
        """Maximum number of records used per person, or None if single records are protected."""
        return self._opening.max_records_per_group

    @property
    def ledger(self) -> Ledger:
        """The ledger of all charges, available once the account is closed and verified."""
        if self._ledger is None:
            raise AssertionError("The account is open. Close it before you read its ledger.")
        return self._ledger

    def pay(self, charge: Charge) -> Receipt:
        """Record a charge and return the receipt for its releases.

        Raise `ValueError`, and record nothing, unless the budget provably covers the charge.
        """
        if charge.n_releases < 0:
            raise ValueError(
                f"The number of releases cannot be negative, got {charge.n_releases} for {charge.description}."
            )
        with self._lock:
            if not self._is_open:
                raise UnpaidReleaseError(f"{charge.description}: the account is closed.")
            spent, opening = self._so_far().loss, self._opening
            if not covers(opening.epsilon, opening.delta, spent + charge.loss):
                budget = f"epsilon = {rounded_text(opening.epsilon)}"
                budget += f", delta = {rounded_text(opening.delta)}," if opening.delta else ""
                raise ValueError(
                    f"The budget of {budget} does not cover {charge.description}, which costs "
                    f"{loss_text(charge.loss)}: {loss_text(spent)} is already spent."
                )
            receipt = Receipt(charge, ISSUED_BY_AN_ACCOUNT)
            self._receipts.append(receipt)
        return receipt

    def note(self, notes: Iterable[str]) -> None:
        """Add sentences to the ledger, which must not depend on data except through releases."""
        self._notes += notes

    def choose(self, ledger: Ledger) -> None:
        """Add the ledger of the fit that a search selected."""
        self._chosen.append(ledger)

    @contextmanager
    def subaccount(self, receipt: Receipt, loss: PrivacyLoss, epsilon: Epsilon) -> Iterator[Account]:
        """Open an account for a part of what a receipt covers: a fit of a search, or the selection of a combination.

        The part must cost exactly the given loss. docs/privacy.md proves that the receipt covers all parts together:
        the costs of the fits add up to it, and the records used for the selection are not used for fits.
        """
        paid = receipt.charge.loss
        if not any(receipt is own for own in self._receipts) or loss.or_larger(paid) != paid:
            raise UnpaidReleaseError(f"{receipt.charge.description}: {loss_text(loss)} is more than was charged.")
        account = Account(OPENED_BY_A_SESSION, replace(self._opening, epsilon=epsilon, charges=(), notes=()))
        with account._open(loss):
            yield account

    @contextmanager
    def _open(self, loss: PrivacyLoss, *, of_whole_budget: bool = False) -> Iterator[None]:
        """Accept charges in this block, then verify that they cost the given loss and that no receipt is unused."""
        self._is_open = True
        try:
            yield
        finally:
            self._is_open = False
        ledger = self._so_far()
        if of_whole_budget and ledger.total != ledger.epsilon:
            raise AssertionError(f"The ledger's total, {ledger.total}, is not epsilon, {ledger.epsilon}.")
        if ledger.loss != loss:
            raise AssertionError(f"The ledger's loss, {ledger.loss}, is not what was charged, {loss}.")
        for receipt in self._receipts:
            if receipt.unused:
                charge = receipt.charge
                raise AssertionError(
                    f"{charge.description}: {receipt.unused} of {charge.n_releases} releases were not made."
                )
        self._ledger = ledger

    def _so_far(self) -> Ledger:
        opening = self._opening
        return replace(
            opening,
            charges=(*opening.charges, *(receipt.charge for receipt in self._receipts)),
            notes=(*opening.notes, *self._notes),
            merged=tuple(self._chosen),
        )


def _warn_of(request: Request) -> None:
    """Warn the user of a request that is not private. A domain is learnt as part of a fit, which warns instead."""
    if request.kind == "domain":
        return
    for reason in request.reasons_not_private:
        warn(f"This {request.kind} is not private: {reason}", PrivacyWarning)
