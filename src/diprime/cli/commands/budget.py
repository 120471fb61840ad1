"""The commands about the budget of a study: ``diprime budget new`` and ``show``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from diprime.cli.budget_options import BudgetPath, PureOption, left_in_words
from diprime.cli.number_options import read_number
from diprime.cli.options import JsonOption, check_folder
from diprime.cli.outputs import Commands
from diprime.cli.shell import escape_controls, examples, print_json, print_note, stdout
from diprime.privacy.budget import Budget
from diprime.privacy.measures import loss_text, rounded_text

commands = Commands(no_args_is_help=True, help="Keep one budget for all that is released about the same people.")


@commands.command("new", epilog=examples("diprime budget new study.budget --epsilon 3 --delta 1e-5"))
def new_budget(
    path: BudgetPath,
    epsilon: Annotated[
        float,
        typer.Option("--epsilon", "-e", metavar="NUMBER", parser=read_number, help="The epsilon of the study."),
    ],
    delta: Annotated[
        float,
        typer.Option(
            metavar="NUMBER", parser=read_number, help="The delta of the study; at 0 there is nothing for boosting."
        ),
    ] = 0.0,
    pure: PureOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the budget of a study, in a file that must not exist.

    The file is a log for people to read: the budget, and a line for each charge. Keep it with the data: whoever deletes
    it, copies it or cuts off its end can spend the budget again.
    """
    check_folder(path)
    budget = Budget.create(path, epsilon, delta, pure=pure)
    if as_json:
        print_json(budget.to_dict())
    else:
        print_note(f"Written to {path}.")


@commands.command(
    "show", epilog=examples("diprime budget show study.budget", "diprime budget show study.budget --json")
)
def show_budget(path: BudgetPath, as_json: JsonOption = False) -> None:
    """Print what was charged to a budget, and what is left of it."""
    budget = Budget.open(path)
    if as_json:
        print_json(budget.to_dict())
        return
    terms = f"epsilon = {rounded_text(budget.epsilon)}, delta = {rounded_text(budget.delta)}"
    table = Table("", "time", "what", "cost", title=f"Study {budget.study}: {terms}")
    for entry in budget.entries:
        table.add_row(str(entry.number), entry.time, escape(escape_controls(entry.what)), loss_text(entry.loss))
    stdout().print(table)
    print(f"Spent: {loss_text(budget.spent)}.")
    print("\n".join(left_in_words(budget)))
