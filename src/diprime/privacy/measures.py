"""Measures of privacy loss, which add up exactly over releases about the same records.

A release has one of three measures: pure epsilon, the μ of Gaussian differential privacy, of which the squares add up,
or (epsilon, delta). All are fractions, or infinity where there is no noise. Floats are converted through their decimal
text, so 0.1 is exactly one tenth and ten of them are exactly one.
"""

from __future__ import annotations

import math
import numbers
import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from typing import ClassVar

Epsilon = Fraction | float  # a fraction, or math.inf; so is the square of μ

MAX_EPSILON = 10**200
"""The largest finite epsilon; the smallest one is one over it. Float64 holds all that is computed from these."""

_DIGITS_LEFT = 4
_OUT_OF_RANGE = "epsilon must be a number from 1e-200 to 1e200, or infinity, which means no privacy."
_MAX_DECIMAL_EXPONENT = 1000  # a Decimal of few digits may stand for a number that no memory holds
_MAX_EXPONENT = 1386  # e^1386 < 2^2000
_FRACTION = re.compile(r"[0-9]{1,1000}(/[1-9][0-9]{0,999})?")


@dataclass(frozen=True)
class PrivacyLoss:
    """What several releases cost together: the sums of their epsilons, of their μ² and of their deltas.

    Attributes
    ----------
    epsilon : Fraction or inf
        The sum of the epsilons of pure and of (epsilon, delta) releases.
    mu_squared : Fraction or inf
        The sum of the μ² of Gaussian releases.
    delta : Fraction
        The sum of the deltas of (epsilon, delta) releases. That of Gaussian releases is not part of it: it follows from
        μ and an epsilon.

    Examples
    --------
    >>> PureEpsilon(Fraction(1)).loss(2) + GaussianDP(Fraction(1, 2)).loss(3)
    PrivacyLoss(epsilon=Fraction(2, 1), mu_squared=Fraction(3, 2), delta=Fraction(0, 1))
    """

    epsilon: Epsilon = Fraction(0)
    mu_squared: Epsilon = Fraction(0)
    delta: Fraction = Fraction(0)

    @property
    def parts(self) -> tuple[Epsilon, Epsilon, Fraction]:
        """The three sums."""
        return self.epsilon, self.mu_squared, self.delta

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        return PrivacyLoss(self.epsilon + other.epsilon, self.mu_squared + other.mu_squared, self.delta + other.delta)

    def of_group(self, n_records: int) -> PrivacyLoss:
        """Return what the releases cost if as many records change: epsilon grows with their number, and so does μ.

        What is (epsilon, delta)-DP for one record is so for k records with k·epsilon and delta times
        1 + e^epsilon + ... + e^((k-1)·epsilon), which is bounded from above here.
        """
        more = [exp_upper_bound(self.epsilon * i) for i in range(1, n_records)] if self.delta else []
        steps = sum(more, Fraction(1))
        return PrivacyLoss(
            self.epsilon * n_records, self.mu_squared * n_records**2, min(self.delta * steps, Fraction(1))
        )

    def or_larger(self, other: PrivacyLoss) -> PrivacyLoss:
        """Return the larger of each sum: a bound of both losses, and of the loss of whoever has one of them."""
        return PrivacyLoss(
            max(self.epsilon, other.epsilon),
            max(self.mu_squared, other.mu_squared),
            max(self.delta, other.delta),
        )


@dataclass(frozen=True)
class PureEpsilon:
    """Pure differential privacy: the epsilons of releases about the same records add up.

    Attributes
    ----------
    epsilon : Fraction or inf
        The cost of one release. Other numbers are converted as :func:`exact_epsilon` does; negative numbers and NaN,
        which a budget could not refuse, are errors.
    """

    name: ClassVar[str] = "pure epsilon"
    symbol: ClassVar[str] = "epsilon"

    epsilon: Epsilon

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _exact_cost(self.epsilon))

    @property
    def cost(self) -> Epsilon:
        """The number that adds up: epsilon."""
        return self.epsilon

    def times(self, n: int) -> Epsilon:
        """Return the cost of n such releases; no releases cost nothing, even at epsilon = inf."""
        return self.epsilon * n if n else Fraction(0)

    def loss(self, n: int) -> PrivacyLoss:
        """Return the loss of n such releases."""
        return PrivacyLoss(epsilon=self.times(n))


@dataclass(frozen=True)
class GaussianDP:
    """μ-Gaussian differential privacy (Dong, Roth and Su 2019): the μ² of releases about the same records add up.

    Telling neighbours apart by the release is at least as hard as telling N(0, 1) from N(μ, 1) by one draw.
    :mod:`~diprime.privacy.gaussian_dp` has the epsilon and delta that follow.

    Attributes
    ----------
    mu_squared : Fraction or inf
        The cost of one release. Other numbers are converted as epsilons are.
    """

    name: ClassVar[str] = "Gaussian"
    symbol: ClassVar[str] = "mu^2"

    mu_squared: Epsilon

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu_squared", _exact_cost(self.mu_squared))

    @property
    def cost(self) -> Epsilon:
        """The number that adds up: μ²."""
        return self.mu_squared

    def times(self, n: int) -> Epsilon:
        """Return the cost of n such releases; no releases cost nothing, even at μ = inf."""
        return self.mu_squared * n if n else Fraction(0)

    def loss(self, n: int) -> PrivacyLoss:
        """Return the loss of n such releases."""
        return PrivacyLoss(mu_squared=self.times(n))


@dataclass(frozen=True)
class ApproximateDP:
    """(epsilon, delta)-differential privacy: the epsilons and the deltas of releases about the same records add up.

    Attributes
    ----------
    epsilon : Fraction or inf
        The epsilon of one release. Other numbers are converted as epsilons are.
    delta : Fraction
        The delta of one release, from 0 to below 1.
    """

    name: ClassVar[str] = "approximate"
    symbol: ClassVar[str] = "epsilon"

    epsilon: Epsilon
    delta: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _exact_cost(self.epsilon))
        object.__setattr__(self, "delta", exact_delta(self.delta))

    @property
    def cost(self) -> Epsilon:
        """The epsilon, which adds up; so does the delta."""
        return self.epsilon

    def times(self, n: int) -> Epsilon:
        """Return the epsilon of n such releases; no releases cost nothing, even at epsilon = inf."""
        return self.epsilon * n if n else Fraction(0)

    def loss(self, n: int) -> PrivacyLoss:
        """Return the loss of n such releases."""
        return PrivacyLoss(epsilon=self.times(n), delta=self.delta * n)


Measure = PureEpsilon | GaussianDP | ApproximateDP


def exp_upper_bound(x: Epsilon) -> Fraction:
    """Return a fraction that is at least e^x, or 2^2000 where x is larger than its logarithm."""
    if x > _MAX_EXPONENT:
        return Fraction(1 << 2000)
    with localcontext(Context(prec=40, rounding=ROUND_CEILING)):
        exponent = Decimal(Fraction(x).numerator) / Decimal(Fraction(x).denominator)
        return Fraction(exponent.exp().next_plus())  # correctly rounded, so that the next number is above


def _exact_cost(cost: Epsilon) -> Epsilon:
    return Fraction(0) if cost == 0 else _exact_positive(cost)


def exact_epsilon(epsilon: object) -> Epsilon:
    """Return a positive number as the fraction that its digits say, or as math.inf.

    Numbers beyond `MAX_EPSILON`, which would not be private in any sense, are refused: they would silently become
    infinite in float arithmetic.

    Examples
    --------
    >>> exact_epsilon(0.1)
    Fraction(1, 10)
    """
    exact = _exact_positive(epsilon)
    if isinstance(exact, Fraction) and not Fraction(1, MAX_EPSILON) <= exact <= MAX_EPSILON:
        raise ValueError(_OUT_OF_RANGE)
    return exact


def _exact_positive(number: object) -> Epsilon:
    """Return a positive number as the fraction that its digits say, or as math.inf, whatever its size."""
    if isinstance(number, bool) or not isinstance(number, (numbers.Real, Decimal)):
        raise TypeError(f"epsilon must be a positive number, got {number!r}.")
    is_nan = number != number  # noqa: PLR0124 -- math.isnan overflows on large fractions
    if is_nan or number <= 0:
        raise ValueError(f"epsilon must be a positive number, got {number!r}; infinity means no privacy.")
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
    """Return a number from 0 to below 1 as the fraction that its digits say.

    Examples
    --------
    >>> exact_delta(1e-6)
    Fraction(1, 1000000)
    """
    if isinstance(delta, bool) or not isinstance(delta, (numbers.Real, Decimal)):
        raise TypeError(f"delta must be a number from 0 to below 1, got {delta!r}.")
    is_nan = delta != delta  # noqa: PLR0124 -- Decimal's NaN cannot be compared otherwise
    if is_nan or delta < 0 or not delta < 1 or _is_beyond_memory(delta):
        raise ValueError(f"delta must be a number from 0 to below 1, got {delta!r}.")
    if isinstance(delta, numbers.Rational):
        return Fraction(int(delta.numerator), int(delta.denominator))
    return Fraction(str(delta))


def share_of(epsilon: Epsilon, share: Fraction) -> Epsilon:
    """Return a share of epsilon; a share of infinity is infinity, unless the share is zero."""
    if isinstance(epsilon, Fraction):
        return epsilon * share
    return math.inf if share else Fraction(0)


def rounded_text(epsilon: Epsilon, digits: int = 6) -> str:
    """Return epsilon, or another cost, for display: rounded up, for a smaller one would promise too much.

    Examples
    --------
    >>> rounded_text(Fraction(1, 3)), rounded_text(Fraction(1, 10))
    ('0.333334', '0.1')
    """
    return "inf" if epsilon == math.inf else f"{float(_rounded(epsilon, digits, ROUND_CEILING)):.{digits}g}"


def rounded_down_text(epsilon: Epsilon) -> str:
    """Return epsilon with four digits and rounded down, for display of what is left.

    Examples
    --------
    >>> rounded_down_text(Fraction(2, 3))
    '0.6666'
    """
    return "inf" if epsilon == math.inf else f"{_rounded(epsilon, _DIGITS_LEFT, ROUND_FLOOR).normalize():f}"


def _rounded(cost: Epsilon, digits: int, rounding: str) -> Decimal:
    """Return a finite cost with so many digits; one that has no more of them is exact."""
    number = Fraction(cost)
    return Context(prec=digits, rounding=rounding).divide(Decimal(number.numerator), Decimal(number.denominator))


def exact_text(epsilon: Epsilon) -> str:
    """Return epsilon as text that :func:`epsilon_from_text` reads back exactly."""
    return str(epsilon) if isinstance(epsilon, Fraction) else "inf"


def loss_text(loss: PrivacyLoss) -> str:
    """Return a loss in words, for display."""
    costs = [f"epsilon = {rounded_text(loss.epsilon)}"] if loss.epsilon or not loss.mu_squared else []
    if loss.mu_squared:
        costs.append(f"mu^2 = {rounded_text(loss.mu_squared)}")
    if loss.delta:
        costs.append(f"delta = {rounded_text(loss.delta)}")
    return ", ".join(costs)


def epsilon_from_text(text: str, where: str) -> Epsilon:
    """Return the epsilon that :func:`exact_text` wrote.

    No other text is accepted: `Fraction` also reads 1e999999999, which exhausts memory.
    """
    if text == "inf":
        return math.inf
    if not _FRACTION.fullmatch(text):
        raise ValueError(f"{where} is not a fraction of whole numbers.")
    return Fraction(text)
