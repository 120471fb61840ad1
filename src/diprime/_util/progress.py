"""A progress bar on standard error for long fits."""

from __future__ import annotations

import sys
import time

_WIDTH = 30
_DELAY_SECONDS = 0.5


class Progress:
    """Count finished steps of a fit, and draw a bar if it takes longer than half a second.

    The bar shows the number of levels, rounds or partitions, and never a number of rows.

    Parameters
    ----------
    total : int
        The number of steps.
    unit : str
        What the steps are: levels, rounds or partitions.
    shown : bool
        Whether to draw the bar.
    work : str, default="Growing trees"
        What is done.
    """

    def __init__(self, total: int, unit: str, *, shown: bool, work: str = "Growing trees") -> None:
        self._total = total
        self._unit = unit
        self._shown = shown
        self._work = work
        self._done = 0
        self._started = time.monotonic()
        self._drawn = False

    def advance(self) -> None:
        """Count one finished step."""
        self._done += 1
        if self._shown and (self._drawn or time.monotonic() - self._started > _DELAY_SECONDS):
            self._drawn = True
            filled = _WIDTH * self._done // self._total
            bar = "#" * filled + "." * (_WIDTH - filled)
            end = "\n" if self._done == self._total else ""
            text = f"\r{self._work} [{bar}] {self._done}/{self._total} {self._unit}"
            print(text, end=end, file=sys.stderr, flush=True)
