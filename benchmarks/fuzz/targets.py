"""What is done with a file: it is read, and used if it can be read.

A target returns whether the file was read or refused. Any other error passes through, and is a finding.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import pyarrow as pa

import diprime
from diprime import ModelFileError
from diprime._util import InputError
from diprime.cli.demo import PEOPLE_DOMAIN
from diprime.cli.drafting import draft
from diprime.cli.options import read_domain
from diprime.domain import Domain
from diprime.inspection.views import drawn_trees, read_tree
from diprime.privacy.budget import Budget
from diprime.privacy.session import BudgetError
from diprime.report import render
from diprime.sources.data_files import DataFile

Outcome = Literal["read", "refused"]
Target = Callable[[bytes], Outcome]

MAX_LENGTH = 40_000  # of a file
USE_EVERY, REPORT_EVERY = 8, 64
"""Of so many files that were read, one is used as well, and one is reported or drafted: that takes as long as many."""

_DOMAIN = Domain.from_toml(PEOPLE_DOMAIN)


class WrongMessageError(AssertionError):
    """An error that is not one sentence for the user."""


def chosen(data: bytes, every: int) -> bool:
    """Return whether a file is one of so many; the same file always is, or never."""
    return zlib.crc32(data) % every == 0


def refused(error: Exception, path: Path) -> Outcome:
    """Check the message of an error that a user may see."""
    message = str(error)
    if not message.startswith(f"{path} ") or not message.endswith(".") or "Traceback" in message:
        raise WrongMessageError(message)
    return "refused"


def model_target(folder: Path) -> Target:
    """Return what loads a model file, and shows it if it is one."""
    path = folder / "input.diprime"

    def run(data: bytes) -> Outcome:
        path.write_bytes(data)
        try:
            model = diprime.load(path)
        except ModelFileError as error:
            return refused(error, path)
        str(model.privacy_)
        if drawn_trees(model.forest_):
            read_tree(model, 0, 3)
        if chosen(data, USE_EVERY):
            use_model(model)
        if chosen(data, REPORT_EVERY):
            render(model)
        return "read"

    return run


def use_model(model: Any) -> None:
    """Predict with a model, and write it again."""
    rows = np.random.default_rng(0).normal(size=(4, len(model.domain_.column_names)))
    of_numbers = (diprime.Numeric, diprime.Integer)
    without_numbers = [name for name, feature in model.domain_.features.items() if not isinstance(feature, of_numbers)]
    columns = dict(zip(model.domain_.column_names, rows.T, strict=True))  # a schema could not have the name ""
    X = pl.DataFrame(columns).with_columns(pl.lit(None).alias(name) for name in without_numbers)
    outputs = model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
    if not np.isfinite(outputs).all() or not np.isfinite(model.feature_importances_).all():
        raise WrongMessageError("a prediction or an importance is not finite")
    model._to_content()


def domain_target(folder: Path) -> Target:
    """Return what reads a domain, as JSON if it begins with a brace and as TOML if not, and writes it again."""

    def run(data: bytes) -> Outcome:
        path = folder / ("input.json" if data.lstrip()[:1] == b"{" else "input.toml")
        path.write_bytes(data)
        try:
            domain = read_domain(path)
        except InputError as error:
            return refused(error, path)
        if chosen(data, USE_EVERY):
            use_domain(domain)
        return "read"

    return run


def use_domain(domain: Domain) -> None:
    """Write a domain and read it again, and encode rows."""
    if Domain.from_toml(domain.to_toml()) != domain or Domain.from_json(domain.to_json()) != domain:
        raise WrongMessageError("a domain that was written is another one")
    if domain.is_complete:
        domain.encode(np.zeros((2, len(domain.column_names)), dtype=object))


def budget_target(folder: Path) -> Target:
    """Return what opens a budget, shows it, and charges it."""
    path = folder.resolve() / "input.budget"

    def run(data: bytes) -> Outcome:
        path.write_bytes(data)
        try:
            budget = Budget.open(path)
        except BudgetError as error:
            # Messages begin with the path, or with the line that is meant.
            return refused(type(error)(str(error).partition(" of ")[2]) if is_about_a_line(error) else error, path)
        str(budget)
        budget.to_dict()
        if chosen(data, USE_EVERY):
            use_budget(budget)
        return "read"

    return run


def is_about_a_line(error: Exception) -> bool:
    """Return whether a message is about one line of a file."""
    return re.match(r"line \d+ of ", str(error)) is not None


def use_budget(budget: Budget) -> None:
    """Charge a budget, and read it again."""
    before = len(budget.entries)
    try:
        budget.charge("something", epsilon=Fraction(1, 1000))
    except BudgetError as error:
        if not str(error).endswith("."):
            raise WrongMessageError(str(error)) from None
        return
    if len(Budget.open(budget.path or "").entries) != before + 1:
        raise WrongMessageError("a charge is not in the log")


def csv_target(folder: Path) -> Target:
    """Return what reads a CSV file as the commands do."""
    path = folder / "input.csv"

    def run(data: bytes) -> Outcome:
        path.write_bytes(data)
        return read_rows(path, with_draft=chosen(data, REPORT_EVERY))

    return run


def read_rows(path: Path, *, with_draft: bool) -> Outcome:
    """Encode those columns of a table that the people of the demonstration have, and perhaps draft a domain of it."""
    try:
        file = DataFile(path)
        if with_draft:
            draft(file, file.columns[0], None, lambda share: None)
    except InputError as error:
        if not str(error).startswith("The column "):  # that it cannot be a target
            return refused(error, path)
    features = {name: feature for name, feature in _DOMAIN.features.items() if name in file.columns}
    if not features:
        return "read"
    domain = Domain(features, _DOMAIN.target)
    try:
        for values, _ in file.read(features, domain.missing_texts):
            domain.encode(pa.table(values))
    except InputError as error:
        return refused(error, path)
    except TypeError as error:  # a column of another type, as Parquet has them
        if not str(error).endswith("."):
            raise
        return "refused"
    return "read"


def parquet_target(folder: Path) -> Target:
    """Return what reads a Parquet file as the commands do."""
    path = folder / "input.parquet"

    def run(data: bytes) -> Outcome:
        path.write_bytes(data)
        return read_rows(path, with_draft=chosen(data, REPORT_EVERY))

    return run


TARGETS: dict[str, Callable[[Path], Target]] = {
    "model": model_target,
    "domain": domain_target,
    "budget": budget_target,
    "csv": csv_target,
    "parquet": parquet_target,
}
