"""Effect of class weights, by the place where they are applied: ``python -m benchmarks.class_weights``.

Balanced weights at epsilon = 1, on tables with classes of unequal size, are applied in two ways:

* *released values*: ``class_weight="balanced"``, as in the library. Weights multiply released leaf shares or odds, and
  cost no privacy.
* *training*: the weights of records are integers up to W, inversely proportional to the size of their class, and noise
  is calibrated to W. Records of the largest classes therefore hardly stand out from the noise. The true class sizes are
  used without a charge, which favours this variant.

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
from benchmarks.utility.scores import standard_error
from diprime import DiPriMeBoostingClassifier, DiPriMeClassifier, Domain
from diprime.domain.records import person_weight
from diprime.execution.partition import LocalPartitions, Partition, Partitions, SampledRecords

EPSILON = 1.0
TEST_SHARE = 0.2
MAX_RECORDS = (3, 12)  # contribution bounds whose total weights per person are 6 and 24
MIN_TEST_ROWS = 200  # per class in the synthetic table; `scores` corrects for it by weights
FORESTS_ONLY = ("intrusions",)  # boosting many classes takes minutes
Table = tuple[Any, Any, Any, Any, Domain]


class _TrainedWithWeights:
    """Estimator whose records are weighted by class, with noise calibrated to the largest weight."""

    def _build_engine(self, partitions: Partitions, domain: Domain, *rest: Any) -> Any:
        part = partitions.whole()
        target = part.records.target
        sizes = np.bincount(target[target >= 0], minlength=domain.layout.n_outputs)
        largest = person_weight(self.max_records_per_group)  # type: ignore[attr-defined]
        shares = sizes[sizes > 0].min() / np.maximum(sizes, 1)
        weights = np.clip(np.rint(shares * largest), 1, largest).astype(np.uint8)
        used = np.where(target >= 0, weights[np.maximum(target, 0)], 0).astype(np.uint8)
        weighted = LocalPartitions([Partition(part.rows, SampledRecords(target, used))])
        return super()._build_engine(weighted, domain, *rest)  # type: ignore[misc]

    def _check_groups(self, *, given: bool) -> None:
        """Accept any contribution bound, because every record is a person."""


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
        found[f"{kind}, released values"] = partial(plain, class_weight="balanced")
        for k in MAX_RECORDS:
            found[f"{kind}, training, W = {person_weight(k)}"] = partial(trained, max_records_per_group=k)
    return found


def made_up(repeat: int) -> Table:
    """Return the synthetic table with rare classes: training rows at its original size, and further test rows."""
    X, y = intrusions.draw(sum(intrusions.SIZES), repeat)
    return X, y, *intrusions.draw(100_000, 1000 + repeat, least=MIN_TEST_ROWS), intrusions.domain()


def real(name: str, repeat: int) -> Table:
    """Return four fifths of a real table for training, and the rest for testing."""
    data = load(name)
    order = np.random.default_rng(repeat).permutation(len(data.y))
    test, train = np.split(order, [round(TEST_SHARE * len(order))])
    return data.X.iloc[train], data.y[train], data.X.iloc[test], data.y[test], data.domain


TABLES: dict[str, Callable[[int], Table]] = {
    **{name: partial(real, name) for name in ("credit", "robot4", "puc5")},
    "intrusions": made_up,
}


def scores(model: Any, table: Table) -> tuple[float, float]:
    """Return accuracy and balanced accuracy. Test rows are weighted by the class frequencies in training."""
    X, y, X_test, y_test, _ = table
    predicted = model.fit(X, y).predict(X_test)
    labels, places = np.unique(y_test, return_inverse=True)
    sizes = np.array([(np.asarray(y) == label).mean() for label in labels])
    weights = (sizes / np.bincount(places))[places]
    return accuracy_score(y_test, predicted, sample_weight=weights), balanced_accuracy_score(y_test, predicted)


def measure(names: list[str], repeats: int) -> str:
    """Run the comparison and return the report as Markdown."""
    lines = [
        "# Class weights",
        "",
        f"`python -m benchmarks.class_weights --tables {' '.join(names)} --repeats {repeats}` prints this report.",
        f"Cells are accuracy / balanced accuracy with ε = {EPSILON:g}.",
        f"Each score is the mean over {repeats} random splits into training and test rows ± its standard error.",
        "Splits of a real table overlap, so their standard error is corrected (Nadeau and Bengio, 2003).",
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
            overlap = 0.0 if TABLES[table] is made_up else TEST_SHARE / (1 - TEST_SHARE)
            shown = [f"{np.mean(s):.3f} ± {standard_error(s, overlap):.3f}" for s in zip(*pairs, strict=True)]
            cells[name].append(" / ".join(shown) or "not run")
            print(table, name, cells[name][-1], flush=True)
    lines += [f"| {name} | {' | '.join(row)} |" for name, row in cells.items()]
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.class_weights")
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES), metavar="TABLE")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="write the report to benchmarks/results")
    options = parser.parse_args()
    report = measure(options.tables, options.repeats)
    print(report)
    if options.write:
        (RESULTS / "class_weights.md").write_text(report, encoding="utf-8")


if __name__ == "__main__":
    main()
