"""Reconstruction of training rows from the counts that a forest publishes, with a constraint solver."""
