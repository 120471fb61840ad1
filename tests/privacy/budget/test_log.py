"""The filter: what it accepts adds up, and nobody gains more than delta by choosing releases by what they saw.

The log: read back exactly, and refused where anything in it is not as it was written.
"""

import hashlib
import json
import math
import re
from dataclasses import fields, replace
from fractions import Fraction
from functools import reduce
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.privacy.budget import log as log_module
from diprime.privacy.budget.log import FilterAccount, Log, PrivacyFilter, Terms, check_terms
from diprime.privacy.gaussian_dp import covers, delta_upper_bound, epsilon_upper_bound, gaussian_budget
from diprime.privacy.measures import PrivacyLoss
from diprime.privacy.session import BudgetError

MILLIONTH = Fraction(1, 10**6)
DELTA = Fraction(1, 10**5)
few = settings(deadline=None, max_examples=25)
epsilons = st.fractions(Fraction(1, 20), 12, max_denominator=100)
deltas = st.integers(3, 12).map(lambda digits: Fraction(1, 10**digits))


def pure(epsilon):
    return PrivacyLoss(epsilon=Fraction(epsilon))


def boosted(epsilon, delta=MILLIONTH):
    return PrivacyLoss(mu_squared=gaussian_budget(Fraction(epsilon), delta))


def after(start, *losses):
    """Return the state after charges, or None if one is refused."""
    return reduce(lambda state, loss: None if state is None else state.after(loss), losses, start)


def test_every_component_of_a_loss_has_its_rule_here():
    """A new kind of loss must be given limits in the accounts, or it would be spent for nothing."""
    assert [field.name for field in fields(PrivacyLoss)] == ["epsilon", "mu_squared", "delta"]


def test_charges_with_a_delta_take_it_from_that_of_the_budget():
    part = DELTA / 4
    categories = PrivacyLoss(Fraction(1, 2), delta=part)
    state = after(PrivacyFilter.start(Fraction(3), DELTA), *[categories] * 4)
    assert state.spent == PrivacyLoss(Fraction(2), delta=DELTA)
    assert state.after(PrivacyLoss(Fraction(1, 100), delta=Fraction(1, 10**30))) is None
    assert state.after(pure(1)) is not None
    assert state.after(boosted(Fraction(1, 100))) is None, "no delta is left for it"
    assert PrivacyFilter.start(Fraction(3), Fraction(0)).after(categories) is None


def test_gaussian_charges_get_the_delta_that_is_left_and_then_all_of_it_is_taken():
    part = DELTA / 4
    state = after(PrivacyFilter.start(Fraction(3), DELTA), PrivacyLoss(Fraction(1), delta=part))
    most = gaussian_budget(Fraction(2), DELTA - part)
    assert state.largest_gaussian() == most < gaussian_budget(Fraction(2), DELTA)
    decided = state.after(PrivacyLoss(mu_squared=most))
    assert decided is not None
    assert state.after(PrivacyLoss(mu_squared=most * Fraction(1001, 1000))) is None
    for first in (most, most / 100):
        later = state.after(PrivacyLoss(mu_squared=first))
        assert later.after(PrivacyLoss(Fraction(1, 1000), delta=Fraction(1, 10**12))) is None
    deltas = [delta_upper_bound(a.limit.mu_squared, 3 - a.limit.epsilon) for a in state.after(boosted(1)).accounts]
    assert sum(deltas) <= DELTA - part


def test_pure_charges_add_up_to_epsilon_exactly():
    for delta in (Fraction(0), DELTA):
        state = after(PrivacyFilter.start(Fraction(1), delta), *[pure(Fraction(1, 10))] * 10)
        assert state.spent == pure(1)
        assert state.after(pure(Fraction(1, 10**30))) is None


@pytest.mark.parametrize("loss", [pure(2), PrivacyLoss(math.inf), PrivacyLoss(mu_squared=math.inf), boosted(2)])
def test_charges_beyond_the_budget_are_refused(loss):
    assert PrivacyFilter.start(Fraction(1), MILLIONTH).after(loss) is None
    assert PrivacyFilter.start(Fraction(1), MILLIONTH, Fraction(1, 2)).after(loss) is None


def test_without_delta_nothing_gaussian_fits():
    assert PrivacyFilter.start(Fraction(1), Fraction(0)).after(PrivacyLoss(mu_squared=Fraction(1, 10**9))) is None


def test_first_gaussian_charge_is_accepted_if_the_budget_covers_it():
    state = after(PrivacyFilter.start(Fraction(3), DELTA), pure(1), boosted(2, DELTA))
    assert state.largest_gaussian() == 0
    assert after(PrivacyFilter.start(Fraction(3), DELTA), pure(1), boosted(Fraction(201, 100), DELTA)) is None


def test_reserved_pure_epsilon_can_be_spent_before_and_after():
    start = PrivacyFilter.start(Fraction(3), DELTA, Fraction(1))
    for charges in ([pure(1), boosted(2, DELTA)], [boosted(2, DELTA), pure(1)]):
        state = after(start, *charges)
        assert state.spent == pure(1) + boosted(2, DELTA)
        assert state.after(pure(Fraction(1, 100))) is None
    assert after(start, pure(3)), "pure charges alone may be all of epsilon"
    assert after(start, pure(3), boosted(Fraction(1, 100))) is None


def test_pure_charges_before_the_first_gaussian_one_count_afterwards():
    state = after(PrivacyFilter.start(Fraction(3), DELTA), pure(1), boosted(1))
    assert {account.counted for account in state.accounts} == {state.spent}
    spent = state.after(PrivacyLoss(mu_squared=state.largest_gaussian()))
    assert spent.after(pure(Fraction(1, 100))) is None, "nothing is left of epsilon"


def test_many_small_pure_charges_cost_less_than_their_sum_if_that_was_said_before():
    small = [pure(Fraction(1, 20))] * 100
    assert after(PrivacyFilter.start(Fraction(3), DELTA, Fraction(0)), *small)
    assert after(PrivacyFilter.start(Fraction(3), DELTA), *small) is None


@given(epsilons, deltas, st.fractions(0, 1), st.fractions(Fraction(1, 1000), 1))
@few
def test_the_deltas_of_all_accounts_add_up_to_no_more_than_delta(epsilon, delta, spent, share):
    start = PrivacyFilter.start(epsilon, delta)
    before = start.after(pure(epsilon * spent)) if spent else start
    state = before.after(PrivacyLoss(mu_squared=share * gaussian_budget(epsilon - epsilon * spent, delta)))
    if state is None:
        assert spent == 1
        return
    limits = [account.limit for account in state.accounts]
    assert all(limit.epsilon <= epsilon for limit in limits)
    assert sum(delta_upper_bound(limit.mu_squared, epsilon - limit.epsilon) for limit in limits) <= delta


@given(epsilons, deltas, st.lists(st.tuples(st.booleans(), st.fractions(Fraction(1, 50), 1)), max_size=8))
@few
def test_no_account_counts_more_than_its_limit_nor_less_than_was_charged(epsilon, delta, charges):
    state = PrivacyFilter.start(epsilon, delta)
    for is_pure, share in charges:
        largest = state.largest_pure() if is_pure else state.largest_gaussian()
        if not largest:
            continue
        loss = PrivacyLoss(largest * share) if is_pure else PrivacyLoss(mu_squared=largest * share)
        before, state = state, state.after(loss)
        assert state is not None, "what is said to be left is accepted"
        assert state.spent == before.spent + loss
        for account in state.accounts:
            assert account.counted.epsilon <= account.limit.epsilon
            assert account.counted.mu_squared <= account.limit.mu_squared


def test_remaining_budget_is_accepted_and_a_little_more_is_refused():
    for charges in ([], [pure(1)], [boosted(1)], [pure(Fraction(1, 2)), boosted(1), pure(Fraction(1, 10))]):
        state = after(PrivacyFilter.start(Fraction(3), DELTA), *charges)
        left, more = state.largest_pure(), Fraction(10001, 10000)
        assert state.after(pure(left))
        assert state.after(pure(left * more)) is None
        left = state.largest_epsilon(MILLIONTH)
        assert state.after(boosted(left))
        assert state.after(boosted(left * more)) is None


def test_an_account_counts_a_pure_charge_the_cheaper_way():
    account = FilterAccount(PrivacyLoss(Fraction(1), Fraction(1)))
    assert account.after(pure(Fraction(1, 10))).counted.epsilon == 0
    assert account.after(pure(Fraction(9, 10))).counted.mu_squared == 0
    nearly_full = FilterAccount(PrivacyLoss(Fraction(1), Fraction(1)), PrivacyLoss(mu_squared=Fraction(1)))
    assert nearly_full.after(pure(Fraction(1, 10))).counted.epsilon == Fraction(1, 10)
    both = PrivacyLoss(Fraction(1, 10), Fraction(1, 2))
    assert account.after(both).counted == both, "what is not all pure is counted as it is"


# -- whoever chooses by what they saw ----------------------------------------------------------------------------------


def gain_of_pure(threshold, epsilon):
    """Return what randomised response adds beyond a threshold of the log-likelihood ratio."""
    likely = 1 / (1 + math.exp(-epsilon))
    up = np.maximum(0, -np.expm1(threshold - epsilon))
    return likely * up + (1 - likely) * np.maximum(0, -np.expm1(threshold + epsilon))


def gain_of_gaussian(threshold, mu_squared):
    mu, cdf = math.sqrt(mu_squared), np.vectorize(NormalDist().cdf)
    if not mu:
        return np.maximum(0, -np.expm1(threshold))
    return cdf(-threshold / mu + mu / 2) - np.exp(threshold) * cdf(-threshold / mu - mu / 2)


def gain_of_choosing(epsilon, first, largest_pure, largest_gaussian):
    """Return sup_S P(S) - e^epsilon·Q(S) of a Gaussian release, then whichever other release is worse given the first.

    Exact up to the grid: the second release is chosen by the log-likelihood ratio of the first.
    """
    mu = math.sqrt(first)
    grid = np.linspace(-9, 9, 4001)
    threshold = float(epsilon) - (first / 2 + mu * grid)
    gains = np.maximum(gain_of_pure(threshold, largest_pure), gain_of_gaussian(threshold, largest_gaussian))
    weights = np.exp(-(grid**2) / 2)
    return float(np.sum(weights * gains) / np.sum(weights))


@pytest.mark.parametrize(("epsilon", "delta"), [(8, Fraction(1, 1000)), (4, DELTA), (2, MILLIONTH)])
@pytest.mark.parametrize("share", [Fraction(1, 10), Fraction(1, 3), Fraction(2, 3)])
def test_choosing_the_next_release_by_the_first_one_gains_no_more_than_delta(epsilon, delta, share):
    epsilon = Fraction(epsilon)
    first = share * gaussian_budget(epsilon, delta)
    state = PrivacyFilter.start(epsilon, delta).after(PrivacyLoss(mu_squared=first))
    gain = gain_of_choosing(epsilon, float(first), float(state.largest_pure()), float(state.largest_gaussian()))
    assert 0.3 * float(delta) < gain <= float(delta)


def test_a_filter_that_asks_only_whether_the_sums_are_covered_would_be_wrong():
    """That is why there are accounts: this is what the test above must be able to find."""
    epsilon, delta = Fraction(8), Fraction(1, 1000)
    first = gaussian_budget(epsilon, delta) / 3
    largest_pure = epsilon - epsilon_upper_bound(first, delta)
    assert covers(epsilon, delta, PrivacyLoss(largest_pure * Fraction(9999, 10000), first))
    largest_gaussian = gaussian_budget(epsilon, delta) - first
    either = [
        gain_of_choosing(epsilon, float(first), e, m)
        for e, m in ((float(largest_pure), 0), (0, float(largest_gaussian)))
    ]
    assert max(either) <= float(delta) * 1.0001
    assert gain_of_choosing(epsilon, float(first), float(largest_pure), float(largest_gaussian)) > 1.1 * float(delta)


fewer = settings(deadline=None, max_examples=30)


def written(terms, charges):
    """Return a log with charges, and its bytes."""
    log = Log.new(terms)
    data = log.last_line
    for loss, what in charges:
        log = log.after(loss, what)
        data += log.last_line
    return log, data


def small_log(n=3):
    return written(Terms.new(3, 1e-5, None), [(PrivacyLoss(Fraction(1, 2)), f"release {i}") for i in range(n)])


losses = st.one_of(
    st.fractions(0, Fraction(1, 4), max_denominator=1000).map(PrivacyLoss),
    st.fractions(0, Fraction(1, 50), max_denominator=1000).map(lambda mu_squared: PrivacyLoss(mu_squared=mu_squared)),
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=600)


@given(st.lists(st.tuples(losses, texts), max_size=4), st.sampled_from([None, Fraction(1), Fraction(0)]))
@fewer
def test_written_log_reads_back_equal(charges, pure):
    log, data = written(Terms.new(Fraction(4), 1e-5, pure), charges)
    assert Log.read(data, "it") == log
    assert data.count(b"\n") == len(charges) + 1
    assert [entry.loss for entry in log.entries] == [loss for loss, _ in charges]


def test_lines_are_json_for_people_and_each_has_the_hash_of_the_one_before():
    _, data = small_log()
    lines = data.splitlines(keepends=True)
    first, *rest = [json.loads(line) for line in lines]
    assert (first["epsilon"], first["delta"], first["diprime_budget"]) == ("3", "1/100000", 1)
    for i, (entry, before) in enumerate(zip(rest, lines, strict=False), 1):
        assert entry["entry"] == i
        assert entry["description"] == f"release {i - 1}"
        assert (entry["epsilon"], entry["mu_squared"]) == ("1/2", "0")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry["time"])
        assert entry["before"] == hashlib.sha256(before).hexdigest()


def test_every_change_of_one_character_is_refused():
    _, data = small_log(2)
    for position, byte in enumerate(data):
        other = b"0" if byte != ord("0") else b"1"
        with pytest.raises(BudgetError):
            Log.read(data[:position] + other + data[position + 1 :], "it")


def test_every_removed_character_is_refused():
    _, data = small_log(2)
    for position in range(len(data)):
        with pytest.raises(BudgetError):
            Log.read(data[:position] + data[position + 1 :], "it")


def test_missing_doubled_and_exchanged_lines_are_refused():
    _, data = small_log()
    lines = data.splitlines(keepends=True)
    wrong = [lines[:1] + lines[2:], lines[1:], lines + lines[-1:], [lines[0], lines[2], lines[1], lines[3]], []]
    for changed in wrong:
        with pytest.raises(BudgetError):
            Log.read(b"".join(changed), "it")


def test_charges_are_numbered_from_one_without_gaps():
    """Whose hashes all fit, but whose numbers do not, was not written by this code: no charge can be left out so."""
    log, data = small_log(1)
    for number in (0, 1, 3, 7):
        entry = replace(log.entries[0], number=number)
        with pytest.raises(BudgetError, match=r"line 3 of it .*changed"):
            Log.read(data + entry.line(log.last_line), "it")
    assert len(Log.read(data + replace(log.entries[0], number=2).line(log.last_line), "it").entries) == 2


def test_incomplete_last_line_is_refused_with_a_remedy():
    _, data = small_log()
    end_of_whole = data[:-1].rindex(b"\n") + 1
    for end in range(end_of_whole + 1, len(data)):
        with pytest.raises(BudgetError, match=r"incomplete line.*'diprime budget check it FILES'"):
            Log.read(data[:end], "it")
        cut = Log.read(data[:end], "it", may_be_cut=True)
        assert (len(cut.entries), len(cut.charges), cut.is_cut) == (2, 2, True)
    assert len(Log.read(data[:end_of_whole], "it").entries) == 2, "it helps to remove the line"


def test_a_log_that_spends_more_than_its_budget_is_refused():
    """Whoever computes the hashes anew can write any log, but none that is impossible."""
    log, data = small_log()
    entry = log_module.Entry(4, log.entries[0].time, "too much", PrivacyLoss(Fraction(2)))
    with pytest.raises(BudgetError, match=r"line 5 of it .*written: "):
        Log.read(data + entry.line(log.last_line), "it")


def test_no_number_of_a_file_takes_long():
    log, data = small_log(0)
    for loss in (PrivacyLoss(Fraction(1, 10**900)), PrivacyLoss(Fraction(10**900))):
        entry = log_module.Entry(1, log.terms.created, "long", loss)
        with pytest.raises(BudgetError):
            Log.read(data + entry.line(log.last_line), "it")
    with pytest.raises(BudgetError, match=r"^it .*too large"):
        Log.read(b"x" * (log_module.MAX_BYTES + 1), "it")
    with pytest.raises(BudgetError):
        Log.read(b"[" * 100_000 + b"\n", "it")
    with pytest.raises(BudgetError, match="common denominator"):
        log.after(PrivacyLoss(Fraction(1, 10**501)), "a release")


@pytest.mark.parametrize(
    "loss", [PrivacyLoss(Fraction(-1)), PrivacyLoss(mu_squared=Fraction(-1)), PrivacyLoss(math.inf)]
)
def test_negative_and_infinite_charges_are_refused(loss):
    with pytest.raises(BudgetError, match=r"not cover it\."):
        small_log()[0].after(loss, "it")


def test_a_cost_that_is_not_exact_is_refused():
    for loss in (PrivacyLoss(0.5), PrivacyLoss(mu_squared=0.5)):
        with pytest.raises(TypeError, match=r"it .*fractions, got "):
            small_log()[0].after(loss, "it")


def test_refusal_states_the_remaining_budget():
    message = r"epsilon = 3, delta = 1e-05 .* a forest\. .*epsilon = 1\.5 .*epsilon = 1\.5 at delta = 1e-05\."
    with pytest.raises(BudgetError, match=message):
        small_log()[0].after(PrivacyLoss(Fraction(2)), "a forest")


@pytest.mark.parametrize(
    "terms",
    [(0, 0, None), (-1, 0, None), (math.inf, 0, None), (1 << 21, 0, None), (1, 1, None), (1, -0.1, None),
     (1, 0, 0.5), (1, 1e-5, 2), (1, 1e-5, -1), (math.nan, 0, None), (1, 1e-5, math.inf)],
)  # fmt: skip
def test_invalid_terms_are_refused(terms):
    with pytest.raises(ValueError, match=r"epsilon|delta|pure"):
        check_terms(*terms)


@pytest.mark.parametrize("version", [0, 2])
def test_a_log_of_another_version_is_refused(version, monkeypatch):
    monkeypatch.setattr(log_module, "VERSION", version)
    line = Terms.new(1, 0, None).line()
    monkeypatch.undo()
    with pytest.raises(BudgetError, match=r"^it .*another version"):
        Log.read(line, "it")


@pytest.mark.parametrize(("first", "second"), [("record", "person"), ("person", "record")])
def test_charges_of_records_and_of_persons_are_not_added_up(first, second):
    one = PrivacyLoss(Fraction(1))
    log = (
        Log.new(Terms.new(9, 0, None)).after(one, "first", first).after(one, "second", None).after(one, "third", first)
    )
    with pytest.raises(BudgetError, match="fourth protects"):
        log.after(one, "fourth", second)
