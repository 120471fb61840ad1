"""Golden results: seeded fits and other outputs that must not change unintentionally.

Models and arrays are stored as digests. Ledgers, messages, logs, reports and command output are stored as text. All
cases use only public names and the command line, so internal modules may move.

``python -m tests.golden`` rewrites ``tests/golden.json``, and ``python -m tests.golden boosting`` rewrites only the
cases whose names begin with "boosting". An intended change of fits or texts updates the file in its own commit, which
states the reason. All other changes must leave the file unchanged.
"""

from __future__ import annotations

import hashlib
import html
import io
import json
import math
import os
import re
import runpy
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from datetime import date
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import pandas as pd

import diprime
import diprime.report
from diprime import (
    Budget,
    Categorical,
    Date,
    DiPriMeBoostingClassifier,
    DiPriMeBoostingRegressor,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Domain,
    Integer,
    Numeric,
    PrivacyWarning,
    PrivateSearch,
    merge,
    sources,
)
from diprime.paper import (
    DPDecisionForestClassifier,
    DPRandomForestClassifier,
    DPRandomForestRegressor,
    PaperDiPriMeClassifier,
    PaperDiPriMeRegressor,
)

PATH = Path(__file__).with_name("golden.json")
FIXTURES = Path(__file__).with_name("fixtures")  # model files, with one directory per released format
INFINITY = float("inf")

FEATURES = {
    "level": Numeric(0, 10),
    "size": Numeric(1, 1000, scale="log"),
    "grade": Numeric(edges=[0, 1, 2, 5, 9]),
    "kind": Categorical(range(12)),
    "side": Categorical([0, 1]),
    "place": Categorical(range(40)),
}
TARGETS = {"two": Categorical(["no", "yes"]), "five": Categorical(list("abcde")), "number": Numeric(0, 10)}
DOMAINS = {name: Domain(FEATURES, target) for name, target in TARGETS.items()}


def make(target: str, n: int, seed: int = 0, *, missing: float = 0.05) -> tuple[Any, Any]:
    """Return n rows with some missing, out-of-range and unlisted values, and a target that depends on two features."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.uniform(-1, 11, n),
            rng.lognormal(3, 2, n),
            rng.uniform(0, 9, n),
            rng.integers(0, 14, n),
            rng.integers(0, 2, n),
            rng.integers(0, 41, n),
        ]
    )
    signal = np.clip(0.7 * X[:, 0] + 3 * X[:, 4] + rng.normal(0, 0.5, n), 0, 10)
    X[rng.random(X.shape) < missing] = np.nan
    if target == "number":
        return X, signal
    if target == "two":
        return X, np.where(signal > 4, "yes", "no")
    return X, np.array(list("abcde"))[np.digitize(signal, [1, 3, 6, 9])]


@dataclass(frozen=True)
class Case:
    """A seeded fit.

    Attributes
    ----------
    name : str
        Name of the case.
    target : str
        Name of the target.
    parameters : dict
        Constructor parameters that differ from the defaults.
    kind : type, optional
        Estimator, if it is not one of the two forests.
    n : int
        Number of rows.
    missing : float
        Share of missing values.
    """

    name: str
    target: str
    parameters: dict[str, Any] = field(default_factory=dict)
    kind: Callable[..., Any] | None = None
    n: int = 1500
    missing: float = 0.05

    @property
    def file_name(self) -> str:
        """The name of the case's model file, without the extension."""
        return re.sub(r"\W+", "-", self.name)

    def estimator(self, **more: Any) -> Any:
        """Return the unfitted estimator."""
        forest = DiPriMeRegressor if self.target == "number" else DiPriMeClassifier
        parameters = {"domain": DOMAINS[self.target], "n_jobs": 1, "random_state": 7, **self.parameters, **more}
        return (self.kind or forest)(**parameters)

    def data(self, seed: int = 0) -> tuple[Any, Any]:
        """Return the rows and the targets."""
        return make(self.target, self.n, seed, missing=self.missing)

    def fit(self) -> Any:
        """Return the fitted model."""
        return self.estimator().fit(*self.data())


class BatchesCase(Case):
    """A fit to rows that arrive in batches."""

    def fit(self) -> Any:
        """Return the fitted model."""
        X, y = self.data()
        cuts = [0, 1, 700, 700, self.n]
        return self.estimator().fit(sources.batches((X[a:b], y[a:b]) for a, b in pairwise(cuts)))


class MergedCase(Case):
    """Two merged fits to different people."""

    variants: ClassVar[list[dict[str, Any]]] = [{"epsilon": 1.0, "max_depth": 2}, {"epsilon": 2.0, "max_depth": 4}]

    def fit(self) -> Any:
        """Return the merged model."""
        return merge([self.estimator(**v).fit(*self.data(seed)) for seed, v in enumerate(self.variants)], disjoint=True)


class MergedBoostingCase(MergedCase):
    """Two merged boosted fits to different people."""

    variants: ClassVar[list[dict[str, Any]]] = [{"epsilon": 1.0, "n_rounds": 9}, {"epsilon": 2.0}]


def _cases() -> list[Case]:
    cases = []
    for target in TARGETS:
        for method in ("joint", "diprime", "diprime-exp", "diprime-flip", "random"):
            cases.append(Case(f"{method}, {target}", target, {"method": method}))
    for target in ("five", "number"):
        joint = {"epsilon": 4.0, "n_estimators": 3, "max_depth": 4}
        exp, flip = {**joint, "method": "diprime-exp"}, {"method": "diprime-flip"}
        paper = PaperDiPriMeRegressor if target == "number" else PaperDiPriMeClassifier
        cases += [
            Case(f"joint in parts, {target}", target, joint),
            Case(f"joint on all rows, {target}", target, {**joint, "disjoint_rows": False}),
            Case(f"joint of large epsilon, {target}", target, {"epsilon": 300.0}),
            Case(f"joint of small epsilon, {target}", target, {"epsilon": 0.01}),
            Case(f"joint without noise, {target}", target, {"epsilon": INFINITY}),
            Case(f"bagged without noise, {target}", target, {**joint, "epsilon": INFINITY, "disjoint_rows": False}),
            Case(f"joint of settings, {target}", target, {"split_share": 0.3, "balance": 0.5, "max_features": 0.4}),
            Case(f"paper's diprime-exp, {target}", target, exp, paper),
            Case(f"paper's diprime-flip, {target}", target, flip, paper),
            Case(f"paper's random, {target}", target, {"method": "random"}, paper),
            Case(f"paper's diprime-exp on all rows, {target}", target, {**exp, "disjoint_rows": False}, paper),
            Case(f"diprime-exp without noise, {target}", target, {**exp, "epsilon": INFINITY}),
            Case(f"diprime on all rows, {target}", target, {**joint, "method": "diprime", "disjoint_rows": False}),
            Case(f"joint of complete rows, {target}", target, {"epsilon": 2.0}, missing=0.0),
            BatchesCase(f"joint in batches, {target}", target, joint),
            MergedCase(f"merged, {target}", target),
        ]
    cases += [
        Case("nobody, two", "two", n=0),
        Case("nobody, number", "number", n=0),
        Case("many rows, two", "two", {"epsilon": 2.0, "n_estimators": 3, "n_jobs": 3}, n=140_000),
        Case("many rows, number", "number", {"n_estimators": 2, "n_jobs": 2, "max_depth": 6}, n=140_000),
        Case("inferred domain, two", "two", {"domain": "infer"}),
        Case("inferred domain, number", "number", {"domain": "infer"}),
    ]
    for accounting in ("strict", "paper"):
        baseline = {"epsilon": 5.0, "accounting": accounting, "n_estimators": 4}
        cases += [
            Case(f"{accounting} DP-RF, five", "five", {**baseline, "max_depth": 2}, DPRandomForestClassifier),
            Case(f"{accounting} DP-RF, number", "number", {**baseline, "max_depth": 2}, DPRandomForestRegressor),
            Case(f"{accounting} DP-DF, five", "five", {**baseline, "max_depth": 3}, DPDecisionForestClassifier),
        ]
    cases.append(Case("DP-RF without noise, two", "two", {"epsilon": INFINITY}, DPRandomForestClassifier))
    return cases


def _boosting_cases() -> list[Case]:
    cases: list[Case] = []
    few = {"n_rounds": 40}
    rounds = {**few, "epsilon": 20.0}  # at epsilon = 1, classifiers have curves only
    for target in TARGETS:
        kind = DiPriMeBoostingRegressor if target == "number" else DiPriMeBoostingClassifier
        cases += [
            Case(f"boosting by defaults, {target}", target, {}, kind),
            Case(f"boosting of settings, {target}", target, {**rounds, "delta": 1e-9, "learning_rate": 0.3}, kind),
            Case(f"boosting of single features, {target}", target, {**rounds, "interactions": False}, kind),
            Case(f"boosting of large epsilon, {target}", target, {**few, "epsilon": 300.0}, kind),
            Case(f"boosting of small epsilon, {target}", target, {**few, "epsilon": 0.01}, kind),
            Case(f"boosting without noise, {target}", target, {**few, "epsilon": INFINITY}, kind),
            Case(f"boosting of complete rows, {target}", target, few, kind, missing=0.0),
            Case(f"boosting of nobody, {target}", target, few, kind, n=0),
            Case(f"boosting of many rows, {target}", target, {**few, "n_jobs": 3}, kind, n=140_000),
            BatchesCase(f"boosting in batches, {target}", target, few, kind),
            MergedBoostingCase(f"boosting, merged, {target}", target, few, kind),
        ]
    return cases


CASES = {case.name: case for case in [*_cases(), *_boosting_cases()]}
# Attributes of both kinds of forests with integers or exact floats.
EXACT = ("depths", "features", "masks", "counts", "roots", "first_children")


def _digest(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        array = np.ascontiguousarray(part) if isinstance(part, np.ndarray) else np.frombuffer(part.encode(), np.uint8)
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]


def _checksum(values: Any) -> float:
    """Return a number that depends on all entries. Unlike digests, it tolerates floats with different last bits."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    return float(flat @ np.cos(np.arange(len(flat))))


def describe(model: Any, X: Any) -> dict[str, Any]:
    """Return digests of a fitted model and of its predictions."""
    forest, ledger = model.forest_, model.privacy_
    charges = [
        f"{c.description}|{c.mechanism}|{c.sensitivity}|{c.measure.cost}|{c.n_releases}|{c.composition}|{c.strict_total}"
        for c in ledger.charges
    ]
    predicted = model.predict(X)
    return {
        "structure": _digest(*(getattr(forest, name) for name in EXACT if hasattr(forest, name))),
        "values": _checksum(forest.values),
        "ledger": _digest(str(ledger), *charges),
        "predictions": _checksum(predicted) if predicted.dtype.kind == "f" else _digest("".join(map(str, predicted))),
    }


def describe_case(case: Case) -> dict[str, Any]:
    """Fit a case and describe it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        model = case.fit()
    return describe(model, make(case.target, 500, seed=99)[0])


# -- other outputs: texts as they read, models and arrays as digests -------------------------------------------------


class GroupsCase(Case):
    """A fit to people with several records; some records have no identifier."""

    def fit(self) -> Any:
        """Return the fitted model."""
        X, y = self.data()
        return self.estimator().fit(X, y, groups=people(self.n))


class FrameCase(Case):
    """A fit to a data frame with numbers, integers, dates and text, with groups if `max_records_per_group` is set."""

    def fit(self) -> Any:
        """Return the fitted model."""
        X, y = make_frame(self.target, self.n)
        groups = people(self.n) if "max_records_per_group" in self.parameters else None
        return self.estimator().fit(X, y, groups=groups)


def people(n: int) -> Any:
    """Return the identifiers of n records, three per person on average; some are None."""
    numbers = np.random.default_rng(1).integers(0, n // 3, n)
    return np.array([None if number % 40 == 0 else f"p{number}" for number in numbers], dtype=object)


def make_frame(target: str, n: int, seed: int = 0) -> tuple[Any, Any]:
    """Return a data frame of n rows with a column of each kind, and the target of `make`."""
    X, y = make(target, n, seed)
    rng = np.random.default_rng(seed)
    days = np.datetime64("1990-01-01") + rng.integers(0, 700, n)
    frame = {
        "level": X[:, 0],
        "visits": rng.poisson(4, n),
        "city": rng.choice(["Paris", "Rome", "Oslo", "?"], n, p=[0.5, 0.3, 0.15, 0.05]),
        "when": days.astype("datetime64[ns]"),
    }
    return pd.DataFrame(frame), y


DECLARED = {
    "level": Numeric(0, 10),
    "visits": Integer(0, 20),
    "city": Categorical(["Paris", "Rome", "Oslo"]),
    "when": Date("1990-01-01", "1992-01-01"),
}
UNDECLARED: dict[str, Any] = {**DECLARED, "level": Numeric(), "city": Categorical()}
OPEN_TARGETS: dict[str, Any] = {"two": Categorical(["no", "yes"]), "five": Categorical(), "number": Numeric()}
FRAMES = {name: Domain(DECLARED, target) for name, target in TARGETS.items()}
INCOMPLETE = {name: Domain(UNDECLARED, target, missing=["?"]) for name, target in OPEN_TARGETS.items()}
FOREST, BOOSTING = {"n_estimators": 3}, {"n_rounds": 20, "delta": 1e-6}
CLASSIFIER, REGRESSOR = DiPriMeBoostingClassifier, DiPriMeBoostingRegressor


def boosting_of(target: str) -> Any:
    """Return the boosted estimator for a target."""
    return REGRESSOR if target == "number" else CLASSIFIER


def lines(content: Any) -> list[str]:
    """Return the lines of a text, with masked study names, hashes, times and versions, which differ between runs."""
    text = str(content).replace(diprime.__version__, "<version>")
    for pattern, mask in (
        (r"\b[0-9a-f]{64}\b", "<sha256>"),
        (r"\b[0-9a-f]{32}\b", "<study>"),
        (r'(?<="checksum": ")[0-9a-f]{16}(?=")', "<checksum>"),
        (r"\b20\d\d-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?", "<time>"),
    ):
        text = re.sub(pattern, mask, text)
    # The last digits of floats differ between machines.
    text = re.sub(r"-?\d+\.\d{9,}(e-?\d+)?", lambda found: f"{float(found[0]):.9g}", text)
    return [line.rstrip() for line in text.splitlines()]


def public_part(domain: Domain) -> list[str]:
    """Return the lines of a domain file without the ledger, which is part of other cases."""
    return [line for line in lines(domain.to_toml()) if not line.startswith("ledger = ")]


def fit_in_words(case: Case) -> dict[str, Any]:
    """Fit a case, and return its digests, ledger and learnt domain."""
    model = case.fit()
    X = make_frame(case.target, 500, 99)[0] if isinstance(case, FrameCase) else make(case.target, 500, seed=99)[0]
    domain = {"domain": public_part(model.domain_)} if case.parameters.get("domain") in INCOMPLETE.values() else {}
    return {**describe(model, X), "ledger": lines(model.privacy_), **domain}


def _fits_in_words() -> list[Case]:
    cases: list[Case] = []
    for target in TARGETS:
        boosting = boosting_of(target)
        for k in (1, 3):
            bound = {"max_records_per_group": k}
            cases.append(GroupsCase(f"groups of {k}, forest, {target}", target, {**FOREST, **bound}))
            cases.append(GroupsCase(f"groups of {k}, boosting, {target}", target, {**BOOSTING, **bound}, boosting))
        cases.append(FrameCase(f"frame, forest, {target}", target, {**FOREST, "domain": FRAMES[target]}))
        if target != "five":  # without a delta, classes cannot be learnt
            parameters = {**FOREST, "domain": INCOMPLETE[target], "epsilon": 20.0}
            cases.append(FrameCase(f"incomplete domain, forest, {target}", target, parameters))
        parameters = {**BOOSTING, "domain": INCOMPLETE[target], "epsilon": 20.0}
        cases.append(FrameCase(f"incomplete domain, boosting, {target}", target, parameters, boosting))
    bound = {"domain": INCOMPLETE["two"], "epsilon": 20.0, "max_records_per_group": 2}
    cases.append(FrameCase("incomplete domain, forest of groups, two", "two", {**FOREST, **bound}))
    cases.append(FrameCase("incomplete domain, boosting of groups, two", "two", {**BOOSTING, **bound}, CLASSIFIER))
    for weights in ("balanced", {"yes": 3.0}):
        parameters = {**FOREST, "class_weight": weights}
        cases.append(Case(f"class weights, {weights}", "two", parameters))
    cases.append(Case("class weights, boosting", "five", {**BOOSTING, "class_weight": "balanced"}, CLASSIFIER))
    return cases


def learn(target: str, epsilon: float, delta: float, *, of_groups: bool = False) -> dict[str, Any]:
    """Learn a domain that declares only the kinds of columns."""
    X, y = make_frame(target, 1500)
    domain = Domain.learn(
        X,
        y,
        epsilon,
        delta=delta,
        features={name: UNDECLARED[name] for name in ("visits", "city", "when")},
        task="regression" if target == "number" else "classification",
        target=TARGETS[target] if target == "two" else None,
        missing=["?"],
        groups=people(len(X)) if of_groups else None,
        random_state=7,
    )
    return {"domain": public_part(domain), "ledger": lines(domain.origin.ledger)}


@cache
def model_of(target: str, *, boost: bool = False) -> Any:
    """Return a small model for scoring or merging."""
    if boost:
        return Case("", target, BOOSTING, boosting_of(target)).fit()
    return Case("", target, FOREST).fit()


def score(target: str, epsilon: float = 1.0, *, boost: bool = False, **parameters: Any) -> dict[str, Any]:
    """Score a small model, with people if `max_records_per_group` or `groups` is set."""
    X, y = make(target, 900, seed=5)
    if "max_records_per_group" in parameters:
        parameters["groups"] = people(len(X))
    found = diprime.private_score(model_of(target, boost=boost), X, y, epsilon, random_state=3, **parameters)
    numbers = re.findall(r"-?\d+\.\d+(?:e-?\d+)?", found.to_json())
    return {"score": lines(found), "ledger": lines(found.ledger), "numbers": _checksum([float(x) for x in numbers])}


def search(target: str, grid: dict[str, Any], *, boost: bool = False, k: int | None = None, **more: Any) -> Any:
    """Search hyperparameters of a small model."""
    bound = {} if k is None else {"max_records_per_group": k}
    parameters = {**(BOOSTING if boost else FOREST), **bound}
    estimator = Case("", target, parameters, boosting_of(target) if boost else None).estimator(random_state=None)
    X, y = make(target, 900)
    found = PrivateSearch(estimator, grid, **{"epsilon": 3.0, "random_state": 7, **more})
    found.fit(X, y, **({} if k is None else {"groups": people(len(X))}))
    chosen = {"chosen": str(found.best_params_), "ledger": lines(found.privacy_)}
    return {**describe(found.best_estimator_, make(target, 500, seed=99)[0]), **chosen}


def study(spend: Callable[[], Iterable[Callable[[], Any]]], *terms: float, **more: Any) -> dict[str, Any]:
    """Charge releases to a budget, and return its file, the remaining budget and the errors of failed releases."""
    model_of("two")  # seeded, so that no budget covers it
    with TemporaryDirectory() as folder:
        path = Path(folder, "study.budget")
        budget = Budget.create(path, *terms, **more)
        refused = []
        with budget:
            for release in spend():
                message = error_of(release)
                refused += [] if message is None else [message]
        return {"log": lines(path.read_text("utf-8")), "text": lines(budget), "refused": refused}


def releases() -> Iterator[Callable[[], Any]]:
    """Yield releases of each kind that protect records, including some that fail or exceed the budget."""
    X, y = make("two", 300)
    forest = {**FOREST, "random_state": None}  # a budget refuses seeded fits
    incomplete = Domain({f"x{i}": Numeric() for i in range(6)}, TARGETS["two"])
    search = PrivateSearch(Case("", "two", forest).estimator(), {"max_depth": [1, 2]}, epsilon=0.5)
    yield lambda: Case("", "two", forest, n=300).fit()
    yield lambda: Case("", "two", {**BOOSTING, "random_state": None}, CLASSIFIER, n=300).fit()
    yield lambda: Domain.learn(X, y, 5, delta=1e-6, target=TARGETS["two"])
    yield lambda: diprime.private_score(model_of("two"), X, y, 0.25)
    yield lambda: search.fit(X, y)
    yield lambda: Case("", "two", {**forest, "domain": incomplete, "epsilon": 40}, n=300).fit()
    yield lambda: Case("", "two", {**forest, "domain": incomplete, "epsilon": 0.5}, n=300).fit()
    yield lambda: GroupsCase("", "two", forest, n=300).fit()
    yield lambda: Case("", "two", {**forest, "epsilon": 50}, n=300).fit()
    yield lambda: Case("", "two", FOREST, n=300).fit()


def releases_about_people() -> Iterator[Callable[[], Any]]:
    """Yield releases that protect people with several records, and one that protects records and is refused."""
    X, y = make("two", 300)
    forest = {**FOREST, "random_state": None, "max_records_per_group": 2}
    yield lambda: GroupsCase("", "two", forest, n=300).fit()
    yield lambda: Domain.learn(X, y, 20, target=TARGETS["two"], groups=people(300))
    yield lambda: diprime.private_score(model_of("two"), X, y, 0.25, groups=people(300))
    yield lambda: diprime.private_score(model_of("two"), X, y, 0.25)


def planned(target: str, domain: Domain | None = None, **parameters: Any) -> dict[str, Any]:
    """Plan a fit of about 500 records."""
    found = diprime.plan(domain or DOMAINS[target], 500, 2.0, repeats=1, n_jobs=1, **parameters)
    return {"plan": lines(found), "ledger": lines(found.ledger), "domain": lines(found.domain_ledger)}


def merge_of_people() -> dict[str, Any]:
    """Merge two forests that protect people with different contribution bounds."""
    models = [GroupsCase("", "two", {**FOREST, "max_records_per_group": k}).fit() for k in (1, 2)]
    merged = merge(models, disjoint=True)
    return {**describe(merged, make("two", 500, seed=99)[0]), "ledger": lines(merged.privacy_)}


def report(target: str, *, boost: bool = False) -> dict[str, Any]:
    """Return the text of a report on a model and its score, and the digest of the whole page."""
    model = model_of(target, boost=boost)
    scored = diprime.private_score(model, *make(target, 900, seed=5), 1.0, random_state=3)
    page = diprime.report.render(model, scored, dataset="Made data", responsible="Jane Doe", date=date(1999, 12, 31))
    body = re.sub(r"(?s)<(style|script|svg|head)\b.*?</\1>", "", page)
    texts = re.sub(r"<[^>]+>", "\n", body)
    return {
        "page": _digest("\n".join(lines(page))),
        "text": [line for line in map(str.strip, lines(html.unescape(texts))) if line],
    }


def check(*, of_groups: bool = False) -> dict[str, Any]:
    """Count values outside a domain."""
    X, y = make_frame("two", 400)
    domain = Domain({**DECLARED, "city": Categorical(["Paris", "Bonn"])}, Categorical(["no", "maybe"]))
    found = domain.check(X, y, groups=people(400) if of_groups else None)
    return {"check": lines(found), "groups": None if found.persons is None else str(found.persons.to_dict())}


def error_of(action: Callable[[], Any]) -> str | None:
    """Return the type and the message of an error, with its notes, or None if there is no error."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 -- the type is part of the description
        message = " / ".join([str(error), *getattr(error, "__notes__", [])])
        return " ".join(lines(f"{type(error).__name__}: {message}"))
    return None


def _mistakes() -> dict[str, Callable[[], Any]]:
    """Return common mistakes as functions, by a description."""
    X, y = make("two", 60)
    frame, labels = make_frame("two", 60)
    _, numbers = make("number", 60)
    ten = list(range(10))

    def forest(**parameters: Any) -> Any:
        return DiPriMeClassifier(**{"domain": DOMAINS["two"], "n_jobs": 1, **parameters})

    def fit_forest(X: Any = X, y: Any = y, groups: Any = None, **parameters: Any) -> Any:
        return forest(**parameters).fit(X, y, groups=groups)

    def boosted(**parameters: Any) -> Any:
        return CLASSIFIER(**{"domain": DOMAINS["two"], "n_jobs": 1, **parameters}).fit(X, y)

    def load(content: bytes) -> Any:
        with TemporaryDirectory() as folder:
            Path(folder, "model.diprime").write_bytes(content)
            try:
                return diprime.load(os.path.join(folder, "model.diprime"))
            except ValueError as error:
                raise type(error)(str(error).replace(folder, "<folder>")) from None

    return {
        "no domain": lambda: fit_forest(domain=None),
        "a domain that is a dict": lambda: fit_forest(domain={"age": (0, 1)}),
        "a domain for numbers": lambda: fit_forest(domain=DOMAINS["number"]),
        "columns missing": lambda: fit_forest(frame),
        "too few columns": lambda: fit_forest(X[:, :3]),
        "X of one dimension": lambda: fit_forest(X[:, 0]),
        "X that is text": lambda: fit_forest("people.csv"),
        "y of two columns": lambda: fit_forest(X, np.column_stack([y, y])),
        "y that is shorter": lambda: fit_forest(X, y[:-1]),
        "no y": lambda: fit_forest(X, None),
        "text for a number": lambda: fit_forest(frame.assign(level="high"), labels, domain=FRAMES["two"]),
        "numbers for dates": lambda: fit_forest(frame.assign(when=1), labels, domain=FRAMES["two"]),
        "epsilon of zero": lambda: fit_forest(epsilon=0),
        "epsilon that is text": lambda: fit_forest(epsilon="1"),
        "delta of zero": lambda: boosted(delta=0),
        "delta that is large": lambda: boosted(delta=0.5),
        "an unknown method": lambda: fit_forest(method="best"),
        "trees that are not whole": lambda: fit_forest(n_estimators=2.5),
        "a share above 1": lambda: fit_forest(split_share=1.5),
        "more features than there are": lambda: fit_forest(max_features=7),
        "a weight of an unknown class": lambda: fit_forest(class_weight={"perhaps": 2}),
        "rounds of zero": lambda: boosted(n_rounds=0),
        "weights of records": lambda: forest().fit(X, y, sample_weight=np.ones(60)),
        "groups that are shorter": lambda: fit_forest(groups=ten),
        "a bound without groups": lambda: fit_forest(max_records_per_group=5),
        "a bound of zero": lambda: fit_forest(max_records_per_group=0, groups=people(60)),
        "a prediction before the fit": lambda: forest().predict(X),
        "a prediction of other columns": lambda: model_of("two").predict(X[:, :2]),
        "a range that is reversed": lambda: Numeric(10, 0),
        "a range that is half open": lambda: Numeric(0),
        "categories that occur twice": lambda: Categorical(["a", "a"]),
        "an unknown scale": lambda: Numeric(1, 10, scale="square"),
        "a domain without features": lambda: Domain({}, TARGETS["two"]),
        "a feature that is a tuple": lambda: Domain({"age": (0, 110)}, TARGETS["two"]),
        "a domain file without a target": lambda: Domain.from_toml('[features.age]\nkind = "numeric"\nlow = 0'),
        "a domain file with an unknown key": lambda: Domain.from_toml('size = 3\n[target]\nkind = "numeric"'),
        "learning without a target": lambda: Domain.learn(X, y),
        "learning from few records": lambda: Domain.learn(X, numbers, 0.1, task="regression", random_state=7),
        "learning classes without delta": lambda: Domain.learn(X, y, task="classification"),
        "a check of an open domain": lambda: INCOMPLETE["two"].check(frame, labels),
        "a score of something else": lambda: diprime.private_score(object(), X, y),
        "a score with a bound only": lambda: diprime.private_score(model_of("two"), X, y, max_records_per_group=2),
        "a confidence above 1": lambda: diprime.private_score(model_of("two"), X, y, confidence=95),
        "a search for epsilon": lambda: PrivateSearch(forest(), {"epsilon": [1, 2]}).fit(X, y),
        "a search by an unknown rule": lambda: PrivateSearch(forest(), {"max_depth": [1, 2]}, rule="best").fit(X, y),
        "a search with a seed inside": lambda: PrivateSearch(forest(random_state=1), {"max_depth": [1, 2]}).fit(X, y),
        "a plan of no records": lambda: diprime.plan(DOMAINS["two"], 0, 1.0),
        "a merge that is not disjoint": lambda: merge([model_of("two"), model_of("two")]),
        "a merge of kinds": lambda: merge([model_of("two"), model_of("two", boost=True)], disjoint=True),
        "a merge of domains": lambda: merge([model_of("two"), model_of("five")], disjoint=True),
        "a budget of zero": lambda: Budget(0),
        "a budget with a negative delta": lambda: Budget(1, -1e-6),
        "a model file that is empty": lambda: load(b""),
        "a model file that is text": lambda: load(b"age,income\n" * 20),
    }


def errors() -> dict[str, Any]:
    """Make every mistake, and return the errors."""
    return {name: error_of(mistake) for name, mistake in _mistakes().items()}


# Commands run in this order in one directory, because they use the output of earlier commands.
COMMANDS = """\
domain draft few.csv --target income
domain check people.csv --domain domain.toml --person name
domain learn people.csv --domain open.toml --epsilon 8
plan --rows 500 --epsilon 1 --domain domain.toml --repeats 1
budget new study.budget --epsilon 20 --delta 1e-5
fit people.csv --domain domain.toml --epsilon 2 --budget study.budget -o forest.diprime
fit people.csv --domain domain.toml --epsilon 1 --boost --delta 1e-6 --rounds 20 -o boosted.diprime
fit people.csv --domain domain.toml --epsilon 2 --person name --max-records-per-person 2 --json -o people.diprime
fit people.csv --domain open.toml --epsilon 9 -o open.diprime
search people.csv --domain domain.toml --epsilon 9 --try max_depth=1,2 -o best.diprime
score forest.diprime test.csv --epsilon 1 --budget study.budget -o score.json
score boosted.diprime test.csv --epsilon 1 --person name
predict forest.diprime few.csv -o predicted.csv
explain boosted.diprime few.csv
show forest.diprime
show boosted.diprime
report forest.diprime --score score.json -o report.html
merge forest.diprime best.diprime --disjoint -o merged.diprime
budget show study.budget
budget check study.budget forest.diprime score.json
fit people.csv --domain domain.toml --epsilon 99 --budget study.budget -o more.diprime
fit people.csv --domain domain.toml --epsilon 0 -o more.diprime
fit people.csv --domain domain.toml --epsilon 1 -o forest.diprime
fit nobody.csv --domain domain.toml --epsilon 1 -o more.diprime
fit people.csv --domain score.json --epsilon 1 -o more.diprime
fit bad.csv --domain domain.toml --epsilon 1 -o more.diprime
fit people.csv --domain domain.toml --epsilon 1 --person id -o more.diprime
score people.csv test.csv
show nothing.diprime
"""


def _write_files(folder: Path) -> None:
    """Write the input tables and domains of the commands."""
    target = '[target]\nname = "income"\nkind = "categorical"\ncategories = ["no", "yes"]\n'
    known = '[features.city]\nkind = "categorical"\ncategories = ["Paris", "Rome", "Oslo"]\n\n'
    age = '[features.age]\nkind = "numeric"\n'
    (folder / "domain.toml").write_text(f"{age}low = 0\nhigh = 10\n\n{known}{target}")
    (folder / "open.toml").write_text(f"{age}\n{known}{target}")
    for name, n, seed in (("people", 600, 0), ("test", 300, 1), ("few", 12, 2)):
        X, y = make_frame("two", n, seed)
        columns = {"age": X["level"].round(2), "city": X["city"], "income": y}
        frame = pd.DataFrame(columns if name == "few" else {"name": people(n), **columns})
        frame.to_csv(folder / f"{name}.csv", index=False)
    (folder / "bad.csv").write_text("age,city,income\nold,Rome,yes\n")


def command_line() -> dict[str, Any]:
    """Run the commands in this process, and return the exit code and the output of each."""
    found, before = {}, os.getcwd()
    with TemporaryDirectory() as folder:
        _write_files(Path(folder))
        os.chdir(folder)
        try:
            for command in COMMANDS.splitlines():
                found[command] = _run(command)
            found["predicted.csv"] = lines(Path("predicted.csv").read_text())
        finally:
            os.chdir(before)
    return found


def _run(command: str) -> list[str]:
    out, err = io.StringIO(), io.StringIO()
    arguments = ["diprime", *shlex.split(command)]
    patched = mock.patch.object(sys, "argv", arguments), mock.patch.dict(os.environ, COLUMNS="120")
    with patched[0], patched[1], redirect_stdout(out), redirect_stderr(err), suppress(SystemExit):
        runpy.run_module("diprime", run_name="__main__")
    return [*lines(out.getvalue()), *(f"error: {line}" for line in lines(err.getvalue()))]


def _outputs() -> dict[str, Callable[[], dict[str, Any]]]:
    depths = {"max_depth": [1, 2, 3, "auto"], "balance": [0, 1]}
    rounds = {"n_rounds": [5, 20]}
    return {
        **{case.name: partial(fit_in_words, case) for case in _fits_in_words()},
        **{f"learn, {target}": partial(learn, target, 3.0, 1e-3) for target in TARGETS},
        "learn without delta, two": partial(learn, "two", 3.0, 0.0),
        "learn of groups, five": partial(learn, "five", 3.0, 1e-3, of_groups=True),
        "learn of groups, number": partial(learn, "number", 3.0, 1e-3, of_groups=True),
        **{f"score, forest, {target}": partial(score, target) for target in TARGETS},
        **{f"score, boosting, {target}": partial(score, target, boost=True) for target in TARGETS},
        "score of one record each, two": partial(score, "two", max_records_per_group=1),
        "score of groups, five": partial(score, "five", max_records_per_group=3),
        "score of groups, number": partial(score, "number", 0.5, max_records_per_group=2, confidence=0.8),
        "score without noise, five": partial(score, "five", INFINITY),
        "search, stopping, two": partial(search, "two", depths),
        "search, all, five": partial(search, "five", depths, rule="all", refit=True),
        "search, drawn, number": partial(search, "number", depths, n_iter=3),
        "search, boosting, two": partial(search, "two", rounds, boost=True),
        "search, boosting, number": partial(search, "number", rounds, boost=True, refit=True, holdout=0.3),
        "search of groups, two": partial(search, "two", {"max_depth": [1, 3]}, k=2),
        "search of groups, boosting, number": partial(search, "number", rounds, boost=True, k=2),
        "budget of records": partial(study, releases, 60, 1e-5),
        "budget of records with a pure part": partial(study, releases, 60, 1e-5, pure_epsilon=50),
        "budget of people": partial(study, releases_about_people, 30),
        "plan, forest, two": partial(planned, "two"),
        "plan, boosting, number": partial(planned, "number", boost=True, n_rounds=20),
        "plan of groups, five": partial(planned, "five", max_records_per_group=2),
        "plan, incomplete domain, number": partial(planned, "number", INCOMPLETE["number"]),
        "merge of people": merge_of_people,
        "report, forest, two": partial(report, "two"),
        "report, boosting, number": partial(report, "number", boost=True),
        "check": check,
        "check of groups": partial(check, of_groups=True),
        "errors": errors,
        "command line": command_line,
    }


OUTPUTS = _outputs()


def describe_output(name: str) -> dict[str, Any]:
    """Make an output of the library and describe it.

    Outputs without a public seed, such as plans, commands and releases under a budget, use `secrets.token_bytes`. Only
    this function replaces it by constant bytes.
    """
    with warnings.catch_warnings(), mock.patch("secrets.token_bytes", lambda n: bytes(bytearray(range(n)))):
        warnings.simplefilter("ignore", PrivacyWarning)
        return OUTPUTS[name]()


def describe_any(name: str) -> dict[str, Any]:
    """Describe the fit or the other output with a given name."""
    return describe_case(CASES[name]) if name in CASES else describe_output(name)


def _kept_floats(found: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    """Return a description that keeps stored floats if only their last digits differ."""
    return {
        name: old if isinstance(old := stored.get(name), float) and math.isclose(old, value, rel_tol=1e-9) else value
        for name, value in found.items()
    }


def main(beginning: str = "") -> None:
    """Rewrite the descriptions of the cases whose names begin with a prefix, and keep the others."""
    stored = json.loads(PATH.read_text(encoding="utf-8"))
    described = {
        name: _kept_floats(describe_any(name), stored.get(name, {})) if name.startswith(beginning) else stored[name]
        for name in (*CASES, *OUTPUTS)
    }
    PATH.write_text(json.dumps(described, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
