"""Whether more epsilon ever hurts: a part of the report of :mod:`benchmarks.utility`."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy import stats

from benchmarks.data import MULTICLASS, NAMES
from benchmarks.utility.contenders import CONTENDERS, LIMIT, SMALL_DATA, SWEEP
from benchmarks.utility.scores import REPEATS, Scores, Verdict, table

FAMILY_WISE_LEVEL = 0.05
CLOSE_TO_INFINITE = 1.05


def rise(few: npt.NDArray[np.float64], more: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the increase of the mean error and its p-value (one-sided paired t test)."""
    differences = more - few
    mean, spread = differences.mean(), differences.std(ddof=1)
    if spread == 0:
        return float(mean), 0.0 if mean > 0 else 1.0
    return float(mean), float(stats.t.sf(mean / spread * math.sqrt(len(differences)), len(differences) - 1))


def ratio(over: npt.NDArray[np.float64], under: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the ratio of two mean errors over the same splits, and its standard error (by the delta method)."""
    if not under.any():
        return (math.inf if over.any() else 1.0), math.nan
    value = over.mean() / under.mean()
    return float(value), float((over - value * under).std(ddof=1) / math.sqrt(len(under)) / under.mean())


def more_epsilon(scores: Scores, contender: str, title: str) -> tuple[list[Verdict], str]:
    """Return the verdicts and the table of a contender that is measured along the sweep and at its limit."""
    names = (*NAMES, *MULTICLASS)
    limit = CONTENDERS[f"{contender}-limit"]
    repeats_at_limit = f"{limit.repeats} repeats"
    if limit.repeats_on_small_data:
        repeats_at_limit += f", {limit.repeats_on_small_data} on sets of fewer than {SMALL_DATA:,} rows"
    pairs = list(combinations(SWEEP, 2))
    level = FAMILY_WISE_LEVEL / (len(pairs) * len(names))
    rows, clear, near, behind, complete = [], [], [], [], True
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
        times, times_error = ratio(*at_limit)
        far = times > CLOSE_TO_INFINITE
        near.append(not far)
        behind += [f"{scores.facts[name].title}: {times:.3f} ± {times_error:.2g}"] if far else []
        rows.append(
            [
                scores.facts[name].title,
                *(f"{values.mean():.3g}" for values in (*errors.values(), *at_limit)),
                f"{by:.2g} ({worst[0]:g} → {worst[1]:g}), p = {p:.2g}" if by > 0 else "none",
                f"{times:.3f} ± {times_error:.2g}",
            ]
        )
    header = ["error", *(f"{e:g}" for e in SWEEP), f"{LIMIT[0]:g}", "∞", "clearest rise", f"{LIMIT[0]:g} : ∞"]
    verdicts = [
        Verdict(
            f"{title}: error never rises by more than noise from ε {SWEEP[0]:g} to {SWEEP[-1]:g}",
            not any(clear) if complete else None,
            f"a clear rise on {sum(clear)} of {len(clear)} sets",
        ),
        Verdict(
            f"{title}: error at ε = {LIMIT[0]:g} within 5 % of that at ε = ∞",
            all(near) if complete else None,
            f"on {sum(near)} of {len(near)} sets ({repeats_at_limit})"
            + (f"; not {', '.join(behind)} (± its standard error)" if behind else ""),
        ),
    ]
    text = (
        f"## More ε: {title}\n\nThe error (MSE, or share of wrong labels) of {title}. A rise is clear if a paired t "
        f"test over the {REPEATS} repeats, one side, has p < {level:.1g}, which keeps the chance of one false alarm "
        f"among all {len(pairs)} pairs of ε and {len(names)} sets below {FAMILY_WISE_LEVEL:g} (Bonferroni). With "
        f"hardly any noise and with none, over {repeats_at_limit}, for a row is much of a small error. Their "
        "ratio ± its standard error.\n\n" + table(header, rows)
    )
    return verdicts, text
