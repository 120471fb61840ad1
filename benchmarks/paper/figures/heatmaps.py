"""The eight heat maps of DiPriMeExp and DiPriMeFlip on Appliances: ε against ρ, and K against the number of trees."""

from __future__ import annotations

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from benchmarks.paper.figures import published
from benchmarks.paper.figures.style import WIDTH
from benchmarks.paper.fits import Fit, Results

NORM = LogNorm(7.2, 11)
COLOURS = "cividis_r"  # light is good; safe for colour-blind readers and in greyscale


@dataclass(frozen=True)
class Map:
    """A heat map: a grid of fits, and the published numbers in thousandths."""

    title: str
    x_axis: str
    y_axis: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    grid: list[list[Fit]]
    published: tuple[tuple[float, ...], ...]

    def values(self, results: Results) -> np.ndarray:
        """Return our mean errors in thousandths."""
        return np.array([[1e3 * results[fit].mean() for fit in row] for row in self.grid])

    def draw(self, ax: Axes, results: Results) -> None:
        """Draw the cells, each with our number and the published one."""
        values = self.values(results)
        ax.pcolormesh(np.clip(values, NORM.vmin, NORM.vmax), norm=NORM, cmap=COLOURS, edgecolors="white", linewidth=1)
        for (i, j), value in np.ndenumerate(values):
            colour = "white" if NORM(value) > 0.45 else "black"
            place = {"ha": "center", "color": colour}
            ax.text(j + 0.5, i + 0.5, f"{value:.2f}", va="bottom", fontsize=8, **place)
            ax.text(j + 0.5, i + 0.44, f"({self.published[i][j]:.2f})", va="top", fontsize=6.5, **place)
        ax.set_xticks(np.arange(len(self.xs)) + 0.5, [f"{x:g}" for x in self.xs])
        ax.set_yticks(np.arange(len(self.ys)) + 0.5, [f"{y:g}" for y in self.ys])
        ax.tick_params(length=0)
        ax.grid(visible=False)
        for spine in ax.spines.values():
            spine.set_visible(False)
        ax.set(xlabel=self.x_axis, ylabel=self.y_axis)
        ax.set_title(self.title, loc="left")


@dataclass(frozen=True)
class HeatMaps:
    """The four heat maps of one method."""

    method: str
    repeats: int = 2

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"heatmaps-{self.method.lower()}"

    def maps(self) -> list[Map]:
        """Return the maps, row by row."""
        maps = []
        for partition, where in ((True, "disjoint parts"), (False, "all rows for each tree")):
            common = {"partition": partition, "accounting": "paper"}
            grid = [
                [
                    Fit("appliances", self.method, self.repeats, epsilon=epsilon, share=share, features=10, **common)
                    for share in published.MAP_SHARES
                ]
                for epsilon in published.MAP_EPSILONS
            ]
            beside = published.MAPS_OF_SHARES[self.method, partition]
            title = f"10 trees, depth 8, K = 10; {where}"
            maps.append(Map(title, "ρ", "ε", published.MAP_SHARES, published.MAP_EPSILONS, grid, beside))
            grid = [
                [
                    Fit("appliances", self.method, self.repeats, epsilon=10, trees=trees, features=features, **common)
                    for trees in published.MAP_TREES
                ]
                for features in published.MAP_FEATURES
            ]
            beside = published.MAPS_OF_TREES[self.method, partition]
            title = f"depth 8, ε = 10, ρ = 0.5; {where}"
            maps.append(Map(title, "trees", "K", published.MAP_TREES, published.MAP_FEATURES, grid, beside))
        return maps

    def fits(self) -> list[Fit]:
        """Return all fits of the figure."""
        return [fit for one in self.maps() for row in one.grid for fit in row]

    def draw(self, results: Results) -> Figure:
        """Draw the figure."""
        figure, axes = plt.subplots(2, 2, figsize=(WIDTH, 5.6), layout="constrained")
        for ax, one in zip(axes.flat, self.maps(), strict=True):
            one.draw(ax, results)
        bar = figure.colorbar(ScalarMappable(NORM, COLOURS), ax=axes, shrink=0.6, extend="both", aspect=30)
        bar.set_label(f"MSE × 10³ of {self.method}: diprime, and published (in brackets)")
        ticks = [7.5, 8, 8.5, 9, 10, 11]
        bar.set_ticks(ticks, labels=[f"{t:g}" for t in ticks])
        bar.ax.minorticks_off()
        return figure

    def _between_splits(self, results: Results) -> float:
        """Return the relative range of a cell's error between splits, averaged over cells."""
        scores = [results[fit] for fit in self.fits()]
        return float(np.mean([np.ptp(cell) / cell.mean() for cell in scores]))

    def caption(self, results: Results) -> list[str]:
        """Return a description of the figure, and its comparisons with the paper."""
        maps = self.maps()
        ratios = np.concatenate([(m.values(results) / np.array(m.published)).ravel() for m in maps])
        lines = [
            f"Mean squared error of {self.method} on Appliances with the paper's accounting, as the mean of "
            f"{self.repeats} random splits.\nNumbers in brackets are read off the authors' heat maps, which show one "
            "run on one split.\nLight cells have small errors.",
            f"Ratio of diprime's error to the published error: median {np.median(ratios):.3f}, from {ratios.min():.3f} "
            f"to {ratios.max():.3f}.",
            f"Difference of an error between splits: {self._between_splits(results):.0%}, as the mean over cells.",
        ]
        if self.method == "DiPriMeFlip":
            lines.append(
                "At ε = 3, permute-and-flip in the authors' code has larger errors than in diprime. A likely reason is "
                "that the authors' code chooses among intervals between data points, with the logarithm of their "
                "length in the score. In diprime, the choice is among thresholds of a fixed grid."
            )
        for one in (maps[0], maps[2]):
            values = one.values(results)
            rise = values[:, -1] / values[:, 0]
            lines.append(
                f"Factor of the error from ρ = 0.2 to 0.8 with {one.title}: "
                + ", ".join(f"{r:.2f} (ε = {e:g})" for r, e in zip(rise, one.ys, strict=True)) + "."
            )  # fmt: skip
        for one in (maps[1], maps[3]):
            best = one.values(results).argmin(axis=1)
            trees = ", ".join(f"{one.xs[b]:g} (K = {k:g})" for b, k in zip(best, one.ys, strict=True))
            lines.append(f"Best number of trees with {one.title}: {trees}.")
        return lines
