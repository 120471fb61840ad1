"""Commands that draft, learn and check domains."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from diprime._util import InputError
from diprime.cli.drafting import draft
from diprime.cli.options import (
    BudgetOption,
    DataPath,
    DomainPath,
    EpsilonOption,
    JsonOption,
    PersonOption,
    number_option,
    read_domain,
)
from diprime.cli.shell import Commands, charged_to, escape_controls, examples, print_json, print_note, progress, stdout
from diprime.domain import Categorical, Domain, Numeric, Task
from diprime.domain.checking import ColumnCheck, GroupCheck
from diprime.domain.features import Feature
from diprime.domain.learning import features_of_columns, undeclared_target
from diprime.privacy.measures import exact_delta, exact_epsilon
from diprime.privacy.randomness import RandomSource
from diprime.sources.data_files import DataFile, Files
from diprime.sources.data_files.text import is_text_type
from diprime.sources.protocol import Roles

PASSES = 3
"""Maximum number of passes over a file to learn a domain: for scales, for ranges and for categories."""


def undeclared_domain(
    source: Files, roles: Roles, task: Task | None, numbers: Sequence[str], classes: Sequence[str]
) -> Domain:
    """Return a domain that declares only the kinds of a file's columns. The column of group identifiers is omitted."""
    assert roles.target is not None
    source.first.check_columns([roles.target, *numbers])
    columns = source.columns(roles)
    # The schema determines the text columns or, for CSV, these options do. No value does, because values are private.
    known: dict[str, Feature] = {field.name: Categorical() for field in columns.schema if is_text_type(field.type)}
    known |= {name: Numeric() for name in numbers if name != roles.target}
    features = features_of_columns(columns, known)
    if roles.target in numbers:
        task = "regression"
    if not classes and task is None:
        raise InputError(f"The task of {roles.target!r} is unknown. Pass --task, or --class for each class.")
    return Domain(features, Categorical(classes) if classes else undeclared_target(task), target_name=roles.target)


def learn_from_file(source: Files, domain: Domain, roles: Roles, epsilon: float, delta: float) -> Domain:
    """Learn the undeclared ranges and categories of a domain from the rows of a file."""
    if domain.is_complete:
        raise InputError("The domain is complete: it declares all ranges and categories, so there is nothing to learn.")
    plan = domain.learning_plan(exact_epsilon(epsilon), exact_delta(delta))
    collect = partial(source.collect, domain=domain, roles=roles)
    closed = domain.learnt(collect, plan, RandomSource(), of_persons=roles.groups is not None)
    return replace(closed, target_name=roles.target)


commands = Commands(no_args_is_help=True, help="Draft, learn and check the domain: the public facts about a table.")


@commands.command("draft", epilog=examples("diprime domain draft people.csv --target income > domain.toml"))
def draft_domain(
    data: DataPath,
    target: Annotated[str, typer.Option("--target", "-t", metavar="COLUMN", help="Column to predict.")],
    task: Annotated[Task | None, typer.Option(help="Task. By default, it follows from the target.")] = None,
) -> None:
    """Print a first draft of a domain, inferred from the data.

    The draft reveals values of the data, so neither the draft nor a model that uses it is private. Replace all values
    that are not public knowledge. Then write reviewed_by = "your name" at its top; every model contains this name.
    """
    file = DataFile(data)
    file.check_columns([target])
    with progress("Reading") as advance:
        text = draft(file, target, task, advance)
    print(text, end="")
    print_note(
        "This draft was inferred from the data. Models that use it are not private until a person has reviewed it."
    )


@commands.command(
    "learn",
    epilog=examples(
        "diprime domain learn people.csv -t income --numbers age --class low --class high -e 0.1 > domain.toml",
        "diprime domain learn people.csv --domain open.toml --epsilon 0.1 > domain.toml",
    ),
)
def learn_domain(  # noqa: PLR0913 -- the options of a command are arguments
    data: DataPath,
    epsilon: EpsilonOption,
    *,
    delta: Annotated[
        float, number_option("--delta", help="Delta for learning text categories. Without it, text gets hash buckets.")
    ] = 0.0,
    domain_path: Annotated[
        Path | None,
        typer.Option(
            "--domain", "-d", metavar="FILE", help="Domain with undeclared ranges or categories, which are learnt."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", metavar="COLUMN", help="Without --domain: column to predict.")
    ] = None,
    task: Annotated[Task | None, typer.Option(help="Without --domain: task.")] = None,
    numbers: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Without --domain: numeric column of a CSV file (repeatable)."),
    ] = None,
    classes: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="LABEL", help="Without --domain: class to predict (repeatable)."),
    ] = None,
    person: PersonOption = None,
    budget: BudgetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learn a domain privately, and print it.

    This spends epsilon, and delta if you pass it. The ledgers of the domain, and of every model that uses it, contain
    the cost. Without delta, text is hashed into buckets, which costs no privacy.
    """
    exact_epsilon(epsilon)
    source = Files([data])
    if domain_path is not None:
        domain = read_domain(domain_path)
    elif target is not None:
        domain = undeclared_domain(source, Roles(target, person), task, numbers or [], classes or [])
    else:
        raise InputError("Pass --target COLUMN, or --domain FILE with the declared features.")
    roles = source.roles(domain, Roles(groups=person))
    with charged_to(budget) as account:
        with progress("Reading", PASSES) as source.advance:
            learnt = learn_from_file(source, domain, roles, epsilon, delta)
        with account.recoverable(learnt.origin.ledger, learnt.to_toml().encode()):
            if as_json:
                print_json(learnt.to_dict())
            else:
                print(learnt.to_toml(), end="")
            sys.stdout.flush()
    if learnt.origin.ledger is not None:
        print_note(str(learnt.origin.ledger))


@commands.command(
    "check",
    epilog=examples(
        "diprime domain check people.csv --domain domain.toml",
        "diprime domain check visits.csv --domain domain.toml --person patient",
    ),
)
def check_domain(
    data: DataPath,
    domain_path: DomainPath,
    person: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column that identifies the person. Counts the records of each person."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Count the values outside a domain and, with --person, the records of each person.

    The counts are not private: do not publish them, and do not adapt the domain to them beyond public knowledge.
    """
    domain = read_domain(domain_path)
    if not domain.is_complete:
        raise InputError(
            f"The domain is incomplete: {domain_path} lacks ranges or categories. Learn them with 'diprime "
            "domain learn' first."
        )
    source = Files([data])
    roles = source.roles(domain, Roles(groups=person))
    with progress("Reading") as source.advance:
        found = domain.check(source, roles.target, groups=roles.groups)
    assert found.target is not None
    n_rows, persons = found.n_rows, found.persons
    checks = {**found.columns, str(roles.target): found.target}
    unused = [name for name in source.columns(roles).column_names if name not in checks]
    if as_json:
        of_persons = {} if persons is None else {"persons": persons.to_dict()}
        content = {"rows": n_rows, "columns": {k: asdict(v) for k, v in checks.items()}, "unused": unused}
        print_json({**content, **of_persons})
    else:
        _print_checks(f"{n_rows:,} rows of {data}: values outside {domain_path}", checks, n_rows, roles.target)
        if unused:
            print(escape_controls(f"Columns that are not in the domain: {', '.join(unused)}."))
        if persons is not None:
            _print_persons(persons)
    print_note(
        "This output is not private: do not share it, and do not adapt the domain to it beyond public knowledge."
    )


def _print_checks(title: str, checks: dict[str, ColumnCheck], n_rows: int, target: str | None) -> None:
    kinds = list(asdict(ColumnCheck()))
    table = Table("column", *kinds, title=escape(title))
    for name, column in checks.items():
        shown = [f"{count / n_rows:.2%}" if count else "–" for count in asdict(column).values()]
        table.add_row(escape(escape_controls(f"{name} (target)" if name == target else name)), *shown)
    stdout().print(table)


def _print_persons(persons: GroupCheck) -> None:
    print(
        f"\n{persons.n_persons:,} people have {persons.n_records:,} records, at most {persons.most:,} per person. ",
        end="",
    )
    print(f"Records without an identifier, which a fit drops: {persons.n_unknown:,}.")
    table = Table("--max-records-per-person", "people with all records used", "records used")
    for kept in persons.kept():
        table.add_row(str(kept.max_records), f"{kept.persons:.1%}", f"{kept.records:.1%}")
    stdout().print(table)
