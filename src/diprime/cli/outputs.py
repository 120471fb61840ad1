"""Commands that never write over their own inputs.

All commands are registered through `Commands`, so that all of them are checked, before they read anything. The
argument ``output`` of a command is its output; every other path is taken to be an input, or a pattern of inputs, so
that a new option is safe from the start. So is the signature beside a model, for commands that check it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from diprime._util.regular_file import is_same_file, status_of
from diprime.cli.data_files import InputError
from diprime.cli.record_files import matches
from diprime.model.signatures import signature_path

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
        if "public_key" in values:  # what checks a signature reads it, where no option says so either
            inputs.append(signature_path(values["model_path"], values.get("signature")))
        if isinstance(values.get(OUTPUT), Path):
            refuse_inputs(values[OUTPUT], inputs)
        _refuse_inputs_as_standard_output(inputs)
        function(**values)

    return run


def refuse_inputs(output: Path, inputs: list[Path]) -> None:
    """Raise an error if an output is one of the inputs, whatever the names or links that lead to it."""
    for path in inputs:
        if is_same_file(status_of(output), status_of(path)):
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
        if is_same_file(written, status_of(path)):
            raise InputError(f"Standard output goes to {path}, which this command reads; send it to another file.")


def _paths(value: Any) -> Iterator[Path]:
    for item in value if isinstance(value, list | tuple) else [value]:
        if isinstance(item, Path):
            yield from matches(item)
