"""Select hyperparameters privately: one budget covers all fits, including those that are discarded."""

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.model_selection import train_test_split

from diprime import DiPriMeRegressor, Domain, Numeric, PrivateSearch

# Public facts: five measurements from 0 to 1, and a score from 0 to 30.
domain = Domain({f"m{i}": Numeric(0, 1) for i in range(1, 6)}, target=Numeric(0, 30), target_name="score")


def main() -> None:
    """Compare a search with single fits of the same epsilon, on synthetic data."""
    X, X_test, y, y_test = train_test_split(*make_friedman1(20_000, n_features=5, random_state=0), random_state=0)
    # Each combination is fitted with epsilon = 1.5, and other records select the better one.
    settings = {"max_depth": [1, "auto"]}
    search = PrivateSearch(DiPriMeRegressor(domain=domain), settings, epsilon=3).fit(X, y)
    print(f"Chosen: max_depth = {search.best_params_['max_depth']}\n")
    # The defaults spend all of epsilon on one model, so search only if you expect the defaults to be poor.
    default = DiPriMeRegressor(epsilon=3, domain=domain).fit(X, y)
    shallow = DiPriMeRegressor(epsilon=3, domain=domain, max_depth=1).fit(X, y)
    for name, model in (("depth 1", shallow), ("search", search), ("defaults", default)):
        error = np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))
        print(f"{name:<9} epsilon {float(model.privacy_.total):g}, root mean squared error {error:.2f}")
    print(f"\n{search.privacy_}")


if __name__ == "__main__":
    main()
