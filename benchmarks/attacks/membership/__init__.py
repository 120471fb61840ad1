"""Membership inference: whether a record was among those that a model was fitted to."""
