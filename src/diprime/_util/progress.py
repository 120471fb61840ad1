"""A progress bar on standard error for long fits."""

from __future__ import annotations

import sys
import time

_WIDTH = 30
_DELAY_SECONDS = 0.5


class Progress:
    """Count finished levels of trees, and draw a bar if the fit takes longer than half a second.

    The bar shows the number of levels, which is public, and never a number of rows.

    Parameters
    ----------
    total : int
        The number of levels.
    shown : bool
        Whether to draw the bar.
    """

    def __init__(self, total: int, *, shown: bool) -> None:
        self._total = total
        self._shown = shown
        self._done = 0
        self._started = time.monotonic()
        self._drawn = False

    def advance(self) -> None:
        """Count one finished level."""
        self._done += 1
        if self._shown and (self._drawn or time.monotonic() - self._started > _DELAY_SECONDS):
            self._drawn = True
            filled = _WIDTH * self._done // self._total
            bar = "#" * filled + "." * (_WIDTH - filled)
            end = "\n" if self._done == self._total else ""
            print(f"\rGrowing trees [{bar}] {self._done}/{self._total} levels", end=end, file=sys.stderr, flush=True)
