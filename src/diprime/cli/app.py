"""Command-line application with all commands, in the order of the help."""

from __future__ import annotations

from typing import Annotated

import typer

import diprime
from diprime.cli import budget, demo, domain, fit, models
from diprime.cli.shell import EXIT_CODES, CommandGroup, examples

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Train, evaluate and publish differentially private forests and boosted models from tables.",
    epilog=examples(
        "diprime domain draft people.csv --target income > domain.toml",
        "diprime plan --rows 30000 --epsilon 1 --domain domain.toml",
        "diprime fit people.csv --domain domain.toml --epsilon 1 -o model.diprime",
        "diprime score model.diprime test.csv --epsilon 0.1",
        "diprime predict model.diprime new.csv -o out.csv",
    )
    + f"\n\n{EXIT_CODES}",
)
for commands in (fit, models, demo):
    app.add_typer(commands.commands)
app.add_typer(domain.commands, name="domain")
app.add_typer(budget.commands, name="budget")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(diprime.__version__)
        raise typer.Exit


@app.callback()
def _before_commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Define the options that precede a command."""
