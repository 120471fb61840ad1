"""The section of a private score: its numbers, its drawings, and its safety against hostile names."""

import math
import re

import numpy as np
import pytest

from diprime import Categorical, DiPriMeClassifier, Domain, Numeric, private_score
from diprime.report import render
from tests.output.test_report import HOSTILE, Page, hostile_model
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
    assert "this cost the people in the test rows ε = 0.5 ." in text
    assert "95 % interval" in text
    assert "How accurate it is, the score above says" in text
    assert "says nothing about accuracy" not in text


@pytest.mark.parametrize("key", KEYS)
def test_without_a_score_there_is_no_section(scored, key):
    text = Page(render(scored[key][0])).text
    assert "The score" not in text
    assert "says nothing about accuracy" in text


@pytest.mark.parametrize("kind", ["forest", "boosted"])
def test_curves_and_calibration_are_drawn_where_they_are(scored, kind):
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


def test_the_confusion_matrix_is_a_table(scored):
    model, score = scored["classification", "forest"]
    text = Page(render(model, score)).text
    cell = score.confusion_matrix[1][2]
    assert f"{cell.value:.1%} ({cell.low:.1%} to {cell.high:.1%})" in text
    assert "true class predicted a predicted b predicted c" in text


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_a_score_that_is_not_private_says_so(scored):
    model, _ = scored["regression", "forest"]
    X, y = make("regression", 200, 1)
    assert "Not private: epsilon is infinite." in Page(render(model, private_score(model, X, y, math.inf))).text
    seeded = private_score(model, X, y, 1.0, random_state=0)
    assert "Not private: random_state was set" in Page(render(model, seeded)).text


def test_hostile_classes_are_escaped():
    model = hostile_model()
    rng = np.random.default_rng(0)
    X = np.array([[x, HOSTILE[int(x > 5)]] for x in rng.uniform(0, 10, 500)], dtype=object)
    page = render(model, private_score(model, X, X[:, 1], 1.0))
    assert not any(hostile in page for hostile in HOSTILE)
    assert sum(tag == "script" for tag, _ in Page(page).tags) == 2
    assert sum(tag == "img" for tag, _ in Page(page).tags) == 0


def test_a_page_holds_only_so_many_classes():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 20, (2000, 1))
    y = np.floor(X[:, 0]).astype(int)
    model = DiPriMeClassifier(5, Domain({"x": Numeric(0, 20)}, Categorical(range(20)))).fit(X, y)
    page = Page(render(model, private_score(model, X, y, 1.0)))
    assert "The first 12 of 20 classes." in page.text
    assert page.text.count("ROC curve of “") == 6


def test_a_score_must_be_one_of_such_a_model(scored):
    model, score = scored["regression", "forest"]
    with pytest.raises(TypeError, match="score must be a PrivateScore"):
        render(model, score.to_dict())
    with pytest.raises(ValueError, match="another target"):
        render(scored["classification", "forest"][0], score)
