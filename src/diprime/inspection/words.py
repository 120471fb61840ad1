"""Features, splits and released numbers as text."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise

from diprime.domain import MISSING, OTHER, Categorical, Date, Integer, Numeric
from diprime.domain.features import BUCKETS, DatePart, Feature, Ordered, bounds
from diprime.domain.values import DAY, MINUTE, SECOND, to_datetime

NUMBER_DIGITS = 4
NOISE_DIGITS = 2


def share_text(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.1f} %"


def number_text(value: float, digits: int = NUMBER_DIGITS) -> str:
    """Return a number with a few significant digits, without an exponent."""
    rounded = Decimal(f"{value:.{digits}g}").normalize()
    return "0" if not rounded else f"{rounded:,f}"


def count_text(count: float, noise: float, unit: str) -> str:
    """Return a released number of records or people, and the standard deviation of its noise."""
    return f"{round(count):,} ± {number_text(noise, NOISE_DIGITS)} {plural(unit)}"


def plural(unit: str) -> str:
    """Return the plural of a privacy unit."""
    return "people" if unit == "person" else f"{unit}s"


MAX_LISTED_CATEGORIES = 40
MAX_CATEGORIES_PER_CODE = 3
MAX_NAME_LENGTH = 60


def shortened(name: str, length: int = MAX_NAME_LENGTH) -> str:
    """Return a name, truncated to ``length`` characters."""
    return name if len(name) <= length else name[: length - 1] + "…"


def counted(number: int, noun: str) -> str:
    """Return a number with a noun in the singular or plural."""
    if number != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun}"


def code_name(categories: Sequence[Hashable], code: int) -> str:
    """Return the name of a code of a categorical feature: its categories, "unlisted" or "missing"."""
    if code == MISSING:
        return "missing"
    if code == OTHER:
        return "unlisted"
    sharing = categories[code::BUCKETS]
    names = [shortened(str(category)) for category in sharing[:MAX_CATEGORIES_PER_CODE]]
    return "/".join(names + ["…"] * (len(sharing) > MAX_CATEGORIES_PER_CODE))


def feature_text(feature: Feature) -> str:
    """Return the public facts about a declared feature or target as text."""
    if isinstance(feature, Categorical):
        if feature.n_buckets is not None:
            return f"{feature.n_buckets} hash buckets"
        names = [shortened(str(category)) for category in feature.categories[:MAX_LISTED_CATEGORIES]]
        more = len(feature.categories) - len(names)
        return f"{len(feature.categories)} categories: {', '.join(names)}{f' and {more} more' if more else ''}"
    if isinstance(feature, Date):
        *first, last = feature.parts or ("",)
        parts = f"their {', '.join(first)}{' and ' if first else ''}{last}" if last else ""
        order = f"dates from {feature.low} to {feature.high}" if feature.has_range else "dates"
        return f"{order}, {parts}" if parts else order
    if isinstance(feature, Integer):
        return f"integers from {feature.low} to {feature.high}"
    if feature.edges is not None:
        return f"numbers in {feature.n_cells} bins between given edges"
    low, high = bounds(feature)
    return f"numbers from {low:.6g} to {high:.6g}{', on a log scale' if feature.scale == 'log' else ''}"


def split_texts(feature: Ordered, cell: int) -> tuple[str, str]:
    """Return the conditions, without the feature name, that a value is at most in a bin, and that it is above it."""
    first = first_texts(feature)[cell + 1]
    last = last_texts(feature)
    return (f"< {first}" if last is None else f"≤ {last[cell]}"), f"≥ {first}"


def interval_names(feature: Ordered, firsts: list[int]) -> list[str]:
    """Return the names of intervals of bins, given the first bin of each."""
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
    """Return the first value of every bin. For the first bin, this is the lower bound, or empty if there is none."""
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
    """Return the last value of every bin, or None for continuous features, whose bins have no last value."""
    if isinstance(feature, DatePart):
        return list(feature.labels)
    if isinstance(feature, Integer):
        return [str(value) for value in (*(first - 1 for first in feature.first_values), feature.high)]
    return None


def moment_text(moment: int, unit: int) -> str:
    """Return a moment as text, exact for multiples of ``unit``, a number of microseconds."""
    when = to_datetime(moment)
    if unit >= DAY:
        return str(when.date())
    return when.isoformat(" ", "minutes" if unit >= MINUTE else "seconds" if unit >= SECOND else "microseconds")


def _threshold_texts(feature: Numeric) -> list[str]:
    """Return the thresholds of a feature with the fewest digits that distinguish them, but at least six."""
    thresholds = feature.thresholds.tolist()
    for digits in range(6, 18):
        texts = [f"{threshold:.{digits}g}" for threshold in thresholds]
        if len(set(texts)) == len(set(thresholds)):
            break
    return texts
