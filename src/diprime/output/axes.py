"""Matplotlib axes, imported only if something is plotted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def new_axes(ax: Axes | None, width: float = 6.4, height: float = 4.8) -> Axes:
    """Return the given axes, or those of a new figure, whose size is in inches."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("Plotting needs matplotlib: run pip install 'diprime[plot]'.") from None
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
