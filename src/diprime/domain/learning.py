"""Learning a domain privately: ranges by the exponential mechanism, levels by thresholded counts or hash buckets.

docs/privacy.md has the proof. What is open in a domain is known before any row is read, and so is what each release
costs; the plan adds up to epsilon and delta, or to nothing if nothing needs a release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime.domain import moments
from diprime.domain.codes import BUCKETS
from diprime.domain.dates import Date, PartName
from diprime.domain.encoding import match_columns
from diprime.domain.features import Categorical, Numeric
from diprime.domain.hashing import plain_value
from diprime.domain.integers import Integer
from diprime.domain.kinds import Feature, Target, coded_features
from diprime.domain.persons import MIXED_GROUPS, PersonIndex, has_groups, one_record_each
from diprime.domain.ranges import Intervals, parts, per_doubling, scales
from diprime.domain.sizes import WHOLE_FILE, Room, fitting
from diprime.domain.tables import Column, read_table, read_target, row_blocks
from diprime.domain.target_layout import Task
from diprime.privacy import spending
from diprime.privacy.charges import Charge, Receipt
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import ApproximateDP, Epsilon, PrivacyLoss, PureEpsilon, share_of
from diprime.privacy.mechanisms.laplace import DISCRETE_LAPLACE, discrete_laplace
from diprime.privacy.mechanisms.selection import Selection
from diprime.privacy.mechanisms.threshold import THRESHOLDED_LAPLACE, frequent
from diprime.privacy.randomness import RandomSource
from diprime.privacy.spending import Spendable

COUNT_SHARE = Fraction(1, 20)
"""The share of the number of records, which ranges need to know roughly."""
SCALE_SHARE = Fraction(9, 20)
"""The share of the first of the two steps that choose a range."""
TARGET_WEIGHT = 6
"""How many times the part of a feature the range of a numeric target gets: all that is predicted depends on it."""
NO_CLASS = "no class is frequent enough"
WORDS_FOR_BUDGETS = "ranges and levels of a domain"

_MAX_UNIT = 1 << 16
_UNITS_PER_EPSILON = 1 << 12  # so that tables of weights are not too long
_MAX_EPSILON = 1 << 8  # above it, penalties do not shrink further: they still decide between intervals of equal costs

_YEAR_2000 = moments.of_date(date(2000, 1, 1))
_MAX_MOMENT = float(1 << 62)
_MAX_INTEGER = float(1 << 62)  # noise may choose a range beyond what integers have; it stays one of numbers

TARGET = None
"""Stands for the target among the names of columns."""

Batches = Callable[[], Iterable[tuple[Any, ...]]]
"""Returns the records, their targets and perhaps persons, in batches; it is called several times."""
Used = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LearningPlan:
    """What the releases of learning a domain get.

    Attributes
    ----------
    epsilon : Fraction or inf
        The budget; 0 if there is nothing to release.
    delta : Fraction
        The budget of levels.
    count : Charge or None
        The number of records.
    ranges : mapping of str to pairs of Charge
        The scales and the ranges of open columns, of features and of the target (``"target"``).
    levels : Charge or None
        The levels of open columns, if they are counted.
    room : Room
        The room in a file for the levels of each column.
    """

    epsilon: Epsilon
    delta: Fraction
    count: Charge | None
    ranges: Mapping[str, tuple[Charge, Charge]]
    levels: Charge | None
    room: Room = WHOLE_FILE

    def __post_init__(self) -> None:
        spent = sum((charge.total for charge in self.charges), Fraction(0))
        if spent != self.epsilon:
            raise AssertionError(f"The plan of the domain spends {spent}, and its budget is {self.epsilon}.")

    @property
    def charges(self) -> list[Charge]:
        """All charges."""
        of_ranges = [charge for pair in self.ranges.values() for charge in pair]
        return [charge for charge in (self.count, *of_ranges, self.levels) if charge is not None]

    @property
    def loss(self) -> PrivacyLoss:
        """What all charges add up to."""
        return sum((charge.loss for charge in self.charges), PrivacyLoss())

    @classmethod
    def make(cls, features: Mapping[str, Feature], target: Target, epsilon: Epsilon, delta: Fraction) -> LearningPlan:
        """Plan the releases for what is open, before any row is read."""
        n_ranges = sum(isinstance(feature, Numeric) and feature.is_open for feature in features.values())
        n_levels = len(_open_levels(features, target)) if delta else 0
        if isinstance(target, Categorical) and target.is_open and not delta:
            raise ValueError(
                "The classes of the target are open, and without a delta they cannot be learnt; list them, "
                "Categorical(['no', 'yes']), or give a delta."
            )
        weights = {"features": n_ranges, "target": TARGET_WEIGHT * (isinstance(target, Numeric) and target.is_open)}
        total = sum(weights.values()) + n_levels
        if not total:
            return cls(Fraction(0), Fraction(0), None, {}, None)
        count_share = COUNT_SHARE if any(weights.values()) else Fraction(0)
        part = (1 - count_share) / total  # of one column
        ranges = {
            group: _range_charges(group, share_of(epsilon, part * weight), n_ranges if group == "features" else 1)
            for group, weight in weights.items()
            if weight
        }
        count = _count_charge(share_of(epsilon, count_share)) if count_share else None
        levels = _levels_charge(share_of(epsilon, part), delta / n_levels, n_levels) if n_levels else None
        return cls(epsilon, delta if n_levels else Fraction(0), count, ranges, levels)


def _count_charge(epsilon: Epsilon) -> Charge:
    return Charge(
        "domain: number of records", DISCRETE_LAPLACE, "L1 sensitivity 1", PureEpsilon(epsilon), calibrated_to=1
    )


def _range_charges(group: str, epsilon: Epsilon, n_columns: int) -> tuple[Charge, Charge]:
    """Return the charges of both steps, for columns that get epsilon together."""
    what = "ranges of features" if group == "features" else "range of the target"
    shares = {f"domain: scales of {what}": SCALE_SHARE, f"domain: {what}": 1 - SCALE_SHARE}
    first, second = (
        _selection_charge(kind, share_of(epsilon, share / n_columns), n_columns) for kind, share in shares.items()
    )
    return first, second


def _selection_charge(kind: str, epsilon: Epsilon, n_columns: int) -> Charge:
    unit = cost_unit(epsilon)
    composition = "one record has one value in each column"
    return Charge(
        kind,
        "exponential mechanism",
        f"cost range {unit}",
        PureEpsilon(epsilon),
        n_columns,
        composition,
        calibrated_to=unit,
    )


def _levels_charge(epsilon: Epsilon, delta: Fraction, n_columns: int) -> Charge:
    composition = "one record has one value in each column"
    measure = ApproximateDP(epsilon, delta)
    return Charge(
        "domain: levels", THRESHOLDED_LAPLACE, "L1 sensitivity 1", measure, n_columns, composition, calibrated_to=1
    )


def cost_unit(epsilon: Epsilon) -> int:
    """Return what a record outside of an interval costs, in integers: the finer, the more exact penalties are."""
    return max(1, math.floor(min(epsilon * _UNITS_PER_EPSILON, Fraction(_MAX_UNIT))))


def is_open(features: Mapping[str, Feature], target: Target) -> bool:
    """Return whether anything is left to learn."""
    return target.is_open or any(feature.is_open for feature in features.values())


def open_features(X: Any, known: Mapping[str, Feature]) -> dict[str, Feature]:
    """Return a feature for each column of a table: what is known of it, or an open one of the kind of its dtype."""
    table = read_table(X)
    if table.names is None and len(known) == table.n_columns:
        return dict(known)  # by position, as everywhere
    names = table.names or [f"x{j}" for j in range(table.n_columns)]
    unknown = [name for name in known if name not in names]
    if unknown:
        raise ValueError(f"X has no column {unknown[0]!r}; give features for columns of X only.")
    return {name: known.get(name) or _open_feature(table.column(j)) for j, name in enumerate(names)}


def open_target(y: Any, task: Task | None) -> Target:
    """Return an open target of a task, or of the kind of its dtype."""
    column = read_target(y)
    if task not in (None, "classification", "regression"):
        raise ValueError(f"task is {task!r}; use 'classification' or 'regression'.")
    if column.boolean and task != "regression":
        return Categorical([False, True])
    if task is None and column.kind == "number" and not column.dtype.lower().startswith("float"):
        raise ValueError("y holds whole numbers, which may be classes or a quantity; give task or target.")
    is_number = task == "regression" if task is not None else column.kind == "number"
    return Numeric() if is_number else Categorical()


def _open_feature(column: Column) -> Feature:
    """Return an open feature by the dtype of a column, which is public; its values are not looked at."""
    if column.boolean:
        return Categorical([False, True])
    return Numeric() if column.kind in ("number", "date") else Categorical()


def learn(
    features: Mapping[str, Feature],
    target: Target,
    batches: Batches,
    plan: LearningPlan,
    source: RandomSource,
    budgets: Sequence[Spendable] = (),
    *,
    of_persons: bool = False,
) -> tuple[dict[str, Feature], Target, Ledger]:
    """Learn what is open in features and a target, and return them with the ledger of what that cost.

    Where the batches say whose each record is, one record of each person is used, drawn at random.
    """
    ledger = Ledger(plan.epsilon, delta=plan.delta, unit_records=1 if of_persons else None)
    if source.seeded:
        ledger.waive("random_state was set, so whoever knows it can take the noise off the domain.")
    budgets = spending.in_force(budgets)
    spending.refuse_waived(ledger.waivers, WORDS_FOR_BUDGETS, budgets)
    spending.check(plan.loss, WORDS_FOR_BUDGETS, budgets, unit=ledger.unit)
    payments = _Payments(plan.loss, ledger, budgets)
    learnt = _with_target(features, target)
    of_columns = _Columns(list(features), batches, source if of_persons else None)
    bounds = _learn_ranges(learnt, of_columns, plan, payments, source)
    levels = _learn_levels(learnt, of_columns, plan, payments, source)
    learnt |= bounds
    learnt |= {name: Categorical(values) for name, values in levels.items()}
    new_target = learnt.pop(TARGET)
    assert isinstance(new_target, Target)
    # Without a delta, and where no value is frequent, a public hash function makes codes of values.
    closed = {
        str(name): Categorical(buckets=BUCKETS) if feature.is_open else feature for name, feature in learnt.items()
    }
    return closed, Categorical([NO_CLASS]) if new_target.is_open else new_target, ledger


class _Payments:
    """Pays from the ledger, and charges the budgets of the study right before the first release."""

    def __init__(self, loss: PrivacyLoss, ledger: Ledger, budgets: Sequence[Spendable]) -> None:
        self._loss = loss
        self._ledger = ledger
        self._budgets = budgets

    def pay(self, charge: Charge) -> Receipt:
        if not self._ledger.charges:
            ledger = self._ledger
            ledger.studies = spending.charge(
                self._loss, WORDS_FOR_BUDGETS, self._budgets, unit=ledger.unit, waivers=ledger.waivers
            )
        return self._ledger.pay(charge)


def _persons_of(batch: tuple[Any, ...]) -> Any:
    if not has_groups(batch):
        raise ValueError(MIXED_GROUPS)
    return batch[-1]


class _Columns:
    """The columns of all batches, by name; the target's name is `TARGET`. With each come the rows that are used.

    With a source, the batches have persons, and one record of each person is used. None stands for all rows.
    """

    def __init__(self, names: list[str], batches: Batches, source: RandomSource | None) -> None:
        self._names = names
        self._batches = batches
        self._used: list[Used] | None = None
        if source is not None:
            index = PersonIndex()
            persons = [index.encode(_persons_of(batch)) for batch in batches()]
            numbers = np.concatenate([np.zeros(0, dtype=np.int64), *persons])
            drawn = one_record_each(numbers, source.bits_apart(len(numbers)))
            self._used = np.split(drawn, np.cumsum([len(p) for p in persons])[:-1]) if persons else []

    def __iter__(self) -> Iterator[tuple[int, Used | None, Callable[[str | None], Column]]]:
        for i, batch in enumerate(self._batches()):
            X, y, *_ = batch
            if self._used is None and has_groups(batch):
                raise ValueError(MIXED_GROUPS)
            table, target = read_table(X), read_target(y)
            used = None if self._used is None else self._used[i]
            sizes = [table.n_rows, target.n_rows] + ([] if used is None else [len(used)])
            if len(set(sizes)) > 1:
                raise ValueError(f"Found input variables with inconsistent numbers of samples: {sizes}.")
            n_used = table.n_rows if used is None else int(used.sum())
            column = match_columns(self._names, table)
            positions = {name: j for j, name in enumerate(self._names)}
            yield n_used, used, lambda name, c=column, t=target, p=positions: t if name is TARGET else c(p[name])  # type: ignore[misc]


def _learn_ranges(
    features: Mapping[str | None, Feature],
    columns: _Columns,
    plan: LearningPlan,
    payments: _Payments,
    source: RandomSource,
) -> dict[str | None, Feature]:
    names = [name for name, feature in features.items() if isinstance(feature, Numeric) and feature.is_open]
    if not names:
        return {}
    groups = {group: [name for name in names if (name is TARGET) is (group == "target")] for group in plan.ranges}
    assert plan.count is not None
    first = scales(1.0)
    n_rows, dtypes, tallies = _tally_first(columns, names, first)
    _check_names_of_parts(features, dtypes)  # before anything is paid for
    n_records = int(discrete_laplace(np.array([[n_rows]]), payments.pay(plan.count), 1, source.streams(1))[0, 0])
    chosen: dict[str | None, tuple[float, float]] = {}
    for group, members in groups.items():
        charge = plan.ranges[group][0]
        family = scales(per_doubling(n_records, float(charge.epsilon)))
        chosen |= _choose({name: (family, tallies[name]) for name in members}, payments.pay(charge), source)
    families = {name: parts(*bounds) for name, bounds in chosen.items()}
    tallies = _tally(columns, families)
    for group, members in groups.items():
        charge = plan.ranges[group][1]
        chosen |= _choose({name: (families[name], tallies[name]) for name in members}, payments.pay(charge), source)
    return {
        name: _with_range(features[name], set() if name is TARGET else dtypes[name], *bounds)
        for name, bounds in chosen.items()
    }


def _check_names_of_parts(features: Mapping[str | None, Feature], dtypes: Mapping[str | None, set[str]]) -> None:
    """Raise an error if columns of dates will have parts of other columns' names: names and dtypes are public."""
    dates = {name: Date(parts=parts) for name, kinds in dtypes.items() if (parts := _parts_of(kinds))}
    coded_features({str(name): dates.get(name, feature) for name, feature in features.items() if name is not TARGET})


def _tally_first(
    columns: _Columns, names: list[str | None], family: Intervals
) -> tuple[int, dict[str | None, set[str]], dict[str | None, Any]]:
    """Return the number of rows, the kinds of the columns' dtypes, and the counts of the first step."""
    n_rows, dtypes = 0, {name: set[str]() for name in names}
    tallies: dict[str | None, Any] = dict.fromkeys(names, 0)
    for n_used, used, column in columns:
        n_rows += n_used
        for name in names:
            part = _numeric(column(name), name)
            dtypes[name].add(_dtype_kind(part))
            tallies[name] = tallies[name] + family.tally(part, used)
    return n_rows, dtypes, {name: _counts(tally, family) for name, tally in tallies.items()}


def _tally(columns: _Columns, families: Mapping[str | None, Intervals]) -> dict[str | None, Any]:
    tallies: dict[str | None, Any] = dict.fromkeys(families, 0)
    for _, used, column in columns:
        for name, family in families.items():
            tallies[name] = tallies[name] + family.tally(_numeric(column(name), name), used)
    return {name: _counts(tally, families[name]) for name, tally in tallies.items()}


def _counts(tally: Any, family: Intervals) -> Any:
    """Return a tally; without any batch, it is one of zeros."""
    return np.zeros(2 * len(family.edges) + 1, dtype=np.int64) if isinstance(tally, int) else tally


def _numeric(column: Column, name: str | None) -> Column:
    """Return a column of numbers as it is, and dates as days since 2000, near which most of them are."""
    if column.kind == "date":
        read = column.moment_reader()
        return replace(column, block=lambda a, b: _moments_as_floats(read(a, b)))
    column.check_numeric("y" if name is TARGET else f"Feature {name!r}")
    return column


def _moments_as_floats(of: moments.Moments) -> Any:
    days = (of.astype(np.float64) - _YEAR_2000) / moments.DAY
    return np.where(of == moments.NEVER, np.nan, days)


def _dtype_kind(column: Column) -> str:
    """Return what the dtype of a column, which is public, says about its values."""
    dtype = column.dtype.lower()
    if column.kind == "date":
        return "date" if dtype.startswith("date") and not dtype.startswith("datetime") else "time"
    return "whole" if dtype.startswith(("int", "uint")) else "number"


def _parts_of(dtypes: set[str]) -> tuple[PartName, ...]:
    """Return the parts that a column of dates gets; none if it holds anything but dates."""
    if not dtypes or not dtypes <= {"date", "time"}:
        return ()
    return ("weekday", "month", "hour") if "time" in dtypes else ("weekday", "month")


def _with_range(feature: Feature, dtypes: set[str], low: float, high: float) -> Feature:
    """Close an open feature: dates become `Date` with their parts, whole numbers become `Integer`."""
    assert isinstance(feature, Numeric)
    if parts := _parts_of(dtypes):
        return Date.covering(_moment(low), _moment(high), parts)
    if dtypes == {"whole"} and feature.scale == "linear" and max(-low, high) < _MAX_INTEGER:
        return Integer(math.floor(low), math.ceil(high))
    return replace(feature, low=low, high=high)


def _moment(days: float) -> int:
    """Return the moment so many days after the beginning of 2000; one that is too far away is moved nearer."""
    return int(min(max(days * moments.DAY + _YEAR_2000, -_MAX_MOMENT), _MAX_MOMENT))


def _choose(
    candidates: Mapping[str | None, tuple[Intervals, Any]], receipt: Receipt, source: RandomSource
) -> dict[str | None, tuple[float, float]]:
    """Choose one interval for each column: a record outside costs a unit, so all costs change by 0 or by one unit."""
    epsilon = receipt.charge.epsilon
    unit, n = cost_unit(epsilon), len(candidates)
    size = max(len(family) for family, _ in candidates.values())
    selection = Selection(receipt, source.streams(n), cost_range=unit, n_candidates=size, times=n)
    per_nat = unit / float(min(epsilon, Fraction(_MAX_EPSILON)))
    chosen = {}
    for i, (name, (family, tally)) in enumerate(candidates.items()):
        costs = unit * family.outside(tally) + np.rint(per_nat * family.penalties).astype(np.int64)
        pick = selection.pick(np.array([i]), np.ascontiguousarray(costs[None, :]))
        chosen[name] = family.bounds(int(pick[0]))
    return chosen


def _open_levels(features: Mapping[str, Feature], target: Target) -> list[str | None]:
    every = _with_target(features, target)
    return [name for name, feature in every.items() if isinstance(feature, Categorical) and feature.is_open]


def _with_target(features: Mapping[str, Feature], target: Target) -> dict[str | None, Feature]:
    every: dict[str | None, Feature] = {}
    every.update(features)
    every[TARGET] = target
    return every


def _learn_levels(
    features: Mapping[str | None, Feature],
    columns: _Columns,
    plan: LearningPlan,
    payments: _Payments,
    source: RandomSource,
) -> dict[str | None, list[Any]]:
    """Return the frequent values of open columns; columns without any are left out."""
    if plan.levels is None:
        return {}
    names = [name for name, feature in features.items() if isinstance(feature, Categorical) and feature.is_open]
    counts: dict[str | None, dict[Any, int]] = {name: {} for name in names}
    for _, used, column in columns:
        for name in names:
            _count_values(column(name), used, counts[name])
    receipt = payments.pay(plan.levels)
    levels: dict[str | None, list[Any]] = {}
    for name, of_column in counts.items():
        released = frequent(np.array(list(of_column.values()), dtype=np.int64), receipt, source.streams(1))
        values = [value for value, kept in zip(of_column, released.tolist(), strict=True) if kept]
        if values:
            levels[name] = fitting(sorted(values, key=lambda value: (isinstance(value, str), value)), plan.room)
    return {name: values for name, values in levels.items() if values}


def _count_values(column: Column, used: Used | None, counts: dict[Any, int]) -> None:
    if column.kind == "date":
        return  # dates are no levels
    for start, stop in row_blocks(0, column.n_rows):
        values = column.values(start, stop)
        for value in values if used is None else compress(values, used[start:stop]):
            try:
                plain = plain_value(value)
            except Exception:  # noqa: BLE001 -- methods of a private value may raise anything
                continue
            if plain is not None:
                counts[plain] = counts.get(plain, 0) + 1
