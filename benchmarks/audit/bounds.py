"""Lower confidence bounds of privacy parameters, from how often an event was seen on either side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtri


def lower_bound(seen: Any, n: Any, error: float) -> Any:
    """Return what a probability is at least, but for a chance of ``error``, if an event was seen so many times of n.

    It is the one-sided bound of Clopper and Pearson, which is exact for every n.

    Examples
    --------
    >>> round(float(lower_bound(50, 100, 0.025)), 3)
    0.398
    """
    seen, n = np.asarray(seen), np.asarray(n)
    with np.errstate(all="ignore"):
        return np.where(seen > 0, betaincinv(np.maximum(seen, 1), n - seen + 1.0, error), 0.0)


def upper_bound(seen: Any, n: Any, error: float) -> Any:
    """Return what a probability is at most, but for a chance of ``error``."""
    return 1.0 - lower_bound(np.asarray(n) - seen, n, error)


@dataclass(frozen=True)
class Seen:
    """How often an event was seen: on the side on which it is likelier, and on the other.

    Attributes
    ----------
    likelier, other : int or array
        How often it was seen.
    n_likelier, n_other : int
        In how many fits.
    """

    likelier: Any
    n_likelier: int
    other: Any
    n_other: int

    def _bounds(self, error: float) -> tuple[Any, Any]:
        """Return a lower bound of the one probability and an upper bound of the other; each may fail half as often."""
        return (
            lower_bound(self.likelier, self.n_likelier, error / 2),
            upper_bound(self.other, self.n_other, error / 2),
        )

    def epsilon(self, error: float, delta: float = 0.0) -> Any:
        """Return a lower bound of ε: no (ε, δ)-DP release makes an event more than e^ε times as likely, and δ more.

        Examples
        --------
        >>> round(float(Seen(9_000, 10_000, 1_000, 10_000).epsilon(1e-3)), 2)
        2.09
        """
        p, q = self._bounds(error)
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(np.maximum(p - delta, 0.0)) - np.log(q), 0.0)

    def mu(self, error: float) -> Any:
        """Return a lower bound of μ: a test of μ-Gaussian DP with error rates α and β has Φ⁻¹(1 − α) − Φ⁻¹(β) ≤ μ."""
        p, q = self._bounds(error)
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(np.maximum(ndtri(p) - ndtri(q), 0.0), nan=0.0, posinf=0.0, neginf=0.0)

    def delta(self, epsilon: float, error: float) -> Any:
        """Return a lower bound of the δ that an (ε, δ)-DP release has at this ε."""
        p, q = self._bounds(error)
        return np.maximum(p - np.exp(epsilon) * q, 0.0)
