"""Boosting on neighbouring data with the same released numbers: equal models, and sums within what was charged.

On one data set the mechanism draws; on its neighbour it answers what was drawn before. Then every release must be
asked for alike, and the true sums of the two data sets may differ by at most the charged L2 sensitivity, in every
release. Together with the noise of the mechanism, that is what the ledger says: adaptive Gaussian releases whose μ² add
up.
"""

import itertools
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from diprime import Categorical, DiPriMeBoostingClassifier, DiPriMeBoostingRegressor, Domain, Numeric
from diprime.engines.partitioned_scores import PartitionedScoreEngine
from diprime.kernels import boosting
from diprime.privacy.gaussian_dp import gaussian_budget
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import GaussianDP
from diprime.privacy.mechanisms.gaussian import ROUNDED_GAUSSIAN, gaussian_sigma
from diprime.training.boosting import train
from tests.guarantees.test_transcripts import FEATURES, VALUES, Transcript
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


def draw_records(task, n, rng):
    X = np.empty((n, len(VALUES)), dtype=object)
    for j, values in enumerate(VALUES.values()):
        X[:, j] = [values[i] for i in rng.integers(len(values), size=n)]
    return X, np.array([TARGETS[task][i] for i in rng.integers(len(TARGETS[task]), size=n)], dtype=object)


def fits_of_neighbours(task, seed, **parameters):
    """Fit two neighbours with the same releases; return the models and both transcripts."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([0, 1, 3, 60]))
    X, y = draw_records(task, n + 1, rng)
    models, transcripts = [], [None]
    for size in [n, n + 1] if rng.random() < 0.5 else [n + 1, n]:
        with pytest.MonkeyPatch.context() as patch:
            transcripts.append(Transcript(patch, transcripts[-1]))
            models.append(booster(task, random_state=seed, **parameters).fit(X[:size], y[:size]))
    assert transcripts[-1].is_complete, "as much is released of the one as of the other"
    return models, transcripts[1:]


def check_changes(one, two):
    """Check that the record changes no release by more than what was charged; return how near it comes to that."""
    nearest = {}
    for event, other in zip(one.events, two.events, strict=True):
        assert isinstance(event, Noise)
        change = int(((event.values - other.values) ** 2).sum())
        assert event.sensitivity == event.charge.calibrated_to
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
def test_a_model_is_made_of_what_the_ledger_charged_and_nothing_else(task):
    nearest = {}
    for seed, settings in itertools.product(range(6), SETTINGS):
        models, transcripts = fits_of_neighbours(task, seed, **settings)
        assert pickle.dumps(models[0]) == pickle.dumps(models[1])
        for kind, near in check_changes(*transcripts).items():
            nearest[kind] = max(nearest.get(kind, 0), near)
    kinds = {"target histogram", "residual histograms"} if task == "number" else {"class counts"}
    assert nearest.keys() == kinds | {"code sums", "round sums"}
    if task != "one":
        assert nearest["round sums"] > 0.3, "or the bound was not put to the test"


@pytest.mark.parametrize("task", TARGETS)
def test_a_record_changes_one_cell_of_a_round(task):
    for seed in range(6):
        for event, other in zip(*(t.events for t in fits_of_neighbours(task, seed)[1]), strict=True):
            if event.charge.kind == "round sums":
                assert (event.values != other.values).any(axis=1).sum() <= 1


# -- the power of the replay ------------------------------------------------------------------------------------------


def changes_are_covered(task, **parameters):
    try:
        for seed in range(8):
            check_changes(*fits_of_neighbours(task, seed, **parameters)[1])
    except AssertionError:
        return False
    return True


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
    code_sums = PartitionedScoreEngine.code_sums
    monkeypatch.setattr(PartitionedScoreEngine, "code_sums", lambda engine: 2 * code_sums(engine))


def targets_that_count_twice(monkeypatch):
    target_counts = PartitionedScoreEngine.target_counts
    monkeypatch.setattr(PartitionedScoreEngine, "target_counts", lambda engine: 2 * target_counts(engine))


def histograms_that_count_twice(monkeypatch):
    residual_counts = PartitionedScoreEngine.residual_counts
    monkeypatch.setattr(PartitionedScoreEngine, "residual_counts", lambda *arguments: 2 * residual_counts(*arguments))


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
def test_releases_that_a_record_changes_by_more_than_was_charged_are_found(task, break_it, monkeypatch):
    assert changes_are_covered(task)
    break_it(monkeypatch)
    assert not changes_are_covered(task)


@pytest.mark.parametrize("task", sorted(TARGETS.keys() - {"one"}))  # whose gradients are zero
def test_a_step_of_true_sums_is_found(task, monkeypatch):
    """A booster that looks at what was not released gives other models."""
    gradient_sums, true = PartitionedScoreEngine.gradient_sums, []

    def watched(*arguments):
        true.append(gradient_sums(*arguments))
        return true[-1]

    monkeypatch.setattr(PartitionedScoreEngine, "gradient_sums", watched)
    in_persons = train._Booster._in_persons
    monkeypatch.setattr(train._Booster, "_in_persons", lambda self, released: in_persons(self, true[-1]))
    differ = []
    for seed in range(4):
        try:
            models, _ = fits_of_neighbours(task, seed)
            differ.append(pickle.dumps(models[0]) != pickle.dumps(models[1]))
        except AssertionError as error:
            differ.append("follows from what was released" in str(error))
    assert any(differ)


def test_a_clip_that_follows_from_true_residuals_is_found(monkeypatch):
    def leaky(counts, *rest):
        release(counts, *rest)
        return (1 + int(counts(np.array([1 << 20])).sum()) % 2) << 20

    release = train.release_clip
    monkeypatch.setattr(train, "release_clip", leaky)
    models, _ = fits_of_neighbours("number", 3)
    assert pickle.dumps(models[0]) != pickle.dumps(models[1])


# -- what mechanisms are called with is what the ledger says -----------------------------------------------------------


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("task", TARGETS)
def test_every_release_uses_its_charge_and_every_charge_is_used_up(task, settings, monkeypatch):
    releases = Releases(monkeypatch)
    model = booster(task, **settings).fit(*draw_records(task, 50, np.random.default_rng(0)))
    ledger = model.privacy_
    assert [receipt.charge for receipt in releases.receipts] == ledger.charges
    for charge in ledger.charges:
        of_charge = [event for event in releases.noise if event.charge is charge]
        assert sum(event.times for event in of_charge) == charge.times
        assert {event.sensitivity for event in of_charge} == {charge.calibrated_to}
        assert charge.mechanism == ROUNDED_GAUSSIAN
        assert f"{charge.calibrated_to:,}" in charge.bound
        assert isinstance(charge.measure, GaussianDP)
    assert len(releases.events) == len(releases.noise)
    assert ledger.loss.epsilon == 0
    assert ledger.loss.mu_squared == gaussian_budget(ledger.epsilon, DELTA)
    assert ledger.total == ledger.epsilon
    assert ledger.is_private


@pytest.mark.parametrize("task", TARGETS)
def test_the_noise_has_the_standard_deviation_that_was_paid_for(task, monkeypatch):
    """A power test: two thirds of the noise would be rejected."""
    releases = Releases(monkeypatch)
    booster(task, n_rounds=60, random_state=0).fit(*draw_records(task, 50, np.random.default_rng(0)))
    for kind in {"code sums", "round sums"}:
        events = releases.noise_of(kind)
        noise = np.concatenate([(event.drawn - event.values).ravel() for event in events])
        charge = events[0].charge
        sigma = float(gaussian_sigma(Fraction(charge.measure.mu_squared), charge.calibrated_to))
        assert len(noise) > 300
        assert 0.85 < noise.std() / sigma < 1.15
        assert abs(noise.mean()) < 5 * sigma / np.sqrt(len(noise))


@pytest.mark.parametrize("task", ["two", "five", "number"])
def test_every_random_bit_is_used_once(task, monkeypatch):
    draws = Draws(monkeypatch)
    booster(task).fit(*draw_records(task, 50, np.random.default_rng(0)))
    draws.assert_each_bit_is_used_once()


class RecordingEngine(PartitionedScoreEngine):
    """An engine that tells what was asked for, and what had been paid for then."""

    asked: list


def recording(name):
    method = getattr(PartitionedScoreEngine, name)

    def recorded(engine, *arguments):
        engine.asked.append((name, [charge.kind for ledger in engine.ledgers for charge in ledger.charges]))
        return method(engine, *arguments)

    return recorded


NEEDED = {
    "target_counts": {"class counts", "target histogram"},
    "code_sums": {"code sums"},
    "gradient_sums": {"round sums"},
    "residual_counts": {"residual histograms"},
}


@pytest.mark.parametrize("task", TARGETS)
def test_nothing_is_asked_of_the_records_before_it_is_paid_for(task, monkeypatch):
    ledgers, asked = [], []
    opened = Ledger.__post_init__
    monkeypatch.setattr(Ledger, "__post_init__", lambda ledger: (opened(ledger), ledgers.append(ledger))[0])
    kind = type("Recording", (RecordingEngine,), {name: recording(name) for name in NEEDED})
    kind.asked, kind.ledgers = asked, ledgers
    monkeypatch.setattr("diprime.estimators.boosting.PartitionedScoreEngine", kind)
    booster(task).fit(*draw_records(task, 50, np.random.default_rng(0)))
    assert {name for name, _ in asked} == NEEDED.keys() - (set() if task == "number" else {"residual_counts"})
    for name, paid in asked:
        assert NEEDED[name] & set(paid), name


@pytest.mark.parametrize("task", TARGETS)
def test_a_ledger_that_does_not_cover_the_plan_refuses_the_releases(task, monkeypatch):
    def short(engine, domain, settings, plan, ledger, source):
        less = replace(ledger, epsilon=ledger.epsilon / 2)
        return train.train_boosting(engine, domain, settings, plan, less, source)

    monkeypatch.setattr("diprime.estimators.boosting.train_boosting", short)
    with pytest.raises(ValueError, match="does not cover"):
        booster(task).fit(*draw_records(task, 50, np.random.default_rng(0)))
