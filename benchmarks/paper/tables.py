"""Tables 1 and 2 of the paper: the fit behind each cell, and the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from benchmarks.data import COMPLETE, Dataset
from benchmarks.paper.fits import BASELINES, Fit, Results
from benchmarks.paper.published import FINAL_RUN, best_private
from diprime.privacy.charges import Mechanism

NON_PRIVATE = ("RF", "ERT", "Median")
METHODS = (*NON_PRIVATE, "DP-RF", "DP-DF", "DP-ERT", "DiPriMe", "DiPriMeExp", "DiPriMeFlip", "joint")
# The methods whose numbers must be reproduced; the comparators DP-RF, DP-DF and DP-ERT are only shown.
REPRODUCED = (*NON_PRIVATE, "DiPriMe", "DiPriMeExp", "DiPriMeFlip")
COLUMNS = ("as published", "strict", "strict, ε/10")
PRINTED_AS = {"RF": "Random forest", "Median": "Median trees"}
DP_DF_EPSILON = 1.0

# The paper gives mean squared errors multiplied by these powers of ten.
POWERS = {"parkinsons": 2, "appliances": 3, "metro": 3, "turbine": 4, "flight": 4}

Cell = tuple[str, str]  # method and column


def depth(n_train: int, min_leaf: int, *, children: int = 2, parts: int = 1) -> int:
    """Return the depth at which the leaves of a balanced tree have ``min_leaf`` rows, rounded down."""
    return math.floor(math.log(n_train / (min_leaf * parts)) / math.log(children))


def cells(data: Dataset, repeats: int) -> dict[Cell, Fit]:
    """Return the fit behind each cell of a data set."""
    n_train, m, k = int(0.9 * len(data.X)), data.min_leaf, data.max_features
    full, parts = depth(n_train, m), depth(n_train, m, parts=10)
    free = Fit(data.name, "RF", repeats, depth=full, features=k)
    binned = Fit(data.name, "DP-RF", repeats, data.epsilon, depth=depth(n_train, m, children=5))
    diprime = Fit(data.name, "DiPriMe", repeats, data.epsilon, depth=parts, partition=True)
    strict = [
        binned,
        *([replace(binned, method="DP-DF")] if data.task == "classification" else []),
        Fit(data.name, "DP-ERT", repeats, data.epsilon, depth=full),
        diprime,
        replace(diprime, method="DiPriMeExp", features=k),
        replace(diprime, method="DiPriMeFlip", features=k),
    ]
    joint = replace(diprime, method="joint", trees="auto", depth="auto")
    plan = {(fit.method, "as published"): fit for fit in (free, replace(free, method="ERT"))}
    plan["Median", "as published"] = replace(free, method="Median", accounting="paper")
    for fit in strict:
        plan[fit.method, "as published"] = replace(
            fit,
            accounting="paper",
            epsilon=DP_DF_EPSILON if fit.method == "DP-DF" else fit.epsilon,
            soft=fit.method == "DP-ERT" and data.task == "classification",
        )
    for fit in (*strict, joint):
        plan[fit.method, "strict"] = fit
        plan[fit.method, "strict, ε/10"] = replace(fit, epsilon=fit.epsilon / 10)
    return plan


@dataclass(frozen=True)
class Interval:
    """A mean and the half width of its 95 % confidence interval, computed as in the paper."""

    mean: float
    half_width: float

    @classmethod
    def of(cls, scores: np.ndarray) -> Interval:
        """Return the interval of the repeats: Student's t, with a standard deviation that divides by n."""
        n = len(scores)
        spread = stats.t.ppf(0.975, n - 1) * scores.std() / math.sqrt(n) if n > 1 else 0.0
        return cls(float(scores.mean()), float(spread))

    def meets(self, other: Interval) -> bool:
        """Return whether the means differ by no more than the sum of the half widths."""
        return abs(self.mean - other.mean) <= self.half_width + other.half_width

    def times(self, factor: float) -> Interval:
        """Return the interval multiplied by a factor."""
        return Interval(self.mean * factor, self.half_width * factor)

    def __str__(self) -> str:
        if self.half_width < 1e-9:  # all repeats agree up to rounding
            return f"{self.mean:.4g}"
        digits = max(0, 1 - math.floor(math.log10(self.half_width)))
        return f"{self.mean:.{digits}f} ± {self.half_width:.{digits}f}"


def published(data: Dataset, method: str) -> Interval | None:
    """Return the published mean squared error or accuracy, or None."""
    printed = FINAL_RUN[data.name].get(PRINTED_AS.get(method, method))
    if printed is None:
        return None
    return Interval(printed.error if data.task == "regression" else 1 - printed.error, printed.half_width)


def in_units(data: Dataset, interval: Interval) -> Interval:
    """Return an interval in the units of the paper's tables."""
    return interval.times(10.0 ** POWERS.get(data.name, 0))


def compared(
    sets: list[Dataset], results: Results, repeats: int, methods: tuple[str, ...] = REPRODUCED
) -> list[tuple[Dataset, str, bool]]:
    """Return the cells of methods on the paper's own rows, and whether they are reproduced."""
    found = []
    for data in (d for d in sets if d.name in COMPLETE):
        plan = cells(data, repeats)
        for method in methods:
            there, fit = published(data, method), plan.get((method, "as published"))
            if there and fit and fit in results:
                found.append((data, method, Interval.of(results[fit]).meets(there)))
    return found


def table(data: Dataset, results: Results, repeats: int) -> str:
    """Return the table of one data set."""
    score = f"Mean squared error × 10^{POWERS[data.name]}" if data.task == "regression" else "Accuracy"
    lines = [
        f"### {data.title}" + (f" ({data.note})" if data.note else ""),
        "",
        f"{score}, ε = {data.epsilon:g}, {len(data.X):,} rows.",
        "",
        "| method | published | diprime, as published | | diprime, strict | diprime, strict, ε/10 |",
        "|---|---|---|---|---|---|",
    ]
    plan = cells(data, repeats)
    methods = [method for method in METHODS if method != "DP-DF" or data.task == "classification"]
    return "\n".join([*lines, *(_row(data, method, plan, results) for method in methods), ""])


def _row(data: Dataset, method: str, plan: dict[Cell, Fit], results: Results) -> str:
    there = published(data, method)
    ours = {
        column: Interval.of(results[plan[method, column]])
        for column in COLUMNS
        if (method, column) in plan and plan[method, column] in results
    }
    mark = ""
    if there and "as published" in ours and data.name in COMPLETE:
        mark = "✓" if ours["as published"].meets(there) else "✗"
    shown = [str(in_units(data, ours[c])) if c in ours else "–" for c in COLUMNS]
    name = f"**{method}**" if method == "joint" else method
    paper = str(in_units(data, there)) if there else "–"
    return f"| {name} | {paper} | {shown[0]} | {mark} | {shown[1]} | {shown[2]} |"


def claims(sets: list[Dataset], results: Results, repeats: int) -> str:
    """Return on how many data sets the paper's claims hold for the means of strict fits, and how ``joint`` compares."""
    full = [data for data in sets if not results.missing(cells(data, repeats).values())]
    ours = {(d.name, *cell): results[fit].mean() for d in full for cell, fit in cells(d, repeats).items()}

    def best(data: Dataset, methods: Iterable[str], column: str) -> float:
        """Return the best mean of some methods, with the sign for which less is better."""
        sign = 1 if data.task == "regression" else -1
        return min(sign * ours[data.name, method, column] for method in methods)

    def where(better: Callable[[Dataset], bool], among: list[Dataset]) -> str:
        names = [data.title for data in among if better(data)]
        return f"{len(names)} of {len(among)} data sets" + (f" ({', '.join(names)})" if names else "")

    def beats_paper(data: Dataset, column: str) -> bool:
        printed = best_private(data.name)[1].error
        return best(data, ["joint"], column) < (printed if data.task == "regression" else printed - 1)

    known = [data for data in full if data.name in COMPLETE]
    family = ("DiPriMe", "DiPriMeExp", "DiPriMeFlip")

    def section(column: str, at: str) -> list[str]:
        random = where(lambda d: best(d, family, column) < best(d, ["DP-ERT"], column), full)
        binned = where(lambda d: best(d, ["DP-RF"], column) < best(d, family, column), full)
        paper = where(lambda d: beats_paper(d, column), known)
        return [
            f"At {at}:",
            "",
            f"* The best of {', '.join(family)} is better than DP-ERT on {random}.",
            f"* DP-RF is better than the best of these three on {binned}.",
            f"* `joint` is better than the paper's best private method, which has the paper's ε, on {paper}.",
            "",
        ]

    title = "## Claims of the paper with strict accounting"
    return "\n".join(
        [title, "", *section("strict", "the paper's ε"), *section("strict, ε/10", "a tenth of the paper's ε")]
    )


def costs(sets: list[Dataset], repeats: int) -> str:
    """Return what the published budgets cost by strict accounting, from the ledgers of fits."""
    lines = [
        "## Cost of the published ε",
        "",
        "The ledgers give the cost of all splits and of all noisy sums by strict accounting.",
        "They do not depend on the rows.",
        "",
        "| method | task | K | ε as published | splits | sums | splits and sums |",
        "|---|---|---|---|---|---|---|",
    ]
    rows = {}
    for data in sets:
        for (method, column), fit in cells(data, repeats).items():
            if column == "as published" and method not in NON_PRIVATE:
                k = "all" if method in BASELINES else str(fit.features)
                rows.setdefault((METHODS.index(method), method, data.task, k), (fit, data))
    for (_, method, task, k), (fit, data) in sorted(rows.items(), key=lambda row: row[0]):
        ledger = fit.ledger(data)
        sums = sum(c.strict_total for c in ledger.charges if c.mechanism == Mechanism.DISCRETE_LAPLACE)
        splits = sum(c.strict_total for c in ledger.charges if c.mechanism != Mechanism.DISCRETE_LAPLACE)
        shown = [f"{float(e):.4g}".replace("inf", "∞") for e in (ledger.total, splits, sums, splits + sums)]
        lines.append(f"| {method} | {task} | {k} | {' | '.join(shown)} |")
    return "\n".join([*lines, ""])


def report(sets: list[Dataset], results: Results, repeats: int, command: str) -> str:
    """Return the report: both tables, one data set after the other, and what follows from them."""
    must = compared(sets, results, repeats)
    parts = [
        "# Tables 1 and 2 of the paper",
        "",
        f"`{command}` writes this report.",
        f"In each of {repeats} repeats, it trains all methods on the same random nine tenths of the rows.",
        "",
        "* **Published**: the final run of the authors' notebook, which is the source of the paper's tables.",
        '* **diprime, as published**: `accounting="paper"` with the paper\'s depth, K, ρ and ε.',
        "  As in the authors' code, the accuracy of DP-ERT is one minus the mean of |y − p|, and DP-DF has ε = 1.",
        "  A cell meets the published number (✓) if the means differ by at most the sum of the two half widths.",
        "* **diprime, strict**: the same settings, with every charge counted.",
        "  DP-DF has the same ε as the other methods, and **joint** has diprime's defaults.",
        "* **±**: the half width of a 95 % confidence interval, with Student's t over the repeats and the authors'",
        "  definition of the standard deviation.",
        "",
    ]
    if must:
        outside = ", ".join(f"{method} on {data.title}" for data, method, meets in must if not meets) or "none"
        parts += [
            "The following cells meet the published numbers, on data sets with the paper's own rows:",
            "",
            f"* {', '.join(REPRODUCED)}: {sum(meets for *_, meets in must)} of {len(must)} cells meet.",
            f"  Exceptions: {outside}; see [discrepancies](oddities.md).",
        ]
    for method in ("DP-RF", "DP-DF", "DP-ERT"):
        found = [meets for *_, meets in compared(sets, results, repeats, (method,))]
        parts.append(f"* {method}: {sum(found)} of {len(found)} cells meet.")
    parts.append("")
    for title, task in (("Table 1: regression", "regression"), ("Table 2: classification", "classification")):
        parts += [f"## {title}", "", *(table(d, results, repeats) for d in sets if d.task == task)]
    return "\n".join([*parts, claims(sets, results, repeats), costs(sets, repeats)])
