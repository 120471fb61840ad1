"""Messages of the library use plain words, and tests do not quote them.

``python -m docs.tools.messages`` lists all messages.
"""

import ast
import re

from docs.tools.messages import ROOT, literal, messages

DISCOURAGED = re.compile(
    r"\b(?:whoever|whomever|nobody|somebody|anybody|persons|besides?|clamped|made-up)\b", re.IGNORECASE
)
MAX_WORDS = 4
OF_OTHERS = (
    "Complex data not supported",
    "Feature names are only supported if all input features have string",
    "Found input variables with inconsistent numbers of samples",
    "No space left on device",
    "Unknown label type",
    "X does not have valid feature names",
    "instance is not fitted yet",
)
"""Messages of the operating system and of scikit-learn, some of which its checks look for; tests may quote them."""


def test_messages_avoid_discouraged_words():
    for path in (ROOT / "src").rglob("*.py"):
        for line, text in messages(ast.parse(path.read_text("utf-8"))):
            assert not DISCOURAGED.search(re.sub(r"\{.*?\}", "", text)), f"{path}:{line}: {text}"


def test_messages_are_found_with_their_placeholders():
    code = (
        'def f(x):\n    """Not a message, but a docstring."""\n    raise ValueError(f"x must be positive, got {x!r}.")'
    )
    assert list(messages(ast.parse(code))) == [(3, "x must be positive, got {x!r}.")]


# -- patterns of tests -------------------------------------------------------------------------------------------------


def values_of(name, tree):
    """Yield the expressions to which a module sets a name: by assignment, by a loop or as a parameter of a test."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            names, rows = node.targets, [node.value]
        elif isinstance(node, (ast.For, ast.comprehension)):
            names, rows = [node.target], getattr(node.iter, "elts", [])
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.parametrize":
            names, rows = node.args[:1], getattr(node.args[1], "elts", [])
        else:
            continue
        names = getattr(names[0], "elts", names)
        for position, given in enumerate(names):
            if getattr(given, "id", getattr(given, "value", None)) == name:
                yield from (row if len(names) == 1 else getattr(row, "elts", [row] * 9)[position] for row in rows)


def is_message(node):
    """Return whether a comparison is with the message of an error: ``str(caught.value)`` or ``refused(...)``."""
    return re.match(r"str\(\w+\.value\)$|refused\(", ast.unparse(node)) is not None


def patterns(tree):
    """Yield the line and the text of each literal with which a test compares a message."""
    found, names = [], set()
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "match":
            found.append(node.value)
            names |= {node.value.id} if isinstance(node.value, ast.Name) else set()
        elif isinstance(node, ast.Compare) and any(map(is_message, [node.left, *node.comparators])):
            found += [node.left, *node.comparators]
    for name in sorted(names):
        found += values_of(name, tree)
    for part in found:
        text = literal(part)
        if text is not None:
            yield part.lineno, text


def longest_quotation(pattern):
    """Return the longest run of plain words in a pattern; names, values and wildcards end a run."""
    for text in OF_OTHERS:
        pattern = pattern.replace(text, "*")
    pattern = re.sub(r"\{.*?\}|\\[a-zA-Z]|\.[*+]", " * ", pattern)
    words = [re.sub(r"^[\^(]+|[\\.,:;)$]+$", "", word) for word in pattern.split()]
    runs = "".join(word + " " if re.fullmatch("(?![Xy]$)[A-Za-z][a-z]*", word) else "\n" for word in words)
    return max(runs.split("\n"), key=lambda run: len(run.split())).strip()


def test_tests_do_not_quote_messages():
    """They compare types, names and values, so that the English of a message can be edited."""
    n_patterns = 0
    for path in (ROOT / "tests").rglob("test_*.py"):
        for line, text in patterns(ast.parse(path.read_text("utf-8"))):
            n_patterns += 1
            assert len(longest_quotation(text).split()) <= MAX_WORDS, f"{path}:{line}: {text}"
    assert n_patterns > 300


def test_quotations_are_found():
    code = (
        "with pytest.raises(ValueError, match=f'{name} must be given in a list'): pass\n"
        "@pytest.mark.parametrize(('x', 'words'), [(1, 'one of them')])\n"
        "def test(x, words):\n"
        "    with pytest.raises(ValueError, match=words) as caught: pass\n"
        "    assert str(caught.value) == 'x must not be one'\n"
    )
    assert sorted(patterns(ast.parse(code))) == [
        (1, "{name} must be given in a list"),
        (2, "one of them"),
        (5, "x must not be one"),
    ]
    assert longest_quotation("{name} must be given in a list") == "must be given in a list"
    assert longest_quotation(r"^x_1 .*lacks the column 'a', and has\. No rows") == "and has No rows"
    assert longest_quotation("Found input variables with inconsistent numbers of samples: [1, 2]") == ""
