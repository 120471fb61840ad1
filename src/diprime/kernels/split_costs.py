"""Integer costs of candidate splits, from histograms.

A split that sends n_L rows left and n_R right costs ``balance·max(0, min_rows - min(n_L, n_R)) - floor(unit·G)``. The
first term penalises the shortfall of the smaller child. G is the part of the impurity that depends on the split, summed
over both children and all columns, in units of one record:

    G = weight·Σ (x²/((1 - 2·linear_tail)·n) + 2·y),
    x = S - linear_tail·n, clipped to [0, (1 - 2·linear_tail)·n],  y = max(0, S - (1 - linear_tail)·n),

where S is the sum of a column in a child of n rows. With ``linear_tail = 0``, G is Σ S²/n, and the impurity is the sum
of squared errors; docs/privacy.md contains the derivation. In the code, ``units_per_record`` is the maximum that one
record adds to a column, and ``scale`` is unit·weight/units_per_record. With ``scale = 0``, only the balance term is
left, which is smallest at the median.

Inputs and outputs are integers; only intermediate results are floats. S < 2^38, n and ``units_per_record`` (a power of
two) are integers and ``linear_tail`` is a multiple of 2^-6, so x, y and their products with n are exact. The squares,
their sums over the columns, the common denominator and the addition of y take at most c + 6 roundings of relative size
2^-53 for c columns; ``scale`` is a power of two and adds none. The result is below unit·n, which is 2^36 for numeric
targets (n < 2^26, c = 1) and 2^41 for classes (n < 2^31). The error is therefore below (c + 6)·2^-12 units, less than a
quarter for up to 1000 classes. The range of the cost (forest/candidates.py) allows for the floor and for this error.

If there are more rows, up to 2^40, *wide* bins count them, and the cost is computed in integers. With M = n times
``units_per_record`` <= 2^52, X = 64·x and Y = 64·y are integers of at most 58 bits, and 64·G/weight is the sum over
children and columns of X²/((64 - 128·linear_tail)·M) + 2·Y. Each quotient is divided exactly into an integer part and a
remainder below one. Only the remainders are floats: 2c of them, each with three roundings. Their sum is below
2c <= 2000, so the error is below 2000·2000·2^-53 < 2^-31, times at most 2^10/2^6·weight: less than a quarter.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from diprime.kernels import _shim as cython

from diprime.kernels import constants

MISSING = cython.declare(cython.Py_ssize_t, constants.MISSING)
N_CODES = cython.declare(cython.Py_ssize_t, constants.N_CODES)
MASK_BYTES = cython.declare(cython.Py_ssize_t, constants.MASK_BYTES)
ABSENT_COST = cython.declare(cython.longlong, constants.ABSENT_COST)
WORD_MASK = cython.declare(cython.ulonglong, (1 << 64) - 1)


@cython.final
@cython.cclass
class CostRule:
    """Parameters of the cost, named as in the formula at the top of this module.

    Parameters
    ----------
    scale : float
        Weight of one unit of a column's sum, unit·weight/units_per_record: a power of two, or zero.
    units_per_record : float
        Maximum that one record adds to a column, a power of two.
    linear_tail : float
        Length of the intervals at 0 and at 1 where the impurity is linear: a multiple of 1/64 below one half.
    balance : int
        Cost of each row that the smaller child falls short of ``min_rows``.
    min_rows : int
        Number of rows that a child should have.
    """

    scale = cython.declare(cython.double, visibility="readonly")
    units_per_record = cython.declare(cython.double, visibility="readonly")
    linear_tail = cython.declare(cython.double, visibility="readonly")
    balance = cython.declare(cython.longlong, visibility="readonly")
    min_rows = cython.declare(cython.longlong, visibility="readonly")
    upper_tail: cython.double  # start of the second linear part
    middle_share: cython.double  # length of the interval between the linear parts
    middle_units: cython.double
    # The same as integers, for wide bins: shares in 64ths, and the exponent of scale/64.
    tail_64ths: cython.longlong
    middle_64ths: cython.longlong
    whole_units: cython.longlong
    exponent: cython.int

    def __init__(
        self,
        scale: cython.double,
        units_per_record: cython.double,
        linear_tail: cython.double,
        balance: cython.longlong,
        min_rows: cython.longlong,
    ) -> None:
        self.scale = scale
        self.units_per_record = units_per_record
        self.linear_tail = linear_tail
        self.balance = balance
        self.min_rows = min_rows
        self.upper_tail = 1.0 - linear_tail
        self.middle_share = 1.0 - 2.0 * linear_tail
        self.middle_units = self.middle_share * units_per_record
        self.tail_64ths = cython.cast(cython.longlong, 64.0 * linear_tail)
        self.middle_64ths = 64 - 2 * self.tail_64ths
        self.whole_units = cython.cast(cython.longlong, units_per_record)
        self.exponent = -6
        step: cython.double = scale
        while 0.0 < step < 1.0:
            step *= 2.0
            self.exponent -= 1
        while step > 1.0:
            step *= 0.5
            self.exponent += 1

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def middle(self, s: cython.double, most: cython.double) -> cython.double:
        """Return x for a column with sum s. ``most`` is the number of rows times ``units_per_record``."""
        return min(max(s - self.linear_tail * most, 0.0), self.middle_share * most)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def beyond(self, s: cython.double, most: cython.double) -> cython.double:
        """Return y for a column with sum s. ``most`` is the number of rows times ``units_per_record``."""
        return max(s - self.upper_tail * most, 0.0)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def cost(
        self,
        squares_left: cython.double,
        squares_right: cython.double,
        beyond: cython.double,
        n_left: cython.longlong,
        n_right: cython.longlong,
    ) -> cython.longlong:
        """Return the cost of a split from the sums over columns of x² in each child and of y in both."""
        # An empty child has no squares. Counting it as one row avoids a branch and does not change the quotient of the
        # other child. A single division, by the product of the weights, takes half the time of two.
        weight_left: cython.double = self.middle_units * cython.cast(cython.double, max(n_left, 1))
        weight_right: cython.double = self.middle_units * cython.cast(cython.double, max(n_right, 1))
        gain: cython.double = (squares_left * weight_right + squares_right * weight_left) / (weight_left * weight_right)
        lacking: cython.longlong = max(self.min_rows - min(n_left, n_right), 0)
        return self.balance * lacking - cython.cast(cython.longlong, (gain + 2.0 * beyond) * self.scale)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def wide_middle(self, s: cython.longlong, most: cython.longlong) -> cython.longlong:
        """Return exactly 64·x for a column with sum s. ``most`` is the number of rows times the units."""
        return min(max(64 * s - self.tail_64ths * most, 0), self.middle_64ths * most)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def wide_beyond(self, s: cython.longlong, most: cython.longlong) -> cython.longlong:
        """Return exactly 128·y for a column with sum s. ``most`` is the number of rows times the units."""
        return 2 * max(64 * s - (64 - self.tail_64ths) * most, 0)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def wide_gain(self, s: cython.longlong, most: cython.longlong) -> cython.longlong:
        """Return the integer part of 64·(x²/((1 - 2·linear_tail)·most) + 2·y) for a column with sum s of a child."""
        x: cython.longlong = self.wide_middle(s, most)
        whole: cython.longlong = self.wide_beyond(s, most)
        if x > 0:
            whole += _square_quotient(x, self.middle_64ths * most)
        return whole

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def wide_rest(self, s: cython.longlong, most: cython.longlong, whole: cython.longlong) -> cython.double:
        """Return the remainder of ``wide_gain``, which is below one."""
        x: cython.ulonglong = self.wide_middle(s, most)
        weight: cython.ulonglong = self.middle_64ths * most
        quotient: cython.ulonglong = whole - self.wide_beyond(s, most)
        if x == 0:
            return 0.0
        # The products wrap around, but their difference does not, because it is below the weight.
        return cython.cast(cython.double, (x * x - quotient * weight) & WORD_MASK) / cython.cast(cython.double, weight)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def wide_cost(
        self, whole: cython.longlong, rest: cython.double, n_left: cython.longlong, n_right: cython.longlong
    ) -> cython.longlong:
        """Return the cost of a split from the sums of ``wide_gain`` and ``wide_rest`` over children and columns."""
        extra: cython.longlong = cython.cast(cython.longlong, rest)
        lacking: cython.longlong = max(self.min_rows - min(n_left, n_right), 0)
        one: cython.longlong = 1
        gain: cython.longlong = 0
        if self.scale > 0.0:
            rest -= cython.cast(cython.double, extra)
            if self.exponent >= 0:
                rest *= cython.cast(cython.double, one << self.exponent)
                gain = ((whole + extra) << self.exponent) + cython.cast(cython.longlong, rest)
            else:
                gain = (whole + extra) >> (-self.exponent)
        return self.balance * lacking - gain


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _square_quotient(x: cython.ulonglong, weight: cython.ulonglong) -> cython.ulonglong:
    """Return x²/weight, rounded down, for 0 < x <= weight <= 2^58, by long division with five bits of x at a time.

    The remainder is below 2^58, and 32 times the remainder plus 31·x is below 2^64.
    """
    quotient: cython.ulonglong = 0
    rest: cython.ulonglong = 0
    shift: cython.int = 55
    while shift > 0 and (x >> shift) == 0:
        shift -= 5
    while shift >= 0:
        rest = 32 * rest + ((x >> shift) & 31) * x
        quotient = 32 * quotient + rest // weight
        rest = rest % weight
        shift -= 5
    return quotient


@cython.final
@cython.cclass
class BinsView:
    """Histograms of nodes, with the layout of their bins (see histogram.py).

    Parameters
    ----------
    bins : array of shape (n_nodes, n_features·256·n_columns)
        Histograms, one row per node.
    n_columns : int
        Number of bins of a code.
    shift : int
        Number of low bits that contain the sum of values. The higher bits contain the count of rows.
    values : array of the shape of bins, optional
        Sums of values. If given, bins are *wide*: ``bins`` contains the counts, and nothing is packed.
    """

    bins: cython.const[cython.ulonglong][:, ::1]
    values: cython.const[cython.ulonglong][:, ::1]
    wide: cython.bint
    n_columns: cython.Py_ssize_t
    shift: cython.Py_ssize_t
    value_mask: cython.ulonglong

    def __init__(
        self,
        bins: cython.const[cython.ulonglong][:, ::1],
        n_columns: cython.Py_ssize_t,
        shift: cython.Py_ssize_t,
        values: cython.const[cython.ulonglong][:, ::1] = None,
    ) -> None:
        one: cython.ulonglong = 1
        self.bins = bins
        self.wide = values is not None
        self.values = bins if values is None else values
        self.n_columns = n_columns
        self.shift = shift
        self.value_mask = (one << shift) - 1

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def count(self, packed: cython.ulonglong) -> cython.longlong:
        """Return the count of rows of a bin, or of a sum of bins."""
        return packed >> self.shift

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def value(self, packed: cython.ulonglong) -> cython.double:
        """Return the sum of values of a bin, or of a sum of bins."""
        return cython.cast(cython.double, cython.cast(cython.longlong, packed & self.value_mask))


@cython.final
@cython.cclass
class Scratch:
    """Scratch memory of one thread.

    Parameters
    ----------
    thresholds : array of shape (4, 256)
        For each threshold, the number of rows on the left, which is exact in floats, and the sums of x² on the left, of
        x² on the right, and of y.
    table : array of shape (257, n_columns)
        Bins of the codes that occur at a node, and their sums in the last row.
    codes : array of shape (3, 256)
        The codes that occur, their counts of rows, and whether a mask sends them right.
    """

    thresholds: cython.double[:, ::1]
    table: cython.ulonglong[:, ::1]
    codes: cython.longlong[:, ::1]

    def __init__(
        self, thresholds: cython.double[:, ::1], table: cython.ulonglong[:, ::1], codes: cython.longlong[:, ::1]
    ) -> None:
        self.thresholds = thresholds
        self.table = table
        self.codes = codes


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _threshold_costs_of_one_column(
    rule: CostRule,
    view: BinsView,
    node: cython.Py_ssize_t,
    feature: cython.Py_ssize_t,
    low: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    high: cython.Py_ssize_t,
    missing_left: cython.bint,
    costs: cython.longlong[:, ::1],
    row: cython.Py_ssize_t,
    slot: cython.Py_ssize_t,
) -> cython.longlong:
    """Variant of ``_threshold_costs`` for two classes and numeric targets, in one pass, which takes half the time."""
    bins: cython.const[cython.ulonglong][:, ::1] = view.bins
    base: cython.Py_ssize_t = feature * N_CODES
    running: cython.ulonglong = bins[node, base + MISSING]
    total: cython.ulonglong = running
    n_missing: cython.longlong = view.count(running)
    n_total: cython.longlong
    n_left: cython.longlong
    a: cython.double
    b: cython.double
    x: cython.double
    y: cython.double
    most: cython.double
    most_left: cython.double
    most_right: cython.double
    code: cython.Py_ssize_t
    for code in range(low, high + 1):
        total += bins[node, base + code]
    n_total = view.count(total)
    most = rule.units_per_record * cython.cast(cython.double, n_total)
    if not missing_left:
        running = 0
    for code in range(low, last + 1):
        running += bins[node, base + code]
        n_left = view.count(running)
        a = view.value(running)
        b = view.value(total - running)
        most_left = rule.units_per_record * cython.cast(cython.double, n_left)
        most_right = most - most_left  # exact: these are integers
        x = rule.middle(a, most_left)
        y = rule.middle(b, most_right)
        costs[row, slot + code] = rule.cost(
            x * x, y * y, rule.beyond(a, most_left) + rule.beyond(b, most_right), n_left, n_total - n_left
        )
    return n_missing


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _threshold_costs(
    rule: CostRule,
    view: BinsView,
    node: cython.Py_ssize_t,
    feature: cython.Py_ssize_t,
    low: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    high: cython.Py_ssize_t,
    missing_left: cython.bint,
    scratch: Scratch,
    costs: cython.longlong[:, ::1],
    row: cython.Py_ssize_t,
) -> cython.longlong:
    """Write the costs of the thresholds from low to last to a row of slots, and return the number of missing values.

    Threshold t sends the codes up to t left. Only the codes from low to high can occur at the node. The slots are in
    the first half of the row if missing values go left, and in the second half otherwise. Columns without records,
    which are most columns of deep nodes, add nothing to the costs and are skipped.
    """
    slot: cython.Py_ssize_t = 0 if missing_left else costs.shape[1] // 2
    n_columns: cython.Py_ssize_t = view.n_columns
    if view.wide:
        return _wide_threshold_costs(
            rule, view, node, feature, low, last, high, missing_left, scratch.thresholds, costs, row
        )
    if n_columns == 1:
        return _threshold_costs_of_one_column(
            rule, view, node, feature, low, last, high, missing_left, costs, row, slot
        )
    bins: cython.const[cython.ulonglong][:, ::1] = view.bins
    sums: cython.double[:, ::1] = scratch.thresholds
    totals: cython.ulonglong[:, ::1] = scratch.table
    base: cython.Py_ssize_t = feature * N_CODES * n_columns
    missing: cython.Py_ssize_t = base + MISSING * n_columns
    here: cython.ulonglong = 0
    n_missing: cython.longlong
    n_total: cython.longlong
    n_left: cython.longlong
    running: cython.ulonglong
    total: cython.ulonglong
    packed: cython.ulonglong
    a: cython.double
    b: cython.double
    x: cython.double
    most: cython.double
    most_left: cython.double
    most_right: cython.double
    code: cython.Py_ssize_t
    column: cython.Py_ssize_t
    at: cython.Py_ssize_t
    # A sum of bins contains a count and a value, as a bin does.
    for column in range(n_columns):
        packed = bins[node, missing + column]
        totals[0, column] = packed
        here += packed
    n_missing = view.count(here)
    n_total = n_missing if missing_left else 0
    for code in range(low, high + 1):
        at = base + code * n_columns
        here = 0
        for column in range(n_columns):
            packed = bins[node, at + column]
            totals[0, column] += packed
            here += packed
        n_total += view.count(here)
        sums[0, code] = cython.cast(cython.double, n_total)
        sums[1, code] = 0.0
        sums[2, code] = 0.0
        sums[3, code] = 0.0
    if not missing_left:
        n_total += n_missing
    most = rule.units_per_record * cython.cast(cython.double, n_total)
    for column in range(n_columns):
        total = totals[0, column]
        if total == 0:
            continue
        running = bins[node, missing + column] if missing_left else 0
        for code in range(low, last + 1):
            running += bins[node, base + code * n_columns + column]
            a = view.value(running)
            b = view.value(total - running)
            most_left = rule.units_per_record * sums[0, code]
            most_right = most - most_left
            x = rule.middle(a, most_left)
            sums[1, code] += x * x
            x = rule.middle(b, most_right)
            sums[2, code] += x * x
            sums[3, code] += rule.beyond(a, most_left) + rule.beyond(b, most_right)
    for code in range(low, last + 1):
        n_left = cython.cast(cython.longlong, sums[0, code])
        costs[row, slot + code] = rule.cost(sums[1, code], sums[2, code], sums[3, code], n_left, n_total - n_left)
    return n_missing


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _wide_threshold_costs(
    rule: CostRule,
    view: BinsView,
    node: cython.Py_ssize_t,
    feature: cython.Py_ssize_t,
    low: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    high: cython.Py_ssize_t,
    missing_left: cython.bint,
    scratch: cython.double[:, ::1],
    costs: cython.longlong[:, ::1],
    row: cython.Py_ssize_t,
) -> cython.longlong:
    """Variant of ``_threshold_costs`` for wide bins, in integers.

    The integer parts of the gains are added up in ``costs``, and the remainders in the second row of ``scratch``.
    """
    slot: cython.Py_ssize_t = 0 if missing_left else costs.shape[1] // 2
    counts: cython.const[cython.ulonglong][:, ::1] = view.bins
    values: cython.const[cython.ulonglong][:, ::1] = view.values
    n_columns: cython.Py_ssize_t = view.n_columns
    base: cython.Py_ssize_t = feature * N_CODES * n_columns
    missing: cython.Py_ssize_t = base + MISSING * n_columns
    n_missing: cython.longlong = 0
    n_total: cython.longlong
    n_left: cython.longlong
    running: cython.longlong
    total: cython.longlong
    most: cython.longlong
    whole: cython.longlong
    code: cython.Py_ssize_t
    column: cython.Py_ssize_t
    for column in range(n_columns):
        n_missing += counts[node, missing + column]
    n_total = n_missing if missing_left else 0
    for code in range(low, high + 1):
        for column in range(n_columns):
            n_total += counts[node, base + code * n_columns + column]
        scratch[0, code] = cython.cast(cython.double, n_total)
        scratch[1, code] = 0.0
    for code in range(low, last + 1):
        costs[row, slot + code] = 0
    if not missing_left:
        n_total += n_missing
    for column in range(n_columns):
        running = values[node, missing + column]
        total = running
        for code in range(low, high + 1):
            total += values[node, base + code * n_columns + column]
        if not missing_left:
            running = 0
        for code in range(low, last + 1):
            running += values[node, base + code * n_columns + column]
            most = rule.whole_units * cython.cast(cython.longlong, scratch[0, code])
            whole = rule.wide_gain(running, most)
            costs[row, slot + code] += whole
            scratch[1, code] += rule.wide_rest(running, most, whole)
            most = rule.whole_units * n_total - most
            whole = rule.wide_gain(total - running, most)
            costs[row, slot + code] += whole
            scratch[1, code] += rule.wide_rest(total - running, most, whole)
    for code in range(low, last + 1):
        n_left = cython.cast(cython.longlong, scratch[0, code])
        costs[row, slot + code] = rule.wide_cost(costs[row, slot + code], scratch[1, code], n_left, n_total - n_left)
    return n_missing


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _mark_absent(
    costs: cython.longlong[:, ::1], row: cython.Py_ssize_t, begin: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.void:
    """Mark the slots of a row from ``begin`` up to, but not including, ``end`` as absent."""
    absent: cython.longlong = ABSENT_COST
    slot: cython.Py_ssize_t
    for slot in range(begin, end):
        costs[row, slot] = absent


def numeric_costs(
    rule: CostRule,
    view: BinsView,
    nodes: cython.const[cython.longlong][::1],
    features: cython.const[cython.longlong][::1],
    low: cython.const[cython.uchar][::1],
    high: cython.const[cython.uchar][::1],
    missing: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    scratch: Scratch,
    mirrored: cython.uchar[::1],
    costs: cython.longlong[:, ::1],
) -> None:
    """Fill row ``rows[i]`` of the costs with the splits of a numeric feature at a node. All other slots are absent.

    Slot t of the first half is threshold t with missing values on the left. Slot t of the second half is the same
    threshold with missing values on the right. Only the codes from ``low[i]`` to ``high[i]`` can occur at the node, and
    missing values only if ``missing[i]`` is set. In that case, the threshold ``high[i]`` is also a candidate: it
    separates missing values from all numbers or, with missing values on the left, splits nothing. If missing values can
    occur but none does, both halves have the same costs: only the first is written, and ``mirrored[rows[i]]`` is set.
    """
    half: cython.Py_ssize_t = costs.shape[1] // 2
    i: cython.Py_ssize_t
    last: cython.Py_ssize_t
    row: cython.Py_ssize_t
    n_missing: cython.longlong
    with cython.nogil:
        for i in range(nodes.shape[0]):
            row = rows[i]
            last = high[i] if missing[i] else high[i] - 1
            _mark_absent(costs, row, 0, low[i])
            _mark_absent(costs, row, last + 1, half)
            n_missing = _threshold_costs(
                rule, view, nodes[i], features[i], low[i], last, high[i], True, scratch, costs, row
            )
            mirrored[row] = missing[i] and n_missing == 0
            if mirrored[row]:
                continue
            _mark_absent(costs, row, half, costs.shape[1])
            if missing[i]:
                _threshold_costs(rule, view, nodes[i], features[i], low[i], last, high[i], False, scratch, costs, row)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _gather(view: BinsView, node: cython.Py_ssize_t, feature: cython.Py_ssize_t, scratch: Scratch) -> cython.Py_ssize_t:
    """Copy the bins of the codes that occur at a node to the table, with their sums, and return the number of codes.

    A code that does not occur adds nothing to either side of any split.
    """
    bins: cython.const[cython.ulonglong][:, ::1] = view.bins
    table: cython.ulonglong[:, ::1] = scratch.table
    codes: cython.longlong[:, ::1] = scratch.codes
    n_codes: cython.Py_ssize_t = N_CODES
    n_columns: cython.Py_ssize_t = view.n_columns
    at: cython.Py_ssize_t = feature * n_codes * n_columns
    n_found: cython.Py_ssize_t = 0
    here: cython.ulonglong
    code: cython.Py_ssize_t
    column: cython.Py_ssize_t
    for column in range(n_columns):
        table[n_codes, column] = 0
    for code in range(n_codes):
        here = 0
        for column in range(n_columns):
            here += bins[node, at + column]  # one bin could hold these counts and values
        if here != 0:
            for column in range(n_columns):
                table[n_found, column] = bins[node, at + column]
                table[n_codes, column] += bins[node, at + column]
            codes[0, n_found] = code
            codes[1, n_found] = view.count(here)
            n_found += 1
        at += n_columns
    return n_found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _mask_cost(
    rule: CostRule,
    view: BinsView,
    scratch: Scratch,
    n_found: cython.Py_ssize_t,
    masks: cython.const[cython.uchar][:, ::1],
    mask: cython.Py_ssize_t,
) -> cython.longlong:
    """Return the cost of the split that sends the gathered codes in a mask right."""
    table: cython.ulonglong[:, ::1] = scratch.table
    codes: cython.longlong[:, ::1] = scratch.codes
    n_codes: cython.Py_ssize_t = N_CODES
    code: cython.longlong
    total: cython.ulonglong
    right: cython.ulonglong
    n_left: cython.longlong = 0
    n_right: cython.longlong = 0
    squares_left: cython.double = 0.0
    squares_right: cython.double = 0.0
    beyond: cython.double = 0.0
    a: cython.double
    b: cython.double
    x: cython.double
    most_left: cython.double
    most_right: cython.double
    i: cython.Py_ssize_t
    column: cython.Py_ssize_t
    for i in range(n_found):
        code = codes[0, i]
        codes[2, i] = (masks[mask, code >> 3] >> (code & 7)) & 1
        if codes[2, i]:
            n_right += codes[1, i]
        else:
            n_left += codes[1, i]
    most_left = rule.units_per_record * cython.cast(cython.double, n_left)
    most_right = rule.units_per_record * cython.cast(cython.double, n_right)
    for column in range(view.n_columns):
        total = table[n_codes, column]
        if total == 0:
            continue
        right = 0
        for i in range(n_found):
            if codes[2, i]:
                right += table[i, column]
        a = view.value(total - right)
        b = view.value(right)
        x = rule.middle(a, most_left)
        squares_left += x * x
        x = rule.middle(b, most_right)
        squares_right += x * x
        beyond += rule.beyond(a, most_left) + rule.beyond(b, most_right)
    return rule.cost(squares_left, squares_right, beyond, n_left, n_right)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _wide_mask_cost(
    rule: CostRule,
    view: BinsView,
    node: cython.Py_ssize_t,
    feature: cython.Py_ssize_t,
    masks: cython.const[cython.uchar][:, ::1],
    mask: cython.Py_ssize_t,
) -> cython.longlong:
    """Variant of ``_mask_cost`` for wide bins, in integers."""
    counts: cython.const[cython.ulonglong][:, ::1] = view.bins
    values: cython.const[cython.ulonglong][:, ::1] = view.values
    n_codes: cython.Py_ssize_t = N_CODES
    n_columns: cython.Py_ssize_t = view.n_columns
    base: cython.Py_ssize_t = feature * N_CODES * n_columns
    n_left: cython.longlong = 0
    n_right: cython.longlong = 0
    left: cython.longlong
    right: cython.longlong
    whole: cython.longlong = 0
    part: cython.longlong
    rest: cython.double = 0.0
    code: cython.Py_ssize_t
    column: cython.Py_ssize_t
    for code in range(n_codes):
        for column in range(n_columns):
            if (masks[mask, code >> 3] >> (code & 7)) & 1:
                n_right += counts[node, base + code * n_columns + column]
            else:
                n_left += counts[node, base + code * n_columns + column]
    for column in range(n_columns):
        left = 0
        right = 0
        for code in range(n_codes):
            if (masks[mask, code >> 3] >> (code & 7)) & 1:
                right += values[node, base + code * n_columns + column]
            else:
                left += values[node, base + code * n_columns + column]
        part = rule.wide_gain(left, rule.whole_units * n_left)
        whole += part
        rest += rule.wide_rest(left, rule.whole_units * n_left, part)
        part = rule.wide_gain(right, rule.whole_units * n_right)
        whole += part
        rest += rule.wide_rest(right, rule.whole_units * n_right, part)
    return rule.wide_cost(whole, rest, n_left, n_right)


def mask_costs(
    rule: CostRule,
    view: BinsView,
    nodes: cython.const[cython.longlong][::1],
    features: cython.const[cython.longlong][::1],
    masks: cython.const[cython.uchar][:, ::1],
    scratch: Scratch,
    costs: cython.longlong[::1],
) -> None:
    """Fill ``costs[i]`` with the cost of sending the codes in ``masks[i]`` of a feature right at a node."""
    i: cython.Py_ssize_t
    n_found: cython.Py_ssize_t
    with cython.nogil:
        for i in range(nodes.shape[0]):
            if view.wide:
                costs[i] = _wide_mask_cost(rule, view, nodes[i], features[i], masks, i)
            else:
                n_found = _gather(view, nodes[i], features[i], scratch)
                costs[i] = _mask_cost(rule, view, scratch, n_found, masks, i)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _splits(
    masks: cython.const[cython.uchar][:, ::1],
    mask: cython.Py_ssize_t,
    allowed: cython.const[cython.uchar][:, ::1],
    row: cython.Py_ssize_t,
) -> cython.bint:
    """Return whether a mask sends some of the allowed codes left and some right."""
    mask_bytes: cython.Py_ssize_t = MASK_BYTES
    byte: cython.Py_ssize_t
    left: cython.int = 0
    right: cython.int = 0
    for byte in range(mask_bytes):
        left |= allowed[row, byte] & ~masks[mask, byte]
        right |= allowed[row, byte] & masks[mask, byte]
        if left != 0 and right != 0:
            return True
    return False


def categorical_costs(
    rule: CostRule,
    view: BinsView,
    nodes: cython.const[cython.longlong][::1],
    features: cython.const[cython.longlong][::1],
    starts: cython.const[cython.longlong][::1],
    sizes: cython.const[cython.longlong][::1],
    masks: cython.const[cython.uchar][:, ::1],
    allowed: cython.const[cython.uchar][:, ::1],
    rows: cython.const[cython.longlong][::1],
    scratch: Scratch,
    costs: cython.longlong[:, ::1],
) -> None:
    """Fill row ``rows[i]`` of the costs with the splits of a categorical feature at a node.

    The candidates are ``sizes[i]`` public masks, from ``starts[i]`` on. Only the codes in ``allowed[i]`` can occur at
    the node. If a mask sends all of them to the same side, its slot is absent.
    """
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    n_found: cython.Py_ssize_t
    with cython.nogil:
        for i in range(nodes.shape[0]):
            n_found = 0 if view.wide else _gather(view, nodes[i], features[i], scratch)
            _mark_absent(costs, rows[i], 0, costs.shape[1])
            for j in range(sizes[i]):
                if not _splits(masks, starts[i] + j, allowed, i):
                    continue
                if view.wide:
                    costs[rows[i], j] = _wide_mask_cost(rule, view, nodes[i], features[i], masks, starts[i] + j)
                else:
                    costs[rows[i], j] = _mask_cost(rule, view, scratch, n_found, masks, starts[i] + j)


def add_offsets(
    offsets: cython.const[cython.longlong][::1],
    mirrored: cython.const[cython.uchar][::1],
    costs: cython.longlong[:, ::1],
) -> None:
    """Add ``offsets[n]`` to the costs of every row with n candidates.

    The offsets are public, because it is public which slots hold a candidate. In a mirrored row, only the first half is
    written; the second has the same number of candidates.
    """
    absent: cython.longlong = ABSENT_COST
    row: cython.Py_ssize_t
    slot: cython.Py_ssize_t
    end: cython.Py_ssize_t
    n: cython.Py_ssize_t
    with cython.nogil:
        for row in range(costs.shape[0]):
            end = costs.shape[1] // 2 if mirrored[row] else costs.shape[1]
            n = 0
            for slot in range(end):
                n += costs[row, slot] != absent
            if mirrored[row]:
                n *= 2
            for slot in range(end):
                if costs[row, slot] != absent:
                    costs[row, slot] += offsets[n]
