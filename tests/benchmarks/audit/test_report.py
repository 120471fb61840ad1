"""The report says what was refuted and caught, and its numbers can be read again."""

from dataclasses import replace

from benchmarks.audit import __main__ as command
from benchmarks.audit.__main__ import line
from benchmarks.audit.measuring import Bound, Claim, Result
from benchmarks.audit.report import Run, verdict

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


def test_results_round_trip(tmp_path):
    RUN.save(tmp_path / "audit.json")
    assert Run.load(tmp_path / "audit.json") == RUN


def test_verdict_counts_refuted_claims_and_caught_controls():
    assert verdict(RUN.results) == "0 of 2 claims are refuted; 1 of 1 controls are caught."
    missed = replace(CAUGHT, bounds=tuple(replace(bound, claim=5.0) for bound in CAUGHT.bounds))
    refuted = replace(PURE, bounds=tuple(replace(bound, claim=1.0) for bound in PURE.bounds))
    assert verdict([refuted, missed]) == "1 of 1 claims are refuted; 0 of 1 controls are caught."
    assert "**NO**" in line(missed)
    assert line(GAUSSIAN).startswith("boosting")


def test_interrupted_audit_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    assert command._begun(fresh=False).results == ()
    replace(RUN, version=command.__version__).save(tmp_path / "audit.json")
    assert command._begun(fresh=False).results == RUN.results
    assert command._begun(fresh=True).results == ()
    RUN.save(tmp_path / "audit.json")
    assert command._begun(fresh=False).results == (), "what another version was found to do is of no interest"
