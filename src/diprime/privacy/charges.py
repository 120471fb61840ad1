"""Charges and receipts: what a release costs, and the proof that a ledger has it.

Every release requires a receipt, and only `Ledger.pay` issues receipts. Mechanisms read the cost of a release, its
epsilon or its μ², from its receipt. Code that releases without paying neither type-checks nor runs.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NoReturn, final

from diprime.privacy.measures import (
    ApproximateDP,
    Epsilon,
    GaussianDP,
    Measure,
    PrivacyLoss,
    PureEpsilon,
    epsilon_from_text,
    exact_delta,
    exact_text,
)

PAYMENTS = threading.Lock()
"""Two threads must not spend the same part of a budget, or use the same receipt."""

ISSUED_BY_A_LEDGER = object()
"""What makes a receipt; only `Ledger.pay` has a use for it."""

_MAX_TIMES = 1 << 32


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
    measure : PureEpsilon, GaussianDP or ApproximateDP
        The cost of one release.
    times : int
        The number of such releases that one record can affect; their costs add up.
    composition : str
        Why one record affects no more than ``times`` releases.
    level : int or None
        The level of the trees that the release is about, or None if it is about whole trees.
    strict_measure : PureEpsilon, GaussianDP, ApproximateDP or None
        The true cost of one release where ``measure`` is the published one; infinite if nothing bounds it. None means
        that ``measure`` is the true cost.
    calibrated_to : int or None
        The number in ``bound``, which the mechanism checks before it releases. It is None in ledgers that are read
        from files, where nothing is left to release.
    """

    kind: str
    mechanism: str
    bound: str
    measure: Measure
    times: int = 1
    composition: str = ""
    level: int | None = None
    strict_measure: Measure | None = None
    calibrated_to: int | None = field(default=None, compare=False)

    @property
    def what(self) -> str:
        """What is released, in words."""
        return self.kind if self.level is None else f"{self.kind} of level {self.level}"

    @property
    def epsilon(self) -> Epsilon:
        """The cost of one release in pure epsilon; a charge in Gaussian DP has none."""
        if not isinstance(self.measure, PureEpsilon):
            raise TypeError(f"{self.what}: the charge is in {self.measure.name}, and has no epsilon of its own.")
        return self.measure.epsilon

    @property
    def total(self) -> Epsilon:
        """The cost of all ``times`` releases together, in the charge's own measure."""
        return self.measure.times(self.times)

    @property
    def strict_total(self) -> Epsilon:
        """The true cost of all ``times`` releases together, in its own measure."""
        return self.true_measure.times(self.times)

    @property
    def true_measure(self) -> Measure:
        """The true cost of one release."""
        return self.strict_measure or self.measure

    @property
    def loss(self) -> PrivacyLoss:
        """The cost of all ``times`` releases together."""
        return self.measure.loss(self.times)

    @property
    def strict_loss(self) -> PrivacyLoss:
        """The true cost of all ``times`` releases together."""
        return self.true_measure.loss(self.times)

    def to_dict(self) -> dict[str, Any]:
        """Return the charge as plain data; fractions are exact text."""
        data: dict[str, Any] = {
            "kind": self.kind,
            "mechanism": self.mechanism,
            "bound": self.bound,
            "measure": self.measure.name,
            **_measure_to_dict(self.measure, ""),
            "times": self.times,
            "composition": self.composition,
        }
        if self.level is not None:
            data["level"] = self.level
        if self.strict_measure is not None:
            data |= _measure_to_dict(self.strict_measure, "strict_")
        return data

    @classmethod
    def from_dict(cls, data: Any, where: str) -> Charge:
        """Return the charge that :meth:`to_dict` described; raise `ValueError` if anything is wrong with it."""
        check_fields(data, _TYPES_OF_CHARGE, where, _OPTIONAL_IN_CHARGE)
        if not 0 <= data["times"] < _MAX_TIMES or data.get("level", 0) < 0:
            raise ValueError(f"{where} has an impossible number of times, or an impossible level.")
        measure = _measure_from_dict(data, "", where)
        if measure is None:
            raise ValueError(f"mu_squared or epsilon of {where} is missing.")
        if data["measure"] != measure.name:
            raise ValueError(f"the measure of {where} is not known, or is not that of its cost.")
        return cls(
            data["kind"],
            data["mechanism"],
            data["bound"],
            measure,
            data["times"],
            data["composition"],
            data.get("level"),
            _measure_from_dict(data, "strict_", where),
        )


@final
class Receipt:
    """Proof that a charge is in a ledger, valid for the number of releases that the charge counts.

    Only :meth:`Ledger.pay` makes receipts. A receipt cannot be copied: a copy would pay for the same releases again.
    """

    __slots__ = ("_charge", "_unused")

    def __init__(self, charge: Charge, issuer: object) -> None:
        if issuer is not ISSUED_BY_A_LEDGER:
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
        """Use up ``times`` of the releases that were paid for and return the cost of one, which is in pure epsilon.

        Raise `UnpaidReleaseError` if the charge names another mechanism, or another sensitivity or range than the one
        that the mechanism is calibrated to, if it is in another measure, or if too few releases are left.
        """
        measure = self._charge.measure
        if not isinstance(measure, PureEpsilon):
            raise UnpaidReleaseError(f"{self._charge.what}: charged in {measure.name}, but released for pure epsilon.")
        self._use(mechanism, times, calibrated_to)
        return measure

    def use_gaussian(self, mechanism: str, times: int = 1, *, calibrated_to: int) -> GaussianDP:
        """Use up ``times`` releases as :meth:`use` does and return the cost of one, which is in Gaussian DP."""
        measure = self._charge.measure
        if not isinstance(measure, GaussianDP):
            raise UnpaidReleaseError(f"{self._charge.what}: charged in {measure.name}, but released for Gaussian DP.")
        self._use(mechanism, times, calibrated_to)
        return measure

    def use_approximate(self, mechanism: str, times: int = 1, *, calibrated_to: int) -> ApproximateDP:
        """Use up ``times`` releases as :meth:`use` does and return the cost of one, which is (epsilon, delta)."""
        measure = self._charge.measure
        if not isinstance(measure, ApproximateDP):
            raise UnpaidReleaseError(f"{self._charge.what}: charged in {measure.name}, but released with a delta.")
        self._use(mechanism, times, calibrated_to)
        return measure

    def _use(self, mechanism: str, times: int, calibrated_to: int | None) -> None:
        charge = self._charge
        if mechanism != charge.mechanism:
            raise UnpaidReleaseError(f"{charge.what}: charged for {charge.mechanism}, but released by {mechanism}.")
        if calibrated_to is not None and calibrated_to != charge.calibrated_to:
            raise UnpaidReleaseError(
                f"{charge.what}: charged for a bound of {charge.calibrated_to}, but released for {calibrated_to}."
            )
        with PAYMENTS:
            if not 1 <= times <= self._unused:
                raise UnpaidReleaseError(
                    f"{charge.what}: {self._unused} of {charge.times} paid releases are left, {times} requested."
                )
            self._unused -= times

    def __reduce__(self) -> NoReturn:
        raise TypeError("A receipt cannot be copied or pickled: a copy would pay for the same releases again.")


def check_receipt(receipt: object) -> None:
    """Refuse anything that is not a receipt; objects that merely look like one may come from untyped code."""
    if type(receipt) is not Receipt:
        raise UnpaidReleaseError(f"A release needs a receipt from Ledger.pay, got {type(receipt).__name__}.")


_COST_FIELDS: dict[type, str] = {PureEpsilon: "epsilon", GaussianDP: "mu_squared"}
_COSTS = ("epsilon", "mu_squared", "delta", "strict_epsilon", "strict_mu_squared", "strict_delta")
_TYPES_OF_CHARGE: dict[str, type] = {
    "kind": str,
    "mechanism": str,
    "bound": str,
    "measure": str,
    **dict.fromkeys(_COSTS, str),
    "times": int,
    "composition": str,
    "level": int,
}
_OPTIONAL_IN_CHARGE = {"level", *_COSTS}


def _measure_to_dict(measure: Measure, prefix: str) -> dict[str, str]:
    if isinstance(measure, ApproximateDP):
        return {f"{prefix}epsilon": exact_text(measure.epsilon), f"{prefix}delta": exact_text(measure.delta)}
    return {prefix + _COST_FIELDS[type(measure)]: exact_text(measure.cost)}


def _measure_from_dict(data: dict[str, Any], prefix: str, where: str) -> Measure | None:
    """Return the measure whose cost a charge has under its name; None, if it has none."""

    def cost(name: str) -> Epsilon:
        return epsilon_from_text(data[prefix + name], f"{prefix}{name} of {where}")

    names = {name for name in ("epsilon", "mu_squared", "delta") if prefix + name in data}
    if not names:
        return None
    if names == {"epsilon", "delta"}:
        return ApproximateDP(cost("epsilon"), exact_delta(cost("delta")))
    measures: list[Measure] = [kind(cost(name)) for kind, name in _COST_FIELDS.items() if name in names]
    if len(names) > 1 or not measures:
        raise ValueError(f"{where} has costs of two measures.")
    return measures[0]


def check_fields(data: Any, types: dict[str, type], where: str, optional: Collection[str] = ()) -> None:
    """Refuse what is not an object of these fields, of these types; fields of no other name may be there."""
    if not isinstance(data, dict):
        raise ValueError(f"{where} is not an object.")
    if data.keys() - types.keys():
        raise ValueError(f"{where} has unknown fields.")
    for name, expected in types.items():
        if not (name in optional and name not in data) and type(data.get(name)) is not expected:
            raise ValueError(f"{name} of {where} is missing or of the wrong type.")
