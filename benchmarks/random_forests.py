"""Infinite epsilon on all rows, and scikit-learn: ``python -m benchmarks.random_forests``.

All trees learn from all rows. Both have the same number of trees and otherwise their defaults. They are fitted to four
fifths of a table and tested on the rest. One table is synthetic, with 26 classes. The results are in
``benchmarks/results/random_forests.md``.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from benchmarks.data import load
from benchmarks.paths import RESULTS
from diprime import Categorical, DiPriMeClassifier, DiPriMeRegressor, Domain, Numeric

N_TREES = 30
LETTERS = "26 classes"
TABLES = (LETTERS, "banknote", "robot4", "credit", "parkinsons")


def letters() -> tuple[Any, Any, Domain]:
    """Return 20,000 synthetic rows of 16 numbers and 26 classes, the shape of UCI's letter recognition data."""
    X, y = make_classification(
        20_000, 16, n_informative=12, n_classes=26, n_clusters_per_class=2, class_sep=2.0, random_state=0
    )
    features = {f"x{i}": Numeric(float(x.min()), float(x.max())) for i, x in enumerate(X.T)}
    return X, y, Domain(features, Categorical(range(26)))


def table(name: str) -> tuple[Any, Any, Domain]:
    """Return the features, targets and domain of a table."""
    if name == LETTERS:
        return letters()
    data = load(name)
    return data.X, data.y, data.domain


def numbered(X: Any) -> Any:
    """Return the features for scikit-learn, with categories as numbers."""
    if isinstance(X, np.ndarray):
        return X
    return X.apply(lambda x: x if x.dtype.kind in "biuf" else x.astype("category").cat.codes)


def rows_of(name: str) -> list[str]:
    """Return the rows of the report for one table."""
    X, y, domain = table(name)
    order = np.random.default_rng(0).permutation(len(y))
    test, train = np.split(order, [len(order) // 5])
    is_classes = domain.task == "classification"
    ours = DiPriMeClassifier if is_classes else DiPriMeRegressor
    theirs = RandomForestClassifier if is_classes else RandomForestRegressor
    contenders = {
        "diprime, depth auto": (ours(float("inf"), domain, n_estimators=N_TREES, disjoint_rows=False), X),
        "diprime, depth 5": (ours(float("inf"), domain, n_estimators=N_TREES, disjoint_rows=False, max_depth=5), X),
        "scikit-learn": (theirs(N_TREES, random_state=0), numbered(X)),
    }
    lines = []
    for kind, (model, of_model) in contenders.items():
        part = (lambda i, a=of_model: a[i]) if isinstance(of_model, np.ndarray) else (lambda i, a=of_model: a.iloc[i])
        start = time.perf_counter()
        model.fit(part(train), y[train])
        seconds = time.perf_counter() - start
        predicted = model.predict(part(test))
        score = (predicted == y[test]).mean() if is_classes else ((predicted - y[test]) ** 2).mean()
        depths = model.forest_.depths if hasattr(model, "forest_") else [e.get_depth() for e in model.estimators_]
        measure = "accuracy" if is_classes else "squared error"
        lines.append(
            f"| {name} | {len(train):,} | {kind} | {np.mean(depths):.0f} | {measure} {score:.4g} | {seconds:.1f} |"
        )
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.random_forests")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES, metavar="TABLE")
    parser.add_argument("--write", action="store_true", help="keep the report in benchmarks/results")
    options = parser.parse_args()
    lines = [
        "# Random forests without privacy",
        "",
        "`python -m benchmarks.random_forests --write` writes this report.",
        f"All forests have {N_TREES} trees; those of diprime have ε = ∞ and `disjoint_rows=False`.",
        "Four fifths of the rows are for training, and the others for testing.",
        "",
        "| table | training rows | forest | mean depth | test score | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for name in options.tables:
        lines += rows_of(name)
    report = "\n".join([*lines, ""])
    if options.write:
        (RESULTS / "random_forests.md").write_text(report, encoding="utf-8")


if __name__ == "__main__":
    main()
