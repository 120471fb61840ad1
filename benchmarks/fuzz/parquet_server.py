"""The process behind :mod:`benchmarks.fuzz.shared_child`, which does with many files what the child of a file does.

It is run as a script, so that it imports polars and nothing of the library. A line of JSON on standard input, a number,
a file and its limits, begins a file, and the next line is the request that its child waits for. A line that it writes
has the number, what the child writes or a word, and the processor time so far. Where a file ends the process, another
one goes on.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import sys
import time
from typing import Any

BEGUN, FAILED, ENDED = "begun", "failed", "ended"
"""That a file is read, that an error ends its child, and that anything else has ended the process."""


def serve(child: Any, memory: int, import_path: list[str]) -> None:
    """Read files until standard input ends."""
    import polars as pl

    child.begin(memory, import_path)

    def tell(number: int, answer: object) -> None:
        print(number, answer, time.process_time(), flush=True)

    # Nothing is read ahead: it would be lost with the process.
    lines = io.FileIO(0)
    while line := lines.readline():
        number, file, limits = json.loads(line)
        tell(number, BEGUN)
        try:
            for answer in child.numbers(file, limits, lambda: lines.readline().decode()):
                tell(number, answer)
        except (Exception, pl.exceptions.PanicException):  # noqa: BLE001 -- anything ends a child
            tell(number, FAILED)


def main(path_of_child: str, import_path: str, memory: str) -> None:
    """Let processes serve, one after the other."""
    spec = importlib.util.spec_from_file_location("parquet_child", path_of_child)
    assert spec is not None
    assert spec.loader is not None
    child = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(child)
    sys.path[:] = json.loads(import_path)
    import polars  # noqa: F401 -- once, and not in each process; its threads begin with the first file

    while True:
        process = os.fork()
        if not process:
            serve(child, int(memory), sys.path)
            os._exit(0)
        if os.waitpid(process, 0)[1] == 0:
            return
        print(ENDED, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
