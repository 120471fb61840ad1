"""The command that predicts rows: ``diprime predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
import typer

import diprime
from diprime._util.atomic_file import atomic_file
from diprime.cli.data_files import DataFile, InputError
from diprime.cli.options import DataPath, JsonOption, ModelPath, refuse_dash
from diprime.cli.outputs import Commands
from diprime.cli.shell import confirm_written, examples, progress
from diprime.cli.signature_options import RequiredKeyOption
from diprime.estimators.models import Model

commands = Commands()


@commands.command(
    epilog=examples(
        "diprime predict model.diprime new.csv -o out.csv",
        "diprime predict model.diprime new.csv -o out.csv --keep id",
    )
)
def predict(
    model_path: ModelPath,
    data: DataPath,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", callback=refuse_dash, help="Where to write: .csv or .parquet."),
    ],
    keep: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column of the data to copy as it is; may be repeated.")
    ] = None,
    public_key: RequiredKeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict the rows of a file, in their order.

    The output has the column "prediction" and, for classes, the probability of each. Memory: a batch of rows; for
    Parquet, all predictions.
    """
    as_parquet = _is_parquet(output)
    model = diprime.load(model_path, public_key=public_key)
    file = DataFile(data)
    kept = list(dict.fromkeys(keep or []))
    new = ["prediction", *(f"probability {label}" for label in getattr(model, "classes_", ()))]
    for i, name in enumerate(names := [*kept, *new]):
        if name in names[:i]:
            raise InputError(
                f"The output would have two columns {name!r}; rename the one that you keep, or leave it out."
            )
    with progress("Predicting") as advance, atomic_file(output) as written:
        batches = file.decoded_and_kept(model.domain_.features, kept, advance)
        predictions = (_predictions(model, rows, copied) for rows, copied in batches)
        if as_parquet:
            pl.concat(predictions).write_parquet(written)
        else:
            for i, frame in enumerate(predictions):
                written.write(frame.write_csv(include_header=i == 0).encode())
    confirm_written(output, as_json, predictions=str(output))


def _is_parquet(output: Path) -> bool:
    """Return whether to write Parquet rather than CSV; refuse a file that other programs would take for neither."""
    suffix = output.suffix.lower()
    if suffix not in ("", ".csv", ".parquet"):  # a pipe has no suffix
        raise InputError(f"Predictions are written as .csv or .parquet, not as {suffix}; give {output} another name.")
    return suffix == ".parquet"


def _predictions(model: Model, rows: pl.DataFrame, copied: pl.DataFrame) -> pl.DataFrame:
    columns = {column.name: column for column in copied}
    columns["prediction"] = pl.Series(model.predict(rows).tolist(), strict=False)
    if isinstance(model, diprime.DiPriMeClassifier | diprime.DiPriMeBoostingClassifier):
        shares = zip(model.classes_, model.predict_proba(rows).T, strict=True)
        columns |= {f"probability {label}": pl.Series(share) for label, share in shares}
    return pl.DataFrame(columns)
