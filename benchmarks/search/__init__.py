"""What a private search chooses, and what it costs: ``python -m benchmarks.search``."""
