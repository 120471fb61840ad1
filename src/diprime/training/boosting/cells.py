"""The cells of a round, drawn without looking at records, and the complete tree that they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime.engines.scores import CellGrid
from diprime.kernels.constants import MASK_BYTES, MISSING
from diprime.model.trees import Structure
from diprime.training.boosting.grid import Grid


@dataclass(frozen=True)
class Cut:
    """A feature cut into cells.

    Attributes
    ----------
    feature : int
        The feature.
    cells : array of shape (256,)
        The cell of each code.
    depth : int
        There are 2^depth cells.
    """

    feature: int
    cells: npt.NDArray[np.int64]
    depth: int

    @classmethod
    def draw(cls, grid: Grid, feature: int, n_cells: int, uniforms: Sequence[float]) -> Cut:
        """Cut a feature into at most ``n_cells``, a power of two, of about equally many records.

        The cuts are moved together by a random part of a cell. Missing numbers are in a random cell.

        Parameters
        ----------
        grid : Grid
            The bins of all features.
        feature : int
            The feature.
        n_cells : int
            The number of cells.
        uniforms : sequence of three floats
            Random numbers in [0, 1).
        """
        bins = grid.bins(feature, int(uniforms[0] * grid.n_orders))
        n_bins = int(bins.max()) + 1
        depth = (min(n_cells, max(n_bins, 2)) - 1).bit_length()
        n_cells = 1 << depth
        if n_bins <= n_cells:
            cells = bins.copy()
        else:
            cuts = np.rint((np.arange(1, n_cells) + uniforms[1] - 0.5) / n_cells * n_bins)
            cells = np.searchsorted(cuts, bins, side="right").astype(np.int64)
        if not grid.is_categorical(feature):
            cells[MISSING] = int(uniforms[2] * n_cells)
        return cls(feature, cells, depth)

    @property
    def n_cells(self) -> int:
        """The number of cells."""
        return 1 << self.depth

    def masks(self, level: int) -> npt.NDArray[np.uint8]:
        """Return the masks of the nodes of a level of the tree over the cells: upper halves go right."""
        width = self.n_cells >> level
        middles = np.arange(width // 2, self.n_cells, width)
        return np.packbits(self.cells >= middles[:, None], axis=1, bitorder="little")


def cell_grid(cuts: Sequence[Cut]) -> CellGrid:
    """Return the cells of a round for an engine."""
    cells = np.stack([cut.cells for cut in cuts])
    n_cells = 1
    for cut in cuts:
        n_cells *= cut.n_cells
    if len(cuts) > 1:
        cells[0] *= cuts[1].n_cells
    return CellGrid(
        np.array([cut.feature for cut in cuts], dtype=np.int32), np.ascontiguousarray(cells.astype(np.uint8)), n_cells
    )


def cell_tree(cuts: Sequence[Cut]) -> Structure:
    """Return the tree whose leaves, from left to right, are the cells of a round."""
    features: list[npt.NDArray[np.int32]] = []
    masks: list[npt.NDArray[np.uint8]] = []
    repeat = 1
    for cut in cuts:
        for level in range(cut.depth):
            of_level = np.tile(cut.masks(level), (repeat, 1))
            features.append(np.full(len(of_level), cut.feature, dtype=np.int32))
            masks.append(of_level)
        repeat *= cut.n_cells
    return Structure(np.concatenate(features)[None], np.concatenate(masks)[None].reshape(1, -1, MASK_BYTES))
