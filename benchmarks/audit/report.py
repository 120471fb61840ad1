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

`python -m benchmarks.audit --write` writes this report, last on {date} with diprime {version}.
The audit made {fits:,} fits of {n} settings in {minutes:.0f} minutes of one process.
Each row states the commit that was audited; before a release, `--fresh` audits all settings at one commit.
`--scale` changes the numbers of fits, and more fits bring the bounds closer to the truth.

**A lower bound above the claim refutes the claim. {verdict}**

* **Method**: the audit fits two neighbouring tables many times, one with a canary and one without.
  It trains the attacker on a quarter of the fits of each table and chooses an event with another quarter.
  The other half of the fits counts how often the event occurs.
* **Bounds**: the method is Clopper and Pearson's.
  All bounds of a row hold simultaneously with a confidence of {confidence}.
  A bound below the claim proves no more than this bound.
* **Attacker**: the *model* is the content of the model file, and the *transcript* contains all releases of the fit.
* **Events**: an event occurs if a statistic exceeds a threshold.
  The statistic is a single number, the output of a logistic regression or of boosted trees on all numbers, or the exact
  loss.
  The *exact loss* is the log-likelihood ratio of the transcript with and without the canary, from the exact
  distributions of all releases.
* **Share reached**: this column is the lower bound divided by the claim, and measures the power of the audit.
  At one half, the audit detects a fit that costs about twice its claim.
* **Largest exact loss**: this column shows how much of ε the canary uses, even if the fits are too few to detect it.

## Pure ε

{pure}
In settings named *splits*, the splits get {splits} of ε.
In settings named *clipping range*, its quantiles get 0.96 of ε, and the quantiles of nodes get half of that.
No record changes both quantiles of a clipping range by as much as each is charged for.
Therefore no canary uses all of their ε.

## Gaussian releases

The claimed δ and its lower bound are those at half of the claimed ε.

{gaussian}
## Controls

Each control is broken on purpose, outside the library, and must be caught.

{controls}
## Limits

The audit does not cover time and memory, messages, other neighbours, more rows, more or deeper trees, and attackers who
choose their queries adaptively.
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
    head = ["setting", "neighbours differ by", "claimed ε"]
    both = ["lower bound, model", "lower bound, transcript", "share reached"]
    deltas = ["claimed δ", "lower bound of δ"]
    end = ["event", "fits per table", "commit"]
    broken = ["broken", "setting", "neighbours differ by", "claimed", "lower bound", *end, "caught"]
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
