"""Changes of files that keep their framing sound, so that what lies behind lengths and checksums is reached."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

Mutate = Callable[[bytes, int], bytes]
"""Changes bytes, given the largest length that the result may have; libFuzzer's own."""

MAGIC = b"DIPRIME\0"
PARQUET_MAGIC = b"PAR1"
RAW_SHARE = 0.1  # of the changes that leave lengths and checksums as they are

TOKENS: list[Any] = [
    None, True, False, 0, 1, -1, 2, 20, 21, 255, 256, 2**31, 2**53, 2**63, 10**30, 10**400, 0.0, -0.0, 0.5, 1e308,
    float("inf"), float("nan"), "", "0", "1", "1/2", "1/3", "inf", "-1", "1/0", "9" * 400, "1/" + "9" * 400, "1e999",
    "auto", "infer", "paper", "strict", "forest", "boosting", "classification", "regression", "numeric", "integer",
    "categorical", "date", "linear", "log", "2020-01-01", "9999-12-31", "0001-01-01", "year", "leaf-sums", "round-sums",
    "pure epsilon", "Gaussian", "approximate", "inferred", "learned", "declared", "\u2028", "\x00",
    "\ud800", "x" * 300, [], {}, [[]], [0, 1], [1, 0], ["a", "b"], ["a", "a"], {"kind": "numeric"},
]  # fmt: skip
"""Values that mean something in a domain, a ledger or a model file, or nearly do."""


def mutate_model(data: bytes, limit: int, rng: random.Random, mutate: Mutate) -> bytes:
    """Change the header or the body of a model file; length and checksum follow."""
    parts = split_model(data)
    if parts is None or rng.random() < RAW_SHARE:
        return mutate(data, limit)
    header, body = parts
    if rng.random() < 0.7:
        header = mutate_json(header, rng, mutate)
    else:
        body = mutate(body, max(len(body), 1)) if body else b""
    return join_model(header, body)


def split_model(data: bytes) -> tuple[bytes, bytes] | None:
    """Return the header and the body of a model file, or None if it is too short."""
    start = len(MAGIC) + 8
    stop = start + int.from_bytes(data[len(MAGIC) : start], "little")
    if data[: len(MAGIC)] != MAGIC or stop > len(data) - 32:
        return None
    return data[start:stop], data[stop:-32]


def join_model(header: bytes, body: bytes) -> bytes:
    """Return a model file with the right length and checksum."""
    data = MAGIC + len(header).to_bytes(8, "little") + header + body
    return data + hashlib.sha256(data).digest()


def mutate_json(text: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    """Replace, remove, copy or add a value somewhere in JSON; if it is none, or rarely, change its bytes."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return mutate(text, len(text) + 100)
    if rng.random() < RAW_SHARE or not isinstance(content, dict | list) or not content:
        return mutate(text, len(text) + 100)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        edit_tree(content, rng)
    return json.dumps(content, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def edit_tree(content: Any, rng: random.Random) -> None:
    """Change one value of nested dicts and lists."""
    places = list(_places(content))
    if not places:
        return
    parent, key = rng.choice(places)
    action = rng.randrange(6)
    if action == 0:
        del parent[key]
    elif action == 1:
        other, name = rng.choice(places)
        parent[key] = copy.deepcopy(other[name])
    elif action == 2 and isinstance(parent, list):
        parent.insert(key, _token(rng))
    elif action == 2:
        parent[str(_token(rng))] = copy.deepcopy(parent[key])
    elif action == 3 and isinstance(parent[key], int | float):
        parent[key] += rng.choice((-1, 1, 2**31, -parent[key]))
    else:
        parent[key] = _token(rng)


def _token(rng: random.Random) -> Any:
    """Return a token that nothing else holds: a list that is put into itself could not be written."""
    return copy.deepcopy(rng.choice(TOKENS))


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        yield content, key
        yield from _places(value)


def mutate_domain(data: bytes, limit: int, rng: random.Random, mutate: Mutate) -> bytes:
    """Change JSON as a tree, and TOML by its lines and values."""
    if data.lstrip()[:1] == b"{":
        return mutate_json(data, rng, mutate)[:limit]
    return mutate_lines(data, b"=", rng, mutate)[:limit]


def mutate_csv(data: bytes, limit: int, rng: random.Random, mutate: Mutate) -> bytes:
    """Change a CSV file by its lines and fields."""
    return mutate_lines(data, b",", rng, mutate)[:limit]


def mutate_lines(data: bytes, separator: bytes, rng: random.Random, mutate: Mutate) -> bytes:
    """Remove, copy or swap a line, or change one of its parts."""
    lines = data.split(b"\n")
    i, action = rng.randrange(len(lines)), rng.randrange(6)
    if action == 0:
        del lines[i]
    elif action == 1:
        lines.insert(rng.randrange(len(lines)), lines[i])
    elif action == 2:
        j = rng.randrange(len(lines))
        lines[i], lines[j] = lines[j], lines[i]
    elif action == 3:
        return mutate(data, len(data) + 100)
    else:
        parts = lines[i].split(separator)
        token = json.dumps(rng.choice(TOKENS)).encode()
        j = rng.randrange(len(parts))
        parts[j] = rng.choice((token, token.strip(b'"'), mutate(parts[j] or b"0", len(parts[j]) + 20)))
        lines[i] = separator.join(parts)
    return b"\n".join(lines)


def mutate_parquet(data: bytes, limit: int, rng: random.Random, mutate: Mutate) -> bytes:
    """Change the footer of a Parquet file, whose length follows, or its pages, whose offsets stay."""
    footer_bytes = int.from_bytes(data[-8:-4], "little")
    start = len(data) - 8 - footer_bytes
    if data[-4:] != PARQUET_MAGIC or start < 4 or rng.random() < RAW_SHARE:
        return mutate(data, limit)
    pages, footer = bytearray(data[:start]), data[start:-8]
    if rng.random() < 0.6 and footer:
        footer = _edit_thrift(footer, rng) if rng.random() < 0.7 else mutate(footer, len(footer) + 50)
    else:
        for _ in range(rng.choice((1, 1, 2, 4))):
            pages[rng.randrange(4, len(pages))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    return bytes(pages) + footer + len(footer).to_bytes(4, "little") + PARQUET_MAGIC


def _edit_thrift(footer: bytes, rng: random.Random) -> bytes:
    """Replace a byte of a footer by another, or by the varint of a number that means trouble."""
    numbers = (0, 1, 2, 2**31 - 1, 2**31, 2**32, 2**40, 2**63 - 1, 2**64 - 1, rng.randrange(256))
    at = rng.randrange(len(footer))
    return footer[:at] + _varint(rng.choice(numbers)) + footer[at + rng.choice((0, 1, 1, 2)) :]


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def mutate_budget(data: bytes, limit: int, rng: random.Random, mutate: Mutate) -> bytes:
    """Change, remove, copy or swap lines of a budget's log; hashes and checksums follow."""
    try:
        lines = [json.loads(line) for line in data.split(b"\n")[:-1]]
    except (ValueError, RecursionError):
        lines = []
    if not lines or not all(isinstance(line, dict) and line for line in lines) or rng.random() < RAW_SHARE:
        return mutate(data, limit)
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    action = rng.randrange(8)
    if action == 0:
        del lines[i]
    elif action == 1:
        lines.insert(j, dict(lines[i]))
    elif action == 2:
        lines[i], lines[j] = lines[j], lines[i]
    else:
        edit_tree(lines[i], rng)
    return seal_budget(lines)[:limit]


def seal_budget(lines: list[dict[str, Any]]) -> bytes:
    """Return a log whose lines have the hashes of those before, where they have any, and their checksums."""
    data = before = b""
    for content in lines:
        if "before" in content:
            content["before"] = hashlib.sha256(before).hexdigest()
        body = {name: value for name, value in content.items() if name != "checksum"}
        checksum = hashlib.sha256(_json_line(body)).hexdigest()[:16]
        before = _json_line({**body, "checksum": checksum}) + b"\n"
        data += before
    return data


def _json_line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")


MUTATORS = {
    "model": mutate_model,
    "domain": mutate_domain,
    "budget": mutate_budget,
    "csv": mutate_csv,
    "parquet": mutate_parquet,
}
