"""The report of a boosted model: its main effects and interactions are drawn, safely, and nothing runs."""

import re
from dataclasses import replace

import numpy as np
import pytest

from diprime import Categorical, Domain, Numeric
from diprime.model.shapes import largest_effects, shape_of
from diprime.output.report import shapes as drawings
from diprime.output.report.colours import colours
from diprime.report import render
from tests.browser import Browser
from tests.made_additive import DOMAINS, as_model, made_forest, made_model
from tests.output.test_report import HOSTILE, Page

TARGETS = sorted(DOMAINS)


def drawing(page, label):
    """Return the elements of the drawing whose label begins so."""
    start = next(i for i, (_, a) in enumerate(page.tags) if a.get("aria-label", "").startswith(label))
    end = next(i for i in range(start + 1, len(page.tags) + 1) if i == len(page.tags) or page.tags[i][0] == "svg")
    return page.tags[start:end]


@pytest.mark.parametrize("target", TARGETS)
def test_the_page_has_the_sections_of_a_boosted_model(target):
    model = made_model(target, 1, 60)
    page = Page(render(model))
    sections = [attributes.get("id") for tag, attributes in page.tags if tag == "section"]
    assert sections == ["promise", "ledger", "importances", "shapes", "card", "cite"]
    assert "round sums" in page.text
    assert "a function of two features counts half for each" in page.text
    assert f"about {model.forest_.n_records:,.0f} (as released)" in page.text
    assert "script" not in [tag for tag, _ in page.tags]
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert "script-src" not in policy
    assert "default-src 'none'" in policy


def test_the_unit_of_the_functions_is_said():
    assert "add up to the log-odds of “yes”" in Page(render(made_model("two"))).text
    assert "add up to a score for each class" in Page(render(made_model("three"))).text
    assert "in the unit of the target" in Page(render(made_model("number"))).text


@pytest.mark.parametrize("target", TARGETS)
def test_the_largest_effects_are_drawn(target, monkeypatch):
    monkeypatch.setattr(drawings, "MAX_MAIN_EFFECTS", 3)
    monkeypatch.setattr(drawings, "MAX_INTERACTIONS", 2)
    model = made_model(target, 1, 60)
    names = model.domain_.names
    labels = [a["aria-label"] for _, a in Page(render(model)).tags if a.get("class") == "shape"]
    mains, pairs = (largest_effects(model.forest_, n) for n in (1, 2))
    assert [label.split(",")[0] for label in labels] == [
        *(f"The main effect of {names[j]}" for (j,) in mains[:3]),
        *(f"The interaction of {names[a]} and {names[b]}" for a, b in pairs[:2]),
    ]


@pytest.mark.parametrize("target", TARGETS)
def test_steps_are_at_the_edges_and_values_of_the_shape(target):
    model = made_model(target, 1, 60)
    shape = shape_of(model, (0,))
    paths = [a for tag, a in drawing(Page(render(model)), "The main effect of age") if tag == "path"]
    assert len(paths) == 2 * len(shape.targets)  # numbers, and missing values
    edges = shape.axes[0].positions
    across = (edges - edges[0]) / (edges[-1] - edges[0]) * drawings.WIDTH
    low, high = min(shape.values.min(), 0), max(shape.values.max(), 0)
    for k in range(len(shape.targets)):
        assert {path["class"] for path in paths[2 * k : 2 * k + 2]} == {f"steps stroke-{k}"}
        steps = [re.findall(r"[HV][\d.]+", path["d"]) for path in paths[2 * k : 2 * k + 2]]
        ends = [float(step[1:]) for of_path in steps for step in of_path if step[0] == "H"]
        assert ends == pytest.approx(across[1:], abs=0.01)
        up = np.array([float(step[1:]) for step in steps[0] if step[0] == "V"])
        scale = (drawings.STEPS_HEIGHT - 2 * drawings.MARGIN) / (high - low)
        assert up == pytest.approx(drawings.MARGIN + (high - shape.values[1:-1, k]) * scale, abs=0.01)


def test_bars_have_the_lengths_of_the_values():
    model = made_model("two", 1, 60)
    bars = [a for tag, a in drawing(Page(render(model)), "The main effect of side") if a.get("class") == "fill-0"]
    values = shape_of(model, (4,)).values[:, 0]
    lengths = np.array([float(bar["width"]) for bar in bars])
    assert lengths == pytest.approx(np.abs(values) / np.abs(values).max() * lengths.max(), abs=0.02)
    middle = drawings.LABEL_WIDTH + (drawings.WIDTH - drawings.LABEL_WIDTH) / 2
    assert [float(bar["x"]) == pytest.approx(middle) for bar in bars] == (values >= 0).tolist()


def test_cells_of_interactions_have_the_colour_of_their_sign():
    model = made_model("two", 1, 60)
    pair = largest_effects(model.forest_, 2)[0]
    shape = shape_of(model, pair)
    label = "The interaction of " + " and ".join(model.domain_.names[j] for j in pair)
    cells = [a for _, a in drawing(Page(render(model)), label) if "fill-opacity" in a]
    values = shape.values[..., 0].ravel()
    assert [cell["class"] == "fill-4" for cell in cells] == (values > 0).tolist()
    opacities = np.array([float(cell["fill-opacity"]) for cell in cells])
    assert opacities == pytest.approx(np.abs(values) / np.abs(values).max(), abs=0.001)


def test_many_levels_and_many_classes_are_drawn_in_part(monkeypatch):
    domain = Domain({"x": Categorical(range(300)), "y": Categorical(range(300))}, Categorical(range(9)))
    model = as_model(made_forest(0, domain, 10), domain)
    page = Page(render(model))
    main = drawing(page, "The main effect of x")
    fills = {a["fill"] for _, a in main if "fill" in a}
    assert len(fills) == drawings.MAX_CLASSES
    assert fills < set(colours(9))
    assert sum(tag == "text" for tag, _ in main) == drawings.MAX_GROUPS + 2
    n_cells = sum("fill-opacity" in a for _, a in drawing(page, "The interaction of x and y"))
    assert n_cells == drawings.MAX_GROUPS**2
    monkeypatch.setattr(drawings, "MAX_CELLS", n_cells - 1)
    assert "The interaction of" not in render(model)


def test_a_model_without_effects_has_a_report():
    model = made_model("two")
    model.forest_ = replace(model.forest_, values=model.forest_.values * 0)
    assert 'class="shape"' not in render(model)


def hostile_model():
    level, image = HOSTILE
    domain = Domain({level: Numeric(0, 10), image: Categorical(HOSTILE)}, Categorical([*HOSTILE, "half \ud800"]))
    return as_model(made_forest(0, domain, 20), domain)


def test_hostile_names_and_levels_stay_text():
    text = render(hostile_model())
    text.encode("utf-8")
    page = Page(text)
    assert not {"script", "img"} & {tag for tag, _ in page.tags}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert HOSTILE[0] in page.text


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    pytest.importorskip("selenium", reason="Selenium is not installed.")
    if not Browser.INSTALLED:
        pytest.skip("Chromium or its driver is not installed (Debian: chromium and chromium-driver).")
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.driver.quit()


@pytest.mark.parametrize("target", [*TARGETS, "hostile"])
def test_the_page_loads_without_errors_or_requests_on_any_screen(browser, tmp_path, target):
    path = tmp_path / "report.html"
    path.write_text(render(hostile_model() if target == "hostile" else made_model(target, 1, 60)), encoding="utf-8")
    for scheme in ("light", "dark"):
        browser.open(path, scheme)
        assert browser.errors() == []
        assert browser.requests() == [path.as_uri()]
        assert browser.driver.title == "Privacy report of a MadeModel"
    for width in (320, 800, 1400):
        browser.resize(width, 900)
        assert browser.run("return document.documentElement.scrollWidth") <= width
        widths = browser.run("return [...document.querySelectorAll('svg.shape')].map((svg) => svg.clientWidth)")
        assert min(widths) > 200
