"""Domains as TOML, JSON and dicts, their origin, and size limits that let models which use them be written."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from diprime.domain.features import (
    Categorical,
    Date,
    Feature,
    Integer,
    Numeric,
    Target,
    checked_markers,
    int_if_whole,
    short,
)
from diprime.privacy.charges import VoidReason
from diprime.privacy.ledger import Ledger

if TYPE_CHECKING:
    from diprime.domain.domain import Domain

Kind = Literal["declared", "learned", "inferred"]

WORDS: dict[Kind, str] = {"declared": "declared", "learned": "learnt privately", "inferred": "inferred from the data"}
"""Text forms of the kinds of origin."""

REVIEWER_PLACEHOLDER = "your name"
"""Text in place of a reviewer's name in a draft."""

_MAX_REVIEWER = 200  # characters

ORIGIN_KEYS = ("origin", "reviewed_by", "ledger")
"""Keys of a file that state the origin of the domain."""

MAX_BYTES = 1 << 24
MAX_VALUES = 1 << 19
"""Maximum text and number of values of a domain. Two bytes of text may become an object of hundreds of bytes."""
_MAX_LINE_LENGTH = 100  # of a list in TOML
_KEYS = {"numeric": ("low", "high", "scale", "edges"), "integer": ("low", "high"), "date": ("low", "high", "parts")}

TextOrPath = str | os.PathLike[str]
"""Content of a file, or its path."""

_TOO_LARGE = (
    "The domain is too large for a model file, which can have at most {values:,} values and {bytes:,} "
    "bytes of text. Declare fewer columns, or use Categorical(n_buckets=254) for columns with many "
    "categories."
)
_LEDGER_BYTES, _LEDGER_VALUES = 1 << 17, 1 << 12  # of the ledger of a learnt domain
_RANGE_BYTES, _RANGE_VALUES = 256, 8  # of a learnt range: two numbers, or two dates and their parts
_MIN_BYTES, _MIN_VALUES = 1024, 16  # for the categories of a column; with less, learning them is useless
_INDENT = 12  # bytes around a category on its own line


@dataclass(frozen=True)
class Origin:
    """Origin of a domain: public knowledge, a private release that was charged, or the data themselves."""

    kind: Kind = "declared"
    reviewed_by: str | None = field(default=None, kw_only=True)  # person who declares the domain public knowledge
    # Cost of learning the domain, which the ledger of every model that uses the domain includes.
    ledger: Ledger | None = field(default=None, kw_only=True, hash=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in WORDS:
            raise ValueError(f"The kind of an origin must be {' or '.join(map(repr, WORDS))}, got {self.kind!r}.")
        if (self.kind == "learned") is not isinstance(self.ledger, Ledger):
            raise ValueError("An origin must have a ledger if the domain was learnt privately, and only then.")
        if self.reviewed_by is not None:
            _check_reviewer(self.reviewed_by)
            if self.kind == "inferred":
                raise ValueError("A reviewed domain is declared. Use Origin('declared', reviewed_by=...).")

    def __str__(self) -> str:
        return WORDS[self.kind] + (f", reviewed by {self.reviewed_by}" if self.reviewed_by else "")

    @property
    def reason_not_private(self) -> VoidReason | None:
        """Reason why a model that uses the domain is not private, or None."""
        return VoidReason.INFERRED_DOMAIN if self.kind == "inferred" else None

    @property
    def notes(self) -> list[str]:
        """Sentences about the domain, for readers of the model's ledger."""
        notes = [] if self.ledger is None else ["The domain was learnt privately; its cost is included above."]
        if self.reviewed_by is not None:
            notes.append(f"{self.reviewed_by} reviewed the domain and declares it public knowledge.")
        return notes

    def reviewed(self, reviewer: str) -> Origin:
        """Return the origin once a person declares the domain public knowledge. The cost of learning it remains."""
        _check_reviewer(reviewer)
        return Origin("declared" if self.ledger is None else "learned", reviewed_by=reviewer, ledger=self.ledger)

    def learnt(self, ledger: Ledger) -> Origin:
        """Return the origin of a declared domain once its undeclared parts have been learnt."""
        return Origin("learned", reviewed_by=self.reviewed_by, ledger=ledger)

    def check_learnable(self) -> None:
        """Refuse to learn more of a domain that is not declared, because its ledger could not state the whole cost."""
        if self.kind != "declared":
            raise ValueError(
                f"Only a declared domain can be completed by learning, but this one was {WORDS[self.kind]}. Review "
                "it with Domain.reviewed, or declare its features."
            )

    @classmethod
    def merge(cls, origins: Sequence[Origin]) -> Origin:
        """Return the origin of a domain shared by models of disjoint populations: the least private one."""
        for origin in origins:
            if origin.reason_not_private is not None:
                return origin
        ledgers = {origin.ledger.to_json(): origin.ledger for origin in origins if origin.ledger is not None}
        if not ledgers:
            return origins[0]
        ledger = next(iter(ledgers.values())) if len(ledgers) == 1 else Ledger.merge(list(ledgers.values()))
        return cls("learned", ledger=ledger)

    def to_dict(self) -> dict[str, Any]:
        """Return the origin as entries of a file: none if the domain is declared and was not reviewed."""
        if self == Origin():
            return {}
        reviewer = {} if self.reviewed_by is None else {"reviewed_by": self.reviewed_by}
        ledger = {} if self.ledger is None else {"ledger": self.ledger.to_dict()}
        return {"origin": self.kind, **reviewer, **ledger}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Origin:
        """Read the output of :meth:`to_dict`. Adding ``reviewed_by`` to a draft declares it."""
        kind = content.get("origin", "declared")
        if not isinstance(kind, str) or kind not in WORDS:
            raise ValueError(f"origin must be {' or '.join(map(repr, WORDS))}.")
        origin = cls(kind, ledger=_read_ledger(content))
        return origin.reviewed(content["reviewed_by"]) if "reviewed_by" in content else origin


def _read_ledger(content: dict[str, Any]) -> Ledger | None:
    if "ledger" not in content:
        return None
    ledger = content["ledger"]
    try:
        return Ledger.from_json(ledger) if isinstance(ledger, str) else Ledger.from_dict(ledger)  # in TOML, it is text
    except (ValueError, RecursionError) as error:
        raise ValueError(f"ledger cannot be read: {error}") from None


def _check_reviewer(reviewer: object) -> None:
    """Refuse anything but a name. It must not contain control characters, because terminals print it."""
    is_name = isinstance(reviewer, str) and reviewer.strip() and reviewer.isprintable()
    if not is_name or reviewer == REVIEWER_PLACEHOLDER or len(str(reviewer)) > _MAX_REVIEWER:
        raise ValueError(
            "reviewed_by must be the name of the person who has checked that every line is public knowledge, "
            'for example reviewed_by = "Jane Doe, data protection".'
        )


if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]


_KINDS: Mapping[str, type[Feature]] = {
    "numeric": Numeric, "integer": Integer, "date": Date, "categorical": Categorical
}  # fmt: skip


def write_toml(domain: Domain) -> str:
    """Return a domain as TOML."""
    content = write_dict(domain)
    tables = [(f"features.{_toml_key(name)}", feature) for name, feature in content["features"].items()]
    tables.append(("target", content["target"]))
    top = {key: value for key, value in content.items() if key not in ("features", "target")}
    texts = ["".join(f"{line}\n" for line in _toml_lines(top))] if top else []
    texts += [_toml_table(header, entries) for header, entries in tables]
    return "\n".join(texts)


def write_feature(name: str, feature: Feature) -> str:
    """Return the part of a TOML domain that describes one feature."""
    return _toml_table(f"features.{_toml_key(name)}", _feature_to_dict(feature, f"feature {name!r}"))


def _toml_table(header: str, entries: dict[str, Any]) -> str:
    return "\n".join([f"[{header}]", *_toml_lines(entries)]) + "\n"


def _toml_lines(entries: dict[str, Any]) -> list[str]:
    return [f"{key} = {toml_value(value)}" for key, value in entries.items()]


def read_text(source: TextOrPath, kind: str) -> str:
    """Return the text of a domain, which is read from a file if a path is given."""
    if isinstance(source, str) and not _is_name(source):
        return source
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"source must be the content of a {kind} file as a string, or its path, got {short(source)}.")
    try:
        return Path(source).read_text(encoding="utf-8-sig")  # some editors write a byte order mark
    except UnicodeDecodeError:
        raise ValueError(f"{source} is not UTF-8 text. Pass a domain as a TOML or JSON file.") from None


def _is_name(text: str) -> bool:
    """Return whether text is a file name. A TOML domain has several lines, and a JSON domain ends in a brace."""
    return "\n" not in text and text.endswith((".toml", ".json"))


def parse_toml(text: str) -> Any:
    """Parse TOML, and raise `ValueError` if it is invalid."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"This is not valid TOML: {error}") from None


def parse_json(text: str | bytes) -> Any:
    """Parse JSON, in UTF-8 if it is bytes, and raise `ValueError` if it is invalid or an object repeats a key."""
    try:
        decoded = text if isinstance(text, str) else text.decode()  # json would guess the encoding
        content = json.loads(decoded, object_pairs_hook=_reject_repeated_keys)
        if not decoded.isascii() or "\\u" in decoded:
            json.dumps(content, ensure_ascii=False).encode()  # fails for half of a surrogate pair, which no file holds
        return content
    except (ValueError, RecursionError) as error:
        raise ValueError(f"This is not valid JSON: {error}") from None


def is_oversized(text: bytes, more_bytes: int = 0, more_values: int = 0) -> bool:
    """Return whether TOML or JSON exceeds the limits of a domain, plus an allowance for other content."""
    return len(text) > MAX_BYTES + more_bytes or n_values(text) > MAX_VALUES + more_values


def n_values(text: bytes) -> int:
    """Return an upper bound of the number of values in TOML or JSON: each follows one of four characters."""
    return sum(text.count(mark) for mark in (b",", b"[", b"{", b"="))


def write_dict(domain: Domain) -> dict[str, Any]:
    """Return a domain as a dict of plain values."""
    name = {} if domain.target_name is None else {"name": _checked_text(domain.target_name, "target.name")}
    return {
        **domain.origin.to_dict(),
        **({"missing": list(domain.missing)} if domain.missing else {}),
        "features": {
            _checked_text(n, "A feature name"): _feature_to_dict(f, f"features.{n}") for n, f in domain.features.items()
        },
        "target": name | _feature_to_dict(domain.target, "target"),
    }


def read_dict(content: Any) -> dict[str, Any]:
    """Read the output of `write_dict`, and return the arguments of `Domain`."""
    _check_keys(content, "the file", {"features", "target", "missing", *ORIGIN_KEYS}, {"features", "target"})
    if not isinstance(content["features"], dict) or not content["features"]:
        raise ValueError("features must be a table with at least one feature, such as [features.age].")
    features = {name: _feature_from_dict(f, f"features.{short(name)[1:-1]}") for name, f in content["features"].items()}
    target, target_name = content["target"], None
    if isinstance(target, dict) and "name" in target:
        target_name = target["name"]
        if not isinstance(target_name, str):
            raise ValueError(f"target.name must be the name of a column, got {short(target_name)}.")
        target = {key: value for key, value in target.items() if key != "name"}
    read_target = _feature_from_dict(target, "target")
    if not isinstance(read_target, Target):
        raise ValueError("target.kind must be 'numeric' or 'categorical'. Use 'numeric' for integers, too.")
    return {
        "features": features,
        "target": read_target,
        "target_name": target_name,
        "missing": checked_markers(content.get("missing", ())),
        "origin": Origin.from_dict(content),
    }


def _feature_to_dict(feature: Feature, where: str) -> dict[str, Any]:
    if isinstance(feature, Categorical):
        for i, category in enumerate(feature.categories):
            if type(category) not in (str, int, float, bool):
                raise TypeError(
                    f"{where}.categories[{i}] = {short(category)} is a {type(category).__name__}; only strings, "
                    "integers, floats and Booleans can be written to a file."
                )
            if isinstance(category, str):
                _checked_text(category, f"{where}.categories[{i}]")
        if feature.n_buckets is not None:
            return {"kind": "categorical", "n_buckets": feature.n_buckets}
        return {"kind": "categorical"} | ({} if feature.is_undeclared else {"categories": list(feature.categories)})
    if isinstance(feature, Integer):
        return {"kind": "integer", "low": feature.low, "high": feature.high}
    if isinstance(feature, Date):
        ends = {"low": str(feature.low), "high": str(feature.high)} if feature.has_range else {}
        return {"kind": "date", **ends, **({"parts": list(feature.parts)} if feature.parts else {})}
    return _numeric_to_dict(feature)


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
    """Return a value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        parts = [toml_value(v) for v in value]
        line = f"[{', '.join(parts)}]"
        return line if len(line) <= _MAX_LINE_LENGTH else "[\n" + "".join(f"    {p},\n" for p in parts) + "]"
    if isinstance(value, dict):  # a ledger, which only programs read, so it is one line of text
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str):
        # TOML has the escapes of JSON, but also requires DEL to be escaped. Some editors end a line at U+0085 or
        # U+2028, and terminals interpret other characters that are not printable.
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
        raise ValueError(f"{where} must be a table with {', '.join(sorted(needed))}, got {short(content)}.")
    for key in content:
        if key not in allowed:
            raise ValueError(f"{where} has the unknown key {short(key)}; use {', '.join(sorted(allowed))}.")
    for key in sorted(needed):
        if key not in content:
            raise ValueError(f"{where} lacks {key}. It must have {', '.join(sorted(needed))}.")


def _feature_from_dict(content: Any, where: str) -> Feature:
    kind = content.get("kind") if isinstance(content, dict) else None
    if kind == "categorical":
        _check_keys(content, where, {"kind", "categories", "n_buckets"}, {"kind"})
        categories = content.get("categories", [])
        if not isinstance(categories, list):
            raise ValueError(f"{where}.categories must be a list, got {short(categories)}.")
        for i, category in enumerate(categories):
            if type(category) not in (str, int, float, bool):
                raise ValueError(
                    f"{where}.categories[{i}] must be a string, a number, true or false, got {short(category)}."
                )
    elif isinstance(kind, str) and kind in _KEYS:
        needed = {"kind", "low", "high"} if kind == "integer" else {"kind"}
        _check_keys(content, where, {"kind", *_KEYS[kind]}, needed)
    else:
        every = {"kind", "categories", "n_buckets", *(key for keys in _KEYS.values() for key in keys)}
        _check_keys(content, where, every, {"kind"})
        raise ValueError(f"{where}.kind must be 'numeric', 'integer', 'date' or 'categorical', got {short(kind)}.")
    arguments = {key: value for key, value in content.items() if key != "kind"}
    try:
        return _KINDS[kind](**arguments)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from None


@dataclass(frozen=True)
class FileQuota:
    """Size of a text, or space for it in a file, in bytes and in values as counted by `is_oversized`."""

    n_bytes: int
    n_values: int

    @classmethod
    def of(cls, text: str) -> FileQuota:
        """Return the size of a text."""
        data = text.encode()
        return cls(len(data), n_values(data))


WHOLE_FILE = FileQuota(MAX_BYTES, MAX_VALUES)


def check_size(domain: Domain) -> None:
    """Raise `ValueError` if the domain does not fit into a model file.

    Domains that cannot be written for other reasons, such as categories that are tuples, are accepted for use in
    memory.
    """
    try:
        text = json.dumps(write_dict(domain), ensure_ascii=False)
    except (TypeError, ValueError):  # integers of thousands of digits cannot be written
        return
    if is_oversized(text.encode()):
        raise _too_large()


def quota_per_column(domain: Domain, n_columns: int) -> FileQuota:
    """Return the space in a file for the categories of each of ``n_columns`` columns, in TOML and in JSON."""
    try:
        sizes = [FileQuota.of(text) for text in (domain.to_toml(), domain.to_json())]
    except (TypeError, ValueError):
        return WHOLE_FILE
    n_open = sum(feature.is_undeclared for feature in (*domain.features.values(), domain.target))
    n_bytes = MAX_BYTES - max(size.n_bytes for size in sizes) - _LEDGER_BYTES - n_open * _RANGE_BYTES
    values = MAX_VALUES - max(size.n_values for size in sizes) - _LEDGER_VALUES - n_open * _RANGE_VALUES
    if n_bytes < n_columns * _MIN_BYTES or values < n_columns * _MIN_VALUES:
        raise _too_large()
    return FileQuota(n_bytes // max(n_columns, 1), values // max(n_columns, 1))


def categories_within_quota(categories: Sequence[Any], quota: FileQuota) -> list[Any]:
    """Return the categories that fit into a quota, in order, and only the shortest if not all of them fit.

    Released categories may be omitted at no cost. The choice depends on the released categories only.
    """
    sizes = [_size_of_category(category) for category in categories]
    kept, n_bytes, values = set(), quota.n_bytes, quota.n_values
    for i in sorted(range(len(categories)), key=lambda i: sizes[i].n_bytes):
        n_bytes, values = n_bytes - sizes[i].n_bytes, values - sizes[i].n_values
        if min(n_bytes, values) < 0:
            break
        kept.add(i)
    return [category for i, category in enumerate(categories) if i in kept]


def _size_of_category(category: Any) -> FileQuota:
    """Return an upper bound of the size of a category in a list."""
    try:
        size = FileQuota.of(toml_value(category))
    except ValueError:  # integers of thousands of digits cannot be written
        return FileQuota(2 * MAX_BYTES, 1)
    return FileQuota(size.n_bytes + _INDENT, size.n_values + 1)


def _too_large() -> ValueError:
    """Return the error of a domain that does not fit into a model file."""
    return ValueError(_TOO_LARGE.format(values=MAX_VALUES, bytes=MAX_BYTES))
