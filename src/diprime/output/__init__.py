"""Fitted models for people and for other programs."""
