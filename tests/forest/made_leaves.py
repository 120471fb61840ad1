"""Released leaves that a test has made itself."""

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from diprime.model.estimates import LeafSums

# Sums of up to three trees of up to sixteen leaves.
SUMS = st.tuples(st.integers(1, 3), st.integers(0, 4), st.integers(1, 4)).flatmap(
    lambda shape: arrays(
        np.float64, (shape[0], 2 ** shape[1], shape[2]), elements=st.floats(-1e6, 1e6, allow_subnormal=False)
    )
)


def of_sums(sums, noise_variance=0.0):
    """Return leaves with these sums."""
    sums = np.asarray(sums, dtype=np.float64)
    return LeafSums(sums, sums.sum(axis=-1), noise_variance)


def assert_distributions(means, shape):
    """Check that every leaf has probabilities that sum to one."""
    assert means.shape == shape
    assert (means >= 0).all()
    assert (means <= 1).all()
    assert means.sum(axis=-1) == pytest.approx(np.ones(shape[:-1]))
