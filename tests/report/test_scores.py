"""The section of a private score: its numbers, its drawings, and its safety against hostile names."""

import math
import re

import numpy as np
import pytest

from diprime import load, private_score
from diprime.report import render
from tests.report.test_report import HOSTILE, Page, hostile_model
from tests.small_data import TASKS, boost, fit, make


@pytest.fixture(scope="module")
def scored():
    """Return models with their scores."""
    found = {}
    for task in TASKS:
        for kind, learn in (("forest", fit), ("boosted", boost)):
            model = learn(task, *make(task, 2000))
            found[task, kind] = model, private_score(model, *make(task, 2000, 1), 0.5)
    return found


KEYS = [(task, kind) for task in TASKS for kind in ("forest", "boosted")]


@pytest.mark.parametrize("key", KEYS)
def test_the_page_shows_every_score_its_interval_and_its_cost(scored, key):
    model, score = scored[key]
    text = Page(render(model, score)).text
    for name, e in score.estimates.items():
        assert f"{name} {e.value:.4g} {e.low:.4g} to {e.high:.4g}" in text
    assert "cost the people in the test rows ε = 0.5 ." in text
    assert "95 % interval" in text
    assert "contains no score" not in text
    for label, row in zip(score.classes or (), score.confusion_matrix or (), strict=True):
        assert f"true {label} {row[0].value:.1%} (" in text  # narrow screens do not show the heading "true class"


@pytest.mark.parametrize("key", KEYS)
def test_a_report_without_a_score_states_that_the_quality_is_unknown(scored, key):
    text = Page(render(scored[key][0])).text
    assert "95 % interval" not in text
    assert "Score This report contains no score, so the quality of the model is unknown." in text


@pytest.mark.parametrize("kind", ["forest", "boosted"])
def test_curves_and_calibration_are_drawn_to_scale(scored, kind):
    model, score = scored["classification", kind]
    page = render(model, score)
    drawings = re.findall(r'aria-label="(The ROC curve of|Calibration of)', page)
    assert len(drawings) == 2 * len(score.curves) == 6
    # The first path is that of the first class: from (1, 1) to (0, 0), in a square of 272 units with margins.
    first = re.search(r"The ROC curve of.*?<path d=\"M([^\"]*)\"", page, re.DOTALL).group(1)
    places = np.array([[float(v) for v in place.split()] for place in first.split("L")])
    across, up = (places[:, 0] - 24) / 272, 1 - (places[:, 1] - 12) / 272
    rates = [(p.false_positive_rate.value, p.true_positive_rate.value) for p in score.curves[0].roc_curve]
    expected = np.array([(1, 1), *rates, (0, 0)])
    assert np.column_stack([across, up]) == pytest.approx(expected, abs=1e-3)


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_score_without_privacy_is_marked(scored):
    model, _ = scored["regression", "forest"]
    X, y = make("regression", 200, 1)
    assert (
        "Not private: epsilon is infinite, so no noise was added."
        in Page(render(model, private_score(model, X, y, math.inf))).text
    )
    seeded = private_score(model, X, y, 1.0, random_state=0)
    assert "Not private: random_state is set" in Page(render(model, seeded)).text


def test_hostile_classes_are_escaped():
    model = hostile_model()
    rng = np.random.default_rng(0)
    X = np.array([[x, HOSTILE[int(x > 5)]] for x in rng.uniform(0, 10, 500)], dtype=object)
    page = render(model, private_score(model, X, X[:, 1], 1.0))
    assert not any(hostile in page for hostile in HOSTILE)
    assert sum(tag == "script" for tag, _ in Page(page).tags) == 2
    assert sum(tag == "img" for tag, _ in Page(page).tags) == 0


@pytest.mark.parametrize("key", KEYS)
def test_the_score_of_another_model_for_the_same_data_is_refused(scored, key):
    task, kind = key
    other = {"forest": fit, "boosted": boost}[kind](task, *make(task, 2000))
    with pytest.raises(ValueError, match=r"^score .*another model"):
        render(other, scored[key][1])


@pytest.mark.parametrize("key", KEYS)
def test_loaded_model_accepts_its_earlier_score(scored, key, tmp_path):
    model, score = scored[key]
    model.save(tmp_path / "model.diprime")
    assert "The score" in Page(render(load(tmp_path / "model.diprime"), score)).text
