"""Shapes: the groups of an axis cover the feature, and their values are those of the rows in them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime import Categorical, Date, Domain, Numeric
from diprime.inspection.views import largest_effects, shape_of
from diprime.model.effects import deviation
from diprime.model.trees import Structure, threshold_mask
from tests.made_additive import DOMAINS, additive_forest, as_model, made_model, made_rows


def group_of(axis, feature, value):
    """Return the group that a value is in, by edges and labels alone."""
    if value is None:
        return axis.labels.index("missing")
    if isinstance(feature, Categorical):
        return axis.labels.index(str(value)) if value in feature.categories else axis.labels.index("unlisted")
    return min(max(int(np.searchsorted(axis.edges, value, side="right")) - 1, 0), axis.n_regular - 1)


@given(seed=st.integers(0, 2**32 - 1), target=st.sampled_from(sorted(DOMAINS)))
@settings(deadline=None, max_examples=30)
def test_rows_have_the_values_of_their_groups(seed, target):
    model = made_model(target, seed, 10)
    rows = made_rows(np.random.default_rng(seed), 20)
    codes, domain = model.domain_.encode(rows), model.domain_
    for term in model.forest_.effects.terms:
        shape = shape_of(model, term.features)
        assert shape.values.shape[:-1] == tuple(len(axis.labels) for axis in shape.axes)
        features = [domain.features[domain.encoded_feature_names[j]] for j in term.features]
        for row, expected in zip(rows, term.values(codes), strict=True):
            values = (row[j] for j in term.features)
            cell = tuple(group_of(*of_axis) for of_axis in zip(shape.axes, features, values, strict=True))
            assert np.array_equal(shape.values[cell], expected)


@pytest.mark.parametrize("name", DOMAINS["two"].encoded_feature_names)
def test_axes_have_ascending_positions_and_all_records(name):
    model = made_model("two", 0, 30)
    j = model.domain_.encoded_feature_names.index(name)
    (axis,) = shape_of(model, (j,)).axes
    assert (np.diff(axis.positions) > 0).all()
    assert len(axis.positions) == len(axis.labels) + 1 == len(axis.weights) + 1
    assert axis.weights.sum() == pytest.approx(model.forest_.n_records)
    assert axis.labels[-1] == "missing"


def one_split(feature, threshold, target=DOMAINS["two"].target):
    domain = Domain({"x": feature}, target)
    mask = threshold_mask(np.array([threshold]), np.array([True]))
    structure = Structure(np.zeros((1, 1), dtype=np.int32), mask[None])
    rounds = [(structure, np.array([[[0.0], [1.0]]]), np.ones((1, 2)))]
    weights = np.zeros((1, 256))
    weights[0, : domain.n_codes[0]] = 2
    return as_model(additive_forest(rounds, np.zeros(1), 2.0**-20, weights, domain), domain)


@pytest.mark.parametrize(
    ("feature", "edges"),
    [
        (Numeric(edges=[1, 2]), [0.5, 1, 2.5]),
        (Numeric(edges=[1]), [0, 1, 2]),
        (Numeric(-9, 9, edges=[1, 2]), [-9, 1, 9]),
        (Numeric(5, 6, edges=[1, 2]), [0.5, 1, 6]),
    ],
)
def test_given_edges_may_have_no_range(feature, edges):
    assert shape_of(one_split(feature, 0), (0,)).axes[0].edges.tolist() == edges


def test_the_largest_effects_come_first():
    forest = made_model("two", 0, 60).forest_
    for n in (1, 2):
        order = largest_effects(forest, n)
        spread = {term.features: deviation(term, forest.code_counts) for term in forest.effects.terms}
        assert [spread[features] for features in order] == sorted((spread[f] for f in order), reverse=True)
        assert set(order) == {features for features in spread if len(features) == n}
    assert largest_effects(replace(forest, values=forest.values * 0), 1) == []


def test_dates_are_drawn_in_days_since_1970():
    (axis,) = shape_of(one_split(Date("1970-01-01", "1970-12-31"), 99), (0,)).axes
    assert axis.edges.tolist() == pytest.approx([0, 144, 365])
    assert axis.labels == ["below 1970-05-25", "from 1970-05-25", "missing"]
    assert [label for _, label in axis.ticks] == ["1970-01-01", "1970-04-02", "1970-07-02", "1970-10-01", "1970-12-31"]
    assert axis.ticks[-1][0] == pytest.approx(axis.edges[-1])


def test_parts_of_dates_have_their_names():
    (axis,) = shape_of(one_split(Date(parts=["weekday"]), 4), (0,)).axes
    assert axis.name == "x.weekday"
    assert axis.edges.tolist() == [-0.5, 4.5, 6.5]
    assert axis.labels == ["Monday to Friday", "Saturday to Sunday", "missing"]
    assert [label for _, label in axis.ticks][:2] == ["Monday", "Tuesday"]
