"""The report: its content, its safety against hostile names, and its behaviour in a browser."""

import hashlib
import json
import math
import re
from dataclasses import replace
from datetime import date
from fractions import Fraction
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import diprime
from diprime import Categorical, DiPriMeClassifier, Domain, Numeric, merge
from diprime.domain.records import person_weight
from diprime.inspection.views import read_tree
from diprime.inspection.words import number_text, share_text
from diprime.privacy.charges import Bound, BoundKind, Mechanism, ReleaseKind
from diprime.privacy.gaussian_dp import epsilon_upper_bound, gaussian_budget
from diprime.privacy.measures import GaussianDP, PureEpsilon, rounded_text
from diprime.report import _asset, render, sections
from diprime.report.guarantee import guarantee, released_count
from tests.golden import FIXTURES
from tests.small_data import BOOSTERS, DOMAINS, ESTIMATORS, PAPER, TASKS, boost, fit, make

HOSTILE = ("</script><script>document.title = 'hacked'</script>", "\"'><img src=x onerror=\"document.title='hacked'\">")


class Page(HTMLParser):
    """The tags, texts and scripts of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.scripts, self.inside, self.goes_on = [], [], [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "wbr":  # the text goes on
            self.goes_on = True
        else:
            self.inside.append(tag)

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if self.goes_on:
            self.texts[-1] += data
            self.goes_on = False
        else:
            (self.scripts if self.inside[-1:] in (["script"], ["style"]) else self.texts).append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    @property
    def forest(self):
        return json.loads(self.scripts[1])


@pytest.fixture(scope="module")
def models():
    return {task: fit(task, *make(task, 3000)) for task in TASKS}


def hostile_model():
    rng = np.random.default_rng(0)
    name, image = HOSTILE
    domain = Domain({name: Numeric(0, 10), image: Categorical(HOSTILE)}, Categorical([*HOSTILE, "half \ud800"]))
    X = np.array([[x, HOSTILE[int(x > 5)]] for x in rng.uniform(0, 10, 2000)], dtype=object)
    return DiPriMeClassifier(5, domain, max_depth=3).fit(X, X[:, 1])


# -- content -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_the_page_shows_the_whole_ledger(models, task):
    page = Page(render(models[task]))
    for charge in models[task].privacy_.charges:
        assert charge.description in page.text
        assert str(charge.sensitivity) in page.text
    assert "Private: ε = 1, δ = 0" in page.text
    assert "by a factor of at most 2.72 (e^ε, ε = 1)" in page.text
    assert "73.2 % certain that it is, and at least 26.8 %" in page.text
    widths = [float(a["width"][:-1]) for tag, a in page.tags if tag == "rect"][: len(models[task].privacy_.charges)]
    assert sum(widths) == pytest.approx(100, abs=0.01)


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"domain": "infer"}, "The domain was inferred"),
        ({"estimators": PAPER}, "The fit used the accounting of the DiPriMe paper"),
        ({"random_state": 918273645}, "random_state is set"),
        ({"epsilon": math.inf}, "epsilon is infinite"),
    ],
)
def test_page_of_a_voided_guarantee_is_marked_not_private(parameters, reason):
    X, y = make("regression", 300)
    page = Page(render(fit("regression", X, y, **parameters)))
    assert ("header", {"class": "bad"}) in page.tags
    assert "Not private" in page.text
    assert "rivate: ε" not in page.text
    assert "Protection:" not in page.text
    assert page.text.count(reason) == 2  # at the head of the page, and under the ledger
    assert "918273645" not in "".join(page.texts + page.scripts)
    assert ("Facts inferred from the data" in page.text) == (parameters.get("domain") == "infer")


def test_strict_costs_of_published_methods_are_shown():
    published, true = PureEpsilon(Fraction(1)), PureEpsilon(Fraction(3))
    bound = Bound(BoundKind.NONE)
    charge = diprime.Charge(ReleaseKind.SPLITS, Mechanism.EXPONENTIAL, bound, published, strict_measure=true)
    ledger = diprime.Ledger(1, "paper", [charge])
    shown = " ".join(" ".join(part.itertext()) for part in sections._ledger_elements(ledger, "a fit"))
    assert "Strict accounting: splits cost epsilon = 3." in shown


def test_every_ledger_of_a_merged_model_is_shown():
    X, y = make("classification", 500)
    merged = merge([fit("classification", X, y, epsilon=e, max_depth=2) for e in (0.5, 3)], disjoint=True)
    page = Page(render(merged))
    assert "Private: ε = 3" in page.text
    assert "Model 1 of 2" in page.text
    assert "Model 2 of 2" in page.text
    for ledger in merged.privacy_.merged:
        cost = rounded_text(ledger.charges[-1].total)  # rounded up, as everywhere
        assert page.text.count(f"leaf sums: ε = {cost},") == 2  # in the bar and in its legend


LARGE = SimpleNamespace(tree_counts=np.array([2000.0, 3000.0]))
"""A forest of five thousand rows."""


def gaussian_ledger(epsilon, pure=Fraction(0)):
    """Return a ledger of two Gaussian charges, and a pure one, that spend epsilon at a delta of a millionth."""
    l1, l2 = Bound(BoundKind.L1, 1), Bound(BoundKind.SQUARED_L2, 1)
    ledger = diprime.Ledger(epsilon, delta=1e-6)
    budget = gaussian_budget(ledger.epsilon - pure, ledger.delta)
    charges = [diprime.Charge(ReleaseKind.NODE_SUMS, Mechanism.DISCRETE_LAPLACE, l1, PureEpsilon(pure))] if pure else []
    charges += [
        diprime.Charge(kind, Mechanism.ROUNDED_GAUSSIAN, l2, GaussianDP(budget * share))
        for kind, share in ((ReleaseKind.CODE_SUMS, Fraction(1, 4)), (ReleaseKind.GRADIENT_SUMS, Fraction(3, 4)))
    ]
    return replace(ledger, charges=charges)


def text_of(*parts):
    return " ".join(" ".join(text for part in parts for text in part.itertext()).split())


@pytest.mark.parametrize("pure", [Fraction(0), Fraction(1, 4)])
def test_gaussian_charges_are_shown_in_their_measure_and_delta_in_plain_words(pure):
    ledger = gaussian_ledger(1, pure)
    model = SimpleNamespace(
        privacy_=ledger, domain_=DOMAINS["regression"], forest_=LARGE, fitted_params_={}, method="a method"
    )
    text = text_of(*(section(model) for section in (sections.header, guarantee, sections.ledger, sections.cite)))
    assert "Private: ε = 1, δ = 1e-06" in text
    assert "2.72 times as large (e^ε, ε = 1), plus δ = 1e-06" in text
    assert "far smaller than one divided by the number of people" in text
    assert "probability of at most 73.2 %" in text
    budget = ledger.loss.mu_squared
    in_bar_and_legend = f"gradient sums: μ² = {rounded_text(budget * Fraction(3, 4))}, 75.0 %"
    assert text.count(in_bar_and_legend) == 2
    assert text.count("sums of nodes: ε = 0.25, 100.0 %") == (2 if pure else 0)
    assert "The costs add up to ε = 1 at δ = 1e-06, for adding or removing one record." in text
    replaced = 2 * pure + epsilon_upper_bound(4 * budget, ledger.delta)
    assert f"one record is replaced by another {rounded_text(replaced)} " in text
    assert f"total μ² {rounded_text(budget)} " in text
    assert f"gradient sums {budget * Fraction(3, 4)}" in text
    assert "ε = 1 and δ = 1e-06 for adding or removing one record" in text


# -- strength ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "colour", "heading", "level"),
    [
        (0.5, "good", "Private: ε = 0.5, δ = 0", "strong"),
        (1, "good", "Private: ε = 1, δ = 0", "strong"),
        (1.01, "fair", "Private: ε = 1.01, δ = 0", "moderate"),
        (4.99, "fair", "Private: ε = 4.99, δ = 0", "moderate"),
        (5, "bad", "Weak privacy: ε = 5, δ = 0", "weak"),
        (10, "bad", "Weak privacy: ε = 10, δ = 0", "weak"),
        (10.1, "bad", "Very weak privacy: ε = 10.1, δ = 0", "very weak"),
        (50, "bad", "Very weak privacy: ε = 50, δ = 0", "very weak"),
    ],
)
def test_the_head_follows_epsilon_on_the_scale(epsilon, colour, heading, level):
    page = render(fit("regression", *make("regression", 300), epsilon=epsilon, max_depth=1))
    head = page.split("<header")[1].split("</header>")[0]
    assert head.startswith(f' class="{colour}">')
    assert f"<h1>{heading}</h1>" in head
    assert f"Protection: <strong>{level}</strong>. As a rule of thumb, ε up to 1 is strong protection" in head
    assert "too large" not in head


@pytest.mark.parametrize(
    ("n", "delta", "colour", "heading"),
    [
        (2000, 1e-6, "good", "Private: ε = 1, δ = 1e-06"),
        (2000, 1e-4, "bad", "Weak privacy: ε = 1, δ = 0.0001"),
        (2000, 1e-2, "bad", "Very weak privacy: ε = 1, δ = 0.01"),
        (20_000, 1e-6, "bad", "Weak privacy: ε = 1, δ = 1e-06"),
    ],
)
def test_the_head_flags_a_delta_that_is_too_large_for_the_released_count(n, delta, colour, heading):
    model = boost("classification", *make("classification", n), delta=delta)
    head = render(model).split("<header")[1].split("</header>")[0]
    assert head.startswith(f' class="{colour}">')
    assert f"<h1>{heading}</h1>" in head
    warning = f"the released number of records, about {model.forest_.n_records:,.0f}."
    assert (warning in head) == (f"δ = {delta:g} is too large: it should be below" in head) == (colour == "bad")
    assert ("</strong>, because of δ. As a rule of thumb" in head) == (colour == "bad")


@pytest.mark.parametrize(("disjoint_rows", "count"), [(True, 5000), (False, 2500)])
def test_trees_of_disjoint_rows_add_up_to_the_released_count(disjoint_rows, count):
    model = SimpleNamespace(forest_=LARGE, fitted_params_={"disjoint_rows": disjoint_rows})
    assert released_count(model) == count


@pytest.mark.parametrize("task", TASKS)
def test_page_shows_the_leaves_of_the_forest(models, task):
    model = models[task]
    (tree,) = Page(render(model)).forest["trees"]
    depth = int(model.forest_.depths[0])
    leaves = slice(2**depth - 1, None)
    counts = [int(text.split(" ±")[0].replace(",", "")) for text in tree["records"][leaves]]
    assert counts == pytest.approx(model.forest_.counts, abs=0.51)
    assert np.array(tree["values"][leaves]) == pytest.approx(model.forest_.values, rel=1e-4)
    text_of_value = share_text if task == "classification" else number_text
    assert tree["estimates"][leaves] == [[text_of_value(v) for v in row] for row in model.forest_.values.tolist()]
    assert len(tree["noise"]) == len(tree["records"]) == 2 ** (depth + 1) - 1


def test_the_page_depends_on_released_numbers_only(models):
    for model in models.values():
        bare = type(model)(**model.get_params(deep=False))
        for name in ("domain_", "privacy_", "forest_", "classes_", "fitted_params_"):
            if hasattr(model, name):
                setattr(bare, name, getattr(model, name))
        assert render(bare) == render(model)


def test_a_large_forest_is_shown_in_part(models, monkeypatch):
    model = fit("classification", *make("classification", 500), n_estimators=5, max_depth=4)
    monkeypatch.setattr(sections, "MAX_NODES", 70)
    monkeypatch.setattr(sections, "MAX_DRAWN_DEPTH", 3)
    page = Page(render(model))
    assert [tree["depth"] for tree in page.forest["trees"]] == [3] * 4
    assert [tree["below"] for tree in page.forest["trees"]] == [1] * 4
    assert "The first 4 of 5 trees" in page.text
    monkeypatch.setattr(sections, "MAX_NODES", 1)
    assert len(Page(render(model)).forest["trees"]) == 1


def test_head_shows_date_data_set_and_responsible_person(models):
    model = models["regression"]
    text = Page(render(model)).text
    assert f"data set not stated responsible not stated date of this report {date.today()}" in text
    text = Page(render(model, dataset="Visits <2020>", responsible="Jane Doe", date=date(2021, 3, 4))).text
    assert "data set Visits <2020> responsible Jane Doe date of this report 2021-03-04" in text
    for wrong in ({"dataset": " "}, {"responsible": ""}, {"dataset": 7}):
        with pytest.raises(ValueError, match=r" text, got "):
            render(model, **wrong)
    with pytest.raises(TypeError, match=r"^date .*datetime\.date, got str"):
        render(model, date="2021-03-04")


def test_a_digest_ties_the_page_to_the_file(models, tmp_path):
    for model in models.values():
        model.save(tmp_path / "m.diprime")
        digest = hashlib.sha256((tmp_path / "m.diprime").read_bytes()).hexdigest()
        assert f"SHA-256 of the model file {digest}" in Page(render(model)).text
        assert digest in render(diprime.load(tmp_path / "m.diprime"))


def test_digest_of_given_file_is_shown_and_other_files_are_refused(models, tmp_path):
    data, version = (FIXTURES / "format-1" / "joint-two.diprime").read_bytes(), diprime.__version__.encode()
    data = data.replace(b'"diprime": "' + version, b'"diprime": "' + b"x" * len(version))[:-32]
    old = tmp_path / "old"
    old.write_bytes(data + hashlib.sha256(data).digest())
    model = diprime.load(old)
    digest = hashlib.sha256(old.read_bytes()).hexdigest()
    assert digest not in render(model), "it would be saved with this version of diprime"
    assert digest in render(model, model_file=old)
    assert digest in render(model, model_file=old.read_bytes())
    other = next(iter(models.values()))
    other.save(tmp_path / "other")
    for wrong in (tmp_path / "other", (tmp_path / "other").read_bytes()):
        with pytest.raises(ValueError, match=r"^model_file .*this model"):
            render(model, model_file=wrong)
    with pytest.raises(diprime.ModelFileError):
        render(model, model_file=old.read_bytes() + b"more")


def test_the_whole_domain_is_shown():
    categories = [f"category {i} of a long list" for i in range(300)] + ["x" * 200]
    features = {f"column {i}": Numeric(0, 1) for i in range(40)}
    features |= {"edges": Numeric(edges=[0.125 * i for i in range(1, 50)]), "many": Categorical(categories)}
    domain = Domain({"y" * 100: Numeric(0, 1), **features}, Categorical(["yes", "no"]), target_name="the answer")
    X = pd.DataFrame({name: [0.5] * 50 for name in domain.column_names}).assign(many="x")
    page = Page(render(DiPriMeClassifier(1.0, domain).fit(X, ["yes"] * 50)))
    card = page.text.split("Declared facts")[1]
    assert all(category in card for category in categories)
    assert all(f"column {i} numbers from 0 to 1" in card for i in range(40))
    assert "y" * 100 in card
    assert all(str(0.125 * i) in card for i in range(1, 50) if i % 8)
    assert "the answer (target) 2 categories: yes, no" in card
    assert "13 more features" in card
    assert not re.search(r"and \d+ more", card)


@pytest.mark.parametrize("max_records", [1, 5, 10])
@pytest.mark.parametrize("boosted", [False, True])
def test_glossary_counts_in_persons(max_records, boosted):
    """A person of ``max_records`` records changes a cost as one record does, whatever the units of weights."""
    X, y = make("regression", 400)
    fitted = BOOSTERS if boosted else ESTIMATORS
    model = fitted["regression"](1.0, DOMAINS["regression"], max_records_per_group=max_records)
    model.fit(X, y, groups=np.arange(len(X)) // 2)
    weight = person_weight(max_records)
    text = text_of(sections.ledger(model))
    assert boosted or "73.2 % certain that they are, and at least 26.8 %" in Page(render(model)).text
    charge = model.privacy_.charges[-1]
    assert charge.sensitivity.n % weight == 0
    if not boosted:
        bound = next(str(c.sensitivity) for c in model.privacy_.charges if c.sensitivity.units > 1)
        size, units = (int(word) for word in re.fullmatch(r"cost range (\d+) in units of 1/(\d+)", bound).groups())
        persons = size / units / weight
        assert f"in units of 1/{units * weight} of a person, a range of {size} is {persons:.3g} people" in text
        assert 1 <= persons < 1.1  # of the impurity, which a person changes by at most one, and its rounding
    in_units = f"weights of records Integers that add up to {weight} for each person"
    assert (in_units in text) == (weight > 1)
    as_people = f"A sensitivity of {weight} therefore means one person, as does {weight**2} where changes are squared"
    assert (as_people in text) == (weight > 1)


def test_learnt_facts_are_shown_as_learnt_with_what_could_not_be_detected():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random((4000, 2)), np.where(np.arange(4000) < 100, 5.0, 0.0)])
    y = np.where(np.arange(4000) < 5, "rare", np.where(X[:, 0] < 0.5, "low", "high"))
    domain = Domain({"given": Numeric(0, 1), "learnt": Numeric(), "mostly zero": Numeric()}, Categorical())
    model = diprime.DiPriMeBoostingClassifier(4.0, domain, delta=1e-6, n_rounds=3).fit(X, y)
    text = Page(render(model)).text
    facts = "ranges, categories and classes were learnt privately, and their cost is in the ledger."
    assert facts in text
    card = text.split("Declared and privately learnt facts")[1]
    assert "2 categories: high, low" in card
    assert re.search(r"is learnt from at least about \d+ records with a value other than 0\.", card)
    assert re.search(r"Classes of the target with fewer than about \d+ records are not listed\.", card)
    assert all(note in card for note in model.domain_.origin.ledger.notes)
    declared = Page(render(boost("classification", *make("classification", 300)))).text
    assert facts not in declared
    assert "learnt" not in declared.split("Declared facts")[1]


# -- safety ------------------------------------------------------------------------------------------------------------


def test_hostile_names_and_categories_stay_text():
    text = render(hostile_model())
    text.encode("utf-8")
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 2  # the data and the page's own
    assert "img" not in [tag for tag, _ in page.tags]
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert HOSTILE[0] in page.text
    assert page.forest["classes"][:2] == sorted(HOSTILE)


def test_the_page_refers_to_nothing_outside(models):
    for tag, attributes in Page(render(models["classification"])).tags:
        for name in ("src", "href", "action", "xlink:href"):
            assert tag == "a" or attributes.get(name, "data:,") == "data:,", tag
    for asset in ("style.css", "explore.js"):
        assert not re.search(r"url\(|@import|fetch\(|XMLHttp|https?:", _asset(asset))


# -- in a browser ------------------------------------------------------------------------------------------------------

ROOT = '[data-node="0"]'


def write_report(tmp_path, model):
    path = tmp_path / "report.html"
    path.write_text(render(model), encoding="utf-8")
    return path


def visible_nodes(browser):
    return browser.run("return visible().map((item) => Number(item.dataset.node))")


@pytest.mark.parametrize("task", TASKS)
def test_the_page_loads_without_errors_or_requests(browser, tmp_path, models, task):
    path = write_report(tmp_path, models[task])
    for scheme in ("light", "dark"):
        browser.open(path, scheme)
        assert visible_nodes(browser) == [0, 1, 3, 4, 2, 5, 6]
        assert browser.errors() == []
        assert browser.requests() == [path.as_uri()]


def test_the_content_security_policy_blocks_injected_elements(browser, tmp_path, models):
    injected = "<script>document.title = 'hacked'</script><img src='http://127.0.0.1:9/x.png'>"
    html = render(models["regression"]).replace("</body>", injected + "</body>")
    path = tmp_path / "report.html"
    path.write_text(html, encoding="utf-8")
    browser.open(path)
    assert browser.driver.title == "Privacy report of a DiPriMeRegressor"
    assert [("blocked" in error) for error in browser.errors()] == [True, True]
    assert browser.requests() == [
        path.as_uri(),
        "http://127.0.0.1:9/x.png",
    ]  # the attempt is logged, though it is blocked


def test_hostile_names_are_displayed_as_text(browser, tmp_path):
    browser.open(write_report(tmp_path, hostile_model()))
    browser.run("document.getElementById('open-all').click()")
    assert browser.driver.title == "Privacy report of a DiPriMeClassifier"
    assert browser.errors() == []
    assert HOSTILE[0] in browser.run("return document.getElementById('node-details').textContent")
    assert browser.run("return document.images.length") == 0


def test_clicking_opens_and_closes_nodes(browser, tmp_path, models):
    browser.open(write_report(tmp_path, models["classification"]))
    box = browser.driver.find_element("css selector", '[data-node="4"] > .node')
    box.click()
    assert visible_nodes(browser) == [0, 1, 3, 4, 9, 10, 2, 5, 6]
    details = browser.driver.find_element("id", "node-details").text
    tree = Page(render(models["classification"])).forest["trees"][0]
    assert tree["conditions"][1] in details
    assert tree["conditions"][4] in details
    assert "%" in details
    box.click()
    assert visible_nodes(browser) == [0, 1, 3, 4, 2, 5, 6]
    browser.driver.find_element("css selector", f"{ROOT} > .node").click()
    assert visible_nodes(browser) == [0]


def test_the_keyboard_suffices_to_explore_a_tree(browser, tmp_path, models):
    from selenium.webdriver.common.keys import Keys

    browser.open(write_report(tmp_path, models["regression"]))
    browser.run("document.getElementById('close-all').focus()")

    def focused(*keys):
        browser.press(*keys)
        return browser.run("return Number(document.activeElement.dataset.node)")

    assert focused(Keys.TAB) == 0
    assert focused(Keys.ARROW_RIGHT) == 1
    assert focused(Keys.ARROW_DOWN, Keys.ARROW_DOWN) == 4
    assert focused(Keys.ENTER) == 4
    assert visible_nodes(browser) == [0, 1, 3, 4, 9, 10, 2, 5, 6]
    assert focused(Keys.ARROW_RIGHT) == 9
    assert focused(Keys.ARROW_LEFT) == 4
    assert focused(Keys.ARROW_LEFT) == 4  # closes it
    assert visible_nodes(browser) == [0, 1, 3, 4, 2, 5, 6]
    assert focused(Keys.SPACE, Keys.END) == 6
    assert focused(Keys.ARROW_UP, Keys.ARROW_UP) == 2
    assert focused(Keys.HOME) == 0
    assert browser.run("return document.querySelectorAll('[role=treeitem][tabindex=\"0\"]').length") == 1


def test_a_tree_can_be_chosen_and_fully_opened(browser, tmp_path):
    X, y = make("classification", 4000)
    model = fit("classification", X, y, n_estimators=3, max_depth=9)
    browser.open(write_report(tmp_path, model))
    assert browser.run("return document.querySelectorAll('.node').length") == 7  # the others are created when opened
    browser.run("picker.selectedIndex = 2; picker.dispatchEvent(new Event('change'))")
    assert browser.run("return tree === forest.trees[2]")
    browser.run("document.getElementById('open-all').click()")
    features = read_tree(model, 2).features

    def splits(node):  # the node itself, or a descendant that gets all its records
        return 2 * node + 2 < len(features) and (
            features[node] is not None or splits(2 * node + 1) or splits(2 * node + 2)
        )

    def below(node):
        return [node, *below(2 * node + 1), *below(2 * node + 2)] if splits(node) else [node]

    assert visible_nodes(browser) == below(0)
    browser.run("document.getElementById('close-all').click()")
    assert len(visible_nodes(browser)) == 7


def test_the_page_adapts_to_screen_width_and_print(browser, tmp_path, models):
    path = write_report(tmp_path, models["classification"])
    background = "return getComputedStyle(document.body).backgroundColor"
    browser.open(path, "dark")
    dark = browser.run(background)
    for width in (320, 420, 800, 1400):
        browser.resize(width, 900)
        assert browser.run("return document.documentElement.scrollWidth") <= width
    browser.resize(1200, 900)
    browser.print_preview()
    assert browser.run(background) == "rgb(255, 255, 255)"
    assert browser.run("return getComputedStyle(document.querySelector('.controls')).display") == "none"
    browser.open(path, "light")
    assert browser.run(background) not in (dark, "rgb(255, 255, 255)")


# What does not fit into its box, but for the heads of tables, which narrow screens do not show.
CUT_OFF = """
return [...document.querySelectorAll("body *:not(thead):not(thead *):not(svg *):not(option)")]
  .filter((e) => e.clientWidth > 0)
  .filter((e) => e.scrollWidth > e.clientWidth + 1 || (e.matches(".condition") && e.scrollHeight > e.clientHeight + 1))
  .map((e) => `${e.tagName}.${e.className}: ${e.textContent}`);
"""
# Cells that contain text but are not displayed.
HIDDEN = """
return [...document.querySelectorAll("td")].filter((e) => e.textContent && !e.getClientRects().length)
  .map((e) => e.textContent);
"""
# Words of names that are on two lines; words end at spaces and, by <wbr>, after signs that join them.
BROKEN = """
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), broken = [];
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  for (const word of node.data.matchAll(/\\S+/g)) {
    const range = document.createRange();
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    const tops = new Set([...range.getClientRects()].map((r) => Math.round(r.top)));
    if (tops.size > 1 && !node.parentElement.closest("code, pre, script, style")) broken.push(word[0]);
  }
}
return broken;
"""


@pytest.fixture(scope="module")
def wide_model():
    rng = np.random.default_rng(0)
    names = ["number_of_previous_emergency_visits", "time.in.hospital", "age"]
    domain = Domain({name: Numeric(0, 10) for name in names}, Categorical([f"class_{i:02}" for i in range(26)]))
    X = rng.uniform(0, 10, (4000, 3))
    return DiPriMeClassifier(20, domain, max_depth=4).fit(X, [f"class_{int(x * 2.6):02}" for x in X[:, 0]])


def test_nothing_is_cut_off_on_a_phone_and_no_word_is_broken(browser, tmp_path, models, wide_model):
    for model in (wide_model, models["regression"]):
        browser.open(write_report(tmp_path, model))
        browser.run("document.querySelectorAll('details').forEach((element) => { element.open = true; });")
        for width in (390, 1200):
            browser.resize(width, 900)
            assert browser.run(BROKEN) == []
            if width == 390:
                assert browser.run(CUT_OFF) == []
                assert browser.run(HIDDEN) == []
                head = (
                    "return getComputedStyle(document.querySelector('#ledger td[data-head=cost]'), '::before').content"
                )
                assert browser.run(head) == '"cost"'
    browser.resize(1200, 900)
