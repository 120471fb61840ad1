"""The public facts about a data set, and the encoding of its records as small integers.

The modules, in the order in which data pass through them:

- `features`, `integers`, `dates`: `Numeric` and `Categorical`, `Integer`, `Date`, the public facts about one column;
- `kinds`: the features that a domain declares, and those that records are coded as;
- `origin`: where a domain comes from: declared, learnt privately, or read from the data;
- `domain`: `Domain`, the features and the target of a data set, and the entry point to everything below;
- `files`: domains as TOML, JSON and dicts;
- `sizes`: how large a domain may be, so that models that use it can be written to files;
- `inference`: a domain read from the data, which is not private;
- `learning`, `ranges`: what is open in a domain, learnt privately;
- `tables`: arrays, lists and data frames as columns that are read a block of rows at a time;
- `moments`: dates and times as integers;
- `codes`: the meaning of the codes, and the thresholds between the cells of a numeric feature;
- `levels`: the position of a value among the levels of a categorical feature;
- `hashing`: the bucket of a value where levels are not known;
- `encoding`: rows and targets to codes, with the kernels;
- `checking`: how much of a table lies outside its domain, which is not private;
- `batches`: records that arrive in batches, kept as codes;
- `target_layout`: encoded targets as the integer vectors that histograms add up.

Except in `checking`, `inference` and `learning`, every value is read by itself: no record changes what another one is
encoded to. No error depends on a value, but for those of `inference`.
"""

from diprime.domain.codes import MISSING, OTHER, TARGET_UNITS
from diprime.domain.dates import Date
from diprime.domain.domain import Domain
from diprime.domain.encoding import RowReader
from diprime.domain.features import Categorical, Numeric
from diprime.domain.integers import Integer
from diprime.domain.origin import Origin
from diprime.domain.target_layout import Task

__all__ = [
    "MISSING",
    "OTHER",
    "TARGET_UNITS",
    "Categorical",
    "Date",
    "Domain",
    "Integer",
    "Numeric",
    "Origin",
    "RowReader",
    "Task",
]
