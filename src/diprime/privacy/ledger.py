"""The ledger: every release of private data is charged to the budget before it is made.

A release needs a receipt (:mod:`diprime.privacy.charges`), and only :meth:`Ledger.pay` issues receipts.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import Any, Literal

from diprime.privacy.charges import ISSUED_BY_A_LEDGER, PAYMENTS, Charge, Receipt, check_fields
from diprime.privacy.gaussian_dp import covers, epsilon_of_loss, is_covered_by_some_epsilon, is_proven
from diprime.privacy.measures import (
    ApproximateDP,
    Epsilon,
    GaussianDP,
    Measure,
    PrivacyLoss,
    PureEpsilon,
    epsilon_from_text,
    exact_delta,
    exact_epsilon,
    exact_text,
    loss_text,
    rounded_text,
)

Accounting = Literal["strict", "paper"]

_STUDY = re.compile(r"[0-9a-f]{32}")
_MAX_DIGITS = 2000  # of the common denominator of the fractions in a file
_MAX_COST = 10**250  # in a file; the smallest one is one over it. Float64 holds the sum of all that a file can hold
_MAX_NESTED = 50
_MAX_GAUSSIAN = 1 << 12  # of the merged ledgers in a file, for each takes a millisecond to check


class PrivacyWarning(UserWarning):
    """Warning about a setting that voids the privacy guarantee."""


@dataclass
class Ledger:
    """The budget of a fit, its charges, and the reasons why its total is not a guarantee, if there are any.

    Printing a ledger shows a table. :meth:`to_json` and :meth:`from_json` are exact.

    The budget is an epsilon and a delta. Charges in pure epsilon add up to E, and those in Gaussian DP to a μ².
    Together they are (E + ε, δ)-DP if μ is (ε, δ)-DP (docs/privacy.md). Charges in (epsilon, delta) add to E, and their
    deltas to D: together all are (E + ε, D + δ)-DP. Without Gaussian charges the delta is D.

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
        The budget beside epsilon, of Gaussian charges and of those with a delta of their own; other numbers are
        converted as :func:`exact_delta` does.
    studies : list of str
        The names of the studies whose budgets the fit was charged to.
    remarks : list of str
        What readers should know besides, such as who has reviewed the domain. Remarks change nothing.
    unit_records : int or None, default=None
        Who is protected: one person, of whose records so many are used at most; or, if None, one record. Charges are
        what releases cost that unit.

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
    studies: list[str] = field(default_factory=list, kw_only=True)
    remarks: list[str] = field(default_factory=list, kw_only=True)
    unit_records: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.epsilon, Fraction):
            self.epsilon = exact_epsilon(self.epsilon)
        self.delta = exact_delta(self.delta)

    @classmethod
    def merge(cls, ledgers: Sequence[Ledger]) -> Ledger:
        """Return the ledger of models of disjoint populations.

        One record, or one person, is in one population: what the models cost together is what one of them costs. So the
        largest E and the largest μ² of the ledgers bound it, and the largest alone where all are of one kind. Models
        that were charged to the budget of one study are about the same people, and are refused. The models may use
        different numbers of records of a person, of which the largest is stated: whichever model a person is in
        protects all of her records. A model of single records does not, so the two are not merged.
        """
        if len({ledger.unit_records is None for ledger in ledgers}) > 1:
            raise ValueError("A ledger that protects persons and one that protects single records cannot be merged.")
        studies = _studies_of(ledgers)
        loss, strict = _largest(ledger.loss for ledger in ledgers), _largest(ledger.strict_loss for ledger in ledgers)
        delta = max(ledger.delta for ledger in ledgers)
        epsilon = epsilon_of_loss(loss, max(ledger.total for ledger in ledgers), delta)
        accounting: Accounting = "paper" if any(ledger.accounting == "paper" for ledger in ledgers) else "strict"
        waivers = list(dict.fromkeys(waiver for ledger in ledgers for waiver in ledger.waivers))
        remarks = list(dict.fromkeys(remark for ledger in ledgers for remark in ledger.remarks))
        pairs: list[tuple[Measure, Measure]] = [
            (_measure_without_mu(loss), _measure_without_mu(strict)),
            (GaussianDP(loss.mu_squared), GaussianDP(strict.mu_squared)),
        ]
        used = [pair for pair in pairs if any(measure.cost for measure in pair)] or pairs[:1]
        charges = [_merged_charge(len(ledgers), measure, strict_measure) for measure, strict_measure in used]
        unit = max((ledger.unit_records for ledger in ledgers if ledger.unit_records is not None), default=None)
        merged = cls(epsilon, accounting, charges, waivers, list(ledgers), delta=delta, unit_records=unit)
        merged.studies, merged.remarks = studies, remarks
        return merged

    @property
    def unit(self) -> Literal["record", "person"]:
        """Who is protected."""
        return "record" if self.unit_records is None else "person"

    @property
    def whole_unit(self) -> str:
        """Who is protected, in words: "one record", or one person with the largest number of records that are used."""
        if self.unit_records is None:
            return "one record"
        return f"one person, up to {self.unit_records} record{'s' * (self.unit_records > 1)},"

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
        """The delta of the guarantee: the ledger's, or without Gaussian charges what the others add up to."""
        loss = self.loss
        return self.delta if loss.mu_squared else loss.delta

    def share(self, charge: Charge) -> float:
        """Return the share of a charge in the sum of all charges in epsilon, or in μ², if that is finite; else 0."""
        total = sum((c.total for c in self.charges if c.measure.symbol == charge.measure.symbol), Fraction(0))
        return float(charge.total / total) if 0 < total < math.inf else 0.0

    def epsilon_of_group(self, n_units: int) -> Epsilon:
        """Return the epsilon, at :meth:`delta_of_group`, if so many units change; to replace a record, two do."""
        if n_units == 1:
            return self.total
        return epsilon_of_loss(self.loss.of_group(n_units), math.inf, self.delta_of_group(n_units))

    def delta_of_group(self, n_units: int) -> Fraction:
        """Return the delta if so many units change: that of Gaussian charges stays, that of others grows."""
        loss = self.loss
        gaussian = self.delta - loss.delta if loss.mu_squared else Fraction(0)
        return min(gaussian + loss.of_group(n_units).delta, Fraction(1))

    def include(self, other: Ledger) -> None:
        """Add what was spent before on something that this ledger's model contains, such as its domain.

        The budget grows by what the other ledger spent, and its reasons against a guarantee count here as well.
        """
        if (self.unit_records is None) != (other.unit_records is None):
            raise ValueError("What was spent on single records and what was spent on persons do not add up.")
        self.epsilon += other.total
        self.delta = exact_delta(self.delta + other.total_delta)
        self.charges += other.charges
        self.waivers += [waiver for waiver in other.waivers if waiver not in self.waivers]
        self.remarks += [remark for remark in other.remarks if remark not in self.remarks]

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
                    f"The budget of {self._budget_text()} does not cover {charge.what}: {loss_text(spent)} is spent "
                    f"and it costs {loss_text(charge.loss)}."
                )
            self.charges.append(charge)
        return Receipt(charge, ISSUED_BY_A_LEDGER)

    def waive(self, reason: str) -> None:
        """Record why the guarantee does not hold."""
        self.waivers.append(reason)

    def to_dict(self) -> dict[str, Any]:
        """Return the ledger as plain data; fractions are exact text."""
        studies = {"studies": list(self.studies)} if self.studies else {}
        unit = {} if self.unit_records is None else {"unit_records": self.unit_records}
        return {
            **studies,
            **unit,
            "epsilon": exact_text(self.epsilon),
            "delta": exact_text(self.delta),
            "total": exact_text(self.total),
            "accounting": self.accounting,
            "private": self.is_private,
            "charges": [charge.to_dict() for charge in self.charges],
            "waivers": list(self.waivers),
            "remarks": list(self.remarks),
            "merged": [ledger.to_dict() for ledger in self.merged],
        }

    @classmethod
    def from_dict(cls, data: Any) -> Ledger:
        """Return the ledger that :meth:`to_dict` described; raise `ValueError` if anything is wrong with it.

        A ledger without a delta has delta = 0, one without remarks has none, one without studies was charged to no
        budget but its own, and one without a number of records protects single records.
        """
        ledger = cls._from_dict(data, "the ledger", 1)
        _check_totals(ledger, data)
        return ledger

    @classmethod
    def _from_dict(cls, data: Any, where: str, depth: int) -> Ledger:
        if depth > _MAX_NESTED:
            raise ValueError(f"{where} is nested more than {_MAX_NESTED} deep.")
        check_fields(data, _TYPES_OF_LEDGER, where, {"delta", "studies", "remarks", "unit_records"})
        if data.get("unit_records", 1) < 1:
            raise ValueError(f"unit_records of {where} is not a number of records.")
        if data["accounting"] not in ("strict", "paper"):
            raise ValueError(f"accounting of {where} is neither 'strict' nor 'paper'.")
        remarks = list(data.get("remarks", []))
        for name, texts in (("waivers", data["waivers"]), ("remarks", remarks)):
            if not all(isinstance(text, str) for text in texts):
                raise ValueError(f"{name} of {where} are not all text.")
        studies = list(data.get("studies", []))
        if not all(isinstance(study, str) and _STUDY.fullmatch(study) for study in studies):
            raise ValueError(f"studies of {where} are not all names of studies.")
        charges = [Charge.from_dict(charge, f"charge {i} of {where}") for i, charge in enumerate(data["charges"])]
        epsilon = epsilon_from_text(data["epsilon"], f"epsilon of {where}")
        delta = epsilon_from_text(data.get("delta", "0"), f"delta of {where}")
        measures = [m for c in charges for m in (c.measure, c.strict_measure) if m is not None]
        deltas = [measure.delta for measure in measures if isinstance(measure, ApproximateDP)]
        _check_sizes([epsilon, delta, *deltas, *(measure.cost for measure in measures)], where)
        merged = [
            cls._from_dict(ledger, f"ledger {i} of {where}", depth + 1) for i, ledger in enumerate(data["merged"])
        ]
        ledger = cls(epsilon, data["accounting"], charges, list(data["waivers"]), merged, delta=exact_delta(delta))
        ledger.studies, ledger.remarks, ledger.unit_records = studies, remarks, data.get("unit_records")
        return ledger

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
        if self.delta_of_group(2) != self.total_delta:
            twice += f", delta = {rounded_text(self.delta_of_group(2))}"
        notes = [
            *self._sum_of_mu(),
            f"{self.whole_unit.capitalize()} added or removed: epsilon = {once}; one {self.unit} replaced: "
            f"epsilon = {twice}.",
            *self._meaning_of_unit(),
            *self._meaning_of_delta(),
            *dict.fromkeys(f"Composition: {c.composition}." for c in self.charges if c.composition),
            *(f"Charged to the budget of study {study}." for study in self.studies),
        ]
        notes += self.remarks
        notes += [f"NOT PRIVATE: {objection}" for objection in self.objections]
        notes += self.strict_costs
        if self.accounting == "paper":
            notes.append(f"Strict accounting: epsilon = {rounded_text(self.strict_total)}.")
        return notes

    def _sum_of_mu(self) -> list[str]:
        loss = self.loss
        if not loss.mu_squared:
            return []
        return [f"Sum of the charges: {loss_text(loss)}. At delta = {rounded_text(self.delta)} that is:"]

    def _meaning_of_unit(self) -> list[str]:
        if self.unit_records is None:
            return []
        return [
            "All records of a person are protected together. "
            + ("One of them is used, chosen at random." if self.unit_records == 1 else self._meaning_of_weights())
        ]

    def _meaning_of_weights(self) -> str:
        return (
            f"At most {self.unit_records} of them are used, chosen at random; their weights add up to the same for "
            "everybody, and bounds are for that sum."
        )

    def _meaning_of_delta(self) -> list[str]:
        if not self.total_delta:
            return []
        return [
            f"delta = {rounded_text(self.total_delta)}: whatever set of results is looked at, one {self.unit} changes "
            "its probability by at most a factor of e^epsilon, and by delta besides. delta should be far below one "
            "over the number of persons.",
        ]


_TYPES_OF_LEDGER: dict[str, type] = {
    "studies": list,
    "epsilon": str,
    "delta": str,
    "total": str,
    "accounting": str,
    "private": bool,
    "charges": list,
    "waivers": list,
    "remarks": list,
    "merged": list,
    "unit_records": int,
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
    if ledger.merged and set(_studies_of(ledger.merged)) != set(ledger.studies):
        raise ValueError(f"{where} has other studies than the ledgers that were merged into it.")
    for part in ledger.merged:
        hidden = set(part.waivers) - set(ledger.waivers)
        if hidden or part.delta > ledger.delta or (part.accounting, ledger.accounting) == ("paper", "strict"):
            raise ValueError(f"{where} promises more than a ledger that was merged into it.")
        if part.unit != ledger.unit or (part.unit_records or 0) > (ledger.unit_records or 0):
            raise ValueError(f"{where} protects others than a ledger that was merged into it.")
        if _largest([part.loss, ledger.loss]) != ledger.loss:
            raise ValueError(f"{where} costs less than a ledger that was merged into it.")
        if _largest([part.strict_loss, ledger.strict_loss]) != ledger.strict_loss:
            raise ValueError(f"{where} costs less than a ledger that was merged into it.")


def _studies_of(ledgers: Sequence[Ledger]) -> list[str]:
    """Return the studies of ledgers to be merged; raise `ValueError` if two have one in common."""
    studies = [study for ledger in ledgers for study in ledger.studies]
    for study in studies:
        if studies.count(study) > 1:
            raise ValueError(
                f"Two of the models were charged to the budget of study {study}, so they are about the same people, "
                "and what they cost adds up; only models of different people can be merged."
            )
    return studies


def _follows(total: Epsilon, delta: Fraction, loss: PrivacyLoss) -> bool:
    """Return whether a total is right; with Gaussian charges, to check one is faster than to compute it."""
    if not loss.mu_squared:
        return total == epsilon_of_loss(loss, total, delta)
    return (total < math.inf) is is_covered_by_some_epsilon(loss, delta) and is_proven(total, delta, loss)


def _measure_without_mu(loss: PrivacyLoss) -> Measure:
    return ApproximateDP(loss.epsilon, loss.delta) if loss.delta else PureEpsilon(loss.epsilon)


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


def _check_sizes(costs: Sequence[Epsilon], where: str) -> None:
    """Refuse fractions that are no floats, and those whose sum would be too large to compute.

    The shares of one budget have a small common denominator.
    """
    common = 1
    for cost in costs:
        if isinstance(cost, Fraction) and cost:
            if not Fraction(1, _MAX_COST) <= cost <= _MAX_COST:
                raise ValueError(f"{where} has a cost that is too large or too small to compute with.")
            common = math.lcm(common, cost.denominator)
            if common >= 10**_MAX_DIGITS:
                raise ValueError(f"{where} has fractions without a common denominator of reasonable size.")
