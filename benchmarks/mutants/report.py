"""The report of :mod:`benchmarks.mutants`."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.mutants.catalogue import Mutant
from benchmarks.mutants.results import Results
from benchmarks.mutants.running import Outcome

TEXT = """# Mutation tests

`python -m benchmarks.mutants --write` writes this report.
A mutant is a copy of diprime with one planted privacy bug, for example too little noise, an omitted charge, or a record
that counts twice.
The command plants each bug in a copy of the repository and runs tests until one fails, the nearest first.
That test must pass without the mutant.
Tests that only compare digests of seeded fits do not count, because any change breaks them.

**{caught} of {n} mutants are caught. {survived}**{missing}

{summary}
{areas}"""


def status_of(mutant: Mutant, outcome: Outcome | None, *, proven: bool) -> str:
    """Return what became of a mutant, in words."""
    if outcome is None:
        return "not run"
    if not outcome.caught_by:
        return f"no test: {mutant.harmless}" if mutant.harmless else "**NO TEST**"
    return f"`{outcome.caught_by.removeprefix('tests/')}`" + ("" if proven else " (**also fails without the mutant**)")


def is_caught(outcome: Outcome | None) -> bool:
    """Whether a mutant was run, and caught."""
    return outcome is not None and bool(outcome.caught_by)


def survivors(mutants: Sequence[Mutant], results: Results) -> list[Mutant]:
    """Return the mutants that were run and not caught, and for which there is no argument that they are harmless."""
    outcomes = [(mutant, results.outcome(mutant)) for mutant in mutants]
    return [m for m, outcome in outcomes if outcome is not None and not outcome.caught_by and not m.harmless]


def report(mutants: Sequence[Mutant], results: Results) -> str:
    """Return the report as Markdown."""
    outcomes = [results.outcome(mutant) for mutant in mutants]
    n_missing = outcomes.count(None)
    n_caught = sum(map(is_caught, outcomes))
    n_harmless = sum(
        o is not None and not o.caught_by and bool(m.harmless) for m, o in zip(mutants, outcomes, strict=True)
    )
    n_survivors = len(survivors(mutants, results))
    others = f"No {'other ' if n_harmless else ''}mutant that was run survives."
    survived = f"{n_survivors} survive." if n_survivors else others
    if n_harmless:
        survived = f"{n_harmless} are harmless, for the reasons below. {survived}"
    areas = list(dict.fromkeys(mutant.area for mutant in mutants))
    return TEXT.format(
        caught=n_caught,
        n=len(mutants),
        survived=survived,
        missing=f" {n_missing} were not run, or not against all tests." if n_missing else "",
        summary=_summary(areas, mutants, outcomes),
        areas="\n".join(_area(area, [m for m in mutants if m.area == area], results) for area in areas),
    )


def _summary(areas: Sequence[str], mutants: Sequence[Mutant], outcomes: Sequence[Outcome | None]) -> str:
    lines = ["| area | mutants | caught | median seconds |", "|---|---:|---:|---:|"]
    for area in areas:
        here = [outcome for mutant, outcome in zip(mutants, outcomes, strict=True) if mutant.area == area]
        seconds = sorted(outcome.seconds for outcome in here if outcome is not None)
        median = f"{seconds[len(seconds) // 2]:.0f}" if seconds else "–"
        lines.append(f"| {area} | {len(here)} | {sum(map(is_caught, here))} | {median} |")
    return "\n".join(lines) + "\n"


def _area(area: str, mutants: Sequence[Mutant], results: Results) -> str:
    lines = [f"## {area}", "", "| mutant | bug | caught by | seconds |", "|---|---|---|---:|"]
    for mutant in mutants:
        outcome = results.outcome(mutant)
        proven = outcome is None or not outcome.caught_by or results.passes_without(outcome.caught_by)
        cells = [mutant.name, mutant.breaks, status_of(mutant, outcome, proven=proven)]
        seconds = "–" if outcome is None else f"{outcome.seconds:.0f}"
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in (*cells, seconds)) + " |")
    return "\n".join(lines) + "\n"
