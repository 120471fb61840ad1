"""Branches of multi-way splits: one for each bin of a numeric feature or level of a categorical feature."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diprime.domain import MISSING, OTHER, Domain
from diprime.domain.codes import N_CODES
from diprime.domain.encoding import Rows

READ_BLOCK_ROWS = 1 << 14


class Branches:
    """The branch that a record takes at a split. It depends on the record and on the public domain only.

    A numeric feature has a branch for each of ``n_bins`` groups of cells, and one for missing values. A categorical
    feature has a branch for each level, one for levels outside the domain, and one for missing values.

    Parameters
    ----------
    domain : Domain
        The domain.
    n_bins : int
        The number of bins of equal width that numeric features are cut into.

    Attributes
    ----------
    table : array of shape (n_features, 256)
        The branch of each code.
    n_branches : array of shape (n_features,)
        The number of branches of each feature.

    Examples
    --------
    >>> from diprime import Categorical, Numeric
    >>> domain = Domain({"age": Numeric(0, 100), "sex": Categorical(["F", "M"])}, target=Numeric(0, 1))
    >>> branches = Branches(domain, n_bins=5)
    >>> branches.n_branches
    array([6, 4])
    >>> branches.read(domain.reader([[19, "M"], [21, "?"], [None, "F"]]))
    array([[0, 1, 5],
           [1, 2, 0]], dtype=uint8)
    """

    def __init__(self, domain: Domain, n_bins: int) -> None:
        self.table = np.zeros((domain.n_features, N_CODES), dtype=np.uint8)
        bins = np.minimum(domain.n_codes, n_bins)
        self.n_branches: npt.NDArray[np.int64] = np.where(domain.is_categorical, domain.n_codes + 2, bins + 1)
        for table, categorical, n_codes, n in zip(self.table, domain.is_categorical, domain.n_codes, bins, strict=True):
            codes = np.arange(n_codes)
            table[codes] = codes if categorical else codes * n // n_codes
            if categorical:
                table[OTHER] = n_codes
            table[MISSING] = n_codes + 1 if categorical else n

    def read(self, rows: Rows) -> npt.NDArray[np.uint8]:
        """Return an array of shape (n_features, n_rows): the branch that a row takes at a split on a feature."""
        out = np.empty((len(self.table), rows.n_rows), dtype=np.uint8)
        codes = np.empty((min(READ_BLOCK_ROWS, rows.n_rows), len(self.table)), dtype=np.uint8)
        for start in range(0, rows.n_rows, READ_BLOCK_ROWS):
            stop = min(start + READ_BLOCK_ROWS, rows.n_rows)
            block = codes[: stop - start]
            rows.read(start, stop, block)
            for j, table in enumerate(self.table):
                out[j, start:stop] = table[block[:, j]]
        return out
