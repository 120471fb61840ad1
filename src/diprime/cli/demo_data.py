"""Synthetic people for the demonstration, similar to a census."""

from __future__ import annotations

import numpy as np
import polars as pl

PEOPLE_DOMAIN = """\
# What is public about these people: ranges and lists that anybody would write down without having seen them.

[features.age]
kind = "numeric"
low = 15
high = 100

[features.hours]  # worked a week
kind = "numeric"
low = 0
high = 100

[features.education]
kind = "categorical"
levels = ["none", "school", "bachelor", "master", "doctor"]

[features.sector]
kind = "categorical"
levels = ["private", "public", "self-employed"]

[features.savings]
kind = "numeric"
low = 0
high = 1000000
scale = "log"

[target]
name = "income"
kind = "categorical"
levels = ["up to 50k", "above 50k"]
"""


HIGH_INCOME_SCORE = 0.6
MISSING_SHARE = 0.03  # of the savings


def synthetic_people(n: int, seed: int) -> pl.DataFrame:
    """Return a table of people whose income depends on the other columns; some values are missing."""
    rng = np.random.default_rng(seed)
    levels = np.array(["none", "school", "bachelor", "master", "doctor"])
    years = rng.choice(5, n, p=[0.1, 0.5, 0.25, 0.12, 0.03])
    age = rng.integers(17, 85, n)
    sector = rng.choice(["private", "public", "self-employed"], n, p=[0.7, 0.18, 0.12])
    hours = rng.normal(40, 11, n).clip(1, 99).round().astype(int)
    savings = rng.lognormal(8 + 0.03 * (age - 40), 1.5).round(2)
    score = 0.9 * years + 0.05 * (hours - 40) - ((age - 50) / 18) ** 2 + 0.35 * np.log10(savings + 1) - 1.9
    income = np.where(score + rng.logistic(size=n) > HIGH_INCOME_SCORE, "above 50k", "up to 50k")
    people = pl.DataFrame(
        {"age": age, "hours": hours, "education": levels[years], "sector": sector, "savings": savings, "income": income}
    )
    unknown = pl.Series(rng.random(n) < MISSING_SHARE)
    return people.with_columns(savings=pl.when(unknown).then(None).otherwise(pl.col("savings")))
