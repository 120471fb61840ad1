"""What a candidate split costs, and how far one record can change it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from diprime.domain.target_layout import TargetLayout
from diprime.privacy.measures import Epsilon

MAX_UNITS = 1 << 10
RANGE_PER_EPSILON = 1 << 12
MEDIAN_RANGE = 2
UNBOUNDED_SHORTFALL = 1 << 32
SHORTFALL_LOG_ODDS = 5


@dataclass(frozen=True)
class Cost:
    """What a candidate costs: ``balance·max(0, enough - min(n_L, n_R)) + floor(units·impurity)``.

    Terms common to all candidates are left out. The impurity of a child of n rows with class shares p is ½·n·Σ f(p),
    where f(p) = p - p² if ``ends`` is 0, which makes it the sum of squared errors. In general f has slope 1 up to
    p = ends and -1 from p = 1 - ends on, and is a parabola between: more curved where a decision is open, for the same
    price, and blind where it is not.

    Attributes
    ----------
    units : int
        Steps of the impurity that a record can change by one.
    balance : int
        What one row costs that the smaller side lacks, in units.
    enough : int
        The number of rows from which on a side lacks nothing.
    ends : Fraction
        The share at either end where impurity is a straight line: a multiple of 1/64 below one half.
    """

    units: int
    balance: int
    enough: int = UNBOUNDED_SHORTFALL
    ends: Fraction = Fraction(0)

    @property
    def range(self) -> int:
        """The length of the interval that holds every cost's change when one record is added.

        The impurity only grows, by at most 1 (docs/privacy.md, section 3). The floor adds less than one at either end,
        and a float error below a quarter unit (kernels/scoring.py) does not reach the next integer: units + 2. What the
        smaller side lacks only falls, by at most one: balance.
        """
        return (self.units + 2 if self.units else 0) + self.balance

    @classmethod
    def joint(cls, epsilon: Epsilon, balance: Fraction, ends: Fraction) -> Cost:
        """Return the cost of one selection over all features, in the finest units that a table can tell apart.

        The weights of a table stop falling near range/epsilon, so the units are coarser where epsilon is small. A side
        has enough rows when lacking so many would outweigh any luck of the draw: e^-SHORTFALL_LOG_ODDS. More balance would
        only compete with the impurity. All depends on public numbers only.
        """
        units = MAX_UNITS
        while units > 32 and units > RANGE_PER_EPSILON * epsilon:
            units //= 2
        cost = cls(units, round(balance * units), 0, ends)
        if cost.balance == 0 or epsilon == math.inf:
            return cost
        enough = math.ceil(SHORTFALL_LOG_ODDS * cost.range / (cost.balance * epsilon))
        return replace(cost, enough=min(enough, UNBOUNDED_SHORTFALL))

    def kernel_arguments(self, layout: TargetLayout) -> tuple[int, int, float, float, float, int, int]:
        """Return how a kernel of kernels/scoring.py is to read bins and what it is to make of them."""
        scale = self.units * layout.column_weight / layout.units
        return (
            layout.n_columns,
            layout.shift,
            scale,
            float(layout.units),
            float(self.ends),
            self.balance,
            self.enough,
        )


# |n_L - n_R|, up to the rows of the node: the least cost is at the median.
MEDIAN_COST = Cost(units=0, balance=2)
