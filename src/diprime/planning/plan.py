"""`plan`: what a fit would be like, without data."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from diprime.domain import Domain
from diprime.domain.features import short
from diprime.estimators.models import Boosted
from diprime.planning.rehearsal import Rehearsal, Settings, rehearse
from diprime.planning.shapes import BoostingShape, ForestShape
from diprime.planning.synthetic import KINDS
from diprime.privacy.ledger import Ledger

PROMISE = (
    "On ten public tables it cost up to three times the most, which counts as 0.005 at least, or as little as nothing."
)
"""What such costs are worth; `benchmarks/results/plan.md` has the numbers, and a test compares them with this."""


@dataclass(frozen=True)
class Plan:
    """What to expect of a fit; made by `diprime.plan`.

    Attributes
    ----------
    shape : ForestShape or BoostingShape
        What the model is made of, and the noise in it.
    ledger : Ledger
        The split of the budget.
    of_domain : Ledger or None
        The part of it that learns the domain; None if the domain is declared.
    n_records : int
        The number of records that was planned for.
    measure : str
        The name of the score: accuracy or R².
    rehearsals : tuple of Rehearsal
        The scores on each kind of synthetic data: ``kind``, ``private``, ``noiseless``, ``guess`` and
        ``lost_to_noise``.
    """

    shape: ForestShape | BoostingShape
    ledger: Ledger
    of_domain: Ledger | None
    n_records: int
    measure: str
    rehearsals: tuple[Rehearsal, ...]

    @property
    def lost_to_noise(self) -> tuple[float, float]:
        """The least and the largest cost of noise among the rehearsals, in units of the score; 0 if it is less."""
        lost = [max(rehearsal.lost_to_noise, 0.0) for rehearsal in self.rehearsals]
        return min(lost), max(lost)

    def __str__(self) -> str:
        low, high = self.lost_to_noise
        lines = [f"{r.kind:<6}  {r.private:.3f}, without noise {r.noiseless:.3f}" for r in self.rehearsals]
        return "\n".join(
            [
                str(self.shape),
                f"{self.measure} on made-up data, of kind",
                *(f"        {line}" for line in lines),
                f"Noise costs from {low:.3f} to {high:.3f} there. {PROMISE}",
            ]
        )


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
    """Say what a fit would be like, without data.

    Trees, depth, the split of the budget and the noise are what the fit would have. Scores are those of rehearsals on
    three kinds of made-up data of the same domain and size, with and without noise. In the "simple" kind, one feature
    tells nearly all of the target. In the "smooth" kind, five features have effects that add up. In the "rough" kind,
    values are crowded at one end of their ranges and pairs of features have effects that change by steps. Real tables
    differ from all three: the costs of noise tell which order of magnitude to expect. `benchmarks/results/plan.md` has
    planned and real costs on ten public tables.

    Parameters
    ----------
    domain : Domain
        What is public about the data. What is open in it is learnt from the made-up data, as a fit learns it, and paid
        from the same budget: numbers from 1 to 1000, text of ten levels, two classes.
    n_records : int
        About how many records there are; a guess, if that is private.
    epsilon : float
        The budget of the fit. Nothing is charged to a `Budget`. If it is inf, there is no noise to pay for.
    boost : bool, default=False
        Whether to plan a boosted model rather than a forest.
    repeats : int, default=3
        How often to rehearse on each kind of data.
    on_progress : callable, optional
        Is told the share of the work that has been done since the last call.
    **parameters
        Further parameters of the estimator. With ``max_records_per_group``, persons are protected, and each is taken to
        have so many of the records.

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
    >>> [rehearsal.kind for rehearsal in planned.rehearsals]
    ['simple', 'smooth', 'rough']
    """
    n_records = _checked_positive(n_records, "n_records")
    repeats = _checked_positive(repeats, "repeats")
    settings = Settings(domain, n_records, epsilon, {"boost": boost, **parameters})
    found = [rehearse(settings, kind, repeats, _share(on_progress)) for kind in KINDS]
    _, model = found[0]
    n_persons = -(-n_records // settings.max_records)
    shape = BoostingShape.of(model) if isinstance(model, Boosted) else ForestShape.of(model, n_persons)
    measure = "accuracy" if domain.task == "classification" else "R²"
    rehearsals = tuple(rehearsal for rehearsal, _ in found)
    return Plan(shape, model.privacy_, model.domain_.origin.ledger, n_records, measure, rehearsals)


def _share(on_progress: Callable[[float], None] | None) -> Callable[[float], None]:
    """Return what is told the progress of one of the rehearsals."""
    return lambda share: None if on_progress is None else on_progress(share / len(KINDS))


def _checked_positive(value: object, name: str) -> int:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} = {short(value)} is not a positive whole number.")
    return int(value)
