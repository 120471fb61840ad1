"""Nothing private survives a fit: what a fitted estimator holds is searched for what it must not hold.

The search is tested first: each leak is planted in a copy of a fitted model, and must be found.
"""

import copy
import pickle
import pickletools
import re
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from functools import partial
from types import FunctionType, MappingProxyType, MethodType

import joblib
import numpy as np
import pytest

import diprime
import diprime.estimators.base
from diprime import Charge, Domain, Forest, Ledger, merge
from diprime.privacy.randomness import RandomSource
from diprime.training import defaults
from tests.small_data import DOMAINS, METHODS, TASKS, fit, make

N = 7919  # a prime that no public number of these fits comes near


@dataclass
class Secrets:
    """What must not be found: numbers, rows, and the key of the noise."""

    numbers: dict[str, float]
    n_rows: set[int]
    key: bytes
    true_counts: np.ndarray  # of the leaves of a single tree that saw all rows


def things(value, path="model", above=()):
    """Yield every object that can be reached, with the way to it; functions hold what they close over."""
    yield path, value
    if id(value) in above:  # a method leads back to its object
        return
    above = (*above, id(value))
    if isinstance(value, (dict, MappingProxyType)):
        for key, item in value.items():
            yield from things(key, f"{path}[key {key!r}]", above)
            yield from things(item, f"{path}[{key!r}]", above)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for i, item in enumerate(value):
            yield from things(item, f"{path}[{i}]", above)
    elif isinstance(value, MethodType):
        yield from things(value.__self__, f"{path}.__self__", above)
        yield from things(value.__func__, f"{path}.__func__", above)
    elif isinstance(value, FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or ()]
        held += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        yield from things(held, f"{path}()", above)
    elif isinstance(value, np.ndarray) and value.dtype == object:
        yield from things(value.tolist(), path, above)
    elif not isinstance(value, (np.ndarray, np.generic, str, bytes, int, float, Fraction, type, type(None))):
        attributes = {f.name: getattr(value, f.name) for f in fields(value)} if is_dataclass(value) else {}
        for name, item in (attributes | getattr(value, "__dict__", {})).items():
            yield from things(item, f"{path}.{name}", above)


def leaks(model, secrets):
    """Return the places where a model holds a secret."""
    found = []

    def look(path, numbers):
        numbers = np.asarray(numbers)
        for name, secret in secrets.numbers.items():
            by_chance = "class" in name and path.endswith("forest_.counts")  # a leaf may be as large as a class
            if np.any(numbers == secret) and not by_chance:
                found.append(f"{path}: {name}")
        if numbers.shape and secrets.n_rows & set(numbers.shape):
            found.append(f"{path}: one entry for each row")

    def look_at_text(path, text):
        for name, secret in secrets.numbers.items():
            whole = str(int(secret)) if float(secret).is_integer() else repr(float(secret))[:10]
            if re.search(rf"(?<![\d.]){re.escape(whole)}", text):
                found.append(f"{path}: {name} in text")

    for path, thing in things(model):
        if isinstance(thing, (RandomSource, np.random.RandomState, np.random.Generator)):
            found.append(f"{path}: a source of random numbers")
        if callable(thing) and not isinstance(thing, (type, FunctionType, MethodType)):
            found.append(f"{path}: something to call, which may hold anything")
        if isinstance(thing, str):
            look_at_text(path, thing)
        elif isinstance(thing, bytes):
            found.append(f"{path}: bytes")
        elif isinstance(thing, np.ndarray) and thing.dtype.kind in "biuf":
            look(path, thing)
            if secrets.key in thing.tobytes():
                found.append(f"{path}: the key")
            if thing.size == secrets.true_counts.size and path.endswith("counts"):
                exact = np.mean(thing.ravel() == secrets.true_counts)
                if exact > 0.6:  # noise is zero now and then
                    found.append(f"{path}: {exact:.0%} of the leaf counts are exact")
        elif isinstance(thing, (int, float, np.number)) and not isinstance(thing, bool):
            look(path, thing)
        elif isinstance(thing, Fraction):
            look(path, [thing.numerator, thing.denominator])
        if isinstance(thing, (list, tuple)) and len(thing) in secrets.n_rows:
            found.append(f"{path}: one entry for each row")
    for name, text in (("repr", repr(model)), ("ledger", str(model.privacy_)), ("json", model.privacy_.to_json())):
        look_at_text(name, text)
    pickled = pickle.dumps(model)
    if secrets.key in pickled:
        found.append("pickle: the key")
    for opcode, argument, _ in pickletools.genops(pickled):
        if isinstance(argument, (int, float)) and opcode.name not in ("FRAME", "BINGET", "LONG_BINGET"):
            look(f"pickle {opcode.name}", argument)
        elif isinstance(argument, str) and not opcode.name.startswith(("SHORT_BINBYTES", "BINBYTES", "BINSTRING")):
            look_at_text(f"pickle {opcode.name}", argument)
    return found


def fit_and_know(task, monkeypatch, **parameters):
    """Fit without a seed, and keep by other means what the model must forget."""
    sources = []

    class Recorded(RandomSource):
        def __init__(self, random_state=None):
            super().__init__(random_state)
            sources.append(self)

    monkeypatch.setattr(diprime.estimators.base, "RandomSource", Recorded)
    X, y = make(task, N)
    X[:, 0] = np.clip(X[:, 0], 0.137428811, 9.862571189)  # inside the public range: these ends are private
    missing = np.arange(N) % 100 == 0
    y = np.where(missing, None if task == "classification" else np.nan, y)
    model = fit(task, X, y, **{"n_estimators": 1, "max_depth": 7, **parameters})
    (source,) = sources
    used = ~missing
    numbers = {"n": N, "rows with a target": int(used.sum()), "least": np.nanmin(X[:, 0]), "most": np.nanmax(X[:, 0])}
    numbers |= {"second least": np.nanmin(X[:, 1]), "second most": np.nanmax(X[:, 1])}
    if task == "classification":
        numbers |= {f"rows of class {c}": int(np.sum(y == c)) for c in "abc"}
    else:
        numbers |= {"greatest target below": np.sort(y[used])[-2000], "mean target": np.mean(y[used])}
    n_leaves = len(model.forest_.counts)
    true_counts = np.bincount(model.apply(X)[used, 0], minlength=n_leaves)[:n_leaves]
    return model, Secrets(numbers, {N, int(used.sum())}, source._key.tobytes(), true_counts), X


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_no_secret_is_found_on_a_fitted_model(task, method, monkeypatch):
    model, secrets, X = fit_and_know(task, monkeypatch, method=method)
    has_windows = any(charge.what.startswith("target windows of level") for charge in model.privacy_.charges)
    assert has_windows == (method == "joint" and task == "regression"), "or the search is not of all kinds of fits"
    assert leaks(model, secrets) == []
    model.predict(X[:100])
    model.apply(X[:100])
    model.feature_importances_
    assert leaks(model, secrets) == []
    assert leaks(merge([model, model]), replace(secrets, true_counts=np.tile(secrets.true_counts, 2))) == []
    assert leaks(pickle.loads(pickle.dumps(model)), secrets) == []


@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_no_secret_is_found_on_a_forest_of_many_trees(task, partition, monkeypatch):
    for shape in ({"n_estimators": 5}, {"n_estimators": "auto", "max_depth": "auto"}):
        model, secrets, _ = fit_and_know(task, monkeypatch, partition=partition, **shape)
        assert leaks(model, replace(secrets, true_counts=np.array([]))) == []


def replaced_forest(model, **arrays):
    model.forest_ = replace(model.forest_, **arrays)


LEAKS = {
    "the number of rows": lambda m, s, X: setattr(m, "n_", N),
    "it as a float": lambda m, s, X: setattr(m, "n_", np.float32(N)),
    "it deep inside": lambda m, s, X: setattr(m, "notes_", {"fit": [("rows", {"n": (1, N)})]}),
    "it as a key": lambda m, s, X: setattr(m, "notes_", {N: "rows"}),
    "it in an array": lambda m, s, X: setattr(m, "sizes_", np.array([1, 2, N])),
    "it in the domain": lambda m, s, X: vars(m.domain_).update(n=N),
    "it in text": lambda m, s, X: m.privacy_.waive(f"{N} rows were used."),
    "it in a fraction": lambda m, s, X: setattr(m, "share_", Fraction(1, N)),
    "it in a charge": lambda m, s, X: m.privacy_.charges.append(Charge("rows", f"1/{N}", "", Fraction(1))),
    "the rows used": lambda m, s, X: setattr(m, "used_", min(s.n_rows)),
    "the row numbers": lambda m, s, X: setattr(m, "rows_", np.arange(N)),
    "the row numbers in a list": lambda m, s, X: setattr(m, "rows_", list(range(N))),
    "the rows": lambda m, s, X: setattr(m, "X_", X),
    "the least value": lambda m, s, X: setattr(m, "low_", float(np.nanmin(X[:, 0]))),
    "the most of all columns": lambda m, s, X: setattr(m, "high_", np.nanmax(X, axis=0)),
    "an observed range in text": lambda m, s, X: m.privacy_.waive(f"from {np.nanmin(X[:, 0])} on"),
    "a source": lambda m, s, X: setattr(m, "source_", copy.copy(RandomStateHolder())),
    "the key as bytes": lambda m, s, X: setattr(m, "key_", s.key),
    "the key as words": lambda m, s, X: setattr(m, "key_", np.frombuffer(s.key, dtype="<u4")),
    "a stream": lambda m, s, X: setattr(m, "stream_", np.frombuffer(b"expand 32-byte k" + s.key, dtype="<u4")),
    "exact leaf counts": lambda m, s, X: replaced_forest(m, counts=s.true_counts.astype(float)),
    "something to call": lambda m, s, X: setattr(m, "callback_", partial(print, 1)),
    "a function that closes over it": lambda m, s, X: vars(m.domain_).update(find=closing_over(X)),
    "a method of an object that has it": lambda m, s, X: vars(m.domain_).update(find=RowHolder(X).look),
}


def closing_over(rows):
    return lambda: rows


class RowHolder:
    def __init__(self, rows):
        self.rows = rows

    def look(self):
        return self.rows


class RandomStateHolder:
    def __init__(self):
        self.generator = np.random.default_rng(0)


@pytest.mark.parametrize("leak", LEAKS)
def test_the_search_finds_what_is_planted(leak, monkeypatch):
    model, secrets, X = fit_and_know("classification", monkeypatch)
    assert leaks(model, secrets) == []
    planted = copy.deepcopy(model)
    LEAKS[leak](planted, secrets, X)
    assert leaks(planted, secrets) != []


@pytest.mark.parametrize("task", TASKS)
def test_a_fitted_model_holds_these_attributes_and_no_others(task):
    X, y = make(task, 500)
    model = fit(task, X, y, n_estimators=2, max_depth=3)
    expected = {"domain_", "privacy_", "forest_", "n_features_in_"} | (
        {"classes_"} if task == "classification" else set()
    )
    assert set(vars(model)) - set(model.get_params()) == expected
    assert {f.name for f in fields(Forest)} == set(vars(model.forest_)) == {
        "depths", "features", "masks", "values", "counts"
    }  # fmt: skip
    assert {f.name for f in fields(Ledger)} == set(vars(model.privacy_))


@pytest.mark.parametrize("partition", [True, False])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_two_data_sets_leave_traces_in_the_forest_s_numbers_alone(task, method, partition, monkeypatch):
    """Everything else, shapes and types included, is the same whatever the rows are and however many.

    That is, for the same released counts: they decide about the levels with windows, which the ledger tells.
    """
    monkeypatch.setattr(defaults, "window_levels", lambda *_: [2])
    a, b = (
        fit(task, *make(task, n, seed=n), method=method, partition=partition, n_estimators=3, max_depth=3)
        for n in (31, 4000)
    )
    released = ("model.forest_.features", "model.forest_.masks", "model.forest_.values", "model.forest_.counts")
    for (path, x), (other_path, y) in zip(things(a), things(b), strict=True):
        assert path == other_path
        assert type(x) is type(y)
        if isinstance(x, np.ndarray):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            if path not in released:
                assert x.tobytes() == y.tobytes(), path
        elif isinstance(x, (int, float, str, Fraction, Ledger, Domain)):
            assert x == y, path


@pytest.mark.parametrize("task", TASKS)
def test_leaf_counts_are_noisy_unless_epsilon_is_infinite(task):
    X, y = make(task, 2000)
    for epsilon, exact in ((1, False), (float("inf"), True)):
        model = fit(task, X, y, epsilon=epsilon, n_estimators=1, max_depth=5)
        truth = np.bincount(model.apply(X)[:, 0], minlength=32)
        assert np.array_equal(model.forest_.counts, truth) == exact


def test_a_random_source_cannot_be_saved_by_accident():
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(RandomSource())


@pytest.mark.parametrize("task", TASKS)
def test_saved_models_hold_no_more_than_the_model(task, tmp_path, monkeypatch):
    model, secrets, X = fit_and_know(task, monkeypatch)
    joblib.dump(model, tmp_path / "model.joblib")
    assert secrets.key not in (tmp_path / "model.joblib").read_bytes()
    loaded = joblib.load(tmp_path / "model.joblib")
    assert leaks(loaded, secrets) == []
    assert np.array_equal(loaded.predict(X), model.predict(X))
    model.save(tmp_path / "model.diprime")
    content = (tmp_path / "model.diprime").read_bytes()
    assert secrets.key not in content
    header = content[16 : 16 + int.from_bytes(content[8:16], "little")]
    assert re.search(rb"(?<!\d)%d(?!\d)" % N, header) is None
    assert leaks(diprime.load(tmp_path / "model.diprime"), secrets) == []


def test_the_domain_given_is_the_domain_kept():
    X, y = make("regression", 100)
    model = fit("regression", X * 3, y * 3)
    assert model.domain_ is DOMAINS["regression"]
    assert model.domain is DOMAINS["regression"]
