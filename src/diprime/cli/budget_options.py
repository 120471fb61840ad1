"""The budget of a study on the command line: the option of the commands that spend, and what is left in words."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from diprime.cli.number_options import read_number
from diprime.privacy.budget import Budget
from diprime.privacy.measures import rounded_down_text, rounded_text

BudgetOption = Annotated[
    Path | None,
    typer.Option(
        "--budget",
        metavar="FILE",
        help="The budget of the study to charge; what it does not cover is refused before the data are read.",
    ),
]
BudgetPath = Annotated[Path, typer.Argument(metavar="BUDGET", help="The file of a budget.")]
PureOption = Annotated[
    float | None,
    typer.Option(
        "--pure",
        metavar="NUMBER",
        parser=read_number,
        show_default="the first release with delta decides",
        help="The part of epsilon to keep for releases without delta, if there are others as well.",
    ),
]


def charged_to(path: Path | None) -> AbstractContextManager[Budget | None]:
    """Return a context in which everything is charged to the budget in a file, if one is given."""
    return nullcontext() if path is None else Budget.open(path)


def left_in_words(budget: Budget) -> list[str]:
    """Return what the next release may have, in sentences."""
    sentences = [f"Left: a release without delta may have epsilon = {rounded_down_text(budget.epsilon_left())}."]
    if budget.delta:
        left = rounded_down_text(budget.epsilon_left(budget.delta))
        sentences.append(f"Or one with delta = {rounded_text(budget.delta)} may have epsilon = {left}.")
    return sentences
