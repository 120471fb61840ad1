"""Model files: a JSON header, flat arrays for the trees, and a checksum, without code or pickle.

A file consists of, in this order:

* eight bytes, ``DIPRIME`` and a zero;
* the length of the header, an unsigned little-endian integer of eight bytes;
* the header, a JSON object in UTF-8;
* the body;
* the SHA-256 of everything before it, 32 bytes.

The header contains ``format`` (1), ``diprime`` (the version of the library that wrote it), ``model`` ("forest" or
"boosting"), ``task``, ``parameters``, ``domain``, ``domain_inferred``, ``columns_named``, ``ledger`` and ``depths`` (of
the trees). Parameters that a later version of the library has added may be missing from ``parameters``, and get their
defaults; unknown parameters are refused. The body consists of the arrays of `diprime.Forest` one after the other,
little-endian and C-ordered: ``features`` (int32), ``masks`` (32 bytes each), ``values`` and ``counts`` (float64). Their
lengths follow from the depths and the target. For a boosted model, the header also contains ``quantum_exponent``, the
base-2 logarithm of the quantum, ``code_noise``, ``n_records``, ``records_noise``, ``trees_of_fits`` and
``parts_of_curve_noise``. Its body continues with the arrays ``offset``, ``code_weights``, and the table and the curve
noise of ``steps`` (float64) of `diprime.AdditiveForest`.

A header has at most `diprime.domain.files.MAX_BYTES` and `MAX_VALUES` for its domain, and `MORE_BYTES` and
`MORE_VALUES` for everything else. A model has at most `MAX_TREES` trees. A fit refuses a domain that is too large
before anything is charged.

The checksum detects accidents, not attacks: anyone can write a file with any ledger. `diprime.load` therefore compares
the bytes with a digest that the reader trusts. For any file, the reader either returns a valid model or raises a
`ModelFileError`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from diprime._util import __version__
from diprime._util.files import atomic_file, read_regular
from diprime.domain import Domain
from diprime.domain.files import is_oversized, parse_json
from diprime.kernels.constants import MASK_BYTES, N_CODES
from diprime.model.additive import MAX_EXPONENT, AdditiveForest
from diprime.model.effects import N_COLUMNS, Steps, link_of
from diprime.model.trees import Forest, Trees
from diprime.privacy.charges import Charge, ReleaseKind
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import PureEpsilon
from diprime.privacy.mechanisms.laplace import MIN_EPSILON

FORMAT = 1
MAGIC = b"DIPRIME\0"
MAX_BYTES = 1 << 31  # larger than any useful model, so that a malicious file cannot fill the memory
MAX_TREES = 1 << 17  # enough to merge two forests with the maximum number of trees of a fit
MORE_BYTES, MORE_VALUES = 1 << 22, 1 << 18  # limits of a header without its domain: all depths, and the ledger

_LENGTH = 8
_CHECKSUM = 32
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_Result = TypeVar("_Result")

Model = Forest | AdditiveForest
_Shape = tuple[str, tuple[int, ...]]
_KINDS: dict[type[Model], str] = {Forest: "forest", AdditiveForest: "boosting"}
_LEAF_CHARGES = {"forest": ReleaseKind.LEAF_SUMS, "boosting": ReleaseKind.GRADIENT_SUMS}  # charges of the leaves
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
_BOOSTING_ENTRIES: dict[str, type] = {
    "quantum_exponent": int,
    "code_noise": float,
    "n_records": float,
    "records_noise": float,
    "trees_of_fits": list,
    "parts_of_curve_noise": list,
}


class ModelFileError(ValueError):
    """Error raised if a file is not a valid model."""


@dataclass(frozen=True)
class ModelContent:
    """Content of a model file: a fitted estimator without seeds and machine-specific parameters."""

    parameters: dict[str, Any]  # constructor parameters as plain data; missing parameters have their defaults
    domain: Domain
    domain_inferred: bool  # whether the estimator infers the domain when it is fitted again
    columns_named: bool  # whether the columns of the fit had names
    ledger: Ledger
    forest: Model


def save_content(content: ModelContent, path: str | os.PathLike[str]) -> None:
    """Write a model file completely or not at all."""
    data = to_bytes(content)
    try:
        from_bytes(data)  # a file that cannot be read is not written
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)} was not written, because it {error}") from None
    with atomic_file(path) as file:
        file.write(data)


def read_file(path: str | os.PathLike[str], sha256: str | None = None) -> bytes:
    """Return the bytes of a model file, read once. Raise an error if ``sha256`` is given and is not their digest."""
    if sha256 is not None and not (isinstance(sha256, str) and _DIGEST.fullmatch(sha256)):
        raise ValueError("sha256 must be the 64 hexadecimal digits that sha256sum prints.")
    data = read_regular(path, MAX_BYTES, "model file", lambda wrong: ModelFileError(f"{path} {wrong}"))
    found = hashlib.sha256(data).hexdigest()
    if sha256 is not None and not hmac.compare_digest(found, sha256.lower()):
        raise ModelFileError(
            f"{path} is not the expected file: its SHA-256 is {found}, but sha256 is {sha256}. Download the "
            "file again, or ask the person who made the model for its digest."
        )
    return data


def load_content(data: bytes, path: str | os.PathLike[str]) -> ModelContent:
    """Read the bytes of a model file. For any problem, raise a `ModelFileError` that names the file."""
    try:
        return from_bytes(data)
    except ModelFileError as error:
        raise ModelFileError(f"{path} {error}") from None


def to_bytes(content: ModelContent) -> bytes:
    """Return the bytes of a model file."""
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
    if isinstance(forest, AdditiveForest):
        header["quantum_exponent"] = math.frexp(forest.quantum)[1] - 1
        header |= {"code_noise": forest.code_noise, "trees_of_fits": list(forest.steps.sizes)}
        header["parts_of_curve_noise"] = [len(noise) for noise in forest.steps.curve_noise]
        header |= {"n_records": forest.n_records, "records_noise": forest.records_noise}
    text = json.dumps(header, ensure_ascii=False).encode()
    parts = [MAGIC, len(text).to_bytes(_LENGTH, "little"), text, *(array.tobytes() for array in forest.file_arrays)]
    data = b"".join(parts)
    return data + hashlib.sha256(data).digest()


def from_bytes(data: bytes) -> ModelContent:
    """Read the content of a model file. Error messages begin with a verb, to be preceded by the file name."""
    if data[: len(MAGIC)] != MAGIC:
        raise ModelFileError("is not a diprime model. Pass a file written by model.save() or 'diprime fit'.")
    start = len(MAGIC) + _LENGTH
    stop = len(data) - _CHECKSUM
    view = memoryview(data)  # slices are not copied
    if stop < start or hashlib.sha256(view[:stop]).digest() != view[stop:]:
        raise ModelFileError("is incomplete or damaged: its checksum does not match its content. Copy it again.")
    body = start + int.from_bytes(data[len(MAGIC) : start], "little")
    if body > stop:
        raise ModelFileError("is not a valid model: its header is longer than the file.")
    try:
        text = data[start:body]
        if is_oversized(text, MORE_BYTES, MORE_VALUES):
            raise ValueError("its header is too large.")
        header = parse_json(text)
        version = header.get("format") if isinstance(header, dict) else None
        if type(version) is not int:
            raise ValueError("it does not state its format.")
        if version != FORMAT:
            raise ModelFileError(
                f"has format {version}, but diprime {__version__} reads only format {FORMAT}. Install the version "
                "of diprime that wrote the file."
            )
        return _read(header, view[body:stop])
    except ModelFileError:
        raise
    except (ValueError, TypeError, RecursionError, MemoryError) as error:
        raise ModelFileError(f"is not a valid model: {str(error).rstrip('.')}.") from None


def _read(header: dict[str, Any], body: memoryview) -> ModelContent:
    kind = header.get("model")
    if kind not in _LEAF_CHARGES:
        raise ValueError("it does not state the kind of model.")
    _check_entries(header, _ENTRIES | _BOOSTING_ENTRIES if kind == "boosting" else _ENTRIES)
    domain = _within("domain", Domain.from_dict, header["domain"])
    if not domain.is_complete:
        raise ValueError("its domain lacks ranges or categories.")
    if header["task"] != domain.task:
        raise ValueError("its task does not match its target.")
    forest: Model = (_read_boosted if kind == "boosting" else _read_forest)(header, body, domain)
    forest.check(domain)
    ledger = _within("ledger", lambda content: _read_ledger(content, _LEAF_CHARGES[kind]), header["ledger"])
    _check_origin(domain, header["domain_inferred"], ledger)
    return ModelContent(
        header["parameters"], domain, header["domain_inferred"], header["columns_named"], ledger, forest
    )


def _check_origin(domain: Domain, is_inferred: bool, ledger: Ledger) -> None:
    """Raise an error if the domain was inferred from the data, unless both the domain and the ledger state this."""
    if is_inferred and domain.origin.kind != "inferred":
        raise ValueError("its domain was inferred from the data, but it does not state this.")
    if domain.origin.reason_not_private not in (None, *ledger.voided_by):
        raise ValueError("its domain was inferred from the data, but its ledger does not state this.")


def _check_entries(header: dict[str, Any], expected: dict[str, type]) -> None:
    for name, kind in expected.items():
        if type(header.get(name)) is not kind:
            raise ValueError(f"{name} is missing from its header, or has the wrong type.")
    unknown = header.keys() - expected.keys()
    if unknown:
        raise ValueError(f"its header has {len(unknown)} unknown entries.")


def _read_ledger(content: Any, leaf_charge: ReleaseKind) -> Ledger:
    """Read a ledger. Raise an error unless all of its parts charged leaves with noise of known size."""
    ledger = Ledger.from_dict(content)
    unread = [ledger]
    while unread:
        part = unread.pop()
        unread += part.merged
        leaves = [charge for charge in part.charges if charge.kind is leaf_charge]
        if not part.merged and not (leaves and all(map(_has_noise_of_known_size, leaves))):
            raise ValueError("it does not state the cost of the leaves.")
    return ledger


def _has_noise_of_known_size(leaves: Charge) -> bool:
    is_charged = bool(leaves.n_releases and leaves.measure.cost)
    if leaves.kind is not ReleaseKind.LEAF_SUMS:
        return is_charged
    # The noise of a forest's leaves is computed from their epsilon.
    return is_charged and isinstance(leaves.measure, PureEpsilon) and leaves.epsilon >= MIN_EPSILON


def _within(where: str, read: Callable[[Any], _Result], content: Any) -> _Result:
    try:
        return read(content)
    except (ValueError, TypeError) as error:
        raise ValueError(f"its {where} cannot be read: {error}") from None


def _read_forest(header: dict[str, Any], body: memoryview, domain: Domain) -> Forest:
    depths = _read_depths(header["depths"], 0)
    n_outputs = domain.layout.n_outputs if domain.task == "classification" else 1
    features, masks, values, counts = _cut(body, _shapes_of_trees(depths, n_outputs))
    return Forest(depths, features, masks, values, counts)


def _read_boosted(header: dict[str, Any], body: memoryview, domain: Domain) -> AdditiveForest:
    depths, exponent = _read_depths(header["depths"], 0), header["quantum_exponent"]
    if abs(exponent) > MAX_EXPONENT:
        raise ValueError("its quantum is too large or too small.")
    quantum = math.ldexp(1.0, exponent)
    link = link_of(domain, quantum)
    shapes = [
        *_shapes_of_trees(depths, link.n_scores),
        ("<f8", (link.n_scores,)),
        ("<f8", (domain.n_features, N_CODES)),
        ("<f8", (len(depths), N_COLUMNS)),
    ]
    sizes, parts = header["trees_of_fits"], header["parts_of_curve_noise"]
    if not all(type(size) is int for size in sizes):
        raise ValueError("the numbers of trees of its fits are not integers.")
    if not all(type(part) is int and 0 <= part <= N_CODES for part in parts):
        raise ValueError("the numbers of parts of the noise of its curves are not integers from 0 to 256.")
    features, masks, values, counts, offset, code_weights, table, *noise = _cut(
        body, shapes + [("<f8", (part, N_CODES)) for part in parts]
    )
    trees = depths, features, masks, values, counts
    steps = Steps(table, tuple(sizes), tuple(noise))
    codes = code_weights, header["code_noise"], header["n_records"], header["records_noise"]
    return AdditiveForest(*trees, offset, quantum, *codes, steps, domain.n_codes, domain.is_categorical, link)


def _read_depths(depths: list[Any], least: int) -> npt.NDArray[np.int64]:
    if not 1 <= len(depths) <= MAX_TREES:
        raise ValueError("its number of trees is impossible.")
    if not all(type(depth) is int and least <= depth <= Trees.MAX_DEPTH for depth in depths):
        raise ValueError(f"the depths of its trees are not integers from {least} to {Trees.MAX_DEPTH}.")
    return np.array(depths, dtype=np.int64)


def _shapes_of_trees(depths: npt.NDArray[np.int64], n_outputs: int) -> list[_Shape]:
    """Return the types and shapes of the arrays of trees, in the order of the file."""
    n_leaves = int((1 << depths).sum())
    n_splits = n_leaves - len(depths)
    return [("<i4", (n_splits,)), ("u1", (n_splits, MASK_BYTES)), ("<f8", (n_leaves, n_outputs)), ("<f8", (n_leaves,))]


def _cut(body: memoryview, shapes: list[_Shape]) -> list[npt.NDArray[Any]]:
    """Divide the body into arrays, after checking its length against their shapes."""
    sizes = [np.dtype(dtype).itemsize * int(np.prod(shape, dtype=object)) for dtype, shape in shapes]
    if sum(sizes) != len(body):
        raise ValueError("the lengths of its arrays do not match its header.")
    arrays: list[npt.NDArray[Any]] = []
    offset = 0
    for (dtype, shape), size in zip(shapes, sizes, strict=True):
        array = np.frombuffer(body[offset : offset + size], dtype=dtype).reshape(shape)
        arrays.append(array.astype(np.dtype(dtype).newbyteorder("=")))
        offset += size
    return arrays
