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

MEASURED = """Measured by `python -m benchmarks.attacks --write`. With `--scale`, there are fewer draws and models than
by default; the tables state how many there were."""
RECONSTRUCTION = """## Reconstruction

The attack of Gorgé, Ferry, Gambs and Vidal (SaTML 2026): a constraint solver (CP-SAT) looks for the training table that
makes the published counts of a forest's leaves most likely. Ten columns of real tables, each above its median or not,
and the class; {sizes} rows. Draws of each: {repeats}. The attacker knows the columns, the number of rows, the noise,
and the noisy sums of the leaves before they are shrunk. With the population known, he knows besides how frequent each
possible row is among all other rows of the table. The first number is the share of wrong values after the best matching
of rows, the second the share of rows that are right in all columns. The solver proved its result the best in
{proven:.0%} of all runs.

{table}
"""
MEMBERSHIP = """## Membership

Likelihood ratios of shadow models (Carlini et al. 2022). *Worst case*: the only record of its class, in a corner of the
domain; the attacker knows the {others} others. *Typical*: {typical} real records, in tables drawn from the same
population. The attacker reads the model's confidence and, of ours, all noisy sums. Advantage is the rate of true hits
less that of false ones, with its 95 % confidence interval, beside the largest that the guarantee allows:
(e^ε − 1)/(e^ε + 1), for boosting 2Φ(μ/2) − 1. The last columns are true hits at {rate:.0%} false ones, in the worst
case with two standard errors. *Models* is the number of shadow models with the record, and of those without, and the
same numbers are attacked (of typical records, half as many). Boosting has δ = 1e-6 and {rounds} rounds. *One random
tree* spends all of ε on the numbers that the attack reads: it shows how close the attack comes to the bound.

{table}
"""
LIBRARIES = """## Seeds and positions

The same code against both libraries, at ε = 1. *Seeds*: look for seeds in the fitted model, fit again with them to the
table with the record and to the table without, and compare. *Positions*: take away the first of ten rows with
alternating classes, so that in a forest that deals rows to trees by position, every tree gets another row. "ε at least"
is what the guesses prove, with 95 % confidence; more than 1 contradicts the claim.

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
    head = ["learner", "ε", "record", "models", "advantage", "at most", "true hits", "at most"]
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
    return LIBRARIES.format(table=table(["attack", "forest", "models", "advantage", "ε at least"], rows))


def report(lines: Lines) -> str:
    """Return the report of what was measured."""
    parts = {"reconstruction": _reconstruction, "membership": _membership, "libraries": _libraries}
    texts = [write(lines[name]) for name, write in parts.items() if name in lines]
    return "\n".join(["# Attacks", "", MEASURED, "", *texts])
