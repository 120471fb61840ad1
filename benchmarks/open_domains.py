"""Cost of ranges that are learnt privately or too wide: ``python -m benchmarks.open_domains [--wide]``.

Each estimator is fitted twice to the same random nine tenths of the rows, with the same total epsilon: with the
declared domain, and with a domain in which all ranges of features and of a numeric target are undeclared. In the second
case, a tenth of epsilon learns the ranges. Both are scored on the remaining rows.

With ``--wide``, nothing is learnt, but the declared ranges of all features, or of the target, are extended upwards.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.data import NAMES, Dataset, load
from benchmarks.paths import RESULTS
from diprime import (
    DiPriMeBoostingClassifier,
    DiPriMeBoostingRegressor,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Domain,
    Numeric,
)

EPSILON = 2.0
TRAIN_SHARE = 0.9
MAX_ACCURACY_LOST = 0.01
MAX_ERROR_RATIO = 1.15
SMALL_DATA = 10_000  # rows; below, scores vary much between splits, and fits are fast
SMALL_DATA_TIMES = 5
WIDER = ((10, "linear"), (100, "linear"), (1000, "linear"), (1000, "log"))

ESTIMATORS: dict[str, dict[str, Callable[..., Any]]] = {
    "forest": {"classification": DiPriMeClassifier, "regression": DiPriMeRegressor},
    "boosting": {"classification": DiPriMeBoostingClassifier, "regression": DiPriMeBoostingRegressor},
}


class Comparison(NamedTuple):
    """Mean scores on one data set: accuracy, or mean squared error."""

    name: str
    measure: str
    declared: float
    learnt: float
    standard_error: float

    @property
    def holds(self) -> bool:
        """Whether the learnt domain is nearly as good as the declared domain."""
        if self.measure == "accuracy":
            return self.declared - self.learnt <= MAX_ACCURACY_LOST
        return self.learnt <= MAX_ERROR_RATIO * self.declared

    def row(self) -> str:
        """Return a row of the table."""
        change = (
            f"{self.learnt - self.declared:+.4f} ± {self.standard_error:.4f}"
            if self.measure == "accuracy"
            else f"{self.learnt / self.declared - 1:+.1%} ± {self.standard_error / self.declared:.1%}"
        )
        scores = f"{self.declared:.5f} | {self.learnt:.5f}"
        return f"| {self.name} | {self.measure} | {scores} | {change} | {'yes' if self.holds else 'no'} |"


def opened(domain: Domain) -> Domain:
    """Return the domain with undeclared ranges."""
    features = {name: Numeric() if isinstance(f, Numeric) else f for name, f in domain.features.items()}
    return Domain(features, Numeric() if isinstance(domain.target, Numeric) else domain.target)


def widened(domain: Domain, factor: int, scale: str, *, target: bool) -> Domain:
    """Return the domain with the ranges of its features, or of its target, extended upwards by a factor."""

    def wider(feature: Any) -> Any:
        return Numeric(feature.low, feature.low + factor * (feature.high - feature.low), scale=scale)

    if target:
        return Domain(domain.features, wider(domain.target))
    return Domain({n: wider(f) if isinstance(f, Numeric) else f for n, f in domain.features.items()}, domain.target)


def score(data: Dataset, estimator: Callable[..., Any], domain: Domain, repeat: int) -> float:
    """Fit to a random training set and return the score on the other rows."""
    order = np.random.default_rng(repeat).permutation(len(data.X))
    train, test = np.split(order, [int(TRAIN_SHARE * len(order))])
    model = estimator(EPSILON, domain).fit(data.X.iloc[train], data.y[train])
    assert model.privacy_.is_private
    assert model.privacy_.total == EPSILON
    predicted, truth = model.predict(data.X.iloc[test]), data.y[test]
    if data.task == "classification":
        return float(np.mean(predicted == truth))
    return float(np.mean((predicted - truth.astype(np.float64)) ** 2))


def compare(data: Dataset, kind: str, repeats: int) -> Comparison:
    """Compare both domains on a data set."""
    estimator, open_domain = ESTIMATORS[kind][data.task], opened(data.domain)
    scores = np.array(
        [[score(data, estimator, domain, repeat) for domain in (data.domain, open_domain)] for repeat in range(repeats)]
    )
    declared, learnt = scores.mean(axis=0).tolist()
    spread = float((scores[:, 1] - scores[:, 0]).std(ddof=1)) if repeats > 1 else 0.0
    measure = "accuracy" if data.task == "classification" else "squared error"
    return Comparison(data.title, measure, declared, learnt, spread / repeats**0.5)


def wide_rows(data: Dataset, kind: str, repeats: int) -> list[str]:
    """Return table rows with the accuracy or R² for the declared domain, and then for each factor."""
    classes = data.task == "classification"

    def cell(domain: Domain) -> str:
        mean = np.mean([score(data, ESTIMATORS[kind][data.task], domain, repeat) for repeat in range(repeats)])
        return f"{mean if classes else 1 - mean / np.var(data.y):.3f}"

    start, measure = cell(data.domain), "accuracy" if classes else "R²"
    rows = []
    for part in ("features",) if classes else ("features", "target"):
        cells = [start]
        for factor, scale in WIDER:
            logarithmic = part == "target" and scale == "log"  # only features have scales
            cells.append("" if logarithmic else cell(widened(data.domain, factor, scale, target=part == "target")))
        rows.append(f"| {kind} | {part} | {data.title} | {measure} | {' | '.join(cells)} |")
    return rows


def wide_report(names: Sequence[str], kinds: Sequence[str], repeats: int) -> str:
    """Return the table of ranges that are too wide, as Markdown."""
    lines = [
        "# Ranges that are too wide",
        "",
        f"`python -m benchmarks.open_domains --wide --repeats {repeats}` writes this report.",
        f"All models have ε = {EPSILON:g}, and boosting has δ = 1e-6.",
        f"Scores are means of {repeats} splits, or {SMALL_DATA_TIMES * repeats} with fewer than {SMALL_DATA:,} rows.",
        "The columns multiply the declared ranges of all numeric features, or of a numeric target, by these factors.",
        "Factor 1 gives the ranges of the whole table.",
        "All values lie at the lower end of the wider ranges.",
        "",
        "| model | wider | data set | score | ×1 | ×10 | ×100 | ×1000 | ×1000, log |",
        "|---|---|---|---|---|" + "---|" * len(WIDER),
    ]
    rows: list[str] = []
    for name in names:
        data = load(name)
        for kind in kinds:
            found = wide_rows(data, kind, repeats * (SMALL_DATA_TIMES if len(data.X) < SMALL_DATA else 1))
            print("\n".join(found), flush=True)
            rows += found
    return "\n".join([*lines, *sorted(rows)]) + "\n"


def report(comparisons: dict[str, list[Comparison]], repeats: int) -> str:
    """Return the tables, as Markdown."""
    lines = [
        "# Learnt and declared ranges",
        "",
        "`python -m benchmarks.open_domains` writes this report.",
        f"All models have ε = {EPSILON:g} in total, and boosting has δ = 1e-6.",
        f"Scores are means of {repeats} splits ± one standard error.",
        "",
        "* **Declared** ranges are those of the whole table, as in the paper.",
        "* **Learnt** ranges replace the ranges of all numeric features and of a numeric target.",
        "  A tenth of ε learns the ranges, and the rest trains the model.",
        "* **Bar**: on eight of ten data sets, learnt ranges must not reduce the accuracy by more than "
        f"{MAX_ACCURACY_LOST:g}, or increase the squared error by more than {MAX_ERROR_RATIO - 1:.0%}.",
    ]
    for kind, rows in comparisons.items():
        held = sum(row.holds for row in rows)
        lines += ["", f"## {kind.capitalize()}: {held} of {len(rows)} data sets", ""]
        lines += ["| data set | score | declared | learnt | change | within the bar |", "|---|---|---|---|---|---|"]
        lines += [row.row() for row in rows]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        prog="python -m benchmarks.open_domains",
    )
    parser.add_argument("--sets", nargs="+", choices=NAMES, default=NAMES, metavar="SET")
    parser.add_argument("--kinds", nargs="+", choices=list(ESTIMATORS), default=list(ESTIMATORS), metavar="KIND")
    parser.add_argument("--wide", action="store_true", help="measure ranges that are too wide instead")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--data", help="the directory of Parquet files (default: see benchmarks.data)")
    options = parser.parse_args()
    if options.data:
        os.environ["DIPRIME_DATA"] = options.data
    everything = tuple(options.sets) == NAMES and list(options.kinds) == list(ESTIMATORS)  # write complete tables only
    if options.wide:
        text = wide_report(options.sets, options.kinds, options.repeats)
        print(text)
        if everything:
            (RESULTS / "wide_ranges.md").write_text(text, encoding="utf-8")
        return
    comparisons: dict[str, list[Comparison]] = {kind: [] for kind in options.kinds}
    for name in options.sets:
        data = load(name)
        for kind, rows in comparisons.items():
            rows.append(compare(data, kind, options.repeats))
            print(kind, rows[-1].row(), flush=True)
    text = report(comparisons, options.repeats)
    print(text)
    if everything:
        (RESULTS / "open_domains.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
