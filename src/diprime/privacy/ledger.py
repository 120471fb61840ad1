"""The ledger: every release of private data is charged to the budget before it is made.

Every release requires a receipt, and only :meth:`Ledger.pay` issues receipts. Mechanisms read the epsilon of a release
from its receipt. Code that releases without paying neither type-checks nor runs.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NoReturn, final

from diprime.privacy.measures import (
    Epsilon,
    PureEpsilon,
    epsilon_from_text,
    exact_epsilon,
    exact_text,
    rounded_text,
)

Accounting = Literal["strict", "paper"]

_MAX_DIGITS = 2000  # of the common denominator of the fractions in a file
_MAX_NESTED = 50
_MAX_TIMES = 1 << 32
_ISSUED_BY_A_LEDGER = object()
_PAYMENTS = threading.Lock()  # two threads must not spend the same part of a budget, or use the same receipt


class PrivacyWarning(UserWarning):
    """Warning about a setting that voids the privacy guarantee."""


class UnpaidReleaseError(RuntimeError):
    """A release that was not paid for, or that was paid for once and made twice."""


@dataclass(frozen=True)
class Charge:
    """One entry of the ledger: a release and what it costs.

    Attributes
    ----------
    kind : str
        What is released, such as "leaf sums".
    mechanism : str
        The mechanism that releases it.
    bound : str
        The sensitivity or cost range that the mechanism is calibrated to.
    measure : PureEpsilon
        The cost of one release.
    times : int
        The number of such releases that one record can affect; their costs add up.
    composition : str
        Why one record affects no more than ``times`` releases.
    level : int or None
        The level of the trees that the release is about, or None if it is about whole trees.
    strict_measure : PureEpsilon or None
        The true cost of one release where ``measure`` is the published one; infinite if nothing bounds it. None means
        that ``measure`` is the true cost.
    calibrated_to : int or None
        The number in ``bound``, which the mechanism checks before it releases. It is None in ledgers that are read
        from files, where nothing is left to release.
    """

    kind: str
    mechanism: str
    bound: str
    measure: PureEpsilon
    times: int = 1
    composition: str = ""
    level: int | None = None
    strict_measure: PureEpsilon | None = None
    calibrated_to: int | None = field(default=None, compare=False)

    @property
    def what(self) -> str:
        """What is released, in words."""
        return self.kind if self.level is None else f"{self.kind} of level {self.level}"

    @property
    def epsilon(self) -> Epsilon:
        """The cost of one release."""
        return self.measure.epsilon

    @property
    def total(self) -> Epsilon:
        """The cost of all ``times`` releases together."""
        return self.measure.times(self.times)

    @property
    def strict_total(self) -> Epsilon:
        """The true cost of all ``times`` releases together."""
        return (self.strict_measure or self.measure).times(self.times)

    def to_dict(self) -> dict[str, Any]:
        """Return the charge as plain data; fractions are exact text."""
        data: dict[str, Any] = {
            "kind": self.kind,
            "mechanism": self.mechanism,
            "bound": self.bound,
            "measure": self.measure.name,
            "epsilon": exact_text(self.epsilon),
            "times": self.times,
            "composition": self.composition,
        }
        if self.level is not None:
            data["level"] = self.level
        if self.strict_measure is not None:
            data["strict_epsilon"] = exact_text(self.strict_measure.epsilon)
        return data

    @classmethod
    def from_dict(cls, data: Any, where: str) -> Charge:
        """Return the charge that :meth:`to_dict` described; raise `ValueError` if anything is wrong with it."""
        _check_fields(data, _TYPES_OF_CHARGE, where, _OPTIONAL_IN_CHARGE)
        if not 0 <= data["times"] < _MAX_TIMES or data.get("level", 0) < 0:
            raise ValueError(f"{where} has an impossible number of times, or an impossible level.")
        if data["measure"] != PureEpsilon.name:
            raise ValueError(f"the measure of {where} is not known.")
        strict = data.get("strict_epsilon")
        return cls(
            data["kind"],
            data["mechanism"],
            data["bound"],
            PureEpsilon(epsilon_from_text(data["epsilon"], f"epsilon of {where}")),
            data["times"],
            data["composition"],
            data.get("level"),
            None if strict is None else PureEpsilon(epsilon_from_text(strict, f"strict_epsilon of {where}")),
        )


@final
class Receipt:
    """Proof that a charge is in a ledger, valid for the number of releases that the charge counts.

    Only :meth:`Ledger.pay` makes receipts. A receipt cannot be copied: a copy would pay for the same releases again.
    """

    __slots__ = ("_charge", "_unused")

    def __init__(self, charge: Charge, issuer: object) -> None:
        if issuer is not _ISSUED_BY_A_LEDGER:
            raise UnpaidReleaseError("Only Ledger.pay makes receipts.")
        self._charge = charge
        self._unused = charge.times

    def __init_subclass__(cls) -> None:
        raise TypeError("Receipt cannot be subclassed: a subclass could skip the payment.")

    @property
    def charge(self) -> Charge:
        """What was paid for."""
        return self._charge

    @property
    def unused(self) -> int:
        """How many of the releases have not been made."""
        return self._unused

    def use(self, mechanism: str, times: int = 1, *, calibrated_to: int | None = None) -> PureEpsilon:
        """Use up ``times`` of the releases that were paid for and return the cost of one.

        Raise `UnpaidReleaseError` if the charge names another mechanism, or another sensitivity or range than the one
        that the mechanism is calibrated to, or if too few releases are left.
        """
        charge = self._charge
        if mechanism != charge.mechanism:
            raise UnpaidReleaseError(f"{charge.what}: charged for {charge.mechanism}, but released by {mechanism}.")
        if calibrated_to is not None and calibrated_to != charge.calibrated_to:
            raise UnpaidReleaseError(
                f"{charge.what}: charged for a bound of {charge.calibrated_to}, but released for {calibrated_to}."
            )
        with _PAYMENTS:
            if not 1 <= times <= self._unused:
                raise UnpaidReleaseError(
                    f"{charge.what}: {self._unused} of {charge.times} paid releases are left, {times} requested."
                )
            self._unused -= times
        return charge.measure

    def __reduce__(self) -> NoReturn:
        raise TypeError("A receipt cannot be copied or pickled: a copy would pay for the same releases again.")


def check_receipt(receipt: object) -> None:
    """Refuse anything that is not a receipt; objects that merely look like one may come from untyped code."""
    if type(receipt) is not Receipt:
        raise UnpaidReleaseError(f"A release needs a receipt from Ledger.pay, got {type(receipt).__name__}.")


@dataclass
class Ledger:
    """The budget of a fit, its charges, and the reasons why its total is not a guarantee, if there are any.

    Printing a ledger shows a table. :meth:`to_json` and :meth:`from_json` are exact.

    Attributes
    ----------
    epsilon : Fraction or inf
        The budget.
    accounting : {"strict", "paper"}
        Whether charges are true costs, or those that the DiPriMe paper publishes.
    charges : list of Charge
        What was paid for.
    waivers : list of str
        Why the guarantee does not hold although the charges add up.
    merged : list of Ledger
        The ledgers of the models that were merged.

    Examples
    --------
    >>> from fractions import Fraction
    >>> ledger = Ledger(epsilon=Fraction(1))
    >>> receipt = ledger.pay(Charge("leaf sums", "discrete Laplace", "L1 sensitivity 1", PureEpsilon(Fraction(1))))
    >>> ledger.total == ledger.epsilon, ledger.is_private
    (True, True)
    """

    epsilon: Epsilon
    accounting: Accounting = "strict"
    charges: list[Charge] = field(default_factory=list)
    waivers: list[str] = field(default_factory=list)
    merged: list[Ledger] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not isinstance(self.epsilon, Fraction):
            self.epsilon = exact_epsilon(self.epsilon)

    @classmethod
    def merge(cls, ledgers: Sequence[Ledger]) -> Ledger:
        """Return the ledger of models of disjoint populations.

        One record is in one population, so the largest of the totals is the total of all.
        """
        largest = max(ledger.total for ledger in ledgers)
        strict = max(ledger.strict_total for ledger in ledgers)
        accounting: Accounting = "paper" if any(ledger.accounting == "paper" for ledger in ledgers) else "strict"
        waivers = list(dict.fromkeys(waiver for ledger in ledgers for waiver in ledger.waivers))
        charge = Charge(
            f"{len(ledgers)} merged models",
            "their own ledgers",
            "one record is in one model",
            PureEpsilon(largest),
            1,
            "the populations are disjoint: the largest total counts",
            strict_measure=None if strict == largest else PureEpsilon(strict),
        )
        return cls(largest, accounting, [charge], waivers, list(ledgers))

    @property
    def total(self) -> Epsilon:
        """The sum of all charges: the epsilon of add-or-remove privacy, unless there are objections."""
        return sum((charge.total for charge in self.charges), Fraction(0))

    @property
    def strict_total(self) -> Epsilon:
        """The sum of the true costs of all charges; inf if nothing bounds one of them."""
        return sum((charge.strict_total for charge in self.charges), Fraction(0))

    @property
    def objections(self) -> list[str]:
        """Why the total is not a guarantee; empty if it is one."""
        reasons = ["epsilon is infinite."] if self.total == math.inf else []
        if self.accounting == "paper":
            reasons.append("accounting as published, which counts less than is spent.")
        return [*reasons, *self.waivers]

    @property
    def strict_costs(self) -> list[str]:
        """The true costs of the charges whose published costs differ, in words."""
        charges = [charge for charge in self.charges if charge.strict_measure is not None]
        return [f"Strict accounting: {c.what} cost epsilon = {rounded_text(c.strict_total)}." for c in charges]

    @property
    def is_private(self) -> bool:
        """Whether the total is a guarantee: finite, in strict accounting, and without waivers."""
        return not self.objections

    def pay(self, charge: Charge) -> Receipt:
        """Record a charge and return the receipt for its releases.

        Raise `ValueError`, and record nothing, if the budget does not cover the charge.
        """
        if charge.times < 0:
            raise ValueError(f"A charge cannot be negative: {charge.what} is released {charge.times} times.")
        with _PAYMENTS:
            if self.total + charge.total > self.epsilon:
                raise ValueError(
                    f"The budget of epsilon = {rounded_text(self.epsilon)} does not cover {charge.what}: "
                    f"{rounded_text(self.total)} is spent and it costs {rounded_text(charge.total)}."
                )
            self.charges.append(charge)
        return Receipt(charge, _ISSUED_BY_A_LEDGER)

    def waive(self, reason: str) -> None:
        """Record why the guarantee does not hold."""
        self.waivers.append(reason)

    def to_dict(self) -> dict[str, Any]:
        """Return the ledger as plain data; fractions are exact text."""
        return {
            "epsilon": exact_text(self.epsilon),
            "total": exact_text(self.total),
            "accounting": self.accounting,
            "private": self.is_private,
            "charges": [charge.to_dict() for charge in self.charges],
            "waivers": list(self.waivers),
            "merged": [ledger.to_dict() for ledger in self.merged],
        }

    @classmethod
    def from_dict(cls, data: Any) -> Ledger:
        """Return the ledger that :meth:`to_dict` described; raise `ValueError` if anything is wrong with it."""
        return cls._from_dict(data, "the ledger", 1)

    @classmethod
    def _from_dict(cls, data: Any, where: str, depth: int) -> Ledger:
        if depth > _MAX_NESTED:
            raise ValueError(f"{where} is nested more than {_MAX_NESTED} deep.")
        _check_fields(data, _TYPES_OF_LEDGER, where)
        if data["accounting"] not in ("strict", "paper"):
            raise ValueError(f"accounting of {where} is neither 'strict' nor 'paper'.")
        if not all(isinstance(waiver, str) for waiver in data["waivers"]):
            raise ValueError(f"waivers of {where} are not all text.")
        charges = [Charge.from_dict(charge, f"charge {i} of {where}") for i, charge in enumerate(data["charges"])]
        epsilon = epsilon_from_text(data["epsilon"], f"epsilon of {where}")
        measures = [m for c in charges for m in (c.measure, c.strict_measure) if m is not None]
        _check_common_denominator([epsilon, *(measure.epsilon for measure in measures)], where)
        merged = [
            cls._from_dict(ledger, f"ledger {i} of {where}", depth + 1) for i, ledger in enumerate(data["merged"])
        ]
        ledger = cls(epsilon, data["accounting"], charges, list(data["waivers"]), merged)
        if (data["total"], data["private"]) != (exact_text(ledger.total), ledger.is_private):
            raise ValueError(f"total and private of {where} do not follow from its charges.")
        return ledger

    def to_json(self) -> str:
        """Return the ledger as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """Return the ledger that :meth:`to_json` wrote."""
        return cls.from_dict(json.loads(text))

    def __str__(self) -> str:
        head = f"Privacy ledger: epsilon = {rounded_text(self.total)} of {rounded_text(self.epsilon)}, delta = 0"
        if not self.is_private:
            head += " (NOT PRIVATE: see below)"
        text = "\n".join([head, "", *self._table(), "", *self._notes()])
        return "\n\n".join([text, *(f"Model {i} of {len(self.merged)}. {m}" for i, m in enumerate(self.merged, 1))])

    def _table(self) -> list[str]:
        rows = [["release", "mechanism", "bound", "epsilon", "times", "cost"]]
        rows += [
            [c.what, c.mechanism, c.bound, rounded_text(c.epsilon), str(c.times), rounded_text(c.total)]
            for c in self.charges
        ]
        if self.accounting == "paper":
            strictly = ["strictly", *(rounded_text(c.strict_total) for c in self.charges)]
            rows = [[*row, cost] for row, cost in zip(rows, strictly, strict=True)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines.insert(1, "  ".join("-" * w for w in widths))
        return lines

    def _notes(self) -> list[str]:
        once, twice = rounded_text(self.total), rounded_text(self.total * 2)
        notes = [
            f"One record added or removed: epsilon = {once}; one record replaced: epsilon = {twice}.",
            *dict.fromkeys(f"Composition: {c.composition}." for c in self.charges if c.composition),
        ]
        notes += [f"NOT PRIVATE: {objection}" for objection in self.objections]
        notes += self.strict_costs
        if self.accounting == "paper":
            notes.append(f"Strict accounting: epsilon = {rounded_text(self.strict_total)}.")
        return notes


_TYPES_OF_LEDGER: dict[str, type] = {
    "epsilon": str,
    "total": str,
    "accounting": str,
    "private": bool,
    "charges": list,
    "waivers": list,
    "merged": list,
}
_TYPES_OF_CHARGE: dict[str, type] = {
    "kind": str,
    "mechanism": str,
    "bound": str,
    "measure": str,
    "epsilon": str,
    "times": int,
    "composition": str,
    "level": int,
    "strict_epsilon": str,
}
_OPTIONAL_IN_CHARGE = {"level", "strict_epsilon"}


def _check_fields(data: Any, types: dict[str, type], where: str, optional: Collection[str] = ()) -> None:
    if not isinstance(data, dict):
        raise ValueError(f"{where} is not an object.")
    if data.keys() - types.keys():
        raise ValueError(f"{where} has unknown fields.")
    for name, expected in types.items():
        if not (name in optional and name not in data) and type(data.get(name)) is not expected:
            raise ValueError(f"{name} of {where} is missing or of the wrong type.")


def _check_common_denominator(epsilons: Sequence[Epsilon], where: str) -> None:
    """Refuse fractions whose sum would be too large to compute; the shares of one budget have a small denominator."""
    common = 1
    for epsilon in epsilons:
        if isinstance(epsilon, Fraction):
            common = math.lcm(common, epsilon.denominator)
            if common >= 10**_MAX_DIGITS:
                raise ValueError(f"{where} has fractions without a common denominator of reasonable size.")
