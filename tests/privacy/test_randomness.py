"""Where random bits come from: no two streams alike, whoever draws from them."""

import copy
import multiprocessing
import os
import pickle
import threading
import warnings

import numpy as np
import pytest

from diprime.kernels import sampling
from diprime.privacy import randomness
from diprime.privacy.randomness import (
    STREAM_WORDS,
    RandomSource,
    big_integer_below,
    bits_of_rows,
    permutation,
    secret_words,
)
from tests.goodness import fits


def words(stream, n=8):
    out = np.zeros(n, dtype=np.uint32)
    sampling.draw_words(stream, out)
    return tuple(out.tolist())


# Streams -------------------------------------------------------------------------------------------------------------


def test_a_stream_is_chacha20_s_input_with_its_number_in_the_nonce():
    source = RandomSource(0)
    first, second = source.streams(2), source.streams(1)
    assert first.dtype == np.uint32
    assert first.shape == (2, STREAM_WORDS)
    for number, stream in enumerate([*first, *second]):
        assert stream[:4].astype("<u4").tobytes() == b"expand 32-byte k"
        assert stream[4:12].tolist() == first[0, 4:12].tolist()
        assert stream[12:16].tolist() == [0, 0, number, 0]
        assert stream[32] == 16
    key = np.random.RandomState(0).bytes(32)
    assert first[0, 4:12].astype("<u4").tobytes() == key


def test_numbers_go_on_beyond_32_bits():
    source = RandomSource(0)
    source._next = 2**32 - 1
    assert source.streams(2)[:, 14:16].tolist() == [[2**32 - 1, 0], [0, 1]]


def test_streams_never_repeat_and_never_meet():
    source = RandomSource(1)
    drawn = [words(stream, 32) for n in (1, 0, 5, 100) for stream in source.streams(n)]
    assert len(set(drawn)) == 106
    pieces = [piece for row in drawn for piece in zip(row[::2], row[1::2], strict=True)]
    assert len(set(pieces)) == len(pieces)
    assert source.streams(0).shape == (0, STREAM_WORDS)


def test_changing_streams_does_not_change_their_source():
    source = RandomSource(1)
    expected = RandomSource(1).streams(3)[2]
    source.streams(2)[:] = 0
    np.testing.assert_array_equal(source.streams(1)[0], expected)


def test_a_seed_brings_the_same_streams_again():
    a, b = RandomSource(7), RandomSource(7)
    assert a.seeded
    np.testing.assert_array_equal(a.streams(4), b.streams(4))
    np.testing.assert_array_equal(a.integers(10**12, 9), b.integers(10**12, 9))
    assert words(RandomSource(8).streams(1)[0]) != words(RandomSource(7).streams(1)[0])
    state = np.random.RandomState(7)
    np.testing.assert_array_equal(RandomSource(state).streams(1), RandomSource(7).streams(1))
    assert words(RandomSource(state).streams(1)[0]) != words(RandomSource(7).streams(1)[0])
    with pytest.raises(ValueError, match=r"'seed' .*RandomState"):
        RandomSource("seed")


def test_the_operating_system_gives_every_source_a_key_of_its_own():
    sources = [RandomSource() for _ in range(50)]
    assert not any(source.seeded for source in sources)
    assert len({words(source.streams(1)[0]) for source in sources}) == 50
    np.random.seed(0)  # noqa: NPY002
    first = RandomSource().streams(1)
    np.random.seed(0)  # noqa: NPY002
    assert words(first[0]) != words(RandomSource().streams(1)[0])


def test_the_whole_key_comes_from_the_operating_system(monkeypatch):
    asked = []
    monkeypatch.setattr(randomness.secrets, "token_bytes", lambda n: asked.append(n) or bytes(range(n)))
    source = RandomSource()
    assert asked == [32]
    assert source._key.astype("<u4").tobytes() == bytes(range(32))


def test_the_bytes_of_the_operating_system_are_overwritten(monkeypatch):
    drawn = []
    monkeypatch.setattr(randomness.secrets, "token_bytes", lambda n: drawn.append(bytes(range(1, n + 1))) or drawn[-1])
    source = RandomSource()
    assert drawn == [bytes(32)]
    assert source._key.all()


def test_every_stream_without_a_seed_has_a_key_that_chacha20_derives(monkeypatch):
    """The first eight words under the old key are the new key of the source, the next ones those of the streams."""
    monkeypatch.setattr(randomness.secrets, "token_bytes", lambda n: bytes(range(n)))
    source = RandomSource()
    expected = np.frombuffer(bytes(range(32)), dtype="<u4")
    for n, number in ((3, 0), (0, 3), (1, 3)):
        old = np.zeros(STREAM_WORDS, dtype=np.uint32)
        old[:4], old[4:12], old[32] = np.frombuffer(b"expand 32-byte k", dtype="<u4"), expected, 16
        expected, *of_streams = np.reshape(words(old, 8 * (n + 1)), (n + 1, 8))
        streams = source.streams(n)
        assert streams[:, 4:12].tolist() == [key.tolist() for key in of_streams]
        assert streams[:, 14].tolist() == list(range(number, number + n))
        assert source._key.tolist() == expected.tolist()
    before = source._key.tolist()
    source.stream_apart()
    assert source._key.tolist() != before


def test_secret_words_are_overwritten_when_the_last_view_of_them_is_gone():
    array = secret_words(4, 5)
    array[:] = 7
    view, memory = array[1:, 2], array.base
    watch = memoryview(memory)
    del memory, array
    assert set(watch.tobytes()) == {0, 7}
    view[0] = 9
    assert 9 in watch.tobytes()
    type(watch.obj).__del__(watch.obj)  # what happens once the watch is gone too
    assert set(watch.tobytes()) == {0}
    assert not view.any()


def test_secret_words_are_overwritten_before_their_memory_is_given_back(monkeypatch):
    given_back = []

    class Watched(randomness._Secret):
        def __del__(self):
            super().__del__()
            given_back.append(bytes(self))

    monkeypatch.setattr(randomness, "_Secret", Watched)
    stream = RandomSource().streams(2)[0]
    del given_back[:]
    del stream
    assert given_back == [bytes(2 * 4 * STREAM_WORDS)]
    source = RandomSource()
    del source
    assert given_back[1:] == [bytes(32)]


def test_threads_never_share_a_stream():
    source, numbers, lock = RandomSource(0), [], threading.Lock()
    start = threading.Barrier(8)

    def work():
        start.wait()
        mine = [int(number) for _ in range(200) for number in source.streams(3)[:, 14]]
        with lock:
            numbers.extend(mine)

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(numbers) == list(range(8 * 200 * 3))


def in_a_fork(function):
    """Return the bytes that a function makes in a forked child."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn where threads are about
        child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            os.write(writing, function())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        result = pipe.read()
    os.waitpid(child, 0)
    return result


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="the system cannot fork")
def test_a_forked_child_draws_bits_of_its_own():
    source = RandomSource()
    source.streams(3)

    def draw():
        return np.array([words(stream) for stream in source.streams(2)], dtype=np.uint32).tobytes()

    children = [in_a_fork(draw) for _ in range(2)]
    again = in_a_fork(lambda: draw() + draw() + in_a_fork(draw))
    drawn = [*children, again[:64], again[64:128], again[128:], draw()]
    assert [len(d) for d in drawn] == [64] * 6
    assert len({half for d in drawn for half in (d[:32], d[32:])}) == 12
    assert source.streams(1)[0, 14] == 5


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="the system cannot fork")
def test_a_forked_child_asks_the_operating_system_once(monkeypatch):
    source, token_bytes, asked = RandomSource(), randomness.secrets.token_bytes, []
    monkeypatch.setattr(randomness.secrets, "token_bytes", lambda n: asked.append(n) or token_bytes(n))

    def draw():
        source.streams(1)
        source.streams(1)
        return bytes(asked)

    assert in_a_fork(draw) == bytes([32])
    assert draw() == b""


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="the system cannot fork")
def test_a_seeded_source_is_the_same_in_a_child():
    source = RandomSource(3)
    assert in_a_fork(lambda: source.streams(2).tobytes()) == source.streams(2).tobytes()


@pytest.mark.parametrize("source", [RandomSource(), RandomSource(0)], ids=["system", "seeded"])
def test_a_source_is_not_copied_and_not_saved(source):
    for take in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"RandomSource .*pickled"):
            take(source)
    assert "key" not in repr(source)


# Uniform draws follow their distribution -----------------------------------------------------------------------------

DRAWS = 60_000


def modulo(source, bound, n):
    """Draw as one must not: a word, reduced."""
    out = np.zeros(n, dtype=np.uint32)
    sampling.draw_words(source.streams(1)[0], out)
    return out.astype(np.uint64) % np.uint64(bound)


@pytest.mark.parametrize("bound", [2, 3, 5, 6, 7, 100, 255])
def test_integers_are_uniform(bound):
    drawn = RandomSource(bound).integers(bound, DRAWS)
    assert drawn.dtype == np.uint64
    assert fits(np.bincount(drawn.astype(int), minlength=bound), [1 / bound] * bound)


@pytest.mark.parametrize("piece", [2**29, 2**30, 2**40, 2**61 // 3])
def test_integers_below_large_bounds_are_uniform_from_end_to_end(piece):
    drawn = RandomSource(1).integers(3 * piece, DRAWS)
    assert fits(np.bincount((drawn // np.uint64(piece)).astype(int), minlength=3), [1 / 3] * 3)
    assert fits(np.bincount((drawn % np.uint64(8)).astype(int), minlength=8), [1 / 8] * 8)


def test_the_same_test_notices_a_draw_that_favours_small_integers():
    drawn = modulo(RandomSource(1), 3 * 2**30, DRAWS)
    assert not fits(np.bincount((drawn >> np.uint64(30)).astype(int), minlength=3), [1 / 3] * 3)


def orders(permute, n_things, n):
    place = 3 ** np.arange(n_things) if n_things < 4 else 4 ** np.arange(n_things)
    _, counts = np.unique(
        [permute(stream, n_things) @ place for stream in RandomSource(2).streams(n)], return_counts=True
    )
    return counts


def careless_shuffle(stream, n):
    order = np.arange(n)
    swaps = np.zeros(n, dtype=np.uint64)
    sampling.draw_below(stream, n, swaps)
    for i, j in enumerate(swaps.astype(int)):
        order[[i, j]] = order[[j, i]]
    return order


def test_every_order_is_as_likely_as_any_other():
    assert fits(orders(permutation, 3, 9_000), [1 / 6] * 6)
    assert fits(orders(permutation, 4, 9_000), [1 / 24] * 24)
    assert not fits(orders(careless_shuffle, 4, 9_000), [1 / 24] * 24)


@pytest.mark.parametrize("bound", [3, 5, 6])
@pytest.mark.parametrize("piece", [1, 2**31, 2**100])
def test_large_integers_are_uniform(bound, piece):
    stream = RandomSource(bound).streams(1)[0]
    drawn = [big_integer_below(stream, bound * piece) // piece for _ in range(9_000)]
    assert fits(np.bincount(drawn, minlength=bound), [1 / bound] * bound)


def test_the_same_test_notices_large_integers_that_favour_small_ones():
    stream = RandomSource(3).streams(1)[0]
    drawn = [big_integer_below(stream, 2**102) % (3 * 2**100) // 2**100 for _ in range(9_000)]
    assert not fits(np.bincount(drawn, minlength=3), [1 / 3] * 3)


def test_separate_streams_do_not_change_others_and_never_repeat():
    source, other = RandomSource(7), RandomSource(7)
    first, second = (bits_of_rows(source.stream_apart(), 0, 1000) for _ in range(2))
    assert first.dtype == np.uint64
    assert len(np.unique(np.concatenate([first, second]))) == 2000
    assert source.streams(3).tolist() == other.streams(3).tolist()
    assert (bits_of_rows(other.stream_apart(), 0, 1000) == first).all(), "the same seed, whatever else was drawn"
    words = first.view(np.uint32)
    drawn = np.empty(2000, dtype=np.uint32)
    for stream in RandomSource(7).streams(100):
        sampling.draw_words(stream, drawn)
        assert not np.isin(words, drawn).sum() > 5, "no stream of the others has these bits"
    assert bits_of_rows(source.stream_apart(), 5, 0).shape == (0,)


def test_bits_of_far_rows_do_not_repeat_those_of_the_first():
    """Eight rows take a block, so those from 2**35 on take the blocks from 2**32 on."""
    stream = RandomSource(3).stream_apart()
    first, far = bits_of_rows(stream, 0, 800), bits_of_rows(stream, 2**35 - 400, 800)
    assert len(np.unique(np.concatenate([first, far]))) == 1600
    assert (far[395:] == bits_of_rows(stream, 2**35 - 5, 405)).all()


def test_bits_of_rows_do_not_depend_on_where_partitions_begin():
    stream = RandomSource(3).stream_apart()
    whole, before = bits_of_rows(stream, 0, 100), stream.copy()
    for begin in range(100):
        assert (bits_of_rows(stream, begin, 100 - begin) == whole[begin:]).all()
    assert (stream == before).all()


def test_bits_apart_are_uniform_in_every_bit():
    bits = bits_of_rows(RandomSource(1).stream_apart(), 0, 50_000)
    shares = [((bits >> np.uint64(i)) & np.uint64(1)).mean() for i in range(64)]
    assert abs(np.array(shares) - 0.5).max() < 0.015
