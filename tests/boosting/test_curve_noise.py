"""The noise of curves: the covariance of a linear recursion, and the deviation of fitted curves from the truth."""

from dataclasses import replace

import numpy as np
import pytest

from diprime import Categorical, DiPriMeBoostingClassifier, DiPriMeBoostingRegressor, Domain, Numeric
from diprime.boosting import curves, defaults
from diprime.boosting.curve_noise import Epoch, evidence, noise_factors

N_FEATURES, N = 2, 3


def made_epochs(seed, n_epochs=3):
    rng = np.random.default_rng(seed)
    scales = rng.uniform(0.3, 1, (n_epochs, N_FEATURES, N))
    return [Epoch(int(rng.integers(1, 8)), 2e-4, rng.uniform(5, 20), 500.0, of_epoch) for of_epoch in scales]


def made_products(seed):
    functions = np.random.default_rng(seed).normal(0, 1, (N_FEATURES, N, 40))
    return functions @ functions.swapaxes(1, 2) / 40


def covariance_of_steps(epochs, products, variance, feature):
    """Return the covariance of the error, step by step: of each step's noise, and of the one sampling error."""
    covariance, response = np.zeros((2 * N, 2 * N)), np.zeros((2 * N, N))
    for epoch in epochs:
        b = np.diag(epoch.scales[feature])
        for _ in range(epoch.n_steps):
            velocity = np.hstack([-epoch.curvature * b @ b @ products[feature], defaults.MOMENTUM * np.eye(N)])
            error = np.hstack([np.eye(N), np.zeros((N, N))]) + epoch.rate * velocity
            step, new = np.vstack([error, velocity]), np.vstack([epoch.rate * b, b])
            covariance = step @ covariance @ step.T + epoch.noise**2 * new @ new.T
            response = step @ response + new @ b
    of_sampling = response @ (variance * products[feature]) @ response.T
    return (covariance + of_sampling)[:N, :N]


@pytest.mark.parametrize("seed", range(4))
def test_noise_is_that_of_the_recursion_step_by_step(seed):
    epochs, products = made_epochs(seed), made_products(seed)
    factors = noise_factors(epochs, products, 30.0)
    for feature in range(N_FEATURES):
        expected = covariance_of_steps(epochs, products, 30.0, feature)
        assert factors[feature] @ factors[feature].T == pytest.approx(expected, rel=1e-9)


def test_noise_is_the_spread_of_simulated_steps():
    """Every variance of 20,000 draws is within seven standard deviations, 7%."""
    (products, epochs), rng = (made_products(0), made_epochs(0)), np.random.default_rng(1)
    n, variance = 20_000, 30.0
    error, velocity = np.zeros((n, N)), np.zeros((n, N))
    sampling = rng.multivariate_normal(np.zeros(N), variance * products[0], n)
    for epoch in epochs:
        b = epoch.scales[0]
        for _ in range(epoch.n_steps):
            gradient = sampling - epoch.curvature * error @ products[0]
            velocity = defaults.MOMENTUM * velocity + b**2 * gradient + b * rng.normal(0, epoch.noise, (n, N))
            error = error + epoch.rate * velocity
    factors = noise_factors(epochs, products, variance)
    assert error.var(axis=0) == pytest.approx((factors[0] ** 2).sum(axis=1), rel=0.07)


def test_noise_scales_with_that_of_the_releases():
    epochs, products = made_epochs(0), made_products(0)
    twice = [replace(epoch, noise=2 * epoch.noise) for epoch in epochs]
    assert noise_factors(twice, products, 0.0) == pytest.approx(2 * noise_factors(epochs, products, 0.0))


@pytest.mark.parametrize("n_scores", [1, 3])
def test_evidence_of_noise_is_standardised_and_that_of_signals_is_clear(n_scores):
    """Means and standard deviations of 2,000 draws are within seven standard errors, 0.16, and 0.11 to 0.25."""
    rng = np.random.default_rng(0)
    share = rng.dirichlet(np.ones(256), 2)
    parts = [rng.normal(0, 1, (9, 256)), np.abs(rng.normal(0, 1, (1, 256)))]
    found = []
    for _ in range(2000):
        of_numbers = (rng.normal(0, 1, (n_scores, 9)) @ parts[0]).T
        of_categories = (rng.normal(0, 1, (n_scores, 256)) * parts[1]).T
        found.append(evidence([of_numbers, of_categories], parts, share))
    assert np.mean(found) == pytest.approx(0, abs=0.16)
    assert np.std(found) == pytest.approx(1, abs=0.25)
    assert evidence([5 * of_numbers, of_categories], parts, share) > 4
    assert evidence([of_numbers], [0 * parts[0]], share[:1]) == np.inf


# -- fitted curves ----------------------------------------------------------------------------------------------------

KINDS = list("abcdef")
DEVIATIONS = {"a": -0.8, "b": 0.5, "c": 0.3, "d": -0.2, "e": 0.6, "f": -0.4}
FEATURES = {"up": Numeric(0, 1), "wave": Numeric(0, 1), "none": Numeric(0, 1), "kind": Categorical(KINDS)}
TRUTH = [
    lambda x: 1.2 * np.cos(np.pi * x),
    lambda x: 0.8 * np.cos(2 * np.pi * x),
    np.zeros_like,
    np.vectorize(DEVIATIONS.get),
]
N_FITS = 15


def squared_ratios(kind, epsilon, signal, seed, n=5000):
    """Return, for each feature, the mean of the squared ratio of a curve's error to its stated deviation."""
    rng = np.random.default_rng(seed)
    numbers, kinds = rng.random((3, n)), rng.choice(KINDS, n)
    score = signal * sum(f(x) for f, x in zip(TRUTH, [*numbers, kinds], strict=True))
    if kind is DiPriMeBoostingRegressor:
        score, target = score / 12, Numeric(0, 1)
        y = np.clip(0.5 + score + rng.normal(0, 0.1, n), 0, 1)
    else:
        target = Categorical(["no", "yes"])
        y = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no")
    domain = Domain(FEATURES, target)
    X = np.column_stack([*numbers.astype(object), kinds])
    forest = kind(epsilon, domain, random_state=seed, n_jobs=1).fit(X, y).forest_
    assert all(forest.steps.is_curve)
    unit = signal / 12 if kind is DiPriMeBoostingRegressor else signal
    found = []
    for j, function in enumerate(TRUTH):
        codes = np.arange(forest.n_codes[j])
        truth = unit * function(np.array(KINDS) if j == 3 else (codes + 0.5) / len(codes))
        terms = [term for term in forest.effects.terms if term.features == (j,)]
        values = terms[0].table[terms[0].segments[0][codes], 0] if terms else np.zeros(len(codes))
        deviations = forest.noise.deviations((j,), (codes,))[:, 0]
        found.append(np.mean(((values - truth + truth.mean()) / deviations) ** 2))
    return found


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize("signal", [0, 1])
@pytest.mark.parametrize(
    ("kind", "epsilon"),
    [(DiPriMeBoostingClassifier, 0.3), (DiPriMeBoostingClassifier, 1.5), (DiPriMeBoostingRegressor, 0.5)],
)
def test_curves_differ_from_the_truth_by_their_stated_noise(kind, epsilon, signal, monkeypatch):
    """The fits are seeded, so there are no false alarms. Noise of 0.6 times the stated size is outside the limits.

    With less information, strong signals are learnt only in part, which the stated noise does not include.
    """
    monkeypatch.setattr(defaults, "round_share", lambda task, information: 0.0)
    monkeypatch.setattr(curves, "evidence", lambda *arguments: np.inf)  # so that no curve is shrunk
    ratios = np.sqrt(np.mean([squared_ratios(kind, epsilon, signal, seed) for seed in range(N_FITS)], axis=0))
    total = np.sqrt((ratios**2).mean())
    assert 0.8 < total < 1.25
    assert 0.6 < ratios.min() <= ratios.max() < 1.6, "of each feature"
