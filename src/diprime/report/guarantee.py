"""Section on the guarantee: strength, meaning, protected facts, attackers and limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum
from fractions import Fraction
from typing import Any

from diprime._util import __version__
from diprime.model.additive import AdditiveForest
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import Epsilon, rounded_text
from diprime.report.html import Element, cost_text, link, section, table, tag

MAX_STRONG_EPSILON = 1
MIN_WEAK_EPSILON = 5
MAX_WEAK_EPSILON = 10
MIN_PEOPLE_PER_DELTA = 100
"""A delta of at least one divided by this times the number of people is too large."""


class Strength(IntEnum):
    """Strength of a guarantee, from the weakest level."""

    VERY_WEAK = 0
    WEAK = 1
    MODERATE = 2
    STRONG = 3

    @property
    def text(self) -> str:
        """The level in words."""
        return self.name.lower().replace("_", " ")


def strength(model: Any) -> Strength:
    """Return the strength of a private model's guarantee, which is the weaker of those of its epsilon and its delta."""
    return min(strength_of_epsilon(model.privacy_), _of_delta(model))


def has_large_delta(model: Any) -> bool:
    """Return whether delta is too large for the number of people."""
    return _of_delta(model) <= Strength.WEAK


def released_count(model: Any) -> float:
    """Return the released number of people or records, at least one."""
    forest = model.forest_
    if isinstance(forest, AdditiveForest):
        return max(forest.n_records, 1.0)
    counts = forest.tree_counts
    # The counts of trees on disjoint rows add up; otherwise each tree counts all rows.
    return max(float(counts.sum() if model.fitted_params_.get("disjoint_rows", True) else counts.mean()), 1.0)


def strength_of_epsilon(ledger: Ledger) -> Strength:
    """Return the strength of epsilon alone."""
    if ledger.total <= MAX_STRONG_EPSILON:
        return Strength.STRONG
    if ledger.total < MIN_WEAK_EPSILON:
        return Strength.MODERATE
    return Strength.WEAK if ledger.total <= MAX_WEAK_EPSILON else Strength.VERY_WEAK


def _of_delta(model: Any) -> Strength:
    """Return the strength of delta: very weak if it permits publishing a record in full, and weak if it is close."""
    delta = float(model.privacy_.total_delta)
    if not delta:
        return Strength.STRONG
    n_people = released_count(model)
    if delta * n_people >= 1:
        return Strength.VERY_WEAK
    return Strength.WEAK if delta * n_people * MIN_PEOPLE_PER_DELTA >= 1 else Strength.STRONG


MAX_READABLE_EPSILON = 14
"""Largest ε for which the page writes e^ε and the posterior certainty as plain numbers."""
MIN_WHOLE_FACTOR = 100
"""Smallest e^ε that is written without decimals."""
SOURCE_URL = f"https://pypi.org/project/diprime/{__version__}/"
_LIMIT = (
    "This limits what anyone can learn about a person from the model, whatever else they know and however much they "
    "compute."
)
_DOMAIN_FACTS = {
    False: "The domain on this page: names, ranges, categories and classes. It counts as public knowledge.",
    True: "The declared facts about the columns on this page, and the names and types of columns. They count as public "
    "knowledge. The other ranges, categories and classes were learnt privately, and their cost is in the ledger.",
}


def guarantee(model: Any) -> Element:
    """Return the section on the privacy guarantee."""
    ledger: Ledger = model.privacy_
    if ledger.total == math.inf:
        text = "There is no guarantee, because the model was trained without noise. Protect it as you protect its data."
        return section("guarantee", "Privacy guarantee", tag("p", text))
    voided = None
    if not ledger.is_private:
        text = "This model is not private. The guarantee below would hold only without the reasons above."
        voided = tag("p", text, class_="bad note")
    weak = None
    if strength(model) <= Strength.WEAK:
        weak = tag("p", "This guarantee is weak. Share the model with care.", class_="bad note")
    factor = "factor" + (", beside δ" if ledger.total_delta else "")
    return section(
        "guarantee",
        "Privacy guarantee",
        voided,
        *_meaning(ledger),
        weak,
        table(
            ["change of the data", "ε", factor],
            [[change, cost_text(epsilon), factor_text(epsilon)] for change, epsilon in _changes(ledger)],
            numeric={1, 2},
        ),
        *_scope(model),
        tag("h3", "Evidence"),
        tag(
            "p",
            "The source of diprime, ",
            link(SOURCE_URL),
            ", contains the proofs in docs/privacy.md. Its docs/audits.md describes audits, mutation tests, attacks "
            "and malicious files, with their findings and gaps.",
        ),
    )


def _scope(model: Any) -> list[Element]:
    """Return the scope: protected facts, attackers, and facts that are not protected."""
    one = model.privacy_.max_records_per_group is None
    membership = (
        "Whether the record of any one person is in the training data, and every fact that only this record reveals."
        if one
        else "Whether any one person is in the training data, and every fact that only their records reveal."
    )
    return [
        tag("h3", "Protected facts"),
        tag("ul", tag("li", membership), tag("li", f"The number of {'records' if one else 'people'}.")),
        tag("h3", "Attackers"),
        tag(
            "p",
            "The guarantee holds against everyone who has the model, its predictions or this report. They may know all "
            f"other {'records' if one else 'people'}, the source code and all parameters, and may compute for as long "
            "as they like. They must not know the random bits of the fit, or watch the systems that hold the rows.",
        ),
        tag("h3", "Facts that are not protected"),
        tag(
            "ul",
            tag("li", "General facts about people, which apply to everyone, in the data or not."),
            tag("li", _DOMAIN_FACTS[model.domain_.origin.kind == "learned"]),
            tag(
                "li",
                "Facts that other publications reveal, such as the exact accuracy on private rows, or parameters that "
                "were chosen by it. A private score states its own cost.",
            ),
            tag("li", "Facts that the time and memory of the fit reveal."),
            tag("li", "Other releases about the same people: their costs add up with this one."),
        ),
    ]


def _changes(ledger: Ledger) -> list[tuple[str, Epsilon]]:
    """Return changes of the data with the epsilon of each."""
    if ledger.max_records_per_group is None:
        several = "a person with five records is added or removed"
    else:
        several = "a family of five people is added or removed"
    return [
        (f"{ledger.privacy_unit_text} is added or removed", ledger.total),
        (f"one {ledger.privacy_unit} is replaced by another", ledger.epsilon_for_units(2)),
        (several, ledger.epsilon_for_units(5)),
    ]


def _one_more(ledger: Ledger) -> str:
    unit = "one record" if ledger.max_records_per_group is None else "one person, with all their records,"
    return f"Suppose that {unit} had been left out of the training data, or that one more had been included. "


def _attacker(ledger: Ledger) -> str:
    if ledger.max_records_per_group is None:
        return (
            "Example: someone knows every other record, and considers it equally likely that a certain person's record "
            "is or is not in the data. After studying the model, "
        )
    return (
        "Example: someone knows the records of everyone else, and considers it equally likely that a certain person is "
        "or is not in the data. After studying the model, "
    )


def _meaning(ledger: Ledger) -> list[Element | None]:
    """Return the meaning of epsilon and delta, with an example if epsilon is small enough."""
    epsilon, delta = ledger.total, ledger.total_delta
    factor, exponent = factor_text(epsilon), f"(e^ε, ε = {cost_text(epsilon)})"
    if delta:
        claim = "The probability of any set of possible models would then have been at most "
        bound = tag("strong", f"{factor} times"), f" as large {exponent}, plus δ = {cost_text(delta)}."
    else:
        claim = (
            "The same model could still have resulted, and its probability would have changed by a factor of at most "
        )
        bound = tag("strong", factor), f" {exponent}."
    silent = (
        "The guarantee is silent about events whose probability is about δ or less, so δ should be far smaller than "
        "one divided by the number of people."
    )
    meaning = [tag("p", _one_more(ledger) + claim, *bound), tag("p", _LIMIT), tag("p", silent) if delta else None]
    if epsilon > MAX_READABLE_EPSILON:
        return meaning
    if delta:
        odds = math.exp(epsilon)
        guess = tag("strong", _distinct_percent((odds + float(delta)) / (1 + odds)))
        return [
            *meaning,
            tag("p", f"{_attacker(ledger)}they guess correctly with a probability of at most ", guess, "."),
        ]
    certainty = 1 / (1 + math.exp(-epsilon))  # the largest posterior probability, given a prior of one half
    certain = tag("strong", f"{_distinct_percent(certainty)} certain")
    inside = "it is" if ledger.max_records_per_group is None else "they are"
    least = f" that {inside}, and at least {_distinct_percent(1 - certainty, math.floor)}."
    return [*meaning, tag("p", f"{_attacker(ledger)}they can be at most ", certain, least)]


def _distinct_percent(share: float, whole: Callable[[float], int] = math.ceil) -> str:
    """Return a share in percent, rounded by ``whole``, with enough digits to distinguish it from 0 % and 100 %."""
    nines = -math.log10(min(share, 1 - share))
    digits = max(1, math.ceil(nines) - 1)
    return f"{whole(100 * share * 10**digits) / 10**digits:.{digits}f} %"


def factor_text(epsilon: Epsilon) -> str:
    """Return e^ε, rounded up, as a number if that is readable."""
    if epsilon > MAX_READABLE_EPSILON:
        return f"e^{cost_text(epsilon)}"
    factor = math.exp(epsilon)
    return f"{math.ceil(factor):,}" if factor >= MIN_WHOLE_FACTOR else rounded_text(Fraction(factor), 3)
