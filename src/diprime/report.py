"""Reports of fitted models: one HTML page."""

from diprime.output.report import render

__all__ = ["render"]
