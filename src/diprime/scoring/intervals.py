"""Released tables of counts, and confidence intervals that account for their noise and for sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from diprime.model.estimates import on_simplex
from diprime.privacy.charges import Bound, BoundKind, Charge, Mechanism, ReleaseKind
from diprime.privacy.measures import Epsilon, PureEpsilon, share_of
from diprime.privacy.mechanisms.laplace import discrete_laplace, laplace_scale, laplace_variance
from diprime.privacy.randomness import RandomSource
from diprime.privacy.session import Account

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TableNoise:
    """Noise of each number of a release, in records."""

    variance: float
    kurtosis: float  # excess: 3 for a Laplace distribution, more for a discrete one of small scale, 0 without noise
    max_records: int = 1  # maximum number of records of one person in the counts

    @classmethod
    def of_release(cls, epsilon: Epsilon, sensitivity: int, units: int = 1, max_records: int = 1) -> TableNoise:
        """Return the discrete Laplace noise of a release in which one record counts ``units``."""
        if epsilon == math.inf:
            return cls(0.0, 0.0, max_records)
        numerator, denominator = laplace_scale(Fraction(epsilon), sensitivity)
        q = math.exp(-denominator / numerator)  # the noise is a difference of two geometric variables
        kurtosis = (1 + 4 * q + q * q) / (2 * max(q, 1e-300))
        return cls(laplace_variance(epsilon, sensitivity) / units**2, kurtosis, max_records)

    def of_sum(self, n: int) -> TableNoise:
        """Return the noise of the sum of n released numbers."""
        return replace(self, variance=self.variance * n, kurtosis=self.kurtosis / n)


@dataclass(frozen=True)
class Cells:
    """Counts of disjoint sets of records, estimated from released numbers.

    Groups of cells may have been released both cell by cell and as totals. The estimates are then the combination of
    least variance, which shifts all cells of a group by the same amount. Records of a person may be similar, so the
    sampling variance is up to ``max_records`` times that of independent records.
    """

    counts: Floats  # shape (n_cells,): unbiased estimates, which may be negative
    deviations: Floats  # shape (n_cells,): standard deviation of the noise of each cell's own release
    groups: npt.NDArray[np.intp]  # shape (n_cells,): group of each cell
    pulls: Floats  # shape (n_groups,): how far the sum of a group was shifted towards its total, from 0 to 1
    total_deviations: Floats  # shape (n_groups,): standard deviation of the noise of each total
    kurtosis: float  # largest excess kurtosis of the noise of any released number
    max_records: int = 1

    @classmethod
    def of_counts(cls, counts: npt.NDArray[np.int64] | Floats, noise: TableNoise) -> Cells:
        """Return cells that were released without totals."""
        n = len(counts)
        deviations = np.full(n, math.sqrt(noise.variance))
        none = np.zeros(1)
        groups = np.zeros(n, dtype=np.intp)
        return cls(np.asarray(counts, dtype=float), deviations, groups, none, none, noise.kurtosis, noise.max_records)

    def with_totals(self, groups: npt.NDArray[np.intp], totals: Floats, total_noise: list[TableNoise]) -> Cells:
        """Return the cells combined with group totals, which were released independently."""
        n_groups = len(totals)
        variances = np.array([noise.variance for noise in total_noise])
        sums = np.bincount(groups, self.counts, n_groups)
        own = np.bincount(groups, self.deviations**2, n_groups)
        sizes = np.maximum(np.bincount(groups, minlength=n_groups), 1)
        pulls = own / np.maximum(own + variances, 1e-300)
        counts = self.counts + (pulls * (totals - sums) / sizes)[groups]
        kurtosis = max(self.kurtosis, *(noise.kurtosis for noise in total_noise))
        return replace(
            self, counts=counts, groups=groups, pulls=pulls, total_deviations=np.sqrt(variances), kurtosis=kurtosis
        )

    def among(self, kept: npt.NDArray[np.bool_]) -> Cells:
        """Return the cells to keep, which must contain all cells of a group or none."""
        return replace(self, counts=self.counts[kept], deviations=self.deviations[kept], groups=self.groups[kept])

    def spread(self, weights: Floats) -> Floats:
        """Return the noise standard deviation that each released number contributes to a weighted sum of the counts."""
        n_groups = len(self.pulls)
        sizes = np.maximum(np.bincount(self.groups, minlength=n_groups), 1)
        moved = self.pulls * np.bincount(self.groups, weights, n_groups) / sizes
        return np.concatenate([(weights - moved[self.groups]) * self.deviations, moved * self.total_deviations])


def table_charge(
    kind: ReleaseKind, epsilon: Epsilon, share: Fraction, sensitivity: int, why: str, max_records: int = 1
) -> Charge:
    """Return the charge of a table of counts, given its sensitivity per record and the contribution bound."""
    sensitivity *= max_records
    why = why if max_records == 1 else f"{why} A person has up to {max_records} records."
    measure = PureEpsilon(share_of(epsilon, share))
    return Charge(kind, Mechanism.DISCRETE_LAPLACE, Bound(BoundKind.L1, sensitivity), measure, composition=why)


class TableReleases:
    """Releaser of tables of counts, each of them once, in the order of a plan."""

    def __init__(self, plan: Sequence[Charge], account: Account, source: RandomSource, max_records: int = 1) -> None:
        self._plan = list(plan)
        self._account = account
        self._source = source
        self._max_records = max_records

    def epsilon_of_next(self) -> Epsilon:
        """Return the epsilon of the next table for a single record."""
        epsilon = self._plan[0].epsilon
        return epsilon if epsilon == math.inf else Fraction(epsilon) / self._max_records

    def release(self, counts: npt.NDArray[np.int64], units: int = 1) -> tuple[npt.NDArray[np.float64], TableNoise]:
        """Release the next table, in which one record counts ``units``; return noisy counts and noise, in records.

        All records of a person together must not change the counts by more than the charged sensitivity in L1 norm.
        """
        charge = self._plan.pop(0)
        receipt = self._account.pay(charge)
        sensitivity = charge.sensitivity.n
        released = discrete_laplace(counts.reshape(1, -1), receipt, sensitivity, self._source.streams(1))
        noise = TableNoise.of_release(charge.epsilon, sensitivity, units, self._max_records)
        return released.reshape(counts.shape) / units, noise


MAX_BINS = 2048
MIN_BINS = 2
BINS_FACTOR = 0.8
UNIFORM_SHARE = 0.1
"""Share of the bins that is spread evenly over the distinct reference scores, whatever their frequency."""


@dataclass(frozen=True)
class Reference:
    """Possible scores of a model with their frequencies."""

    scores: Floats  # shape (n,): probabilities or log-odds, by which records are ranked
    weights: Floats  # shape (n,): frequencies, in any unit
    is_complete: bool  # whether no other scores are possible
    is_log_odds: bool = False  # whether the scores are log-odds
    limits: tuple[float, float] = (-math.inf, math.inf)  # bounds on all possible scores of the model

    def where(self, kept: npt.NDArray[np.bool_]) -> Reference:
        """Return the scores to keep."""
        return Reference(self.scores[kept], self.weights[kept], self.is_complete, self.is_log_odds, self.limits)

    def probabilities(self, scores: Floats) -> Floats:
        """Convert scores to probabilities."""
        return 1 / (1 + np.exp(-np.clip(scores, -700, 700))) if self.is_log_odds else scores


@dataclass(frozen=True)
class ScoreBins:
    """Bins of a score, in ascending order."""

    edges: Floats  # shape (n_bins - 1,): scores at which a new bin begins
    low: Floats  # shape (n_bins,): smallest probability in a bin
    middle: Floats  # shape (n_bins,): typical probability in a bin
    high: Floats  # shape (n_bins,): largest probability in a bin

    def __len__(self) -> int:
        return len(self.low)

    @property
    def is_exact(self) -> npt.NDArray[np.bool_]:
        """Whether all records in a bin have the same score."""
        return np.asarray(self.low == self.high)

    def place(self, scores: Floats) -> npt.NDArray[np.intp]:
        """Return the bin of each score, which depends on this score only."""
        return np.searchsorted(self.edges, scores, side="right")


def number_of_bins(n_records: float, epsilon: Epsilon) -> int:
    """Return the number of bins for the size of the smaller class: more bins rank records better but add noise."""
    if epsilon == math.inf:
        return MAX_BINS
    wanted = BINS_FACTOR * (2 * max(n_records, 0.0) * float(epsilon)) ** (2 / 3)
    return int(min(max(wanted, MIN_BINS), MAX_BINS))


def make_bins(reference: Reference, n_bins: int, lowest: float = 0.0, highest: float = 1.0) -> ScoreBins:
    """Return at most ``n_bins`` bins of about equal frequency, for probabilities from ``lowest`` to ``highest``."""
    if not len(reference.scores):
        return ScoreBins(np.zeros(0), *(np.array([p]) for p in (lowest, (lowest + highest) / 2, highest)))
    values, index = np.unique(reference.scores, return_inverse=True)
    weights = np.bincount(index, np.maximum(reference.weights, 0.0)).astype(np.float64)
    probabilities = reference.probabilities(values)
    last = _last_of_bins(weights, n_bins)
    first = np.concatenate([[0], last[:-1] + 1])
    edges = values[first[1:]] / 2 + values[last[:-1]] / 2
    share = weights + max(weights.sum(), 1.0) * 1e-9  # also positive for values without weight
    middle = np.add.reduceat(share * probabilities, first) / np.add.reduceat(share, first)
    if reference.is_complete:
        return ScoreBins(edges, probabilities[first], middle, probabilities[last])
    borders = np.clip(reference.probabilities(edges), lowest, highest)
    rounding = 1e-9  # bounds the rounding errors of sums over the trees
    ends = reference.probabilities(np.array(reference.limits)) + np.array([-rounding, rounding])
    lowest, highest = np.clip(ends, lowest, highest)
    low, high = np.concatenate([[lowest], borders]), np.concatenate([borders, [highest]])
    return ScoreBins(edges, low, np.clip(middle, low, high), high)


def _last_of_bins(weights: Floats, n_bins: int) -> npt.NDArray[np.intp]:
    """Return the index of the last value of each bin."""
    n = len(weights)
    if n <= n_bins:
        return np.arange(n)
    shares = weights / max(weights.sum(), 1e-300)
    up_to = np.cumsum((1 - UNIFORM_SHARE) * shares + UNIFORM_SHARE / n)
    places = np.searchsorted(up_to, up_to[-1] * np.arange(1, n_bins) / n_bins)
    return np.unique(np.append(np.minimum(places, n - 2), n - 1))


UNIT = (0.0, 1.0)
"""Range of shares."""
PSEUDO_RECORDS = 1.0
"""Pseudo-records spread over all cells in the sampling variance, because a rare cell may be empty by chance."""

LAPLACE_KURTOSIS = 3.0
WELL_KNOWN = 6.0
"""Number of noise standard deviations from which the denominator of a ratio counts as well known."""


@dataclass(frozen=True)
class Estimate:
    """An estimate and its confidence interval.

    Examples
    --------
    >>> print(Estimate(0.81, 0.78, 0.84))
    0.81 (0.78 to 0.84)
    >>> print(Estimate(None, 0.0, 1.0))
    not known (0 to 1)
    """

    value: float | None  # None if it is not known
    low: float  # ends of the interval for the score on the population of the test rows
    high: float

    @classmethod
    def within(cls, value: float | None, low: float, high: float, bounds: tuple[float, float]) -> Estimate:
        """Return an estimate with its interval clipped to bounds; its value is None if the interval covers them."""
        low, high = max(low, bounds[0]), min(high, bounds[1])
        if value is None or (low, high) == bounds:
            return cls(None, low, high)
        return cls(min(max(value, low), high), low, high)

    def __str__(self) -> str:
        return f"{self.text('.4g')} ({self.low:.4g} to {self.high:.4g})"

    def text(self, digits: str) -> str:
        """Return the formatted value, or "not known"."""
        return "not known" if self.value is None else f"{self.value:{digits}}"

    def scaled(self, unit: float) -> Estimate:
        """Return the estimate in another unit."""
        return Estimate(None if self.value is None else self.value * unit, self.low * unit, self.high * unit)


@dataclass(frozen=True)
class Sum:
    """Weighted sum or other function of cells: its value, and its derivative by the count of each cell."""

    value: float
    weights: Floats

    @classmethod
    def of(cls, cells: Cells, weights: Floats) -> Sum:
        """Return a weighted sum of the counts."""
        return cls(float(weights @ cells.counts), weights)


@dataclass(frozen=True)
class Covariance:
    """Variances and covariance of A and B, which determine the variance of A - θ·B."""

    aa: float
    ab: float
    bb: float

    def __add__(self, other: Covariance) -> Covariance:
        return Covariance(self.aa + other.aa, self.ab + other.ab, self.bb + other.bb)

    def at(self, theta: float) -> float:
        """Return the variance of A - θ·B."""
        return self.aa - 2 * theta * self.ab + theta * theta * self.bb


def normal_quantile(confidence: float) -> float:
    """Return the normal quantile of a two-sided interval."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def corrected_quantile(confidence: float, variance: float, fourth: float) -> float:
    """Return the quantile, in standard deviations, of a sum with this variance and fourth cumulant."""
    z = normal_quantile(confidence)
    return z + (z**3 - 3 * z) / 24 * min(fourth / variance**2, LAPLACE_KURTOSIS) if variance > 0 else z


def total(cells: Cells, confidence: float) -> Estimate:
    """Return the sum of all counts, with an interval that accounts for the noise only."""
    spread = cells.spread(np.ones(len(cells.counts)))
    variance = float(spread @ spread)
    fourth = float((spread**4).sum()) * cells.kurtosis
    reach = corrected_quantile(confidence, variance, fourth) * math.sqrt(variance)
    n = max(float(cells.counts.sum()), 0.0)
    return Estimate(n, max(n - reach, 0.0), n + reach)


@dataclass(frozen=True)
class Ratio:
    """Ratio A/B, with the variances of both."""

    a: float
    b: float
    noise: Covariance
    sampling: Covariance
    fourth: float  # fourth cumulant of the noise of A - θ·B

    @classmethod
    def of(cls, cells: Cells, a: Sum, b: Sum, bounds: tuple[float, float] = UNIT, *, is_share: bool = False) -> Ratio:
        """Return the ratio of two sums of cells. For a share, A counts a subset of the records that B counts.

        The sampling variance of a share is that of a binomial distribution with the tested share (Wilson 1927), which
        remains valid near 0 and 1.
        """
        spread_a, spread_b = cells.spread(a.weights), cells.spread(b.weights)
        noise = Covariance(float(spread_a @ spread_a), float(spread_a @ spread_b), float(spread_b @ spread_b))
        if is_share:
            n = max(b.value, 1.0) * cells.max_records
            sampling = Covariance(0.0, -n / 2, -n)
        else:
            sampling = sampling_moments(cells, a.weights, b.weights)
        theta = min(max(a.value / b.value if b.value > 0 else 0.0, bounds[0]), bounds[1])
        fourth = float(np.sum((spread_a - theta * spread_b) ** 4)) * cells.kurtosis
        return cls(a.value, b.value, noise, sampling, fourth)

    def limits(self, theta: float, confidence: float) -> tuple[float, float] | None:
        """Return the ends of the interval, or None if it is unbounded. The quantile is corrected at ratio ``theta``."""
        both = self.noise + self.sampling
        quantile = corrected_quantile(confidence, both.at(theta), self.fourth)
        squared = quantile**2
        leading = self.b * self.b - squared * both.bb
        if self.b <= quantile * math.sqrt(self.noise.bb) or self.b <= 0 or leading <= 0:
            return None
        middle = self.a * self.b - squared * both.ab
        root = math.sqrt(max(middle * middle - leading * (self.a * self.a - squared * both.aa), 0.0))
        value = self.a / self.b
        return min((middle - root) / leading, value), max((middle + root) / leading, value)

    def estimate(self, confidence: float, bounds: tuple[float, float] = UNIT) -> Estimate:
        """Return A/B with the interval of all θ within bounds for which A - θ·B may be zero (Fieller)."""
        if self.b <= 0:
            return Estimate(None, *bounds)
        theta = min(max(self.a / self.b, bounds[0]), bounds[1])
        limits = self.limits(theta, confidence)
        if limits is None:
            return Estimate(None, *bounds)
        # If the clipped estimate moves, the interval moves with it, because clipping it would make it too narrow.
        shift = theta - self.a / self.b
        return Estimate.within(theta, min(limits[0] + shift, theta), max(limits[1] + shift, theta), bounds)


def ratio(
    cells: Cells,
    a: Sum,
    b: Sum,
    confidence: float,
    bounds: tuple[float, float] = UNIT,
    *,
    is_share: bool = False,
) -> Estimate:
    """Estimate A/B; see `Ratio.of`."""
    return Ratio.of(cells, a, b, bounds, is_share=is_share).estimate(confidence, bounds)


def sampling_moments(cells: Cells, a: Floats, b: Floats) -> Covariance:
    """Return the variances and the covariance of two sums of Poisson counts."""
    counts = (np.maximum(cells.counts, 0.0) + PSEUDO_RECORDS / len(a)) * cells.max_records
    return Covariance(float(counts @ (a * a)), float(counts @ (a * b)), float(counts @ (b * b)))


@dataclass(frozen=True)
class Part:
    """One of several ratios whose mean is estimated."""

    ratio: Ratio  # has errors that are independent of those of other parts
    shared: float = 0.0  # half-width of an interval for errors that may be the same in all parts
    slack: float = 0.0  # bound on a further error that always holds


def mean_of_shares(parts: Sequence[Part], confidence: float) -> Estimate:
    """Return the mean of ratios from 0 to 1.

    The ratios are not clipped to [0, 1], which would bias their mean. For ratios with well-known denominators, the bias
    by noise in the denominator is removed, and the squares of the sides of their intervals add up (Zou 2008).

    This does not suffice for other ratios, whose denominators may be large because of noise. Their intervals hold
    simultaneously (Bonferroni), and the sides add up. If such an interval is unbounded, the ratio is not known: it
    contributes [0, 1], and the mean has an interval but no value. Unless all ratios are well known, each of the two
    kinds gets half of the error probability.
    """
    n, value, squares, linear, shared, n_unknown = len(parts), 0.0, np.zeros(2), np.zeros(2), 0.0, 0
    is_known = [part.ratio.b > WELL_KNOWN * math.sqrt(part.ratio.noise.bb) for part in parts]
    error = (1 - confidence) / (1 if all(is_known) else 2)
    for part, is_well_known in zip(parts, is_known, strict=True):
        a, b, noise = part.ratio.a, part.ratio.b, part.ratio.noise
        theta = min(max(a / b, 0.0), 1.0) if b > 0 else 0.0
        limits = part.ratio.limits(theta, 1 - (error if is_well_known else error / n))
        if limits is None:
            n_unknown += 1
            continue
        sides = np.abs(np.subtract(limits, a / b))
        value += a / b
        shared += part.shared
        linear += part.slack
        if is_well_known:
            value -= (a / b * noise.bb - noise.ab) / b**2
            squares += sides**2
        else:
            linear += sides
    below, above = ((linear + np.hypot(shared, np.sqrt(squares)) + n_unknown / 2) / n).tolist()
    mean = (value + n_unknown / 2) / n
    inside = min(max(mean, 0.0), 1.0)
    return Estimate.within(None if n_unknown else inside, inside - below, inside + above, UNIT)


def adding_up_to_one(shares: Sequence[Estimate]) -> list[Estimate]:
    """Return the nearest shares that add up to one. Intervals are widened to contain the new values."""
    values = [share.value for share in shares if share.value is not None]
    if len(values) < len(shares):
        return list(shares)
    new = on_simplex(np.array(values), 1.0).tolist()
    return [Estimate(v, min(s.low, v), max(s.high, v)) for v, s in zip(new, shares, strict=True)]
