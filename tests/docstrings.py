"""Parameters sections of the estimators' docstrings, generated from the declarations of the parameters.

``python -m tests.docstrings`` writes the sections into the source, where editors find them.
"""

import inspect
import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import numpy as np

import diprime.estimators.parameters
from diprime import (
    DiPriMeBoostingClassifier,
    DiPriMeBoostingRegressor,
    DiPriMeClassifier,
    DiPriMeRegressor,
    PrivateSearch,
)
from diprime.estimators.parameters import parameters_of
from diprime.paper import DPDecisionForestClassifier, DPRandomForestClassifier, DPRandomForestRegressor
from diprime.privacy.ledger import Accounting

WRITTEN = (
    DiPriMeClassifier,
    DiPriMeRegressor,
    DiPriMeBoostingClassifier,
    DiPriMeBoostingRegressor,
    PrivateSearch,
    DPRandomForestClassifier,
    DPRandomForestRegressor,
    DPDecisionForestClassifier,
)
"""Estimators with generated Parameters sections."""
WIDTH = 112  # of descriptions, in lines of 120 characters
ANYTHING = {"estimator": "estimator", "param_distributions": "dict or list of dict"}


def read_sections(estimator):
    """Return the sections of a class docstring in numpydoc format by name, in order."""
    pieces = re.split(r"\n?^(\w+)\n-+$\n", inspect.getdoc(estimator), flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def declared_section(estimator):
    """Return the Parameters section for the declarations of an estimator's parameters."""
    types = {declared.name: declared.type for declared in fields(estimator)}
    defaults = {declared.name: declared.default for declared in fields(estimator)}
    lines = []
    for name, declared in parameters_of(estimator).items():
        has_default = defaults[name] is not MISSING and name != "domain"  # domain is required
        default = f", default={_literal(defaults[name])}" if has_default else ""
        lines += [f"{name} : {_type_text(name, types[name])}{default}", *_description(declared.doc)]
    return "\n".join(lines) + "\n"


def _literal(value):
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _type_text(name, annotation):
    """Return an annotation as a numpydoc type."""
    if name in ANYTHING:
        return ANYTHING[name]
    names_of_types = {**vars(diprime.estimators.parameters), "Accounting": Accounting}
    hint = eval(annotation, names_of_types) if isinstance(annotation, str) else annotation
    if get_origin(hint) is Literal:
        return "{" + ", ".join(map(_literal, get_args(hint))) + "}"
    names = []
    for part in get_args(hint) or (hint,):
        if get_origin(part) is Literal:
            names += map(_literal, get_args(part))
        elif part is not NoneType:
            names.append({Mapping: "dict", np.random.RandomState: "RandomState instance"}.get(
                get_origin(part) or part, part.__name__
            ))  # fmt: skip
        elif name != "domain":
            names.append("None")
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _description(doc):
    lines = []
    for paragraph in doc.split("\n"):
        is_item = paragraph.startswith("- ")
        if is_item and not lines[-1].startswith(("    - ", "      ")):
            lines.append("")
        lines += textwrap.wrap(
            paragraph,
            WIDTH + 4,
            initial_indent="    ",
            subsequent_indent="      " if is_item else "    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def write(estimator: Any) -> None:
    """Write the Parameters section of an estimator into its source."""
    path = Path(estimator.__init__.__globals__["__file__"])
    source = path.read_text("utf-8")
    section = textwrap.indent(declared_section(estimator), "    ")
    pattern = rf"(^class {estimator.__name__}\(.*?^    Parameters\n    -+\n).*?(?=\n    Attributes\n)"
    written, found = re.subn(pattern, lambda match: match[1] + section, source, flags=re.MULTILINE | re.DOTALL)
    assert found == 1, estimator
    path.write_text(written, "utf-8")


if __name__ == "__main__":
    for written in WRITTEN:
        write(written)
