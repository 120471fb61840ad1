"""Numbers that the kernels share with the rest of the library. This file is never compiled."""

from __future__ import annotations

MISSING = 255
"""The code of a missing value, for every feature."""
OTHER = 254
"""The code of a value that is not among a categorical feature's levels."""
CELLS = MISSING
"""The number of cells of a numeric range: they have the codes below `MISSING`."""
N_CODES = 256
"""The number of codes of a feature: a code is one byte."""
MASK_BYTES = 32
"""The size of a mask, which has one bit for each code."""
ABSENT_COST = 1 << 62
"""The cost of a slot that holds no candidate: above every cost that a split can have."""
