"""What the kernels use of Cython, for interpreters that run them without it.

Compiled kernels never import this module. Where a kernel runs as plain Python and Cython is not installed, these
stand-ins give each construct its meaning in Python: types have no effect, integers are unbounded, and the global
interpreter lock is not released.
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
    """Both a decorator and a context manager, like ``cython.nogil``."""

    def __call__(self, function: F) -> F:
        return function

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


nogil = _Nogil()


def cfunc(function: F) -> F:
    """Mark a function or method that only kernels call."""
    return function


inline = cfunc


def cclass(class_: C) -> C:
    """Mark a class whose instances are C structures."""
    return class_


final = cclass


def exceptval(*_: Any, **__: Any) -> Callable[[F], F]:
    """Say how a C function signals an exception, which Python does not need to know."""
    return cfunc


def declare(_: Any, value: Any = None, *, visibility: str = "private") -> Any:
    """Declare a typed variable of the module, or a typed field that Python can see."""
    return value


def cast(type_: Callable[[Any], Any], value: Any) -> Any:
    """Convert a number as C does: integers are rounded towards zero."""
    return type_(value)


def fused_type(*_: Any) -> Any:
    """Give one name to several types."""
    return None
