"""The leaves that the paper's figures count hold all rows."""

import pytest

from benchmarks.paper.figures.leaves import leaf_counts
from benchmarks.paper.fits import Fit
from tests.benchmarks.paper.small_sets import numeric_set


@pytest.mark.audit
@pytest.mark.parametrize("method", ["DiPriMe", "DP-RF"])
def test_leaves_contain_all_rows(method):
    data = numeric_set("classification")
    for counts in leaf_counts(Fit("robot", method, 1, epsilon=5.0, trees=3, depth=2), data):
        assert counts.sum() == 300
