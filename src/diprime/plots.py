"""Matplotlib plots of fitted models and private scores, from released numbers only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from diprime.inspection.importances import NOTHING_ABOVE_NOISE, importances_of
from diprime.inspection.views import (
    Axis,
    Shape,
    TreeView,
    contribution_text,
    fitted_additive_forest,
    fitted_forest,
    read_tree,
    shape_of,
)
from diprime.inspection.words import plural, shortened
from diprime.model.trees import Floats
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import rounded_text
from diprime.scoring import PrivateScore
from diprime.scoring.classes import ClassCurves

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "plot_budget",
    "plot_calibration",
    "plot_importances",
    "plot_privacy_utility",
    "plot_roc",
    "plot_shape",
    "plot_tree",
]

MAX_LINE_LENGTH = 26
MAX_LEGEND_SHARE = 0.8
"""Largest share of the axes that a legend takes."""
MIN_WHOLE_NOISE = 10
"""Smallest noise that is written without decimals."""
MAX_TICKS = 40
"""Maximum number of categories with labels."""
MAX_UPRIGHT_TICKS = 6
"""Maximum number of categories with horizontal labels."""

_TINY = 1e-300  # avoids division by zero
PALE = 0.3  # opacity of bars of categories without records
_BAR_SPACE = 0.8  # share of a category's width for its bars


def plot_budget(model: Any, ax: Axes | None = None) -> Axes:
    """Plot how epsilon was spent, with one bar for the fit, or one for each fit of a merged model.

    With Gaussian charges, a bar shows the shares of the charges in the sum of their measure, μ² or ε.

    Parameters
    ----------
    model : fitted estimator
        The model whose ledger, ``privacy_``, is plotted. If the model is not private, the title states this in red.
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
    ax = _new_axes(ax, height=1.6 + 0.6 * len(bars))
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
    """Draw the legend inside the axes and below the bars, where no figure layout cuts it off.

    It has as many columns as fit into the axes, and the bars leave enough space for its height.
    """
    for n_columns in range(n_groups, 0, -1):
        legend = ax.legend(loc="lower center", ncols=n_columns, frameon=False, fontsize="small", borderaxespad=0.2)
        box = legend.get_window_extent()
        if box.width <= ax.bbox.width:
            break
    room = min(box.height / ax.bbox.height, MAX_LEGEND_SHARE)
    ax.set_ylim(n_bars / (1 - room) - 0.5, -0.5)  # the first bar is at the top


def _fits(ledger: Ledger) -> list[Ledger]:
    """Return the ledgers of all merged fits, or the ledger itself."""
    return [fit for part in ledger.merged for fit in _fits(part)] if ledger.merged else [ledger]


def _bars(fits: list[Ledger]) -> dict[str, dict[str, float]]:
    """Return the widths of segments by bar and group of releases: their cost in ε, or their share of the sum."""
    names = [f"model {i + 1}" for i in range(len(fits))] if len(fits) > 1 else ["fit"]
    in_shares = any(fit.total_delta for fit in fits)
    bars: dict[str, dict[str, float]] = {}
    for name, fit in zip(names, fits, strict=True):
        for charge in fit.charges:
            measure = {"mu^2": "μ²"}.get(charge.measure.symbol, "ε")
            bar = bars.setdefault(f"{name}, {measure}" if in_shares else name, {})
            width = fit.share(charge) if in_shares else float(charge.total)
            bar[charge.group] = bar.get(charge.group, 0.0) + width
    return bars


def plot_importances(model: Any, ax: Axes | None = None, *, most: int = 20) -> Axes:
    """Plot the share of each feature in the variance of the predictions, net of noise, with two standard deviations.

    Features that are not above the noise are grey.

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
    importances = importances_of(model)
    order = importances.order[:most]
    ax = _new_axes(ax, height=1 + 0.3 * len(order))
    colours = ["C0" if importances.above_noise[j] else "silver" for j in order]
    ax.barh(range(len(order)), importances.shares[order], xerr=2 * importances.errors[order], color=colours)
    ax.set_yticks(range(len(order)), [shortened(model.domain_.encoded_feature_names[j]) for j in order])
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    ax.set_xlabel("share of the variance, ± two standard deviations (grey: not above noise)")
    if not importances.above_noise.any():
        ax.set_title(NOTHING_ABOVE_NOISE, color="firebrick")
    return ax


def plot_tree(model: Any, tree: int = 0, ax: Axes | None = None, *, max_depth: int = 3) -> Axes:
    """Plot the upper levels of a tree from left to right: conditions, estimates and counts, with their noise.

    After an estimate, ± is the standard deviation of the node's own mean, due to noise and, for classes, to sampling.
    In a boosted model, each round is a tree. Use `plot_shape` for its functions, which also contain its curves.

    Parameters
    ----------
    model : fitted estimator
        A forest or a boosted model.
    tree : int, default=0
        The index of the tree or, in a boosted model, of the round.
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
    ax = _new_axes(ax, 2.6 * (view.depth + 1), 0.7 * 2**view.depth + 0.5)
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


def _node_text(tree: TreeView, node: int, classes: Sequence[str] | None) -> str:
    condition = [shortened(tree.conditions[node], MAX_LINE_LENGTH)] if node else []
    if tree.count_noise is None:
        estimate, records = contribution_text(tree.values[node], classes), f"weight {tree.counts[node]:,.0f}"
    else:
        noise = None if tree.value_noise is None else tree.value_noise[node]
        estimate = _estimate_text(tree.values[node], noise, classes)
        records = f"{tree.counts[node]:,.0f} ± {_noise_text(tree.count_noise[node])} {plural(tree.unit)}"
    # Matplotlib reads text between dollar signs as a formula.
    return "\n".join([*condition, estimate, records]).replace("$", r"\$")


def _estimate_text(values: Floats, noise: float | None, classes: Sequence[str] | None) -> str:
    if classes is None:
        return f"{values[0]:.4g}" + ("" if noise is None else f" ± {_noise_text(noise)}")
    best = int(values.argmax())
    name = shortened(classes[best], MAX_LINE_LENGTH)
    return f"{name}: {values[best]:.1%}" + ("" if noise is None else f" ± {noise:.1%}")


def _noise_text(noise: float) -> str:
    return f"{noise:,.0f}" if noise >= MIN_WHOLE_NOISE else f"{noise:.2g}"


def plot_shape(model: Any, features: str | Sequence[str], ax: Axes | None = None, *, target: Any = None) -> Axes:
    """Plot the main effect of a feature, or the interaction of two, in a boosted model.

    For one feature, the plot shows its main effect: the sum of its curve and of the rounds on it, or bars for the
    categories. Below it are the released numbers of records. A band, or a line through a bar, shows two standard
    deviations of the noise, of sampling and of the mechanism. It is not a confidence interval for the true effect,
    which the model shrinks. Categories and missing values without records above the noise are pale or dotted, because
    little is known about their effect.

    An interaction, which is the joint effect of two features beyond their main effects, is drawn as a heat map. Values
    within two standard deviations of their noise are white. Missing values and unlisted categories are shown
    separately. Effects are centred: their means, weighted by the released record counts of single features, are zero.

    Parameters
    ----------
    model : DiPriMeBoostingClassifier or DiPriMeBoostingRegressor
        The fitted model.
    features : str or sequence of one or two str
        Name of the feature, or names of the two features, in ``domain_.encoded_feature_names``.
    ax : matplotlib Axes, optional
        The axes to plot on; by default those of a new figure.
    target : class, optional
        The class whose score is plotted, if there are more than two. By default, a main effect is plotted for all
        classes. An interaction requires a class.

    Returns
    -------
    ax : matplotlib Axes
        The axes of the plot.
    """
    fitted_additive_forest(model)
    indices = _feature_indices(model.domain_.encoded_feature_names, features)
    shape = _of_target(shape_of(model, indices), target)
    if len(indices) == 1:
        return _draw_main_effect(shape, _new_axes(ax, height=5.6))
    if len(shape.targets) > 1:
        raise ValueError(f"The model has {len(shape.targets)} classes. Pass target, the class to plot.")
    return _draw_interaction(shape, _new_axes(ax))


def _feature_indices(names: Sequence[str], features: str | Sequence[str]) -> tuple[int, ...]:
    listed = [features] if isinstance(features, str) else list(features)
    for name in listed:
        if name not in names:
            raise ValueError(f"The model has no feature {name!r}.")
    if not 1 <= len(set(listed)) == len(listed) <= 2:  # noqa: PLR2004 -- main effects and interactions
        raise ValueError("features must be one feature, or a pair of different features.")
    return tuple(sorted(names.index(name) for name in listed))


def _of_target(shape: Shape, target: Any) -> Shape:
    """Return the shape for one class, or the whole shape if no class is given."""
    if target is None:
        return shape
    if target not in shape.targets:
        raise ValueError(f"target = {target!r} is not one of {', '.join(map(repr, shape.targets))}.")
    kept = [shape.targets.index(target)]
    return Shape(shape.axes, shape.values[..., kept], (target,), shape.noise[..., kept])


def plot_privacy_utility(
    scores: Mapping[float, float | Sequence[float]],
    ax: Axes | None = None,
    *,
    label: str | None = None,
    metric: str = "score",
) -> Axes:
    """Plot scores against epsilon. To compare models, call the function again with the same axes.

    Scores on private data cost privacy that no ledger contains. Use data that need no protection.

    Parameters
    ----------
    scores : dict
        Score, or sequence of scores, for each epsilon. Several scores are plotted as their mean and their sample
        standard deviation, with n - 1 in the denominator. The score at infinity is a dashed line.
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
    ax = _new_axes(ax)
    epsilons = sorted(epsilon for epsilon in scores if epsilon != math.inf)
    if not epsilons:
        raise ValueError("scores must contain a finite epsilon, for example {0.1: 0.6, 1: 0.7}.")
    means = [np.mean(scores[epsilon]) for epsilon in epsilons]
    spreads = [float(np.std(scores[epsilon], ddof=1)) if np.size(scores[epsilon]) > 1 else 0.0 for epsilon in epsilons]
    line = ax.errorbar(epsilons, means, spreads, marker="o", capsize=3, label=label)
    if math.inf in scores:
        ax.axhline(float(np.mean(scores[math.inf])), linestyle="--", color=line[0].get_color())
    ax.set_xscale("log")
    ax.set_xlabel("ε (dashed: without privacy)" if math.inf in scores else "ε")
    ax.set_ylabel(metric)
    if label is not None:
        ax.legend()
    return ax


def _draw_main_effect(shape: Shape, ax: Axes) -> Axes:
    """Draw a main effect, with the density of the released numbers of records below it."""
    (axis,) = shape.axes
    below = ax.inset_axes((0, -0.22, 1, 0.18), sharex=ax)
    below.stairs(_density(axis), axis.positions, fill=True, color="silver", linewidth=1)  # keeps narrow ones visible
    below.set(yticks=[], ylabel="records", xlabel=_plain(axis.name))
    for k, target in enumerate(shape.targets):
        draw = _draw_bars if axis.edges is None else _draw_steps
        label = None if target is None else _plain(str(target))
        draw(axis, shape.values[:, k], shape.noise[:, k], (k, len(shape.targets)), ax, label)
    ax.axhline(0, color="grey", linewidth=0.8, zorder=0)
    if axis.edges is not None:
        ax.axvline(axis.edges[-1], color="grey", linewidth=0.8, linestyle="dotted", zorder=0)
    _scale(axis, ax, "x")
    _label_groups(axis, below, "x")
    ax.tick_params(labelbottom=False)
    ax.set_ylabel(_score_name(shape))
    if len(shape.targets) > 1:
        ax.legend()
    return ax


def _draw_interaction(shape: Shape, ax: Axes) -> Axes:
    """Draw the interaction of two features as a heat map."""
    first, second = shape.axes
    values = shape.net[..., 0].T
    largest = max(float(np.abs(values).max()), _TINY)
    mesh = ax.pcolormesh(first.positions, second.positions, values, cmap="RdBu_r", vmin=-largest, vmax=largest)
    ax.figure.colorbar(mesh, ax=ax, label=_score_name(shape))
    _label_groups(first, ax, "x")
    _label_groups(second, ax, "y")
    ax.set(xlabel=_plain(first.name), ylabel=_plain(second.name))
    if not values.any():
        ax.set_title("No value is above the noise.", color="firebrick")
    return ax


def _draw_steps(axis: Axis, values: Floats, noise: Floats, _: tuple[int, int], ax: Axes, label: str | None) -> None:
    n, positions = axis.n_regular, axis.positions
    steps = ax.stairs(values[:n], positions[: n + 1], baseline=None, linewidth=1.8, label=label)
    colour = f"C{len(ax.patches) - 1}"
    steps.set_edgecolor(colour)
    for i in range(n, len(values)):
        style: Literal["solid", "dotted"] = "solid" if axis.weights[i] > 0 else "dotted"
        ax.hlines(values[i], positions[i], positions[i + 1], color=colour, linewidth=1.8, linestyles=style)
    for place in (slice(0, n), slice(n, len(values))):
        low, high = (np.repeat(values[place] + side * noise[place], 2) for side in (-2, 2))
        ends = np.repeat(positions[place.start : place.stop + 1], 2)[1:-1]
        ax.fill_between(ends, low, high, color=colour, alpha=0.2, linewidth=0)


def _draw_bars(axis: Axis, values: Floats, noise: Floats, place: tuple[int, int], ax: Axes, label: str | None) -> None:
    """Draw a bar for each group; ``place`` is the index of the bars and the number of bars per group."""
    index, n_bars = place
    width = _BAR_SPACE / n_bars
    middles = np.arange(len(values)) + (1 - _BAR_SPACE) / 2 + (index + 0.5) * width
    bars = ax.bar(middles, values, width, label=label, yerr=2 * noise, ecolor="grey")
    for bar, weight in zip(bars, axis.weights.tolist(), strict=True):
        bar.set_alpha(1.0 if weight > 0 else PALE)


def _density(axis: Axis) -> Floats:
    """Return the number of records of each category, or the density of records in each interval as drawn."""
    if axis.edges is None:
        return axis.weights
    ends = np.log(axis.positions) if axis.is_logarithmic else axis.positions
    return np.asarray(axis.weights / np.maximum(np.diff(ends), _TINY))


def _score_name(shape: Shape) -> str:
    if len(shape.targets) > 1:
        return "adds to the score"
    (target,) = shape.targets
    return "adds to the prediction" if target is None else f"adds to the score of {_plain(str(target))}"


def _scale(axis: Axis, ax: Axes, which: Literal["x", "y"]) -> None:
    positions = axis.positions
    if axis.is_logarithmic:
        ax.set(**{f"{which}scale": "log"})
    ax.set(**{f"{which}lim": (positions[0], positions[-1])})


def _label_groups(axis: Axis, ax: Axes, which: Literal["x", "y"]) -> None:
    """Label the categories of a categorical feature, or the ticks and special values of a numeric one."""
    _scale(axis, ax, which)
    middles = (axis.positions[1:] + axis.positions[:-1]) / 2
    if axis.edges is None:
        shown = axis.labels if len(axis.labels) <= MAX_TICKS else []
        _set_ticks(ax, which, middles[: len(shown)], shown)
        return
    if len(axis.ticks) > 2:  # noqa: PLR2004 -- two ticks are the ends, and matplotlib's own are better
        _set_ticks(ax, which, [place for place, _ in axis.ticks], [label for _, label in axis.ticks])
    for label, middle in zip(axis.labels[axis.n_regular :], middles[axis.n_regular :], strict=True):
        if which == "x":
            text = ax.text(middle, 0.97, label, transform=ax.get_xaxis_transform(), rotation=90, va="top", ha="center")
        else:
            text = ax.text(0.97, middle, label, transform=ax.get_yaxis_transform(), va="center", ha="right")
        text.set_fontsize("x-small")


def _set_ticks(ax: Axes, which: Literal["x", "y"], places: Sequence[float] | Floats, labels: Sequence[str]) -> None:
    rotation = 90 if which == "x" and len(labels) > MAX_UPRIGHT_TICKS else 0
    set_ticks = ax.set_xticks if which == "x" else ax.set_yticks
    set_ticks(places, list(map(_plain, labels)), rotation=rotation)


def _plain(name: str) -> str:
    """Return a shortened name with escaped dollar signs, which matplotlib would read as a formula."""
    return shortened(name).replace("$", r"\$")


def plot_roc(score: PrivateScore, ax: Axes | None = None, *, target: Any = None) -> Axes:
    """Plot the ROC curve of a private score. Grey boxes are the intervals of both rates at each threshold.

    The confidence level applies to each interval, not to all of them together. Unknown rates have a box, but no point.

    Parameters
    ----------
    score : PrivateScore
        The score of a classifier.
    ax : matplotlib Axes, optional
        The axes to plot on; by default those of a new figure.
    target : class, optional
        The class whose curve is plotted, if there are more than two.

    Returns
    -------
    ax : matplotlib Axes
        The axes of the plot.
    """
    label, curves = _curves(score, target)
    ax = _square(ax, "false positive rate", "true positive rate")
    known = []
    for point in curves.roc_curve:
        false, true = point.false_positive_rate, point.true_positive_rate
        ax.fill_between([false.low, false.high], true.low, true.high, color="grey", alpha=0.15, linewidth=0)
        if false.value is not None and true.value is not None:
            known.append((false.value, true.value))
    if known:
        ax.plot(*zip((1.0, 1.0), *known, (0.0, 0.0), strict=True), marker=".")
    ax.set_title(f"ROC curve of {label}\nAUC {curves.roc_auc}".replace("$", r"\$"))
    return ax


def plot_calibration(score: PrivateScore, ax: Axes | None = None, *, target: Any = None) -> Axes:
    """Plot the calibration of a class: its observed share, with intervals, against the predicted probability.

    The confidence level applies to each interval, not to all of them together. Unknown shares have a box, but no line.

    Parameters
    ----------
    score : PrivateScore
        The score of a classifier.
    ax : matplotlib Axes, optional
        The axes to plot on; by default those of a new figure.
    target : class, optional
        The class whose calibration is plotted, if there are more than two.

    Returns
    -------
    ax : matplotlib Axes
        The axes of the plot.
    """
    label, curves = _curves(score, target)
    ax = _square(ax, "predicted probability", "observed share")
    for point in curves.calibration:
        observed = point.observed
        ax.fill_between([point.low, point.high], observed.low, observed.high, color="grey", alpha=0.2, linewidth=0)
        if observed.value is not None:
            ax.plot([point.low, point.high], [observed.value] * 2, color="C0")
    ax.set_title(f"Calibration of {label}".replace("$", r"\$"))
    return ax


def _curves(score: PrivateScore, target: Any) -> tuple[Any, ClassCurves]:
    """Return the class to plot with its curves."""
    by_class = dict(zip(score.curve_classes, score.curves, strict=True))
    if target is None and len(by_class) == 1:
        return next(iter(by_class.items()))
    if target not in by_class:
        raise ValueError(f"target must be one of the classes that have curves: {', '.join(map(repr, by_class))}.")
    return target, by_class[target]


def _square(ax: Axes | None, across: str, up: str) -> Axes:
    ax = _new_axes(ax, 4.8, 4.8)
    ax.plot([0, 1], [0, 1], color="grey", linestyle="--", linewidth=1)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel=across, ylabel=up, aspect="equal")
    return ax


def _new_axes(ax: Axes | None, width: float = 6.4, height: float = 4.8) -> Axes:
    """Return the given axes, or those of a new figure with its size in inches."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("diprime.plots requires matplotlib. Run pip install 'diprime[plot]'.") from None
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
