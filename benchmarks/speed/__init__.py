"""Time and memory: ``python -m benchmarks.speed`` and ``python -m benchmarks.speed.memory``."""
