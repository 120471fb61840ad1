"""The command line: what an analyst with a CSV needs, without Python."""

from __future__ import annotations

import importlib.util
import io
import sys

_NEEDED = ("typer", "rich", "polars")


def main() -> None:
    """Run the command line; the entry point of the package."""
    if any(importlib.util.find_spec(name) is None for name in _NEEDED):
        print("diprime: the command line is not installed; run pip install 'diprime[cli]'.", file=sys.stderr)
        sys.exit(1)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # domains are UTF-8 wherever they are drafted
            stream.reconfigure(encoding="utf-8")
    try:
        from diprime.cli.app import app
    except KeyboardInterrupt:  # importing takes long enough to change one's mind
        sys.exit(130)
    app(prog_name="diprime")
