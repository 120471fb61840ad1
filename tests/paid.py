"""Receipts for tests of single releases, and mechanisms that create their own receipts.

Each receipt comes from a new account with an infinite budget, because these tests do not check budgets.
"""

import math
from contextlib import contextmanager
from fractions import Fraction

import numpy as np

from diprime.privacy.charges import Bound, BoundKind, Charge, Mechanism, ReleaseKind
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import ApproximateDP, GaussianDP, PureEpsilon
from diprime.privacy.mechanisms import gaussian, laplace
from diprime.privacy.mechanisms import selection as subsets
from diprime.privacy.mechanisms.selection import Selection
from diprime.privacy.session import OPENED_BY_A_SESSION, Account, Request, Session

BOUNDS = {
    Mechanism.DISCRETE_LAPLACE: BoundKind.L1,
    Mechanism.THRESHOLDED_LAPLACE: BoundKind.L1,
    Mechanism.ROUNDED_GAUSSIAN: BoundKind.SQUARED_L2,
    Mechanism.EXPONENTIAL: BoundKind.COST_RANGE,
    Mechanism.PERMUTE_AND_FLIP: BoundKind.COST_RANGE,
    Mechanism.RANDOM_STOPPING: BoundKind.REPETITIONS,
    Mechanism.OWN_LEDGERS: BoundKind.FITS,
    Mechanism.NONE: BoundKind.NONE,
}


def open_account(epsilon=math.inf, delta=0, **fields):
    """Return an account without a session that verifies it at the end."""
    account = Account(OPENED_BY_A_SESSION, Ledger(epsilon, delta=delta, **fields))
    account._is_open = True
    return account


def so_far(account):
    """Return the current ledger of an open account."""
    return account._so_far()


def request(epsilon=1, label="one", **fields):
    """Return the budget request of a domain that costs a pure epsilon."""
    epsilon = Fraction(epsilon)
    return Request("domain", label, epsilon, Fraction(0), PureEpsilon(epsilon).loss(1), **fields)


def nothing(epsilon):
    """Return a charge without a release."""
    return Charge(ReleaseKind.NOTHING, Mechanism.NONE, Bound(BoundKind.NONE), PureEpsilon(epsilon))


@contextmanager
def session_of(asked, attached=(), *, people=False):
    """Yield the account of a request in a new session."""
    with Session.begin(attached) as session:
        session.protect(people=people)
        with session.spend(asked) as account:
            yield account


def spend(epsilon=1, label="one", attached=(), *, people=False, **fields):
    """Charge a pure epsilon in a new session, and return the ledger."""
    with session_of(request(epsilon, label, **fields), attached, people=people) as account:
        account.pay(nothing(epsilon)).cancel()
    return account.ledger


def charge_of(mechanism, measure, times, calibrated_to):
    """Return the charge of releases by a mechanism, given the sensitivity, range or other bound of its calibration."""
    return Charge(ReleaseKind.NODE_SUMS, mechanism, Bound(BOUNDS[mechanism], calibrated_to), measure, times)


def receipt(mechanism, epsilon=1, times=1, calibrated_to=1):
    """Return a receipt for releases charged in pure epsilon."""
    return open_account().pay(charge_of(mechanism, PureEpsilon(epsilon), times, calibrated_to))


def gaussian_receipt(mechanism, mu_squared=1, times=1, calibrated_to=1):
    """Return a receipt for releases charged in Gaussian DP."""
    return open_account().pay(charge_of(mechanism, GaussianDP(mu_squared), times, calibrated_to))


def approximate_receipt(mechanism, epsilon, delta, times=1, calibrated_to=1):
    """Return a receipt for releases charged in (epsilon, delta)."""
    charge = charge_of(mechanism, ApproximateDP(epsilon, delta), times, calibrated_to)
    return open_account(delta=times * delta).pay(charge)


def pay(charge):
    """Return a receipt for a charge."""
    return open_account().pay(charge)


def select(rule, costs, table, streams, mirrored=None):
    """Pick from every row of costs, row i with stream i, by a table of weights."""
    return Selection.with_published_weights(receipt(rule), table, streams).pick(np.arange(len(costs)), costs, mirrored)


def subset_median(counts, table, stream):
    """Sample a split of categories by a table of weights."""
    selection = Selection.with_published_weights(receipt(Mechanism.EXPONENTIAL), table, stream[None, :])
    return subsets.subset_median(selection, 0, counts)


def discrete_laplace(values, epsilon, sensitivity, streams):
    """Add noise of scale sensitivity/epsilon."""
    paid = receipt(Mechanism.DISCRETE_LAPLACE, epsilon, calibrated_to=sensitivity)
    return laplace.discrete_laplace(values, paid, sensitivity, streams)


def rounded_gaussian(values, mu_squared, squared_sensitivity, streams):
    """Add normal noise of variance squared_sensitivity/mu_squared, rounded."""
    paid = gaussian_receipt(Mechanism.ROUNDED_GAUSSIAN, mu_squared, calibrated_to=squared_sensitivity)
    return gaussian.rounded_gaussian(values, paid, squared_sensitivity, streams)
