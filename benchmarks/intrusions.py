"""Synthetic table modelled on the KDD Cup of 1999, with many rows, many features and many classes, most of them rare.

The class sizes are those of its 10 % sample: 494,021 connections of 23 kinds, of which one has more than half of the
connections and another has two. Features are rates, heavy-tailed counts and categories. Each has different values for
some kinds of connections, and the same values for the others.
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
N_RATES, N_COUNTS, N_CATEGORIES, N_VALUES = 19, 18, 3, 12
N_FEATURES = N_RATES + N_COUNTS + N_CATEGORIES
LARGEST = 1000.0
SHARE_OF_OWN = 0.3  # probability that a class differs from the others in a feature


def domain() -> Domain:
    """Return the domain of the table."""
    features: dict[str, Numeric | Categorical] = {f"rate{i}": Numeric(0, 1) for i in range(N_RATES)}
    features |= {f"count{i}": Numeric(0, LARGEST) for i in range(N_COUNTS)}
    features |= {f"kind{i}": Categorical(range(N_VALUES)) for i in range(N_CATEGORIES)}
    return Domain(features, target=Categorical(range(len(SIZES))))


def draw(n_rows: int, seed: int, *, least: int = 0) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Sample rows in proportion to `SIZES`, but at least ``least`` per class. All seeds have the same distributions."""
    sizes = np.maximum(np.rint(np.array(SIZES) * (n_rows / sum(SIZES))).astype(int), least)
    classes, rng = np.random.default_rng(0), np.random.default_rng((seed, n_rows))
    own = classes.random((len(SIZES), N_FEATURES)) < SHARE_OF_OWN
    places = np.where(own, classes.random((len(SIZES), N_FEATURES)), classes.random(N_FEATURES))
    y = np.repeat(np.arange(len(SIZES)), sizes)
    place = places[y]
    rates = np.clip(place[:, :N_RATES] + 0.15 * rng.standard_normal((len(y), N_RATES)), 0, 1)
    spread = rng.exponential(size=(len(y), N_COUNTS))
    counts = np.minimum(LARGEST ** place[:, N_RATES:-N_CATEGORIES] * spread, LARGEST)
    usual = (place[:, -N_CATEGORIES:] * N_VALUES).astype(int)
    any_value = rng.integers(N_VALUES, size=usual.shape)
    kinds = np.where(rng.random(usual.shape) < 0.7, usual, any_value)
    order = rng.permutation(len(y))
    return np.hstack([rates, counts, kinds])[order], y[order]
