"""The report: its content, its safety against hostile names, and its behaviour in a browser."""

import hashlib
import json
import math
import re
from datetime import date
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import diprime
from diprime import Categorical, DiPriMeClassifier, Domain, Numeric, merge
from diprime.model.rounding import number_text, share_text
from diprime.model.tree_view import read_tree
from diprime.output.report import sections
from diprime.output.report.page import _asset
from diprime.privacy.gaussian_dp import epsilon_upper_bound, gaussian_budget
from diprime.privacy.measures import GaussianDP, PureEpsilon, rounded_text
from diprime.report import render
from tests.browser import Browser
from tests.golden import FIXTURES
from tests.small_data import DOMAINS, TASKS, fit, make

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
    level, image = HOSTILE
    domain = Domain({level: Numeric(0, 10), image: Categorical(HOSTILE)}, Categorical([*HOSTILE, "half \ud800"]))
    X = np.array([[x, HOSTILE[int(x > 5)]] for x in rng.uniform(0, 10, 2000)], dtype=object)
    return DiPriMeClassifier(5, domain, max_depth=3).fit(X, X[:, 1])


# -- content -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_the_page_shows_the_whole_ledger(models, task):
    page = Page(render(models[task]))
    for charge in models[task].privacy_.charges:
        assert charge.what in page.text
        assert charge.bound in page.text
    assert "Private: ε = 1, δ = 0" in page.text
    assert "2.72 times" in page.text
    assert "73.2 % sure" in page.text
    widths = [float(a["width"][:-1]) for tag, a in page.tags if tag == "rect"][: len(models[task].privacy_.charges)]
    assert sum(widths) == pytest.approx(100, abs=0.01)


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"domain": "infer"}, "the domain was inferred"),
        ({"accounting": "paper"}, "accounting as published"),
        ({"random_state": 918273645}, "random_state was set"),
        ({"epsilon": math.inf}, "epsilon is infinite"),
    ],
)
def test_a_waiver_makes_the_page_say_not_private(parameters, reason):
    X, y = make("regression", 300)
    page = Page(render(fit("regression", X, y, **parameters)))
    assert ("header", {"class": "bad"}) in page.tags
    assert "Not private" in page.text
    assert "Private: ε" not in page.text
    assert page.text.count(reason) == 2  # at the head of the page, and under the ledger
    assert "918273645" not in "".join(page.texts + page.scripts)
    assert ("What was read from the data" in page.text) == (parameters.get("domain") == "infer")


def test_strict_costs_of_published_methods_are_shown():
    ledger = diprime.Ledger(1, "paper")
    published, true = PureEpsilon(Fraction(1)), PureEpsilon(Fraction(3))
    ledger.pay(diprime.Charge("splits", "as published", "none", published, strict_measure=true))
    shown = " ".join(" ".join(part.itertext()) for part in sections._ledger_elements(ledger, "a fit"))
    assert "Strict accounting: splits cost epsilon = 3." in shown


def test_every_ledger_of_a_merged_model_is_shown():
    X, y = make("classification", 500)
    merged = merge([fit("classification", X, y, epsilon=e, max_depth=2) for e in (0.5, 3)])
    page = Page(render(merged))
    assert "Private: ε = 3" in page.text
    assert "Model 1 of 2" in page.text
    assert "Model 2 of 2" in page.text
    for ledger in merged.privacy_.merged:
        cost = float(ledger.charges[-1].total)
        assert page.text.count(f"leaf sums: ε = {cost:.6g},") == 2  # in the bar and in its legend


def gaussian_ledger(epsilon, pure=Fraction(0)):
    """Return a ledger of two Gaussian charges, and a pure one, that spend epsilon at a delta of a millionth."""
    ledger = diprime.Ledger(epsilon, delta=1e-6)
    if pure:
        ledger.pay(diprime.Charge("counts", "discrete Laplace", "L1 sensitivity 1", PureEpsilon(pure)))
    budget = gaussian_budget(ledger.epsilon - pure, ledger.delta)
    for kind, share in (("grid", Fraction(1, 4)), ("cells", Fraction(3, 4))):
        ledger.pay(diprime.Charge(kind, "rounded Gaussian", "squared sensitivity 1", GaussianDP(budget * share)))
    return ledger


def text_of(*parts):
    return " ".join(" ".join(text for part in parts for text in part.itertext()).split())


@pytest.mark.parametrize("pure", [Fraction(0), Fraction(1, 4)])
def test_gaussian_charges_are_shown_in_their_measure_and_delta_in_plain_words(pure):
    ledger = gaussian_ledger(1, pure)
    model = SimpleNamespace(privacy_=ledger, domain_=DOMAINS["regression"], forest_=None, method="a method")
    text = text_of(
        *(section(model) for section in (sections.verdict, sections.promise, sections.ledger, sections.cite))
    )
    assert "Private: ε = 1, δ = 1e-06" in text
    assert "2.72 times (e^ε, ε = 1) as large, plus δ = 1e-06" in text
    assert "far below one over the number of people" in text
    assert "probability of at most 73.2 %" in text
    budget = ledger.loss.mu_squared
    in_bar_and_legend = f"cells: μ² = {rounded_text(budget * Fraction(3, 4))}, 75.0 %"
    assert text.count(in_bar_and_legend) == 2
    assert text.count("counts: ε = 0.25, 100.0 %") == (2 if pure else 0)
    assert "Together: ε = 1 at δ = 1e-06" in text
    replaced = 2 * pure + epsilon_upper_bound(4 * budget, ledger.delta)
    assert f"one record is replaced by another {rounded_text(replaced)} " in text
    assert f"total μ² {rounded_text(budget)} {budget}" in text
    assert "ε = 1 and δ = 1e-06 for adding or removing one record" in text


@pytest.mark.parametrize(("epsilon", "factor"), [(1.3, "3.67 times (e^ε, ε = 1.3)"), (20, "e^20 times (e^ε, ε = 20)")])
def test_the_promise_of_a_pure_epsilon_states_it(epsilon, factor):
    X, y = make("regression", 200)
    page = Page(render(fit("regression", X, y, epsilon=epsilon)))
    assert factor in page.text
    assert "∞" not in page.text


def test_a_large_epsilon_beside_a_delta_is_written_readably():
    text = text_of(sections.promise(SimpleNamespace(privacy_=gaussian_ledger(30), domain_=DOMAINS["regression"])))
    assert "e^30 times" in text
    assert "guesses right" not in text
    assert "This is a weak promise" in text


@pytest.mark.parametrize("epsilon", [0.001, 10, 30, 1e6])
def test_any_epsilon_is_written_readably(epsilon):
    X, y = make("classification", 300)
    page = Page(render(fit("classification", X, y, epsilon=epsilon, max_depth=2)))
    assert ("This is a weak promise" in page.text) == (epsilon > 1)
    assert "100.0 % sure" not in page.text
    assert "inf" not in page.text.replace("inferred", "")


@pytest.mark.parametrize("task", TASKS)
def test_the_leaves_are_those_of_the_forest(models, task):
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


def test_many_features_are_all_listed():
    rng = np.random.default_rng(0)
    domain = Domain({f"feature {i}": Numeric(0, 1) for i in range(40)}, Numeric(0, 1))
    X = rng.random((500, 40))
    page = Page(render(diprime.DiPriMeRegressor(1, domain).fit(X, X[:, 0])))
    assert "25 more features" in page.text
    assert all(f"feature {i} " in page.text for i in range(40))


def test_the_head_says_when_the_page_was_written_of_which_data_and_by_whom(models):
    model = models["regression"]
    text = Page(render(model)).text
    assert f"data set not stated responsible not stated date of this report {date.today()}" in text
    text = Page(render(model, data="Visits <2020>", responsible="Jane Doe", day=date(2021, 3, 4))).text
    assert "data set Visits <2020> responsible Jane Doe date of this report 2021-03-04" in text
    for wrong in ({"data": " "}, {"responsible": ""}, {"data": 7}):
        with pytest.raises(ValueError, match="give a name, or leave it out"):
            render(model, **wrong)
    with pytest.raises(TypeError, match=r"give a datetime\.date"):
        render(model, day="2021-03-04")


def test_a_digest_ties_the_page_to_the_file(models, tmp_path):
    for model in models.values():
        model.save(tmp_path / "m.diprime")
        digest = hashlib.sha256((tmp_path / "m.diprime").read_bytes()).hexdigest()
        assert f"SHA-256 of the model file {digest}" in Page(render(model)).text
        assert digest in render(diprime.load(tmp_path / "m.diprime"))


def test_the_digest_is_that_of_the_given_file_and_of_no_other_model_s(models, tmp_path):
    old = FIXTURES / "format-1" / "joint-two.diprime"
    model = diprime.load(old)
    digest = hashlib.sha256(old.read_bytes()).hexdigest()
    assert digest not in render(model), "it would be saved in a newer format"
    assert digest in render(model, model_file=old)
    assert digest in render(model, model_file=old.read_bytes())
    other = next(iter(models.values()))
    other.save(tmp_path / "other")
    for wrong in (tmp_path / "other", (tmp_path / "other").read_bytes()):
        with pytest.raises(ValueError, match="model_file is not the file of this model"):
            render(model, model_file=wrong)
    with pytest.raises(diprime.ModelFileError):
        render(model, model_file=old.read_bytes() + b"more")


def test_a_model_without_a_file_has_no_digest():
    domain = Domain({"a": Categorical([(1, 2), (3, 4)])}, Numeric(0, 1))  # no file holds levels that are tuples
    X = np.empty((50, 1), dtype=object)
    X[:, 0] = [(1, 2)] * 50
    assert "SHA-256 of" not in render(diprime.DiPriMeRegressor(1.0, domain).fit(X, np.linspace(0, 1, 50)))


def test_the_whole_domain_is_shown():
    levels = [f"level {i} of a long list" for i in range(300)] + ["x" * 200]
    features = {f"column {i}": Numeric(0, 1) for i in range(40)}
    features |= {"edges": Numeric(edges=[0.125 * i for i in range(1, 50)]), "many": Categorical(levels)}
    domain = Domain({"y" * 100: Numeric(0, 1), **features}, Categorical(["yes", "no"]), target_name="the answer")
    X = pd.DataFrame({name: [0.5] * 50 for name in domain.columns}).assign(many="x")
    page = Page(render(DiPriMeClassifier(1.0, domain).fit(X, ["yes"] * 50)))
    card = page.text.split("What was declared public")[1]
    assert all(level in card for level in levels)
    assert all(f"column {i} numbers from 0 to 1" in card for i in range(40))
    assert "y" * 100 in card
    assert all(str(0.125 * i) in card for i in range(1, 50) if i % 8)
    assert "the answer (to predict) 2 levels: yes, no" in card
    assert "13 more features" in card
    assert not re.search(r"and \d+ more", card)


def test_the_words_of_the_ledger_are_explained(models):
    text = Page(render(models["regression"])).text
    assert "target window where most of the numbers to predict lie" in text
    bounds = [charge.bound for charge in models["regression"].privacy_.charges if "units of" in charge.bound]
    size, units = re.fullmatch(r"cost range (\d+) in units of 1/(\d+)", bounds[0]).groups()
    assert f"in units of 1/{units} of a record, a range of {size} is {int(size) / int(units):.3g} records" in text
    assert "L1 sensitivity the most by which one record" in text
    assert "target window" not in Page(render(models["classification"])).text
    boosted = text_of(sections.ledger(SimpleNamespace(privacy_=gaussian_ledger(1, 0))))
    assert "μ² what releases with normal noise cost" in boosted


@pytest.mark.parametrize("page", ["docs/privacy.md", "docs/audits.md"])
def test_the_page_says_where_proofs_and_audits_are(models, page):
    assert page in render(models["regression"])
    assert (Path(__file__).parents[2] / page).is_file()


def test_a_single_level_is_one_level():
    domain = Domain({"a": Categorical(["only"]), **{f"b{i}": Numeric(0, 1) for i in range(15)}}, Numeric(0, 1))
    X = pd.DataFrame({name: [0.5] * 50 for name in domain.columns}).assign(a="only")
    text = Page(render(diprime.DiPriMeRegressor(1.0, domain).fit(X, [0.5] * 50))).text
    assert "1 level: only" in text
    assert "1 more feature " in text


# -- safety ------------------------------------------------------------------------------------------------------------


def test_hostile_names_and_levels_stay_text():
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
            assert attributes.get(name, "data:,") == "data:,", tag
    for asset in ("style.css", "explore.js"):
        assert not re.search(r"url\(|@import|fetch\(|XMLHttp|https?:", _asset(asset))


def test_an_unfitted_model_has_no_report():
    with pytest.raises(ValueError, match="not fitted"):
        render(DiPriMeClassifier(domain=DOMAINS["classification"]))


# -- in a browser ------------------------------------------------------------------------------------------------------

ROOT = '[data-node="0"]'


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    pytest.importorskip("selenium", reason="Selenium is not installed.")
    if not Browser.INSTALLED:
        pytest.skip("Chromium or its driver is not installed (Debian: chromium and chromium-driver).")
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.driver.quit()


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


def test_a_node_that_splits_nothing_can_still_be_opened(browser, tmp_path):
    model = fit("classification", *make("classification", 500), n_estimators=1, max_depth=3)
    model.forest_.masks[1] = 0  # the left child of the root sends all its records to its own left child
    model.forest_.features[1] = 0
    browser.open(write_report(tmp_path, model))
    assert visible_nodes(browser) == [0, 1, 3, 4, 2, 5, 6]
    boxes = {
        node: browser.run(f"return canvas.querySelector('[data-node=\"{node}\"] > .node').innerText") for node in (1, 3)
    }
    assert "splits nothing" in boxes[1]
    assert boxes[3].startswith("every record")


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
                head = (
                    "return getComputedStyle(document.querySelector('#ledger td[data-head=cost]'), '::before').content"
                )
                assert browser.run(head) == '"cost"'
    browser.resize(1200, 900)


def test_every_class_has_a_colour_of_its_own(browser, tmp_path, wide_model):
    browser.open(write_report(tmp_path, wide_model))
    colour = "getComputedStyle(element).backgroundColor"
    of_bar, of_legend = (
        browser.run(f"return [...document.querySelectorAll('{places}')].map((element) => {colour})")
        for places in ("[data-node=\\'0\\'] > .node i", "aside .swatch")
    )
    assert of_bar == of_legend
    assert len(set(of_bar)) == 26
    assert browser.errors() == []


def test_what_is_folded_away_is_printed(browser, tmp_path, wide_model):
    browser.open(write_report(tmp_path, wide_model))
    is_visible = "return document.querySelector('#ledger .words').checkVisibility()"
    assert not browser.run(is_visible)
    browser.print_preview()
    assert browser.run(is_visible)
