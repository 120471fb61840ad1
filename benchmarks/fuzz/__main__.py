"""Malicious files from a fuzzer: ``python -m benchmarks.fuzz``.

Model files, domains, budgets, CSV and Parquet files are changed at random, guided by the coverage of the library's
Python code (atheris, ``pip install 'diprime[fuzz]'``), with lengths and checksums that fit. Each of them must be read,
or rejected in one sentence. An error of any other kind, a process that ends, more time or memory than the limits allow,
and an import, a compilation or a process that a file causes are findings; the command then fails. A minute of each kind
belongs to every release: ``--seconds 60``. Figures add up over runs until ``--fresh``; inputs that reach new code are
kept in ``benchmarks/cache/fuzz``, and so are findings.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import diprime
from benchmarks.fuzz.targets import REPORT_EVERY, TARGETS, USE_EVERY
from benchmarks.fuzz.watch import BASE_BYTES, BYTES_PER_BYTE, MAX_SECONDS, Figures
from benchmarks.paths import CACHE, RESULTS, ROOT

FOLDER = CACHE / "fuzz"
HEAD = """\
# Malicious files

`python -m benchmarks.fuzz` prints this report, last with diprime {version} on Python {python}.

* **Counts** add up over runs.
  They restart (`--fresh`) after a finding is fixed.
  The table states the date and commit of the last run of each kind.
* **Changes**: the fuzzer changes files byte by byte, or by structure, with matching lengths and checksums.
  The coverage of diprime's Python code guides the fuzzer; the coverage of compiled code does not.
* **Uses**: one of {use} accepted files is also used.
  The fuzzer also writes a report for one of {report} models, and drafts a domain for one of {report} tables.
* **Findings** are:
  * an error whose message is not one sentence,
  * the end of the process,
  * more than {seconds:g} s of processor time,
  * a memory peak that grows by more than {base} MiB and {times} times the file size,
  * an import, a compilation or a process that a file causes.

| files | inputs | accepted | rejected in one sentence | maximum processor time | peak memory | findings | last run |
|---|---|---|---|---|---|---|---|
"""
MAX_WORKER_SECONDS = 300  # then it is started anew: whatever leaks does not add up


def fuzz(kind: str, folder: Path, inputs: int, seconds: float) -> Figures:
    """Run workers until so many inputs have been tried or so many seconds have passed, zero meaning any number.

    The figures of all runs are written after each worker, so that a run can be interrupted.
    """
    total, end = Figures(), time.monotonic() + seconds if seconds else float("inf")
    path = folder / "total.json"
    earlier = json.loads(path.read_text()) if path.exists() else {}
    while (not inputs or total.inputs < inputs) and (left := end - time.monotonic()) > 1:
        (folder / "figures.json").unlink(missing_ok=True)
        arguments = [str(inputs and inputs - total.inputs), str(round(min(left, MAX_WORKER_SECONDS)))]
        command = [sys.executable, "-m", "benchmarks.fuzz.worker", kind, str(folder), *arguments]
        # One thread: files are small, and panics of several threads at once would be printed by each.
        environment = {**os.environ, "POLARS_MAX_THREADS": "1", "RUST_BACKTRACE": "0"}
        with (folder / "log").open("wb") as log:
            code = subprocess.run(
                command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False
            ).returncode
        if not (folder / "figures.json").exists():
            raise RuntimeError(f"The fuzzer did not start: see {folder / 'log'}.")
        add(total, json.loads((folder / "figures.json").read_text()))
        if code:
            note_end(total, folder, code)
        of_all = Figures(last_run=f"{time.strftime('%Y-%m-%d', time.gmtime())}, {_commit()}")
        add(of_all, asdict(total))
        add(of_all, earlier)
        path.write_text(json.dumps(asdict(of_all)))
    return total


def note_end(total: Figures, folder: Path, code: int) -> None:
    """Note that a file has ended the process."""
    text = (folder / "log").read_text(errors="replace")[-3000:]
    finding = {"times": 1, "text": text, "file": "crash-*"}
    add(total, {"inputs": 1, "findings": {f"the process ended with code {code}": finding}})


def add(total: Figures, more: dict[str, Any]) -> None:
    """Add figures to others."""
    for name in ("inputs", "read", "refused"):
        setattr(total, name, getattr(total, name) + more.get(name, 0))
    for name in ("seconds", "megabytes"):
        setattr(total, name, max(getattr(total, name), more.get(name, 0.0)))
    for place, finding in more.get("findings", {}).items():
        known = total.findings.setdefault(place, {**finding, "times": 0})
        known["times"] += finding["times"]


def report(figures: dict[str, dict[str, Any]]) -> str:
    """Return the table of all kinds of files."""
    head = HEAD.format(
        version=diprime.__version__,
        python=platform.python_version(),
        use=USE_EVERY,
        report=REPORT_EVERY,
        seconds=MAX_SECONDS,
        base=BASE_BYTES >> 20,
        times=BYTES_PER_BYTE,
    )
    rows = [
        f"| {kind} | {f['inputs']:,} | {f['read']:,} | {f['refused']:,} | "
        f"{f['seconds']:.2f} s | {f['megabytes']:.0f} MB | {len(f['findings'])} | "
        f"{f['last_run']} |"
        for kind, f in figures.items()
    ]
    return head + "\n".join(rows) + "\n"


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.fuzz")
    parser.add_argument("--kinds", nargs="+", choices=list(TARGETS), default=list(TARGETS), metavar="KIND")
    parser.add_argument("--inputs", type=int, default=0, help="how many files of each kind; any number by default")
    parser.add_argument("--seconds", type=float, default=0, help="how long for each kind; 60 if no number is given")
    parser.add_argument("--fresh", action="store_true", help="forget the figures and inputs of earlier runs")
    parser.add_argument("--write", action="store_true", help="keep the report in benchmarks/results")
    options = parser.parse_args()
    seconds = options.seconds or (0 if options.inputs else 60)
    for kind in options.kinds:
        folder = FOLDER / kind
        if options.fresh:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        fuzz(kind, folder, options.inputs, seconds)
    kept = {kind: FOLDER / kind / "total.json" for kind in TARGETS}
    figures = {kind: json.loads(path.read_text()) for kind, path in kept.items() if path.exists()}
    text = report(figures)
    print(text)
    if options.write:
        (RESULTS / "fuzz.md").write_text(text)
    findings = [f"{kind}: {place}\n{f['text']}" for kind in figures for place, f in figures[kind]["findings"].items()]
    if findings:
        sys.exit("\n".join(findings))


if __name__ == "__main__":
    main()
