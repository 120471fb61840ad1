"""The report of :mod:`benchmarks.search`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from benchmarks.search.measuring import CONTENDERS, EPSILON, HOLDOUT, Results
from benchmarks.utility.scores import table

MIN_RATIO = 1.1
BAR = 0.9
TEXT = """# Private search

`python -m benchmarks.search` writes this report.

* **Errors** are error rates, or mean squared errors of targets in [0, 1].
  Each run trains on a random nine tenths of the rows and computes errors on the others.
* **Budget**: every search spends ε = {epsilon:g} in total.
* **Choice**: a share of {holdout:g} of the rows chooses the setting.
  Random stopping makes at most five times as many fits as there are settings.

## Two settings: `max_depth=1` and `max_depth="auto"`

The first two errors are those of one fit with ε = 1 for each setting.
The bar applies if these errors differ by more than a tenth.
A search that costs three times as much must then select the better setting in nine of ten runs.
**The bar is met on {met} of {asked} data sets.**
The last two columns are errors of released models.
The searched model is that of `rule="all"`, the default for two settings; the other model is one fit with all of ε.

{pair}
## Eight settings: `max_depth` in 1, 3, 5, "auto", and `n_estimators` in 10, "auto"

The table shows the errors of the released models.

* **Refit on all rows** (`refit=True`) selects a setting with half of ε and fits it with the other half.
  With `rule="stopping"`, this is the default for more than three settings.
* **Harmonic number of fits** stops after n fits with a probability proportional to 1/n.
  It costs two fits instead of three, but often stops after the first fit.
* **Relative** is the geometric mean over the data sets, relative to the best search on each data set.

{eight}
The defaults adapt to ε and to the data.
One fit with all of ε is better wherever the defaults are among the best settings.
Search if you expect that they are not.
"""


def mean_error(results: Results, contender: str, name: str) -> float:
    """Return the mean error of all runs; NaN unless all have been made."""
    runs = results.of(contender, name)
    return float(np.mean([run.error for run in runs])) if len(runs) == CONTENDERS[contender].repeats else math.nan


def pair_row(results: Results, name: str) -> tuple[list[str], bool | None]:
    """Return the row of a data set in the table of the bar, and whether it meets the bar; None if that is not asked."""
    errors = [mean_error(results, contender, name) for contender in ("depth 1", "depth auto")]
    better, ratio = int(np.argmin(errors)), max(errors) / min(errors)
    counted = ratio > MIN_RATIO
    rights = []
    for contender in ("pair, all", "pair, stopping"):
        runs = results.of(contender, name)
        rights.append((sum(run.chosen == better for run in runs), len(runs)))
    met = rights[0][0] >= BAR * rights[0][1] > 0 if counted else None
    verdict = "–" if met is None else "met" if met else "**MISSED**"
    shares = [f"{right} of {n}" for right, n in rights]
    searched = (mean_error(results, contender, name) for contender in ("pair, all", "default"))
    numbers = [f"{error:.3g}" for error in (*errors, ratio)]
    return [name, *numbers, ("1", '"auto"')[better], *shares, verdict, *(f"{e:.3g}" for e in searched)], met


def eight_row(results: Results, name: str) -> list[float]:
    """Return the mean errors of the ways to choose among eight settings."""
    titles = [title for title in CONTENDERS if title.startswith("eight")]
    return [mean_error(results, title, name) for title in (*titles, "default")]


def relative_to_best(rows: Sequence[Sequence[float]]) -> list[float]:
    """Return the geometric mean over data sets of each error, relative to the least of the ways to choose."""
    errors = np.array(rows)
    known = errors[~np.isnan(errors).any(axis=1)]
    if not len(known):
        return [math.nan] * errors.shape[1]
    return [float(x) for x in np.exp(np.log(known / known[:, :-1].min(axis=1, keepdims=True)).mean(axis=0))]


def report(results: Results, names: Sequence[str]) -> str:
    """Return the report as Markdown."""
    rows, verdicts = zip(*(pair_row(results, name) for name in names), strict=True)
    asked = [verdict for verdict in verdicts if verdict is not None]
    pair_head = [
        *("data set", "error, depth 1", 'error, "auto"', "ratio", "better", 'correct, "all"', 'correct, "stopping"'),
        *("bar", "error, search", "error, no search"),
    ]
    errors = [eight_row(results, name) for name in names]
    titles = [CONTENDERS[title].title for title in CONTENDERS if title.startswith("eight")]
    eight = [[name, *(f"{e:.3g}" for e in row)] for name, row in zip(names, errors, strict=True)]
    eight.append(["relative", *(f"{x:.3f}" for x in relative_to_best(errors))])
    return TEXT.format(
        epsilon=EPSILON,
        holdout=HOLDOUT,
        met=sum(asked),
        asked=len(asked),
        pair=table(pair_head, rows),
        eight=table(["data set", *titles, "no search"], eight),
    )
