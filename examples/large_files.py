"""Fit to files that are larger than memory: encoded rows are kept in scratch files that only this process can open.

The same seed gives the same model as in memory. In this example the files are small, which allows the comparison.
"""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diprime import Categorical, DiPriMeClassifier, Domain, Numeric, PrivacyWarning, sources

warnings.simplefilter("ignore", PrivacyWarning)  # about the seeds, which only serve the comparison

N_ROWS, MISSING_SHARE, HIGH = 5000, 0.05, 100

domain = Domain(
    {"age": Numeric(17, 90), "hours": Numeric(0, 80), "sector": Categorical(["private", "public", "self"])},
    target=Categorical(["low", "high"]),
    target_name="income",
)

with tempfile.TemporaryDirectory() as folder:
    for number in range(4):  # for example, one file per quarter
        rng = np.random.default_rng(number)
        age, hours = rng.integers(17, 90, N_ROWS), rng.integers(0, 80, N_ROWS)
        table = {
            "age": age,
            "hours": np.where(rng.random(N_ROWS) < MISSING_SHARE, np.nan, hours),
            "sector": rng.choice(["private", "public", "self"], N_ROWS),
            "income": np.where(age + hours + 20 * rng.standard_normal(N_ROWS) > HIGH, "high", "low"),
        }
        pq.write_table(pa.table(table), Path(folder, f"quarter{number}.parquet"))

    model = DiPriMeClassifier(epsilon=1.0, domain=domain, random_state=0)
    model.fit(sources.files(f"{folder}/*.parquet", scratch=folder))
    left = sorted(path.name for path in Path(folder).iterdir())

    whole = pa.concat_tables(map(pq.read_table, sorted(Path(folder).glob("*.parquet"))))
    in_memory = DiPriMeClassifier(epsilon=1.0, domain=domain, random_state=0)
    in_memory.fit(whole.select(domain.column_names), whole["income"])

X = whole.select(domain.column_names)
print("Left in the folder:", ", ".join(left))
print("The same model:", bool((model.predict_proba(X) == in_memory.predict_proba(X)).all()))
print(model.privacy_)
