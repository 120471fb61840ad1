"""Output, errors, progress bars, signals and exit codes of all commands, and the files that they write.

Results go to standard output. Notes, warnings and errors go to standard error, one line each.

All commands are registered through `Commands`, which checks their paths before they read anything: a command never
overwrites its own inputs, and replaces other files only with ``--force``. The argument ``output`` is the output of a
command. Every other path counts as an input, or a pattern of inputs, so new options are safe by default.

After a charge to a budget, the result is stored in a file next to the budget, named after its charge, until the output
is written. The disk space is reserved before the charge. If the output fails, ``diprime budget recover`` writes it.
"""

from __future__ import annotations

import csv
import inspect
import io
import json
import os
import secrets
import signal
import stat
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout, suppress
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from typer.core import TyperGroup

from diprime._util import INTERRUPTED, InputError
from diprime._util.files import is_same_file, replaceable_mode, status_of
from diprime.cli.options import ForceOption, check_folder
from diprime.privacy.budget import Budget
from diprime.privacy.ledger import Ledger
from diprime.privacy.session import charges_stated, notes_of, set_notes
from diprime.sources.data_files import matches
from diprime.sources.data_files.text import plain_type

EXIT_CODES = "Exit codes: 0 success; 1 error in input or output; 2 wrong usage; 130 interrupted."
INPUT_ERRORS = (ValueError, TypeError, OSError, MemoryError, ImportError, pa.ArrowException)
USAGE_ERROR: Any = typer.BadParameter.__base__  # of click, which later versions of typer contain


class CommandInterruptedError(Exception):
    """Interruption of a command; the arguments are notes for the user."""


class CommandGroup(TyperGroup):
    """Group of commands that print errors on one line, and remove unfinished files when they are terminated."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and exit with its code."""
        try:
            with _exit_on_signals(), _print_warnings_in_one_line():
                code = super().main(*args, **{**extra, "standalone_mode": False})
        except USAGE_ERROR as error:
            given = extra.get("args", args[0] if args else None) or sys.argv[1:]
            has_budget = any(argument.partition("=")[0] == "--budget" for argument in given)
            _fail(_usage_message(error) + " The budget was not charged." * has_budget, error.exit_code)
        except BrokenPipeError:
            sys.stderr.close()  # the reader of the output has closed it
            sys.exit(1)
        except CommandInterruptedError as error:
            _fail(" ".join(["Interrupted: nothing was written.", *error.args]), INTERRUPTED)
        except (SystemExit, pa.ArrowCancelled) as error:  # a signal, which pyarrow may notice before Python
            code = error.code if isinstance(error, SystemExit) else 128 + (error.signum or signal.SIGINT)
            words = "Interrupted: nothing was written." if code == INTERRUPTED else "Terminated."
            notes = notes_of(error)
            _fail(" ".join([words, *notes]) if notes or code == INTERRUPTED else "", code)
        except INPUT_ERRORS as error:
            _fail(" ".join([_error_message(error), *notes_of(error)]), 1)
        if code == INTERRUPTED:
            _fail("Interrupted: nothing was written.", INTERRUPTED)
        sys.exit(code if isinstance(code, int) else 0)


def stdout() -> Console:
    """Return the console for results."""
    return Console(highlight=False)


def stderr() -> Console:
    """Return the console for everything except results."""
    return Console(stderr=True, highlight=False)


def print_note(text: str) -> None:
    """Print a line to standard error."""
    sys.stdout.flush()  # keeps the order if both streams are the same terminal
    print(text, file=sys.stderr)


def escape_controls(text: str) -> str:
    """Escape control characters, which a terminal would interpret, because names in files are untrusted."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def print_json(content: Any) -> None:
    """Print a result as JSON, for scripts."""
    print(json.dumps(content, indent=2, ensure_ascii=False))


def confirm_written(output: Path, as_json: bool, **content: Any) -> None:
    """Print the file name of a result or, for scripts, the content as JSON."""
    if as_json:
        print_json(content)
    else:
        print_note(f"Written to {output}.")


def examples(*commands: str) -> str:
    """Return the example section of a command's help."""
    lines = "\n".join(f"$ {command}" for command in commands)
    return f"**Examples**\n\n```\n{lines}\n```"


@contextmanager
def progress(title: str, passes: int = 1) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on a terminal, and yield a function that advances it by a share of a pass."""
    console = stderr()
    if not console.is_terminal:
        yield lambda done: None
        return
    columns = (TextColumn(title), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda done: bar.advance(task, done / passes)


def _fail(message: str, code: Any) -> NoReturn:
    if message:
        print_note(f"diprime: {' '.join(message.split())}")
    sys.exit(code)


def _usage_message(error: Any) -> str:
    message = str(error.format_message()).replace(" (env var: 'None')", "")  # typer before 0.26 adds this
    context = getattr(error, "ctx", None)
    if not message or context is None:  # typer has printed the help already
        return message
    end = " See" if message.endswith("?") else "; see"  # "Did you mean 'fit'?"
    return f"{message.rstrip('.')}{end} {context.command_path} --help."


def _error_message(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "There is not enough memory."
    if isinstance(error, pa.ArrowException | UnicodeDecodeError):  # their messages can quote rows
        return "pyarrow cannot process the data. Convert unusual columns to numbers or text."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    return str(error)


@contextmanager
def _exit_on_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into exceptions, so that unfinished files are removed."""

    def stop(number: int, frame: object) -> NoReturn:
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():  # only it may set handlers
        yield
        return
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # Windows has no SIGHUP
    before = {number: signal.getsignal(number) for number in (signal.Signals[name] for name in names)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # nohup ignores SIGHUP
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


def csv_bytes(rows: pa.Table, *, has_header: bool = True) -> bytes:
    """Return rows as UTF-8 CSV."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    if has_header:
        writer.writerow(rows.column_names)
    texts = [column.cast(plain_type(column.type)).cast(pa.string()).to_pylist() for column in rows.columns]
    writer.writerows(zip(*texts, strict=True))
    return file.getvalue().encode()


OUTPUT = "output"
_FORCE = inspect.Parameter("force", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=ForceOption)


class Commands(typer.Typer):
    """Typer application whose commands check their paths first."""

    def command(self, *arguments: Any, **options: Any) -> Callable[[Any], Any]:
        """Return a decorator that registers a function as a command."""
        register = super().command(*arguments, **options)
        return lambda function: register(_checked(function))


def _checked(function: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that it checks its paths first."""
    signature = inspect.signature(function, eval_str=True)
    has_output = OUTPUT in signature.parameters

    @wraps(function)
    def run(**values: Any) -> None:
        try:
            with charges_stated(is_budgeted=values.get("budget") is not None):
                check(values)
                with _messages_to_standard_error(values.get(OUTPUT)):
                    function(**values)
        except KeyboardInterrupt as error:
            raise CommandInterruptedError(*notes_of(error)) from None
        except BrokenPipeError as error:  # typer exits without a message
            if notes := notes_of(error):
                print(f"diprime: {' '.join(notes)}", file=sys.stderr)
            raise

    def check(values: dict[str, Any]) -> None:
        force = has_output and values.pop(_FORCE.name)
        inputs = [path for name, value in values.items() if name != OUTPUT for path in _paths(value)]
        output = values.get(OUTPUT)
        if output is not None:
            refuse_inputs(output, inputs)
            check_output(output, force=force, spends="budget" in values)
        _refuse_inputs_as_standard_output(inputs)

    if has_output:
        run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), _FORCE])  # type: ignore[attr-defined]
        run.__annotations__ = {**function.__annotations__, _FORCE.name: ForceOption}
    return run


def check_output(output: Path, *, force: bool, spends: bool) -> None:
    """Raise an error if an output cannot be written, or would replace a file without ``force``.

    A command that spends a budget writes only to regular files and to its standard output, because another pipe may
    have no reader, and a device may be full.
    """
    check_folder(output)
    status = status_of(output)
    if status is None:
        return
    if not stat.S_ISREG(status.st_mode):
        if spends and not _is_standard_output(status):
            raise InputError(f"{output} is a pipe or a device, which could lose the result. Write to a file.")
        return
    if output.parent == Path("/dev"):  # redirected standard output
        return
    replaceable_mode(output)
    if not force:
        raise InputError(f"{output} exists. Write to another file, or replace it with --force.")


def _is_standard_output(status: os.stat_result | None) -> bool:
    try:
        return status is not None and os.path.samestat(status, os.fstat(1))
    except OSError:  # standard output is closed
        return False


def _messages_to_standard_error(output: Path | None) -> AbstractContextManager[object]:
    """Redirect prints to standard error if standard output is the output, because text would corrupt the result."""
    is_output = output is not None and _is_standard_output(status_of(output))
    return redirect_stdout(sys.stderr) if is_output else nullcontext()


def refuse_inputs(output: Path, inputs: list[Path]) -> None:
    """Raise an error if an output is the same file as an input, even by another name or link."""
    for path in inputs:
        if is_same_file(status_of(output), status_of(path)):
            name = "a file" if str(path) == str(output) else f"the file {path}"
            raise InputError(f"{output} is {name} that this command reads. Write to another file.")


def _refuse_inputs_as_standard_output(inputs: list[Path]) -> None:
    """Raise an error if standard output is redirected to an input, which ``>`` has emptied and ``>>`` would change."""
    try:
        written = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError):  # standard output is closed, or not a file
        return
    for path in inputs:
        if is_same_file(written, status_of(path)):
            raise InputError(f"Standard output goes to {path}, which this command reads. Redirect it to another file.")


def _paths(value: Any) -> Iterator[Path]:
    for item in value if isinstance(value, list | tuple) else [value]:
        if isinstance(item, Path):
            yield from matches(item)


RESERVED_BYTES = 1 << 24
"""Disk space that is reserved before the charge. The few larger models need more space after the charge."""
ENDING = ".kept"


class ChargedCommand:
    """Command that may charge a budget, with the reserved file for its result."""

    def __init__(self, budget: Path | None = None, reserved: Path | None = None) -> None:
        self._budget = budget
        self._reserved = reserved

    @contextmanager
    def recoverable(self, ledger: Ledger | None, content: bytes) -> Iterator[None]:
        """Store a result next to the budget until the block has written it."""
        if self._budget is None or ledger is None:
            yield
            return
        assert self._reserved is not None
        real = Path(os.path.realpath(self._budget))
        place = real.with_name(f"{real.name}.{ledger.study_charges[-1].charge}{ENDING}")
        try:
            _write(self._reserved, content)
            self._reserved.replace(place)
        except OSError:  # larger than the reserved space; the output may still have enough
            yield
            return
        try:
            yield
        except BaseException as error:
            advice = f"Recover the result with: diprime budget recover {self._budget} -o FILE"
            set_notes(error, [*notes_of(error), advice])
            raise
        place.unlink()


@contextmanager
def charged_to(path: Path | None) -> Iterator[ChargedCommand]:
    """Charge everything in the block to a budget file, if one is given."""
    if path is None:
        yield ChargedCommand()
        return
    budget = Budget.open(path)
    reserved = _reserve(path)
    try:
        with budget:
            yield ChargedCommand(path, reserved)
    finally:
        with suppress(FileNotFoundError):  # it was renamed after its charge
            reserved.unlink()


def recoverable_results(budget: Path) -> dict[str, Path]:
    """Return the files with stored results next to a budget, by the names of their charges."""
    real = Path(os.path.realpath(budget))
    start = f"{real.name}."
    names = sorted(path.name for path in real.parent.iterdir())
    return {
        name[len(start) : -len(ENDING)]: real.with_name(name)
        for name in names
        if name.startswith(start) and name.endswith(ENDING)
    }


def _reserve(budget: Path) -> Path:
    """Create a hidden file next to a budget, with reserved disk space for a result, and return its path."""
    path = Path(os.path.realpath(budget)).with_name(f".{secrets.token_hex(8)}.part")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, RESERVED_BYTES)
        finally:
            os.close(descriptor)
    except BaseException as error:
        with suppress(OSError):
            path.unlink()
        if isinstance(error, OSError):
            raise InputError(
                f"Cannot reserve disk space next to {budget}: {error.strerror}. A command that charges a budget "
                f"reserves {RESERVED_BYTES >> 20} MiB in its directory. Free some space, or make the directory "
                "writable."
            ) from None
        raise
    return path


def _write(path: Path, content: bytes) -> None:
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
