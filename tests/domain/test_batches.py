"""A fit to batches equals a fit to one table."""

from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime import DiPriMeRegressor, Domain, Numeric, PrivacyWarning, private_score_batches
from diprime.domain.batches import EncodedBatches
from tests.small_data import DOMAINS, ESTIMATORS, TASKS, assert_same_forest, make


def cut(X, y, at):
    bounds = [0, *sorted(at), len(y)]
    return [(X[a:b], y[a:b]) for a, b in pairwise(bounds)]


@given(st.lists(st.integers(0, 7), max_size=6), st.data())
@settings(deadline=None)
def test_rows_are_read_across_batches(sizes, data):
    batches = [np.random.default_rng(i).integers(0, 256, (n, 3)).astype(np.uint8) for i, n in enumerate(sizes)]
    rows = EncodedBatches(3, batches)
    whole = np.concatenate([np.zeros((0, 3), dtype=np.uint8), *batches])
    assert (rows.n_rows, rows.n_features) == whole.shape
    start = data.draw(st.integers(0, rows.n_rows))
    stop = data.draw(st.integers(start, rows.n_rows))
    out = np.full((stop - start, 3), 77, dtype=np.uint8)
    rows.read(start, stop, out)
    assert np.array_equal(out, whole[start:stop])


@pytest.mark.parametrize("at", [[], [1], [0, 0, 500, 999, 1000]])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_a_fit_to_batches_equals_a_fit_to_all_rows(task, at):
    X, y = make(task, 1000)
    parameters = {"domain": DOMAINS[task], "random_state": 0, "n_estimators": 3}
    whole = ESTIMATORS[task](**parameters).fit(X, y)
    pieces = ESTIMATORS[task](**parameters).fit_batches(iter(cut(X, y, at)))
    assert_same_forest(whole, pieces)
    assert whole.privacy_ == pieces.privacy_
    assert set(vars(whole)) == set(vars(pieces))
    assert np.array_equal(whole.predict(X), pieces.predict(X))


def test_the_warning_about_a_seed_names_the_calling_file():
    X, y = make("regression", 50)
    model = ESTIMATORS["regression"](domain=DOMAINS["regression"], random_state=0)
    with pytest.warns(PrivacyWarning) as caught:
        model.fit_batches([(X, y)])
    assert caught[0].filename == __file__


def test_columns_of_batches_may_change_their_order_but_not_their_names():
    X, y = make("regression", 100)
    frame = pd.DataFrame(X, columns=list(DOMAINS["regression"].names))
    model = ESTIMATORS["regression"](domain=DOMAINS["regression"])
    model.fit_batches([(frame[:50], y[:50]), (frame[frame.columns[::-1]][50:], y[50:])])
    assert model.feature_names_in_.tolist() == list(DOMAINS["regression"].names)
    with pytest.raises(ValueError, match="feature names"):
        model.fit_batches([(frame[:50], y[:50]), (frame.rename(columns={"side": "edge"})[50:], y[50:])])


def test_no_batches_and_empty_batches_can_be_fitted():
    X, y = make("classification", 10)
    for batches in ([], [(X[:0], y[:0])]):
        model = ESTIMATORS["classification"](domain=DOMAINS["classification"]).fit_batches(batches)
        assert model.predict(X).shape == (10,)
        assert model.n_features_in_ == 4


def test_invalid_batches_raise_an_error():
    X, y = make("classification", 10)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[10, 9\]"):
        ESTIMATORS["classification"](domain=DOMAINS["classification"]).fit_batches([(X, y[:9])])
    with pytest.raises(ValueError, match="needs a Domain"):
        ESTIMATORS["classification"](domain="infer").fit_batches([(X, y)])
    with pytest.raises(ValueError, match="epsilon must be"):
        ESTIMATORS["classification"](-1, domain=DOMAINS["classification"]).fit_batches(iter("never read"))


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda X, y: pd.DataFrame(X), "batches is a DataFrame that gives a "),
        (lambda X, y: pl.DataFrame(X), "batches is a DataFrame that gives a Series for"),
        (lambda X, y: X, "batches is a ndarray that gives a ndarray"),
        (lambda X, y: (X, y), "batches is a tuple that gives a ndarray"),
        (lambda X, y: {"X": X, "y": y}, "batches is a dict that gives a str"),
        (lambda X, y: [(X,)], "batches is a list that gives a tuple"),
        (lambda X, y: [(X, y, None, None)], "batches is a list that gives a tuple"),
    ],
)
def test_what_is_no_batch_is_explained(wrong, words, is_open):
    X, y = np.random.default_rng(0).uniform(0, 1, (50, 2)), np.linspace(0, 1, 50)
    target = Numeric() if is_open else Numeric(0, 1)
    domain = Domain({"a": Numeric(0, 1), "b": Numeric(0, 1)}, target)
    model = DiPriMeRegressor(1.0, domain)
    with pytest.raises(TypeError, match=rf"{words}.*give pairs \(X, y\) or triples \(X, y, groups\), and \[\(X, y\)\]"):
        model.fit_batches(wrong(X, y))
    fitted = DiPriMeRegressor(1.0, Domain(domain.features, Numeric(0, 1))).fit_batches([[X, y]])
    with pytest.raises(TypeError, match=words):
        private_score_batches(fitted, wrong(X, y))
