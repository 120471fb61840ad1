"""Numbers read off the published figures, to be drawn beside ours.

Heat maps were read by colour (to about 0.03e-3), curves by eye (to about 0.0001 in MSE and 0.01 in accuracy). Curves
were published for disjoint parts only, heat maps also for all rows.
"""

from __future__ import annotations

DEPTHS = tuple(range(3, 11))
TREES = tuple(range(1, 29, 3))
EPSILONS = (0.3, 1, 3, 10, 30, 100, 300)
BANKNOTE_EPSILONS = (0.1, 0.3, 1, 3, 10, 30, 100, 300)
MAP_EPSILONS = (3, 10, 30, 100)
MAP_SHARES = (0.2, 0.4, 0.6, 0.8)
MAP_TREES = (1, 3, 10, 30)
MAP_FEATURES = (1, 3, 10, 20)

Curve = dict[float, float]


def _curve(xs: tuple[float, ...], ys: tuple[float, ...]) -> Curve:
    return dict(zip(xs, ys, strict=True))


BY_DEPTH = {
    "RF": _curve(DEPTHS, (0.0080, 0.0077, 0.0074, 0.0070, 0.0066, 0.0063, 0.0060, 0.0057)),
    "ERT": _curve(DEPTHS, (0.0084, 0.0081, 0.0079, 0.0076, 0.0073, 0.0069, 0.0066, 0.0063)),
    "Median": _curve(DEPTHS, (0.0086, 0.0084, 0.0080, 0.0076, 0.0070, 0.0064, 0.0056, 0.0049)),
    "DiPriMe": _curve(DEPTHS, (0.0087, 0.0087, 0.0085, 0.0083, 0.0081, 0.0080, 0.0080, 0.0082)),
    "DiPriMeExp": _curve(DEPTHS, (0.0088, 0.0087, 0.0085, 0.0083, 0.0080, 0.0079, 0.0080, 0.0083)),
    "DiPriMeFlip": _curve(DEPTHS, (0.0087, 0.0086, 0.0084, 0.0083, 0.0080, 0.0078, 0.0080, 0.0086)),
    "DP-ERT": _curve(DEPTHS, (0.0088, 0.0088, 0.0087, 0.0087, 0.0086, 0.0085, 0.0085, 0.0084)),
}
# The three variants overlap in one thick line, and only some of its points could be read.
BY_TREES = {
    "DiPriMe": {1: 0.0086, 4: 0.0082, 7: 0.0082, 13: 0.0084, 16: 0.0085, 28: 0.0087},
    "DP-ERT": {1: 0.0091, 4: 0.0090, 28: 0.0089},
    "RF": {1: 0.0080, 28: 0.0065},
    "ERT": {1: 0.0081, 28: 0.0072},
    "Median": {1: 0.0077, 28: 0.0067},
}
BY_EPSILON = {
    "DiPriMe": _curve(EPSILONS, (0.0117, 0.0094, 0.0084, 0.0081, 0.0080, 0.0081, 0.0082)),
    "DiPriMeExp": _curve(EPSILONS, (0.0115, 0.0095, 0.0085, 0.0080, 0.0081, 0.0081, 0.0081)),
    "DiPriMeFlip": _curve(EPSILONS, (0.0202, 0.0109, 0.0085, 0.0079, 0.0079, 0.0078, 0.0077)),
    "DP-ERT": _curve(EPSILONS, (0.0115, 0.0095, 0.0090, 0.0089, 0.0088, 0.0089, 0.0088)),
    "RF": {0.3: 0.0064, 300: 0.0064},
    "ERT": {0.3: 0.0071, 300: 0.0071},
    "Median": {0.3: 0.0066, 300: 0.0066},
}
BANKNOTE = {
    "DiPriMe": _curve(BANKNOTE_EPSILONS, (0.69, 0.81, 0.92, 0.95, 0.96, 0.96, 0.96, 0.96)),
    "DiPriMeExp": _curve(BANKNOTE_EPSILONS, (0.70, 0.84, 0.91, 0.95, 0.96, 0.95, 0.95, 0.97)),
    "DiPriMeFlip": _curve(BANKNOTE_EPSILONS, (0.67, 0.84, 0.90, 0.96, 0.95, 0.95, 0.96, 0.97)),
    "DP-ERT, as scored in the paper": _curve(BANKNOTE_EPSILONS, (0.59, 0.62, 0.66, 0.66, 0.67, 0.67, 0.67, 0.67)),
    "DP-DF": _curve(BANKNOTE_EPSILONS, (0.45, 0.50, 0.55, 0.56, 0.56, 0.56, 0.56, 0.56)),
    "DP-RF": _curve(BANKNOTE_EPSILONS, (0.51, 0.55, 0.55, 0.67, 0.84, 0.92, 0.95, 0.96)),
    "RF": {0.1: 0.98, 300: 0.98},
    "ERT": {0.1: 0.97, 300: 0.97},
    "Median": {0.1: 0.93, 300: 0.93},
}

# MSE in thousandths, by method and by whether trees have disjoint parts. Rows: epsilon, or K; columns: the share of
# the splits, or the number of trees.
MAPS_OF_SHARES = {
    ("DiPriMeFlip", True): (
        (8.48, 9.07, 9.89, 15.85),
        (7.79, 7.82, 8.02, 8.70),
        (7.73, 7.65, 7.62, 7.73),
        (7.82, 7.52, 7.49, 7.59),
    ),
    ("DiPriMeExp", True): (
        (8.42, 8.44, 8.89, 11.65),
        (8.04, 7.89, 8.06, 8.44),
        (7.81, 7.68, 7.84, 7.82),
        (7.78, 7.64, 7.82, 7.75),
    ),
    ("DiPriMeFlip", False): (
        (8.63, 9.00, 10.03, 15.37),
        (7.91, 7.63, 7.69, 8.47),
        (7.55, 7.44, 7.44, 7.55),
        (7.44, 7.41, 7.41, 7.52),
    ),
    ("DiPriMeExp", False): (
        (8.41, 8.46, 8.84, 10.86),
        (8.03, 7.77, 7.87, 8.59),
        (7.66, 7.62, 7.73, 7.71),
        (7.57, 7.60, 7.58, 7.73),
    ),
}
MAPS_OF_TREES = {
    ("DiPriMeFlip", True): (
        (8.48, 7.71, 7.88, 8.51),
        (8.12, 7.80, 7.90, 8.28),
        (8.26, 7.76, 7.80, 8.32),
        (8.23, 7.84, 8.16, 8.57),
    ),
    ("DiPriMeExp", True): (
        (8.44, 7.59, 8.03, 8.28),
        (8.33, 7.67, 8.16, 8.35),
        (8.42, 7.99, 7.89, 8.22),
        (8.26, 7.95, 7.98, 8.39),
    ),
    ("DiPriMeFlip", False): (
        (8.21, 7.73, 7.86, 8.23),
        (7.89, 7.95, 7.52, 8.14),
        (8.12, 7.73, 7.68, 8.17),
        (7.81, 7.81, 7.54, 8.12),
    ),
    ("DiPriMeExp", False): (
        (8.21, 7.77, 7.88, 8.23),
        (8.26, 7.63, 7.87, 8.06),
        (8.28, 7.91, 7.85, 8.19),
        (8.36, 7.87, 7.87, 7.96),
    ),
}
