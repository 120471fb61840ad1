"""The costs of splits as docs/privacy.md writes them, for numbers of any kind."""


def impurity_of_share(p, ends):
    """Return f of Cost: slope 1 at first, slope -1 at last, a parabola between, without a jump or a bend."""
    if p <= ends:
        return p
    if p >= 1 - ends:
        return 1 - p
    return p - (p - ends) ** 2 / (1 - 2 * ends)
