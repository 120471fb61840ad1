"""Measures of privacy loss, which compose exactly.

The cost of a release is a pure epsilon, the μ² of Gaussian differential privacy, or an (epsilon, delta). All are
fractions, or infinity if there is no noise. Floats are converted through their decimal text, so 0.1 is exactly one
tenth and ten of them are exactly one.
"""

from __future__ import annotations

import math
import numbers
import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from typing import ClassVar

Epsilon = Fraction | float  # a fraction or math.inf; also the type of μ²

MAX_EPSILON = 10**200
"""Largest finite epsilon; the smallest is its inverse. Numbers computed from these fit into float64."""

_DIGITS_LEFT = 4
_OUT_OF_RANGE = "epsilon must be a number from 1e-200 to 1e200, or infinity for a fit without privacy."
_MAX_DECIMAL_EXPONENT = 1000  # the Fraction of a short Decimal such as 1e999999999 does not fit into memory
_MAX_EXPONENT = 1386  # e^1386 < 2^2000
_FRACTION = re.compile(r"[0-9]{1,1000}(/[1-9][0-9]{0,999})?")


@dataclass(frozen=True)
class PrivacyLoss:
    """Cost of several releases: the sums of their epsilons, of their μ² and of their deltas.

    ``delta`` does not include Gaussian releases, whose delta follows from μ and an epsilon.
    """

    epsilon: Epsilon = Fraction(0)  # sum of the epsilons of pure and of (epsilon, delta) releases
    mu_squared: Epsilon = Fraction(0)  # sum of the μ² of Gaussian releases
    delta: Fraction = Fraction(0)

    @property
    def parts(self) -> tuple[Epsilon, Epsilon, Fraction]:
        """The sums of the epsilons, of the μ² and of the deltas."""
        return self.epsilon, self.mu_squared, self.delta

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        return PrivacyLoss(self.epsilon + other.epsilon, self.mu_squared + other.mu_squared, self.delta + other.delta)

    def for_units(self, n_records: int) -> PrivacyLoss:
        """Return a bound of the loss if several records change. Epsilon and μ grow in proportion to their number.

        A release that is (epsilon, delta)-DP for one record is, for k records, k·epsilon-DP with delta times
        1 + e^epsilon + ... + e^((k-1)·epsilon), which is rounded up here.
        """
        more = [exp_upper_bound(self.epsilon * i) for i in range(1, n_records)] if self.delta else []
        steps = sum(more, Fraction(1))
        return PrivacyLoss(
            self.epsilon * n_records, self.mu_squared * n_records**2, min(self.delta * steps, Fraction(1))
        )

    def or_larger(self, other: PrivacyLoss) -> PrivacyLoss:
        """Return the maximum of each sum, which bounds both losses."""
        return PrivacyLoss(
            max(self.epsilon, other.epsilon),
            max(self.mu_squared, other.mu_squared),
            max(self.delta, other.delta),
        )


class _Additive:
    """Measure whose costs add up over releases about the same records."""

    @property
    def cost(self) -> Epsilon:
        """Cost of one release."""
        raise NotImplementedError

    def times(self, n: int) -> Epsilon:
        """Return the cost of n releases. Zero releases cost nothing, even if the cost of one is infinite."""
        return self.cost * n if n else Fraction(0)


@dataclass(frozen=True)
class PureEpsilon(_Additive):
    """Pure differential privacy, whose epsilons add up.

    ``epsilon``: cost of one release, converted by :func:`exact_epsilon`. Negative numbers and NaN raise an error,
    because a budget could not refuse them.
    """

    name: ClassVar[str] = "pure epsilon"
    symbol: ClassVar[str] = "epsilon"

    epsilon: Epsilon

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _exact_cost(self.epsilon))

    @property
    def cost(self) -> Epsilon:
        """Epsilon of one release."""
        return self.epsilon

    def loss(self, n: int) -> PrivacyLoss:
        """Return the loss of n releases."""
        return PrivacyLoss(epsilon=self.times(n))


@dataclass(frozen=True)
class GaussianDP(_Additive):
    """μ-Gaussian differential privacy (Dong, Roth and Su 2019), whose μ² add up.

    Distinguishing neighbouring data sets by the release is at least as hard as distinguishing N(0, 1) from N(μ, 1) by
    one sample. :mod:`~diprime.privacy.gaussian_dp` converts μ to epsilon and delta.
    """

    name: ClassVar[str] = "Gaussian"
    symbol: ClassVar[str] = "mu^2"

    mu_squared: Epsilon  # cost of one release, converted as an epsilon is

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu_squared", _exact_cost(self.mu_squared))

    @property
    def cost(self) -> Epsilon:
        """μ² of one release."""
        return self.mu_squared

    def loss(self, n: int) -> PrivacyLoss:
        """Return the loss of n releases."""
        return PrivacyLoss(mu_squared=self.times(n))


@dataclass(frozen=True)
class ApproximateDP(_Additive):
    """(epsilon, delta)-differential privacy, whose epsilons and deltas add up."""

    name: ClassVar[str] = "approximate"
    symbol: ClassVar[str] = "epsilon"

    epsilon: Epsilon  # epsilon of one release, converted by exact_epsilon
    delta: Fraction  # delta of one release, from 0 to below 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _exact_cost(self.epsilon))
        object.__setattr__(self, "delta", exact_delta(self.delta))

    @property
    def cost(self) -> Epsilon:
        """Epsilon of one release."""
        return self.epsilon

    def loss(self, n: int) -> PrivacyLoss:
        """Return the loss of n releases."""
        return PrivacyLoss(epsilon=self.times(n), delta=self.delta * n)


Measure = PureEpsilon | GaussianDP | ApproximateDP


def exp_upper_bound(x: Epsilon) -> Fraction:
    """Return an upper bound of e^x, or 2^2000 if x exceeds `_MAX_EXPONENT`."""
    if x > _MAX_EXPONENT:
        return Fraction(1 << 2000)
    with localcontext(Context(prec=40, rounding=ROUND_CEILING)):
        exponent = Decimal(Fraction(x).numerator) / Decimal(Fraction(x).denominator)
        return Fraction(exponent.exp().next_plus())  # exp is correctly rounded, so the next number is above e^x


def _exact_cost(cost: Epsilon) -> Epsilon:
    return Fraction(0) if cost == 0 else _exact_positive(cost)


def exact_epsilon(epsilon: object) -> Epsilon:
    """Return a positive number as the fraction that its digits denote, or as math.inf.

    Numbers beyond `MAX_EPSILON` are refused, because float arithmetic would silently turn them into infinity.
    """
    exact = _exact_positive(epsilon)
    if isinstance(exact, Fraction) and not Fraction(1, MAX_EPSILON) <= exact <= MAX_EPSILON:
        raise ValueError(_OUT_OF_RANGE)
    return exact


def _exact_positive(number: object) -> Epsilon:
    """Return a positive number of any size as the fraction that its digits denote, or as math.inf."""
    if isinstance(number, bool) or not isinstance(number, (numbers.Real, Decimal)):
        raise TypeError(f"epsilon must be a positive number, got {number!r}.")
    is_nan = number != number  # noqa: PLR0124 -- math.isnan overflows on large fractions
    if is_nan or number <= 0:
        raise ValueError(f"epsilon must be a positive number, or infinity for a fit without privacy, got {number!r}.")
    if isinstance(number, numbers.Rational):
        return Fraction(int(number.numerator), int(number.denominator))
    if number == math.inf:  # math.isinf converts to a float first, which makes large numbers infinite
        return math.inf
    if _is_beyond_memory(number):
        raise ValueError(_OUT_OF_RANGE)
    return Fraction(str(number))


def _is_beyond_memory(number: object) -> bool:
    return isinstance(number, Decimal) and abs(number.adjusted()) > _MAX_DECIMAL_EXPONENT


def exact_delta(delta: object) -> Fraction:
    """Return a number of at least 0 and less than 1 as the fraction that its digits denote."""
    if isinstance(delta, bool) or not isinstance(delta, (numbers.Real, Decimal)):
        raise TypeError(f"delta must be a number from 0 to below 1, got {delta!r}.")
    is_nan = delta != delta  # noqa: PLR0124 -- Decimal's NaN cannot be compared otherwise
    if is_nan or delta < 0 or not delta < 1 or _is_beyond_memory(delta):
        raise ValueError(f"delta must be a number from 0 to below 1, got {delta!r}.")
    if isinstance(delta, numbers.Rational):
        return Fraction(int(delta.numerator), int(delta.denominator))
    return Fraction(str(delta))


def share_of(epsilon: Epsilon, share: Fraction) -> Epsilon:
    """Return a share of epsilon. A share of infinity is infinity, unless the share is zero."""
    if isinstance(epsilon, Fraction):
        return epsilon * share
    return math.inf if share else Fraction(0)


def rounded_text(epsilon: Epsilon, digits: int = 6) -> str:
    """Return a cost for display, rounded up, because a smaller number would overstate the guarantee."""
    return "inf" if epsilon == math.inf else f"{float(_rounded(epsilon, digits, ROUND_CEILING)):.{digits}g}"


def rounded_down_text(epsilon: Epsilon) -> str:
    """Return a remaining epsilon for display, rounded down to four digits."""
    return "inf" if epsilon == math.inf else f"{_rounded(epsilon, _DIGITS_LEFT, ROUND_FLOOR).normalize():f}"


def _rounded(cost: Epsilon, digits: int, rounding: str) -> Decimal:
    """Return a finite cost as a decimal with at most the given number of significant digits."""
    number = Fraction(cost)
    return Context(prec=digits, rounding=rounding).divide(Decimal(number.numerator), Decimal(number.denominator))


def exact_text(epsilon: Epsilon) -> str:
    """Return epsilon as text that :func:`epsilon_from_text` reads back exactly."""
    return str(epsilon) if isinstance(epsilon, Fraction) else "inf"


def loss_text(loss: PrivacyLoss) -> str:
    """Return a loss for display."""
    costs = [f"epsilon = {rounded_text(loss.epsilon)}"] if loss.epsilon or not loss.mu_squared else []
    if loss.mu_squared:
        costs.append(f"mu^2 = {rounded_text(loss.mu_squared)}")
    if loss.delta:
        costs.append(f"delta = {rounded_text(loss.delta)}")
    return ", ".join(costs)


def epsilon_from_text(text: str, where: str) -> Epsilon:
    """Return the epsilon written by :func:`exact_text`, and refuse any other text.

    `Fraction` also reads 1e999999999, which exhausts memory.
    """
    if text == "inf":
        return math.inf
    if not _FRACTION.fullmatch(text):
        raise ValueError(f"{where} is not a fraction of integers.")
    return Fraction(text)
