"""Controls break what they say while they last, and nothing afterwards."""

from fractions import Fraction

import pytest

from benchmarks.audit import controls
from benchmarks.audit.__main__ import keys
from benchmarks.audit.controls import all_controls
from benchmarks.audit.transcripts import watching
from diprime.forest import train
from diprime.forest.sums import STRICT
from diprime.paper import EqualParts
from diprime.privacy.mechanisms import gaussian, laplace, selection

pytestmark = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")


def test_noise_control_reduces_noise_by_thirty_percent():
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


def test_controls_are_reverted():
    before = train.release_counts, laplace.laplace_scale, gaussian._scale, selection.weight_table
    for control in all_controls():
        with control.case.setting():
            pass
    assert before == (train.release_counts, laplace.laplace_scale, gaussian._scale, selection.weight_table)
    assert not isinstance(STRICT.assignment(2), EqualParts)


@pytest.mark.audit
@pytest.mark.parametrize("control", all_controls(), ids=lambda control: f"{control.name}, {control.case.name}")
def test_control_fits_with_a_false_claim(control):
    table = control.case.neighbours.table(with_canary=True)
    with control.case.setting(), watching(keys(0)) as watch:
        model, transcript = watch.record(lambda: control.case.release(*table))
    assert model.privacy_.total == model.epsilon
    assert transcript.releases


def test_count_control_chooses_depth_by_exact_counts():
    case = controls.public_row_count(1).case
    with case.setting():
        depths = [case.release(*case.neighbours.table(with_canary=b)).forest_.depths.tolist() for b in (False, True)]
    assert depths == [[1], [2]]
