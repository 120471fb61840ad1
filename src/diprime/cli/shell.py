"""How commands speak: results on standard output, errors in one sentence on standard error, bars on a terminal."""

from __future__ import annotations

import json
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import polars as pl
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from typer.core import TyperGroup

EXIT_CODES = "Exit codes: 0 done; 1 something is wrong with input or output; 2 wrong usage; 130 interrupted."
BAD_INPUT = (ValueError, TypeError, OSError, MemoryError, pl.exceptions.PolarsError)
INTERRUPTED = 130


class OneSentence(TyperGroup):
    """Commands whose errors are one sentence, and which clean up after themselves when they are told to stop."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and exit with its code."""
        try:
            with _stopped_gently(), _warnings_in_one_line():
                code = super().main(*args, **{**extra, "standalone_mode": False})
        except typer.TyperException as error:
            _fail(_usage(error), error.exit_code)
        except BrokenPipeError:
            sys.stderr.close()  # whoever read the output has left, and there is nobody to tell
            sys.exit(1)
        except BAD_INPUT as error:
            _fail(_sentence(error), 1)
        if code == INTERRUPTED:
            _fail("Interrupted: nothing was written.", INTERRUPTED)
        sys.exit(code if isinstance(code, int) else 0)


def stdout() -> Console:
    """Return where results go."""
    return Console(highlight=False)


def stderr() -> Console:
    """Return where remarks go."""
    return Console(stderr=True, highlight=False)


def remark(text: str) -> None:
    """Say something that is not a result, in one line."""
    sys.stdout.flush()  # for the order to be right where both are the same terminal
    print(text, file=sys.stderr)


def visible(text: str) -> str:
    """Return text whose control characters are spelt out: names are other people's, and a terminal obeys them."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def print_json(content: Any) -> None:
    """Print a result for scripts."""
    print(json.dumps(content, indent=2, ensure_ascii=False))


@contextmanager
def progress(what: str) -> Iterator[Callable[[float], None]]:
    """Show a bar while something goes on, where somebody can see it; what it yields takes shares of the whole."""
    console = stderr()
    columns = (TextColumn(what), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda done: bar.advance(task, done)


def _fail(sentence: str, code: int) -> NoReturn:
    if sentence:
        remark(f"diprime: {' '.join(sentence.split())}")
    sys.exit(code)


def _usage(error: typer.TyperException) -> str:
    message, context = error.format_message(), getattr(error, "ctx", None)
    if not message or context is None:  # without arguments, help is all there is to say
        return message
    return f"{message.rstrip('.')}; see {context.command_path} --help."


def _sentence(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "There is not enough memory."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return str(error)


@contextmanager
def _stopped_gently() -> Iterator[None]:
    """Let a request to terminate, or a terminal that closes, unwind the stack: half-written files are removed then."""

    def stop(number: int, frame: object) -> NoReturn:
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():  # where Python allows no handlers
        yield
        return
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # not everywhere both
    requests = [signal.Signals[name] for name in names]
    before = {number: signal.getsignal(number) for number in requests}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    def tell(message: Warning | str, *_: Any, **__: Any) -> None:
        remark(f"diprime: warning: {' '.join(str(message).split())}")

    with warnings.catch_warnings():
        warnings.showwarning = tell
        yield
