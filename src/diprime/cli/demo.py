"""Command that creates a synthetic table and a domain, and demonstrates the other commands with them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer
from pyarrow import csv

from diprime._util import InputError
from diprime._util.files import atomic_file
from diprime.cli.shell import Commands, csv_bytes, examples

PEOPLE_DOMAIN = """\
# Public facts about these people: ranges and categories that follow from common knowledge.

[features.age]
kind = "numeric"
low = 15
high = 100

[features.hours]  # worked per week
kind = "numeric"
low = 0
high = 100

[features.education]
kind = "categorical"
categories = ["none", "school", "bachelor", "master", "doctor"]

[features.sector]
kind = "categorical"
categories = ["private", "public", "self-employed"]

[features.savings]
kind = "numeric"
low = 0
high = 1000000
scale = "log"

[target]
name = "income"
kind = "categorical"
categories = ["up to 50k", "above 50k"]
"""


HIGH_INCOME_SCORE = 0.6
MISSING_SHARE = 0.03  # of the savings


def synthetic_people(n: int, seed: int) -> pa.Table:
    """Return a synthetic table of people whose income depends on the other columns. Some values are missing."""
    rng = np.random.default_rng(seed)
    names = np.array(["none", "school", "bachelor", "master", "doctor"])
    years = rng.choice(5, n, p=[0.1, 0.5, 0.25, 0.12, 0.03])
    age = rng.integers(17, 85, n)
    sector = rng.choice(["private", "public", "self-employed"], n, p=[0.7, 0.18, 0.12])
    hours = rng.normal(40, 11, n).clip(1, 99).round().astype(int)
    savings = rng.lognormal(8 + 0.03 * (age - 40), 1.5).round(2)
    score = 0.9 * years + 0.05 * (hours - 40) - ((age - 50) / 18) ** 2 + 0.35 * np.log10(savings + 1) - 1.9
    income = np.where(score + rng.logistic(size=n) > HIGH_INCOME_SCORE, "above 50k", "up to 50k")
    known = pa.array(savings, mask=rng.random(n) < MISSING_SHARE)
    return pa.table(
        {"age": age, "hours": hours, "education": names[years], "sector": sector, "savings": known, "income": income}
    )


commands = Commands()


@commands.command(epilog=examples("diprime demo", "diprime demo --folder somewhere"))
def demo(
    context: typer.Context,
    folder: Annotated[Path, typer.Option(help="Directory for the files.")] = Path("diprime-demo"),
) -> None:
    """Go through all steps with synthetic people: check, plan, fit, predict, show, score and report."""
    people = csv_bytes(synthetic_people(30_000, 1))
    _refuse_files_of_others(folder, people)
    again = " --force" if (folder / "model.diprime").exists() else ""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("people.csv", people), ("new.csv", csv_bytes(synthetic_people(10_000, 2)))):
        with atomic_file(folder / name) as file:
            file.write(content)
    with atomic_file(folder / "domain.toml") as file:
        file.write(PEOPLE_DOMAIN.encode())
    print(f"{folder}/people.csv contains 30,000 synthetic people, {folder}/new.csv contains 10,000 others, and")
    print(f"{folder}/domain.toml declares the public facts about them.")
    quoted = shlex.quote(str(folder))
    for command in (
        f"diprime domain check {quoted}/people.csv --domain {quoted}/domain.toml",
        f"diprime plan --rows 30000 --epsilon 1 --domain {quoted}/domain.toml",
        f"diprime fit {quoted}/people.csv --domain {quoted}/domain.toml --epsilon 1 -o {quoted}/model.diprime{again}",
        f"diprime predict {quoted}/model.diprime {quoted}/new.csv -o {quoted}/out.csv --keep income{again}",
        f"diprime show {quoted}/model.diprime --depth 2",
        f"diprime score {quoted}/model.diprime {quoted}/new.csv --epsilon 0.1 -o {quoted}/score.json{again}",
        f"diprime report {quoted}/model.diprime --score {quoted}/score.json -o {quoted}/report.html{again}",
    ):
        print(f"\n$ {command}", flush=True)
        _run(context, shlex.split(command)[1:])
    results = csv.read_csv(folder / "out.csv")
    right = pc.mean(pc.equal(results["income"], results["prediction"])).as_py()
    largest = pc.max(results["income"].value_counts().field("counts")).as_py() / len(results)
    print(f"\nOf the new people, {right:.1%} are predicted correctly; {largest:.1%} are in the larger class.")
    print(f"Open {folder}/report.html in a browser. Then try your own data: diprime domain draft --help")


def _refuse_files_of_others(folder: Path, people: bytes) -> None:
    """Raise an error if a directory contains files that are not of an earlier demonstration, which it could replace."""
    own = folder / "people.csv"
    if folder.is_dir() and any(folder.iterdir()) and not (own.is_file() and own.read_bytes() == people):
        raise InputError(f"{folder} contains files that the demonstration might replace. Pass another --folder.")


def _run(context: typer.Context, arguments: list[str]) -> None:
    """Run a command in this process, as a shell would."""
    try:
        context.find_root().command.main(args=arguments, prog_name="diprime")
    except SystemExit as ended:
        if ended.code:
            raise
