"""Features in words: their facts, the conditions of splits, and the names of intervals of cells."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from itertools import pairwise

from diprime.domain import MISSING, OTHER, Categorical, Date, Integer, Numeric
from diprime.domain.codes import BUCKETS
from diprime.domain.dates import DatePart
from diprime.domain.features import bounds
from diprime.domain.kinds import Feature, Ordered
from diprime.domain.moments import DAY, MINUTE, SECOND, to_datetime

MAX_LISTED_LEVELS = 40
MAX_LEVELS_OF_A_CODE = 3
MAX_NAME_LENGTH = 60


def shortened(name: str) -> str:
    """Return a name, truncated to `MAX_NAME_LENGTH` characters."""
    return name if len(name) <= MAX_NAME_LENGTH else name[: MAX_NAME_LENGTH - 1] + "…"


def counted(number: int, noun: str) -> str:
    """Return a number of things in words.

    Examples
    --------
    >>> counted(1, "more level"), counted(2, "more level")
    ('1 more level', '2 more levels')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def code_name(levels: Sequence[Hashable], code: int) -> str:
    """Return the name of a code of a categorical feature: its levels, "unlisted" or "missing"."""
    if code == MISSING:
        return "missing"
    if code == OTHER:
        return "unlisted"
    sharing = levels[code::BUCKETS]
    names = [shortened(str(level)) for level in sharing[:MAX_LEVELS_OF_A_CODE]]
    return "/".join(names + ["…"] * (len(sharing) > MAX_LEVELS_OF_A_CODE))


def feature_text(feature: Feature) -> str:
    """Return the public facts about a declared feature or target in words.

    Examples
    --------
    >>> feature_text(Integer(0, 23))
    'whole numbers from 0 to 23'
    >>> feature_text(Date("2012-10-02", "2018-09-30", parts=["weekday", "hour"]))
    'dates from 2012-10-02 to 2018-09-30, their weekday and hour'
    """
    if isinstance(feature, Categorical):
        if feature.buckets is not None:
            return f"{feature.buckets} hash buckets"
        names = [shortened(str(level)) for level in feature.levels[:MAX_LISTED_LEVELS]]
        more = len(feature.levels) - len(names)
        return f"{len(feature.levels)} levels: {', '.join(names)}{f' and {more} more' if more else ''}"
    if isinstance(feature, Date):
        *first, last = feature.parts or ("",)
        parts = f"their {', '.join(first)}{' and ' if first else ''}{last}" if last else ""
        order = f"dates from {feature.low} to {feature.high}" if feature.has_range else "dates"
        return f"{order}, {parts}" if parts else order
    if isinstance(feature, Integer):
        return f"whole numbers from {feature.low} to {feature.high}"
    if feature.edges is not None:
        return f"numbers in {feature.n_cells} cells between given edges"
    low, high = bounds(feature)
    return f"numbers from {low:.6g} to {high:.6g}{', on a log scale' if feature.scale == 'log' else ''}"


def split_texts(feature: Ordered, cell: int) -> tuple[str, str]:
    """Return in words that a value is at most in a cell, and that it is above it; the name of the feature comes before.

    Examples
    --------
    >>> split_texts(Integer(0, 23), 6)
    ('≤ 6', '≥ 7')
    >>> split_texts(Numeric(0, 255), 6)
    ('< 7', '≥ 7')
    """
    first = first_texts(feature)[cell + 1]
    last = last_texts(feature)
    return (f"< {first}" if last is None else f"≤ {last[cell]}"), f"≥ {first}"


def interval_names(feature: Ordered, firsts: list[int]) -> list[str]:
    """Return the names of intervals of cells, given the first cell of each.

    Examples
    --------
    >>> interval_names(Integer(0, 23), [0, 7, 8])
    ['0 to 6', '7', '8 to 23']
    """
    if len(firsts) == 1:
        return ["all"]
    starts, last = first_texts(feature), last_texts(feature)
    if last is None:
        between = [f"{starts[a]} to {starts[b]}" for a, b in pairwise(firsts[1:])]
        return [f"below {starts[firsts[1]]}", *between, f"from {starts[firsts[-1]]}"]
    ends = [(starts[a], last[b - 1]) for a, b in pairwise([*firsts, feature.n_cells])]
    return [a if a == b else f"{a} to {b}" for a, b in ends]


@lru_cache(maxsize=256)
def first_texts(feature: Ordered) -> list[str]:
    """Return the first value of every cell; that of the first is the lower bound, or empty if there is none."""
    if isinstance(feature, DatePart):
        return list(feature.labels)
    if isinstance(feature, Integer):
        return [str(value) for value in (feature.low, *feature.first_values)]
    if isinstance(feature, Date):
        return [moment_text(moment, feature.unit) for moment in (feature.first_moment, *feature.thresholds.tolist())]
    low = "" if feature.low is None else f"{feature.low:.6g}"
    return [low, *_threshold_texts(feature)]


@lru_cache(maxsize=256)
def last_texts(feature: Ordered) -> list[str] | None:
    """Return the last value of every cell; None if there is always another one between it and the next cell."""
    if isinstance(feature, DatePart):
        return list(feature.labels)
    if isinstance(feature, Integer):
        return [str(value) for value in (*(first - 1 for first in feature.first_values), feature.high)]
    return None


def moment_text(moment: int, unit: int) -> str:
    """Return a moment as text that is exact for multiples of a unit, a number of microseconds.

    Examples
    --------
    >>> moment_text(0, DAY), moment_text(0, MINUTE)
    ('1970-01-01', '1970-01-01 00:00')
    """
    when = to_datetime(moment)
    if unit >= DAY:
        return str(when.date())
    return when.isoformat(" ", "minutes" if unit >= MINUTE else "seconds" if unit >= SECOND else "microseconds")


def _threshold_texts(feature: Numeric) -> list[str]:
    """Return the thresholds of a feature with as few digits as distinguish them, but at least six."""
    thresholds = feature.thresholds.tolist()
    for digits in range(6, 18):
        texts = [f"{threshold:.{digits}g}" for threshold in thresholds]
        if len(set(texts)) == len(set(thresholds)):
            break
    return texts
