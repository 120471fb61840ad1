"""`groups`: persons with several records, in fits, batches, files, merged models and ledgers."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

import diprime
from diprime import (
    DiPriMeBoostingClassifier,
    DiPriMeBoostingRegressor,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Ledger,
    merge,
    sources,
)
from diprime.execution.groups import KeepRecords
from diprime.execution.partition import SampledRecords
from diprime.model.estimates import charged_noise_variance
from diprime.paper import DPDecisionForestClassifier, DPRandomForestClassifier, DPRandomForestRegressor
from diprime.report import render
from tests.small_data import DOMAINS, METHODS, assert_same_forest, make

pytestmark = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")

ESTIMATORS = [DiPriMeClassifier, DiPriMeRegressor, DiPriMeBoostingClassifier, DiPriMeBoostingRegressor]
N = 900


def estimator(kind, k=1, **parameters):
    task = "classification" if "Classifier" in kind.__name__ else "regression"
    few = {"n_rounds": 15} if "Boosting" in kind.__name__ else {}
    return kind(domain=DOMAINS[task], max_records_per_group=k, n_jobs=1, **few, **parameters)


def data_of(kind, n=N, seed=0):
    X, y = make("classification" if "Classifier" in kind.__name__ else "regression", n, seed)
    return X, y, np.random.default_rng(seed).integers(0, n // 3, n)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_groups_of_one_record_equal_a_fit_without_groups(kind):
    X, y, _ = data_of(kind)
    plain = estimator(kind, random_state=3).fit(X, y)
    persons = estimator(kind, random_state=3).fit(X, y, groups=[f"p{i}" for i in range(N)])
    assert_same_forest(plain, persons)
    assert plain.privacy_.charges == persons.privacy_.charges
    assert (plain.privacy_.max_records_per_group, persons.privacy_.max_records_per_group) == (None, 1)


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_batches_with_groups_give_the_same_model_in_scratch(kind, k, tmp_path, monkeypatch):
    X, y, groups = data_of(kind)
    whole = estimator(kind, k, random_state=1).fit(X, y, groups=groups)
    cuts = [0, 7, 300, 300, N]
    batches = [(X[a:b], y[a:b], pl.Series(groups[a:b])) for a, b in pairwise(cuts)]
    assert_same_forest(estimator(kind, k, random_state=1).fit(sources.batches(batches)), whole)
    monkeypatch.setattr(diprime.execution.partition, "PARTITION_ROWS", 250)
    assert_same_forest(estimator(kind, k, random_state=1).fit(sources.batches(batches, scratch=tmp_path)), whole)
    assert whole.privacy_.total == 1
    assert whole.privacy_.max_records_per_group == k


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [DiPriMeClassifier, DiPriMeRegressor])
def test_weights_equal_repeated_records(kind, method, monkeypatch):
    """One tree of weighted records is the tree of records that are repeated, with noise for persons."""
    X, y, groups = data_of(kind, 300)
    k, used = 3, []
    keep = KeepRecords.__call__

    def spy(self, state, threads):
        used.append(keep(self, state, threads).records)
        return replace(state, records=used[-1])

    monkeypatch.setattr(KeepRecords, "__call__", spy)
    shape = {"n_estimators": 1, "max_depth": 3, "method": method, "random_state": 4}
    weighted = estimator(kind, k, **shape).fit(X, y, groups=groups)
    times = used[0].weights.astype(int)
    assert used[0].weights[used[0].target >= 0].min() > 0
    monkeypatch.setattr(
        KeepRecords, "__call__", lambda _, state, threads: replace(state, records=SampledRecords(state.records.target))
    )
    repeated = estimator(kind, k, **shape).fit(
        np.repeat(X, times, axis=0), np.repeat(y, times), groups=np.arange(sum(times))
    )
    assert_same_forest(weighted, repeated)


def test_counts_are_numbers_of_people():
    X, y, groups = data_of(DiPriMeClassifier, 3000)
    for k in (1, 4):
        model = estimator(DiPriMeClassifier, k, epsilon=1000.0, n_estimators=1, max_depth=2).fit(X, y, groups=groups)
        assert model.forest_.counts.sum() == pytest.approx(len(set(groups)), abs=2)
        boosted = estimator(DiPriMeBoostingClassifier, k, epsilon=10000.0).fit(X, y, groups=groups)
        assert boosted.forest_.n_records == pytest.approx(len(set(groups)), rel=0.02)


def test_records_without_a_person_are_left_out():
    X, y, _ = data_of(DiPriMeRegressor)
    known = np.arange(N) % 3 > 0
    groups = [i if known[i] else None for i in range(N)]
    shape = {"epsilon": float("inf"), "n_estimators": 1, "max_depth": 3, "random_state": 0}
    left_out = estimator(DiPriMeRegressor, **shape).fit(X, y, groups=groups)
    fewer = estimator(DiPriMeRegressor, **shape).fit(X[known], y[known])
    assert_same_forest(left_out, fewer)
    nobody = estimator(DiPriMeRegressor, 2, random_state=0).fit(X, y, groups=[None] * N)
    empty = estimator(DiPriMeRegressor, 2, random_state=0).fit(X[:0], y[:0], groups=[])
    assert_same_forest(nobody, empty)
    assert_same_forest(estimator(DiPriMeRegressor, 2, random_state=0).fit(sources.batches([])), empty)


def test_defaults_depend_on_people_not_records():
    """Ten records of everybody are the same information as one: trees are as deep, and leaves as noisy."""
    X, y = make("classification", 20_000)
    one = estimator(DiPriMeClassifier, 1, random_state=0).fit(X[:2000], y[:2000])
    ten = estimator(DiPriMeClassifier, 10, random_state=0).fit(X, y, groups=np.arange(20_000) // 10)
    assert ten.forest_.depths.tolist() == one.forest_.depths.tolist()
    noise = [charged_noise_variance(m.privacy_, m.domain_.layout) for m in (one, ten)]
    assert noise[0] == pytest.approx(noise[1], rel=0.01)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_contribution_bound_without_groups_is_refused(kind):
    X, y, groups = data_of(kind)
    for data in ((X, y), [sources.batches([(X, y)])], [sources.batches([(X, y, None)])]):
        with pytest.raises(ValueError, match="max_records_per_group=3 requires groups"):
            estimator(kind, 3).fit(*data)
    for bad in (0, 101, 2.0, True, "auto", None):
        with pytest.raises(ValueError, match=rf"^max_records_per_group .*1 to 100, got {bad!r}"):
            estimator(kind, bad).fit(X, y, groups=groups)


def test_groups_of_other_lengths_or_batches_are_refused():
    X, y, groups = data_of(DiPriMeClassifier)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[900, 900, 899\]"):
        estimator(DiPriMeClassifier).fit(X, y, groups=groups[1:])
    for batches in ([(X, y, groups), (X, y)], [(X, y), (X, y, groups)]):
        with pytest.raises(ValueError, match=r"Some batches .*groups"):
            estimator(DiPriMeClassifier).fit(sources.batches(batches))


@pytest.mark.parametrize("kind", [DPRandomForestClassifier, DPDecisionForestClassifier, DPRandomForestRegressor])
def test_baselines_refuse_groups(kind):
    X, y, groups = data_of(kind)
    model = kind(domain=DOMAINS["regression" if "Regressor" in kind.__name__ else "classification"], max_depth=1)
    with pytest.raises(ValueError, match=rf"^{kind.__name__} .*groups: .*single records"):
        model.fit(X, y, groups=groups)
    with pytest.raises(ValueError, match=rf"^{kind.__name__} .*groups: .*single records"):
        model.fit(sources.batches([(X, y, groups)]))
    model.fit(X, y, groups=None)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_files_and_ledgers_state_the_contribution_bound(kind, tmp_path):
    X, y, groups = data_of(kind)
    model = estimator(kind, 4).fit(X, y, groups=groups)
    assert model.privacy_.is_private
    model.save(tmp_path / "model.diprime")
    loaded = diprime.load(tmp_path / "model.diprime")
    assert loaded.max_records_per_group == 4
    assert loaded.privacy_ == model.privacy_
    assert loaded.privacy_.max_records_per_group == 4
    assert Ledger.from_json(model.privacy_.to_json()) == model.privacy_
    assert "One person, up to 4 records, added or removed: epsilon = 1; one person replaced" in str(loaded.privacy_)
    page = render(loaded)
    assert "one person, up to 4 records, is added or removed" in page
    assert "one record is added or removed" not in page


def test_models_with_and_without_groups_are_not_merged():
    X, y, groups = data_of(DiPriMeClassifier)
    two, five = (estimator(DiPriMeClassifier, k).fit(X, y, groups=groups) for k in (2, 5))
    single = estimator(DiPriMeClassifier).fit(X, y)
    merged = merge([two, five], disjoint=True)
    assert merged.privacy_.max_records_per_group == 5
    assert merged.privacy_.total == 1
    assert Ledger.from_json(merged.privacy_.to_json()) == merged.privacy_
    assert merge([single, single], disjoint=True).privacy_.max_records_per_group is None
    for pair in ([two, single], [single, two]):
        with pytest.raises(ValueError, match=r"protects people .*single records"):
            merge(pair, disjoint=True)
