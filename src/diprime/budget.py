"""The budget: what every access to private data costs, in exact fractions, and the ledger that records it."""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

Accounting = Literal["strict", "paper"]
Epsilon = Fraction | float  # a fraction, or math.inf


class PrivacyWarning(UserWarning):
    """A request that was carried out, but takes the promise of privacy away."""


def exact_epsilon(epsilon: object) -> Epsilon:
    """Return epsilon as the fraction its digits say (0.1 is one tenth), or math.inf; refuse anything else.

    Examples
    --------
    >>> exact_epsilon(0.1)
    Fraction(1, 10)
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, (numbers.Real, Decimal)):
        raise TypeError(f"epsilon must be a positive number, got {epsilon!r}.")
    if epsilon != epsilon or epsilon <= 0:
        raise ValueError(f"epsilon must be a positive number, got {epsilon!r}; use float('inf') for no privacy.")
    if isinstance(epsilon, numbers.Rational):
        return Fraction(int(epsilon.numerator), int(epsilon.denominator))
    return math.inf if math.isinf(epsilon) else Fraction(str(epsilon))


def share_of(epsilon: Epsilon, share: Fraction) -> Epsilon:
    """Return a share of epsilon; every share of infinity, nothing excepted, is infinity."""
    if isinstance(epsilon, Fraction):
        return epsilon * share
    return math.inf if share else Fraction(0)


def _text(epsilon: Epsilon) -> str:
    if not isinstance(epsilon, Fraction):
        return "inf"
    return f"{float(epsilon):.6g}"


def _exact_text(epsilon: Epsilon) -> str:
    return str(epsilon) if isinstance(epsilon, Fraction) else "inf"


@dataclass(frozen=True)
class Charge:
    """One entry of the ledger: a release and what it costs.

    Attributes
    ----------
    what : str
        What was released.
    mechanism : str
        The mechanism that released it.
    bound : str
        The sensitivity or range that the mechanism relies on.
    epsilon : Fraction or inf
        The cost of one release.
    times : int
        How many such releases one record can be part of; their costs add up.
    composition : str
        Why no more than ``times`` of them count.
    measure : str
        The measure of privacy.
    """

    what: str
    mechanism: str
    bound: str
    epsilon: Epsilon
    times: int = 1
    composition: str = ""
    measure: str = "pure epsilon"

    @property
    def total(self) -> Epsilon:
        """What the releases cost together."""
        return self.epsilon * self.times if self.times else Fraction(0)


@dataclass
class Ledger:
    """Every charge of a fit, its total, and what was waived.

    Printed, it reads as a table; :meth:`to_json` and :meth:`from_json` keep it exactly.

    Examples
    --------
    >>> from fractions import Fraction
    >>> ledger = Ledger(epsilon=Fraction(1))
    >>> ledger.charge(Charge("leaf sums", "discrete Laplace", "L1 sensitivity 1", Fraction(1)))
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
        """Return the ledger of models on disjoint populations: one record is in one of them, so the largest counts."""
        largest = max(ledger.total for ledger in ledgers)
        accounting: Accounting = "paper" if any(ledger.accounting == "paper" for ledger in ledgers) else "strict"
        waivers = list(dict.fromkeys(waiver for ledger in ledgers for waiver in ledger.waivers))
        charge = Charge(
            f"{len(ledgers)} merged models",
            "their own ledgers",
            "one record is in one model",
            largest,
            1,
            "the populations are disjoint: the largest total counts",
        )
        return cls(largest, accounting, [charge], waivers, list(ledgers))

    @property
    def total(self) -> Epsilon:
        """The sum of all charges: the epsilon of add-or-remove privacy, if nothing was waived."""
        return sum((charge.total for charge in self.charges), Fraction(0))

    @property
    def objections(self) -> list[str]:
        """Why the total is not a guarantee; empty where it is one."""
        reasons = ["epsilon is infinite."] if self.total == math.inf else []
        if self.accounting == "paper":
            reasons.append("accounting as published, which counts less than is spent.")
        return [*reasons, *self.waivers]

    @property
    def is_private(self) -> bool:
        """Whether the total is a guarantee: finite, in strict accounting, with nothing waived."""
        return not self.objections

    def charge(self, charge: Charge) -> None:
        """Record a release before it is made; refuse one that the budget does not cover."""
        if charge.total < 0:
            raise ValueError(f"A charge cannot be negative: {charge.what} costs {_text(charge.total)}.")
        if self.total + charge.total > self.epsilon:
            raise ValueError(
                f"The budget of epsilon = {_text(self.epsilon)} does not cover {charge.what}: "
                f"{_text(self.total)} is spent and it costs {_text(charge.total)}."
            )
        self.charges.append(charge)

    def waive(self, reason: str) -> None:
        """Record why the promise does not hold."""
        self.waivers.append(reason)

    def to_dict(self) -> dict[str, Any]:
        """Return the ledger as plain data; fractions are exact text."""
        return {
            "epsilon": _exact_text(self.epsilon),
            "total": _exact_text(self.total),
            "accounting": self.accounting,
            "private": self.is_private,
            "charges": [asdict(c) | {"epsilon": _exact_text(c.epsilon)} for c in self.charges],
            "waivers": list(self.waivers),
            "merged": [ledger.to_dict() for ledger in self.merged],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Ledger:
        """Return the ledger that :meth:`to_dict` described."""

        def parse(text: str) -> Epsilon:
            return math.inf if text == "inf" else Fraction(text)

        charges = [Charge(**(c | {"epsilon": parse(c["epsilon"])})) for c in data["charges"]]
        merged = [cls.from_dict(ledger) for ledger in data["merged"]]
        return cls(parse(data["epsilon"]), data["accounting"], charges, list(data["waivers"]), merged)

    def to_json(self) -> str:
        """Return the ledger as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """Return the ledger that :meth:`to_json` wrote."""
        return cls.from_dict(json.loads(text))

    def __str__(self) -> str:
        rows = [("release", "mechanism", "bound", "epsilon", "times", "cost")]
        rows += [(c.what, c.mechanism, c.bound, _text(c.epsilon), str(c.times), _text(c.total)) for c in self.charges]
        widths = [max(len(row[i]) for row in rows) for i in range(6)]
        lines = ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines.insert(1, "  ".join("-" * w for w in widths))
        total = self.total
        double = total * 2 if isinstance(total, Fraction) else total
        head = f"Privacy ledger: epsilon = {_text(total)} of {_text(self.epsilon)}, delta = 0"
        if not self.is_private:
            head += " (NOT PRIVATE: see below)"
        notes = [
            f"One record added or removed: epsilon = {_text(total)}; one record replaced: epsilon = {_text(double)}.",
            *dict.fromkeys(f"Composition: {c.composition}." for c in self.charges if c.composition),
        ]
        notes += [f"NOT PRIVATE: {objection}" for objection in self.objections]
        text = "\n".join([head, "", *lines, "", *notes])
        return "\n\n".join([text, *(f"Model {i} of {len(self.merged)}. {m}" for i, m in enumerate(self.merged, 1))])
