"""Fits to batches equal fits to one table, and invalid batches are explained."""

from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest

from diprime import DiPriMeRegressor, Domain, Numeric, PrivacyWarning, private_score, sources
from tests.small_data import DOMAINS, ESTIMATORS, make


def cut(X, y, at):
    bounds = [0, *sorted(at), len(y)]
    return [(X[a:b], y[a:b]) for a, b in pairwise(bounds)]


def test_seed_warning_names_calling_file():
    X, y = make("regression", 50)
    model = ESTIMATORS["regression"](domain=DOMAINS["regression"], random_state=0)
    with pytest.warns(PrivacyWarning) as caught:
        model.fit(sources.batches([(X, y)]))
    assert caught[0].filename == __file__


def test_batches_may_reorder_but_not_rename_columns():
    X, y = make("regression", 100)
    frame = pd.DataFrame(X, columns=list(DOMAINS["regression"].encoded_feature_names))
    model = ESTIMATORS["regression"](domain=DOMAINS["regression"])
    model.fit(sources.batches([(frame[:50], y[:50]), (frame[frame.columns[::-1]][50:], y[50:])]))
    assert model.feature_names_in_.tolist() == list(DOMAINS["regression"].encoded_feature_names)
    with pytest.raises(ValueError, match="lacks column 'side'"):
        model.fit(sources.batches([(frame[:50], y[:50]), (frame.rename(columns={"side": "edge"})[50:], y[50:])]))


def test_no_batches_and_empty_batches_can_be_fitted():
    X, y = make("classification", 10)
    for batches in ([], [(X[:0], y[:0])]):
        model = ESTIMATORS["classification"](domain=DOMAINS["classification"]).fit(sources.batches(batches))
        assert model.predict(X).shape == (10,)
        assert model.n_features_in_ == 4


def test_invalid_fits_to_batches_raise_value_error():
    X, y = make("classification", 10)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[10, 9\]"):
        ESTIMATORS["classification"](domain=DOMAINS["classification"]).fit(sources.batches([(X, y[:9])]))
    with pytest.raises(ValueError, match=r"a Domain, .*domain='infer'"):
        ESTIMATORS["classification"](domain="infer").fit(sources.batches([(X, y)]))
    with pytest.raises(ValueError, match=r"^epsilon .*got -1"):
        ESTIMATORS["classification"](-1, domain=DOMAINS["classification"]).fit(sources.batches(iter("never read")))


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda X, y: pd.DataFrame(X), "DataFrame yields a "),
        (lambda X, y: pl.DataFrame(X), "DataFrame yields a Series"),
        (lambda X, y: X, "ndarray yields a ndarray"),
        (lambda X, y: (X, y), "tuple yields a ndarray"),
        (lambda X, y: {"X": X, "y": y}, "dict yields a str"),
        (lambda X, y: [(X,)], "list yields a tuple"),
        (lambda X, y: [(X, y, None, None)], "list yields a tuple"),
    ],
)
def test_invalid_batches_raise_type_error(wrong, words, is_open):
    X, y = np.random.default_rng(0).uniform(0, 1, (50, 2)), np.linspace(0, 1, 50)
    target = Numeric() if is_open else Numeric(0, 1)
    domain = Domain({"a": Numeric(0, 1), "b": Numeric(0, 1)}, target)
    model = DiPriMeRegressor(1.0, domain)
    with pytest.raises(TypeError, match=rf"\(X, y, groups\), .*{words}.*\[\(X, y\)\]"):
        model.fit(sources.batches(wrong(X, y)))
    fitted = DiPriMeRegressor(1.0, Domain(domain.features, Numeric(0, 1))).fit(sources.batches([[X, y]]))
    with pytest.raises(TypeError, match=words):
        private_score(fitted, sources.batches(wrong(X, y)))
