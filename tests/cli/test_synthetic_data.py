"""Synthetic data of any domain."""

import numpy as np
import pytest

from diprime.cli.synthetic_data import SyntheticData, stand_in
from diprime.domain import MISSING, OTHER, Categorical, Date, Domain, Integer, Numeric

FEATURES = {
    "a": Numeric(0, 10),
    "b": Numeric(1, 1000, scale="log"),
    "c": Categorical(["x", "y", "z"]),
    "d": Categorical([0, 1, "two", True * 2]),
    "e": Numeric(edges=[0, 18, 65]),
    "f": Categorical([False, True]),
    "g": Categorical(range(400)),
    "h": Integer(-3, 20),
    "i": Integer(0, 10**6),
    "j": Date("2012-10-02", "2018-09-30", parts=["weekday", "month", "hour"]),
    "k": Date(parts=["month"]),
}
TARGETS = {"classes": Categorical(["u", "v", 3]), "number": Numeric(-5, 5)}


@pytest.mark.parametrize("target", TARGETS)
def test_synthetic_rows_take_every_code(target):
    domain = Domain(FEATURES, TARGETS[target])
    X, y = SyntheticData(domain, 0).draw(20_000)
    codes = domain.encode(X)
    for j, n_codes in enumerate(domain.n_codes.tolist()):
        assert np.unique(codes[:, j]).tolist() == list(range(n_codes))
    assert not np.isin(codes[:, domain.is_categorical], [OTHER, MISSING]).any()
    targets = domain.encode_target(y)
    assert targets.min() >= 0
    assert len(np.unique(targets)) > 2


def test_batches_have_the_same_rows_whenever_they_are_read():
    batches = SyntheticData(Domain(FEATURES, TARGETS["number"]), 0).batches(60_000, rows_per_person=3)
    first, second = list(batches), list(batches)
    assert [len(y) for _, y, _ in first] == [50_000, 10_000]
    assert np.array_equal(np.concatenate([persons for _, _, persons in first]), np.arange(60_000) // 3)
    for (X, y, _), (X_again, y_again, _) in zip(first, second, strict=True):
        assert all(X[name].to_list() == X_again[name].to_list() for name in X.columns)
        assert y.equals(y_again)


def test_a_stand_in_changes_what_is_open_and_nothing_else():
    known = {"a": Numeric(0, 10), "c": Categorical(["x", "y"]), "j": Date(parts=["month"])}
    domain = Domain({**known, "open": Numeric(), "log": Numeric(scale="log"), "text": Categorical()}, Categorical())
    closed = stand_in(domain)
    assert not closed.is_open
    assert {name: closed.features[name] for name in known} == known
    assert closed.features["log"].scale == "log"
    assert list(closed.features) == list(domain.features)
    assert stand_in(closed) == closed
