"""The report's section about the signature of a model file."""

import numpy as np
import pytest

from diprime import DiPriMeRegressor, Domain, Numeric
from diprime.report import render
from diprime.signing import SignatureCheck


@pytest.fixture(scope="module")
def model():
    x = np.linspace(0, 1, 300)[:, None]
    return DiPriMeRegressor(1.0, Domain({"x": Numeric(0, 1)}, Numeric(0, 1)), max_depth=2).fit(x, x[:, 0])


def section(page):
    """Return the section, which comes before all numbers of the model."""
    head, after = page.split('<section id="signature"')
    assert 'id="promise"' not in head
    return after.split("</section>")[0]


def test_without_a_signature_there_is_no_section(model):
    assert 'id="signature"' not in render(model)


def test_a_valid_signature_is_said_to_prove_no_ledger(model):
    text = section(render(model, signature=SignatureCheck("valid", "Signed with the key abc at noon.")))
    assert "The file is signed" in text
    assert "Signed with the key abc at noon." in text
    assert "It does not say that the ledger is true" in text
    assert "bad" not in text


def test_a_wrong_signature_is_loud(model):
    page = render(model, signature=SignatureCheck("wrong", "m was changed."))
    text = section(page)
    assert "The signature is wrong" in text
    assert '<p class="bad note">m was changed.</p>' in text
    assert "Nothing on this page can be relied on." in text
    head = page.split("<header")[1].split("</header>")[0]
    assert head.startswith(' class="bad">')
    assert "<h1>Do not trust this file: its signature is wrong or missing</h1>" in head
    assert "<p>m was changed.</p>" in head
    assert "Private" not in head.replace("Privacy report", "")
    assert "noise that was paid for" not in head


@pytest.mark.parametrize("state", ["valid", "not checked"])
def test_other_signatures_leave_the_head_as_it_is(model, state):
    head = render(model).split("</header>")[0]
    assert '<header class="good">' in head
    assert render(model, signature=SignatureCheck(state, "a text")).startswith(head)


def test_one_that_was_not_checked_is_said_to_be_so(model):
    text = section(render(model, signature=SignatureCheck("not checked", "m.sig was not checked.")))
    assert "The signature was not checked" in text
    assert "The file is signed" not in text


def test_names_of_files_are_escaped(model):
    text = section(render(model, signature=SignatureCheck("wrong", "<script>alert(1)</script> was changed.")))
    assert "&lt;script&gt;" in text
    assert "<script>" not in text
