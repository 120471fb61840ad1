"""Engines hold the private rows and answer with sums."""
