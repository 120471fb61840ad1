"""Accuracy at each epsilon, compared with other private learners and the paper: ``python -m benchmarks.utility``."""
