"""Hostile files: ``python -m benchmarks.fuzz``."""
