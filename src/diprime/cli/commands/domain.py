"""The commands about what is public: ``diprime domain draft``, ``learn`` and ``check``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from diprime.cli.budget_options import BudgetOption, charged_to
from diprime.cli.checking import check
from diprime.cli.data_files import DataFile, InputError, read_domain, target_column
from diprime.cli.drafting import draft
from diprime.cli.learning import learn, open_domain
from diprime.cli.number_options import read_number
from diprime.cli.options import DataPath, DomainPath, EpsilonOption, JsonOption
from diprime.cli.outputs import Commands
from diprime.cli.person_options import PersonOption, check_person
from diprime.cli.shell import escape_controls, examples, print_json, print_note, progress, stdout
from diprime.domain import Task
from diprime.domain.checking import ColumnCheck, PersonCheck
from diprime.privacy.measures import exact_epsilon

commands = Commands(no_args_is_help=True, help="Say what is public about the data.")


@commands.command("draft", epilog=examples("diprime domain draft people.csv --target income > domain.toml"))
def draft_domain(
    data: DataPath,
    target: Annotated[str, typer.Option("--target", "-t", metavar="COLUMN", help="The column to predict.")],
    task: Annotated[
        Task | None, typer.Option(help="What to predict: classes or a number. Guessed from the target if not given.")
    ] = None,
) -> None:
    """Print a first draft of a domain, read from the data.

    It tells about the data, so it is not private, nor is a model fitted with it. Replace what is not public knowledge;
    then write reviewed_by = "your name" at its top, which declares it and is shown with every model.
    """
    file = DataFile(data)
    file.check_columns([target])
    with progress("Reading") as advance:
        text = draft(file, target, task, advance)
    print(text, end="")
    print_note("This draft was read from the data: no model is private with it until somebody has reviewed it.")


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
        float,
        typer.Option(metavar="NUMBER", parser=read_number, help="Learn levels of text as well, with so much delta."),
    ] = 0.0,
    domain_path: Annotated[
        Path | None,
        typer.Option("--domain", "-d", metavar="FILE", help="What is known; what has no range or levels is learnt."),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", metavar="COLUMN", help="Without --domain: the column to predict.")
    ] = None,
    task: Annotated[Task | None, typer.Option(help="Without --domain: what to predict, classes or a number.")] = None,
    numbers: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Without --domain: a column of a CSV that holds numbers; may be repeated."),
    ] = None,
    classes: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="LABEL", help="Without --domain: a class to predict; may be repeated."),
    ] = None,
    person: PersonOption = None,
    budget: BudgetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learn a domain privately, and print it.

    It costs epsilon, and delta if that is given; the domain says so, and so does every model fitted with it. Without a
    delta, text gets hash buckets instead of levels, which cost nothing.
    """
    exact_epsilon(epsilon)
    file = DataFile(data)
    if domain_path is not None:
        domain = read_domain(domain_path)
        target = target_column(file, domain, [] if person is None else [person])
    elif target is not None:
        domain = open_domain(file, target, task, numbers or [], classes or [], [] if person is None else [person])
    else:
        raise InputError("Give the column to predict, --target COLUMN, or what is known, --domain FILE.")
    persons = check_person(file, domain, person)
    with charged_to(budget), progress("Reading") as advance:
        learnt = learn(file, domain, target, (epsilon, delta), advance, persons)
    if as_json:
        print_json(learnt.to_dict())
    else:
        print(learnt.to_toml(), end="")
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
    data: DataPath, domain_path: DomainPath, person: PersonOption = None, as_json: JsonOption = False
) -> None:
    """Say how much of the data falls outside a domain and, with --person, how many records persons have.

    Looking is not private: keep the answer to yourself, and do not fit the domain to it more closely than public
    knowledge does.
    """
    domain = read_domain(domain_path)
    if domain.is_open:
        raise InputError(
            f"The domain is open: {domain_path} lacks ranges or levels; learn them with 'domain learn' first."
        )
    file = DataFile(data)
    columns = check_person(file, domain, person)
    target = target_column(file, domain, columns)
    with progress("Reading") as advance:
        found = check(file, domain, target, advance, person)
    assert found.target is not None
    n_rows, persons = found.n_rows, found.persons
    checks = {**found.columns, target: found.target}
    unused = [name for name in file.columns if name not in checks and name not in columns]
    if as_json:
        of_persons = {} if persons is None else {"persons": persons.to_dict()}
        content = {"rows": n_rows, "columns": {k: asdict(v) for k, v in checks.items()}, "unused": unused}
        print_json({**content, **of_persons})
    else:
        _print_checks(f"{n_rows:,} rows of {data}: what falls outside of {domain_path}", checks, n_rows, target)
        if unused:
            print(escape_controls(f"Columns that the domain does not use: {', '.join(unused)}."))
        if persons is not None:
            _print_persons(persons)
    print_note("Looking at the data is not private: keep this to yourself, and do not tune the domain to it.")


def _print_checks(title: str, checks: dict[str, ColumnCheck], n_rows: int, target: str) -> None:
    kinds = list(asdict(ColumnCheck()))
    table = Table("column", *kinds, title=escape(title))
    for name, column in checks.items():
        shown = [f"{count / n_rows:.2%}" if count else "–" for count in asdict(column).values()]
        table.add_row(escape(escape_controls(f"{name} (target)" if name == target else name)), *shown)
    stdout().print(table)


def _print_persons(persons: PersonCheck) -> None:
    print(f"\n{persons.n_persons:,} persons have {persons.n_records:,} records, one of them {persons.most:,}. ", end="")
    print(f"Records without a person, which a fit leaves out: {persons.n_unknown:,}.")
    table = Table("--max-records", "persons with all records used", "records used")
    for kept in persons.kept():
        table.add_row(str(kept.max_records), f"{kept.persons:.1%}", f"{kept.records:.1%}")
    stdout().print(table)
