"""Tree views: rows meet the conditions of their path, nodes aggregate their leaves, noise is that of the ledger."""

import math

import numpy as np
import pandas as pd
import pytest

from diprime import Categorical, DiPriMeClassifier, DiPriMeRegressor, Domain, Forest, Numeric, merge
from diprime.domain import TARGET_UNITS
from diprime.export import to_onnx
from diprime.inspection.views import read_tree
from diprime.model.trees import Structure, threshold_mask
from diprime.plots import plot_importances
from diprime.privacy.mechanisms.laplace import laplace_variance
from tests.made_additive import DOMAINS as BOOSTED_DOMAINS
from tests.made_additive import made_model
from tests.small_data import DOMAINS, METHODS, PAPER, TASKS, fit, make

CATEGORIES = [f"value {i}" for i in range(300)]
WORDS = Domain(
    {
        "age": Numeric(0, 255),
        "sex": Categorical(["F", "M"]),
        "code": Categorical(CATEGORIES),
        "edge": Numeric(edges=[1.5]),
    },
    Categorical(["no", "yes"]),
)


def model_with_splits(features, masks, domain=WORDS, epsilon=1):
    """Return a model with one tree that has the given splits."""
    depth = len(features).bit_length()
    rng = np.random.default_rng(0)
    X = [[1.0 if isinstance(f, Numeric) else f.categories[0] for f in domain.features.values()]]
    model = DiPriMeClassifier(epsilon, domain, n_estimators=1, max_depth=depth).fit(X, ["no"])
    structure = Structure(np.array([features], dtype=np.int32), np.array([masks], dtype=np.uint8))
    values = rng.dirichlet([1, 1], (1, 2**depth))
    model.forest_ = Forest.of_trees(structure, values, rng.uniform(10, 20, (1, 2**depth)))
    return model


def codes_right(*codes):
    bits = np.zeros(256, dtype=np.uint8)
    bits[list(codes)] = 1
    return np.packbits(bits, bitorder="little")


def above(threshold, missing_right):
    return threshold_mask(np.array([threshold]), np.array([missing_right]))[0]


def conditions(features, masks):
    return read_tree(model_with_splits(features, masks), 0).conditions[1:]


def test_conditions_of_numeric_splits():
    assert conditions([0], [above(36, False)]) == ["age < 37 or missing", "age ≥ 37"]
    assert conditions([0], [above(36, True)]) == ["age < 37", "age ≥ 37 or missing"]
    assert conditions([3], [above(0, True)]) == ["edge < 1.5", "edge ≥ 1.5 or missing"]
    for feature, last in ((0, 254), (3, 1)):
        name = WORDS.encoded_feature_names[feature]
        assert conditions([feature], [above(last, True)]) == [f"{name} is known", f"{name} is missing"]


def test_conditions_of_categorical_splits():
    assert conditions([1], [codes_right(1)]) == ["sex is not M", "sex is M"]
    assert conditions([1], [codes_right(1, 254)]) == ["sex is F or missing", "sex is M or unlisted"]
    left, right = conditions([2], [codes_right(0, 200)])
    assert right == "code is value 0/value 254 or value 200"  # value 254 shares the code of value 0
    assert left == "code is not value 0/value 254 or value 200"
    left, right = conditions([2], [codes_right(*range(0, 254, 2))])
    assert right.startswith("code is value 0/value 254, value 2/value 256, value 4/")
    assert right.endswith(" or 87 more")


def test_conditions_omit_impossible_codes():
    # Missing ages go right at the root, so they cannot occur on the left. On the right, M goes left.
    masks = [above(100, True), above(50, True), codes_right(0, 254, 255)]
    found = conditions([0, 0, 1], masks)
    assert found[2:4] == ["age < 51", "age ≥ 51"]
    assert found[4:] == ["sex is M", "sex is not M"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", TASKS)
def test_rows_meet_all_conditions_on_the_path_to_their_leaf(task, method):
    X, y = make(task, 400)
    model = fit(task, X, y, method=method, max_depth=4, n_estimators=2)
    names = list(DOMAINS[task].encoded_feature_names)
    leaves = model.apply(X)
    for index in range(2):
        tree = read_tree(model, index)
        for row, leaf in zip(X[:60], leaves[:60, index], strict=True):
            node = leaf + 2**tree.depth - 1
            while node:
                assert holds(tree.conditions[node], dict(zip(names, row, strict=True))), tree.conditions[node]
                node = (node - 1) // 2


def holds(condition, row):
    """Return whether a row meets a condition, which is parsed as a person would read it."""
    if condition in ("every record", "no record"):
        return condition == "every record"
    name, relation, rest = condition.split(" ", 2)
    value = row[name]
    missing = math.isnan(value)
    if relation in "<≥":
        limit, _, aside = rest.partition(" or ")
        if missing:
            return aside == "missing"
        # A threshold is rounded to six digits, so it may be on the other side of a value close to it.
        near = math.isclose(value, float(limit), rel_tol=1e-5)
        return near or (value < float(limit) if relation == "<" else value >= float(limit))
    if rest in ("known", "missing"):
        return (rest == "missing") == missing
    negated = rest.startswith("not ")
    listed = rest.removeprefix("not ").replace(" or ", ", ").split(", ")
    categories = [0, 1] if name == "side" else list(range(12))
    name_of_value = "missing" if missing else str(int(value)) if value in categories else "unlisted"
    return (name_of_value in listed) != negated


def test_inner_nodes_aggregate_their_leaves():
    model = model_with_splits([0, 1, 1], [above(36, False), codes_right(1), codes_right(0)])
    counts, values = model.forest_.counts, model.forest_.values
    tree = read_tree(model, 0)
    assert tree.counts == pytest.approx([counts.sum(), counts[:2].sum(), counts[2:].sum(), *counts])
    assert tree.values[0] == pytest.approx(np.average(values, axis=0, weights=counts))
    assert tree.values[2] == pytest.approx(np.average(values[2:], axis=0, weights=counts[2:]))
    short = read_tree(model, 0, max_depth=1)
    assert (short.depth, short.levels_below, short.features) == (1, 1, ["age", None, None])
    assert short.counts == pytest.approx(tree.counts[:3])


@pytest.mark.parametrize(("task", "n_outputs", "units"), [("classification", 3, 1), ("regression", 2, TARGET_UNITS)])
def test_node_noise_follows_the_charge_for_leaf_sums(task, n_outputs, units):
    model = fit(task, *make(task, 500), epsilon=2, n_estimators=1, max_depth=2)
    (charge,) = (charge for charge in model.privacy_.charges if charge.description == "leaf sums")
    leaf = math.sqrt(n_outputs * laplace_variance(charge.epsilon, units)) / units
    assert read_tree(model, 0).count_noise == pytest.approx([leaf * 2] + [leaf * math.sqrt(2)] * 2 + [leaf] * 4)


def test_the_noise_of_means_is_about_the_deviation_between_fits():
    rng = np.random.default_rng(0)
    domain = Domain({"a": Categorical([0, 1])}, Numeric(0, 10))
    X, y = np.zeros((300, 1)), rng.choice([2.0, 4.0], 300)
    with pytest.warns(match="not private"):
        trees = [
            read_tree(
                DiPriMeRegressor(
                    1, domain, method="random", n_estimators=1, max_depth=1, random_state=seed, n_jobs=1
                ).fit(X, y),
                0,
            )
            for seed in range(300)
        ]
    # All rows are in one leaf. The standard error of a deviation from 300 fits is about 4 %.
    full = [(tree, 1 + int(tree.counts[2] > tree.counts[1])) for tree in trees]
    deviation = np.std([tree.values[node, 0] for tree, node in full])
    assert deviation == pytest.approx(np.median([tree.value_noise[node] for tree, node in full]), rel=0.2)


def test_noise_of_class_shares_includes_sampling():
    """Of the true shares in the population, 50 to 88 % were within two standard deviations when it did not."""
    rng = np.random.default_rng(0)
    X, domain = rng.random((5000, 2)), Domain({"a": Numeric(0, 1), "b": Numeric(0, 1)}, Categorical([0, 1]))
    model = DiPriMeClassifier(1000, domain, max_depth=3).fit(X, (rng.random(5000) < 0.2 + 0.6 * X[:, 0]) * 1)
    tree = read_tree(model, 0)
    populated = tree.counts > 50
    assert populated.sum() > 3
    shares = tree.values[populated, 1]
    sampling = np.sqrt(shares * (1 - shares) / tree.counts[populated])
    assert tree.value_noise[populated] == pytest.approx(sampling, rel=0.02)


@pytest.mark.audit
@pytest.mark.parametrize(("n", "epsilon"), [(3000, 0.3), (3000, 3.0), (20_000, 0.1)])
def test_noise_of_class_shares_covers_those_of_the_population(n, epsilon):
    """Two standard deviations cover 94 to 99 % of the true shares; without sampling, they covered 50 to 88 %.

    The nodes of a fit depend on each other. The mean of 60 fits has a standard error of about 1 %, so that the limit
    is six of them away.
    """
    rng, domain = np.random.default_rng(), Domain(dict.fromkeys("abcd", Numeric(0, 1)), Categorical([0, 1]))
    population, covered = rng.random((20_000, 4)), []
    for _ in range(60):
        X = rng.random((n, 4))
        model = DiPriMeClassifier(epsilon, domain).fit(X, (rng.random(n) < chances(X)) * 1)
        tree, leaves = read_tree(model, 0), model.apply(population)[:, 0]
        first = 2**tree.depth - 1
        inside = [(first + leaf, leaves == leaf) for leaf in range(2**tree.depth)]
        seen = [(i, here) for i, here in inside if tree.counts[i] > 50 and here.sum() > 100]
        errors = [abs(tree.values[i, 1] - chances(population[here]).mean()) / tree.value_noise[i] for i, here in seen]
        covered.append(np.mean(np.array(errors) <= 2))
    assert np.mean(covered) > 0.88


def chances(X):
    return 0.15 + 0.4 * X[:, 0] + 0.3 * (X[:, 1] > 0.6)


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_values_released_without_noise_show_none():
    X, y = make("regression", 500)
    as_published = read_tree(fit("regression", X, y, estimators=PAPER, max_depth=2), 0)
    assert as_published.count_noise.max() == 0
    assert as_published.value_noise.min() > 0
    without_noise = read_tree(fit("regression", X, y, epsilon=math.inf, max_depth=2), 0)
    assert without_noise.count_noise.max() == without_noise.value_noise.max() == 0


def test_merged_models_show_the_largest_noise():
    X, y = make("classification", 300)
    models = [fit("classification", X, y, epsilon=e, max_depth=2, n_estimators=1) for e in (1, 4)]
    largest = max(read_tree(m, 0).count_noise[0] for m in models)
    merged = merge([merge(models, disjoint=True), models[1]], disjoint=True)
    assert [read_tree(merged, i).count_noise[0] for i in range(3)] == [largest] * 3


def test_a_tree_index_out_of_range_is_refused():
    model = model_with_splits([0], [above(36, False)])
    for index in (-1, 1):
        with pytest.raises(ValueError, match=rf"index .*0 to 0, got {index}"):
            read_tree(model, index)


@pytest.mark.parametrize("read", [lambda rows: read_tree(rows, 0), to_onnx, plot_importances])
def test_error_about_rows_does_not_print_them(read):
    rows = pd.DataFrame({"age": [73]})
    with pytest.raises(TypeError, match=r"DiPriMeClassifier, .*got a DataFrame\.$"):
        read(rows)


# Boosted models ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", BOOSTED_DOMAINS)
def test_boosted_tree_shows_its_contribution(target):
    model = made_model(target, 0, 5, oblivious=False)
    forest = model.forest_
    for index in range(forest.n_trees):
        tree = read_tree(model, index)
        leaves = slice(*forest.first_leaves[index : index + 2])
        n_leaves = leaves.stop - leaves.start
        assert np.array_equal(tree.values[-n_leaves:], forest.values[leaves])
        assert np.array_equal(tree.counts[-n_leaves:], forest.counts[leaves])
        assert tree.counts[0] == pytest.approx(forest.counts[leaves].sum())
        assert tree.count_noise is None
        assert tree.value_noise is None
        assert {name for name in tree.features if name} <= set(model.domain_.encoded_feature_names)
