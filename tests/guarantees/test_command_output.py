"""What commands print of private data is the ledger and what was released, not how many rows there are.

`domain draft` and `domain check` are for whoever holds the data, and say so; `score` prints a released number of rows.
"""

import hashlib
import json
import re

import polars as pl
import pytest

from diprime import load
from diprime.cli.demo import PEOPLE_DOMAIN
from tests.cli.conftest import REGRESSION_DOMAIN
from tests.cli.people import synthetic_people
from tests.cli.running import run

N = 7919  # a prime, which no public number of these commands comes near
N_WITHOUT_TARGET = 211
SAVINGS = 48_271.337  # a value of one row, in the domain
SUMMARY = {
    "model",
    "estimator",
    "n_trees",
    "class_weight",
    "depths",
    "importances",
    "ledger",
    "sha256",
    "variance_shares",
}
OPEN_DOMAIN = '[features.savings]\nkind = "numeric"\n\n[target]\nname = "income"\nkind = "categorical"\n' + (
    'categories = ["high", "low"]\n'
)


def people(n):
    """Return rows, some of them without a target, and one with a value that no other row has."""
    frame = synthetic_people(n, 1)
    is_missing = pl.int_range(pl.len()) < N_WITHOUT_TARGET * n // N
    income = pl.when(is_missing).then(None).otherwise(pl.col("income")).alias("income")
    savings = pl.when(pl.int_range(pl.len()) == n - 1).then(SAVINGS).otherwise(pl.col("savings")).alias("savings")
    return frame.with_columns(income, savings)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("output")
    for n in (N, 53):
        people(n).write_csv(folder / f"{n}.csv")
    for name, text in (("domain", PEOPLE_DOMAIN), ("regression", REGRESSION_DOMAIN), ("open", OPEN_DOMAIN)):
        (folder / f"{name}.toml").write_text(text)
    return folder


def printed(*arguments):
    """Return all that a command prints."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout + result.stderr


def secrets_in(text):
    """Return the private numbers that a text has outside of SHA-256 digests, which can contain any three digits."""
    text = re.sub(r"\b[0-9a-f]{64}\b", "", text)
    numbers = {"rows": N, "rows with a target": N - N_WITHOUT_TARGET, "rows without one": N_WITHOUT_TARGET}
    forms = {name: {str(number), f"{number:,}"} for name, number in numbers.items()} | {"a value": {"48271", "48,271"}}
    return [
        name
        for name, texts in forms.items()
        if any(re.search(rf"(?<![\d.,/-]){form}(?![\d/])", text) for form in texts)
    ]


def commands(folder, data, output):
    """Return the commands that read private data and print what may be published."""
    given = ("-e", 1, "-o", output, "--force")
    fits = {
        f"fit of {domain}{options}": ("fit", data, "-d", folder / f"{domain}.toml", *given, *options)
        for domain in ("domain", "regression")
        for options in ((), ("--json",), ("--boost", "--rounds", 20), ("--boost", "--rounds", 20, "--json"))
    }
    tried = ("--try", "max_depth=1,2")
    searches = {
        f"search{options}": ("search", data, "-d", folder / "domain.toml", *given, *tried, *options)
        for options in ((), ("--json",))
    }
    learn = ("domain", "learn", data, "-d", folder / "open.toml", "-e", 1)
    return {**fits, **searches, "learn": learn}


def test_commands_print_no_private_number(folder, tmp_path):
    for name, command in commands(folder, folder / f"{N}.csv", tmp_path / "m.diprime").items():
        assert secrets_in(printed(*command)) == [], name


@pytest.mark.parametrize("options", [(), ("--boost", "--rounds", 20)])
def test_fit_prints_only_its_ledger(folder, tmp_path, options):
    command = (
        "fit",
        folder / "53.csv",
        "-d",
        folder / "domain.toml",
        "-e",
        1,
        "-o",
        tmp_path / "m",
        "--force",
        *options,
    )
    found, path = printed(*command), tmp_path / "m"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert found == f"{load(path).privacy_}\n\nWritten to {path}; its SHA-256 is {digest}.\n"
    assert set(json.loads(printed(*command, "--json"))) == SUMMARY | ({"n_curves"} if options else set())


@pytest.mark.parametrize(
    "text", ["7919 rows", "7,919 rows.", '{"rows": 7919}', "n=7708", "211 of them", "savings up to 48271.337"]
)
def test_private_number_in_output_is_detected(text):
    assert secrets_in(text) != []
    assert secrets_in("epsilon = 0.7919, 1/7919 and 17,919 and 79190 and 211/3") == []
    assert secrets_in(f" {'a211b' + 59 * 'c'} ") == []
