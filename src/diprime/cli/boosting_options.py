"""The options of boosting, which the commands that fit share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from diprime.cli.number_options import read_number
from diprime.estimators.parameters import DELTA, MAX_ROUNDS


def _only_with_boost(context: typer.Context, value: Any) -> Any:
    """Refuse an option of boosting without --boost, which is eager and therefore known here."""
    if value is not None and value is not False and not context.params.get("boost"):
        raise typer.BadParameter("it is an option of boosting; give --boost as well")
    return value


BoostOption = Annotated[
    bool,
    typer.Option(
        "--boost", is_eager=True, help="Fit a boosted model under (epsilon, delta) instead of a forest under epsilon."
    ),
]
DeltaOption = Annotated[
    float | None,
    typer.Option(
        "--delta",
        metavar="NUMBER",
        parser=read_number,
        callback=_only_with_boost,
        show_default=f"{DELTA.default:g}",
        help="With --boost: the other part of the budget, far below one over the number of people.",
    ),
]
RoundsOption = Annotated[
    int | None,
    typer.Option(
        "--rounds",
        min=1,
        max=MAX_ROUNDS,
        callback=_only_with_boost,
        show_default="400, or 1000 if there is little noise",
        help="With --boost: the number of rounds.",
    ),
]
LearningRateOption = Annotated[
    float | None,
    typer.Option(
        "--learning-rate",
        min=0,
        max=1,
        metavar="NUMBER",
        callback=_only_with_boost,
        show_default="100 / rounds, but from 0.15 to 0.5",
        help="With --boost: the part of a Newton step that a round goes.",
    ),
]
NoInteractionsOption = Annotated[
    bool,
    typer.Option(
        "--no-interactions", callback=_only_with_boost, help="With --boost: only functions of single features."
    ),
]


def estimator_options(
    boost: bool, delta: float | None, rounds: int | None, learning_rate: float | None, no_interactions: bool
) -> dict[str, Any]:
    """Return the options as arguments of `diprime.estimators.models.estimator`; those not given have its defaults."""
    given = {"delta": delta, "n_rounds": rounds, "learning_rate": learning_rate}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if boost:
        options["boost"] = True
    if no_interactions:
        options["interactions"] = False
    return options
