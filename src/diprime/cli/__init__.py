"""The command line, for analysts who have a CSV or Parquet file and do not write Python.

- `app`: the command line as a whole;
- `commands`: the commands, a module for each concern;
- `options`, `boosting_options`, `budget_options`, `number_options`, `person_options`, `setting_options`,
  `signature_options`: the options that commands share;
- `model_facts`: what commands tell scripts of a model;
- `shell`: what all commands share: output, errors, progress bars, signals and exit codes;
- `outputs`: commands that never write over their own inputs;
- `data_files`: CSV and Parquet files, read in batches, and files of domains;
- `record_files`, `reading`: records in several files, for commands and for Python;
- `parquet_file`, `parquet_child`: Parquet files, which a child process reads;
- `text_values`: text as values of a domain;
- `learning`: a domain learnt privately (``diprime domain learn``);
- `drafting`: a first draft of a domain, read from the data (``diprime domain draft``);
- `checking`: how much of a table lies outside its domain (``diprime domain check``);
- `planning`: simulated fits, without data (``diprime plan``);
- `demo_data`: synthetic people (``diprime demo``).
"""

from __future__ import annotations

import importlib.util
import io
import sys

_REQUIRED = ("typer", "rich", "polars")


def main() -> None:
    """Run the command line; the entry point of the package."""
    if any(importlib.util.find_spec(name) is None for name in _REQUIRED):
        print("diprime: the command line is not installed; run pip install 'diprime[cli]'.", file=sys.stderr)
        sys.exit(1)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a domain file is UTF-8, whatever the locale
            stream.reconfigure(encoding="utf-8")
    try:
        from diprime.cli.app import app
    except KeyboardInterrupt:  # the imports take seconds
        sys.exit(130)
    app(prog_name="diprime")
