"""The ledger: every release of private data is charged to the budget before it is made.

A release needs a receipt (:mod:`diprime.privacy.charges`), and only :meth:`Ledger.pay` issues receipts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import Any, Literal

from diprime.privacy.charges import ISSUED_BY_A_LEDGER, PAYMENTS, Charge, Receipt, check_fields
from diprime.privacy.gaussian_dp import covers, epsilon_of_loss, is_covered_by_some_epsilon, is_proven
from diprime.privacy.measures import (
    Epsilon,
    GaussianDP,
    Measure,
    PrivacyLoss,
    PureEpsilon,
    epsilon_from_text,
    exact_delta,
    exact_epsilon,
    exact_text,
    rounded_text,
)

Accounting = Literal["strict", "paper"]

_MAX_DIGITS = 2000  # of the common denominator of the fractions in a file
_MAX_NESTED = 50
_MAX_GAUSSIAN = 1 << 12  # of the merged ledgers in a file, for each takes a millisecond to check


class PrivacyWarning(UserWarning):
    """Warning about a setting that voids the privacy guarantee."""


@dataclass
class Ledger:
    """The budget of a fit, its charges, and the reasons why its total is not a guarantee, if there are any.

    Printing a ledger shows a table. :meth:`to_json` and :meth:`from_json` are exact.

    The budget is an epsilon and a delta. Charges in pure epsilon add up to E, and those in Gaussian DP to a μ².
    Together they are (E + ε, δ)-DP if μ is (ε, δ)-DP (docs/privacy.md). Without Gaussian charges delta is 0.

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
        The ledgers of the models that were merged; or that of the fit that a search chose, alone.
    delta : Fraction, default=0
        The budget of Gaussian charges, beside epsilon; other numbers are converted as :func:`exact_delta` does.

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
    delta: Fraction = field(default=Fraction(0), kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.epsilon, Fraction):
            self.epsilon = exact_epsilon(self.epsilon)
        self.delta = exact_delta(self.delta)

    @classmethod
    def merge(cls, ledgers: Sequence[Ledger]) -> Ledger:
        """Return the ledger of models of disjoint populations.

        One record is in one population: what the models cost together is what one of them costs. So the largest E and
        the largest μ² of the ledgers bound it, and the largest alone where all are of one kind.
        """
        loss, strict = _largest(ledger.loss for ledger in ledgers), _largest(ledger.strict_loss for ledger in ledgers)
        delta = max(ledger.delta for ledger in ledgers)
        epsilon = epsilon_of_loss(loss, max(ledger.total for ledger in ledgers), delta)
        accounting: Accounting = "paper" if any(ledger.accounting == "paper" for ledger in ledgers) else "strict"
        waivers = list(dict.fromkeys(waiver for ledger in ledgers for waiver in ledger.waivers))
        pairs: list[tuple[Measure, Measure]] = [
            (PureEpsilon(loss.epsilon), PureEpsilon(strict.epsilon)),
            (GaussianDP(loss.mu_squared), GaussianDP(strict.mu_squared)),
        ]
        used = [pair for pair in pairs if any(measure.cost for measure in pair)] or pairs[:1]
        charges = [_merged_charge(len(ledgers), measure, strict_measure) for measure, strict_measure in used]
        return cls(epsilon, accounting, charges, waivers, list(ledgers), delta=delta)

    @property
    def loss(self) -> PrivacyLoss:
        """The sum of all charges, of each measure."""
        return sum((charge.loss for charge in self.charges), PrivacyLoss())

    @property
    def strict_loss(self) -> PrivacyLoss:
        """The sum of the true costs of all charges, of each measure."""
        return sum((charge.strict_loss for charge in self.charges), PrivacyLoss())

    @property
    def total(self) -> Epsilon:
        """The epsilon of add-or-remove privacy at the ledger's delta, unless there are objections.

        It is the sum of all charges if they are in pure epsilon. With Gaussian charges it is an upper bound, and
        exactly the budget where they spend all that the budget allows.
        """
        return epsilon_of_loss(self.loss, self.epsilon, self.delta)

    @property
    def strict_total(self) -> Epsilon:
        """The epsilon of the true costs of all charges, at the ledger's delta; inf if nothing bounds one of them."""
        return epsilon_of_loss(self.strict_loss, self.epsilon, self.delta)

    @property
    def total_delta(self) -> Fraction:
        """The delta of the guarantee: the ledger's, or 0 without Gaussian charges."""
        return self.delta if self.loss.mu_squared else Fraction(0)

    def share(self, charge: Charge) -> float:
        """Return the share of a charge in the sum of all charges of its measure, if that is finite; else 0."""
        total = sum((c.total for c in self.charges if type(c.measure) is type(charge.measure)), Fraction(0))
        return float(charge.total / total) if 0 < total < math.inf else 0.0

    def epsilon_of_group(self, n_records: int) -> Epsilon:
        """Return the epsilon at the ledger's delta if so many records change; to replace one, two do."""
        return self.total if n_records == 1 else epsilon_of_loss(self.loss.of_group(n_records), math.inf, self.delta)

    @property
    def objections(self) -> list[str]:
        """Why the total is not a guarantee; empty if it is one."""
        reasons = [] if is_covered_by_some_epsilon(self.loss, self.delta) else ["epsilon is infinite."]
        if self.accounting == "paper":
            reasons.append("accounting as published, which counts less than is spent.")
        return [*reasons, *self.waivers]

    @property
    def strict_costs(self) -> list[str]:
        """The true costs of the charges whose published costs differ, in words."""
        charges = [charge for charge in self.charges if charge.strict_measure is not None]
        return [
            f"Strict accounting: {c.what} cost {c.true_measure.symbol} = {rounded_text(c.strict_total)}."
            for c in charges
        ]

    @property
    def is_private(self) -> bool:
        """Whether the total is a guarantee: finite, in strict accounting, and without waivers."""
        return not self.objections

    def pay(self, charge: Charge) -> Receipt:
        """Record a charge and return the receipt for its releases.

        Raise `ValueError`, and record nothing, if the budget is not proven to cover the charge.
        """
        if charge.times < 0:
            raise ValueError(f"A charge cannot be negative: {charge.what} is released {charge.times} times.")
        with PAYMENTS:
            spent = self.loss
            if not covers(self.epsilon, self.delta, spent + charge.loss):
                raise ValueError(
                    f"The budget of {self._budget_text()} does not cover {charge.what}: {_loss_text(spent)} is spent "
                    f"and it costs {_loss_text(charge.loss)}."
                )
            self.charges.append(charge)
        return Receipt(charge, ISSUED_BY_A_LEDGER)

    def waive(self, reason: str) -> None:
        """Record why the guarantee does not hold."""
        self.waivers.append(reason)

    def to_dict(self) -> dict[str, Any]:
        """Return the ledger as plain data; fractions are exact text."""
        return {
            "epsilon": exact_text(self.epsilon),
            "delta": exact_text(self.delta),
            "total": exact_text(self.total),
            "accounting": self.accounting,
            "private": self.is_private,
            "charges": [charge.to_dict() for charge in self.charges],
            "waivers": list(self.waivers),
            "merged": [ledger.to_dict() for ledger in self.merged],
        }

    @classmethod
    def from_dict(cls, data: Any) -> Ledger:
        """Return the ledger that :meth:`to_dict` described; raise `ValueError` if anything is wrong with it.

        A ledger without a delta has delta = 0.
        """
        ledger = cls._from_dict(data, "the ledger", 1)
        _check_totals(ledger, data)
        return ledger

    @classmethod
    def _from_dict(cls, data: Any, where: str, depth: int) -> Ledger:
        if depth > _MAX_NESTED:
            raise ValueError(f"{where} is nested more than {_MAX_NESTED} deep.")
        check_fields(data, _TYPES_OF_LEDGER, where, {"delta"})
        if data["accounting"] not in ("strict", "paper"):
            raise ValueError(f"accounting of {where} is neither 'strict' nor 'paper'.")
        if not all(isinstance(waiver, str) for waiver in data["waivers"]):
            raise ValueError(f"waivers of {where} are not all text.")
        charges = [Charge.from_dict(charge, f"charge {i} of {where}") for i, charge in enumerate(data["charges"])]
        epsilon = epsilon_from_text(data["epsilon"], f"epsilon of {where}")
        delta = epsilon_from_text(data.get("delta", "0"), f"delta of {where}")
        measures = [m for c in charges for m in (c.measure, c.strict_measure) if m is not None]
        _check_common_denominator([epsilon, delta, *(measure.cost for measure in measures)], where)
        merged = [
            cls._from_dict(ledger, f"ledger {i} of {where}", depth + 1) for i, ledger in enumerate(data["merged"])
        ]
        return cls(epsilon, data["accounting"], charges, list(data["waivers"]), merged, delta=exact_delta(delta))

    def to_json(self) -> str:
        """Return the ledger as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """Return the ledger that :meth:`to_json` wrote."""
        return cls.from_dict(json.loads(text))

    def __str__(self) -> str:
        delta = rounded_text(self.total_delta)
        head = f"Privacy ledger: epsilon = {rounded_text(self.total)} of {rounded_text(self.epsilon)}, delta = {delta}"
        if not self.is_private:
            head += " (NOT PRIVATE: see below)"
        text = "\n".join([head, "", *self._table(), "", *self._notes()])
        return "\n\n".join([text, *(f"{name}. {part}" for name, part in self.parts)])

    @property
    def parts(self) -> list[tuple[str, Ledger]]:
        """The ledgers in ``merged``, each with its name."""
        if len(self.merged) == 1:
            return [("The model alone", self.merged[0])]
        return [(f"Model {i} of {len(self.merged)}", ledger) for i, ledger in enumerate(self.merged, 1)]

    def _budget_text(self) -> str:
        text = f"epsilon = {rounded_text(self.epsilon)}"
        return f"{text}, delta = {rounded_text(self.delta)}," if self.delta else text

    def _table(self) -> list[str]:
        one_measure = not self.loss.mu_squared
        head = ["epsilon"] if one_measure else ["measure", "each"]
        rows = [["release", "mechanism", "bound", *head, "times", "cost"]]
        for c in self.charges:
            cost = [rounded_text(c.measure.cost)] if one_measure else [c.measure.symbol, rounded_text(c.measure.cost)]
            rows.append([c.what, c.mechanism, c.bound, *cost, str(c.times), rounded_text(c.total)])
        if self.accounting == "paper":
            strictly = ["strictly", *(rounded_text(c.strict_total) for c in self.charges)]
            rows = [[*row, cost] for row, cost in zip(rows, strictly, strict=True)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        lines.insert(1, "  ".join("-" * w for w in widths))
        return lines

    def _notes(self) -> list[str]:
        once, twice = rounded_text(self.total), rounded_text(self.epsilon_of_group(2))
        notes = [
            *self._sum_of_mu(),
            f"One record added or removed: epsilon = {once}; one record replaced: epsilon = {twice}.",
            *self._meaning_of_delta(),
            *dict.fromkeys(f"Composition: {c.composition}." for c in self.charges if c.composition),
        ]
        notes += [f"NOT PRIVATE: {objection}" for objection in self.objections]
        notes += self.strict_costs
        if self.accounting == "paper":
            notes.append(f"Strict accounting: epsilon = {rounded_text(self.strict_total)}.")
        return notes

    def _sum_of_mu(self) -> list[str]:
        loss = self.loss
        if not loss.mu_squared:
            return []
        return [f"Sum of the charges: {_loss_text(loss)}. At delta = {rounded_text(self.delta)} that is:"]

    def _meaning_of_delta(self) -> list[str]:
        if not self.total_delta:
            return []
        return [
            f"delta = {rounded_text(self.total_delta)}: whatever set of results is looked at, one record changes its "
            "probability by at most a factor of e^epsilon, and by delta besides. delta should be far below one over "
            "the number of persons.",
        ]


_TYPES_OF_LEDGER: dict[str, type] = {
    "epsilon": str,
    "delta": str,
    "total": str,
    "accounting": str,
    "private": bool,
    "charges": list,
    "waivers": list,
    "merged": list,
}


def _check_totals(ledger: Ledger, data: Any) -> None:
    """Refuse a ledger whose total and promise do not follow from its charges, or one that was merged into it."""
    unchecked, n_gaussian = [(ledger, data, "the ledger")], 0
    while unchecked:
        part, content, where = unchecked.pop()
        loss = part.loss
        n_gaussian += bool(loss.mu_squared)
        if n_gaussian > _MAX_GAUSSIAN:
            raise ValueError(f"more than {_MAX_GAUSSIAN} ledgers have Gaussian charges.")
        total = epsilon_from_text(content["total"], f"total of {where}")
        if not _follows(total, part.delta, loss) or content["private"] is not part.is_private:
            raise ValueError(f"total and private of {where} do not follow from its charges.")
        _check_merged(part, where)
        pairs = zip(part.merged, content["merged"], strict=True)
        unchecked += [(merged, inner, f"ledger {i} of {where}") for i, (merged, inner) in enumerate(pairs)]


def _check_merged(ledger: Ledger, where: str) -> None:
    """Refuse a ledger that promises more than one that was merged into it."""
    if ledger.accounting == "strict" and any(charge.strict_measure is not None for charge in ledger.charges):
        raise ValueError(f"{where} is strict, and has a charge whose true cost is another.")
    for part in ledger.merged:
        hidden = set(part.waivers) - set(ledger.waivers)
        if hidden or part.delta > ledger.delta or (part.accounting, ledger.accounting) == ("paper", "strict"):
            raise ValueError(f"{where} promises more than a ledger that was merged into it.")
        if _largest([part.loss, ledger.loss]) != ledger.loss:
            raise ValueError(f"{where} costs less than a ledger that was merged into it.")
        if _largest([part.strict_loss, ledger.strict_loss]) != ledger.strict_loss:
            raise ValueError(f"{where} costs less than a ledger that was merged into it.")


def _follows(total: Epsilon, delta: Fraction, loss: PrivacyLoss) -> bool:
    """Return whether a total is right; with Gaussian charges, to check one is faster than to compute it."""
    if not loss.mu_squared:
        return total == loss.epsilon
    return (total < math.inf) is is_covered_by_some_epsilon(loss, delta) and is_proven(total, delta, loss)


def _largest(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    return reduce(PrivacyLoss.or_larger, losses)


def _merged_charge(n_models: int, measure: Measure, strict_measure: Measure) -> Charge:
    return Charge(
        f"{n_models} merged models",
        "their own ledgers",
        "one record is in one model",
        measure,
        1,
        "the populations are disjoint: the largest total counts",
        strict_measure=None if strict_measure == measure else strict_measure,
    )


def _loss_text(loss: PrivacyLoss) -> str:
    costs = [f"epsilon = {rounded_text(loss.epsilon)}"] if loss.epsilon or not loss.mu_squared else []
    if loss.mu_squared:
        costs.append(f"mu^2 = {rounded_text(loss.mu_squared)}")
    return ", ".join(costs)


def _check_common_denominator(costs: Sequence[Epsilon], where: str) -> None:
    """Refuse fractions whose sum would be too large to compute; the shares of one budget have a small denominator."""
    common = 1
    for cost in costs:
        if isinstance(cost, Fraction):
            common = math.lcm(common, cost.denominator)
            if common >= 10**_MAX_DIGITS:
                raise ValueError(f"{where} has fractions without a common denominator of reasonable size.")
