"""The options about persons who have several records, which the commands that fit share."""

from __future__ import annotations

from typing import Annotated

import typer

from diprime.cli.data_files import DataFile, InputError, person_columns
from diprime.domain import Domain
from diprime.domain.persons import MAX_RECORDS

PersonOption = Annotated[
    str | None,
    typer.Option(
        "--person",
        metavar="COLUMN",
        help="The column that says who a record belongs to: all of a person's records are then protected together.",
    ),
]
MaxRecordsOption = Annotated[
    int,
    typer.Option(
        "--max-records",
        min=1,
        max=MAX_RECORDS,
        help="How many records of a person are used at most; of more, a random choice.",
    ),
]


def check_person(file: DataFile, domain: Domain, person: str | None, max_records: int = 1) -> list[str]:
    """Return the columns to read for the sake of persons; raise an error if the options do not fit together."""
    if person is None and max_records > 1:
        raise InputError(f"--max-records {max_records} needs --person COLUMN, to tell whose records they are.")
    return person_columns(file, domain, person)
