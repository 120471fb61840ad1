"""Arguments and options that several commands share, and what goes with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from diprime.cli.data_files import InputError
from diprime.cli.shell import print_json, print_note


def examples(*commands: str) -> str:
    """Return the examples of a command, for the end of its help."""
    lines = "\n".join(f"$ {command}" for command in commands)
    return f"**Examples**\n\n```\n{lines}\n```"


def refuse_dash(output: Path) -> Path:
    """Refuse the name of standard output in other programs; here it would be the name of a file."""
    if str(output) == "-":
        raise typer.BadParameter("give the name of a file; where there is one, standard output is /dev/stdout")
    return output


DataPath = Annotated[Path, typer.Argument(metavar="DATA", help="A CSV file with a header, or a Parquet file.")]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")]
DomainPath = Annotated[Path, typer.Option("--domain", "-d", metavar="FILE", help="The domain: a TOML or JSON file.")]
OutputPath = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="FILE", callback=refuse_dash, help="Where to write; replaced if it exists."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
EpsilonOption = Annotated[
    float, typer.Option("--epsilon", "-e", metavar="NUMBER", help="The privacy budget; smaller is more private.")
]


def check_folder(output: Path) -> None:
    """Raise an error if the folder of the output does not exist; called before a fit, not after it."""
    if not output.parent.is_dir():
        raise InputError(f"{output} cannot be written: there is no folder {output.parent}.")


def confirm_written(output: Path, as_json: bool, **content: Any) -> None:
    """Say what was written, as JSON if that is wanted."""
    if as_json:
        print_json(content)
    else:
        print_note(f"Written to {output}.")
