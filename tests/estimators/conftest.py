"""Rows and classes of the domain YES_NO."""

import numpy as np
import pytest


@pytest.fixture(scope="package", name="X")
def rows():
    return np.random.default_rng(0).uniform(0, 10, (600, 3))


@pytest.fixture(scope="package")
def y(X):
    return np.where(X[:, 1] > 5, "yes", "no")
