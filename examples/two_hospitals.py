"""Merge the models of two hospitals, which exchange model files but no records."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import ShuffleSplit

from diprime import Categorical, DiPriMeClassifier, Domain, Numeric, load, merge

# Both hospitals agree on the domain before they look at their patients: five measurements of cell nuclei.
MEASURES = {
    "mean radius": Numeric(5, 30),
    "mean texture": Numeric(5, 50),
    "mean concave points": Numeric(0, 0.25),
    "worst area": Numeric(50, 5000),
    "worst smoothness": Numeric(0, 0.5),
}
domain = Domain(MEASURES, target=Categorical(["malignant", "benign"]), target_name="diagnosis")


def fit_and_merge(X: pd.DataFrame, y: np.ndarray, north: np.ndarray) -> dict[str, DiPriMeClassifier]:
    """Return the model of each hospital, and the merged model."""
    with tempfile.TemporaryDirectory() as folder:
        # In each hospital. The file contains only released values, whose cost is epsilon.
        for name, here in (("north", north), ("south", ~north)):
            DiPriMeClassifier(epsilon=1.0, domain=domain).fit(X[here], y[here]).save(Path(folder) / f"{name}.diprime")

        # Merge both files. No patient is in both hospitals, so the merged model costs every patient epsilon = 1.
        models = {name: load(Path(folder) / f"{name}.diprime") for name in ("north", "south")}
    return models | {"both": merge(list(models.values()), disjoint=True)}


def main() -> None:
    """Compare the models of the hospitals with the merged model, over many splits of public data."""
    data = load_breast_cancer(as_frame=True)
    X, y = data.data[list(MEASURES)], data.target_names[data.target]
    scores: dict[str, list[float]] = {"north": [], "south": [], "both": []}
    for train, test in ShuffleSplit(40, test_size=0.3, random_state=0).split(X):
        models = fit_and_merge(X.iloc[train], y[train], north=np.arange(len(train)) % 2 == 0)
        for name, model in models.items():
            scores[name].append(model.score(X.iloc[test], y[test]))
    for name, accuracies in scores.items():
        print(f"{name:<6} epsilon {float(models[name].privacy_.total):g}, mean accuracy {np.mean(accuracies):.1%}")
    print(f"\n{models['both'].privacy_}")


if __name__ == "__main__":
    main()
