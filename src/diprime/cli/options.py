"""Arguments and options of commands, and reading of domain and score files.

Options for parameters of estimators use the limits and defaults of their declarations in `estimators.parameters`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any

import typer

from diprime._util import InputError
from diprime.domain import Categorical, Domain
from diprime.domain.features import short
from diprime.domain.files import MAX_BYTES, is_oversized, parse_json, parse_toml
from diprime.domain.records import MAX_RECORDS
from diprime.estimators.parameters import MAX_ROUNDS, BoostingParameters
from diprime.privacy.budget import Budget
from diprime.privacy.measures import rounded_down_text, rounded_text
from diprime.scoring import PrivateScore
from diprime.search.plan import FIXED
from diprime.sources.data_files.text import find_category

# -- values of options -------------------------------------------------------------------------------------------------


def refuse_dash(output: Path | None) -> Path | None:
    """Return the path of an output; refuse "-", which means standard output in other programs."""
    if str(output) == "-":  # it would be a file name here
        raise typer.BadParameter("must be the name of a file; use /dev/stdout for standard output")
    return output


def read_number(text: object) -> float:
    """Parse a number; refuse numbers that are too large or too small for a float.

    >>> read_number("1e-3"), read_number("inf")
    (0.001, inf)
    """
    try:
        exact = Decimal(str(text))
    except InvalidOperation:
        raise typer.BadParameter(f"{text!r} is not a number") from None
    if exact.is_nan():  # a signaling NaN cannot become a float
        raise typer.BadParameter(f"{text!r} is not a number")
    number = float(exact)
    if exact.is_finite() and (math.isinf(number) or (number == 0) is not (exact == 0)):
        raise typer.BadParameter(f"{text!r} is too large or too small; use inf for infinity")
    return number


def number_option(*names: str, **details: Any) -> Any:
    """Return an option for a number, which is never rounded to infinity or zero."""
    return typer.Option(*names, metavar="NUMBER", parser=read_number, **details)


def text_option(name: str, help: str) -> Any:
    """Return an option for free text."""
    return typer.Option(name, metavar="TEXT", help=help)


def _only_with_boost(context: typer.Context, value: Any) -> Any:
    """Refuse a boosting option without --boost, which is eager and therefore parsed already."""
    if value is not None and value is not False and not context.params.get("boost"):
        raise typer.BadParameter("requires --boost")
    return value


# -- files -------------------------------------------------------------------------------------------------------------

DataPath = Annotated[Path, typer.Argument(metavar="DATA", help="CSV file with a header, or Parquet file.")]
DataPattern = Annotated[
    Path,
    typer.Argument(metavar="DATA", help="CSV file with a header, Parquet file, or pattern such as 'data/*.parquet'."),
]
ScratchOption = Annotated[
    Path | None,
    typer.Option(
        "--scratch",
        metavar="FOLDER",
        help=(
            "Directory for temporary files with the encoded records. Without it, they are kept in memory, "
            "unless the data files are large."
        ),
    ),
]
DaskOption = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help=(
            "Address of a Dask scheduler, such as tcp://host:8786. The workers read the files and keep the "
            "encoded records."
        ),
    ),
]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")]
Sha256Option = Annotated[
    str | None,
    typer.Option("--sha256", metavar="DIGEST", help="Expected SHA-256 of the model file. Any other file is refused."),
]
DomainPath = Annotated[Path, typer.Option("--domain", "-d", metavar="FILE", help="Domain, as a TOML or JSON file.")]
OutputPath = Annotated[
    Path,
    typer.Option("--output", "-o", metavar="FILE", callback=refuse_dash, help="Output file."),
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace the output if it exists. Budgets are never replaced.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

# -- privacy -----------------------------------------------------------------------------------------------------------

EpsilonOption = Annotated[
    float, number_option("--epsilon", "-e", help="Privacy budget. A smaller value gives stronger privacy.")
]
PersonOption = Annotated[
    str | None,
    typer.Option(
        "--person",
        metavar="COLUMN",
        help="Column that identifies the person. Protects all records of a person together.",
    ),
]
MaxRecordsOption = Annotated[
    int,
    typer.Option(
        "--max-records-per-person",
        min=1,
        max=MAX_RECORDS,
        help="Maximum number of records used per person, sampled at random.",
    ),
]
BudgetOption = Annotated[
    Path | None,
    typer.Option(
        "--budget",
        metavar="FILE",
        help="Budget file to charge. If the budget is too small, the command stops before it reads data.",
    ),
]

# -- estimator parameters ----------------------------------------------------------------------------------------------

BoostOption = Annotated[
    bool,
    typer.Option(
        "--boost", is_eager=True, help="Fit a boosted model under (epsilon, delta) instead of a forest under epsilon."
    ),
]
DeltaOption = Annotated[
    float | None,
    number_option(
        "--delta",
        callback=_only_with_boost,
        show_default=f"{BoostingParameters.delta:g}",
        help="With --boost: delta of the guarantee, far below one divided by the number of people.",
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
        help="With --boost: number of rounds.",
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
        show_default="100 / rounds, at least 0.15 and at most 0.5",
        help="With --boost: shrinkage applied to each Newton step.",
    ),
]
NoInteractionsOption = Annotated[
    bool,
    typer.Option(
        "--no-interactions", callback=_only_with_boost, help="With --boost: use functions of single features only."
    ),
]
ClassWeightOption = Annotated[
    list[str] | None,
    typer.Option(
        "--class-weight",
        metavar="balanced|CLASS=NUMBER",
        help=(
            "Class weights: 'balanced', or CLASS=WEIGHT (repeatable). Other classes have weight 1. Costs no privacy."
        ),
    ),
]
TryOption = Annotated[
    list[str],
    typer.Option(
        "--try",
        metavar="NAME=VALUE,…",
        help="Parameter of the estimator, by its name in Python, and the values to try (repeatable).",
    ),
]


def boosting_arguments(
    boost: bool,
    delta: float | None,
    rounds: int | None = None,
    learning_rate: float | None = None,
    no_interactions: bool = False,
) -> dict[str, Any]:
    """Return the given options as arguments of `diprime.estimators.models.make_estimator`."""
    given = {"delta": delta, "n_rounds": rounds, "learning_rate": learning_rate}
    arguments: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if boost:
        arguments["boost"] = True
    if no_interactions:
        arguments["interactions"] = False
    return arguments


def class_weight_arguments(options: Sequence[str] | None, domain: Domain) -> dict[str, Any]:
    """Return the class-weight option as an argument of an estimator, or no argument without the option."""
    if not options:
        return {}
    if not isinstance(domain.target, Categorical):
        raise InputError("--class-weight requires classes, but the target of the domain is numeric.")
    if set(options) == {"balanced"}:
        return {"class_weight": "balanced"}
    if "balanced" in options:
        raise InputError("--class-weight balanced cannot be combined with other class weights. Use one or the other.")
    return {"class_weight": _read_weights(options, domain.target)}


def _read_weights(options: Sequence[str], target: Categorical) -> Mapping[Any, float]:
    if target.is_undeclared:
        raise InputError(
            "--class-weight requires the classes, which the domain does not list. List them, or use "
            "--class-weight balanced."
        )
    weights: dict[Any, float] = {}
    for option in options:
        label, equals, text = option.rpartition("=")
        try:
            weight = float(text if equals else "")
        except ValueError:
            raise InputError(
                f"--class-weight must be balanced or CLASS=WEIGHT, such as yes=10, got {option}."
            ) from None
        found = find_category(label, target.categories)
        if found is None:
            raise InputError(f"--class-weight {option}: {short(label)} is not a class of the domain.")
        if found in weights:
            raise InputError(f"--class-weight sets the weight of class {short(label)} twice. Set it once.")
        weights[found] = weight
    return weights


_WORDS: dict[str, Any] = {"true": True, "false": False, "none": None}


def read_settings(options: Sequence[str], model: Any) -> dict[str, list[Any]]:
    """Return the values to try for each parameter, or raise an `InputError` that names an invalid option."""
    settings: dict[str, list[Any]] = {}
    known = sorted(model.get_params(deep=False).keys() - FIXED)
    for option in options:
        name, equals, values = option.partition("=")
        if not equals or not values:
            raise InputError(f"--try must be NAME=VALUE,VALUE, such as max_depth=1,auto, got {option}.")
        if name not in known:
            raise InputError(f"{type(model).__name__} has no parameter {name!r} to try. Use one of {', '.join(known)}.")
        if name in settings:
            raise InputError(f"--try {name} occurs twice. List all of its values in one option.")
        settings[name] = [_read_value(text) for text in values.split(",")]
    return settings


def _read_value(text: str) -> Any:
    """Parse a number, a Boolean, None or a word."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


# -- checks and files --------------------------------------------------------------------------------------------------


def check_folder(output: Path) -> None:
    """Raise an error, before anything is charged, if an output certainly cannot be written."""
    if not output.parent.is_dir():
        raise InputError(f"Cannot write {output}: the directory {output.parent} does not exist.")
    if output.is_dir():
        raise InputError(f"Cannot write {output}: it is a directory. Pass the name of a file.")
    # A file is replaced by a new file in its directory; pipes and devices are written to directly.
    direct = output.exists() and (not output.is_file() or output.parent == Path("/dev"))
    if not direct and not os.access(folder := Path(os.path.realpath(output)).parent, os.W_OK | os.X_OK):
        raise InputError(f"Cannot write {output}: no permission to write to the directory {folder}.")


def check_person(person: str | None, max_records: int) -> None:
    """Raise an error for a contribution bound without --person."""
    if person is None and max_records > 1:
        raise InputError(f"--max-records-per-person {max_records} requires --person COLUMN.")


def remaining_budget_text(budget: Budget) -> list[str]:
    """Return sentences on the largest epsilon of a further release."""
    sentences = [f"Remaining for a release without delta: epsilon = {rounded_down_text(budget.remaining_epsilon())}."]
    if budget.delta:
        left = rounded_down_text(budget.remaining_epsilon(budget.delta))
        sentences.append(f"Or for one with delta = {rounded_text(budget.delta)}: epsilon = {left}.")
    return sentences


def read_domain(path: Path) -> Domain:
    """Read a domain from a TOML or JSON file."""
    data = _read_limited(path, f"{path} is too large for a domain. Pass a TOML or JSON file that describes one.")
    try:
        text = data.decode("utf-8-sig")  # some editors write a byte order mark
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text. Pass a domain as a TOML or JSON file.") from None
    try:
        # Domain.from_toml also accepts file names, but the content of a file must not make the command read another.
        return Domain.from_dict((parse_json if path.suffix == ".json" else parse_toml)(text))
    except ValueError as error:
        raise InputError(f"{path} is not a domain: {str(error).rstrip('.')}.") from None


def read_score(path: Path) -> PrivateScore:
    """Read a score from a JSON file."""
    data = _read_limited(path, f"{path} is too large for a score. Write one with diprime score -o.")
    try:
        return PrivateScore.from_json(data.decode())
    except ValueError as error:  # includes UnicodeDecodeError
        reason = "it is not text" if isinstance(error, UnicodeDecodeError) else str(error).rstrip(".")
        raise InputError(f"{path} is not a score: {reason}. Write one with diprime score -o.") from None


def _read_limited(path: Path, refusal: str) -> bytes:
    """Return the content of a file, or raise an error if it is too large for a domain or a score."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if is_oversized(data):
        raise InputError(refusal)
    return data
