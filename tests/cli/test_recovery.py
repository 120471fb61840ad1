"""A result that a budget was charged for survives a failure of its output."""

import json
import os
import re
import signal

import pytest

from diprime import Budget, load
from diprime.cli import shell
from diprime.estimators.trees import PrivateTrees
from tests.cli.running import ok, python, refused, run

SPENT = "was charged for"


@pytest.fixture
def budget(tmp_path):
    path = tmp_path / "study.budget"
    ok("budget", "new", path, "-e", 9)
    return path


def fit(folder, budget):
    return ("fit", folder / "people.csv", "-d", folder / "domain.toml", "-e", 1, "--budget", budget)


def fail_to_save(monkeypatch, error):
    def fail(model, path):
        raise error

    monkeypatch.setattr(PrivateTrees, "save", fail)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), SystemExit(143)])
@pytest.mark.parametrize("more", [(), ("--boost", "--delta", 1e-6, "--rounds", 5)])
def test_model_whose_output_fails_is_recovered(folder, budget, tmp_path, monkeypatch, error, more):
    if more:
        budget.unlink()
        ok("budget", "new", budget, "-e", 9, "--delta", 1e-5)
    with monkeypatch.context() as patch:
        fail_to_save(patch, error)
        said = run(*fit(folder, budget), *more, "-o", tmp_path / "m").stderr
    assert SPENT in said
    assert f": diprime budget recover {budget} -o FILE" in said
    assert not (tmp_path / "m").exists()
    ok("budget", "recover", budget, "-o", tmp_path / "m")
    assert load(tmp_path / "m").privacy_.studies == [Budget.open(budget).study]
    assert sorted(os.listdir(tmp_path)) == ["m", "study.budget"]
    refused("budget", "recover", budget, "-o", tmp_path / "other", match=rf"no result .*{budget}: ")


def test_charge_option_selects_one_of_several_results(folder, budget, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        fail_to_save(patch, OSError(28, "No space left on device"))
        for _ in range(2):
            refused(*fit(folder, budget), "-o", tmp_path / "m")
    kept = list(shell.recoverable_results(budget))
    assert len(kept) == 2
    assert ", ".join(kept) in refused("budget", "recover", budget, "-o", tmp_path / "m")
    ok("budget", "recover", budget, "--charge", kept[1], "-o", tmp_path / "m")
    assert [charge.charge for charge in load(tmp_path / "m").privacy_.study_charges] == [kept[1]]


def test_written_result_leaves_no_copy(folder, budget, tmp_path):
    ok(*fit(folder, budget), "-o", tmp_path / "m")
    assert sorted(os.listdir(tmp_path)) == ["m", "study.budget"]


@pytest.mark.parametrize("command", ["score", pytest.param("learn", marks=pytest.mark.audit)])
@pytest.mark.skipif(os.name != "posix", reason="needs a pipe without a reader")
def test_scores_and_domains_are_recovered(folder, budget, tmp_path, command):
    domain = tmp_path / "open.toml"
    domain.write_text(
        '[features.age]\nkind = "numeric"\n\n'
        '[target]\nname = "income"\nkind = "categorical"\ncategories = ["low", "high"]\n'
    )
    words = {
        "score": ("score", folder / "model.diprime", folder / "people.csv"),
        "learn": ("domain", "learn", folder / "people.csv", "-d", domain, "-e", 1),
    }[command]
    with python("-m", "diprime", *words, "--budget", budget) as process:
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 1
    assert SPENT in said
    assert "diprime budget recover" in said
    ending = {"score": ".json", "learn": ".toml"}[command]
    ok("budget", "recover", budget, "-o", tmp_path / f"result{ending}")
    ok("budget", "check", budget, tmp_path / f"result{ending}")


def test_missing_disk_space_for_the_result_prevents_the_charge(folder, budget, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    reason = rf"disk space .*{budget}: No space left on device\. .*not charged\.$"
    refused(*fit(folder, budget), "-o", tmp_path / "m", match=reason)
    assert Budget.open(budget).entries == ()
    assert os.listdir(tmp_path) == ["study.budget"]


def test_failure_before_the_charge_states_that_nothing_was_charged(folder, budget, tmp_path):
    for arguments in (
        ("fit", tmp_path / "none.csv", "-d", folder / "domain.toml", "-e", 1, "-o", tmp_path / "m"),
        ("fit", folder / "people.csv", "-d", folder / "domain.toml", "-e", 10, "-o", tmp_path / "m"),
        ("fit", folder / "people.csv", "-d", folder / "domain.toml", "-e", 1, "-o", budget.with_name("none") / "m"),
        ("score", folder / "model.diprime", tmp_path / "none.csv"),
    ):
        refused(*arguments, "--budget", budget, match=r"not charged\.$")
    usage = (*fit(folder, budget), "--unknown")
    refused(*usage, code=2, match=r"diprime fit --help\. .*not charged\.$")
    assert "charged" not in refused("fit", "--unknown", code=2)


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.audit)]
)
def test_signal_after_the_charge_states_the_charge(folder, budget, tmp_path, number, code):
    script = (
        "import os, diprime.estimators.forest as f, diprime.cli as c\n"
        f"f.train = lambda *a: os.kill(os.getpid(), {int(number)}) or __import__('time').sleep(60)\n"
        "c.main()"
    )
    arguments = [str(a) for a in (*fit(folder, budget), "-o", tmp_path / "m")]
    with python("-c", script, *arguments) as process:
        said = process.stderr.read()
    assert process.returncode == code
    assert SPENT in said
    assert sorted(os.listdir(tmp_path)) == ["study.budget"]


def test_check_reports_missing_charges(folder, budget, tmp_path):
    ok(*fit(folder, budget), "-o", tmp_path / "one")
    older = budget.read_bytes()
    ok(*fit(folder, budget), "-o", tmp_path / "two")
    ok("score", tmp_path / "one", folder / "people.csv", "--budget", budget, "-o", tmp_path / "score.json")
    files = (tmp_path / "one", tmp_path / "two", tmp_path / "score.json", folder / "model.diprime")
    said = ok("budget", "check", budget, *files)
    assert re.search(rf" 3 files\.\n.*: {files[3]}\.\n", said)
    assert json.loads(ok("budget", "check", budget, *files, "--json"))["uncharged_files"] == [str(files[3])]
    complete = budget.read_bytes()
    budget.write_bytes(complete[:-5])
    assert "remove" not in refused("budget", "show", budget, match=r"study\.budget .*incomplete line")
    refused("budget", "check", budget, *files, match=r"lacks charges .*score\.json")
    assert "delete" in ok("budget", "check", budget, *files[:2])
    for unrelated in ((), files[3:]):  # they show nothing about the incomplete line
        said = ok("budget", "check", budget, *unrelated)
        assert "delete" not in said
        assert "incomplete line" in said
    charge = json.loads(complete.splitlines()[-1])["checksum"]
    kept = tmp_path / f"study.budget.{charge}.kept"
    kept.touch()
    refused("budget", "check", budget, *files[:2], match=rf"lacks charges .*{kept}: ")
    kept.unlink()
    budget.write_bytes(older)
    refused("budget", "check", budget, *files, match=rf"lacks charges [^/]*{files[1]}, {files[2]}: ")
    other = tmp_path / "other.budget"
    ok("budget", "new", other, "-e", 1)
    ok("budget", "check", other, *files)  # they name another study


def test_invalid_budget_files_are_refused(tmp_path):
    for content in (bytes(range(256)) * 9, b"text\nmore text", b"one line"):
        (tmp_path / "file").write_bytes(content)
        for command in ("show", "check"):
            assert "incomplete" not in refused("budget", command, tmp_path / "file", match=r"/file .*a budget")
