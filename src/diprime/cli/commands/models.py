"""The commands that look into models and put them together: ``diprime explain``, ``show``, ``report`` and ``merge``."""

from __future__ import annotations

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
from diprime.cli.data_files import DataFile, read_score
from diprime.cli.model_facts import class_weight_text, importances, summary
from diprime.cli.options import DataPath, JsonOption, ModelPath, OutputPath
from diprime.cli.outputs import Commands
from diprime.cli.shell import confirm_written, escape_controls, examples, print_json, print_note, stdout
from diprime.cli.signature_options import PublicKeyOption, RequiredKeyOption, print_signature
from diprime.estimators.models import Model
from diprime.estimators.signing import inspect_model
from diprime.model.explanation import Explanation
from diprime.model.feature_words import counted
from diprime.model.rounding import count_text, number_text, share_text
from diprime.model.tree_view import Tree, contribution_text, read_tree
from diprime.output.report import render

commands = Commands()


@commands.command(
    epilog=examples("diprime explain model.diprime new.csv", "diprime explain model.diprime new.csv --rows 1 --json")
)
def explain(
    model_path: ModelPath,
    data: DataPath,
    rows: Annotated[int, typer.Option(min=1, help="How many rows to explain, from the first.")] = 3,
    most: Annotated[int, typer.Option(min=1, help="How many contributions to print for a row.")] = 10,
    public_key: RequiredKeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what each feature adds to the predictions of a model for the first rows of a file.

    Contributions to a forest are Shapley values. They add up to the probability of the second of two classes, to the
    probabilities of more classes, and to the prediction itself for numbers. In a boosted model pairs of features
    contribute too, and the sums for classes are log-odds, or scores (probabilities are proportional to their
    exponentials). All are computed from the model and the row alone.
    """
    model = diprime.load(model_path, public_key=public_key)
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


@commands.command(
    epilog=examples(
        "diprime show model.diprime",
        "diprime show model.diprime --tree 1 --depth 5",
        "diprime show model.diprime --json",
        "diprime show model.diprime --public-key reviewer.key.pub",
    )
)
def show(
    model_path: ModelPath,
    tree: Annotated[int, typer.Option(min=0, help="Which tree to draw, from 0.")] = 0,
    depth: Annotated[int, typer.Option(min=0, help="How many of its levels to draw.")] = 3,
    public_key: PublicKeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what a model holds: its ledger, importances, and a tree as text; and whether it is signed."""
    found = inspect_model(model_path, public_key)
    model, signature = found.model, found.signature
    if as_json:
        trees = [_tree_as_dict(read_tree(model, i)) for i in range(model.forest_.n_trees)]
        signed = None if signature is None else asdict(signature)
        print_json({**summary(model), "signature": signed, "domain": model.domain_.to_dict(), "trees": trees})
        return
    drawing = _draw_tree(read_tree(model, tree, depth), model, tree)
    print_signature(signature)
    print(escape_controls(f"{type(model).__name__}, number of trees: {model.forest_.n_trees}. {model.privacy_}\n"))
    if weights := class_weight_text(model):
        print(escape_controls(f"{weights}\n"))
    table = Table("feature", "importance", title="Importances, from released numbers only")
    for name, importance in sorted(importances(model).items(), key=lambda pair: -pair[1]):
        table.add_row(escape(escape_controls(name)), share_text(importance))
    stdout().print(table)
    stdout().print(drawing)


@commands.command(
    epilog=examples(
        "diprime report model.diprime -o report.html",
        "diprime report model.diprime --score score.json -o report.html",
        "diprime report model.diprime --public-key reviewer.key.pub -o report.html",
        'diprime report model.diprime --data "Visits 2020" --responsible "Jane Doe, data office" -o report.html',
    )
)
def report(
    model_path: ModelPath,
    output: OutputPath,
    score_path: Annotated[
        Path | None, typer.Option("--score", metavar="FILE", help="A score of the model, from diprime score.")
    ] = None,
    public_key: PublicKeyOption = None,
    data: Annotated[
        str | None, typer.Option("--data", metavar="TEXT", help="The name of the data set, for the head of the page.")
    ] = None,
    responsible: Annotated[
        str | None, typer.Option("--responsible", metavar="TEXT", help="Who answers for the report.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a report for people: one HTML page with the promise, the ledger, importances and the trees.

    Of a boosted model it draws the functions that add up, in place of the trees. With --score it shows how good the
    model is on test rows, and what that cost. The page has a date and the SHA-256 of the model file; with --public-key
    it says whether the model's signature is valid.
    """
    score = None if score_path is None else read_score(score_path)
    found = inspect_model(model_path, public_key)
    signature = found.signature
    page = render(found.model, score, signature=signature, data=data, responsible=responsible, model_file=found.content)
    if signature is not None and signature.state == "wrong":
        print_note(f"diprime: warning: {escape_controls(signature.text)}")
    with atomic_file(output) as file:
        file.write(page.encode())
    confirm_written(output, as_json, report=str(output))


@commands.command(epilog=examples("diprime merge north.diprime south.diprime -o both.diprime"))
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
    confirm_written(output, as_json, model=str(output), **summary(merged))


def _tree_as_dict(tree: Tree) -> dict[str, Any]:
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(tree).items()}


def _draw_tree(tree: Tree, model: Model, index: int) -> TextTree:
    """Draw a tree as text; nodes whose children are not drawn say how many levels follow."""

    def describe(node: int) -> str:
        values, classes = tree.values[node], getattr(model, "classes_", None)
        if tree.count_noise is None:
            details = f"{contribution_text(values, classes)}, weight {tree.counts[node]:,.0f}"
        else:
            best = "" if classes is None else f"{classes[values.argmax()]} {share_text(values.max())}"
            records = count_text(tree.counts[node], tree.count_noise[node], tree.unit)
            details = f"{best or number_text(values[0])}, {records}"
        if tree.levels_below and node >= 2**tree.depth - 1:
            details += f", {counted(tree.levels_below, 'more level')}"
        condition = tree.conditions[node] or f"Tree {index}"
        return f"{escape(escape_controls(condition))}  [dim]{escape(escape_controls(details))}[/dim]"

    def add_children(node: int, drawing: TextTree) -> TextTree:
        for child in (2 * node + 1, 2 * node + 2):
            if child < len(tree.conditions):
                add_children(child, drawing.add(describe(child)))
        return drawing

    return add_children(0, TextTree(describe(0)))
