"""Synthetic data of any domain."""

import numpy as np
import pytest

from diprime.domain import MISSING, OTHER, Categorical, Date, Domain, Integer, Numeric
from diprime.planning.synthetic import KINDS, SyntheticData, stand_in

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


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("target", TARGETS)
def test_synthetic_rows_take_every_code(target, kind):
    domain = Domain(FEATURES, TARGETS[target])
    X, y = SyntheticData(domain, 0, kind).draw(200_000)
    codes = domain.encode(X)
    for j, n_codes in enumerate(domain.n_codes.tolist()):
        assert np.unique(codes[:, j]).tolist() == list(range(n_codes))
    assert not np.isin(codes[:, domain.is_categorical], [OTHER, MISSING]).any()
    targets = domain.encode_target(y)
    assert targets.min() >= 0
    assert len(np.unique(targets)) > 2


def test_batches_have_the_same_rows_whenever_they_are_read():
    batches = SyntheticData(Domain(FEATURES, TARGETS["number"]), 0, KINDS[0]).batches(60_000, rows_per_person=3)
    first, second = list(batches), list(batches)
    assert [len(y) for _, y, _ in first] == [50_000, 10_000]
    assert np.array_equal(np.concatenate([persons for _, _, persons in first]), np.arange(60_000) // 3)
    for (X, y, _), (X_again, y_again, _) in zip(first, second, strict=True):
        assert all(X.column(j).values(0, X.n_rows) == X_again.column(j).values(0, X.n_rows) for j in range(X.n_columns))
        assert np.array_equal(y, y_again)


def test_a_stand_in_changes_what_is_open_and_nothing_else():
    known = {"a": Numeric(0, 10), "c": Categorical(["x", "y"]), "j": Date(parts=["month"])}
    domain = Domain({**known, "open": Numeric(), "log": Numeric(scale="log"), "text": Categorical()}, Categorical())
    closed = stand_in(domain)
    assert not closed.is_open
    assert {name: closed.features[name] for name in known} == known
    assert closed.features["log"].scale == "log"
    assert list(closed.features) == list(domain.features)
    assert stand_in(closed) == closed


def test_rough_data_are_crowded_and_no_feature_has_an_effect_of_its_own():
    domain = Domain({name: Numeric(0, 1) for name in "ab"}, Numeric(-5, 5))
    smooth, rough = (SyntheticData(domain, 3, kind).draw(100_000) for kind in KINDS[1:])
    for (X, y), below, correlated in ((smooth, 1 / 8, True), (rough, 1 / 2, False)):
        a, b = (np.array(X.column(j).values(0, X.n_rows)) for j in range(2))
        assert np.mean(a < 1 / 8) == pytest.approx(below, abs=0.01)
        ranks = [column.argsort().argsort() / len(column) for column in (a, b)]
        share = sum(np.corrcoef(rank, y)[0, 1] ** 2 for rank in ranks)
        assert bool(share > 0.5) is correlated
        steps = (ranks[0] * 8).astype(int) * 8 + (ranks[1] * 8).astype(int)
        of_steps = np.bincount(steps, y) / np.bincount(steps)
        assert np.var(of_steps[steps]) > 0.5 * np.var(y)
