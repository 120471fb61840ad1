"""Stand-ins for the Cython constructs of the kernels, for running them without Cython.

Compiled kernels never import this module. If a kernel runs as plain Python and Cython is not installed, these give each
construct its meaning in Python: types have no effect, integers are unbounded, and the global interpreter lock is not
released.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

compiled = False
uchar = ushort = int = uint = longlong = ulonglong = Py_ssize_t = builtins.int
float = double = builtins.float


class _Nogil:
    """Decorator and context manager, like ``cython.nogil``."""

    def __call__(self, function: F) -> F:
        return function

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


nogil = _Nogil()


def cfunc(function: F) -> F:
    """Mark a function or method that only kernels may call."""
    return function


inline = cfunc


def cclass(class_: C) -> C:
    """Mark a class whose instances are C structures."""
    return class_


final = cclass


def exceptval(*_: Any, **__: Any) -> Callable[[F], F]:
    """Specify how a C function signals exceptions. This has no effect in Python."""
    return cfunc


def declare(_: Any, value: Any = None, *, visibility: str = "private") -> Any:
    """Declare a typed variable of the module, or a typed field that is visible to Python."""
    return value


def cast(type_: Callable[[Any], Any], value: Any) -> Any:
    """Convert a number as C does. Conversions to integers round towards zero."""
    return type_(value)


def fused_type(*_: Any) -> Any:
    """Define one name for several types."""
    return None
