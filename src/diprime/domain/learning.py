"""Private learning of domains: ranges by the exponential mechanism, categories by thresholded counts or hash buckets.

docs/privacy.md contains the proof. The undeclared parts of a domain, and the cost of each release, are known before any
row is read. The plan costs exactly epsilon and delta, or nothing if no release is needed.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import lru_cache, partial
from itertools import compress
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from diprime.domain.columns import Column, read_table, read_target, row_blocks
from diprime.domain.encoding import Task, match_columns, meaning_of, plain_value
from diprime.domain.features import BUCKETS, PARTS, Categorical, Date, Feature, Numeric, Target, short
from diprime.domain.files import WHOLE_FILE, FileQuota, categories_within_quota
from diprime.domain.records import (
    MIXED_GROUPS,
    NO_PERSONS,
    Collect,
    DrawnPart,
    PersonDigests,
    Persons,
    Records,
    Tally,
    check_lengths,
    drawn_records,
    new_key,
)
from diprime.domain.values import DAY, MISSING_DATE, Markers, Moments, is_marker, moment_of_date
from diprime.privacy.charges import Bound, BoundKind, Charge, Mechanism, Receipt, ReleaseKind, VoidReason
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import ApproximateDP, Epsilon, PrivacyLoss, PureEpsilon, loss_text, share_of
from diprime.privacy.mechanisms.laplace import count_threshold, discrete_laplace, frequent
from diprime.privacy.mechanisms.selection import Selection
from diprime.privacy.randomness import RandomSource, bits_of_rows
from diprime.privacy.session import Account, Request, Session

N_PARTS = 256
"""Number of parts into which the second step divides the interval of the first."""

# Powers of two: all of them where data usually lie, and in larger steps up to the end of float64. Anything smaller is
# practically zero.
_EXPONENTS = (*range(-100, -40, 20), *range(-40, 61), *range(64, 961, 64))
_USUAL = range(-15, 31)
_UNUSUAL = 0.25  # share of the usual penalty of a doubling, outside the usual range
_FAR = 2.0  # additional doublings that are charged for going beyond 2^60
_FIRST_FAR = 64

_MAX_PER_DOUBLING = 3.0

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Intervals:
    """Public family of closed intervals."""

    edges: Floats  # ends of all intervals, sorted
    low: Integers  # ends of each interval,
    high: Integers  # as indices of edges
    penalties: Floats  # penalty of each interval, in natural logarithms

    def __len__(self) -> int:
        return len(self.low)

    def tally(self, column: Column, used: npt.NDArray[np.bool_] | None = None) -> Integers:
        """Count the values of used rows between public thresholds, from which the counts of all intervals follow."""
        thresholds = np.empty(2 * len(self.edges))
        thresholds[0::2], thresholds[1::2] = self.edges, np.nextafter(self.edges, math.inf)
        counts = np.zeros(len(thresholds) + 1, dtype=np.int64)
        for start, stop in row_blocks(0, column.n_rows):
            values = column.floats(start, stop).astype(np.float64)
            counted = ~np.isnan(values) if used is None else used[start:stop] & ~np.isnan(values)
            cells = np.searchsorted(thresholds, values[counted], side="right")
            counts += np.bincount(cells, minlength=len(counts))
        return counts

    def n_values(self, tally: Integers) -> int:
        """Return the number of values between the outermost edges, except 0. A record adds at most one."""
        zero = 2 * int(np.searchsorted(self.edges, 0.0)) + 1
        return int(tally[1:-1].sum() - tally[zero])  # values beyond the outermost edges are in no interval

    def outside(self, tally: Integers) -> Integers:
        """Return the number of values outside each interval. A record adds at most one to each."""
        below = np.cumsum(tally)
        return np.asarray(below[-1] - (below[2 * self.high + 1] - below[2 * self.low]))

    def bounds(self, interval: int) -> tuple[float, float]:
        """Return the ends of an interval."""
        return float(self.edges[self.low[interval]]), float(self.edges[self.high[interval]])


def scale_intervals(per_doubling: float) -> Intervals:
    """Return the intervals of the first step, given the penalty of a doubling."""
    powers = np.array([math.ldexp(1.0, e) for e in _EXPONENTS])
    n = len(powers)
    steps = np.array([1.0 if e in _USUAL else _UNUSUAL for e in _EXPONENTS])
    steps[_EXPONENTS.index(_FIRST_FAR)] += _FAR
    penalties = per_doubling * np.cumsum(steps)
    up, zero, down = n + 1 + np.arange(n), np.full(n, n), n - 1 - np.arange(n)
    return Intervals(
        np.concatenate([-powers[::-1], [0.0], powers]),
        np.concatenate([zero, down, down]),
        np.concatenate([up, zero, up]),
        np.concatenate([penalties, penalties, penalties + per_doubling]),
    )


def per_doubling(n_values: float, epsilon: float) -> float:
    """Return the penalty of a doubling in the first step, given a noisy number of values other than 0."""
    return _penalty(n_values, epsilon, units=60, least=0.2)


def per_doubling_of_parts(n_values: float, epsilon: float) -> float:
    """Return the penalty of a doubling in the second step, given a noisy number of values other than 0."""
    return _penalty(n_values, epsilon, units=8, least=1.0)


def _penalty(n_values: float, epsilon: float, units: float, least: float) -> float:
    """Return the penalty of a doubling. The penalty of the widest interval is at most the weight of all values.

    ``units``: units of noise, among all values, per unit of the penalty.
    """
    if epsilon == math.inf:
        return _MAX_PER_DOUBLING
    return min(max(max(n_values, 0.0) * epsilon / units, least), _MAX_PER_DOUBLING)


@lru_cache(maxsize=1)
def _parts() -> tuple[Integers, Integers, Floats, Floats]:
    low, high = np.triu_indices(N_PARTS + 1, 1)
    width = high - low
    # Narrow intervals outnumber wide ones, and most contain no data. The cap keeps penalties increasing with width.
    multiplicity = np.maximum(N_PARTS + 1 - width, N_PARTS // 4)
    return low, high, np.log2(width), np.log(multiplicity)


def part_intervals(low: float, high: float, per_doubling: float) -> Intervals:
    """Return the intervals of the second step: all parts of an interval whose ends are multiples of 1/256 of it."""
    edges = low + (high - low) * np.arange(N_PARTS + 1) / N_PARTS  # exact: short sums of powers of two
    first, last, doublings, penalties = _parts()
    return Intervals(edges, first, last, per_doubling * doublings + penalties)


TARGET_SHARE = Fraction(1, 3)
"""Share of the budget for the target if features are undeclared as well, because every prediction depends on it."""
COUNT_SHARE = Fraction(1, 5)
"""Share of a column's budget for the noisy number of its values, which learning its range requires."""
SCALE_SHARE = Fraction(7, 20)
"""Share of a column's budget for the first of the two steps that choose its range."""
MIN_EVIDENCE = 30
"""Minimum product of the number of values of a column and its epsilon for learning a range."""
RELIABLE_EVIDENCE = 3 * MIN_EVIDENCE
"""Product from which a learnt range misses more than 30 % of the values at most once in 200 times."""
LABEL = "ranges and categories of a domain"
"""Entry in the logs of budgets."""
_COMPOSITION = "Each record has one value per column, so each column is charged once."
_RANGE_KINDS = {
    "features": (
        ReleaseKind.DOMAIN_FEATURE_COUNTS,
        ReleaseKind.DOMAIN_FEATURE_SCALES,
        ReleaseKind.DOMAIN_FEATURE_RANGES,
    ),
    "target": (
        ReleaseKind.DOMAIN_TARGET_COUNT,
        ReleaseKind.DOMAIN_TARGET_SCALE,
        ReleaseKind.DOMAIN_TARGET_RANGE,
    ),
}

_MAX_UNIT = 1 << 16
_UNITS_PER_EPSILON = 1 << 12  # limits the length of tables of weights
_MAX_EPSILON = 1 << 8  # above this, penalties stop shrinking, so that they still break ties between equal costs

_YEAR_2000 = moment_of_date(date(2000, 1, 1))
_MAX_MOMENT = float(1 << 62)

MIN_CLASSES = 2
_MAX_NAMED = 10
UNKNOWN_RANGE = (0.0, 1.0)
"""Range of a feature with too few values to learn one."""

TARGET = None
"""Name of the target among the names of columns."""

Used = npt.NDArray[np.bool_]
_T = TypeVar("_T")

_NO_RANGE = (
    "No range could be learnt for {columns}: too few {units} have a value other than 0. If these columns matter, "
    "declare their ranges."
)
_UNCERTAIN_RANGE = (
    "Few {units} have a value other than 0 in {columns}: the learnt ranges may miss most values. If these columns "
    "matter, declare their ranges."
)
PARTLY_TEXT = (
    "In some batches or files the column is text, and in others it is not, so that a category would be counted as two: "
    "{columns}. Read all of them with the same dtype."
)
OTHER_RECORDS = (
    "The identifiers, or their order, differ from the previous pass. Learning a domain reads all "
    "records several times and uses one record per person, so every pass must return the same records "
    "in the same order."
)


@dataclass(frozen=True)
class LearningPlan:
    """Charges for learning a domain, which add up to its budget."""

    epsilon: Epsilon  # 0 if there is nothing to release
    delta: Fraction  # for categories
    ranges: Mapping[str, tuple[Charge, Charge, Charge]]  # counts, scales and ranges of "features" and of the "target"
    categories: Mapping[str, Charge]  # categories of "features" and of the "target", if counted
    quota: FileQuota = WHOLE_FILE  # for the categories of each column

    def __post_init__(self) -> None:
        spent = sum((charge.total for charge in self.charges), Fraction(0))
        if spent != self.epsilon:
            raise AssertionError(f"The plan of the domain spends {spent}, and its budget is {self.epsilon}.")

    @property
    def charges(self) -> list[Charge]:
        """All charges."""
        return [*(charge for charges in self.ranges.values() for charge in charges), *self.categories.values()]

    @property
    def loss(self) -> PrivacyLoss:
        """Sum of all charges."""
        return sum((charge.loss for charge in self.charges), PrivacyLoss())

    @classmethod
    def make(cls, features: Mapping[str, Feature], target: Target, epsilon: Epsilon, delta: Fraction) -> LearningPlan:
        """Plan the releases that learn the undeclared parts, before any row is read."""
        if isinstance(target, Categorical) and target.is_undeclared and not delta:
            raise ValueError(
                "The classes of the target are undeclared, and learning them requires a delta. List the classes, "
                "for example Categorical(['no', 'yes']), or pass a delta above 0."
            )
        groups: dict[str, Sequence[Feature]] = {"features": list(features.values()), "target": [target]}
        n_ranges = {group: sum(map(_has_open_range, members)) for group, members in groups.items()}
        n_categories = {
            group: sum(map(_has_undeclared_categories, members)) if delta else 0 for group, members in groups.items()
        }
        shares = _shares({group: n_ranges[group] + n_categories[group] for group in groups})
        epsilons = {group: share_of(epsilon, share) for group, share in shares.items()}
        deltas = {group: share * delta for group, share in _shares(n_categories).items()}
        return cls(
            epsilon if epsilons else Fraction(0),
            delta if deltas else Fraction(0),
            {group: _range_charges(group, part, n) for group, part in epsilons.items() if (n := n_ranges[group])},
            {
                group: _categories_charge(group, epsilons[group], part, n_categories[group])
                for group, part in deltas.items()
            },
        )

    def request(self, *, is_seeded: bool) -> Request:
        """Return the request for all releases."""
        voided_by = (VoidReason.SEED_OF_DOMAIN,) if is_seeded else ()
        return Request("domain", LABEL, self.epsilon, self.delta, self.loss, voided_by=voided_by)

    def detectable(self, units: str) -> list[str]:
        """Return sentences about how many records or people learning requires. All of them are public."""
        learnt = {"features": "The range of a feature is", "target": "The range of the target is"}
        lost = {"features": "Categories of a feature", "target": "Classes of the target"}
        return [
            (
                f"{learnt[group]} learnt from at least about {_least_values(charges):,} {units} with a value other "
                "than 0."
            )
            for group, charges in self.ranges.items()
        ] + [
            f"{lost[group]} with fewer than about {_least_count(charge):,} {units} are not listed."
            for group, charge in self.categories.items()
        ]


class NotLearntError(ValueError):
    """Too few records to learn the undeclared parts of a domain, as shown by released numbers.

    A note states that the active budgets were charged. Without a budget, the message states the loss.
    """

    def __init__(self, problem: str, loss: PrivacyLoss, *, is_budgeted: bool) -> None:
        cost = f"The cost of learning the domain has been charged: {loss_text(loss)}."
        super().__init__(problem if is_budgeted else f"{problem} {cost}")
        self.problem = problem


def _has_open_range(feature: Feature) -> bool:
    return isinstance(feature, (Numeric, Date)) and feature.is_undeclared


def _has_undeclared_categories(feature: Feature) -> bool:
    return isinstance(feature, Categorical) and feature.is_undeclared


def _shares(n_columns: Mapping[str, int]) -> dict[str, Fraction]:
    """Return the share of each undeclared column, separately for features and for the target."""
    groups = {group: n for group, n in n_columns.items() if n}
    target = {"features": 1 - TARGET_SHARE, "target": TARGET_SHARE} if len(groups) > 1 else {}
    return {group: target.get(group, Fraction(1)) / n for group, n in groups.items()}


def _range_charges(group: str, epsilon: Epsilon, n_columns: int) -> tuple[Charge, Charge, Charge]:
    """Return the charges for counting and for both steps, for columns with ``epsilon`` each."""
    of_count, of_scales, of_ranges = _RANGE_KINDS[group]
    measure = PureEpsilon(share_of(epsilon, COUNT_SHARE))
    return (
        Charge(of_count, Mechanism.DISCRETE_LAPLACE, Bound(BoundKind.L1, 1), measure, n_columns, _COMPOSITION),
        _selection_charge(of_scales, share_of(epsilon, SCALE_SHARE), n_columns),
        _selection_charge(of_ranges, share_of(epsilon, 1 - COUNT_SHARE - SCALE_SHARE), n_columns),
    )


def _least_values(charges: tuple[Charge, Charge, Charge], evidence: int = MIN_EVIDENCE) -> int:
    """Return the least number of values of a column with enough ``evidence`` for its range, given these charges."""
    epsilon = sum(charge.epsilon for charge in charges)
    return 1 if epsilon == math.inf else math.ceil(evidence / epsilon)


def _least_count(charge: Charge) -> int:
    """Return the number of records from which a category is more likely listed than not."""
    assert isinstance(charge.measure, ApproximateDP)
    return count_threshold(charge.measure.epsilon, charge.measure.delta)


def _selection_charge(kind: ReleaseKind, epsilon: Epsilon, n_columns: int) -> Charge:
    bound = Bound(BoundKind.COST_RANGE, cost_unit(epsilon))
    return Charge(kind, Mechanism.EXPONENTIAL, bound, PureEpsilon(epsilon), n_columns, _COMPOSITION)


def _categories_charge(group: str, epsilon: Epsilon, delta: Fraction, n_columns: int) -> Charge:
    kind = ReleaseKind.DOMAIN_CATEGORIES if group == "features" else ReleaseKind.DOMAIN_CLASSES
    measure = ApproximateDP(epsilon, delta)
    return Charge(kind, Mechanism.THRESHOLDED_LAPLACE, Bound(BoundKind.L1, 1), measure, n_columns, _COMPOSITION)


def cost_unit(epsilon: Epsilon) -> int:
    """Return the integer cost of a record outside an interval. With larger costs, penalties are more exact."""
    return max(1, math.floor(min(epsilon * _UNITS_PER_EPSILON, Fraction(_MAX_UNIT))))


def features_of_columns(X: Any, known: Mapping[str, Feature]) -> dict[str, Feature]:
    """Return a feature for each column of a table: the known one, or an undeclared one according to the dtype.

    If the dtype may depend on values, the column must be declared.
    """
    if X is None:  # there is no batch
        if not known:
            raise ValueError(
                "The columns of X are unknown, because there are no records. Pass features, or a batch without rows."
            )
        return dict(known)
    table = read_table(X)
    if table.names is None and len(known) == table.n_columns:
        return dict(known)  # matched by position
    names = table.names or [f"x{j}" for j in range(table.n_columns)]
    unknown = [name for name in known if name not in names]
    if unknown:
        raise ValueError(f"features contains {unknown[0]!r}, which is not a column of X.")
    return {name: known.get(name) or _open_feature(table.column(j), name) for j, name in enumerate(names)}


def undeclared_target(task: Task | None) -> Target:
    """Return an undeclared target for a task."""
    if task not in ("classification", "regression"):
        raise ValueError(f"task must be 'classification' or 'regression', got {task!r}. Alternatively, pass target.")
    return Numeric() if task == "regression" else Categorical()


def _open_feature(column: Column, name: str) -> Feature:
    """Return an undeclared feature according to the dtype of a column, without reading its values."""
    if not column.has_stated_kind:
        raise TypeError(
            f"Column {name!r} of X has dtype {column.dtype}, which may depend on single values. Declare the "
            "column as Numeric(), Date() or Categorical(), in features or in the domain file."
        )
    if column.kind == "date":
        return Date()
    return Numeric() if column.kind == "number" and not column.boolean else Categorical()


def learn(
    features: Mapping[str, Feature],
    target: Target,
    missing: Markers,
    collect: Collect,
    plan: LearningPlan,
    source: RandomSource,
    session: Session,
    *,
    of_persons: bool = False,
) -> tuple[dict[str, Feature], Target, Ledger]:
    """Learn the undeclared parts, using one random record per person, and return them with the ledger of their cost."""
    units = "people" if of_persons else "records"
    learnt: dict[str | None, Feature] = {}
    learnt.update(features)
    learnt[TARGET] = target
    digests = PersonDigests(new_key(), missing) if of_persons else None
    drawn = None if digests is None else _draw_records(collect, source, digests)
    passes = _Passes(collect, _Columns(list(features), missing, digests), drawn)
    # Check all columns before anything is charged.
    names = [name for name, feature in learnt.items() if _has_open_range(feature)]
    tallies = passes.range_tallies(learnt, dict.fromkeys(names, scale_intervals(1.0))) if names else {}
    names = [name for name, feature in learnt.items() if _has_undeclared_categories(feature)] if plan.categories else []
    counts = passes.category_counts(names) if names else {}
    with session.spend(plan.request(is_seeded=source.seeded)) as account:
        account.note(plan.detectable(units))
        bounds, lost, uncertain = _learn_ranges(learnt, passes, tallies, plan, account, source)
        categories = _learn_categories(counts, plan, account, source)
        problem = _problem(learnt, lost, categories, plan, units)
        if problem is not None:
            raise NotLearntError(problem, plan.loss, is_budgeted=session.is_budgeted)
        for text, columns in ((_NO_RANGE, lost), (_UNCERTAIN_RANGE, uncertain)):
            if columns:
                account.note([text.format(columns=_named(columns), units=units)])
    learnt |= bounds
    learnt |= {name: Categorical(values) for name, values in categories.items()}
    new_target = learnt.pop(TARGET)
    assert isinstance(new_target, Target)
    # Without a delta, or if no value is frequent, a public hash function assigns codes.
    closed = {
        str(name): Categorical(n_buckets=BUCKETS) if feature.is_undeclared else feature
        for name, feature in learnt.items()
    }
    return closed, new_target, account.ledger


def _problem(
    features: Mapping[str | None, Feature],
    lost: Sequence[str | None],
    categories: Mapping[str | None, Sequence[Any]],
    plan: LearningPlan,
    units: str,
) -> str | None:
    """Return why no useful model can use such a domain, or None. The result depends on released numbers only."""
    if TARGET in lost:
        return (
            f"Too few {units} have a target other than 0 to learn its range, which requires about "
            f"{_least_values(plan.ranges['target']):,}. Declare the range of the target, or use a larger "
            "epsilon."
        )
    if lost and len(lost) == len(features) - 1:
        return (
            f"Too few {units} have values other than 0 to learn the range of any feature, which requires about "
            f"{_least_values(plan.ranges['features']):,}. Declare the ranges of features, or use a larger "
            "epsilon."
        )
    n_classes = len(categories.get(TARGET, ()))
    if _has_undeclared_categories(features[TARGET]) and n_classes < MIN_CLASSES:
        return (
            "Fewer than two classes could be learnt, because classes with fewer than about "
            f"{_least_count(plan.categories['target']):,} {units} are not found. List the classes, or use a larger "
            "epsilon or delta."
        )
    return None


def _named(columns: Sequence[str | None]) -> str:
    """Return the names of the first few columns, for messages."""
    names = ", ".join("the target" if name is TARGET else short(name) for name in columns[:_MAX_NAMED])
    return names if len(columns) <= _MAX_NAMED else f"{names} and {len(columns) - _MAX_NAMED} more"


def _persons_of(batch: Records) -> Any:
    if batch.groups is None:
        raise ValueError(MIXED_GROUPS)
    return batch.groups


def _tally_persons(
    digests: PersonDigests, batches: Iterable[Records], drawn: DrawnPart | None
) -> tuple[Persons, str | None]:
    """Return the digests of the ids in a part, and their kind."""
    persons = [digests.encode(_persons_of(batch)) for batch in batches]
    return np.concatenate([NO_PERSONS, *persons]), digests.kind


def _draw_records(collect: Collect, source: RandomSource, digests: PersonDigests) -> list[DrawnPart]:
    """Read all ids, and sample one record of each person.

    Every later pass must return the same ids in the same order, which a digest verifies. Otherwise, a person could be
    counted twice, so an error is raised before anything from that pass is released.
    """
    parts = collect(partial(_tally_persons, digests))
    for _, kind in parts:
        digests.check_kind(kind)
    everybody = np.concatenate([NO_PERSONS, *(persons for persons, _ in parts)])
    used = drawn_records(everybody, bits_of_rows(source.stream_apart(), 0, len(everybody)), 1)
    ends = np.cumsum([len(persons) for persons, _ in parts])[:-1]
    return [
        DrawnPart(hashlib.blake2b(persons.tobytes()).digest(), np.packbits(of_part))
        for (persons, _), of_part in zip(parts, np.split(used, ends), strict=True)
    ]


@dataclass(frozen=True)
class _Columns:
    """Columns of the records of a part, by name. The name of the target is `TARGET`."""

    names: list[str]
    missing: Markers
    digests: PersonDigests | None  # None if single records are protected

    def read(
        self, batches: Iterable[Records], drawn: DrawnPart | None
    ) -> Iterator[tuple[Used | None, Callable[[str | None], Column]]]:
        """Yield for each batch the mask of used rows, or None for all rows, and a function that returns a column."""
        for batch, used in self._with_used(batches, drawn):
            table, target = read_table(batch.X), read_target(batch.y)
            check_lengths(table.n_rows, target.n_rows, used)
            column = match_columns(self.names, table)
            positions = {name: j for j, name in enumerate(self.names)}
            yield used, lambda name, c=column, t=target, p=positions: t if name is TARGET else c(p[name])  # type: ignore[misc]

    def _with_used(self, batches: Iterable[Records], drawn: DrawnPart | None) -> Iterator[tuple[Records, Used | None]]:
        if self.digests is not None and drawn is not None:
            yield from _follow(batches, drawn, self.digests)
            return
        for batch in batches:
            if batch.groups is not None:
                raise ValueError(MIXED_GROUPS)
            yield batch, None


def _follow(batches: Iterable[Records], drawn: DrawnPart, digests: PersonDigests) -> Iterator[tuple[Records, Used]]:
    """Yield the batches of a part with the mask of their used records."""
    mark, begin = hashlib.blake2b(), 0
    used = np.unpackbits(drawn.used).astype(np.bool_)
    for batch in batches:
        persons = digests.encode(_persons_of(batch))
        mark.update(persons.tobytes())
        of_batch = used[begin : begin + len(persons)]
        if len(of_batch) < len(persons):
            raise ValueError(OTHER_RECORDS)
        yield batch, of_batch
        begin += len(persons)
    if mark.digest() != drawn.mark:
        raise ValueError(OTHER_RECORDS)


def _tally_ranges(
    columns: _Columns,
    features: Mapping[str | None, Feature],
    families: Mapping[str | None, Intervals],
    batches: Iterable[Records],
    drawn: DrawnPart | None,
) -> dict[str | None, Any]:
    """Count the values of the columns of a part between the thresholds of their intervals."""
    tallies = {name: np.zeros(2 * len(family.edges) + 1, dtype=np.int64) for name, family in families.items()}
    for used, column in columns.read(batches, drawn):
        for name, family in families.items():
            tallies[name] += family.tally(_numbers(column(name), features[name], name), used)
    return tallies


def _tally_categories(
    columns: _Columns, names: Sequence[str | None], batches: Iterable[Records], drawn: DrawnPart | None
) -> dict[str | None, tuple[Counter[Any], set[str]]]:
    """Count the values of columns of a part, in order of first appearance, and return the kinds of columns as well."""
    found: dict[str | None, tuple[Counter[Any], set[str]]] = {name: (Counter(), set()) for name in names}
    for used, column in columns.read(batches, drawn):
        for name, (counts, kinds) in found.items():
            kinds.add(column(name).holds)
            _count_values(column(name), used, columns.missing, counts, of_target=name is TARGET)
    return found


@dataclass(frozen=True)
class _Passes:
    """All records, wherever they are. Each call reads them once."""

    collect: Collect
    columns: _Columns
    drawn: Sequence[DrawnPart] | None  # used records of each part, or None for all records

    def range_tallies(
        self, features: Mapping[str | None, Feature], families: Mapping[str | None, Intervals]
    ) -> dict[str | None, Any]:
        """Return the numbers of values of each column between thresholds."""
        parts = self._parts(partial(_tally_ranges, self.columns, features, families))
        return {name: sum((of_part[name] for of_part in parts[1:]), parts[0][name]) for name in families}

    def category_counts(self, names: Sequence[str | None]) -> dict[str | None, Counter[Any]]:
        """Return the counts of the values of each column, and refuse columns that are text in some batches only."""
        counts: dict[str | None, Counter[Any]] = {name: Counter() for name in names}
        kinds: dict[str | None, set[str]] = {name: {"nothing"} for name in names}
        for of_part in self._parts(partial(_tally_categories, self.columns, names)):
            for name, (of_column, kinds_of_part) in of_part.items():
                counts[name].update(of_column)
                kinds[name] |= kinds_of_part
        mixed = [name for name, found in kinds.items() if "text" in found and found != {"text", "nothing"}]
        if mixed:
            raise TypeError(PARTLY_TEXT.format(columns=_named(mixed)))
        return counts

    def _parts(self, tally: Tally[_T]) -> list[_T]:
        """Return the tally of each part. With persons, the number of parts must not change."""
        parts = self.collect(tally, self.drawn)
        if self.drawn is not None and len(parts) != len(self.drawn):
            raise ValueError(OTHER_RECORDS)
        return parts


def _learn_ranges(
    features: Mapping[str | None, Feature],
    passes: _Passes,
    tallies: Mapping[str | None, Any],
    plan: LearningPlan,
    account: Account,
    source: RandomSource,
) -> tuple[dict[str | None, Feature], list[str | None], list[str | None]]:
    """Return the learnt features, and the columns with too few values for any range and for a reliable range."""
    names = list(tallies)
    groups = {group: [name for name in names if (name is TARGET) is (group == "target")] for group in plan.ranges}
    n_values: dict[str | None, int] = {}
    for group, members in groups.items():
        values = np.array([[scale_intervals(1.0).n_values(tallies[name]) for name in members]], dtype=np.int64)
        receipt = account.pay(plan.ranges[group][0])
        noisy = discrete_laplace(values, receipt, 1, source.streams(1), times=len(members))
        n_values |= dict(zip(members, noisy[0].tolist(), strict=True))
    charges = {name: plan.ranges["target" if name is TARGET else "features"] for name in names}
    families = {name: scale_intervals(per_doubling(n_values[name], float(charges[name][1].epsilon))) for name in names}
    chosen: dict[str | None, tuple[float, float]] = {}
    for group, members in groups.items():
        chosen |= _choose(members, families, tallies, account.pay(plan.ranges[group][1]), source)
    for name in names:
        penalty = per_doubling_of_parts(n_values[name], float(charges[name][2].epsilon))
        families[name] = part_intervals(*chosen[name], penalty)
    tallies = passes.range_tallies(features, families) if names else {}
    for group, members in groups.items():
        chosen |= _choose(members, families, tallies, account.pay(plan.ranges[group][2]), source)
    lost = [name for name in names if n_values[name] < _least_values(charges[name])]
    chosen |= dict.fromkeys(lost, UNKNOWN_RANGE)
    few = [name for name in names if n_values[name] < _least_values(charges[name], RELIABLE_EVIDENCE)]
    learnt = {name: _with_range(features[name], *bounds) for name, bounds in chosen.items()}
    return learnt, lost, [name for name in few if name not in lost]


def _numbers(column: Column, feature: Feature, name: str | None) -> Column:
    """Return a column as numbers. Dates become days since 2000, because most dates are near."""
    where = "y" if name is TARGET else f"Feature {name!r}"
    if isinstance(feature, Date):
        column.check_dates(where)
        read = column.moment_reader()
        return replace(column, kind="number", block=lambda a, b: _moments_as_floats(read(a, b)))
    column.check_numeric(where)
    return column


def _moments_as_floats(of: Moments) -> Any:
    days = (of.astype(np.float64) - _YEAR_2000) / DAY
    return np.where(of == MISSING_DATE, np.nan, days)


def _with_range(feature: Feature, low: float, high: float) -> Feature:
    """Return a feature with its learnt range. A date gets all parts, whatever its dtype."""
    if isinstance(feature, Date):
        # Clip moments that are too far away.
        first, last = (int(min(max(days * DAY + _YEAR_2000, -_MAX_MOMENT), _MAX_MOMENT)) for days in (low, high))
        return Date.covering(first, last, PARTS)
    assert isinstance(feature, Numeric)
    return replace(feature, low=low, high=high)


def _choose(
    names: Sequence[str | None],
    families: Mapping[str | None, Intervals],
    tallies: Mapping[str | None, Any],
    receipt: Receipt,
    source: RandomSource,
) -> dict[str | None, tuple[float, float]]:
    """Choose an interval for each column. A record outside costs one unit, so a record adds 0 or 1 unit to a cost."""
    epsilon = receipt.charge.epsilon
    unit, n = cost_unit(epsilon), len(names)
    size = max(len(families[name]) for name in names)
    selection = Selection(receipt, source.streams(n), cost_range=unit, n_candidates=size, times=n)
    per_nat = unit / float(min(epsilon, Fraction(_MAX_EPSILON)))
    chosen = {}
    for i, name in enumerate(names):
        family = families[name]
        costs = unit * family.outside(tallies[name]) + np.rint(per_nat * family.penalties).astype(np.int64)
        pick = selection.pick(np.array([i]), np.ascontiguousarray(costs[None, :]))
        chosen[name] = family.bounds(int(pick[0]))
    return chosen


def _learn_categories(
    counts: Mapping[str | None, Mapping[Any, int]], plan: LearningPlan, account: Account, source: RandomSource
) -> dict[str | None, list[Any]]:
    """Return the frequent values of undeclared columns, without columns that have none."""
    receipts = {group: account.pay(charge) for group, charge in plan.categories.items()}
    categories: dict[str | None, list[Any]] = {}
    for name, of_column in counts.items():
        receipt = receipts["target" if name is TARGET else "features"]
        released = frequent(np.array(list(of_column.values()), dtype=np.int64), receipt, source.streams(1))
        values = [value for value, kept in zip(of_column, released.tolist(), strict=True) if kept]
        if values:
            ordered = sorted(values, key=lambda value: (isinstance(value, str), value))
            categories[name] = categories_within_quota(ordered, plan.quota)
    return {name: values for name, values in categories.items() if values}


def _count_values(
    column: Column, used: Used | None, missing: Markers, counts: Counter[Any], *, of_target: bool = False
) -> None:
    """Count values. Values of features are stripped of outer spaces, or compared by meaning in columns of objects.

    In columns of objects, a reader may have converted numbers to text. Classes stay as they are, because models predict
    them.
    """
    key: Callable[[Any], Any] = _unchanged if of_target else meaning_of if column.holds == "object" else _stripped
    for start, stop in row_blocks(0, column.n_rows):
        # A date counts as its text, as it does among objects.
        values = column.block(start, stop).view("M8[us]") if column.kind == "date" else column.values(start, stop)
        for value in values if used is None else compress(values, used[start:stop]):
            try:
                plain = plain_value(value)
            except Exception:  # noqa: BLE001 -- methods of a private value may raise anything
                continue
            if plain is not None and not is_marker(plain, missing):
                counts[key(plain)] += 1


def _unchanged(value: Any) -> Any:
    return value


def _stripped(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value
