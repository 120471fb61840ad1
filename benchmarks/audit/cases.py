"""What is audited: estimators and settings, each with the neighbours that its releases should tell apart best.

Budgets that a user can shift are shifted: a canary for splits gets nearly all of ε for splits, and one for windows gets
it for windows. The guarantee is the same for all settings, and an audit of small parts would show little.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy.typing as npt

from benchmarks.audit import neighbours
from benchmarks.audit.neighbours import Neighbours
from diprime import (
    DiPriMeBoostingClassifier,
    DiPriMeBoostingRegressor,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Domain,
    PrivateSearch,
    private_score,
)
from diprime.domain.learning import MIN_EVIDENCE
from diprime.estimators.base import DOMAIN_SHARE
from diprime.forest import defaults
from diprime.paper import DPDecisionForestClassifier, DPRandomForestClassifier, DPRandomForestRegressor
from diprime.privacy.mechanisms.laplace import count_threshold

Array = npt.NDArray[Any]
Release = Callable[[Array, Array, Array | None], Any]

ALMOST_ALL = 0.98  # of epsilon, for what a canary is made for
QUICK_FITS = 300
RARE_VALUE = 1e-3
CATEGORY_DELTA = Fraction(1, 10**6)
ONE_SPLIT = {"n_estimators": 1, "max_depth": 1}
TWO_SPLITS = {"n_estimators": 1, "max_depth": 2}


@dataclass(frozen=True)
class Case:
    """One setting, and the neighbours that it is audited with.

    Attributes
    ----------
    name : str
        What is released.
    neighbours : Neighbours
        The two tables.
    release : callable
        Makes a release of features, target and persons of a table.
    fits : int
        How many fits of each table the full audit makes.
    exact : bool
        Whether the exact loss of the transcript is a statistic, for which a fit of the other table is replayed.
    setting : callable
        Returns a context in which everything happens.
    """

    name: str
    neighbours: Neighbours
    release: Release
    fits: int
    exact: bool = True
    setting: Callable[[], AbstractContextManager[Any]] = nullcontext


def fitted(kind: Any, neighbours: Neighbours, **parameters: Any) -> Release:
    """Return a function that fits an estimator, as anybody would."""

    def release(X: Array, y: Array, groups: Array | None) -> Any:
        model = kind(domain=neighbours.domain, n_jobs=1, **parameters)
        return model.fit(X, y) if groups is None else model.fit(X, y, groups=groups)

    return release


def fit_case(name: str, of: Neighbours, kind: Any, fits: int, **parameters: Any) -> Case:
    """Return a case of fits."""
    return Case(name, of, fitted(kind, of, **parameters), fits)


# -- forests -----------------------------------------------------------------------------------------------------------


def _leaves() -> Iterator[Case]:
    """Yield random splits, which cost nothing: all of epsilon is for the leaves."""
    random = {"method": "random", "max_depth": 1}
    empty, last, boundary = neighbours.empty_table(), neighbours.last_class(), neighbours.boundary_value()
    classes, numbers = DiPriMeClassifier, DiPriMeRegressor
    for epsilon in (1, 4):
        yield fit_case("forest, random", empty, classes, 4000, epsilon=epsilon, n_estimators=1, **random)
    yield fit_case("forest, random, regression", boundary, numbers, 3000, epsilon=4, n_estimators=1, **random)
    all_rows = {"n_estimators": 2, "disjoint_rows": False, **random}
    yield fit_case("forest, random, all rows in 2 trees", last, classes, 3000, epsilon=4, **all_rows)
    yield fit_case("forest, random, rows in 2 parts", last, classes, 3000, epsilon=4, n_estimators=2, **random)
    yield fit_case(
        "forest, random, groups",
        neighbours.person(3),
        classes,
        3000,
        epsilon=4,
        max_records_per_group=3,
        n_estimators=1,
        **random,
    )


def _medians() -> Iterator[Case]:
    """Yield the methods of the paper; medians get nearly all of epsilon, or medians and choices halves of it."""
    medians = {"epsilon": 4, "split_share": ALMOST_ALL, **ONE_SPLIT}
    classes, balance = DiPriMeClassifier, neighbours.off_balance()
    lone, missing = neighbours.lone_category(), neighbours.missing_everything(numbers=True)
    yield fit_case("forest, diprime, splits", balance, classes, 3000, method="diprime", **medians)
    yield fit_case("forest, diprime, splits", lone, classes, 2500, method="diprime", **medians)
    yield fit_case("forest, diprime, splits, regression", missing, DiPriMeRegressor, 2500, method="diprime", **medians)
    yield fit_case(
        "forest, diprime-flip, splits", balance, classes, 3000, method="diprime-flip", max_features=1, **medians
    )
    yield fit_case("forest, diprime-exp, one feature, splits", balance, classes, 3000, method="diprime-exp", **medians)
    both, two = {"method": "diprime-exp", "max_features": 2}, neighbours.off_balance(2)
    yield fit_case("forest, diprime-exp, splits", two, classes, 3000, **both, **medians)
    yield fit_case("forest, diprime-exp, splits", neighbours.misfit(), classes, 3000, **both, **medians)
    yield fit_case(
        "forest, diprime-exp, regression",
        neighbours.misfit(numbers=True),
        DiPriMeRegressor,
        2500,
        epsilon=4,
        **both,
        **ONE_SPLIT,
    )


def _joint() -> Iterator[Case]:
    """Yield the default method."""
    classes, numbers = DiPriMeClassifier, DiPriMeRegressor
    once, twice = neighbours.misfit(), neighbours.misfit_twice()
    yield fit_case("forest, joint", once, classes, 3000, epsilon=1, **ONE_SPLIT)
    yield fit_case("forest, joint", once, classes, 3000, epsilon=4, **ONE_SPLIT)
    yield fit_case("forest, joint, splits", once, classes, 3000, epsilon=4, split_share=ALMOST_ALL, **ONE_SPLIT)
    for epsilon in (4, 8):
        yield fit_case("forest, joint, depth 2", twice, classes, 10_000, epsilon=epsilon, **TWO_SPLITS)
    missing = neighbours.missing_everything()
    yield fit_case("forest, joint", missing, classes, 2500, epsilon=4, **ONE_SPLIT)
    yield fit_case("forest, joint, regression", neighbours.misfit(numbers=True), numbers, 2500, epsilon=4, **ONE_SPLIT)
    yield fit_case(
        "forest, joint, depth 2, regression",
        neighbours.misfit_twice(numbers=True),
        numbers,
        6000,
        epsilon=8,
        **TWO_SPLITS,
    )
    parts = {"n_estimators": 2, "max_depth": 1}
    yield fit_case("forest, joint, rows in 2 parts", once, classes, 8000, epsilon=4, **parts)
    yield fit_case("forest, joint, all rows in 2 trees", once, classes, 6000, epsilon=4, disjoint_rows=False, **parts)
    yield fit_case(
        "forest, joint, groups", neighbours.person(3), classes, 5000, epsilon=4, max_records_per_group=3, **ONE_SPLIT
    )
    # One record more is the first for a depth of two.
    threshold = neighbours.misfit(105)
    yield fit_case("forest, joint, depth auto", threshold, classes, 4000, epsilon=4, n_estimators=1)
    yield from _windows()


def depth_by_count() -> Case:
    """Return fits whose depth follows from the number of records: one more is the first for a depth of two."""
    of = neighbours.alone_among(424)
    return Case("forest, joint, depth auto", of, fitted(DiPriMeClassifier, of, epsilon=1, n_estimators=1), 1500)


@contextmanager
def _windows_for_all() -> Iterator[None]:
    """Give windows most of epsilon, and nodes windows of their own, however few records there are.

    Both are public numbers, which a fit's guarantee does not depend on.
    """
    with (
        patch.object(defaults, "QUANTILE_SHARE", Fraction(6, 25)),
        patch.object(defaults, "WINDOW_INFORMATION", Fraction(1, 1000)),
    ):
        yield


@contextmanager
def _window_for_all() -> Iterator[None]:
    with patch.object(defaults, "QUANTILE_SHARE", Fraction(12, 25)):
        yield


def _windows() -> Iterator[Case]:
    of = neighbours.low_target()
    for name, depth, fits, setting in [
        ("forest, joint, regression, clipping range", 1, 4000, _window_for_all),
        ("forest, joint, regression, clipping ranges of nodes", 3, 6000, _windows_for_all),
    ]:
        release = fitted(DiPriMeRegressor, of, epsilon=8, n_estimators=1, max_depth=depth)
        yield Case(name, of, release, fits, setting=setting)


# -- everything else ---------------------------------------------------------------------------------------------------


def _comparators() -> Iterator[Case]:
    one = {"epsilon": 4, "n_estimators": 1, "n_bins": 2}
    once = neighbours.misfit()
    yield fit_case("DP-RF, no splits", neighbours.off_balance(), DPRandomForestClassifier, 4000, max_depth=0, **one)
    yield fit_case("DP-RF", once, DPRandomForestClassifier, 4000, max_depth=1, **one)
    yield fit_case("DP-DF", once, DPDecisionForestClassifier, 4000, max_depth=1, **one)
    yield fit_case(
        "DP-RF, regression", neighbours.misfit(numbers=True), DPRandomForestRegressor, 4000, max_depth=1, **one
    )


def _boosting() -> Iterator[Case]:
    few = {"epsilon": 4, "delta": 0.01, "n_rounds": 3}
    two, four = neighbours.alone_among(100), neighbours.alone_among(100, n_classes=4)
    yield fit_case("boosting", two, DiPriMeBoostingClassifier, 2500, **few)
    yield fit_case("boosting, 4 classes", four, DiPriMeBoostingClassifier, 2500, **few)
    yield fit_case("boosting, regression", neighbours.boundary_value(), DiPriMeBoostingRegressor, 2500, **few)
    yield fit_case(
        "boosting, groups", neighbours.person(3), DiPriMeBoostingClassifier, 2000, max_records_per_group=3, **few
    )


def _scored_model(*, numbers: bool) -> Any:
    """Return a model that is fitted once, to other records: scores are about test rows alone."""
    kind = DiPriMeRegressor if numbers else DiPriMeClassifier
    rows = neighbours.misfit(numbers=numbers)
    X, y, _ = rows.table(with_canary=False)
    return kind(1000, rows.domain, n_jobs=1, n_estimators=1, max_depth=1).fit(X, y)


def _score(name: str, *, numbers: bool) -> Case:
    of, model = neighbours.misfit(numbers=numbers), _scored_model(numbers=numbers)

    def release(X: Array, y: Array, groups: Array | None) -> Any:
        return private_score(model, X, y, 4.0)

    return Case(name, of, release, 2500)


def _scores() -> Iterator[Case]:
    yield _score("private classification score", numbers=False)
    yield _score("private regression score", numbers=True)


def _open_domains() -> Iterator[Case]:
    """Yield learnt ranges and categories, by themselves and within a fit that spends a part of epsilon on them."""
    n_others = [math.ceil(MIN_EVIDENCE / epsilon) - 1 for epsilon in (4, 4 * DOMAIN_SHARE)]
    value, in_fit = (neighbours.one_more_value(RARE_VALUE, n) for n in n_others)

    def ranges(X: Array, y: Array, groups: Array | None) -> Any:
        known = {"x1": value.domain.features["x1"]}
        return Domain.learn(X, y, 4.0, features=known, target=value.domain.target)

    yield Case("learnt range", value, ranges, 4000)
    category = neighbours.one_more_in_category(count_threshold(Fraction(4), CATEGORY_DELTA) - 1)

    def categories(X: Array, y: Array, groups: Array | None) -> Any:
        known = {"x0": category.domain.features["x"]}
        return Domain.learn(X, y, 4.0, features=known, target=category.domain.target, delta=float(CATEGORY_DELTA))

    yield Case("learnt categories", category, categories, 4000, exact=False)
    yield fit_case(
        "forest with an incomplete domain", in_fit, DiPriMeClassifier, 3000, epsilon=4, method="random", **ONE_SPLIT
    )


def _searches() -> Iterator[Case]:
    """Yield searches that try all settings, of which the transcripts are paid for; random stopping hides its tries."""
    of = neighbours.misfit()
    forest = DiPriMeClassifier(domain=of.domain, n_jobs=1, **ONE_SPLIT)

    def release(X: Array, y: Array, groups: Array | None) -> Any:
        return PrivateSearch(forest, {"split_share": [0.5, 0.7]}, epsilon=4, rule="all", refit=False).fit(X, y)

    yield Case("search among two forests", of, release, 3000)


def all_cases() -> list[Case]:
    """Return all cases of the full table."""
    return [
        *_leaves(),
        *_medians(),
        *_joint(),
        *_comparators(),
        *_boosting(),
        *_scores(),
        *_open_domains(),
        *_searches(),
    ]


def quick_cases() -> list[Case]:
    """Return the cases of a minute: the first of each kind of release, with few fits."""
    firsts: dict[str, Case] = {}
    for case in all_cases():
        firsts.setdefault(case.name.split(",")[0], replace(case, fits=QUICK_FITS))
    return list(firsts.values())
