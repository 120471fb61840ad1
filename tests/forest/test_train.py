"""One fit from an engine to leaves: what it asks, when it pays, and that it releases what it paid for."""

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from diprime.domain.encoding import ClippingRanges
from diprime.forest import defaults, plan
from diprime.forest import train as training
from diprime.forest.candidates import Cost
from diprime.forest.engine import BagAssignment, ForestEngine, IndependentAssignment
from diprime.forest.train import Grower
from diprime.paper import EqualParts
from diprime.privacy.charges import Bound, BoundKind, Charge, Mechanism, ReleaseKind
from diprime.privacy.measures import PureEpsilon, share_of
from tests.forest.made_fits import AUTO, DOMAINS, METHODS, POLICIES, TASKS, fit, n_features_tried, random_rows
from tests.paid import open_account, so_far
from tests.spies import Draws, Noise, Releases

PROTOCOL = {name for name in vars(ForestEngine) if not name.startswith("_")}
POLICIES_AND_EPSILONS = [("strict", Fraction(3)), ("paper", Fraction(3)), ("strict", math.inf)]
LAPLACE, EXPONENTIAL = Mechanism.DISCRETE_LAPLACE, Mechanism.EXPONENTIAL


@pytest.fixture(autouse=True)
def windows_at_nodes_of_ten_records(monkeypatch):
    """Let nodes have windows of their own from so few records on that these fits have some."""
    monkeypatch.setattr(defaults, "WINDOW_INFORMATION", 10)


@pytest.fixture(autouse=True)
def enough_information(monkeypatch):
    """Let no fit of these few records be one that information is too scarce for."""
    monkeypatch.setattr(defaults, "SCARCE", 1)


class RefusalError(Exception):
    pass


class ProtocolEngine:
    """Passes on what the protocol has, notes what is asked, and refuses everything else.

    Attributes
    ----------
    calls : list
        For each call its name, its arguments, and what had been charged by then.
    """

    def __init__(self, engine, account, refused=()):
        self._engine, self._account, self._refused = engine, account, refused
        self.calls = []

    def __getattr__(self, name):
        if name not in PROTOCOL:
            raise AssertionError(f"training asked for {name}, which the protocol does not have")
        value = getattr(self._engine, name)
        if not callable(value):
            return value

        def call(*arguments):
            charged = [charge.description for charge in so_far(self._account).charges]
            self.calls.append(SimpleNamespace(name=name, arguments=arguments, charged=charged))
            if name in self._refused:
                raise RefusalError
            return value(*arguments)

        return call

    def calls_of(self, name):
        """Return the calls of one method."""
        return [call for call in self.calls if call.name == name]


class WatchedFit:
    """A fit whose engine is watched, carried out by `run`."""

    def __init__(self, method, task, *, refused=(), spent=Fraction(0), epsilon=Fraction(3), policy="strict", **changes):
        self.account = open_account(epsilon, accounting=policy)
        if spent:
            self.account.pay(Charge(ReleaseKind.NOTHING, Mechanism.NONE, Bound(BoundKind.NONE), PureEpsilon(spent)))
        self.refused, self.engine = refused, None
        self._arguments = (method, task)
        self._options = {"epsilon": epsilon, "policy": POLICIES[policy], "account": self.account, **changes}

    def _make_engine(self, *arguments):
        self.engine = ProtocolEngine(ForestEngine(*arguments), self.account, self.refused)
        return self.engine

    @property
    def ledger(self):
        """The ledger so far."""
        return so_far(self.account)

    def run(self):
        """Fit, and return what the fit has made."""
        return fit(*self._arguments, make_engine=self._make_engine, **self._options)


def ends_of(several):
    """Return the ends of windows as numbers that can be compared."""
    return tuple(zip(several.low.tolist(), several.high.tolist(), strict=True))


def charged_of(ledger):
    return [charge.description for charge in ledger.charges]


# -- what a fit should charge and draw, from the rules -----------------------------------------------------------------


class Expected:
    """What a fit for epsilon 3 in strict accounting should charge and draw."""

    def __init__(self, method, task, n_trees, depth, *, disjoint_rows, auto=False):
        self.method, self.task, self.depth = method, task, depth
        self.epsilon, self.k = Fraction(3), n_features_tried(method)
        self.n_rounds, self.n_together = (1, n_trees) if disjoint_rows else (n_trees, 1)
        self.counted = auto or method == "joint"
        self.has_windows = method == "joint" and task == "number"
        self.window_levels = range(2, depth, 2) if self.has_windows else ()
        quantiles = 2 * (1 + len(self.window_levels)) if self.has_windows else 0
        left = 1 - defaults.COUNTS_SHARE * self.counted - defaults.QUANTILE_SHARE * quantiles
        self.of_tree = self.epsilon * left / self.n_rounds
        self.split_share = defaults.split_share(method, 1, Fraction(1)) if method != "random" else Fraction(0)

    def charges(self):
        """Return the entries of the ledger: what, mechanism, bound, epsilon, times."""
        units = DOMAINS[self.task].layout.units
        of_leaves = self.of_tree * (1 - self.split_share)
        leaves = ("leaf sums", LAPLACE, f"L1 sensitivity {units}", of_leaves, self.n_rounds)
        splits = [charge for level in range(self.depth) for charge in self._splits(level)]
        return [*self._counts(), *self._windows(), *splits, leaves]

    def _counts(self):
        what = "row count" if self.task == "number" else "class counts"
        return [(what, LAPLACE, "L1 sensitivity 1", self.epsilon * defaults.COUNTS_SHARE, 1)] * self.counted

    def _windows(self):
        if not self.has_windows:
            return []
        each, bound = self.epsilon * defaults.QUANTILE_SHARE, "cost range 12"
        of_nodes = [
            (f"target clipping ranges of level {level}", EXPONENTIAL, bound, each / self.n_rounds, 2 * self.n_rounds)
            for level in self.window_levels
        ]
        return [("target clipping range", EXPONENTIAL, bound, each, 2), *of_nodes]

    def _splits(self, level):
        if self.method == "random":
            return []
        weights = defaults.level_weights(self.method, self.depth, self.epsilon)
        epsilon = self.of_tree * self.split_share * Fraction(weights[level], sum(weights))
        if self.method == "joint":
            balance = defaults.balance(classification=self.task != "number", epsilon=self.epsilon)
            cost = Cost.joint(epsilon, balance, Fraction(1, 16))  # the linear tail does not change the range
            assert cost.range == cost.units + 2 + cost.balance
            bound = f"cost range {cost.range} in units of 1/{cost.units}"
            return [(f"splits of level {level}", EXPONENTIAL, bound, epsilon, self.n_rounds)]
        rule, of_medians = (
            Mechanism.PERMUTE_AND_FLIP if self.method == "diprime-flip" else EXPONENTIAL,
            f"medians of level {level}",
        )
        if self.k == 1:
            return [(of_medians, rule, "cost range 2", epsilon, self.n_rounds)]
        return [
            (of_medians, rule, "cost range 2", epsilon / 2 / self.k, self.k * self.n_rounds),
            (f"choices of level {level}", rule, "cost range 1026 in units of 1/1024", epsilon / 2, self.n_rounds),
        ]

    def selections(self):
        """Return what is selected, in its order, and how many picks it takes: round by round, level by level."""
        of_round = []
        for level in range(self.depth):
            n_nodes = self.n_together * 2**level
            if level in self.window_levels:
                of_round.append((f"target clipping ranges of level {level}", 2 * n_nodes))
            for what, *_ in self._splits(level):
                of_round.append((what, n_nodes * (self.k if what.startswith("medians") else 1)))
        return [("target clipping range", 2)] * self.has_windows + of_round * self.n_rounds


# -- what is charged is what is spent ----------------------------------------------------------------------------------


def assert_made_for_their_charge(ledger, selections):
    """Check that weights are made for the epsilon and the range of a charge in the ledger."""
    for paid in selections:
        assert any(charge is paid.charge for charge in ledger.charges)
        assert (paid.rule, paid.epsilon) == (paid.charge.mechanism, paid.charge.epsilon)
        assert paid.charge.sensitivity.calibration == Bound(BoundKind.COST_RANGE, paid.cost_range)


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize("disjoint_rows", [True, False])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_mechanisms_are_calibrated_to_the_charges(monkeypatch, method, task, disjoint_rows, auto):
    """Every release, in the order of the ledger; what the ledger does not list is not called."""
    releases = Releases(monkeypatch)
    sizes = AUTO if auto else {"max_depth": 5 if method == "joint" else 2}  # so deep that nodes get windows
    ledger, structure, leaves = fit(method, task, disjoint_rows=disjoint_rows, **sizes)
    n_trees, n_leaves, n_outputs = leaves.sums.shape
    assert structure.masks.any(axis=2).sum() == n_trees * (n_leaves - 1), "all nodes had something to split"
    expected = Expected(method, task, n_trees, n_leaves.bit_length() - 1, disjoint_rows=disjoint_rows, auto=auto)
    assert auto or not expected.has_windows or len(expected.window_levels) == 2

    assert [
        (c.description, c.mechanism, str(c.sensitivity), c.epsilon, c.n_releases) for c in ledger.charges
    ] == expected.charges()
    assert sum(epsilon * times for *_, epsilon, times in expected.charges()) == ledger.total == ledger.epsilon
    assert ledger.is_private

    paid = [selection for selection in releases.selections if selection.charge is not None]
    assert [(selection.charge.description, selection.n_picks) for selection in paid] == expected.selections()
    assert_made_for_their_charge(ledger, paid)
    free = [selection for selection in releases.selections if selection.charge is None]
    assert {selection.epsilon for selection in free} == ({0} if method == "random" else set())

    layout = DOMAINS[task].layout
    noise = [(event.charge, event.values.shape, event.sensitivity) for event in releases.noise]
    counts = [(ledger.charges[0], (1, 1 if task == "number" else n_outputs), 1)] * expected.counted
    assert noise == [*counts, (ledger.charges[-1], (n_trees * n_leaves, n_outputs), layout.units)]


@pytest.mark.parametrize(("accounting", "epsilon"), POLICIES_AND_EPSILONS)
@pytest.mark.parametrize("disjoint_rows", [True, False])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_every_charge_is_released(monkeypatch, method, task, disjoint_rows, accounting, epsilon):
    """No receipt of a fit has a release left at its end, and each was used by the mechanisms that were watched."""
    releases = Releases(monkeypatch)
    for sizes in ({"max_depth": 5}, AUTO):
        releases.receipts.clear()
        releases.selections.clear()
        releases.events.clear()
        ledger, _, _ = fit(
            method, task, disjoint_rows=disjoint_rows, policy=POLICIES[accounting], epsilon=epsilon, **sizes
        )
        assert tuple(receipt.charge for receipt in releases.receipts) == ledger.charges
        assert {receipt.unused for receipt in releases.receipts} == {0}
        noise = [event for event in releases.events if isinstance(event, Noise)]
        for charge in ledger.charges:
            used = [release.times for release in (*releases.selections, *noise) if release.charge is charge]
            assert sum(used) == charge.n_releases
        assert ledger.total == ledger.epsilon == epsilon


@pytest.mark.parametrize("disjoint_rows", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_published_accounting_states_the_excess_loss(monkeypatch, method, disjoint_rows):
    releases = Releases(monkeypatch)
    ledger, _, _ = fit(method, "binary", disjoint_rows=disjoint_rows, policy=POLICIES["paper"])
    assert ledger.total == ledger.epsilon
    assert not ledger.is_private
    if method in ("diprime-exp", "diprime-flip"):
        medians = {(paid.epsilon, paid.cost_range) for paid in releases.selections_of(ReleaseKind.MEDIANS)}
        per_level = ledger.epsilon * defaults.split_share(method, 1, Fraction(1)) / 2 / (1 if disjoint_rows else 3)
        assert medians == {(per_level / 2, 2)}, "each of three medians has what all of them are charged"


# -- random bits are used once -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [{"max_depth": 5}, AUTO], ids=["given", "auto"])
@pytest.mark.parametrize("disjoint_rows", [True, False])
@pytest.mark.parametrize("task", ["binary", "number"])
@pytest.mark.parametrize("method", METHODS)
def test_no_stream_is_drawn_from_twice(monkeypatch, method, task, disjoint_rows, sizes):
    draws, releases = Draws(monkeypatch), Releases(monkeypatch)
    fit(method, task, disjoint_rows=disjoint_rows, **sizes)
    draws.assert_each_bit_is_used_once()
    n_picks = sum(paid.n_picks for paid in releases.selections)
    n_rows = sum(len(event.values) for event in releases.noise)
    assert len(draws.spans) >= n_picks + n_rows > 0, "each pick, and each row with noise, has a stream of its own"


# -- what is asked of an engine, and when ------------------------------------------------------------------------------


@pytest.mark.parametrize(("accounting", "epsilon"), POLICIES_AND_EPSILONS)
@pytest.mark.parametrize("disjoint_rows", [True, False])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_training_uses_only_public_methods_of_the_engine(method, task, disjoint_rows, accounting, epsilon):
    """The engine refuses anything else; and what it passes on is enough for the same fit."""
    options = {"disjoint_rows": disjoint_rows, "epsilon": epsilon, "max_depth": 5}
    watched = WatchedFit(method, task, policy=accounting, **options)
    found, expected = watched.run(), fit(method, task, policy=POLICIES[accounting], **options)
    assert (found.leaves.sums == expected.leaves.sums).all()
    assert (found.structure.masks == expected.structure.masks).all()
    assert found.ledger == expected.ledger
    asked = {call.name for call in watched.engine.calls}
    assert asked >= {"assign_trees", "start", "set_windows", "route", "node_sums"}
    assert ("histograms" in asked) == ("chunks" in asked) == (method != "random")
    assert ("node_target_counts" in asked) == (method == "joint" and task == "number" and epsilon != math.inf)


@pytest.mark.parametrize("sizes", [{}, AUTO], ids=["given", "auto"])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_read_before_it_is_charged(monkeypatch, method, task, sizes):
    """Counts and the window each after their own charge; no row before all of the trees is charged."""
    monkeypatch.setattr(defaults, "window_levels", lambda *_: [0, 1])
    watched = WatchedFit(method, task, **sizes)
    watched.run()
    all_of_it = charged_of(watched.ledger)
    counts = [what for what in all_of_it if what in ("row count", "class counts")]
    window = [what for what in all_of_it if what == "target clipping range"]
    assert len(counts) == bool(sizes or method == "joint")
    assert len(window) == (method == "joint" and task == "number")
    reads = [call.charged for call in watched.engine.calls_of("target_counts")]
    assert reads == [counts] * len(counts) + [counts + window] * len(window)
    others = [call for call in watched.engine.calls if call.name != "target_counts"]
    assert others
    assert all(call.charged == all_of_it for call in others)
    assert all_of_it[-1] == "leaf sums"
    of_nodes = [what for what in all_of_it if what.startswith("target clipping ranges")]
    assert of_nodes == ["target clipping ranges of level 0", "target clipping ranges of level 1"] * len(window)


@pytest.mark.parametrize("sizes", [{}, AUTO], ids=["given", "auto"])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_budget_that_does_not_add_up_stops_a_fit_before_anything_is_read(monkeypatch, method, task, sizes):
    tiny = Fraction(1, 10**30)
    monkeypatch.setattr(plan, "share_of", lambda epsilon, share: share_of(epsilon, share) + tiny)
    watched = WatchedFit(method, task, **sizes)
    with pytest.raises(AssertionError, match=r"the fit .*budget is "):
        watched.run()
    assert watched.engine is None, "no engine has the rows yet"
    assert watched.ledger.charges == ()


@pytest.mark.parametrize("sizes", [{}, AUTO], ids=["given", "auto"])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_trees_that_do_not_add_up_stop_a_fit_before_a_row_is_read(monkeypatch, method, task, sizes):
    """What was released by then is what the number of trees depends on, and it is paid for."""
    leaf_charge = plan.leaf_charge
    monkeypatch.setattr(plan, "leaf_charge", lambda layout, epsilon, *rest: leaf_charge(layout, 2 * epsilon, *rest))
    releases, watched = Releases(monkeypatch), WatchedFit(method, task, **sizes)
    with pytest.raises(AssertionError, match=r"the trees .*budget is "):
        watched.run()
    assert {call.name for call in watched.engine.calls} <= {"target_counts"}
    assert {*charged_of(watched.ledger)} <= {"row count", "class counts", "target clipping range"}
    assert {receipt.unused for receipt in releases.receipts} <= {0}
    assert all(event.charge in watched.ledger.charges for event in releases.noise)


@pytest.mark.parametrize("sizes", [{}, AUTO], ids=["given", "auto"])
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", METHODS)
def test_ledger_without_room_stops_a_fit_before_anything_is_read(method, task, sizes):
    watched = WatchedFit(method, task, spent=Fraction(3), **sizes)
    with pytest.raises(ValueError, match=r"epsilon = 3 .*epsilon = 3 .*already"):
        watched.run()
    assert watched.engine.calls == []


@pytest.mark.parametrize("refused", sorted(PROTOCOL))
def test_training_stops_at_the_first_error_of_the_engine(refused):
    watched = WatchedFit("joint", "number", refused=(refused,), max_depth=5)
    with pytest.raises(RefusalError):
        watched.run()
    names = [call.name for call in watched.engine.calls]
    assert names.index(refused) == len(names) - 1


# -- what is released and what follows from it -------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_released_counts_are_noisy_counts_of_rows_with_a_target(monkeypatch, task):
    releases, rows, counts = Releases(monkeypatch), [], []
    monkeypatch.setattr(defaults, "n_estimators", lambda _, n, __, **___: rows.append(n) or 2)
    monkeypatch.setattr(defaults, "max_depth", lambda n, *_: rows.append(n) or 2)
    monkeypatch.setattr(defaults, "window_levels", lambda n, *_: rows.append(n) or [])
    monkeypatch.setattr(defaults, "linear_tail", lambda c, _: counts.append(c) or Fraction(0))
    fit("joint", task, epsilon=Fraction(1, 10), **AUTO)
    (released,) = releases.noise_of(ReleaseKind.ROW_COUNT if task == "number" else ReleaseKind.CLASS_COUNTS)
    true, noisy = released.values.tolist(), released.drawn.tolist()
    target = random_rows(task, 300)[1]
    by_target = np.bincount(target[target >= 0], minlength=DOMAINS[task].layout.n_targets).tolist()
    assert true == [[sum(by_target)] if task == "number" else by_target]
    assert rows == [sum(noisy[0])] * (3 if task == "number" else 2)
    assert counts == noisy
    assert all(a != b for a, b in zip(noisy[0], true[0], strict=True)), "each with its own noise, at this seed"


@pytest.mark.parametrize("window", [(1500, 1600), (0, 4096), (4000, 4096)])
def test_clipping_ranges_of_splits_and_leaves_are_the_released_one_with_margins(monkeypatch, window):
    target = random_rows("number", 300)[1]
    low, high = window

    def release(counts, layout, receipt, source):
        assert (counts == np.bincount(target[target >= 0], minlength=4097)[None, :]).all()
        assert receipt.charge.epsilon == 3 * defaults.QUANTILE_SHARE
        return ClippingRanges(np.array([low]), np.array([high]))

    monkeypatch.setattr(training, "release_windows", release)
    monkeypatch.setattr(defaults, "window_margins", lambda _: (Fraction(1, 30), 2))
    watched = WatchedFit("joint", "number")
    leaves = watched.run().leaves
    for_splits, for_leaves = (
        (max(0, low - margin), min(4096, high + margin)) for margin in (math.ceil((high - low) / 30), 2 * (high - low))
    )
    assert [ends_of(*call.arguments) for call in watched.engine.calls_of("set_windows")] == [(for_splits,)]
    assert [ends_of(*call.arguments) for call in watched.engine.calls_of("node_sums")] == [(for_leaves,)]
    assert (leaves.low, leaves.high) == (for_leaves[0] / 4096, for_leaves[1] / 4096)


@pytest.mark.parametrize(
    ("method", "task", "epsilon"),
    [
        *((method, "number", Fraction(3)) for method in METHODS[1:]),
        ("joint", "binary", Fraction(3)),
        ("joint", "number", math.inf),
    ],
)
def test_targets_are_not_clipped_without_a_charged_clipping_range(monkeypatch, method, task, epsilon):
    releases, watched = Releases(monkeypatch), WatchedFit(method, task, epsilon=epsilon)
    leaves = watched.run().leaves
    assert releases.selections_of(ReleaseKind.TARGET_WINDOW) == releases.selections_of(ReleaseKind.NODE_WINDOWS) == []
    whole = {((0, 4096 if task == "number" else 1),)}
    assert {ends_of(*call.arguments) for call in watched.engine.calls_of("set_windows")} == whole
    assert {ends_of(*call.arguments) for call in watched.engine.calls_of("node_sums")} == whole
    assert (leaves.low, leaves.high) == (0, 1)


@pytest.mark.parametrize("disjoint_rows", [True, False])
def test_clipping_ranges_of_nodes_have_the_margin_of_splits(monkeypatch, disjoint_rows):
    """Trees that see the same records share what a level's windows may cost."""
    grown, asked = [], []
    original = Grower.grow

    def spy(grower, n_trees, receipts, advance):
        charges = {level: receipt.charge for level, receipt in receipts.node_windows.items()}
        grown.append((n_trees, grower.margin, {level: (c.epsilon, c.n_releases) for level, c in charges.items()}))
        return original(grower, n_trees, receipts, advance)

    monkeypatch.setattr(Grower, "grow", spy)
    monkeypatch.setattr(defaults, "window_margins", lambda _: (Fraction(1, 30), 2))
    monkeypatch.setattr(defaults, "window_levels", lambda *public: asked.append(public) or [1, 3])
    fit("joint", "number", disjoint_rows=disjoint_rows, max_depth=4)
    n_rounds, n_together = (1, 3) if disjoint_rows else (3, 1)
    of_level = (3 * defaults.QUANTILE_SHARE / n_rounds, 2 * n_rounds)
    assert grown == [(n_together, Fraction(1, 30), {1: of_level, 3: of_level})] * n_rounds
    assert [public[1:] for public in asked] == [(Fraction(3), 3, 4)]


# -- which rows a tree learns from -------------------------------------------------------------------------------------


@pytest.mark.parametrize("disjoint_rows", [True, False])
@pytest.mark.parametrize("accounting", POLICIES)
@pytest.mark.parametrize("method", METHODS)
def test_only_published_accounting_assigns_equal_parts(method, accounting, disjoint_rows):
    watched = WatchedFit(method, "number", disjoint_rows=disjoint_rows, policy=accounting)
    ledger, structure, _ = watched.run()
    ((assignment, _),) = (call.arguments for call in watched.engine.calls_of("assign_trees"))
    assert type(assignment) is (EqualParts if accounting == "paper" else IndependentAssignment)
    assert assignment.n_trees == (3 if disjoint_rows else 1)
    assert ledger.is_private == (accounting == "strict")
    assert len(structure.features) == 3


@pytest.mark.parametrize("accounting", POLICIES)
@pytest.mark.parametrize("epsilon", [Fraction(3), math.inf])
@pytest.mark.parametrize("disjoint_rows", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_trees_of_random_forests_have_separate_bags(method, disjoint_rows, epsilon, accounting):
    watched = WatchedFit(method, "binary", disjoint_rows=disjoint_rows, epsilon=epsilon, policy=accounting)
    watched.run()
    bagged = method == "joint" and not disjoint_rows and epsilon == math.inf
    assignments = [call.arguments[0] for call in watched.engine.calls_of("assign_trees")]
    assert [isinstance(assignment, BagAssignment) for assignment in assignments] == ([True] * 3 if bagged else [False])


@pytest.mark.parametrize("disjoint_rows", [True, False])
def test_disjoint_rows_decides_whether_each_row_is_in_one_tree_or_in_all(disjoint_rows):
    leaves = fit("diprime-exp", "binary", disjoint_rows=disjoint_rows, epsilon=math.inf).leaves
    n = int((random_rows("binary", 300)[1] >= 0).sum())
    per_tree = leaves.counts.sum(axis=1)
    assert per_tree.sum() == (n if disjoint_rows else 3 * n)
    assert disjoint_rows or (per_tree == n).all()


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("epsilon", "disjoint_rows"), [(Fraction(3), True), (Fraction(3), False), (math.inf, True)])
def test_private_fits_do_not_skip_pure_nodes(task, epsilon, disjoint_rows):
    watched = WatchedFit("joint", task, epsilon=epsilon, disjoint_rows=disjoint_rows)
    watched.run()
    assert len(watched.engine.calls_of("node_sums")) == (1 if disjoint_rows else 3), "of the leaves alone"


@pytest.mark.parametrize("task", TASKS)
def test_random_forest_without_noise_does_not_split_pure_nodes(task):
    depth = 7
    watched = WatchedFit("joint", task, epsilon=math.inf, disjoint_rows=False, max_depth=depth, n_rows=40)
    sums = watched.run().leaves.sums
    assert len(watched.engine.calls_of("node_sums")) == 3 * (depth + 1)
    n_whole = 0
    for level in range(depth):
        children = sums.reshape(3, 2 ** (level + 1), -1, sums.shape[-1]).sum(axis=2)
        nodes = children.reshape(3, 2**level, 2, -1).sum(axis=2)
        whole = (nodes.sum(axis=-1) <= 1) | ((nodes > 0).sum(axis=-1) <= 1)
        assert (children[:, 1::2][whole] == 0).all()
        n_whole += (whole & (nodes.sum(axis=-1) > 0)).sum()
    assert n_whole > 20
