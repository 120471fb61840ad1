"""The hot loops, in Python files that are compiled to C when the package is built.

Without a C compiler the same files run interpreted. Arrays then reach them as memoryviews, whose items are Python
integers, so that the results are the same to the last bit, only slower.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

NAMES = ("encoding", "sampling", "histogram", "scoring", "walking", "adding", "boosting", "explaining")


class _Matrix:
    """A two-dimensional memoryview that can be indexed by row as well, as in C."""

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
    """Wrap an interpreted kernel, or the constructor of one of its classes, to take what a compiled one takes.

    Arrays become memoryviews and NumPy scalars Python numbers. Everything else is passed through, objects of the
    kernel's own classes included: their arrays were converted when they were made.
    """

    def call(*arguments: Any, **named: Any) -> Any:
        return function(*map(_as_interpreted, arguments), **{k: _as_interpreted(v) for k, v in named.items()})

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


_kernels = [_load(name) for name in NAMES]
encoding, sampling, histogram, scoring, walking, adding, boosting, explaining = _kernels
COMPILED = not any(isinstance(kernel, Interpreted) for kernel in _kernels)

if not COMPILED:
    warnings.warn(
        "diprime runs without its compiled kernels: results are the same, but fits take many times longer; "
        "reinstall it where a C compiler is available.",
        RuntimeWarning,
        stacklevel=2,
    )
