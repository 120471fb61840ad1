"""Boosting on neighbouring data with the same released numbers: equal models, and sums within the charged bound.

On one data set the mechanism draws; on its neighbour it answers what was drawn before. Then every release must be
asked for alike, and the true sums of the two data sets may differ by at most the charged L2 sensitivity, in every
release. Together with the noise of the mechanism, that is what the ledger says: adaptive Gaussian releases whose shares
of μ² add up.

A few records have little information, so that a fit would be a constant. Some cases therefore state more information.
Replayed fits have few steps per epoch.
"""

import itertools
import pickle
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from diprime import Categorical, DiPriMeBoostingClassifier, DiPriMeBoostingRegressor, Domain, Numeric
from diprime.boosting import clipping, defaults, train
from diprime.boosting.budget import DividedBudget
from diprime.boosting.engine import BoostingEngine
from diprime.boosting.gradients import CurveGrid, gradients_of
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


def state_information(monkeypatch, signal):
    """Replace the released information by a given one, unless it is None."""
    if signal is not None:
        monkeypatch.setattr(defaults, "information", lambda n_rows, mu_squared: signal)


def take_few_steps(monkeypatch):
    monkeypatch.setattr(defaults, "curve_steps", lambda signal, n_rows: 2 * defaults.N_EPOCHS)


def fits_of_neighbours(task, seed, signal=None, **parameters):
    """Fit two neighbours with the same releases; return the models and both transcripts."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([0, 1, 3, 60]))
    X, y = draw_records(TARGETS[task], n + 1, rng)
    with pytest.MonkeyPatch.context() as patch:
        state_information(patch, signal)
        take_few_steps(patch)
        return replay(
            lambda size: booster(task, random_state=seed, **parameters).fit(X[:size], y[:size]), n, n + 1, rng
        )


def check_changes(one, two):
    """Check that the record changes no release by more than its charge; return how near it comes to that."""
    nearest = {}
    for event, other in zip(one.events, two.events, strict=True):
        assert isinstance(event, Noise)
        change = sum((a - b) ** 2 for a, b in zip(*(e.values.ravel().tolist() for e in (event, other)), strict=True))
        assert event.sensitivity == event.charge.sensitivity.n
        assert change <= event.sensitivity, (event.charge.kind, event.query)
        key = event.charge.kind, event.query
        nearest[key] = max(nearest.get(key, 0), change / event.sensitivity)
    return nearest


SETTINGS = [
    {},
    {"n_rounds": 3, "interactions": False, "signal": 3000.0},
    {"epsilon": Fraction(50), "learning_rate": 1, "signal": 30_000.0},
    {"epsilon": Fraction(1, 100), "signal": 100.0},
    {"epsilon": Fraction(10**5), "n_rounds": 30},
]
START = ReleaseKind.GRADIENT_SUMS, "code_sums"
CLIPS = ReleaseKind.GRADIENT_SUMS, "residual_counts"
CURVES = ReleaseKind.GRADIENT_SUMS, "curve_sums"
ROUNDS = ReleaseKind.GRADIENT_SUMS, "gradient_sums"
OF_EVERY_TASK = {(ReleaseKind.CODE_SUMS, "code_sums"), START, CURVES, ROUNDS}


def releases_of(task):
    counts = ReleaseKind.ROW_COUNT if task == "number" else ReleaseKind.CLASS_COUNTS
    return OF_EVERY_TASK | {(counts, "target_counts")} | ({CLIPS} if task == "number" else set())


@pytest.mark.parametrize("task", TARGETS)
def test_model_contains_only_charged_releases(task):
    nearest = {}
    for seed, settings in itertools.product(range(3), SETTINGS):
        models, transcripts = fits_of_neighbours(task, seed, **settings)
        assert pickle.dumps(models[0]) == pickle.dumps(models[1])
        for kind, near in check_changes(*transcripts).items():
            nearest[kind] = max(nearest.get(kind, 0), near)
    assert nearest.keys() == releases_of(task)
    if task != "one":  # whose gradients are zero
        assert nearest.pop(ROUNDS) > 0.3
        assert min(nearest.values()) > 0.95, "or the bound was not put to the test"


@pytest.mark.parametrize("task", TARGETS)
def test_record_changes_one_cell_per_round(task):
    n_columns = gradients_of(domain_of(task).layout).n_columns
    for seed in range(6):
        transcripts = fits_of_neighbours(task, seed, signal=3000.0)[1]
        for event, other in zip(*(t.events for t in transcripts), strict=True):
            if event.query == "gradient_sums":
                assert (event.values != other.values).reshape(-1, n_columns).any(axis=1).sum() <= 1


# -- the power of the replay ------------------------------------------------------------------------------------------


def changes_are_covered(task):
    try:
        for seed, signal in itertools.product(range(4), (None, 3000.0)):
            check_changes(*fits_of_neighbours(task, seed, signal)[1])
    except AssertionError:
        return False
    return True


@cache
def right_changes_are_covered(task):
    return changes_are_covered(task)


def gradients_twice_as_large(monkeypatch):
    for name in ("logistic", "softmax", "residuals"):
        write = getattr(boosting, name)

        def twice(*arguments, write=write):
            write(*arguments)
            arguments[-1][...] *= 2

        monkeypatch.setattr(boosting, name, twice)


def residuals_without_a_clip(monkeypatch):
    write = boosting.residuals
    monkeypatch.setattr(
        boosting, "residuals", lambda scores, targets, scale, clip, *rest: write(scores, targets, scale, 1 << 26, *rest)
    )


def gradients_that_are_not_shortened(monkeypatch):
    monkeypatch.setattr(CurveGrid, "shorten", lambda grid, gradients, squares: gradients.copy())


def norms_without_the_constant(monkeypatch):
    look_up = CurveGrid.look_up

    def short(grid, *arguments):
        scores, squares = look_up(grid, *arguments)
        return scores, squares - grid.constant

    monkeypatch.setattr(CurveGrid, "look_up", short)


def steps_with_twice_the_factor(monkeypatch):
    factor = DividedBudget._factor
    monkeypatch.setattr(DividedBudget, "_factor", lambda *arguments: 2 * factor(*arguments))


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
        ("number", residuals_without_a_clip),
        ("two", gradients_that_are_not_shortened),
        ("five", gradients_that_are_not_shortened),
        ("number", gradients_that_are_not_shortened),
        ("two", norms_without_the_constant),
        ("two", steps_with_twice_the_factor),
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


def differ_or_ask_differently(task, **parameters):
    """Return whether any two neighbours have different models, or different releases follow from the same ones."""
    for seed in range(6):
        try:
            models, _ = fits_of_neighbours(task, seed, **parameters)
        except AssertionError as error:
            if "follows from" in str(error):
                return True
            raise
        if pickle.dumps(models[0]) != pickle.dumps(models[1]):
            return True
    return False


LITTLE_NOISE = {"epsilon": Fraction(10**5), "n_rounds": 3}


@pytest.mark.parametrize("query", ["code_sums", "curve_sums", "gradient_sums"])
@pytest.mark.parametrize("task", sorted(TARGETS.keys() - {"one"}))  # whose gradients are zero
def test_step_from_exact_sums_is_detected(task, query, monkeypatch):
    """A fit that uses exact sums, of the start, the curves or the rounds, gives other models."""
    release, method, last = DividedBudget.release, {}, []
    for name in ("code_sums", "curve_sums", "gradient_sums", "residual_counts"):
        method[name] = getattr(BoostingEngine, name)
        monkeypatch.setattr(BoostingEngine, name, lambda *a, name=name: last.append(name) or method[name](*a))

    def exact(budget, sums, *arguments):
        released = release(budget, sums, *arguments)
        return np.asarray(sums, dtype=float) if last[-1] == query else released

    # With more information, the start of classes needs no release of its own.
    parameters = {"epsilon": Fraction(2000)} if query == "code_sums" else LITTLE_NOISE
    assert not differ_or_ask_differently(task, **parameters)
    monkeypatch.setattr(DividedBudget, "release", exact)
    assert differ_or_ask_differently(task, **parameters)


def test_clipping_bound_from_exact_residuals_is_detected(monkeypatch):
    measure = clipping.Clipping.measure

    def leaky(of_fit, scores):
        result = measure(of_fit, scores)
        odd = int(of_fit._engine.residual_counts(1, np.array([1 << 20])).sum()) % 2
        of_fit.gradients = clipping.ResidualGradients((1 + odd) << 20, of_fit.gradients.target_units)
        return result

    monkeypatch.setattr(clipping.Clipping, "measure", leaky)
    assert differ_or_ask_differently("number", signal=100.0)


# -- releases and the ledger ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("task", TARGETS)
def test_releases_use_up_exactly_the_charges(task, settings, monkeypatch):
    settings = dict(settings)
    signal = settings.pop("signal", None)
    state_information(monkeypatch, signal)
    releases = Releases(monkeypatch)
    model = booster(task, **settings).fit(*draw_records(TARGETS[task], 50, np.random.default_rng(0)))
    ledger = model.privacy_
    assert tuple(receipt.charge for receipt in releases.receipts) == ledger.charges
    assert [receipt.unused for receipt in releases.receipts] == [0, 0, 0]
    for charge in ledger.charges:
        of_charge = [event for event in releases.noise if event.charge is charge]
        used = sum(event.times * event.share for event in of_charge)
        assert charge.n_releases == 1
        assert 1 - 0.002 < used <= 1, "but for rounding"
        assert used == 1 or charge.kind == ReleaseKind.GRADIENT_SUMS
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
def test_noise_has_the_standard_deviation_of_its_share(task, monkeypatch):
    """Noise that is 0.8 or 1.25 times as large fails."""
    state_information(monkeypatch, 3000.0)
    releases = Releases(monkeypatch)
    booster(task, n_rounds=50, random_state=0).fit(*draw_records(TARGETS[task], 50, np.random.default_rng(0)))
    parts = {}
    for event in releases.noise:
        sigma = float(gaussian_sigma(Fraction(event.charge.measure.mu_squared) * event.share, event.sensitivity))
        parts.setdefault((event.charge.kind, event.share), []).append((event.drawn - event.values).ravel() / sigma)
    tested = 0
    for noise in map(np.concatenate, parts.values()):
        if len(noise) > 1000:
            tested += 1
            assert 0.85 < noise.std() < 1.15
            assert abs(noise.mean()) < 5 / np.sqrt(len(noise))
    assert tested >= 3 - (task in ("one", "two", "number")), "codes, curves and often rounds"


@pytest.mark.parametrize("task", ["two", "five", "number"])
def test_random_bits_are_used_once(task, monkeypatch):
    state_information(monkeypatch, 3000.0)
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
    "target_counts": {ReleaseKind.CLASS_COUNTS, ReleaseKind.ROW_COUNT},
    "code_sums": {ReleaseKind.CODE_SUMS},
    "residual_counts": {ReleaseKind.GRADIENT_SUMS},
    "curve_sums": {ReleaseKind.GRADIENT_SUMS},
    "gradient_sums": {ReleaseKind.GRADIENT_SUMS},
}


@pytest.mark.parametrize("task", TARGETS)
def test_records_are_not_queried_before_the_charge(task, monkeypatch):
    state_information(monkeypatch, 3000.0)
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
        return train.train_boosting(engine, domain, settings, plan, less, source)

    monkeypatch.setattr("diprime.estimators.boosting.train_boosting", short)
    with pytest.raises(ValueError, match="does not cover"):
        booster(task).fit(*draw_records(TARGETS[task], 50, np.random.default_rng(0)))
