"""Docstrings for the reference: defaults as values, and names of Sphinx's roles as code.

The defaults of estimators are entries of one table, ``EPSILON.default``, and that is what their source says. Users see
``1.0``.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from griffe import Extension, Function, Object

ROLE = re.compile(r":(?:mod|class|func|meth|attr):`~?([^`]+)`")
DEFAULT = re.compile(r"([A-Z_]+)\.default")


class ReadableDocstrings(Extension):
    """What Griffe has read, made readable."""

    def on_function(self, *, func: Function, **_: Any) -> None:
        """Replace defaults that are entries of a table of parameters."""
        for parameter in func.parameters:
            found = DEFAULT.fullmatch(str(parameter.default))
            if found is not None:
                entry = getattr(import_module(func.module.path), found[1])
                parameter.default = repr(entry.default)

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Write the names that roles refer to as code."""
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value)
