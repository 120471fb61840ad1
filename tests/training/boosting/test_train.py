"""The start of boosting follows from what was released; test_whole_fits.py has the rest of the training."""

import numpy as np
import pytest

from diprime.privacy.randomness import RandomSource
from diprime.training.boosting import defaults, train


@pytest.mark.parametrize("weight", [1, 4])
@pytest.mark.parametrize(("start", "size"), [(train._class_start, 3), (train._numeric_start, defaults.N_TARGET_BINS)])
def test_the_start_follows_from_what_was_released_and_not_from_the_targets(start, size, weight, monkeypatch):
    released = np.full((1, size), 100 * weight)
    monkeypatch.setattr(train, "rounded_gaussian", lambda *arguments: released)
    starts = [
        start(lambda true=true: np.array([true] + [0] * (size - 1)), weight, None, RandomSource(0))
        for true in (0, 1, 10**6)
    ]
    assert [n_rows for _, n_rows in starts] == 3 * [100.0 * size]
    assert all(np.array_equal(offset, starts[0][0]) for offset, _ in starts)
