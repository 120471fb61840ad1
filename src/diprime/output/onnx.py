"""Fitted models as ONNX: the same codes, the same walk and the same sums, in plain operators.

A tree-ensemble operator would be shorter, but it compares or adds in single precision, or in an order of its own, so
that some rows would come out differently. Here every comparison is of float64 numbers, as in the kernels, and every
prediction is a chain of float64 additions in the order of the trees: equal to ours in every bit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from diprime.domain import MISSING, OTHER, Categorical, Domain, Numeric
from diprime.domain.codes import BUCKETS, N_CODES
from diprime.domain.encoding import RowEncoding
from diprime.domain.features import Feature
from diprime.domain.levels import EXACT, LevelIndex
from diprime.domain.tables import read_table
from diprime.model.forest import Forest
from diprime.model.tree_view import fitted_forest

if TYPE_CHECKING:
    import onnx

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]

OPSET, ML_OPSET, IR_VERSION = 17, 2, 8


def to_onnx(model: Any) -> onnx.ModelProto:
    """Return a fitted model as an ONNX model that predicts the same, bit for bit.

    Its inputs are one matrix for each kind of column, columns in the order of the domain (their names are in the
    metadata):

    * ``numbers``, float64 of shape (n, ...): numeric features, and categorical ones whose levels are numbers. NaN is
      missing. A float32 becomes the float64 that equals it.
    * ``texts``, text of shape (n, ...): categorical features whose levels are text. The empty text is missing (where it
      is a level, another one, which the metadata name).

    Its outputs are ``label`` and ``probabilities``, or ``prediction``. :func:`onnx_inputs` makes the inputs of any
    table that ``predict`` takes; give large ones in batches of some thousand rows. The ledger travels in the metadata,
    as ``diprime.privacy``.

    Parameters
    ----------
    model : DiPriMeClassifier or DiPriMeRegressor
        The fitted model.

    Returns
    -------
    exported : onnx.ModelProto
        Write ``exported.SerializeToString()`` to a file. Needs ``pip install 'diprime[onnx]'``.

    Raises
    ------
    ValueError
        Where ONNX has no type for the levels of a feature or for the classes: of mixed types, neither numbers nor
        text, or integers that float64 does not hold.

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
    numbers, texts = _kinds(domain)
    graph = _Graph()
    codes = []
    if numbers:
        codes.append(_encode_numbers(graph, graph.input("numbers", np.float64, len(numbers)), domain, numbers))
    if texts:
        codes.append(_encode_texts(graph, graph.input("texts", object, len(texts)), domain, texts))
    column_of_feature = np.argsort([*numbers, *texts])
    together = graph.add("Concat", *codes, axis=1) if len(codes) > 1 else codes[0]
    sums = _predict(graph, together, forest, column_of_feature)
    if domain.task == "classification":
        place = graph.add("ArgMax", sums, axis=1, keepdims=0)
        classes = _plain_classes(model.classes_)
        graph.output("label", graph.add("Gather", graph.constant(classes), place), classes.dtype)
        probabilities = graph.add("Min", sums, graph.constant(np.array(1.0)))
        graph.output("probabilities", probabilities, np.float64, len(classes))
    else:
        low, high = (graph.constant(np.array(float(end))) for end in (domain.target.low, domain.target.high))
        means = graph.add("Gather", sums, graph.integers(0), axis=1)
        graph.output("prediction", graph.add("Clip", means, low, high), np.float64)
    names = domain.names
    return graph.model(
        {
            "diprime.privacy": model.privacy_.to_json(),
            "diprime.numbers": json.dumps([names[j] for j in numbers]),
            "diprime.texts": json.dumps([names[j] for j in texts]),
            "diprime.missing_texts": json.dumps([_stand_ins(_levels(domain, j))[0] for j in texts]),
        }
    )


def onnx_inputs(model: Any, X: Any) -> dict[str, Array]:
    """Return a table as the inputs of :func:`to_onnx`'s model.

    Parameters
    ----------
    model : DiPriMeClassifier or DiPriMeRegressor
        The fitted model.
    X : array or data frame of shape (n, n_features)
        The rows, as ``predict`` takes them.

    Returns
    -------
    inputs : dict of str to ndarray
        ``numbers`` and ``texts``, those of the two that the model has.
    """
    fitted_forest(model)
    domain = model.domain_
    table = read_table(X)
    column = RowEncoding(domain.features).columns(table)
    inputs = {}
    for name, places in zip(("numbers", "texts"), _kinds(domain), strict=True):
        columns = []
        for j in places:
            feature, where = domain.features[domain.names[j]], f"Feature {domain.names[j]!r}"
            if isinstance(feature, Numeric):
                column(j).check_numeric(where)
                columns.append(column(j).floats(0, table.n_rows).astype(np.float64))
            else:
                # The places of missing and unlisted values, -2 and -1, are the last two entries.
                stand_ins = _stand_ins(feature.levels) if name == "texts" else (math.nan, EXACT)
                values = np.array([*feature.levels, *stand_ins], dtype=object if name == "texts" else np.float64)
                columns.append(values[LevelIndex(feature.levels).finder(column(j), where)(0, table.n_rows)])
        if columns:
            inputs[name] = np.stack(columns, axis=1)
    return inputs


def _kinds(domain: Domain) -> tuple[list[int], list[int]]:
    """Return which features are columns of numbers and which of texts; refuse those that are neither."""
    numbers, texts = [], []
    for j, (name, feature) in enumerate(domain.features.items()):
        if isinstance(feature, Numeric) or _are_numbers(feature):
            numbers.append(j)
        elif all(_is_text(level) for level in feature.levels):
            texts.append(j)
        else:
            raise ValueError(
                f"Feature {name!r} has levels that are neither all text nor all numbers below 2^53, for which ONNX has "
                "no type; fit with levels of one such type to export the model."
            )
    return numbers, texts


def _are_numbers(feature: Categorical) -> bool:
    return all(
        isinstance(level, (bool, int, float)) and (abs(level) < EXACT or abs(level) == math.inf)
        for level in feature.levels
    )


def _is_text(level: Hashable) -> bool:
    """Tell text that a file can hold: half a character is none."""
    return isinstance(level, str) and level.encode("utf-8", "ignore").decode("utf-8") == level


def _levels(domain: Domain, j: int) -> Sequence[Any]:
    feature = domain.features[domain.names[j]]
    assert isinstance(feature, Categorical)
    return feature.levels


def _stand_ins(levels: Sequence[Any]) -> tuple[str, str]:
    """Return texts for missing and for unlisted values, which are not among the levels."""

    def unused(texts: Iterable[str]) -> str:
        return next(text for text in texts if text not in levels)

    return (
        unused(chain(["", "missing"], (f"missing {i}" for i in count()))),
        unused(chain(["unlisted"], (f"unlisted {i}" for i in count()))),
    )


def _plain_classes(classes: Array) -> Array:
    if classes.dtype.kind in "bif":
        return classes
    if classes.dtype.kind == "U" and all(map(_is_text, classes.tolist())):
        return classes.astype(object)
    raise ValueError(
        "The classes are neither all text nor all numbers, for which ONNX has no type; fit with classes of one such "
        "type to export the model."
    )


def _encode_numbers(graph: _Graph, values: str, domain: Domain, places: list[int]) -> str:
    """Find the cells of numbers by bisection, all columns at once, and the codes of the cells."""
    edges, codes = zip(*(_cells(domain.features[domain.names[j]]) for j in places), strict=True)
    size = 1 << max(len(e) for e in edges).bit_length()
    edge_table, code_table = np.full((len(places), size), np.nan), np.full((len(places), size), MISSING)
    for row, (edge, code) in enumerate(zip(edges, codes, strict=True)):
        edge_table[row, : len(edge)], code_table[row, : len(code)] = edge, code
    first = np.arange(len(places))[None] * size
    flat_edges, cell = graph.constant(edge_table.ravel()), graph.integers(first)
    step = size // 2
    while step:  # NaN, which pads the tables, is at or below nothing
        edge_here = graph.add("Gather", flat_edges, graph.add("Add", cell, graph.integers(step - 1)))
        reached = graph.to_integer(graph.add("GreaterOrEqual", values, edge_here))
        cell = graph.add("Add", cell, graph.add("Mul", reached, graph.integers(step)))
        step //= 2
    code_here = graph.add("Gather", graph.integers(code_table.ravel()), cell)
    return graph.add("Where", graph.add("IsNaN", values), graph.integers(MISSING), code_here)


def _cells(feature: Feature) -> tuple[npt.NDArray[np.float64], Integers]:
    """Return edges between cells of numbers, and the code of each cell: how many edges are at or below a number."""
    if isinstance(feature, Numeric):
        return feature.thresholds, np.arange(feature.n_cells)
    levels = np.array(feature.levels, dtype=np.float64)
    order = np.argsort(levels)
    cells = [levels[order], np.nextafter(levels[order], np.inf)]  # one for each level
    edges: npt.NDArray[np.float64] = np.stack(cells, axis=1).ravel()
    codes: Integers = np.full(len(edges) + 1, OTHER)
    codes[1::2] = order % BUCKETS
    if np.isposinf(levels).any():  # nothing lies above it
        edges, codes = edges[:-1], codes[:-1]
    return edges, codes


def _encode_texts(graph: _Graph, values: str, domain: Domain, places: list[int]) -> str:
    """Look the codes of texts up."""
    columns = []
    for column, j in enumerate(places):
        levels = _levels(domain, j)
        here = graph.add("Gather", values, graph.integers([column]), axis=1)
        columns.append(
            graph.add(
                "LabelEncoder",
                here,
                domain="ai.onnx.ml",
                keys_strings=[*levels, _stand_ins(levels)[0]],
                values_int64s=[*(i % BUCKETS for i in range(len(levels))), MISSING],
                default_int64=OTHER,
            )
        )
    return graph.add("Concat", *columns, axis=1)


def _predict(graph: _Graph, codes: str, forest: Forest, column_of_feature: Integers) -> str:
    """Walk the rows down the trees, those of one depth together, and add up what their leaves say, tree after tree."""
    n_features = len(column_of_feature)
    flat_codes = graph.add("Reshape", codes, graph.integers([-1]))
    zero, width = graph.integers(0), graph.integers(n_features)
    end = graph.add("Gather", graph.add("Shape", flat_codes), zero)
    rows = graph.add("Reshape", graph.add("Range", zero, end, width), graph.integers([-1, 1]))

    masks, mask_of_split = np.unique(forest.masks, axis=0, return_inverse=True)  # few: thresholds repeat
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

    values = graph.constant(forest.weighted_values)
    sums = ""
    for tree in range(forest.n_trees):
        here = graph.add("Gather", values, leaf_of_tree[tree])
        sums = graph.add("Add", sums, here) if sums else here
    return sums


class _Graph:
    """An ONNX graph under construction: operators are added one by one, and name their results."""

    def __init__(self) -> None:
        try:
            import onnx
        except ImportError:
            raise ImportError("Exporting needs the onnx package: run pip install 'diprime[onnx]'.") from None
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: dict[Hashable, Any] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: str, dtype: Any, n_columns: int) -> str:
        """Declare an input of shape (n, n_columns)."""
        self._inputs.append(self._onnx.helper.make_tensor_value_info(name, self._type(dtype), ["n", n_columns]))
        return name

    def output(self, name: str, value: str, dtype: Any, *shape: int) -> None:
        """Declare a result as an output of shape (n, ...)."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._onnx.helper.make_tensor_value_info(name, self._type(dtype), ["n", *shape]))

    def constant(self, array: Array) -> str:
        """Return the name of a constant; equal ones are kept once."""
        content = tuple(array.tolist()) if array.dtype == object else array.tobytes()
        key = (array.dtype, array.shape, content)
        if key not in self._constants:
            self._constants[key] = self._onnx.numpy_helper.from_array(array, f"constant{len(self._constants)}")
        return str(self._constants[key].name)

    def integers(self, values: npt.ArrayLike) -> str:
        """Return the name of a constant of int64."""
        return self.constant(np.asarray(values, dtype=np.int64))

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator, and return the name of its result."""
        name = f"{operator}{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operator, inputs, [name], **attributes))
        return name

    def to_integer(self, value: str) -> str:
        """Turn truth values into 0 and 1."""
        return self.add("Cast", value, to=self._type(np.int64))

    def model(self, metadata: dict[str, str]) -> onnx.ModelProto:
        """Return the finished model, checked."""
        helper = self._onnx.helper
        graph = helper.make_graph(self._nodes, "diprime", self._inputs, self._outputs, [*self._constants.values()])
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model: onnx.ModelProto = helper.make_model(
            graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="diprime"
        )
        helper.set_model_props(model, metadata)
        self._onnx.checker.check_model(model, full_check=True)
        return model

    def _type(self, dtype: Any) -> int:
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
