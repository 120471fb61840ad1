"""Real tables of two-valued columns, small enough that every possible row can be listed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diprime import Categorical, Domain

Rows = npt.NDArray[np.int64]

# Ten columns each. The paper's attack has a variable for each value of each row; ours has one for each possible row.
BREAST = (0, 1, 4, 8, 9, 11, 14, 18, 21, 24)
CREDIT = ("LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE", "PAY_0", "PAY_4", "BILL_AMT1", "PAY_AMT1", "PAY_AMT4")
SMOOTHING = 100.0  # the rows that the product of the marginals counts as, beside the rows of the population


@dataclass(frozen=True)
class BinaryTable:
    """A table of two-valued columns, the class last.

    Attributes
    ----------
    name : str
        What it is called in the report.
    rows : array of shape (n_rows, n_columns)
        Zeros and ones.
    """

    name: str
    rows: Rows

    @property
    def domain(self) -> Domain:
        """What is public: that columns have two values."""
        n_features = self.rows.shape[1] - 1
        return Domain({f"x{i}": Categorical([0, 1]) for i in range(n_features)}, target=Categorical([0, 1]))

    def draw(self, n_rows: int, seed: int) -> tuple[Rows, Rows]:
        """Return random training rows, and all other rows: the population that an attacker may know."""
        order = np.random.default_rng(seed).permutation(len(self.rows))
        return self.rows[order[:n_rows]], self.rows[order[n_rows:]]


def possible_rows(n_columns: int) -> Rows:
    """Return all rows of so many two-valued columns, in the order of binary numbers."""
    return np.array(list(itertools.product((0, 1), repeat=n_columns)), dtype=np.int64)


def histogram(rows: Rows) -> npt.NDArray[np.int64]:
    """Return how often each of the possible rows occurs. A table without an order of its rows is nothing else."""
    weights = 1 << np.arange(rows.shape[1])[::-1]
    return np.bincount(rows @ weights, minlength=1 << rows.shape[1])


def population_prior(population: Rows) -> npt.NDArray[np.float64]:
    """Return the probability of each possible row in a population: its frequency, smoothed by the marginals."""
    ones = population.mean(axis=0)
    product = np.prod(np.where(possible_rows(len(ones)) == 1, ones, 1 - ones), axis=1)
    frequencies = histogram(population) + SMOOTHING * np.maximum(product, 1e-9)
    return np.asarray(frequencies / frequencies.sum())


def breast_cancer() -> BinaryTable:
    """Return ten measurements of scikit-learn's breast-cancer data, each above its median or not."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return BinaryTable("breast cancer", _above_median(X[:, BREAST], y))


def credit() -> BinaryTable:
    """Return ten columns of the credit data, one of the paper's tables, each above its median or not."""
    from benchmarks.data import load

    data = load("credit")
    return BinaryTable("credit default", _above_median(data.X[list(CREDIT)].to_numpy(dtype=float), data.y))


def _above_median(X: npt.NDArray[np.float64], y: npt.NDArray[np.generic]) -> Rows:
    return np.column_stack([np.median(X, axis=0) < X, y.astype(np.int64)]).astype(np.int64)
