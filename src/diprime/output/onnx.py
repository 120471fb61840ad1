"""Fitted models as ONNX graphs of elementary operators, with bit-identical predictions.

ONNX has a tree-ensemble operator, but runtimes evaluate it in single precision or sum the trees in another order, so
that some predictions would differ. The graphs built here compare float64 numbers, as the kernels do, and add the leaf
values in the order of the trees. Boosted models are exported as their main effects and interactions, whose sums are
exact in any order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from diprime.domain import MISSING, OTHER, Categorical, Date, Domain, Integer, Numeric
from diprime.domain.codes import BUCKETS, N_CODES
from diprime.domain.encoding import match_columns
from diprime.domain.kinds import Feature, coded_features
from diprime.domain.levels import EXACT, LevelIndex
from diprime.domain.tables import Column, read_table
from diprime.model.additive import AdditiveForest
from diprime.model.forest import Forest
from diprime.model.tree_view import fitted_forest
from diprime.output.onnx_additive import add_outputs, sum_terms
from diprime.output.onnx_dates import encode_dates
from diprime.output.onnx_graph import Array, Graph

if TYPE_CHECKING:
    import onnx

Integers = npt.NDArray[np.int64]


def to_onnx(model: Any) -> onnx.ModelProto:
    """Convert a fitted model to an ONNX model with bit-identical predictions.

    It has one input for each kind of column. The columns are in the order of the domain, and the metadata list their
    names.

    * ``numbers``, float64 of shape (n, ...): numbers and whole numbers, and categorical features whose levels are
      numbers. NaN stands for a missing value. Convert float32 columns to float64.
    * ``texts``, strings of shape (n, ...): categorical features whose levels are text. The empty string stands for a
      missing value. Where the empty string is a level, another string does, which the metadata list.
    * ``dates``, int64 of shape (n, ...): dates, as microseconds since the beginning of 1970 on the wall clock. The
      smallest int64 stands for a missing value, as NaT of NumPy does.

    A classifier's outputs are ``label`` and ``probabilities``; a regressor's is ``prediction``. Boosted classifiers
    also have ``scores``: the log-odds of the second class, or a score for each class. Their labels and scores are
    bit-identical too. Their probabilities are exponentials of the scores, which runtimes and processors round
    differently in the last digits. :func:`onnx_inputs`
    converts any table that ``predict`` takes to these inputs. Pass large tables in batches of a few thousand rows. The
    metadata contain the ledger as ``diprime.privacy``.

    Parameters
    ----------
    model : fitted estimator
        A forest or a boosted model.

    Returns
    -------
    exported : onnx.ModelProto
        The ONNX model; write ``exported.SerializeToString()`` to a file. Needs ``pip install 'diprime[onnx]'``.

    Raises
    ------
    ValueError
        If ONNX has no type for the levels of a feature or for the classes: if they have mixed types, are neither
        numbers nor text, or are integers that float64 cannot represent.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import DiPriMeRegressor, Domain, Numeric
    >>> X = np.random.default_rng(0).uniform(0, 10, size=(1000, 2))
    >>> domain = Domain({"a": Numeric(0, 10), "b": Numeric(0, 10)}, target=Numeric(0, 10))
    >>> model = DiPriMeRegressor(1.0, domain).fit(X, X[:, 0])
    >>> exported = to_onnx(model)
    >>> [value.name for value in exported.graph.input], [value.name for value in exported.graph.output]
    (['numbers'], ['prediction'])
    >>> import onnxruntime
    >>> session = onnxruntime.InferenceSession(exported.SerializeToString())
    >>> (predicted,) = session.run(None, onnx_inputs(model, X))
    >>> bool((predicted == model.predict(X)).all())
    True
    """
    forest, domain = fitted_forest(model), model.domain_
    numbers, texts, dates = _split_by_kind(domain)
    graph = Graph()
    codes = []
    if numbers:
        codes.append(_encode_numbers(graph, graph.input("numbers", np.float64, len(numbers)), list(numbers.values())))
    if texts:
        codes.append(_encode_texts(graph, graph.input("texts", object, len(texts)), list(texts.values())))
    if dates:
        codes.append(encode_dates(graph, graph.input("dates", np.int64, len(dates)), list(dates.values())))
    order = [*numbers, *texts, *coded_features(dates)]
    column_of_feature = np.array([order.index(name) for name in domain.names])
    all_codes = graph.add("Concat", *codes, axis=1) if len(codes) > 1 else codes[0]
    classes = _exportable_classes(model.classes_) if domain.task == "classification" else None
    if isinstance(forest, AdditiveForest):
        add_outputs(graph, sum_terms(graph, all_codes, forest, column_of_feature), forest.link, classes)
    else:
        sums = _sum_values(graph, _find_leaves(graph, all_codes, forest, column_of_feature), forest)
        _add_outputs(graph, sums, domain, classes)
    return graph.model(
        {
            "diprime.privacy": model.privacy_.to_json(),
            "diprime.numbers": json.dumps(list(numbers)),
            "diprime.texts": json.dumps(list(texts)),
            "diprime.missing_texts": json.dumps([_placeholders(feature.levels)[0] for feature in texts.values()]),
            "diprime.dates": json.dumps(list(dates)),
        }
    )


def _add_outputs(graph: Graph, sums: str, domain: Domain, classes: Array | None) -> None:
    """Add the outputs of a forest, given the weighted sums of its leaves."""
    if classes is None:
        low, high = (graph.constant(np.array(bound)) for bound in domain.output_range)
        means = graph.add("Gather", sums, graph.integers(0), axis=1)
        graph.output("prediction", graph.add("Clip", means, low, high), np.float64)  # rounding may exceed the range
        return
    best = graph.add("ArgMax", sums, axis=1, keepdims=0)
    graph.output("label", graph.add("Gather", graph.constant(classes), best), classes.dtype)
    probabilities = graph.add("Min", sums, graph.constant(np.array(1.0)))  # rounding may exceed 1
    graph.output("probabilities", probabilities, np.float64, len(classes))


def onnx_inputs(model: Any, X: Any) -> dict[str, Array]:
    """Convert a table to the inputs of the model that :func:`to_onnx` returns.

    Parameters
    ----------
    model : fitted estimator
        A forest or a boosted model.
    X : array or data frame of shape (n, n_features)
        The rows, as ``predict`` takes them.

    Returns
    -------
    inputs : dict of str to ndarray
        ``numbers``, ``texts`` and ``dates``; only those that the ONNX model has.
    """
    fitted_forest(model)
    domain = model.domain_
    table = read_table(X)
    column = match_columns(domain.columns, table)
    inputs = {}
    kinds: tuple[Mapping[str, Feature], ...] = _split_by_kind(domain)
    for kind, features in zip(("numbers", "texts", "dates"), kinds, strict=True):
        columns = [
            _input_column(feature, column(domain.columns.index(name)), f"Feature {name!r}")
            for name, feature in features.items()
        ]
        if columns:
            inputs[kind] = np.stack(columns, axis=1)
    return inputs


def _input_column(feature: Feature, column: Column, where: str) -> Array:
    """Return a column as numbers, texts or moments."""
    if isinstance(feature, Date):
        column.check_dates(where)
        return column.moment_reader()(0, column.n_rows)
    if not isinstance(feature, Categorical):
        column.check_numeric(where)
        return column.floats(0, column.n_rows).astype(np.float64)
    # LevelIndex gives missing and unlisted values the indices -2 and -1: the last two entries.
    are_numbers = _are_numbers(feature)
    extra = (math.nan, EXACT) if are_numbers else _placeholders(feature.levels)
    values = np.array([*feature.levels, *extra], dtype=np.float64 if are_numbers else object)
    return np.asarray(values[LevelIndex(feature.levels).finder(column, where)(0, column.n_rows)])


_Numbers = Numeric | Integer | Categorical


def _split_by_kind(domain: Domain) -> tuple[dict[str, _Numbers], dict[str, Categorical], dict[str, Date]]:
    """Return the features that become numbers, those that become texts, and dates.

    Raise a ValueError if a feature is none of these.
    """
    numbers: dict[str, _Numbers] = {}
    texts, dates = {}, {}
    for name, feature in domain.features.items():
        if isinstance(feature, Categorical) and feature.buckets is not None:
            raise ValueError(
                f"Feature {name!r} has hash buckets, which ONNX cannot compute; declare its levels, or learn them "
                "with a delta, and fit again to export the model."
            )
        if isinstance(feature, Date):
            dates[name] = feature
        elif not isinstance(feature, Categorical) or _are_numbers(feature):
            numbers[name] = feature
        elif all(_is_text(level) for level in feature.levels):
            texts[name] = feature
        else:
            raise ValueError(
                f"Feature {name!r} has levels that are neither all text nor all numbers below 2^53, for which ONNX has "
                "no type; fit with levels of one such type to export the model."
            )
    return numbers, texts, dates


def _are_numbers(feature: Categorical) -> bool:
    return all(
        isinstance(level, (bool, int, float)) and (abs(level) < EXACT or abs(level) == math.inf)
        for level in feature.levels
    )


def _is_text(level: Hashable) -> bool:
    """Return whether a level is text that UTF-8 can encode: lone surrogates are not."""
    return isinstance(level, str) and level.encode("utf-8", "ignore").decode("utf-8") == level


def _placeholders(levels: Sequence[Any]) -> tuple[str, str]:
    """Return a text for missing values and one for unlisted values; neither is a level."""

    def unused(texts: Iterable[str]) -> str:
        return next(text for text in texts if text not in levels)

    return (
        unused(chain(["", "missing"], (f"missing {i}" for i in count()))),
        unused(chain(["unlisted"], (f"unlisted {i}" for i in count()))),
    )


def _exportable_classes(classes: Array) -> Array:
    """Return the classes with a dtype that ONNX knows; raise a ValueError if there is none."""
    if classes.dtype.kind in "bif":
        return classes
    if classes.dtype.kind == "U" and all(map(_is_text, classes.tolist())):
        return classes.astype(object)
    raise ValueError(
        "The classes are neither all text nor all numbers, for which ONNX has no type; fit with classes of one such "
        "type to export the model."
    )


def _encode_numbers(graph: Graph, values: str, features: list[_Numbers]) -> str:
    """Add operators that encode numbers: a binary search for their cells, in all columns at once."""
    edges, codes = zip(*map(_cells, features), strict=True)
    size = 1 << max(len(e) for e in edges).bit_length()
    edge_table, code_table = np.full((len(features), size), np.nan), np.full((len(features), size), MISSING)
    for row, (edge, code) in enumerate(zip(edges, codes, strict=True)):
        edge_table[row, : len(edge)], code_table[row, : len(code)] = edge, code
    first_cells = np.arange(len(features))[None] * size
    flat_edges, cell = graph.constant(edge_table.ravel()), graph.integers(first_cells)
    step = size // 2
    while step:  # the search stays below the padding, because no number compares as at or above NaN
        edge = graph.add("Gather", flat_edges, graph.add("Add", cell, graph.integers(step - 1)))
        is_above = graph.to_integer(graph.add("GreaterOrEqual", values, edge))
        cell = graph.add("Add", cell, graph.add("Mul", is_above, graph.integers(step)))
        step //= 2
    code = graph.add("Gather", graph.integers(code_table.ravel()), cell)
    return graph.add("Where", graph.add("IsNaN", values), graph.integers(MISSING), code)


def _cells(feature: _Numbers) -> tuple[npt.NDArray[np.float64], Integers]:
    """Return the edges between the cells of a feature, and the code of each cell.

    The cell of a number is the number of edges at or below it.
    """
    if not isinstance(feature, Categorical):
        return feature.thresholds, np.arange(feature.n_cells)
    levels = np.array(feature.levels, dtype=np.float64)
    order = np.argsort(levels)
    # Each level has a cell that contains no other number; the cells between levels are those of unlisted values.
    ends = [levels[order], np.nextafter(levels[order], np.inf)]
    edges: npt.NDArray[np.float64] = np.stack(ends, axis=1).ravel()
    codes: Integers = np.full(len(edges) + 1, OTHER)
    codes[1::2] = order % BUCKETS
    if np.isposinf(levels).any():  # no number is above it, so its cell has no upper edge
        edges, codes = edges[:-1], codes[:-1]
    return edges, codes


def _encode_texts(graph: Graph, values: str, features: list[Categorical]) -> str:
    """Add operators that encode texts: a dictionary for each column."""
    columns = []
    for column, feature in enumerate(features):
        levels: Sequence[Any] = feature.levels
        texts = graph.add("Gather", values, graph.integers([column]), axis=1)
        columns.append(
            graph.add(
                "LabelEncoder",
                texts,
                domain="ai.onnx.ml",
                keys_strings=[*levels, _placeholders(levels)[0]],
                values_int64s=[*(i % BUCKETS for i in range(len(levels))), MISSING],
                default_int64=OTHER,
            )
        )
    return graph.add("Concat", *columns, axis=1)


def _find_leaves(graph: Graph, codes: str, forest: Forest, column_of_feature: Integers) -> list[str]:
    """Add operators that walk the rows down the trees, all trees of equal depth together.

    Return the names of the leaf indices, one for each tree.
    """
    n_features = len(column_of_feature)
    flat_codes = graph.add("Reshape", codes, graph.integers([-1]))
    zero, width = graph.integers(0), graph.integers(n_features)
    end = graph.add("Gather", graph.add("Shape", flat_codes), zero)
    rows = graph.add("Reshape", graph.add("Range", zero, end, width), graph.integers([-1, 1]))

    # Thresholds repeat, so the distinct masks are few.
    masks, mask_of_split = np.unique(forest.masks, axis=0, return_inverse=True)
    goes_right = graph.constant(np.unpackbits(masks, axis=1, bitorder="little").ravel().astype(bool))
    columns = graph.integers(column_of_feature[forest.features])
    first_bits = graph.integers(mask_of_split.ravel() * N_CODES)
    one, two = graph.integers(1), graph.integers(2)

    leaf_of_tree: dict[int, str] = {}
    for depth in np.unique(forest.depths).tolist():
        trees = np.flatnonzero(forest.depths == depth)
        first_splits = graph.integers(forest.first_splits[trees][None])
        node = graph.integers(np.zeros((1, len(trees))))
        for _ in range(depth):
            split = graph.add("Add", node, first_splits)
            code = graph.add("Gather", flat_codes, graph.add("Add", rows, graph.add("Gather", columns, split)))
            bit = graph.add("Gather", goes_right, graph.add("Add", graph.add("Gather", first_bits, split), code))
            left = graph.add("Add", graph.add("Mul", node, two), one)
            node = graph.add("Add", left, graph.to_integer(bit))
        leaves = graph.add("Add", node, graph.integers(forest.first_leaves[trees][None] - (2**depth - 1)))
        for column, tree in enumerate(trees.tolist()):
            leaf_of_tree[tree] = graph.add("Gather", leaves, graph.integers(column), axis=1)
    return [leaf_of_tree[tree] for tree in range(forest.n_trees)]


def _sum_values(graph: Graph, leaves: list[str], forest: Forest) -> str:
    """Add operators that sum the values of the leaves in the order of the trees, as the kernels do."""
    values = graph.constant(forest.weighted_values)
    sums = graph.add("Gather", values, leaves[0])
    for leaf in leaves[1:]:
        sums = graph.add("Add", sums, graph.add("Gather", values, leaf))
    return sums
