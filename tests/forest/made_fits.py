"""Codes of every kind of feature, settings and fits of them, for tests that look inside training."""

from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from diprime._util.resources import Threads
from diprime.domain import Categorical, Domain, Numeric
from diprime.forest.engine import ForestEngine
from diprime.forest.plan import BudgetPlan, ForestSettings
from diprime.forest.sums import STRICT
from diprime.forest.train import train
from diprime.model.estimates import LeafSums
from diprime.model.trees import Structure
from diprime.paper import PUBLISHED
from diprime.privacy.ledger import Ledger
from diprime.privacy.randomness import RandomSource
from tests.encoded_rows import EncodedRows, tree_engine
from tests.paid import open_account, so_far

METHODS = ["joint", "diprime", "diprime-exp", "diprime-flip", "random"]
POLICIES = {"strict": STRICT, "paper": PUBLISHED}
FEATURES = {
    "x": Numeric(0, 1),
    "z": Numeric(edges=[1, 2, 3]),
    "c": Categorical(["a", "b", "c"]),
    "many": Categorical(range(50)),
}
DOMAINS = {
    "number": Domain(FEATURES, Numeric(0, 1)),
    "binary": Domain(FEATURES, Categorical([0, 1])),
    "classes": Domain(FEATURES, Categorical(range(4))),
}
TASKS = list(DOMAINS)
ONE = Threads(1)
AUTO = {"n_estimators": None, "max_depth": None}


def random_rows(task, n, seed=0):
    """Draw codes and targets, some of which are missing."""
    domain = DOMAINS[task]
    rng = np.random.default_rng(seed)
    columns = []
    for j in range(domain.n_features):
        missing = [254, 255] if domain.is_categorical[j] else [255]
        columns.append(rng.choice([*range(domain.n_codes[j]), *missing], size=n))
    target = rng.integers(-1, domain.layout.n_targets, size=n).astype(np.int32)
    return np.stack(columns, axis=1).astype(np.uint8), target


def n_features_tried(method):
    """Return how many features the nodes of these tests try."""
    return 4 if method == "joint" else 1 if method in ("diprime", "random") else 3


def settings_of(method, **changes):
    """Return the settings of three trees of depth two for epsilon 3, with changes."""
    settings = ForestSettings(Fraction(3), method, 3, 2, n_features_tried(method), None, None, True, STRICT, False, 1)
    return replace(settings, **changes)


class Fitted(NamedTuple):
    """What a fit has made."""

    ledger: Ledger
    structure: Structure
    leaves: LeafSums


def fit(method, task, *, n_rows=300, make_engine=ForestEngine, account=None, **changes):
    """Train on random rows, with fixed random bits."""
    settings = settings_of(method, **changes)
    if account is None:
        account = open_account(settings.epsilon, accounting=settings.accounting)
    plan = BudgetPlan.make(settings, DOMAINS[task])
    codes, target = random_rows(task, n_rows)
    engine = tree_engine(EncodedRows(codes), target, DOMAINS[task].layout, ONE, kind=make_engine)
    trained = train(engine, DOMAINS[task], settings, plan, account, RandomSource(3), ONE)
    return Fitted(so_far(account), *trained)
