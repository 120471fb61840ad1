"""Constants that the kernels share with the rest of the library. This file is never compiled."""

from __future__ import annotations

MISSING = 255
"""Code of missing values, for all features."""
OTHER = 254
"""Code of values that are not among the categories of a feature."""
CELLS = MISSING
"""Maximum number of bins of a numeric feature, which have the codes below `MISSING`."""
N_CODES = 256
"""Number of codes of a feature. A code is one byte."""
MASK_BYTES = 32
"""Size of a mask, which contains one bit for each code."""
ABSENT_COST = 1 << 62
"""Cost of a slot without a candidate, above the cost of any split."""
