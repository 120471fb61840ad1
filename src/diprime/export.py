"""Export of fitted models to ONNX."""

from diprime.output.onnx import onnx_inputs, to_onnx

__all__ = ["onnx_inputs", "to_onnx"]
