"""Sound files to start from."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl

from benchmarks.paths import ROOT
from diprime import Budget, Categorical, DiPriMeBoostingClassifier, DiPriMeRegressor, Domain, Integer, Numeric
from diprime.cli import demo
from diprime.cli.demo import PEOPLE_DOMAIN
from diprime.model.files import to_bytes

MAX_MODEL_BYTES = 20_000


def _people(n: int) -> pl.DataFrame:
    return cast(pl.DataFrame, pl.from_arrow(demo.synthetic_people(n, 1)))


def models() -> Iterator[bytes]:
    """Yield small models from files, and two of new fits: with persons, and with a learnt domain."""
    for path in sorted((ROOT / "tests" / "fixtures").rglob("*.diprime")):
        if path.stat().st_size <= MAX_MODEL_BYTES and path.parent.name != "boosting":  # these are no estimators
            yield path.read_bytes()
    number = np.arange(200)
    domain = Domain({"n": Integer(0, 3), "c": Categorical(["p", "q"])}, Categorical([0, 1]))
    boosted = DiPriMeBoostingClassifier(1000.0, domain, n_rounds=2, max_records_per_group=2)  # with curves and rounds
    rows = pl.DataFrame({"n": number % 4, "c": np.where(number % 3, "p", "q")})
    yield to_bytes(boosted.fit(rows, pl.Series(number // 4 % 2), groups=number // 2)._to_content())
    x = np.linspace(0, 10, 100)[:, None]
    learnt = Domain.learn(x, x[:, 0], epsilon=10, target=Numeric(0, 10))
    yield to_bytes(DiPriMeRegressor(1.0, learnt, n_estimators=2, max_depth=2).fit(x, x[:, 0])._to_content())


def domains() -> Iterator[bytes]:
    """Yield domains of all kinds of features, as TOML and as JSON."""
    x = np.linspace(0, 10, 100)[:, None]
    texts = [
        PEOPLE_DOMAIN,
        '[features.day]\nkind = "date"\nlow = "2020-01-01"\nhigh = "2020-12-31"\nparts = ["month", "weekday"]\n\n'
        '[features.n]\nkind = "integer"\nlow = 0\nhigh = 9\n\n[target]\nname = "y"\nkind = "categorical"\n'
        "categories = [true, 1.5, 2]\n",
        'reviewed_by = "Jane Doe"\n\n[features.income]\nkind = "numeric"\nlow = 0\nhigh = 1e6\nscale = "log"\n\n'
        '[features."a b"]\nkind = "categorical"\nn_buckets = 9\n\n[features.e]\nkind = "numeric"\nedges = [1, 2, 5]\n\n'
        '[target]\nkind = "numeric"\nlow = -1\nhigh = 1\n',
        Domain.learn(x, x[:, 0], epsilon=10, target=Numeric(0, 10)).to_toml(),
    ]
    for text in texts:
        yield text.encode()
        yield Domain.from_toml(text).to_json().encode()


def tables() -> Iterator[bytes]:
    """Yield CSV files of the people of the demonstration, and some with odd separators, quotes and line ends."""
    people = _people(12)
    yield people.write_csv().encode()
    yield people.write_csv(quote_style="always", separator=";").encode()
    yield people.write_csv(separator="\t").replace("\n", "\r\n").encode()
    yield b"\xef\xbb\xbf" + people.head(2).write_csv(line_terminator="\r\n").encode()
    yield b'age,income\n"1\n2",low\n"a""b",high\n2020-01-31,?\n1e400,NaN\n'


def parquet() -> Iterator[bytes]:
    """Yield Parquet files of many types, encodings and compressions."""
    people = _people(40)
    odd = pl.DataFrame({
        "age": pl.Series([1, None, 3], dtype=pl.Int8), "income": ["low", None, "high"],
        "d": pl.Series([1, 2, None]).cast(pl.Date), "t": pl.Series([1, 2, None]).cast(pl.Datetime("ms", "UTC")),
        "b": [True, None, False], "l": [[1], [], None], "s": [{"a": 1}, None, {"a": 2}], "x": [b"a", None, b"\xff"],
        "c": pl.Series(["u", "v", None], dtype=pl.Categorical), "e": pl.Series(["u", "v", None], dtype=pl.Enum("uv")),
        "f": pl.Series([1.5, None, float("nan")], dtype=pl.Float32),
        "dec": pl.Series(["1.5", None, "2"]).cast(pl.Decimal(9, 2)),
        "dur": pl.Series([1, 2, None]).cast(pl.Duration("us")), "n": [None, None, None],
    })  # fmt: skip
    for frame in (people, odd):
        for compression in ("zstd", "snappy", "uncompressed"):
            buffer = io.BytesIO()
            frame.write_parquet(buffer, compression=compression, row_group_size=16)
            yield buffer.getvalue()


def budgets() -> Iterator[bytes]:
    """Yield budgets with pure charges, with charges of both measures, with a fixed pure part, and with nothing."""
    with tempfile.TemporaryDirectory() as folder:
        for i, (delta, pure) in enumerate([(0, None), (Fraction(1, 10**6), None), (Fraction(1, 10**6), Fraction(1))]):
            path = Path(folder) / str(i)
            budget = Budget.create(path, 3, delta, pure_epsilon=pure)
            yield path.read_bytes()
            budget.charge("a forest", epsilon=Fraction(1, 2))
            if delta and pure is None:
                budget.charge("categories of a column", epsilon=Fraction(1, 10), delta=Fraction(1, 10**8))
            if delta:
                budget.charge("a boosted model", mu_squared=Fraction(1, 100))
            budget.charge("a score", epsilon=Fraction(1, 10))
            yield path.read_bytes()


SEEDS = {"model": models, "domain": domains, "budget": budgets, "csv": tables, "parquet": parquet}
