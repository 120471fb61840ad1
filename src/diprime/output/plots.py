"""Plots of fitted models, from released numbers only. Each function takes matplotlib axes and returns them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from diprime.model.feature_words import shortened
from diprime.model.shapes import Shape, shape_of
from diprime.model.tree_view import Tree, contribution_text, fitted_additive_forest, fitted_forest, read_tree
from diprime.model.trees import Floats
from diprime.output.axes import new_axes
from diprime.output.shape_drawing import draw_interaction, draw_main_effect
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import rounded_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_LINE_LENGTH = 26
MAX_LEGEND_SHARE = 0.8
"""The largest part of the axes that a legend takes."""
MIN_WHOLE_NOISE = 10
"""From this value on, noise is written without decimals."""


def plot_budget(model: Any, ax: Axes | None = None) -> Axes:
    """Plot how epsilon was spent: one bar for the fit, or one for each fit of a merged model.

    With Gaussian charges, a bar shows the shares of the charges in the sum of their measure, μ² or ε.

    Parameters
    ----------
    model : fitted estimator
        The model whose ledger, ``privacy_``, is plotted. If the ledger is no guarantee, the title says so in red.
    ax : matplotlib Axes, optional
        The axes to plot on; by default those of a new figure.

    Returns
    -------
    ax : matplotlib Axes
        The axes of the plot.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import DiPriMeRegressor, Domain, Numeric
    >>> X = np.random.default_rng(0).uniform(0, 10, size=(1000, 1))
    >>> domain = Domain({"age": Numeric(0, 10)}, target=Numeric(0, 10))
    >>> model = DiPriMeRegressor(1.0, domain).fit(X, X[:, 0])
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> plot_budget(model).get_title()
    'Privacy budget: ε = 1'
    """
    ledger: Ledger = model.privacy_
    bars = _bars(_fits(ledger))
    ax = new_axes(ax, height=1.6 + 0.6 * len(bars))
    title = f"Privacy budget: ε = {rounded_text(ledger.total)}"
    if ledger.total_delta:
        title += f", δ = {rounded_text(ledger.total_delta)}"
    if ledger.is_private:
        ax.set_title(title)
    else:
        ax.set_title(f"{title}, NOT PRIVATE", color="firebrick", fontweight="bold")
    ax.set_xlabel("share of the sum" if ledger.total_delta else "ε")
    if ledger.total == math.inf:
        ax.text(0.5, 0.5, "no noise, no budget", transform=ax.transAxes, ha="center")
        ax.set_yticks([])
        return ax
    groups = list(dict.fromkeys(group for widths in bars.values() for group in widths))
    ends = np.zeros(len(bars))
    for group in groups:
        spent = np.array([widths.get(group, 0.0) for widths in bars.values()])
        ax.barh(range(len(bars)), spent, left=ends, height=0.6, label=group, edgecolor="white")
        ends += spent
    ax.set_yticks(range(len(bars)), list(bars))
    _put_legend_below(ax, len(bars), len(groups))
    return ax


def _put_legend_below(ax: Axes, n_bars: int, n_groups: int) -> None:
    """Draw the legend inside of the axes, below the bars, where no layout of a figure cuts it off.

    It has as many columns as the axes are wide enough for, and the bars leave as much room as it is high.
    """
    for n_columns in range(n_groups, 0, -1):
        legend = ax.legend(loc="lower center", ncols=n_columns, frameon=False, fontsize="small", borderaxespad=0.2)
        box = legend.get_window_extent()
        if box.width <= ax.bbox.width:
            break
    room = min(box.height / ax.bbox.height, MAX_LEGEND_SHARE)
    ax.set_ylim(n_bars / (1 - room) - 0.5, -0.5)  # the first bar is at the top


def _fits(ledger: Ledger) -> list[Ledger]:
    """Return the ledgers of the fits that were merged, or the ledger itself."""
    return [fit for part in ledger.merged for fit in _fits(part)] if ledger.merged else [ledger]


def _bars(fits: list[Ledger]) -> dict[str, dict[str, float]]:
    """Return the bars by their names: what each kind of release cost of epsilon, or its share of the sum of μ² or ε."""
    names = [f"model {i + 1}" for i in range(len(fits))] if len(fits) > 1 else ["fit"]
    in_shares = any(fit.total_delta for fit in fits)
    bars: dict[str, dict[str, float]] = {}
    for name, fit in zip(names, fits, strict=True):
        for charge in fit.charges:
            measure = {"mu^2": "μ²"}.get(charge.measure.symbol, "ε")
            bar = bars.setdefault(f"{name}, {measure}" if in_shares else name, {})
            width = fit.share(charge) if in_shares else float(charge.total)
            bar[charge.kind] = bar.get(charge.kind, 0.0) + width
    return bars


def plot_importances(model: Any, ax: Axes | None = None, *, most: int = 20) -> Axes:
    """Plot the importances of the features, largest first.

    Parameters
    ----------
    model : fitted estimator
        A forest or a boosted model.
    ax : matplotlib Axes, optional
        The axes to plot on; by default those of a new figure.
    most : int, default=20
        The maximum number of features to plot.

    Returns
    -------
    ax : matplotlib Axes
        The axes of the plot.
    """
    fitted_forest(model)
    shares = model.feature_importances_
    order = np.argsort(-shares, kind="stable")[:most]
    ax = new_axes(ax, height=1 + 0.3 * len(order))
    ax.barh(range(len(order)), shares[order])
    ax.set_yticks(range(len(order)), [shortened(model.domain_.names[j]) for j in order])
    ax.invert_yaxis()
    ax.set_xlabel("importance")
    return ax


def plot_tree(model: Any, tree: int = 0, ax: Axes | None = None, *, max_depth: int = 3) -> Axes:
    """Plot the upper levels of a tree from left to right: conditions, estimates and counts, with their noise.

    Parameters
    ----------
    model : fitted estimator
        A forest or a boosted model.
    tree : int, default=0
        The index of the tree.
    ax : matplotlib Axes, optional
        The axes to plot on; by default those of a new figure.
    max_depth : int, default=3
        The maximum number of levels of splits to plot.

    Returns
    -------
    ax : matplotlib Axes
        The axes of the plot.
    """
    view = read_tree(model, tree, max_depth)
    ax = new_axes(ax, 2.6 * (view.depth + 1), 0.7 * 2**view.depth + 0.5)
    classes = [str(c) for c in model.classes_.tolist()] if hasattr(model, "classes_") else None
    positions = [
        ((level + 0.5) / (view.depth + 1), 1 - (i + 0.5) / 2**level)
        for level in range(view.depth + 1)
        for i in range(2**level)
    ]
    for node, (x, y) in enumerate(positions):
        if node:
            parent_x, parent_y = positions[(node - 1) // 2]
            ax.plot([parent_x, x], [parent_y, y], color="grey", linewidth=1, zorder=1)
        box = {"boxstyle": "round", "facecolor": "white", "edgecolor": "grey"}
        ax.text(x, y, _node_text(view, node, classes), ha="center", va="center", fontsize="small", bbox=box, zorder=2)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.set_axis_off()
    return ax


def _node_text(tree: Tree, node: int, classes: Sequence[str] | None) -> str:
    condition = [_truncate(tree.conditions[node])] if node else []
    if tree.count_noise is None:
        estimate, records = contribution_text(tree.values[node], classes), f"weight {tree.counts[node]:,.0f}"
    else:
        noise = None if tree.value_noise is None else tree.value_noise[node]
        estimate = _estimate_text(tree.values[node], noise, classes)
        records = f"{tree.counts[node]:,.0f} ± {_noise_text(tree.count_noise[node])} {tree.unit}s"
    # Matplotlib reads text between dollar signs as a formula.
    return "\n".join([*condition, estimate, records]).replace("$", r"\$")


def _estimate_text(values: Floats, noise: float | None, classes: Sequence[str] | None) -> str:
    if classes is None:
        return f"{values[0]:.4g}" + ("" if noise is None else f" ± {_noise_text(noise)}")
    best = int(values.argmax())
    return f"{_truncate(classes[best])}: {values[best]:.1%}" + ("" if noise is None else f" ± {noise:.1%}")


def _noise_text(noise: float) -> str:
    return f"{noise:,.0f}" if noise >= MIN_WHOLE_NOISE else f"{noise:.2g}"


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_LINE_LENGTH else text[: MAX_LINE_LENGTH - 1] + "…"


def plot_shape(model: Any, features: str | Sequence[str], ax: Axes | None = None, *, target: Any = None) -> Axes:
    """Plot what a feature, or two of them together, add to the scores of a boosted model.

    One feature gives its main effect: a step function, or bars for the levels of a categorical feature, and below it
    the released numbers of records. Two features give their interaction as a heat map: what both together add beyond
    their main effects. Missing values, and levels that the domain does not list, are shown aside. Effects are centred:
    their means over the records, by the released numbers of records of single features, are zero.

    Parameters
    ----------
    model : DiPriMeBoostingClassifier or DiPriMeBoostingRegressor
        The fitted model.
    features : str or sequence of one or two str
        The feature, or the two features, by their names in ``domain_.names``.
    ax : matplotlib Axes, optional
        The axes to plot on; by default those of a new figure.
    target : class, optional
        The class whose score is plotted, if there are more than two. By default a main effect is plotted for all
        classes. An interaction needs one.

    Returns
    -------
    ax : matplotlib Axes
        The axes of the plot.
    """
    fitted_additive_forest(model)
    indices = _feature_indices(model.domain_.names, features)
    shape = _of_target(shape_of(model, indices), target)
    if len(indices) == 1:
        return draw_main_effect(shape, new_axes(ax, height=5.6))
    if len(shape.targets) > 1:
        raise ValueError(f"The model has {len(shape.targets)} classes: give target, the class to plot.")
    return draw_interaction(shape, new_axes(ax))


def _feature_indices(names: Sequence[str], features: str | Sequence[str]) -> tuple[int, ...]:
    listed = [features] if isinstance(features, str) else list(features)
    for name in listed:
        if name not in names:
            raise ValueError(f"The model has no feature {name!r}.")
    if not 1 <= len(set(listed)) == len(listed) <= 2:  # noqa: PLR2004 -- main effects and interactions
        raise ValueError("features is not one feature, or two different ones.")
    return tuple(sorted(names.index(name) for name in listed))


def _of_target(shape: Shape, target: Any) -> Shape:
    """Return the shape for one class, or the whole shape if none is given."""
    if target is None:
        return shape
    if target not in shape.targets:
        raise ValueError(f"target = {target!r} is not one of {', '.join(map(repr, shape.targets))}.")
    index = shape.targets.index(target)
    return Shape(shape.axes, shape.values[..., index : index + 1], (target,))


def plot_privacy_utility(
    scores: Mapping[float, float | Sequence[float]],
    ax: Axes | None = None,
    *,
    label: str | None = None,
    metric: str = "score",
) -> Axes:
    """Plot scores against epsilon: the price of privacy. To compare models, call it again with the same axes.

    Scores on private data cost privacy that no ledger records. Use data that need no protection.

    Parameters
    ----------
    scores : mapping of epsilon to a score or to several
        Several scores are plotted as mean and standard deviation. The score at infinity is a dashed line.
    ax : matplotlib Axes, optional
        The axes to plot on; by default those of a new figure.
    label : str, optional
        The name of the model, for the legend.
    metric : str, default="score"
        The name of the score, for the axis.

    Returns
    -------
    ax : matplotlib Axes
        The axes of the plot.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> ax = plot_privacy_utility({0.1: [0.61, 0.65], 1: [0.72, 0.74], float("inf"): 0.8}, metric="accuracy")
    >>> ax.get_xscale(), ax.get_ylabel()
    ('log', 'accuracy')
    """
    ax = new_axes(ax)
    epsilons = sorted(epsilon for epsilon in scores if epsilon != math.inf)
    if not epsilons:
        raise ValueError("scores has no finite epsilon; give for example {0.1: 0.6, 1: 0.7}.")
    means = [np.mean(scores[epsilon]) for epsilon in epsilons]
    spreads = [np.std(scores[epsilon]) for epsilon in epsilons]
    line = ax.errorbar(epsilons, means, spreads, marker="o", capsize=3, label=label)
    if math.inf in scores:
        ax.axhline(float(np.mean(scores[math.inf])), linestyle="--", color=line[0].get_color())
    ax.set_xscale("log")
    ax.set_xlabel("ε (dashed: without privacy)" if math.inf in scores else "ε")
    ax.set_ylabel(metric)
    if label is not None:
        ax.legend()
    return ax
