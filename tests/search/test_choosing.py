"""How a setting is chosen: what is asked of mechanisms, and what is paid for."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from diprime import DiPriMeBoostingClassifier, DiPriMeClassifier, DiPriMeRegressor, PrivateSearch
from diprime.privacy.charges import UnpaidReleaseError
from diprime.privacy.ledger import Ledger
from diprime.privacy.mechanisms.selection import exponential_pmf
from diprime.privacy.mechanisms.stopping import best_of_random_number_pmf
from diprime.privacy.mechanisms.weights import weight_table
from diprime.search import choosing
from diprime.search import parts as search_parts
from tests.goodness import fits
from tests.small_data import DOMAINS, TASKS, make
from tests.spies import Noise, Pick, Releases

not_private = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")  # of seeds

RUNS = 400
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
def test_all_settings_are_chosen_from_by_the_exponential_mechanism_with_all_of_epsilon():
    chosen = choices(search_of(4, "all", epsilon=0.7))
    expected = exponential_pmf(list(ERRORS.values()), weight_table(Fraction(7, 10), 1, 4))
    assert fits([chosen[depth] for depth in ERRORS], expected)
    sharp = exponential_pmf(list(ERRORS.values()), weight_table(Fraction(14, 10), 1, 4))
    assert not fits([chosen[depth] for depth in ERRORS], sharp)


@not_private
@pytest.mark.usefixtures("known_errors")
def test_random_stopping_draws_settings_uniformly_and_takes_the_least_noisy_error():
    """With hardly any noise, the order of errors is known, and the distribution is that of the mechanism."""
    chosen = choices(search_of(4, "stopping", epsilon=1000, max_fits=3, refit=False))
    repetition = {(e, depth): Fraction(1, 4) for depth, e in ERRORS.items()}
    expected = best_of_random_number_pmf(repetition, 3)
    assert fits([chosen[depth] for depth in ERRORS], [expected[e, depth] for depth, e in ERRORS.items()])


@not_private
def test_random_stopping_compares_what_was_released_and_not_the_errors(monkeypatch):
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
    noise = [e for e in watched.events if isinstance(e, Noise) and e.charge.kind == "error of a setting"]
    assert 1 <= len(noise) <= 6
    for event in noise:
        assert event.charge.epsilon == 1
        assert event.sensitivity == event.charge.calibrated_to == (1 if task == "classification" else 4096)
        assert event.values.shape == (1, 1)


def test_the_choice_among_all_is_charged_for_the_range_of_errors(monkeypatch):
    watched = Releases(monkeypatch)
    search_of(3, "all").fit(*make("classification", 50))
    (pick,) = [e for e in watched.events if isinstance(e, Pick) and e.paid.charge.kind.startswith("choice")]
    assert pick.paid.charge.epsilon == pick.paid.epsilon == 3
    assert pick.paid.cost_range == 1
    assert pick.costs.shape == (1, 3)


@pytest.mark.parametrize(("rule", "refit"), [("all", False), ("all", True), ("stopping", False), ("stopping", True)])
def test_every_ledger_is_of_what_the_search_paid(rule, refit, monkeypatch):
    opened = []

    def open_ledger(*arguments, **named):
        opened.append(Ledger(*arguments, **named))
        return opened[-1]

    monkeypatch.setattr(choosing, "Ledger", open_ledger)
    search = search_of(3, rule, refit=refit, max_fits=4).fit(*make("classification", 50))
    fitted = [ledger for ledger in opened if any(c.kind == "leaf sums" for c in ledger.charges)]
    choice = [ledger for ledger in opened if ledger not in fitted]
    paid = search.privacy_.charges[0]
    assert all(ledger.total == ledger.epsilon == paid.epsilon for ledger in fitted)
    if rule == "all":
        assert len(fitted) == paid.times == 3
        assert [ledger.total for ledger in choice] == [paid.total]
    else:
        assert {ledger.total for ledger in choice} == {paid.epsilon}
        assert paid.times == 3
        assert len(fitted) == len(choice) <= 4
    assert search.privacy_.total == 3
    assert len(search.privacy_.merged) == (0 if refit else 1)
    assert all(ledger in fitted for ledger in search.privacy_.merged)


def test_the_ledger_is_paid_before_a_fit(monkeypatch):
    """A ledger that does not cover the search stops it before anything is released."""
    watched = Releases(monkeypatch)

    def refuse(self, charge):
        raise ValueError("no budget")

    monkeypatch.setattr(Ledger, "pay", refuse)
    for rule in ("all", "stopping"):
        with pytest.raises(ValueError, match="no budget"):
            search_of(3, rule).fit(*make("classification", 50))
    assert watched.events == []


def test_a_fit_that_costs_more_than_was_paid_for_it_is_found(monkeypatch):
    measure = DiPriMeClassifier._measure
    monkeypatch.setattr(DiPriMeClassifier, "_measure", lambda self, s: measure(self, replace(s, epsilon=s.epsilon / 2)))
    with pytest.raises(AssertionError, match="was paid for it"):
        search_of(2, "stopping").fit(*make("classification", 50))


def test_a_fit_more_than_was_paid_for_is_refused():
    search = search_of(2, "all")
    settings = search._check_settings(4)
    plan = search._plan(settings, DOMAINS["classification"])
    receipt = Ledger(Fraction(3)).pay(plan.fits)
    assert [choosing._use(receipt).epsilon for _ in range(2)] == [Fraction(3, 2)] * 2
    with pytest.raises(UnpaidReleaseError, match="0 of 2 paid releases are left"):
        choosing._use(receipt)


def test_boosted_fits_are_paid_in_gaussian_dp():
    search = search_of(2, "all", DiPriMeBoostingClassifier).fit(*make("classification", 200))
    fits_charge, choice = search.privacy_.charges
    assert fits_charge.measure.name == "Gaussian"
    assert choice.epsilon == Fraction(3, 10)
    assert search.privacy_.total == 3
    assert search.privacy_.merged[0].loss.mu_squared == fits_charge.measure.mu_squared
    assert np.isfinite(search.predict_proba(make("classification", 5)[0])).all()


def test_a_fit_that_does_not_cost_what_was_paid_for_it_stops_the_search(monkeypatch):
    learn = choosing.learn

    def learn_beside(model, fit, part, domain, ledger, source):
        return learn(model, fit, part, domain, Ledger(3), source)

    monkeypatch.setattr(choosing, "learn", learn_beside)
    with pytest.raises(AssertionError, match="was paid for it"):
        search_of(3, "all").fit(*make("classification", 50))


@pytest.mark.parametrize("rule", ["all", "stopping"])
def test_errors_are_those_of_the_records_that_choose(monkeypatch, rule):
    parts, asked = [], []

    def divide(*arguments):
        parts.extend(search_parts.divide(*arguments))
        return tuple(parts)

    def error(model, part, *_):
        asked.append(part)
        return 0

    monkeypatch.setattr("diprime.search.search.divide", divide)
    monkeypatch.setattr(choosing, "error", error)
    search_of(3, rule).fit(*make("classification", 50))
    _, choosers = parts
    assert asked
    assert all(part is choosers for part in asked)
