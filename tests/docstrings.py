"""What the docstring of an estimator says."""

import inspect
import re


def read_sections(estimator):
    """Return the sections of a class docstring in numpydoc's format, in their order, by name."""
    pieces = re.split(r"\n?^(\w+)\n-+$\n", inspect.getdoc(estimator), flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def read_defaults(estimator):
    """Return what is written after ``default=``, or None, for each parameter in the order of the docstring."""
    found = re.findall(r"^(\w+) : (?:.*default=(.+)|.*)$", read_sections(estimator)["Parameters"], flags=re.MULTILINE)
    return {name: default or None for name, default in found}
