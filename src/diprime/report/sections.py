"""Sections of the page, each computed from the fitted model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import Any

from diprime._util import __version__
from diprime.domain import Categorical, Domain, Numeric
from diprime.domain.features import Feature, bounds, int_if_whole
from diprime.domain.records import person_weight
from diprime.estimators.parameters import recorded
from diprime.inspection.importances import NOTHING_ABOVE_NOISE, importances_of
from diprime.inspection.views import TreeView, drawn_trees, noise_of_trees_text, read_tree
from diprime.inspection.words import (
    NOISE_DIGITS,
    count_text,
    counted,
    feature_text,
    number_text,
    plural,
    share_text,
    shortened,
)
from diprime.model.additive import AdditiveForest
from diprime.model.trees import Forest
from diprime.privacy.charges import BoundKind, Charge, Mechanism, ReleaseKind
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import (
    ApproximateDP,
    Epsilon,
    GaussianDP,
    Measure,
    PureEpsilon,
    rounded_down_text,
)
from diprime.report.figures import colours, paint, swatch
from diprime.report.guarantee import (
    MIN_PEOPLE_PER_DELTA,
    Strength,
    has_large_delta,
    released_count,
    strength,
    strength_of_epsilon,
)
from diprime.report.html import Child, Element, cost_text, exact_text, facts, json_script, link, section, table, tag

MAX_BARS = 15
"""Number of importances that are always visible; the others are collapsed."""
MAX_NODES = 1 << 15
"""Maximum number of nodes on a page, so that browsers stay fast. The first tree is always included."""
MAX_DRAWN_DEPTH = 12
MAX_COLUMNS = 30
"""Number of columns that are always visible; the others are collapsed."""
MAX_LISTED = 20
"""Maximum number of categories, or of edges between bins, that are not collapsed."""
MAX_LISTED_COUNTS = 8
SYMBOLS: dict[type, str] = {PureEpsilon: "ε", GaussianDP: "μ²", ApproximateDP: "ε"}
_DOMAIN_HEADINGS = {
    "declared": "Declared facts",
    "learned": "Declared and privately learnt facts",
    "inferred": "Facts inferred from the data",
}
_COLOURS = {Strength.STRONG: "good", Strength.MODERATE: "fair"}
_RULE_OF_THUMB = (
    "As a rule of thumb, ε up to 1 is strong protection, and ε of 5 or more is weak. Values between 1 and 3 are common "
    "for sensitive data."
)
FOREST_IMPORTANCES = """The importance of a feature is the share of the variance of the leaf estimates that its \
splits explain."""
BOOSTING_IMPORTANCES = """The importance of a feature is the share of the variance of the scores that its functions \
explain. Half of a function of two features counts towards each of them."""
NOISE_OF_IMPORTANCES = """The known noise of the mechanism and of sampling is subtracted, and ± is one standard \
deviation. Pale bars are not above the noise: noise alone could explain them. In data without any signal, about one \
model in a hundred has a feature above the noise. All of this is computed from released numbers, so it costs no \
privacy."""
CHOICE_OF_SPLITS = (
    """The choice of splits alone could explain the whole share of a pale bar, so its ± includes this share."""
)

COST_RANGE = """A private choice, for example of a split, favours candidates with a low cost, which is counted in \
{units}. The cost range is the largest change that one {unit} can make to the difference between two costs. A larger \
range makes the choice more random."""
UNITS = """ Costs are integers: in units of 1/{parts} of a {unit}, a range of {range} is {share:.3g} {units}."""
WEIGHTS = """Integers that add up to {weight} for each person. The fit counts in units of 1/{weight} of a person. A \
sensitivity of {weight} therefore means one person, as does {square} where changes are squared."""
DOMAIN_WEIGHTS = """ Learning a domain uses one record of each person and counts in people."""
L1 = """The largest total change that one {unit} can make to the released numbers. The noise is proportional to it."""
L2 = """The largest total change that one {unit} can make to the released numbers, with changes squared before they \
are added. Gaussian noise is calibrated to it."""
MU = """The cost of Gaussian noise. The values of μ² add up, and their sum is converted to ε and δ at the end."""

_CLASS_COUNTS = "The number of records of each class. It determines the size of the model."
_ROW_COUNT = "The number of records. It determines the size of the model."
_CLIPPING_RANGE = (
    "A range that covers about the middle five sevenths of the target values. Values far outside it are clipped, so "
    "a few extreme values do not require more noise."
)
_SPLITS = 'The questions, such as "age < 40?", that the trees ask.'
_LEAF_SUMS = (
    "The number of records of each class in each leaf, or the sum of their targets. Predictions are computed from them."
)
_DOMAIN = "Facts about the columns that were learnt from the data instead of declared."
PURPOSES: dict[ReleaseKind, tuple[str, str]] = {
    ReleaseKind.CLASS_COUNTS: ("class counts", _CLASS_COUNTS),
    ReleaseKind.ROW_COUNT: ("row count", _ROW_COUNT),
    ReleaseKind.TARGET_WINDOW: ("target clipping ranges", _CLIPPING_RANGE),
    ReleaseKind.NODE_WINDOWS: ("target clipping ranges", _CLIPPING_RANGE),
    ReleaseKind.MEDIANS: ("splits", _SPLITS),
    ReleaseKind.CHOICES: ("splits", _SPLITS),
    ReleaseKind.SPLITS: ("splits", _SPLITS),
    ReleaseKind.LEAF_SUMS: ("leaf sums", _LEAF_SUMS),
    ReleaseKind.CODE_SUMS: (
        "code sums",
        "The number of records with each value of a feature, and the variation of the target with the feature. The "
        "scales of the curves and the bins of the rounds follow from them.",
    ),
    ReleaseKind.GRADIENT_SUMS: (
        "gradient sums",
        "The starting scores of the model, and the corrections of its curves and in each of its rounds.",
    ),
    **{kind: ("domain", _DOMAIN) for kind in ReleaseKind if kind.is_of_domain},
}
"""Short names of releases, with their purpose in plain words."""

PAPER_URL = "https://arxiv.org/abs/2006.08795"
CITATION = """@article{consul2021balance,
  title   = {Balance is key: Private median splits yield high-utility random trees},
  author  = {Consul, Shorya and Williamson, Sinead A.},
  journal = {arXiv preprint arXiv:2006.08795},
  year    = {2021}
}"""


def header(model: Any, metadata: Element | None = None) -> Element:
    """Return the header of the page: the status, the strength or the reasons why the model is not private."""
    ledger: Ledger = model.privacy_
    colour = "bad"
    if ledger.is_private:
        level = strength(model)
        because = ", because of δ" if level < strength_of_epsilon(ledger) else ""
        colour = _COLOURS.get(level, "bad")
        kind = "Private" if level >= Strength.MODERATE else f"{level.text.capitalize()} privacy"
        heading = f"{kind}: ε = {cost_text(ledger.total)}, δ = {cost_text(ledger.total_delta)}"
        summary = [
            tag("p", "This model satisfies the privacy guarantee below, which covers every number in it."),
            tag("p", "Protection: ", tag("strong", level.text), because, f". {_RULE_OF_THUMB}"),
            *([_large_delta(model)] if has_large_delta(model) else []),
        ]
    else:
        heading = "Not private"
        reasons = [tag("li", reason) for reason in ledger.reasons_not_private]
        summary = [
            tag("p", "This model has no privacy guarantee. Protect it as you protect its training data. Reasons:"),
            tag("ul", *reasons, class_="waivers"),
        ]
    kicker = tag("p", f"Privacy report for a {type(model).__name__}, generated by diprime {__version__}")
    return tag("header", kicker, tag("h1", heading), *summary, metadata, class_=colour)


def _large_delta(model: Any) -> Element:
    """Return the warning that delta is too large for the released number of people."""
    ledger, n_people = model.privacy_, released_count(model)
    limit = f"{float(rounded_down_text(Fraction(1 / (MIN_PEOPLE_PER_DELTA * n_people)))):.4g}"  # rounded like delta
    text = (
        f"δ = {cost_text(ledger.total_delta)} is too large: it should be below {limit}, which is one divided by "
        f"{MIN_PEOPLE_PER_DELTA} times the released number of {plural(ledger.privacy_unit)}, about {n_people:,.0f}. "
        "The guarantee is silent about events whose probability is about δ or less."
    )
    return tag("p", text, class_="bad note")


def ledger(model: Any) -> Element:
    """Return the ledger as a chart and a table."""
    elements = _ledger_elements(model.privacy_, "the whole fit")
    text = "Training released the quantities in this table, and nothing else about the data."
    return section("ledger", "Privacy ledger", tag("p", text), *elements, glossary(model.privacy_))


def _ledger_elements(ledger: Ledger, name: str) -> list[Element]:
    """Return the elements that show a ledger and, recursively, the ledgers that were merged into it."""
    loss = ledger.loss
    sums: dict[type[Measure], Epsilon] = {PureEpsilon: loss.epsilon, GaussianDP: loss.mu_squared}
    elements = [_budget_chart(ledger, name, measure) for measure, cost in sums.items() if 0 < cost < math.inf]
    elements.append(_charges_table(ledger))
    text = f"The costs add up to ε = {cost_text(ledger.total)}"
    text += f" at δ = {cost_text(ledger.total_delta)}" if ledger.total_delta else ""
    elements.append(tag("p", f"{text}, for adding or removing one {ledger.privacy_unit}."))
    if (n := ledger.max_records_per_group) is not None:
        text = (
            "People are protected, not records: all records of a person together. At most "
            f"{counted(n, 'record')} of each person {'was' if n == 1 else 'were'} "
            "used, sampled at random, and together they count as one. Counts of records on this page are therefore "
            "counts of people."
        )
        elements.append(tag("p", text, class_="note"))
    reasons = dict.fromkeys(charge.composition for charge in ledger.charges if charge.composition)
    if reasons:
        elements += [tag("p", "Reasons for these costs:"), tag("ul", *(tag("li", reason) for reason in reasons))]
    elements += [tag("p", note, class_="note") for note in ledger.notes]
    elements += [tag("p", f"Not private: {reason}", class_="bad note") for reason in ledger.reasons_not_private]
    elements += [tag("p", cost, class_="bad note") for cost in ledger.strict_costs]
    elements += [tag("p", f"Charged to the budget of study {study}.", class_="note") for study in ledger.studies]
    elements += _folded(ledger)
    for part_name, part in ledger.parts:
        elements += [tag("h3", part_name), *_ledger_elements(part, part_name[0].lower() + part_name[1:])]
    return elements


def _folded(ledger: Ledger) -> list[Element]:
    """Return the exact costs and the purposes of the releases, collapsed."""
    costs: list[Sequence[Child]] = [[c.description, exact_text(c.total)] for c in ledger.charges]
    kinds = dict.fromkeys(charge.kind for charge in ledger.charges)
    purposes: list[Sequence[Child]] = list(dict.fromkeys(PURPOSES[kind] for kind in kinds if kind in PURPOSES))
    folded = [tag("details", tag("summary", "Exact costs as fractions"), table(["release", "exact cost"], costs))]
    if purposes:
        summary = tag("summary", "Purpose of each release")
        folded.append(tag("details", summary, table(["release", "purpose"], purposes)))
    return folded


def _charges_table(ledger: Ledger) -> Element:
    """Return the charges of a ledger and their sums. With Gaussian charges, there is one sum per measure."""
    has_measures = bool(ledger.loss.mu_squared)

    def row(texts: Sequence[str], measure: type[Measure], *costs: str) -> list[str]:
        return [*texts, *([SYMBOLS[measure]] if has_measures else []), *costs]

    rows: list[Sequence[Child]] = []
    for c in ledger.charges:
        texts, costs = (
            (c.description, str(c.mechanism), str(c.sensitivity)),
            (cost_text(c.measure.cost), cost_text(c.total)),
        )
        rows.append(row(texts, type(c.measure), costs[0], str(c.n_releases), costs[1]))
    sums: dict[type[Measure], Epsilon] = {PureEpsilon: ledger.total}
    if has_measures:
        sums = {PureEpsilon: ledger.loss.epsilon, GaussianDP: ledger.loss.mu_squared}
    for measure, cost in sums.items():
        if cost or not has_measures:
            rows.append([tag("strong", text) for text in row(("total", "", ""), measure, "", "", cost_text(cost))])
    one = ["measure", "one release"] if has_measures else ["ε of one release"]
    head = ["release", "protected by", "sensitivity", *one, "releases per record", "cost"]
    return table(head, rows, numeric={len(head) - 3, len(head) - 2, len(head) - 1})


def _budget_chart(ledger: Ledger, name: str, measure: type[Measure]) -> Element:
    """Return a bar with one segment per charge of a measure. Widths are percentages, so it fits every page."""
    symbol = SYMBOLS[measure]
    charges = [charge for charge in ledger.charges if SYMBOLS[type(charge.measure)] == symbol]
    total = sum((charge.total for charge in charges), Fraction(0))
    groups = list(dict.fromkeys(charge.group for charge in charges))
    widths = [float(100 * charge.total / total) for charge in charges]
    bars = []
    for charge, width, end in zip(charges, widths, accumulate(widths), strict=True):
        text = f"{charge.description}: {symbol} = {cost_text(charge.total)}, {share_text(width / 100)}"
        rectangle = tag("rect", tag("title", text), x=f"{end - width:.4f}%", width=f"{width:.4f}%", height="100%")
        bars.append(paint(rectangle, groups.index(charge.group), len(groups)))
    legend = []
    for i, group in enumerate(groups):
        spent = sum((charge.total for charge in charges if charge.group == group), Fraction(0))
        text = f"{group}: {symbol} = {cost_text(spent)}, {share_text(float(spent / total))}"
        legend.append(tag("li", swatch(i, len(groups)), text))
    label = f"Shares of {symbol} = {cost_text(total)} of {name}"
    bar = tag("svg", *bars, class_="budget", role="img", aria_label=label)
    return tag("figure", bar, tag("figcaption", tag("ul", *legend, class_="legend")))


def importances(model: Any) -> Element:
    """Return the importances, largest first."""
    found = importances_of(model)
    rows: list[Sequence[Child]] = []
    for j in found.order:
        opacity = "1" if found.above_noise[j] else "0.3"
        width = f"{100 * min(found.shares[j], 1.0):.3f}%"
        bar = tag("rect", width=width, height="100%", class_="fill-0", fill_opacity=opacity)
        share, error = share_text(found.shares[j]), f"± {share_text(found.errors[j])}"
        mark = "" if found.above_noise[j] else "not above noise"
        rows.append([shortened(found.names[j]), tag("svg", bar, class_="bar", aria_hidden="true"), share, error, mark])
    head = ["feature", "", "share", "±", ""]
    is_boosted = isinstance(model.forest_, AdditiveForest)
    text = BOOSTING_IMPORTANCES if is_boosted else FOREST_IMPORTANCES
    return section(
        "importances",
        "Feature importances",
        tag("p", f"{text} {NOISE_OF_IMPORTANCES}", None if is_boosted else f" {CHOICE_OF_SPLITS}"),
        None if found.above_noise.any() else tag("p", NOTHING_ABOVE_NOISE, class_="bad"),
        table(head, rows[:MAX_BARS], numeric={2, 3}),
        _more_features(head, rows[MAX_BARS:], numeric={2, 3}),
    )


def _more_features(head: Sequence[str], rows: Sequence[Sequence[Child]], numeric: Set[int] = frozenset()) -> Child:
    """Return the rows of further features, collapsed, or None if there are none."""
    summary = tag("summary", counted(len(rows), "more feature"))
    return tag("details", summary, table(head, rows, numeric=numeric)) if rows else None


def explorer(model: Any) -> Element:
    """Return the tree explorer: its controls, and the trees as JSON data for explore.js."""
    trees, n_trees = _drawn_trees(model), model.forest_.n_trees
    domain = model.domain_
    is_classification = domain.task == "classification"
    text = share_text if is_classification else number_text
    text_of_noise = share_text if is_classification else partial(number_text, digits=NOISE_DIGITS)
    data = {
        "classes": [shortened(str(c)) for c in model.classes_.tolist()] if is_classification else None,
        "colours": colours(len(model.classes_)) if is_classification else None,
        "range": None if is_classification else list(bounds(domain.target)),
        "trees": [
            {
                "depth": tree.depth,
                "below": tree.levels_below,
                "weight": share_text(weight),
                "features": tree.features,
                "conditions": tree.conditions,
                "records": _records_texts(tree),
                "values": [[float(f"{v:.5g}") for v in row] for row in tree.values.tolist()],
                "estimates": [[text(v) for v in row] for row in tree.values.tolist()],
                "noise": _noise_texts(tree, text_of_noise),
            }
            for tree, weight in zip(trees, model.forest_.tree_weights.tolist(), strict=False)
        ],
    }
    drawn = f"This section shows all {n_trees} trees." if n_trees > 1 else "This section shows the tree."
    if len(trees) < n_trees:
        drawn = f"The first {len(trees)} of {n_trees} trees are shown, to keep the page fast."
    return section(
        "trees",
        "Trees",
        tag(
            "p",
            f"{drawn} Click a node to open it, or use the arrow keys and Enter. {noise_of_trees_text(model)}",
        ),
        tag(
            "div",
            tag("label", "Tree ", tag("select", id="tree-picker")),
            tag("button", "Open all", type="button", id="open-all"),
            tag("button", "Close all", type="button", id="close-all"),
            class_="controls",
        ),
        tag(
            "div",
            tag("div", tag("ul", id="tree", role="tree", aria_label="Tree"), class_="scroll canvas"),
            tag("aside", id="node-details", aria_live="polite", aria_label="The chosen node"),
            class_="explorer",
        ),
        tag("noscript", tag("p", "This page needs its own script to draw the trees, but scripts are switched off.")),
        json_script("forest", data),
    )


def _noise_texts(tree: TreeView, text: Callable[[float], str]) -> list[str]:
    """Return the noise of the estimate of every node as text, which is empty if it is not known."""
    return [""] * len(tree.values) if tree.value_noise is None else [f"± {text(v)}" for v in tree.value_noise.tolist()]


def _records_texts(tree: TreeView) -> list[str]:
    """Return the released number of records of every node as text."""
    assert tree.count_noise is not None
    pairs = zip(tree.counts.tolist(), tree.count_noise.tolist(), strict=True)
    return [count_text(count, noise, tree.unit) for count, noise in pairs]


def _drawn_trees(model: Any) -> list[TreeView]:
    """Return as many trees as `MAX_NODES` permits, from the first."""
    trees: list[TreeView] = []
    n_nodes = 0
    for index in range(model.forest_.n_trees):
        n_nodes += 2 ** (min(int(model.forest_.depths[index]), MAX_DRAWN_DEPTH) + 1)
        if trees and n_nodes > MAX_NODES:
            break
        trees.append(read_tree(model, index, MAX_DRAWN_DEPTH))
    return trees


def _features_text(domain: Domain) -> str:
    if domain.n_features == len(domain.column_names):
        return str(domain.n_features)
    return f"{domain.n_features}, from {len(domain.column_names)} columns, because a date column gives several"


def model_card(model: Any) -> Element:
    """Return the model card: the model, its parameters and its domain."""
    domain, forest = model.domain_, model.forest_
    heading = _DOMAIN_HEADINGS[domain.origin.kind]
    rows = [
        ("predicts", feature_text(domain.target)),
        *_size_facts(forest),
        (plural(model.privacy_.privacy_unit), _records_text(forest)),
        ("features", _features_text(domain)),
        ("domain", str(domain.origin)),
        *([("texts for missing values", ", ".join(map(repr, domain.missing)))] if domain.missing else []),
        *((name, _parameter_text(model.fitted_params_[name])) for name in recorded(model)),
        *_choice_facts(model.privacy_),
    ]
    return section(
        "card",
        "Model card",
        facts(rows),
        tag("h3", heading, class_="bad") if domain.origin.reason_not_private else tag("h3", heading),
        *_domain_tables(domain),
        *(tag("p", note, class_="note") for note in (domain.origin.ledger.notes if domain.origin.ledger else ())),
        tag("p", f"Numbers and dates outside their range are clipped. {_missing_text(forest)}", class_="note"),
    )


def _missing_text(forest: Forest | AdditiveForest) -> str:
    """Return how the model treats values that are missing or not listed."""
    text = "Each split decides where unlisted categories and missing values go"
    if not isinstance(forest, AdditiveForest):
        return f"{text}."
    return f"{text}, and each curve has values of its own for them."


def _size_facts(forest: Forest | AdditiveForest) -> list[tuple[str, str]]:
    """Return the numbers of trees, or of curves and rounds."""
    depths = forest.depths[drawn_trees(forest)]
    text = "0"
    if len(depths):
        shallowest, deepest, n_leaves = int(depths.min()), int(depths.max()), int((1 << depths).sum())
        depth = str(deepest) if shallowest == deepest else f"{shallowest} to {deepest}"
        text = f"{len(depths):,}, of depth {depth}, with {n_leaves:,} {'leaf' if n_leaves == 1 else 'leaves'}"
    if not isinstance(forest, AdditiveForest):
        return [("trees", text)]
    return [("curves", f"{len(forest.curves):,}, each a function of one feature"), ("rounds", text)]


def no_score() -> Element:
    """Return the section of a report without a score."""
    text = (
        "This report contains no score, so the quality of the model is unknown. Score the model on public rows, or "
        "with a private score, which spends ε of the people in the test rows."
    )
    return section("score", "Score", tag("p", text))


def use_and_approval(model: Any, intended_use: str | None, rows: Sequence[tuple[str, Child]]) -> Element:
    """Return the intended use of the model, its limits, and the approval."""
    ledger: Ledger = model.privacy_
    one_each = (
        "" if ledger.max_records_per_group is not None else " The guarantee is for people only if each has one record."
    )
    limits = (
        f"The domain must be public knowledge.{one_each} Groups with few {plural(ledger.privacy_unit)} suffer most "
        "from the noise: check the quality of the model for them."
    )
    use = intended_use or "The intended use is not stated."
    return section("approval", "Intended use and approval", tag("p", use), tag("p", limits), facts(rows))


def _records_text(forest: Forest | AdditiveForest) -> str:
    if isinstance(forest, AdditiveForest):
        return f"about {max(forest.n_records, 0):,.0f} ± {forest.records_noise:,.0f} (as released)"
    return f"{_join_counts(forest.tree_counts.tolist())} (per tree, as released)"


def _parameter_text(value: Any) -> str:
    """Return a parameter as text."""
    if not isinstance(value, Mapping):
        return str(value)
    return ", ".join(f"{shortened(str(label))}: {weight:g}" for label, weight in value.items())


def _choice_facts(ledger: Ledger) -> list[tuple[str, str]]:
    """Return facts on the private search that selected the parameters, if any."""
    of_search = Mechanism.OWN_LEDGERS, Mechanism.RANDOM_STOPPING
    charges = [charge for charge in ledger.charges if charge.mechanism in of_search]
    return [("private search", f"{c.description}, {c.sensitivity}; the ledger contains its cost") for c in charges]


def cite(model: Any) -> Element:
    """Return the section on citing the library and the method."""
    ledger: Ledger = model.privacy_
    text = (
        f"State the library and its version, diprime {__version__}, the estimator, {type(model).__name__}, the "
        f"guarantee, ε = {cost_text(ledger.total)} and δ = {cost_text(ledger.total_delta)} for adding or removing one "
        f"{ledger.privacy_unit}, and the reasons, if the model is not private."
    )
    if isinstance(model.forest_, AdditiveForest):
        return section("cite", "Citation", tag("p", text))
    paper = tag("p", f"The method is “{model.method}”, which extends ", link(PAPER_URL), ":")
    return section("cite", "Citation", tag("p", text), paper, tag("pre", CITATION))


def _join_counts(counts: list[float]) -> str:
    shown = ", ".join(f"{count:,.0f}" for count in counts[:MAX_LISTED_COUNTS])
    more = len(counts) - MAX_LISTED_COUNTS
    return f"about {shown}{f' and {more} more' if more > 0 else ''}"


def _domain_tables(domain: Domain) -> list[Child]:
    """Return the facts about all columns and the target."""
    target = domain.target_name or "the target"
    rows: list[Sequence[Child]] = [[name, _facts(feature)] for name, feature in domain.features.items()]
    last: Sequence[Child] = [f"{target} (target)", _facts(domain.target)]
    head = ["feature", "values"]
    return [table(head, [*rows[:MAX_COLUMNS], last]), _more_features(head, rows[MAX_COLUMNS:])]


def _facts(feature: Feature) -> Child:
    """Return the facts about a feature, with long lists collapsed."""
    if isinstance(feature, Categorical) and feature.n_buckets is None:
        return _listed(counted(len(feature.categories), "category"), [str(category) for category in feature.categories])
    if isinstance(feature, Numeric) and feature.edges is not None:
        edges = [str(int_if_whole(edge)) for edge in feature.edges]
        return _listed(f"numbers in {feature.n_cells} bins, with edges", edges)
    return feature_text(feature)


def _listed(heading: str, items: list[str]) -> Child:
    text = ", ".join(items)
    if len(items) <= MAX_LISTED:
        return f"{heading}: {text}"
    return tag("details", tag("summary", heading), text)


def glossary(ledger: Ledger) -> Element | None:
    """Return the glossary of a ledger and its parts, or None if it is empty."""
    words = _words(list(_weighted_charges(ledger)), ledger.privacy_unit)
    if not words:
        return None
    terms = [element for word, text in words.items() for element in (tag("dt", word), tag("dd", text))]
    return tag("details", tag("summary", "Glossary"), tag("dl", *terms, class_="words"))


def _weighted_charges(ledger: Ledger) -> Iterator[tuple[Charge, int]]:
    """Yield each charge of a ledger and its parts, with the weight of one person in its sensitivity."""
    weight = person_weight(ledger.max_records_per_group or 1)
    for charge in ledger.charges:
        yield charge, 1 if charge.kind.is_of_domain else weight
    for _, part in ledger.parts:
        yield from _weighted_charges(part)


def _words(weighted_charges: list[tuple[Charge, int]], unit: str) -> dict[str, str]:
    words = {}
    charges = [charge for charge, _ in weighted_charges]
    kinds = {charge.sensitivity.kind for charge in charges}
    if kinds & {BoundKind.COST_RANGE, BoundKind.COST_RANGE_IN_UNITS, BoundKind.COST_RANGE_OF_ERRORS}:
        in_units = [
            (c.sensitivity.n, c.sensitivity.units * w)
            for c, w in weighted_charges
            if c.sensitivity.kind is BoundKind.COST_RANGE_IN_UNITS
        ]
        examples = [
            UNITS.format(parts=parts, range=n, share=n / parts, unit=unit, units=plural(unit))
            for n, parts in in_units[:1]
        ]
        words["cost range"] = "".join([COST_RANGE.format(unit=unit, units=plural(unit)), *examples])
    if kinds & {BoundKind.L1, BoundKind.L1_OF_ERRORS, BoundKind.L1_BESIDE_LEAF_COUNTS}:
        words["L1 sensitivity"] = L1.format(unit=unit)
    if BoundKind.SQUARED_L2 in kinds:
        words["squared L2 sensitivity"] = L2.format(unit=unit)
    if (weight := max((weight for _, weight in weighted_charges), default=1)) > 1:
        domain_ledger = DOMAIN_WEIGHTS if any(charge.kind.is_of_domain for charge in charges) else ""
        words["weights of records"] = WEIGHTS.format(weight=weight, square=weight**2) + domain_ledger
    if any(isinstance(charge.measure, GaussianDP) for charge in charges):
        words["μ²"] = MU
    return words
