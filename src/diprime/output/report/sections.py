"""The sections of the page, each a function of the fitted model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import Any

from diprime._util.version import __version__
from diprime.domain import Domain
from diprime.domain.features import bounds
from diprime.estimators.parameters import BOOSTING_CLASSIFIER, FOREST_CLASSIFIER, recorded
from diprime.model.additive import AdditiveForest
from diprime.model.feature_words import counted, feature_text, shortened
from diprime.model.forest import Forest
from diprime.model.rounding import NOISE_DIGITS, count_text, number_text, share_text
from diprime.model.signatures import SignatureCheck
from diprime.model.tree_view import Tree, read_tree
from diprime.output.report.colours import colours, paint, swatch
from diprime.output.report.domain_table import domain_tables
from diprime.output.report.glossary import glossary
from diprime.output.report.html import Child, Element, facts, json_script, section, table, tag
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import ApproximateDP, Epsilon, GaussianDP, Measure, PureEpsilon, rounded_text
from diprime.privacy.mechanisms.stopping import RANDOM_STOPPING
from diprime.search.plan import FITS

MAX_BARS = 15
"""How many importances are shown at once; the others are folded away."""
MAX_NODES = 1 << 15
"""How many nodes a page holds at most, so that browsers stay fast. The first tree is always there."""
MAX_DRAWN_DEPTH = 12
MAX_LISTED_COUNTS = 8
WEAK_CERTAINTY = 0.99
"""Above this posterior certainty, from even odds, the page calls the guarantee weak."""
MAX_READABLE_EPSILON = 14
"""Up to this ε, the page writes e^ε and the posterior certainty as plain numbers."""
MIN_WHOLE_FACTOR = 100
"""From this factor on, e^ε is written without decimals."""
SYMBOLS: dict[type, str] = {PureEpsilon: "ε", GaussianDP: "μ²", ApproximateDP: "ε"}
_DOMAIN_REMARKS = {
    False: "The domain (names, ranges, levels, classes) is taken to be public knowledge, and is shown here.",
    True: "Names and types of columns, and what was declared about them, are taken to be public knowledge, and are "
    "shown here. The other ranges, levels and classes were learnt privately: the ledger has what that cost.",
}
_DOMAIN_HEADINGS = {
    "declared": "What was declared public",
    "learnt": "What was declared public, or learnt privately",
    "read": "What was read from the data",
}
_NORMAL_NOISE = (
    " The noise here is normal: larger ε hold with smaller δ, and every result could have come out without the {unit} "
    "as well."
)
CITATION = """@article{consul2021balance,
  title   = {Balance is key: Private median splits yield high-utility random trees},
  author  = {Consul, Shorya and Williamson, Sinead A.},
  journal = {arXiv preprint arXiv:2006.08795},
  year    = {2021}
}"""


def verdict(model: Any, imprint: Element | None = None, signature: SignatureCheck | None = None) -> Element:
    """Return the head of the page: whether the model is private, and if not, why; and which page this is.

    Of a file whose signature is wrong, the ledger is anybody's claim, so the head claims nothing.
    """
    ledger: Ledger = model.privacy_
    is_good = ledger.is_private
    if signature is not None and signature.state == "wrong":
        is_good = False
        heading = "Do not trust this file: its signature is wrong or missing"
        summary = [tag("p", signature.text), tag("p", "Nothing that this page says of the model can be relied on.")]
    elif ledger.is_private:
        heading = f"Private: ε = {_number(ledger.total)}, δ = {_number(ledger.total_delta)}"
        summary = [
            tag("p", "Every number in this model was released with noise that was paid for. Nothing was waived.")
        ]
    else:
        heading = "Not private"
        reasons = [tag("li", reason) for reason in ledger.objections]
        summary = [
            tag("p", "The promise below does not hold for this model:"),
            tag("ul", *reasons, class_="waivers"),
        ]
    kicker = tag("p", f"Privacy report of a {type(model).__name__}, written by diprime {__version__}")
    return tag("header", kicker, tag("h1", heading), *summary, imprint, class_="good" if is_good else "bad")


def promise(model: Any) -> Element:
    """Return the privacy guarantee in plain words."""
    ledger: Ledger = model.privacy_
    if ledger.total == math.inf:
        return section(
            "promise",
            "The promise",
            tag("p", "There is none: this model was fitted with ε = ∞, without any noise. Treat it as the data."),
        )
    certainty = 1 / (1 + math.exp(-ledger.total))  # the largest posterior probability, given a prior of one half
    waived = None
    if not ledger.is_private:
        waived = tag("p", "This is what would hold if nothing had been waived. It does not hold.", class_="bad note")
    weak = None
    if certainty > WEAK_CERTAINTY:
        weak = tag("p", "This is a weak promise: hand the model on with care.", class_="bad note")
    return section(
        "promise",
        "The promise",
        waived,
        *(_approximate_promise(ledger) if ledger.total_delta else _pure_promise(ledger, certainty)),
        weak,
        table(
            ["what changes", "ε", "no result more likely by more than" + (", beside δ" if ledger.total_delta else "")],
            [[what, _number(group), _times(group)] for what, group in _changes(ledger)],
            numeric={1, 2},
        ),
        tag("h3", "What is not promised"),
        tag(
            "ul",
            tag(
                "li",
                "What is true of people in general may be learnt, and be applied to anyone, in the data or not.",
            ),
            tag("li", _DOMAIN_REMARKS[model.domain_.origin.kind == "learnt"]),
            tag(
                "li",
                "What was published besides, such as test accuracy on private rows or parameters chosen by looking at "
                "such scores, is not counted here; nor are the time and memory that the fit took. A private score "
                "states its own cost.",
            ),
            tag("li", "Other releases about the same people add up with this one."),
        ),
        tag("h3", "Why it should be believed"),
        tag(
            "p",
            "The source of diprime has the proofs, in docs/privacy.md. Its docs/audits.md says what was tried against "
            "them: audits, planted bugs, attacks and hostile files, what they found, and what was not tried.",
        ),
    )


def _whole_unit(ledger: Ledger) -> str:
    """Return who is protected: one record, or one person with all records."""
    return "one record" if ledger.unit_records is None else "one person, with all records of that person,"


def _others_and_own(ledger: Ledger) -> str:
    """Return what somebody who bets may know, and what the bet is about."""
    if ledger.unit_records is None:
        return "all other records, and for whom it is even odds whether a certain person's record is"
    return "the records of all others, and for whom it is even odds whether those of a certain person are"


def _changes(ledger: Ledger) -> list[tuple[str, Epsilon]]:
    """Return changes of the data, and what epsilon is for each of them."""
    if ledger.unit_records is None:
        several = "a person with five records is added or removed"
    else:
        several = "a family of five persons is added or removed"
    return [
        (f"{ledger.whole_unit} is added or removed", ledger.total),
        (f"one {ledger.unit} is replaced by another", ledger.epsilon_of_group(2)),
        (several, ledger.epsilon_of_group(5)),
    ]


def _pure_promise(ledger: Ledger, certainty: float) -> list[Element | None]:
    """Return what epsilon means without a delta."""
    epsilon = ledger.total
    factor = tag(
        "p",
        f"Had {_whole_unit(ledger)} been left out of the data, or one more been in it, the same models could have "
        "come out, with chances that differ little: no result would have become more than ",
        tag("strong", _times(epsilon)),
        f" (e^ε, ε = {_number(epsilon)}) as likely, or as unlikely. That bounds what anybody can learn about a "
        "person from this model, whatever they know besides and whatever they compute from it.",
    )
    if epsilon > MAX_READABLE_EPSILON:
        return [factor]
    bet = tag(
        "p",
        f"As a bet: someone who knows {_others_and_own(ledger)} among the data, cannot become more than ",
        tag("strong", f"{_distinct_percent(certainty)} sure"),
        f" that it is, nor less than {_distinct_percent(1 - certainty, math.floor)}.",
    )
    return [factor, bet]


def _approximate_promise(ledger: Ledger) -> list[Element | None]:
    """Return what epsilon and delta mean together."""
    epsilon, delta = ledger.total, _number(ledger.total_delta)
    factor = tag(
        "p",
        f"Had {_whole_unit(ledger)} been left out of the data, or one more been in it, the same models could have "
        "come out, with chances that differ little: whatever set of results one looks at, its probability would "
        "have been at most ",
        tag("strong", _times(epsilon)),
        f" (e^ε, ε = {_number(epsilon)}) as large, plus δ = {delta}. That bounds what anybody can learn about a person "
        "from this model, whatever they know besides and whatever they compute from it.",
    )
    meaning = tag(
        "p",
        f"δ = {delta} is what the factor does not cover: of a set of results whose probability is about δ, or less, it "
        "says nothing. So δ should be far below one over the number of people in the data."
        + (_NORMAL_NOISE.format(unit=ledger.unit) if not ledger.loss.delta else ""),
    )
    if epsilon > MAX_READABLE_EPSILON:
        return [factor, meaning]
    odds = math.exp(epsilon)
    bet = tag(
        "p",
        f"As a bet: someone who knows {_others_and_own(ledger)} among the data, guesses right by "
        "looking at this model with a probability of at most ",
        tag("strong", _distinct_percent((odds + float(ledger.total_delta)) / (1 + odds))),
        ".",
    )
    return [factor, meaning, bet]


def ledger(model: Any) -> Element:
    """Return the ledger, as a chart and as a table."""
    elements = _ledger_elements(model.privacy_, "the whole fit")
    return section("ledger", "The ledger", *elements, glossary(model.privacy_))


def _ledger_elements(ledger: Ledger, name: str) -> list[Element]:
    """Return the elements that show a ledger and, recursively, the ledgers that were merged into it."""
    loss = ledger.loss
    sums: dict[type[Measure], Epsilon] = {PureEpsilon: loss.epsilon, GaussianDP: loss.mu_squared}
    elements = [_budget_chart(ledger, name, measure) for measure, cost in sums.items() if 0 < cost < math.inf]
    elements.append(_gaussian_table(ledger) if loss.mu_squared else _pure_table(ledger))
    if loss.mu_squared:
        text = (
            f"Together: ε = {_number(ledger.total)} at δ = {_number(ledger.delta)}, for adding or removing one "
            f"{ledger.unit}."
        )
        elements.append(tag("p", text, class_="note"))
    if ledger.unit_records is not None:
        text = (
            f"Persons are protected, each with all records. At most {ledger.unit_records} of a person are used, chosen "
            "at random; they weigh as one together, and every bound is for a whole person. So numbers of records on "
            "this page are numbers of persons."
        )
        elements.append(tag("p", text, class_="note"))
    reasons = dict.fromkeys(charge.composition for charge in ledger.charges if charge.composition)
    elements += [tag("p", f"Composition: {reason}.", class_="note") for reason in reasons]
    elements += [tag("p", remark, class_="note") for remark in ledger.remarks]
    elements += [tag("p", f"Not private: {objection}", class_="bad note") for objection in ledger.objections]
    elements += [tag("p", cost, class_="bad note") for cost in ledger.strict_costs]
    elements += [tag("p", f"Charged to the budget of study {study}.", class_="note") for study in ledger.studies]
    for part_name, part in ledger.parts:
        elements += [tag("h3", part_name), *_ledger_elements(part, part_name[0].lower() + part_name[1:])]
    return elements


def _pure_table(ledger: Ledger) -> Element:
    """Return the charges of a ledger that has pure epsilons only, and their sum."""
    rows: list[Sequence[Child]] = [
        [c.what, c.mechanism, c.bound, _number(c.measure.cost), str(c.times), _number(c.total), _exact(c.total)]
        for c in ledger.charges
    ]
    total = [tag("strong", text) for text in ("total", "", "", "", "", _number(ledger.total), _exact(ledger.total))]
    head = ["release", "mechanism", "bound", "ε", "times", "cost", "exactly"]
    return table(head, [*rows, total], numeric={3, 4, 5, 6})


def _gaussian_table(ledger: Ledger) -> Element:
    """Return the charges of a ledger with Gaussian ones, each in its own measure, and the sums of both."""
    rows: list[Sequence[Child]] = [
        [
            *(c.what, c.mechanism, c.bound, SYMBOLS[type(c.measure)], _number(c.measure.cost), str(c.times)),
            *(_number(c.total), _exact(c.total)),
        ]
        for c in ledger.charges
    ]
    for measure, cost in ((PureEpsilon, ledger.loss.epsilon), (GaussianDP, ledger.loss.mu_squared)):
        if cost:
            texts = ("total", "", "", SYMBOLS[measure], "", "", _number(cost), _exact(cost))
            rows.append([tag("strong", text) for text in texts])
    head = ["release", "mechanism", "bound", "measure", "each", "times", "cost", "exactly"]
    return table(head, rows, numeric={4, 5, 6, 7})


def _budget_chart(ledger: Ledger, name: str, measure: type[Measure]) -> Element:
    """Return a bar with one segment for each charge of a measure.

    Widths are percentages, so that it scales with the page.
    """
    charges, symbol = [c for c in ledger.charges if SYMBOLS[type(c.measure)] == SYMBOLS[measure]], SYMBOLS[measure]
    total = sum((charge.total for charge in charges), Fraction(0))
    groups = list(dict.fromkeys(charge.kind for charge in charges))
    widths = [float(100 * charge.total / total) for charge in charges]
    bars = []
    for charge, width, end in zip(charges, widths, accumulate(widths), strict=True):
        text = f"{charge.what}: {symbol} = {_number(charge.total)}, {share_text(width / 100)}"
        rectangle = tag("rect", tag("title", text), x=f"{end - width:.4f}%", width=f"{width:.4f}%", height="100%")
        bars.append(paint(rectangle, groups.index(charge.kind), len(groups)))
    spent = {g: sum(c.total for c in charges if c.kind == g) for g in groups}
    legend = [
        tag(
            "li",
            swatch(i, len(groups)),
            f"{g}: {symbol} = {_number(spent[g])}, {share_text(float(spent[g] / total))}",
        )
        for i, g in enumerate(groups)
    ]
    label = f"How {symbol} = {_number(total)} of {name} was spent"
    return tag(
        "figure",
        tag("svg", *bars, class_="budget", role="img", aria_label=label),
        tag("figcaption", tag("ul", *legend, class_="legend")),
    )


FOREST_IMPORTANCES = """How much the splits on each feature spread the estimates, as shares of one. They are computed \
from the released leaves, so they carry the noise and cost nothing; small ones may be nothing but noise."""
BOOSTING_IMPORTANCES = """How much the functions of each feature vary over the records, as shares of one; a function \
of two features counts half for each. They are computed from released numbers, so they carry the noise and cost \
nothing; small ones may be nothing but noise."""


def importances(model: Any) -> Element:
    """Return the importances, largest first."""
    shares = model.feature_importances_
    order = sorted(range(len(shares)), key=lambda j: (-shares[j], j))
    names = model.domain_.names
    largest = max(float(shares.max()), 1e-12)
    rows: list[Sequence[Child]] = []
    for j in order:
        bar = tag("rect", width=f"{100 * shares[j] / largest:.3f}%", height="100%", class_="fill-0")
        rows.append([shortened(names[j]), tag("svg", bar, class_="bar", aria_hidden="true"), share_text(shares[j])])
    head = ["feature", "", "importance"]
    rest = rows[MAX_BARS:]
    more = None
    if rest:
        name = counted(len(rest), "more feature")
        more = tag("details", tag("summary", name), table(head, rest, numeric={2}))
    return section(
        "importances",
        "What matters",
        tag("p", BOOSTING_IMPORTANCES if isinstance(model.forest_, AdditiveForest) else FOREST_IMPORTANCES),
        table(head, rows[:MAX_BARS], numeric={2}),
        more,
    )


def explorer(model: Any) -> Element:
    """Return the tree explorer: its controls, and the trees as data for explore.js."""
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
                "values": [[_rounded(v) for v in row] for row in tree.values.tolist()],
                "estimates": [[text(v) for v in row] for row in tree.values.tolist()],
                "noise": _noise_texts(tree, text_of_noise),
            }
            for tree, weight in zip(trees, model.forest_.tree_weights.tolist(), strict=False)
        ],
    }
    drawn = f"The {n_trees} trees" if n_trees > 1 else "The tree"
    if len(trees) < n_trees:
        drawn = f"The first {len(trees)} of {n_trees} trees, as many as this page can hold,"
    return section(
        "trees",
        "The trees",
        tag(
            "p",
            f"{drawn} can be opened here: click a node, or move with the arrow keys and open with Enter. Numbers of "
            f"records are as released; ± is the standard deviation of their noise. {_estimates_text(model)}",
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
        tag("noscript", tag("p", "To draw the trees, this page needs its own script, which is switched off.")),
        json_script("forest", data),
    )


def _estimates_text(model: Any) -> str:
    if model.fitted_params_.get("class_weight") is not None:
        return "Estimates are weighted by class_weight, which the model card states."
    return (
        "After an estimate it is at most about that: the noise of the node's own mean, before it is drawn towards its "
        "parent and, for numbers, held to the window of the target that the ledger names."
    )


def _noise_texts(tree: Tree, text: Callable[[float], str]) -> list[str]:
    """Return the noise of the estimate of every node in words; nothing where it is not known."""
    return [""] * len(tree.values) if tree.value_noise is None else [f"± {text(v)}" for v in tree.value_noise.tolist()]


def _records_texts(tree: Tree) -> list[str]:
    """Return the released number of records of every node in words."""
    assert tree.count_noise is not None
    pairs = zip(tree.counts.tolist(), tree.count_noise.tolist(), strict=True)
    return [count_text(count, noise, tree.unit) for count, noise in pairs]


def _drawn_trees(model: Any) -> list[Tree]:
    """Return the first trees, as many as `MAX_NODES` allows."""
    trees: list[Tree] = []
    n_nodes = 0
    for index in range(model.forest_.n_trees):
        n_nodes += 2 ** (min(int(model.forest_.depths[index]), MAX_DRAWN_DEPTH) + 1)
        if trees and n_nodes > MAX_NODES:
            break
        trees.append(read_tree(model, index, MAX_DRAWN_DEPTH))
    return trees


NO_SCORE = """This page says nothing about accuracy: measure it on data that may be looked at, or by a private score, \
and mind"""


def _features_text(domain: Domain) -> str:
    if domain.n_features == len(domain.columns):
        return str(domain.n_features)
    return f"{domain.n_features}, of {len(domain.columns)} columns: dates give several"


def model_card(model: Any, *, has_score: bool = False) -> Element:
    """Return the model card: what the model is, what was declared public, and what it is meant for."""
    domain, forest = model.domain_, model.forest_
    heading = _DOMAIN_HEADINGS[domain.origin.kind]
    depths = sorted(set(forest.depths.tolist()))
    rows = [
        ("predicts", feature_text(domain.target)),
        ("trees", f"{forest.n_trees}, of depth {', '.join(map(str, depths))}, {len(forest.values)} leaves"),
        (f"{model.privacy_.unit}s", _records_text(forest)),
        ("features", _features_text(domain)),
        ("domain", str(domain.origin)),
        *_parameter_facts(model),
        *_choice_facts(model.privacy_),
    ]
    return section(
        "card",
        "Model card",
        facts(rows),
        tag(
            "p",
            f"Meant for tables whose ranges and levels are public knowledge{_one_record_each(model.privacy_)}. "
            f"{'How accurate it is, the score above says: mind' if has_score else NO_SCORE} that groups with few "
            "records suffer most from noise.",
        ),
        tag("h3", heading, class_="bad") if domain.origin.objection else tag("h3", heading),
        *domain_tables(domain),
        tag(
            "p",
            "Numbers and dates outside their range are moved to its border; where levels that are not listed, and "
            "missing values, go, every split decides.",
            class_="note",
        ),
    )


def _one_record_each(ledger: Ledger) -> str:
    return " and in which a person has one record" if ledger.unit_records is None else ""


def _records_text(forest: Forest | AdditiveForest) -> str:
    if isinstance(forest, AdditiveForest):
        return f"about {max(forest.n_records, 0):,.0f} (as released)"
    return f"{_join_counts(forest.tree_counts.tolist())} (a tree, as released)"


def _parameter_facts(model: Any) -> list[tuple[str, str]]:
    """Return the parameters that tell how the model was fitted, in the order of the table of parameters."""
    parameters = model.fitted_params_
    table = recorded(BOOSTING_CLASSIFIER if isinstance(model.forest_, AdditiveForest) else FOREST_CLASSIFIER)
    names = [name for name in table if name in parameters]
    names += [name for name in parameters if name not in table and name != "domain"]  # of the paper's baselines
    return [(name, _parameter_text(parameters[name])) for name in names]


def _parameter_text(value: Any) -> str:
    """Return a parameter in words; weights of classes one after the other."""
    if not isinstance(value, Mapping):
        return str(value)
    return ", ".join(f"{shortened(str(label))}: {weight:g}" for label, weight in value.items())


def _choice_facts(ledger: Ledger) -> list[tuple[str, str]]:
    """Return how a private search chose the parameters, if one did."""
    charges = [charge for charge in ledger.charges if charge.mechanism in (FITS, RANDOM_STOPPING)]
    return [
        ("chosen by a private search", f"{c.what}, {c.bound}; the ledger has its cost and settings") for c in charges
    ]


def cite(model: Any) -> Element:
    """Return how to cite the method and the library."""
    if isinstance(model.forest_, AdditiveForest):
        return section(
            "cite",
            "How to cite",
            tag(
                "p",
                f"State the library and its version, diprime {__version__}, the estimator, {type(model).__name__}, the "
                "guarantee at the head of this page, and what was waived.",
            ),
        )
    return section(
        "cite",
        "How to cite",
        tag(
            "p",
            f"State the library and its version, diprime {__version__}, the method “{model.method}”, "
            f"ε = {_number(model.privacy_.total)} and δ = {_number(model.privacy_.total_delta)} for adding or removing "
            f"one {model.privacy_.unit}, and what was waived. The method is that of:",
        ),
        tag("pre", CITATION),
    )


def _join_counts(counts: list[float]) -> str:
    shown = ", ".join(f"{count:,.0f}" for count in counts[:MAX_LISTED_COUNTS])
    more = len(counts) - MAX_LISTED_COUNTS
    return f"about {shown}{f' and {more} more' if more > 0 else ''}"


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def _number(cost: Epsilon) -> str:
    """Return a cost, rounded up as in the ledger's own text."""
    return rounded_text(cost).replace("inf", "∞")


def _exact(value: Epsilon) -> str:
    return "∞" if value == math.inf else str(value)


def _distinct_percent(share: float, whole: Callable[[float], int] = math.ceil) -> str:
    """Return a share in percent, rounded up or down, with enough digits to distinguish it from 0 % and from 100 %."""
    nines = -math.log10(min(share, 1 - share))
    digits = max(1, math.ceil(nines) - 1)
    return f"{whole(100 * share * 10**digits) / 10**digits:.{digits}f} %"


def _times(epsilon: Epsilon) -> str:
    """Return e^ε times, as a number where that is readable, rounded up."""
    if epsilon > MAX_READABLE_EPSILON:
        return f"e^{_number(epsilon)} times"
    factor = math.exp(epsilon)
    return (
        f"{math.ceil(factor):,} times" if factor >= MIN_WHOLE_FACTOR else f"{rounded_text(Fraction(factor), 3)} times"
    )
