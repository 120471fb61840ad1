"""Time of a fit with many classes, before and after: ``python -m benchmarks.speed.many_classes --before COMMIT``.

The table has 494,021 rows, 40 features and 23 classes (:mod:`benchmarks.intrusions`). Fits are seeded, and a digest of
the trees tells whether both versions release the same. Each fit is timed in a process of its own, and the versions take
turns; the one before is installed from its commit into a temporary folder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from benchmarks import intrusions
from benchmarks.paths import RESULTS, ROOT
from benchmarks.speed.measuring import n_cores


def time_fit(rows: int) -> dict[str, Any]:
    """Return the seconds of a seeded fit in this process, and a digest of what it released."""
    from diprime import DiPriMeClassifier, PrivacyWarning

    warnings.simplefilter("ignore", PrivacyWarning)
    X, y = intrusions.draw(rows, 0)
    start = time.perf_counter()
    forest = DiPriMeClassifier(1.0, intrusions.domain(), random_state=0).fit(X, y).forest_
    seconds = time.perf_counter() - start
    digest = hashlib.sha256(b"".join(array.tobytes() for array in forest.arrays)).hexdigest()
    return {"seconds": seconds, "digest": digest[:16], "trees": repr(forest)}


def in_process(folder: Path, rows: int) -> dict[str, Any]:
    """Time a fit of the package in a folder, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    command = [sys.executable, "-m", "benchmarks.speed.many_classes", "--time-fit", "--rows", str(rows)]
    done = subprocess.run(command, env=environment, cwd=folder, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def install(commit: str, folder: Path) -> None:
    """Install the package as it is at a commit."""
    source = f"git+{ROOT.as_uri()}@{commit}"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "-t", folder, source], check=True)


def report(folders: dict[str, Path], rows: int, rounds: int) -> str:
    """Time the versions in turns, and return a table."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in folders}
    for _ in range(rounds):
        for name, folder in folders.items():
            found[name].append(in_process(folder, rows))
    best = {name: min(fit["seconds"] for fit in fits) for name, fits in found.items()}
    first = next(iter(best.values()))
    return "\n".join(
        [
            "# Speed with many classes",
            "",
            "`python -m benchmarks.speed.many_classes` prints this report.",
            f"The synthetic table has {rows:,} rows, {intrusions.N_FEATURES} features and {len(intrusions.SIZES)} "
            "classes, and the forest has ε = 1.",
            f"The machine has {n_cores()} cores and a load of {os.getloadavg()[0]:.1f}.",
            f"Times are the best of {rounds} rounds, in which the versions take turns.",
            "",
            "| version | seconds | speed-up | digest of the trees |",
            "|---|---|---|---|",
            *(f"| {n} | {s:.2f} | {first / s:.1f} | {found[n][0]['digest']} |" for n, s in best.items()),
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.speed.many_classes")
    parser.add_argument("--before", metavar="COMMIT", help="also time the package as it is at this commit")
    parser.add_argument("--rows", type=int, default=sum(intrusions.SIZES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="keep the report in benchmarks/results")
    parser.add_argument("--time-fit", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.time_fit:
        print(json.dumps(time_fit(options.rows)))
        return
    with tempfile.TemporaryDirectory() as folder:
        folders = {"now": ROOT / "src"}
        if options.before is not None:
            install(options.before, Path(folder))
            folders = {f"before ({options.before})": Path(folder), **folders}
        text = report(folders, options.rows, options.rounds)
    print(text)
    if options.write:
        (RESULTS / "speed_many_classes.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
