"""Controls break what they say while they last, and nothing afterwards."""

from fractions import Fraction

import pytest

from benchmarks.audit import controls
from benchmarks.audit.__main__ import keys
from benchmarks.audit.controls import all_controls, quick_controls
from benchmarks.audit.transcripts import watching
from diprime.paper.accounting import EqualParts
from diprime.privacy.mechanisms import gaussian, laplace, selection
from diprime.training import train
from diprime.training.policy import STRICT

pytestmark = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")


def test_noise_is_too_small_by_three_tenths_while_it_lasts():
    def scale():
        numerator, denominator = laplace.laplace_scale(Fraction(1), 1000)
        return numerator / denominator

    with controls.too_little_laplace_noise():
        assert scale() == pytest.approx(700, rel=1e-4)
    assert scale() == pytest.approx(1000, rel=1e-4)
    with controls.too_little_normal_noise():
        assert float(gaussian.gaussian_sigma(Fraction(1), 10**6)) == pytest.approx(700, rel=1e-4)
    assert float(gaussian.gaussian_sigma(Fraction(1), 10**6)) == pytest.approx(1000, rel=1e-4)
    right = selection.weight_table(Fraction(1), 10, 2)
    with controls.too_little_selection_noise():
        steeper = selection.weight_table(Fraction(1), 10, 2)
    assert steeper[7] / steeper[0] == pytest.approx(right[10] / right[0], rel=1e-6)


def test_nothing_stays_broken():
    before = train.release_counts, laplace.laplace_scale, gaussian._scale, selection.weight_table
    for control in all_controls():
        with control.case.setting():
            pass
    assert before == (train.release_counts, laplace.laplace_scale, gaussian._scale, selection.weight_table)
    assert not isinstance(STRICT.assignment(2), EqualParts)


@pytest.mark.parametrize("control", all_controls(), ids=lambda control: f"{control.name}, {control.case.name}")
def test_a_control_fits_and_claims_what_it_should_not(control):
    table = control.case.neighbours.table(with_canary=True)
    with control.case.setting(), watching(keys(0)) as watch:
        model, transcript = watch.record(lambda: control.case.release(*table))
    assert model.privacy_.total == model.epsilon
    assert transcript.releases


def test_true_counts_choose_the_depth():
    case = controls.public_row_count(1).case
    with case.setting():
        depths = [case.release(*case.neighbours.table(with_canary=b)).forest_.depths.tolist() for b in (False, True)]
    assert depths == [[1], [2]]


def test_there_is_a_quick_control_for_noise_accounting_counts_and_persons():
    assert len({control.name for control in quick_controls()}) == 4
    assert {control.name for control in quick_controls()} <= {control.name for control in all_controls()}
