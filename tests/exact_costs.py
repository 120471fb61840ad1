"""Costs of splits as defined in docs/privacy.md, for numbers of any type."""


def impurity_of_share(p, linear_tail):
    """Return f of Cost: slope 1 at first, slope -1 at last, and a smoothly joined parabola in between."""
    if p <= linear_tail:
        return p
    if p >= 1 - linear_tail:
        return 1 - p
    return p - (p - linear_tail) ** 2 / (1 - 2 * linear_tail)
