"""Accounting as published: where it differs from strict accounting, and what it says it truly costs."""

import math
import re
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.base import clone

from diprime import PrivacyWarning, load
from diprime._util.resources import Threads
from diprime.domain import Categorical, Domain, Numeric
from diprime.domain.encoding import TargetLayout
from diprime.forest.candidates import MAX_UNITS, CategoricalCandidates
from diprime.forest.engine import IndependentAssignment
from diprime.forest.splitters import MedianSplitter, quality
from diprime.forest.sums import STRICT, leaf_charge, release_leaves
from diprime.paper import PUBLISHED, EqualParts
from diprime.privacy.charges import Mechanism
from diprime.privacy.randomness import RandomSource
from tests.encoded_rows import drawn_trees
from tests.forest.made_leaves import SUMS, assert_distributions, of_sums
from tests.paid import pay
from tests.small_data import ESTIMATORS, PAPER, TASKS, fit, make
from tests.spies import Draws

pytestmark = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")

ONE = Threads(1)
NUMBER, CLASSES = TargetLayout.of_number(4096), TargetLayout.of_classes(3)


# -- parts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_rows", "n_trees"), [(1000, 5), (1001, 5), (7, 3), (3, 7), (0, 4), (10, 1)])
def test_equal_parts_differ_by_at_most_one_row(n_rows, n_trees):
    parts = drawn_trees(EqualParts(n_trees), n_rows, RandomSource(0), ONE)
    assert parts.dtype == np.uint16
    sizes = np.bincount(parts, minlength=n_trees)
    assert (len(sizes), sizes.sum()) == (n_trees, n_rows)
    assert np.ptp(sizes) <= 1


def test_further_row_moves_others_between_equal_parts():
    short, long = (drawn_trees(EqualParts(5), n, RandomSource(0), ONE) for n in (1000, 1001))
    assert (short != long[:1000]).any()
    independent = [drawn_trees(IndependentAssignment(5), n, RandomSource(0), ONE) for n in (1000, 1001)]
    assert (independent[0] == independent[1][:1000]).all()


def test_parts_are_drawn_from_one_stream_and_one_part_from_none(monkeypatch):
    draws = Draws(monkeypatch)
    drawn_trees(EqualParts(1), 100, RandomSource(0), ONE)
    assert draws.handed_out == []
    several = {drawn_trees(EqualParts(3), 100, RandomSource(seed), ONE).tobytes() for seed in range(5)}
    assert len(several) == len(draws.handed_out) == 5
    draws.assert_each_bit_is_used_once()


def test_published_accounting_assigns_rows_to_equal_parts():
    assignment = PUBLISHED.assignment(4)
    assert isinstance(assignment, EqualParts)
    assert assignment.n_trees == 4


# -- charges -----------------------------------------------------------------------------------------------------------


def charges(policy, k, epsilon):
    domain = Domain({name: Numeric(0, 1) for name in "abcdef"}, Categorical([0, 1]))
    categories = CategoricalCandidates.draw(domain, RandomSource(0))
    splitter = MedianSplitter(domain, categories, k, Mechanism.EXPONENTIAL, policy)
    return splitter.charges(2, epsilon, 3, "")


@pytest.mark.parametrize("k", [1, 2, 5])
def test_medians_of_the_same_records_are_charged_as_one(k):
    published, strict = (charges(policy, k, Fraction(1, 3))[0] for policy in (PUBLISHED, STRICT))
    assert published.total == strict.total == Fraction(3, 3) / (1 if k == 1 else 2)
    assert (published.n_releases, strict.n_releases) == (3, 3 * k)
    assert published.epsilon == k * strict.epsilon, "each median has what all of them are charged"
    assert published.strict_total == k * published.total
    assert strict.strict_measure is None
    assert str(published.sensitivity) == str(strict.sensitivity) == "cost range 2"


@pytest.mark.parametrize("k", [2, 5])
def test_choices_are_charged_at_the_published_sensitivity(k):
    published, strict = (charges(policy, k, Fraction(1, 3))[1] for policy in (PUBLISHED, STRICT))
    assert PUBLISHED.quality_range(1026, 1024) == 8 * 1024
    assert str(published.sensitivity) == f"cost range {8 * MAX_UNITS} in units of 1/{MAX_UNITS}"
    assert str(strict.sensitivity) == f"cost range {quality(1).range} in units of 1/{MAX_UNITS}"
    assert published.total == strict.total == Fraction(1, 2)
    assert published.strict_total == published.total * Fraction(quality(1).range, 8 * MAX_UNITS)
    assert strict.strict_measure is None


def test_at_infinite_epsilon_the_true_costs_are_infinite():
    assert {charge.strict_total for charge in charges(PUBLISHED, 3, math.inf)} == {math.inf}


@pytest.mark.parametrize("layout", [CLASSES, NUMBER])
def test_true_counts_have_infinite_cost(layout):
    charge = leaf_charge(layout, Fraction(1, 4), 2, "", PUBLISHED)
    strict = leaf_charge(layout, Fraction(1, 4), 2, "", STRICT)
    assert charge.total == strict.total == Fraction(1, 2)
    if layout is NUMBER:
        assert str(charge.sensitivity) == f"{strict.sensitivity}, with exact counts released in addition"
        assert charge.strict_total == math.inf
    else:
        assert charge == strict


# -- leaves ------------------------------------------------------------------------------------------------------------


def released(sums, layout, policy):
    receipt = pay(leaf_charge(layout, Fraction(1), 1, "", policy))
    return release_leaves(sums, layout, layout.whole_range, receipt, policy, RandomSource(0))


def test_leaf_of_a_number_has_its_exact_count():
    sums = np.full((1, 64, 2), 50 * 4096, dtype=np.int64)
    leaves = released(sums, NUMBER, PUBLISHED)
    assert (leaves.counts == 100).all()
    assert np.ptp(leaves.sums[..., 1]) > 0
    strict = released(sums, NUMBER, STRICT)
    assert (leaves.sums[..., 1] == strict.sums[..., 1]).all(), "the same noise on the sums of values"
    assert (strict.counts != 100).any()


def test_leaves_of_classes_are_the_same_as_in_strict_accounting():
    sums = np.arange(2 * 4 * 3).reshape(2, 4, 3)
    published, strict = (released(sums, CLASSES, policy) for policy in (PUBLISHED, STRICT))
    assert (published.sums == strict.sums).all()
    assert (published.counts == strict.counts).all()


def test_estimates_are_sums_over_counts_clamped():
    leaves = of_sums([[[3.0, 1.0], [-2.0, 8.0], [-1.0, -1.0], [0.0, 0.0]]])
    expected = [[[0.75, 0.25], [0.0, 1.0], [0.5, 0.5], [0.5, 0.5]]]
    for layout in (TargetLayout.of_classes(2), NUMBER):
        assert PUBLISHED.leaf_means(leaves, layout).tolist() == expected
        assert (PUBLISHED.leaf_means(of_sums(np.zeros((2, 4, 2))), layout) == 0.5).all(), "nothing at all is uniform"


@given(SUMS)
@settings(deadline=None)
def test_estimates_are_always_distributions(sums):
    assert_distributions(PUBLISHED.leaf_means(of_sums(sums), CLASSES), sums.shape)


# -- estimators ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_parameters_are_those_of_the_private_forest(task):
    assert PAPER[task]().get_params() == ESTIMATORS[task]().get_params()
    assert type(clone(PAPER[task](max_depth=3))) is PAPER[task]


@pytest.mark.parametrize("task", TASKS)
def test_file_is_read_as_the_forest_that_was_saved(task, tmp_path):
    X, y = make(task, 200)
    model = fit(task, X, y, estimators=PAPER, method="diprime")
    model.save(tmp_path / "paper.diprime")
    copy = load(tmp_path / "paper.diprime")
    assert type(copy) is PAPER[task]
    assert not copy.privacy_.is_private
    assert np.array_equal(copy.predict(X), model.predict(X))


def test_file_is_refused_unless_diprime_paper_is_imported(tmp_path):
    fit("regression", *make("regression", 200), estimators=PAPER).save(tmp_path / "paper.diprime")
    script = "import sys, diprime; diprime.load(sys.argv[1])"
    run = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "paper.diprime"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert re.search(r"paper\.diprime .*DiPriMe paper, .*diprime\.paper ", run.stderr)


@pytest.mark.parametrize("task", TASKS)
def test_every_fit_warns(task):
    with pytest.warns(PrivacyWarning, match="DiPriMe paper"):
        fit(task, *make(task, 100), estimators=PAPER)
