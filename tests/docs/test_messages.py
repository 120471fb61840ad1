"""Messages of the library use plain words; ``python -m docs.tools.messages`` lists all of them."""

import ast
import re

from docs.tools.messages import ROOT, messages

DISCOURAGED = re.compile(
    r"\b(?:whoever|whomever|nobody|somebody|anybody|persons|besides?|clamped|made-up)\b", re.IGNORECASE
)


def test_messages_avoid_discouraged_words():
    for path in (ROOT / "src").rglob("*.py"):
        for line, text in messages(ast.parse(path.read_text("utf-8"))):
            assert not DISCOURAGED.search(re.sub(r"\{.*?\}", "", text)), f"{path}:{line}: {text}"


def test_messages_are_found_with_their_placeholders():
    code = (
        'def f(x):\n    """Not a message, but a docstring."""\n    raise ValueError(f"x must be positive, got {x!r}.")'
    )
    assert list(messages(ast.parse(code))) == [(3, "x must be positive, got {x!r}.")]
