"""The report of a boosted model: its main effects and interactions are drawn, safely, and nothing runs."""

import re
from functools import cache

import numpy as np
import pytest

from diprime import Categorical, Domain, Numeric
from diprime.inspection.views import effects_above_noise, shape_of
from diprime.report import figures as drawings
from diprime.report import render
from diprime.report.figures import colours
from tests.made_additive import DOMAINS, as_model, made_forest, made_model
from tests.report.test_report import HOSTILE, Page

TARGETS = sorted(DOMAINS)


@cache
def rendered(target):
    """Return a model with curves of age and kind, and its page."""
    model = made_model(target, 1, 60, curves=(0, 3))
    return model, Page(render(model))


def drawing(page, label):
    """Return the elements of the drawing whose label begins so."""
    start = next(i for i, (_, a) in enumerate(page.tags) if a.get("aria-label", "").startswith(label))
    end = next(i for i in range(start + 1, len(page.tags) + 1) if i == len(page.tags) or page.tags[i][0] == "svg")
    return page.tags[start:end]


@pytest.mark.parametrize("target", TARGETS)
def test_the_page_has_the_sections_of_a_boosted_model(target):
    model, page = rendered(target)
    sections = [attributes.get("id") for tag, attributes in page.tags if tag == "section"]
    assert sections == ["guarantee", "ledger", "score", "approval", "importances", "shapes", "card", "cite"]
    assert "gradient sums" in page.text
    assert re.search(r"curves\s*2, each a function of one feature\s*rounds\s*60, of depth 1 to 4, with ", page.text)
    assert "Half of a function of two features counts towards each of them." in page.text
    assert f"about {model.forest_.n_records:,.0f} ± 0 (as released)" in page.text
    assert "script" not in [tag for tag, _ in page.tags]
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert "script-src" not in policy
    assert "default-src 'none'" in policy


@pytest.mark.parametrize("target", TARGETS)
def test_the_effects_above_noise_are_drawn(target, monkeypatch):
    monkeypatch.setattr(drawings, "MAX_MAIN_EFFECTS", 3)
    monkeypatch.setattr(drawings, "MAX_INTERACTIONS", 2)
    model = made_model(target, 1, 60)
    names = model.domain_.encoded_feature_names
    labels = [a["aria-label"] for _, a in Page(render(model)).tags if a.get("class") == "shape"]
    mains, pairs = (effects_above_noise(model.forest_, n) for n in (1, 2))
    assert [label.split(",")[0] for label in labels] == [
        *(f"The main effect of {names[j]}" for (j,) in mains[:3]),
        *(f"The interaction of {names[a]} and {names[b]}" for a, b in pairs[:2]),
    ]


PLACES = slice(0, -1), slice(-1, None)  # of numbers, and of missing values


def heights(outline):
    """Return the heights of the steps of an outline."""
    first = re.match(r"M?[\d.]+ ([\d.]+)", outline)
    return np.array([first[1], *re.findall(r"V([\d.]+)", outline)], dtype=float)


@pytest.mark.parametrize("target", TARGETS)
def test_steps_and_bands_are_at_the_edges_and_values_of_the_shape(target):
    model, page = rendered(target)
    shape = shape_of(model, (0,))
    assert len(shape.values) == 256  # the curve of age separates all of its codes
    areas = [a for tag, a in drawing(page, "The main effect of age") if tag == "path" and a["d"].endswith("Z")]
    paths = [a for tag, a in drawing(page, "The main effect of age") if tag == "path" and a not in areas]
    assert len(paths) == 2 * len(shape.targets)  # numbers, and missing values
    edges = shape.axes[0].positions
    across = (edges - edges[0]) / (edges[-1] - edges[0]) * drawings.WIDTH
    low = min((shape.values - 2 * shape.noise).min(), 0)
    high = max((shape.values + 2 * shape.noise).max(), 0)
    density, *bands = areas
    assert density["class"] == "density"
    assert [band["class"] for band in bands] == [f"fill-{k}" for k in range(len(shape.targets)) for _ in range(2)]
    scale = (drawings.STEPS_HEIGHT - 2 * drawings.MARGIN) / (high - low)
    for k in range(len(shape.targets)):
        of_target = paths[2 * k : 2 * k + 2]
        assert {path["class"] for path in of_target} == {f"steps stroke-{k}"}
        ends = [float(step) for path in of_target for step in re.findall(r"H([\d.]+)", path["d"])]
        assert ends == pytest.approx(across[1:], abs=0.01)
        for path, band, place in zip(of_target, bands[2 * k : 2 * k + 2], PLACES, strict=True):
            values, noise = shape.values[place, k], 2 * shape.noise[place, k]
            above, below = band["d"].split("L")
            for outline, expected in ((path["d"], values), (above, values + noise), (below, (values - noise)[::-1])):
                assert heights(outline) == pytest.approx(drawings.MARGIN + (high - expected) * scale, abs=0.01)


def test_many_categories_and_many_classes_are_drawn_in_part(monkeypatch):
    domain = Domain({"x": Categorical(range(60)), "y": Categorical(range(60))}, Categorical(range(9)))
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


def hostile_model():
    name, image = HOSTILE
    domain = Domain({name: Numeric(0, 10), image: Categorical(HOSTILE)}, Categorical([*HOSTILE, "half \ud800"]))
    return as_model(made_forest(0, domain, 20), domain)


def test_hostile_names_and_categories_stay_text():
    text = render(hostile_model())
    text.encode("utf-8")
    page = Page(text)
    assert not {"script", "img"} & {tag for tag, _ in page.tags}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert HOSTILE[0] in page.text


@pytest.mark.parametrize("target", [*TARGETS, "hostile"])
def test_the_page_loads_without_errors_or_requests_on_any_screen(browser, tmp_path, target):
    path = tmp_path / "report.html"
    model = hostile_model() if target == "hostile" else made_model(target, 1, 60, curves=(0, 3))
    path.write_text(render(model), encoding="utf-8")
    for scheme in ("light", "dark"):
        browser.open(path, scheme)
        assert browser.errors() == []
        assert browser.requests() == [path.as_uri()]
        assert browser.driver.title == f"Privacy report of a {type(model).__name__}"
    for width in (320, 800, 1400):
        browser.resize(width, 900)
        assert browser.run("return document.documentElement.scrollWidth") <= width
        widths = browser.run("return [...document.querySelectorAll('svg.shape')].map((svg) => svg.clientWidth)")
        assert min(widths) > 200
