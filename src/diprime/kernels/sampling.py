"""Random bits and exact samplers: ChaCha20, uniform integers, exponential mechanism, permute-and-flip, and noise.

All functions use integers only. A stream is a row of ``STREAM_WORDS`` 32-bit words: the 16 words of ChaCha20's input
block (constants, key, block counter, nonce), the 16 words of its last output block, and the number of output words
already used. Only :mod:`diprime.privacy.randomness` creates streams.
"""

# The interpreted form is the reference. It reads Python integers from memoryviews, which never wrap, and raises an
# error if a written integer does not fit. 32-bit sums are therefore masked, although C wraps them anyway.
from __future__ import annotations

try:
    import cython
except ImportError:
    from diprime.kernels import _shim as cython

from diprime.kernels import constants

WORD_MASK = cython.declare(cython.uint, 0xFFFFFFFF)
POSITION = cython.declare(cython.Py_ssize_t, 32)  # index of the number of output words already used
ABSENT_COST = cython.declare(cython.longlong, constants.ABSENT_COST)
MAX_WHOLE = cython.declare(
    cython.ulonglong, 64
)  # proposals, most of which are rejected, reach it with probability e^-32


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _quarter_round(
    s: cython.uint[:], a: cython.Py_ssize_t, b: cython.Py_ssize_t, c: cython.Py_ssize_t, d: cython.Py_ssize_t
) -> cython.void:
    w: cython.uint = s[a]
    x: cython.uint = s[b]
    y: cython.uint = s[c]
    z: cython.uint = s[d]
    w = (w + x) & WORD_MASK
    z ^= w
    z = ((z << 16) | (z >> 16)) & WORD_MASK
    y = (y + z) & WORD_MASK
    x ^= y
    x = ((x << 12) | (x >> 20)) & WORD_MASK
    w = (w + x) & WORD_MASK
    z ^= w
    z = ((z << 8) | (z >> 24)) & WORD_MASK
    y = (y + z) & WORD_MASK
    x ^= y
    x = ((x << 7) | (x >> 25)) & WORD_MASK
    s[a] = w
    s[b] = x
    s[c] = y
    s[d] = z


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _next_block(s: cython.uint[:]) -> cython.void:
    i: cython.Py_ssize_t
    for i in range(16):
        s[16 + i] = s[i]
    for i in range(10):
        _quarter_round(s, 16, 20, 24, 28)
        _quarter_round(s, 17, 21, 25, 29)
        _quarter_round(s, 18, 22, 26, 30)
        _quarter_round(s, 19, 23, 27, 31)
        _quarter_round(s, 16, 21, 26, 31)
        _quarter_round(s, 17, 22, 27, 28)
        _quarter_round(s, 18, 23, 24, 29)
        _quarter_round(s, 19, 20, 25, 30)
    for i in range(16):
        s[16 + i] = (s[16 + i] + s[i]) & WORD_MASK
    s[12] = (s[12] + 1) & WORD_MASK
    if s[12] == 0:  # the counter has 64 bits, as in Bernstein's ChaCha20
        s[13] = (s[13] + 1) & WORD_MASK
    s[POSITION] = 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _next_word(s: cython.uint[:]) -> cython.uint:
    if s[POSITION] >= 16:
        _next_block(s)
    position: cython.Py_ssize_t = s[POSITION]
    s[POSITION] = position + 1
    return s[16 + position]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _below(s: cython.uint[:], bound: cython.ulonglong) -> cython.ulonglong:
    """Draw a uniform integer below ``bound`` by rejection sampling."""
    mask: cython.ulonglong = bound - 1
    draw: cython.ulonglong
    mask |= mask >> 1
    mask |= mask >> 2
    mask |= mask >> 4
    mask |= mask >> 8
    mask |= mask >> 16
    mask |= mask >> 32
    while True:
        draw = _next_word(s)
        if mask > WORD_MASK:
            draw = (draw << 32) | _next_word(s)
        draw &= mask
        if draw < bound:
            return draw


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _bernoulli_exp(s: cython.uint[:], numerator: cython.ulonglong, denominator: cython.ulonglong) -> cython.bint:
    """Return true with probability exp(-numerator/denominator), for numerator <= denominator.

    This is algorithm 1 of Canonne, Kamath and Steinke (2020). With g = numerator/denominator, the first k at which a
    coin of bias g/k fails is odd with probability exp(-g). Each coin is drawn as a coin of bias g and one of bias 1/k,
    so that no product can overflow.
    """
    k: cython.ulonglong = 1
    while _below(s, denominator) < numerator and _below(s, k) == 0:
        k += 1
    return k % 2 == 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _laplace(
    s: cython.uint[:],
    numerator: cython.ulonglong,
    denominator: cython.ulonglong,
    max_wholes: cython.ulonglong,
    saturated: cython.longlong,
) -> cython.longlong:
    """Draw discrete Laplace noise of scale numerator/denominator: algorithm 2 of Canonne, Kamath and Steinke (2020).

    After ``max_wholes`` successes of the geometric part, the magnitude is ``saturated``. The caller chooses both; see
    privacy/mechanisms/laplace.py.
    """
    part: cython.ulonglong
    wholes: cython.ulonglong
    magnitude: cython.longlong
    negative: cython.bint
    while True:
        part = _below(s, numerator)
        if not _bernoulli_exp(s, part, numerator):
            continue
        wholes = 0
        while wholes < max_wholes and _bernoulli_exp(s, 1, 1):
            wholes += 1
        if wholes == max_wholes:
            magnitude = saturated
        else:
            magnitude = (part + numerator * wholes) // denominator
        negative = _next_word(s) & 1
        if negative and magnitude == 0:
            continue
        return -magnitude if negative else magnitude


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _digit(s: cython.uint[:], uniforms: cython.uint[:, :], row: cython.Py_ssize_t, i: cython.Py_ssize_t) -> cython.uint:
    """Return digit i of a uniform number, and draw it first if it is the next unknown digit."""
    if uniforms[row, 0] == i:
        uniforms[row, i + 1] = _next_word(s)
        uniforms[row, 0] = i + 1
    return uniforms[row, i + 1]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _draws_below(
    s: cython.uint[:], uniforms: cython.uint[:, :], new: cython.Py_ssize_t, other: cython.Py_ssize_t
) -> cython.int:
    """Draw a new uniform number. Return 1 if it is below ``other``, 0 if not, and -1 if more digits are needed."""
    i: cython.Py_ssize_t
    a: cython.uint
    b: cython.uint
    uniforms[new, 0] = 0
    for i in range(uniforms.shape[1] - 1):
        b = _digit(s, uniforms, other, i)
        a = _digit(s, uniforms, new, i)
        if a != b:
            return a < b
    return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _accepts_fraction(s: cython.uint[:], uniforms: cython.uint[:, :], k: cython.ulonglong) -> cython.int:
    """Return 1 with probability exp(-x·(2k + x)/(2k + 2)), else 0, and -1 if more digits are needed: algorithm B.

    x is the number in row 0. A sequence x > z_1 > z_2 > ... of new uniform numbers continues while it decreases and a
    coin of bias p = (2k + x)/(2k + 2) succeeds. It has at least n members with probability (x·p)^n/n!, so its length is
    even with probability exp(-x·p).
    """
    last: cython.Py_ssize_t = 0
    new: cython.Py_ssize_t = 1
    is_even: cython.int = 1
    outcome: cython.int
    side: cython.ulonglong
    while True:
        outcome = _draws_below(s, uniforms, new, last)
        if outcome == 1:
            side = _below(s, 2 * k + 2)
            if side == 2 * k:
                # The row that contains neither x nor the newest number is free.
                outcome = _draws_below(s, uniforms, 3 - new, 0)
            elif side > 2 * k:
                outcome = 0
        if outcome != 1:
            return outcome if outcome < 0 else is_even
        is_even = 1 - is_even
        last = new
        new = 3 - new


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _accepts_whole(s: cython.uint[:], k: cython.ulonglong) -> cython.bint:
    """Return true with probability exp(-k·(k - 1)/2)."""
    i: cython.ulonglong
    for i in range(k * (k - 1)):
        if not _bernoulli_exp(s, 1, 2):
            return False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _normal_whole(s: cython.uint[:], uniforms: cython.uint[:, :]) -> cython.longlong:
    """Draw the magnitude k + x of a standard normal number. Return k and leave x in row 0, or -1 if out of digits.

    This is algorithm N of Karney (2016): k has probability proportional to exp(-k²/2), and x is uniform and accepted
    with probability exp(-x·(2k + x)/2), in k + 1 steps.
    """
    k: cython.ulonglong
    step: cython.ulonglong
    outcome: cython.int
    while True:
        k = 0
        while k < MAX_WHOLE and _bernoulli_exp(s, 1, 2):
            k += 1
        if k == MAX_WHOLE:
            return -1
        if not _accepts_whole(s, k):
            continue
        uniforms[0, 0] = 0
        outcome = 1
        step = 0
        while outcome == 1 and step <= k:
            outcome = _accepts_fraction(s, uniforms, k)
            step += 1
        if outcome < 0:
            return -1
        if outcome == 1:
            return k


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _rounded_product(
    s: cython.uint[:],
    uniforms: cython.uint[:, :],
    k: cython.ulonglong,
    multiplier: cython.ulonglong,
    shift: cython.ulonglong,
) -> cython.longlong:
    """Return (k + x)·multiplier·2^(32 - shift), rounded to an integer, for x in row 0, or -1 if out of digits.

    With x = (d + t)/2^32 and its first digit d, the result is the floor of (A + multiplier·t)/2^shift for an integer A.
    t is uniform in [0, 1), and its digits are needed only if they can change the result.
    """
    one: cython.ulonglong = 1
    n_digits: cython.Py_ssize_t = uniforms.shape[1] - 1
    i: cython.Py_ssize_t = 1
    digit: cython.ulonglong
    threshold: cython.ulonglong
    rest: cython.ulonglong = multiplier * ((k << 32) + _digit(s, uniforms, 0, 0)) + (one << (shift - 1))
    result: cython.longlong = rest >> shift
    rest &= (one << shift) - 1
    if multiplier > one << shift:
        if n_digits < 2:
            return -1
        rest = (rest << 32) + multiplier * _digit(s, uniforms, 0, 1)
        shift += 32
        result += rest >> shift
        rest &= (one << shift) - 1
        i = 2
    if rest + multiplier <= one << shift:
        return result
    rest = (one << shift) - rest  # the result is one more if multiplier·t reaches this
    while i < n_digits:
        digit = _digit(s, uniforms, 0, i)
        threshold = (rest << 32) // multiplier
        rest = (rest << 32) % multiplier
        if digit != threshold:
            return result + 1 if digit > threshold else result
        if rest == 0:
            return result + 1
        i += 1
    return -1


def draw_words(stream: cython.uint[::1], out: cython.uint[::1]) -> None:
    """Fill ``out`` with the next words of a stream."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(out.shape[0]):
            out[i] = _next_word(stream)


def draw_below(stream: cython.uint[::1], bound: cython.ulonglong, out: cython.ulonglong[::1]) -> None:
    """Fill ``out`` with independent uniform integers below ``bound``."""
    i: cython.Py_ssize_t
    with cython.nogil:
        for i in range(out.shape[0]):
            out[i] = _below(stream, bound)


def draw_trees(stream: cython.uint[::1], n_trees: cython.uint, trees: cython.ushort[::1]) -> None:
    """Fill ``trees`` with independent uniform integers below ``n_trees`` <= 65536, several from each word."""
    one: cython.uint = 1
    bits: cython.uint = 0
    mask: cython.uint
    word: cython.uint = 0
    left: cython.uint = 0
    i: cython.Py_ssize_t = 0
    while one << bits < n_trees:
        bits += 1
    mask = (one << bits) - 1
    with cython.nogil:
        while i < trees.shape[0]:
            if left < bits or left == 0:
                word = _next_word(stream)
                left = 32
            trees[i] = word & mask
            word >>= bits
            left -= bits
            if trees[i] < n_trees:
                i += 1


def draw_laplace(
    streams: cython.uint[:, ::1],
    numerator: cython.ulonglong,
    denominator: cython.ulonglong,
    max_wholes: cython.ulonglong,
    saturated: cython.longlong,
    out: cython.longlong[:, ::1],
) -> None:
    """Fill row i of ``out`` with discrete Laplace noise of scale numerator/denominator, drawn from stream i."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    with cython.nogil:
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                out[i, j] = _laplace(streams[i], numerator, denominator, max_wholes, saturated)


def draw_gaussian(
    streams: cython.uint[:, ::1],
    multiplier: cython.ulonglong,
    shift: cython.ulonglong,
    uniforms: cython.uint[:, ::1],
    saved: cython.uint[::1],
    begin: cython.Py_ssize_t,
    out: cython.longlong[:, ::1],
) -> int:
    """Fill ``out`` with rounded normal noise from draw ``begin`` on, and return the number of draws in it.

    Row i is drawn from stream i. The standard deviation is multiplier·2^(32 - shift), with multiplier <= 2^24 and
    19 <= shift <= 63. ``uniforms`` is scratch memory for three uniform numbers: the number of their known 32-bit
    digits, and those digits. ``saved`` is scratch memory for a stream. A draw that needs more digits than fit, or a
    whole part of `MAX_WHOLE` standard deviations, ends the call. The stream is then in its state before this draw, so
    that the caller can repeat the draw without limits.
    """
    j: cython.Py_ssize_t
    row: cython.Py_ssize_t
    draw: cython.Py_ssize_t
    n_columns: cython.Py_ssize_t = out.shape[1]
    n_draws: cython.Py_ssize_t = out.shape[0] * n_columns
    n_made: cython.Py_ssize_t = n_draws
    magnitude: cython.longlong
    with cython.nogil:
        for draw in range(begin, n_draws):
            row = draw // n_columns
            for j in range(saved.shape[0]):
                saved[j] = streams[row, j]
            magnitude = _normal_whole(streams[row], uniforms)
            if magnitude >= 0:
                magnitude = _rounded_product(streams[row], uniforms, magnitude, multiplier, shift)
            if magnitude < 0:
                for j in range(saved.shape[0]):
                    streams[row, j] = saved[j]
                n_made = draw
                break
            out[row, draw % n_columns] = -magnitude if _next_word(streams[row]) & 1 else magnitude
    return n_made


def fill_table(factor_high: cython.ulonglong, factor_low: cython.ulonglong, table: cython.ulonglong[::1]) -> int:
    """Fill W[k+1] = max(1, ceil(W[k]·factor/2^60)) from W[0] on. Return the length after which W stays constant.

    The factor is ``factor_high·2^30 + factor_low`` < 2^60 and W[0] <= 2^46, so their product has up to 106 bits. It is
    computed from halves. The result is rounded up if any of the bits shifted out is set.
    """
    k: cython.Py_ssize_t
    half_mask: cython.ulonglong = (1 << 30) - 1
    high: cython.ulonglong
    low: cython.ulonglong
    cross: cython.ulonglong
    rest: cython.ulonglong
    carried: cython.ulonglong
    weight: cython.ulonglong
    length: cython.Py_ssize_t = table.shape[0]
    with cython.nogil:
        for k in range(1, table.shape[0]):
            high = table[k - 1] >> 24
            low = table[k - 1] & 0xFFFFFF
            cross = high * factor_low
            rest = ((cross & 63) << 24) + low * factor_low
            carried = (cross >> 6) + (rest >> 30)
            cross = high * factor_high
            carried += ((cross & 63) << 24) + low * factor_high
            weight = (cross >> 6) + (carried >> 30)
            if (carried & half_mask) != 0 or (rest & half_mask) != 0:
                weight += 1
            if weight == table[k - 1] or weight == 0:
                length = k
                break
            table[k] = weight
    return length


def exponential(
    costs: cython.const[cython.longlong][:, ::1],
    mirrored: cython.const[cython.uchar][:, ::1],
    table: cython.const[cython.ulonglong][::1],
    streams: cython.uint[:, ::1],
    sums: cython.ulonglong[::1],
    picks: cython.longlong[::1],
) -> None:
    """Pick candidate s of each row of costs with probability W[c(s) - min c]/total, or -1 if all are absent.

    A row consists of ``mirrored.shape[1]`` blocks. If ``mirrored`` is set, the second half of a block has the same
    costs as the first and is not read. ``sums`` is scratch memory for the weights of each block, so that only one block
    has to be searched.
    """
    absent: cython.longlong = ABSENT_COST
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    block: cython.Py_ssize_t
    begin: cython.Py_ssize_t
    length: cython.Py_ssize_t
    n_blocks: cython.Py_ssize_t = mirrored.shape[1]
    width: cython.Py_ssize_t = costs.shape[1] // n_blocks
    half: cython.Py_ssize_t = width // 2
    index: cython.longlong
    least: cython.longlong
    last: cython.longlong = table.shape[0] - 1
    sum_: cython.ulonglong
    total: cython.ulonglong
    draw: cython.ulonglong
    second: cython.bint
    with cython.nogil:
        for i in range(costs.shape[0]):
            picks[i] = -1
            least = absent
            for block in range(n_blocks):
                begin = block * width
                length = half if mirrored[i, block] else width
                for j in range(begin, begin + length):
                    least = min(least, costs[i, j])
            if least == absent:
                continue
            total = 0
            for block in range(n_blocks):
                begin = block * width
                length = half if mirrored[i, block] else width
                sum_ = 0
                for j in range(begin, begin + length):
                    index = costs[i, j]
                    if index != absent:
                        sum_ += table[min(index - least, last)]
                sums[block] = sum_ << 1 if mirrored[i, block] else sum_
                total += sums[block]
            draw = _below(streams[i], total)
            block = 0
            while draw >= sums[block]:
                draw -= sums[block]
                block += 1
            second = False
            if mirrored[i, block]:
                second = draw >= sums[block] >> 1
                if second:
                    draw -= sums[block] >> 1
            for j in range(block * width, block * width + width):
                index = costs[i, j]
                if index != absent:
                    if draw < table[min(index - least, last)]:
                        picks[i] = j + half if second else j
                        break
                    draw -= table[min(index - least, last)]


def permute_and_flip(
    costs: cython.const[cython.longlong][:, ::1],
    table: cython.const[cython.ulonglong][::1],
    streams: cython.uint[:, ::1],
    order: cython.longlong[::1],
    picks: cython.longlong[::1],
) -> None:
    """Visit each row's candidates in random order, and pick the first whose coin of bias W[c(s) - min c]/W[0] succeeds.

    ``order`` is scratch memory for the remaining candidates.
    """
    absent: cython.longlong = ABSENT_COST
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    left: cython.Py_ssize_t
    at: cython.Py_ssize_t
    candidate: cython.longlong
    index: cython.longlong
    least: cython.longlong
    last: cython.longlong = table.shape[0] - 1
    with cython.nogil:
        for i in range(costs.shape[0]):
            least = absent
            left = 0
            for j in range(costs.shape[1]):
                if costs[i, j] != absent:
                    order[left] = j
                    left += 1
                    least = min(least, costs[i, j])
            picks[i] = -1
            while left > 0:
                at = _below(streams[i], left)
                candidate = order[at]
                left -= 1
                order[at] = order[left]
                index = costs[i, candidate] - least
                if _below(streams[i], table[0]) < table[index if index < last else last]:
                    picks[i] = candidate
                    break
