"""What a candidate split costs, and how far one record can change it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from diprime.domain.target_layout import TargetLayout
from diprime.kernels import scoring
from diprime.privacy.measures import Epsilon

MAX_UNITS = 1 << 10
MIN_UNITS = 1 << 5
MAX_UNITS_PER_EPSILON = 1 << 12
MEDIAN_RANGE = 2
UNBOUNDED_SHORTFALL = 1 << 32
SHORTFALL_LOG_ODDS = 5


@dataclass(frozen=True)
class Cost:
    """The cost of a candidate: ``balance·max(0, enough - min(n_L, n_R)) + floor(units·impurity)``.

    Terms common to all candidates are left out. The impurity of a child of n rows with class shares p is ½·n·Σ f(p).
    With ``linear_tail = 0``, f(p) = p - p² and the impurity is the sum of squared errors. In general f has slope 1 up
    to p = linear_tail and -1 from p = 1 - linear_tail on, and is a parabola between: more curvature near ½ at equal
    sensitivity, none near 0 and 1.

    Attributes
    ----------
    units : int
        The resolution of the impurity: one record changes it by at most so many steps.
    balance : int
        The penalty, in units, for each row that the smaller child falls short.
    enough : int
        The number of rows from which on a child falls short of none.
    linear_tail : Fraction
        The share at either end where the impurity is linear: a multiple of 1/64 below one half.
    """

    units: int
    balance: int
    enough: int = UNBOUNDED_SHORTFALL
    linear_tail: Fraction = Fraction(0)

    @property
    def range(self) -> int:
        """The length of the interval that holds every cost's change when one record is added.

        The impurity only grows, by at most 1 (docs/privacy.md, section 3). The floor adds less than one at either end,
        and a float error below a quarter unit (kernels/scoring.py) does not reach the next integer: units + 2. The
        shortfall of the smaller child only falls, by at most one: balance.
        """
        return (self.units + 2 if self.units else 0) + self.balance

    @classmethod
    def joint(cls, epsilon: Epsilon, balance: Fraction, linear_tail: Fraction) -> Cost:
        """Return the cost of one selection over all features, in the finest units that its weights can tell apart.

        The weights of a table stop falling near range/epsilon, so the units are coarser where epsilon is small. A child
        has enough rows where a shortfall of that many would be chosen with odds of e^-SHORTFALL_LOG_ODDS at most; a
        larger penalty would only compete with the impurity. All of it depends on public numbers only.
        """
        units = MAX_UNITS
        while units > MIN_UNITS and units > MAX_UNITS_PER_EPSILON * epsilon:
            units //= 2
        cost = cls(units, round(balance * units), 0, linear_tail)
        if cost.balance == 0 or epsilon == math.inf:
            return cost
        enough = math.ceil(SHORTFALL_LOG_ODDS * cost.range / (cost.balance * epsilon))
        return replace(cost, enough=min(enough, UNBOUNDED_SHORTFALL))

    def rule(self, layout: TargetLayout) -> Any:
        """Return this cost as a ``CostRule`` of the kernels."""
        return scoring.CostRule(
            scale=self.units * layout.column_weight / layout.units,
            whole=float(layout.units),
            linear_tail=float(self.linear_tail),
            balance=self.balance,
            enough=self.enough,
        )


# |n_L - n_R|, up to a term that all candidates share: the least cost is at the median.
MEDIAN_COST = Cost(units=0, balance=2)
