"""Batches as a source: what they say of persons, how often they are read, and which rules hold for all of them."""

import numpy as np
import pytest

from diprime import (
    Budget,
    BudgetError,
    Categorical,
    DiPriMeBoostingClassifier,
    DiPriMeClassifier,
    Domain,
    Numeric,
    sources,
)

DOMAIN = Domain({"a": Numeric(0, 10), "b": Numeric(0, 10)}, Categorical(["no", "yes"]))
OPEN = Domain({"a": Numeric(), "b": Numeric(0, 10)}, Categorical(["no", "yes"]))


def rows(n, seed=0):
    X = np.random.default_rng(seed).uniform(0, 10, (n, 2))
    return X, np.where(X[:, 0] > 5, "yes", "no")


class Passes:
    """Batches that differ from pass to pass, and count how often each pass is read."""

    def __init__(self, *passes):
        self._passes = passes
        self.n_read = []

    def __iter__(self):
        batches = self._passes[min(len(self.n_read), len(self._passes) - 1)]
        self.n_read.append(0)
        for batch in batches:
            self.n_read[-1] += 1
            yield batch


def test_missing_groups_in_a_later_pass_are_refused():
    X, y = rows(40)
    ids = np.arange(40) // 2
    for first, then, words in [
        ((X, y, ids), (X, y), "Some batches"),
        ((X, y), (X, y, ids), "max_records_per_group=2 requires groups"),
    ]:
        model = DiPriMeClassifier(1.0, DOMAIN, max_records_per_group=2)
        with Budget(1) as budget, pytest.raises(ValueError, match=words):
            model.fit(sources.batches(Passes([first], [then])))
        assert budget.entries == ()


def test_groups_that_appear_after_the_domain_was_learnt_are_refused():
    X, y = rows(400)
    model = DiPriMeClassifier(1.0, OPEN)
    with pytest.raises(ValueError, match=r"Some batches .*groups"):
        model.fit(sources.batches(Passes([(X, y)], [(X, y)], [(X, y)], [(X, y, np.arange(400))])))


@pytest.mark.parametrize("kind", [DiPriMeClassifier, DiPriMeBoostingClassifier])
def test_empty_batches_show_whether_there_are_groups(kind):
    X, y = rows(0)
    assert kind(1.0, DOMAIN).fit(sources.batches([(X, y, [])])).privacy_.privacy_unit == "person"
    assert kind(1.0, DOMAIN).fit(sources.batches([(X, y)])).privacy_.privacy_unit == "record"
    assert kind(1.0, DOMAIN).fit(sources.batches([])).privacy_.privacy_unit == "record"
    assert kind(1.0, DOMAIN, max_records_per_group=2).fit(sources.batches([])).privacy_.privacy_unit == "person"


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_generator_is_read_once():
    X, y = rows(60)
    ids = np.arange(60) // 3
    cut = [(X[:20], y[:20], ids[:20]), (X[20:], y[20:], ids[20:])]
    for parameters in ({}, {"max_records_per_group": 3}):
        in_batches = DiPriMeClassifier(1.0, DOMAIN, random_state=1, **parameters)
        whole = DiPriMeClassifier(1.0, DOMAIN, random_state=1, **parameters)
        in_batches.fit(sources.batches(iter(cut)))
        whole.fit(X, y, groups=ids)
        assert in_batches.forest_.digest == whole.forest_.digest


def test_batches_are_not_read_beyond_the_budget():
    passes = Passes([rows(10)])
    for domain, parameters in [(DOMAIN, {}), (OPEN, {}), (DOMAIN, {"max_records_per_group": 2})]:
        with Budget(0.5), pytest.raises(BudgetError, match="not cover DiPriMeClassifier"):
            DiPriMeClassifier(1.0, domain, **parameters).fit(sources.batches(passes))
    assert passes.n_read == []


def test_batches_refuse_column_names():
    with pytest.raises(TypeError, match=r"\(X, y, groups\).*y and groups"):
        DiPriMeClassifier(1.0, DOMAIN).fit(sources.batches([rows(10)]), "target")
    with pytest.raises(TypeError, match=r"X is a Batches.* y .*ndarray"):
        DiPriMeClassifier(1.0, DOMAIN).fit(sources.batches([rows(10)]), rows(10)[1])
