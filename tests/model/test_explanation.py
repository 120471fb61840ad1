"""Explanations: contributions add up to the scores bit for bit, in any order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime import Domain, Explanation, Numeric
from diprime._util.threads import Threads
from diprime.model.explanation import explain, targets_of
from tests.encoded_rows import EncodedRows
from tests.made_additive import DOMAINS, as_model, made_codes, made_forest, made_model

TARGETS = sorted(DOMAINS)


def explained(forest, domain, codes, n_threads=1):
    with Threads(n_threads) as threads:
        return explain(forest, domain, EncodedRows(codes), threads, targets_of(as_model(forest, domain)))


@given(
    seed=st.integers(0, 2**32 - 1),
    target=st.sampled_from(TARGETS),
    n_trees=st.integers(1, 20),
    scale=st.sampled_from([1e-30, 1.0, 1e6]),
)
@settings(deadline=None, max_examples=60)
def test_contributions_add_up_to_the_scores_in_any_order(seed, target, n_trees, scale):
    rng = np.random.default_rng(seed)
    forest, domain = made_forest(seed, DOMAINS[target], n_trees, scale=scale), DOMAINS[target]
    codes = made_codes(rng, domain, 30)
    explanation = explained(forest, domain, codes)
    with Threads(1) as threads:
        rows = EncodedRows(codes)
        expected = forest.predict(rows, threads) if target == "number" else forest.scores(rows, threads)
    assert np.array_equal(explanation.scores, expected)
    parts = [np.tile(explanation.offset, (30, 1)), *np.moveaxis(explanation.contributions, 1, 0)]
    total = np.zeros_like(expected)
    for part in rng.permutation(len(parts)):
        total += parts[part]
    assert np.array_equal(total, expected)
    assert explanation.contributions.shape == (30, len(explanation.terms), len(explanation.offset))


def test_terms_are_named_by_their_features():
    forest, domain = made_forest(1, DOMAINS["number"], 30), DOMAINS["number"]
    explanation = explained(forest, domain, made_codes(np.random.default_rng(0), domain, 5))
    names = [tuple(domain.names[j] for j in term.features) for term in forest.effects.terms]
    assert explanation.terms == (*names, ())
    assert {len(term) for term in explanation.terms} == {0, 1, 2}
    assert explained(made_forest(1, DOMAINS["two"], 30), DOMAINS["two"], np.zeros((1, 5), np.uint8)).terms[-1] != ()


def test_what_clipping_takes_off_is_a_term():
    domain = DOMAINS["number"]
    forest = made_forest(2, domain, scale=3.0)
    codes = made_codes(np.random.default_rng(0), domain, 200)
    explanation = explained(forest, domain, codes, n_threads=2)
    with Threads(1) as threads:
        scores = forest.scores(EncodedRows(codes), threads)
    outside = (scores < -1.1) | (scores > 10.3)
    assert outside.any()
    assert not outside.all()
    assert np.array_equal(explanation.contributions[:, -1] != 0, outside)
    assert np.array_equal(explanation.scores - explanation.contributions[:, -1], scores)


def test_targets_are_the_classes_that_scores_are_about():
    assert targets_of(made_model("two")) == ("yes",)
    assert targets_of(made_model("three")) == ("a", "b", "c")
    assert targets_of(made_model("number")) == (None,)


def test_the_offset_is_the_mean_score():
    domain = Domain({"a": Numeric(0, 255), "b": Numeric(0, 255)}, DOMAINS["two"].target)
    forest = made_forest(0, domain, 20)
    weights = np.zeros((2, 256))
    weights[:, :255] = np.random.default_rng(0).integers(0, 9, (2, 255))
    forest = type(forest)(*forest.arrays, forest.offset, forest.quantum, weights, forest.link)
    grid = np.stack(np.meshgrid(np.arange(255), np.arange(255), indexing="ij"), axis=-1).reshape(-1, 2)
    explanation = explained(forest, domain, grid.astype(np.uint8))
    mass = np.multiply.outer(weights[0, :255], weights[1, :255]).ravel()
    assert explanation.offset == pytest.approx(np.average(explanation.scores, axis=0, weights=mass))
    for t in range(len(explanation.terms)):
        assert np.average(explanation.contributions[:, t, 0], weights=mass) == pytest.approx(0, abs=1e-9)


def small():
    return Explanation(
        (("age",), ("hours",), ("age", "hours"), ()),
        (None,),
        np.array([-1.5]),
        np.array([[[0.25], [-0.5], [0.125], [0.0]], [[0.0], [0.0], [0.0], [2.5]]]),
        np.array([[-1.625], [1.0]]),
    )


def test_a_row_as_text_has_the_largest_contributions_first():
    lines = small().row(0).splitlines()
    assert lines[0] == "row 0: prediction -1.625"
    assert [line.split()[-1] for line in lines[1:]] == ["-1.5", "-0.5", "+0.25", "+0.125"]
    assert lines[-1].startswith("  age × hours  ")
    assert small().row(1).splitlines()[1:] == ["  offset                 -1.5", "  clipping to the range  +2.5"]
    short = small().row(0, most=1).splitlines()
    assert short[-1].split() == ["2", "more", "terms", "+0.375"]


def test_an_explanation_as_text_has_its_first_rows():
    assert str(small()).count("row ") == 2
    many = Explanation((), ("yes",), np.zeros(1), np.zeros((9, 0, 1)), np.zeros((9, 1)))
    assert str(many).splitlines()[-1] == "and 6 more rows"
    assert str(many).startswith("row 0: log-odds of yes 0\n")
    assert repr(many) == "<Explanation of 9 rows by 0 terms>"
    assert str(Explanation((), ("yes",), np.zeros(1), np.zeros((0, 0, 1)), np.zeros((0, 1)))) == ""


def test_several_scores_are_beside_each_other():
    forest, domain = made_forest(0, DOMAINS["three"]), DOMAINS["three"]
    text = explained(forest, domain, np.zeros((1, 5), dtype=np.uint8)).row(0)
    assert text.splitlines()[0].startswith("row 0: scores of a, b, c: ")
    assert all(len(line.rsplit("  ", 3)) == 4 for line in text.splitlines()[1:])


def test_columns_for_a_frame():
    columns = small().to_dict()
    assert columns == {
        "age": [0.25, 0.0], "hours": [-0.5, 0.0], "age × hours": [0.125, 0.0], "clipping to the range": [0.0, 2.5]
    }  # fmt: skip
    forest, domain = made_forest(0, DOMAINS["three"]), DOMAINS["three"]
    explanation = explained(forest, domain, made_codes(np.random.default_rng(0), domain, 4))
    kind = explanation.terms.index(("kind",))
    assert explanation.to_dict(2)["kind"] == explanation.contributions[:, kind, 2].tolist()


def test_terms_that_are_nothing_but_rounding_are_not_printed():
    offset = np.array([0.5, 1e-9])
    contributions = np.array([[[1.4e-17, 0.0], [0.25, 1e-24], [0.0, 1e-15], [0.1, 0.0], [-0.1 - 2e-17, 0.0]]])
    terms = tuple((name,) for name in "abcde")
    explanation = Explanation(terms, ("u", "v"), offset, contributions, offset + contributions[0].sum(axis=0)[None])
    names = [line.split()[0] for line in explanation.row(0).splitlines()[1:]]
    assert names == ["offset", "b", "e", "d", "c"]  # the other scores of a row are no scale for a small one
    assert "b       +0.25  +0\n" in explanation.row(0)
    assert explanation.row(0, most=1).splitlines()[-1] == "  3 more terms  +0  +1e-15"
    assert explanation.contributions[0, 0, 0] == 1.4e-17
