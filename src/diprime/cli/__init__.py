"""Command line for CSV and Parquet files. The docstrings of commands are their help texts."""

from __future__ import annotations

import importlib.util
import io
import sys

from diprime._util import exit_on_interrupt, raise_on_interrupt

_REQUIRED = ("typer", "rich", "pyarrow")


def main() -> None:
    """Run the command line."""
    exit_on_interrupt()
    if any(importlib.util.find_spec(name) is None for name in _REQUIRED):
        print("diprime: the command line is not installed. Run pip install 'diprime[cli]'.", file=sys.stderr)
        sys.exit(1)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # domain files are UTF-8 in every locale
            stream.reconfigure(encoding="utf-8")
    from diprime.cli.app import app

    raise_on_interrupt()
    app(prog_name="diprime")
