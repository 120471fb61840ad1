"""Where a domain comes from follows it through copies and files, and changes by one deliberate act only."""

import copy
import itertools
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from diprime import Categorical, Charge, Domain, Ledger, Numeric
from diprime.domain import Origin
from diprime.privacy.measures import ApproximateDP

FACTS = {"age": Numeric(0, 100), "sex": Categorical(["F", "M"])}, Categorical(["no", "yes"])
LEDGER = Ledger(Fraction(1, 3), delta=Fraction(1, 10**6), waivers=["random_state was set"])
LEDGER.pay(Charge("domain: levels", "thresholded Laplace", "L1 sensitivity 1", ApproximateDP(Fraction(1, 3), 1e-6)))
ORIGINS = [
    Origin(),
    Origin("read"),
    Origin(reviewed_by='Jane "J." Döe'),
    Origin("learnt", ledger=LEDGER),
    Origin("learnt", ledger=LEDGER, reviewed_by="Jane"),
]

COPIES = {
    "toml": lambda domain: Domain.from_toml(domain.to_toml()),
    "json": lambda domain: Domain.from_json(domain.to_json()),
    "dict": lambda domain: Domain.from_dict(domain.to_dict()),
    "pickle": lambda domain: pickle.loads(pickle.dumps(domain)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "replace": lambda domain: replace(domain, target_name="income"),
}


@pytest.mark.parametrize("origin", ORIGINS, ids=str)
@pytest.mark.parametrize("way", COPIES)
def test_copies_and_files_carry_the_origin(origin, way):
    assert COPIES[way](Domain(*FACTS, origin=origin)).origin == origin


def test_what_is_written_in_code_is_declared_and_what_is_inferred_is_read():
    assert Domain(*FACTS).origin == Origin("declared")
    assert Domain.infer(np.zeros((2, 1)), [0, 1], "classification").origin == Origin("read")


def test_domains_of_the_same_facts_are_equal_wherever_they_come_from():
    domains = [Domain(*FACTS, origin=origin) for origin in ORIGINS]
    assert len(set(domains)) == 1


def test_only_what_was_read_from_the_data_is_an_objection():
    assert [origin.objection is None for origin in ORIGINS] == [True, False, True, True, True]
    assert [len(origin.remarks) for origin in ORIGINS] == [0, 0, 1, 1, 2]


def test_a_review_declares_a_draft():
    draft = Domain(*FACTS, origin=Origin("read"))
    reviewed = draft.reviewed("Jane Doe")
    assert reviewed == draft
    assert reviewed.origin == Origin("declared", reviewed_by="Jane Doe")
    assert draft.origin == Origin("read")
    assert "reviewed by Jane Doe" in reviewed.origin.remarks[0]


def test_a_name_added_to_the_file_of_a_draft_declares_it():
    text = Domain(*FACTS, origin=Origin("read")).to_toml()
    assert text.startswith('origin = "read from the data"\n\n[features.age]')
    assert Domain.from_toml(f'reviewed_by = "Jane Doe"\n{text}').origin == Origin(reviewed_by="Jane Doe")


NOT_NAMES = ["", " ", "your name", "Jane\nDoe", "\x1b[31mJane", "J" * 201, 7, None, ["Jane"], True]


@pytest.mark.parametrize("name", NOT_NAMES)
def test_a_review_needs_a_name(name):
    with pytest.raises(ValueError, match="reviewed_by is not the name of a person"):
        Domain(*FACTS).reviewed(name)
    with pytest.raises(ValueError, match="reviewed_by is not the name of a person"):
        Domain.from_dict({**Domain(*FACTS).to_dict(), "reviewed_by": name})


@pytest.mark.parametrize("words", ["read", "public", "", 1, None, ["declared"]])
def test_a_file_of_unknown_origin_is_refused(words):
    with pytest.raises(ValueError, match="origin is not known; use 'declared' or 'learnt privately' or 'read"):
        Domain.from_dict({**Domain(*FACTS).to_dict(), "origin": words})


def test_what_was_spent_stays_spent_after_a_review():
    assert ORIGINS[3].reviewed("Jane") == ORIGINS[4]


def test_a_ledger_that_does_not_add_up_is_refused():
    content = Domain(*FACTS, origin=ORIGINS[3]).to_dict()
    content["ledger"]["total"] = "1/4"
    with pytest.raises(ValueError, match="ledger cannot be read: total and private"):
        Domain.from_dict(content)
    for broken in ("{", 7, None):
        with pytest.raises(ValueError, match="ledger cannot be read"):
            Domain.from_dict({**content, "ledger": broken})


def test_what_was_learnt_and_nothing_else_has_a_ledger():
    with pytest.raises(ValueError, match="and no other, has a ledger"):
        Origin("learnt")
    with pytest.raises(ValueError, match="and no other, has a ledger"):
        Origin("declared", ledger=LEDGER)


def test_origins_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="kind of origin 'guessed' is unknown"):
        Origin("guessed")
    with pytest.raises(ValueError, match="that was reviewed is declared"):
        Origin("read", reviewed_by="Jane Doe")
    with pytest.raises(TypeError, match="origin is 'declared'"):
        Domain(*FACTS, origin="declared")


def test_only_an_origin_worth_telling_is_in_the_representation():
    assert "origin" not in repr(Domain(*FACTS))
    assert "origin=Origin(kind='read'" in repr(Domain(*FACTS, origin=Origin("read")))


@pytest.mark.parametrize("order", itertools.permutations([Origin(), Origin("read"), Origin("learnt", ledger=LEDGER)]))
def test_what_is_merged_was_read_from_the_data_if_any_part_was(order):
    assert Origin.merge(order) == Origin("read")
