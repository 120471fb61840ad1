"""Performance-critical loops, in Python files that are compiled to C when the package is built.

Without a C compiler, the same files run interpreted. Arrays are then passed as memoryviews, whose items are Python
numbers, so that the results are bit-identical, but slower.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from diprime._util import warn

NAMES = ("encoding", "sampling", "histogram", "split_costs", "trees", "effects", "boosting", "shapley")


class _Matrix:
    """Two-dimensional memoryview that can also be indexed by row, as in C."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array
        self._items = memoryview(array)
        self.shape = array.shape

    def __getitem__(self, at: Any) -> Any:
        return self._items[at] if isinstance(at, tuple) else memoryview(self._array[at])

    def __setitem__(self, at: tuple[int, int], value: Any) -> None:
        self._items[at] = value


def _as_interpreted(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return _Matrix(argument) if argument.ndim == 2 else memoryview(argument)
    return argument.item() if isinstance(argument, np.generic) else argument


def with_memoryviews(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an interpreted kernel, or the constructor of one of its classes, to take the arguments of a compiled one.

    Arrays become memoryviews, and NumPy scalars become Python numbers. Everything else is passed unchanged, including
    objects of the kernel's own classes, whose arrays were converted by their constructors.
    """

    def call(*arguments: Any, **named: Any) -> Any:
        return function(*map(_as_interpreted, arguments), **{k: _as_interpreted(v) for k, v in named.items()})

    return call


class Interpreted:
    """Interpreted kernel module that takes the same arguments as a compiled one."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        return with_memoryviews(value) if callable(value) else value


def _load(name: str) -> Any:
    module = importlib.import_module(f"diprime.kernels.{name}")
    return Interpreted(module) if str(module.__file__).endswith(".py") else module


_kernels = [_load(name) for name in NAMES]
encoding, sampling, histogram, split_costs, trees, effects, boosting, shapley = _kernels
COMPILED = not any(isinstance(kernel, Interpreted) for kernel in _kernels)

if not COMPILED:
    warn(
        "diprime is running without compiled kernels. Results are identical, but fits are many times "
        "slower. Reinstall diprime with a C compiler available.",
        RuntimeWarning,
    )
