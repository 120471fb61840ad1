"""Codes that a test has made itself, as the rows that engines and forests read."""

import numpy as np

from diprime.engines.local import LocalEngine
from diprime.privacy.randomness import RandomSource


class EncodedRows:
    numbers = None

    def __init__(self, codes):
        self.codes = codes
        self.n_rows, self.n_features = codes.shape

    def read(self, start, stop, out):
        out[:] = self.codes[start:stop]


class FixedAssignment:
    """Trees that a test has chosen for the rows."""

    def __init__(self, trees, n_trees):
        self.trees = trees
        self.n_trees = n_trees

    def draw(self, n_rows, source, threads):
        assert n_rows == len(self.trees)
        return self.trees


def local_engine(codes, target, trees, n_trees, layout, threads, kind=LocalEngine):
    """Return an engine whose rows are at the roots of trees that the test has chosen."""
    engine = kind(EncodedRows(codes), target, layout, threads)
    engine.assign_trees(FixedAssignment(np.asarray(trees, dtype=np.uint16), n_trees), RandomSource(0))
    engine.start()
    return engine
