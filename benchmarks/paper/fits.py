"""The fits behind the paper's tables and figures: each is run once and kept, so interrupted runs can be resumed."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from tqdm import tqdm

from benchmarks.data import Dataset, load
from diprime import DiPriMeClassifier, DiPriMeRegressor, Ledger, PrivacyWarning
from diprime.paper import (
    DPDecisionForestClassifier,
    DPRandomForestClassifier,
    DPRandomForestRegressor,
    PaperDiPriMeClassifier,
    PaperDiPriMeRegressor,
)

METHODS = {
    "Median": "diprime-exp",
    "DiPriMe": "diprime",
    "DiPriMeExp": "diprime-exp",
    "DiPriMeFlip": "diprime-flip",
    "DP-ERT": "random",
    "joint": "joint",
}
PEERS = {
    ("RF", "regression"): RandomForestRegressor,
    ("ERT", "regression"): ExtraTreesRegressor,
    ("RF", "classification"): RandomForestClassifier,
    ("ERT", "classification"): ExtraTreesClassifier,
}
OURS: dict[tuple[str, str], Any] = {
    ("strict", "regression"): DiPriMeRegressor,
    ("strict", "classification"): DiPriMeClassifier,
    ("paper", "regression"): PaperDiPriMeRegressor,
    ("paper", "classification"): PaperDiPriMeClassifier,
}
BASELINES: dict[str, dict[str, Any]] = {
    "DP-RF": {"regression": DPRandomForestRegressor, "classification": DPRandomForestClassifier},
    "DP-DF": {"classification": DPDecisionForestClassifier},
}


class Measured(Protocol):
    """Anything that can be scored on a data set, with a key under which its scores are kept."""

    data: str

    @property
    def key(self) -> str:
        """The key under which its scores are kept."""

    def scores(self, data: Dataset) -> list[float]:
        """Return the score of each repeat."""


@dataclass(frozen=True)
class Fit:
    """One point of a curve, or one cell of a heat map.

    Attributes
    ----------
    data, method : str
        The names of the data set and of the method.
    repeats : int
        The number of fits, each on another random nine tenths of the rows.
    epsilon : float
        The privacy budget passed to the estimator.
    trees, depth : int or "auto"
        The number of trees and their depth.
    features : int
        K, the number of features considered at a split.
    share : float
        ρ, the share of the budget that is spent on splits.
    partition : bool
        Whether trees get disjoint subsets of the rows.
    accounting : {"strict", "paper"}
        How the budget is counted.
    rows : float
        The share of the training rows that is used.
    soft : bool
        Whether accuracy is one minus the mean distance between probabilities and labels, which is how the authors'
        code scores DP-ERT, and no other method.
    """

    data: str
    method: str
    repeats: int
    epsilon: float = math.inf
    trees: int | str = 10
    depth: int | str = 8
    features: int = 1
    share: float = 0.5
    partition: bool = False
    accounting: str = "strict"
    rows: float = 1.0
    soft: bool = False

    @property
    def key(self) -> str:
        """The key under which its scores are kept."""
        return " ".join(f"{name}={value}" for name, value in asdict(self).items())

    def model(self, data: Dataset, seed: int) -> Any:
        """Return the estimator, seeded so that figures can be reproduced."""
        if (self.method, data.task) in PEERS:
            return PEERS[self.method, data.task](
                self.trees, max_depth=self.depth, max_features=self.features, min_samples_leaf=5, random_state=seed
            )
        if self.method in BASELINES:
            # The paper prunes DP-DF, but not on the small Banknote.
            unpruned = {"pruning": False} if self.method == "DP-DF" and data.name == "banknote" else {}
            return BASELINES[self.method][data.task](
                self.epsilon, data.binned_domain(), n_estimators=self.trees, max_depth=self.depth,
                accounting=self.accounting, n_jobs=1, random_state=seed, **unpruned,
            )  # fmt: skip
        return OURS[self.accounting, data.task](
            self.epsilon, data.domain, method=METHODS[self.method], n_estimators=self.trees, max_depth=self.depth,
            max_features="auto" if self.method == "joint" else self.features,
            split_share="auto" if self.method == "joint" else self.share,
            disjoint_rows=self.partition, n_jobs=1, random_state=seed,
        )  # fmt: skip

    def fitted(self, data: Dataset, X: pd.DataFrame, y: np.ndarray, seed: int) -> Any:
        """Return the fitted estimator."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # the data are public, and the seed is set on purpose
            return self.model(data, seed).fit(X, y)

    def ledger(self, data: Dataset) -> Ledger:
        """Return the ledger of the fit, from a few rows only: charges do not depend on the rows."""
        return self.fitted(data, data.X.head(100), data.y[:100], 0).privacy_

    def scores(self, data: Dataset) -> list[float]:
        """Fit, and return the mean squared error or the accuracy of each repeat."""
        X = pd.DataFrame(data.numbers()) if (self.method, data.task) in PEERS else data.X
        y = data.y
        n_train = int(0.9 * len(X))
        scores = []
        for repeat in range(self.repeats):
            order = np.random.default_rng(repeat).permutation(len(X))
            train, test = order[: int(self.rows * n_train)], order[n_train:]
            model = self.fitted(data, X.iloc[train], y[train], repeat)
            if self.soft:
                scores.append(1 - np.mean(np.abs(y[test] - model.predict_proba(X.iloc[test])[:, 1])))
            elif data.task == "regression":
                scores.append(np.mean((model.predict(X.iloc[test]) - y[test]) ** 2))
            else:
                scores.append(np.mean(model.predict(X.iloc[test]) == y[test]))
        return [float(f"{score:.6g}") for score in scores]


class Results:
    """Scores by fit, in a file with one JSON object per line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._scores: dict[str, list[float]] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                self._scores[entry["fit"]] = entry["scores"]

    def __getitem__(self, fit: Measured) -> np.ndarray:
        return np.array(self._scores[fit.key])

    def __contains__(self, fit: Measured) -> bool:
        return fit.key in self._scores

    def missing(self, fits: Iterable[Measured]) -> list[Measured]:
        """Return the fits that have not been run yet, without duplicates."""
        return [fit for fit in dict.fromkeys(fits) if fit not in self]

    def forget(self, fits: Iterable[Measured]) -> None:
        """Drop the scores of fits, which are then missing again."""
        for fit in fits:
            self._scores.pop(fit.key, None)
        self._save()

    def add(self, fit: Measured, scores: list[float]) -> None:
        """Store the scores of a fit."""
        self._scores[fit.key] = scores
        self._save()

    def _save(self) -> None:
        """Replace the file atomically, so that an interruption cannot leave half of it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_suffix(".part")
        lines = (json.dumps({"fit": key, "scores": kept}) + "\n" for key, kept in self._scores.items())
        unfinished.write_text("".join(lines), encoding="utf-8")
        unfinished.replace(self.path)


@lru_cache
def _load(name: str, directory: str | None) -> Dataset:
    return load(name, directory)


def _scores(fit: Measured, directory: str | None) -> list[float]:
    return fit.scores(_load(fit.data, directory))


def run(fits: Iterable[Measured], results: Results, directory: str | None) -> None:
    """Run the missing fits in one process per core, and store each as soon as it is finished."""
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        futures = {pool.submit(_scores, fit, directory): fit for fit in results.missing(fits)}
        try:
            for future in tqdm(as_completed(futures), total=len(futures), unit="setting"):
                results.add(futures[future], future.result())
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
