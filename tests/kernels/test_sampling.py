"""The sampling kernels, compiled and interpreted: ChaCha20, and draws whose every random word is known.

A stream can be given its next words by hand. So the draws of a mechanism can be listed, each as likely as the others,
and its distribution counted exactly.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.privacy.mechanisms.selection import ABSENT_COST, exponential_pmf, permute_and_flip_pmf, weight_table
from diprime.privacy.randomness import STREAM_WORDS, RandomSource
from tests.goodness import fits
from tests.kernel_pairs import Both

BOTH = Both("sampling")
KERNELS = [pytest.param(BOTH.compiled, id="compiled"), pytest.param(BOTH.interpreted, id="interpreted")]
few = settings(deadline=None, max_examples=30)
seeds = st.integers(0, 2**32 - 1)


def stream_of(key=bytes(32), words_12_to_15=(0, 0, 0, 0)):
    stream = np.zeros(STREAM_WORDS, dtype=np.uint32)
    stream[:4] = np.frombuffer(b"expand 32-byte k", dtype="<u4")
    stream[4:12] = np.frombuffer(key, dtype="<u4")
    stream[12:16] = words_12_to_15
    stream[32] = 16
    return stream


def streams_that_begin(words):
    """Return a stream for each row of up to 16 words: these are what it yields first."""
    words = np.asarray(words, dtype=np.uint32)
    streams = RandomSource(0).streams(len(words))
    streams[:, 32 - words.shape[1] : 32] = words
    streams[:, 32] = 16 - words.shape[1]
    return streams


# ChaCha20 ------------------------------------------------------------------------------------------------------------

ZERO_KEY_BLOCK_0 = (
    "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
)
ZERO_KEY_BLOCK_1 = (
    "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
    "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
)
VECTORS = {
    "RFC 8439 A.1 #1 and #2": (bytes(32), (0, 0, 0, 0), ZERO_KEY_BLOCK_0 + ZERO_KEY_BLOCK_1),
    "RFC 8439 A.1 #2": (bytes(32), (1, 0, 0, 0), ZERO_KEY_BLOCK_1),
    "RFC 8439 2.3.2": (
        bytes(range(32)),
        (1, 0x09000000, 0x4A000000, 0),
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
    "Bernstein's nonce 1": (  # draft-agl-tls-chacha20poly1305-04: words 14 and 15 are the nonce, low word first
        bytes(32),
        (0, 0, 1, 0),
        "ef3fdfd6c61578fbf5cf35bd3dd33b8009631634d21e42ac33960bd138e50d32"
        "111e4caf237ee53ca8ad6426194a88545ddc497a0b466e7d6bbdb0041b2f586b",
    ),
    "Bernstein's nonce 2^56": (
        bytes(32),
        (0, 0, 0, 0x01000000),
        "de9cba7bf3d69ef5e786dc63973f653a0b49e015adbff7134fcb7df137821031"
        "e85a050278a7084527214f73efc7fa5b5277062eb7a0433e445f41e31afab757",
    ),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("vector", VECTORS)
def test_chacha20_gives_the_published_key_streams(kernel, vector):
    key, words, expected = VECTORS[vector]
    stream = stream_of(key, words)
    out = np.zeros(len(expected) // 8, dtype=np.uint32)
    kernel.draw_words(stream, out)
    assert out.astype("<u4").tobytes().hex() == expected
    assert stream[12] == words[0] + len(expected) // 128  # the next block has a number of its own
    assert stream[4:12].astype("<u4").tobytes() == key


@pytest.mark.parametrize("kernel", KERNELS)
def test_blocks_beyond_32_bits_of_the_counter_do_not_repeat(kernel):
    """The block after 2**32 others, which bits for 2**35 rows take, is not the first one again."""
    stream = stream_of(bytes(32), (0xFFFFFFFF, 0, 0, 0))
    first, far = np.zeros((2, 16), dtype=np.uint32)
    kernel.draw_words(stream, np.zeros(16, dtype=np.uint32))
    kernel.draw_words(stream, far)
    assert stream[12:16].tolist() == [1, 1, 0, 0]
    kernel.draw_words(stream_of(), first)
    assert (far != first).all()
    kernel.draw_words(stream_of(bytes(32), (0, 1, 0, 0)), first)
    assert (far == first).all()
    stream = stream_of(bytes(32), (0xFFFFFFFF, 0xFFFFFFFF, 7, 8))
    kernel.draw_words(stream, far)
    assert stream[12:16].tolist() == [0, 0, 7, 8], "a nonce stays what it is"


def test_the_words_of_a_stream_come_in_order_however_they_are_asked_for():
    stream = stream_of()
    whole = np.zeros(64, dtype=np.uint32)
    BOTH.compiled.draw_words(stream, whole)
    stream, parts = stream_of(), []
    for n in (0, 1, 14, 2, 0, 15, 32):
        part = np.zeros(n, dtype=np.uint32)
        (stream, part), _ = BOTH("draw_words", stream, part)
        parts.append(part)
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert whole[:32].astype("<u4").tobytes().hex() == ZERO_KEY_BLOCK_0 + ZERO_KEY_BLOCK_1


@given(st.binary(min_size=32, max_size=32), st.lists(st.integers(0, 2**32 - 1), min_size=4, max_size=4))
@few
def test_words_are_the_same_compiled_and_interpreted(key, words):
    BOTH("draw_words", stream_of(key, words), np.zeros(20, dtype=np.uint32))


def test_words_at_the_edges_of_their_type():
    BOTH("draw_words", stream_of(b"\xff" * 32, (0xFFFFFFFF,) * 4), np.zeros(33, dtype=np.uint32))


# Uniform draws -------------------------------------------------------------------------------------------------------

EDGE_BOUNDS = [1, 2, 3, 255, 2**16 + 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**53 + 1, 2**62 + 1, 2**63 - 1, 2**63]


@pytest.mark.parametrize("bound", [*EDGE_BOUNDS, 2**63 + 1, 2**64 - 1])
def test_draws_below_a_bound_at_the_edges(bound):
    (_, _, out), _ = BOTH("draw_below", RandomSource(1).streams(1)[0], bound, np.zeros(40, dtype=np.uint64))
    assert max(map(int, out)) < bound


@given(seeds, st.integers(1, 2**63))
@few
def test_draws_below_a_bound_are_the_same_compiled_and_interpreted(seed, bound):
    (_, _, out), _ = BOTH("draw_below", RandomSource(seed).streams(1)[0], bound, np.zeros(20, dtype=np.uint64))
    assert max(map(int, out)) < bound


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_draw_takes_the_low_bits_and_starts_again_beyond_the_bound(kernel):
    """Words 0, 1, 2, … are masked to the bits of the bound, and those that reach it are thrown away."""
    for bound, words, expected in [
        (5, [7, 6, 5, 4], 4),
        (5, [8 + 3, 0, 0, 0], 3),
        (1, [12345, 0, 0, 0], 0),
        (2**32, [0xFFFFFFFF, 0, 0, 0], 2**32 - 1),
        (2**32 + 1, [1, 1, 1, 0], 2**32),  # the first word is the high one
        (2**63, [0xFFFFFFFF, 0xFFFFFFFF, 0, 0], 2**63 - 1),
        (2**62 + 1, [3, 0x80000005, 0, 0], 3 * 2**32 + 0x80000005),  # every bit counts
    ]:
        out = np.zeros(1, dtype=np.uint64)
        kernel.draw_below(streams_that_begin([words])[0], bound, out)
        assert out.tolist() == [expected]


@pytest.mark.parametrize("n_trees", [1, 2, 3, 4, 5, 255, 256, 257, 32768, 32769, 65535, 65536])
def test_trees_at_the_edges(n_trees):
    for n in (0, 1, 50):
        out = np.full(n, 65535, dtype=np.uint16)
        (_, _, out), _ = BOTH("draw_trees", RandomSource(n_trees).streams(1)[0], n_trees, out)
        assert (out < n_trees).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_trees_are_successive_bits_of_a_word(kernel):
    """With 5 trees, 10 draws of 3 bits come from each word, and those of 5 and more are thrown away."""
    triples = [0, 7, 1, 2, 5, 3, 4, 4, 6, 0]
    word = sum(t << (3 * i) for i, t in enumerate(triples)) | 3 << 30
    out = np.zeros(8, dtype=np.uint16)
    kernel.draw_trees(streams_that_begin([[word, 2]])[0], 5, out)
    assert out.tolist() == [0, 1, 2, 3, 4, 4, 0, 2]


# Tables --------------------------------------------------------------------------------------------------------------


@given(st.integers(1, 2**60 - 1) | st.integers(2**60 - 2**40, 2**60 - 1), st.integers(0, 46), st.integers(1, 300))
@settings(deadline=None, max_examples=200)
def test_tables_are_filled_exactly(factor, bits, size):
    table = np.zeros(size, dtype=np.uint64)
    table[0] = 1 << bits
    (_, _, filled), length = BOTH("fill_table", factor >> 30, factor & (2**30 - 1), table)
    expected = [1 << bits]
    while len(expected) < size:
        weight = -(-expected[-1] * factor // 2**60)
        if weight == expected[-1]:
            break
        expected.append(weight)
    assert length == len(expected)
    assert filled[:length].tolist() == expected


# Selections ----------------------------------------------------------------------------------------------------------

TABLES = {
    "one entry": np.array([1 << 46], dtype=np.uint64),
    "two entries": np.array([1 << 46, 1], dtype=np.uint64),
    "epsilon = inf": weight_table(float("inf"), 2, 10),
    "coarse": np.array([8, 5, 2, 1], dtype=np.uint64),
    "epsilon 1": weight_table(Fraction(1), 2, 1000),
    "epsilon 1/100": weight_table(Fraction(1, 100), 2, 2**40),
}
EDGE_COSTS = [
    [[0]],
    [[ABSENT_COST]],
    [[ABSENT_COST, 5, ABSENT_COST]],
    [[-(2**40), 2**40, 0], [2**40, 2**40, 2**40], [-(2**40)] * 3],
    [[2**40, 2**40 + 1, 2**40 + 2, ABSENT_COST], [-(2**40), 1 - 2**40, -(2**40), ABSENT_COST]],
    [[ABSENT_COST - 1, 0, ABSENT_COST - 1], [ABSENT_COST - 1, ABSENT_COST, ABSENT_COST]],
]


def pick(rule, costs, table, streams, mirrored=None):
    """Pick from rows of costs with both kernels; without ``mirrored`` a row is one block that is read in full."""
    costs = np.asarray(costs, dtype=np.int64)
    picks = np.full(len(costs), 77, dtype=np.int64)
    if rule == "exponential":
        mirrored = np.zeros((len(costs), 1), dtype=np.uint8) if mirrored is None else mirrored
        after, _ = BOTH(rule, costs, mirrored, table, streams, np.full(mirrored.shape[1], 3, dtype=np.uint64), picks)
    else:
        after, _ = BOTH(rule, costs, table, streams, np.zeros(costs.shape[1], dtype=np.int64), picks)
    np.testing.assert_array_equal(after[0], costs)
    assert ((after[-1] >= -1) & (after[-1] < costs.shape[1])).all()
    return after[-1]


@pytest.mark.parametrize("rule", ["exponential", "permute_and_flip"])
@pytest.mark.parametrize("table", TABLES)
def test_selections_at_the_edges_of_their_types(rule, table):
    for costs in EDGE_COSTS:
        picks = pick(rule, costs, TABLES[table], RandomSource(3).streams(len(costs)))
        for row, picked in zip(costs, picks, strict=True):
            assert row[picked] != ABSENT_COST if min(row) < ABSENT_COST else picked == -1
            if table == "epsilon = inf" and picked >= 0:
                assert row[picked] == min(row)


@pytest.mark.parametrize("rule", ["exponential", "permute_and_flip"])
def test_no_rows_and_no_slots(rule):
    assert len(pick(rule, np.zeros((0, 3)), TABLES["coarse"], RandomSource(0).streams(0))) == 0
    assert pick(rule, np.zeros((2, 0)), TABLES["coarse"], RandomSource(0).streams(2)).tolist() == [-1, -1]


@pytest.mark.parametrize("rule", ["exponential", "permute_and_flip"])
@given(seed=seeds, width=st.sampled_from([1, 2, 5, 255, 256, 257, 513]), spread=st.sampled_from([0, 3, 50, 2**40]))
@few
def test_selections_are_the_same_compiled_and_interpreted(rule, seed, width, spread):
    rng = np.random.default_rng(seed)
    costs = rng.integers(-spread, spread, size=(3, width), endpoint=True)
    costs[rng.random(costs.shape) < 0.3] = ABSENT_COST
    table = list(TABLES.values())[seed % len(TABLES)]
    picks = pick(rule, costs, table, RandomSource(seed).streams(3))
    for row, picked in zip(costs, picks, strict=True):
        assert (picked == -1) == (row == ABSENT_COST).all()
        assert picked == -1 or row[picked] != ABSENT_COST


COSTS_TO_COUNT = [[0, 1, 2], [3, 3, 3], [7, 5, ABSENT_COST], [0, 9, 1], [-4, -3, -4]]


def expanded(costs, mirrored):
    """Return costs with the second half of every mirrored block written out."""
    blocks = np.array(costs, dtype=np.int64).reshape(len(mirrored), -1)
    half = blocks.shape[1] // 2
    blocks[mirrored > 0, half:] = blocks[mirrored > 0, :half]
    return blocks.ravel()


def every_pick(kernel, costs, mirrored, table):
    """Return the picks of all values of the one integer that is drawn: each is as likely as the others."""
    whole = expanded(costs, mirrored)
    weights = np.where(whole == ABSENT_COST, 0, table[np.minimum(whole - whole.min(), len(table) - 1)].astype(np.int64))
    total = int(weights.sum())
    rows, flags = np.tile(np.array(costs, dtype=np.int64), (total, 1)), np.tile(mirrored, (total, 1))
    picks, streams = np.zeros(total, dtype=np.int64), streams_that_begin(np.arange(total)[:, None])
    kernel.exponential(rows, flags, table, streams, np.full(len(mirrored), 3, dtype=np.uint64), picks)
    return picks, weights


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("costs", [*COSTS_TO_COUNT, [0, 1, ABSENT_COST, 3, 3, 2, 100, 1]])
@pytest.mark.parametrize("table", [[8, 5, 2, 1], [4, 1], [3]])
def test_exponential_draws_have_exactly_their_probabilities(kernel, costs, table):
    table = np.array(table, dtype=np.uint64)
    picks, _ = every_pick(kernel, costs, np.zeros(1, dtype=np.uint8), table)
    counts = np.bincount(picks, minlength=len(costs)).tolist()
    assert [Fraction(n, len(picks)) for n in counts] == exponential_pmf(costs, table)


UNWRITTEN = [-(2**61), 17, ABSENT_COST, -1]  # what the memory of a second half may hold that nobody wrote


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mirrored", list(itertools.product([0, 1], repeat=3)))
@pytest.mark.parametrize("table", [[8, 5, 2, 1], [4, 1], [3], [1, 0]])
def test_mirrored_blocks_count_twice(kernel, mirrored, table):
    """Exactly: every draw is counted, with blocks of all kinds side by side, and absent slots among them."""
    mirrored, table = np.array(mirrored, dtype=np.uint8), np.array(table, dtype=np.uint64)
    rng = np.random.default_rng(0)
    for width, absent in [(2, 0.0), (2, 0.5), (8, 0.3), (6, 0.9)]:
        for _ in range(4):
            costs = rng.integers(0, 5, size=3 * width)
            costs[rng.random(3 * width) < absent] = ABSENT_COST
            costs[rng.integers(3) * width] = 1  # never none at all; the first slot of a block is always read
            whole = expanded(costs, mirrored)
            unread = np.repeat(mirrored > 0, width) & (np.tile(np.arange(width), 3) >= width // 2)
            costs[unread] = rng.choice(UNWRITTEN, size=unread.sum())
            picks, _ = every_pick(kernel, costs, mirrored, table)
            counts = np.bincount(picks, minlength=3 * width).tolist()
            assert [Fraction(n, len(picks)) for n in counts] == exponential_pmf(whole.tolist(), table)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_blocks", [1, 2, 5, 100])
def test_exponential_draws_are_exact_across_blocks(kernel, n_blocks):
    """Candidates are searched by blocks: every draw must land on the candidate that the running sum names."""
    rng = np.random.default_rng(n_blocks)
    costs = rng.integers(0, 5, size=400)
    costs[rng.random(400) < 0.5] = ABSENT_COST
    costs[: 400 // n_blocks] = ABSENT_COST if n_blocks > 1 else 4  # a block without any
    picks, weights = every_pick(kernel, costs, np.zeros(n_blocks, np.uint8), np.array([4, 2, 1], dtype=np.uint64))
    np.testing.assert_array_equal(picks, np.repeat(np.arange(400), weights))


@given(seed=seeds, n_blocks=st.sampled_from([1, 2, 7]), spread=st.sampled_from([0, 3, 50, 2**40]))
@few
def test_mirrored_blocks_are_the_same_compiled_and_interpreted(seed, n_blocks, spread):
    rng = np.random.default_rng(seed)
    costs = rng.integers(-spread, spread, size=(4, n_blocks * 10), endpoint=True)
    costs[rng.random(costs.shape) < 0.3] = ABSENT_COST
    mirrored = (rng.random((4, n_blocks)) < 0.5).astype(np.uint8)
    mirrored[0] = 1
    costs[1, :] = ABSENT_COST
    costs[2].reshape(n_blocks, 10)[mirrored[2] > 0, :5] = ABSENT_COST  # only what is not read is left of such blocks
    table = list(TABLES.values())[seed % len(TABLES)]
    picks = pick("exponential", costs, table, RandomSource(seed).streams(4), mirrored)
    for row, flags, picked in zip(costs, mirrored, picks, strict=True):
        whole = expanded(row, flags)
        assert (picked == -1) == (whole == ABSENT_COST).all()
        assert picked == -1 or whole[picked] != ABSENT_COST


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("costs", COSTS_TO_COUNT)
@pytest.mark.parametrize("table", [[4, 3, 1], [2, 1], [1]])
def test_permute_and_flip_draws_have_exactly_their_probabilities(kernel, costs, table):
    """Every order, every coin: each sequence of words has the same probability."""
    table = np.array(table, dtype=np.uint64)
    n, coin = sum(c != ABSENT_COST for c in costs), range(int(table[0]))
    words = list(itertools.product(*itertools.chain(*((range(left), coin) for left in range(n, 0, -1)))))
    picks = np.zeros(len(words), dtype=np.int64)
    rows = np.tile(np.array(costs, dtype=np.int64), (len(words), 1))
    kernel.permute_and_flip(rows, table, streams_that_begin(words), np.zeros(3, np.int64), picks)
    counts = np.bincount(picks, minlength=len(costs)).tolist()
    assert [Fraction(n, len(words)) for n in counts] == permute_and_flip_pmf(costs, table)


# Discrete Laplace ----------------------------------------------------------------------------------------------------


@given(seeds, st.sampled_from([1, 2, 3, 2**20, 2**31 + 1, 2**32 + 1, 2**52]), st.integers(1, 2**20 - 1))
@few
def test_laplace_is_the_same_compiled_and_interpreted(seed, numerator, denominator):
    streams = RandomSource(seed).streams(2)
    arguments = (streams, numerator, denominator, 2**62 // numerator, 1 << 42, np.zeros((2, 4), dtype=np.int64))
    BOTH("draw_laplace", *arguments)


@pytest.mark.parametrize(("numerator", "denominator"), [(1, 1), (1, 2**20 - 1), (2**52, 1), (2**62, 1)])
def test_laplace_at_the_edges(numerator, denominator):
    streams, out = RandomSource(9).streams(3), np.zeros((3, 5), dtype=np.int64)
    BOTH("draw_laplace", streams, numerator, denominator, 2**62 // numerator, 1 << 42, out)
    BOTH("draw_laplace", streams, numerator, denominator, 0, 1 << 42, out)
    BOTH("draw_laplace", streams[:0], numerator, denominator, 1, 1 << 42, out[:0])
    BOTH("draw_laplace", streams, numerator, denominator, 1, 1 << 42, out[:, :0])


@pytest.mark.parametrize(("numerator", "denominator"), [(1, 1), (3, 2), (5, 1)])
def test_laplace_draws_have_their_probabilities_in_the_tails_and_at_zero(numerator, denominator):
    """Of 200,000 draws; tails that fall twice as fast, zeros that come twice, and 30 % less noise are all noticed."""
    drawn = np.zeros((200, 1000), dtype=np.int64)
    BOTH.compiled.draw_laplace(RandomSource(1).streams(200), numerator, denominator, 2**60, 1 << 42, drawn)
    last = 40 * numerator // denominator
    counts = np.bincount(np.clip(drawn, -last, last).ravel() + last, minlength=2 * last + 1)

    def pmf(scale):
        q = math.exp(-1 / scale)
        inner = [(1 - q) / (1 + q) * q ** abs(x) for x in range(1 - last, last)]
        return [q**last / (1 + q), *inner, q**last / (1 + q)]

    assert fits(counts, pmf(numerator / denominator))
    assert not fits(counts, pmf(numerator / denominator / 0.7))


@pytest.mark.parametrize("most_wholes", [1, 2])
def test_saturated_noise_is_the_noise_that_went_beyond(most_wholes):
    """With the same words, a draw that passes the limit is ± the limit; all that end before it are as without one."""
    n = 400
    free, cut = np.zeros((n, 1), dtype=np.int64), np.zeros((n, 1), dtype=np.int64)
    streams = RandomSource(5).streams(n)
    BOTH.compiled.draw_laplace(streams.copy(), 10, 1, 2**60, 1 << 42, free)
    BOTH.compiled.draw_laplace(streams.copy(), 10, 1, most_wholes, 1 << 42, cut)
    inside = np.abs(free) < 10 * most_wholes
    assert 0 < inside.sum() < n
    np.testing.assert_array_equal(cut[inside], free[inside])
    np.testing.assert_array_equal(np.abs(cut[~inside]), 1 << 42)


# Rounded normal noise ------------------------------------------------------------------------------------------------


def scratch(n_digits=8):
    """Return memory for three uniform numbers, with what an earlier draw left there, and for a stream."""
    return np.full((3, 1 + n_digits), 7, dtype=np.uint32), np.full(STREAM_WORDS, 7, dtype=np.uint32)


@given(seeds, st.integers(1, 1 << 24), st.integers(19, 63), st.sampled_from([1, 2, 8]))
@few
def test_normal_noise_is_the_same_compiled_and_interpreted(seed, multiplier, shift, n_digits):
    streams = RandomSource(seed).streams(2)
    BOTH("draw_gaussian", streams, multiplier, shift, *scratch(n_digits), 0, np.zeros((2, 6), dtype=np.int64))


@pytest.mark.parametrize(("multiplier", "shift"), [(1, 63), (1 << 24, 63), (1 << 24, 19), (1, 19), ((1 << 24) - 1, 24)])
def test_normal_noise_at_the_edges(multiplier, shift):
    streams, out = RandomSource(9).streams(3), np.zeros((3, 40), dtype=np.int64)
    _, n_drawn = BOTH("draw_gaussian", streams, multiplier, shift, *scratch(), 0, out)
    assert n_drawn == out.size
    for begin, part in [(7, out), (120, out), (0, out[:0]), (0, out[:, :0])]:
        _, n_drawn = BOTH("draw_gaussian", streams, multiplier, shift, *scratch(), begin, part)
        assert n_drawn == max(begin, part.size)


def scripted(fraction, *, coins=(0, 0, 1), negative=0):
    """Return a stream that yields words of a draw: the whole part by its coins, equal digits, then a larger one.

    The coins 0, 0, 1 are a failure. Each digit of the fraction is compared with the same digit of another number, and
    the last with a larger one, which accepts the fraction.
    """
    pairs = [word for digit in fraction[:-1] for word in (digit, digit)]
    return streams_that_begin([[*coins, *pairs, fraction[-1], fraction[-1] + 1, negative]])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("negative", [0, 1])
@pytest.mark.parametrize(
    "fraction",
    [(5,), (1 << 31,), ((1 << 31) - 1, 9), (1 << 31, 0), (3 << 30, 2, 1), ((1 << 30) - 1, 0xFFFFFFFF, 4, 4, 7)],
)
@pytest.mark.parametrize(("multiplier", "shift"), [(1 << 23, 55), (3 << 22, 54), (5 << 21, 24), (9_999_991, 20)])
def test_a_draw_of_known_words_is_the_product_rounded(kernel, fraction, multiplier, shift, negative):
    out, streams = np.zeros((1, 1), dtype=np.int64), scripted(fraction, negative=negative)
    assert kernel.draw_gaussian(streams, multiplier, shift, *scratch(), 0, out) == 1
    x = sum(Fraction(digit, 1 << 32 * (i + 1)) for i, digit in enumerate(fraction))
    exact = Fraction(multiplier << 32, 1 << shift) * x
    slack = Fraction(multiplier << 32, 1 << shift) / (1 << 32 * len(fraction))  # of digits that are not in the script
    assert exact - Fraction(1, 2) <= abs(int(out[0, 0])) <= exact + slack + Fraction(1, 2)
    if len(set(np.floor([float(exact + 0.5), float(exact + slack + 0.5)]))) == 1:
        assert streams[0, 32] == 16, "no more words than the script has are drawn"
        assert (out[0, 0] <= 0) if negative else (out[0, 0] >= 0)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_equal", [1, 2, 4])
def test_draw_without_enough_digits_restores_the_stream(kernel, n_equal):
    fraction = [77] * n_equal + [5]
    streams, out = scripted(fraction), np.full((1, 1), 123, dtype=np.int64)
    before = streams.copy()
    assert kernel.draw_gaussian(streams, 1 << 23, 55, *scratch(n_equal), 0, out) == 0
    np.testing.assert_array_equal(streams, before)
    assert kernel.draw_gaussian(streams, 1 << 23, 55, *scratch(n_equal + 1), 0, out) == 1
    assert not (streams == before).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_fraction_is_refused_if_the_number_of_falling_ones_is_odd(kernel):
    """x = 18; 4 is below it, and its coin succeeds (side 0 of 2, and 8 < x); 6 is not below 4: odd, so start again."""
    whole = [0, 0, 1]
    refused = [*whole, 18, 4, 0, 8, 6]
    accepted = [*whole, 6, 7, 1]  # the last word is the sign
    streams, out = streams_that_begin([[*refused, *accepted]]), np.zeros((1, 1), dtype=np.int64)
    assert kernel.draw_gaussian(streams, 1 << 23, 24, *scratch(), 0, out) == 1
    assert out.tolist() == [[-3]]
    # A coin that falls on side 1, or on side 0 with a number that is not below x, ends the sequence: even, accepted.
    for coin in ([1], [0, 19]):
        streams = streams_that_begin([[*whole, 18, 4, *coin, 0]])
        assert kernel.draw_gaussian(streams, 1 << 23, 24, *scratch(), 0, out) == 1
        assert out.tolist() == [[9]]


def test_a_whole_part_beyond_the_limit_is_left_to_the_caller(monkeypatch):
    """A word of 1 is a success of the coin that the whole part counts."""
    streams, out = streams_that_begin([[1, 1, 1, 0, 0, 1]]), np.zeros((1, 1), dtype=np.int64)
    before = streams.copy()
    monkeypatch.setattr(BOTH.interpreted._module, "MAX_WHOLE", 3)
    assert BOTH.interpreted.draw_gaussian(streams, 1 << 23, 55, *scratch(), 0, out) == 0
    np.testing.assert_array_equal(streams, before)
    monkeypatch.setattr(BOTH.interpreted._module, "MAX_WHOLE", 64)
    assert BOTH.interpreted.draw_gaussian(streams, 1 << 23, 55, *scratch(), 0, out) == 1
