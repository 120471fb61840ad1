"""The report says what was refuted and caught, and its numbers can be read again."""

from dataclasses import replace

from benchmarks.audit import __main__ as command
from benchmarks.audit.__main__ import line
from benchmarks.audit.measuring import Bound, Claim, Result
from benchmarks.audit.report import Run, report, verdict

PURE = Result(
    "forest, random",
    "last class",
    "",
    Claim(4.0, 0.0, 0.0),
    1000,
    500,
    1e-3,
    (
        Bound("model", "ε", 2.5, 4.0, "model, number 3 ≥ 1", (400, 20)),
        Bound("transcript", "ε", 3.0, 4.0, "exact loss ≥ 2", (400, 10)),
    ),
    3.99,
    60.0,
    "abc",
)
GAUSSIAN = replace(
    PURE,
    case="boosting",
    claim=Claim(2.0, 0.01, 0.9),
    bounds=tuple(
        Bound(source, measure, value, claim, "exact loss ≥ 1", (400, 10))
        for source in ("model", "transcript")
        for measure, value, claim in [("μ", 0.7, 0.9), ("δ", 0.05, 0.09)]
    ),
)
CAUGHT = replace(PURE, control="noise × 0.7", claim=Claim(1.0, 0.0, 0.0))
CAUGHT = replace(CAUGHT, bounds=tuple(replace(bound, claim=1.0) for bound in PURE.bounds))
RUN = Run("2026-01-01", "1.0", (PURE, GAUSSIAN, CAUGHT))


def test_numbers_can_be_read_again(tmp_path):
    RUN.save(tmp_path / "audit.json")
    assert Run.load(tmp_path / "audit.json") == RUN


def test_the_report_has_a_row_for_each_result():
    text = report(RUN, 0.98)
    assert "| forest, random | last class | 4 | 2.50 | 3.00 | 75% | 3.99 | exact loss ≥ 2 | 1,000 | abc |" in text
    assert "| boosting | last class | 2, 0.01 | 0.900 | 0.700 | 0.700 | 78% | 0.0900 | 0.0500 |" in text
    assert (
        "| noise × 0.7 | forest, random | last class | ε = 1 | 3.00 | transcript: exact loss ≥ 2 | 1,000 | abc | yes |"
        in text
    )
    assert "6,000 fits" in text
    assert "99.9 %" in text


def test_the_verdict_counts_what_is_refuted_and_what_is_caught():
    assert verdict(RUN.results) == "0 of 2 claims are refuted; 1 of 1 controls are caught."
    missed = replace(CAUGHT, bounds=tuple(replace(bound, claim=5.0) for bound in CAUGHT.bounds))
    refuted = replace(PURE, bounds=tuple(replace(bound, claim=1.0) for bound in PURE.bounds))
    assert verdict([refuted, missed]) == "1 of 1 claims are refuted; 0 of 1 controls are caught."
    assert "**NO**" in line(missed)
    assert line(GAUSSIAN).startswith("boosting")


def test_results_of_the_same_are_replaced_and_others_keep_their_commit():
    again = RUN.with_result(replace(PURE, fits=5, commit="def")).results
    assert [(result.fits, result.commit) for result in again] == [(1000, "abc"), (1000, "abc"), (5, "def")]


def test_runs_go_on_where_they_were_unless_they_begin_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    assert command._begun(fresh=False).results == ()
    replace(RUN, version=command.__version__).save(tmp_path / "audit.json")
    assert command._begun(fresh=False).results == RUN.results
    assert command._begun(fresh=True).results == ()
    RUN.save(tmp_path / "audit.json")
    assert command._begun(fresh=False).results == (), "what another version was found to do is of no interest"


def test_results_are_in_the_order_of_the_table_and_those_without_a_place_are_left_out():
    names = [CAUGHT.name, PURE.name]
    assert RUN.in_order(names).results == (CAUGHT, PURE)
    assert RUN.in_order([PURE.name, CAUGHT.name]).results == (PURE, CAUGHT)
