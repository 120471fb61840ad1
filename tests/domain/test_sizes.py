"""Domains that are too large for model files are refused before anything is paid for; all others can be saved."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import diprime
from diprime import Budget, Categorical, Date, DiPriMeBoostingClassifier, DiPriMeClassifier, Domain, Integer, Numeric
from diprime.cli.data_files import read_domain
from diprime.domain import files, sizes
from diprime.domain.sizes import Room, fitting
from diprime.model import files as model_files

TOO_LARGE = "The domain is too large for a model file, in which it has at most .* values"
YES = Categorical(["no", "yes"])


def many_levels(n_columns, n_levels):
    return Domain({f"c{i}": Categorical(range(n_levels)) for i in range(n_columns)}, YES)


@pytest.mark.parametrize("estimator", [DiPriMeClassifier, DiPriMeBoostingClassifier])
def test_a_declared_domain_that_no_file_holds_is_refused_before_data_are_read(estimator):
    domain = many_levels(2200, 250)
    with Budget(10, 1e-5) as budget:
        for fit in (
            lambda: estimator(1.0, domain).fit(None, ["no"]),
            lambda: estimator(1.0, domain).fit_batches(iter([(None, None)])),
        ):
            with pytest.raises(ValueError, match=TOO_LARGE):
                fit()
    assert budget.entries == ()


@pytest.mark.parametrize(("limit", "size"), [("MAX_BYTES", len), ("MAX_VALUES", files.n_values)])
def test_a_domain_of_the_largest_size_can_be_saved_with_all_its_trees(tmp_path, monkeypatch, limit, size):
    domain = many_levels(3, 50)
    n = size(json.dumps(domain.to_dict()).encode())
    X, y = np.zeros((20, 3)), np.array(["no", "yes"] * 10)
    model = DiPriMeClassifier(1.0, domain, n_estimators=n + 1, max_depth=1)
    monkeypatch.setattr(files, limit, n)
    model.fit(X, y).save(tmp_path / "m.diprime")
    assert diprime.load(tmp_path / "m.diprime").domain_ == domain
    monkeypatch.setattr(files, limit, n - 1)
    with pytest.raises(ValueError, match=TOO_LARGE):
        model.fit(X, y)


def test_the_error_of_a_model_that_cannot_be_saved_names_the_file(tmp_path, monkeypatch):
    model = DiPriMeClassifier(1.0, many_levels(1, 2)).fit([[0], [1]], ["no", "yes"])
    monkeypatch.setattr(files, "MAX_VALUES", 0)
    monkeypatch.setattr(model_files, "MORE_VALUES", 10)
    path = tmp_path / "m.diprime"
    with pytest.raises(diprime.ModelFileError) as caught:
        model.save(path)
    assert str(caught.value) == f"{path} was not written, for it is not a sound model: its header is too large."
    assert not path.exists()


def test_domains_that_are_not_for_files_have_no_limit(monkeypatch):
    monkeypatch.setattr(files, "MAX_VALUES", 5)
    for level in (("a", "tuple"), 10**5000):
        Domain({"a": Categorical([level]), "b": Categorical(range(100))}, YES).check_size()
    with pytest.raises(ValueError, match=TOO_LARGE):
        Domain({"b": Categorical(range(100))}, YES).check_size()


# Learnt domains ------------------------------------------------------------------------------------------------------

HARD = ["plain", "a,b={[", "\u0085\u2028", "\U000e0001" * 9, '"' * 20, "x" * 300, 0.1, -7, math.inf, 10**5000]


@pytest.mark.parametrize("limit", ["MAX_BYTES", "MAX_VALUES"])
def test_a_domain_that_is_learnt_can_be_saved_however_many_levels_are_frequent(tmp_path, monkeypatch, limit):
    rng = np.random.default_rng(0)
    values = np.array([f"{'x' * 50},{i}" for i in range(300)], dtype=object)
    X = np.column_stack([values[rng.integers(0, 300, 6000)] for _ in range(3)])
    X[:2000, 2] = np.resize(np.array(HARD, dtype=object), 2000)
    y = np.resize(["no", "yes"], 6000)
    monkeypatch.setattr(sizes, "_LEDGER_BYTES", 8000)
    monkeypatch.setattr(sizes, "_LEDGER_VALUES", 300)
    monkeypatch.setattr(files, limit, {"MAX_BYTES": 20_000, "MAX_VALUES": 600}[limit])
    domain = Domain({"a": Categorical(), "b": Categorical(), "c": Categorical()}, YES, target_name="y")
    model = DiPriMeBoostingClassifier(200.0, domain, delta=0.01, n_rounds=2).fit(X, y)
    kept = [len(feature.levels) for feature in model.domain_.features.values()]
    assert all(10 < n < 300 for n in kept), "there is room for some, and not for all"
    model.save(tmp_path / "m.diprime")
    assert diprime.load(tmp_path / "m.diprime").domain_ == model.domain_
    for name, text in (("d.toml", model.domain_.to_toml()), ("d.json", model.domain_.to_json())):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert read_domain(tmp_path / name) == model.domain_


def test_too_many_open_columns_are_refused_before_data_are_read(monkeypatch):
    monkeypatch.setattr(sizes, "_LEDGER_VALUES", 0)
    monkeypatch.setattr(files, "MAX_VALUES", 1000)
    for open_feature, delta, n_refused in ((Categorical(), 1e-6, 45), (Numeric(), 0, 100)):
        domain = Domain({f"c{i}": open_feature for i in range(n_refused)}, Numeric(0, 1))
        with Budget(10, 1e-5) as budget, pytest.raises(ValueError, match=TOO_LARGE):
            domain.learning_plan(Fraction(1), Fraction(delta))
        with pytest.raises(ValueError, match=TOO_LARGE):
            Domain.learn(np.zeros((1, n_refused)), [0], 1.0, delta=delta, features=domain.features, target=YES)
        assert budget.entries == ()
    domain = Domain({"c": Numeric()}, Numeric(0, 1))
    assert domain.learning_plan(Fraction(1), Fraction(0)).room.n_values > 0


RANGES = {
    "numbers": Numeric(-1.2345678901234567e-300, 1.2345678901234567e-300),
    "whole numbers": Integer(-(2**62), 2**62),
    "dates": Date.covering(-(2**62), 2**62, ("weekday", "month", "hour")),
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges_that_are_learnt_have_room(name):
    closed, still_open = (Domain({"a": feature}, Numeric(0, 1)) for feature in (RANGES[name], Numeric()))
    for write in (Domain.to_toml, Domain.to_json):
        size, before = Room.of(write(closed)), Room.of(write(still_open))
        assert size.n_bytes - before.n_bytes <= sizes._RANGE_BYTES
        assert size.n_values - before.n_values <= sizes._RANGE_VALUES


def test_the_ledger_of_a_learnt_domain_has_room():
    X, y = np.zeros((10, 3)), np.zeros(10)
    features = {"a": Numeric(), "b": Numeric(), "c": Categorical()}
    domain = Domain.learn(X, y, 0.1234567890123456789, delta=1e-7, features=features, target=Numeric())
    ledger = Room.of(json.dumps(json.dumps(domain.origin.to_dict())))
    assert 10 * ledger.n_bytes < sizes._LEDGER_BYTES
    assert 10 * ledger.n_values < sizes._LEDGER_VALUES


def test_the_shortest_levels_are_kept_in_their_order():
    levels = [1, 22, 10**5000, "333,", "4444,4", "z"]
    assert fitting(levels, Room(10**9, 10**9)) == levels
    assert fitting(levels, sizes.WHOLE_FILE) == [1, 22, "333,", "4444,4", "z"]
    assert fitting(levels, Room(10**4, 3)) == [1, 22, "z"]
    assert fitting(levels, Room(3 * 12 + 1 + 2 + 3, 100)) == [1, 22, "z"]
    assert fitting(levels, Room(12, 100)) == []
