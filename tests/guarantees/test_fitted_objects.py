"""Nothing private survives a fit: what a fitted estimator holds is searched for what it must not hold.

The search is tested first: each leak is planted in a copy of a fitted model, and must be found.
"""

import copy
import gc
import pickle
import re
from dataclasses import fields, replace
from fractions import Fraction
from functools import partial

import joblib
import numpy as np
import pytest

import diprime
import diprime.estimators.base
from diprime import AdditiveForest, Charge, Domain, Forest, Ledger, Numeric, merge
from diprime.boosting.engine import BoostingEngine
from diprime.domain.encoding import TargetLayout
from diprime.execution.groups import KeepRecords
from diprime.forest import defaults
from diprime.forest.candidates import Level
from diprime.forest.engine import ForestEngine
from diprime.paper import DPRandomForestClassifier, DPRandomForestRegressor
from diprime.privacy.charges import Bound, BoundKind, Mechanism, Receipt, ReleaseKind
from diprime.privacy.measures import PureEpsilon
from diprime.privacy.mechanisms.selection import Selection
from diprime.privacy.randomness import RandomSource
from tests.candidate_splits import engine_of
from tests.guarantees.leaks import Secrets, keys_of_streams, leaks, things
from tests.paid import receipt
from tests.small_data import DOMAINS, METHODS, TASKS, boost, fit, make

N = 7919  # a prime that no public number of these fits comes near


def fit_and_know(task, monkeypatch, learn=fit, **parameters):
    """Fit without a seed, and keep by other means what the model must forget."""
    keys = keys_of_streams(monkeypatch)
    X, y = make(task, N)
    X[:, 0] = np.clip(X[:, 0], 0.137428811, 9.862571189)  # inside the public range: these ends are private
    missing = np.arange(N) % 100 == 0
    y = np.where(missing, None if task == "classification" else np.nan, y)
    shape = {"n_estimators": 1, "max_depth": 7} if learn is fit else {}
    model = learn(task, X, y, **{**shape, **parameters})
    used = ~missing
    numbers = {"n": N, "rows with a target": int(used.sum()), "least": np.nanmin(X[:, 0]), "most": np.nanmax(X[:, 0])}
    numbers |= {"second least": np.nanmin(X[:, 1]), "second most": np.nanmax(X[:, 1])}
    if task == "classification":
        numbers |= {f"rows of class {c}": int(np.sum(y == c)) for c in "abc"}
    else:
        numbers |= {"greatest target below": np.sort(y[used])[-2000], "mean target": np.mean(y[used])}
    n_leaves = len(model.forest_.counts)
    true_counts = np.bincount(model.apply(X)[used, 0], minlength=n_leaves)[:n_leaves]
    return model, Secrets(numbers, {N, int(used.sum())}, keys, true_counts), X


@pytest.mark.parametrize("learn", [fit, boost])
@pytest.mark.parametrize("task", TASKS)
def test_model_with_a_learnt_domain_holds_nothing_private(task, learn, monkeypatch):
    declared = DOMAINS[task]
    features = {name: Numeric() if isinstance(f, Numeric) else f for name, f in declared.features.items()}
    target = Numeric() if task == "regression" else declared.target
    model, secrets, _ = fit_and_know(task, monkeypatch, learn, domain=Domain(features, target))
    assert model.domain_.origin.kind == "learned"
    assert leaks(model, secrets) == []


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_fitted_forest_holds_no_secret(task, method, monkeypatch):
    model, secrets, X = fit_and_know(task, monkeypatch, method=method)
    has_windows = any(charge.kind == ReleaseKind.NODE_WINDOWS for charge in model.privacy_.charges)
    assert has_windows == (method == "joint" and task == "regression"), "or the search is not of all kinds of fits"
    assert leaks(model, secrets) == []
    model.predict(X[:100])
    model.apply(X[:100])
    model.feature_importances_
    assert leaks(model, secrets) == []
    assert (
        leaks(merge([model, model], disjoint=True), replace(secrets, true_counts=np.tile(secrets.true_counts, 2))) == []
    )
    assert leaks(pickle.loads(pickle.dumps(model)), secrets) == []


N_PERSONS = 2753  # another prime


def of_persons(learn, task, X, y, **parameters):
    """Fit to persons with several records each, and ids that are not seen elsewhere."""
    model = learn(task, X[:0], y[:0], **parameters)
    ids = np.random.default_rng(0).permutation(np.arange(N) % N_PERSONS) + 88_000_123
    return model.set_params(max_records_per_group=3).fit(X, y, groups=ids)


@pytest.mark.parametrize("learn", [fit, boost])
@pytest.mark.parametrize("task", TASKS)
def test_forest_fitted_with_groups_holds_no_secret(task, learn, monkeypatch):
    used, keep = [], KeepRecords.__call__
    monkeypatch.setattr(KeepRecords, "__call__", lambda *a: used.append(keep(*a)) or used[-1])
    keys = keys_of_streams(monkeypatch)
    model = of_persons(learn, task, *make(task, N))
    n_used = int((used[0].records.target >= 0).sum())
    numbers = {"n": N, "persons": N_PERSONS, "records used": n_used, "an id": 88_000_123, "weights": 6 * N_PERSONS}
    secrets = Secrets(numbers, {N, N_PERSONS, n_used}, keys, np.array([]))
    assert leaks(model, secrets) == []
    planted = copy.copy(model)
    planted.n_persons_ = N_PERSONS
    assert leaks(planted, secrets) != []


@pytest.mark.parametrize("disjoint_rows", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_forest_of_many_trees_holds_no_secret(task, disjoint_rows, monkeypatch):
    for shape in ({"n_estimators": 5}, {"n_estimators": "auto", "max_depth": "auto"}):
        model, secrets, _ = fit_and_know(task, monkeypatch, disjoint_rows=disjoint_rows, **shape)
        assert leaks(model, replace(secrets, true_counts=np.array([]))) == []


@pytest.mark.parametrize("n_rounds", [1, 30])
@pytest.mark.parametrize("task", TASKS)
def test_boosted_model_holds_no_secret(task, n_rounds, monkeypatch):
    model, secrets, X = fit_and_know(task, monkeypatch, boost, n_rounds=n_rounds)
    if n_rounds > 1:
        secrets = replace(secrets, true_counts=np.array([]))
    assert leaks(model, secrets) == []
    model.predict(X[:100])
    model.apply(X[:100])
    model.explain(X[:100])
    model.feature_importances_
    assert leaks(model, secrets) == []
    assert leaks(merge([model, model], disjoint=True), replace(secrets, true_counts=np.array([]))) == []
    assert leaks(pickle.loads(pickle.dumps(model)), secrets) == []


def replaced_forest(model, **arrays):
    model.forest_ = replace(model.forest_, **arrays)


def add_to_ledger(model, **added):
    ledger = model.privacy_
    model.privacy_ = replace(ledger, **{name: (*getattr(ledger, name), entry) for name, entry in added.items()})


LEAKS = {
    "the number of rows": lambda m, s, X: setattr(m, "n_", N),
    "it as a float": lambda m, s, X: setattr(m, "n_", np.float32(N)),
    "it deep inside": lambda m, s, X: setattr(m, "notes_", {"fit": [("rows", {"n": (1, N)})]}),
    "it as a key": lambda m, s, X: setattr(m, "notes_", {N: "rows"}),
    "it in an array": lambda m, s, X: setattr(m, "sizes_", np.array([1, 2, N])),
    "it in the domain": lambda m, s, X: vars(m.domain_).update(n=N),
    "it in text": lambda m, s, X: add_to_ledger(m, notes=f"{N} rows were used."),
    "it in a fraction": lambda m, s, X: setattr(m, "share_", Fraction(1, N)),
    "it in a charge": lambda m, s, X: add_to_ledger(
        m, charges=Charge(ReleaseKind.NODE_SUMS, Mechanism.NONE, Bound(BoundKind.NONE, N), PureEpsilon(Fraction(1)))
    ),
    "the rows used": lambda m, s, X: setattr(m, "used_", min(s.n_rows)),
    "the row numbers": lambda m, s, X: setattr(m, "rows_", np.arange(N)),
    "the row numbers in a list": lambda m, s, X: setattr(m, "rows_", list(range(N))),
    "the rows": lambda m, s, X: setattr(m, "X_", X),
    "the least value": lambda m, s, X: setattr(m, "low_", float(np.nanmin(X[:, 0]))),
    "the most of all columns": lambda m, s, X: setattr(m, "high_", np.nanmax(X, axis=0)),
    "an observed range in text": lambda m, s, X: add_to_ledger(m, notes=f"from {np.nanmin(X[:, 0])} on"),
    "a generator": lambda m, s, X: setattr(m, "source_", Holder(np.random.default_rng(0))),
    "a source": lambda m, s, X: setattr(m, "source_", RandomSource()),
    "a source in slots": lambda m, s, X: setattr(m, "source_", SlotHolder(RandomSource())),
    "a receipt": lambda m, s, X: setattr(m, "receipt_", receipt(Mechanism.DISCRETE_LAPLACE)),
    "a receipt in the ledger": lambda m, s, X: vars(m.privacy_).update(receipts=[receipt(Mechanism.DISCRETE_LAPLACE)]),
    "a selection": lambda m, s, X: setattr(m, "selection_", Selection.uniform(RandomSource().streams(1), 2)),
    "an engine": lambda m, s, X: setattr(m, "engine_", small_engine()),
    "an engine that a method leads to": lambda m, s, X: vars(m.domain_).update(find=small_engine().target_counts),
    "the key as bytes": lambda m, s, X: setattr(m, "key_", s.keys[0]),
    "the key as words": lambda m, s, X: setattr(m, "key_", np.frombuffer(s.keys[-1], dtype="<u4")),
    "a stream": lambda m, s, X: setattr(m, "stream_", np.frombuffer(b"expand 32-byte k" + s.keys[-1], dtype="<u4")),
    "bytes to look into": lambda m, s, X: setattr(m, "key_", memoryview(s.keys[0])),
    "exact leaf counts": lambda m, s, X: replaced_forest(m, counts=s.true_counts.astype(float)),
    "something to call": lambda m, s, X: setattr(m, "callback_", partial(print, 1)),
    "a function that closes over it": lambda m, s, X: vars(m.domain_).update(find=closing_over(X)),
    "a method of an object that has it": lambda m, s, X: vars(m.domain_).update(find=Holder(X).look),
}


def closing_over(rows):
    return lambda: rows


class Holder:
    def __init__(self, held):
        self.held = held

    def look(self):
        return self.held


class SlotHolder:
    __slots__ = ("held",)

    def __init__(self, held):
        self.held = held


def small_engine():
    engine = engine_of(np.zeros((3, 1), dtype=np.uint8), np.zeros(3, dtype=np.int32), TargetLayout.of_classes(2))
    engine._buffers = ()  # large, and searched for keys
    return engine


@pytest.fixture(scope="module")
def known():
    """Return a model, what it must forget, and its rows."""
    with pytest.MonkeyPatch.context() as patch:
        return fit_and_know("classification", patch)


@pytest.mark.parametrize("leak", LEAKS)
def test_leak_search_finds_planted_secrets(leak, known):
    model, secrets, X = known  # test_fitted_forest_holds_no_secret finds none in such a model
    planted = copy.deepcopy(model)
    LEAKS[leak](planted, secrets, X)
    found = leaks(planted, secrets)
    assert found
    if re.match("an? (source|receipt|selection|engine)", leak):  # found by its type
        assert any("belongs to a fit" in place for place in found)


@pytest.mark.parametrize("task", TASKS)
def test_attributes_of_a_fitted_forest(task):
    X, y = make(task, 500)
    model = fit(task, X, y, n_estimators=2, max_depth=3)
    expected = {"domain_", "privacy_", "forest_", "fitted_params_", "n_features_in_"} | (
        {"classes_"} if task == "classification" else set()
    )
    assert set(vars(model)) - set(model.get_params()) == expected
    assert {f.name for f in fields(Forest)} == set(vars(model.forest_)) == {
        "depths", "features", "masks", "values", "counts"
    }  # fmt: skip
    assert {f.name for f in fields(Ledger)} == set(vars(model.privacy_))


@pytest.mark.parametrize("task", TASKS)
def test_attributes_of_a_boosted_model(task):
    model = boost(task, *make(task, 500))
    expected = {"domain_", "privacy_", "forest_", "fitted_params_", "n_features_in_"} | (
        {"classes_"} if task == "classification" else set()
    )
    assert set(vars(model)) - set(model.get_params()) == expected
    assert {f.name for f in fields(AdditiveForest)} == set(vars(model.forest_)) == {
        "depths", "features", "masks", "values", "counts", "offset", "quantum", "code_weights", "code_noise",
        "n_records", "records_noise", "steps", "n_codes", "is_categorical", "link",
    }  # fmt: skip


@pytest.mark.parametrize("task", TASKS)
def test_boosted_models_of_two_data_sets_differ_only_in_model_numbers(task):
    """Shapes of trees follow from released sums, and so does the quantum; everything else is the same.

    Both have so many records that every round adds a tree: how many do follows from released counts.
    """
    a, b = (boost(task, *make(task, n, seed=n)) for n in (3000, 6000))
    assert set(vars(a)) == set(vars(b))
    assert str(a.privacy_) == str(b.privacy_)
    assert a.domain_ is b.domain_
    assert a.get_params() == b.get_params()
    assert a.forest_.n_trees == b.forest_.n_trees
    assert a.forest_.code_weights.shape == b.forest_.code_weights.shape


@pytest.mark.parametrize("task", TASKS)
def test_code_counts_are_noisy_unless_epsilon_is_infinite(task):
    X, y = make(task, 2000)
    for epsilon, exact in ((1, False), (float("inf"), True)):
        found = boost(task, X, y, epsilon=epsilon).forest_.code_weights
        codes = DOMAINS[task].encode(X)
        truth = np.stack([np.bincount(codes[:, j], minlength=256) for j in range(codes.shape[1])])
        assert np.array_equal(found, truth) == exact
        assert exact or np.mean(found == truth) < 0.2


@pytest.mark.parametrize("disjoint_rows", [True, False])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_forests_of_two_data_sets_differ_only_in_model_numbers(task, method, disjoint_rows, monkeypatch):
    """Everything else, shapes and types included, is the same whatever the rows are and however many there are.

    The released counts are held fixed: they decide which levels have windows and the share of splits, and the ledger
    shows that.
    """
    monkeypatch.setattr(defaults, "window_levels", lambda *_: [2])
    shape = {"method": method, "disjoint_rows": disjoint_rows, "n_estimators": 3, "max_depth": 3, "split_share": 0.5}
    a, b = (fit(task, *make(task, n, seed=n), **shape) for n in (31, 4000))
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


OF_A_FIT = (Receipt, Selection, ForestEngine, BoostingEngine, Level, RandomSource)


def alive():
    """Return all objects of fits that anything still holds."""
    gc.collect()
    return [thing for thing in gc.get_objects() if issubclass(type(thing), OF_A_FIT)]


def types_since(before):
    """Return the types of such objects that were not there before."""
    known = {id(thing) for thing in before}
    return {type(thing) for thing in alive() if id(thing) not in known}


def fit_all(task):
    """Fit every kind of model; return them, so that what they hold stays."""
    X, y = make(task, 300)
    models = [fit(task, X, y, method=method, disjoint_rows=p) for method in METHODS for p in (True, False)]
    baseline = DPRandomForestRegressor if task == "regression" else DPRandomForestClassifier
    return [*models, baseline(domain=DOMAINS[task]).fit(X, y), boost(task, X, y)]


@pytest.mark.parametrize("task", TASKS)
def test_accounts_and_engines_do_not_outlive_a_fit(task):
    """Not on the model, and not in a module, a cache or a closure either."""
    before = alive()
    models = fit_all(task)
    assert types_since(before) == set()
    assert models


def test_objects_that_outlive_a_fit_are_detected():
    before = alive()
    kept = [receipt(Mechanism.DISCRETE_LAPLACE), small_engine(), Selection.uniform(RandomSource().streams(1), 2)]
    assert types_since(before) == {Receipt, ForestEngine, Selection}
    assert kept


def test_random_source_refuses_to_be_pickled():
    with pytest.raises(TypeError, match=r"RandomSource .*pickled"):
        pickle.dumps(RandomSource())


@pytest.mark.parametrize("learn", [fit, boost])
@pytest.mark.parametrize("task", TASKS)
def test_saved_file_contains_only_the_model(task, learn, tmp_path, monkeypatch):
    model, secrets, X = fit_and_know(task, monkeypatch, learn)
    joblib.dump(model, tmp_path / "model.joblib")
    saved = (tmp_path / "model.joblib").read_bytes()
    assert not any(key in saved for key in secrets.keys)
    loaded = joblib.load(tmp_path / "model.joblib")
    assert leaks(loaded, secrets) == []
    assert np.array_equal(loaded.predict(X), model.predict(X))
    model.save(tmp_path / "model.diprime")
    content = (tmp_path / "model.diprime").read_bytes()
    assert not any(key in content for key in secrets.keys)
    header = content[16 : 16 + int.from_bytes(content[8:16], "little")]
    assert re.search(rb"(?<!\d)%d(?!\d)" % N, header) is None
    assert leaks(diprime.load(tmp_path / "model.diprime"), secrets) == []


def test_model_keeps_the_given_domain():
    X, y = make("regression", 100)
    model = fit("regression", X * 3, y * 3)
    assert model.domain_ is DOMAINS["regression"]
    assert model.domain is DOMAINS["regression"]
