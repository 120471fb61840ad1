"""The entry point, before any command runs."""

from diprime import Domain
from tests.cli.running import python


def test_output_is_utf_8_whatever_the_locale_says(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\nε,0\nb,1\n", encoding="utf-8")
    arguments = ("-m", "diprime", "domain", "draft", tmp_path / "a.csv", "--target", "y")
    with python(*arguments, PYTHONIOENCODING="ascii") as process:
        printed = process.stdout.buffer.read()
    assert Domain.from_toml(printed.decode("utf-8")).features["a"].levels == ("b", "ε")


def test_an_interruption_while_it_starts_is_no_traceback():
    program = (
        "import sys; from diprime.cli import main\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'diprime.cli.app': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "main()\n"
    )
    with python("-c", program) as process:
        said = process.communicate()[1]
    assert (process.returncode, said) == (130, "")


def test_completion_is_offered():
    asked = {"_DIPRIME_COMPLETE": "complete_bash", "COMP_WORDS": "diprime pre", "COMP_CWORD": "1"}
    with python("-c", "from diprime.cli import main; main()", **asked) as process:
        assert process.stdout.read().split() == ["predict"]


def test_without_its_extra_the_command_line_says_what_to_install():
    with python("-c", "import sys; sys.modules['typer'] = None; from diprime.cli import main; main()") as process:
        said = process.stderr.read()
    assert process.returncode == 1
    assert said == "diprime: the command line is not installed; run pip install 'diprime[cli]'.\n"
