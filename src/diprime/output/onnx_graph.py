"""A builder of ONNX graphs."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import onnx

Array = npt.NDArray[Any]

OPSET, ML_OPSET, IR_VERSION = 17, 2, 8


class Graph:
    """A builder of ONNX graphs. Methods that add an input, a constant or an operator return the name of its result."""

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
        """Add an input of shape (n, n_columns)."""
        self._inputs.append(self._onnx.helper.make_tensor_value_info(name, self.type_of(dtype), ["n", n_columns]))
        return name

    def output(self, name: str, value: str, dtype: Any, *shape: int) -> None:
        """Make a result an output of shape (n, ...)."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._onnx.helper.make_tensor_value_info(name, self.type_of(dtype), ["n", *shape]))

    def constant(self, array: Array) -> str:
        """Add a constant, unless there is an equal one."""
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
        """Return the finished model, after ONNX has checked it."""
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
        """Return the number of a dtype in ONNX."""
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
