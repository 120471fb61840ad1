"""A whole study of credit card defaults under one budget, from a domain to the scores of two models.

The data are real: 30,000 clients of a bank in Taiwan (UCI, Default of Credit Card Clients; Yeh and Lien 2009). Pass the
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

# Public facts about such a table. The ranges of limits, bills and payments are unknown, so they are learnt.
KNOWN = {
    "SEX": Categorical([1, 2]),
    "EDUCATION": Categorical(range(7)),
    "MARRIAGE": Categorical(range(4)),
    "AGE": Integer(18, 100),
    **{f"PAY_{month}": Integer(-2, 9) for month in MONTHS},
}


def read(path: Path) -> pd.DataFrame:
    """Return the table, with one row per client."""
    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)


def main(path: Path) -> None:
    """Learn the domain, search, fit and score within one epsilon and delta."""
    table = read(path)
    # Each client is either in the training set or in the test set.
    tests = np.random.default_rng(1).random(len(table)) < TEST_SHARE
    X, y = table.drop(columns=["ID", TARGET]), table[TARGET]
    training = {"X": X[~tests], "y": y[~tests], "groups": table.loc[~tests, "ID"]}
    testing = {"X": X[tests], "y": y[tests], "groups": table.loc[tests, "ID"]}

    with tempfile.TemporaryDirectory() as folder, Budget.create(Path(folder) / "study.budget", **BUDGET) as budget:
        # Learn the ranges of 13 amounts with a small part of the budget. The privacy unit is the person with an ID.
        domain = Domain.learn(**training, epsilon=0.4, features=KNOWN, target=Categorical([0, 1]))
        print(f"LIMIT_BAL, learnt privately: {domain.features['LIMIT_BAL']}")

        # Select between trees with one split and the default depth. The search releases the better model.
        forest = DiPriMeClassifier(domain=domain)
        search = PrivateSearch(forest, {"max_depth": [1, "auto"]}, epsilon=1).fit(**training)
        print(f"chosen privately: {search.best_params_}\n")

        # Fit a boosted model with the remaining budget.
        boosted = DiPriMeBoostingClassifier(epsilon=1, domain=domain, delta=1e-7).fit(**training)

        # Score both models on people outside the training set.
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
