"""The rivals are private as stated, and learn what is easy: noise, clipping, least squares and simple tables."""

import math

import dp_accounting
import numpy as np
import pandas as pd
import pytest
from dp_accounting.pld import PLDAccountant

from benchmarks.utility import rivals
from benchmarks.utility.rivals import (
    FULL_BATCH,
    SGD_LINEAR,
    SGD_NETWORK,
    AdaSSP,
    DescentRegressor,
    Recipe,
    clipped_gradients,
    descent,
    encode,
    forward,
    gaussian_noise,
    noise_multiplier,
)
from diprime import Categorical, Domain, Numeric

DELTA = 1e-6
FEATURES = {"size": Numeric(-2, 6), "kind": Categorical(["a", "b", "c"]), "other": Numeric(0, 1)}
RECIPES = {"linear": SGD_LINEAR, "network": SGD_NETWORK, "full batch": (FULL_BATCH,)}


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"size": rng.uniform(-2, 6, n), "kind": rng.choice(["a", "b", "c"], n), "other": rng.uniform(0, 1, n)}
    )


def numbers(X):
    return 2 + 0.5 * X["size"].to_numpy() + 2.0 * (X["kind"] == "b").to_numpy()  # from 1 to 7


def epsilon_of(multiplier, rate, steps):
    accountant = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(multiplier))
    accountant.compose(dp_accounting.SelfComposedDpEvent(step, steps))
    return accountant.get_epsilon(DELTA)


@pytest.mark.parametrize("recipe", [SGD_LINEAR[0], SGD_NETWORK[1], FULL_BATCH], ids=["linear", "network", "full"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_noise_costs_the_given_epsilon_and_hardly_less(recipe, epsilon):
    multiplier = noise_multiplier(epsilon, DELTA, recipe.rate, recipe.steps)
    # The accountant rounds up, so it finds a little more than the exact cost of the full batch.
    limit = epsilon * 1.001 if recipe.rate == 1 else epsilon
    assert 0.99 * epsilon < epsilon_of(multiplier, recipe.rate, recipe.steps) <= limit


def test_full_batch_noise_is_that_of_one_gaussian_mechanism():
    mu = math.sqrt(FULL_BATCH.steps) / noise_multiplier(1.0, DELTA, 1, FULL_BATCH.steps)
    above, below = ((1 / mu + sign * mu / 2) / math.sqrt(2) for sign in (-1, 1))
    delta = 0.5 * math.erfc(above) - 0.5 * math.e * math.erfc(below)
    assert delta == pytest.approx(DELTA, rel=1e-6)


def gradient_of_record(layers, x, target, classes):
    """Return the gradient of one record, by central differences of its loss."""

    def loss():
        scores = forward(layers, x)[1][0]
        if classes:
            return np.log(np.exp(scores).sum()) - scores @ target[0]
        return 0.5 * ((scores - target[0]) ** 2).sum()

    parts = []
    for weights in layers:
        part = np.zeros_like(weights)
        for place in np.ndindex(weights.shape):
            kept, values = weights[place], []
            for weights[place] in (kept + 1e-5, kept - 1e-5):
                values.append(loss())
            weights[place] = kept
            part[place] = (values[0] - values[1]) / 2e-5
        parts.append(part)
    return parts


def norm_of(parts):
    return math.sqrt(sum((part**2).sum() for part in parts))


@pytest.mark.parametrize("hidden", [0, 4])
@pytest.mark.parametrize("classes", [True, False])
def test_contribution_of_each_record_is_its_gradient_clipped(hidden, classes):
    rng = np.random.default_rng(1)
    X = encode(rows(40), Domain(FEATURES, target=Numeric(0, 1))).astype(np.float64)
    shapes = [(X.shape[1], hidden), (hidden + 1, 3)] if hidden else [(X.shape[1], 3)]
    layers = [rng.normal(0, 1, shape) for shape in shapes]
    targets = np.eye(3)[rng.integers(0, 3, len(X))]
    records = list(zip(X[:, None], targets[:, None], strict=True))
    gradients = [gradient_of_record(layers, *record, classes) for record in records]
    norms = [norm_of(gradient) for gradient in gradients]
    clip = float(np.median(norms))
    contributions = [clipped_gradients(layers, *record, clip, classes) for record in records]
    for contribution, gradient, norm in zip(contributions, gradients, norms, strict=True):
        assert norm_of(contribution) <= clip * (1 + 1e-9)
        for part, exact in zip(contribution, gradient, strict=True):
            np.testing.assert_allclose(part, min(1, clip / norm) * exact, atol=1e-7)
    for i, total in enumerate(clipped_gradients(layers, X, targets, clip, classes)):
        np.testing.assert_allclose(total, sum(parts[i] for parts in contributions), atol=1e-9)


def test_rows_are_encoded_within_the_norm():
    X = pd.DataFrame({"size": [2.0, np.nan, 99.0], "kind": ["c", None, "z"], "other": [1.0, 0.0, -5.0]})
    found = encode(X, Domain(FEATURES, target=Numeric(0, 1)))
    assert found.tolist() == [[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, -1, 1], [1, 0, 0, 0, -1, 1]]
    assert (found**2).sum(axis=1).max() <= len(FEATURES) + 1


def test_adassp_without_noise_is_least_squares():
    X, domain = rows(500), Domain(FEATURES, target=Numeric(0, 8))
    y = numbers(X) + np.random.default_rng(2).uniform(-0.5, 0.5, len(X))
    design = encode(X, domain).astype(np.float64)
    expected = design @ np.linalg.lstsq(design, y)[0]
    np.testing.assert_allclose(AdaSSP(math.inf, domain, DELTA).fit(X, y).predict(X), expected, atol=1e-6)


def test_adassp_adds_a_third_of_the_budget_to_each_release(monkeypatch):
    """With rows of zeros but for the constant, all that is random is the noise."""
    domain = Domain({"x": Numeric(-1, 1)}, target=Numeric(0, 1))
    drawn = []

    def solve(gram, moments):
        drawn.append((gram[0, 1], moments[0]))
        return (np.zeros(2),)

    monkeypatch.setattr(np.linalg, "lstsq", solve)
    for _ in range(1000):
        AdaSSP(1.0, domain, DELTA).fit(pd.DataFrame({"x": np.zeros(10)}), np.full(10, 0.5))
    noise = math.sqrt(3) * gaussian_noise(1.0, DELTA)
    # A row has a square of at most 2, and times a number of at most ½ a norm of at most √½.
    assert np.std(drawn, axis=0) == pytest.approx([2 * noise, noise / math.sqrt(2)], rel=0.1)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers_learn_an_easy_table(recipe, n_classes):
    X, test = rows(5000), rows(2000, seed=1)
    cuts = [4.0] if n_classes == 2 else [2.8, 4.6]
    names = np.array(["low", "high"] if n_classes == 2 else ["one", "three", "two"])
    domain = Domain(FEATURES, target=Categorical(names.tolist()))
    model = descent(10.0, domain, DELTA, RECIPES[recipe]).fit(X, names[np.digitize(numbers(X), cuts)])
    probabilities = model.predict_proba(test)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(len(test)))
    assert (np.sort(names)[probabilities.argmax(axis=1)] == model.predict(test)).all()
    assert (model.predict(test) == names[np.digitize(numbers(test), cuts)]).mean() > 0.85


@pytest.mark.parametrize("model", ["linear", "network", "adassp"])
def test_regressors_learn_an_easy_table(model):
    X, test, domain = rows(5000), rows(2000, seed=1), Domain(FEATURES, target=Numeric(0, 8))
    learner = AdaSSP(10.0, domain, DELTA) if model == "adassp" else descent(10.0, domain, DELTA, RECIPES[model])
    found = learner.fit(X, numbers(X)).predict(test)
    assert not hasattr(learner, "predict_proba")
    assert np.mean((found - numbers(test)) ** 2) < 0.1 * numbers(test).var()
    assert ((found >= 0) & (found <= 8)).all()


def test_noise_of_a_step_is_a_multiple_of_its_clipping_norm(monkeypatch):
    """With gradients of zero, all that the weights show is the noise."""
    clips = []

    def no_gradients(layers, X, target, clip, classes):
        clips.append(clip)
        return [np.zeros_like(weights) for weights in layers]

    monkeypatch.setattr(rivals, "clipped_gradients", no_gradients)
    recipe, domain, X = Recipe(0.5, 2, 0.3, 1e-3, 500), Domain(FEATURES, target=Numeric(0, 8)), rows(1000)
    model = DescentRegressor(1.0, domain, DELTA, recipe)
    monkeypatch.setattr(model, "_start", lambda *_: [np.zeros((6, 500)), np.zeros((501, 1))])
    [first, last] = model.fit(X, numbers(X)).layers_
    assert clips == [0.3 * math.sqrt(4)] * 2
    step = 1e-3 * 1000 * 1.0 / 4
    two_steps = math.hypot(1 + rivals.MOMENTUM, 1)  # the result is the weights after the second
    expected = step * clips[0] * noise_multiplier(1.0, DELTA, 0.5, 2) / (0.5 * 1000) * two_steps
    assert np.std(first) == pytest.approx(expected, rel=0.1)
    assert np.std(last) == pytest.approx(expected, rel=0.2)
