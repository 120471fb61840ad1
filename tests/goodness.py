"""Goodness-of-fit test for all samplers, with a false-alarm rate of one in ten million."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-7
MIN_EXPECTED = 25.0


def fits(counts: Sequence[int], probabilities: Sequence[float]) -> bool:
    """Return whether counts of categories fit their probabilities, by Pearson's chi-square.

    Categories with fewer than 25 expected draws are counted together, so that the chi-square distribution is a good
    approximation far into its tail. Categories with probability zero must not occur.
    """
    observed, p = np.asarray(counts, dtype=float), np.asarray([float(q) for q in probabilities])
    assert len(observed) == len(p)
    assert abs(p.sum() - 1) < 1e-9
    if observed[p == 0].any():
        return False
    expected = p * observed.sum()
    rare = expected < MIN_EXPECTED
    if expected[rare].sum() >= MIN_EXPECTED:
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    elif rare.any():  # still too few, so they are added to the smallest other category
        least = np.argmin(np.where(rare, np.inf, expected))
        observed[least] += observed[rare].sum()
        expected[least] += expected[rare].sum()
        observed, expected = observed[~rare], expected[~rare]
    assert len(expected) > 1, "more draws are needed"
    return bool(stats.chi2.sf(np.sum((observed - expected) ** 2 / expected), len(expected) - 1) > FALSE_ALARM)
