"""The cost of a candidate split, and how much one record can change it."""

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
MAX_STEPS_PER_EPSILON = 1 << 15  # a 32nd of a table of weights: within it they fall by e^-32
MEDIAN_RANGE = 2
UNBOUNDED_SHORTFALL = 1 << 41
SHORTFALL_LOG_ODDS = 5


@dataclass(frozen=True)
class Cost:
    """The cost of a candidate: ``balance·max(0, min_rows - min(n_L, n_R)) + floor(units·impurity)``.

    Terms common to all candidates are left out. The impurity of a child with n rows and class shares p is ½·n·Σ f(p).
    With ``linear_tail = 0``, f(p) = p - p² and the impurity is the sum of squared errors. In general, f has slope 1 up
    to p = linear_tail, slope -1 from p = 1 - linear_tail on, and is a parabola in between. A longer tail means more
    curvature near ½ at the same sensitivity.

    Attributes
    ----------
    units : int
        The resolution of the impurity: the number of steps that make up an impurity of one.
    balance : int
        The penalty, in units, for each row that the smaller child falls short of ``min_rows``.
    min_rows : int
        The number of rows that a child should have.
    linear_tail : Fraction
        The length of the intervals at 0 and at 1 in which f is linear: a multiple of 1/64 below one half.
    person_weight : int
        How many equal records one person counts as; rows are counted by their weights.
    """

    units: int
    balance: int
    min_rows: int = UNBOUNDED_SHORTFALL
    linear_tail: Fraction = Fraction(0)
    person_weight: int = 1

    @property
    def range(self) -> int:
        """The length of an interval that contains the changes of all costs when one record is added.

        The impurity grows by at most 1 and never falls (docs/privacy.md, section 3). The floor adds less than one step
        at either end, and the float error is below a quarter step (kernels/scoring.py): together ``units + 2``. The
        shortfall of the smaller child falls by at most one row and never grows: ``balance``.
        """
        return (self.units + 2 if self.units else 0) + self.balance

    @property
    def person_range(self) -> int:
        """The same for one person, who is so many records: what selections are calibrated to.

        If w of them are at one node, its costs change by amounts in an interval of length w·range, which costs the
        share w/person_weight of epsilon. The nodes of a level hold disjoint records, so these shares add up to at most
        one.
        """
        return self.range * self.person_weight

    @classmethod
    def joint(cls, epsilon: Epsilon, balance: Fraction, linear_tail: Fraction, person_weight: int = 1) -> Cost:
        """Return the cost for a selection over all features, in the finest units that its weights can tell apart.

        A table has a limited number of weights, and it takes about range/epsilon of them to fall by a factor of e: the
        smaller epsilon, or the larger the weight of a person, the coarser the units. ``min_rows`` is the number of rows
        at which a split with an empty child is selected with odds of at most e^-SHORTFALL_LOG_ODDS. A larger penalty
        would only compete with the impurity. All of this depends on public numbers only.
        """
        units = MAX_UNITS
        most = min(Fraction(MAX_UNITS_PER_EPSILON), Fraction(MAX_STEPS_PER_EPSILON, person_weight)) * epsilon
        while units > MIN_UNITS and units > most:
            units //= 2
        cost = cls(units, round(balance * units), 0, linear_tail, person_weight)
        if cost.balance == 0 or epsilon == math.inf:
            return cost
        min_rows = math.ceil(SHORTFALL_LOG_ODDS * cost.person_range / (cost.balance * epsilon))
        return replace(cost, min_rows=min(min_rows, UNBOUNDED_SHORTFALL))

    def rule(self, layout: TargetLayout) -> Any:
        """Return this cost as a ``CostRule`` of the kernels."""
        return scoring.CostRule(
            scale=self.units * layout.column_weight / layout.units,
            units_per_record=float(layout.units),
            linear_tail=float(self.linear_tail),
            balance=self.balance,
            min_rows=self.min_rows,
        )


# |n_L - n_R|, up to a term common to all candidates: the cost is least at the median.
MEDIAN_COST = Cost(units=0, balance=2)
