"""The report of :mod:`benchmarks.attacks`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.attacks.membership.learners import N_ROUNDS
from benchmarks.attacks.membership.measuring import FALSE_RATE, N_OTHERS, N_TYPICAL

Line = dict[str, Any]
Lines = dict[str, list[Line]]

MEASURED = """`python -m benchmarks.attacks --write` writes this report.
With `--scale`, it uses fewer draws and models than by default; the report states how many."""
RECONSTRUCTION = """## Reconstruction

The attack is that of Gorgé, Ferry, Gambs and Vidal (SaTML 2026).
A constraint solver (CP-SAT) finds the training table for which the published leaf counts of a forest are most likely.

* **Data**: {sizes} rows with a class and ten columns of real tables.
  Each column states whether a value is above its median.
  The report uses {repeats} draws of rows for each table and size.
* **Attacker**: the attacker knows the columns, the number of rows, the noise distribution, and the noisy leaf sums
  before they are shrunk.
  *With the population known*, the attacker also knows how frequent each possible row is among all other rows of the
  table.
* **Cells**: the first number is the share of wrong values after the best matching of rows.
  The second number is the share of rows that are right in all columns.
* **Proofs**: the solver proved that its result is optimal in {proven:.0%} of all runs.

{table}
"""
MEMBERSHIP = """## Membership

The attack uses the likelihood ratios of shadow models (Carlini et al. 2022).
The attacker reads the model's confidence and, for diprime, all noisy sums.

* **Worst case**: the record is the only one of its class and lies in a corner of the domain.
  The attacker knows the {others} other records.
* **Typical**: {typical} real records are attacked, in tables drawn from the same population.
* **Models**: this column is the number of shadow models with the record, and also the number without it.
  The attacks are on as many models, and on half as many for typical records.
* **Advantage**: the true-positive rate minus the false-positive rate, with its 95 % confidence interval.
  The guarantee allows at most (e^ε − 1)/(e^ε + 1), and 2Φ(μ/2) − 1 for boosting.
* **True positives**: the true-positive rate at a false-positive rate of {rate:.0%}, and its bound.
  In the worst case, ± precedes two standard errors.
* **Boosting** has δ = 1e-6 and {rounds} rounds.
* **One random tree** spends all of ε on the numbers that the attacker reads, so it shows how close the attack comes to
  the bound.

{table}
"""
LIBRARIES = """## Seeds and positions

The same code attacks both libraries at ε = 1.

* **Seeds**: the attacker searches the fitted model for seeds.
  With these seeds, the attacker fits again to the table with the record and to the table without it, and compares the
  models.
* **Positions**: the attack removes the first of ten rows with alternating classes.
  If a forest assigns rows to trees by position, every tree then gets a different row.
* **Lower bound of ε**: the guesses prove this bound with a confidence of 95 %.
  A bound above 1 contradicts the claim.

{table}
"""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def epsilon_text(epsilon: str) -> str:
    """Return an epsilon as people write it."""
    return "∞" if float(epsilon) == math.inf else f"{float(epsilon):g}"


def averages(lines: Sequence[Line]) -> dict[tuple[str, ...], dict[str, float]]:
    """Return the mean and the standard deviation of error and exact rows over repeats, by what was attacked and how."""
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        key = (line["table"], str(line["n_rows"]), line["forest"], line["epsilon"], line["attack"])
        groups.setdefault(key, []).append(line)
    return {
        key: {
            "error": float(np.mean([line["error"] for line in group])),
            "spread": float(np.std([line["error"] for line in group])),
            "exact": float(np.mean([line["exact"] for line in group])),
        }
        for key, group in groups.items()
    }


def _reconstruction(lines: Sequence[Line]) -> str:
    means = averages(lines)
    settings = list(dict.fromkeys(key[:2] for key in means))
    rows = []
    for what in dict.fromkeys(key[2:] for key in means):
        forest, epsilon, attack = what
        cells = [means[(*setting, *what)] for setting in settings]
        rows.append(
            ["–" if forest == "none" else forest, "–" if forest == "none" else epsilon_text(epsilon), attack]
            + [f"{cell['error']:.3f}, {cell['exact']:.0%}" for cell in cells]
        )
    head = ["forest", "ε", "attack or guess", *(f"{name}, {n} rows" for name, n in settings)]
    sizes = " or ".join(dict.fromkeys(n for _, n in settings))
    proven = [line["proven"] for line in lines if "proven" in line]
    return RECONSTRUCTION.format(
        sizes=sizes, repeats=1 + max(line["repeat"] for line in lines), proven=np.mean(proven), table=table(head, rows)
    )


def _with_error(line: Line) -> str:
    """Return the rate of true hits; in the worst case, where models are independent, with two standard errors.

    Both the rate itself and the rate of false hits, at which the threshold is set, are shares of as many models.
    """
    rate = f"{line['power']:.3f}"
    if line["record"] != "worst case":
        return rate
    variance = line["power"] * (1 - line["power"]) + FALSE_RATE * (1 - FALSE_RATE)
    return f"{rate} ± {2 * math.sqrt(variance / line['fits']):.3f}"


def _membership(lines: Sequence[Line]) -> str:
    rows = [
        [
            line["learner"],
            epsilon_text(line["epsilon"]),
            line["record"],
            f"{line['fits']}",
            f"{line['advantage']:.3f} ({line['low']:.3f} to {line['high']:.3f})",
            f"{line['bound']:.3f}",
            _with_error(line),
            f"{line['power_bound']:.3f}",
        ]
        for line in sorted(lines, key=lambda line: line["record"] != "worst case")
    ]
    head = ["learner", "ε", "record", "models", "advantage", "bound", "true positives", "bound"]
    return MEMBERSHIP.format(
        others=N_OTHERS, typical=N_TYPICAL, rate=FALSE_RATE, rounds=N_ROUNDS, table=table(head, rows)
    )


def _libraries(lines: Sequence[Line]) -> str:
    rows = [
        [
            line["attack"],
            line["forest"],
            f"{line['trials']}",
            f"{line['advantage']:.3f} ({line['low']:.3f} to {line['high']:.3f})",
            f"{line['epsilon_at_least']:.2f}",
        ]
        for line in lines
    ]
    return LIBRARIES.format(table=table(["attack", "forest", "models", "advantage", "lower bound of ε"], rows))


def report(lines: Lines) -> str:
    """Return the report of what was measured."""
    parts = {"reconstruction": _reconstruction, "membership": _membership, "libraries": _libraries}
    texts = [write(lines[name]) for name, write in parts.items() if name in lines]
    return "\n".join(["# Attacks", "", MEASURED, "", *texts])
