"""Warn about words that signal stilted English: ``python -m docs.tools.signal_words [FILE...]``.

Without files, it reads all Markdown pages, tutorials and examples of the repository. In Python files, it reads the
docstrings and comments. The words are signals, not errors, so the command always succeeds. Its limits per 10,000 words
are the rates in six pages of attrs' documentation. On GitHub, each warning becomes an annotation.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = "*.md", "docs/tutorials/*.py", "examples/*.py"
LIMITS = {  # pattern: limit per 10,000 words
    r"\bwhat (?:is|are|was|were|has|have|had|the|a|it|they|you)\b": 5,
    r"\bsa(?:y|ys|id|ying)\b": 3,
    r"\bt(?:ell|ells|old|elling)\b": 3,
    r"\bwho(?:ever|mever)\b|\bwh(?:at|ich)ever\b": 0,
    r"\b(?:no|some|any)body\b": 0,
    r"\bwhose\b": 3,
    r"\bbesides?\b": 0,
    r"\b(?:lest|of which|of whom)\b": 0,
}
MIN_WORDS = 300
"""Rates of shorter texts mean little: a single word would exceed a limit."""


def prose(path: Path) -> str:
    """Return the text of a Markdown file without code, or the docstrings and comments of a Python file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return re.sub(r"^```.*?^```|`[^`\n]*`", " ", text, flags=re.DOTALL | re.MULTILINE)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, documented)]
    comments = re.findall(r"^ *# ?(.*)$", text, re.MULTILINE)
    return "\n".join([*comments, *(ast.get_docstring(node) or "" for node in nodes)])


def excess(text: str) -> Iterator[tuple[list[str], float, int]]:
    """Yield the matches, the rate and the limit of each pattern that occurs too often in a text."""
    n_words = max(MIN_WORDS, len(text.split()))
    for pattern, limit in LIMITS.items():
        found = re.findall(pattern, text, re.IGNORECASE)
        rate = 10_000 * len(found) / n_words
        if rate > limit and len(found) > 1:
            yield found, rate, limit


def main() -> None:
    """Print one warning for each file and pattern, and their number."""
    listed = subprocess.run(["git", "ls-files", *PAGES], capture_output=True, text=True, check=True, cwd=ROOT)
    start = "::warning file={}::" if "GITHUB_ACTIONS" in os.environ else "{}: "
    n_warnings = 0
    for name in sys.argv[1:] or listed.stdout.split():
        for found, rate, limit in excess(prose(ROOT / name)):
            words = ", ".join(sorted({word.lower() for word in found}))
            print(f"{start.format(name)}{len(found)} × {words} ({rate:.0f} per 10,000 words, limit {limit})")
            n_warnings += 1
    print(f"{n_warnings} warnings about signal words; docs/writing.md explains them.")


if __name__ == "__main__":
    main()
