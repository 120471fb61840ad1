"""The log of a budget: its lines, and the privacy filter that accepts or refuses charges."""

from __future__ import annotations

import hashlib
import json
import math
import re
import secrets
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from fractions import Fraction
from typing import Any

from diprime.privacy.charges import StudyCharge, check_fields
from diprime.privacy.gaussian_dp import (
    MAX_EPSILON_BITS,
    covers,
    epsilon_below,
    epsilon_upper_bound,
    gaussian_as_pure,
    gaussian_budget,
    pure_as_gaussian,
)
from diprime.privacy.measures import (
    Epsilon,
    PrivacyLoss,
    epsilon_from_text,
    exact_delta,
    exact_epsilon,
    exact_text,
    rounded_down_text,
    rounded_text,
)
from diprime.privacy.session import BudgetError, Unit

NOTHING = PrivacyLoss()

_GAUSSIAN_SHARE = Fraction(1, 2)
"""Share of delta of the account without room for further pure charges."""
_N_MIXED = 4
"""Number of accounts, with different limits of pure charges, that share the rest of delta."""


@dataclass(frozen=True)
class FilterAccount:
    """Limits of the sums of pure and of Gaussian charges, and the charges counted so far."""

    limit: PrivacyLoss  # limits of both sums
    counted: PrivacyLoss = NOTHING  # sum of all charges, as this account counts them

    @property
    def room(self) -> PrivacyLoss:
        """What is left of both limits."""
        limit, counted = self.limit, self.counted
        return PrivacyLoss(limit.epsilon - counted.epsilon, limit.mu_squared - counted.mu_squared)

    def after(self, loss: PrivacyLoss) -> FilterAccount | None:
        """Return the account after a charge, or None if it does not cover the charge.

        A pure charge may count as Gaussian instead. The option that uses the smaller share of its limit is tried first.
        """
        ways = [loss]
        if not loss.mu_squared and loss.epsilon <= _MAX_CONVERTED:
            ways.append(PrivacyLoss(mu_squared=pure_as_gaussian(loss.epsilon)))
        possible = [replace(self, counted=self.counted + way) for way in sorted(ways, key=self._share)]
        return next((account for account in possible if account._is_within_limits()), None)

    def _share(self, loss: PrivacyLoss) -> Epsilon:
        costs = ((loss.epsilon, self.limit.epsilon), (loss.mu_squared, self.limit.mu_squared))
        return max(Fraction(0) if not cost else cost / limit if limit else math.inf for cost, limit in costs)

    def _is_within_limits(self) -> bool:
        counted, limit = self.counted, self.limit
        return counted.epsilon <= limit.epsilon and counted.mu_squared <= limit.mu_squared

    def largest_pure(self) -> Epsilon:
        """Return the largest pure charge that is provably covered."""
        return max(self.room.epsilon, min(gaussian_as_pure(self.room.mu_squared), _MAX_CONVERTED))


def _geometric_mean(a: Epsilon, b: Epsilon) -> Fraction:
    """Return about √(a·b), identically on every machine, so that all readers of a log open the same accounts."""
    return Fraction(math.isqrt(math.floor(Fraction(a) * Fraction(b) * 4**_BITS_OF_MEAN)), 2**_BITS_OF_MEAN)


_BITS_OF_MEAN = 100
_MAX_CONVERTED = Fraction(100)  # no budget covers the μ² of a larger epsilon, which takes long to compute


@dataclass(frozen=True)
class PrivacyFilter:
    """The state of a budget: its accounts and the sum of its charges.

    ``is_decided``: whether accounts for Gaussian charges are open, if there is a delta. Until then, all charges are
    pure.
    """

    epsilon: Fraction  # epsilon of the budget
    delta: Fraction  # delta of the budget
    accounts: tuple[FilterAccount, ...]  # open accounts
    is_decided: bool
    spent: PrivacyLoss = NOTHING  # sum of all charges

    @classmethod
    def start(cls, epsilon: Fraction, delta: Fraction, pure: Fraction | None = None) -> PrivacyFilter:
        """Return the state before the first charge.

        ``pure`` limits the pure charges in the only account that accepts Gaussian ones. Without it, the first Gaussian
        charge determines the accounts.
        """
        accounts = [FilterAccount(PrivacyLoss(epsilon))]  # for pure charges alone, without delta
        if pure is not None:
            accounts.append(FilterAccount(PrivacyLoss(pure, gaussian_budget(epsilon - pure, delta))))
        return cls(epsilon, delta, tuple(accounts), is_decided=pure is not None)

    def after(self, loss: PrivacyLoss) -> PrivacyFilter | None:
        """Return the state after a charge, or None if the budget does not cover it.

        The delta of a charge is taken from the budget's delta, which is used up once accounts for Gaussian charges are
        open.
        """
        if loss.delta and (self.is_decided or self.spent.delta + loss.delta > self.delta):
            return None
        decides = bool(loss.mu_squared) and not self.is_decided
        before = self._accounts_for(loss) if decides else self.accounts
        accounts = tuple(account for account in (a.after(loss) for a in before) if account is not None)
        if not accounts:
            return None
        return replace(self, accounts=accounts, is_decided=self.is_decided or decides, spent=self.spent + loss)

    def _accounts_for(self, loss: PrivacyLoss) -> list[FilterAccount]:
        """Return the accounts that the first Gaussian charge opens. Their deltas add up to at most the budget's delta.

        One account has no room for further pure charges, another none for further Gaussian charges, and the rest are in
        between. If the charge leaves no room for these, there is one account with the whole delta.
        """
        total = self.spent + loss
        if not covers(self.epsilon, self.delta, total):
            return []
        mixed = self._mixed_limits(total)
        share = _GAUSSIAN_SHARE if mixed else Fraction(1)
        gaussian = PrivacyLoss(total.epsilon, self._largest_mu_squared(total, share))
        return [FilterAccount(limit, self.spent) for limit in (gaussian, *mixed)]

    def _mixed_limits(self, total: PrivacyLoss) -> list[PrivacyLoss]:
        """Return limits of μ², in a geometric sequence from the total, and the pure limits that they allow."""
        share = (1 - _GAUSSIAN_SHARE) / _N_MIXED
        least, most = total.mu_squared, self._largest_mu_squared(total, share)
        middle, delta = _geometric_mean(least, most), (self.delta - total.delta) * share
        between = [least, _geometric_mean(least, middle), middle, _geometric_mean(middle, most)]
        limits = [PrivacyLoss(self.epsilon - epsilon_upper_bound(mu, delta), mu) for mu in between]
        return [limit for limit in limits if limit.epsilon >= total.epsilon]

    def _largest_mu_squared(self, total: PrivacyLoss, share: Fraction) -> Epsilon:
        return gaussian_budget(self.epsilon - total.epsilon, (self.delta - total.delta) * share)

    def largest_pure(self) -> Epsilon:
        """Return the largest pure charge that is provably covered."""
        return max(account.largest_pure() for account in self.accounts)

    def largest_gaussian(self) -> Epsilon:
        """Return the μ² of the largest Gaussian charge that is provably covered."""
        if not self.is_decided:
            return self._largest_mu_squared(self.spent, Fraction(1))
        return max(account.room.mu_squared for account in self.accounts)

    def largest_epsilon(self, delta: Fraction) -> Epsilon:
        """Return the largest epsilon, at this delta, of a fit with Gaussian noise that is provably covered."""
        mu_squared = self.largest_gaussian()
        if not mu_squared:
            return Fraction(0)
        below = epsilon_below(mu_squared, delta)
        rounded = Fraction(f"{float(below):.4g}")  # probably the number that was asked for
        return rounded if rounded > below and gaussian_budget(rounded, delta) <= mu_squared else below


VERSION = 1
MAX_ENTRIES = 10_000
MAX_LINE = 1 << 13
MAX_BYTES = MAX_LINE * 1024
_MAX_DESCRIPTION = 500
_MAX_DIGITS = 500  # of the common denominator of all charges
_STUDY = re.compile(r"[0-9a-f]{32}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)

# Adding up costs of records and of people would overstate the guarantee for people.
_OTHER_UNIT: dict[Unit, str] = {
    "record": "This budget protects single records, but {description} protects people. Use a separate budget for fits "
    "with groups.",
    "person": "This budget protects people, but {description} protects single records. Pass groups.",
}
_TYPES_OF_TERMS: dict[str, type] = {
    "diprime_budget": int, "study": str, "created": str, "epsilon": str, "delta": str, "pure": str, "checksum": str,
}  # fmt: skip
_TYPES_OF_ENTRY: dict[str, type] = {
    "entry": int, "time": str, "description": str, "unit": str, "epsilon": str, "mu_squared": str, "delta": str,
    "before": str, "checksum": str,
}  # fmt: skip


@dataclass(frozen=True)
class Terms:
    """Facts that are fixed when a budget is created.

    ``pure``: limit of pure charges once there are Gaussian ones, or None to let the first Gaussian charge decide.
    """

    study: str  # random name, which the ledgers of models contain
    created: str  # time of creation, in UTC
    epsilon: Fraction
    delta: Fraction
    pure: Fraction | None

    @classmethod
    def new(cls, epsilon: object, delta: object, pure: object) -> Terms:
        """Return checked terms with a new random name."""
        return cls(secrets.token_hex(16), _now(), *check_terms(epsilon, delta, pure))

    def line(self) -> bytes:
        """Return the first line of the log."""
        content: dict[str, Any] = {
            "diprime_budget": VERSION,
            "study": self.study,
            "created": self.created,
            "epsilon": exact_text(self.epsilon),
            "delta": exact_text(self.delta),
        }
        if self.pure is not None:
            content["pure"] = exact_text(self.pure)
        return _sealed(content)


@dataclass(frozen=True)
class Entry:
    """One charge to a budget.

    ``unit``: the privacy unit of the charge, or None to use that of the budget.
    """

    number: int  # number of the charge, from 1
    time: str  # time of the charge, in UTC
    description: str  # of the release
    loss: PrivacyLoss  # cost
    unit: Unit | None = None

    def line(self, before: bytes) -> bytes:
        """Return the line of the log that follows the line ``before``."""
        return _sealed(
            {
                "entry": self.number,
                "time": self.time,
                "description": self.description,
                "unit": self.unit or "",
                "epsilon": exact_text(self.loss.epsilon),
                "mu_squared": exact_text(self.loss.mu_squared),
                "delta": exact_text(self.loss.delta),
                "before": hashlib.sha256(before).hexdigest(),
            }
        )


@dataclass(frozen=True)
class Log:
    """A log and the state that follows from it."""

    terms: Terms  # terms of the budget
    entries: tuple[Entry, ...]
    last_line: bytes  # last line, whose hash is in the next one
    state: PrivacyFilter  # state of the budget
    denominator: int  # common denominator of all charges
    unit: Unit | None = None  # privacy unit of the charges, if any charge states it
    charges: tuple[StudyCharge, ...] = ()  # charges, as ledgers refer to them
    is_cut: bool = False  # whether an incomplete line follows the last one

    @classmethod
    def new(cls, terms: Terms) -> Log:
        """Return a log without charges."""
        state = PrivacyFilter.start(terms.epsilon, terms.delta, terms.pure)
        denominator = math.lcm(terms.epsilon.denominator, terms.delta.denominator)
        return cls(terms, (), terms.line(), state, denominator)

    @classmethod
    def read(cls, data: bytes, where: str, *, may_be_cut: bool = False) -> Log:
        """Return the log in a file, and raise `BudgetError` unless it is complete, unchanged and within its budget.

        An incomplete last line is ignored if the log ``may_be_cut``.
        """
        if len(data) > MAX_BYTES:
            raise BudgetError(f"{where} is too large for a budget.")
        lines = data.split(b"\n")
        if len(lines) == 1:
            raise BudgetError(f"{where} is not a budget.")
        log = cls.new(_read_terms(lines[0] + b"\n", where))
        if lines[-1] and not may_be_cut:
            raise BudgetError(
                f"{where} ends in an incomplete line, because a process was killed while writing, or because the "
                f"file was truncated. Run 'diprime budget check {where} FILES' with all models, scores and domains "
                "of the study to find missing charges."
            )
        entries, charges = [], []
        for number, line in enumerate(lines[1:-1], 1):
            entry = _read_entry(line + b"\n", number, log.last_line, f"line {number + 1} of {where}")
            try:
                log = log._following(entry)
            except BudgetError as error:
                raise BudgetError(f"line {number + 1} of {where} cannot have been written: {error}") from None
            entries.append(entry)
            charges.append(log.last_charge)
        return replace(log, entries=tuple(entries), charges=tuple(charges), is_cut=bool(lines[-1]))

    @property
    def last_charge(self) -> StudyCharge:
        """The last charge, as ledgers refer to it."""
        return StudyCharge(self.terms.study, json.loads(self.last_line)["checksum"])

    def after(self, loss: PrivacyLoss, description: str, unit: Unit | None = None) -> Log:
        """Return the log with one more charge, and raise `BudgetError` if the budget does not cover it."""
        shortened = description if len(description) <= _MAX_DESCRIPTION else description[: _MAX_DESCRIPTION - 1] + "…"
        entry = Entry(len(self.entries) + 1, _now(), shortened, loss, unit)
        log = self._following(entry)
        return replace(log, entries=(*self.entries, entry), charges=(*self.charges, log.last_charge))

    def _following(self, entry: Entry) -> Log:
        """Return the log after an entry, without adding the entry to ``entries``."""
        loss = entry.loss
        if not all(isinstance(cost, Fraction) or cost == math.inf for cost in loss.parts):
            raise TypeError(f"The cost of {entry.description} must consist of fractions, got {loss}.")
        if self.unit and entry.unit and self.unit != entry.unit:
            raise BudgetError(_OTHER_UNIT[self.unit].format(description=entry.description))
        state = self.state.after(loss) if min(loss.parts) >= 0 else None
        if state is None:
            raise BudgetError(self._refusal(entry.description))
        if entry.number > MAX_ENTRIES:
            raise BudgetError(f"A budget has at most {MAX_ENTRIES:,} charges.")
        costs = [cost for cost in loss.parts if isinstance(cost, Fraction)]
        denominator = math.lcm(self.denominator, *(cost.denominator for cost in costs))
        if denominator >= 10**_MAX_DIGITS:
            raise BudgetError("The charges have no common denominator of reasonable size. Round epsilon.")
        line, unit = entry.line(self.last_line), self.unit or entry.unit
        return replace(self, last_line=line, state=state, denominator=denominator, unit=unit)

    def _refusal(self, description: str) -> str:
        budget = f"epsilon = {rounded_text(self.terms.epsilon)}"
        left = f"epsilon = {rounded_down_text(self.state.largest_pure())} without delta"
        if self.terms.delta:
            delta = rounded_text(self.terms.delta)
            budget += f", delta = {delta}"
            epsilon = rounded_down_text(self.state.largest_epsilon(self.terms.delta))
            left += f", or epsilon = {epsilon} at delta = {delta}"
        return f"The budget of {budget} does not cover {description}. The remaining budget is {left}."


def check_terms(epsilon: object, delta: object, pure: object) -> tuple[Fraction, Fraction, Fraction | None]:
    """Return the terms of a budget as fractions, and raise an error if they are invalid."""
    exact = exact_epsilon(epsilon)
    if not isinstance(exact, Fraction) or exact > 1 << MAX_EPSILON_BITS:
        raise ValueError(f"The epsilon of a budget must be a positive number up to 2^20, got {epsilon!r}.")
    small = exact_delta(delta)
    if pure is None:
        return exact, small, None
    part = Fraction(0) if pure == 0 and not isinstance(pure, bool) else exact_epsilon(pure)
    if not small or not isinstance(part, Fraction) or part > exact:
        raise ValueError(
            f"pure_epsilon must be from 0 to epsilon = {epsilon}, and requires a delta above 0, got {pure!r}."
        )
    return exact, small, part


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _sealed(content: dict[str, Any]) -> bytes:
    """Return a line of JSON that ends in a checksum of the rest."""
    checksum = hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()[:16]
    return json.dumps({**content, "checksum": checksum}, ensure_ascii=False).encode() + b"\n"


def _read_terms(line: bytes, where: str) -> Terms:
    try:
        data = _read_object(line, _TYPES_OF_TERMS, {"pure"}, where)
        pure = data.get("pure")
        epsilon, delta, part = check_terms(
            _number(data, "epsilon", where),
            _number(data, "delta", where),
            None if pure is None else _number(data, "pure", where),
        )
        terms = Terms(data["study"], data["created"], epsilon, delta, part)
    except (ValueError, RecursionError):
        raise BudgetError(f"{where} is not a budget, or its first line was changed.") from None
    if data["diprime_budget"] != VERSION:
        raise BudgetError(f"{where} was written by another version of diprime. Install that version to read it.")
    if not _STUDY.fullmatch(terms.study) or not _TIME.fullmatch(terms.created) or terms.line() != line:
        raise BudgetError(f"{where} is not a budget, or its first line was changed.")
    return terms


def _read_entry(line: bytes, number: int, before: bytes, where: str) -> Entry:
    try:
        data = _read_object(line, _TYPES_OF_ENTRY, (), where)
        delta = exact_delta(_number(data, "delta", where))
        loss = PrivacyLoss(_number(data, "epsilon", where), _number(data, "mu_squared", where), delta)
        if data["unit"] not in ("", "record", "person"):
            raise ValueError(f"{where} has an unknown privacy unit.")
        entry = Entry(data["entry"], data["time"], data["description"], loss, data["unit"] or None)
        rewritten = entry.line(before)
    except (ValueError, RecursionError):
        raise BudgetError(_changed(where)) from None
    if (
        rewritten != line
        or entry.number != number
        or not _TIME.fullmatch(entry.time)
        or len(entry.description) > _MAX_DESCRIPTION
    ):
        raise BudgetError(_changed(where))
    return entry


def _changed(where: str) -> str:
    return (
        f"{where} was changed: a line of the budget was edited, removed or inserted. Restore the file from "
        "a copy that contains all charges."
    )


def _read_object(line: bytes, types: dict[str, type], optional: Any, where: str) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise ValueError(f"{where} is too long.")
    data: dict[str, Any] = json.loads(line.decode())
    check_fields(data, types, where, optional)
    return data


def _number(data: dict[str, Any], name: str, where: str) -> Epsilon:
    return epsilon_from_text(data[name], f"{name} of {where}")
