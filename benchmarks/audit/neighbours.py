"""Neighbouring tables that differ by one canary: a record, or a person, as unlike all others as can be.

The others are chosen so that the canary changes as many releases as far as a record can. What is small or empty without
the canary is not with it; splits that are good without it become as bad as those that suit it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime import Categorical, Domain, Numeric

Array = npt.NDArray[Any]

CLASSES = ["no", "yes"]
BIT = Numeric(edges=[0.5])  # a number of which one bit is seen
CATEGORIES = Categorical(["a", "b"])


@dataclass(frozen=True)
class Neighbours:
    """Two tables, of which one has the records of a canary besides.

    Attributes
    ----------
    name : str
        What the canary is.
    domain : Domain
        What is public.
    rows : list of tuples
        The records of the others: their features, and the target at the end.
    canary : list of tuples
        The records of the canary.
    of_persons : bool
        Whether all records of the canary are one person, and each of the others is a person.
    """

    name: str
    domain: Domain
    rows: Sequence[tuple[Any, ...]]
    canary: Sequence[tuple[Any, ...]]
    of_persons: bool = False

    def __post_init__(self) -> None:
        if self.domain.is_complete and (self.domain.encode_target(self.table(with_canary=True)[1]) < 0).any():
            raise ValueError(f"{self.name}: a target is not in the domain, so its record would not count.")

    def table(self, *, with_canary: bool) -> tuple[Array, Array, Array | None]:
        """Return features, target and persons of one of the two tables; the canary comes last."""
        rows = [*self.rows, *self.canary] if with_canary else list(self.rows)
        X = np.empty((len(rows), len(self.domain.column_names)), dtype=object)
        y = np.empty(len(rows), dtype=object)
        for i, row in enumerate(rows):
            X[i], y[i] = row[:-1], row[-1]
        numeric = [isinstance(f, Numeric) for f in self.domain.features.values()]
        groups = np.minimum(np.arange(len(rows)), len(self.rows)) if self.of_persons else None
        typed_y = y.astype(np.float64) if isinstance(self.domain.target, Numeric) else y
        return X.astype(np.float64) if all(numeric) else X, typed_y, groups


def _classes(*features: Any, n_classes: int = 2) -> Domain:
    categories = CLASSES if n_classes == 2 else [f"class {k}" for k in range(n_classes)]
    return Domain({f"x{j}": feature for j, feature in enumerate(features)}, target=Categorical(categories))


def _numbers(*features: Any) -> Domain:
    return Domain({f"x{j}": feature for j, feature in enumerate(features)}, target=Numeric(0, 1))


def empty_table(*, numbers: bool = False) -> Neighbours:
    """Return the first row of an empty table."""
    domain = _numbers(BIT) if numbers else _classes(BIT)
    return Neighbours("first row of an empty table", domain, [], [(1.0, 1.0 if numbers else "yes")])


def boundary_value() -> Neighbours:
    """Return a record whose value and target are at the ends of their ranges, which no other is near to."""
    domain = _numbers(Numeric(0, 1))
    return Neighbours("boundary value", domain, [(0.0, 0.0)] * 8, [(1.0, 1.0)])


def last_class(n_classes: int = 4) -> Neighbours:
    """Return the only record of the last class."""
    domain = _classes(BIT, n_classes=n_classes)
    first, *_, last = domain.target.categories
    return Neighbours("last class", domain, [(0.0, first)] * 4, [(0.0, last)])


def lone_category() -> Neighbours:
    """Return the only record of a category, among others whose categories balance each other."""
    domain = _classes(Categorical(["a", "b", "c"]))
    return Neighbours("only record of a category", domain, [("a", "no"), ("b", "no")], [("c", "yes")])


def missing_everything(*, numbers: bool = False) -> Neighbours:
    """Return a record without any value, among others whose values balance each other."""
    domain = _numbers(BIT) if numbers else _classes(BIT)
    targets = (0.0, 1.0) if numbers else ("no", "yes")
    return Neighbours(
        "record without any value", domain, [(0.0, targets[0]), (1.0, targets[0])], [(float("nan"), targets[1])]
    )


def off_balance(n_features: int = 1) -> Neighbours:
    """Return a record on the side of a split that has none, where two other splits are balanced.

    With one row in cell 0 and one without a value, the splits that separate these two cost 0, and the one that
    separates cell 1 costs 2. A record in cell 1 makes all of them cost 1.
    """
    domain = _classes(*[BIT] * n_features)
    rows = [(0.0,) * n_features + ("no",), (float("nan"),) * n_features + ("no",)]
    return Neighbours("unique value", domain, rows, [(1.0,) * n_features + ("yes",)])


def second_row(n_features: int) -> Neighbours:
    """Return a second row, which differs from the first in all features.

    With one row, all splits are as bad. With both, those that separate the two cost 0, and the others cost 2.
    """
    domain = _classes(*[BIT] * n_features)
    rows, canary = [(0.0,) * n_features + ("no",)], [(1.0,) * n_features + ("no",)]
    return Neighbours("second row of a table", domain, rows, canary)


def misfit(n_rows: int = 80, *, numbers: bool = False) -> Neighbours:
    """Return a record whose class is that of one feature's other side, for a tree with one split.

    The second feature separates the classes of the others. The first leaves one record on the wrong side, so it costs
    about one more. The canary is on the wrong side of the second, which then costs about as much.
    """
    domain = _numbers(BIT, BIT) if numbers else _classes(BIT, BIT)
    no, yes = (0.0, 1.0) if numbers else CLASSES
    half = n_rows // 2
    rows = [(0.0, 0.0, no)] * half + [(1.0, 1.0, yes)] * (n_rows - half - 1) + [(0.0, 1.0, yes)]
    return Neighbours("misfit of one split", domain, rows, [(1.0, 0.0, yes)])


def misfit_twice(*, numbers: bool = False) -> Neighbours:
    """Return the same for a tree with two splits on a path: a record that is a misfit at both.

    On the right side of the first feature, where the canary is, the third feature separates the few records of the
    other class, and the canary is among those; the fourth leaves one record on the wrong side.
    """
    domain = _numbers(BIT, BIT, BIT, BIT) if numbers else _classes(BIT, BIT, BIT, BIT)
    no, yes = (0.0, 1.0) if numbers else CLASSES
    rows = [
        *[(0.0, 0.0, 1.0, 1.0, no)] * 40,
        (0.0, 1.0, 1.0, 1.0, yes),
        *[(1.0, 1.0, 1.0, 1.0, yes)] * 80,
        *[(1.0, 1.0, 0.0, 0.0, no)] * 9,
        (1.0, 1.0, 0.0, 1.0, no),
    ]
    return Neighbours("misfit of two splits", domain, rows, [(1.0, 0.0, 0.0, 1.0, yes)])


def low_target() -> Neighbours:
    """Return a record with the least target, where six records in seven are above the others'.

    Without it, the first seventh ends anywhere between the two targets; with it, the thresholds below are best.
    """
    domain = _numbers(BIT, BIT)
    rows = [(0.0, 0.0, 0.2)] + [(0.0, 0.0, 0.95)] * 6
    return Neighbours("smallest target", domain, rows, [(0.0, 0.0, 0.0)])


def person(n_records: int) -> Neighbours:
    """Return a person with several records."""
    domain = _classes(BIT)
    return Neighbours(f"a person with {n_records} records", domain, [(0.0, "no")] * 2, [(1.0, "yes")] * n_records, True)


def alone_among(n_rows: int, n_features: int = 2, n_classes: int = 2) -> Neighbours:
    """Return the only record of its class and its values, among many that are all alike."""
    domain = _classes(*[BIT] * n_features, n_classes=n_classes)
    categories = domain.target.categories
    return Neighbours(
        "only record of a class, others identical",
        domain,
        [(0.0,) * n_features + (categories[0],)] * n_rows,
        [(1.0,) * n_features + (categories[-1],)],
    )


def one_more_value(value: float, n_others: int) -> Neighbours:
    """Return a record with the value that so many others have, where a range of it is open.

    With one record more, their number reaches the least from which a range is learnt. There is another column, without
    which learning would be refused.
    """
    domain = Domain({"x0": Numeric(), "x1": Numeric(0, 1)}, target=Categorical(CLASSES))
    return Neighbours(
        "one more record with a rare value", domain, [(value, 0.5, "no")] * n_others, [(value, 0.5, "no")]
    )


def one_more_in_category(n_others: int) -> Neighbours:
    """Return a record with a category that so many others have, which then reaches the threshold without noise."""
    domain = Domain({"x": Categorical()}, target=Categorical(CLASSES))
    return Neighbours("one more record with a category", domain, [("a", "no")] * n_others, [("a", "no")])
