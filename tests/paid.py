"""Receipts for tests of single releases, and mechanisms that pay for themselves.

Each receipt is from a ledger of its own, whose budget is infinite: what these tests check is not the budget.
"""

import math

import numpy as np

from diprime.privacy.charges import Charge
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import ApproximateDP, GaussianDP, PureEpsilon
from diprime.privacy.mechanisms import gaussian, laplace, subsets
from diprime.privacy.mechanisms.selection import Selection


def receipt(mechanism, epsilon=1, times=1, calibrated_to=1):
    """Return a receipt for releases by a mechanism, calibrated to a sensitivity or a range."""
    charge = Charge("a release", mechanism, "a bound", PureEpsilon(epsilon), times, calibrated_to=calibrated_to)
    return Ledger(math.inf).pay(charge)


def gaussian_receipt(mechanism, mu_squared=1, times=1, calibrated_to=1):
    """Return a receipt for releases that are charged in Gaussian DP."""
    charge = Charge("a release", mechanism, "a bound", GaussianDP(mu_squared), times, calibrated_to=calibrated_to)
    return Ledger(math.inf).pay(charge)


def approximate_receipt(mechanism, epsilon, delta, times=1, calibrated_to=1):
    """Return a receipt for releases that are charged in (epsilon, delta)."""
    charge = Charge(
        "a release", mechanism, "a bound", ApproximateDP(epsilon, delta), times, calibrated_to=calibrated_to
    )
    return Ledger(math.inf, delta=times * delta).pay(charge)


def pay(charge):
    """Return the receipt of a given charge."""
    return Ledger(math.inf).pay(charge)


def select(rule, costs, table, streams, mirrored=None):
    """Pick from every row of costs, row i with stream i, by a table of weights."""
    return Selection.with_published_weights(receipt(rule), table, streams).pick(np.arange(len(costs)), costs, mirrored)


def subset_median(counts, table, stream):
    """Draw a split of categories by a table of weights."""
    selection = Selection.with_published_weights(receipt("exponential mechanism"), table, stream[None, :])
    return subsets.subset_median(selection, 0, counts)


def discrete_laplace(values, epsilon, sensitivity, streams):
    """Add noise of scale sensitivity/epsilon."""
    paid = receipt(laplace.DISCRETE_LAPLACE, epsilon, calibrated_to=sensitivity)
    return laplace.discrete_laplace(values, paid, sensitivity, streams)


def rounded_gaussian(values, mu_squared, squared_sensitivity, streams):
    """Add normal noise of variance squared_sensitivity/mu_squared, rounded."""
    paid = gaussian_receipt(gaussian.ROUNDED_GAUSSIAN, mu_squared, calibrated_to=squared_sensitivity)
    return gaussian.rounded_gaussian(values, paid, squared_sensitivity, streams)
