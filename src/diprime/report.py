"""Reports of fitted models: one page for people."""

from diprime.output.report import render

__all__ = ["render"]
