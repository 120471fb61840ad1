"""Fitted models as files: JSON for what people read, flat arrays for the trees, and a checksum. No code, no pickle.

A file is, in this order and for every version of the format:

* eight bytes, ``DIPRIME`` and a zero;
* the length of the header, an unsigned little-endian integer of eight bytes;
* the header, a JSON object in UTF-8; ``format`` is its version;
* the body, as that version of the format has it;
* the SHA-256 of everything before, 32 bytes.

Version 3 has ``format``, ``diprime`` (the version of the library that wrote it), ``model`` ("forest" or "boosting"),
``task``, ``parameters``, ``domain``, ``domain_inferred``, ``columns_named``, ``ledger`` and ``depths`` (of the trees)
in its header. ``parameters`` may lack those of later versions of the library, which then get their defaults; unknown
ones are refused. Its body is the arrays of `diprime.Forest` one after the other, little-endian and C-ordered:
``features`` (int32), ``masks`` (32 bytes each), ``values`` and ``counts`` (float64). Their lengths follow from the
depths and the target. For a boosted model, the header also has ``quantum_exponent``, the base-2 logarithm of the
quantum, and the body goes on with the arrays ``offset`` and ``code_weights`` (float64) of `diprime.AdditiveForest`.

Version 2 is the same without ``model``, and all of them are forests. Version 1 is like version 2, except that the
charges of its ledger have one text, ``what``, for ``kind`` and ``level``.

A header has at most `diprime.domain.files.MAX_BYTES` and `MAX_VALUES` for its domain, and `MORE_BYTES` and
`MORE_VALUES` for all else; a model has at most `MAX_TREES`. A fit refuses a domain that is too large before anything is
paid for.

The checksum finds accidents, not malice: whoever makes a file can write any ledger into it. Who vouches for a file is
said by a signature, which is another file (:mod:`diprime.model.signatures`). But no file,
whatever it holds, makes the reader do anything but return a sound model or raise one `ModelFileError`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from diprime._util.atomic_file import atomic_file
from diprime._util.regular_file import read_regular
from diprime._util.version import __version__
from diprime.domain import Domain, Origin
from diprime.domain.files import is_oversized, parse_json
from diprime.kernels.constants import MASK_BYTES, N_CODES
from diprime.model.additive import MAX_EXPONENT, AdditiveForest
from diprime.model.forest import Forest
from diprime.model.links import link_of
from diprime.model.noise import LEAF_SUMS, ROUND_SUMS
from diprime.model.trees import Trees
from diprime.privacy.charges import Charge
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import PureEpsilon
from diprime.privacy.mechanisms.laplace import MIN_EPSILON

FORMAT = 3
MAGIC = b"DIPRIME\0"
MAX_BYTES = 1 << 31  # more than any forest worth keeping: a larger file is refused before it fills the memory
MAX_TREES = 1 << 17  # two forests of as many trees as a fit may have, merged
MORE_BYTES, MORE_VALUES = 1 << 22, 1 << 18  # of a header besides the domain: depths of all trees, and the ledger

_LENGTH = 8
_CHECKSUM = 32
_OF_LEVEL = re.compile(r"(?P<kind>.+) of level (?P<level>[0-9]{1,6})", re.DOTALL)  # in format 1
# Domains had no origin once: these waivers, of fits and of the command line, said that one was read from the data.
_WAIVERS_BEFORE_ORIGINS = ("the domain was inferred from the data", "lines of the domain's file say that nobody")
_Result = TypeVar("_Result")

Model = Forest | AdditiveForest
_Shape = tuple[str, tuple[int, ...]]
_KINDS: dict[type[Model], str] = {Forest: "forest", AdditiveForest: "boosting"}
_LEAF_CHARGES = {"forest": LEAF_SUMS, "boosting": ROUND_SUMS}  # what pays for the leaves
_ENTRIES: dict[str, type] = {
    "format": int,
    "diprime": str,
    "model": str,
    "task": str,
    "parameters": dict,
    "domain": dict,
    "domain_inferred": bool,
    "columns_named": bool,
    "ledger": dict,
    "depths": list,
}


class ModelFileError(ValueError):
    """A file that is not a model, or not a sound one."""


@dataclass(frozen=True)
class ModelContent:
    """What a model file holds: everything that a fitted estimator does, but for settings of one machine and seeds.

    Attributes
    ----------
    parameters : dict
        Parameters of its constructor, as plain data; those that are missing have their defaults.
    domain : Domain
        The domain of the fit.
    domain_inferred : bool
        Whether the estimator was told to infer the domain, and would do so again.
    columns_named : bool
        Whether the fit saw names of columns.
    ledger : Ledger
        What was spent.
    forest : Forest or AdditiveForest
        The released trees.
    """

    parameters: dict[str, Any]
    domain: Domain
    domain_inferred: bool
    columns_named: bool
    ledger: Ledger
    forest: Model


def save_content(content: ModelContent, path: str | os.PathLike[str]) -> None:
    """Write a model file, whole or not at all."""
    data = to_bytes(content)
    try:
        from_bytes(data)  # what could not be read again is not written
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)} was not written, for it {error}") from None
    with atomic_file(path) as file:
        file.write(data)


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a model file, read once: what is checked, signed, shown and loaded is the same."""
    return read_regular(path, MAX_BYTES, "model file", lambda wrong: ModelFileError(f"{path} {wrong}"))


def load_content(data: bytes, path: str | os.PathLike[str]) -> ModelContent:
    """Read the bytes of a model file; whatever is wrong with them is a `ModelFileError` that names the file."""
    try:
        return from_bytes(data)
    except ModelFileError as error:
        raise ModelFileError(f"{path} {error}") from None


def to_bytes(content: ModelContent) -> bytes:
    """Return the content of a model file in the newest format."""
    forest = content.forest
    header: dict[str, Any] = {
        "format": FORMAT,
        "diprime": __version__,
        "model": _KINDS[type(forest)],
        "task": content.domain.task,
        "parameters": content.parameters,
        "domain": content.domain.to_dict(),
        "domain_inferred": content.domain_inferred,
        "columns_named": content.columns_named,
        "ledger": content.ledger.to_dict(),
        "depths": forest.depths.tolist(),
    }
    arrays = [
        forest.features.astype("<i4"),
        forest.masks.astype("u1"),
        forest.values.astype("<f8"),
        forest.counts.astype("<f8"),
    ]
    if isinstance(forest, AdditiveForest):
        header["quantum_exponent"] = math.frexp(forest.quantum)[1] - 1
        arrays += [forest.offset.astype("<f8"), forest.code_weights.astype("<f8")]
    text = json.dumps(header, ensure_ascii=False).encode()
    parts = [MAGIC, len(text).to_bytes(_LENGTH, "little"), text, *(array.tobytes() for array in arrays)]
    data = b"".join(parts)
    return data + hashlib.sha256(data).digest()


def from_bytes(data: bytes) -> ModelContent:
    """Read the content of a model file in any format; errors begin with a verb, for the file's name to go before."""
    if data[: len(MAGIC)] != MAGIC:
        raise ModelFileError("is not a diprime model; give a file that model.save() or 'diprime fit' has written.")
    start = len(MAGIC) + _LENGTH
    stop = len(data) - _CHECKSUM
    view = memoryview(data)  # whose parts are no copies
    if stop < start or hashlib.sha256(view[:stop]).digest() != view[stop:]:
        raise ModelFileError("is incomplete or damaged: its checksum is not that of its content; copy it again.")
    body = start + int.from_bytes(data[len(MAGIC) : start], "little")
    if body > stop:
        raise ModelFileError("is not a sound model: its header is longer than the file.")
    try:
        text = data[start:body]
        if is_oversized(text, MORE_BYTES, MORE_VALUES):
            raise ValueError("its header is too large.")
        header = parse_json(text)
        version = header.get("format") if isinstance(header, dict) else None
        if type(version) is not int or version < 1:
            raise ValueError("it does not say which format it has.")
        if version > FORMAT:
            raise ModelFileError(
                f"has format {version}, and this version of diprime, {__version__}, reads formats up to {FORMAT}; "
                "install a newer one."
            )
        return _READERS[version](header, view[body:stop])
    except ModelFileError:
        raise
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        raise ModelFileError(f"is not a sound model: {str(error).rstrip('.')}.") from None


def _read_format_3(header: dict[str, Any], body: memoryview) -> ModelContent:
    """Read the header and the body of format 3."""
    kind = header.get("model")
    if kind not in _LEAF_CHARGES:
        raise ValueError("it does not say which kind of model it is.")
    _check_entries(header, {**_ENTRIES, "quantum_exponent": int} if kind == "boosting" else _ENTRIES)
    domain = _within("domain", Domain.from_dict, header["domain"])
    if domain.is_open:
        raise ValueError("its domain lacks ranges or levels.")
    if header["task"] != domain.task:
        raise ValueError("its task is not that of its target.")
    forest = _read_boosted(header, body, domain) if kind == "boosting" else _read_forest(header, body, domain)
    forest.check(domain)
    ledger = _within("ledger", lambda content: _read_ledger(content, _LEAF_CHARGES[kind]), header["ledger"])
    return ModelContent(
        header["parameters"],
        _with_origin(domain, header, ledger),
        header["domain_inferred"],
        header["columns_named"],
        ledger,
        forest,
    )


def _with_origin(domain: Domain, header: dict[str, Any], ledger: Ledger) -> Domain:
    """Return the domain with the origin that its ledger gives it, where the file is older than origins are.

    Refuse a file whose domain was read from the data and whose ledger does not say so.
    """
    marks = [mark for mark in _WAIVERS_BEFORE_ORIGINS if any(mark in waiver for waiver in ledger.waivers)]
    if header["domain_inferred"] or marks:
        return replace(domain, origin=Origin("read"))
    if domain.origin.objection not in (None, *ledger.waivers):
        raise ValueError("its domain was read from the data, and its ledger does not say so.")
    return domain


def _check_entries(header: dict[str, Any], expected: dict[str, type]) -> None:
    for name, kind in expected.items():
        if type(header.get(name)) is not kind:
            raise ValueError(f"{name} is missing from its header, or of the wrong type.")
    unknown = header.keys() - expected.keys()
    if unknown:
        raise ValueError(f"its header has {len(unknown)} unknown entries.")


def _read_ledger(content: Any, leaf_charge: str) -> Ledger:
    ledger = Ledger.from_dict(content)
    unread = [ledger]
    while unread:
        part = unread.pop()
        unread += part.merged
        leaves = [charge for charge in part.charges if charge.kind == leaf_charge]
        if not part.merged and not (leaves and all(map(_has_noise_of_known_size, leaves))):
            raise ValueError("it does not say what the leaves cost.")
    return ledger


def _has_noise_of_known_size(leaves: Charge) -> bool:
    if not (leaves.times and leaves.measure.cost):
        return False
    # The noise of a forest's leaves is computed from their epsilon.
    return leaves.kind != LEAF_SUMS or (isinstance(leaves.measure, PureEpsilon) and leaves.epsilon >= MIN_EPSILON)


def _read_format_2(header: dict[str, Any], body: memoryview) -> ModelContent:
    """Read format 2, in which all models are forests."""
    _check_entries(header, {name: kind for name, kind in _ENTRIES.items() if name != "model"})
    return _read_format_3({**header, "model": "forest"}, body)


def _read_format_1(header: dict[str, Any], body: memoryview) -> ModelContent:
    """Read format 1 by bringing its ledger to format 2."""
    ledger = _within("ledger", _upgrade_ledger, header.get("ledger"))
    return _read_format_2({**header, "ledger": ledger}, body)


def _upgrade_ledger(data: Any) -> Any:
    """Return a ledger of format 1 as format 2 has it; what is not a ledger stays as it is, for the reader to refuse."""
    if not isinstance(data, dict) or not all(isinstance(data.get(name), list) for name in ("charges", "merged")):
        return data
    charges = [_upgrade_charge(charge) for charge in data["charges"]]
    return {**data, "charges": charges, "merged": [_upgrade_ledger(ledger) for ledger in data["merged"]]}


def _upgrade_charge(data: Any) -> Any:
    if not isinstance(data, dict) or not isinstance(data.get("what"), str) or data.keys() & {"kind", "level"}:
        raise ValueError("a charge does not say what was released.")
    rest = {name: value for name, value in data.items() if name != "what"}
    of_level = _OF_LEVEL.fullmatch(data["what"])
    if of_level is None:
        return {"kind": data["what"], **rest}
    return {"kind": of_level["kind"], "level": int(of_level["level"]), **rest}


_READERS: dict[int, Callable[[dict[str, Any], memoryview], ModelContent]] = {
    1: _read_format_1,
    2: _read_format_2,
    3: _read_format_3,
}


def _within(where: str, read: Callable[[Any], _Result], content: Any) -> _Result:
    try:
        return read(content)
    except (ValueError, TypeError) as error:
        raise ValueError(f"its {where} cannot be read: {error}") from None


def _read_forest(header: dict[str, Any], body: memoryview, domain: Domain) -> Forest:
    depths = _read_depths(header["depths"])
    n_outputs = domain.layout.n_outputs if domain.task == "classification" else 1
    features, masks, values, counts = _cut(body, _shapes_of_trees(depths, n_outputs))
    return Forest(depths, features, masks, values, counts)


def _read_boosted(header: dict[str, Any], body: memoryview, domain: Domain) -> AdditiveForest:
    depths, exponent = _read_depths(header["depths"]), header["quantum_exponent"]
    if abs(exponent) > MAX_EXPONENT:
        raise ValueError("its quantum is too large or too small.")
    quantum = math.ldexp(1.0, exponent)
    link = link_of(domain, quantum)
    shapes = [
        *_shapes_of_trees(depths, link.n_scores),
        ("<f8", (link.n_scores,)),
        ("<f8", (domain.n_features, N_CODES)),
    ]
    features, masks, values, counts, offset, code_weights = _cut(body, shapes)
    return AdditiveForest(depths, features, masks, values, counts, offset, quantum, code_weights, link)


def _read_depths(depths: list[Any]) -> npt.NDArray[np.int64]:
    if not 1 <= len(depths) <= MAX_TREES:
        raise ValueError("it has no trees, or impossibly many.")
    if not all(type(depth) is int and 1 <= depth <= Trees.MAX_DEPTH for depth in depths):
        raise ValueError(f"the depths of its trees are not integers from 1 to {Trees.MAX_DEPTH}.")
    return np.array(depths, dtype=np.int64)


def _shapes_of_trees(depths: npt.NDArray[np.int64], n_outputs: int) -> list[_Shape]:
    """Return the types and shapes of the arrays of trees, in the order of the file."""
    n_leaves = int((1 << depths).sum())
    n_splits = n_leaves - len(depths)
    return [("<i4", (n_splits,)), ("u1", (n_splits, MASK_BYTES)), ("<f8", (n_leaves, n_outputs)), ("<f8", (n_leaves,))]


def _cut(body: memoryview, shapes: list[_Shape]) -> list[npt.NDArray[Any]]:
    """Cut the body into arrays, after comparing its length with what their shapes say."""
    sizes = [np.dtype(dtype).itemsize * int(np.prod(shape, dtype=object)) for dtype, shape in shapes]
    if sum(sizes) != len(body):
        raise ValueError("its arrays are not as long as its header says.")
    arrays: list[npt.NDArray[Any]] = []
    offset = 0
    for (dtype, shape), size in zip(shapes, sizes, strict=True):
        array = np.frombuffer(body[offset : offset + size], dtype=dtype).reshape(shape)
        arrays.append(array.astype(np.dtype(dtype).newbyteorder("=")))
        offset += size
    return arrays
