"""The log of a budget: a line of JSON for the budget itself and one for each charge.

Every line but the first has the SHA-256 of the line before, and every line ends in a checksum of its own. So a line
that was edited, removed or put in is found. Lines removed from the end are not: only another copy of the log could
tell. Whoever computes all hashes anew can write any log, as with every file; the hashes find accidents.
"""

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

from diprime.privacy.budget.filter import PrivacyFilter
from diprime.privacy.charges import check_fields
from diprime.privacy.gaussian_dp import MAX_EPSILON_BITS
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
from diprime.privacy.spending import BudgetError, Unit

VERSION = 1
MAX_ENTRIES = 10_000
MAX_LINE = 1 << 13
MAX_BYTES = MAX_LINE * 1024
_MAX_WHAT = 500
_MAX_DIGITS = 500  # of the common denominator of all charges
_STUDY = re.compile(r"[0-9a-f]{32}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)

# To add up what protects single records and what protects persons would promise persons more than they get.
_OTHER_UNIT: dict[Unit, str] = {
    "record": "The budget takes every record for a person, as its first charge did, but {what} protects persons with "
    "several records; use another budget.",
    "person": "The budget counts persons with several records, but {what} protects single records; give groups.",
}
_TYPES_OF_TERMS: dict[str, type] = {
    "diprime_budget": int, "study": str, "created": str, "epsilon": str, "delta": str, "pure": str, "checksum": str,
}  # fmt: skip
_TYPES_OF_ENTRY: dict[str, type] = {
    "entry": int, "time": str, "what": str, "unit": str, "epsilon": str, "mu_squared": str, "delta": str, "before": str,
    "checksum": str,
}  # fmt: skip


@dataclass(frozen=True)
class Terms:
    """What is fixed when a budget is made.

    Attributes
    ----------
    study : str
        A random name, which the ledgers of models carry.
    created : str
        When it was made, in UTC.
    epsilon, delta : Fraction
        The budget.
    pure : Fraction or None
        The limit of pure charges once there are Gaussian ones; None lets the first Gaussian charge decide.
    """

    study: str
    created: str
    epsilon: Fraction
    delta: Fraction
    pure: Fraction | None

    @classmethod
    def new(cls, epsilon: object, delta: object, pure: object) -> Terms:
        """Return checked terms with a new name."""
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

    Attributes
    ----------
    number : int
        The number of the charge, from 1.
    time : str
        When it was charged, in UTC.
    what : str
        What was released.
    loss : PrivacyLoss
        What it costs.
    unit : {"record", "person"} or None
        Whom that protects: one record, or one person with several records; None is whom the budget counts anyway.
    """

    number: int
    time: str
    what: str
    loss: PrivacyLoss
    unit: Unit | None = None

    def line(self, before: bytes) -> bytes:
        """Return the line of the log after another one."""
        return _sealed(
            {
                "entry": self.number,
                "time": self.time,
                "what": self.what,
                "unit": self.unit or "",
                "epsilon": exact_text(self.loss.epsilon),
                "mu_squared": exact_text(self.loss.mu_squared),
                "delta": exact_text(self.loss.delta),
                "before": hashlib.sha256(before).hexdigest(),
            }
        )


@dataclass(frozen=True)
class Log:
    """A log and what follows from it.

    Attributes
    ----------
    terms : Terms
        The budget.
    entries : tuple of Entry
        The charges.
    last_line : bytes
        The last line, of which the next has the hash.
    state : PrivacyFilter
        What the budget still covers.
    denominator : int
        The common denominator of all charges.
    unit : {"record", "person"} or None
        Whom the charges protect, as far as they say.
    """

    terms: Terms
    entries: tuple[Entry, ...]
    last_line: bytes
    state: PrivacyFilter
    denominator: int
    unit: Unit | None = None

    @classmethod
    def new(cls, terms: Terms) -> Log:
        """Return a log without charges."""
        state = PrivacyFilter.start(terms.epsilon, terms.delta, terms.pure)
        denominator = math.lcm(terms.epsilon.denominator, terms.delta.denominator)
        return cls(terms, (), terms.line(), state, denominator)

    @classmethod
    def read(cls, data: bytes, where: str) -> Log:
        """Return the log of a file's bytes; raise `BudgetError` unless it is whole, unchanged and within its budget."""
        if len(data) > MAX_BYTES:
            raise BudgetError(f"{where} is too large for a budget.")
        lines = data.split(b"\n")
        if lines[-1]:
            if len(lines) == 1:
                raise BudgetError(f"{where} is not a budget.")
            raise BudgetError(
                f"{where} ends in an incomplete line, as is left where a process ends while writing; nothing was "
                "released for it. To go on, remove what follows the last line break."
            )
        log = cls.new(_read_terms(lines[0] + b"\n", where))
        entries = []
        for number, line in enumerate(lines[1:-1], 1):
            entry = _read_entry(line + b"\n", number, log.last_line, f"line {number + 1} of {where}")
            try:
                log = log._following(entry)
            except BudgetError as error:
                raise BudgetError(f"line {number + 1} of {where} cannot have been written: {error}") from None
            entries.append(entry)
        return replace(log, entries=tuple(entries))

    def after(self, loss: PrivacyLoss, what: str, unit: Unit | None = None) -> Log:
        """Return the log with one more charge; raise `BudgetError` if the budget does not cover it."""
        shortened = what if len(what) <= _MAX_WHAT else what[: _MAX_WHAT - 1] + "…"
        entry = Entry(len(self.entries) + 1, _now(), shortened, loss, unit)
        return replace(self._following(entry), entries=(*self.entries, entry))

    def _following(self, entry: Entry) -> Log:
        """Return the log after an entry, which is not added to the entries."""
        loss = entry.loss
        if not all(isinstance(cost, Fraction) or cost == math.inf for cost in loss.parts):
            raise TypeError(f"What {entry.what} costs must be fractions, or the log could not be exact: {loss}.")
        if self.unit and entry.unit and self.unit != entry.unit:
            raise BudgetError(_OTHER_UNIT[self.unit].format(what=entry.what))
        state = self.state.after(loss) if min(loss.parts) >= 0 else None
        if state is None:
            raise BudgetError(self._refusal(loss, entry.what))
        if entry.number > MAX_ENTRIES:
            raise BudgetError(f"A budget has at most {MAX_ENTRIES:,} charges.")
        costs = [cost for cost in loss.parts if isinstance(cost, Fraction)]
        denominator = math.lcm(self.denominator, *(cost.denominator for cost in costs))
        if denominator >= 10**_MAX_DIGITS:
            raise BudgetError("The charges have no common denominator of reasonable size; round epsilon.")
        line, unit = entry.line(self.last_line), self.unit or entry.unit
        return replace(self, last_line=line, state=state, denominator=denominator, unit=unit)

    def _refusal(self, loss: PrivacyLoss, what: str) -> str:
        budget = f"epsilon = {rounded_text(self.terms.epsilon)}"
        left = f"epsilon = {rounded_down_text(self.state.largest_pure())} without delta"
        if self.terms.delta:
            delta = rounded_text(self.terms.delta)
            budget += f", delta = {delta}"
            epsilon = rounded_down_text(self.state.largest_epsilon(self.terms.delta))
            left += f", or epsilon = {epsilon} at delta = {delta}"
        return f"The budget of {budget} does not cover {what}: what is left is {left}."


def check_terms(epsilon: object, delta: object, pure: object) -> tuple[Fraction, Fraction, Fraction | None]:
    """Return the terms of a budget as fractions; raise an error if they cannot be kept."""
    exact = exact_epsilon(epsilon)
    if not isinstance(exact, Fraction) or exact > 1 << MAX_EPSILON_BITS:
        raise ValueError(f"The epsilon of a budget must be a positive number up to 2^20, got {epsilon!r}.")
    small = exact_delta(delta)
    if pure is None:
        return exact, small, None
    part = Fraction(0) if pure == 0 and not isinstance(pure, bool) else exact_epsilon(pure)
    if not small or not isinstance(part, Fraction) or part > exact:
        raise ValueError(f"pure is a part of epsilon, from 0 to {epsilon}, in a budget with a delta; got {pure!r}.")
    return exact, small, part


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _sealed(content: dict[str, Any]) -> bytes:
    """Return a line of JSON that ends in a checksum of what precedes it."""
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
    if data["diprime_budget"] > VERSION:
        raise BudgetError(f"{where} was written by a newer version of diprime.")
    if not _STUDY.fullmatch(terms.study) or not _TIME.fullmatch(terms.created) or terms.line() != line:
        raise BudgetError(f"{where} is not a budget, or its first line was changed.")
    return terms


def _read_entry(line: bytes, number: int, before: bytes, where: str) -> Entry:
    try:
        data = _read_object(line, _TYPES_OF_ENTRY, (), where)
        delta = exact_delta(_number(data, "delta", where))
        loss = PrivacyLoss(_number(data, "epsilon", where), _number(data, "mu_squared", where), delta)
        if data["unit"] not in ("", "record", "person"):
            raise ValueError(f"{where} protects somebody unknown.")
        entry = Entry(data["entry"], data["time"], data["what"], loss, data["unit"] or None)
        rewritten = entry.line(before)
    except (ValueError, RecursionError):
        raise BudgetError(_changed(where)) from None
    if rewritten != line or entry.number != number or not _TIME.fullmatch(entry.time) or len(entry.what) > _MAX_WHAT:
        raise BudgetError(_changed(where))
    return entry


def _changed(where: str) -> str:
    return (
        f"{where} is not the one that was written there: a line of the budget was changed, removed or put in. Restore "
        "the file from a copy that has all charges."
    )


def _read_object(line: bytes, types: dict[str, type], optional: Any, where: str) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise ValueError(f"{where} is too long.")
    data: dict[str, Any] = json.loads(line.decode())
    check_fields(data, types, where, optional)
    return data


def _number(data: dict[str, Any], name: str, where: str) -> Epsilon:
    return epsilon_from_text(data[name], f"{name} of {where}")
