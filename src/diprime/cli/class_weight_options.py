"""The option that weighs classes, which the commands that fit share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from diprime.cli.data_files import InputError
from diprime.cli.text_values import find_level
from diprime.domain import Categorical, Domain
from diprime.domain.features import short
from diprime.estimators.parameters import CLASS_WEIGHT

ClassWeightOption = Annotated[
    list[str] | None,
    typer.Option(
        "--class-weight",
        metavar="balanced|CLASS=NUMBER",
        help="What a class counts in predictions: 'balanced' for all alike, or a class and its weight, which may be "
        "repeated; other classes weigh 1. It costs no privacy.",
    ),
]


def class_weight_arguments(options: Sequence[str] | None, domain: Domain) -> dict[str, Any]:
    """Return the option as an argument of an estimator; empty, if it is not given."""
    if not options:
        return {}
    if not isinstance(domain.target, Categorical):
        raise InputError("--class-weight is for classes, and the target of the domain is a number.")
    if set(options) == {"balanced"}:
        return {CLASS_WEIGHT.name: "balanced"}
    if "balanced" in options:
        raise InputError("--class-weight balanced weighs all classes; leave it out, or leave out the other weights.")
    return {CLASS_WEIGHT.name: _mapping(options, domain.target)}


def _mapping(options: Sequence[str], target: Categorical) -> Mapping[Any, float]:
    if target.is_open:
        raise InputError(
            "--class-weight needs the classes, which the domain leaves open; list them, or write balanced."
        )
    weights: dict[Any, float] = {}
    for option in options:
        label, equals, text = option.rpartition("=")
        number = _number(text) if equals else None
        if number is None:
            raise InputError(
                f"--class-weight {option} cannot be read; write balanced, or a class and its weight, as in "
                "--class-weight yes=10."
            )
        level = find_level(label, target.levels)
        if level is None:
            raise InputError(f"--class-weight {option}: {short(label)} is not a class of the domain.")
        if level in weights:
            raise InputError(f"--class-weight gives the class {short(label)} two weights; give it one.")
        weights[level] = number
    return weights


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
