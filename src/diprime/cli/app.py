"""The commands. Their docstrings are the help texts that users see."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree as TextTree

import diprime
from diprime._util.atomic_file import atomic_file
from diprime.cli.boosting_options import (
    BoostOption,
    DeltaOption,
    LearningRateOption,
    NoInteractionsOption,
    RoundsOption,
    estimator_options,
)
from diprime.cli.budget_options import BudgetOption, BudgetPath, PureOption, charged_to, left_in_words
from diprime.cli.checking import ColumnCheck, PersonCheck, check
from diprime.cli.data_files import DataFile, InputError, RecordBatches, read_domain, read_score, target_column
from diprime.cli.demo_data import PEOPLE_DOMAIN, synthetic_people
from diprime.cli.drafting import draft
from diprime.cli.learning import PASSES, learn, open_domain
from diprime.cli.number_options import read_number
from diprime.cli.person_options import MaxRecordsOption, PersonOption, check_person
from diprime.cli.planning import Boosted, Model, estimator, rehearse
from diprime.cli.setting_options import TryOption, read_settings
from diprime.cli.shell import (
    EXIT_CODES,
    CommandGroup,
    escape_controls,
    print_json,
    print_note,
    progress,
    stderr,
    stdout,
)
from diprime.domain import Domain, Task
from diprime.estimators.parameters import EPSILON
from diprime.model.explanation import Explanation
from diprime.model.tree_view import Tree, contribution_text, read_tree
from diprime.output.report import render
from diprime.privacy.budget import Budget
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import exact_epsilon, loss_text, rounded_text


def _examples(*commands: str) -> str:
    lines = "\n".join(f"$ {command}" for command in commands)
    return f"**Examples**\n\n```\n{lines}\n```"


app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Differentially private forests and boosting for tables: from a CSV and a domain to a model you may publish.",
    epilog=_examples(
        "diprime domain draft people.csv --target income > domain.toml",
        "diprime plan --rows 30000 --epsilon 1 --domain domain.toml",
        "diprime fit people.csv --domain domain.toml --epsilon 1 -o model.diprime",
        "diprime score model.diprime test.csv --epsilon 0.1",
        "diprime predict model.diprime new.csv -o out.csv",
    )
    + f"\n\n{EXIT_CODES}",
)
domain_app = typer.Typer(no_args_is_help=True, help="Say what is public about the data.")
app.add_typer(domain_app, name="domain")
budget_app = typer.Typer(no_args_is_help=True, help="Keep one budget for all that is released about the same people.")
app.add_typer(budget_app, name="budget")


def _refuse_dash(output: Path) -> Path:
    if str(output) == "-":  # means standard output in other programs; here it would be the name of a file
        raise typer.BadParameter("give the name of a file; where there is one, standard output is /dev/stdout")
    return output


DataPath = Annotated[Path, typer.Argument(metavar="DATA", help="A CSV file with a header, or a Parquet file.")]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")]
DomainPath = Annotated[Path, typer.Option("--domain", "-d", metavar="FILE", help="The domain: a TOML or JSON file.")]
OutputPath = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE", callback=_refuse_dash, help="Where to write; replaced if it exists."
    ),
]
EpsilonOption = Annotated[
    float,
    typer.Option(
        "--epsilon",
        "-e",
        metavar="NUMBER",
        parser=read_number,
        help="The privacy budget; smaller is more private.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


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


# -- the domain --------------------------------------------------------------------------------------------------------


@domain_app.command("draft", epilog=_examples("diprime domain draft people.csv --target income > domain.toml"))
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


@domain_app.command(
    "learn",
    epilog=_examples(
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
    print(learnt.to_toml(), end="")
    if learnt.origin.ledger is not None:
        print_note(str(learnt.origin.ledger))


@domain_app.command(
    "check",
    epilog=_examples(
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
        n_rows, checks, persons = check(file, domain, target, advance, person)
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


# -- from plan to predictions ------------------------------------------------------------------------------------------


@app.command(
    epilog=_examples(
        "diprime plan --rows 30000 --epsilon 1 --domain domain.toml",
        "diprime plan --rows 30000 --epsilon 1 --domain domain.toml --boost --delta 1e-6",
        "diprime plan --rows 30000 --epsilon 1 --domain domain.toml --max-records 3",
    )
)
def plan(  # noqa: PLR0913 -- the options of a command are arguments
    rows: Annotated[int, typer.Option(min=1, help="About how many rows there are; a guess, if that is private.")],
    epsilon: EpsilonOption,
    domain_path: DomainPath,
    repeats: Annotated[int, typer.Option(min=1, help="How often to rehearse on made-up data.")] = 3,
    *,
    boost: BoostOption = False,
    delta: DeltaOption = None,
    rounds: RoundsOption = None,
    learning_rate: LearningRateOption = None,
    no_interactions: NoInteractionsOption = False,
    max_records: MaxRecordsOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Say what a fit would be like, without touching data.

    Trees, depth, the split of the budget and the noise are what the fit would have. The accuracy is that of a
    rehearsal on made-up data: independent features, uniform over the domain, and a target that adds up the effects of
    five of them. It tells what the noise costs at this size and budget, not how well your data can be predicted. With
    --max-records, persons are protected, and each is taken to have so many of the rows.
    """
    domain = read_domain(domain_path)
    exact_epsilon(epsilon)
    options = estimator_options(boost, delta, rounds, learning_rate, no_interactions)
    if max_records > 1:
        options["max_records_per_group"] = max_records
    with progress("Rehearsing") as advance:
        planned = rehearse(domain, epsilon, rows, repeats, advance, **options)
    lost = planned.noiseless - planned.private
    ledger = planned.ledger
    if as_json:
        scores = {name: value for name, value in vars(planned).items() if name not in ("shape", "ledger")}
        print_json({**vars(planned.shape), **scores, "lost_to_noise": lost, "ledger": ledger.to_dict()})
        return
    budget = f"ε = {epsilon:g}, δ = {float(ledger.delta):g}" if boost else f"ε = {epsilon:g}"
    print(f"A fit of about {rows:,} rows with {budget}\n\n{planned.shape}\n")
    if max_records > 1:
        n_persons = -(-rows // max_records)
        print(f"Protected: {ledger.whole_unit} added or removed; about {n_persons:,} persons.\n")
    _print_budget(ledger)
    kind = "boosted model" if boost else "forest"
    print(f"\nRehearsal on made-up data, mean of {repeats}:")
    print(f"  {planned.measure} {planned.private:.3f}; the same {kind} without noise {planned.noiseless:.3f}; ", end="")
    print(f"the best guess without features {planned.guess:.3f}.")
    print(f"  The noise costs {max(lost, 0):.3f}. That carries over to your data, roughly; the rest does not.")


def _print_budget(ledger: Ledger) -> None:
    unit = "μ²" if ledger.loss.mu_squared else "ε"
    table = Table("release", "mechanism", unit, "share", title="How the budget is split")
    for charge in ledger.charges:
        share = f"{ledger.share(charge):.1%}" if ledger.is_private else "–"
        table.add_row(charge.what, charge.mechanism, f"{float(charge.total):.4g}", share)
    stdout().print(table)
    if ledger.loss.mu_squared:
        total, delta = rounded_text(ledger.total), rounded_text(ledger.delta)
        print(f"Sum: μ² = {rounded_text(ledger.loss.mu_squared)}. At δ = {delta} that is ε = {total}.")


@app.command(
    epilog=_examples(
        "diprime fit people.csv --domain domain.toml --epsilon 1 -o model.diprime",
        "diprime fit people.csv --domain domain.toml --epsilon 1 --boost --delta 1e-6 -o model.diprime",
        "diprime fit people.csv --domain domain.toml --epsilon 1 --budget study.budget -o model.diprime",
        "diprime fit visits.csv --domain domain.toml --epsilon 1 --person patient --max-records 3 -o model.diprime",
    )
)
def fit(  # noqa: PLR0913 -- the options of a command are arguments
    data: DataPath,
    domain_path: DomainPath,
    epsilon: EpsilonOption,
    output: OutputPath,
    *,
    boost: BoostOption = False,
    delta: DeltaOption = None,
    rounds: RoundsOption = None,
    learning_rate: LearningRateOption = None,
    no_interactions: NoInteractionsOption = False,
    budget: BudgetOption = None,
    person: PersonOption = None,
    max_records: MaxRecordsOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Fit a model to private data, and write it to a file that may be published.

    It is a forest under epsilon or, with --boost, a boosted model under epsilon and delta. Both are
    spent each time: a second model of the same people spends them again, and --budget adds it up. Without --person,
    every record is taken to be a person of its own. Columns that neither the domain nor --person names are not read. A
    number that cannot be read is an error, for you who hold the data; nothing is released then. Memory: about two bytes
    for each value of the table, plus a batch of rows.
    """
    _check_folder(output)
    domain = read_domain(domain_path)
    file = DataFile(data)
    persons = check_person(file, domain, person, max_records)
    target = target_column(file, domain, persons)
    options = estimator_options(boost, delta, rounds, learning_rate, no_interactions)
    options |= {"max_records_per_group": max_records, "verbose": int(stderr().is_terminal)}
    model = estimator(domain, epsilon, **options)
    with charged_to(budget), progress("Reading") as advance:
        passes = PASSES + 1 if domain.is_open else 1
        model.fit_batches(RecordBatches(file, domain, target, lambda share: advance(share / passes), persons))
    _note_draft(domain, domain_path)
    model.save(output)
    if as_json:
        print_json({"model": str(output), **_summary(model)})
    else:
        print(f"{model.privacy_}\n\nWritten to {output}.")
        if budget is not None:
            print(f"{budget}. {' '.join(left_in_words(Budget.open(budget)))}")


def _note_draft(domain: Domain, domain_path: Path) -> None:
    if domain.origin.kind == "read":
        print_note(
            f"diprime: {domain_path} is a draft that nobody has reviewed; replace what is not public knowledge, write "
            'reviewed_by = "your name" at its top, and fit again.'
        )


@app.command(
    epilog=_examples(
        "diprime search people.csv -d domain.toml -e 3 --try max_depth=1,auto --try balance=0,1 -o model.diprime",
        "diprime search people.csv -d domain.toml -e 3 --boost --try interactions=true,false -o model.diprime",
    )
)
def search(  # noqa: PLR0913 -- the options of a command are arguments
    data: DataPath,
    domain_path: DomainPath,
    epsilon: EpsilonOption,
    output: OutputPath,
    tried: TryOption,
    *,
    boost: BoostOption = False,
    delta: DeltaOption = None,
    person: PersonOption = None,
    max_records: MaxRecordsOption = 1,
    budget: BudgetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Choose among settings privately, and write the model of the best one to a file that may be published.

    All combinations of the values are settings. The budget is divided among the fits that are tried, the choice and
    the model, so that a model that was searched for has more noise than one of 'diprime fit' with the same epsilon.
    Nothing is told of the settings that were not chosen.
    """
    _check_folder(output)
    domain = read_domain(domain_path)
    file = DataFile(data)
    persons = check_person(file, domain, person, max_records)
    target = target_column(file, domain, persons)
    options = estimator_options(boost, delta, None, None, False)
    model = estimator(domain, EPSILON.default, **options, max_records_per_group=max_records)
    found = diprime.PrivateSearch(model, read_settings(tried, model), epsilon=epsilon)
    with charged_to(budget), progress("Reading") as advance:
        found.fit_batches(RecordBatches(file, domain, target, advance, persons))
    _note_draft(domain, domain_path)
    found.save(output)
    if as_json:
        print_json({"model": str(output), "chosen": found.best_params_, **_summary(found.best_estimator_)})
    else:
        chosen = ", ".join(f"{name} = {value}" for name, value in found.best_params_.items())
        print(f"Chosen: {chosen}.\n\n{found.privacy_}\n\nWritten to {output}.")


@app.command(
    epilog=_examples(
        "diprime predict model.diprime new.csv -o out.csv",
        "diprime predict model.diprime new.csv -o out.csv --keep id",
    )
)
def predict(
    model_path: ModelPath,
    data: DataPath,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", callback=_refuse_dash, help="Where to write: .csv or .parquet."),
    ],
    keep: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column of the data to copy; may be repeated.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Predict the rows of a file, in their order.

    The output has the column "prediction" and, for classes, the probability of each. Memory: a batch of rows; for
    Parquet, all predictions.
    """
    model = diprime.load(model_path)
    file = DataFile(data)
    kept = list(dict.fromkeys(keep or []))
    new = ["prediction", *(f"probability {label}" for label in getattr(model, "classes_", ()))]
    for i, name in enumerate(names := [*kept, *new]):
        if name in names[:i]:
            raise InputError(
                f"The output would have two columns {name!r}; rename the one that you keep, or leave it out."
            )
    with progress("Predicting") as advance, atomic_file(output) as written:
        batches = file.decoded_batches(model.domain_.features, advance, kept)
        predictions = (_predictions(model, batch, kept) for batch in batches)
        if output.suffix == ".parquet":
            pl.concat(predictions).write_parquet(written)
        else:
            for i, frame in enumerate(predictions):
                written.write(frame.write_csv(include_header=i == 0).encode())
    _confirm_written(output, as_json, predictions=str(output))


@app.command(
    epilog=_examples(
        "diprime score model.diprime test.csv --epsilon 0.1",
        "diprime score model.diprime test.csv --epsilon 0.1 -o score.json",
    )
)
def score(
    model_path: ModelPath,
    data: DataPath,
    epsilon: EpsilonOption = 0.1,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write the score, as JSON, for diprime report."),
    ] = None,
    confidence: Annotated[
        float, typer.Option(metavar="NUMBER", help="How sure intervals are to hold the truth.")
    ] = 0.95,
    person: PersonOption = None,
    budget: BudgetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a model on private test rows, with noise and confidence intervals: accuracy, AUC, errors and more.

    The rows must not be among those that the model was trained on. The score spends epsilon, of the privacy of the
    people in these rows, each time; if the model was trained on other rows of the same people, both add up. Memory: a
    batch of rows, and what the model says of each row.
    """
    if output is not None:
        _check_folder(_refuse_dash(output))
    model = diprime.load(model_path)
    domain, file = model.domain_, DataFile(data)
    persons = check_person(file, domain, person)
    target = target_column(file, domain, persons)
    with charged_to(budget), progress("Reading") as advance:
        batches = RecordBatches(file, domain, target, advance, persons)
        result = diprime.private_score_batches(model, batches, epsilon, confidence=confidence)
    if output is not None:
        with atomic_file(output) as written:
            written.write(result.to_json().encode())
        print_note(f"Written to {output}.")
    if as_json:
        print_json(result.to_dict())
    else:
        print(escape_controls(str(result)))


@app.command(
    epilog=_examples("diprime explain model.diprime new.csv", "diprime explain model.diprime new.csv --rows 1 --json")
)
def explain(
    model_path: ModelPath,
    data: DataPath,
    rows: Annotated[int, typer.Option(min=1, help="How many rows to explain, from the first.")] = 3,
    most: Annotated[int, typer.Option(min=1, help="How many contributions to print for a row.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Say what each feature, and each pair, adds to the predictions of a boosted model for the first rows of a file.

    Contributions add up to log-odds for two classes, to a score for each of more classes (probabilities are
    proportional to their exponentials), and to the prediction itself for numbers. They are computed from the model
    and the row alone.
    """
    model = diprime.load(model_path)
    if not isinstance(model, Boosted):
        raise InputError(f"{model_path} is a forest; only boosted models, fitted with --boost, can be explained.")
    batches = DataFile(data).decoded_batches(model.domain_.features, lambda share: None)
    first: list[pl.DataFrame] = []
    while sum(batch.height for batch in first) < rows and (batch := next(batches, None)) is not None:
        first.append(batch)
    explanation = model.explain(pl.concat(first).head(rows).select(model.domain_.columns))
    if as_json:
        print_json(_explanation_as_dict(explanation))
    else:
        texts = [explanation.row(i, most) for i in range(len(explanation.scores))]
        print(escape_controls("\n\n".join(texts)))


def _explanation_as_dict(explanation: Explanation) -> dict[str, Any]:
    return {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in vars(explanation).items()}


def _check_folder(output: Path) -> None:
    """Raise an error if the folder of the output does not exist; called before a fit, not after it."""
    if not output.parent.is_dir():
        raise InputError(f"{output} cannot be written: there is no folder {output.parent}.")


def _predictions(model: Model, batch: pl.DataFrame, kept: list[str]) -> pl.DataFrame:
    rows = batch.select(model.domain_.columns)
    columns = {name: batch[name] for name in kept}
    columns["prediction"] = pl.Series(model.predict(rows).tolist(), strict=False)
    if isinstance(model, diprime.DiPriMeClassifier | diprime.DiPriMeBoostingClassifier):
        shares = zip(model.classes_, model.predict_proba(rows).T, strict=True)
        columns |= {f"probability {label}": pl.Series(share) for label, share in shares}
    return pl.DataFrame(columns)


# -- models ------------------------------------------------------------------------------------------------------------


@app.command(
    epilog=_examples(
        "diprime show model.diprime",
        "diprime show model.diprime --tree 1 --depth 5",
        "diprime show model.diprime --json",
    )
)
def show(
    model_path: ModelPath,
    tree: Annotated[int, typer.Option(min=0, help="Which tree to draw, from 0.")] = 0,
    depth: Annotated[int, typer.Option(min=0, help="How many of its levels to draw.")] = 3,
    as_json: JsonOption = False,
) -> None:
    """Print what a model holds: its ledger, importances, and a tree as text."""
    model = diprime.load(model_path)
    if as_json:
        trees = [_tree_as_dict(read_tree(model, i)) for i in range(model.forest_.n_trees)]
        print_json({**_summary(model), "domain": model.domain_.to_dict(), "trees": trees})
        return
    drawing = _draw_tree(read_tree(model, tree, depth), model, tree)
    print(escape_controls(f"{type(model).__name__}, number of trees: {model.forest_.n_trees}. {model.privacy_}\n"))
    table = Table("feature", "importance", title="Importances, from released numbers only")
    for name, importance in sorted(_importances(model).items(), key=lambda pair: -pair[1]):
        table.add_row(escape(escape_controls(name)), f"{importance:.1%}")
    stdout().print(table)
    stdout().print(drawing)


@app.command(
    epilog=_examples(
        "diprime report model.diprime -o report.html",
        "diprime report model.diprime --score score.json -o report.html",
    )
)
def report(
    model_path: ModelPath,
    output: OutputPath,
    score_path: Annotated[
        Path | None, typer.Option("--score", metavar="FILE", help="A score of the model, from diprime score.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a report for people: one HTML page with the promise, the ledger, importances and the trees.

    Of a boosted model it draws the functions that add up, in place of the trees. With --score it shows how good the
    model is on test rows, and what that cost.
    """
    page = render(diprime.load(model_path), None if score_path is None else read_score(score_path))
    with atomic_file(output) as file:
        file.write(page.encode())
    _confirm_written(output, as_json, report=str(output))


@app.command(epilog=_examples("diprime merge north.diprime south.diprime -o both.diprime"))
def merge(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Model files of the same domain.")],
    output: OutputPath,
    as_json: JsonOption = False,
) -> None:
    """Put models together that were fitted to different people, say in two hospitals.

    All are forests, or all are boosted. The merged model spends the largest epsilon of its parts, provided that nobody
    is in the data of two of them.
    """
    merged = diprime.merge([diprime.load(path) for path in models])
    merged.save(output)
    print_note("Its total holds if nobody is in the data of two of these models.")
    _confirm_written(output, as_json, model=str(output), **_summary(merged))


def _confirm_written(output: Path, as_json: bool, **content: Any) -> None:
    if as_json:
        print_json(content)
    else:
        print_note(f"Written to {output}.")


def _importances(model: Model) -> dict[str, float]:
    return dict(zip(model.domain_.names, model.feature_importances_.tolist(), strict=True))


def _summary(model: Model) -> dict[str, Any]:
    return {
        "estimator": type(model).__name__,
        "n_trees": model.forest_.n_trees,
        "depths": model.forest_.depths.tolist(),
        "importances": _importances(model),
        "ledger": model.privacy_.to_dict(),
    }


def _tree_as_dict(tree: Tree) -> dict[str, Any]:
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(tree).items()}


def _draw_tree(tree: Tree, model: Model, index: int) -> TextTree:
    """Draw a tree as text; nodes whose children are not drawn say how many levels follow."""

    def describe(node: int) -> str:
        values, classes = tree.values[node], getattr(model, "classes_", None)
        if tree.count_noise is None:
            details = f"{contribution_text(values, classes)}, weight {tree.counts[node]:,.0f}"
        else:
            estimate = f"{values[0]:.4g}" if classes is None else f"{classes[values.argmax()]} {values.max():.0%}"
            details = f"{estimate}, {tree.counts[node]:,.0f} ± {tree.count_noise[node]:,.0f} {tree.unit}s"
        if tree.levels_below and node >= 2**tree.depth - 1:
            details += f", {tree.levels_below} more levels"
        condition = tree.conditions[node] or f"Tree {index}"
        return f"{escape(escape_controls(condition))}  [dim]{escape(escape_controls(details))}[/dim]"

    def add_children(node: int, drawing: TextTree) -> TextTree:
        for child in (2 * node + 1, 2 * node + 2):
            if child < len(tree.conditions):
                add_children(child, drawing.add(describe(child)))
        return drawing

    return add_children(0, TextTree(describe(0)))


# -- the budget of a study ---------------------------------------------------------------------------------------------


@budget_app.command("new", epilog=_examples("diprime budget new study.budget --epsilon 3 --delta 1e-5"))
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
    _check_folder(path)
    budget = Budget.create(path, epsilon, delta, pure=pure)
    if as_json:
        print_json(budget.to_dict())
    else:
        print_note(f"Written to {path}.")


@budget_app.command(
    "show", epilog=_examples("diprime budget show study.budget", "diprime budget show study.budget --json")
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


# -- the demonstration -------------------------------------------------------------------------------------------------


@app.command(epilog=_examples("diprime demo", "diprime demo --folder somewhere"))
def demo(
    folder: Annotated[Path, typer.Option(help="Where to put its files.")] = Path("diprime-demo"),
) -> None:
    """Go through all steps with made-up people: check, plan, fit, predict, show, score and report."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, n_people, seed in (("people.csv", 30_000, 1), ("new.csv", 10_000, 2)):
        with atomic_file(folder / name) as file:
            file.write(synthetic_people(n_people, seed).write_csv().encode())
    with atomic_file(folder / "domain.toml") as file:
        file.write(PEOPLE_DOMAIN.encode())
    print(f"{folder}/people.csv now has 30,000 made-up people, {folder}/new.csv has 10,000 others, and")
    print(f"{folder}/domain.toml says what is public about them.")
    quoted = shlex.quote(str(folder))
    for command in (
        f"diprime domain check {quoted}/people.csv --domain {quoted}/domain.toml",
        f"diprime plan --rows 30000 --epsilon 1 --domain {quoted}/domain.toml",
        f"diprime fit {quoted}/people.csv --domain {quoted}/domain.toml --epsilon 1 -o {quoted}/model.diprime",
        f"diprime predict {quoted}/model.diprime {quoted}/new.csv -o {quoted}/out.csv --keep income",
        f"diprime show {quoted}/model.diprime --depth 2",
        f"diprime score {quoted}/model.diprime {quoted}/new.csv --epsilon 0.1 -o {quoted}/score.json",
        f"diprime report {quoted}/model.diprime --score {quoted}/score.json -o {quoted}/report.html",
    ):
        print(f"\n$ {command}", flush=True)
        _run(shlex.split(command)[1:])
    results = pl.read_csv(folder / "out.csv")
    right = (results["income"] == results["prediction"]).to_numpy().mean()
    print(f"\nOf the new people, {right:.1%} are predicted rightly; {_largest_share(results):.1%} are in one class.")
    print(f"Open {folder}/report.html in a browser. Then try your own data: diprime domain draft --help")


def _largest_share(people: pl.DataFrame) -> float:
    return float(people["income"].value_counts()["count"].to_numpy().max() / people.height)


def _run(arguments: list[str]) -> None:
    """Run a command as a shell does, in this process."""
    try:
        typer.main.get_command(app).main(args=arguments, prog_name="diprime")
    except SystemExit as ended:
        if ended.code:
            raise
