"""Domains as TOML, JSON and dicts, written and read back exactly."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diprime.domain.dates import Date
from diprime.domain.features import Categorical, Numeric, int_if_whole, short
from diprime.domain.integers import Integer
from diprime.domain.kinds import Feature, Target
from diprime.domain.origin import Origin

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

ORIGIN_KEYS = ("origin", "reviewed_by", "ledger")
"""The keys of a file that say where the domain comes from."""

MAX_BYTES = 1 << 24
MAX_VALUES = 1 << 19
"""The largest text of a domain, and the most values in it: two bytes of text may be a value of hundreds in memory."""

_MAX_LINE_LENGTH = 100  # of a list in TOML
_KINDS: Mapping[str, type[Feature]] = {
    "numeric": Numeric, "integer": Integer, "date": Date, "categorical": Categorical
}  # fmt: skip
_KEYS = {"numeric": ("low", "high", "scale", "edges"), "integer": ("low", "high"), "date": ("low", "high", "parts")}

Source = str | os.PathLike[str]
"""The content of a file, or its path."""
Facts = tuple[Mapping[str, Feature], Target, str | None, Origin]
"""The contents of a domain: its features, its target, the name of the target or None, and its origin."""


def write_toml(facts: Facts) -> str:
    """Write a domain as `Domain.to_toml` does."""
    content = write_dict(facts)
    tables = [(f"features.{_toml_key(name)}", feature) for name, feature in content["features"].items()]
    tables.append(("target", content["target"]))
    origin = {key: value for key, value in content.items() if key in ORIGIN_KEYS}
    texts = ["".join(f"{line}\n" for line in _toml_lines(origin))] if origin else []
    texts += [_toml_table(header, entries) for header, entries in tables]
    return "\n".join(texts)


def write_feature(name: str, feature: Feature) -> str:
    """Write the part of a domain in TOML that describes one feature."""
    return _toml_table(f"features.{_toml_key(name)}", _feature_to_dict(feature, f"feature {name!r}"))


def _toml_table(header: str, entries: dict[str, Any]) -> str:
    return "\n".join([f"[{header}]", *_toml_lines(entries)]) + "\n"


def _toml_lines(entries: dict[str, Any]) -> list[str]:
    return [f"{key} = {toml_value(value)}" for key, value in entries.items()]


def read_toml(source: Source) -> Facts:
    """Read what `write_toml` writes."""
    return read_dict(parse_toml(_text_of(source, "TOML")))


def write_json(facts: Facts) -> str:
    """Write a domain as `Domain.to_json` does."""
    return json.dumps(write_dict(facts), ensure_ascii=False, indent=2)


def read_json(source: Source) -> Facts:
    """Read what `write_json` writes."""
    return read_dict(parse_json(_text_of(source, "JSON")))


def _text_of(source: Source, kind: str) -> str:
    """Return the text of a domain, from a file if a path is given."""
    if isinstance(source, str) and not _is_name(source):
        return source
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"source is {short(source)}; give the content of a {kind} file as a string, or its path.")
    try:
        return Path(source).read_text(encoding="utf-8-sig")  # some editors write a byte order mark
    except UnicodeDecodeError:
        raise ValueError(f"{source} is not UTF-8 text; a domain is a TOML or JSON file.") from None


def _is_name(text: str) -> bool:
    """Return whether a text is the name of a file rather than a domain.

    No domain ends like one: in TOML it has two tables, which are on different lines, and in JSON its end is a brace.
    """
    return "\n" not in text and text.endswith((".toml", ".json"))


def parse_toml(text: str) -> Any:
    """Parse TOML; raise a `ValueError` if it is invalid."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"This is not valid TOML: {error}") from None


def parse_json(text: str | bytes) -> Any:
    """Parse JSON, in UTF-8 if it is bytes; raise a `ValueError` if it is invalid or an object repeats a key.

    Half of a surrogate pair, which JSON can escape and no file can hold, is invalid as well.
    """
    try:
        decoded = text if isinstance(text, str) else text.decode()  # json would guess among other encodings
        content = json.loads(decoded, object_pairs_hook=_reject_repeated_keys)
        if not decoded.isascii() or "\\u" in decoded:
            json.dumps(content, ensure_ascii=False).encode()
        return content
    except (ValueError, RecursionError) as error:
        raise ValueError(f"This is not valid JSON: {error}") from None


def is_oversized(text: bytes, more_bytes: int = 0, more_values: int = 0) -> bool:
    """Return whether TOML or JSON might take far more memory than its size, if it holds so much besides a domain."""
    return len(text) > MAX_BYTES + more_bytes or n_values(text) > MAX_VALUES + more_values


def n_values(text: bytes) -> int:
    """Return how many values TOML or JSON has at most: a value follows one of four characters."""
    return sum(text.count(mark) for mark in (b",", b"[", b"{", b"="))


def write_dict(facts: Facts) -> dict[str, Any]:
    """Write a domain as `Domain.to_dict` does."""
    features, target, target_name, origin = facts
    name = {} if target_name is None else {"name": _checked_text(target_name, "target.name")}
    return {
        **origin.to_dict(),
        "features": {
            _checked_text(n, "A feature name"): _feature_to_dict(f, f"features.{n}") for n, f in features.items()
        },
        "target": name | _feature_to_dict(target, "target"),
    }


def read_dict(content: Any) -> Facts:
    """Read what `write_dict` writes."""
    _check_keys(content, "the file", {"features", "target", *ORIGIN_KEYS}, {"features", "target"})
    if not isinstance(content["features"], dict) or not content["features"]:
        raise ValueError("features is not a table of at least one feature; write for example [features.age].")
    features = {name: _feature_from_dict(f, f"features.{short(name)[1:-1]}") for name, f in content["features"].items()}
    target, target_name = content["target"], None
    if isinstance(target, dict) and "name" in target:
        target_name = target["name"]
        if not isinstance(target_name, str):
            raise ValueError(f"target.name is {short(target_name)}; it should be the name of a column.")
        target = {key: value for key, value in target.items() if key != "name"}
    read_target = _feature_from_dict(target, "target")
    if not isinstance(read_target, Target):
        raise ValueError("target.kind is not 'numeric' or 'categorical'; use 'numeric' for whole numbers too.")
    return features, read_target, target_name, Origin.from_dict(content)


def _feature_to_dict(feature: Feature, where: str) -> dict[str, Any]:
    if isinstance(feature, Categorical):
        for i, level in enumerate(feature.levels):
            if type(level) not in (str, int, float, bool):
                raise TypeError(
                    f"{where}.levels[{i}] = {short(level)} is a {type(level).__name__}; only strings, integers, "
                    "floats and Booleans can be written to a file."
                )
            if isinstance(level, str):
                _checked_text(level, f"{where}.levels[{i}]")
        if feature.buckets is not None:
            return {"kind": "categorical", "buckets": feature.buckets}
        return {"kind": "categorical"} | ({} if feature.is_open else {"levels": list(feature.levels)})
    if isinstance(feature, Integer):
        return {"kind": "integer", "low": feature.low, "high": feature.high}
    return _date_to_dict(feature) if isinstance(feature, Date) else _numeric_to_dict(feature)


def _date_to_dict(feature: Date) -> dict[str, Any]:
    ends = {"low": str(feature.low), "high": str(feature.high)} if feature.has_range else {}
    return {"kind": "date", **ends, **({"parts": list(feature.parts)} if feature.parts else {})}


def _numeric_to_dict(feature: Numeric) -> dict[str, Any]:
    content: dict[str, Any] = {"kind": "numeric"}
    for name in ("low", "high"):
        if getattr(feature, name) is not None:
            content[name] = int_if_whole(getattr(feature, name))
    if feature.edges is not None:
        content["edges"] = [int_if_whole(e) for e in feature.edges]
    if feature.scale != "linear":
        content["scale"] = feature.scale
    return content


def _checked_text(value: str, where: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise TypeError(f"{where} = {value!a} is not valid Unicode and cannot be written to a file.") from None
    return value


def _toml_key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else toml_value(_checked_text(name, "A feature name"))


def toml_value(value: Any) -> str:
    """Write a value as TOML has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        parts = [toml_value(v) for v in value]
        line = f"[{', '.join(parts)}]"
        return line if len(line) <= _MAX_LINE_LENGTH else "[\n" + "".join(f"    {p},\n" for p in parts) + "]"
    if isinstance(value, dict):  # a ledger: for programs, so as text in one line
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str):
        # TOML has the escapes of JSON, but requires DEL to be escaped too. Some editors end a line at U+0085 or U+2028,
        # and terminals obey other characters that do not print.
        return "".join(c if c.isprintable() else _toml_escape(c) for c in json.dumps(value, ensure_ascii=False))
    return repr(value)


def _toml_escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def _reject_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {short(key)} occurs twice in one object.")
        result[key] = value
    return result


def _check_keys(content: Any, where: str, allowed: set[str], needed: set[str]) -> None:
    if not isinstance(content, dict):
        raise ValueError(f"{where} is {short(content)}; it should be a table with {', '.join(sorted(needed))}.")
    for key in content:
        if key not in allowed:
            raise ValueError(f"{where} has the unknown key {short(key)}; use {', '.join(sorted(allowed))}.")
    for key in sorted(needed):
        if key not in content:
            raise ValueError(f"{where} lacks {key}; it should have {', '.join(sorted(needed))}.")


def _feature_from_dict(content: Any, where: str) -> Feature:
    kind = content.get("kind") if isinstance(content, dict) else None
    if kind == "categorical":
        _check_keys(content, where, {"kind", "levels", "buckets"}, {"kind"})
        levels = content.get("levels", [])
        if not isinstance(levels, list):
            raise ValueError(f"{where}.levels is {short(levels)}; it should be a list.")
        for i, level in enumerate(levels):
            if type(level) not in (str, int, float, bool):
                raise ValueError(f"{where}.levels[{i}] is {short(level)}; use strings, numbers, true or false.")
    elif isinstance(kind, str) and kind in _KEYS:
        needed = {"kind", "low", "high"} if kind == "integer" else {"kind"}
        _check_keys(content, where, {"kind", *_KEYS[kind]}, needed)
    else:
        every = {"kind", "levels", "buckets", *(key for keys in _KEYS.values() for key in keys)}
        _check_keys(content, where, every, {"kind"})
        raise ValueError(f"{where}.kind is {short(kind)}; use 'numeric', 'integer', 'date' or 'categorical'.")
    arguments = {key: value for key, value in content.items() if key != "kind"}
    try:
        return _KINDS[kind](**arguments)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from None
