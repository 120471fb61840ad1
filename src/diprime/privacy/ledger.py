"""The privacy ledger: an immutable list of charges, each recorded before its release."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import reduce
from typing import Any, Literal

from diprime.privacy.charges import (
    Bound,
    BoundKind,
    Charge,
    Mechanism,
    ReleaseKind,
    StudyCharge,
    VoidReason,
    check_fields,
    member,
)
from diprime.privacy.gaussian_dp import epsilon_of_loss, is_covered_by_some_epsilon, is_proven
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

_MAX_DIGITS = 2000  # of the common denominator of the fractions in a file
_MAX_COST = 10**250  # in a file; the smallest is its inverse. Float64 holds the sum of all costs in a file
_MAX_NESTED = 50
_MAX_GAUSSIAN = 1 << 12  # ledgers with Gaussian charges in a file; checking one takes a millisecond


class PrivacyWarning(UserWarning):
    """Warning about a setting that voids the privacy guarantee."""


@dataclass(frozen=True)
class Ledger:
    """Privacy ledger: the budget of a fit, its charges, and any reasons why its total is not a guarantee.

    A ledger is immutable: only the account of a session adds charges. Printing a ledger shows a table.
    :meth:`to_json` and :meth:`from_json` are exact.

    The budget is an epsilon and a delta. Pure charges add up to an epsilon E, and Gaussian charges to a μ². Together
    they are (E + ε, δ)-DP if μ-Gaussian DP implies (ε, δ)-DP (docs/privacy.md). Charges in (epsilon, delta) add their
    epsilons to E, and their deltas add up to D: together, all charges are (E + ε, D + δ)-DP. Without Gaussian charges,
    the delta is D.

    Attributes
    ----------
    epsilon : Fraction or inf
        The budget.
    accounting : {"strict", "paper"}
        Whether charges are true costs, or the costs published in the DiPriMe paper.
    charges : tuple of Charge
        Charges of the fit.
    voided_by : tuple of VoidReason
        Reasons why the guarantee does not hold although the charges add up.
    merged : tuple of Ledger
        Ledgers of the merged models, or the ledger of the selected fit of a search.
    delta : Fraction, default=0
        Delta of the budget, for Gaussian charges and for charges with their own delta. :func:`exact_delta` converts
        other types of numbers.
    study_charges : tuple of StudyCharge
        Charges of the fit to budgets of studies.
    notes : tuple of str
        Further facts for the reader, such as the reviewer of the domain. Notes do not affect the guarantee.
    max_records_per_group : int or None, default=None
        Maximum number of records used per person if people are protected, or None if single records are protected.
        Charges are the costs for this privacy unit.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from diprime.privacy.measures import PureEpsilon
    >>> from diprime.privacy.charges import Bound, BoundKind, Mechanism, ReleaseKind
    >>> kind, bound = ReleaseKind.LEAF_SUMS, Bound(BoundKind.L1, 1)
    >>> charge = Charge(kind, Mechanism.DISCRETE_LAPLACE, bound, PureEpsilon(Fraction(1)))
    >>> ledger = Ledger(epsilon=Fraction(1), charges=(charge,))
    >>> ledger.total == ledger.epsilon, ledger.is_private
    (True, True)
    """

    epsilon: Epsilon
    accounting: Accounting = "strict"
    charges: tuple[Charge, ...] = ()
    voided_by: tuple[VoidReason, ...] = ()
    merged: tuple[Ledger, ...] = ()
    _: KW_ONLY
    delta: Fraction = Fraction(0)
    study_charges: tuple[StudyCharge, ...] = ()
    notes: tuple[str, ...] = ()
    max_records_per_group: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.epsilon, Fraction):
            object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        object.__setattr__(self, "delta", exact_delta(self.delta))
        for name in ("charges", "voided_by", "merged", "study_charges", "notes"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @classmethod
    def merge(cls, ledgers: Sequence[Ledger]) -> Ledger:
        """Return the ledger of models trained on disjoint populations, as asserted by the caller.

        Each record or person is in one population, so only the cost of one model applies. The largest E and the largest
        μ² of the ledgers bound this cost. Models that were charged to the budget of the same study describe the same
        people, and are refused. If the models use different numbers of records per person, the merged ledger states the
        largest. Models that protect people cannot be merged with models that protect single records.
        """
        if len({ledger.max_records_per_group is None for ledger in ledgers}) > 1:
            raise ValueError("Cannot merge a ledger that protects people with one that protects single records.")
        study_charges = _study_charges_of(ledgers)
        loss, strict = _largest(ledger.loss for ledger in ledgers), _largest(ledger.strict_loss for ledger in ledgers)
        delta = max(ledger.delta for ledger in ledgers)
        epsilon = epsilon_of_loss(loss, max(ledger.total for ledger in ledgers), delta)
        accounting: Accounting = "paper" if any(ledger.accounting == "paper" for ledger in ledgers) else "strict"
        pairs: list[tuple[Measure, Measure]] = [
            (_measure_without_mu(loss), _measure_without_mu(strict)),
            (GaussianDP(loss.mu_squared), GaussianDP(strict.mu_squared)),
        ]
        used = [pair for pair in pairs if any(measure.cost for measure in pair)] or pairs[:1]
        charges = [_merged_charge(len(ledgers), measure, strict_measure) for measure, strict_measure in used]
        unit = max(
            (ledger.max_records_per_group for ledger in ledgers if ledger.max_records_per_group is not None),
            default=None,
        )
        return cls(
            epsilon,
            accounting,
            tuple(charges),
            tuple(dict.fromkeys(reason for ledger in ledgers for reason in ledger.voided_by)),
            tuple(ledgers),
            delta=delta,
            study_charges=study_charges,
            notes=tuple(dict.fromkeys(note for ledger in ledgers for note in ledger.notes)),
            max_records_per_group=unit,
        )

    @property
    def studies(self) -> list[str]:
        """Names of the studies whose budgets were charged for the fit."""
        return [charge.study for charge in self.study_charges]

    @property
    def privacy_unit(self) -> Literal["record", "person"]:
        """Privacy unit of the guarantee."""
        return "record" if self.max_records_per_group is None else "person"

    @property
    def privacy_unit_text(self) -> str:
        """Privacy unit in words: "one record", or one person with the maximum number of records used."""
        if self.max_records_per_group is None:
            return "one record"
        return f"one person, up to {self.max_records_per_group} record{'s' * (self.max_records_per_group > 1)},"

    @property
    def loss(self) -> PrivacyLoss:
        """Sum of all charges, by measure."""
        return sum((charge.loss for charge in self.charges), PrivacyLoss())

    @property
    def strict_loss(self) -> PrivacyLoss:
        """Sum of the true costs of all charges, by measure."""
        return sum((charge.strict_loss for charge in self.charges), PrivacyLoss())

    @property
    def total(self) -> Epsilon:
        """Epsilon of add-or-remove privacy at the ledger's delta, if the ledger is private.

        It is the sum of all charges if all are pure. With Gaussian charges, it is an upper bound, which equals the
        budget exactly if they spend all that the budget allows.
        """
        return epsilon_of_loss(self.loss, self.epsilon, self.delta)

    @property
    def strict_total(self) -> Epsilon:
        """Epsilon of the true costs at the ledger's delta, or inf if one of them is unbounded."""
        return epsilon_of_loss(self.strict_loss, self.epsilon, self.delta)

    @property
    def total_delta(self) -> Fraction:
        """Delta of the guarantee: the ledger's delta, or the sum of all deltas if there are no Gaussian charges."""
        loss = self.loss
        return self.delta if loss.mu_squared else loss.delta

    def share(self, charge: Charge) -> float:
        """Return the share of a charge in the sum of all charges of its symbol, or 0 if the sum is 0 or infinite."""
        total = sum((c.total for c in self.charges if c.measure.symbol == charge.measure.symbol), Fraction(0))
        return float(charge.total / total) if 0 < total < math.inf else 0.0

    def epsilon_for_units(self, n_units: int) -> Epsilon:
        """Return the epsilon, at :meth:`delta_for_units`, if ``n_units`` change. Replacing a unit changes two."""
        if n_units == 1:
            return self.total
        return epsilon_of_loss(self.loss.for_units(n_units), math.inf, self.delta_for_units(n_units))

    def delta_for_units(self, n_units: int) -> Fraction:
        """Return the delta if ``n_units`` change. Only the delta of charges that are not Gaussian grows."""
        loss = self.loss
        gaussian = self.delta - loss.delta if loss.mu_squared else Fraction(0)
        return min(gaussian + loss.for_units(n_units).delta, Fraction(1))

    @property
    def reasons_not_private(self) -> list[str]:
        """Reasons why the total is not a guarantee; empty if it is one."""
        reasons = (
            [] if is_covered_by_some_epsilon(self.loss, self.delta) else ["epsilon is infinite, so no noise was added."]
        )
        if self.accounting == "paper":
            reasons.append("The fit used the accounting of the DiPriMe paper, which understates the privacy loss.")
        return [*reasons, *map(str, self.voided_by)]

    @property
    def strict_costs(self) -> list[str]:
        """The true costs of charges whose published costs differ, in words."""
        charges = [charge for charge in self.charges if charge.strict_measure is not None]
        return [
            f"Strict accounting: {c.description} cost {c.true_measure.symbol} = {rounded_text(c.strict_total)}."
            for c in charges
        ]

    @property
    def is_private(self) -> bool:
        """Whether the total is a guarantee: finite, in strict accounting, and not voided."""
        return not self.reasons_not_private

    def to_dict(self) -> dict[str, Any]:
        """Return the ledger as a dict of plain values, with fractions as exact text."""
        studies = {"studies": [str(charge) for charge in self.study_charges]} if self.study_charges else {}
        unit = {} if self.max_records_per_group is None else {"unit_records": self.max_records_per_group}
        return {
            **studies,
            **unit,
            "epsilon": exact_text(self.epsilon),
            "delta": exact_text(self.delta),
            "total": exact_text(self.total),
            "accounting": self.accounting,
            "private": self.is_private,
            "charges": [charge.to_dict() for charge in self.charges],
            "waivers": [reason.value for reason in self.voided_by],
            "remarks": list(self.notes),
            "merged": [ledger.to_dict() for ledger in self.merged],
        }

    @classmethod
    def from_dict(cls, data: Any) -> Ledger:
        """Return the ledger that :meth:`to_dict` described, and raise `ValueError` if anything is wrong with it.

        A ledger without studies was charged to no study's budget. A ledger without a number of records protects single
        records.
        """
        ledger = cls._from_dict(data, "the ledger", 1)
        _check_totals(ledger, data)
        return ledger

    @classmethod
    def _from_dict(cls, data: Any, where: str, depth: int) -> Ledger:
        if depth > _MAX_NESTED:
            raise ValueError(f"{where} is nested more than {_MAX_NESTED} deep.")
        check_fields(data, _TYPES_OF_LEDGER, where, {"studies", "unit_records"})
        if data.get("unit_records", 1) < 1:
            raise ValueError(f"unit_records of {where} is not a number of records.")
        if data["accounting"] not in ("strict", "paper"):
            raise ValueError(f"accounting of {where} is neither 'strict' nor 'paper'.")
        if not all(isinstance(note, str) for note in data["remarks"]):
            raise ValueError(f"remarks of {where} are not all text.")
        voided_by = tuple(member(VoidReason, reason, where) for reason in data["waivers"])
        try:
            study_charges = tuple(StudyCharge.from_text(text) for text in data.get("studies", []))
        except (TypeError, ValueError):
            raise ValueError(f"studies of {where} are not all charges to the budgets of studies.") from None
        charges = tuple(Charge.from_dict(charge, f"charge {i} of {where}") for i, charge in enumerate(data["charges"]))
        epsilon = epsilon_from_text(data["epsilon"], f"epsilon of {where}")
        delta = epsilon_from_text(data["delta"], f"delta of {where}")
        measures = [m for c in charges for m in (c.measure, c.strict_measure) if m is not None]
        deltas = [measure.delta for measure in measures if isinstance(measure, ApproximateDP)]
        _check_sizes([epsilon, delta, *deltas, *(measure.cost for measure in measures)], where)
        return cls(
            epsilon,
            data["accounting"],
            charges,
            voided_by,
            tuple(cls._from_dict(part, f"ledger {i} of {where}", depth + 1) for i, part in enumerate(data["merged"])),
            delta=exact_delta(delta),
            study_charges=study_charges,
            notes=tuple(data["remarks"]),
            max_records_per_group=data.get("unit_records"),
        )

    def to_json(self) -> str:
        """Return the ledger as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """Return the ledger written by :meth:`to_json`."""
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
        """The ledgers in ``merged`` and their names."""
        if len(self.merged) == 1:
            return [("The selected model", self.merged[0])]
        return [(f"Model {i} of {len(self.merged)}", ledger) for i, ledger in enumerate(self.merged, 1)]

    def _table(self) -> list[str]:
        one_measure = not self.loss.mu_squared
        head = ["epsilon"] if one_measure else ["measure", "each"]
        rows = [["release", "mechanism", "sensitivity", *head, "releases", "cost"]]
        for c in self.charges:
            cost = [rounded_text(c.measure.cost)] if one_measure else [c.measure.symbol, rounded_text(c.measure.cost)]
            rows.append(
                [c.description, str(c.mechanism), str(c.sensitivity), *cost, str(c.n_releases), rounded_text(c.total)]
            )
        if self.accounting == "paper":
            strictly = ["strictly", *(rounded_text(c.strict_total) for c in self.charges)]
            rows = [[*row, cost] for row, cost in zip(rows, strictly, strict=True)]
        return aligned(rows)

    def _notes(self) -> list[str]:
        once, twice = rounded_text(self.total), rounded_text(self.epsilon_for_units(2))
        if self.delta_for_units(2) != self.total_delta:
            twice += f", delta = {rounded_text(self.delta_for_units(2))}"
        notes = [
            f"{self.privacy_unit_text.capitalize()} added or removed: epsilon = {once}; "
            f"one {self.privacy_unit} replaced: epsilon = {twice}.",
            *self._meaning_of_unit(),
        ]
        if self.loss.mu_squared:
            delta = rounded_text(self.delta)
            notes.insert(0, f"The charges add up to {loss_text(self.loss)}. At delta = {delta}, this is:")
        if self.total_delta:
            notes.append(
                f"delta = {rounded_text(self.total_delta)}: one {self.privacy_unit} changes the probability of any "
                "set of results by at most a factor of e^epsilon, plus delta. delta should be far smaller than one "
                "divided by the number of people."
            )
        notes += dict.fromkeys(f"Composition: {c.composition}" for c in self.charges if c.composition)
        notes += [f"Charged to the budget of study {study}." for study in self.studies]
        notes += self.notes
        notes += [f"NOT PRIVATE: {reason}" for reason in self.reasons_not_private]
        notes += self.strict_costs
        if self.accounting == "paper":
            notes.append(f"Strict accounting: epsilon = {rounded_text(self.strict_total)}.")
        return notes

    def _meaning_of_unit(self) -> list[str]:
        if self.max_records_per_group is None:
            return []
        chosen = "One of them is used, sampled at random."
        if self.max_records_per_group > 1:
            chosen = (
                f"At most {self.max_records_per_group} of them are used, sampled at random. Their weights add up to "
                "the same total for every person, and sensitivities refer to this total."
            )
        return [f"All records of a person are protected together. {chosen}"]


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


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a text table, with a rule below the first row."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return lines


def _check_totals(ledger: Ledger, data: Any) -> None:
    """Refuse a ledger if its total or privacy, or that of a ledger merged into it, does not follow from its charges."""
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
    """Refuse a ledger that states a stronger guarantee than a ledger merged into it."""
    if ledger.accounting == "strict" and any(charge.strict_measure is not None for charge in ledger.charges):
        raise ValueError(f"{where} uses strict accounting, but one of its charges has a different true cost.")
    if ledger.merged and set(_study_charges_of(ledger.merged)) != set(ledger.study_charges):
        raise ValueError(f"{where} has other studies than the ledgers that were merged into it.")
    for part in ledger.merged:
        hidden = set(part.voided_by) - set(ledger.voided_by)
        if hidden or part.delta > ledger.delta or (part.accounting, ledger.accounting) == ("paper", "strict"):
            raise ValueError(f"{where} states a stronger guarantee than a ledger that was merged into it.")
        if part.privacy_unit != ledger.privacy_unit or (part.max_records_per_group or 0) > (
            ledger.max_records_per_group or 0
        ):
            raise ValueError(f"{where} has another privacy unit than a ledger that was merged into it.")
        if _largest([part.loss, ledger.loss]) != ledger.loss:
            raise ValueError(f"{where} costs less than a ledger that was merged into it.")
        if _largest([part.strict_loss, ledger.strict_loss]) != ledger.strict_loss:
            raise ValueError(f"{where} costs less than a ledger that was merged into it.")


def _study_charges_of(ledgers: Sequence[Ledger]) -> tuple[StudyCharge, ...]:
    """Return the study charges of ledgers to merge, and raise `ValueError` if two ledgers share a study."""
    studies = [study for ledger in ledgers for study in ledger.studies]
    for study in studies:
        if studies.count(study) > 1:
            raise ValueError(
                f"Cannot merge models that were charged to the same budget (study {study}), because they describe "
                "the same people and their costs add up. Merge only models trained on different people."
            )
    return tuple(charge for ledger in ledgers for charge in ledger.study_charges)


def _follows(total: Epsilon, delta: Fraction, loss: PrivacyLoss) -> bool:
    """Return whether a total is correct. With Gaussian charges, checking a total is faster than computing it."""
    if not loss.mu_squared:
        return total == epsilon_of_loss(loss, total, delta)
    return (total < math.inf) is is_covered_by_some_epsilon(loss, delta) and is_proven(total, delta, loss)


def _measure_without_mu(loss: PrivacyLoss) -> Measure:
    return ApproximateDP(loss.epsilon, loss.delta) if loss.delta else PureEpsilon(loss.epsilon)


def _largest(losses: Iterable[PrivacyLoss]) -> PrivacyLoss:
    return reduce(PrivacyLoss.or_larger, losses)


def _merged_charge(n_models: int, measure: Measure, strict_measure: Measure) -> Charge:
    return Charge(
        ReleaseKind.MERGED_MODELS,
        Mechanism.OWN_LEDGERS,
        Bound(BoundKind.MODELS),
        measure,
        1,
        "The caller asserts that no person is in the data of two of the models, so the largest cost applies.",
        strict_measure=None if strict_measure == measure else strict_measure,
        n=n_models,
    )


def _check_sizes(costs: Sequence[Epsilon], where: str) -> None:
    """Refuse fractions beyond float64, and fractions whose sum would be too large to compute.

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
