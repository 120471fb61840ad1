"""Fit to a table on a Dask cluster: rows stay on the workers, and the model is the same as in a single process.

Requires ``pip install 'diprime[dask]'``. In this example, the cluster consists of two workers in this process, which
make a synthetic table. For your own cluster, use ``Client("tcp://host:8786")`` and ``dask.dataframe.read_parquet``.
"""

import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster

from diprime import Categorical, DiPriMeBoostingClassifier, Domain, Numeric

DOMAIN = Domain(
    {"age": Numeric(18, 90), "visits": Numeric(0, 50), "region": Categorical(["north", "south", "west"])},
    target=Categorical(["no", "yes"]),
)


def make_part(number: int) -> pd.DataFrame:
    """Return one partition of a synthetic table."""
    rng = np.random.default_rng(number)
    n = 20_000
    table = pd.DataFrame(
        {
            "age": rng.uniform(18, 90, n),
            "visits": rng.poisson(8, n).astype(float),
            "region": rng.choice(["north", "south", "west"], n),
        }
    )
    log_odds = (table["age"] - 50) / 15 + (table["visits"] - 8) / 3 - 2 * (table["region"] == "west")
    return table.assign(ill=np.where(rng.random(n) < 1 / (1 + np.exp(-log_odds)), "yes", "no"))


def main() -> None:
    """Fit on the cluster, and predict there."""
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0")
    with cluster, Client(cluster):
        table = dd.from_map(make_part, range(6), meta=make_part(0)[:0])
        X, y = table[list(DOMAIN.column_names)], table["ill"]
        model = DiPriMeBoostingClassifier(epsilon=1, domain=DOMAIN, n_rounds=50).fit(X, y)

        probabilities = model.predict_proba(X)  # a Dask DataFrame: nothing is computed yet
        right = (model.predict(X) == y).mean().compute()

    print(f"columns of predict_proba: {', '.join(probabilities.columns)}")
    print(f"accuracy: {right:.2f}")
    print(f"epsilon spent: {float(model.privacy_.total):g}")


if __name__ == "__main__":
    main()
