"""Explanations of single predictions: effects of additive models, and Shapley values of forests.

If some features are unknown, a tree predicts the mean over the leaves that a row could reach, weighted by released
record counts. Negative counts, which are due to noise, count as zero. Only released numbers are used, so explanations
cost no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Threads
from diprime.domain import Domain
from diprime.domain.encoding import Rows
from diprime.inspection.importances import term_variances, terms_above_noise
from diprime.inspection.words import counted
from diprime.kernels import shapley
from diprime.model.additive import AdditiveForest
from diprime.model.effects import Clip, first_codes
from diprime.model.trees import Codes, Floats, Forest, encode_blocks

MAX_PRINTED_ROWS = 3
MAX_PRINTED_TERMS = 10
ROUNDING = 1e-13
"""Values below this fraction of the largest part of a score are printed as zero, because of rounding errors."""


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Explanation of predictions: an offset and the contributions of terms, which add up to the score of each row.

    In a boosted model, a term is the main effect of a feature, or the interaction of two features, which is their joint
    effect beyond their main effects. Terms are centred, so the offset is the mean score, and a contribution is a
    difference from the mean. The means are weighted by released record counts, and treat features as independent.

    In a forest, a term is a feature, and its contribution is its Shapley value: the change of the prediction when the
    feature becomes known, averaged over all orders of the features. At a split on an unknown feature, both sides are
    averaged with the released record counts as weights.

    Attributes
    ----------
    terms : tuple of tuple of str
        The features of each term: ``("age",)`` is a main effect, ``("age", "hours")`` an interaction. For a numeric
        target, the last term, ``()``, is the effect of clipping to the range of the target.
    targets : tuple
        Class of each score, or None for a numeric target. With two classes, the only score is the log-odds of the
        second class or, in a forest, its probability. With more classes, there is one score per class: probabilities
        are proportional to the exponentials of the scores or, in a forest, equal to the scores.
    offset : ndarray of shape (n_scores,)
        Mean scores, to which the contributions are added.
    contributions : ndarray of shape (n, n_terms, n_scores)
        Contribution of each term to the scores of each row.
    scores : ndarray of shape (n, n_scores)
        The scores or, for a numeric target, the predictions. They equal the sum of the offset and the contributions:
        exactly for boosted models, in any order of addition, and up to rounding for forests.
    are_probabilities : bool
        Whether the scores are probabilities of classes, as those of forests are.
    noise : ndarray of shape (n, n_terms, n_scores), optional
        Standard deviation of the noise in each contribution, from sampling and from the mechanism. Available only for
        boosted models, and zero for clipping.
    above_noise : ndarray of bool of shape (n, n_terms), optional
        Whether a contribution is above the noise: noise alone cannot explain the variance of its term and, in a boosted
        model, it exceeds two standard deviations.

    Examples
    --------
    >>> import numpy as np
    >>> explanation = Explanation(
    ...     (("age",), ("hours",), ("age", "hours")), ("yes",), np.array([-1.5]),
    ...     np.array([[[0.25], [-0.5], [0.125]]]), np.array([[-1.625]]),
    ... )
    >>> print(explanation)
    row 0: log-odds of yes: -1.625
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
    noise: Floats | None = None
    above_noise: npt.NDArray[np.bool_] | None = None

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
            Index of the row.
        most : int, default=10
            Maximum number of terms to list.

        Returns
        -------
        text : str
            One line for the offset and for each term, the largest first. Several scores are in the order of
            ``targets``. Terms that are zero up to rounding are omitted. ± is the standard deviation of the noise of a
            contribution, and contributions that are not above the noise are marked.
        """
        contributions = self.contributions[index]
        noise = ROUNDING * np.abs(np.vstack([self.offset, contributions])).max(axis=0)

        def without_rounding(values: Floats) -> Floats:
            return np.where(np.abs(values) <= noise, 0.0, values)

        contributions = without_rounding(contributions)
        order = np.argsort(-np.abs(contributions).max(axis=1, initial=0.0), kind="stable")
        order = order[contributions[order].any(axis=1)]
        if self.above_noise is not None:  # a useless feature must not outrank a useful one unmarked
            order = np.concatenate([order[self.above_noise[index, order]], order[~self.above_noise[index, order]]])
        shown = order[:most]
        lines = [("offset", self.offset, ""), *((term_name(self.terms[t]), contributions[t], "+") for t in shown)]
        marks = ["", *(self._mark(index, t) for t in shown.tolist()), ""]
        if len(order) > len(shown):
            rest = without_rounding(contributions[order[most:]].sum(axis=0))
            lines.append((counted(len(order) - len(shown), "more term"), rest, "+"))
        width = max(len(name) for name, _, _ in lines)
        numbers = [[f"{value:{sign}.4g}" for value in values] for _, values, sign in lines]
        head = f"row {index}: {self._score_name()} {'  '.join(f'{score:.4g}' for score in self.scores[index])}"
        rows = [f"  {name:{width}}  {'  '.join(row)}" for (name, _, _), row in zip(lines, numbers, strict=True)]
        return "\n".join([head, *(row + mark for row, mark in zip(rows, marks, strict=False))])

    def _mark(self, index: int, term: int) -> str:
        """Return the noise of a contribution, and a mark if the contribution is not above it, as text."""
        if self.above_noise is None or (self.noise is not None and not self.noise[index, term].any()):
            return ""
        noise = "" if self.noise is None else f" ± {'  '.join(f'{v:.2g}' for v in self.noise[index, term])}"
        return f"{noise}{'' if self.above_noise[index, term] else '  not above noise'}"

    def _score_name(self) -> str:
        if len(self.targets) > 1:
            return f"{'probabilities' if self.are_probabilities else 'scores'} of {', '.join(map(str, self.targets))}:"
        if self.targets[0] is None:
            return "prediction"
        return f"{'probability' if self.are_probabilities else 'log-odds'} of {self.targets[0]}:"

    def to_dict(self, target: int = 0) -> dict[str, list[float]]:
        """Return the contributions to one score as columns, for example for a data frame.

        Parameters
        ----------
        target : int, default=0
            Index of the score in ``targets``.

        Returns
        -------
        columns : dict of str to list
            One column per term, with one entry per row.
        """
        return {term_name(term): self.contributions[:, t, target].tolist() for t, term in enumerate(self.terms)}


def term_name(features: tuple[str, ...]) -> str:
    """Return the name of a term: its features, or a text for clipping."""
    return " × ".join(features) if features else "clipping to the range"


def explain(
    forest: AdditiveForest, domain: Domain, rows: Rows, threads: Threads, targets: tuple[Any, ...]
) -> Explanation:
    """Return the contributions of the terms of a boosted model to the scores of rows."""
    effects, link = forest.effects, forest.link
    is_clipped = isinstance(link, Clip)
    names = [tuple(domain.encoded_feature_names[j] for j in term.features) for term in effects.terms]
    contributions = np.empty((rows.n_rows, len(names) + is_clipped, len(effects.offset)))
    noise = np.zeros_like(contributions)
    first = [tuple(first_codes(segments) for segments in term.segments) for term in effects.terms]
    terms = [
        replace(t, table=forest.noise.deviations(t.features, c)) for t, c in zip(effects.terms, first, strict=True)
    ]

    def write(begin: int, end: int, codes: Codes) -> None:
        for t, (term, deviations) in enumerate(zip(effects.terms, terms, strict=True)):
            contributions[begin:end, t] = term.values(codes)
            noise[begin:end, t] = deviations.values(codes)

    encode_blocks(rows, threads, write)
    scores = effects.offset + contributions[:, : len(names)].sum(axis=1)  # exact: see AdditiveForest
    if is_clipped:
        clipped = link.predict(scores)
        contributions[:, -1] = clipped - scores
        names, scores = [*names, ()], clipped
    above = np.asarray((np.abs(contributions) > 2 * noise).any(axis=2))
    above[:, : len(effects.terms)] &= terms_above_noise(term_variances(forest))
    return Explanation(tuple(names), targets, effects.offset, contributions, scores, noise=noise, above_noise=above)


def targets_of(model: Any) -> tuple[Any, ...]:
    """Return the targets of the scores of a fitted boosted model: classes, or None for a numeric target."""
    if not hasattr(model, "classes_"):
        return (None,)
    classes = model.classes_.tolist()
    return tuple(classes[1:] if model.forest_.link.n_scores < len(classes) else classes)


BLOCK_ROWS = 64
"""Number of rows that are explained together, so that the path to a leaf is followed once for all of them."""
_BINARY = 2


def node_shares(counts: Floats) -> Floats:
    """Return each node's share of its parent's records, in heap order, or one half if the parent has none.

    >>> node_shares(np.array([3.0, 1.0, -2.0, 0.0])).tolist()
    [1.0, 1.0, 0.0, 0.75, 0.25, 0.5, 0.5]
    """
    level = np.maximum(counts, 0.0)
    shares = []
    while len(level) > 1:
        pairs = level.reshape(-1, 2)
        level = pairs.sum(axis=1)
        shares.append(np.divide(pairs, level[:, None], out=np.full_like(pairs, 0.5), where=level[:, None] > 0).ravel())
    return np.concatenate([np.ones(1), *shares[::-1]])


def level_means(shares: Floats, values: Floats) -> list[Floats]:
    """Return the mean estimates of the nodes of a tree, level by level from the leaves up."""
    levels = [values]
    while len(values) > 1:
        weighted = values * shares[len(values) - 1 : 2 * len(values) - 1, None]
        values = weighted.reshape(-1, 2, values.shape[1]).sum(axis=1)
        levels.append(values)
    return levels


def explain_forest(
    forest: Forest,
    domain: Domain,
    rows: Rows,
    threads: Threads,
    classes: list[Any] | None,
    features_above_noise: npt.NDArray[np.bool_],
) -> Explanation:
    """Return the contributions of the features to the predictions of rows. Of two classes, explain only the second."""
    first = 1 if classes is not None and len(classes) == _BINARY else 0
    values = np.ascontiguousarray(forest.weighted_values[:, first:])
    trees = [_ShapleyTree(forest, values, tree) for tree in range(forest.n_trees)]
    contributions = np.zeros((rows.n_rows, domain.n_features, values.shape[1]))
    flat = contributions.reshape(rows.n_rows, domain.n_features * values.shape[1])

    def add(first_row: int, last_row: int) -> None:
        for begin in range(first_row, last_row, BLOCK_ROWS):
            end = min(begin + BLOCK_ROWS, last_row)
            codes = np.empty((end - begin, rows.n_features), dtype=np.uint8)
            rows.read(begin, end, codes)
            for tree in trees:
                tree.add(codes, flat[begin:end])

    threads.run(add, rows.n_rows)
    offset = np.sum([tree.mean for tree in trees], axis=0)
    targets = (None,) if classes is None else tuple(classes[first:])
    scores = forest.predict(rows, threads)[:, first:]
    terms = tuple((name,) for name in domain.encoded_feature_names)
    above = np.tile(features_above_noise, (rows.n_rows, 1))
    is_classifier = classes is not None
    return Explanation(
        terms, targets, offset, contributions, scores, are_probabilities=is_classifier, above_noise=above
    )


class _ShapleyTree:
    """Arguments of the Shapley kernel for one tree of a forest."""

    def __init__(self, forest: Forest, values: Floats, tree: int) -> None:
        splits, leaves = (slice(*first[tree : tree + 2]) for first in (forest.first_splits, forest.first_leaves))
        depth, shares = int(forest.depths[tree]), node_shares(forest.counts[leaves])
        points, weights = np.polynomial.legendre.leggauss(max(1, -(-depth // 2)))
        tree_arrays = forest.features[splits], forest.masks[splits], shares, values[leaves]
        self._arrays = (*tree_arrays, (points + 1) / 2, weights / 2)
        self._width = max(1, depth)
        self.mean = level_means(shares, values[leaves])[-1][0]  # prediction if all features are unknown

    def add(self, codes: Codes, out: Floats) -> None:
        """Add the Shapley values of rows to ``out``."""
        path, factors = np.empty((4, self._width), dtype=np.int64), np.empty((4, self._width))
        shapley.shapley(codes, *self._arrays, path, factors, out)
