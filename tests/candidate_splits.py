"""Helpers for tests of splits: a small domain, random rows, charged levels, and costs of all slots."""

from fractions import Fraction

import numpy as np

from diprime._util.resources import Threads
from diprime.domain import MISSING, OTHER, Categorical, Domain, Numeric
from diprime.domain.encoding import TargetLayout
from diprime.forest.candidates import CategoricalCandidates
from diprime.forest.engine import NodeHistograms
from diprime.forest.plan import TreeReceipts
from diprime.forest.splitters import JointSplitter, MedianSplitter
from diprime.forest.sums import STRICT
from diprime.forest.train import Grower
from diprime.kernels import split_costs
from diprime.model.trees import Regions
from diprime.privacy.charges import Mechanism
from diprime.privacy.randomness import RandomSource
from tests.encoded_rows import bins_of, rooted_engine
from tests.paid import pay, receipt

ONE = Threads(1)
CLASSES = Categorical(["no", "yes"])
DOMAIN = Domain(
    {
        "x": Numeric(edges=[1, 2, 3]),
        "c": Categorical(["a", "b", "c"]),
        "flag": Categorical([False, True]),
        "many": Categorical(range(11)),
        "edge": Numeric(edges=[0]),
    },
    target=CLASSES,
)
BINARY = TargetLayout.of_classes(2)
LAYOUTS = {"binary": BINARY, "classes": TargetLayout.of_classes(4), "number": TargetLayout.of_number(4096)}
LINEAR_TAILS = [Fraction(0), Fraction(1, 64), Fraction(1, 8), Fraction(3, 8), Fraction(31, 64)]
METHODS = ["joint", "diprime", "diprime-exp", "diprime-flip", "random"]


def codes_of(domain, feature):
    """Return all possible codes of a feature."""
    others = [OTHER] if domain.is_categorical[feature] else []
    return [*range(domain.n_codes[feature]), *others, MISSING]


def random_rows(domain, layout, n, seed):
    """Return random codes and targets; every code of every feature can occur."""
    rng = np.random.default_rng(seed)
    columns = [rng.choice(codes_of(domain, j), size=n) for j in range(domain.n_features)]
    codes = np.ascontiguousarray(np.stack(columns, axis=1).astype(np.uint8))
    return codes, rng.integers(0, layout.n_targets, size=n).astype(np.int32)


def goes_right(masks, codes):
    """Return the bits of codes in split masks."""
    return (masks[..., codes >> 3] >> (codes & 7)) & 1 == 1


def engine_of(codes, target, layout, trees=None, n_trees=1):
    """Return an engine with all rows at the root of one tree, or of the given trees."""
    trees = np.zeros(len(codes), dtype=np.uint16) if trees is None else trees
    return rooted_engine(codes, target, trees, n_trees, layout, ONE)


def in_order(bins, layout, first_node=0):
    """Return histograms with one row of bins per node."""
    return NodeHistograms(bins, layout, first_node, np.arange(len(bins)))


def histograms_of(engine, n_nodes=1):
    """Return copies of the histograms of all nodes of a level, which remain valid at the next level."""
    return in_order(bins_of(engine, 0, n_nodes), engine._layout)


def root_histograms(codes, target, layout):
    """Return the histograms of a root with all rows."""
    return histograms_of(engine_of(codes, target, layout))


def costs_of_all(candidates, histograms, begin, end, cost, **options):
    """Return the costs of candidates for the pairs from ``begin`` to ``end``, with mirrored slots filled in."""
    costs, mirrored = candidates.costs(histograms, begin, end, cost, **options)
    costs[mirrored > 0, candidates.half :] = costs[mirrored > 0, : candidates.half]
    return costs


def mask_costs(histograms, nodes, features, masks, cost):
    """Return the costs of masks, computed by the kernel that compares medians."""
    costs = np.empty(len(masks), dtype=np.int64)
    rows = histograms.rows(np.asarray(nodes))
    rule, scratch = cost.rule(histograms.layout), histograms.scratch
    split_costs.mask_costs(rule, histograms.view, rows, np.asarray(features), masks, scratch, costs)
    return costs


def make_splitter(method, domain, seed=0, balance=Fraction(1, 100), linear_tail=Fraction(1, 64), person_weight=1):
    """Return the splitter of a method. Methods that compare several medians use five features, as in the paper."""
    categories = CategoricalCandidates.draw(domain, RandomSource(seed))
    if method == "joint":
        return JointSplitter(domain, categories, domain.n_features, balance, linear_tail, person_weight)
    k = 1 if method in ("diprime", "random") else min(5, domain.n_features)
    rule = Mechanism.PERMUTE_AND_FLIP if method == "diprime-flip" else Mechanism.EXPONENTIAL
    return MedianSplitter(domain, categories, k, rule, STRICT, looks_at_data=method != "random")


def paid_level(splitter, regions, epsilon, source):
    """Charge and prepare one level of a single round."""
    return splitter.level(regions, [pay(charge) for charge in splitter.charges(0, epsilon, 1, "")], source)


def grow(engine, splitter, domain, n_trees, epsilons, source):
    """Charge and grow trees with one level per epsilon, as in a fit."""
    levels = [[pay(charge) for charge in splitter.charges(i, epsilon, 1, "")] for i, epsilon in enumerate(epsilons)]
    grower = Grower(engine, splitter, domain, domain.layout, source, ONE, domain.layout.whole_range)
    return grower.grow(n_trees, TreeReceipts({}, levels, receipt(Mechanism.DISCRETE_LAPLACE)))


def random_levels(domain, categories, n_trees, depth, seed):
    """Split at random without data, and yield the regions, features and masks of each level."""
    splitter = MedianSplitter(domain, categories, 1, Mechanism.EXPONENTIAL, STRICT, looks_at_data=False)
    source = RandomSource(seed)
    regions = Regions.roots(domain, n_trees)
    for _ in range(depth):
        level = paid_level(splitter, regions, Fraction(0), source)
        level.choose(NodeHistograms.empty(len(regions), domain.n_features, domain.layout), 0, len(regions), ONE)
        yield regions, level.features, level.masks
        regions = regions.children(level.features, level.masks)
    yield regions, None, None
