"""A whole study under one budget: who will not pay the credit card? From a domain to the scores of two models.

The data are real: 30,000 clients of a bank in Taiwan (UCI, Default of Credit Card Clients; Yeh and Lien 2009). Give the
file, as Parquet or CSV: ``python examples/study.py credit_default.parquet``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from diprime import (
    Budget,
    Categorical,
    DiPriMeBoostingClassifier,
    DiPriMeClassifier,
    Domain,
    Integer,
    PrivateSearch,
    private_score,
)

FILE = "credit_default.parquet"
TARGET = "default payment next month"
MONTHS = ["0", "2", "3", "4", "5", "6"]
TEST_SHARE = 0.3
BUDGET = {"epsilon": 3, "delta": 1e-6}

# What everybody knows of such a table. Of limits, bills and payments nobody does: they are learnt.
KNOWN = {
    "SEX": Categorical([1, 2]),
    "EDUCATION": Categorical(range(7)),
    "MARRIAGE": Categorical(range(4)),
    "AGE": Integer(18, 100),
    **{f"PAY_{month}": Integer(-2, 9) for month in MONTHS},
}


def read(path: Path) -> pd.DataFrame:
    """Return the table; a row is a client."""
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


def main(path: Path) -> None:
    """Learn what is not known, choose a setting, fit, and score, all of it within one epsilon and delta."""
    table = read(path)
    # Clients who test are drawn by themselves: nobody both trains and tests.
    tests = np.random.default_rng(1).random(len(table)) < TEST_SHARE
    X, y = table.drop(columns=["ID", TARGET]), table[TARGET]
    training = {"X": X[~tests], "y": y[~tests], "groups": table.loc[~tests, "ID"]}
    testing = {"X": X[tests], "y": y[tests], "groups": table.loc[tests, "ID"]}

    with tempfile.TemporaryDirectory() as folder, Budget.create(Path(folder) / "study.budget", **BUDGET) as budget:
        # A domain: the ranges of 13 amounts of money, for a small part of the budget. The unit is a person, by her ID.
        domain = Domain.learn(**training, epsilon=0.4, features=KNOWN, target=Categorical([0, 1]))
        print(f"LIMIT_BAL, learnt privately: {domain.features['LIMIT_BAL']}")

        # A choice: trees of one split, or those that the defaults take? It comes with the model of the better one.
        forest = DiPriMeClassifier(domain=domain)
        search = PrivateSearch(forest, {"max_depth": [1, "auto"]}, epsilon=1).fit(**training)
        print(f"chosen privately: {search.best_params_}\n")

        # A boosted model, from what is left.
        boosted = DiPriMeBoostingClassifier(epsilon=1, domain=domain, delta=1e-7).fit(**training)

        # How good are they, on people whom neither has seen?
        for name, model in (("forest", search.best_estimator_), ("boosting", boosted)):
            score = private_score(model, **testing, epsilon=0.2)
            accuracy, auc = score.accuracy, score.roc_auc
            print(
                f"{name:<9} accuracy {accuracy.value:.1%} ({accuracy.low:.1%} to {accuracy.high:.1%}), "
                f"AUC {auc.value:.3f} ({auc.low:.3f} to {auc.high:.3f})"
            )

        print(f"\n{boosted.privacy_}\n\n{budget}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else FILE))
