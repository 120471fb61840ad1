"""Export of fitted models as ONNX graphs of elementary operators, with bit-identical predictions.

ONNX has a tree-ensemble operator, but runtimes evaluate it in single precision or sum the trees in another order, so
some predictions would differ. Like the kernels, the graphs built here compare float64 numbers and add the leaf values
in the order of the trees. Boosted models are exported as their main effects and interactions, whose sums are exact in
any order.
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
from diprime.domain.columns import Column, read_table
from diprime.domain.encoding import EXACT, CategoryIndex, match_columns
from diprime.domain.features import BUCKETS, N_CODES, DatePart, Feature, coded_features
from diprime.domain.values import DAY, HOUR, MISSING_DATE, Markers, months_of
from diprime.inspection.views import fitted_forest
from diprime.model.additive import AdditiveForest
from diprime.model.effects import Clip, Link, Logistic
from diprime.model.trees import Forest

if TYPE_CHECKING:
    import onnx

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]
DAYS_OF_400_YEARS = 146_097
"""Period of the calendar, in days."""

__all__ = ["onnx_inputs", "to_onnx"]

OPSET, ML_OPSET, IR_VERSION = 17, 2, 8


def to_onnx(model: Any) -> onnx.ModelProto:
    """Convert a fitted model to an ONNX model with bit-identical predictions.

    It has one input for each kind of column. The columns are in the order of the domain, and the metadata list their
    names.

    * ``numbers``, float64 of shape (n, ...): numbers and integers, and categorical features whose categories are
      numbers. NaN means missing. Convert float32 columns to float64.
    * ``texts``, strings of shape (n, ...): categorical features whose categories are text. The empty string means
      missing. If the empty string is a category, the metadata contain another string that means missing.
    * ``dates``, int64 of shape (n, ...): dates, as microseconds since the beginning of 1970 in local time. The smallest
      int64 means missing, like NumPy's NaT.

    A classifier's outputs are ``label`` and ``probabilities``; a regressor's is ``prediction``. Boosted classifiers
    also have ``scores``: the log-odds of the second class, or a score for each class. Their labels and scores are
    bit-identical, too. Their probabilities are exponentials of the scores, which runtimes and processors round
    differently in the last digits.

    :func:`onnx_inputs` converts any table that ``predict`` takes to these inputs. Pass large tables in batches of a few
    thousand rows. The metadata contain the ledger as ``diprime.privacy``.

    Parameters
    ----------
    model : fitted estimator
        A forest or a boosted model.

    Returns
    -------
    exported : onnx.ModelProto
        The ONNX model; write ``exported.SerializeToString()`` to a file. Requires ``pip install 'diprime[onnx]'``.

    Raises
    ------
    ValueError
        If ONNX has no type for the categories of a feature or for the classes, because they have mixed types, are
        neither numbers nor text, or are integers that float64 cannot represent.

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
        codes.append(_encode_dates(graph, graph.input("dates", np.int64, len(dates)), list(dates.values())))
    order = [*numbers, *texts, *coded_features(dates)]
    column_of_feature = np.array([order.index(name) for name in domain.encoded_feature_names])
    all_codes = graph.add("Concat", *codes, axis=1) if len(codes) > 1 else codes[0]
    classes = _exportable_classes(model.classes_) if domain.task == "classification" else None
    if isinstance(forest, AdditiveForest):
        _add_boosted_outputs(graph, _sum_terms(graph, all_codes, forest, column_of_feature), forest.link, classes)
    else:
        sums = _sum_values(graph, _find_leaves(graph, all_codes, forest, column_of_feature), forest)
        _add_outputs(graph, sums, domain, classes)
    return graph.model(
        {
            "diprime.privacy": model.privacy_.to_json(),
            "diprime.numbers": json.dumps(list(numbers)),
            "diprime.texts": json.dumps(list(texts)),
            "diprime.missing_texts": json.dumps([_placeholders(feature.categories)[0] for feature in texts.values()]),
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
        The rows, as for ``predict``.

    Returns
    -------
    inputs : dict of str to ndarray
        Those of ``numbers``, ``texts`` and ``dates`` that the ONNX model has.
    """
    fitted_forest(model)
    domain = model.domain_
    table = read_table(X)
    column = match_columns(domain.column_names, table)
    inputs = {}
    kinds: tuple[Mapping[str, Feature], ...] = _split_by_kind(domain)
    for kind, features in zip(("numbers", "texts", "dates"), kinds, strict=True):
        columns = [
            _input_column(feature, column(domain.column_names.index(name)), domain.missing_texts, f"Feature {name!r}")
            for name, feature in features.items()
        ]
        if columns:
            inputs[kind] = np.stack(columns, axis=1)
    return inputs


def _input_column(feature: Feature, column: Column, missing: Markers, where: str) -> Array:
    """Convert a column to numbers, texts or moments."""
    if isinstance(feature, Date):
        column.check_dates(where)
        return column.moment_reader()(0, column.n_rows)
    if not isinstance(feature, Categorical):
        column.check_numeric(where)
        return column.floats(0, column.n_rows).astype(np.float64)
    # CategoryIndex gives missing and unlisted values the indices -2 and -1: the last two entries.
    are_numbers = _are_numbers(feature)
    extra = (math.nan, EXACT) if are_numbers else _placeholders(feature.categories)
    values = np.array([*feature.categories, *extra], dtype=np.float64 if are_numbers else object)
    return np.asarray(values[CategoryIndex(feature.categories, missing).finder(column, where)(0, column.n_rows)])


_Numbers = Numeric | Integer | Categorical


def _split_by_kind(domain: Domain) -> tuple[dict[str, _Numbers], dict[str, Categorical], dict[str, Date]]:
    """Return the features that become numbers, texts and dates, or raise an error for others."""
    numbers: dict[str, _Numbers] = {}
    texts, dates = {}, {}
    for name, feature in domain.features.items():
        if isinstance(feature, Categorical) and feature.n_buckets is not None:
            raise ValueError(
                f"Feature {name!r} uses hash buckets, which ONNX cannot compute. Declare its categories, or learn "
                "them with a delta, and fit again."
            )
        if isinstance(feature, Date):
            dates[name] = feature
        elif not isinstance(feature, Categorical) or _are_numbers(feature):
            numbers[name] = feature
        elif all(_is_text(category) for category in feature.categories):
            texts[name] = feature
        else:
            raise ValueError(
                f"Feature {name!r} has categories that are neither all text nor all numbers below 2^53, which ONNX "
                "does not support. Fit again with categories of one such type."
            )
    return numbers, texts, dates


def _are_numbers(feature: Categorical) -> bool:
    return all(
        isinstance(category, (bool, int, float)) and (abs(category) < EXACT or abs(category) == math.inf)
        for category in feature.categories
    )


def _is_text(category: Hashable) -> bool:
    """Return whether a category is text that UTF-8 can encode, without lone surrogates."""
    return isinstance(category, str) and category.encode("utf-8", "ignore").decode("utf-8") == category


def _placeholders(categories: Sequence[Any]) -> tuple[str, str]:
    """Return a text for missing values and one for unlisted values, neither of which is a category."""

    def unused(texts: Iterable[str]) -> str:
        return next(text for text in texts if text not in categories)

    return (
        unused(chain(["", "missing"], (f"missing {i}" for i in count()))),
        unused(chain(["unlisted"], (f"unlisted {i}" for i in count()))),
    )


def _exportable_classes(classes: Array) -> Array:
    """Return the classes with a dtype that ONNX supports, or raise a `ValueError`."""
    if classes.dtype.kind in "bif":
        return classes
    if classes.dtype.kind == "U" and all(map(_is_text, classes.tolist())):
        return classes.astype(object)
    raise ValueError(
        "The classes are neither all text nor all numbers, which ONNX does not support. Fit again with "
        "classes of one such type."
    )


def _encode_numbers(graph: Graph, values: str, features: list[_Numbers]) -> str:
    """Add operators that encode numbers by a binary search for their bins, in all columns at once."""
    edges, codes = zip(*map(_cells, features), strict=True)
    size = 1 << max(len(e) for e in edges).bit_length()
    edge_table, code_table = np.full((len(features), size), np.nan), np.full((len(features), size), MISSING)
    for row, (edge, code) in enumerate(zip(edges, codes, strict=True)):
        edge_table[row, : len(edge)], code_table[row, : len(code)] = edge, code
    first_cells = np.arange(len(features))[None] * size
    flat_edges, cell = graph.constant(edge_table.ravel()), graph.integers(first_cells)
    step = size // 2
    while step:  # the search never reaches the padding, because comparisons with NaN are false
        edge = graph.add("Gather", flat_edges, graph.add("Add", cell, graph.integers(step - 1)))
        is_above = graph.to_integer(graph.add("GreaterOrEqual", values, edge))
        cell = graph.add("Add", cell, graph.add("Mul", is_above, graph.integers(step)))
        step //= 2
    code = graph.add("Gather", graph.integers(code_table.ravel()), cell)
    return graph.add("Where", graph.add("IsNaN", values), graph.integers(MISSING), code)


def _cells(feature: _Numbers) -> tuple[npt.NDArray[np.float64], Integers]:
    """Return the edges between the bins of a feature, and the code of each bin.

    The index of a number's bin is the number of edges at or below it.
    """
    if not isinstance(feature, Categorical):
        return feature.thresholds, np.arange(feature.n_cells)
    categories = np.array(feature.categories, dtype=np.float64)
    order = np.argsort(categories)
    # Each category has a bin that contains no other number; the bins in between are those of unlisted values.
    ends = [categories[order], np.nextafter(categories[order], np.inf)]
    edges: npt.NDArray[np.float64] = np.stack(ends, axis=1).ravel()
    codes: Integers = np.full(len(edges) + 1, OTHER)
    codes[1::2] = order % BUCKETS
    if np.isposinf(categories).any():  # no number is larger, so its bin has no upper edge
        edges, codes = edges[:-1], codes[:-1]
    return edges, codes


def _encode_texts(graph: Graph, values: str, features: list[Categorical]) -> str:
    """Add operators that encode texts, with a dictionary for each column."""
    columns = []
    for column, feature in enumerate(features):
        categories: Sequence[Any] = feature.categories
        texts = graph.add("Gather", values, graph.integers([column]), axis=1)
        columns.append(
            graph.add(
                "LabelEncoder",
                texts,
                domain="ai.onnx.ml",
                keys_strings=[*categories, _placeholders(categories)[0]],
                values_int64s=[*(i % BUCKETS for i in range(len(categories))), MISSING],
                default_int64=OTHER,
            )
        )
    return graph.add("Concat", *columns, axis=1)


def _find_leaves(graph: Graph, codes: str, forest: Forest, column_of_feature: Integers) -> list[str]:
    """Add operators that find the leaves of all rows, in all trees of equal depth together; return them by tree."""
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


def _encode_dates(graph: Graph, values: str, features: list[Date]) -> str:
    """Add operators that encode dates, and return the codes of their encoded features in order."""
    codes = []
    for column, feature in enumerate(features):
        moments = graph.add("Gather", values, graph.integers([column]), axis=1)
        is_missing = graph.add("Equal", moments, graph.integers(MISSING_DATE))
        moments = graph.add("Where", is_missing, graph.integers(0), moments)  # the smallest integer would overflow
        for coded in feature.encoded_features("").values():
            known = _order(graph, moments, coded) if isinstance(coded, Date) else _part(graph, moments, coded)
            codes.append(graph.add("Where", is_missing, graph.integers(MISSING), known))
    return graph.add("Concat", *codes, axis=1)


def _order(graph: Graph, moments: str, date: Date) -> str:
    """Add operators that count the thresholds at or below each moment."""
    is_reached = graph.to_integer(graph.add("GreaterOrEqual", moments, graph.integers(date.thresholds[None])))
    return graph.add("ReduceSum", is_reached, graph.integers([1]), keepdims=1)


def _part(graph: Graph, moments: str, part: DatePart) -> str:
    since_midnight = graph.add("Mod", moments, graph.integers(DAY))  # not negative, as in Python
    if part.name == "hour":
        return graph.add("Div", since_midnight, graph.integers(HOUR))
    days = graph.add("Div", graph.add("Sub", moments, since_midnight), graph.integers(DAY))
    if part.name == "weekday":
        return graph.add("Mod", graph.add("Add", days, graph.integers(3)), graph.integers(7))
    months = months_of(np.arange(DAYS_OF_400_YEARS) * DAY)
    day_of_calendar = graph.add("Mod", days, graph.integers(DAYS_OF_400_YEARS))
    return graph.to_integer(graph.add("Gather", graph.constant(months.astype(np.uint8)), day_of_calendar))


def _sum_terms(graph: Graph, codes: str, forest: AdditiveForest, column_of_feature: npt.NDArray[np.int64]) -> str:
    """Add operators that look up rows in the tables of all terms, and return the name of their scores.

    The index of a row in a table is the sum of two numbers, one for each feature of the term. All sums are exact, so
    the runtime may add in any order.
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
        # The second table of a single-feature term contains zeros, so any feature may index it.
        columns = column_of_feature[np.maximum(features[:, side], 0)]
        code = graph.add("Gather", codes, graph.integers(columns), axis=1)
        row = graph.add("Add", code, graph.integers(np.arange(len(features))[None] * N_CODES))
        cell = graph.add("Gather", graph.integers(cells[side::2].ravel()), row)
        index = graph.add("Add", index, cell)
    contributions = graph.add("Gather", graph.constant(values), index)
    return graph.add("Add", graph.add("ReduceSum", contributions, graph.integers([1]), keepdims=0), offset)


def _add_boosted_outputs(graph: Graph, scores: str, link: Link, classes: Array | None) -> None:
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


class Graph:
    """Builder of ONNX graphs. Methods that add an input, a constant or an operator return the name of its result."""

    def __init__(self) -> None:
        try:
            import onnx
        except ImportError:
            raise ImportError("diprime.export requires onnx. Run pip install 'diprime[onnx]'.") from None
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: dict[Hashable, Any] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: str, dtype: Any, n_columns: int) -> str:
        """Add an input of shape (n, n_columns)."""
        self._inputs.append(self._onnx.helper.make_tensor_value_info(name, self.type_of(dtype), ["n", n_columns]))
        return name

    def output(self, name: str, value: str, dtype: Any, *shape: int) -> None:
        """Add an output of shape (n, ...) with the given result."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._onnx.helper.make_tensor_value_info(name, self.type_of(dtype), ["n", *shape]))

    def constant(self, array: Array) -> str:
        """Add a constant, or reuse an equal one."""
        content = tuple(array.tolist()) if array.dtype == object else array.tobytes()
        key = (array.dtype, array.shape, content)
        if key not in self._constants:
            self._constants[key] = self._onnx.numpy_helper.from_array(array, f"constant{len(self._constants)}")
        return str(self._constants[key].name)

    def integers(self, values: npt.ArrayLike) -> str:
        """Add an int64 constant."""
        return self.constant(np.asarray(values, dtype=np.int64))

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator."""
        name = f"{operator}{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operator, inputs, [name], **attributes))
        return name

    def to_integer(self, value: str) -> str:
        """Cast Booleans to 0 and 1."""
        return self.add("Cast", value, to=self.type_of(np.int64))

    def model(self, metadata: dict[str, str]) -> onnx.ModelProto:
        """Return the finished model, checked by ONNX."""
        helper = self._onnx.helper
        graph = helper.make_graph(self._nodes, "diprime", self._inputs, self._outputs, [*self._constants.values()])
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model: onnx.ModelProto = helper.make_model(
            graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="diprime"
        )
        helper.set_model_props(model, metadata)
        self._onnx.checker.check_model(model, full_check=True)
        return model

    def type_of(self, dtype: Any) -> int:
        """Return the ONNX type of a dtype."""
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
