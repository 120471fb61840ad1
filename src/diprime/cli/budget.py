"""Commands for the budget of a study: ``diprime budget new``, ``show``, ``check`` and ``recover``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from diprime._util import InputError
from diprime._util.files import atomic_file
from diprime.cli.options import (
    JsonOption,
    OutputPath,
    check_folder,
    number_option,
    read_domain,
    read_score,
    remaining_budget_text,
)
from diprime.cli.shell import (
    Commands,
    confirm_written,
    escape_controls,
    examples,
    print_json,
    recoverable_results,
    stdout,
)
from diprime.estimators.models import load
from diprime.inspection.words import counted
from diprime.privacy.budget import Budget, read_log
from diprime.privacy.charges import StudyCharge
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import loss_text, rounded_text

BudgetPath = Annotated[Path, typer.Argument(metavar="BUDGET", help="Budget file.")]

commands = Commands(no_args_is_help=True, help="Manage one privacy budget for all releases about the same people.")


@commands.command("new", epilog=examples("diprime budget new study.budget --epsilon 3 --delta 1e-5"))
def new_budget(
    path: BudgetPath,
    epsilon: Annotated[float, number_option("--epsilon", "-e", help="Epsilon of the study.")],
    delta: Annotated[
        float, number_option("--delta", help="Delta of the study. Boosted models require a delta above 0.")
    ] = 0.0,
    pure_epsilon: Annotated[
        float | None,
        number_option(
            "--pure-epsilon",
            show_default="decided by the first release with delta",
            help="Part of epsilon to reserve for releases without delta.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create the budget of a study, in a new file.

    The file is a readable log of the budget, with one line per charge. Protect it as you protect the data: anyone who
    deletes, copies or truncates the file can spend the budget again.
    """
    check_folder(path)
    budget = Budget.create(path, epsilon, delta, pure_epsilon=pure_epsilon)
    confirm_written(path, as_json, **budget.to_dict())


@commands.command(
    "show", epilog=examples("diprime budget show study.budget", "diprime budget show study.budget --json")
)
def show_budget(path: BudgetPath, as_json: JsonOption = False) -> None:
    """Print the charges to a budget, and the remaining budget."""
    budget = Budget.open(path)
    if as_json:
        print_json(budget.to_dict())
        return
    terms = f"epsilon = {rounded_text(budget.epsilon)}, delta = {rounded_text(budget.delta)}"
    table = Table("", "time", "description", "cost", title=f"Study {budget.study}: {terms}")
    for entry in budget.entries:
        table.add_row(str(entry.number), entry.time, escape(escape_controls(entry.description)), loss_text(entry.loss))
    stdout().print(table)
    print(f"Spent: {loss_text(budget.spent)}.")
    print("\n".join(remaining_budget_text(budget)))


@commands.command(
    "check", epilog=examples("diprime budget check study.budget models/*", "diprime budget check study.budget --json")
)
def check_budget(
    path: BudgetPath,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE...", help="Models, scores (.json) and learnt domains (.toml) of the study."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check that a budget file is unchanged, and that it contains all charges of models, scores and domains.

    Charges are missing if the file was truncated, or replaced by an older copy. The command then fails. Files that were
    never charged to this budget are listed.
    """
    log = read_log(path)
    study = log.terms.study
    named = {str(file): [c for ledger in _ledgers(file) for c in ledger.study_charges] for file in files or []}
    kept = {str(file): [StudyCharge(study, charge)] for charge, file in recoverable_results(path).items()}
    missing = {c for charges in (*named.values(), *kept.values()) for c in charges if c.study == study} - {*log.charges}
    lacking = [file for file, charges in {**named, **kept}.items() if missing.intersection(charges)]
    if lacking:
        raise InputError(
            f"{path} lacks charges that occur in {', '.join(lacking)}: the file was truncated or replaced. "
            "Restore it from a copy that contains all charges, or create a new budget with the remaining "
            "epsilon and delta."
        )
    uncharged = [file for file, charges in named.items() if all(c.study != study for c in charges)]
    if as_json:
        content = {"budget": str(path), "files": list(named), "uncharged_files": uncharged}
        print_json({**content, "ends_in_incomplete_line": log.is_cut})
        return
    print(f"{path} contains all charges of the {counted(len(named) - len(uncharged), 'file')}.")
    if uncharged:
        print(f"Not charged to this budget: {', '.join(uncharged)}.")
    if log.is_cut and len(uncharged) == len(named):
        print(
            "The budget ends in an incomplete line. Pass all models, scores and domains of the study, to find out "
            "whether its charge is missing."
        )
    elif log.is_cut:
        print(
            "The budget ends in an incomplete line. If the files above are all models, scores and domains of "
            "the study, nothing was released for that line: delete everything after the last line break."
        )


def _ledgers(file: Path) -> Iterator[Ledger]:
    """Yield the ledgers of a model and its domain, of a score, or of a domain."""
    if file.suffix == ".json":
        yield read_score(file).ledger
        return
    if file.suffix == ".toml":
        domain = read_domain(file)
    else:
        model = load(file)
        domain = model.domain_
        yield model.privacy_
    if domain.origin.ledger is not None:
        yield domain.origin.ledger


@commands.command("recover", epilog=examples("diprime budget recover study.budget -o model.diprime"))
def recover(
    path: BudgetPath,
    output: OutputPath,
    charge: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the charge, if several results can be recovered.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Recover a model, a score or a domain if its output failed after the charge.

    A fit that was interrupted before its model was complete cannot be recovered, but its charge stands.
    """
    kept = recoverable_results(path)
    if charge is not None:
        kept = {name: file for name, file in kept.items() if name == charge}
    if not kept:
        raise InputError(f"There is no result to recover for {path}: all results were written, or none was complete.")
    if len(kept) > 1:
        raise InputError(f"Several results can be recovered for {path}. Choose one with --charge: {', '.join(kept)}.")
    (place,) = kept.values()
    with atomic_file(output) as file:
        file.write(place.read_bytes())
    place.unlink()
    confirm_written(output, as_json, result=str(output))
