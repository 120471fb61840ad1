"""What weights of classes gain, and where to apply them: ``python -m benchmarks.class_weights``.

Balanced weights at epsilon = 1, on tables with classes of unequal size, in two places:

* *what is released*: ``class_weight="balanced"``, as the library does it: weights multiply released shares of leaves,
  or odds, and cost nothing;
* *training*: a record of a class weighs in proportion to one over the size of the class, in whole numbers up to W, and
  noise is calibrated to W, so that records of the largest classes hardly stand out from it. It is told the true sizes
  of the classes, which flatters it.

The results are in ``benchmarks/results/class_weights.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from benchmarks import intrusions
from benchmarks.data import load
from benchmarks.paths import RESULTS
from diprime import DiPriMeBoostingClassifier, DiPriMeClassifier, Domain
from diprime.domain.persons import person_weight
from diprime.engines.partition import LocalPartitions, Partition, Partitions
from diprime.engines.persons import UsedRecords

EPSILON = 1.0
TEST_SHARE = 0.2
MAX_RECORDS = (3, 12)  # which persons' weights of 6 and 24 belong to
MIN_TEST_ROWS = 200  # of each class, in the made-up table, where weights undo it
FORESTS_ONLY = ("intrusions",)  # boosting of so many classes takes minutes
Table = tuple[Any, Any, Any, Any, Domain]


class _TrainedWithWeights:
    """An estimator whose records weigh by their class, and whose noise is that of persons of the largest weight."""

    def _prepare(self, partitions: Partitions, domain: Domain, *rest: Any) -> Any:
        part = partitions.whole()
        target = part.records.target
        sizes = np.bincount(target[target >= 0], minlength=domain.layout.n_outputs)
        largest = person_weight(self.max_records_per_group)  # type: ignore[attr-defined]
        shares = sizes[sizes > 0].min() / np.maximum(sizes, 1)
        weights = np.clip(np.rint(shares * largest), 1, largest).astype(np.uint8)
        used = np.where(target >= 0, weights[np.maximum(target, 0)], 0).astype(np.uint8)
        weighted = LocalPartitions([Partition(part.rows, UsedRecords(target, used))])
        return super()._prepare(weighted, domain, *rest)  # type: ignore[misc]

    def _check_groups(self, *, given: bool) -> None:
        """Take every record for a person."""


class _WeightedForest(_TrainedWithWeights, DiPriMeClassifier):
    pass


class _WeightedBoosting(_TrainedWithWeights, DiPriMeBoostingClassifier):
    pass


def contenders() -> dict[str, Callable[..., Any]]:
    """Return the estimators to compare, by name."""
    found: dict[str, Callable[..., Any]] = {}
    for kind, plain, trained in (
        ("forest", DiPriMeClassifier, _WeightedForest),
        ("boosting", DiPriMeBoostingClassifier, _WeightedBoosting),
    ):
        found[f"{kind}, no weights"] = plain
        found[f"{kind}, what is released"] = partial(plain, class_weight="balanced")
        for k in MAX_RECORDS:
            found[f"{kind}, training, W = {person_weight(k)}"] = partial(trained, max_records_per_group=k)
    return found


def made_up(repeat: int) -> Table:
    """Return the table of rare classes: all of its rows for training, and others for tests."""
    X, y = intrusions.draw(sum(intrusions.SIZES), repeat)
    return X, y, *intrusions.draw(100_000, 1000 + repeat, least=MIN_TEST_ROWS), intrusions.domain()


def real(name: str, repeat: int) -> Table:
    """Return four fifths of a real table for training, and the others for tests."""
    data = load(name)
    order = np.random.default_rng(repeat).permutation(len(data.y))
    test, train = np.split(order, [round(TEST_SHARE * len(order))])
    return data.X.iloc[train], data.y[train], data.X.iloc[test], data.y[test], data.domain


TABLES: dict[str, Callable[[int], Table]] = {
    **{name: partial(real, name) for name in ("credit", "robot4", "puc5")},
    "intrusions": made_up,
}


def scores(model: Any, table: Table) -> tuple[float, float]:
    """Return accuracy and balanced accuracy; rows of classes that the test has too many of count less."""
    X, y, X_test, y_test, _ = table
    predicted = model.fit(X, y).predict(X_test)
    labels, places = np.unique(y_test, return_inverse=True)
    sizes = np.array([(np.asarray(y) == label).mean() for label in labels])
    weights = (sizes / np.bincount(places))[places]
    return accuracy_score(y_test, predicted, sample_weight=weights), balanced_accuracy_score(y_test, predicted)


def measure(names: list[str], repeats: int) -> str:
    """Return the report."""
    lines = [
        "# Weights of classes",
        "",
        f"`python -m benchmarks.class_weights --tables {' '.join(names)} --repeats {repeats}`: epsilon = {EPSILON:g}, "
        f"means over {repeats} random divisions into training and test rows. Accuracy / balanced accuracy.",
        "",
        f"| | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
    ]
    cells: dict[str, list[str]] = {name: [] for name in contenders()}
    for table in names:
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in cells}
        for repeat in range(repeats):
            rows = TABLES[table](repeat)
            for name, make in contenders().items():
                if table not in FORESTS_ONLY or name.startswith("forest"):
                    found[name].append(scores(make(EPSILON, rows[-1]), rows))
        for name, pairs in found.items():
            means = np.mean(pairs, axis=0) if pairs else []
            cells[name].append(" / ".join(f"{mean:.3f}" for mean in means) or "not run")
            print(table, name, cells[name][-1], flush=True)
    lines += [f"| {name} | {' | '.join(row)} |" for name, row in cells.items()]
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.class_weights")
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES), metavar="TABLE")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="keep the report in benchmarks/results")
    options = parser.parse_args()
    report = measure(options.tables, options.repeats)
    print(report)
    if options.write:
        (RESULTS / "class_weights.md").write_text(report, encoding="utf-8")


if __name__ == "__main__":
    main()
