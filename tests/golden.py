"""Seeded fits whose results must never change unintentionally, and digests of what they give.

``python -m tests.golden`` writes ``tests/golden.json`` anew, and ``python -m tests.golden boosting`` the digests of
those cases whose names begin with "boosting". A change that means to change fits does so in its own commit, which says
why; any other change must leave the file as it is.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from diprime import (
    Categorical,
    DiPriMeBoostingClassifier,
    DiPriMeBoostingRegressor,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Domain,
    Numeric,
    PrivacyWarning,
    merge,
)
from diprime.baselines import DPDecisionForestClassifier, DPRandomForestClassifier, DPRandomForestRegressor

PATH = Path(__file__).with_name("golden.json")
FIXTURES = Path(__file__).with_name("fixtures")  # model files, a folder for each format that was ever written
INFINITY = float("inf")

FEATURES = {
    "level": Numeric(0, 10),
    "size": Numeric(1, 1000, scale="log"),
    "grade": Numeric(edges=[0, 1, 2, 5, 9]),
    "kind": Categorical(range(12)),
    "side": Categorical([0, 1]),
    "place": Categorical(range(40)),
}
TARGETS = {"two": Categorical(["no", "yes"]), "five": Categorical(list("abcde")), "number": Numeric(0, 10)}
DOMAINS = {name: Domain(FEATURES, target) for name, target in TARGETS.items()}


def make(target: str, n: int, seed: int = 0, *, missing: float = 0.05) -> tuple[Any, Any]:
    """Return n rows, some of their values missing, out of range or unlisted, and a target that two features decide."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.uniform(-1, 11, n),
            rng.lognormal(3, 2, n),
            rng.uniform(0, 9, n),
            rng.integers(0, 14, n),
            rng.integers(0, 2, n),
            rng.integers(0, 41, n),
        ]
    )
    signal = np.clip(0.7 * X[:, 0] + 3 * X[:, 4] + rng.normal(0, 0.5, n), 0, 10)
    X[rng.random(X.shape) < missing] = np.nan
    if target == "number":
        return X, signal
    if target == "two":
        return X, np.where(signal > 4, "yes", "no")
    return X, np.array(list("abcde"))[np.digitize(signal, [1, 3, 6, 9])]


@dataclass(frozen=True)
class Case:
    """One seeded fit.

    Attributes
    ----------
    name : str
        What it covers.
    target : str
        Which of the targets.
    parameters : dict
        Those of the constructor that differ from the defaults.
    kind : type, optional
        The estimator, if it is not one of the two forests.
    n : int
        The number of rows.
    missing : float
        The share of missing values.
    """

    name: str
    target: str
    parameters: dict[str, Any] = field(default_factory=dict)
    kind: Callable[..., Any] | None = None
    n: int = 1500
    missing: float = 0.05

    @property
    def file_name(self) -> str:
        """The name of the case's model file, without its ending."""
        return re.sub(r"\W+", "-", self.name)

    def estimator(self, **more: Any) -> Any:
        """Return the estimator, not fitted."""
        forest = DiPriMeRegressor if self.target == "number" else DiPriMeClassifier
        parameters = {"domain": DOMAINS[self.target], "n_jobs": 1, "random_state": 7, **self.parameters, **more}
        return (self.kind or forest)(**parameters)

    def data(self, seed: int = 0) -> tuple[Any, Any]:
        """Return the rows and the targets."""
        return make(self.target, self.n, seed, missing=self.missing)

    def fit(self) -> Any:
        """Return the fitted model."""
        return self.estimator().fit(*self.data())


class BatchesCase(Case):
    """A fit of rows that arrive in batches."""

    def fit(self) -> Any:
        """Return the fitted model."""
        X, y = self.data()
        cuts = [0, 1, 700, 700, self.n]
        return self.estimator().fit_batches((X[a:b], y[a:b]) for a, b in pairwise(cuts))


class MergedCase(Case):
    """Two fits of different people, merged."""

    variants: ClassVar[list[dict[str, Any]]] = [{"epsilon": 1.0, "max_depth": 2}, {"epsilon": 2.0, "max_depth": 4}]

    def fit(self) -> Any:
        """Return the merged model."""
        return merge([self.estimator(**v).fit(*self.data(seed)) for seed, v in enumerate(self.variants)])


class MergedBoostingCase(MergedCase):
    """Two boosted fits of different people, merged."""

    variants: ClassVar[list[dict[str, Any]]] = [{"epsilon": 1.0, "n_rounds": 9}, {"epsilon": 2.0}]


def _cases() -> list[Case]:
    cases = []
    for target in TARGETS:
        for method in ("joint", "diprime", "diprime-exp", "diprime-flip", "random"):
            cases.append(Case(f"{method}, {target}", target, {"method": method}))
    for target in ("five", "number"):
        joint = {"epsilon": 4.0, "n_estimators": 3, "max_depth": 4}
        exp, flip = {**joint, "method": "diprime-exp"}, {"method": "diprime-flip"}
        cases += [
            Case(f"joint in parts, {target}", target, joint),
            Case(f"joint on all rows, {target}", target, {**joint, "partition": False}),
            Case(f"joint of large epsilon, {target}", target, {"epsilon": 300.0}),
            Case(f"joint of small epsilon, {target}", target, {"epsilon": 0.01}),
            Case(f"joint without noise, {target}", target, {"epsilon": INFINITY}),
            Case(f"bagged without noise, {target}", target, {**joint, "epsilon": INFINITY, "partition": False}),
            Case(f"joint of settings, {target}", target, {"split_share": 0.3, "balance": 0.5, "max_features": 0.4}),
            Case(f"paper's diprime-exp, {target}", target, {**exp, "accounting": "paper"}),
            Case(f"paper's diprime-flip, {target}", target, {**flip, "accounting": "paper"}),
            Case(f"paper's random, {target}", target, {"method": "random", "accounting": "paper"}),
            Case(
                f"paper's diprime-exp on all rows, {target}", target, {**exp, "accounting": "paper", "partition": False}
            ),
            Case(f"diprime-exp without noise, {target}", target, {**exp, "epsilon": INFINITY}),
            Case(f"diprime on all rows, {target}", target, {**joint, "method": "diprime", "partition": False}),
            Case(f"joint of complete rows, {target}", target, {"epsilon": 2.0}, missing=0.0),
            BatchesCase(f"joint in batches, {target}", target, joint),
            MergedCase(f"merged, {target}", target),
        ]
    cases += [
        Case("nobody, two", "two", n=0),
        Case("nobody, number", "number", n=0),
        Case("many rows, two", "two", {"epsilon": 2.0, "n_estimators": 3, "n_jobs": 3}, n=140_000),
        Case("many rows, number", "number", {"n_estimators": 2, "n_jobs": 2, "max_depth": 6}, n=140_000),
        Case("inferred domain, two", "two", {"domain": "infer"}),
        Case("inferred domain, number", "number", {"domain": "infer"}),
    ]
    for accounting in ("strict", "paper"):
        baseline = {"epsilon": 5.0, "accounting": accounting, "n_estimators": 4}
        cases += [
            Case(f"{accounting} DP-RF, five", "five", {**baseline, "max_depth": 2}, DPRandomForestClassifier),
            Case(f"{accounting} DP-RF, number", "number", {**baseline, "max_depth": 2}, DPRandomForestRegressor),
            Case(f"{accounting} DP-DF, five", "five", {**baseline, "max_depth": 3}, DPDecisionForestClassifier),
        ]
    cases.append(Case("DP-RF without noise, two", "two", {"epsilon": INFINITY}, DPRandomForestClassifier))
    return cases


def _boosting_cases() -> list[Case]:
    cases: list[Case] = []
    few = {"n_rounds": 40}
    for target in TARGETS:
        kind = DiPriMeBoostingRegressor if target == "number" else DiPriMeBoostingClassifier
        cases += [
            Case(f"boosting by defaults, {target}", target, {}, kind),
            Case(f"boosting of settings, {target}", target, {**few, "delta": 1e-9, "learning_rate": 0.3}, kind),
            Case(f"boosting of single features, {target}", target, {**few, "interactions": False}, kind),
            Case(f"boosting of large epsilon, {target}", target, {**few, "epsilon": 300.0}, kind),
            Case(f"boosting of small epsilon, {target}", target, {**few, "epsilon": 0.01}, kind),
            Case(f"boosting without noise, {target}", target, {**few, "epsilon": INFINITY}, kind),
            Case(f"boosting of complete rows, {target}", target, few, kind, missing=0.0),
            Case(f"boosting of nobody, {target}", target, few, kind, n=0),
            Case(f"boosting of many rows, {target}", target, {**few, "n_jobs": 3}, kind, n=140_000),
            BatchesCase(f"boosting in batches, {target}", target, few, kind),
            MergedBoostingCase(f"boosting, merged, {target}", target, few, kind),
        ]
    return cases


CASES = {case.name: case for case in [*_cases(), *_boosting_cases()]}
# What forests of either kind hold as integers, or as floats that are exact.
EXACT = ("depths", "features", "masks", "counts", "roots", "first_children")


def _digest(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        array = np.ascontiguousarray(part) if isinstance(part, np.ndarray) else np.frombuffer(part.encode(), np.uint8)
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]


def _checksum(values: Any) -> float:
    """Return a number that changes with every entry: floats may differ in their last bits from machine to machine."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    return float(flat @ np.cos(np.arange(len(flat))))


def describe(model: Any, X: Any) -> dict[str, Any]:
    """Return digests of a fitted model and of what it predicts."""
    forest, ledger = model.forest_, model.privacy_
    charges = [
        f"{c.what}|{c.mechanism}|{c.bound}|{c.measure.cost}|{c.times}|{c.composition}|{c.strict_total}"
        for c in ledger.charges
    ]
    predicted = model.predict(X)
    return {
        "structure": _digest(*(getattr(forest, name) for name in EXACT if hasattr(forest, name))),
        "values": _checksum(forest.values),
        "ledger": _digest(str(ledger), *charges),
        "predictions": _checksum(predicted) if predicted.dtype.kind == "f" else _digest("".join(map(str, predicted))),
    }


def describe_case(case: Case) -> dict[str, Any]:
    """Fit a case and describe it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        model = case.fit()
    return describe(model, make(case.target, 500, seed=99)[0])


def main(beginning: str = "") -> None:
    """Write the digests of the cases whose names begin so, and keep the others."""
    kept = json.loads(PATH.read_text(encoding="utf-8")) if beginning else {}
    described = {
        name: describe_case(case) if name.startswith(beginning) else kept[name] for name, case in CASES.items()
    }
    PATH.write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
