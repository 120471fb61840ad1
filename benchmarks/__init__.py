"""Measurements: speed beside peers, the paper's tables and figures, and the data they run on."""
