"""Tree views: rows meet the conditions of their path, nodes aggregate their leaves, noise is that of the ledger."""

import math

import numpy as np
import pytest

from diprime import Categorical, DiPriMeClassifier, DiPriMeRegressor, Domain, Forest, Numeric, merge
from diprime.baselines import DPRandomForestClassifier
from diprime.domain import TARGET_UNITS
from diprime.model.masks import threshold_mask
from diprime.model.tree_view import (
    fitted_additive_forest,
    fitted_forest,
    read_tree,
)
from diprime.model.trees import Structure
from diprime.privacy.mechanisms.laplace import laplace_variance
from tests.made_additive import DOMAINS as BOOSTED_DOMAINS
from tests.made_additive import made_model
from tests.small_data import DOMAINS, METHODS, TASKS, fit, make

LEVELS = [f"level {i}" for i in range(300)]
WORDS = Domain(
    {"age": Numeric(0, 255), "sex": Categorical(["F", "M"]), "code": Categorical(LEVELS), "edge": Numeric(edges=[1.5])},
    Categorical(["no", "yes"]),
)


def model_with_splits(features, masks, domain=WORDS, epsilon=1):
    """Return a model with one tree that has the given splits."""
    depth = len(features).bit_length()
    rng = np.random.default_rng(0)
    X = [[1.0 if isinstance(f, Numeric) else f.levels[0] for f in domain.features.values()]]
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
        name = WORDS.names[feature]
        assert conditions([feature], [above(last, True)]) == [f"{name} is known", f"{name} is missing"]


def test_conditions_of_categorical_splits():
    assert conditions([1], [codes_right(1)]) == ["sex is not M", "sex is M"]
    assert conditions([1], [codes_right(1, 254)]) == ["sex is F or missing", "sex is M or unlisted"]
    left, right = conditions([2], [codes_right(0, 200)])
    assert right == "code is level 0/level 254 or level 200"  # level 254 shares the code of level 0
    assert left == "code is not level 0/level 254 or level 200"
    left, right = conditions([2], [codes_right(*range(0, 254, 2))])
    assert right.startswith("code is level 0/level 254, level 2/level 256, level 4/")
    assert right.endswith(" or 87 more")


def test_conditions_omit_what_cannot_occur_at_the_node():
    # Missing ages go right at the root, so they cannot occur on the left. On the right, M goes left.
    masks = [above(100, True), above(50, True), codes_right(0, 254, 255)]
    found = conditions([0, 0, 1], masks)
    assert found[2:4] == ["age < 51", "age ≥ 51"]
    assert found[4:] == ["sex is M", "sex is not M"]


def test_a_threshold_above_all_possible_numbers_separates_at_most_missing_values():
    # Left of the root, ages are below 37 or missing.
    for missing_right, sides in ((False, ["every record", "no record"]), (True, ["age is known", "age is missing"])):
        assert conditions([0, 0, 1], [above(36, False), above(36, missing_right), codes_right(1)])[2:4] == sides


def test_a_node_that_cannot_be_split_has_no_feature():
    tree = read_tree(model_with_splits([0, 0, 1], [above(36, False), codes_right(), codes_right(1)]), 0)
    assert tree.features == ["age", None, "sex", None, None, None, None]
    assert tree.conditions[3:5] == ["every record", "no record"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", TASKS)
def test_rows_meet_all_conditions_on_the_path_to_their_leaf(task, method):
    X, y = make(task, 400)
    model = fit(task, X, y, method=method, max_depth=4, n_estimators=2)
    names = list(DOMAINS[task].names)
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
    levels = [0, 1] if name == "side" else list(range(12))
    name_of_value = "missing" if missing else str(int(value)) if value in levels else "unlisted"
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


def test_children_without_records_get_equal_weights():
    model = model_with_splits([0], [above(36, False)])
    forest = model.forest_
    model.forest_ = Forest(forest.depths, forest.features, forest.masks, forest.values, np.array([-2.0, -1.0]))
    tree = read_tree(model, 0)
    assert tree.counts[0] == -3
    assert tree.values[0] == pytest.approx(forest.values.mean(axis=0))
    assert tree.value_noise.max() <= 1


@pytest.mark.parametrize(("task", "n_outputs", "units"), [("classification", 3, 1), ("regression", 2, TARGET_UNITS)])
def test_the_noise_is_what_the_ledger_charged(task, n_outputs, units):
    model = fit(task, *make(task, 500), epsilon=2, n_estimators=1, max_depth=2)
    (charge,) = (charge for charge in model.privacy_.charges if charge.what == "leaf sums")
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


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_values_released_without_noise_show_none():
    X, y = make("regression", 500)
    as_published = read_tree(fit("regression", X, y, accounting="paper", max_depth=2), 0)
    assert as_published.count_noise.max() == 0
    assert as_published.value_noise.min() > 0
    without_noise = read_tree(fit("regression", X, y, epsilon=math.inf, max_depth=2), 0)
    assert without_noise.count_noise.max() == without_noise.value_noise.max() == 0


def test_merged_models_show_the_largest_noise():
    X, y = make("classification", 300)
    models = [fit("classification", X, y, epsilon=e, max_depth=2, n_estimators=1) for e in (1, 4)]
    largest = max(read_tree(m, 0).count_noise[0] for m in models)
    merged = merge([merge(models), models[1]])
    assert [read_tree(merged, i).count_noise[0] for i in range(3)] == [largest] * 3


def test_forests_of_another_kind_are_refused():
    domain = Domain({"a": Numeric(0, 1)}, Categorical(["x", "y"]))
    model = DPRandomForestClassifier(1, domain).fit([[0.5]], ["x"])
    with pytest.raises(TypeError, match="DiPriMeRegressor or a boosted model, got a DPRandomForestClassifier"):
        fitted_forest(model)


def test_a_tree_index_out_of_range_is_refused():
    model = model_with_splits([0], [above(36, False)])
    for index in (-1, 1):
        with pytest.raises(ValueError, match=f"no tree {index}: this model has trees 0 to 0"):
            read_tree(model, index)


# Boosted models ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", BOOSTED_DOMAINS)
def test_a_boosted_tree_shows_what_it_adds(target):
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
        assert {name for name in tree.features if name} <= set(model.domain_.names)


def test_a_forest_is_no_boosted_model():
    boosted = made_model("two")
    assert fitted_additive_forest(boosted) is boosted.forest_ is fitted_forest(boosted)
    with pytest.raises(TypeError, match="whose trees add up, got a DiPriMeClassifier"):
        fitted_additive_forest(model_with_splits([0], [above(36, False)]))
