r"""Formulas: TeX between dollars becomes MathML when the site is built, so that no page needs a script to show it."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

# What pymdownx.arithmatex makes of $...$ and of $$...$$.
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace every formula of a page by its MathML."""
    return FORMULA.sub(mathml, content)


def mathml(found: re.Match[str]) -> str:
    """Return one formula, in the line or, if it stood between double dollars, in a block that scrolls by itself."""
    tag, bracket, tex = found.groups()
    block = bracket == "["
    formula = convert(html.unescape(tex).strip(), display="block" if block else "inline")
    return f'<{tag} class="formula">{formula}</{tag}>'
