"""Watching what is released and which random bits are drawn, in one place for all tests.

`Releases` sits where mechanisms take receipts, so that no release escapes it, whichever module makes it. `Draws` sits
where random bits are drawn. Both last as long as the test's ``monkeypatch``.
"""

import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import diprime.baselines
import diprime.estimators.forest  # noqa: F401 -- modules that were imported later would keep a stand-in for good
from diprime.kernels import sampling
from diprime.privacy.charges import Charge
from diprime.privacy.ledger import Ledger
from diprime.privacy.mechanisms.gaussian import rounded_gaussian
from diprime.privacy.mechanisms.laplace import discrete_laplace
from diprime.privacy.mechanisms.selection import ABSENT_COST, Selection
from diprime.privacy.mechanisms.subsets import subset_median
from diprime.privacy.mechanisms.weights import weight_table
from diprime.privacy.randomness import RandomSource


def replace_everywhere(monkeypatch, function, stand_in):
    """Replace a function in every module of the library that has it, under whatever name."""
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] == "diprime"]
    places = [(module, name) for module in modules for name, value in vars(module).items() if value is function]
    assert places, "a function that nobody has cannot be watched"
    for module, name in places:
        monkeypatch.setattr(module, name, stand_in)


@dataclass(eq=False)
class PaidSelection:
    """Selections that were set up.

    Attributes
    ----------
    selection : Selection
        The selections themselves.
    charge : Charge or None
        What paid for them; None where all candidates weigh the same and nobody pays.
    times : int
        How many of the releases of the charge they have used.
    epsilon, cost_range, n_candidates : numbers or None
        What the weights were made for; None where the test made them itself.
    picks : list of Pick or SubsetPick
        What was picked.
    """

    selection: Selection
    charge: Charge | None
    times: int
    epsilon: Any = None
    cost_range: int | None = None
    n_candidates: int | None = None
    picks: list[Any] = field(default_factory=list)

    @property
    def rule(self):
        """The mechanism that picks."""
        return self.selection._rule

    @property
    def table(self):
        """The weights."""
        return self.selection.table

    @property
    def n_picks(self):
        """From how many sets that have candidates one was picked."""
        return sum(pick.n_picks for pick in self.picks)


@dataclass(eq=False)
class Pick:
    """One call of ``Selection.pick``.

    Attributes
    ----------
    paid : PaidSelection
        The selections.
    sets : array of shape (n,)
        The sets that were picked from.
    costs : array of shape (n, n_slots)
        A copy of the costs in which the second half of a mirrored block is written.
    drawn : array of shape (n,)
        The slots picked.
    """

    paid: PaidSelection
    sets: Any
    costs: Any
    drawn: Any = None

    @property
    def n_picks(self):
        """How many of the sets have candidates."""
        return int((self.costs != ABSENT_COST).any(axis=1).sum())


@dataclass(eq=False)
class SubsetPick:
    """One call of ``subset_median``.

    Attributes
    ----------
    paid : PaidSelection
        The selections.
    place : int
        The set that was picked from.
    counts : list of int
        The records of each category.
    drawn : list of bool
        The split.
    """

    paid: PaidSelection
    place: int
    counts: list[int]
    drawn: Any = None
    n_picks: int = 1


@dataclass(eq=False)
class Noise:
    """One call of ``discrete_laplace`` or ``rounded_gaussian``.

    Attributes
    ----------
    charge : Charge
        What paid.
    times : int
        How many of its releases were used.
    sensitivity : int
        The L1 sensitivity, or the squared L2 sensitivity, that the noise is for.
    values : array of shape (n, m)
        A copy of the true values.
    drawn : array of shape (n, m)
        What was released.
    """

    charge: Charge
    times: int
    sensitivity: int
    values: Any
    drawn: Any = None


class Releases:
    """Every release that is made while the test's ``monkeypatch`` lasts.

    A subclass may override `answer` to release something else than what is drawn.

    Attributes
    ----------
    receipts : list of Receipt
        All that any ledger has issued, in their order.
    selections : list of PaidSelection
        All selections that were set up, in their order; those that nobody pays for, from their first pick on.
    events : list of Pick, SubsetPick and Noise
        What was released, in its order; with several threads, picks of one level come in any order.
    """

    def __init__(self, monkeypatch):
        self.receipts, self.selections, self.events = [], [], []
        self._tables, self._of_selection = {}, {}
        self._watch_ledgers(monkeypatch)
        self._watch_selections(monkeypatch)
        self._watch_subsets(monkeypatch)
        for mechanism in (discrete_laplace, rounded_gaussian):
            self._watch_noise(monkeypatch, mechanism)

    def answer(self, event, draw):
        """Return what is released: what the mechanism draws, unless a subclass says otherwise."""
        return draw()

    @property
    def noise(self):
        """The releases with noise."""
        return [event for event in self.events if isinstance(event, Noise)]

    def selections_of(self, kind):
        """Return the selections of one kind of charge."""
        return [paid for paid in self.selections if paid.charge is not None and paid.charge.kind == kind]

    def noise_of(self, kind):
        """Return the releases with noise of one kind of charge."""
        return [event for event in self.noise if event.charge.kind == kind]

    def _happened(self, event, draw):
        self.events.append(event)
        if not isinstance(event, Noise):
            event.paid.picks.append(event)
        event.drawn = self.answer(event, draw)
        return event.drawn.copy()

    def _watch_ledgers(self, monkeypatch):
        pay = Ledger.pay

        def watched(ledger, charge):
            self.receipts.append(pay(ledger, charge))
            return self.receipts[-1]

        monkeypatch.setattr(Ledger, "pay", watched)

    def _watch_selections(self, monkeypatch):
        set_up, published, pick = Selection.__init__, Selection.with_published_weights, Selection.pick

        def watched_table(*arguments):
            table = weight_table(*arguments)
            self._tables[id(table)] = (arguments, table)  # kept, so that no other object takes its id
            return table

        def watched_set_up(selection, receipt, streams, *, times=1, **calibration):
            set_up(selection, receipt, streams, times=times, **calibration)
            self._record(selection, receipt.charge, times)

        def watched_published(receipt, table, streams):
            selection = published(receipt, table, streams)
            self._record(selection, receipt.charge, 1)
            return selection

        def watched_pick(selection, sets, costs, mirrored=None):
            written = costs.copy()
            if mirrored is not None:
                half = written.shape[1] // mirrored.shape[1] // 2
                blocks = written.reshape(*mirrored.shape, 2 * half)
                blocks[mirrored > 0, half:] = blocks[mirrored > 0, :half]
            event = Pick(self._record(selection, None, 0), np.array(sets), written)
            return self._happened(event, lambda: pick(selection, sets, costs, mirrored))

        replace_everywhere(monkeypatch, weight_table, watched_table)
        monkeypatch.setattr(Selection, "__init__", watched_set_up)
        monkeypatch.setattr(Selection, "with_published_weights", watched_published)
        monkeypatch.setattr(Selection, "pick", watched_pick)

    def _record(self, selection, charge, times):
        """Return the record of a selection; make it where there is none, as of one that nobody pays for."""
        if id(selection) not in self._of_selection:
            made_for, _ = self._tables.get(id(selection.table), ((), None))
            record = PaidSelection(selection, charge, times, *made_for)
            if self._of_selection.setdefault(id(selection), record) is record:  # no other thread was faster
                self.selections.append(record)
        return self._of_selection[id(selection)]

    def _watch_subsets(self, monkeypatch):
        def watched(selection, place, counts):
            event = SubsetPick(self._record(selection, None, 0), place, list(counts))
            return self._happened(event, lambda: subset_median(selection, place, counts))

        replace_everywhere(monkeypatch, subset_median, watched)

    def _watch_noise(self, monkeypatch, mechanism):
        def watched(values, receipt, sensitivity, streams, times=1):
            event = Noise(receipt.charge, times, sensitivity, values.copy())
            return self._happened(event, lambda: mechanism(values, receipt, sensitivity, streams, times))

        replace_everywhere(monkeypatch, mechanism, watched)


# Where the kernels that draw have their streams among their arguments.
_STREAMS_AT = {
    "draw_words": 0,
    "draw_below": 0,
    "draw_trees": 0,
    "draw_laplace": 0,
    "draw_gaussian": 0,
    "permute_and_flip": 2,
    "exponential": 3,
}


def _identity(stream):
    """Return what tells a stream from all others: its key and its number."""
    return stream[4:12].tobytes(), stream[14:16].tobytes()


def _n_used(stream):
    """Return how many words of a stream have been used: sixteen a block, and word 32 says where in the last one."""
    return int(stream[12] + (int(stream[13]) << 32)) * 16 + int(stream[32]) - 16


class Draws:
    """All random bits that are drawn while the test's ``monkeypatch`` lasts, by any thread.

    Attributes
    ----------
    handed_out, made : list
        The streams that sources gave away, and all that they made: some are for the keys of others.
    spans : dict
        For each stream that was drawn from, the words that each draw used, in the order of the draws.
    """

    def __init__(self, monkeypatch):
        self.handed_out, self.made, self.spans = [], [], {}
        streams, make = RandomSource.streams, RandomSource._make

        def watched(source, n):
            given = streams(source, n)
            self.handed_out += map(_identity, given)
            return given

        def watched_make(numbers, keys):
            made = make(numbers, keys)
            self.made += map(_identity, made)
            return made

        monkeypatch.setattr(RandomSource, "streams", watched)
        monkeypatch.setattr(RandomSource, "_make", staticmethod(watched_make))
        for name, at in _STREAMS_AT.items():
            self._watch(monkeypatch, name, at)

    def _watch(self, monkeypatch, name, at):
        kernel = getattr(sampling, name)

        def watched(*arguments):
            streams = np.atleast_2d(arguments[at])
            before = [_n_used(stream) for stream in streams]
            result = kernel(*arguments)
            for stream, first in zip(streams, before, strict=True):
                if _n_used(stream) > first:
                    self.spans.setdefault(_identity(stream), []).append((first, _n_used(stream)))
            return result

        monkeypatch.setattr(sampling, name, watched)

    def assert_each_bit_is_used_once(self):
        """Check that streams are made once, and that every draw begins where the last of its stream ended."""
        assert len(set(self.made)) == len(self.made)
        assert self.spans.keys() <= set(self.made)
        assert self.spans
        for spans in self.spans.values():
            firsts, lasts = zip(*spans, strict=True)
            assert firsts == (0, *lasts[:-1])
