"""Choose a setting privately: the fits that are thrown away cost privacy too, and one budget pays for all of them."""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from diprime import DiPriMeRegressor, Domain, Numeric, PrivateSearch

# What is public: in this copy of the data, features are scaled, and progression was measured from 25 to 346.
FEATURES = {name: Numeric(-0.2, 0.2) for name in ("age", "bmi", "bp", "s5")}
domain = Domain(FEATURES, target=Numeric(0, 350), target_name="progression")


def main() -> None:
    """Compare a search with the fit that one would make without it, on data that are public and few."""
    data = load_diabetes(as_frame=True)
    X, X_test, y, y_test = train_test_split(data.data[list(FEATURES)], data.target, random_state=0)
    settings = {"max_depth": [1, "auto"]}
    search = PrivateSearch(DiPriMeRegressor(domain=domain), settings, epsilon=9).fit(X, y)
    default = DiPriMeRegressor(epsilon=9, domain=domain).fit(X, y)
    print(f"Chosen: {search.best_params_}\n")
    for name, model in (("search", search), ("defaults", default)):
        error = np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))
        print(f"{name:<9} epsilon {float(model.privacy_.total):g}, root mean squared error {error:.0f}")
    print(f"\n{search.privacy_}")


if __name__ == "__main__":
    main()
