"""List the messages of the library, for review: ``python -m docs.tools.messages [FILE...]``.

Without files, it reads the package. It prints each text of at least four words that is not a docstring: errors,
warnings, help, notes of ledgers and texts of reports. Placeholders are in braces.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MIN_WORDS = 4


def literal(node: ast.AST) -> str | None:
    """Return the text of a string or an f-string, or None for any other node."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if not isinstance(node, ast.JoinedStr):
        return None
    return "".join(literal(part) or f"{{{ast.unparse(part).strip('{}')}}}" for part in node.values)


def messages(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each message below a node."""
    for child in ast.iter_child_nodes(node):
        is_docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        text = literal(child)
        if text is not None and len(text.split()) >= MIN_WORDS:
            yield child.lineno, text
        elif text is None and not is_docstring:
            yield from messages(child)


def main() -> None:
    """Print the place and the text of each message."""
    for path in map(Path, sys.argv[1:] or sorted((ROOT / "src").rglob("*.py"))):
        for line, text in messages(ast.parse(path.read_text(encoding="utf-8"))):
            print(f"{path.relative_to(ROOT) if path.is_absolute() else path}:{line}: {text!r}")


if __name__ == "__main__":
    main()
