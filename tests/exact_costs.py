"""The costs of splits as docs/privacy.md writes them, for numbers of any kind."""

from diprime.kernels import scoring


def impurity_of_share(p, linear_tail):
    """Return f of Cost: slope 1 at first, slope -1 at last, a parabola between, without a jump or a bend."""
    if p <= linear_tail:
        return p
    if p >= 1 - linear_tail:
        return 1 - p
    return p - (p - linear_tail) ** 2 / (1 - 2 * linear_tail)


def rule_and_view(cost, layout, bins):
    """Return the first two arguments of the kernels that compute costs."""
    return cost.rule(layout), scoring.BinsView(bins, layout.n_columns, layout.shift)
