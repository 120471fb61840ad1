"""Measurements: speed beside peers, and later the paper's tables and figures."""
