"""What the kernels use of Cython, for interpreters that run them without it.

Compiled kernels never import this. Where a kernel runs as plain Python and Cython is not installed, these stand-ins
give each construct its meaning in Python: types vanish, integers are unbounded, the lock is not released.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

compiled = False
uchar = ushort = int = uint = longlong = ulonglong = Py_ssize_t = builtins.int
float = double = builtins.float


class _Nogil:
    """Both a decorator and a context, as ``cython.nogil`` is."""

    def __call__(self, function: F) -> F:
        return function

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


nogil = _Nogil()


def cfunc(function: F) -> F:
    """Mark a function that only kernels call."""
    return function


inline = cfunc


def exceptval(*_: Any, **__: Any) -> Callable[[F], F]:
    """Say how a C function signals an exception, which Python needs not be told."""
    return cfunc


def declare(_: Any, value: Any) -> Any:
    """Declare a typed module variable."""
    return value


def cast(type_: Callable[[Any], Any], value: Any) -> Any:
    """Convert as C does: towards zero for integers."""
    return type_(value)


def fused_type(*_: Any) -> Any:
    """Name several types at once."""
    return None
