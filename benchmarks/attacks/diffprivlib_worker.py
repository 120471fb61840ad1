"""Attack diffprivlib's forest in its own environment, in which this library is not installed.

:mod:`benchmarks.attacks.libraries` starts it as ``python -m benchmarks.attacks.diffprivlib_worker request answer``, two
JSON files: what to attack and how often, and the guesses. The attacks are those that run against ours.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from diffprivlib.models import RandomForestClassifier
from diffprivlib.models.forest import DecisionTreeClassifier

from benchmarks.attacks import positions, seeds
from benchmarks.attacks.positions import N_TREES
from benchmarks.attacks.protocol import HIGH, Classes, Floats


class DiffprivlibForest:
    """diffprivlib's forest of ten trees, without a seed."""

    def __init__(self, epsilon: float, max_depth: int) -> None:
        self.epsilon = epsilon
        self.max_depth = max_depth

    def _public(self, n_features: int) -> dict[str, Any]:
        low, high = np.zeros(n_features), np.full(n_features, HIGH)
        return {
            "epsilon": self.epsilon,
            "bounds": (low, high),
            "classes": np.arange(2),
            "max_depth": self.max_depth,
        }

    def fit(self, X: Floats, y: Classes) -> RandomForestClassifier:
        """Fit a model."""
        return RandomForestClassifier(N_TREES, **self._public(X.shape[1])).fit(X, y)

    def replay(self, model: Any, seeds: list[int], X: Floats, y: Classes) -> RandomForestClassifier:
        """Fit each tree again to the rows at its positions, with the seed that the model keeps of it."""
        tree_of_row = (np.arange(len(y)) // (len(y) / N_TREES)).astype(int)
        again = copy.copy(model)
        again.estimators_ = [
            DecisionTreeClassifier(random_state=seed, **self._public(X.shape[1])).fit(
                X[tree_of_row == i].astype(np.float32),
                y[tree_of_row == i, None].astype(np.float64),
                check_input=False,  # as the forest fits its trees
            )
            for i, seed in enumerate(seeds)
        ]
        return again

    def tree_values(self, model: Any, row: Floats) -> Floats:
        """Return the labels of the leaves that the row reaches."""
        row = row.astype(np.float32)
        return np.array([tree.tree_.predict(row).reshape(-1)[1] for tree in model.estimators_])


def main(request: str, answer: str) -> None:
    warnings.simplefilter("ignore")
    task = json.loads(Path(request).read_text(encoding="utf-8"))
    attack = {"seeds": seeds.attack, "positions": positions.attack}[task["attack"]]
    guesses = attack(DiffprivlibForest(task["epsilon"], task["max_depth"]), task["trials"])
    Path(answer).write_text(json.dumps(dataclasses.asdict(guesses)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
