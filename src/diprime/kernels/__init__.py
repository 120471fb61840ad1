"""The hot loops, each an ordinary Python file that is compiled to C when the package is built.

Where no C compiler was at hand the same files run interpreted: they are then given memoryviews, whose items are
Python integers, so the results are the same to the last bit, only slower.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

NAMES = ("encoding", "sampling", "histogram", "scoring", "walking")


def with_memoryviews(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let an interpreted kernel see arrays as memoryviews and NumPy's scalars as Python's numbers."""

    def call(*arguments: Any) -> Any:
        return function(
            *(
                memoryview(a) if isinstance(a, np.ndarray) else a.item() if isinstance(a, np.generic) else a
                for a in arguments
            )
        )

    return call


class Interpreted:
    """An interpreted kernel module that takes the same arguments as a compiled one."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        return with_memoryviews(value) if callable(value) else value


def _load(name: str) -> Any:
    module = importlib.import_module(f"diprime.kernels.{name}")
    return Interpreted(module) if str(module.__file__).endswith(".py") else module


encoding, sampling, histogram, scoring, walking = (_load(name) for name in NAMES)
COMPILED = not any(isinstance(k, Interpreted) for k in (encoding, sampling, histogram, scoring, walking))

if not COMPILED:
    warnings.warn(
        "diprime runs without its compiled kernels: results are the same, but fits take a hundred times longer; "
        "reinstall it where a C compiler is available.",
        RuntimeWarning,
        stacklevel=2,
    )
