"""Public facts about a data set, and the encoding of its records as small integers.

The modules, in the order in which data pass through them:

- `features`: `Numeric`, `Integer`, `Categorical` and `Date`, the public facts about one column;
- `domain`: `Domain`, the features and the target of a data set, and the entry point to the other modules;
- `files`: domains as TOML, JSON and dicts, their origin, and their maximum size;
- `learning`: private learning of undeclared ranges and categories;
- `columns`: arrays, lists and data frames as columns that are read in blocks of rows;
- `values`: the canonical form of a value, and dates and times as integers;
- `encoding`: encoding of rows and targets, and of target codes as integers that add up;
- `records`: batches of records, and the person of each record;
- `checking`: inferred domains, and counts of values outside a domain; neither is private.

Except in `checking` and `learning`, every value is read by itself, so no record affects the encoding of another one. No
error depends on a value, except while a domain is inferred from the data.
"""

from diprime.domain.domain import Domain
from diprime.domain.encoding import RowReader, Task
from diprime.domain.features import MISSING, OTHER, TARGET_UNITS, Categorical, Date, Integer, Numeric
from diprime.domain.files import Origin

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
