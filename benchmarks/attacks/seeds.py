"""The attack on seeds: look for the seeds of the noise in a model, and fit again with them.

Whoever finds them fits once to the table with a record and once to the table without. One of the two fits gives the
model, bit for bit. No noise protects anybody then, whatever epsilon says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.attacks.evidence import Guesses
from benchmarks.attacks.protocol import HIGH, Classes, Floats, Target

N_ROWS = 40
MAX_NESTING = 6


def stored_seeds(model: object) -> list[int]:
    """Return all integers that a model keeps under a name that sounds like random bits, in the order they are found."""
    return list(_walk(model, 0, set()))


def _walk(value: Any, nesting: int, seen: set[int]) -> Iterator[int]:
    if nesting > MAX_NESTING or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _walk(item, nesting + 1, seen)
        return
    named = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    for name, item in named.items():
        is_random = any(word in str(name).lower() for word in ("seed", "random", "key", "rng"))
        if is_random and isinstance(item, (int, np.integer)) and not isinstance(item, bool):
            yield int(item)
        else:
            yield from _walk(item, nesting + 1, seen)


def tables() -> tuple[tuple[Floats, Classes], tuple[Floats, Classes]]:
    """Return a table with a record, and without: the only one in its corner of the domain, and of its class."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.uniform(0, HIGH / 2, size=(N_ROWS, 2)), [[HIGH, HIGH]]])
    y = np.append(np.zeros(N_ROWS, dtype=np.int64), 1)
    return (X, y), (X[:-1], y[:-1])


def attack(target: Target, trials: int, seed: int = 0) -> Guesses:
    """Attack as many models, fitted with the record or without as coins say, and count the guesses.

    Where replays do not tell, because there are no seeds or because both are equally close, the attack tosses a coin.
    """
    with_record, without = tables()
    rng = np.random.default_rng(seed)
    probe = rng.uniform(0, HIGH, size=(64, 2))
    hits = np.zeros((2, 2), dtype=np.int64)
    for _ in range(trials):
        is_in = int(rng.integers(2))
        model = target.fit(*(with_record if is_in else without))
        hits[is_in, int(_guess(target, model, probe, rng))] += 1
    return Guesses(int(hits[1, 1]), int(hits[1].sum()), int(hits[0, 1]), int(hits[0].sum()))


def _guess(target: Target, model: Any, probe: Floats, rng: np.random.Generator) -> bool:
    seeds = stored_seeds(model)
    if seeds:
        seen = model.predict_proba(probe)
        distances = [
            np.abs(target.replay(model, seeds, *table).predict_proba(probe) - seen).sum() for table in tables()
        ]
        if distances[0] != distances[1]:
            return bool(distances[0] < distances[1])
    return bool(rng.integers(2))
