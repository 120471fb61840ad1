"""One person more or less: what is released costs what was charged, and nothing else changes.

Neighbours differ in one person, who may have more records than are used. The bits that choose records are the same on
both data sets, as are the trees of records: others keep what they kept.
"""

import itertools
import pickle
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from diprime import Categorical, Domain, Numeric
from diprime._util.resources import Threads
from diprime.domain.encoding import TargetLayout
from diprime.domain.records import drawn_records, person_weight
from diprime.execution import groups
from diprime.forest import defaults
from diprime.forest.candidates import Candidates, CategoricalCandidates, Cost
from diprime.kernels.constants import ABSENT_COST
from diprime.model.trees import Regions
from diprime.privacy.charges import ReleaseKind
from diprime.privacy.randomness import RandomSource
from tests.candidate_splits import costs_of_all, in_order
from tests.encoded_rows import EncodedRows, FixedAssignment, bins_of, tree_engine
from tests.execution.numpy_engine import NumpyEngine
from tests.guarantees import test_boosted_transcripts as boosted
from tests.guarantees.replay import check_losses, draw_records, losses_of, replay
from tests.guarantees.test_transcripts import METHODS, TARGETS, forest

pytestmark = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")

NUMBERS_OF_RECORDS = [1, 2, 3, 7]
ONE = Threads(1)


# -- replay -----------------------------------------------------------------------------------------------------------


def draw_person(rng, n_others, max_records):
    """Return the persons of a data set: others with a few records each, and one who comes last."""
    n_own = int(rng.choice([1, max_records, 2 * max_records + 1]))
    return np.array([f"p{i}" for i in rng.integers(0, max(n_others // 2, 1), n_others)] + ["new"] * n_own, dtype=object)


def fits_of_neighbours(seed, model, max_records, targets):
    """Fit with and without one person; return the models and both transcripts."""
    rng = np.random.default_rng(seed)
    people = draw_person(rng, int(rng.choice([0, 1, 5, 40])), max_records)
    X, y = draw_records(targets, len(people), rng)
    coins = rng.integers(60, size=len(people))

    def fit(size):
        fitted = model(seed).set_params(max_records_per_group=max_records)
        return fitted.fit(X[:size], y[:size], groups=people[:size])

    return replay(fit, int((people != "new").sum()), len(people), rng, coins)


def forests_of_neighbours(task, make, seed, max_records):
    models, transcripts = fits_of_neighbours(seed, make, max_records, TARGETS[task])
    return models, losses_of(*transcripts)


def boosted_neighbours(task, seed, max_records, signal=None, **parameters):
    def make(seed):
        return boosted.booster(task, random_state=seed, **parameters)

    with pytest.MonkeyPatch.context() as patch:
        boosted.state_information(patch, signal)
        boosted.take_few_steps(patch)
        return fits_of_neighbours(seed, make, max_records, boosted.TARGETS[task])


@pytest.mark.parametrize("disjoint_rows", [True, False])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", TARGETS)
def test_forest_costs_a_person_exactly_the_charges(task, method, disjoint_rows):
    for seed, (epsilon, k) in enumerate(itertools.product([Fraction(1, 2), Fraction(8)], NUMBERS_OF_RECORDS)):
        models, losses = forests_of_neighbours(task, forest(task, method, disjoint_rows, epsilon), seed, k)
        assert pickle.dumps(models[0]) == pickle.dumps(models[1])
        assert models[0].privacy_.max_records_per_group == k
        check_losses(losses, models[0].privacy_, epsilon)


def test_clipping_ranges_of_nodes_cost_a_person_exactly_the_charges(monkeypatch):
    monkeypatch.setattr(defaults, "WINDOW_INFORMATION", Fraction(1, 1000))
    with_windows = 0
    for seed, k in itertools.product(range(3), [2, 3]):
        make = forest("number", "joint", True, Fraction(8), n_estimators=2, max_depth=5)
        models, losses = forests_of_neighbours("number", make, seed, k)
        assert pickle.dumps(models[0]) == pickle.dumps(models[1])
        check_losses(losses, models[0].privacy_, Fraction(8))
        with_windows += any(charge.kind == ReleaseKind.NODE_WINDOWS for charge in losses)
    assert with_windows >= 3, "a released count that is not negative is enough"


@pytest.mark.parametrize("task", boosted.TARGETS)
def test_boosted_model_costs_a_person_exactly_the_charges(task):
    nearest = {}
    for seed, k in itertools.product(range(4), NUMBERS_OF_RECORDS):
        models, transcripts = boosted_neighbours(task, seed, k, signal=None if seed == 0 else 3000.0)
        assert pickle.dumps(models[0]) == pickle.dumps(models[1])
        for kind, near in boosted.check_changes(*transcripts).items():
            nearest[kind] = max(nearest.get(kind, 0), near)
    assert nearest.keys() == boosted.releases_of(task)
    if task != "one":
        assert nearest.pop(boosted.ROUNDS) > 0.3
        assert min(nearest.values()) > 0.9, "or the bound was not put to the test"


# -- the power of the replay ------------------------------------------------------------------------------------------


def all_records_are_used(monkeypatch):
    def weigh_all(candidates, max_records, weights):
        for found, of_rows in zip(candidates, weights, strict=True):
            of_rows[found.rows] = person_weight(max_records)

    monkeypatch.setattr(groups, "drawn_records", lambda people, bits, max_records: people.any(axis=1))
    monkeypatch.setattr(groups, "_weigh", weigh_all)


def every_record_weighs_as_much_as_a_person(monkeypatch):
    monkeypatch.setattr(groups, "split_weight", lambda ranks, n_kept, weight: np.full(len(ranks), weight))


def one_person_too_many_decides_what_others_keep(monkeypatch):
    def turned(people, bits, max_records):
        is_odd = len(np.unique(people, axis=0)) % 2
        return drawn_records(people, ~bits if is_odd else bits, max_records)

    monkeypatch.setattr(groups, "drawn_records", turned)


def noise_is_that_of_one_record(monkeypatch):
    monkeypatch.setattr(TargetLayout, "of_persons", lambda self, max_records: self)


def splits_are_chosen_as_if_persons_had_one_record(monkeypatch):
    monkeypatch.setattr(Cost, "person_range", Cost.range)


def everything_is_covered(max_records):
    try:
        for seed in range(12):
            boosted.check_changes(*boosted_neighbours("two", seed, max_records)[1])
            make = forest("binary", "joint", True, Fraction(1), n_estimators=1, max_depth=2)
            models, losses = forests_of_neighbours("binary", make, seed, max_records)
            check_losses(losses, models[0].privacy_, Fraction(1))
    except AssertionError:
        return False
    return True


@cache
def right_fits_are_covered():
    return everything_is_covered(3)


@pytest.mark.parametrize(
    "mistake",
    [
        all_records_are_used,
        every_record_weighs_as_much_as_a_person,
        one_person_too_many_decides_what_others_keep,
        noise_is_that_of_one_record,
        splits_are_chosen_as_if_persons_had_one_record,
    ],
)
def test_replay_detects_excess_influence(mistake, monkeypatch):
    assert right_fits_are_covered()
    mistake(monkeypatch)
    assert not everything_is_covered(3)


# -- enumeration ------------------------------------------------------------------------------------------------------

SMALL = Domain({"x": Numeric(edges=[1]), "c": Categorical(["a", "b"])}, Categorical(["no", "yes"]))
KINDS = list(itertools.product([0, 1], [0, 1], [0, 1]))  # code of x, code of c, target
COSTS = [Cost(32, 1, 5), Cost(1024, 20, 1000, Fraction(1, 8)), Cost(0, 2)]


def statistics_of(weighted, cost):
    """Return the counts of classes, costs at two nodes, and leaf sums of weighted kinds of records."""
    rows = [(*kind, weight) for kind, weight in weighted if weight]
    table = np.array(rows, dtype=np.int64).reshape(len(rows), 4)
    codes, target = np.ascontiguousarray(table[:, :2].astype(np.uint8)), table[:, 2].astype(np.int32)
    weights = table[:, 3].astype(np.uint8)
    engine = tree_engine(EncodedRows(codes), target, SMALL.layout, ONE, weights, kind=NumpyEngine)
    engine.assign_trees(FixedAssignment(np.zeros(len(rows), dtype=np.uint16), 1), RandomSource(0))
    engine.start()
    mask = np.zeros((1, 32), dtype=np.uint8)
    mask[0, 0] = 0b10
    engine.route(np.array([0], dtype=np.int32), mask)
    regions = Regions.roots(SMALL, 1).children(np.array([0], dtype=np.int32), mask)
    categories = CategoricalCandidates.draw(SMALL, RandomSource(0))
    chosen = np.where(regions.splittable(), np.arange(SMALL.n_features), -1)
    candidates = Candidates(SMALL, categories, regions, chosen)
    histograms = in_order(bins_of(engine, 0, 2), SMALL.layout)
    costs = costs_of_all(candidates, histograms, 0, 2 * candidates.per_node, cost).reshape(2, -1)
    return engine.target_counts(), costs, engine.node_sums(SMALL.layout.whole_range)


def shares(n, k):
    """Return the weights of n <= k records of a person, in the order of their bits."""
    weight = person_weight(k)
    return groups.split_weight(np.arange(n), np.full(n, n), weight).tolist()


@pytest.mark.parametrize("k", [1, 2, 3])
def test_statistics_change_by_at_most_the_charged_sensitivity_per_person(k):
    """All choices of up to k records of one person, added to others: the bounds of a person hold, and are reached."""
    weight = person_weight(k)
    others = [((0, 0, 0), weight), ((1, 1, 1), weight), ((0, 1, 1), weight)]
    largest = dict.fromkeys(["counts", "leaves", "costs"], 0.0)
    for cost in COSTS:
        counts, costs, leaves = statistics_of(others, cost)
        present = costs != ABSENT_COST
        charged = Cost(cost.units, cost.balance, cost.min_rows, cost.linear_tail, weight).person_range
        for n in range(k + 1):
            for records in itertools.product(KINDS, repeat=n):
                more = [*others, *zip(records, shares(n, k), strict=True)] if n else others
                new_counts, new_costs, new_leaves = statistics_of(more, cost)
                ranges = [np.ptp((new_costs - costs)[node, present[node]]) for node in range(2)]
                changes = {
                    "counts": abs(new_counts - counts).sum() / weight,
                    "leaves": abs(new_leaves - leaves).sum() / SMALL.layout.of_persons(k).person_units,
                    "costs": sum(ranges) / charged,  # the nodes of a level are charged together
                }
                assert max(changes.values()) <= 1
                largest = {name: max(largest[name], change) for name, change in changes.items()}
    assert largest["counts"] == largest["leaves"] == 1
    assert largest["costs"] > 0.9
