"""Cost of protecting people who have several records: ``python -m benchmarks.persons``.

Synthetic people have from 1 to 20 records, most of them few. A person's records resemble each other. Three ways to
protect all of them together with epsilon = 1 are compared, on records of other persons:

* *weighted*: ``groups`` and ``max_records_per_group=k``, as in the library;
* *epsilon / k*: the same sample of records, each of which counts in full, with noise for k records;
* *one record*: k = 1, the reference for the others on the same people.

The results are in ``benchmarks/results/persons.md``.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import accuracy_score, mean_squared_error

from benchmarks.paths import RESULTS
from diprime import (
    Categorical,
    DiPriMeBoostingClassifier,
    DiPriMeBoostingRegressor,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Domain,
    Numeric,
    PrivacyWarning,
)
from diprime.domain.records import PersonDigests, drawn_records, new_key
from diprime.privacy.gaussian_dp import epsilon_upper_bound, gaussian_budget
from diprime.privacy.randomness import RandomSource, bits_of_rows

N_PERSONS = 5_000
N_TEST_PERSONS = 5_000
MOST_RECORDS = 20
NUMBERS_OF_RECORDS = (2, 5, 10)
DELTA = Fraction(1, 10**6)
FEATURES = {name: Numeric(-4, 4) for name in "abcdef"}
DOMAINS = {
    "accuracy": Domain(FEATURES, Categorical([False, True])),
    "squared error": Domain(FEATURES, Numeric(0, 1)),
}
FORESTS: dict[str, type] = {"accuracy": DiPriMeClassifier, "squared error": DiPriMeRegressor}
BOOSTERS: dict[str, type] = {"accuracy": DiPriMeBoostingClassifier, "squared error": DiPriMeBoostingRegressor}


@dataclass(frozen=True)
class Table:
    """Records of people.

    Attributes
    ----------
    X : array of shape (n, 6)
        The features.
    y : array of shape (n,)
        The targets.
    persons : array of shape (n,)
        Index of the person of each record.
    """

    X: npt.NDArray[np.float64]
    y: npt.NDArray[Any]
    persons: npt.NDArray[np.int64]


def draw(n_persons: int, measure: str, rng: np.random.Generator) -> Table:
    """Sample people whose records share half of the variance of their features."""
    sizes = np.minimum(rng.geometric(0.3, n_persons), MOST_RECORDS)
    persons = np.repeat(np.arange(n_persons), sizes)
    own = rng.normal(size=(n_persons, len(FEATURES)))
    X = (own[persons] + rng.normal(size=(len(persons), len(FEATURES)))) / math.sqrt(2)
    signal = X[:, 0] + X[:, 1] * np.sign(X[:, 2]) + 0.5 * np.abs(X[:, 3])
    noisy = signal + rng.normal(0, 0.5, len(signal))
    y = noisy > 0.4 if measure == "accuracy" else 1 / (1 + np.exp(-noisy))
    return Table(X, y, persons)


def epsilon_of_record(k: int, *, boost: bool) -> float:
    """Return the epsilon per record for which k records together have epsilon = 1, rounded down."""
    if not boost:
        return 1 / k
    # k records have k times the μ of one record, so one record gets μ/k.
    exact = epsilon_upper_bound(gaussian_budget(Fraction(1), DELTA) / k**2, DELTA)
    return float(exact) * (1 - 1e-6)


def weighted(kind: type, domain: Domain, k: int, table: Table) -> Any:
    """Fit with groups, as in the library."""
    return kind(1.0, domain, max_records_per_group=k).fit(table.X, table.y, groups=table.persons)


def divided(kind: type, domain: Domain, k: int, table: Table) -> Any:
    """Fit with records that count in full, and more noise."""
    bits = bits_of_rows(RandomSource().stream_apart(), 0, len(table.y))
    used = drawn_records(PersonDigests(new_key()).encode(table.persons), bits, k)
    epsilon = epsilon_of_record(k, boost=kind in BOOSTERS.values())
    return kind(epsilon, domain).fit(table.X[used], table.y[used])


def errors(fit: Callable[[Table], Any], measure: str, repeats: int) -> list[float]:
    """Return the score of each repeat: higher is better for accuracy, lower for the squared error."""
    scores = []
    for repeat in range(repeats):
        rng = np.random.default_rng(repeat)
        table, test = draw(N_PERSONS, measure, rng), draw(N_TEST_PERSONS, measure, rng)
        predicted = fit(table).predict(test.X)
        score = accuracy_score if measure == "accuracy" else mean_squared_error
        scores.append(float(score(test.y, predicted)))
    return scores


def cell(scores: npt.ArrayLike, sign: str = "") -> str:
    """Return a mean and its standard error."""
    return f"{np.mean(scores):{sign}.4f} ± {np.std(scores, ddof=1) / math.sqrt(np.size(scores)):.4f}"


def report(repeats: int) -> str:
    """Measure everything and return the report as Markdown."""
    lines = [
        "# Several records per person",
        "",
        f"`python -m benchmarks.persons --repeats {repeats}` writes this report.",
        f"{N_PERSONS:,} synthetic people have 1 to {MOST_RECORDS} records each, 3.3 on average.",
        "All records of a person are protected together with ε = 1, and boosting has δ = 1e-6.",
        f"Scores are means of {repeats} repeats ± their standard error, on records of other people.",
        "",
        "* **Weighted** uses `groups` and `max_records_per_group=k`.",
        "* **ε / k** counts each of k records in full, with noise for k records.",
        "* **Difference from k = 1**: scores are compared on the same people.",
        "  Chance may explain differences of up to twice the number after ±.",
        "",
        "| score | k | weighted | ε / k | weighted, difference from k = 1 | ε / k, difference from k = 1 |",
        "|---|---|---|---|---|---|",
    ]
    for measure, domain in DOMAINS.items():
        for name, kind in (("forest", FORESTS[measure]), ("boosting", BOOSTERS[measure])):
            one = errors(partial(weighted, kind, domain, 1), measure, repeats)
            lines.append(f"| {name}, {measure} | 1 | {cell(one)} | the same | | |")
            print(lines[-1], flush=True)
            for k in NUMBERS_OF_RECORDS:
                scores = [errors(partial(fit, kind, domain, k), measure, repeats) for fit in (weighted, divided)]
                cells = [*map(cell, scores), *(cell(np.subtract(found, one), "+") for found in scores)]
                lines.append(f"| {name}, {measure} | {k} | {' | '.join(cells)} |")
                print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, then print and save the report."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        prog="python -m benchmarks.persons",
    )
    parser.add_argument("--repeats", type=int, default=10, help="how often to draw persons and fit (default: 10)")
    options = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    text = report(options.repeats)
    (RESULTS / "persons.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
