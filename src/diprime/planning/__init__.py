"""Previews of fits, with charges, model shapes and scores, from simulated fits to synthetic data.

Synthetic data are generated from a domain alone, so no private data are read.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime import sources
from diprime.domain import Categorical, Date, Domain, Integer, Numeric
from diprime.domain.columns import Array, ColumnTable, object_array, table_of
from diprime.domain.features import PARTS, Feature, short
from diprime.domain.learning import NotLearntError
from diprime.domain.values import DAY
from diprime.estimators.models import Boosted, Forest, Model, make_estimator
from diprime.inspection.words import plural
from diprime.model.estimates import charged_noise_variance
from diprime.privacy.ledger import Ledger
from diprime.privacy.session import without_charging

__all__ = ["Plan", "plan"]

TEST_ROWS = 20_000
GRID = 8
"""Number of steps of each of two interacting features."""
BATCH_ROWS = 50_000
FOUR_YEARS = 1461 * DAY  # contains every day of the calendar
OPEN_RANGE = (1.0, 1000.0)
SYNTHETIC_CATEGORIES = tuple(f"level {i}" for i in range(10))
OPEN_CLASSES = ("class 0", "class 1")

Floats = npt.NDArray[np.float64]
Places = dict[str, Floats]
"""Position of each value of each encoded feature, from 0 to 1."""


@dataclass(frozen=True)
class DataKind:
    """Kind of synthetic data."""

    name: str
    n_informative: int  # number of features that have effects
    interacts: bool  # whether pairs of features have step effects, instead of smooth effects of single features
    skew: int  # power of uniform values: 1 fills ranges evenly, 3 puts half of the values into an eighth of the range
    class_signal: float  # strength of effects on classes, relative to standard Gumbel noise in their scores
    number_signal: float  # standard deviation of the predictable part of numeric targets, as a share of their range
    number_noise: float  # standard deviation of the unpredictable part, as a share of the range


KINDS = (
    DataKind("simple", 1, interacts=False, skew=1, class_signal=12.0, number_signal=0.2, number_noise=0.03),
    DataKind("smooth", 5, interacts=False, skew=1, class_signal=3.0, number_signal=0.15, number_noise=0.1),
    DataKind("rough", 5, interacts=True, skew=3, class_signal=6.0, number_signal=0.15, number_noise=0.05),
)


def synthetic_domain(domain: Domain) -> Domain:
    """Return a domain with synthetic ranges and categories for everything that is undeclared."""
    features = {name: _closed(feature, SYNTHETIC_CATEGORIES) for name, feature in domain.features.items()}
    target = _closed(domain.target, OPEN_CLASSES)
    assert isinstance(target, Numeric | Categorical)
    return replace(domain, features=features, target=target)


def _closed(feature: Feature, categories: tuple[str, ...]) -> Feature:
    if not feature.is_undeclared:
        return feature
    if isinstance(feature, Categorical):
        return Categorical(categories)
    if isinstance(feature, Date):
        return Date.covering(0, FOUR_YEARS, PARTS)
    assert isinstance(feature, Numeric)
    return replace(feature, low=OPEN_RANGE[0], high=OPEN_RANGE[1])


class SyntheticData:
    """Synthetic data with independent features and a target that depends on a few of them."""

    def __init__(self, domain: Domain, seed: int, kind: DataKind) -> None:
        self._domain = domain
        self._kind = kind
        self._rng = np.random.default_rng(seed)
        n_scores = domain.layout.n_outputs if domain.task == "classification" else 1
        order = self._rng.permutation(domain.n_features)
        order = order[np.argsort(domain.n_codes[order] < n_scores, kind="stable")]  # features with few codes come last
        names = [domain.encoded_feature_names[i] for i in order[: kind.n_informative]]
        self._effects: list[tuple[tuple[str, ...], Floats]]
        if kind.interacts and len(names) > 1:
            size = (GRID * GRID, n_scores)
            self._effects = [(pair, _standardized(self._rng.normal(size=size))) for pair in pairwise(names)]
        else:
            self._effects = [((name,), self._effect(name, n_scores)) for name in names]

    def _effect(self, name: str, n_scores: int) -> Floats:
        """Return the effect of each code of a feature on the scores: smooth for numbers, shuffled for categories.

        Each class has the largest score on an equal share of the codes.
        """
        n_codes = int(self._domain.n_codes[self._domain.encoded_feature_names.index(name)])
        line = (np.arange(n_codes) + 0.5) / n_codes
        if isinstance(self._domain.encoded_features[name], Categorical):
            line = self._rng.permutation(line)
        if self._domain.task == "regression":
            return _standardized(line[:, None] * self._rng.choice([-1.0, 1.0]))
        centres = (self._rng.permutation(n_scores) + 0.5) / n_scores
        return np.asarray(-((n_scores * (line[:, None] - centres)) ** 2))

    def batches(self, n_rows: int, rows_per_person: int | None = None) -> SyntheticBatches:
        """Return batches of new rows with targets and, if ``rows_per_person`` is given, group identifiers."""
        return SyntheticBatches(self, n_rows, rows_per_person, int(self._rng.integers(1 << 62)))

    def draw(self, n_rows: int, rng: np.random.Generator | None = None) -> tuple[ColumnTable, Array]:
        """Sample rows and their targets."""
        rng = self._rng if rng is None else rng
        columns: dict[str, Array] = {}
        places: Places = {}
        for name, feature in self._domain.features.items():
            columns[name], of_column = self._draw_column(name, feature, n_rows, rng)
            places |= of_column
        return table_of(columns), self._target(self._scores(places, n_rows), rng)

    def _draw_column(self, name: str, feature: Feature, n_rows: int, rng: np.random.Generator) -> tuple[Array, Places]:
        """Sample the values of a column; return them and their positions in each encoded feature."""
        shares = rng.random(n_rows) ** self._kind.skew
        if isinstance(feature, Date):
            first, last = (feature.first_moment, feature.last_moment) if feature.has_range else (0, FOUR_YEARS)
            moments = first + (shares * (last - first)).astype(np.int64)
            places = {
                coded: _middle(part.codes(moments), part.n_cells)
                for coded, part in feature.encoded_features(name).items()
            }
            return moments.astype("datetime64[us]"), places
        n_codes = feature.n_codes if isinstance(feature, Categorical) else feature.n_cells
        codes = np.minimum((n_codes * shares).astype(np.int64), n_codes - 1)
        if isinstance(feature, Categorical):
            return _values(feature, codes), {name: _middle(codes, n_codes)}
        return _values(feature, codes), {name: shares ** (1 / self._kind.skew)}

    def _scores(self, places: Places, n_rows: int) -> Floats:
        scores: Floats = np.zeros((n_rows, 1))
        for names, effect in self._effects:
            size = len(effect) if len(names) == 1 else GRID
            steps = [np.minimum((size * places[name]).astype(np.int64), size - 1) for name in names]
            at = steps[0] if len(names) == 1 else steps[0] * GRID + steps[1]
            scores = scores + effect[at] / math.sqrt(len(self._effects))
        return scores

    def _target(self, scores: Floats, rng: np.random.Generator) -> Array:
        target, kind = self._domain.target, self._kind
        if isinstance(target, Categorical):
            classes = (kind.class_signal * scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
            return np.asarray(object_array(target.categories)[classes])
        assert target.low is not None
        assert target.high is not None
        shares = 0.5 + kind.number_signal * scores[:, 0] + kind.number_noise * rng.normal(size=len(scores))
        return np.asarray(target.low + (target.high - target.low) * shares.clip(0, 1))


@dataclass(frozen=True)
class SyntheticBatches:
    """Batches of synthetic rows. Every pass yields the same rows, because learning a domain takes several passes."""

    data: SyntheticData
    n_rows: int
    rows_per_person: int | None
    seed: int

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        rng = np.random.default_rng(self.seed)
        for start in range(0, self.n_rows, BATCH_ROWS):
            stop = min(start + BATCH_ROWS, self.n_rows)
            persons = [] if self.rows_per_person is None else [np.arange(start, stop) // self.rows_per_person]
            yield (*self.data.draw(stop - start, rng), *persons)


def _standardized(effect: Floats) -> Floats:
    spread = effect.std(axis=0)
    return np.asarray((effect - effect.mean(axis=0)) / np.where(spread > 0, spread, 1))


def _middle(codes: npt.NDArray[np.integer[Any]], n_codes: int) -> Floats:
    """Return the position of the middle of each code."""
    return np.asarray((codes + 0.5) / n_codes)


def _values(feature: Numeric | Integer | Categorical, codes: npt.NDArray[np.int64]) -> Array:
    """Return values with the given codes."""
    if isinstance(feature, Categorical):
        return object_array(feature.categories)[codes]
    if isinstance(feature, Integer):
        return np.array([feature.low, *feature.first_values])[codes]
    cells = np.concatenate([[np.nextafter(feature.thresholds[0], -np.inf)], feature.thresholds])
    return np.asarray(cells[codes])


@dataclass(frozen=True)
class Simulation:
    """Mean scores on one kind of synthetic data."""

    kind: str
    private: float
    noiseless: float  # score of a model of the same size without noise
    non_private: float  # score of the default model with epsilon = inf
    guess: float  # score of the best constant prediction

    @property
    def noise_cost(self) -> float:
        """The cost of noise, for models of the same size."""
        return self.noiseless - self.private

    @property
    def privacy_cost(self) -> float:
        """The cost of privacy, which includes the noise and the smaller size of the private model."""
        return self.non_private - self.private


@dataclass(frozen=True)
class SimulationSettings:
    """Settings of the fit to simulate."""

    domain: Domain  # undeclared ranges and categories are learnt from the synthetic data, as in a fit
    n_records: int
    epsilon: float
    options: dict[str, Any]  # arguments of `make_estimator`

    @property
    def max_records(self) -> int:
        """The contribution bound."""
        return int(self.options.get("max_records_per_group", 1))

    @property
    def records_per_person(self) -> int | None:
        """The number of records of each person, or None if single records are protected."""
        ledger = self.domain.origin.ledger  # a domain learnt with groups requires a fit with groups
        of_persons = self.max_records > 1 or (ledger is not None and ledger.privacy_unit == "person")
        return self.max_records if of_persons else None


def simulate(
    settings: SimulationSettings, kind: DataKind, repeats: int, advance: Callable[[float], None]
) -> tuple[Simulation, Model]:
    """Fit models to one kind of synthetic data; return their mean scores and the last private model."""
    closed = synthetic_domain(settings.domain)
    of_classes = closed.task == "classification"
    scores = []
    for seed in range(repeats):
        truth = SyntheticData(closed, seed, kind)
        model = _fit(settings, settings.epsilon, truth, settings.options)
        noiseless = non_private = model  # other fits would differ by random trees only
        if settings.epsilon != math.inf:
            noiseless = _fit(settings, math.inf, truth, settings.options | same_trees(model))
            non_private = _fit(settings, math.inf, truth, settings.options)
        X, y = truth.draw(TEST_ROWS)
        right = closed.encode_target(y)
        predictions = [closed.encode_target(m.predict(X)) for m in (model, noiseless, non_private)]
        if of_classes:
            guess = np.full_like(right, np.argmax(np.bincount(right)))
            scores.append([float(np.mean(right == predicted)) for predicted in (*predictions, guess)])
        else:
            errors = [float(np.mean((right - predicted) ** 2.0)) for predicted in predictions]
            scores.append([1 - error / float(np.var(right)) for error in errors] + [0.0])
        advance(1 / repeats)
    return Simulation(kind.name, *np.mean(scores, axis=0).tolist()), model


def same_trees(model: Model) -> dict[str, Any]:
    """Return parameters that give a fit without noise the same number and depth of trees."""
    if isinstance(model, Boosted):
        return {"n_rounds": max(BoostingShape.of(model).n_rounds, 1)}
    return {"n_estimators": model.forest_.n_trees, "max_depth": int(model.forest_.depths[0])}


def _fit(settings: SimulationSettings, epsilon: float, truth: SyntheticData, options: dict[str, Any]) -> Model:
    batches = sources.batches(truth.batches(settings.n_records, settings.records_per_person))
    model = make_estimator(settings.domain, epsilon, **options)
    with without_charging():
        return model.fit(batches)


@dataclass(frozen=True)
class ForestShape:
    """Size of the trees of a forest, which by default follows from a noisy count, and noise of their leaves."""

    n_trees: int
    depth: int
    records_per_leaf: float  # mean number of privacy units in a leaf
    leaf_noise: float  # standard deviation of the noise in each sum of a leaf, in privacy units
    unit: str = "record"  # privacy unit: "record" or "person"

    @classmethod
    def of(cls, model: Forest, n_rows: int) -> ForestShape:
        """Return the shape of a forest that was fitted to ``n_rows`` privacy units."""
        n_trees, depth = model.forest_.n_trees, int(model.forest_.depths[0])
        noise = math.sqrt(charged_noise_variance(model.privacy_, model.domain_.layout))
        return cls(n_trees, depth, n_rows / (n_trees * 2**depth), noise, model.privacy_.privacy_unit)

    def __str__(self) -> str:
        leaves = "leaves" if self.depth else "leaf"
        return (
            f"Trees:  {self.n_trees} of depth {self.depth}, with {2**self.depth} {leaves} each.\nLeaves: about "
            f"{self.records_per_leaf:,.1f} {plural(self.unit)} each. The noise in each released sum has a standard\n   "
            f"     deviation of {self.leaf_noise:,.2f} {plural(self.unit)}."
        )


@dataclass(frozen=True)
class BoostingShape:
    """Numbers of curves and rounds of a boosted model, which follow from the released number of records."""

    n_curves: int
    n_rounds: int

    @classmethod
    def of(cls, model: Boosted) -> BoostingShape:
        """Return the shape of a fitted boosted model."""
        return cls(len(model.forest_.curves), len(model.forest_.rounds))

    def __str__(self) -> str:
        if not self.n_curves:
            return "The model predicts the same for all rows, because there is too little information."
        rounds = f"Rounds: {self.n_rounds}, each on one or two features." if self.n_rounds else "Rounds: none."
        return f"Curves: {self.n_curves}, each on one feature.\n{rounds}"


PROMISE = (
    "On ten public tables, the real cost of noise ranged from zero to three times the larger of these two "
    "costs (or to 0.015, if that is more)."
)
"""Statement on the reliability of planned costs; a test compares it with `benchmarks/results/plan.md`."""

SMALL_GAIN = 0.1


@dataclass(frozen=True)
class Plan:
    """Preview of a fit, made by `diprime.plan`.

    Attributes
    ----------
    shape : ForestShape or BoostingShape
        Size of the model, and its noise.
    ledger : Ledger
        Privacy ledger: the budget of each release.
    domain_ledger : Ledger or None
        The charges for learning the domain; None if the domain is declared.
    n_records : int
        The number of records that the plan assumes.
    measure : str
        Name of the score: accuracy or R².
    simulations : tuple of Simulation
        Scores on each kind of synthetic data: ``kind``, ``private``, ``noiseless``, ``non_private``, ``guess``,
        ``noise_cost`` and ``privacy_cost``.
    """

    shape: ForestShape | BoostingShape
    ledger: Ledger
    domain_ledger: Ledger | None
    n_records: int
    measure: str
    simulations: tuple[Simulation, ...]

    @property
    def noise_cost(self) -> tuple[float, float]:
        """The smallest and the largest cost of noise among the simulations, in units of the score, but at least 0."""
        return _range_of(simulation.noise_cost for simulation in self.simulations)

    @property
    def privacy_cost(self) -> tuple[float, float]:
        """The smallest and the largest cost of privacy, which includes the noise and the smaller model."""
        return _range_of(simulation.privacy_cost for simulation in self.simulations)

    @property
    def no_better_than_guessing(self) -> tuple[str, ...]:
        """The kinds of synthetic data on which the private model beats the best guess by little or nothing.

        Its gain over the guess is less than a tenth of the gain of the model without privacy.
        """
        made = self.simulations
        return tuple(r.kind for r in made if r.private - r.guess < SMALL_GAIN * max(r.non_private - r.guess, 0.0))

    @property
    def conclusion(self) -> str:
        """A summary of the costs in words, with a warning if the budget is too small."""
        (low, high), (least, most) = self.noise_cost, self.privacy_cost
        text = (
            f"On these data, noise costs from {low:.3f} to {high:.3f} of {self.measure}, compared with a model "
            f"of the same size. {PROMISE} Privacy costs from {least:.3f} to {most:.3f}, compared with the "
            "default model without privacy."
        )
        hopeless = self.no_better_than_guessing
        if not hopeless:
            return text
        where = "any" if len(hopeless) == len(self.simulations) else " or ".join(hopeless)
        return (
            f"{text} On {where} data, the model is no better than guessing: plan with more records or a larger epsilon."
        )

    def __str__(self) -> str:
        lines = [
            f"{r.kind:<6}  {r.private:.3f}, without noise {r.noiseless:.3f}, without privacy {r.non_private:.3f}, "
            f"best guess {r.guess:.3f}"
            for r in self.simulations
        ]
        return "\n".join(
            [
                str(self.shape),
                f"{self.measure} on synthetic data of the kind",
                *(f"        {line}" for line in lines),
                self.conclusion,
            ]
        )


def _range_of(costs: Iterable[float]) -> tuple[float, float]:
    """Return the smallest and the largest cost; negative costs become 0."""
    shown = [max(cost, 0.0) for cost in costs]
    return min(shown), max(shown)


def plan(
    domain: Domain,
    n_records: int,
    epsilon: float,
    *,
    boost: bool = False,
    repeats: int = 3,
    on_progress: Callable[[float], None] | None = None,
    **parameters: Any,
) -> Plan:
    """Preview a fit by simulation on synthetic data of the same domain and size, without reading data.

    The number of trees, their depth, the budget of each release and the noise are those of the fit. There are three
    kinds of synthetic data.
    In the "simple" kind, one feature determines nearly all of the target. In the "smooth" kind, the effects of five
    features add up. In the "rough" kind, values are crowded at one end of their ranges and pairs of features have
    effects that change by steps.

    For each kind of data, the plan compares four scores: that of the private model, of a model of the same size without
    noise, of the model that diprime fits by default without privacy, and of the best constant prediction. The cost of
    noise is the second score minus the first. The cost of privacy is the third score minus the first; it also includes
    the effect of the smaller model. Real tables differ from all three kinds, so take the costs as orders of magnitude.
    `benchmarks/results/plan.md` compares planned and real costs of noise on ten public tables.

    Parameters
    ----------
    domain : Domain
        The domain. Undeclared ranges and categories are learnt from the synthetic data and charged to the same budget,
        as in a fit. The synthetic data then contain numbers from 1 to 1000, text of ten categories, and two classes.
    n_records : int
        Approximate number of records. If it is private, pass a guess.
    epsilon : float
        Privacy budget of the fit; ``float("inf")`` plans a fit without noise. Nothing is charged to a `Budget`.
    boost : bool, default=False
        Whether to plan a boosted model instead of a forest.
    repeats : int, default=3
        Number of simulations of each kind of data.
    on_progress : callable, optional
        Function that is called with the share of the work that was done since the last call.
    **parameters
        Further parameters of the estimator. With ``max_records_per_group``, the plan protects people, and assumes that
        each has this number of records.

    Returns
    -------
    plan : Plan
        The plan.

    Examples
    --------
    >>> from diprime import Categorical, Domain, Numeric, plan
    >>> domain = Domain({"age": Numeric(0, 110), "hours": Numeric(0, 100)}, target=Categorical(["no", "yes"]))
    >>> planned = plan(domain, n_records=5000, epsilon=1.0, repeats=1)
    >>> planned.ledger.total, planned.measure, planned.shape.n_trees >= 1
    (Fraction(1, 1), 'accuracy', True)
    >>> [simulation.kind for simulation in planned.simulations]
    ['simple', 'smooth', 'rough']
    """
    n_records = _checked_positive(n_records, "n_records")
    repeats = _checked_positive(repeats, "repeats")
    settings = SimulationSettings(domain, n_records, epsilon, {"boost": boost, **parameters})

    def advance(share: float) -> None:
        if on_progress is not None:
            on_progress(share / len(KINDS))

    try:
        found = [simulate(settings, kind, repeats, advance) for kind in KINDS]
    except NotLearntError as error:
        raise ValueError(f"A fit to about {n_records:,} records would fail. {error.problem}") from None
    _, model = found[0]
    n_persons = -(-n_records // settings.max_records)
    shape = BoostingShape.of(model) if isinstance(model, Boosted) else ForestShape.of(model, n_persons)
    measure = "accuracy" if domain.task == "classification" else "R²"
    simulations = tuple(simulation for simulation, _ in found)
    return Plan(shape, model.privacy_, model.domain_.origin.ledger, n_records, measure, simulations)


def _checked_positive(value: object, name: str) -> int:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {short(value)}.")
    return int(value)
