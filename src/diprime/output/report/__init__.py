"""A fitted model as one HTML page that a privacy officer can print and a data scientist can explore."""

from diprime.output.report.page import render

__all__ = ["render"]
