"""The noise of boosted functions, replayed: it is as large as that of fits to tables without any signal."""

import numpy as np
import pytest

from diprime import Categorical, DiPriMeBoostingClassifier, DiPriMeBoostingRegressor, Domain, Numeric, merge
from diprime.model.effects import first_codes

FEATURES = {f"x{j}": Numeric(0, 1) for j in range(4)} | {"kind": Categorical([str(k) for k in range(12)])}
TARGETS = {"two": Categorical(["no", "yes"]), "three": Categorical(list("abc")), "number": Numeric(0, 100)}


def fit_noise(rng, target, n, epsilon=1.0, **settings):
    """Return the additive forest of a fit to a table without any signal."""
    X = np.column_stack([rng.random((n, 4)).astype(object), rng.choice(12, n).astype(str)])
    if target == "number":
        y = np.clip(rng.normal(50, 10, n), 0, 100)
    else:
        y = rng.choice(["no", "yes"] if target == "two" else list("abc"), n)
    kind = DiPriMeBoostingRegressor if target == "number" else DiPriMeBoostingClassifier
    return kind(epsilon, Domain(FEATURES, TARGETS[target]), **settings).fit(X, y).forest_


def squares(forests):
    """Return, for main effects and interactions, the mean squares of the functions and of their noise, and coverage."""
    found = {1: [], 2: []}
    for forest in forests:
        for term in forest.effects.terms:
            codes = tuple(first_codes(segments) for segments in term.segments)
            variance = (forest.noise.at(term.features, codes) ** 2).mean(axis=0)
            weights = np.ones(())
            for segments, j in zip(term.segments, term.features, strict=True):
                weights = np.multiply.outer(weights, np.bincount(segments, forest.code_shares[j]))
            weights = weights[..., None] / term.table.shape[-1]
            inside = term.table**2 <= 4 * variance
            found[len(term.features)].append([(weights * part).sum() for part in (term.table**2, variance, inside)])
    return {n: np.mean(parts, axis=0) for n, parts in found.items() if parts}


# Numbers of records with which there are only curves, or curves and rounds, at epsilon = 4.
CURVES_ONLY = {"two": 1500, "three": 1500, "number": 150}
WITH_ROUNDS = {"two": 4000, "three": 4000, "number": 1500}


@pytest.mark.parametrize("sizes", [CURVES_ONLY, WITH_ROUNDS])
@pytest.mark.parametrize("target", TARGETS)
def test_replayed_noise_matches_fits_without_signal(target, sizes):
    """The mean square of ten fits has an error of about 20 %, and shrinkage keeps curves that happen to be large.

    Noise with half the standard deviation would give a quotient of four, or of a quarter.
    """
    rng = np.random.default_rng(0)
    found = squares(fit_noise(rng, target, sizes[target], 4.0, n_rounds=150) for _ in range(10))
    assert set(found) >= ({1} if sizes is CURVES_ONLY else {1, 2})
    for actual, replayed, _ in found.values():
        assert 0.3 < actual / replayed < 2.8


@pytest.mark.audit
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 8.0])
@pytest.mark.parametrize("target", TARGETS)
def test_bands_cover_functions_of_noise(target, epsilon):
    """Bands of two standard deviations cover about 95 %; the standard error over 40 fits is below 1 %.

    They cover less where shrinkage keeps only the curves of classes that happen to be large.
    """
    rng = np.random.default_rng()
    for actual, replayed, coverage in squares(fit_noise(rng, target, 10_000, epsilon) for _ in range(40)).values():
        assert 0.8 < actual / replayed < 1.8
        assert 0.88 < coverage < 0.99


def test_merging_halves_the_variance():
    """Two models of equal size are independent, so the variance of their mean is half as large."""
    rng = np.random.default_rng(0)
    models = []
    domain = Domain({"x": Numeric(0, 1), "y": Numeric(0, 1)}, TARGETS["two"])
    for _ in range(2):
        X = rng.random((5000, 2))
        models.append(DiPriMeBoostingClassifier(3.0, domain, n_rounds=100).fit(X, rng.choice(["no", "yes"], 5000)))
    codes = (np.arange(0, 255, 5),)
    parts = [(model.forest_.noise.at((0,), codes) ** 2).mean() for model in models]
    merged = merge(models, disjoint=True).forest_
    assert merged.steps.sizes == (102, 102)  # two curves and a hundred rounds each
    assert (merged.noise.at((0,), codes) ** 2).mean() == pytest.approx(np.mean(parts) / 2, rel=0.35)
