"""Numbers on the command line, which must not become infinite or zero without a word."""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation

import typer


def read_number(text: object) -> float:
    """Return the number that a text says; refuse a text whose number is too large or too small for a float.

    Examples
    --------
    >>> read_number("1e-3"), read_number("inf")
    (0.001, inf)
    """
    try:
        exact = Decimal(str(text))
    except InvalidOperation:
        raise typer.BadParameter(f"{text!r} is not a number") from None
    if exact.is_nan():  # a signaling one cannot become a float
        raise typer.BadParameter(f"{text!r} is not a number")
    number = float(exact)
    if exact.is_finite() and (math.isinf(number) or (number == 0) is not (exact == 0)):
        raise typer.BadParameter(f"{text!r} is too large or too small; write inf for infinity")
    return number
