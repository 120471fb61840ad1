"""The arguments and options that many commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from diprime.cli.data_files import InputError
from diprime.cli.number_options import read_number


def refuse_dash(output: Path) -> Path:
    """Return the path of an output; refuse the one that means standard output in other programs."""
    if str(output) == "-":  # here it would be the name of a file
        raise typer.BadParameter("give the name of a file; where there is one, standard output is /dev/stdout")
    return output


DataPath = Annotated[Path, typer.Argument(metavar="DATA", help="A CSV file with a header, or a Parquet file.")]
DataPattern = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help="A CSV file with a header, a Parquet file, or a pattern such as 'data/*.parquet'."
    ),
]
ScratchOption = Annotated[
    Path | None,
    typer.Option(
        "--scratch", metavar="FOLDER", help="Keep the codes of the records in files there, rather than in memory."
    ),
]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")]
DomainPath = Annotated[Path, typer.Option("--domain", "-d", metavar="FILE", help="The domain: a TOML or JSON file.")]
OutputPath = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="FILE", callback=refuse_dash, help="Where to write; replaced if it exists."),
]
EpsilonOption = Annotated[
    float,
    typer.Option(
        "--epsilon",
        "-e",
        metavar="NUMBER",
        parser=read_number,
        help="The privacy budget; smaller is more private.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def check_folder(output: Path) -> None:
    """Raise an error if an output cannot be written, as far as can be told; called before anything is paid for."""
    if not output.parent.is_dir():
        raise InputError(f"{output} cannot be written: there is no folder {output.parent}.")
    if output.is_dir():
        raise InputError(f"{output} cannot be written: it is a folder; give the name of a file.")
    # A file is replaced by another one in its folder; pipes and devices are written to directly.
    direct = output.exists() and (not output.is_file() or output.parent == Path("/dev"))
    if not direct and not os.access(folder := Path(os.path.realpath(output)).parent, os.W_OK | os.X_OK):
        raise InputError(f"{output} cannot be written: you may not write to the folder {folder}.")
