"""Interface of sources, which encode records where they are and return the partitions of a fit.

A source of rows in this process is a subclass of :class:`LocalSource` with the methods ``columns`` and ``records``. A
source of rows elsewhere is a subclass of :class:`Source`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from diprime.domain import Domain
from diprime.domain.records import DrawnPart, Records, Tally
from diprime.execution.partition import Partitions, ScratchStorage, encode_batches

T = TypeVar("T")


class Roles(NamedTuple):
    """Columns of a source that are not features."""

    target: str | None = None  # None if there are no targets, or if the domain names their column
    groups: str | None = None  # person of each record


@dataclass(frozen=True)
class RunOptions:
    """Options of encoding."""

    n_threads: int = 1  # in this process
    is_shown: bool = False  # whether to show a progress bar
    has_groups: bool = False  # whether there are groups, if no record shows it
    mark_outside: bool = False  # whether targets outside the domain have codes of their own, for scores


class Source(ABC):
    """Records, wherever they are."""

    @abstractmethod
    def columns(self, roles: Roles) -> Any:
        """Return a table of the features, of which only names and types matter, or None if only records show them."""

    def has_groups(self, roles: Roles, *, may_read: bool) -> bool | None:
        """Return whether there are groups, or None if only a record shows it and none may be read."""
        return roles.groups is not None

    def whole(self) -> Records | None:
        """Return all records if they are in memory."""
        return None

    def repeatable(self) -> Source:
        """Return a source of the same records that can be read several times, or raise `ValueError`. None is read."""
        return self

    @abstractmethod
    def collect(
        self, tally: Tally[T], drawn: Sequence[DrawnPart] | None = None, *, domain: Domain, roles: Roles
    ) -> list[T]:
        """Read all records once, where they are, and return the tally of each part, in order.

        The domain, which determines how text is read, may be incomplete. With persons, ``drawn`` selects the records of
        each part.
        """

    @abstractmethod
    def encode(self, domain: Domain, roles: Roles, options: RunOptions) -> AbstractContextManager[Partitions]:
        """Encode all records where they are, and keep them until the end of the block."""


class LocalSource(Source):
    """Records that are read in this process, in batches."""

    scratch: Path | None = None  # directory for encoded records, which are otherwise in memory

    @abstractmethod
    def records(self, domain: Domain, roles: Roles) -> Iterable[Records]:
        """Return all records in batches; text is read by the domain, which may be incomplete.

        Each call returns all records once. With groups, each call has the same batches in the same order. Columns that
        are neither features nor have a role are left out. Without ``roles.target``, the target is the column that the
        domain names, if it names one; a source that reads it has to override `features`.
        """

    def features(self, domain: Domain) -> Iterable[Any]:
        """Return the features of all records in batches, for predictions, which have no target."""
        return (records.X for records in self.records(domain, Roles()))

    def collect(
        self, tally: Tally[T], drawn: Sequence[DrawnPart] | None = None, *, domain: Domain, roles: Roles
    ) -> list[T]:
        """Return the tally of all records, which are one part."""
        return [tally(self.records(domain, roles), None if drawn is None else drawn[0])]

    @contextmanager
    def encode(self, domain: Domain, roles: Roles, options: RunOptions) -> Iterator[Partitions]:
        """Encode all records, batch by batch."""
        yield encode_batches(
            self.records(domain, roles),
            domain,
            options.n_threads,
            scratch=None if self.scratch is None else ScratchStorage(self.scratch),
            of_persons=options.has_groups,
            mark_outside=options.mark_outside,
        )


def check_names(names: Sequence[str], roles: Roles) -> None:
    """Raise `ValueError` unless the columns of target and groups occur exactly once in ``names``."""
    for role, name in zip(("y", "groups"), roles, strict=True):
        n = names.count(name) if name is not None else 1
        if n != 1:
            found = "no column" if n == 0 else f"{n} columns"
            what = {
                "y": "y is the name of the target column",
                "groups": "groups is the name of the column that identifies the person",
            }
            raise ValueError(f"X has {found} named {name!r}; {what[role]} in X.")
    if roles.target is not None and roles.target == roles.groups:
        raise ValueError(f"y and groups are the same column, {roles.target!r}. Pass different columns.")
