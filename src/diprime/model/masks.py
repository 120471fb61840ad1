"""Splits as masks: bit ``code`` says whether rows with that code go right."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from diprime.kernels.constants import MISSING, N_CODES

Masks = npt.NDArray[np.uint8]
Features = npt.NDArray[np.int32]


def threshold_mask(threshold: npt.NDArray[np.int64], missing_right: npt.NDArray[np.bool_]) -> Masks:
    """Return the masks of numeric splits: codes above the threshold go right.

    Parameters
    ----------
    threshold : array of shape (n_splits,)
        The last code that goes left.
    missing_right : array of shape (n_splits,)
        Whether missing values go right.

    Returns
    -------
    masks : array of shape (n_splits, 32)
        The masks, least significant bit first.
    """
    bits = (np.arange(N_CODES) > threshold[:, None]).astype(np.uint8)
    bits[:, MISSING] = missing_right
    return np.packbits(bits, axis=1, bitorder="little")


def read_threshold_mask(masks: Masks) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return the thresholds of numeric splits, and whether missing values go right: the inverse of `threshold_mask`.

    The set bits of such a mask are those of the codes above the threshold, so their number determines it.
    """
    bits = np.unpackbits(masks, axis=1, bitorder="little")
    return MISSING - 1 - bits[:, :MISSING].sum(axis=1, dtype=np.int64), np.ascontiguousarray(bits[:, MISSING])
