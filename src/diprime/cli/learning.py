"""A domain learnt privately from a file (``diprime domain learn``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from diprime.cli.data_files import Advance, DataFile, InputError
from diprime.cli.record_files import RecordBatches
from diprime.domain import Categorical, Domain, Numeric, Task
from diprime.domain.kinds import Feature, Target
from diprime.domain.learning import open_features, open_target
from diprime.privacy.measures import exact_delta, exact_epsilon
from diprime.privacy.randomness import RandomSource

PASSES = 3
"""How often a file is read at most to learn a domain: for scales, for ranges, and for levels."""


def open_domain(
    file: DataFile,
    target: str,
    task: Task | None,
    numbers: Sequence[str],
    classes: Sequence[str],
    persons: Sequence[str] = (),
) -> Domain:
    """Return a domain of all columns of a file, of which only the kinds are known; that of persons is no feature."""
    file.check_columns([target, *numbers])
    empty = file.no_rows()
    known: dict[str, Feature] = {name: Numeric() for name in numbers if name != target}
    features = open_features(empty.drop(target, *persons), known)
    if classes:
        of_target: Target = Categorical(classes)
    elif file.is_csv and target in numbers:
        of_target = Numeric()
    else:
        of_target = open_target(empty[target], task)
    return Domain(features, of_target, target_name=target)


def learn(
    file: DataFile,
    domain: Domain,
    target: str,
    budget: tuple[float, float],
    advance: Advance,
    persons: Sequence[str] = (),
) -> Domain:
    """Learn what is open in a domain from the rows of a file."""
    if not domain.is_open:
        raise InputError("Nothing is open in the domain: all ranges and levels are known.")
    epsilon, delta = budget
    plan = domain.learning_plan(exact_epsilon(epsilon), exact_delta(delta))
    batches = RecordBatches(file, domain, target, lambda share: advance(share / PASSES), persons)
    closed = domain.closed(lambda: batches, plan, RandomSource(), of_persons=bool(persons))
    return replace(closed, target_name=target)
