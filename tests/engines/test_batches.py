"""Batches become partitions: the same rows in the same order, in memory or in scratch files."""

import re

import numpy as np
import pytest

from diprime import Categorical, DiPriMeClassifier, Domain, Numeric
from diprime._util.threads import Threads
from diprime.domain.persons import MIXED_GROUPS
from diprime.engines import batches
from diprime.engines.batches import GROUPS_WITH_SCRATCH, encode_batches, write_batches
from diprime.engines.memory import MAIN_MEMORY, Scratch
from diprime.engines.partition import total_weight
from tests.encoded_rows import joined

DOMAIN = Domain({"a": Numeric(0, 10), "b": Categorical(["x", "y"])}, target=Categorical([0, 1]))


def made_batches(sizes):
    """Return batches of so many rows, some of which have no valid target."""
    rng = np.random.default_rng(0)
    for n in sizes:
        X = np.empty((n, 2), dtype=object)
        X[:, 0], X[:, 1] = rng.random(n) * 10, rng.choice(["x", "y", "z"], n)
        yield X, rng.integers(0, 3, n)


@pytest.mark.parametrize("sizes", [[], [0], [5], [3, 0, 4], [10], [7, 13, 1], [25]], ids=str)
def test_scratch_partitions_hold_the_rows_of_all_batches_in_order(sizes, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "PARTITION_ROWS", 5)
    in_memory = encode_batches(made_batches(sizes), DOMAIN, 1)
    written = write_batches(made_batches(sizes), DOMAIN, 1, Scratch(tmp_path))
    n = sum(sizes)
    executor = written.executor(Threads(1))
    assert list(executor.sizes) == ([5] * (n // 5) + [n % 5] * (n % 5 > 0) or [0])
    assert executor.ask(total_weight) == n
    for one, other in zip(joined(executor), joined(in_memory.executor(Threads(1))), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    assert not written.of_persons
    assert not list(tmp_path.iterdir())
    assert in_memory.whole().memory is MAIN_MEMORY


def test_rows_in_scratch_are_not_given_to_what_needs_them_in_memory(tmp_path):
    written = write_batches(made_batches([3]), DOMAIN, 1, Scratch(tmp_path))
    with pytest.raises(ValueError, match=r"needs all of its rows in memory; leave out scratch\.$"):
        written.whole()


def test_persons_are_refused_in_scratch_and_kept_in_memory(tmp_path):
    of_persons = [(*batch, np.arange(len(batch[1]))) for batch in made_batches([3, 2])]
    with pytest.raises(ValueError, match=re.escape(GROUPS_WITH_SCRATCH)):
        write_batches(of_persons, DOMAIN, 1, Scratch(tmp_path))
    partitions = encode_batches(of_persons, DOMAIN, 1)
    assert partitions.of_persons
    assert partitions.whole().records.persons.tolist() == [0, 1, 2, 0, 1]
    assert encode_batches([], DOMAIN, 1, of_persons=True).of_persons


@pytest.mark.parametrize("is_open", [True, False])
def test_with_scratch_lacking_groups_are_told_apart_from_those_given(is_open, tmp_path):
    domain = Domain({"a": Numeric() if is_open else Numeric(0, 10), "b": Categorical(["x", "y"])}, DOMAIN.target)
    model = DiPriMeClassifier(1.0, domain, max_records_per_group=3)
    without = list(made_batches([3, 2]))
    of_persons = [(*batch, np.arange(len(batch[1]))) for batch in without]
    for scratch in (None, tmp_path):
        with pytest.raises(ValueError, match="max_records_per_group is 3, but no groups are given"):
            model.fit_batches(without, scratch=scratch)
    with pytest.raises(ValueError, match=re.escape(GROUPS_WITH_SCRATCH)):
        model.fit_batches(of_persons, scratch=tmp_path)


@pytest.mark.parametrize("first", [True, False])
def test_all_batches_have_groups_or_none(first):
    mixed = [(*batch, np.arange(2)) if (i == 0) is first else batch for i, batch in enumerate(made_batches([2, 2]))]
    with pytest.raises(ValueError, match=re.escape(MIXED_GROUPS)):
        encode_batches(mixed, DOMAIN, 1)
