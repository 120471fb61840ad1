"""Attacks that users have read about, run against this library and its peers: ``python -m benchmarks.attacks``."""
