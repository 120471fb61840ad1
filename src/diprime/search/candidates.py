"""The settings to choose among: all combinations of lists, or some that are drawn at random."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.base import clone

from diprime.estimators.parameters import (
    ACCOUNTING,
    CLASS_WEIGHT,
    DELTA,
    DOMAIN,
    EPSILON,
    MAX_RECORDS_PER_GROUP,
    N_JOBS,
    RANDOM_STATE,
    VERBOSE,
)
from diprime.estimators.trees import PrivateTrees

FIXED = frozenset(
    p.name
    for p in (EPSILON, DELTA, DOMAIN, ACCOUNTING, CLASS_WEIGHT, MAX_RECORDS_PER_GROUP, N_JOBS, RANDOM_STATE, VERBOSE)
)
"""The parameters that all settings share: they decide what is promised, or belong to one machine.

Errors count once whatever their class, by which no weights of classes can be chosen.
"""
MAX_LISTED = 6
"""How many settings the ledger lists."""

Parameters = Mapping[str, Any]


def check_estimator(estimator: Any) -> PrivateTrees:
    """Return an estimator whose fits a search can pay for; refuse any other."""
    if not isinstance(estimator, PrivateTrees):
        raise TypeError(f"The estimator of a private search must be one of diprime's, got {type(estimator).__name__}.")
    if estimator.epsilon != EPSILON.default:
        raise ValueError(
            "A private search divides its own epsilon among the fits: give epsilon to PrivateSearch, and leave that of "
            f"the estimator, {estimator.epsilon!r}, at its default."
        )
    if estimator.random_state is not None:
        raise ValueError("A private search has its own random bits: give random_state to PrivateSearch, if at all.")
    if getattr(estimator, "accounting", ACCOUNTING.default) != ACCOUNTING.default:
        raise ValueError('A private search needs accounting="strict": published costs do not add up to a guarantee.')
    return estimator


def list_settings(param_distributions: Any, n_iter: Any, random_state: Any) -> list[Parameters]:
    """Return the settings to choose among; they do not depend on data.

    Parameters
    ----------
    param_distributions : dict or list of dict
        For each parameter a list of values, or a distribution with a method ``rvs``.
    n_iter : int or None
        The number of settings to draw; None means all combinations, and takes lists only.
    random_state : None, int or RandomState
        What settings are drawn with.
    """
    # Importing this takes a second, and imports rich where it is installed: only who searches has to wait.
    from sklearn.model_selection import ParameterGrid, ParameterSampler

    grids = [param_distributions] if isinstance(param_distributions, Mapping) else list(param_distributions)
    for name in (name for grid in grids for name in grid if name in FIXED):
        raise ValueError(f"A private search cannot choose {name}: all settings must share it; set it once.")
    if n_iter is None:
        if any(hasattr(values, "rvs") for grid in grids for values in grid.values()):
            raise ValueError("A distribution has no list of values to try: give n_iter, the number of settings.")
        return list(ParameterGrid(param_distributions))
    if isinstance(n_iter, bool) or not isinstance(n_iter, numbers.Integral) or n_iter < 1:
        raise ValueError(f"n_iter must be an integer from 1 or None, got {n_iter!r}.")
    return list(ParameterSampler(param_distributions, int(n_iter), random_state=random_state))


def with_setting(estimator: PrivateTrees, setting: Parameters, epsilon: Any) -> PrivateTrees:
    """Return an unfitted estimator with a setting, silent: a bar for each fit would tell how many there were."""
    model: PrivateTrees = clone(estimator)
    model.set_params(**setting, epsilon=epsilon, verbose=VERBOSE.default)
    return model


def describe(settings: Sequence[Parameters]) -> str:
    """Return the settings in words, for the ledger."""
    texts = [", ".join(f"{name}={value}" for name, value in sorted(s.items())) or "defaults" for s in settings]
    more = len(texts) - MAX_LISTED
    return "; ".join([*texts[:MAX_LISTED], *([f"and {more} more"] if more > 0 else [])])
