"""Records that train and records that choose: every record is in one part, and no record moves another."""

import itertools
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from diprime import (
    Categorical,
    DiPriMeBoostingClassifier,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Domain,
    Numeric,
    PrivateSearch,
)
from diprime._util.resources import Threads
from diprime.domain.records import EncodedBatches
from diprime.execution.executor import InProcess
from diprime.execution.partition import LocalPartitions, Partition, SampledRecords
from diprime.privacy.charges import ReleaseKind, UnpaidReleaseError
from diprime.privacy.mechanisms.selection import best_of_random_number_pmf, exponential_pmf, weight_table
from diprime.privacy.randomness import RandomSource
from diprime.privacy.session import Account
from diprime.search import choosing
from diprime.search.choosing import clip_of, divide, error
from diprime.search.plan import error_range
from tests.encoded_rows import digests_of, joined
from tests.goodness import fits
from tests.paid import open_account
from tests.small_data import DOMAINS, TASKS, boost, fit, make
from tests.spies import Noise, Pick, Releases

FIFTH = Fraction(1, 5)


@dataclass
class Part:
    """All rows of a part: the numbers that their codes stand for, and their targets and weights."""

    rows: np.ndarray
    target: np.ndarray
    weights: np.ndarray | None


def parts_of(partitions, holdout, seed=0):
    with Threads(1) as threads:
        return [read_part(part, threads) for part in divide(partitions, holdout, RandomSource(seed), threads)]


def read_part(part, threads):
    executor = part.executor(threads)
    executor.sum(lambda state, threads, out=None: np.zeros(1))  # it takes its steps
    codes, target, weights = joined(executor)
    assert [state.rows.n_rows for state in executor._states] == list(executor.sizes) == list(part.sizes)
    return Part(codes.astype(int) @ [1, 256], target, weights)


def partitions_of(n, cuts=(), weights=None, persons=None):
    """Return rows with two codes each, which tell their number, as does the target."""
    codes = (np.arange(n, dtype=np.int64)[:, None] // np.array([1, 256]) % 256).astype(np.uint8)
    parts = []
    for rows in np.split(np.arange(n), cuts):
        batches = EncodedBatches(2, [codes[rows[: len(rows) // 3]], codes[rows[len(rows) // 3 :]]])
        of_rows = [None if array is None else array[rows] for array in (weights, persons)]
        parts.append(Partition(batches, SampledRecords(rows.astype(np.int32), *of_rows)))
    return LocalPartitions(parts)


def divided(n, holdout=FIFTH, seed=0, cuts=()):
    return parts_of(partitions_of(n, cuts), holdout, seed)


@pytest.mark.parametrize("n", [0, 1, 2, 9, 1000])
def test_each_record_is_in_one_part_with_its_target(n):
    parts = divided(n)
    for part in parts:
        assert part.rows.tolist() == part.target.tolist()
    assert sorted(np.concatenate([part.target for part in parts])) == list(range(n))


def test_added_record_does_not_change_the_part_of_others():
    smaller, larger = divided(500), divided(501)
    for few, more in zip(smaller, larger, strict=True):
        assert more.target[: len(few.target)].tolist() == few.target.tolist()


@pytest.mark.parametrize("cuts", [[7], [0, 0, 1500, 3000], list(range(100, 3000, 100))], ids=len)
def test_parts_do_not_depend_on_partitions(cuts):
    people = np.random.default_rng(3).integers(-1, 700, 3000)
    for persons in (None, digests_of(people)):
        expected = parts_of(partitions_of(3000, persons=persons), FIFTH)
        for part, other in zip(expected, parts_of(partitions_of(3000, cuts, persons=persons), FIFTH), strict=True):
            assert part.rows.tolist() == other.rows.tolist() == other.target.tolist()


def test_fresh_bits_give_other_parts():
    assert divided(500)[1].target.tolist() != divided(500, seed=1)[1].target.tolist()


def divided_persons(people, seed=0, cuts=()):
    n = len(people)
    weights = (np.arange(n) % 251).astype(np.uint8)
    return parts_of(partitions_of(n, cuts, weights, digests_of(people)), Fraction(1, 2), seed)


@pytest.mark.parametrize("cuts", [[], [40, 41, 150]], ids=len)
def test_records_of_a_person_share_a_part_and_keep_their_weights(cuts):
    people = np.random.default_rng(1).integers(0, 40, 200)
    training, choosing = divided_persons(people, cuts=cuts)
    assert not set(people[training.target]) & set(people[choosing.target])
    assert sorted([*training.target, *choosing.target]) == list(range(200))
    for part in (training, choosing):
        assert part.weights.tolist() == (part.target % 251).tolist()
    more = divided_persons([*people, *[40] * 9])
    for few, many in zip((training, choosing), more, strict=True):
        assert many.target[: len(few.target)].tolist() == few.target.tolist()


@pytest.mark.parametrize("people", [[], [-1, -1, -1]])
def test_records_without_a_person_are_divided_without_an_error(people):
    assert sum(len(part.target) for part in divided_persons(people)) == len(people)


ONE = Threads(1)
CLASSES = Domain({"x": Numeric(0, 1)}, Categorical(["c", "a", "b"]))  # not sorted
NUMBERS = Domain({"x": Numeric(0, 1)}, Numeric(-10, 30))


def part_of(target):
    return Partition(
        EncodedBatches(1, [np.zeros((len(target), 1), dtype=np.uint8)]),
        SampledRecords(np.array(target, dtype=np.int32)),
    )


def model_that_says(decisions=None, numbers=None):
    forest = SimpleNamespace(
        decide=lambda rows, threads: np.array(decisions, dtype=int),
        predict=lambda rows, threads: np.array(numbers, dtype=float)[:, None],
    )
    return SimpleNamespace(forest_=forest)


def records_of(part):
    return InProcess([part], [part.rows.n_rows], ONE)


def test_wrong_classes_are_counted_in_any_order_of_the_domain():
    # Decisions count the sorted classes, and targets those of the domain.
    model = model_that_says(decisions=[0, 1, 2, 2, 0])  # a, b, c, c, a
    target = [1, 2, 0, 1, -1]  # a, b, c, a, none
    assert error(model, records_of(part_of(target)), CLASSES) == 1


def test_squared_residuals_are_clipped_and_added_up():
    units, clip = NUMBERS.layout.units, clip_of(NUMBERS.layout)
    values = np.array([-10.0, 0, 30, 30, 5])
    target = NUMBERS.encode_target(values)
    predicted = values + np.array([0, 4, -40, -1, 7])
    target[4] = -1
    exact = (0.1 * units) ** 2 + clip**2 + (units / 40) ** 2
    found = error(model_that_says(numbers=predicted), records_of(part_of(target)), NUMBERS)
    assert found == pytest.approx(exact / (clip**2 / units), abs=1 + 2 * units / 8)


@pytest.mark.parametrize("domain", [CLASSES, NUMBERS])
def test_one_record_changes_the_error_by_an_amount_in_the_range(domain):
    """Over all records with coarse targets and predictions, added to several parts."""
    units = domain.layout.units
    classes = domain.task == "classification"
    values = range(-1, 3) if classes else [-1, 0, 1, 700, 1024, 1025, units - 1, units]
    said = range(3) if classes else [-10, -9.9, 0.0, 11.1, 30]
    changes = set()
    for records in [(), ((values[2], said[0]),), tuple(zip(values[-3:], said[-3:], strict=True))]:
        for record in itertools.product(values, said):
            errors = []
            for some in (records, (*records, record)):
                target, predictions = [r[0] for r in some], [r[1] for r in some]
                model = model_that_says(**{"decisions" if classes else "numbers": predictions})
                errors.append(error(model, records_of(part_of(target)), domain))
            changes.add(errors[1] - errors[0])
    assert min(changes) == 0
    assert max(changes) == error_range(domain.layout), "and the range is not wasted"


@pytest.mark.parametrize("learn", [fit, boost])
@pytest.mark.parametrize("task", TASKS)
def test_error_equals_that_of_the_predictions(task, learn):
    X, y = make(task, 500)
    model, domain = learn(task, X, y, epsilon=20), DOMAINS[task]
    part = Partition(EncodedBatches(domain.n_features, [domain.encode(X)]), SampledRecords(domain.encode_target(y)))
    found = error(model, records_of(part), domain)
    if task == "classification":
        assert found == (model.predict(X) != y).sum()
    else:
        residuals = np.minimum(np.abs(model.predict(X) - y) / 10, 0.25)
        assert found == pytest.approx((residuals**2).sum() * 16 * 4096, rel=0.01)


@pytest.mark.parametrize("domain", [CLASSES, NUMBERS])
def test_person_changes_the_error_by_at_most_the_range(domain):
    """Up to three records, whose weights add up to W, with every target and decision that matters."""
    layout = domain.layout.of_persons(3)
    targets = range(3) if domain is CLASSES else (0, 1, layout.units // 8, layout.units // 4, layout.units)
    largest = 0
    for own in itertools.product(targets, repeat=2):
        for weights in ([6], [3, 3], [2, 4]):
            errors = []
            for shown in (0, len(weights)):
                target = [1, *own[:shown]][: 1 + shown]
                part = part_of(target)
                used = SampledRecords(part.records.target, np.array([5, *weights][: len(target)], dtype=np.uint8))
                model = model_that_says([0] * len(target), [-10.0] * len(target))
                errors.append(error(model, records_of(Partition(part.rows, used)), domain))
            assert 0 <= errors[1] - errors[0] <= error_range(layout)
            largest = max(largest, errors[1] - errors[0])
    assert largest == error_range(layout)


not_private = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")  # of seeds

RUNS = 300
ERRORS = {1: 4, 2: 2, 3: 3, 4: 9}  # by max_depth


def search_of(n, rule, kind=DiPriMeClassifier, **parameters):
    """Return a search among small forests."""
    names = {"n_rounds": [1, 2, 3, 4][:n]} if kind is DiPriMeBoostingClassifier else {"max_depth": [1, 2, 3, 4][:n]}
    size = {} if kind is DiPriMeBoostingClassifier else {"n_estimators": 1}
    task = "regression" if "Regressor" in kind.__name__ else "classification"
    model = kind(domain=DOMAINS[task], n_jobs=1, **size)
    return PrivateSearch(model, names, rule=rule, **{"epsilon": 3, **parameters})


@pytest.fixture
def known_errors(monkeypatch):
    monkeypatch.setattr(choosing, "error", lambda model, *_: ERRORS[model.max_depth])


def choices(search, n_runs=RUNS):
    X, y = make("classification", 20)
    runs = (search.set_params(random_state=seed).fit(X, y) for seed in range(n_runs))
    return Counter(run.best_params_["max_depth"] for run in runs)


@not_private
@pytest.mark.usefixtures("known_errors")
def test_exponential_mechanism_chooses_among_all_settings_with_all_of_epsilon():
    chosen = choices(search_of(4, "all", epsilon=0.7))
    expected = exponential_pmf(list(ERRORS.values()), weight_table(Fraction(7, 10), 1, 4))
    assert fits([chosen[depth] for depth in ERRORS], expected)
    sharp = exponential_pmf(list(ERRORS.values()), weight_table(Fraction(14, 10), 1, 4))
    assert not fits([chosen[depth] for depth in ERRORS], sharp)


@not_private
@pytest.mark.usefixtures("known_errors")
def test_random_stopping_samples_settings_uniformly_and_takes_the_least_noisy_error():
    """With hardly any noise, the order of errors is known, and the distribution is that of the mechanism."""
    chosen = choices(search_of(4, "stopping", epsilon=1000, max_fits=3, refit=False))
    repetition = {(e, depth): Fraction(1, 4) for depth, e in ERRORS.items()}
    expected = best_of_random_number_pmf(repetition, 3)
    assert fits([chosen[depth] for depth in ERRORS], [expected[e, depth] for depth, e in ERRORS.items()])


@not_private
def test_random_stopping_compares_released_errors_only(monkeypatch):
    tried, release = [], choosing.discrete_laplace

    def released_in_reverse(errors, *rest):
        release(errors, *rest)
        return -errors

    monkeypatch.setattr(choosing, "error", lambda model, *_: tried.append(ERRORS[model.max_depth]) or tried[-1])
    monkeypatch.setattr(choosing, "discrete_laplace", released_in_reverse)
    several = 0
    for seed in range(12):
        tried.clear()
        search = search_of(4, "stopping", max_fits=4, refit=False, random_state=seed).fit(*make("classification", 20))
        assert ERRORS[search.best_params_["max_depth"]] == max(tried)
        several += len(set(tried)) > 1
    assert several > 3


@pytest.mark.parametrize("task", TASKS)
def test_errors_are_released_with_the_noise_of_one_repetition(task, monkeypatch):
    watched = Releases(monkeypatch)
    kind = DiPriMeRegressor if task == "regression" else DiPriMeClassifier
    search_of(4, "stopping", kind, max_fits=6, refit=False).fit(*make(task, 50))
    noise = [e for e in watched.events if isinstance(e, Noise) and e.charge.kind == ReleaseKind.ERROR_OF_SETTING]
    assert 1 <= len(noise) <= 6
    for event in noise:
        assert event.charge.epsilon == 1
        assert event.sensitivity == event.charge.sensitivity.n == (1 if task == "classification" else 4096)
        assert event.values.shape == (1, 1)


def test_choice_among_all_is_charged_for_the_range_of_errors(monkeypatch):
    watched = Releases(monkeypatch)
    search_of(3, "all").fit(*make("classification", 50))
    (pick,) = [e for e in watched.events if isinstance(e, Pick) and e.paid.charge.kind is ReleaseKind.CHOICE_OF_SETTING]
    assert pick.paid.charge.epsilon == pick.paid.epsilon == 3
    assert pick.paid.cost_range == 1
    assert pick.costs.shape == (1, 3)


@pytest.mark.parametrize(("rule", "refit"), [("all", False), ("all", True), ("stopping", False), ("stopping", True)])
def test_subaccounts_add_up_to_the_charges_of_the_search(rule, refit, monkeypatch):
    opened, open_part = [], Account.subaccount

    @contextmanager
    def watched(account, receipt, loss, epsilon):
        with open_part(account, receipt, loss, epsilon) as part:
            yield part
        opened.append(part.ledger)

    monkeypatch.setattr(Account, "subaccount", watched)
    search = search_of(3, rule, refit=refit, max_fits=4).fit(*make("classification", 50))
    fitted = [ledger for ledger in opened if any(c.kind == ReleaseKind.LEAF_SUMS for c in ledger.charges)]
    choice = [ledger for ledger in opened if ledger not in fitted]
    paid = search.privacy_.charges[0]
    assert all(ledger.total == ledger.epsilon == paid.epsilon for ledger in fitted)
    if rule == "all":
        assert len(fitted) == paid.n_releases == 3
        assert [ledger.total for ledger in choice] == [paid.total]
    else:
        assert {ledger.total for ledger in choice} == {paid.epsilon}
        assert paid.n_releases == 3
        assert len(fitted) == len(choice) <= 4
    assert search.privacy_.total == 3
    assert len(search.privacy_.merged) == (0 if refit else 1)
    assert all(ledger in fitted for ledger in search.privacy_.merged)


def test_search_is_charged_before_the_first_fit(monkeypatch):
    """A ledger that does not cover the search stops it before anything is released."""
    watched = Releases(monkeypatch)

    def refuse(self, charge):
        raise ValueError("no budget")

    monkeypatch.setattr(Account, "pay", refuse)
    for rule in ("all", "stopping"):
        with pytest.raises(ValueError, match="no budget"):
            search_of(3, rule).fit(*make("classification", 50))
    assert watched.events == []


def test_candidate_that_costs_more_than_its_share_raises_assertion_error(monkeypatch):
    measure = DiPriMeClassifier._measure
    monkeypatch.setattr(DiPriMeClassifier, "_measure", lambda self, s: measure(self, replace(s, epsilon=s.epsilon / 2)))
    with pytest.raises(AssertionError, match=r"ledger's loss, .*charged, "):
        search_of(2, "stopping").fit(*make("classification", 50))


def test_more_fits_than_paid_for_are_refused():
    search = search_of(2, "all")
    settings = search._check_settings(4)
    plan = search._plan(settings, DOMAINS["classification"])
    receipt = open_account(3).pay(plan.fits)
    assert [choosing._use(receipt).epsilon for _ in range(2)] == [Fraction(3, 2)] * 2
    with pytest.raises(UnpaidReleaseError, match="0 of 2 charged"):
        choosing._use(receipt)


def test_boosted_fits_are_paid_in_gaussian_dp():
    search = search_of(2, "all", DiPriMeBoostingClassifier).fit(*make("classification", 200))
    fits_charge, choice = search.privacy_.charges
    assert fits_charge.measure.name == "Gaussian"
    assert choice.epsilon == Fraction(3, 10)
    assert search.privacy_.total == 3
    assert search.privacy_.merged[0].loss.mu_squared == fits_charge.measure.mu_squared
    assert np.isfinite(search.predict_proba(make("classification", 5)[0])).all()


def test_candidate_with_another_cost_than_paid_stops_the_search(monkeypatch):
    fit_candidate = choosing.fit_candidate

    def fit_beside(model, fit, part, domain, account, source):
        return fit_candidate(model, fit, part, domain, open_account(3), source)

    monkeypatch.setattr(choosing, "fit_candidate", fit_beside)
    with pytest.raises(AssertionError, match=r"ledger's loss, .*charged, "):
        search_of(3, "all").fit(*make("classification", 50))


@pytest.mark.parametrize("rule", ["all", "stopping"])
def test_errors_are_computed_on_the_choosing_records(monkeypatch, rule):
    parts, asked = [], []

    def divide(*arguments):
        parts.extend(choosing.divide(*arguments))
        return tuple(parts)

    def error(model, part, *_):
        asked.append(part)
        return 0

    monkeypatch.setattr("diprime.search.divide", divide)
    monkeypatch.setattr(choosing, "error", error)
    search_of(3, rule).fit(*make("classification", 50))
    _, choosers = parts
    assert asked
    assert all(list(records.sizes) == list(choosers.sizes) for records in asked)
    assert sum(choosers.sizes) < sum(parts[0].sizes)
