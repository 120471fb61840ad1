"""Commands that never write over their own inputs.

All commands are registered through `Commands`, so that all of them are checked, before they read anything. The
argument ``output`` of a command is its output; every other path is taken to be an input, so that a new option is safe
from the start.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from diprime.cli.data_files import InputError

OUTPUT = "output"


class Commands(typer.Typer):
    """Commands of the command line, each of which is refused if its output is one of its inputs."""

    def command(self, *arguments: Any, **options: Any) -> Callable[[Any], Any]:
        """Return a decorator that registers a function as a command."""
        register = super().command(*arguments, **options)
        return lambda function: register(_checked(function))


def _checked(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command that checks its paths first."""

    @wraps(function)
    def run(**values: Any) -> None:
        inputs = [path for name, value in values.items() if name != OUTPUT for path in _paths(value)]
        for output in _paths(values.get(OUTPUT)):
            refuse_inputs(output, inputs)
        _refuse_inputs_as_standard_output(inputs)
        function(**values)

    return run


def refuse_inputs(output: Path, inputs: list[Path]) -> None:
    """Raise an error if an output is one of the inputs, whatever the names or links that lead to it."""
    for path in inputs:
        if _is_same_file(_status(output), _status(path)):
            raise InputError(f"{output} is {_called(path, output)} that this command reads; write to another file.")


def _called(path: Path, output: Path) -> str:
    return "a file" if str(path) == str(output) else f"the file {path}"


def _refuse_inputs_as_standard_output(inputs: list[Path]) -> None:
    """Raise an error if standard output goes to an input: ``>`` has emptied it by then, ``>>`` would add to it."""
    try:
        written = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError):  # it is closed, or not a file
        return
    for path in inputs:
        if _is_same_file(written, _status(path)):
            raise InputError(f"Standard output goes to {path}, which this command reads; send it to another file.")


def _paths(value: Any) -> Iterator[Path]:
    for item in value if isinstance(value, list | tuple) else [value]:
        if isinstance(item, Path):
            yield item


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()  # follows links
    except (OSError, ValueError):  # there is no such file, or there cannot be one
        return None


def _is_same_file(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    """Return whether two files are the same regular one; a terminal may well be read and written."""
    if one is None or other is None or not stat.S_ISREG(one.st_mode):
        return False
    return os.path.samestat(one, other)
