"""The key of a fit is nowhere once the fit is over: not on the model, and not in a module, a cache or a closure.

Whoever has the key can compute the noise. Everything that Python can reach is searched; memory that was freed is not.
"""

import gc
import secrets

import numpy as np
import pytest

from diprime import DiPriMeRegressor, Domain, Numeric, PrivateSearch, private_score
from diprime.paper import DPRandomForestClassifier
from diprime.privacy import randomness
from tests.small_data import DOMAINS, TASKS, boost, fit, make

LEAVES = (bytes, bytearray, memoryview, np.ndarray)


def complement(key):
    """Return other bytes, from which the test knows the key without having it."""
    return bytes(255 - byte for byte in key)


@pytest.fixture
def drawn(monkeypatch):
    """Return the complements of all keys that are drawn."""
    complements, draw = [], secrets.token_bytes

    def token_bytes(n):
        key = draw(n)
        complements.append(complement(key))
        return key

    monkeypatch.setattr(randomness.secrets, "token_bytes", token_bytes)
    return complements


def reachable_bytes():
    """Return the contents of all bytes and arrays that anything holds; containers may be unknown to the collector."""
    gc.unfreeze()  # what tests/conftest.py hides from the collector
    gc.collect()
    new, seen, found = gc.get_objects(), set(), []
    while new:
        seen.update(map(id, new))
        held = {id(part): part for part in gc.get_referents(*new) if id(part) not in seen}
        found += [part for part in held.values() if isinstance(part, LEAVES)]
        new = [part for part in held.values() if not isinstance(part, (*LEAVES, str, int, float, type))]
    gc.freeze()
    return [bytes(part) if not isinstance(part, np.ndarray) else part.tobytes() for part in found if _is_plain(part)]


def _is_plain(part):
    return not (isinstance(part, np.ndarray) and part.dtype == object)


def kept(complements):
    """Return how many of the keys can still be reached."""
    contents = reachable_bytes()
    return sum(any(complement(other) in content for content in contents) for other in complements)


@pytest.mark.parametrize("task", TASKS)
def test_no_key_remains_after_any_fit(drawn, task):
    X, y = make(task, 300)
    models = [fit(task, X, y), boost(task, X, y)]
    models.append(private_score(models[0], X, y, epsilon=1))
    models.append(PrivateSearch(fit(task, X, y), {"max_depth": [1, 2]}, epsilon=1).fit(X, y))
    if task == "classification":
        models.append(DPRandomForestClassifier(domain=DOMAINS[task]).fit(X, y))
    assert len(drawn) >= len(models)
    assert kept(drawn) == 0


def test_no_key_remains_after_domain_learning(drawn):
    x = np.linspace(0, 10, 5000)[:, None]
    model = DiPriMeRegressor(1.0, Domain({"x": Numeric()}, target=Numeric())).fit(x, x[:, 0])
    assert model.domain_.origin.kind == "learned"
    assert drawn
    assert kept(drawn) == 0


class Holder:
    """Something with an attribute."""


PLACES = {
    "a global": lambda name, key: setattr(randomness, name, key),
    "a tuple in a dictionary": lambda name, key: setattr(randomness, name, {"of": ({"key": key},)}),
    "an array": lambda name, key: setattr(randomness, name, np.frombuffer(key, dtype="<u4").copy()),
    "a closure": lambda name, key: setattr(randomness, name, lambda: key),
    "an attribute": lambda name, key: setattr(randomness, name, vars(holder := Holder()).update(key=key) or holder),
}


def test_retained_keys_are_detected(drawn):
    try:
        for place in PLACES:
            PLACES[place](place.replace(" ", "_"), randomness.secrets.token_bytes(32))
        assert kept(drawn) == len(PLACES)
    finally:
        for place in PLACES:
            delattr(randomness, place.replace(" ", "_"))
