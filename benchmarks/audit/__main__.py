"""An audit of epsilon that anybody can run: ``python -m benchmarks.audit``.

It takes about three quarters of an hour of one core, or with ``--quick`` a minute, and ends with an error if a claim is
refuted or a control is not caught. With ``--write``, earlier results are kept, each with its commit, and replaced one
by one, so a run can be interrupted; ``--fresh`` forgets them. Random bits come from the operating system, so every run
is another experiment.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.audit.cases import ALMOST_ALL, Case, all_cases, quick_cases
from benchmarks.audit.controls import all_controls, quick_controls
from benchmarks.audit.measuring import Result, audit
from benchmarks.audit.report import Run, control_row, gaussian_row, pure_row, report, verdict
from benchmarks.paths import RESULTS, ROOT
from diprime import __version__

ERROR = 1e-3  # of all bounds of a case together
QUICK_ERROR = 1e-6  # nobody should see a false alarm of a check that runs often


def keys(seed: int | None) -> Callable[[], bytes]:
    """Return a source of keys: the operating system, or a generator for runs that can be repeated."""
    if seed is None:
        return lambda: os.urandom(32)
    generator = np.random.default_rng(seed)
    return lambda: generator.bytes(32)


def commit() -> str:
    """Return the commit that is audited: the last that changed the library."""
    of = ["--", "src"]
    try:
        name = _git("log", "-1", "--format=%h", *of)
        return name + (", with changes" if _git("status", "--porcelain", *of) else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def line(result: Result) -> str:
    """Return one line about a result."""
    if result.control:
        return " | ".join(control_row(result))
    return " | ".join(gaussian_row(result) if result.claim.mu else pure_row(result))


def planned(*, quick: bool) -> list[tuple[str, Case]]:
    """Return what is to be audited: controls by what is broken, and cases of the library as it is."""
    cases, controls = (quick_cases(), quick_controls()) if quick else (all_cases(), all_controls())
    return [*((control.name, control.case) for control in controls), *(("", case) for case in cases)]


def _begun(*, fresh: bool) -> Run:
    """Return the run that is written to: the last, unless it was of another version, or a new one."""
    run = Run(f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}", __version__, ())
    path = RESULTS / "audit.json"
    earlier = run if fresh or not path.exists() else Run.load(path)
    return replace(run, results=earlier.results) if earlier.version == run.version else run


def _write(run: Run) -> None:
    """Write the results, in the order of the full table, and without those of settings that there are no more."""
    run = run.in_order([(control, case.name, case.neighbours.name) for control, case in planned(quick=False)])
    run.save(RESULTS / "audit.json")
    (RESULTS / "audit.md").write_text(report(run, ALMOST_ALL), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python -m benchmarks.audit"
    )
    parser.add_argument("--quick", action="store_true", help="a minute: few fits of a few settings and controls")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/audit.md and audit.json")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--part", choices=["claims", "controls"], help="only claims, or only controls")
    parser.add_argument("--only", default="", metavar="TEXT", help="only settings with this in their name")
    parser.add_argument("--scale", type=float, default=1.0, help="multiply the number of fits (default: 1)")
    parser.add_argument("--confidence", type=float, help="of the bounds of one setting")
    parser.add_argument("--seed", type=int, help="for runs that can be repeated (default: fresh bits)")
    options = parser.parse_args()
    if options.quick and options.write:
        parser.error("the table is not written from a quick run; leave out --quick or --write")
    error = 1 - options.confidence if options.confidence else QUICK_ERROR if options.quick else ERROR
    source = keys(options.seed)
    results: list[Result] = []
    run, of_commit = (_begun(fresh=options.fresh) if options.write else None), commit()
    for control, case in planned(quick=options.quick):
        part = "controls" if control else "claims"
        if options.part in (None, part) and options.only in f"{control} {case.name}":
            found = audit(case, round(options.scale * case.fits), error, source, control)
            results.append(replace(found, commit=of_commit))
            print(line(results[-1]), flush=True)
            if run is not None:
                run = run.with_result(results[-1])
                _write(run)
    print(verdict(results))
    sys.exit(0 if all(result.passes for result in results) else 1)


if __name__ == "__main__":
    main()
