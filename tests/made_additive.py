"""Additive models with random trees of one or two features, for tests without training."""

import numpy as np

from diprime import Categorical, Charge, DiPriMeBoostingClassifier, DiPriMeBoostingRegressor, Domain, Ledger, Numeric
from diprime.boosting.cells import Cut, cell_tree
from diprime.domain import MISSING, OTHER
from diprime.model.additive import AdditiveForest, quantum_for
from diprime.model.effects import Steps, link_of
from diprime.model.trees import Structure, threshold_mask
from diprime.privacy.charges import Bound, BoundKind, Mechanism, ReleaseKind
from diprime.privacy.measures import PureEpsilon

FEATURES = {
    "age": Numeric(17, 90),
    "size": Numeric(1, 1000, scale="log"),
    "part": Numeric(edges=[0.5, 2]),
    "kind": Categorical([f"kind {i}" for i in range(12)]),
    "side": Categorical(["left", "right"]),
}
TARGETS = {
    "two": Categorical(["no", "yes"]),
    "three": Categorical(["c", "a", "b"]),
    "number": Numeric(-1.1, 10.3),
}
ESTIMATORS = {"classification": DiPriMeBoostingClassifier, "regression": DiPriMeBoostingRegressor}
DOMAINS = {name: Domain(FEATURES, target) for name, target in TARGETS.items()}


def random_mask(rng, domain, feature):
    """Return a random split that the domain permits, which is sometimes trivial."""
    n_codes = int(domain.n_codes[feature])
    if not domain.is_categorical[feature]:
        return threshold_mask(rng.integers(0, n_codes, 1), rng.integers(0, 2, 1) > 0)[0]
    bits = np.zeros(256, dtype=np.uint8)
    codes = [*range(n_codes), OTHER, MISSING]
    bits[codes] = rng.integers(0, 2, len(codes))
    return np.packbits(bits, bitorder="little")


def random_structure(rng, domain, depth, *, oblivious=True):
    """Return the splits of a tree on one or two features, with equal splits on each level if it is oblivious."""
    pair = rng.integers(0, domain.n_features, 2)
    n_splits = 2**depth - 1
    levels = np.repeat(np.arange(depth), 2 ** np.arange(depth)) if oblivious else np.arange(n_splits)
    chosen = rng.choice(pair, n_splits)[levels].astype(np.int32)
    drawn = {}
    for level, feature in zip(levels.tolist(), chosen.tolist(), strict=True):
        drawn.setdefault(level, random_mask(rng, domain, feature))
    masks = np.array([drawn[level] for level in levels.tolist()], dtype=np.uint8)
    return Structure(chosen[None], masks[None])


def made_curve(rng, domain, feature, scale):
    """Return a random curve: a tree with a leaf for each code of a feature."""
    n_codes = int(domain.n_codes[feature])
    codes = np.append(np.arange(n_codes), [OTHER, MISSING] if domain.is_categorical[feature] else [MISSING])
    cells = np.full(256, n_codes - 1)
    cells[codes] = np.arange(len(codes))
    structure = cell_tree([Cut(feature, cells, (len(codes) - 1).bit_length())])
    n_leaves = structure.features.shape[1] + 1
    values = rng.normal(0, scale, (1, n_leaves, link_of(domain, 1.0).n_scores))
    return structure, values, rng.normal(50, 30, (1, n_leaves))


def made_curve_noise(rng, domain, feature, scale):
    """Return the noise of a random curve."""
    n_parts = 1 if domain.is_categorical[feature] else 3
    return np.abs(rng.normal(0, scale / 10, (n_parts, 256)))


def made_forest(seed, domain, n_trees=8, *, oblivious=True, scale=1.0, quantum=None, curves=()):
    """Return an additive forest with curves of some features, and random trees of depth 1 to 4."""
    rng = np.random.default_rng(seed)
    n_scores = link_of(domain, 1.0).n_scores
    rounds = [made_curve(rng, domain, j, scale) for j in curves]
    noise = tuple(made_curve_noise(rng, domain, j, scale) for j in curves)
    for _ in range(n_trees):
        depth = int(rng.integers(1, 5))
        values = rng.normal(0, scale, (1, 2**depth, n_scores))
        rounds.append(
            (random_structure(rng, domain, depth, oblivious=oblivious), values, rng.normal(50, 30, (1, 2**depth)))
        )
    offset = rng.normal(0, scale, n_scores)
    largest = sum(np.abs(values).max() for _, values, _ in rounds) + np.abs(offset).max() + 20
    weights = made_weights(rng, domain)
    return additive_forest(rounds, offset, quantum or quantum_for(largest), weights, domain, curve_noise=noise)


def additive_forest(trees, offset, quantum, weights, domain, gradient_noise=30.0, curve_noise=()):
    """Return an additive forest with the given noise of curves and gradients, and a learning rate of 1/4."""
    table = np.tile([0.25, 70.0, 60.0, gradient_noise, 1.0], (len(trees), 1))
    table[: len(curve_noise)] = 0
    counts = weights, 0.0, float(weights.sum(axis=1).mean()), 0.0
    return AdditiveForest.of_rounds(trees, offset, quantum, counts, Steps(table, (len(trees),), curve_noise), domain)


def made_rows(rng, n):
    """Return rows with some missing, unlisted and out-of-range values."""
    rows = np.empty((n, 5), dtype=object)
    rows[:, 0], rows[:, 1], rows[:, 2] = rng.uniform(0, 100, n), rng.lognormal(3, 2, n), rng.uniform(-1, 4, n)
    rows[:, 3] = rng.choice([f"kind {i}" for i in range(14)], n)
    rows[:, 4] = rng.choice(["left", "right", "elsewhere"], n)
    rows[rng.random(rows.shape) < 0.1] = None
    return rows


def made_weights(rng, domain):
    """Return noisy record counts of the codes of a domain."""
    weights = np.zeros((domain.n_features, 256))
    for j, n_codes in enumerate(domain.n_codes):
        codes = [*range(n_codes), *([OTHER] if domain.is_categorical[j] else []), MISSING]
        weights[j, codes] = np.maximum(rng.normal(1000 / n_codes, 5, len(codes)), 0)
    return weights


def made_codes(rng, domain, n):
    """Return random codes of a domain, including those of missing and unlisted values."""
    codes = np.empty((n, domain.n_features), dtype=np.uint8)
    for j, n_codes in enumerate(domain.n_codes):
        possible = [*range(n_codes), *([OTHER] if domain.is_categorical[j] else []), MISSING]
        codes[:, j] = rng.choice(possible, n)
    return codes


def made_ledger(epsilon=1):
    """Return a ledger with a charge for gradient sums."""
    measure, bound = PureEpsilon(epsilon), Bound(BoundKind.SQUARED_L2, 1)
    charge = Charge(ReleaseKind.GRADIENT_SUMS, Mechanism.ROUNDED_GAUSSIAN, bound, measure)
    return Ledger(measure.epsilon, charges=[charge])


def as_model(forest, domain):
    """Return a fitted boosted estimator with the given additive forest."""
    model = ESTIMATORS[domain.task](domain=domain, n_jobs=1)
    model.domain_, model.forest_, model.privacy_ = domain, forest, made_ledger()
    model.fitted_params_ = model.get_params()
    if domain.task == "classification":
        model.classes_ = np.array(sorted(domain.target.categories))
    return model


def made_model(target, seed=0, n_trees=8, **settings):
    """Return a fitted model with random trees."""
    return as_model(made_forest(seed, DOMAINS[target], n_trees, **settings), DOMAINS[target])
