"""Searches among boosted models on neighbouring data with the same releases: equal models, within what was charged.

As in test_boosted_transcripts.py, the mechanisms draw on one data set and answer the same on its neighbour. Neighbours
differ in one record or in one person. Every release must be asked for alike; no sum of a fit may differ by more than
the charged L2 sensitivity, and no error that the choice looks at by more than its cost range. Nobody changes both the
sums of a fit that is tried and the errors, although the ledger adds the two up.
"""

import pickle
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from diprime import PrivateSearch
from diprime.privacy.charges import ReleaseKind
from diprime.privacy.gaussian_dp import gaussian_budget
from diprime.search import choosing
from tests.guarantees.replay import charge_of, draw_records, loss_of_release, replay
from tests.guarantees.test_boosted_transcripts import (
    DELTA,
    TARGETS,
    booster,
    codes_that_count_twice,
    gradients_twice_as_large,
    state_information,
    take_few_steps,
)
from tests.guarantees.test_persons import draw_person
from tests.spies import Noise

pytestmark = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")

EPSILON = Fraction(3)
GRID = {"learning_rate": [0.1, 1.0], "interactions": [True, False], "n_rounds": [4]}
N_SEEDS = 8
TASKS = ["one", "two", "five", "number"]
PERSONS = [None, 2]
"""Single records, or persons of whom so many records are used at most."""
CHOICE = ReleaseKind.CHOICE_OF_SETTING


def search_of(task, refit, seed, max_records):
    model = booster(task, epsilon=1.0).set_params(max_records_per_group=max_records or 1)
    return PrivateSearch(model, GRID, epsilon=EPSILON, refit=refit, holdout=0.5, random_state=seed)


def searches_of_neighbours(task, refit, seed, max_records=None):
    """Return two searches with the same releases, and pairs of their releases."""
    rng = np.random.default_rng(seed)
    people = draw_person(rng, int(rng.choice([0, 3, 20])), max_records or 1)
    without = int((people != "new").sum())
    people = people if max_records else people[: without + 1]
    X, y = draw_records(TARGETS[task], len(people), rng)

    def fit(size):
        groups = people[:size] if max_records else None
        return search_of(task, refit, seed, max_records).fit(X[:size], y[:size], groups=groups)

    with pytest.MonkeyPatch.context() as patch:
        state_information(patch, 3000.0 if seed % 2 else None)
        take_few_steps(patch)
        searches, transcripts = replay(fit, without, len(people), rng)
    return searches, list(zip(*(transcript.events for transcript in transcripts), strict=True))


def check_changes(pairs):
    """Check every release against its charge; return whether the record, or person, trained, chose and was refitted."""
    trained = chose = refitted = seen_choice = False
    for one, two in pairs:
        if isinstance(one, Noise):
            change = int(((one.values - two.values) ** 2).sum())
            assert one.sensitivity == one.charge.sensitivity.n
            assert change <= one.sensitivity, one.charge.kind
            trained, refitted = trained or (not seen_choice and change > 0), refitted or (seen_choice and change > 0)
        else:
            assert charge_of(one).kind == CHOICE
            assert not seen_choice
            assert np.abs(one.costs - two.costs).max() <= charge_of(one).sensitivity.n
            assert abs(loss_of_release(one, two)) <= charge_of(one).epsilon * (1 + 1e-9)
            chose, seen_choice = bool((one.costs != two.costs).any()), True
    assert seen_choice
    return trained, chose, refitted


def paid_by_fits(pairs):
    """Return the sum of the μ² of all releases of fits."""
    return sum(one.charge.measure.mu_squared * one.times * one.share for one, _ in pairs if isinstance(one, Noise))


@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_boosted_search_releases_only_charged_values_and_separates_training_from_selection(task, refit):
    max_records = PERSONS[(TASKS.index(task) + refit) % 2]  # each with half of the tasks and half of the refits
    done = []
    for seed in range(N_SEEDS):
        searches, pairs = searches_of_neighbours(task, refit, seed, max_records)
        assert pickle.dumps(searches[0]) == pickle.dumps(searches[1])
        ledger = searches[0].privacy_
        assert (ledger.total, ledger.delta, ledger.max_records_per_group) == (EPSILON, DELTA, max_records)
        assert ledger.loss.epsilon == EPSILON / 10
        assert ledger.loss.mu_squared == gaussian_budget(EPSILON * 9 / 10, DELTA)
        assert 1 - Fraction(2, 1000) < paid_by_fits(pairs) / ledger.loss.mu_squared <= 1, "but for rounded shares"
        trained, chose, refitted = check_changes(pairs)
        assert not (trained and chose)
        assert refit or not refitted
        done.append((trained, chose, refitted))
    trained, chose, refitted = np.any(done, axis=0)
    assert trained
    assert refitted == refit
    assert chose or task == "one", "with one class there are no errors"


# -- the power of the replay ------------------------------------------------------------------------------------------


def test_record_used_for_training_and_selection_is_detected(monkeypatch):
    def everybody(records, *_):
        return records, records

    monkeypatch.setattr("diprime.search.divide", everybody)
    found = [check_changes(searches_of_neighbours("number", False, seed)[1]) for seed in range(N_SEEDS)]
    assert any(trained and chose for trained, chose, _ in found)


def errors_that_count_twice(monkeypatch):
    error = choosing.error
    monkeypatch.setattr(choosing, "error", lambda *arguments: 2 * error(*arguments))


@pytest.mark.parametrize("max_records", PERSONS)
@pytest.mark.parametrize(
    ("task", "break_it"),
    [("two", gradients_twice_as_large), ("number", codes_that_count_twice), ("five", errors_that_count_twice)],
)
def test_releases_beyond_the_charged_sensitivity_are_detected(task, break_it, max_records, monkeypatch):
    def is_covered(seed):
        try:
            check_changes(searches_of_neighbours(task, False, seed, max_records)[1])
        except AssertionError:
            return False
        return True

    assert is_covered(0)
    break_it(monkeypatch)
    assert not all(is_covered(seed) for seed in range(N_SEEDS))


def test_selection_by_exact_errors_is_detected(monkeypatch):
    """Nothing of the transcript is a choice, for no mechanism has made it."""
    least = SimpleNamespace(pick=lambda sets, costs: costs.argmin(axis=1))
    monkeypatch.setattr(choosing, "Selection", lambda receipt, *_, **calibration: (receipt.cancel(), least)[1])
    _, pairs = searches_of_neighbours("two", False, 1)
    assert {charge_of(one).kind for one, _ in pairs} == {
        ReleaseKind.CLASS_COUNTS,
        ReleaseKind.CODE_SUMS,
        ReleaseKind.GRADIENT_SUMS,
    }
    with pytest.raises(AssertionError):
        check_changes(pairs)
