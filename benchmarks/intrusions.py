"""A made-up table in the shape of the KDD Cup of 1999: many classes, most of them rare, many features, many rows.

The sizes of the classes are those of its 10 per cent: 494,021 connections of 23 kinds, more than half of them of one
kind, two of them of another. Features are made up: rates, heavy-tailed counts and categories, each with values of its
own for some kinds of connections and the same for the others.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diprime import Categorical, Domain, Numeric

# fmt: off
SIZES = (
    280790, 107201, 97278, 2203, 1589, 1247, 1040, 1020, 979, 264, 231, 53, 30, 21, 20, 12, 10, 9, 8, 7, 4, 3, 2,
)
# fmt: on
N_RATES, N_COUNTS, N_CATEGORIES, N_LEVELS = 19, 18, 3, 12
N_FEATURES = N_RATES + N_COUNTS + N_CATEGORIES
LARGEST = 1000.0
SHARE_OF_OWN = 0.3  # of the features in which a class differs from others


def domain() -> Domain:
    """Return the domain of the table."""
    features: dict[str, Numeric | Categorical] = {f"rate{i}": Numeric(0, 1) for i in range(N_RATES)}
    features |= {f"count{i}": Numeric(0, LARGEST) for i in range(N_COUNTS)}
    features |= {f"kind{i}": Categorical(range(N_LEVELS)) for i in range(N_CATEGORIES)}
    return Domain(features, target=Categorical(range(len(SIZES))))


def draw(n_rows: int, seed: int, *, least: int = 0) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Draw rows of all classes, in proportion to `SIZES`, but at least so many of each class; the classes are fixed."""
    sizes = np.maximum(np.rint(np.array(SIZES) * (n_rows / sum(SIZES))).astype(int), least)
    classes, rng = np.random.default_rng(0), np.random.default_rng((seed, n_rows))
    own = classes.random((len(SIZES), N_FEATURES)) < SHARE_OF_OWN
    places = np.where(own, classes.random((len(SIZES), N_FEATURES)), classes.random(N_FEATURES))
    y = np.repeat(np.arange(len(SIZES)), sizes)
    place = places[y]
    rates = np.clip(place[:, :N_RATES] + 0.15 * rng.standard_normal((len(y), N_RATES)), 0, 1)
    spread = rng.exponential(size=(len(y), N_COUNTS))
    counts = np.minimum(LARGEST ** place[:, N_RATES:-N_CATEGORIES] * spread, LARGEST)
    usual = (place[:, -N_CATEGORIES:] * N_LEVELS).astype(int)
    any_level = rng.integers(N_LEVELS, size=usual.shape)
    kinds = np.where(rng.random(usual.shape) < 0.7, usual, any_level)
    order = rng.permutation(len(y))
    return np.hstack([rates, counts, kinds])[order], y[order]
