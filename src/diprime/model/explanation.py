"""Explanations: how much each main effect and interaction adds to the scores of single rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from diprime._util.threads import Threads
from diprime.domain import Domain
from diprime.domain.encoding import Rows
from diprime.model.additive import AdditiveForest
from diprime.model.feature_words import counted
from diprime.model.links import Clip
from diprime.model.trees import Codes, Floats, encode_blocks

MAX_PRINTED_ROWS = 3
MAX_PRINTED_TERMS = 10
ROUNDING = 1e-13
"""What is less than this share of the largest part of a score is printed as zero: Shapley values are sums of floats."""


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """How the scores of rows come about: the offset and the contribution of each term add up to them.

    In a boosted model, a term is the main effect of a feature, or the interaction of two: what both together contribute
    beyond their main effects. Terms are centred, so that the offset is the mean score, and a contribution tells how a
    row differs from the mean. The means are those of released numbers of records, with features taken as independent.

    In a forest, a term is a feature, and its contribution the Shapley value: what it adds to the prediction once it is
    known, averaged over all orders in which features become known. Where features are not known, the leaves of a tree
    count by their released numbers of records.

    Attributes
    ----------
    terms : tuple of tuple of str
        The features of each term: ``("age",)`` is a main effect, ``("age", "hours")`` an interaction. For a numeric
        target the last one, ``()``, is what clipping to the target's range adds.
    targets : tuple
        What the scores are about: the second class if there are two (the score is its log-odds or, in a forest, its
        probability), all classes if there are more (probabilities are proportional to the exponentials of the scores
        or, in a forest, are the scores), or None for a numeric target.
    offset : ndarray of shape (n_scores,)
        What the scores of all rows start from.
    contributions : ndarray of shape (n, n_terms, n_scores)
        What each term adds to the scores of each row.
    scores : ndarray of shape (n, n_scores)
        The scores; the predictions, if the target is numeric. They equal the sum of the offset and of the
        contributions: of a boosted model bit for bit, in whatever order these are added, and of a forest up to
        rounding.
    are_probabilities : bool
        Whether the scores are probabilities of classes, as those of forests are.

    Examples
    --------
    >>> explanation = Explanation(
    ...     (("age",), ("hours",), ("age", "hours")), ("yes",), np.array([-1.5]),
    ...     np.array([[[0.25], [-0.5], [0.125]]]), np.array([[-1.625]]),
    ... )
    >>> print(explanation)
    row 0: log-odds of yes -1.625
      offset       -1.5
      hours        -0.5
      age          +0.25
      age × hours  +0.125
    >>> explanation.to_dict()
    {'age': [0.25], 'hours': [-0.5], 'age × hours': [0.125]}
    """

    terms: tuple[tuple[str, ...], ...]
    targets: tuple[Any, ...]
    offset: Floats
    contributions: Floats
    scores: Floats
    are_probabilities: bool = False

    def __repr__(self) -> str:
        return f"<Explanation of {len(self.scores)} rows by {len(self.terms)} terms>"

    def __str__(self) -> str:
        texts = [self.row(i) for i in range(min(len(self.scores), MAX_PRINTED_ROWS))]
        more = len(self.scores) - len(texts)
        return "\n".join(texts + [f"and {counted(more, 'more row')}"] * (more > 0))

    def row(self, index: int, most: int = MAX_PRINTED_TERMS) -> str:
        """Return the largest contributions to the scores of one row, as text.

        Parameters
        ----------
        index : int
            The row.
        most : int, default=10
            The maximum number of terms to list.

        Returns
        -------
        text : str
            A line for the offset and for each term, the largest first. Several scores are in the order of ``targets``.
            Terms that are zero up to rounding are left out.
        """
        contributions = self.contributions[index]
        noise = ROUNDING * np.abs(np.vstack([self.offset, contributions])).max(axis=0)
        contributions = _without_rounding(contributions, noise)
        order = np.argsort(-np.abs(contributions).max(axis=1, initial=0.0), kind="stable")
        order = order[contributions[order].any(axis=1)]
        shown = order[:most]
        lines = [("offset", self.offset, ""), *((term_name(self.terms[t]), contributions[t], "+") for t in shown)]
        if len(order) > len(shown):
            rest = _without_rounding(contributions[order[most:]].sum(axis=0), noise)
            lines.append((counted(len(order) - len(shown), "more term"), rest, "+"))
        width = max(len(name) for name, _, _ in lines)
        numbers = [[f"{value:{sign}.4g}" for value in values] for _, values, sign in lines]
        head = f"row {index}: {self._score_name()} {'  '.join(f'{score:.4g}' for score in self.scores[index])}"
        return "\n".join(
            [head, *(f"  {name:{width}}  {'  '.join(row)}" for (name, _, _), row in zip(lines, numbers, strict=True))]
        )

    def _score_name(self) -> str:
        if len(self.targets) > 1:
            return f"{'probabilities' if self.are_probabilities else 'scores'} of {', '.join(map(str, self.targets))}:"
        if self.targets[0] is None:
            return "prediction"
        return f"{'probability' if self.are_probabilities else 'log-odds'} of {self.targets[0]}"

    def to_dict(self, target: int = 0) -> dict[str, list[float]]:
        """Return the contributions to one score as columns, such as a data frame takes.

        Parameters
        ----------
        target : int, default=0
            The index of the score in ``targets``.

        Returns
        -------
        columns : dict of str to list
            A column for each term, with one entry for each row.
        """
        return {term_name(term): self.contributions[:, t, target].tolist() for t, term in enumerate(self.terms)}


def _without_rounding(values: Floats, noise: Floats) -> Floats:
    """Return values, and zero for those that are nothing but rounding."""
    return np.where(np.abs(values) <= noise, 0.0, values)


def term_name(features: tuple[str, ...]) -> str:
    """Return the name of a term: its features, or that it is due to clipping."""
    return " × ".join(features) if features else "clipping to the range"


def explain(
    forest: AdditiveForest, domain: Domain, rows: Rows, threads: Threads, targets: tuple[Any, ...]
) -> Explanation:
    """Return what each term of a model adds to the scores of rows.

    Parameters
    ----------
    forest : AdditiveForest
        The model.
    domain : Domain
        Its domain.
    rows : Rows
        The rows.
    threads : Threads
        The threads that share the work.
    targets : tuple
        What the scores are about; see `Explanation`.
    """
    effects, link = forest.effects, forest.link
    is_clipped = isinstance(link, Clip)
    names = [tuple(domain.names[j] for j in term.features) for term in effects.terms]
    contributions = np.empty((rows.n_rows, len(names) + is_clipped, len(effects.offset)))

    def write(begin: int, end: int, codes: Codes) -> None:
        for t, term in enumerate(effects.terms):
            contributions[begin:end, t] = term.values(codes)

    encode_blocks(rows, threads, write)
    scores = effects.offset + contributions[:, : len(names)].sum(axis=1)  # exact: see AdditiveForest
    if is_clipped:
        clipped = link.predict(scores)
        contributions[:, -1] = clipped - scores
        names, scores = [*names, ()], clipped
    return Explanation(tuple(names), targets, effects.offset, contributions, scores)


def targets_of(model: Any) -> tuple[Any, ...]:
    """Return what the scores of a fitted boosted model are about: classes, or None for a numeric target."""
    if not hasattr(model, "classes_"):
        return (None,)
    classes = model.classes_.tolist()
    return tuple(classes[1:] if model.forest_.link.n_scores < len(classes) else classes)
