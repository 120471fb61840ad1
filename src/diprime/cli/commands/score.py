"""The command that scores a model on private test rows: ``diprime score``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import diprime
from diprime._util.atomic_file import atomic_file
from diprime.cli.budget_options import BudgetOption, charged_to
from diprime.cli.data_files import DataFile, target_column
from diprime.cli.options import DataPath, EpsilonOption, JsonOption, ModelPath, check_folder, refuse_dash
from diprime.cli.outputs import Commands
from diprime.cli.person_options import PersonOption, check_person
from diprime.cli.record_files import RecordBatches
from diprime.cli.shell import escape_controls, examples, print_json, print_note, progress
from diprime.cli.signature_options import RequiredKeyOption

commands = Commands()


@commands.command(
    epilog=examples(
        "diprime score model.diprime test.csv --epsilon 0.1",
        "diprime score model.diprime test.csv --epsilon 0.1 -o score.json",
    )
)
def score(  # noqa: PLR0913 -- options of a command are arguments
    model_path: ModelPath,
    data: DataPath,
    epsilon: EpsilonOption = 0.1,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write the score, as JSON, for diprime report."),
    ] = None,
    confidence: Annotated[
        float, typer.Option(metavar="NUMBER", help="How sure intervals are to hold the truth.")
    ] = 0.95,
    person: PersonOption = None,
    budget: BudgetOption = None,
    public_key: RequiredKeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a model on private test rows, with noise and confidence intervals: accuracy, AUC, errors and more.

    The rows must not be among those that the model was trained on. The score spends epsilon, of the privacy of the
    people in these rows, each time; if the model was trained on other rows of the same people, both add up. Memory: a
    batch of rows, and what the model says of each row.
    """
    if output is not None:
        check_folder(refuse_dash(output))
    model = diprime.load(model_path, public_key=public_key)
    domain, file = model.domain_, DataFile(data)
    persons = check_person(file, domain, person)
    target = target_column(file, domain, persons)
    with charged_to(budget), progress("Reading") as advance:
        batches = RecordBatches(file, domain, target, advance, persons)
        result = diprime.private_score_batches(model, batches, epsilon, confidence=confidence)
    if output is not None:
        with atomic_file(output) as written:
            written.write(result.to_json().encode())
        print_note(f"Written to {output}.")
    if as_json:
        print_json(result.to_dict())
    else:
        print(escape_controls(str(result)))
