"""What a budget accepts, although each charge may be chosen by what earlier ones released: a privacy filter.

Charges add up to a pure E and a Gaussian μ². That the budget is proven to cover the two sums at the end is not enough:
whoever sees the results may stop where they are worst, or go on with the kind of release that makes them worse. But it
is enough if both sums stay within two limits that were fixed before. Such a pair of limits is an *account*. Several
accounts may be open at once if their deltas add up to no more than the budget's. A charge is accepted if one account
covers it, and accounts that do not are closed for good. docs/privacy.md has the proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from diprime.privacy.gaussian_dp import (
    covers,
    epsilon_below,
    epsilon_upper_bound,
    gaussian_as_pure,
    gaussian_budget,
    pure_as_gaussian,
)
from diprime.privacy.measures import Epsilon, PrivacyLoss

NOTHING = PrivacyLoss()

_GAUSSIAN_SHARE = Fraction(1, 2)
"""The part of delta of the account without further pure charges."""
_N_MIXED = 4
"""How many accounts, of different parts for pure charges, have the rest of delta."""


@dataclass(frozen=True)
class Account:
    """A limit for the sum of pure charges and one for the sum of Gaussian charges, and what was counted.

    Attributes
    ----------
    limit : PrivacyLoss
        The two limits.
    counted : PrivacyLoss
        What the charges add up to, as this account counts them.
    """

    limit: PrivacyLoss
    counted: PrivacyLoss = NOTHING

    @property
    def room(self) -> PrivacyLoss:
        """What is left of each limit."""
        limit, counted = self.limit, self.counted
        return PrivacyLoss(limit.epsilon - counted.epsilon, limit.mu_squared - counted.mu_squared)

    def after(self, loss: PrivacyLoss) -> Account | None:
        """Return the account after a charge, or None if it does not cover the charge.

        A charge that is all pure may count as Gaussian instead. The way that uses less of its limit is taken, or else
        the other one.
        """
        ways = [loss]
        if not loss.mu_squared and loss.epsilon <= _MAX_CONVERTED:
            ways.append(PrivacyLoss(mu_squared=pure_as_gaussian(loss.epsilon)))
        possible = [replace(self, counted=self.counted + way) for way in sorted(ways, key=self._share)]
        return next((account for account in possible if account._is_within_limits()), None)

    def _share(self, loss: PrivacyLoss) -> Epsilon:
        costs = ((loss.epsilon, self.limit.epsilon), (loss.mu_squared, self.limit.mu_squared))
        return max(Fraction(0) if not cost else cost / limit if limit else math.inf for cost, limit in costs)

    def _is_within_limits(self) -> bool:
        counted, limit = self.counted, self.limit
        return counted.epsilon <= limit.epsilon and counted.mu_squared <= limit.mu_squared

    def largest_pure(self) -> Epsilon:
        """Return the largest pure charge that is known to be covered."""
        return max(self.room.epsilon, min(gaussian_as_pure(self.room.mu_squared), _MAX_CONVERTED))


def _geometric_mean(a: Epsilon, b: Epsilon) -> Fraction:
    """Return about √(a·b), the same on every machine, for all that read a log must open the same accounts."""
    return Fraction(math.isqrt(math.floor(Fraction(a) * Fraction(b) * 4**_BITS_OF_MEAN)), 2**_BITS_OF_MEAN)


_BITS_OF_MEAN = 100
_MAX_CONVERTED = Fraction(100)  # a larger epsilon has no μ² that any budget covers, and would take long to compute


@dataclass(frozen=True)
class PrivacyFilter:
    """The state of a budget: its accounts, and what was charged.

    Attributes
    ----------
    epsilon : Fraction
        The epsilon of the budget.
    delta : Fraction
        The delta of the budget.
    accounts : tuple of Account
        The accounts that are open.
    is_decided : bool
        Whether accounts for Gaussian charges have been opened, if there is a delta. Until then all charges were pure.
    spent : PrivacyLoss
        The sum of all charges.

    Examples
    --------
    >>> from diprime.privacy.measures import GaussianDP, PureEpsilon
    >>> start = PrivacyFilter.start(Fraction(3), Fraction(1, 10**5))
    >>> forest = start.after(PureEpsilon(Fraction(1)).loss(1))
    >>> boosted = forest.after(GaussianDP(Fraction(1, 10)).loss(1))
    >>> boosted.after(PureEpsilon(Fraction(2)).loss(1)) is None
    True
    """

    epsilon: Fraction
    delta: Fraction
    accounts: tuple[Account, ...]
    is_decided: bool
    spent: PrivacyLoss = NOTHING

    @classmethod
    def start(cls, epsilon: Fraction, delta: Fraction, pure: Fraction | None = None) -> PrivacyFilter:
        """Return the state before the first charge.

        ``pure`` is the limit of pure charges in the only account that accepts Gaussian ones. Without it, the first
        Gaussian charge decides which accounts there are.
        """
        accounts = [Account(PrivacyLoss(epsilon))]  # pure charges alone need no delta
        if pure is not None:
            accounts.append(Account(PrivacyLoss(pure, gaussian_budget(epsilon - pure, delta))))
        return cls(epsilon, delta, tuple(accounts), is_decided=pure is not None)

    def after(self, loss: PrivacyLoss) -> PrivacyFilter | None:
        """Return the state after a charge, or None if the budget does not cover it.

        A charge with a delta of its own takes it from the budget's, of which nothing is left once accounts for Gaussian
        charges are open.
        """
        if loss.delta and (self.is_decided or self.spent.delta + loss.delta > self.delta):
            return None
        decides = bool(loss.mu_squared) and not self.is_decided
        before = self._accounts_for(loss) if decides else self.accounts
        accounts = tuple(account for account in (a.after(loss) for a in before) if account is not None)
        if not accounts:
            return None
        return replace(self, accounts=accounts, is_decided=self.is_decided or decides, spent=self.spent + loss)

    def _accounts_for(self, loss: PrivacyLoss) -> list[Account]:
        """Return the accounts that the first Gaussian charge opens; their deltas add up to no more than the budget's.

        One has no room for further pure charges, one none for further Gaussian ones, and some are in between. Where the
        charge leaves no room for that, there is one account with the whole delta.
        """
        total = self.spent + loss
        if not covers(self.epsilon, self.delta, total):
            return []
        mixed = self._mixed_limits(total)
        share = _GAUSSIAN_SHARE if mixed else Fraction(1)
        gaussian = PrivacyLoss(total.epsilon, self._largest_mu_squared(total, share))
        return [Account(limit, self.spent) for limit in (gaussian, *mixed)]

    def _mixed_limits(self, total: PrivacyLoss) -> list[PrivacyLoss]:
        """Return limits of μ², in equal ratios from the total to the largest, and the pure limits that they allow."""
        share = (1 - _GAUSSIAN_SHARE) / _N_MIXED
        least, most = total.mu_squared, self._largest_mu_squared(total, share)
        middle, delta = _geometric_mean(least, most), (self.delta - total.delta) * share
        between = [least, _geometric_mean(least, middle), middle, _geometric_mean(middle, most)]
        limits = [PrivacyLoss(self.epsilon - epsilon_upper_bound(mu, delta), mu) for mu in between]
        return [limit for limit in limits if limit.epsilon >= total.epsilon]

    def _largest_mu_squared(self, total: PrivacyLoss, share: Fraction) -> Epsilon:
        return gaussian_budget(self.epsilon - total.epsilon, (self.delta - total.delta) * share)

    def largest_pure(self) -> Epsilon:
        """Return the largest pure charge that is known to be covered."""
        return max(account.largest_pure() for account in self.accounts)

    def largest_gaussian(self) -> Epsilon:
        """Return the largest Gaussian charge, as μ², that is known to be covered."""
        if not self.is_decided:
            return self._largest_mu_squared(self.spent, Fraction(1))
        return max(account.room.mu_squared for account in self.accounts)

    def largest_epsilon(self, delta: Fraction) -> Epsilon:
        """Return the largest epsilon, at this delta, of a fit with Gaussian noise that is known to be covered."""
        mu_squared = self.largest_gaussian()
        if not mu_squared:
            return Fraction(0)
        below = epsilon_below(mu_squared, delta)
        rounded = Fraction(f"{float(below):.4g}")  # the next number with few digits, which may be the one asked for
        return rounded if rounded > below and gaussian_budget(rounded, delta) <= mu_squared else below
