"""The ten data sets of the paper, prepared by its protocol, two of them again with all their classes, and two more.

Adult and Abalone are not in the paper. S-BDT's authors published results on them.

``load("banknote")`` returns features, target, domain and the paper's settings. Tables are read from a directory of
Parquet files (the argument, ``$DIPRIME_DATA``, or ``../shared/data`` next to the repository), or else downloaded once
into ``benchmarks/cache``. Ranges, categories and the scales of targets are computed from the whole table, as in the
paper. This is acceptable for a benchmark on public data, but it is not private.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.download import SOURCES, Fetch, fetch_with_progress
from benchmarks.paths import CACHE, ROOT
from diprime import Categorical, Domain, Numeric

ADULT_TRAINING_ROWS = 32_561
SHARED = ROOT.parent / "shared" / "data"

NAMES = ("parkinsons", "appliances", "metro", "turbine", "flight", "banknote", "credit", "robot", "higgs", "puc")
MULTICLASS = ("robot4", "puc5")
NOT_IN_PAPER = ("adult", "abalone")
ALL_NAMES = (*NAMES, *MULTICLASS, *NOT_IN_PAPER)
# The eight data sets with exactly the paper's rows, from either source.
COMPLETE = tuple(name for name in NAMES if name not in ("flight", "higgs"))

Task = Literal["regression", "classification"]


class DatasetMissing(LookupError):  # noqa: N818 -- the name states the problem
    """Error for a data set that is not in the directory and cannot be downloaded."""


@dataclass(frozen=True)
class Dataset:
    """Prepared data set.

    Attributes
    ----------
    name, title : str
        Name in the benchmarks, and name in the paper.
    task : {"regression", "classification"}
        Task.
    X : pandas.DataFrame
        The features, in the protocol's order.
    y : ndarray
        The target: numbers scaled to [0, 1], the classes 0 and 1, or the names of several classes.
    domain : Domain
        Domain with the ranges and categories of the whole table.
    categorical : tuple of str
        Features that the tree methods treat as categorical.
    unbinned : tuple of str
        Features that keep their values in the binned copy for DP-RF and DP-DF.
    epsilon : float
        Privacy budget in the paper's tables.
    min_leaf : int
        m, the number of rows per leaf from which the paper derives the depth of trees.
    max_features : int
        K, the number of features considered at a split.
    note : str
        Difference from the paper's data, or an empty text.
    """

    name: str
    title: str
    task: Task
    X: pd.DataFrame
    y: npt.NDArray[np.generic]
    domain: Domain
    categorical: tuple[str, ...]
    unbinned: tuple[str, ...]
    epsilon: float
    min_leaf: int
    max_features: int
    note: str = ""

    def numbers(self) -> npt.NDArray[np.float64]:
        """Return the features as numbers, for methods without categorical features. A category becomes its rank."""
        coded = {c: np.unique(self.X[c].to_numpy(), return_inverse=True)[1] for c in self.categorical}
        return self.X.assign(**coded).to_numpy(dtype=np.float64)

    def binned_domain(self) -> Domain:
        """Return the domain for methods that bin numeric features. Unbinned features become categorical."""
        categories = {c: Categorical(sorted(self.X[c].unique().tolist())) for c in self.unbinned}
        return Domain({**self.domain.features, **categories}, target=self.domain.target)


@dataclass(frozen=True)
class _Spec:
    """Preparation of one table by the protocol (sections 2 and 3)."""

    title: str
    task: Task
    target: str
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    also_unbinned: tuple[str, ...] = ()
    min_leaf: int = 25
    max_features: int = 5
    derive: Callable[[pd.DataFrame], pd.DataFrame] = lambda table: table
    target_of: Callable[[pd.Series], pd.Series] = lambda values: (values - values.min()) / (values.max() - values.min())


def _same(values: pd.Series) -> pd.Series:
    return values


def _month_and_day(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(Month=table["date"].dt.month, Day=table["date"].dt.day)


def _weekday_and_hour(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(weekday=table["date_time"].dt.day_of_week, hour=table["date_time"].dt.hour)


def _sitting_and_standing(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["class"].isin(["sitting", "standing"])]


def _complete_training_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return the 30,162 rows of Adult that S-BDT's authors use: the file adult.data without incomplete rows."""
    table = table.head(ADULT_TRAINING_ROWS)
    return table[(table != "?").all(axis=1)]


_ROBOT = _Spec(
    "Robot",
    "classification",
    "class",
    target_of=lambda values: (values != "Move-Forward").astype("int64"),
)
_PUC = _Spec(
    "PUC-Rio",
    "classification",
    "class",
    drop=("user", "body_mass_index"),
    categorical=("gender", "age", "how_tall_in_meters", "weight"),
    derive=_sitting_and_standing,
    target_of=lambda values: (values == "standing").astype("int64"),
)
_SPECS = {
    "parkinsons": _Spec(
        "Parkinson's",
        "regression",
        "total_UPDRS",
        drop=("subject#", "motor_UPDRS"),
        categorical=("sex",),
        target_of=lambda values: values / values.max(),
    ),
    "appliances": _Spec(
        "Appliances",
        "regression",
        "Appliances",
        drop=("date", "rv1", "rv2"),
        categorical=("Month",),
        derive=_month_and_day,
    ),
    "metro": _Spec(
        "Metro traffic",
        "regression",
        "traffic_volume",
        drop=("date_time", "weather_description"),
        categorical=("holiday", "weather_main", "weekday"),
        derive=_weekday_and_hour,
    ),
    "turbine": _Spec("Gas turbine", "regression", "TEY"),
    "flight": _Spec(
        "Flight",
        "regression",
        "arr_delay",
        categorical=("month", "weekday"),
        derive=lambda table: table.dropna(),
    ),
    "banknote": _Spec("Banknote", "classification", "class", min_leaf=10, max_features=4, target_of=_same),
    "credit": _Spec(
        "Credit default",
        "classification",
        "default payment next month",
        drop=("ID",),
        categorical=("SEX", "EDUCATION", "MARRIAGE"),
        also_unbinned=("PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6"),
        target_of=_same,
    ),
    "robot": _ROBOT,
    "higgs": _Spec("HIGGS", "classification", "label", target_of=_same),
    "puc": _PUC,
    "adult": _Spec(
        "Adult",
        "classification",
        "income",
        drop=("fnlwgt",),
        categorical=(
            *("workclass", "education", "marital_status", "occupation"),
            *("relationship", "race", "sex", "native_country"),
        ),
        derive=_complete_training_rows,
        target_of=lambda values: (values == ">50K").astype("int64"),
    ),
    "abalone": _Spec("Abalone", "regression", "Rings", categorical=("Sex",)),
}
_MULTICLASS_SPECS = {
    "robot4": ("robot", _Spec("Robot, 4 classes", "classification", "class", target_of=_same)),
    "puc5": (
        "puc",
        _Spec(
            "PUC-Rio, 5 classes",
            "classification",
            "class",
            drop=_PUC.drop,
            categorical=_PUC.categorical,
            target_of=_same,
        ),
    ),
}

# Tables that replace the paper's own where those are not in the directory.
_SUBSTITUTES = {"flight": ("flight_nyc2013.parquet", "substitute: departures from New York in 2013")}


def data_directory(given: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the directory of Parquet files: the argument, ``$DIPRIME_DATA``, or ``../shared/data`` if it exists."""
    chosen = given or os.environ.get("DIPRIME_DATA")
    if chosen:
        return Path(chosen)
    return SHARED if SHARED.is_dir() else None


def _read(name: str, directory: Path | None, cache: Path, fetch: Fetch) -> tuple[pd.DataFrame, str]:
    """Return the raw table of a data set with a note on it."""
    source = SOURCES[name]
    substitute, note = _SUBSTITUTES.get(name, (None, ""))
    for place in (directory, cache):
        if place is not None and (place / source.file).is_file():
            return pd.read_parquet(place / source.file), ""
    if directory is not None and substitute and (directory / substitute).is_file():
        return pd.read_parquet(directory / substitute), note
    try:
        table = source.read(fetch)
    except Exception as error:  # networks and archives fail in many ways
        where = f"is not in {directory}" if directory else "has no directory of Parquet files to be read from"
        raise DatasetMissing(
            f"Data set {name} {where} and could not be had from {source.page} ({error}): "
            f"put {source.file} into a directory and name it with --data or $DIPRIME_DATA."
        ) from error
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = cache / f"{source.file}.part"
    table.to_parquet(unfinished, index=False)
    unfinished.replace(cache / source.file)
    return table, ""


def load(
    name: str,
    directory: str | os.PathLike[str] | None = None,
    *,
    cache: Path = CACHE,
    fetch: Fetch = fetch_with_progress,
) -> Dataset:
    """Return a data set by its name, prepared by the paper's protocol.

    Parameters
    ----------
    name : str
        One of ``ALL_NAMES``.
    directory : path, optional
        Directory of the Parquet files; see :func:`data_directory`.
    cache : path
        Directory for downloads.
    fetch : callable
        Function that returns the content of a URL.

    Raises
    ------
    DatasetMissing
        If the data set is not in the directory and cannot be downloaded.
    """
    if name not in ALL_NAMES:
        raise ValueError(f"There is no data set {name!r}; there are {', '.join(ALL_NAMES)}.")
    table_name, spec = _MULTICLASS_SPECS[name] if name in MULTICLASS else (name, _SPECS[name])
    table, note = _read(table_name, data_directory(directory), cache, fetch)
    table = spec.derive(table).reset_index(drop=True)
    y = spec.target_of(table[spec.target])
    X = table.drop(columns=[spec.target, *spec.drop])
    if name == "higgs" and len(X) != 100_000:
        note = "the paper has 100,000 rows"
    features = {
        c: Categorical(sorted(X[c].unique().tolist()))
        if c in spec.categorical
        else Numeric(float(X[c].min()), float(X[c].max()))
        for c in X
    }
    regression = spec.task == "regression"
    return Dataset(
        name=name,
        title=spec.title,
        task=spec.task,
        X=X,
        y=y.to_numpy(dtype=np.float64 if regression else None),
        domain=Domain(features, target=Numeric(0, 1) if regression else Categorical(sorted(y.unique().tolist()))),
        categorical=spec.categorical,
        unbinned=(*spec.categorical, *spec.also_unbinned),
        epsilon=10.0 if regression else 2.0,
        min_leaf=spec.min_leaf,
        max_features=spec.max_features,
        note=note,
    )
