"""Measures of privacy loss: exact amounts of epsilon, their shares and their texts."""

from __future__ import annotations

import math
import numbers
import re
from decimal import Decimal
from fractions import Fraction

Epsilon = Fraction | float  # a fraction, or math.inf
_FRACTION = re.compile(r"[0-9]{1,1000}(/[1-9][0-9]{0,999})?")


def exact_epsilon(epsilon: object) -> Epsilon:
    """Return epsilon as the fraction its digits say (0.1 is one tenth), or math.inf; refuse anything else.

    Examples
    --------
    >>> exact_epsilon(0.1)
    Fraction(1, 10)
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, (numbers.Real, Decimal)):
        raise TypeError(f"epsilon must be a positive number, got {epsilon!r}.")
    if epsilon != epsilon or epsilon <= 0:
        raise ValueError(f"epsilon must be a positive number, got {epsilon!r}; infinity means no privacy.")
    if isinstance(epsilon, numbers.Rational):
        return Fraction(int(epsilon.numerator), int(epsilon.denominator))
    return math.inf if math.isinf(epsilon) else Fraction(str(epsilon))


def share_of(epsilon: Epsilon, share: Fraction) -> Epsilon:
    """Return a share of epsilon; every share of infinity, nothing excepted, is infinity."""
    if isinstance(epsilon, Fraction):
        return epsilon * share
    return math.inf if share else Fraction(0)


def _text(epsilon: Epsilon) -> str:
    if not isinstance(epsilon, Fraction):
        return "inf"
    return f"{float(epsilon):.6g}"


def exact_text(epsilon: Epsilon) -> str:
    """Return epsilon as text that :func:`epsilon_from_text` reads back exactly."""
    return str(epsilon) if isinstance(epsilon, Fraction) else "inf"


def epsilon_from_text(text: str, where: str) -> Epsilon:
    """Read what `exact_text` writes and nothing else: `Fraction` would also take 1e999999999, and never return."""
    if text == "inf":
        return math.inf
    if not _FRACTION.fullmatch(text):
        raise ValueError(f"{where} is not a fraction of whole numbers.")
    return Fraction(text)
