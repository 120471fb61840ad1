"""Recorders of releases and of random bits, for all tests.

`Releases` records the calls in which mechanisms use receipts, so it sees the releases of all modules. `Draws` records
the use of random bits. Both are active as long as the test's ``monkeypatch``.
"""

import sys
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from diprime.kernels import sampling
from diprime.privacy.charges import Charge
from diprime.privacy.mechanisms.gaussian import rounded_gaussian
from diprime.privacy.mechanisms.laplace import discrete_laplace
from diprime.privacy.mechanisms.selection import ABSENT_COST, Selection, subset_median, weight_table
from diprime.privacy.randomness import RandomSource
from diprime.privacy.session import Account


def replace_everywhere(monkeypatch, function, stand_in):
    """Replace a function in every module of the library that contains it, under any name."""
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] == "diprime"]
    places = [(module, name) for module in modules for name, value in vars(module).items() if value is function]
    assert places, "a function that nobody has cannot be watched"
    for module, name in places:
        monkeypatch.setattr(module, name, stand_in)


@dataclass(eq=False)
class PaidSelection:
    """Record of a `Selection`.

    Attributes
    ----------
    selection : Selection
        The recorded selection.
    charge : Charge or None
        Its charge; None if all candidates have equal weights, which costs nothing.
    times : int
        Number of releases of the charge that it used.
    epsilon, cost_range, n_candidates : numbers or None
        Arguments of the weight table; None if the test made the table itself.
    picks : list of Pick or SubsetPick
        Its calls.
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
        """The selection mechanism."""
        return self.selection._rule

    @property
    def table(self):
        """The weight table."""
        return self.selection.table

    @property
    def n_picks(self):
        """The number of sets with candidates in all calls."""
        return sum(pick.n_picks for pick in self.picks)


@dataclass(eq=False)
class Pick:
    """Record of a call of ``Selection.pick``.

    Attributes
    ----------
    paid : PaidSelection
        Record of the selection.
    sets : array of shape (n,)
        Sets from which a slot was selected.
    costs : array of shape (n, n_slots)
        Copy of the costs, with mirrored blocks filled in.
    drawn : array of shape (n,)
        Selected slots.
    """

    paid: PaidSelection
    sets: Any
    costs: Any
    drawn: Any = None

    @property
    def n_picks(self):
        """The number of sets with candidates."""
        return int((self.costs != ABSENT_COST).any(axis=1).sum())


@dataclass(eq=False)
class SubsetPick:
    """Record of a call of ``subset_median``.

    Attributes
    ----------
    paid : PaidSelection
        Record of the selection.
    place : int
        Index of the set.
    counts : list of int
        Number of records in each category.
    drawn : list of bool
        The selected split.
    """

    paid: PaidSelection
    place: int
    counts: list[int]
    drawn: Any = None
    n_picks: int = 1


@dataclass(eq=False)
class Noise:
    """Record of a call of ``discrete_laplace`` or ``rounded_gaussian``.

    Attributes
    ----------
    charge : Charge
        Charge of the release.
    times : int
        Number of releases of the charge that it used.
    sensitivity : int
        L1 sensitivity, or squared L2 sensitivity, to which the noise is calibrated.
    values : array of shape (n, m)
        Copy of the true values.
    share : Fraction
        Fraction of these releases that it used.
    drawn : array of shape (n, m)
        Released values.
    """

    charge: Charge
    times: int
    sensitivity: int
    values: Any
    share: Fraction = Fraction(1)
    drawn: Any = None


class Releases:
    """Recorder of all releases during the test's ``monkeypatch``.

    A subclass may override `answer` to release other values than those drawn.

    Attributes
    ----------
    receipts : list of Receipt
        Receipts of all accounts, in order.
    selections : list of PaidSelection
        Records of all selections, in order of creation or, without a charge, of their first pick.
    events : list of Pick, SubsetPick and Noise
        All releases, in order. With several threads, the order of picks within a level is arbitrary.
    """

    def __init__(self, monkeypatch):
        self.receipts, self.selections, self.events = [], [], []
        self._tables, self._of_selection = {}, {}
        self._watch_accounts(monkeypatch)
        self._watch_selections(monkeypatch)
        self._watch_subsets(monkeypatch)
        for mechanism in (discrete_laplace, rounded_gaussian):
            self._watch_noise(monkeypatch, mechanism)

    def answer(self, event, draw):
        """Return the released values: those that the mechanism draws, unless a subclass changes them."""
        return draw()

    @property
    def noise(self):
        """The releases with added noise."""
        return [event for event in self.events if isinstance(event, Noise)]

    def selections_of(self, kind):
        """Return the selections with a given kind of charge."""
        return [paid for paid in self.selections if paid.charge is not None and paid.charge.kind == kind]

    def noise_of(self, kind):
        """Return the releases with added noise and a given kind of charge."""
        return [event for event in self.noise if event.charge.kind == kind]

    def _happened(self, event, draw):
        self.events.append(event)
        if not isinstance(event, Noise):
            event.paid.picks.append(event)
        event.drawn = self.answer(event, draw)
        return event.drawn.copy()

    def _watch_accounts(self, monkeypatch):
        pay = Account.pay

        def watched(account, charge):
            self.receipts.append(pay(account, charge))
            return self.receipts[-1]

        monkeypatch.setattr(Account, "pay", watched)

    def _watch_selections(self, monkeypatch):
        set_up, published, pick = Selection.__init__, Selection.with_published_weights, Selection.pick

        def watched_table(*arguments):
            table = weight_table(*arguments)
            self._tables[id(table)] = (arguments, table)  # stored, so that no other object gets the same id
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
        """Return the record of a selection, or create one, as for selections without a charge."""
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
        def watched(values, receipt, sensitivity, streams, times=1, **share):
            event = Noise(receipt.charge, times, sensitivity, values.copy(), **share)
            return self._happened(event, lambda: mechanism(values, receipt, sensitivity, streams, times, **share))

        replace_everywhere(monkeypatch, mechanism, watched)


# Position of the streams among the arguments of each sampling kernel.
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
    """Return the key and the number of a stream, which identify it."""
    return stream[4:12].tobytes(), stream[14:16].tobytes()


def _n_used(stream):
    """Return the number of used words of a stream: sixteen per block, and word 32 is the position in the last one."""
    return int(stream[12] + (int(stream[13]) << 32)) * 16 + int(stream[32]) - 16


class Draws:
    """Recorder of all random bits drawn during the test's ``monkeypatch``, by any thread.

    Attributes
    ----------
    handed_out, made : list
        Streams that sources returned, and all streams that they made, including those that generate keys.
    spans : dict
        For each used stream, the range of words that each draw used, in order.
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
        """Assert that streams are made once, and that every draw begins where the previous draw of its stream ended."""
        assert len(set(self.made)) == len(self.made)
        assert self.spans.keys() <= set(self.made)
        assert self.spans
        for spans in self.spans.values():
            firsts, lasts = zip(*spans, strict=True)
            assert firsts == (0, *lasts[:-1])
