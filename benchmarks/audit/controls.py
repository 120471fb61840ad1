"""Fits that are broken on purpose: the audit must find a loss above what their ledgers claim.

Nothing here is part of the library. A control replaces one of its functions while it is audited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from unittest.mock import patch

from benchmarks.accounts import open_account
from benchmarks.audit import neighbours
from benchmarks.audit.cases import ALMOST_ALL, ONE_SPLIT, Case, depth_by_count, fit_case, fitted
from diprime import DiPriMeBoostingClassifier, DiPriMeClassifier
from diprime.forest import train
from diprime.forest.sums import AccountingPolicy
from diprime.paper import (
    DPDecisionForestClassifier,
    DPRandomForestClassifier,
    DPRandomForestRegressor,
    EqualParts,
    PaperDiPriMeClassifier,
    PaperDiPriMeRegressor,
)
from diprime.privacy.charges import Bound, BoundKind, Charge, Mechanism, ReleaseKind
from diprime.privacy.measures import PureEpsilon
from diprime.privacy.mechanisms import gaussian, laplace, selection
from diprime.privacy.mechanisms.selection import weight_table

TOO_LITTLE = Fraction(7, 10)


@dataclass(frozen=True)
class Control:
    """A case in which something is broken.

    Attributes
    ----------
    name : str
        What is broken.
    case : Case
        The case, whose setting breaks it.
    """

    name: str
    case: Case


# -- what can be broken ------------------------------------------------------------------------------------------------


@contextmanager
def too_little_laplace_noise() -> Iterator[None]:
    """Draw Laplace noise of 0.7 times its scale."""
    right = laplace.laplace_scale

    def scale(epsilon: Fraction, sensitivity: int) -> tuple[int, int]:
        # The sampler's numbers are limited: 20 significant bits of epsilon are enough here as well.
        return right(epsilon / TOO_LITTLE, sensitivity)

    with patch.object(laplace, "laplace_scale", scale):
        yield


@contextmanager
def too_little_selection_noise() -> Iterator[None]:
    """Make the weights of selections for epsilon/0.7."""
    with patch.object(selection, "weight_table", lambda epsilon, *rest: weight_table(epsilon / TOO_LITTLE, *rest)):
        yield


@contextmanager
def too_little_normal_noise() -> Iterator[None]:
    """Draw normal noise of 0.7 times its standard deviation."""
    right = gaussian._scale

    def scale(mu_squared: Fraction, squared_sensitivity: int) -> tuple[int, int]:
        return right(mu_squared / TOO_LITTLE**2, squared_sensitivity)

    with patch.object(gaussian, "_scale", scale):
        yield


@contextmanager
def counts_on_another_ledger() -> Iterator[None]:
    """Pay for the counts of records from a ledger that is thrown away: the model's does not tell their true cost."""
    right = train.release_counts

    def release(counts: Any, layout: Any, receipt: Any, source: Any) -> Any:
        right(counts, layout, receipt, source)  # discarded: a session notices a receipt that is not used
        budget = 50 * receipt.charge.epsilon
        charge = Charge(
            ReleaseKind.NODE_SUMS,
            Mechanism.DISCRETE_LAPLACE,
            Bound(BoundKind.L1, 1),
            PureEpsilon(budget),
        )
        return right(counts, layout, open_account(budget).pay(charge), source)

    with patch.object(train, "release_counts", release):
        yield


@contextmanager
def true_counts() -> Iterator[None]:
    """Take the number of records for public: choose the depth of trees by it."""
    right = train.release_counts

    def release(counts: Any, *rest: Any) -> Any:
        right(counts, *rest)
        return counts.tolist()

    with patch.object(train, "release_counts", release):
        yield


@contextmanager
def equal_parts() -> Iterator[None]:
    """Cut the parts of trees from a permutation of the rows."""
    with patch.object(AccountingPolicy, "assignment", lambda _, n_trees: EqualParts(n_trees)):
        yield


def _broken(name: str, case: Case, by: Callable[[], AbstractContextManager[Any]]) -> Control:
    return Control(name, replace(case, setting=by))


# -- the controls ------------------------------------------------------------------------------------------------------


def sum_noise(epsilon: float, fits: int) -> Control:
    """Return a single release of sums with too little noise: the fastest fit there is."""
    parameters = {"epsilon": epsilon, "n_estimators": 1, "max_depth": 0}
    case = fit_case("DP-RF, no splits", neighbours.off_balance(), DPRandomForestClassifier, fits, **parameters)
    return _broken("noise × 0.7", replace(case, exact=False), too_little_laplace_noise)


def _noise() -> Iterator[Control]:
    title, balance, empty = "noise × 0.7", neighbours.off_balance(), neighbours.empty_table()
    leaves = {"method": "random", **ONE_SPLIT}
    case = fit_case("forest, random", empty, DiPriMeClassifier, 5000, epsilon=1, **leaves)
    yield _broken(title, case, too_little_laplace_noise)
    yield sum_noise(4, 16_000)
    splits = {"method": "diprime-flip", "max_features": 1, "split_share": ALMOST_ALL, **ONE_SPLIT}
    case = fit_case("forest, diprime-flip, splits", balance, DiPriMeClassifier, 20_000, epsilon=2, **splits)
    yield _broken(title, replace(case, exact=False), too_little_selection_noise)
    of = neighbours.alone_among(100)
    case = fit_case("boosting", of, DiPriMeBoostingClassifier, 4000, epsilon=8, delta=0.01, n_rounds=3)
    yield _broken(title, case, too_little_normal_noise)


def published_decision_forest(epsilon: float, fits: int) -> Control:
    """Return the comparator that releases zeros as they are."""
    paper = {"epsilon": epsilon, "accounting": "paper", "max_depth": 1, "n_bins": 2, "n_estimators": 1}
    case = fit_case("DP-DF", neighbours.lone_category(), DPDecisionForestClassifier, fits, **paper)
    return Control("accounting as published", replace(case, exact=False))


def _paper() -> Iterator[Control]:
    title = "accounting as published"
    exp = {"method": "diprime-exp", "epsilon": 4, **ONE_SPLIT}
    numbers, second = neighbours.boundary_value(), neighbours.second_row(32)
    case = fit_case("forest, diprime-exp, regression", numbers, PaperDiPriMeRegressor, 4000, max_features=1, **exp)
    yield Control(title, replace(case, exact=False))
    of_splits = {**exp, "epsilon": 2, "max_features": 32, "split_share": ALMOST_ALL}
    case = fit_case("forest, diprime-exp, 32 features", second, PaperDiPriMeClassifier, 2500, **of_splits)
    yield Control(title, case)
    yield published_decision_forest(4, 6000)
    one = {"epsilon": 4, "accounting": "paper", "n_estimators": 1, "max_depth": 1, "n_bins": 2}
    empty = neighbours.empty_table(numbers=True)
    yield Control(
        title, replace(fit_case("DP-RF, regression", empty, DPRandomForestRegressor, 6000, **one), exact=False)
    )


def forgotten_charge(epsilon: float, fits: int) -> Control:
    """Return fits that pay for their counts elsewhere."""
    of = neighbours.empty_table()
    random = {"epsilon": epsilon, "method": "random", "n_estimators": 1}
    case = fit_case("forest, random, depth auto", of, DiPriMeClassifier, fits, **random)
    return _broken("omitted charge", case, counts_on_another_ledger)


def public_row_count(fits: int) -> Control:
    """Return fits whose depth tells whether there is one record more."""
    return _broken("public number of rows", replace(depth_by_count(), fits=fits, exact=False), true_counts)


def ungrouped_persons(epsilon: float, fits: int) -> Control:
    """Return fits that take the records of a person for records of several."""
    of = replace(neighbours.person(3), of_persons=False)
    release = fitted(DiPriMeClassifier, of, epsilon=epsilon, method="random", **ONE_SPLIT)
    return Control("records treated as people", Case("forest, random", of, release, fits))


def permuted_parts(fits: int) -> Control:
    """Return parts cut from a permutation, which moves the only other record to the other part half of the time."""
    of = neighbours.last_class(2)
    of = replace(of, rows=of.rows[:1])
    parts = {"epsilon": 2, "method": "random", "n_estimators": 2, "max_depth": 1}
    case = fit_case("forest, random, rows in 2 parts", of, DiPriMeClassifier, fits, **parts)
    return _broken("rows assigned by a permutation", replace(case, exact=False), equal_parts)


def all_controls() -> list[Control]:
    """Return all controls."""
    return [
        *_noise(),
        *_paper(),
        forgotten_charge(2, 3000),
        permuted_parts(9000),
        public_row_count(1500),
        ungrouped_persons(2, 3000),
    ]


def quick_controls() -> list[Control]:
    """Return controls that a few fits are enough for: with a small epsilon, rare events need not be seen."""
    return [sum_noise(2, 2500), published_decision_forest(1, 500), public_row_count(250), ungrouped_persons(1, 500)]
