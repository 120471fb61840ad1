"""Fit to files that need not fit in memory: rows are encoded once, into scratch files that only this process can open.

The same seed gives the same model as a fit in memory. Here the files are small, so that both can be compared.
"""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import polars as pl

from diprime import Categorical, DiPriMeClassifier, Domain, Numeric, PrivacyWarning
from diprime.reading import read_files

warnings.simplefilter("ignore", PrivacyWarning)  # of the seeds, which are for the comparison only

N_ROWS, MISSING_SHARE, HIGH = 5000, 0.05, 100

domain = Domain(
    {"age": Numeric(17, 90), "hours": Numeric(0, 80), "sector": Categorical(["private", "public", "self"])},
    target=Categorical(["low", "high"]),
    target_name="income",
)

with tempfile.TemporaryDirectory() as folder:
    for number in range(4):  # a file of each quarter, say
        rng = np.random.default_rng(number)
        age, hours = rng.integers(17, 90, N_ROWS), rng.integers(0, 80, N_ROWS)
        table = {
            "age": age,
            "hours": np.where(rng.random(N_ROWS) < MISSING_SHARE, np.nan, hours),
            "sector": rng.choice(["private", "public", "self"], N_ROWS),
            "income": np.where(age + hours + 20 * rng.standard_normal(N_ROWS) > HIGH, "high", "low"),
        }
        pl.DataFrame(table).write_parquet(Path(folder, f"quarter{number}.parquet"))

    model = DiPriMeClassifier(epsilon=1.0, domain=domain, random_state=0)
    model.fit_batches(read_files(f"{folder}/*.parquet", domain), scratch=folder)
    left = sorted(path.name for path in Path(folder).iterdir())

    whole = pl.read_parquet(f"{folder}/*.parquet")
    in_memory = DiPriMeClassifier(epsilon=1.0, domain=domain, random_state=0)
    in_memory.fit(whole.select(domain.columns), whole["income"])

X = whole.select(domain.columns)
print("Left in the folder:", ", ".join(left))
print("The same model:", bool((model.predict_proba(X) == in_memory.predict_proba(X)).all()))
print(model.privacy_)
