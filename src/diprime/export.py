"""Fitted models for other programs."""

from diprime.output.onnx import onnx_inputs, to_onnx

__all__ = ["onnx_inputs", "to_onnx"]
