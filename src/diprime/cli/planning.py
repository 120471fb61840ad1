"""What to expect of a fit, from public facts alone: fits to synthetic data of the same domain and size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from sklearn.metrics import accuracy_score, r2_score

from diprime import DiPriMeBoostingClassifier, DiPriMeBoostingRegressor, DiPriMeClassifier, DiPriMeRegressor
from diprime.cli.text_values import level_column
from diprime.domain import Categorical, Date, Domain, Integer, Numeric, Task
from diprime.domain.kinds import Feature
from diprime.domain.moments import DAY
from diprime.domain.persons import person_weight
from diprime.engines.gradients import UNIT
from diprime.model.noise import ROUND_SUMS, charged_noise_variance
from diprime.privacy.ledger import Ledger
from diprime.training.boosting.plan import noise_of

INFORMATIVE_FEATURES = 5
CLASS_SIGNAL = 3.0  # standard deviation of the classes' scores, to which standard Gumbel noise is added
NUMBER_SIGNAL, NUMBER_NOISE = 0.15, 0.1  # standard deviations as shares of the target's range
BATCH_ROWS = 50_000
TEST_ROWS = 20_000
FOUR_YEARS = 1461 * DAY  # every day of the calendar occurs

Forest = DiPriMeClassifier | DiPriMeRegressor
Boosted = DiPriMeBoostingClassifier | DiPriMeBoostingRegressor
Model = Forest | Boosted

_ESTIMATORS: dict[tuple[bool, Task], type[Model]] = {
    (False, "classification"): DiPriMeClassifier,
    (False, "regression"): DiPriMeRegressor,
    (True, "classification"): DiPriMeBoostingClassifier,
    (True, "regression"): DiPriMeBoostingRegressor,
}


@dataclass(frozen=True)
class ForestShape:
    """The trees of a forest, and the noise of their leaves.

    Attributes
    ----------
    n_trees, depth : int
        The shape of the forest by default. It depends on a noisy row count, so that a fit may choose a slightly
        different one.
    records_per_leaf : float
        The mean number of records in a leaf, or of persons, whose records weigh as one.
    leaf_noise : float
        The standard deviation of the noise in each of a leaf's sums, in records or persons.
    unit : {"record", "person"}
        Which of the two.
    """

    n_trees: int
    depth: int
    records_per_leaf: float
    leaf_noise: float
    unit: str = "record"

    @classmethod
    def of(cls, model: Forest, n_rows: int) -> ForestShape:
        """Return the shape of a fitted forest of so many rows, or persons."""
        n_trees, depth = model.forest_.n_trees, int(model.forest_.depths[0])
        noise = math.sqrt(charged_noise_variance(model.privacy_, model.domain_.layout))
        return cls(n_trees, depth, n_rows / (n_trees * 2**depth), noise, model.privacy_.unit)

    def __str__(self) -> str:
        return (
            f"Trees:  {self.n_trees} of depth {self.depth}, with {2**self.depth} leaves each.\n"
            f"Leaves: about {self.records_per_leaf:,.1f} {self.unit}s each, and noise with a standard deviation of\n"
            f"        {self.leaf_noise:,.2f} {self.unit}s in each released sum."
        )


@dataclass(frozen=True)
class BoostingShape:
    """The rounds of boosting, and the noise of their sums.

    Attributes
    ----------
    n_rounds : int
        The number of rounds.
    round_noise : float
        The standard deviation of the noise in each sum of gradients, in units of the largest gradient of a record, or
        of a person, whose records weigh as one.
    unit : {"record", "person"}
        Which of the two.
    """

    n_rounds: int
    round_noise: float
    unit: str = "record"

    @classmethod
    def of(cls, model: Boosted) -> BoostingShape:
        """Return the shape of a fitted boosted model."""
        rounds = next(charge for charge in model.privacy_.charges if charge.kind == ROUND_SUMS)
        ledger = model.privacy_
        weight = person_weight(ledger.unit_records or 1)
        return cls(model.forest_.n_trees, noise_of(rounds) / (UNIT * weight), ledger.unit)

    def __str__(self) -> str:
        return (
            f"Rounds: {self.n_rounds}, each on one or two features.\n"
            f"Sums:   the gradients of the records in each cell of a round, and noise with a standard deviation of\n"
            f"        {self.round_noise:,.2f} times the largest gradient of a {self.unit}."
        )


@dataclass(frozen=True)
class Plan:
    """What to expect of a fit.

    Attributes
    ----------
    shape : ForestShape or BoostingShape
        What the model is made of.
    ledger : Ledger
        The split of the budget.
    measure : str
        The name of the score: accuracy or R².
    private, noiseless, guess : float
        Mean scores on synthetic data of the private model, of the same model without noise, and of the best constant
        prediction.
    """

    shape: ForestShape | BoostingShape
    ledger: Ledger
    measure: str
    private: float
    noiseless: float
    guess: float


def estimator(domain: Domain, epsilon: float, *, boost: bool = False, **parameters: Any) -> Model:
    """Return an unfitted estimator for a domain's target: a forest, or a boosted model."""
    return _ESTIMATORS[boost, domain.task](epsilon, domain, **parameters)


def rehearse(
    domain: Domain, epsilon: float, n_rows: int, repeats: int, advance: Callable[[float], None], **options: Any
) -> Plan:
    """Fit models to synthetic data of the domain, with and without noise, and return their scores.

    The options are those of `estimator`. With ``max_records_per_group``, every person has as many rows.
    """
    max_records = options.get("max_records_per_group", 1)
    of_classes = domain.task == "classification"
    scores = []
    for seed in range(repeats):
        truth = SyntheticData(domain, seed)
        model = estimator(domain, epsilon, **options).fit_batches(truth.batches(n_rows, max_records))
        without_noise = estimator(domain, math.inf, **(options | _same_trees(model)))
        noiseless = without_noise.fit_batches(truth.batches(n_rows, max_records))
        X, y = truth.draw(TEST_ROWS)
        right = domain.encode_target(y)
        predictions = [domain.encode_target(m.predict(X)) for m in (model, noiseless)]
        if of_classes:
            guess = np.full_like(right, np.argmax(np.bincount(right)))
            scores.append([accuracy_score(right, predicted) for predicted in (*predictions, guess)])
        else:
            scores.append([r2_score(right, predicted) for predicted in predictions] + [0.0])
        advance(1 / repeats)
    means = np.mean(scores, axis=0).tolist()
    n_persons = -(-n_rows // max_records)
    shape = BoostingShape.of(model) if isinstance(model, Boosted) else ForestShape.of(model, n_persons)
    return Plan(shape, model.privacy_, "accuracy" if of_classes else "R²", *means)


def _same_trees(model: Model) -> dict[str, Any]:
    """Return the parameters with which a fit without noise has the same number and depth of trees."""
    if isinstance(model, Boosted):
        return {"n_rounds": model.forest_.n_trees}
    return {"n_estimators": model.forest_.n_trees, "max_depth": int(model.forest_.depths[0])}


class SyntheticData:
    """Independent features, uniform over the domain's cells and levels, and a target with additive effects of a few.

    Parameters
    ----------
    domain : Domain
        The domain of the data.
    seed : int
        The seed of the effects and of the rows.
    """

    def __init__(self, domain: Domain, seed: int) -> None:
        self._domain = domain
        self._rng = np.random.default_rng(seed)
        n_scores = domain.layout.n_outputs if domain.task == "classification" else 1
        names = list(domain.names)
        chosen = self._rng.permutation(len(names))[:INFORMATIVE_FEATURES]
        self._effects = {names[i]: self._effect(int(domain.n_codes[i]), n_scores, names[i]) for i in chosen}

    def _effect(self, n_codes: int, n_scores: int, name: str) -> npt.NDArray[np.float64]:
        """Return the effect of each code of a feature on the scores: linear for numbers, random for categories."""
        if isinstance(self._domain.coded[name], Categorical):
            effect = self._rng.normal(size=(n_codes, n_scores))
        else:
            effect = np.linspace(-1, 1, n_codes)[:, None] * self._rng.choice([-1.0, 1.0], n_scores)
        spread = effect.std(axis=0)
        return np.asarray((effect - effect.mean(axis=0)) / np.where(spread > 0, spread, 1))

    def batches(self, n_rows: int, max_records: int = 1) -> Iterator[tuple[Any, ...]]:
        """Yield batches of rows and their targets; if persons have several rows, their numbers as well."""
        for start in range(0, n_rows, BATCH_ROWS):
            stop = min(start + BATCH_ROWS, n_rows)
            persons = [] if max_records == 1 else [np.arange(start, stop) // max_records]
            yield (*self.draw(stop - start), *persons)

    def draw(self, n_rows: int) -> tuple[pl.DataFrame, pl.Series]:
        """Draw rows and their targets."""
        columns = {}
        scores: npt.NDArray[np.float64] = np.zeros((n_rows, 1))
        for name, feature in self._domain.features.items():
            columns[name], codes_by_name = self._draw_column(name, feature, n_rows)
            for coded, codes in codes_by_name.items():
                if coded in self._effects:
                    scores = scores + self._effects[coded][codes] / math.sqrt(len(self._effects))
        return pl.DataFrame(columns), self._target(scores)

    def _draw_column(
        self, name: str, feature: Feature, n_rows: int
    ) -> tuple[pl.Series, dict[str, npt.NDArray[np.integer[Any]]]]:
        """Draw values of a column; return them and their codes, for each coded feature."""
        if isinstance(feature, Date):
            ends = (feature.first_moment, feature.last_moment) if feature.has_range else (0, FOUR_YEARS)
            moments = self._rng.integers(*ends, n_rows, endpoint=True)
            codes_by_name = {coded: part.codes(moments) for coded, part in feature.coded(name).items()}
            return pl.Series(name, moments).cast(pl.Datetime("us")), dict(codes_by_name)
        codes = self._rng.integers(0, feature.n_codes if isinstance(feature, Categorical) else feature.n_cells, n_rows)
        return _values(feature, codes, name), {name: codes}

    def _target(self, scores: npt.NDArray[np.float64]) -> pl.Series:
        target = self._domain.target
        if isinstance(target, Categorical):
            classes = (CLASS_SIGNAL * scores + self._rng.gumbel(size=scores.shape)).argmax(axis=1)
            return level_column("target", classes, target.levels)
        assert target.low is not None
        assert target.high is not None
        shares = 0.5 + NUMBER_SIGNAL * scores[:, 0] + NUMBER_NOISE * self._rng.normal(size=len(scores))
        return pl.Series("target", target.low + (target.high - target.low) * shares.clip(0, 1))


def _values(feature: Numeric | Integer | Categorical, codes: npt.NDArray[np.int64], name: str) -> pl.Series:
    """Return values that have these codes."""
    if isinstance(feature, Categorical):
        return level_column(name, codes, feature.levels)
    if isinstance(feature, Integer):
        return pl.Series(name, np.array([feature.low, *feature.first_values])[codes])
    cells = np.concatenate([[np.nextafter(feature.thresholds[0], -np.inf)], feature.thresholds])
    return pl.Series(name, cells[codes])
