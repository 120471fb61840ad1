"""Constructors that estimators inherit, by their own names."""

from __future__ import annotations

from types import FunctionType
from typing import Any, TypeVar, cast

Class = TypeVar("Class", bound=type[Any])


def with_own_constructor(cls: Class) -> Class:
    """Give a class a copy of the constructor that it inherits.

    Python's messages about a wrong argument name the class whose constructor it is, and should not name a private one.

    Examples
    --------
    >>> class _Base:
    ...     def __init__(self, *, a=1): ...
    >>> @with_own_constructor
    ... class Public(_Base): ...
    >>> Public(b=2)
    Traceback (most recent call last):
    TypeError: Public.__init__() got an unexpected keyword argument 'b'
    """
    inherited = cast("FunctionType", cls.__init__)
    own = FunctionType(
        inherited.__code__, inherited.__globals__, "__init__", inherited.__defaults__, inherited.__closure__
    )
    own.__kwdefaults__ = inherited.__kwdefaults__
    own.__annotations__ = inherited.__annotations__
    own.__doc__, own.__module__ = inherited.__doc__, inherited.__module__
    own.__qualname__ = f"{cls.__qualname__}.__init__"
    cls.__init__ = own
    return cls
