"""The ledger: what every access to private data costs, in exact fractions."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from fractions import Fraction
from typing import Any, Literal

from diprime.privacy.measures import Epsilon, _text, epsilon_from_text, exact_epsilon, exact_text

Accounting = Literal["strict", "paper"]
_MAX_DIGITS = 2000  # of the common denominator of a ledger that is read
_MAX_NESTED = 50


class PrivacyWarning(UserWarning):
    """A request that was carried out, but takes the promise of privacy away."""


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
    strict_epsilon : Fraction, inf or None
        What one release truly costs where ``epsilon`` is what its authors count, inf where nothing bounds it; None
        says that the two are the same.
    """

    what: str
    mechanism: str
    bound: str
    epsilon: Epsilon
    times: int = 1
    composition: str = ""
    measure: str = "pure epsilon"
    strict_epsilon: Epsilon | None = None

    @property
    def group(self) -> str:
        """What was released, with the charges of all levels taken together."""
        return self.what.partition(" of level ")[0]

    @property
    def total(self) -> Epsilon:
        """What the releases cost together."""
        return self.epsilon * self.times if self.times else Fraction(0)

    @property
    def strict_total(self) -> Epsilon:
        """What the releases truly cost together."""
        each = self.epsilon if self.strict_epsilon is None else self.strict_epsilon
        return each * self.times if self.times else Fraction(0)


def _charge_to_dict(charge: Charge) -> dict[str, Any]:
    data = asdict(charge) | {"epsilon": exact_text(charge.epsilon)}
    strict = data.pop("strict_epsilon")
    return data if strict is None else data | {"strict_epsilon": exact_text(strict)}


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
        strict = max(ledger.strict_total for ledger in ledgers)
        accounting: Accounting = "paper" if any(ledger.accounting == "paper" for ledger in ledgers) else "strict"
        waivers = list(dict.fromkeys(waiver for ledger in ledgers for waiver in ledger.waivers))
        charge = Charge(
            f"{len(ledgers)} merged models",
            "their own ledgers",
            "one record is in one model",
            largest,
            1,
            "the populations are disjoint: the largest total counts",
            strict_epsilon=None if strict == largest else strict,
        )
        return cls(largest, accounting, [charge], waivers, list(ledgers))

    @property
    def total(self) -> Epsilon:
        """The sum of all charges: the epsilon of add-or-remove privacy, if nothing was waived."""
        return sum((charge.total for charge in self.charges), Fraction(0))

    @property
    def strict_total(self) -> Epsilon:
        """The sum of what all releases truly cost, where their charges say so; inf if nothing bounds one of them."""
        return sum((charge.strict_total for charge in self.charges), Fraction(0))

    @property
    def objections(self) -> list[str]:
        """Why the total is not a guarantee; empty where it is one."""
        reasons = ["epsilon is infinite."] if self.total == math.inf else []
        if self.accounting == "paper":
            reasons.append("accounting as published, which counts less than is spent.")
        return [*reasons, *self.waivers]

    @property
    def strict_costs(self) -> list[str]:
        """What releases truly cost whose charges say something else."""
        charges = [charge for charge in self.charges if charge.strict_epsilon is not None]
        return [f"Strict accounting: {c.what} cost epsilon = {_text(c.strict_total)}." for c in charges]

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
            "epsilon": exact_text(self.epsilon),
            "total": exact_text(self.total),
            "accounting": self.accounting,
            "private": self.is_private,
            "charges": [_charge_to_dict(charge) for charge in self.charges],
            "waivers": list(self.waivers),
            "merged": [ledger.to_dict() for ledger in self.merged],
        }

    @classmethod
    def from_dict(cls, data: Any) -> Ledger:
        """Return the ledger that :meth:`to_dict` described; whatever is wrong with it is a `ValueError`."""
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
        charges = [_read_charge(charge, f"charge {i} of {where}") for i, charge in enumerate(data["charges"])]
        epsilon = epsilon_from_text(data["epsilon"], f"epsilon of {where}")
        _check_common_denominator([epsilon, *(e for c in charges for e in (c.epsilon, c.strict_epsilon))], where)
        merged = [
            cls._from_dict(ledger, f"ledger {i} of {where}", depth + 1) for i, ledger in enumerate(data["merged"])
        ]
        ledger = cls(epsilon, data["accounting"], charges, list(data["waivers"]), merged)
        if (data.get("total"), data.get("private")) != (exact_text(ledger.total), ledger.is_private):
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
        rows = [["release", "mechanism", "bound", "epsilon", "times", "cost"]]
        rows += [[c.what, c.mechanism, c.bound, _text(c.epsilon), str(c.times), _text(c.total)] for c in self.charges]
        if self.accounting == "paper":
            strictly = ["strictly", *(_text(c.strict_total) for c in self.charges)]
            rows = [[*row, cost] for row, cost in zip(rows, strictly, strict=True)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
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
        notes += self.strict_costs
        if self.accounting == "paper":
            notes.append(f"Strict accounting: epsilon = {_text(self.strict_total)}.")
        text = "\n".join([head, "", *lines, "", *notes])
        return "\n\n".join([text, *(f"Model {i} of {len(self.merged)}. {m}" for i, m in enumerate(self.merged, 1))])


_TYPES_OF_LEDGER: dict[str, type] = {
    "epsilon": str,
    "accounting": str,
    "charges": list,
    "waivers": list,
    "merged": list,
}


_TYPES_OF_CHARGE: dict[str, type] = {f.name: int if f.name == "times" else str for f in fields(Charge)}
_OPTIONAL_IN_CHARGE = {f.name for f in fields(Charge) if f.default is not MISSING}


def _check_fields(data: Any, types: dict[str, type], where: str, optional: Collection[str] = ()) -> None:
    if not isinstance(data, dict):
        raise ValueError(f"{where} is not an object.")
    for name, expected in types.items():
        if not (name in optional and name not in data) and type(data.get(name)) is not expected:
            raise ValueError(f"{name} of {where} is missing or of the wrong type.")


def _read_charge(data: Any, where: str) -> Charge:
    _check_fields(data, _TYPES_OF_CHARGE, where, _OPTIONAL_IN_CHARGE)
    unknown = data.keys() - _TYPES_OF_CHARGE.keys()
    if unknown or not 0 <= data.get("times", 0) < 2**32:
        raise ValueError(f"{where} has unknown fields, or counts an impossible number of times.")
    epsilons = {k: epsilon_from_text(text, f"{k} of {where}") for k, text in data.items() if k.endswith("epsilon")}
    return Charge(**(data | epsilons))


def _check_common_denominator(epsilons: Sequence[Epsilon | None], where: str) -> None:
    """Refuse fractions whose sum would take forever to write out; those of one budget have small common multiples."""
    common = 1
    for epsilon in epsilons:
        if isinstance(epsilon, Fraction):
            common = math.lcm(common, epsilon.denominator)
            if common >= 10**_MAX_DIGITS:
                raise ValueError(f"{where} has fractions without a common denominator of reasonable size.")
