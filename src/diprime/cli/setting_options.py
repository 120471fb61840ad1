"""The option that lists values of a parameter for a private search to try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from diprime.cli.data_files import InputError
from diprime.search.candidates import FIXED

TryOption = Annotated[
    list[str],
    typer.Option(
        "--try",
        metavar="NAME=VALUE,…",
        help="A parameter of the estimator, by its name in Python, and the values to choose from; may be repeated.",
    ),
]

_WORDS: dict[str, Any] = {"true": True, "false": False, "none": None}


def read_settings(options: Sequence[str], model: Any) -> dict[str, list[Any]]:
    """Return the values of each parameter; raise an `InputError` that names an option that cannot be read."""
    settings: dict[str, list[Any]] = {}
    known = sorted(model.get_params(deep=False).keys() - FIXED)
    for option in options:
        name, equals, values = option.partition("=")
        if not equals or not values:
            raise InputError(f"--try {option} cannot be read; write a name and values, as in --try max_depth=1,auto.")
        if name not in known:
            raise InputError(f"{type(model).__name__} has no parameter {name!r} to choose; it has {', '.join(known)}.")
        if name in settings:
            raise InputError(f"--try {name} is given twice; list all of its values at once.")
        settings[name] = [_value(text) for text in values.split(",")]
    return settings


def _value(text: str) -> Any:
    """Return the number, the truth value or the word that a text stands for."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
