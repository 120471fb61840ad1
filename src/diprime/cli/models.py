"""Commands that use fitted models: ``diprime predict``, ``score``, ``explain``, ``show``, ``report`` and ``merge``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree as TextTree

import diprime
from diprime._util import InputError
from diprime._util.files import atomic_file
from diprime.cli.options import (
    BudgetOption,
    DataPath,
    EpsilonOption,
    JsonOption,
    ModelPath,
    OutputPath,
    PersonOption,
    Sha256Option,
    check_person,
    read_score,
    refuse_dash,
    text_option,
)
from diprime.cli.shell import (
    Commands,
    charged_to,
    confirm_written,
    csv_bytes,
    escape_controls,
    examples,
    print_json,
    print_note,
    progress,
    stdout,
)
from diprime.domain.records import MAX_RECORDS
from diprime.estimators.models import Model, to_model
from diprime.estimators.parameters import class_weight_from, weights_by_class
from diprime.inspection.explanation import Explanation
from diprime.inspection.importances import NOTHING_ABOVE_NOISE
from diprime.inspection.views import TreeView, contribution_text, drawn_trees, noise_of_trees_text, read_tree
from diprime.inspection.words import NOISE_DIGITS, count_text, counted, number_text, share_text
from diprime.model.additive import AdditiveForest
from diprime.model.files import read_file
from diprime.report import Approval, render
from diprime.sources.data_files import DataFile, Files
from diprime.sources.protocol import Roles

commands = Commands()


@commands.command(
    epilog=examples(
        "diprime predict model.diprime new.csv -o out.csv",
        "diprime predict model.diprime new.csv -o out.csv --keep id",
    )
)
def predict(
    model_path: ModelPath,
    data: DataPath,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", callback=refuse_dash, help="Output file: .csv or .parquet."),
    ],
    keep: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Column of the data to copy unchanged (repeatable).")
    ] = None,
    sha256: Sha256Option = None,
    as_json: JsonOption = False,
) -> None:
    """Predict the rows of a file, in their order.

    The output has the column "prediction" and, for classes, one column of probabilities per class. The command keeps a
    batch of rows in memory or, for Parquet output, all predictions.
    """
    as_parquet = _is_parquet(output)
    model = diprime.load(model_path, sha256=sha256)
    file = DataFile(data)
    kept = list(dict.fromkeys(keep or []))
    new = ["prediction", *(f"probability {label}" for label in getattr(model, "classes_", ()))]
    for i, name in enumerate(names := [*kept, *new]):
        if name in names[:i]:
            raise InputError(
                f"The output would have two columns named {name!r}. Rename the column in the data, or do not keep it."
            )
    with progress("Predicting") as advance, atomic_file(output) as written:
        batches = file.read(model.domain_.features, model.domain_.missing_texts, kept, advance)
        predictions = (_predictions(model, pa.table(rows), copied) for rows, copied in batches)
        if as_parquet:
            pq.write_table(pa.concat_tables(predictions), written)
        else:
            for i, rows in enumerate(predictions):
                written.write(csv_bytes(rows, has_header=i == 0))
    confirm_written(output, as_json, predictions=str(output))


def _is_parquet(output: Path) -> bool:
    """Return whether to write Parquet instead of CSV; refuse any other file name extension."""
    suffix = output.suffix.lower()
    if suffix not in ("", ".csv", ".parquet"):  # a pipe has no suffix
        raise InputError(f"Predictions are written as .csv or .parquet, not as {suffix}. Rename {output}.")
    return suffix == ".parquet"


def _predictions(model: Model, rows: pa.Table, copied: pa.Table) -> pa.Table:
    columns = dict(zip(copied.column_names, copied.columns, strict=True))
    columns["prediction"] = _prediction_column(model.predict(rows).tolist())
    if isinstance(model, diprime.DiPriMeClassifier | diprime.DiPriMeBoostingClassifier):
        shares = zip(model.classes_, model.predict_proba(rows).T, strict=True)
        columns |= {f"probability {label}": pa.array(share) for label, share in shares}
    return pa.table(columns)


def _prediction_column(values: list[Any]) -> pa.Array:
    """Return predictions as a column, which contains text if any prediction is text."""
    if not any(isinstance(value, str) for value in values):
        return pa.array(np.asarray(values))
    return pa.array([value if isinstance(value, str) else json.dumps(value) for value in values])


@commands.command(
    epilog=examples(
        "diprime score model.diprime test.csv --epsilon 0.1",
        "diprime score model.diprime test.csv --epsilon 0.1 -o score.json",
    )
)
def score(  # noqa: PLR0913 -- options of a command are arguments
    model_path: ModelPath,
    data: DataPath,
    epsilon: EpsilonOption = 0.1,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            callback=refuse_dash,
            help="Output file for the score, as JSON, for diprime report.",
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(metavar="NUMBER", help="Confidence level of the intervals.")] = 0.95,
    person: PersonOption = None,
    max_records: Annotated[
        int,
        typer.Option(
            "--max-records-per-person",
            min=1,
            max=MAX_RECORDS,
            metavar="INTEGER",
            help=(
                "Above 1: score rows instead of people, up to this number per person. Multiplies the noise by this "
                "number."
            ),
        ),
    ] = 1,
    budget: BudgetOption = None,
    sha256: Sha256Option = None,
    as_json: JsonOption = False,
) -> None:
    """Score a model on private test rows, with noise and confidence intervals: accuracy, AUC, errors and more.

    The model must not have been trained on these rows. Each score spends epsilon of the privacy budget of the people in
    the rows. If the model was trained on other rows of the same people, both costs add up. The command keeps a batch of
    rows in memory, and the predictions for all rows.
    """
    model = diprime.load(model_path, sha256=sha256)
    source = Files([data])
    check_person(person, max_records)
    target, groups = source.roles(model.domain_, Roles(groups=person))
    options: dict[str, Any] = {"max_records_per_group": max_records, "confidence": confidence}
    with charged_to(budget) as account:
        with progress("Reading") as source.advance:
            result = diprime.private_score(model, source, target, epsilon, groups=groups, **options)
        content = result.to_json().encode()
        with account.recoverable(result.ledger, content):
            if output is not None:
                with atomic_file(output) as written:
                    written.write(content)
                print_note(f"Written to {output}.")
            if as_json:
                print_json(result.to_dict())
            else:
                print(escape_controls(str(result)))
            sys.stdout.flush()


@commands.command(
    epilog=examples("diprime explain model.diprime new.csv", "diprime explain model.diprime new.csv --rows 1 --json")
)
def explain(
    model_path: ModelPath,
    data: DataPath,
    rows: Annotated[int, typer.Option(min=1, help="Number of rows to explain, from the first.")] = 3,
    most: Annotated[int, typer.Option(min=1, help="Number of contributions to print per row.")] = 10,
    sha256: Sha256Option = None,
    as_json: JsonOption = False,
) -> None:
    """Print the contributions of features to the predictions of a model for the first rows of a file.

    For a forest, contributions are Shapley values. They add up to the predicted probability of the second of two
    classes, to the probability of each of several classes, or to a numeric prediction. For a boosted model, pairs of
    features contribute too. With two classes, the contributions add up to log-odds; with more, to one score per class,
    and probabilities are proportional to the exponentials of the scores. Explanations cost no privacy.
    """
    model = diprime.load(model_path, sha256=sha256)
    domain = model.domain_
    batches = (pa.table(values) for values, _ in DataFile(data).read(domain.features, domain.missing_texts))
    first: list[pa.Table] = []
    while sum(map(len, first)) < rows and (batch := next(batches, None)) is not None:
        first.append(batch)
    explanation = model.explain(pa.concat_tables(first).slice(0, rows).select(domain.column_names))
    if as_json:
        print_json(_plain_fields(explanation))
    else:
        texts = [explanation.row(i, most) for i in range(len(explanation.scores))]
        print(escape_controls("\n\n".join(texts)))


def _plain_fields(shown: Explanation | TreeView) -> dict[str, Any]:
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(shown).items()}


@commands.command(
    epilog=examples(
        "diprime show model.diprime",
        "diprime show model.diprime --tree 1 --depth 5",
        "diprime show model.diprime --json",
    )
)
def show(
    model_path: ModelPath,
    tree: Annotated[int, typer.Option(min=0, help="Index of the tree, or round, to draw, from 0.")] = 0,
    depth: Annotated[int, typer.Option(min=0, help="Number of levels to draw.")] = 3,
    sha256: Sha256Option = None,
    as_json: JsonOption = False,
) -> None:
    """Print the ledger, the importances and a tree of a model.

    For a boosted model, the tree is a round. Its functions, which add up its curves and rounds, are in its report.
    """
    model = diprime.load(model_path, sha256=sha256)
    n_trees = len(drawn_trees(model.forest_))
    if as_json:
        trees = [_plain_fields(read_tree(model, i)) for i in range(n_trees)]
        print_json({**summary(model), "domain": model.domain_.to_dict(), "trees": trees})
        return
    drawing = _draw_tree(read_tree(model, tree, depth), model, tree) if n_trees else None
    size = f"number of trees: {n_trees}"
    if isinstance(model.forest_, AdditiveForest):
        size = f"number of curves: {len(model.forest_.curves)}, number of rounds: {n_trees}"
    print(escape_controls(f"{type(model).__name__}, {size}. {model.privacy_}\n"))
    if weights := class_weight_text(model):
        print(escape_controls(f"{weights}\n"))
    found = model.importances()
    table = Table("feature", "share of variance", "", title="Importances, from released numbers, without their noise")
    for j in found.order:
        name, mark = escape(escape_controls(found.names[j])), "" if found.above_noise[j] else "not above noise"
        table.add_row(name, f"{share_text(found.shares[j])} ± {share_text(found.errors[j])}", mark)
    stdout().print(table)
    if not found.above_noise.any():
        stdout().print(NOTHING_ABOVE_NOISE)
    if drawing is not None:
        stdout().print(drawing)
        stdout().print(noise_of_trees_text(model))


@commands.command(
    epilog=examples(
        "diprime report model.diprime -o report.html",
        "diprime report model.diprime --score score.json -o report.html",
        'diprime report model.diprime --data "Visits 2020" --responsible "Jane Doe, data office" -o report.html',
    )
)
def report(  # noqa: PLR0913 -- the options of a command are arguments
    model_path: ModelPath,
    *,
    output: OutputPath,
    score_path: Annotated[
        Path | None, typer.Option("--score", metavar="FILE", help="Score of the model, from diprime score.")
    ] = None,
    sha256: Sha256Option = None,
    data: Annotated[str | None, text_option("--data", "Name of the data set.")] = None,
    responsible: Annotated[
        str | None, text_option("--responsible", "Person who is responsible for the report.")
    ] = None,
    intended_use: Annotated[str | None, text_option("--intended-use", "Intended use of the model.")] = None,
    approver: Annotated[str | None, text_option("--approver", "Person who decided about the publication.")] = None,
    decision: Annotated[str | None, text_option("--decision", "The decision. Requires --approver.")] = None,
    decision_date: Annotated[
        datetime | None,
        typer.Option("--decision-date", formats=["%Y-%m-%d"], help="Date of the decision; default: today."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a report: one HTML page with the guarantee, the ledger, the score, the approval and the model.

    For a boosted model, the page shows its functions instead of trees. With --score, it shows the quality of the model
    on test rows, and the privacy cost of the score. The page states its date and the SHA-256 of the model file.
    """
    score = None if score_path is None else read_score(score_path)
    content = read_file(model_path, sha256)
    model = to_model(content, model_path)
    page = render(
        model,
        score,
        dataset=data,
        responsible=responsible,
        intended_use=intended_use,
        approval=_approval(approver, decision, decision_date),
        model_file=content,
    )
    with atomic_file(output) as file:
        file.write(page.encode())
    confirm_written(output, as_json, report=str(output))


def _approval(approver: str | None, decision: str | None, decision_date: datetime | None) -> Approval | None:
    """Return the approval that the options describe, if any."""
    if approver is None and decision is None and decision_date is None:
        return None
    if approver is None or decision is None:
        raise InputError("An approval requires both --approver and --decision.")
    return Approval(approver, decision) if decision_date is None else Approval(approver, decision, decision_date.date())


@commands.command(epilog=examples("diprime merge north.diprime south.diprime --disjoint -o both.diprime"))
def merge(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Model files of the same domain.")],
    output: OutputPath,
    disjoint: Annotated[
        bool, typer.Option("--disjoint", help="Assert that no person is in the data of two of the models. Required.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Merge models that were fitted to different people, for example in two hospitals.

    The models must be all forests or all boosted models. The merged model costs the largest epsilon of its parts,
    because --disjoint asserts that no person is in the data of two of them. The ledger and the report state this
    assertion.
    """
    merged = diprime.merge([diprime.load(path) for path in models], disjoint=disjoint)
    merged.save(output)
    confirm_written(output, as_json, model=str(output), **summary(merged))


def _draw_tree(tree: TreeView, model: Model, index: int) -> TextTree:
    """Draw a tree as text. Nodes whose children are not drawn show the number of omitted levels."""

    def describe(node: int) -> str:
        values, classes = tree.values[node], getattr(model, "classes_", None)
        if tree.count_noise is None:
            details = f"{contribution_text(values, classes)}, weight {tree.counts[node]:,.0f}"
        else:
            best = "" if classes is None else f"{classes[values.argmax()]}: {share_text(values.max())}"
            estimate = best or number_text(values[0])
            if tree.value_noise is not None:
                noise = tree.value_noise[node]
                estimate += f" ± {number_text(noise, NOISE_DIGITS) if classes is None else share_text(noise)}"
            details = f"{estimate}, {count_text(tree.counts[node], tree.count_noise[node], tree.unit)}"
        if tree.levels_below and node >= 2**tree.depth - 1:
            details += f", {counted(tree.levels_below, 'more level')}"
        condition = tree.conditions[node] or f"{'Tree' if tree.count_noise is not None else 'Round'} {index}"
        return f"{escape(escape_controls(condition))}  [dim]{escape(escape_controls(details))}[/dim]"

    def add_children(node: int, drawing: TextTree) -> TextTree:
        for child in (2 * node + 1, 2 * node + 2):
            if child < len(tree.conditions):
                add_children(child, drawing.add(describe(child)))
        return drawing

    return add_children(0, TextTree(describe(0)))


def importances(model: Model) -> dict[str, float]:
    """Return the importance of each encoded feature, as a share of all importances above the noise."""
    return dict(zip(model.domain_.encoded_feature_names, model.feature_importances_.tolist(), strict=True))


def summary(model: Model) -> dict[str, Any]:
    """Return a summary of a model and its ledger as plain JSON data."""
    forest = model.forest_
    trees = drawn_trees(forest)
    return {
        "estimator": type(model).__name__,
        **({"n_curves": len(forest.curves)} if isinstance(forest, AdditiveForest) else {}),
        "n_trees": len(trees),
        "depths": forest.depths[trees].tolist(),
        "class_weight": _class_weight(model),
        "importances": importances(model),
        "variance_shares": model.importances().to_dict(),
        "ledger": model.privacy_.to_dict(),
    }


def class_weight_text(model: Model) -> str:
    """Return a sentence on the class weights, or an empty text without them."""
    weights = _class_weight(model)
    if weights is None:
        return ""
    if not isinstance(weights, str):
        weights = ", ".join(f"{weight['class']}: {weight['weight']:g}" for weight in weights)
    return f"Class weights: {weights}. They apply to predictions, and not to the released counts."


def _class_weight(model: Model) -> list[dict[str, Any]] | str | None:
    """Return the class weights as plain JSON data: a list of pairs, because classes need not be text like JSON keys."""
    given = model.fitted_params_.get("class_weight")
    if not isinstance(given, Mapping):
        return given
    weights = class_weight_from(weights_by_class(given, model.domain_).tolist(), model.domain_)
    return [{"class": label, "weight": weight} for label, weight in weights.items()]
