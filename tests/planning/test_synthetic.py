"""Synthetic data of any domain."""

import numpy as np
import pytest

from diprime.domain import MISSING, OTHER, Categorical, Date, Domain, Integer, Numeric
from diprime.planning import KINDS, SyntheticData, synthetic_domain

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


def test_synthetic_domain_completes_undeclared_features_only():
    known = {"a": Numeric(0, 10), "c": Categorical(["x", "y"]), "j": Date(parts=["month"])}
    unknown = {"open": Numeric(), "log": Numeric(scale="log"), "when": Date(), "text": Categorical()}
    domain = Domain({**known, **unknown}, Categorical())
    closed = synthetic_domain(domain)
    assert closed.is_complete
    assert {name: closed.features[name] for name in known} == known
    assert closed.features["log"].scale == "log"
    assert (closed.column_names, closed.encoded_feature_names) == (domain.column_names, domain.encoded_feature_names)
    assert synthetic_domain(closed) == closed


@pytest.mark.parametrize("n_classes", [2, 3, 26])
@pytest.mark.parametrize("feature", [Numeric(0, 1), Categorical(range(60))], ids=["numbers", "categories"])
def test_one_feature_of_simple_data_determines_the_class(feature, n_classes):
    domain = Domain(dict.fromkeys("abc", feature), Categorical(range(n_classes)))
    for seed in range(5):
        X, y = SyntheticData(domain, seed, KINDS[0]).draw(50_000)
        codes, targets = domain.encode(X), domain.encode_target(y)
        counts = [
            np.bincount(codes[:, j].astype(np.int64) * n_classes + targets, minlength=256 * n_classes) for j in range(3)
        ]
        accuracy = max(of_feature.reshape(256, -1).max(axis=1).sum() for of_feature in counts) / len(y)
        assert accuracy > 0.9
        assert np.bincount(targets, minlength=n_classes).min() > 0.5 * len(y) / n_classes
