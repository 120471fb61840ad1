"""Masks of numeric splits: which codes they send right, and how they are read back."""

import numpy as np

from diprime.domain import MISSING
from diprime.kernels.constants import MASK_BYTES
from diprime.model.masks import read_threshold_mask, threshold_mask

THRESHOLDS = np.repeat(np.arange(MISSING), 2)
MISSING_RIGHT = np.tile([False, True], MISSING)


def test_codes_above_the_threshold_go_right_and_missing_values_as_told():
    masks = threshold_mask(THRESHOLDS, MISSING_RIGHT)
    assert masks.shape == (len(THRESHOLDS), MASK_BYTES)
    bits = np.unpackbits(masks, axis=1, bitorder="little").astype(bool)
    assert (bits[:, :MISSING] == (np.arange(MISSING) > THRESHOLDS[:, None])).all()
    assert (bits[:, MISSING] == MISSING_RIGHT).all()


def test_reading_inverts_writing():
    thresholds, missing_right = read_threshold_mask(threshold_mask(THRESHOLDS, MISSING_RIGHT))
    assert (thresholds == THRESHOLDS).all()
    assert (missing_right == MISSING_RIGHT).all()


def test_no_splits_have_no_masks():
    masks = threshold_mask(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool))
    assert masks.shape == (0, MASK_BYTES)
    assert [len(part) for part in read_threshold_mask(masks)] == [0, 0]
