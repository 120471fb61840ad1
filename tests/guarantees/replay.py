"""Replays of a fit on neighbouring data: the second data set gets the releases of the first.

On one data set the mechanisms draw; on its neighbour they answer what was drawn before. Whatever else a fit makes of
its records shows as a difference between the two models.
"""

import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

from diprime import Categorical, Numeric
from diprime.boosting.engine import BoostingEngine
from diprime.domain.encoding import TargetLayout
from diprime.forest.engine import IndependentAssignment
from diprime.kernels.constants import ABSENT_COST
from diprime.privacy.charges import Mechanism
from diprime.privacy.mechanisms.laplace import laplace_scale
from diprime.privacy.mechanisms.selection import _weights, permute_and_flip_pmf, subset_median_pmf
from tests.encoded_rows import draws_by
from tests.spies import Noise, Pick, Releases

FEATURES = {"x": Numeric(edges=[1, 2]), "letter": Categorical(["a", "b"]), "y": Numeric(edges=[0, 5])}
VALUES = {"x": [0, 1.5, 9, None], "letter": ["a", "b", "z", None], "y": [-1, 3, 7, None]}

contributions = TargetLayout.contributions


def draw_records(targets, n, rng):
    """Draw records with values in and outside of the domain, and missing ones."""
    X = np.empty((n, len(VALUES)), dtype=object)
    for j, values in enumerate(VALUES.values()):
        X[:, j] = [values[i] for i in rng.integers(len(values), size=n)]
    return X, np.array([targets[i] for i in rng.integers(len(targets), size=n)], dtype=object)


def charge_of(event):
    """Return what paid for a release; None where nobody did."""
    return event.charge if isinstance(event, Noise) else event.paid.charge


def public_part(event):
    """Return what a mechanism was called with, except the private numbers that it protects."""
    kind, charge = type(event), charge_of(event)
    if isinstance(event, Noise):
        return kind, charge, event.times, event.share, event.sensitivity, event.values.shape
    of_weights = (event.paid.rule, event.paid.times, event.paid.table.tobytes())
    if isinstance(event, Pick):
        absent = event.costs == ABSENT_COST
        return kind, charge, *of_weights, event.sets.tolist(), event.costs.shape, absent.tobytes()
    return kind, charge, *of_weights, event.place, len(event.counts)


QUERIES = ("target_counts", "code_sums", "residual_counts", "curve_sums", "gradient_sums")
"""Methods of the boosting engine that look at records."""


class Transcript(Releases):
    """Every release of a fit: drawn, or the same as in an earlier transcript.

    Each event has the name of the last query of a boosting engine.
    """

    def __init__(self, monkeypatch, earlier=None):
        super().__init__(monkeypatch)
        self.earlier = None if earlier is None else iter(earlier.events)
        self.seen_windows = []
        self.earlier_windows = None if earlier is None else iter(earlier.seen_windows)
        monkeypatch.setattr(TargetLayout, "contributions", lambda *arguments: self.contributions(*arguments))
        self.query = None
        for name in QUERIES:
            monkeypatch.setattr(BoostingEngine, name, self._watched(name))

    def _watched(self, name):
        method = getattr(BoostingEngine, name)

        def watched(*arguments):
            self.query = name
            return method(*arguments)

        return watched

    def answer(self, event, draw):
        """Return a draw, or the earlier one of a mechanism that was called with the same."""
        event.query = self.query
        drawn = draw()  # in any case: it uses a receipt
        if self.earlier is None:
            return drawn
        earlier = next(self.earlier)
        same = public_part(event) == public_part(earlier)  # pytest would take minutes to say how they differ
        assert same, "what a mechanism is made for follows from what was released"
        return earlier.drawn

    def contributions(self, layout, windows):
        """Return what targets add: for selections to cost what was charged, it must not depend on records."""
        seen = (windows.low.tolist(), windows.high.tolist())
        if self.earlier_windows is not None:
            same = seen == next(self.earlier_windows)
            assert same, "the windows that targets are seen through follow from releases"
        self.seen_windows.append(seen)
        return contributions(layout, windows)

    @property
    def is_complete(self):
        """Whether everything that was released before was released again."""
        return next(self.earlier, None) is None


def exponential_p(costs, table, drawn):
    """Return the exact probability of one candidate; of the thousands of a window, all would take long."""
    weights = _weights(costs, table)
    return Fraction(weights[drawn], sum(weights))


def permute_and_flip_p(costs, table, drawn):
    return permute_and_flip_pmf(costs, table)[drawn]


def loss_of_release(one, two):
    """Return how much likelier what was released is on the first data set, as a logarithm."""
    if isinstance(one, Noise):
        numerator, denominator = laplace_scale(Fraction(one.charge.epsilon), one.sensitivity)
        further = (abs(one.drawn - two.values) - abs(one.drawn - one.values)).sum()
        return float(further) * denominator / numerator
    table = one.paid.table
    if isinstance(one, Pick):
        p_of = exponential_p if one.paid.rule == Mechanism.EXPONENTIAL else permute_and_flip_p
        nodes = np.flatnonzero((one.costs != two.costs).any(axis=1))
        ratios = [
            [p_of(event.costs[node].tolist(), table, one.drawn[node]) for event in (one, two)]
            for node in nodes
        ]  # fmt: skip
    else:
        ratios = [[subset_median_pmf(event.counts, table)[tuple(one.drawn)] for event in (one, two)]]
    return sum(math.log(p) - math.log(q) for p, q in ratios)


def losses_of(one, two):
    """Return the loss of all releases of each charge."""
    losses = defaultdict(float)
    for event, other in zip(one.events, two.events, strict=True):
        losses[charge_of(event)] += loss_of_release(event, other)
    return dict(losses)


def check_losses(losses, ledger, epsilon):
    """Every charge covers what its releases lose, what nobody pays for loses nothing, and the total is epsilon."""
    for charge, loss in losses.items():
        assert charge is None or charge in ledger.charges
        assert abs(loss) <= (charge.total if charge else 0) * (1 + 1e-9)
    assert ledger.total == epsilon
    assert abs(sum(losses.values())) <= epsilon * (1 + 1e-9)


def replay(fit, without, with_one_more, rng, coins=None):
    """Fit two data sets, given by their sizes, with the same releases, and with the same trees of rows if given."""
    results, transcripts = [], [None]
    for size in [without, with_one_more] if rng.random() < 0.5 else [with_one_more, without]:
        with pytest.MonkeyPatch.context() as patch:
            if coins is not None:
                patch.setattr(IndependentAssignment, "draws", draws_by(coins))
            transcripts.append(Transcript(patch, transcripts[-1]))
            results.append(fit(size))
    assert transcripts[-1].is_complete, "both data sets lead to equally many releases"
    return results, transcripts[1:]
