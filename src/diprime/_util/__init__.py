"""Helpers that do not depend on privacy or trees, and the start of the package.

This module is imported first, so that Ctrl-C and lack of memory during the other imports end the command line without a
traceback. `resources` contains threads, memory and progress, and `files` locks and atomic writes.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import NoReturn

__version__ = "0.1.0"


class InputError(ValueError):
    """Invalid user input. The message is one sentence about names, types and shapes."""


_INSIDE = (str(Path(__file__).parents[1]), contextlib.__file__, "<frozen importlib")


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning for the innermost line outside diprime that led to this call."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame = frame.f_back
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    where = frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__")
    warnings.warn_explicit(message, category, *where, registry)


def check_addresses(n_bytes: int) -> None:
    """Raise `MemoryError` unless so many bytes can be mapped. This uses no memory; on Windows, it does nothing."""
    if n_bytes and hasattr(mmap, "PROT_READ"):
        try:
            mmap.mmap(-1, n_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ).close()
        except OSError:
            raise MemoryError from None


INTERRUPTED = 130
_IMPORT_BYTES = 900 << 20
"""Address space that the imports of the command line use, mostly for threads and mapped files of libraries."""


def _exit(number: int, frame: object) -> NoReturn:
    os.write(2, b"diprime: Interrupted: nothing was written, and no budget was charged.\n")
    os._exit(INTERRUPTED)


def exit_on_interrupt() -> None:
    """Make Ctrl-C end the process at once with one sentence, unless it is ignored or already handled."""
    is_main = threading.current_thread() is threading.main_thread()  # other threads cannot set handlers
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


def raise_on_interrupt() -> None:
    """Make Ctrl-C raise `KeyboardInterrupt` again."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# While Python looks for the module of "python -m diprime", or of any other module, the script is called "-m".
if Path(*sys.argv[:1]).stem == "diprime" or (sys.argv[:1] == ["-m"] and "diprime" in sys.orig_argv):
    exit_on_interrupt()
    try:
        check_addresses(_IMPORT_BYTES)
    except MemoryError:
        sys.exit("diprime: There is not enough memory. No budget was charged.")
