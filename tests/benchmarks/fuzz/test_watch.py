"""Whatever a file must not do is a finding."""

from pathlib import Path

import pytest

from benchmarks.fuzz import watch as watching
from benchmarks.fuzz.watch import Watch


def findings_of(target, folder, data=b"input"):
    watch = Watch(target, folder)
    watch.begin()
    watch.run(data)
    assert watch.figures.inputs == 1
    return watch.figures.findings


class PanicError(BaseException):
    pass


def panic(data):
    raise PanicError


@pytest.mark.parametrize(
    ("target", "place"),
    [
        (panic, "PanicError"),
        (lambda data: 1 / 0, "ZeroDivisionError"),
        (lambda data: compile("1", "x", "eval"), "CodeRunError"),
        (lambda data: Path("elsewhere").write_text(""), "CodeRunError"),
        (lambda data: __import__("os").system("true"), "CodeRunError"),
    ],
)
def test_errors_and_code_are_found(tmp_path, target, place):
    findings = findings_of(target, tmp_path)
    assert [name.split(" in ")[0] for name in findings] == [place]
    (finding,) = findings.values()
    assert (tmp_path / finding["file"]).read_bytes() == b"input"


def test_time_and_memory_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "MAX_SECONDS", -1.0)
    assert list(findings_of(lambda data: "read", tmp_path)) == ["takes too long"]
    monkeypatch.setattr(watching, "MAX_SECONDS", 100.0)
    peaks = iter([0, watching.BASE_BYTES + 51, 0])
    monkeypatch.setattr(watching, "_peak_bytes", lambda: next(peaks, 0))
    watch = Watch(lambda data: "read", tmp_path)  # takes the first peak
    peaks = iter([0, watching.BASE_BYTES + 51])
    watch.run(b"input")  # may take 50 bytes more than the base
    assert list(watch.figures.findings) == ["takes too much memory"]
