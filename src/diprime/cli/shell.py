"""What all commands share: output, errors, progress bars, signals and exit codes.

Results go to standard output; notes, warnings and errors, one line each, to standard error.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import polars as pl
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from typer.core import TyperGroup

EXIT_CODES = "Exit codes: 0 done; 1 something is wrong with input or output; 2 wrong usage; 130 interrupted."
INPUT_ERRORS = (ValueError, TypeError, OSError, MemoryError, ImportError, pl.exceptions.PolarsError)
INTERRUPTED = 130
USAGE_ERROR: Any = typer.BadParameter.__base__  # of click, which later versions of typer contain


class CommandGroup(TyperGroup):
    """A group of commands that print errors in one sentence, and remove unfinished files when they are terminated."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and exit with its code."""
        try:
            with _exit_on_signals(), _print_warnings_in_one_line():
                code = super().main(*args, **{**extra, "standalone_mode": False})
        except USAGE_ERROR as error:
            _fail(_usage_message(error), error.exit_code)
        except BrokenPipeError:
            sys.stderr.close()  # the reader of the output has gone, so there is nobody to inform
            sys.exit(1)
        except (*INPUT_ERRORS, pl.exceptions.PanicException) as error:
            _fail(_error_message(error), 1)
        if code == INTERRUPTED:
            _fail("Interrupted: nothing was written.", INTERRUPTED)
        sys.exit(code if isinstance(code, int) else 0)


def stdout() -> Console:
    """Return the console for results."""
    return Console(highlight=False)


def stderr() -> Console:
    """Return the console for everything but results."""
    return Console(stderr=True, highlight=False)


def print_note(text: str) -> None:
    """Print a line that is not a result."""
    sys.stdout.flush()  # keeps the order if both streams are the same terminal
    print(text, file=sys.stderr)


def escape_controls(text: str) -> str:
    """Escape control characters, which a terminal would obey: names in files may come from anybody."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def print_json(content: Any) -> None:
    """Print a result as JSON, for scripts."""
    print(json.dumps(content, indent=2, ensure_ascii=False))


def confirm_written(output: Path, as_json: bool, **content: Any) -> None:
    """Say that a result was written to a file; to scripts, what it is."""
    if as_json:
        print_json(content)
    else:
        print_note(f"Written to {output}.")


def examples(*commands: str) -> str:
    """Return the examples at the end of a command's help."""
    lines = "\n".join(f"$ {command}" for command in commands)
    return f"**Examples**\n\n```\n{lines}\n```"


@contextmanager
def progress(what: str) -> Iterator[Callable[[float], None]]:
    """Show a progress bar if standard error is a terminal; yield a function that advances it by a share of the work."""
    console = stderr()
    if not console.is_terminal:
        yield lambda done: None
        return
    columns = (TextColumn(what), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda done: bar.advance(task, done)


def _fail(message: str, code: int) -> NoReturn:
    if message:
        print_note(f"diprime: {' '.join(message.split())}")
    sys.exit(code)


def _usage_message(error: Any) -> str:
    message = str(error.format_message()).replace(" (env var: 'None')", "")  # of typer before 0.26: no option has one
    context = getattr(error, "ctx", None)
    if not message or context is None:  # without arguments, typer has printed the help
        return message
    return f"{message.rstrip('.')}; see {context.command_path} --help."


def _error_message(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "There is not enough memory."
    if isinstance(error, pl.exceptions.PanicException):  # its text is for programmers, and may tell about the rows
        return "The data cannot be processed: polars has failed; convert unusual columns to numbers or text."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return str(error)


@contextmanager
def _exit_on_signals() -> Iterator[None]:
    """Exit on SIGTERM and SIGHUP by an exception, so that unfinished files are removed.

    A signal that is ignored stays ignored: a command started under nohup survives a hangup.
    """

    def stop(number: int, frame: object) -> NoReturn:
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():  # Python allows handlers in the main thread only
        yield
        return
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # Windows has no SIGHUP
    before = {number: signal.getsignal(number) for number in (signal.Signals[name] for name in names)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _print_warnings_in_one_line() -> Iterator[None]:
    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print_note(f"diprime: warning: {' '.join(str(message).split())}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
