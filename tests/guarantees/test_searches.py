"""Searches of neighbours with the same releases: the same model, and no record both trains and chooses.

As in test_transcripts.py, the mechanisms draw on one data set, and answer the same on its neighbour.
"""

import itertools
import pickle
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

from diprime import DiPriMeBoostingClassifier, DiPriMeClassifier, DiPriMeRegressor, PrivateSearch
from diprime.privacy.charges import ReleaseKind
from diprime.search import choosing
from tests.guarantees.leaks import Secrets, keys_of_streams, leaks
from tests.guarantees.replay import charge_of, draw_records, loss_of_release, replay
from tests.guarantees.test_fitted_objects import alive, types_since
from tests.guarantees.test_transcripts import TARGETS, domain_of
from tests.small_data import DOMAINS, TASKS, make

pytestmark = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")

EPSILON = Fraction(3)
GRID = {"max_depth": [1, 2], "n_estimators": [1, 2]}
RULES = [("all", False), ("all", True), ("stopping", False), ("stopping", True)]
CHOICES = (ReleaseKind.CHOICE_OF_SETTING, ReleaseKind.ERROR_OF_SETTING)


def search_of(task, rule, refit, seed):
    kind = DiPriMeRegressor if task == "number" else DiPriMeClassifier
    model = kind(domain=domain_of(task), n_jobs=1)
    return PrivateSearch(
        model, GRID, epsilon=EPSILON, rule=rule, refit=refit, max_fits=3, holdout=0.5, random_state=seed
    )


def searches_of_neighbours(task, rule, refit, seed):
    """Return two searches with the same releases, and pairs of their releases."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([0, 3, 20]))
    X, y = draw_records(TARGETS[task], n + 1, rng)
    coins = rng.integers(60, size=n + 1)
    searches, transcripts = replay(
        lambda size: search_of(task, rule, refit, seed).fit(X[:size], y[:size]), n, n + 1, rng, coins
    )
    return searches, list(zip(*(transcript.events for transcript in transcripts), strict=True))


def steps_of(pairs):
    """Return the losses of training and of choosing in each step, and what is left: the refit.

    A step is one repetition of random stopping, or all fits with the choice among them.
    """
    steps, training = [], 0.0
    for one, two in pairs:
        loss = loss_of_release(one, two)
        if charge_of(one) is not None and charge_of(one).kind in CHOICES:
            steps.append((training, loss))
            training = 0.0
        else:
            training += loss
    return steps, training


@pytest.mark.parametrize(("rule", "refit"), RULES)
@pytest.mark.parametrize("task", TARGETS)
def test_search_releases_only_charged_values_and_separates_training_from_selection(task, rule, refit):
    trained = chose = 0
    for seed in range(8):
        searches, pairs = searches_of_neighbours(task, rule, refit, seed)
        assert pickle.dumps(searches[0]) == pickle.dumps(searches[1])
        ledger = searches[0].privacy_
        assert ledger.total == EPSILON
        steps, refitting = steps_of(pairs)
        of_step = float(ledger.charges[0].total if rule == "all" else ledger.charges[0].epsilon) * (1 + 1e-9)
        assert 1 <= len(steps) <= (1 if rule == "all" else 3)
        for training, choosing_loss in steps:
            assert training == 0 or choosing_loss == 0
            assert abs(training) <= of_step
            assert abs(choosing_loss) <= of_step
            trained, chose = trained + (training != 0), chose + (choosing_loss != 0)
        assert abs(refitting) <= EPSILON / 2 * (1 + 1e-9) if refit else refitting == 0
    assert trained
    assert chose or rule == "all", "a choice loses nothing by a record that all settings get wrong, or none"


def test_record_used_for_training_and_selection_is_detected(monkeypatch):
    """The replay can fail: if all records are in both parts, a record loses twice."""

    def everybody(part, *_):
        return part, part

    monkeypatch.setattr("diprime.search.divide", everybody)
    both = 0
    for seed in range(12):
        _, pairs = searches_of_neighbours("binary", "all", False, seed)
        both += any(training != 0 and chosen != 0 for training, chosen in steps_of(pairs)[0])
    assert both


def test_error_without_noise_is_detected(monkeypatch):
    """No step of the transcript ends, for the errors that end one are not released by any mechanism."""
    monkeypatch.setattr(choosing, "discrete_laplace", lambda values, receipt, *_: (receipt.cancel(), values)[1])
    _, pairs = searches_of_neighbours("classes", "stopping", False, 1)
    assert steps_of(pairs)[0] == []


@pytest.mark.parametrize(("rule", "refit"), RULES)
@pytest.mark.parametrize("task", TASKS)
def test_fitted_search_holds_nothing_private(task, rule, refit, monkeypatch):
    keys = keys_of_streams(monkeypatch)
    n = 7919
    X, y = make(task, n)
    kind = DiPriMeRegressor if task == "regression" else DiPriMeClassifier
    search = PrivateSearch(
        kind(domain=DOMAINS[task], n_jobs=1), GRID, epsilon=1, rule=rule, refit=refit, max_fits=3
    ).fit(X, y)
    numbers = {"n": n, "least": np.nanmin(X[:, 1]), "most": np.nanmax(X[:, 1])}
    assert leaks(search, Secrets(numbers, {n}, keys, np.array([]))) == []
    assert keys


def test_searches_on_two_data_sets_differ_only_in_model_numbers():
    """Whatever the records, and however many fits there were: attributes and ledger follow from the setting chosen."""
    found = defaultdict(set)
    for n, _ in itertools.product((31, 3000), range(6)):
        X, y = make("classification", n)
        shape = {"max_depth": 2, "n_estimators": 2, "split_share": 0.5}  # else it follows from the released counts
        model = DiPriMeClassifier(domain=DOMAINS["classification"], n_jobs=1, **shape)
        search = PrivateSearch(model, {"balance": [0, 1, 2, 3]}, epsilon=1, refit=True).fit(X, y)
        names = (*sorted(vars(search)), *sorted(vars(search.best_estimator_)))
        found[search.best_params_["balance"]].add((names, str(search.privacy_)))
    assert all(len(same) == 1 for same in found.values())


def test_boosted_search_exposes_only_hyperparameters_and_model():
    model = DiPriMeBoostingClassifier(domain=DOMAINS["classification"], n_jobs=1, n_rounds=5)
    search = PrivateSearch(model, {"learning_rate": [0.1, 0.5]}, epsilon=1).fit(*make("classification", 500))
    assert set(vars(search)) - set(search.get_params(deep=False)) == {
        "best_estimator_", "best_params_", "privacy_", "domain_", "classes_", "n_features_in_"
    }  # fmt: skip


@pytest.mark.parametrize(("rule", "refit"), RULES)
def test_accounts_and_engines_do_not_outlive_a_search(rule, refit):
    before = alive()
    model = DiPriMeClassifier(domain=DOMAINS["classification"], n_jobs=1)
    search = PrivateSearch(model, GRID, rule=rule, refit=refit, max_fits=3).fit(*make("classification", 300))
    assert types_since(before) == set()
    assert search.privacy_.is_private
