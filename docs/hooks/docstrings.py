"""Docstrings for the reference: defaults as values, and names of Sphinx's roles as code.

The parameters of estimators are fields that ``parameter(1.0, check, description)`` declares. Users see ``1.0``.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Attribute, Expr, ExprCall, Extension, Object

ROLE = re.compile(r":(?:mod|class|func|meth|attr):`~?([^`]+)`")


class ReadableDocstrings(Extension):
    """What Griffe has read, made readable."""

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """Replace the declaration of a parameter by its default, before constructors are made of declarations."""
        declaration = attr.value
        if isinstance(declaration, ExprCall) and str(declaration.function) == "parameter":
            default: str | Expr = declaration.arguments[0]
            attr.value = None if str(default) == "MISSING" else default

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Write the names that roles refer to as code."""
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value)
