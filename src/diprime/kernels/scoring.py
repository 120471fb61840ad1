"""Integer costs of candidate splits, from histograms.

A split that sends n_L rows left and n_R right costs ``balance·max(0, min_rows - min(n_L, n_R)) - floor(unit·G)``. The
first term penalises the rows that the smaller child lacks. G is the part of the impurity that depends on the split,
summed over both children and all columns, in units of one record:

    G = weight·Σ (x²/((1 - 2·linear_tail)·n) + 2·y),
    x = S - linear_tail·n, clipped to [0, (1 - 2·linear_tail)·n],  y = max(0, S - (1 - linear_tail)·n),

where S is the sum of a column in a child of n rows. With ``linear_tail = 0`` it is Σ S²/n, and the impurity is the sum
of squared errors; docs/privacy.md has the derivation. In the code, ``units_per_record`` is the most that one record
adds to a column, and ``scale`` is unit·weight/units_per_record. With ``scale = 0`` only the balance term is left, which
is least at the median.

Both inputs and outputs are integers; only the steps between use floats. S < 2^38, n and ``units_per_record`` (a power
of two) are integers and ``linear_tail`` is a multiple of 2^-6, so x, y and their products with n are exact. The
squares, their sums over the columns, the common denominator and the addition of y take at most c + 6 roundings of
relative size 2^-53 for c columns; ``scale`` is a power of two and adds none. The result is below unit·n, which is 2^36
for numbers (n < 2^26, c = 1) and 2^41 for classes (n < 2^31). The error is therefore below (c + 6)·2^-12 units, less
than a quarter for up to 1000 classes. The range of the cost (training/splitting/cost.py) allows for the floor and for
this error.

More rows than that, up to 2^40, are counted in *wide* bins, where the cost is computed in integers. With M = n times
``units_per_record`` <= 2^52, X = 64·x and Y = 64·y are integers of at most 58 bits, and 64·G/weight is the sum over
children and columns of X²/((64 - 128·linear_tail)·M) + 2·Y. Each quotient is divided exactly into a whole part and a
rest below one. Only the rests are floats: 2c of them, each with three roundings, and their sum is below 2c <= 2000, so
that the error is below 2000·2000·2^-53 < 2^-31, times at most 2^10/2^6·weight: less than a quarter.
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
    """The parameters of the cost, as the formula at the top of this module names them.

    Parameters
    ----------
    scale : float
        What one unit of a column's sum is worth, unit·weight/units_per_record: a power of two, or zero.
    units_per_record : float
        The most that one record adds to a column, a power of two.
    linear_tail : float
        The share at either end of [0, 1] where the impurity is linear: a multiple of 1/64 below one half.
    balance : int
        The cost of each row that the smaller child lacks.
    min_rows : int
        The number of rows from which on a child lacks none.
    """

    scale = cython.declare(cython.double, visibility="readonly")
    units_per_record = cython.declare(cython.double, visibility="readonly")
    linear_tail = cython.declare(cython.double, visibility="readonly")
    balance = cython.declare(cython.longlong, visibility="readonly")
    min_rows = cython.declare(cython.longlong, visibility="readonly")
    upper_tail: cython.double  # where the second linear part begins
    middle_share: cython.double  # the share between the two linear parts
    middle_units: cython.double
    # The same in integers, for wide bins: shares in 64ths, and scale/64 as a power of two.
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
        """Return x for a column with sum s; ``most`` is the rows of the child times ``units_per_record``."""
        return min(max(s - self.linear_tail * most, 0.0), self.middle_share * most)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def beyond(self, s: cython.double, most: cython.double) -> cython.double:
        """Return y for a column with sum s; ``most`` is the rows of the child times ``units_per_record``."""
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
        """Return the cost of a split from the sums of x² in each child and of y in both, over the columns."""
        # An empty child has no squares. Counting it as one row avoids a branch and leaves the other child's quotient
        # as it is. A single division, by the product of the weights, takes half the time of two.
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
        """Return 64·x for a column with sum s, exactly; ``most`` is the rows of the child times the units."""
        return min(max(64 * s - self.tail_64ths * most, 0), self.middle_64ths * most)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def wide_beyond(self, s: cython.longlong, most: cython.longlong) -> cython.longlong:
        """Return 128·y for a column with sum s, exactly; ``most`` is the rows of the child times the units."""
        return 2 * max(64 * s - (64 - self.tail_64ths) * most, 0)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def wide_gain(self, s: cython.longlong, most: cython.longlong) -> cython.longlong:
        """Return the whole part of 64·(x²/((1 - 2·linear_tail)·most) + 2·y) for a column with sum s of a child."""
        x: cython.longlong = self.wide_middle(s, most)
        whole: cython.longlong = self.wide_beyond(s, most)
        if x > 0:
            whole += _square_quotient(x, self.middle_64ths * most)
        return whole

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def wide_rest(self, s: cython.longlong, most: cython.longlong, whole: cython.longlong) -> cython.double:
        """Return what ``wide_gain`` leaves over, below one."""
        x: cython.ulonglong = self.wide_middle(s, most)
        weight: cython.ulonglong = self.middle_64ths * most
        quotient: cython.ulonglong = whole - self.wide_beyond(s, most)
        if x == 0:
            return 0.0
        # The products wrap around, and their difference does not: it is below the weight.
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
    """Return x²/weight, rounded down, for 0 < x <= weight <= 2^58: long division, five bits of x at a time.

    The rest is below 2^58, and 32 times it plus 31·x below 2^64.
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
    """Histograms of nodes, and how to read their bins: see histogram.py.

    Parameters
    ----------
    bins : array of shape (n_nodes, n_features·256·n_columns)
        The histograms, a row for each node.
    n_columns : int
        The number of bins of a code.
    shift : int
        The number of low bits that hold the sum of values; the bits above hold the count of rows.
    values : array of the shape of bins, optional
        The sums of values. With them, bins are *wide*: ``bins`` holds the counts, and nothing is packed.
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
    """Do what ``_threshold_costs`` does for two classes and for numbers, in one pass: it takes half the time."""
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
    scratch: cython.double[:, ::1],
    costs: cython.longlong[:, ::1],
    row: cython.Py_ssize_t,
) -> cython.longlong:
    """Write the costs of the thresholds from low to last to a row of slots; return the number of missing values.

    Threshold t sends the codes up to t left; only the codes from low to high can occur at the node. The slots are those
    of the first half of the row if missing values go left, else those of the second. ``scratch`` has, for each
    threshold, the number of rows on the left, which floats hold exactly, and the sums of x² on the left, of x² on the
    right, and of y.
    """
    slot: cython.Py_ssize_t = 0 if missing_left else costs.shape[1] // 2
    n_columns: cython.Py_ssize_t = view.n_columns
    if view.wide:
        return _wide_threshold_costs(rule, view, node, feature, low, last, high, missing_left, scratch, costs, row)
    if n_columns == 1:
        return _threshold_costs_of_one_column(
            rule, view, node, feature, low, last, high, missing_left, costs, row, slot
        )
    bins: cython.const[cython.ulonglong][:, ::1] = view.bins
    base: cython.Py_ssize_t = feature * N_CODES * n_columns
    missing: cython.Py_ssize_t = base + MISSING * n_columns
    n_missing: cython.longlong = 0
    n_total: cython.longlong
    n_left: cython.longlong
    running: cython.ulonglong
    total: cython.ulonglong
    a: cython.double
    b: cython.double
    x: cython.double
    most: cython.double
    most_left: cython.double
    most_right: cython.double
    code: cython.Py_ssize_t
    column: cython.Py_ssize_t
    for column in range(n_columns):
        n_missing += view.count(bins[node, missing + column])
    n_total = n_missing if missing_left else 0
    for code in range(low, high + 1):
        for column in range(n_columns):
            n_total += view.count(bins[node, base + code * n_columns + column])
        scratch[0, code] = cython.cast(cython.double, n_total)
        scratch[1, code] = 0.0
        scratch[2, code] = 0.0
        scratch[3, code] = 0.0
    if not missing_left:
        n_total += n_missing
    most = rule.units_per_record * cython.cast(cython.double, n_total)
    for column in range(n_columns):
        # A bin holds a count and a value, and so does a sum of bins.
        running = bins[node, missing + column]
        total = running
        for code in range(low, high + 1):
            total += bins[node, base + code * n_columns + column]
        if not missing_left:
            running = 0
        for code in range(low, last + 1):
            running += bins[node, base + code * n_columns + column]
            a = view.value(running)
            b = view.value(total - running)
            most_left = rule.units_per_record * scratch[0, code]
            most_right = most - most_left
            x = rule.middle(a, most_left)
            scratch[1, code] += x * x
            x = rule.middle(b, most_right)
            scratch[2, code] += x * x
            scratch[3, code] += rule.beyond(a, most_left) + rule.beyond(b, most_right)
    for code in range(low, last + 1):
        n_left = cython.cast(cython.longlong, scratch[0, code])
        costs[row, slot + code] = rule.cost(
            scratch[1, code], scratch[2, code], scratch[3, code], n_left, n_total - n_left
        )
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
    """Do what ``_threshold_costs`` does for wide bins, in integers.

    The whole parts of the gains are added up in the costs, the rests in ``scratch``, after the rows on the left.
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
    """Mark the slots of a row from begin to before end as holding no candidate."""
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
    scratch: cython.double[:, ::1],
    mirrored: cython.uchar[::1],
    costs: cython.longlong[:, ::1],
) -> None:
    """Fill row ``rows[i]`` of the costs with the splits of a numeric feature at a node; all other slots are absent.

    Slot t of the first half is threshold t with missing values on the left, and slot t of the second half the same with
    missing values on the right. Only the codes from ``low[i]`` to ``high[i]`` can occur at the node, and missing values
    only if ``missing[i]`` is set. In that case the threshold ``high[i]`` is a candidate too: it separates missing
    values from all numbers or, with missing values on the left, splits nothing. Where missing values can occur but none
    does, both halves have the same costs: only the first is written, and ``mirrored[rows[i]]`` is set.

    ``scratch`` is memory of shape (4, 256), whose content does not matter.
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
def _mask_cost(
    rule: CostRule,
    view: BinsView,
    node: cython.Py_ssize_t,
    feature: cython.Py_ssize_t,
    masks: cython.const[cython.uchar][:, ::1],
    mask: cython.Py_ssize_t,
) -> cython.longlong:
    """Return the cost of the split that sends the codes in a mask right."""
    if view.wide:
        return _wide_mask_cost(rule, view, node, feature, masks, mask)
    bins: cython.const[cython.ulonglong][:, ::1] = view.bins
    mask_bytes: cython.Py_ssize_t = MASK_BYTES
    n_columns: cython.Py_ssize_t = view.n_columns
    base: cython.Py_ssize_t = feature * N_CODES * n_columns
    bits: cython.int
    packed: cython.ulonglong
    left: cython.ulonglong
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
    byte: cython.Py_ssize_t
    bit: cython.Py_ssize_t
    column: cython.Py_ssize_t
    for byte in range(mask_bytes):
        bits = masks[mask, byte]
        for bit in range(8):
            for column in range(n_columns):
                packed = bins[node, base + (8 * byte + bit) * n_columns + column]
                if (bits >> bit) & 1:
                    n_right += view.count(packed)
                else:
                    n_left += view.count(packed)
    most_left = rule.units_per_record * cython.cast(cython.double, n_left)
    most_right = rule.units_per_record * cython.cast(cython.double, n_right)
    for column in range(n_columns):
        left = 0
        right = 0
        for byte in range(mask_bytes):
            bits = masks[mask, byte]
            for bit in range(8):
                packed = bins[node, base + (8 * byte + bit) * n_columns + column]
                if (bits >> bit) & 1:
                    right += packed
                else:
                    left += packed
        a = view.value(left)
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
    """Do what ``_mask_cost`` does for wide bins, in integers."""
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
    costs: cython.longlong[::1],
) -> None:
    """Fill ``costs[i]`` with the cost of sending the codes in ``masks[i]`` of a feature right at a node."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(nodes.shape[0]):
            costs[i] = _mask_cost(rule, view, nodes[i], features[i], masks, i)


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
    costs: cython.longlong[:, ::1],
) -> None:
    """Fill row ``rows[i]`` of the costs with the splits of a categorical feature at a node.

    The candidates are ``sizes[i]`` public masks, from ``starts[i]`` on. Only the codes in ``allowed[i]``
    can occur at the node. A mask that sends all of them to the same side splits nothing, and its slot is absent.
    """
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    with cython.nogil:
        for i in range(nodes.shape[0]):
            _mark_absent(costs, rows[i], 0, costs.shape[1])
            for j in range(sizes[i]):
                if _splits(masks, starts[i] + j, allowed, i):
                    costs[rows[i], j] = _mask_cost(rule, view, nodes[i], features[i], masks, starts[i] + j)


def add_offsets(
    offsets: cython.const[cython.longlong][::1],
    mirrored: cython.const[cython.uchar][::1],
    costs: cython.longlong[:, ::1],
) -> None:
    """Add ``offsets[n]`` to the costs of every row that has n candidates.

    Which slots hold a candidate is public, so the offsets are. In a mirrored row only the first half is written; the
    second has as many candidates.
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
