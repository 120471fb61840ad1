"""The report of :mod:`benchmarks.audit`, and the file of its numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.audit.measuring import Bound, Claim, Result
from benchmarks.utility.scores import table

TEXT = """# Audit of ε

Made by `python -m benchmarks.audit --write`, last on {date}, with diprime {version}: {fits:,} fits of {n} settings in
{minutes:.0f} minutes of one process. Each row has the commit of the library that it was measured at; `--fresh`, before
a release, measures all of them at one. `--scale` sets the numbers of fits, which are in the tables: more of them bring
bounds closer to the truth.

Two neighbouring tables, with a canary and without, are fitted many times. A quarter of the fits of each table is
learnt from, another quarter chooses an event, and the other half counts how often it happens. The bounds are those of
Clopper and Pearson, and all bounds of a row hold together with a confidence of {confidence}. *Model* is what is in the
file of a model; *transcript* is everything that was released for it. Events are thresholds of single released numbers,
of a logistic regression and of boosted trees on all of them, and of the *exact loss*: the logarithm of how much
likelier the transcript is with the canary, computed from the exact distributions of all releases.

**A bound above the claim refutes the claim. {verdict}**

A bound below the claim shows no more than itself. "Reached" is the power of the audit: where half is reached, a fit has
to cost about twice its claim to be noticed. The largest exact loss that was seen says how much of ε the canary makes
use of, whether or not so many fits are enough to see it.

## Pure ε

{pure}
"Splits": they get {splits} of ε. "Window": its quantiles get 0.96 of ε, and those of nodes half of that. No record
changes both quantiles of a window as far as is charged for each, so that no canary makes use of all of their ε.

## Gaussian releases

δ is that at half of the claimed ε.

{gaussian}
## Controls

Each of these is broken on purpose, outside of the library, and must be caught.

{controls}
What the audit does not try: time and memory, messages, other neighbours than these, more rows, more trees and deeper
ones, attackers who choose what is asked next.
"""


@dataclass(frozen=True)
class Run:
    """Results, and how they came about.

    Attributes
    ----------
    date, version : str
        When it was last added to, and of which version.
    results : tuple of Result
        The results.
    """

    date: str
    version: str
    results: tuple[Result, ...]

    def save(self, path: Path) -> None:
        """Write the numbers."""
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Run:
        """Read the numbers."""
        data = json.loads(path.read_text(encoding="utf-8"))
        return cls(data["date"], data["version"], tuple(_result(r) for r in data["results"]))

    def with_result(self, result: Result) -> Run:
        """Return a run with one more result, in place of an earlier one of the same."""
        return replace(self, results=(*(r for r in self.results if r.key != result.key), result))

    def in_order(self, names: Sequence[tuple[str, str, str]]) -> Run:
        """Return a run with its results in the order of names: of what is broken, the case and the neighbours."""
        known = [result for result in self.results if result.name in names]
        return replace(self, results=tuple(sorted(known, key=lambda r: (names.index(r.name), r.claim.epsilon))))


def _result(data: dict[str, Any]) -> Result:
    bounds = tuple(Bound(**{**bound, "seen": tuple(bound["seen"])}) for bound in data["bounds"])
    return Result(**{**data, "claim": Claim(**data["claim"]), "bounds": bounds})


def _best(result: Result, measure: str, source: str | None = None) -> Bound:
    """Return the largest bound of a measure, by whatever the attacker sees, or by one source."""
    found = [b for b in result.bounds if b.measure == measure and source in (None, b.source)]
    return max(found, key=lambda bound: bound.value)


def _epsilon_text(claim: Claim) -> str:
    return f"{claim.epsilon:.3g}"


def pure_row(result: Result) -> list[str]:
    """Return the row of an audit of ε."""
    best = _best(result, "ε")
    loss = "–" if result.largest_loss is None else f"{result.largest_loss:.2f}"
    return [
        result.case,
        result.neighbours,
        _epsilon_text(result.claim) + (f", δ = {result.claim.delta:.2g}" if result.claim.delta else ""),
        *(f"{_best(result, 'ε', source).value:.2f}" for source in ("model", "transcript")),
        f"{best.value / best.claim:.0%}",
        loss,
        best.event,
        f"{result.fits:,}",
        result.commit,
    ]


def gaussian_row(result: Result) -> list[str]:
    """Return the row of an audit of μ and δ."""
    best, delta = _best(result, "μ"), _best(result, "δ")
    return [
        result.case,
        result.neighbours,
        f"{_epsilon_text(result.claim)}, {result.claim.delta:.2g}",
        f"{best.claim:.3f}",
        *(f"{_best(result, 'μ', source).value:.3f}" for source in ("model", "transcript")),
        f"{best.value / best.claim:.0%}",
        f"{delta.claim:.4f}",
        f"{delta.value:.4f}",
        best.event,
        f"{result.fits:,}",
        result.commit,
    ]


def control_row(result: Result) -> list[str]:
    """Return the row of a control."""
    best = max(result.bounds, key=lambda bound: bound.value / bound.claim)
    return [
        result.control,
        result.case,
        result.neighbours,
        f"{best.measure} = {best.claim:.3g}",
        f"{best.value:.2f}",
        f"{best.source}: {best.event.removeprefix(best.source + ', ')}",
        f"{result.fits:,}",
        result.commit,
        "yes" if result.exceeds else "**NO**",
    ]


def verdict(results: Sequence[Result]) -> str:
    """Return in one sentence what was found."""
    honest, controls = [r for r in results if not r.control], [r for r in results if r.control]
    refuted, caught = sum(r.exceeds for r in honest), sum(r.exceeds for r in controls)
    return f"{refuted} of {len(honest)} claims are refuted; {caught} of {len(controls)} controls are caught."


def report(run: Run, splits: float) -> str:
    """Return the report as Markdown."""
    honest = [result for result in run.results if not result.control]
    errors = {result.error for result in run.results}
    head = ["what", "neighbours differ by", "claimed ε"]
    both = ["lower bound, model", "lower bound, transcript", "reached"]
    deltas = ["claimed δ", "lower bound of δ"]
    end = ["event", "fits a side", "commit"]
    broken = ["broken", "what", "neighbours differ by", "claimed", "lower bound", *end, "caught"]
    return TEXT.format(
        date=run.date,
        version=run.version,
        n=len(run.results),
        fits=sum(2 * result.fits for result in run.results),
        minutes=sum(result.seconds for result in run.results) / 60,
        confidence=" and ".join(f"{100 * (1 - error):.6g} %" for error in sorted(errors)),
        verdict=verdict(run.results),
        splits=splits,
        pure=table(
            [*head, *both, "largest exact loss", *end],
            [pure_row(result) for result in honest if not result.claim.mu],
        ),
        gaussian=table(
            [*head[:2], "claimed ε, δ", "claimed μ", *both, *deltas, *end],
            [gaussian_row(result) for result in honest if result.claim.mu],
        ),
        controls=table(broken, [control_row(result) for result in run.results if result.control]),
    )
