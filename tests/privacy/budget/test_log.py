"""The log: read back exactly, and refused where anything in it is not as it was written."""

import hashlib
import json
import math
import re
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.privacy.budget import log as log_module
from diprime.privacy.budget.log import Log, Terms, check_terms
from diprime.privacy.measures import PrivacyLoss
from diprime.privacy.spending import BudgetError

few = settings(deadline=None, max_examples=30)


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
@few
def test_a_log_is_read_as_it_was_written(charges, pure):
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
        assert entry["what"] == f"release {i - 1}"
        assert (entry["epsilon"], entry["mu_squared"]) == ("1/2", "0")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry["time"])
        assert entry["before"] == hashlib.sha256(before).hexdigest()


def test_every_change_of_one_character_is_found():
    _, data = small_log(2)
    for position, byte in enumerate(data):
        other = b"0" if byte != ord("0") else b"1"
        with pytest.raises(BudgetError):
            Log.read(data[:position] + other + data[position + 1 :], "it")


def test_every_character_left_out_is_found():
    _, data = small_log(2)
    for position in range(len(data)):
        with pytest.raises(BudgetError):
            Log.read(data[:position] + data[position + 1 :], "it")


def test_lines_that_are_missing_doubled_or_exchanged_are_found():
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
        with pytest.raises(BudgetError, match="line 3 of it is not the one that was written there"):
            Log.read(data + entry.line(log.last_line), "it")
    assert len(Log.read(data + replace(log.entries[0], number=2).line(log.last_line), "it").entries) == 2


def test_lines_of_another_log_are_found():
    lines, others = (small_log()[1].splitlines(keepends=True) for _ in range(2))
    with pytest.raises(BudgetError, match=r"line 3 of it is not the one"):
        Log.read(b"".join([*lines[:2], *others[2:]]), "it")


def test_an_incomplete_last_line_is_refused_with_what_to_do():
    _, data = small_log()
    end_of_whole = data[:-1].rindex(b"\n") + 1
    for end in range(end_of_whole + 1, len(data)):
        with pytest.raises(BudgetError, match=r"incomplete line.*remove what follows the last line break"):
            Log.read(data[:end], "it")
    assert len(Log.read(data[:end_of_whole], "it").entries) == 2, "what the message says helps"


def test_a_log_that_spends_more_than_its_budget_is_refused():
    """Whoever computes the hashes anew can write any log, but none that is impossible."""
    log, data = small_log()
    entry = log_module.Entry(4, log.entries[0].time, "too much", PrivacyLoss(Fraction(2)))
    with pytest.raises(BudgetError, match=r"line 5 of it cannot have been written"):
        Log.read(data + entry.line(log.last_line), "it")


def test_no_number_of_a_file_takes_long():
    log, data = small_log(0)
    for loss in (PrivacyLoss(Fraction(1, 10**900)), PrivacyLoss(Fraction(10**900))):
        entry = log_module.Entry(1, log.terms.created, "long", loss)
        with pytest.raises(BudgetError):
            Log.read(data + entry.line(log.last_line), "it")
    with pytest.raises(BudgetError, match="too large"):
        Log.read(b"x" * (log_module.MAX_BYTES + 1), "it")
    with pytest.raises(BudgetError):
        Log.read(b"[" * 100_000 + b"\n", "it")
    with pytest.raises(BudgetError, match="common denominator"):
        log.after(PrivacyLoss(Fraction(1, 10**501)), "a release")


def test_there_is_a_largest_number_of_charges(monkeypatch):
    monkeypatch.setattr(log_module, "MAX_ENTRIES", 3)
    log, _ = small_log(3)
    with pytest.raises(BudgetError, match="at most 3 charges"):
        log.after(PrivacyLoss(Fraction(1, 2)), "one more")


@pytest.mark.parametrize(
    "loss", [PrivacyLoss(Fraction(-1)), PrivacyLoss(mu_squared=Fraction(-1)), PrivacyLoss(math.inf)]
)
def test_negative_and_infinite_charges_are_refused(loss):
    with pytest.raises(BudgetError, match="does not cover"):
        small_log()[0].after(loss, "it")


def test_a_cost_that_is_not_exact_is_refused():
    for loss in (PrivacyLoss(0.5), PrivacyLoss(mu_squared=0.5)):
        with pytest.raises(TypeError, match="must be fractions"):
            small_log()[0].after(loss, "it")


def test_a_refusal_says_what_is_left():
    message = r"The budget of epsilon = 3, delta = 1e-05 does not cover a forest: what is left is epsilon = 1\.5 "
    with pytest.raises(BudgetError, match=message + r"without delta, or epsilon = 1\.5 at delta = 1e-05\."):
        small_log()[0].after(PrivacyLoss(Fraction(2)), "a forest")


@pytest.mark.parametrize(
    "terms",
    [(0, 0, None), (-1, 0, None), (math.inf, 0, None), (1 << 21, 0, None), (1, 1, None), (1, -0.1, None),
     (1, 0, 0.5), (1, 1e-5, 2), (1, 1e-5, -1), (math.nan, 0, None), (1, 1e-5, math.inf)],
)  # fmt: skip
def test_terms_that_cannot_be_kept_are_refused(terms):
    with pytest.raises(ValueError, match=r"epsilon|delta|pure"):
        check_terms(*terms)


def test_terms_are_as_exact_as_their_digits():
    assert check_terms(0.1, 1e-5, 0) == (Fraction(1, 10), Fraction(1, 10**5), 0)
    assert check_terms(3, 0, None) == (3, 0, None)


def test_every_study_has_its_own_name():
    names = {Terms.new(1, 0, None).study for _ in range(100)}
    assert len(names) == 100
    assert all(re.fullmatch("[0-9a-f]{32}", name) for name in names)


def test_a_log_of_a_newer_version_is_refused(monkeypatch):
    monkeypatch.setattr(log_module, "VERSION", 2)
    line = Terms.new(1, 0, None).line()
    monkeypatch.undo()
    with pytest.raises(BudgetError, match="newer version"):
        Log.read(line, "it")


@pytest.mark.parametrize(("first", "second"), [("record", "person"), ("person", "record")])
def test_charges_of_records_and_of_persons_are_not_added_up(first, second):
    one = PrivacyLoss(Fraction(1))
    log = (
        Log.new(Terms.new(9, 0, None)).after(one, "first", first).after(one, "second", None).after(one, "third", first)
    )
    with pytest.raises(BudgetError, match="fourth protects"):
        log.after(one, "fourth", second)
