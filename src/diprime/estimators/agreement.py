"""Whether the parameters of a fitted model are those that its ledger tells of."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from diprime.estimators.parameters import ACCOUNTING, DELTA, EPSILON, MAX_RECORDS_PER_GROUP
from diprime.privacy.ledger import Ledger


def check_agreement(model: Any) -> None:
    """Raise a `ValueError` unless the ledger of a fitted model can be that of a fit with its parameters.

    What was spent on the domain before the fit may come on top. A merged model has the parameters of one of its parts,
    and the ledger of all of them, which is at least as large.
    """
    ledger, domain = model.privacy_, model.domain_.origin.ledger
    is_merged = len(ledger.merged) > 1
    epsilon, delta = EPSILON.check(model.epsilon), DELTA.check(model.delta) if hasattr(model, "delta") else Fraction(0)
    before = (Fraction(0), Fraction(0)) if domain is None else (domain.total, domain.total_delta)
    for name, own, spent_before, stated in (
        (EPSILON.name, epsilon, before[0], ledger.epsilon),
        (DELTA.name, delta, before[1], ledger.delta),
    ):
        if stated not in (own, own + spent_before) and not (is_merged and own <= stated):
            raise ValueError(f"{name} is not that of its ledger.")
    if ledger.total > ledger.epsilon:
        raise ValueError("its ledger spends more than its epsilon.")
    accounting = ACCOUNTING.check(getattr(model, "accounting", ACCOUNTING.default))
    if accounting != ledger.accounting and not (is_merged and ledger.accounting == "paper"):
        raise ValueError("accounting is not that of its ledger.")
    _check_records(MAX_RECORDS_PER_GROUP.check(model.max_records_per_group), ledger, is_merged)


def _check_records(max_records: int, ledger: Ledger, is_merged: bool) -> None:
    stated = ledger.unit_records or 1
    if max_records != stated and not (is_merged and max_records <= stated):
        raise ValueError("max_records_per_group is not that of its ledger.")
