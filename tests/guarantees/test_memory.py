"""After fits, the memory of the process is searched for their keys, freed memory included, and so are all modules."""

import gc
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

from diprime import DiPriMeRegressor, Domain, Numeric
from diprime.privacy import randomness
from diprime.privacy.randomness import RandomSource
from tests.guarantees.memory_after_fits import DISGUISE, watch_keys

BLOCK = 1 << 24
PART = 8
"""How many bytes of a key are searched for: what is left of one in freed memory may lack its beginning."""

searches_memory = pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is no file here")


def plain(key):
    """Return a key without its disguise."""
    return bytes(byte ^ DISGUISE for byte in key)


class Needles:
    """The parts of some keys, to be found in memory at any address that is a multiple of four."""

    def __init__(self, keys):
        self._parts = np.unique(np.concatenate([np.frombuffer(key, dtype=np.uint64) for key in keys]))
        self._may_be = np.zeros(1 << 24, dtype=np.bool_)
        self._may_be[self._parts & np.uint64((1 << 24) - 1)] = True

    def count(self, memory):
        """Return how often a part of a key is in a piece of memory."""
        return sum(self._count(memory[shift:]) for shift in (0, PART // 2))

    def _count(self, memory):
        words = np.frombuffer(memory, dtype=np.uint64, count=len(memory) // PART)
        words = words[self._may_be[words & np.uint64((1 << 24) - 1)]]
        return int(np.isin(words, self._parts).sum())


def writable_memory(process):
    """Yield the memory of a process that it may write, in overlapping blocks."""
    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        for line in maps:
            addresses, rights, *_ = line.split()
            if not rights.startswith("rw"):
                continue
            begin, end = (int(address, 16) for address in addresses.split("-"))
            for start in range(begin, end, BLOCK):
                memory.seek(start)
                yield memory.read(min(BLOCK + PART, end - start))


def copies_left(program):
    """Return how many keys a process of fits has used, and how many parts of them are in its memory afterwards."""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        disguised = list(iter(lambda: process.stdout.readline().strip(), ""))
        keys = [plain(bytes.fromhex(key)) for key in disguised]
        needles = Needles(keys)
        found = sum(map(needles.count, writable_memory(process.pid)))
        process.stdin.close()
    assert process.returncode == 0
    return len(keys), found


@searches_memory
def test_no_key_remains_in_memory_after_fits():
    n_keys, found = copies_left("from tests.guarantees.memory_after_fits import main; main()")
    assert n_keys > 1000
    assert found == 0


@searches_memory
@pytest.mark.audit  # of the test above
def test_keys_left_in_memory_are_detected():
    forget = "from diprime.privacy.randomness import _Secret; del _Secret.__del__"
    _, found = copies_left(f"{forget}; from tests.guarantees.memory_after_fits import main; main()")
    assert found > 20


def reachable_from_modules():
    """Return everything that the modules of the library hold, and what that holds, but for other modules."""
    own = [module for name, module in sys.modules.items() if name.split(".")[0] == "diprime"]
    others = {id(vars(module)) for module in sys.modules.values() if isinstance(module, ModuleType)}
    others -= {id(vars(module)) for module in own}
    seen, unseen = {}, list(map(vars, own))
    while unseen:
        found = [thing for thing in gc.get_referents(*unseen) if id(thing) not in seen and id(thing) not in others]
        unseen = list({id(thing): thing for thing in found if not isinstance(thing, ModuleType)}.values())
        seen.update((id(thing), thing) for thing in unseen)
    return seen.values()


def keys_in_modules(needles):
    """Return how many objects that modules can reach hold a part of a key."""
    found = 0
    for thing in reachable_from_modules():
        if isinstance(thing, (bytes, bytearray, memoryview)) and len(thing) >= PART:
            found += needles.count(bytes(thing)) > 0
        elif isinstance(thing, np.ndarray) and thing.dtype.kind in "ui":
            found += needles.count(thing.tobytes()) > 0
    return found


@pytest.fixture
def keys_of_a_fit(monkeypatch):
    """All keys of one fit."""
    disguised = []
    monkeypatch.setattr(RandomSource, "_make", RandomSource._make)
    monkeypatch.setattr(randomness.secrets, "token_bytes", randomness.secrets.token_bytes)
    watch_keys(disguised)
    X = np.linspace(0, 1, 500)[:, None]
    model = DiPriMeRegressor(1, Domain({"x": Numeric(0, 1)}, Numeric(0, 1))).fit(X, X[:, 0])
    assert model.privacy_.is_private
    return [plain(key) for key in disguised]


def test_no_module_global_holds_a_key_after_a_fit(keys_of_a_fit):
    assert len(keys_of_a_fit) > 10
    assert keys_in_modules(Needles(keys_of_a_fit)) == 0


@pytest.mark.parametrize(
    "hidden",
    [
        pytest.param(lambda key: key, id="bytes"),
        pytest.param(lambda key: np.frombuffer(b"expand 32-byte k" + key, dtype=np.uint32), id="stream"),
        pytest.param(lambda key: {"cache": [(1, bytearray(key))]}, id="cache", marks=pytest.mark.audit),
        pytest.param(lambda key: lambda default=key: default, id="function", marks=pytest.mark.audit),
        pytest.param(lambda key: type("Kept", (), {"last": memoryview(key)}), id="class", marks=pytest.mark.audit),
    ],
)
def test_key_in_a_module_global_is_detected(hidden, keys_of_a_fit, monkeypatch):
    monkeypatch.setattr(sys.modules["diprime.forest.sums"], "LAST", hidden(keys_of_a_fit[3]), raising=False)
    assert keys_in_modules(Needles(keys_of_a_fit)) > 0
