"""Records of tests that compare neighbouring data sets, as codes."""

import numpy as np


def encoded(domain, rows):
    """Encode rows of features and target."""
    table = np.empty((len(rows), domain.n_features), dtype=object)
    for i, row in enumerate(rows):
        table[i] = row[:-1]
    target = np.empty(len(rows), dtype=object)
    target[:] = [row[-1] for row in rows]
    return domain.encode(table), domain.encode_target(target)
