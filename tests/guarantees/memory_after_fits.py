"""A process that fits without seeds, keeps in disguise every key that it used, and waits for its memory to be searched.

:func:`main` prints the keys, disguised, as hexadecimal digits, one a line, then a line without any, and ends when its
standard input does. test_memory.py runs it and searches its memory.
"""

import sys
from functools import partial

import numpy as np

from diprime import (
    Categorical,
    DiPriMeBoostingClassifier,
    DiPriMeBoostingRegressor,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Domain,
    Numeric,
    PrivateSearch,
    private_score,
)
from diprime.paper import DPRandomForestClassifier, DPRandomForestRegressor
from diprime.privacy import randomness
from diprime.privacy.randomness import RandomSource

DISGUISE = 0x5A  # of every byte
N_ROWS = 3000

Keys = list[bytes]


def watch_keys(keys: Keys) -> None:
    """Add the key of every stream that is made from now on, and all that the operating system gives, in disguise.

    The disguise is put on byte by byte, so that the watch itself leaves no key behind.
    """
    make, token_bytes = RandomSource._make, randomness.secrets.token_bytes

    def watched_make(numbers, of_streams):
        streams = make(numbers, of_streams)
        keys.extend(bytes(int(byte) ^ DISGUISE for byte in stream[4:12].view(np.uint8)) for stream in streams)
        return streams

    def watched_bytes(n):
        drawn = token_bytes(n)
        keys.append(bytes(byte ^ DISGUISE for byte in drawn))
        return drawn

    RandomSource._make = staticmethod(watched_make)
    randomness.secrets.token_bytes = watched_bytes


def fit_and_score(model, X, y):
    """Fit a model and score it."""
    return private_score(model.fit(X, y), X, y, epsilon=0.1)


def fits():
    """Fit and score models of all kinds, without seeds."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(0, 1, N_ROWS), rng.integers(0, 30, N_ROWS)])
    people = rng.integers(0, N_ROWS // 2, N_ROWS)
    features = {"size": Numeric(0, 1), "kind": Categorical(range(30))}
    is_large = X[:, 0] > 0.4
    classes = Categorical([False, True]), DiPriMeClassifier, DiPriMeBoostingClassifier, DPRandomForestClassifier
    numbers = Numeric(0, 1), DiPriMeRegressor, DiPriMeBoostingRegressor, DPRandomForestRegressor
    for y, (target, forest, boosted, comparator) in ((is_large, classes), (X[:, 0], numbers)):
        domain = Domain(features, target)
        for method in ("joint", "diprime-exp", "diprime-flip", "random"):
            yield partial(forest(1, domain, method=method, n_jobs=2).fit, X, y)
        yield partial(forest(1, domain, disjoint_rows=False, n_estimators=3).fit, X, y, groups=people)
        yield partial(forest(1, Domain({**features, "size": Numeric()}, target)).fit, X, y)
        yield partial(comparator(1, domain, n_estimators=2, max_depth=2).fit, X, y)
        yield partial(boosted(1, domain, n_rounds=20).fit, X, y)
        yield partial(fit_and_score, forest(1, domain), X, y)
        yield partial(PrivateSearch(forest(1, domain), {"max_depth": [1, 2]}).fit, X, y)


def main() -> None:
    """Fit, print, wait."""
    keys: Keys = []
    watch_keys(keys)
    for fit in fits():
        fit()
    for key in keys:
        print(key.hex())
    print(flush=True)
    sys.stdin.read()
