"""The scores of :mod:`benchmarks.utility`, in one JSON file with a line for each data set, contender and epsilon.

Each line names the code that was measured. Scores of other code are measured again, never mixed with those of this one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Score = dict[str, float]  # mse, or accuracy and auc


class Key(NamedTuple):
    """What identifies a line of results."""

    contender: str
    data: str
    epsilon: float


def _columns(scores: Mapping[int, Score]) -> dict[str, list[float | None]]:
    """Return a list for each metric, with an entry for each repeat: None if it has not been measured yet."""
    metrics = next(iter(scores.values()))
    return {m: [scores[r][m] if r in scores else None for r in range(max(scores) + 1)] for m in metrics}


class Results:
    """Scores by key and repeat.

    Parameters
    ----------
    path : path
        The file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._scores: dict[Key, dict[int, Score]] = {}
        self._releases: dict[Key, str] = {}
        for line in json.loads(path.read_text(encoding="utf-8")) if path.exists() else []:
            key = Key(line["contender"], line["data"], float(line["epsilon"]))
            self._releases[key] = line["release"]
            repeats = zip(*line["scores"].values(), strict=True)
            self._scores[key] = {
                repeat: dict(zip(line["scores"], values, strict=True))
                for repeat, values in enumerate(repeats)
                if None not in values
            }

    def missing(self, key: Key, release: str, repeats: int) -> list[int]:
        """Return the repeats that have not been measured with this code."""
        done: Mapping[int, Score] = self._scores.get(key, {}) if self._releases.get(key) == release else {}
        return [repeat for repeat in range(repeats) if repeat not in done]

    def put(self, key: Key, release: str, repeat: int, score: Score) -> None:
        """Store a score, and drop those of other code."""
        if self._releases.get(key) != release:
            self._releases[key], self._scores[key] = release, {}
        self._scores[key][repeat] = {name: float(f"{value:.6g}") for name, value in score.items()}

    def drop(self, contender: str) -> None:
        """Drop all scores of a contender."""
        for key in [key for key in self._scores if key.contender == contender]:
            del self._scores[key], self._releases[key]

    def save(self) -> None:
        """Write the file atomically."""
        lines = [
            json.dumps(
                {
                    **key._asdict(),
                    "epsilon": str(key.epsilon),
                    "release": self._releases[key],
                    "scores": _columns(scores),
                }
            )
            for key, scores in sorted(self._scores.items())
        ]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_suffix(".part")
        unfinished.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
        unfinished.replace(self.path)

    def of(self, contender: str, data: str, epsilon: float, metric: str) -> npt.NDArray[np.float64]:
        """Return the scores of all repeats in order; a repeat is the same split for all contenders."""
        scores = self._scores.get(Key(contender, data, epsilon), {})
        return np.array([scores[repeat][metric] for repeat in sorted(scores)])

    def releases(self, contender: str) -> list[str]:
        """Return the code that a contender was measured with; several entries if results are incomplete."""
        return sorted({release for key, release in self._releases.items() if key.contender == contender})

    def epsilons(self, contender: str, data: str) -> list[float]:
        """Return the finite epsilons that a contender was measured at, in ascending order."""
        return sorted(k.epsilon for k in self._scores if k[:2] == (contender, data) and k.epsilon < math.inf)
