"""Neighbours differ by their canary and by nothing else."""

import numpy as np
import pytest

from benchmarks.audit.cases import all_cases
from benchmarks.audit.controls import all_controls
from benchmarks.audit.neighbours import Neighbours, last_class, person

ALL = [case.neighbours for case in all_cases()] + [control.case.neighbours for control in all_controls()]


@pytest.mark.parametrize("of", ALL, ids=lambda of: of.name)
def test_tables_differ_by_the_canary_which_comes_last(of):
    without, with_it = of.table(with_canary=False), of.table(with_canary=True)
    n = len(of.rows)
    for a, b in zip(without[:2], with_it[:2], strict=True):
        assert (len(a), len(b)) == (n, n + len(of.canary))
        np.testing.assert_array_equal(a, b[:n])
    assert len(of.canary) == 1 or "person" in of.name


def test_records_of_the_canary_person_share_a_unique_id():
    *_, groups = person(3).table(with_canary=True)
    assert groups.tolist() == [0, 1, 2, 2, 2]


def test_ineffective_canary_is_refused():
    with pytest.raises(ValueError, match="not in the domain"):
        Neighbours("typo", last_class(2).domain, [], [(0.0, "class 3")])
