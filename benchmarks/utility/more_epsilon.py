"""Whether more epsilon ever hurts: a part of the report of :mod:`benchmarks.utility`."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt
from scipy import stats

from benchmarks.data import MULTICLASS, NAMES
from benchmarks.utility.contenders import CONTENDERS, LIMIT, SWEEP
from benchmarks.utility.scores import REPEATS, TEST_TO_TRAIN, Scores, Verdict, standard_error, table

FAMILY_WISE_LEVEL = 0.05
CLOSE_TO_INFINITE = 1.05


def rise(few: npt.NDArray[np.float64], more: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the increase of the mean error and its p-value (one-sided paired t test on splits that share rows)."""
    differences = more - few
    mean, error = differences.mean(), standard_error(differences)
    if error == 0:
        return float(mean), 0.0 if mean > 0 else 1.0
    return float(mean), float(stats.t.sf(mean / error, len(differences) - 1))


def noticed(few: npt.NDArray[np.float64], more: npt.NDArray[np.float64], level: float) -> float:
    """Return the rise that the test notices half of the time, as a share of the mean error."""
    return float(stats.t.isf(level, len(few) - 1) * standard_error(more - few) / few.mean()) if few.any() else math.nan


def ratio(
    over: npt.NDArray[np.float64], under: npt.NDArray[np.float64], test_to_train: float = TEST_TO_TRAIN
) -> tuple[float, float]:
    """Return the ratio of two mean errors over the same splits, and its standard error (by the delta method).

    The second mean must not be zero.
    """
    value = over.mean() / under.mean()
    return float(value), standard_error(over - value * under, test_to_train) / float(under.mean())


def more_epsilon(scores: Scores, contender: str, title: str) -> tuple[list[Verdict], str]:
    """Return the verdicts and the table of a contender that is measured along the sweep and at its limit."""
    names = (*NAMES, *MULTICLASS)
    limit = CONTENDERS[f"{contender}-limit"]
    repeats_at_limit = limit.repeats_text()
    pairs = list(combinations(SWEEP, 2))
    level = FAMILY_WISE_LEVEL / (len(pairs) * len(names))
    rows, clear, near, behind, blind, complete = [], [], [], [], [], True
    for name in names:
        errors = {epsilon: scores.errors(contender, name, epsilon) for epsilon in SWEEP}
        at_limit = [scores.errors(f"{contender}-limit", name, epsilon) for epsilon in LIMIT]
        at_least = scores.repeats(f"{contender}-limit", name)
        if any(len(e) < REPEATS for e in errors.values()) or any(len(e) < at_least for e in at_limit):
            complete = False
            continue
        worst, (by, p) = min(
            ((pair, rise(errors[pair[0]], errors[pair[1]])) for pair in pairs), key=lambda item: item[1][1]
        )
        clear.append(p < level)
        blind.append(max(noticed(errors[a], errors[b], level) for a, b in pairwise(SWEEP)))
        far, text = bool(at_limit[0].any()), "no errors at ∞"
        if at_limit[1].any():
            times, times_error = ratio(*at_limit)
            far, text = times > CLOSE_TO_INFINITE, f"{times:.3f} ± {times_error:.2g}"
        near.append(not far)
        behind += [f"{scores.facts[name].title}: {text}"] if far else []
        rows.append(
            [
                scores.facts[name].title,
                *(f"{values.mean():.3g}" for values in (*errors.values(), *at_limit)),
                f"{by:.2g} ({worst[0]:g} → {worst[1]:g}), p = {p:.2g}" if by > 0 else "none",
                f"{blind[-1]:.0%}",
                text,
            ]
        )
    header = ["error at ε =", *(f"{e:g}" for e in SWEEP), f"{LIMIT[0]:g}", "∞"]
    header += ["clearest rise", "detection limit", f"ratio of {LIMIT[0]:g} to ∞"]
    verdicts = [
        Verdict(
            f"{title}: no clear rise of the error from ε {SWEEP[0]:g} to {SWEEP[-1]:g}",
            not any(clear) if complete else None,
            f"a clear rise on {sum(clear)} of {len(clear)} data sets"
            + (f"; detection limits from {min(blind):.0%} to {max(blind):.0%}, by data set" if blind else ""),
        ),
        Verdict(
            f"{title}: error at ε = {LIMIT[0]:g} within 5 % of that at ε = ∞",
            all(near) if complete else None,
            f"on {sum(near)} of {len(near)} data sets ({repeats_at_limit})"
            + (f"; exceptions (± standard error): {', '.join(behind)}" if behind else ""),
        ),
    ]
    section = (
        f"## Effect of a larger ε: {title}\n\n"
        f"The table shows the error (MSE or share of wrong labels) of {title}.\n\n"
        f"* **Clearest rise**: a rise is clear if a one-sided paired t test over the {REPEATS} splits has "
        f"p < {level:.1g}.\n  This keeps the probability of a false alarm among all {len(pairs)} pairs of ε and "
        f"{len(names)} data sets below {FAMILY_WISE_LEVEL:g} (Bonferroni).\n"
        "* **Detection limit**: this is the rise that the test detects with a probability of one half, as a share of "
        "the error.\n  The column shows the largest limit of all pairs of consecutive ε.\n  The test is weak.\n"
        f"* **ε = {LIMIT[0]:g} and ∞**: these errors are means over {repeats_at_limit}.\n"
        "  More splits are necessary because a single row is a large part of a small error.\n"
        "  The ratio of the two errors has its standard error after ±.\n\n" + table(header, rows)
    )
    return verdicts, section
