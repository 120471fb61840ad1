"""Released numbers as people read them: every place that shows one rounds it alike."""

from __future__ import annotations

from decimal import Decimal

NUMBER_DIGITS = 4
NOISE_DIGITS = 2


def share_text(share: float) -> str:
    """Return a share in percent.

    Examples
    --------
    >>> share_text(0.12345), share_text(1.0)
    ('12.3 %', '100.0 %')
    """
    return f"{100 * share:.1f} %"


def number_text(value: float, digits: int = NUMBER_DIGITS) -> str:
    """Return a number with a few significant digits, without an exponent.

    Examples
    --------
    >>> number_text(1234567.0), number_text(0.00123456), number_text(-2.0)
    ('1,235,000', '0.001235', '-2')
    """
    rounded = Decimal(f"{value:.{digits}g}").normalize()
    return "0" if not rounded else f"{rounded:,f}"


def count_text(count: float, noise: float, unit: str) -> str:
    """Return a released number of records or persons, and the standard deviation of its noise.

    Examples
    --------
    >>> count_text(1234.4, 2.828, "record")
    '1,234 ± 2.8 records'
    """
    return f"{round(count):,} ± {number_text(noise, NOISE_DIGITS)} {unit}s"
