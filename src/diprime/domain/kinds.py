"""The kinds of features: those that a domain declares, one for each column, and those that records are coded as.

Every declared feature is one coded feature, except for `Date`, which may be several. Engines, training and models know
coded features only: whether they are categorical, and how many codes they have.
"""

from __future__ import annotations

from collections.abc import Mapping

from diprime.domain.dates import Date, DatePart
from diprime.domain.features import Categorical, Numeric
from diprime.domain.integers import Integer

Feature = Numeric | Integer | Date | Categorical
"""A declared feature: the public facts about a column."""
Target = Numeric | Categorical
"""The public facts about the target."""
Ordered = Numeric | Integer | Date | DatePart
"""A coded feature whose codes are cells in an order; it has ``n_cells``."""
Coded = Ordered | Categorical
"""A coded feature."""


def coded_features(features: Mapping[str, Feature]) -> dict[str, Coded]:
    """Return the coded features of declared ones, in order, by name.

    Raise a ValueError if two have the same name, as the hours of ``when`` and a column ``when.hour`` would.
    """
    result: dict[str, Coded] = {}
    for name, feature in features.items():
        coded = feature.coded(name) if isinstance(feature, Date) else {name: feature}
        for other in coded:
            if other in result or (other != name and other in features):
                raise ValueError(f"The parts of {name!r} have a feature {other!r}, as another column has; rename one.")
        result |= coded
    return result
