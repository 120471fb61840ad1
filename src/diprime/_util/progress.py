"""A progress bar on standard error for fits that take long."""

from __future__ import annotations

import sys
import time

_WIDTH = 30
_QUIET_SECONDS = 0.5


class Progress:
    """Count finished levels; draw a bar once the work has gone on for half a second.

    It shows levels, which are public, and never a number of rows.
    """

    def __init__(self, total: int, *, shown: bool) -> None:
        self._total = total
        self._shown = shown
        self._done = 0
        self._started = time.monotonic()
        self._drawn = False

    def advance(self) -> None:
        """Count one more level."""
        self._done += 1
        if self._shown and (self._drawn or time.monotonic() - self._started > _QUIET_SECONDS):
            self._drawn = True
            filled = _WIDTH * self._done // self._total
            bar = "#" * filled + "." * (_WIDTH - filled)
            end = "\n" if self._done == self._total else ""
            print(f"\rGrowing trees [{bar}] {self._done}/{self._total} levels", end=end, file=sys.stderr, flush=True)
