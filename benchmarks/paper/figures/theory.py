"""The paper's theorems beside what happens: bounds as printed and corrected, exact values, the library's own fits."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.accounts import open_account
from benchmarks.paper.figures.style import COLOURS, WIDTH, legend_below
from diprime import Categorical, DiPriMeClassifier, Domain, Numeric, PrivacyWarning
from diprime.domain.encoding import TargetLayout
from diprime.forest.sums import STRICT, leaf_charge, release_leaves
from diprime.model.estimates import LeafSums
from diprime.paper import PUBLISHED, theory
from diprime.privacy.randomness import RandomSource

PRINTED = {"color": "#D55E00", "lw": 1.4, "ls": (0, (4, 1.5)), "label": "as printed"}
CORRECTED = {"color": "#0072B2", "lw": 1.4, "label": "corrected"}
PAPERS_LEAVES = {"color": "#0072B2", "lw": 1.4, "ls": ":", "label": "corrected, the paper's leaves"}
SIMULATED = {"color": "black", "ls": "", "marker": "o", "markersize": 3, "label": "simulated"}
N = 200
N_DRAWS = 2000
N_TREES = 2000
N_CELLS = 255
Floats = npt.NDArray[np.float64]


def _sse(y: Floats) -> float:
    return float(np.sum((y - y.mean()) ** 2))


def released_leaves(sums: npt.NDArray[np.int64], layout: TargetLayout, epsilon: float, seed: int) -> LeafSums:
    """Release a leaf of each of several trees, each for all of epsilon."""
    charge = leaf_charge(layout, Fraction(str(epsilon)), 1, "a simulation", STRICT)
    receipt = open_account(math.inf).pay(charge)
    return release_leaves(sums, layout, layout.whole_range, receipt, STRICT, RandomSource(seed))


def simulated_sse(y: Floats, epsilon: float, seed: int) -> float:
    """Return the expected squared error, summed over the rows of a leaf, if the library releases it."""
    layout = TargetLayout.of_number(4096)
    high = int(np.round((y + 1) / 2 * layout.units).sum())
    sums = np.tile(np.array([len(y) * layout.units - high, high]), (N_DRAWS, 1, 1))
    leaves = released_leaves(sums, layout, epsilon, seed)
    predictions = 2 * PUBLISHED.leaf_means(leaves, layout)[:, :, 1] - 1
    return float(np.mean(np.sum((y - predictions) ** 2, axis=1)))


def simulated_accuracy(labels: npt.NDArray[np.int64], k: int, epsilon: float, seed: int) -> float:
    """Return the expected accuracy of a split at k whose leaves the library releases."""
    layout = TargetLayout.of_classes(2)
    correct = 0.0
    for part in (labels[:k], labels[k:]):
        counts = np.bincount(part, minlength=2)
        leaves = released_leaves(np.tile(counts, (N_DRAWS, 1, 1)), layout, epsilon, seed)
        noisy = np.maximum(leaves.sums[:, 0], 0)
        right = np.where(noisy[:, 0] == noisy[:, 1], counts.sum() / 2, counts[noisy.argmax(axis=1)])
        correct += right.mean()
    return correct / len(labels)


def root_splits(
    X: Floats, y: npt.NDArray[np.int64], method: str, epsilon: float, n_trees: int
) -> npt.NDArray[np.int64]:
    """Return how many rows go left at the roots of independent trees of the library."""
    domain = Domain({f"x{i}": Numeric(0, 1) for i in range(X.shape[1])}, target=Categorical([0, 1]))
    features = X.shape[1] if method == "diprime-exp" else 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        model = DiPriMeClassifier(
            2 * n_trees * epsilon, domain, method=method, n_estimators=n_trees, max_depth=1, max_features=features,
            split_share=0.5, disjoint_rows=False, random_state=0,
        ).fit(X, y)  # fmt: skip
    return np.count_nonzero(model.apply(X) == 0, axis=0)


def _smaller(left: npt.NDArray[np.int64], n: int) -> npt.NDArray[np.int64]:
    return np.minimum(left, n - left)


def _regression(ax: Axes) -> None:
    epsilon = 0.5
    ts = np.arange(1, N // 2)
    y = np.where(np.arange(N) < N // 2, -1.0, 1.0)
    ax.plot(ts / N, [theory.published_sse_excess(N, t, epsilon) / N for t in ts], **PRINTED)
    ax.plot(ts / N, [theory.sse_excess(N, t, epsilon) / N for t in ts], **CORRECTED)
    ax.plot(
        ts / N, [theory.sse_excess(N, t, epsilon, private_leaves=False) / N for t in ts],
        **PAPERS_LEAVES,
    )  # fmt: skip
    some = ts[4::10]
    ax.plot(some / N, [(simulated_sse(y[:t], epsilon, 1) + simulated_sse(y[t:], epsilon, 2)) / N for t in some],
            **SIMULATED)  # fmt: skip
    ax.axhspan(1, 10, color="#f3f3f3", zorder=0)
    ax.text(0.485, 1.04, "no split's error is above 1", ha="right", fontsize=6.5, color="#555555")
    ax.set(ylim=(0, 4.1), xlim=(0, 0.5), xlabel="t/N: least share of a child", ylabel="rise of SSE / (N·B²)")
    ax.set_title("Theorem 1: holds, says little", loc="left")


def _classification(ax: Axes) -> None:
    epsilon = 0.5
    labels = (np.arange(N) >= N // 2).astype(np.int64)
    ts = np.arange(1, N // 2)
    purity = np.array([N / 2 / (N - t) for t in ts])
    ax.plot(ts / N, [theory.published_accuracy_loss(t, epsilon, p) for t, p in zip(ts, purity, strict=True)], **PRINTED)
    ax.plot(ts / N, [theory.accuracy_loss(N, t, epsilon, p) for t, p in zip(ts, purity, strict=True)], **CORRECTED)
    some = ts[4::10]
    ax.plot(some / N, [1 - simulated_accuracy(labels, t, epsilon, 1) for t in some], **SIMULATED)
    ax.set(ylim=(0, 0.52), xlim=(0, 0.5), xlabel="t/N: least share of a child", ylabel="loss of accuracy")
    ax.set_title("Theorem 2: does not hold", loc="left")


def _mistakes(ax: Axes) -> None:
    z = np.linspace(0, 12, 300)
    ax.plot(z, [m * theory.flip_probability(m, 1.0) for m in z], color="#0072B2", lw=1.4)
    ax.axhline(0.2935, color="#555555", lw=0.7, ls=(0, (4, 3)))
    ax.text(11.9, 0.3, "0.2935", ha="right", fontsize=6.5, color="#555555")
    margins = np.arange(1, 12)
    rng = np.random.default_rng(0)
    flips = [np.mean(rng.laplace(0, 1, 100_000) - rng.laplace(0, 1, 100_000) > m) for m in margins]
    ax.plot(margins, margins * flips, **SIMULATED)
    ax.set(ylim=(0, 0.36), xlim=(0, 12), xlabel="ε × majority of the leaf", ylabel="ε × mistakes from noise")
    ax.set_title("Theorem 2: noise in one leaf", loc="left")


def _occupancy(ax: Axes) -> None:
    values = (np.arange(N) + 0.5) / N
    t = N // 4
    core = values[N - t - 1] - values[t]
    epsilons = np.geomspace(1e-3, 1, 60)

    def best(epsilon: float) -> float:
        inner = [(s - t, values[N - s - 1] - values[s]) for s in range(t, N // 2)]
        return max(theory.occupancy(1, core, epsilon, inner=d, rows_between=b) for b, d in inner)

    def exact(epsilon: float) -> float:
        left = np.arange(N + 1)
        return float(theory.left_count_probabilities(values, 0, 1, epsilon)[_smaller(left, N) > t].sum())

    ax.plot(epsilons, [exact(e) for e in epsilons], color="#777777", lw=1.2, label="exact")
    ax.axhline(theory.random_occupancy(1, core), color="#555555", lw=0.7, ls=(0, (4, 3)))
    ax.text(1, 0.485, "random splits", ha="right", va="top", fontsize=6.5, color="#555555")
    ax.plot(epsilons, [theory.occupancy(1, core, e) for e in epsilons], **PRINTED)
    ax.plot(epsilons, [best(e) for e in epsilons], **CORRECTED)
    some = np.array([0.001, 0.005, 0.02, 0.05, 0.1, 0.5])
    labels = (np.arange(N) % 2).astype(np.int64)
    ax.plot(some, [np.mean(_smaller(root_splits(values[:, None], labels, "diprime", float(e), N_TREES), N) > t)
                   for e in some], **SIMULATED)  # fmt: skip
    ax.set(xscale="log", ylim=(0.4, 1.02), xlabel="ε of the median", ylabel="Pr[both children > N/4]")
    ax.set_title("Theorem 3: holds, weak", loc="left")


def _against_random(ax: Axes) -> None:
    cells = np.sort(np.minimum(np.random.default_rng(3).lognormal(3.3, 0.8, N).astype(int), N_CELLS - 1))
    values = (cells + 0.5) / N_CELLS
    left = np.arange(N + 1)
    labels = (np.arange(N) % 2).astype(np.int64)
    grid = np.arange(N // 2 + 1)
    for method, epsilon, colour in (
        ("random", 0.0, COLOURS["DP-ERT"]),
        ("diprime", 0.01, COLOURS["DiPriMe"]),
        ("diprime", 0.1, COLOURS["DiPriMeExp"]),
    ):
        # Thresholds lie between cells, so that a range half a cell shorter at both ends counts them.
        law = theory.left_count_probabilities(values, 0.5 / N_CELLS, 1 - 0.5 / N_CELLS, epsilon)
        label = f"median, ε = {epsilon:g}" if epsilon else "random"
        ax.plot(grid / N, [law[_smaller(left, N) <= t].sum() for t in grid], color=colour, lw=1.3, label=label)
        smaller = _smaller(root_splits(values[:, None], labels, method, epsilon or 0.01, N_TREES), N)
        some = grid[5::10]
        ax.plot(some / N, [np.mean(smaller <= t) for t in some], **{**SIMULATED, "label": None})
    ax.set(ylim=(0, 1.02), xlim=(0, 0.5), xlabel="t/N", ylabel="Pr[smaller child ≤ t]")
    ax.set_title("Corollary 1: one numeric feature", loc="left")
    ax.legend(loc="center left", bbox_to_anchor=(0.0, 0.32))


def _counter_examples(ax: Axes) -> None:
    counts = np.array([8, 1, 1])
    scores = np.abs(2 * counts - counts.sum())
    categories = {
        "as printed": np.exp(scores / 2),
        "random": np.ones(3),
        "with a minus": np.exp(-scores / 2),
    }
    told = (np.arange(N) % 10 == 0).astype(np.int64)
    X = np.column_stack([np.linspace(0, 1, N), told])
    bars = [
        (name, weights[scores == 8].sum() / weights.sum(), colour)
        for (name, weights), colour in zip(categories.items(), ("#D55E00", "#aaaaaa", "#0072B2"), strict=True)
    ]
    for name, method, colour in (
        ("DiPriMeExp, K = 2", "diprime-exp", "#D55E00"),
        ("random", "random", "#aaaaaa"),
        ("DiPriMe", "diprime", "#0072B2"),
    ):
        smaller = _smaller(root_splits(X, told, method, 10.0, 500), N)
        bars.append((name, float(np.mean(smaller <= N // 10)), colour))
    heights = [0, 1, 2, 3.8, 4.8, 5.8]
    ax.barh(heights, [bar[1] for bar in bars], color=[bar[2] for bar in bars], height=0.8)
    for height, (_, value, _) in zip(heights, bars, strict=True):
        ax.text(value + 0.02, height, f"{value:.2f}", va="center", fontsize=7)
    ax.set_yticks(heights, [bar[0] for bar in bars])
    ax.invert_yaxis()
    ax.grid(visible=False)
    ax.tick_params(axis="y", length=0)
    ax.text(0, -0.75, "categories of 8, 1 and 1 rows", fontsize=7, color="#333333")
    ax.text(0, 3.05, "one feature tells a tenth of the rows", fontsize=7, color="#333333")
    ax.set(xlim=(0, 1.15), ylim=(6.4, -1.3), xlabel="Pr[smaller child ≤ a tenth]")
    ax.set_title("Corollary 1: where it fails", loc="left")


@dataclass(frozen=True)
class TheoryChecks:
    """Six panels: each statement beside simulation, and where two of them fail."""

    name: str = "theory"

    def draw(self) -> Figure:
        """Draw the figure."""
        figure, axes = plt.subplots(2, 3, figsize=(WIDTH, 4.7), layout="constrained")
        for ax, draw in zip(
            axes.flat,
            (_regression, _classification, _mistakes, _occupancy, _against_random, _counter_examples),
            strict=True,
        ):
            draw(ax)
        labels = [str(style["label"]) for style in (PRINTED, CORRECTED, PAPERS_LEAVES, SIMULATED)]
        legend_below(figure, [axes[0][0], axes[1][0]], 5, [*labels, "exact"])
        return figure

    def caption(self) -> list[str]:
        """Return a description of the figure."""
        return [
            f"The paper's theorems for one split of N = {N} rows, with leaves at ε = 0.5.\n"
            "Targets are those with the largest loss: −B and class 0 on the left half, B and class 1 on the right.\n"
            f"Points are simulations with diprime's mechanisms: {N_DRAWS} releases of each leaf, and {N_TREES} root "
            "splits for each ε.\nValues are evenly spaced for Theorem 3, and log-normal for Corollary 1.\n"
            "For proofs and counter-examples, see [Theorems](../../docs/theory.md)."
        ]
