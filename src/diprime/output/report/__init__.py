"""A fitted model as one HTML page that a privacy officer can print and a data scientist can explore.

* ``page``: the page as a whole, with its content security policy.
* ``sections``: its sections, each a function of the fitted model.
* ``shapes``: the section of a boosted model's main effects and interactions.
* ``scores``: the section of a private score.
* ``signatures``: the section of the signature of a model file.
* ``drawing``: elements of SVG drawings.
* ``html``: elements whose text is always escaped.
* ``explore.js`` and ``style.css``: the tree explorer and the style, which the page embeds.
"""

from diprime.output.report.page import render

__all__ = ["render"]
