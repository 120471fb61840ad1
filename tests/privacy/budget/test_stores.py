"""Where logs are: processes do not spend the same part twice, and a crash loses budget, never privacy."""

import os
import signal
import subprocess
import sys
import threading
from fractions import Fraction

import pytest

from diprime import Budget, BudgetError
from diprime._util import files
from diprime.privacy.budget import MemoryStore
from diprime.privacy.budget.log import Log, Terms
from diprime.privacy.measures import PrivacyLoss

ONE = PrivacyLoss(Fraction(1))

RACE = """
import sys
from fractions import Fraction
from diprime import Budget, BudgetError
from diprime.privacy.measures import PrivacyLoss
budget = Budget.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
n = 0
for _ in range(10):
    try:
        budget.charge("one", epsilon=Fraction(1, 1))
        n += 1
    except BudgetError:
        pass
print(n)
"""


def start(script, *arguments):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_processes_cannot_spend_the_same_part_twice(tmp_path):
    epsilon = 13  # two processes try twenty times
    budget = Budget.create(tmp_path / "study.budget", epsilon)
    processes = [start(RACE, budget.path) for _ in range(2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    counts = [int(process.communicate()[0]) for process in processes]
    assert sum(counts) == epsilon
    assert budget.spent == PrivacyLoss(Fraction(epsilon)), "the log is whole"


def test_a_charge_is_synced_before_it_returns_and_a_new_file_with_its_folder(tmp_path, monkeypatch):
    synced, sync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(os.readlink(f"/proc/self/fd/{file}")), sync(file)))
    if not os.path.exists("/proc/self/fd"):
        pytest.skip("what is synced cannot be told here")
    path = tmp_path / "study.budget"
    budget = Budget.create(path, 2)
    assert synced == [str(path), str(tmp_path)]
    budget.charge("one", epsilon=1)
    assert synced[2:] == [str(path)]


@pytest.mark.parametrize("failing", ["write", "fsync"])
def test_a_line_that_cannot_be_written_is_an_error_and_leaves_the_log_whole(failing, tmp_path, monkeypatch):
    budget = Budget.create(tmp_path / "study.budget", 2)
    budget.charge("one", epsilon=1)
    write = os.write
    with monkeypatch.context() as patch:
        if failing == "write":
            patch.setattr(os, "write", lambda file, line: write(file, line[:50]))
        else:
            patch.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(OSError("the disk is gone")))
        with pytest.raises(OSError, match=r"completely|gone"):
            budget.charge("two", epsilon=1)
    assert len(Budget.open(budget.path).entries) == 1
    budget.charge("two", epsilon=1)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes cannot be killed here")
def test_a_process_that_is_killed_after_the_charge_has_spent_it(tmp_path):
    script = """
import os, signal, sys
from fractions import Fraction
from diprime import Budget
from diprime.privacy.measures import PrivacyLoss
budget = Budget.open(sys.argv[1])
with budget.transaction() as transaction:
    transaction.charge(PrivacyLoss(Fraction(1)), "one")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    budget = Budget.create(tmp_path / "study.budget", 2)
    process = start(script, budget.path)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert budget.spent == ONE, "and its lock is gone"


def test_a_file_that_lost_charges_is_refused_while_it_is_known(tmp_path):
    path = tmp_path / "study.budget"
    budget = Budget.create(path, 3)
    budget.charge("one", epsilon=1)
    older = path.read_bytes()
    budget.charge("two", epsilon=1)
    path.write_bytes(older)
    with pytest.raises(BudgetError, match=r"missing .*study\.budget"):
        budget.charge("three", epsilon=1)
    assert Budget.open(path).spent == ONE, "nobody else can tell: docs/privacy.md says so"


def test_a_file_whose_charges_were_replaced_is_refused_while_they_are_known(tmp_path):
    path = tmp_path / "study.budget"
    budget = Budget.create(path, 3)
    empty = path.read_bytes()
    budget.charge("one", epsilon=1)
    path.write_bytes(empty)
    Budget.open(path).charge("another", epsilon=Fraction(1, 10))
    with pytest.raises(BudgetError, match=r"missing .*study\.budget"):
        budget.charge("three", epsilon=2.5)


def test_a_file_of_another_study_is_refused(tmp_path):
    path = tmp_path / "study.budget"
    budget = Budget.create(path, 3)
    path.unlink()
    Budget.create(path, 3)
    with pytest.raises(BudgetError, match="another study"):
        budget.charge("one", epsilon=1)


def test_an_edited_file_is_refused_at_the_next_charge(tmp_path):
    path = tmp_path / "study.budget"
    budget = Budget.create(path, 3)
    budget.charge("one", epsilon=1)
    path.write_text(path.read_text().replace('"epsilon": "1"', '"epsilon": "0"'))
    with pytest.raises(BudgetError, match=r"line 2 of .* changed"):
        budget.charge("two", epsilon=1)


def in_a_fork(work):
    """Run something in a forked process; return what it returned, or the message of its error."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        try:
            answer = str(work())
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is the answer
            answer = f"{type(error).__name__}: {error}"
        os.write(into, answer.encode())
        os._exit(0)
    os.close(into)
    os.waitpid(child, 0)
    with os.fdopen(out, "rb") as answers:
        return answers.read().decode()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_charges_the_file_and_not_the_memory(tmp_path):
    memory, file = Budget(3), Budget.create(tmp_path / "study.budget", 3)
    assert in_a_fork(lambda: file.charge("one", epsilon=1)) == "None"
    assert file.spent == ONE
    refusal = in_a_fork(lambda: memory.charge("one", epsilon=1))
    assert refusal.startswith("BudgetError: ")
    assert f"memory of process {os.getpid()} " in refusal
    assert in_a_fork(lambda: memory.spent).startswith("BudgetError")
    assert memory.spent == PrivacyLoss()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_in_the_middle_of_a_charge_does_not_keep_the_lock(tmp_path):
    budget = Budget.create(tmp_path / "study.budget", 3)
    out, into = os.pipe()
    with budget.transaction():
        child = os.fork()
        if not child:
            os.close(into)
            os.read(out, 1)  # until the parent is done
            os._exit(0)
    budget.charge("one", epsilon=1)
    os.close(into)
    os.waitpid(child, 0)
    os.close(out)
    assert budget.spent == ONE


def test_a_file_is_read_no_further_than_its_largest_size(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    with files.locked_file(str(path), append=False) as file:
        assert len(files.read_all(file, 10)) == 11
        assert files.read_all(file, 1000) == b"x" * 100


def test_a_budget_in_memory_is_one_thread_s_at_a_time():
    store, entered = MemoryStore("study", Log.new(Terms.new(1, 0, None)), os.getpid()), threading.Event()

    def come_later():
        with store.transaction():
            entered.set()

    thread = threading.Thread(target=come_later)
    with store.transaction():
        thread.start()
        assert not entered.wait(0.2)
    thread.join()
    assert entered.is_set()
