"""The demonstration: ``diprime demo``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from diprime._util.atomic_file import atomic_file
from diprime.cli.data_files import InputError
from diprime.cli.demo_data import PEOPLE_DOMAIN, synthetic_people
from diprime.cli.outputs import Commands
from diprime.cli.shell import examples

commands = Commands()


@commands.command(epilog=examples("diprime demo", "diprime demo --folder somewhere"))
def demo(
    context: typer.Context,
    folder: Annotated[Path, typer.Option(help="Where to put its files.")] = Path("diprime-demo"),
) -> None:
    """Go through all steps with made-up people: check, plan, fit, predict, show, score and report."""
    people = synthetic_people(30_000, 1).write_csv().encode()
    _refuse_files_of_others(folder, people)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("people.csv", people), ("new.csv", synthetic_people(10_000, 2).write_csv().encode())):
        with atomic_file(folder / name) as file:
            file.write(content)
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
        _run(context, shlex.split(command)[1:])
    results = pl.read_csv(folder / "out.csv")
    right = (results["income"] == results["prediction"]).to_numpy().mean()
    print(f"\nOf the new people, {right:.1%} are predicted rightly; {_largest_share(results):.1%} are in one class.")
    print(f"Open {folder}/report.html in a browser. Then try your own data: diprime domain draft --help")


def _refuse_files_of_others(folder: Path, people: bytes) -> None:
    """Raise an error if a folder has files, and is not that of an earlier demonstration: they would be replaced."""
    own = folder / "people.csv"
    if folder.is_dir() and any(folder.iterdir()) and not (own.is_file() and own.read_bytes() == people):
        raise InputError(f"{folder} has files already, which the demonstration might replace; give another --folder.")


def _largest_share(people: pl.DataFrame) -> float:
    return float(people["income"].value_counts()["count"].to_numpy().max() / people.height)


def _run(context: typer.Context, arguments: list[str]) -> None:
    """Run a command as a shell does, in this process."""
    try:
        context.find_root().command.main(args=arguments, prog_name="diprime")
    except SystemExit as ended:
        if ended.code:
            raise
