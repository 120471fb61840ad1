"""Changed files keep lengths and checksums that fit, so that they reach what lies behind."""

import hashlib
import json
import random

import pytest

from benchmarks.fuzz import mutators
from benchmarks.fuzz.mutators import MUTATORS, join_model, split_model
from benchmarks.fuzz.seeds import SEEDS
from benchmarks.fuzz.targets import TARGETS


def flip(data, limit):
    """Stand for libFuzzer's own changes."""
    return (bytes([data[0] ^ 1]) + data[1:])[:limit]


@pytest.fixture
def framed(monkeypatch):
    monkeypatch.setattr(mutators, "RAW_SHARE", 0.0)


def test_mutated_models_have_valid_length_and_checksum(framed):
    data = join_model(json.dumps({"format": 3, "depths": [1, 2]}).encode(), b"body")
    changed = {MUTATORS["model"](data, 10**6, random.Random(seed), flip) for seed in range(200)}
    assert len(changed) > 50
    for file in changed:
        assert split_model(file) is not None
        assert hashlib.sha256(file[:-32]).digest() == file[-32:]
    assert any(split_model(file)[1] != b"body" for file in changed)
    assert any(json.loads(split_model(file)[0]).get("depths") != [1, 2] for file in changed)


def test_mutated_parquet_files_have_a_valid_footer_length(framed):
    data = next(SEEDS["parquet"]())
    for seed in range(100):
        file = MUTATORS["parquet"](data, 10**6, random.Random(seed), flip)
        footer = int.from_bytes(file[-8:-4], "little")
        assert file != data or seed
        assert len(file) - 8 - footer == len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def test_mutated_budgets_have_valid_hashes_and_checksums(framed, tmp_path):
    data, target = list(SEEDS["budget"]())[3], TARGETS["budget"](tmp_path)
    changed = {MUTATORS["budget"](data, 10**6, random.Random(seed), flip) for seed in range(300)}
    assert len(changed) > 100
    assert any(target(file) == "read" for file in changed - {data}), "a charge can be left out, or be smaller"
    assert any(target(file) == "refused" for file in changed)
