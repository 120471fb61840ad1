"""Seeds and positions: the same attacks against diffprivlib's forest and against ours."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.attacks import positions, seeds
from benchmarks.attacks.evidence import Guesses
from benchmarks.attacks.our_target import OurForest
from benchmarks.paths import ROOT
from benchmarks.utility.contenders import old_python

EPSILON = 1.0
SEED = 7
LEAST_TRIALS = 40


class Attack(NamedTuple):
    """An attack: what runs it, the depth of the trees it is run against, and how often."""

    run: Callable[..., Guesses]
    max_depth: int
    trials: int


ATTACKS = {
    "seeds": Attack(seeds.attack, 5, 300),  # diffprivlib's default depth
    "positions": Attack(positions.attack, 1, 3000),  # each tree gets one row: deeper ones are only slower
}


def of_ours(name: str, trials: int, random_state: int | None = None) -> Guesses:
    """Run an attack against our forest."""
    attack = ATTACKS[name]
    return attack.run(OurForest(EPSILON, attack.max_depth, random_state), trials)


def of_diffprivlib(name: str, trials: int) -> Guesses:
    """Run an attack in the environment of diffprivlib, which is made at first use."""
    task = {"attack": name, "trials": trials, "epsilon": EPSILON, "max_depth": ATTACKS[name].max_depth}
    with tempfile.TemporaryDirectory() as directory:
        request, answer = Path(directory) / "request.json", Path(directory) / "answer.json"
        request.write_text(json.dumps(task), encoding="utf-8")
        command = [old_python(), "-m", "benchmarks.attacks.diffprivlib_worker", request, answer]
        subprocess.run(command, check=True, cwd=ROOT)
        return Guesses(**json.loads(answer.read_text(encoding="utf-8")))


def measure(scale: float, *, with_peers: bool) -> Iterator[dict[str, Any]]:
    """Attack all forests; yield a line for each."""
    for name, attack in ATTACKS.items():
        trials = max(LEAST_TRIALS, round(scale * attack.trials))
        forests = {"diprime": partial(of_ours, name, trials)}
        if name == "seeds":
            forests[f"diprime, random_state={SEED} (its ledger: not private)"] = partial(of_ours, name, trials, SEED)
        if with_peers:
            forests["diffprivlib 0.6.6"] = partial(of_diffprivlib, name, trials)
        for forest, run in forests.items():
            yield {"attack": name, "forest": forest, "epsilon": EPSILON, "trials": trials, **_evidence(run())}


def _evidence(guesses: Guesses) -> dict[str, float]:
    low, high = guesses.advantage_interval()
    return {
        "advantage": guesses.advantage,
        "low": low,
        "high": high,
        "epsilon_at_least": guesses.epsilon_at_least(),
    }
