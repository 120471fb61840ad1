"""A search of fitted models for what must not stay on them: numbers, rows, random bits, and the means of a release.

test_fitted_objects.py plants each leak in a model, and the search must find it.
"""

import pickle
import pickletools
import re
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from types import FunctionType, MappingProxyType, MethodType, NoneType

import numpy as np

from diprime.privacy.charges import Receipt
from diprime.privacy.randomness import RandomSource

# Objects of these modules live as long as a fit: engines hold rows, the others hold random bits or can release more.
OF_A_FIT = (
    "diprime.engines",
    "diprime.sources",
    "diprime.forest",
    "diprime.boosting",
    "diprime.privacy.mechanisms",
    "diprime.privacy.randomness",
)
ATOMS = (np.ndarray, np.generic, str, bytes, int, float, Fraction, type, NoneType)


@dataclass
class Secrets:
    """What must not be found: numbers, rows, and the keys of the noise."""

    numbers: dict[str, float]
    n_rows: set[int]
    keys: list[bytes]
    true_counts: np.ndarray  # of the leaves of a single tree that saw all rows


def keys_of_streams(monkeypatch):
    """Return a list that the keys of all streams come into, and those that they were derived from."""
    keys, make = [], RandomSource._make

    def watched(numbers, of_streams):
        streams = make(numbers, of_streams)
        keys.extend(stream[4:12].tobytes() for stream in streams)
        return streams

    monkeypatch.setattr(RandomSource, "_make", staticmethod(watched))
    return keys


def attributes(value):
    """Return the attributes of an object, wherever it keeps them."""
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    names = [field.name for field in fields(value)] if is_dataclass(value) else []
    held = {name: getattr(value, name) for name in (*slots, *names) if hasattr(value, name)}
    return held | getattr(value, "__dict__", {})


def parts(value):
    """Yield what an object directly holds, with the way to it; functions hold what they close over."""
    if isinstance(value, (dict, MappingProxyType)):
        for key, item in value.items():
            yield f"[key {key!r}]", key
            yield f"[{key!r}]", item
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"[{i}]", item) for i, item in enumerate(value))
    elif isinstance(value, MethodType):
        yield from ((".__self__", value.__self__), (".__func__", value.__func__))
    elif isinstance(value, FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or ()]
        yield "()", [*held, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    elif isinstance(value, np.ndarray) and value.dtype == object:
        yield "", value.tolist()
    elif not isinstance(value, ATOMS):
        yield from ((f".{name}", item) for name, item in attributes(value).items())


def things(value, path="model", seen=None):
    """Yield every object that can be reached, with the way to it; what an object holds is yielded once."""
    seen = {} if seen is None else seen
    yield path, value
    if isinstance(value, ATOMS) and not isinstance(value, np.ndarray):
        return
    if id(value) not in seen:
        seen[id(value)] = value  # kept, so that no other object has this id
        for step, part in parts(value):
            yield from things(part, path + step, seen)


def leaks(model, secrets):
    """Return the places where a model holds a secret."""
    search = _Search(secrets)
    for path, thing in things(model):
        search.look_at(path, thing)
    search.look_at_text("repr", repr(model))
    search.look_at_text("ledger", str(model.privacy_))
    search.look_at_text("json", model.privacy_.to_json())
    search.look_at_pickle(model)
    return search.found


class _Search:
    def __init__(self, secrets):
        self.secrets = secrets
        self.found = []

    def look_at(self, path, thing):
        self.look_at_type(path, thing)
        if isinstance(thing, str):
            self.look_at_text(path, thing)
        elif isinstance(thing, np.ndarray) and thing.dtype.kind in "biuf":
            self.look_at_array(path, thing)
        elif isinstance(thing, (int, float, np.number)) and not isinstance(thing, bool):
            self.look_at_numbers(path, thing)
        elif isinstance(thing, Fraction):
            self.look_at_numbers(path, [thing.numerator, thing.denominator])
        elif isinstance(thing, (list, tuple)) and len(thing) in self.secrets.n_rows:
            self.found.append(f"{path}: one entry for each row")

    def look_at_type(self, path, thing):
        kind = type(thing)
        if issubclass(kind, (np.random.RandomState, np.random.Generator)):
            self.found.append(f"{path}: a source of random numbers")
        if issubclass(kind, Receipt) or any(base.__module__.startswith(OF_A_FIT) for base in kind.__mro__):
            self.found.append(f"{path}: a {kind.__name__}, which belongs to a fit")
        if callable(thing) and not isinstance(thing, (type, FunctionType, MethodType)):
            self.found.append(f"{path}: something to call, which may hold anything")
        if isinstance(thing, (bytes, bytearray, memoryview)):
            self.found.append(f"{path}: bytes")

    def look_at_numbers(self, path, numbers):
        numbers = np.asarray(numbers)
        for name, secret in self.secrets.numbers.items():
            by_chance = "class" in name and path.endswith("forest_.counts")  # a leaf may be as large as a class
            if np.any(numbers == secret) and not by_chance:
                self.found.append(f"{path}: {name}")
        if numbers.shape and self.secrets.n_rows & set(numbers.shape):
            self.found.append(f"{path}: one entry for each row")

    def look_at_array(self, path, array):
        self.look_at_numbers(path, array)
        content = array.tobytes()
        if any(key in content for key in self.secrets.keys):
            self.found.append(f"{path}: the key")
        if array.size == self.secrets.true_counts.size and path.endswith("counts"):
            exact = np.mean(array.ravel() == self.secrets.true_counts)
            if exact > 0.6:  # noise is zero now and then
                self.found.append(f"{path}: {exact:.0%} of the leaf counts are exact")

    def look_at_text(self, path, text):
        for name, secret in self.secrets.numbers.items():
            whole = str(int(secret)) if float(secret).is_integer() else repr(float(secret))[:10]
            if re.search(rf"(?<![\d.]){re.escape(whole)}", text):
                self.found.append(f"{path}: {name} in text")

    def look_at_pickle(self, model):
        try:
            pickled = pickle.dumps(model)
        except TypeError as error:
            self.found.append(f"pickle: {error}")
            return
        if any(key in pickled for key in self.secrets.keys):
            self.found.append("pickle: the key")
        for opcode, argument, _ in pickletools.genops(pickled):
            if isinstance(argument, (int, float)) and opcode.name not in ("FRAME", "BINGET", "LONG_BINGET"):
                self.look_at_numbers(f"pickle {opcode.name}", argument)
            elif isinstance(argument, str) and not opcode.name.startswith(("SHORT_BINBYTES", "BINBYTES", "BINSTRING")):
                self.look_at_text(f"pickle {opcode.name}", argument)
