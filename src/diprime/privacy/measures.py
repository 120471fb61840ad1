"""Measures of privacy loss, which add up exactly over releases about the same records.

An epsilon is a fraction, or infinity where there is no noise. Floats are converted through their decimal text, so 0.1
is exactly one tenth and ten of them are exactly one.
"""

from __future__ import annotations

import math
import numbers
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

Epsilon = Fraction | float  # a fraction, or math.inf

_FRACTION = re.compile(r"[0-9]{1,1000}(/[1-9][0-9]{0,999})?")


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

    epsilon: Epsilon

    def __post_init__(self) -> None:
        exact = Fraction(0) if self.epsilon == 0 else exact_epsilon(self.epsilon)
        object.__setattr__(self, "epsilon", exact)

    def times(self, n: int) -> Epsilon:
        """Return the cost of n such releases; no releases cost nothing, even at epsilon = inf."""
        return self.epsilon * n if n else Fraction(0)


def exact_epsilon(epsilon: object) -> Epsilon:
    """Return a positive number as the fraction that its digits say, or as math.inf.

    Examples
    --------
    >>> exact_epsilon(0.1)
    Fraction(1, 10)
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, (numbers.Real, Decimal)):
        raise TypeError(f"epsilon must be a positive number, got {epsilon!r}.")
    is_nan = epsilon != epsilon  # noqa: PLR0124 -- math.isnan overflows on large fractions
    if is_nan or epsilon <= 0:
        raise ValueError(f"epsilon must be a positive number, got {epsilon!r}; infinity means no privacy.")
    if isinstance(epsilon, numbers.Rational):
        return Fraction(int(epsilon.numerator), int(epsilon.denominator))
    return math.inf if math.isinf(epsilon) else Fraction(str(epsilon))


def share_of(epsilon: Epsilon, share: Fraction) -> Epsilon:
    """Return a share of epsilon; a share of infinity is infinity, unless the share is zero."""
    if isinstance(epsilon, Fraction):
        return epsilon * share
    return math.inf if share else Fraction(0)


def rounded_text(epsilon: Epsilon) -> str:
    """Return epsilon with six digits, for display."""
    return f"{float(epsilon):.6g}" if isinstance(epsilon, Fraction) else "inf"


def exact_text(epsilon: Epsilon) -> str:
    """Return epsilon as text that :func:`epsilon_from_text` reads back exactly."""
    return str(epsilon) if isinstance(epsilon, Fraction) else "inf"


def epsilon_from_text(text: str, where: str) -> Epsilon:
    """Return the epsilon that :func:`exact_text` wrote.

    No other text is accepted: `Fraction` also reads 1e999999999, which exhausts memory.
    """
    if text == "inf":
        return math.inf
    if not _FRACTION.fullmatch(text):
        raise ValueError(f"{where} is not a fraction of whole numbers.")
    return Fraction(text)
