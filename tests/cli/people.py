"""The people of the demonstration as a data frame, which tests change."""

import polars as pl

from diprime.cli import demo


def synthetic_people(n, seed):
    """Return people."""
    return pl.from_arrow(demo.synthetic_people(n, seed))
