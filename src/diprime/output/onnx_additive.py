"""Boosted models in ONNX: a table for each term, exact sums, and the link."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diprime.kernels.constants import N_CODES
from diprime.model.additive import AdditiveForest
from diprime.model.links import Clip, Link, Logistic
from diprime.output.onnx_graph import Array, Graph


def sum_terms(graph: Graph, codes: str, forest: AdditiveForest, column_of_feature: npt.NDArray[np.int64]) -> str:
    """Add operators that look rows up in the tables of all terms, and return the name of their scores.

    The cell of a row in a table is the sum of two numbers, one for each feature of the term. All sums are exact, so the
    runtime may add in any order.
    """
    effects = forest.effects
    offset = graph.constant(effects.offset[None])
    if not effects.terms:
        first = graph.add("Gather", codes, graph.integers([0]), axis=1)
        zero = graph.add("Mul", graph.add("Cast", first, to=graph.type_of(np.float64)), graph.constant(np.array(0.0)))
        return graph.add("Add", zero, offset)
    features, cells, first_values, values = effects.flat_terms
    index = graph.integers(first_values[None])
    for side in (0, 1):
        # A term of one feature has a second table of zeros, which any feature may read.
        columns = column_of_feature[np.maximum(features[:, side], 0)]
        code = graph.add("Gather", codes, graph.integers(columns), axis=1)
        row = graph.add("Add", code, graph.integers(np.arange(len(features))[None] * N_CODES))
        cell = graph.add("Gather", graph.integers(cells[side::2].ravel()), row)
        index = graph.add("Add", index, cell)
    contributions = graph.add("Gather", graph.constant(values), index)
    return graph.add("Add", graph.add("ReduceSum", contributions, graph.integers([1]), keepdims=0), offset)


def add_outputs(graph: Graph, scores: str, link: Link, classes: Array | None) -> None:
    """Add the outputs of a boosted model, given the scores."""
    if isinstance(link, Clip):
        low, high = (graph.constant(np.array(limit)) for limit in link.limits)
        score = graph.add("Gather", scores, graph.integers(0), axis=1)
        graph.output("prediction", graph.add("Clip", score, low, high), np.float64)
        return
    assert classes is not None
    is_binary = isinstance(link, Logistic)
    best = _is_positive(graph, scores) if is_binary else graph.add("ArgMax", scores, axis=1, keepdims=0)
    graph.output("label", graph.add("Gather", graph.constant(classes), best), classes.dtype)
    probabilities = _logistic(graph, scores) if is_binary else _softmax(graph, scores)
    graph.output("probabilities", probabilities, np.float64, len(classes))
    graph.output("scores", scores, np.float64, link.n_scores)


def _is_positive(graph: Graph, scores: str) -> str:
    score = graph.add("Gather", scores, graph.integers(0), axis=1)
    return graph.to_integer(graph.add("Greater", score, graph.constant(np.array(0.0))))


def _logistic(graph: Graph, scores: str) -> str:
    """Add the probabilities of two classes, as `Logistic` computes them."""
    one = graph.constant(np.array(1.0))
    odds = graph.add("Exp", graph.add("Neg", graph.add("Abs", scores)))
    total = graph.add("Add", one, odds)
    likely, unlikely = graph.add("Div", one, total), graph.add("Div", odds, total)
    positive = graph.add("Greater", scores, graph.constant(np.array(0.0)))
    sides = [graph.add("Where", positive, *pair) for pair in ((unlikely, likely), (likely, unlikely))]
    return graph.add("Concat", *sides, axis=1)


def _softmax(graph: Graph, scores: str) -> str:
    """Add the probabilities of several classes, as `Softmax` computes them."""
    largest = graph.add("ReduceMax", scores, axes=[1], keepdims=1)
    odds = graph.add("Exp", graph.add("Sub", scores, largest))
    return graph.add("Div", odds, graph.add("ReduceSum", odds, graph.integers([1]), keepdims=1))
