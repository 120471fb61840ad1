"""Plant privacy bugs in a copy of the library, and see which test notices each: ``python -m benchmarks.mutants``.

The bugs are in ``benchmarks/mutants/patches``. Outcomes are kept in ``benchmarks/results/mutants.jsonl``, and only
those are made that are missing or whose source or test has changed, so a run can be interrupted at any time. It ends
with an error if a mutant survives without an argument why it is harmless.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from benchmarks.mutants.catalogue import Mutant, PatchError, read_catalogue, select, source_of
from benchmarks.mutants.choosing_tests import TestChooser
from benchmarks.mutants.copies import BuildError, Copy
from benchmarks.mutants.report import report, status_of, survivors
from benchmarks.mutants.results import Results
from benchmarks.mutants.running import MutantError, face_tests, run_tests
from benchmarks.paths import RESULTS, ROOT

PATH = RESULTS / "mutants.jsonl"
_CHECK_MINUTES = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    catalogue = read_catalogue()
    try:
        chosen = select(catalogue, options.only)
        for mutant in catalogue:
            mutant.applied(source_of(mutant))  # a patch that does not fit is found before anything is run
    except PatchError as error:
        print(error, file=sys.stderr)
        return 2
    if options.fresh:
        PATH.unlink(missing_ok=True)
    results = Results(PATH)
    deadline = time.monotonic() + 60 * options.minutes
    missing = [mutant for mutant in chosen if results.outcome(mutant) is None]
    n_errors = face_all(missing, results, options, deadline)
    results.tidy(catalogue)
    if options.write:
        (RESULTS / "mutants.md").write_text(report(catalogue, results), encoding="utf-8")
    alive = survivors(chosen, results)
    not_run = sum(results.outcome(mutant) is None for mutant in chosen)
    print(f"{len(chosen)} mutants: {len(alive)} survive, {not_run} were not run.")
    return 1 if alive or n_errors or results.unproven(chosen) else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python -m benchmarks.mutants"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="AREA[/NAME]", help="these areas or mutants only")
    parser.add_argument("--jobs", type=int, default=1, help="how many copies to run tests in at a time (default: 1)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start nothing new after this many minutes")
    parser.add_argument(
        "--near", action="store_true", help="run the nearest tests alone, and leave what they miss to another run"
    )
    parser.add_argument("--fresh", action="store_true", help="make all outcomes again")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/mutants.md")
    return parser.parse_args(arguments)


def face_all(mutants: Sequence[Mutant], results: Results, options: argparse.Namespace, deadline: float) -> int:
    """Let mutants face the tests, and check that the tests which caught one pass without it; count what went wrong."""
    if not mutants and not results.unproven(read_catalogue()):
        return 0
    chooser, copies = TestChooser(ROOT), SimpleQueue[Copy]()
    with tempfile.TemporaryDirectory(prefix="mutants_") as folder:
        for i in range(options.jobs):
            copies.put(Copy(Path(folder) / str(i)))

        def face(mutant: Mutant) -> bool:
            if time.monotonic() > deadline:
                return True
            copy, stages = copies.get(), chooser.stages(mutant)
            try:
                outcome = face_tests(mutant, copy, stages[:1] if options.near else stages)
                if outcome.caught_by or not options.near:
                    results.add(mutant, outcome, copy.root)
            except (MutantError, BuildError) as error:
                print(f"{mutant.title}: {error}", flush=True)
                return False
            finally:
                copies.put(copy)
            print(f"{mutant.title}: {status_of(mutant, outcome, proven=True)} ({outcome.seconds:.0f} s)", flush=True)
            return True

        with ThreadPoolExecutor(options.jobs) as pool:
            n_errors = list(pool.map(face, mutants)).count(False)
        return n_errors + check_without_mutants(copies.get(), results)


def check_without_mutants(copy: Copy, results: Results) -> int:
    """Run the tests that caught mutants in the copy without any; return how many fail."""
    tests = results.unproven(read_catalogue())
    if not tests:
        return 0
    failing = set(run_tests(copy.root, tests, ["-m", ""], 60 * _CHECK_MINUTES))
    results.add_passing((test for test in tests if test not in failing), copy.root)
    for test in sorted(failing):
        print(f"{test} fails without a mutant as well, so it has caught none.", flush=True)
    return len(failing)


if __name__ == "__main__":
    sys.exit(main())
