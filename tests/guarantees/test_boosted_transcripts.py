"""Boosting on neighbouring data with the same released numbers: equal models, and sums within what was charged.

On one data set the mechanism draws; on its neighbour it answers what was drawn before. Then every release must be
asked for alike, and the true sums of the two data sets may differ by at most the charged L2 sensitivity, in every
release. Together with the noise of the mechanism, that is what the ledger says: adaptive Gaussian releases whose μ² add
up.
"""

import itertools
import pickle
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from diprime import Categorical, DiPriMeBoostingClassifier, DiPriMeBoostingRegressor, Domain, Numeric
from diprime.boosting import rounds
from diprime.boosting.engine import BoostingEngine
from diprime.kernels import boosting
from diprime.privacy.charges import Mechanism, ReleaseKind
from diprime.privacy.gaussian_dp import gaussian_budget
from diprime.privacy.measures import GaussianDP
from diprime.privacy.mechanisms.gaussian import gaussian_sigma
from tests.guarantees.replay import FEATURES, draw_records, replay
from tests.paid import open_account
from tests.spies import Draws, Noise, Releases

pytestmark = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")

LETTERS = [chr(ord("a") + i) for i in range(26)]
TARGETS = {
    "one": ["a"],
    "two": list("pq"),
    "five": list("pqrst"),
    "many": LETTERS,
    "number": [0.0, 3.0, 7.7, 10.0],
}
DELTA = Fraction(1, 10**6)


def domain_of(task):
    return Domain(FEATURES, Numeric(0, 10) if task == "number" else Categorical(TARGETS[task]))


def booster(task, epsilon=Fraction(1), **parameters):
    kind = DiPriMeBoostingRegressor if task == "number" else DiPriMeBoostingClassifier
    return kind(epsilon, domain_of(task), **{"delta": DELTA, "n_rounds": 12, "n_jobs": 1, **parameters})


def fits_of_neighbours(task, seed, **parameters):
    """Fit two neighbours with the same releases; return the models and both transcripts."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([0, 1, 3, 60]))
    X, y = draw_records(TARGETS[task], n + 1, rng)
    return replay(lambda size: booster(task, random_state=seed, **parameters).fit(X[:size], y[:size]), n, n + 1, rng)


def check_changes(one, two):
    """Check that the record changes no release by more than what was charged; return how near it comes to that."""
    nearest = {}
    for event, other in zip(one.events, two.events, strict=True):
        assert isinstance(event, Noise)
        change = int(((event.values - other.values) ** 2).sum())
        assert event.sensitivity == event.charge.sensitivity.n
        assert change <= event.sensitivity, event.charge.kind
        nearest[event.charge.kind] = max(nearest.get(event.charge.kind, 0), change / event.sensitivity)
    return nearest


SETTINGS = [
    {},
    {"n_rounds": 1},
    {"n_rounds": 3, "interactions": False},
    {"epsilon": Fraction(50), "learning_rate": 1},
    {"epsilon": Fraction(1, 100), "n_rounds": 30},
    {"epsilon": Fraction(10**5), "n_rounds": 30},
]


@pytest.mark.parametrize("task", TARGETS)
def test_model_contains_only_charged_releases(task):
    nearest = {}
    for seed, settings in itertools.product(range(4), SETTINGS):
        models, transcripts = fits_of_neighbours(task, seed, **settings)
        assert pickle.dumps(models[0]) == pickle.dumps(models[1])
        for kind, near in check_changes(*transcripts).items():
            nearest[kind] = max(nearest.get(kind, 0), near)
    kinds = (
        {ReleaseKind.TARGET_HISTOGRAM, ReleaseKind.RESIDUAL_HISTOGRAMS}
        if task == "number"
        else {ReleaseKind.CLASS_COUNTS}
    )
    assert nearest.keys() == kinds | {ReleaseKind.CODE_SUMS, ReleaseKind.ROUND_SUMS}
    if task != "one":
        assert nearest[ReleaseKind.ROUND_SUMS] > 0.3, "or the bound was not put to the test"


@pytest.mark.parametrize("task", TARGETS)
def test_record_changes_one_cell_per_round(task):
    for seed in range(6):
        for event, other in zip(*(t.events for t in fits_of_neighbours(task, seed)[1]), strict=True):
            if event.charge.kind == ReleaseKind.ROUND_SUMS:
                assert (event.values != other.values).any(axis=1).sum() <= 1


# -- the power of the replay ------------------------------------------------------------------------------------------


def changes_are_covered(task, **parameters):
    try:
        for seed in range(8):
            check_changes(*fits_of_neighbours(task, seed, **parameters)[1])
    except AssertionError:
        return False
    return True


@cache
def right_changes_are_covered(task):
    return changes_are_covered(task)


def gradients_twice_as_large(monkeypatch):
    for name in ("add_logistic", "add_softmax", "add_residuals"):
        add = getattr(boosting, name)

        def twice(*arguments, add=add):
            add(*arguments)
            add(*arguments)

        monkeypatch.setattr(boosting, name, twice)


def residuals_that_are_not_clamped(monkeypatch):
    add = boosting.add_residuals

    def unclamped(scores, targets, cells, scale, clip, *rest):
        add(scores, targets, cells, scale, 1 << 26, *rest)

    monkeypatch.setattr(boosting, "add_residuals", unclamped)


def codes_that_count_twice(monkeypatch):
    code_sums = BoostingEngine.code_sums
    monkeypatch.setattr(BoostingEngine, "code_sums", lambda engine: 2 * code_sums(engine))


def targets_that_count_twice(monkeypatch):
    target_counts = BoostingEngine.target_counts
    monkeypatch.setattr(BoostingEngine, "target_counts", lambda engine: 2 * target_counts(engine))


def histograms_that_count_twice(monkeypatch):
    residual_counts = BoostingEngine.residual_counts
    monkeypatch.setattr(BoostingEngine, "residual_counts", lambda *arguments: 2 * residual_counts(*arguments))


@pytest.mark.parametrize(
    ("task", "break_it"),
    [
        ("two", gradients_twice_as_large),
        ("five", gradients_twice_as_large),
        ("many", gradients_twice_as_large),
        ("number", gradients_twice_as_large),
        ("number", residuals_that_are_not_clamped),
        ("two", codes_that_count_twice),
        ("number", codes_that_count_twice),
        ("five", targets_that_count_twice),
        ("number", targets_that_count_twice),
        ("number", histograms_that_count_twice),
    ],
)
def test_releases_beyond_the_charged_bound_are_detected(task, break_it, monkeypatch):
    assert right_changes_are_covered(task)
    break_it(monkeypatch)
    assert not changes_are_covered(task)


@pytest.mark.parametrize("task", sorted(TARGETS.keys() - {"one"}))  # whose gradients are zero
def test_step_from_exact_sums_is_detected(task, monkeypatch):
    """A booster that looks at what was not released gives other models."""
    gradient_sums, true = BoostingEngine.gradient_sums, []

    def watched(*arguments):
        true.append(gradient_sums(*arguments))
        return true[-1]

    monkeypatch.setattr(BoostingEngine, "gradient_sums", watched)
    in_persons = rounds._Booster._in_persons
    monkeypatch.setattr(rounds._Booster, "_in_persons", lambda self, released: in_persons(self, true[-1]))
    differ = []
    for seed in range(4):
        try:
            models, _ = fits_of_neighbours(task, seed)
            differ.append(pickle.dumps(models[0]) != pickle.dumps(models[1]))
        except AssertionError as error:
            differ.append("follows from what was released" in str(error))
    assert any(differ)


def test_clipping_bound_from_exact_residuals_is_detected(monkeypatch):
    def leaky(counts, *rest):
        release(counts, *rest)
        return (1 + int(counts(np.array([1 << 20])).sum()) % 2) << 20

    release = rounds.release_clip
    monkeypatch.setattr(rounds, "release_clip", leaky)
    models, _ = fits_of_neighbours("number", 3)
    assert pickle.dumps(models[0]) != pickle.dumps(models[1])


# -- what mechanisms are called with is what the ledger says -----------------------------------------------------------


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("task", TARGETS)
def test_releases_and_charges_match_one_to_one(task, settings, monkeypatch):
    releases = Releases(monkeypatch)
    model = booster(task, **settings).fit(*draw_records(TARGETS[task], 50, np.random.default_rng(0)))
    ledger = model.privacy_
    assert tuple(receipt.charge for receipt in releases.receipts) == ledger.charges
    for charge in ledger.charges:
        of_charge = [event for event in releases.noise if event.charge is charge]
        assert sum(event.times for event in of_charge) == charge.n_releases
        assert {event.sensitivity for event in of_charge} == {charge.sensitivity.n}
        assert charge.mechanism == Mechanism.ROUNDED_GAUSSIAN
        assert f"{charge.sensitivity.n:,}" in str(charge.sensitivity)
        assert isinstance(charge.measure, GaussianDP)
    assert len(releases.events) == len(releases.noise)
    assert ledger.loss.epsilon == 0
    assert ledger.loss.mu_squared == gaussian_budget(ledger.epsilon, DELTA)
    assert ledger.total == ledger.epsilon
    assert ledger.is_private


@pytest.mark.parametrize("task", TARGETS)
def test_noise_has_the_charged_standard_deviation(task, monkeypatch):
    """A power test: two thirds of the noise would be rejected."""
    releases = Releases(monkeypatch)
    booster(task, n_rounds=100, random_state=0).fit(*draw_records(TARGETS[task], 50, np.random.default_rng(0)))
    for kind in {ReleaseKind.CODE_SUMS, ReleaseKind.ROUND_SUMS}:
        events = releases.noise_of(kind)
        noise = np.concatenate([(event.drawn - event.values).ravel() for event in events])
        charge = events[0].charge
        sigma = float(gaussian_sigma(Fraction(charge.measure.mu_squared), charge.sensitivity.n))
        assert len(noise) > 300
        assert 0.85 < noise.std() / sigma < 1.15
        assert abs(noise.mean()) < 5 * sigma / np.sqrt(len(noise))


@pytest.mark.parametrize("task", ["two", "five", "number"])
def test_random_bits_are_used_once(task, monkeypatch):
    draws = Draws(monkeypatch)
    booster(task).fit(*draw_records(TARGETS[task], 50, np.random.default_rng(0)))
    draws.assert_each_bit_is_used_once()


class RecordingEngine(BoostingEngine):
    """An engine that tells what was asked for, and what had been paid for then."""

    asked: list


def recording(name):
    method = getattr(BoostingEngine, name)

    def recorded(engine, *arguments):
        engine.asked.append((name, [receipt.charge.kind for receipt in engine.releases.receipts]))
        return method(engine, *arguments)

    return recorded


NEEDED = {
    "target_counts": {ReleaseKind.CLASS_COUNTS, ReleaseKind.TARGET_HISTOGRAM},
    "code_sums": {ReleaseKind.CODE_SUMS},
    "gradient_sums": {ReleaseKind.ROUND_SUMS},
    "residual_counts": {ReleaseKind.RESIDUAL_HISTOGRAMS},
}


@pytest.mark.parametrize("task", TARGETS)
def test_records_are_not_queried_before_the_charge(task, monkeypatch):
    releases, asked = Releases(monkeypatch), []
    kind = type("Recording", (RecordingEngine,), {name: recording(name) for name in NEEDED})
    kind.asked, kind.releases = asked, releases
    monkeypatch.setattr("diprime.estimators.boosting.BoostingEngine", kind)
    booster(task).fit(*draw_records(TARGETS[task], 50, np.random.default_rng(0)))
    assert {name for name, _ in asked} == NEEDED.keys() - (set() if task == "number" else {"residual_counts"})
    for name, paid in asked:
        assert NEEDED[name] & set(paid), name


@pytest.mark.parametrize("task", TARGETS)
def test_ledger_that_does_not_cover_the_plan_refuses_releases(task, monkeypatch):
    def short(engine, domain, settings, plan, account, source):
        less = open_account(settings.epsilon / 2, settings.delta)
        return rounds.train_boosting(engine, domain, settings, plan, less, source)

    monkeypatch.setattr("diprime.estimators.boosting.train_boosting", short)
    with pytest.raises(ValueError, match="does not cover"):
        booster(task).fit(*draw_records(TARGETS[task], 50, np.random.default_rng(0)))
