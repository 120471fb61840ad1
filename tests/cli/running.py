"""Run commands in this process or in one of their own."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager

from typer.testing import CliRunner

from diprime.cli.app import app

# Without compiled kernels, Python warns on standard error, which these tests compare.
ENVIRONMENT = {**os.environ, "PYTHONWARNINGS": "ignore::RuntimeWarning"}
EXIT_SECONDS = 60


def run(*arguments):
    """Run a command."""
    return CliRunner().invoke(app, [str(a) for a in arguments], prog_name="diprime")


def ok(*arguments):
    """Return the standard output of a command that succeeds."""
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def refused(*arguments, code=1, match=""):
    """Return the error of a command that fails; it is one sentence, in which the pattern ``match`` is found."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("diprime: ")
    assert result.stderr.count("\n") == 1
    assert re.search(match, result.stderr), result.stderr
    return result.stderr


@contextmanager
def python(*arguments, **environment):
    """Start a Python process; wait for its end, and kill it if it does not end or the test fails."""
    command = [sys.executable, *map(str, arguments)]
    environment = ENVIRONMENT | environment
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield process
            process.wait(EXIT_SECONDS)
        finally:
            process.kill()
