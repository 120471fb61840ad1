"""Charges, which state what a release costs, and receipts, which prove that a ledger contains a charge.

Ledgers name releases, mechanisms and bounds by identifiers, in code and in files.

Every release requires a receipt, and only an `Account` issues receipts. Mechanisms read the epsilon or μ² of a release
from its receipt. Code that releases without paying neither type-checks nor runs.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from enum import Enum
from fractions import Fraction
from numbers import Rational
from typing import Any, NoReturn, TypeVar, final

from diprime.privacy.measures import (
    ApproximateDP,
    Epsilon,
    GaussianDP,
    Measure,
    PrivacyLoss,
    PureEpsilon,
    epsilon_from_text,
    exact_text,
)

_Measure = TypeVar("_Measure", PureEpsilon, GaussianDP, ApproximateDP)
_Named = TypeVar("_Named", bound="Named")


class Named(Enum):
    """An identifier, used in code and files, and its English text for readers."""

    text: str

    def __new__(cls, identifier: str, text: str) -> Named:
        """Return a member whose value is the identifier."""
        member = object.__new__(cls)
        member._value_, member.text = identifier, text
        return member

    def __str__(self) -> str:
        return self.text


class ReleaseKind(Named):
    """Kind of a release."""

    ROW_COUNT = "row-count", "row count"
    CLASS_COUNTS = "class-counts", "class counts"
    TARGET_WINDOW = "target-window", "target clipping range"
    NODE_WINDOWS = "node-windows", "target clipping ranges"
    MEDIANS = "medians", "medians"
    CHOICES = "choices", "choices"
    SPLITS = "splits", "splits"
    LEAF_SUMS = "leaf-sums", "leaf sums"
    CODE_SUMS = "code-sums", "code sums"
    GRADIENT_SUMS = "gradient-sums", "gradient sums"
    DOMAIN_FEATURE_COUNTS = "domain-feature-counts", "domain: number of values per feature"
    DOMAIN_FEATURE_SCALES = "domain-feature-scales", "domain: scales of feature ranges"
    DOMAIN_FEATURE_RANGES = "domain-feature-ranges", "domain: feature ranges"
    DOMAIN_TARGET_COUNT = "domain-target-count", "domain: number of target values"
    DOMAIN_TARGET_SCALE = "domain-target-scale", "domain: scale of the target range"
    DOMAIN_TARGET_RANGE = "domain-target-range", "domain: target range"
    DOMAIN_CATEGORIES = "domain-categories", "domain: categories"
    DOMAIN_CLASSES = "domain-classes", "domain: classes"
    CONFUSION_MATRIX = "confusion-matrix", "confusion matrix"
    CLASS_SCORES = "class-scores", "scores by class"
    TRUE_CLASS_SCORES = "true-class-scores", "scores of true classes"
    OTHER_CLASS_SCORES = "other-class-scores", "scores of other classes"
    ERRORS = "errors", "errors"
    TARGETS = "targets", "targets"
    FITS = "fits", "fits of {n} combinations"
    CHOICE_OF_SETTING = "choice-of-setting", "selection among {n} combinations"
    ERROR_OF_SETTING = "error-of-setting", "error of a combination"
    BEST_OF_FITS = "best-of-fits", "best of a random number of fits"
    MERGED_MODELS = "merged-models", "{n} merged models"
    NODE_SUMS = "node-sums", "sums of nodes"
    NOTHING = "nothing", "nothing: reserved for splits of leaves"

    @property
    def is_of_domain(self) -> bool:
        """Whether the release is about a domain, so that one record of each person is counted."""
        return self.name.startswith("DOMAIN_")


class Mechanism(Named):
    """Release mechanism."""

    DISCRETE_LAPLACE = "discrete-laplace", "discrete Laplace"
    THRESHOLDED_LAPLACE = "thresholded-laplace", "thresholded Laplace"
    ROUNDED_GAUSSIAN = "rounded-gaussian", "rounded Gaussian"
    EXPONENTIAL = "exponential", "exponential mechanism"
    PERMUTE_AND_FLIP = "permute-and-flip", "permute-and-flip"
    RANDOM_STOPPING = "random-stopping", "random stopping"
    OWN_LEDGERS = "own-ledgers", "their own ledgers"
    NONE = "none", "none"


class BoundKind(Named):
    """Kind of a bound: of the change by one record or person, or of the number of releases."""

    L1 = "l1-sensitivity", "L1 sensitivity {n}"
    L1_OF_ERRORS = "l1-sensitivity-of-errors", "L1 sensitivity {n:,}"
    L1_BESIDE_LEAF_COUNTS = (
        "l1-sensitivity-beside-leaf-counts",
        "L1 sensitivity {n}, with exact counts released in addition",
    )
    L1_BESIDE_COUNTS = "l1-sensitivity-beside-counts", "exact counts released in addition to sums of sensitivity {n}"
    L1_BESIDE_ZEROS = "l1-sensitivity-beside-zeros", "exact zeros released in addition to counts of sensitivity {n}"
    SQUARED_L2 = "squared-l2-sensitivity", "squared L2 sensitivity {n:,}"
    COST_RANGE = "cost-range", "cost range {n}"
    COST_RANGE_IN_UNITS = "cost-range-in-units", "cost range {n} in units of 1/{units}"
    COST_RANGE_OF_ERRORS = "cost-range-of-errors", "cost range {n:,}"
    LOCAL_SENSITIVITY = "local-sensitivity", "local sensitivity at a noisy size"
    REPETITIONS = "repetitions", "from 1 to {n:,} fits"
    FITS = "fits", "one record trains all of them"
    FITS_OR_CHOICE = "fits-or-choice", "a record trains all of them, or selects among them"
    MODELS = "models", "a record is in one model, as asserted"
    NONE = "none", "none"


@dataclass(frozen=True)
class Bound:
    """Bound that a release is calibrated to. ``units``: costs are in units of one over this number."""

    kind: BoundKind
    n: int = 0
    units: int = 1

    def __str__(self) -> str:
        return self.kind.text.format(n=self.n, units=self.units)

    @property
    def calibration(self) -> Bound:
        """The bound as it is passed to the mechanism."""
        return Bound(_CALIBRATIONS.get(self.kind, self.kind), self.n)

    def to_dict(self) -> dict[str, Any]:
        """Return the bound as plain data."""
        return {"kind": self.kind.value, "n": self.n, "units": self.units}

    @classmethod
    def from_dict(cls, data: dict[str, Any], where: str) -> Bound:
        """Return the bound that :meth:`to_dict` described, and raise `ValueError` if its numbers are impossible."""
        if not (0 <= data["n"] < _MAX_NUMBER and 1 <= data["units"] < _MAX_NUMBER):
            raise ValueError(f"the bound of {where} has an impossible number.")
        return cls(member(BoundKind, data["kind"], where), data["n"], data["units"])


class VoidReason(Named):
    """Reason why the guarantee does not hold although the charges add up."""

    SEED_OF_MODEL = (
        "seed-of-model",
        "random_state is set. Anyone who knows the seed can remove the noise from the model.",
    )
    SEED_OF_DOMAIN = (
        "seed-of-domain",
        "random_state is set. Anyone who knows the seed can remove the noise from the domain.",
    )
    SEED_OF_SCORE = (
        "seed-of-score",
        "random_state is set. Anyone who knows the seed can remove the noise from the score.",
    )
    INFERRED_DOMAIN = (
        "inferred-domain",
        "The domain was inferred from the data, so it reveals exact ranges and categories.",
    )


def member(kind: type[_Named], value: object, where: str) -> _Named:
    """Return the member that a file names, and raise `ValueError` if there is none."""
    found = next((member for member in kind if member.value == value), None)
    if found is None:
        raise ValueError(f"{where} has an unknown {kind.__name__}.")
    return found


PAYMENTS = threading.Lock()
"""Held while a receipt is used, so that two threads cannot both use its last release."""

ISSUED_BY_AN_ACCOUNT = object()
"""Token that `Receipt` requires. Only `Account.pay` may use it."""

_MAX_TIMES = 1 << 32
_STUDY_CHARGE = re.compile(r"([0-9a-f]{32}):([0-9a-f]{16})")


@dataclass(frozen=True)
class StudyCharge:
    """A charge to the budget of a study."""

    study: str  # name of the study
    charge: str  # checksum of the charge's line in the log of the budget

    def __str__(self) -> str:
        return f"{self.study}:{self.charge}"

    @classmethod
    def from_text(cls, text: str) -> StudyCharge:
        """Return the charge written as text, and raise `ValueError` if the text is not one."""
        found = _STUDY_CHARGE.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not a charge to the budget of a study.")
        return cls(*found.groups())


class UnpaidReleaseError(RuntimeError):
    """Release without payment, or a second release for one payment."""


@dataclass(frozen=True)
class Charge:
    """One entry of the ledger: a release and its cost.

    Attributes
    ----------
    kind : ReleaseKind
        Kind of the release, such as ``ReleaseKind.LEAF_SUMS``.
    mechanism : Mechanism
        The mechanism that releases it.
    sensitivity : Bound
        The sensitivity or cost range that the mechanism is calibrated to.
    measure : PureEpsilon, GaussianDP or ApproximateDP
        The cost of one release.
    n_releases : int
        Number of such releases that one record can affect. Their costs add up.
    composition : str
        Reason why one record affects at most ``n_releases`` releases.
    level : int or None
        Level of the trees that the release is about, or None if it is about whole trees.
    strict_measure : PureEpsilon, GaussianDP, ApproximateDP or None
        True cost of one release if ``measure`` is the published one; infinite if the true cost is unbounded. None means
        that ``measure`` is the true cost.
    n : int
        Number of models or combinations that the release covers, if there are several.
    """

    kind: ReleaseKind
    mechanism: Mechanism
    sensitivity: Bound
    measure: Measure
    n_releases: int = 1
    composition: str = ""
    level: int | None = None
    strict_measure: Measure | None = None
    n: int = 0

    @property
    def group(self) -> str:
        """Description of the release, without its level."""
        return str(self.kind).format(n=self.n)

    @property
    def description(self) -> str:
        """Description of the release."""
        return self.group if self.level is None else f"{self.group} of level {self.level}"

    @property
    def epsilon(self) -> Epsilon:
        """Cost of one release in pure epsilon. Other measures have none."""
        if not isinstance(self.measure, PureEpsilon):
            raise TypeError(
                f"{self.description}: the charge is in {self.measure.name}, which has no epsilon of its own."
            )
        return self.measure.epsilon

    @property
    def total(self) -> Epsilon:
        """Cost of all ``n_releases`` releases, in the charge's own measure."""
        return self.measure.times(self.n_releases)

    @property
    def strict_total(self) -> Epsilon:
        """True cost of all ``n_releases`` releases, in the true measure."""
        return self.true_measure.times(self.n_releases)

    @property
    def true_measure(self) -> Measure:
        """True cost of one release."""
        return self.strict_measure or self.measure

    @property
    def loss(self) -> PrivacyLoss:
        """Cost of all ``n_releases`` releases."""
        return self.measure.loss(self.n_releases)

    @property
    def strict_loss(self) -> PrivacyLoss:
        """True cost of all ``n_releases`` releases."""
        return self.true_measure.loss(self.n_releases)

    def to_dict(self) -> dict[str, Any]:
        """Return the charge as a dict of plain values, with fractions as exact text."""
        return {
            "kind": self.kind.value,
            "mechanism": self.mechanism.value,
            "bound": self.sensitivity.to_dict(),
            "measure": self.measure.name,
            **_measure_to_dict(self.measure, ""),
            "times": self.n_releases,
            "composition": self.composition,
            **({} if self.level is None else {"level": self.level}),
            **({"n": self.n} if self.n else {}),
            **({} if self.strict_measure is None else _measure_to_dict(self.strict_measure, "strict_")),
        }

    @classmethod
    def from_dict(cls, data: Any, where: str) -> Charge:
        """Return the charge that :meth:`to_dict` described, and raise `ValueError` if anything is wrong with it."""
        check_fields(data, _TYPES_OF_CHARGE, where, _OPTIONAL_IN_CHARGE)
        check_fields(data["bound"], _TYPES_OF_BOUND, f"the bound of {where}")
        if not 0 <= data["times"] < _MAX_TIMES or data.get("level", 0) < 0 or not 0 <= data.get("n", 0) < _MAX_TIMES:
            raise ValueError(f"{where} has an impossible number of releases or models, or an impossible level.")
        measure = _measure_from_dict(data, "", where)
        if measure is None:
            raise ValueError(f"mu_squared or epsilon of {where} is missing.")
        if data["measure"] != measure.name:
            raise ValueError(f"the measure of {where} is unknown, or does not match its cost.")
        return cls(
            member(ReleaseKind, data["kind"], where),
            member(Mechanism, data["mechanism"], where),
            Bound.from_dict(data["bound"], where),
            measure,
            data["times"],
            data["composition"],
            data.get("level"),
            _measure_from_dict(data, "strict_", where),
            data.get("n", 0),
        )


@final
class Receipt:
    """Proof that a charge is in a ledger, valid for the number of releases that the charge counts.

    Only an `Account` issues receipts. A receipt cannot be copied, because a copy would pay for the same releases again.
    """

    __slots__ = ("_charge", "_unused")

    def __init__(self, charge: Charge, issuer: object) -> None:
        if issuer is not ISSUED_BY_AN_ACCOUNT:
            raise UnpaidReleaseError("Only an account makes receipts.")
        self._charge = charge
        self._unused = Fraction(charge.n_releases)

    def __init_subclass__(cls) -> None:
        raise TypeError("Receipt cannot be subclassed: a subclass could skip the payment.")

    @property
    def charge(self) -> Charge:
        """The charge that was paid."""
        return self._charge

    @property
    def unused(self) -> Fraction:
        """Number of paid releases that have not been made."""
        return self._unused

    def use(self, mechanism: Mechanism, times: int = 1, *, bound: Bound | None = None) -> PureEpsilon:
        """Use up ``times`` paid releases and return the cost of one in pure epsilon.

        Raise `UnpaidReleaseError` if the charge names another mechanism, if it names another sensitivity or range than
        the mechanism is calibrated to, if it is in another measure, or if too few releases are left.
        """
        return self._use(PureEpsilon, "for pure epsilon", mechanism, times, bound)

    def use_gaussian(self, mechanism: Mechanism, times: int | Fraction = 1, *, bound: Bound) -> GaussianDP:
        """Use up ``times`` releases as :meth:`use` does, and return the cost of one in Gaussian DP.

        A fraction of a release has the same fraction of its cost.
        """
        return self._use(GaussianDP, "for Gaussian DP", mechanism, times, bound)

    def use_approximate(self, mechanism: Mechanism, times: int = 1, *, bound: Bound) -> ApproximateDP:
        """Use up ``times`` releases as :meth:`use` does, and return the (epsilon, delta) of one."""
        return self._use(ApproximateDP, "with a delta", mechanism, times, bound)

    def cancel(self) -> None:
        """Give up the remaining releases, because released numbers show that they are not needed."""
        with PAYMENTS:
            self._unused = Fraction(0)

    def _use(
        self, kind: type[_Measure], released: str, mechanism: Mechanism, times: int | Fraction, bound: Bound | None
    ) -> _Measure:
        charge, measure = self._charge, self._charge.measure
        if not isinstance(measure, kind):
            raise UnpaidReleaseError(f"{charge.description}: charged in {measure.name}, but released {released}.")
        if mechanism is not charge.mechanism:
            raise UnpaidReleaseError(
                f"{charge.description}: charged for {charge.mechanism}, but released by {mechanism}."
            )
        if bound is not None and bound != charge.sensitivity.calibration:
            raise UnpaidReleaseError(
                f"{charge.description}: charged for {charge.sensitivity}, but released for {bound}."
            )
        is_exact = isinstance(times, Rational) and (kind is GaussianDP or times.denominator == 1)
        with PAYMENTS:
            if not (is_exact and 0 < times <= self._unused):
                raise UnpaidReleaseError(
                    f"{charge.description}: {times} releases requested, but only {self._unused} of "
                    f"{charge.n_releases} charged releases are left."
                )
            self._unused -= times
        return measure

    def __reduce__(self) -> NoReturn:
        raise TypeError("A receipt cannot be copied or pickled: a copy would pay for the same releases again.")


def check_receipt(receipt: object) -> None:
    """Refuse anything that is not a receipt, even if it has the same methods."""
    if type(receipt) is not Receipt:
        raise UnpaidReleaseError(f"A release needs a receipt from an account, got {type(receipt).__name__}.")


_COSTS = ("epsilon", "mu_squared", "delta", "strict_epsilon", "strict_mu_squared", "strict_delta")
_TYPES_OF_CHARGE: dict[str, type] = {
    "kind": str,
    "mechanism": str,
    "bound": dict,
    "measure": str,
    **dict.fromkeys(_COSTS, str),
    "times": int,
    "composition": str,
    "level": int,
    "n": int,
}
_OPTIONAL_IN_CHARGE = {"level", "n", *_COSTS}
_TYPES_OF_BOUND: dict[str, type] = {"kind": str, "n": int, "units": int}


def _measure_to_dict(measure: Measure, prefix: str) -> dict[str, str]:
    return {prefix + field.name: exact_text(getattr(measure, field.name)) for field in fields(measure)}


def _measure_from_dict(data: dict[str, Any], prefix: str, where: str) -> Measure | None:
    """Return the measure whose fields a charge contains, or None if there are none."""
    names = ("epsilon", "mu_squared", "delta")
    costs = {n: epsilon_from_text(data[prefix + n], f"{prefix}{n} of {where}") for n in names if prefix + n in data}
    kinds: dict[tuple[str, ...], Callable[..., Measure]] = {
        ("epsilon",): PureEpsilon,
        ("mu_squared",): GaussianDP,
        ("epsilon", "delta"): ApproximateDP,
    }
    if costs and tuple(costs) not in kinds:
        raise ValueError(f"{where} has costs of two measures.")
    return kinds[tuple(costs)](**costs) if costs else None


def check_fields(data: Any, types: dict[str, type], where: str, optional: Collection[str] = ()) -> None:
    """Refuse data unless they are an object with exactly these fields, except optional ones, of these types."""
    if not isinstance(data, dict):
        raise ValueError(f"{where} is not an object.")
    if data.keys() - types.keys():
        raise ValueError(f"{where} has unknown fields.")
    for name, expected in types.items():
        if not (name in optional and name not in data) and type(data.get(name)) is not expected:
            raise ValueError(f"{name} of {where} is missing or of the wrong type.")


_MAX_NUMBER = 1 << 128  # of a bound in a file
_CALIBRATIONS = {
    BoundKind.L1_OF_ERRORS: BoundKind.L1,
    BoundKind.L1_BESIDE_LEAF_COUNTS: BoundKind.L1,
    BoundKind.L1_BESIDE_COUNTS: BoundKind.L1,
    BoundKind.L1_BESIDE_ZEROS: BoundKind.L1,
    BoundKind.COST_RANGE_IN_UNITS: BoundKind.COST_RANGE,
    BoundKind.COST_RANGE_OF_ERRORS: BoundKind.COST_RANGE,
    BoundKind.FITS_OR_CHOICE: BoundKind.FITS,
}
