"""The paper's tables and figures, reproduced with this library: ``python -m benchmarks.paper``."""
