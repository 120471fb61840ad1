"""The entry point, before any command runs."""

import os
import re
import sys

import pytest

from diprime import Budget, Domain
from tests.cli.people import synthetic_people
from tests.cli.running import python


def test_output_is_utf_8_in_any_locale(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\nε,0\nb,1\n", encoding="utf-8")
    arguments = ("-m", "diprime", "domain", "draft", tmp_path / "a.csv", "--target", "y")
    with python(*arguments, PYTHONIOENCODING="ascii") as process:
        printed = process.stdout.buffer.read()
    assert Domain.from_toml(printed.decode("utf-8")).features["a"].categories == ("b", "ε")


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("name", ["diprime", pytest.param("-m", marks=pytest.mark.audit)])
def test_interruption_of_first_imports_is_reported_in_one_sentence(name):
    program = (
        "import os, signal, sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'diprime.domain': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        f"sys.argv, sys.orig_argv = [{name!r}], ['python', '-m', 'diprime']\n"
        "from diprime.cli import main\n"
    )
    with python("-c", program) as process:
        said = process.communicate()[1]
    assert process.returncode == 130
    assert re.fullmatch(r"diprime: Interrupted: .*no budget .*\n", said), said


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_importing_the_library_keeps_the_handler_of_interruptions():
    program = (
        "import sys; sys.argv = ['-m']; sys.orig_argv = ['python', '-m', 'another']\n"
        "import signal, diprime, diprime.cli; assert signal.getsignal(2) is signal.default_int_handler"
    )
    with python("-c", program) as process:
        process.communicate()
    assert process.returncode == 0


def test_missing_extra_prints_the_install_command():
    with python("-c", "import sys; sys.modules['typer'] = None; from diprime.cli import main; main()") as process:
        said = process.stderr.read()
    assert process.returncode == 1
    assert re.fullmatch(r"diprime: .*pip install 'diprime\[cli\]'\.\n", said), said


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of addresses")
@pytest.mark.parametrize(
    ("limit", "ending"),
    [
        (500, "csv"),
        (1000, "parquet"),
        *(pytest.param(1200, ending, marks=pytest.mark.audit) for ending in ("csv", "parquet")),
    ],
)
def test_memory_error_is_reported_in_one_sentence(tmp_path, folder, limit, ending):
    path, budget = tmp_path / f"data.{ending}", tmp_path / "study.budget"
    people = synthetic_people(200_000, 1)
    people.write_csv(path) if ending == "csv" else people.write_parquet(path)
    Budget.create(budget, 10)
    command = ("fit", path, "-d", folder / "domain.toml", "-e", 1, "--budget", budget, "-o", tmp_path / "m")
    program = (
        "import resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({limit} << 20,) * 2)\n"
        f"sys.argv = ['diprime', *{[str(word) for word in command]!r}]\n"
        "from diprime.cli import main; main()\n"
    )
    with python("-c", program) as process:
        said = process.communicate()[1]
    assert process.returncode == 1
    # At 500 MiB, no command was read yet.
    ending = "budget was not charged" if limit > 500 else "No budget was charged"
    assert re.fullmatch(rf"diprime: .*memory\. .*{ending}\.\n", said), said
    assert Budget.open(budget).entries == ()
    assert not (tmp_path / "m").exists()
