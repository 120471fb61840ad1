"""Formulas: TeX between dollars becomes MathML, and powers and indices of plain text are raised and lowered.

All of it happens when the site is built, so that no page needs a script to show a formula. Proofs are written to be
read as plain text, too: e^(−k/2) and S_c there are typeset here, outside of code.
"""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

# What pymdownx.arithmatex makes of $...$ and of $$...$$.
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
# Fonts raise a prime by themselves; raised once more, it would fly.
PRIME = re.compile(r"<msup>(<mi>\w</mi>)(?:<mrow>)?(<m[io]>(?:&#x0?2032;|′)</m[io]>)(?:</mrow>)?</msup>")
# What is not prose, with all that is in it; or a tag; or text.
PIECE = re.compile(r"<(pre|code|math|script|style)\b.*?</\1>|<[^>]*>|[^<]+", re.DOTALL)
INDEX = re.compile(r"(?<![^\W²³])(?<!/)([^\W\d_]′?\*?)_(\{[^}]*\}|[^\W_²³]+)(?![^\W²³]|\.\w)")
POWER = re.compile(r"(?<=[\w)\]])\^(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|\{[^}]*\}|[−-]?[^\W_]+)")


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Typeset the formulas of a page. Names with underscores in the reference are names."""
    content = FORMULA.sub(mathml, content)
    with_indices = not page.file.src_uri.startswith("reference/")
    return PIECE.sub(lambda piece: typeset(piece[0], with_indices), content)


def mathml(found: re.Match[str]) -> str:
    """Return one formula, in the line or, if it stood between double dollars, in a block that scrolls by itself."""
    tag, bracket, tex = found.groups()
    block = bracket == "["
    formula = convert(html.unescape(tex).strip(), display="block" if block else "inline")
    return f'<{tag} class="formula">' + PRIME.sub(r"\1\2", formula) + f"</{tag}>"


def typeset(piece: str, with_indices: bool) -> str:
    """Return text with powers raised and indices lowered, and anything else as it is."""
    if piece.startswith("<"):
        return piece
    if with_indices:
        piece = INDEX.sub(lambda found: f"{found[1]}<sub>{bare(found[2])}</sub>", piece)
    return POWER.sub(lambda found: f"<sup>{bare(found[1])}</sup>", piece)


def bare(text: str) -> str:
    """Return an exponent or an index without the brackets that keep it together in plain text."""
    return text[1:-1] if text[0] in "({" else text
