"""Where the log of a budget is: in the memory of one process, or in a file that all processes share."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from diprime._util.locked_file import append_line, create_file, locked_file, read_all
from diprime.privacy.budget.log import MAX_BYTES, Entry, Log, Terms
from diprime.privacy.measures import PrivacyLoss
from diprime.privacy.spending import BudgetError, Unit


class LogTransaction:
    """A log that nobody else can write to meanwhile.

    Parameters
    ----------
    log : Log
        The log as it is.
    keep : callable
        What is done with a log with one more charge; when it returns, the charge cannot be undone.
    """

    def __init__(self, log: Log, keep: Callable[[Log], None]) -> None:
        self.log = log
        self._keep = keep

    @property
    def study(self) -> str:
        """The name of the study."""
        return self.log.terms.study

    def check(self, loss: PrivacyLoss, what: str, unit: Unit | None = None) -> None:
        """Raise `BudgetError` unless the budget covers a loss."""
        self.log.after(loss, what, unit)

    def charge(self, loss: PrivacyLoss, what: str, unit: Unit | None = None) -> None:
        """Charge a loss."""
        log = self.log.after(loss, what, unit)
        self._keep(log)
        self.log = log


class Store(ABC):
    """Where a log is."""

    path: str | None = None
    """The path of the file, if there is one."""

    @property
    @abstractmethod
    def key(self) -> str:
        """What two stores of the same log have in common."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[LogTransaction]:
        """Return a context with the log, which nobody else can write to meanwhile."""

    def read(self) -> Log:
        """Return the log as it is."""
        with self.transaction() as transaction:
            return transaction.log


class MemoryStore(Store):
    """A log in the memory of the process that made it."""

    def __init__(self, terms: Terms) -> None:
        self._log = Log.new(terms)
        self.process = os.getpid()
        self._spending = threading.RLock()

    @property
    def key(self) -> str:
        """The name of the study."""
        return self._log.terms.study

    @contextmanager
    def transaction(self) -> Iterator[LogTransaction]:
        """Yield the log; refuse in a process that was forked from the one that has it."""
        if os.getpid() != self.process:
            raise lost(self.process)
        with self._spending:
            yield LogTransaction(self._log, self._keep)

    def _keep(self, log: Log) -> None:
        self._log = log


class LostStore(Store):
    """What stands in another process for a log in memory."""

    def __init__(self, study: str, process: int) -> None:
        self.study = study
        self.process = process

    @property
    def key(self) -> str:
        """The name of the study."""
        return self.study

    @contextmanager
    def transaction(self) -> Iterator[LogTransaction]:
        """Refuse."""
        raise lost(self.process)
        yield  # makes this a generator, as a context manager has to be


def lost(process: int) -> BudgetError:
    """Return the error of whoever asks for a log in the memory of another process."""
    return BudgetError(
        f"The budget is in the memory of process {process} and cannot be charged from process {os.getpid()}: make it a "
        "file with Budget.create, which processes can share, or fit in one process (n_jobs=1)."
    )


class FileStore(Store):
    """A log in a file, which is read and verified anew for every charge.

    Parameters
    ----------
    path : str
        The file.
    study : str or None
        The name of the study that the file must have; None takes the one that it has.
    """

    path: str

    def __init__(self, path: str, study: str | None = None) -> None:
        self.path = path
        self.study = study
        self._seen: tuple[Entry, ...] = ()  # the charges when the file was last read

    @classmethod
    def create(cls, path: str, terms: Terms) -> FileStore:
        """Make a new file, and raise `FileExistsError` if there is one."""
        create_file(path, terms.line())
        return cls(path, terms.study)

    @property
    def key(self) -> str:
        """The path of the file."""
        return self.path

    @contextmanager
    def transaction(self) -> Iterator[LogTransaction]:
        """Yield the log, with the file locked."""
        with locked_file(self.path, append=True) as file:
            log = self._read(file)

            def keep(longer: Log) -> None:
                append_line(file, longer.last_line)
                self._seen = longer.entries

            yield LogTransaction(log, keep)

    def read(self) -> Log:
        """Return the log as it is; the file need not be writable."""
        with locked_file(self.path, append=False) as file:
            return self._read(file)

    def _read(self, file: int) -> Log:
        """Return the log; refuse that of another study, and one that has lost charges since it was last read."""
        log = Log.read(read_all(file, MAX_BYTES), self.path)
        if log.terms.study != (self.study or log.terms.study):
            raise BudgetError(f"{self.path} is now the budget of another study.")
        if log.entries[: len(self._seen)] != self._seen:
            raise BudgetError(f"{self.path} has lost charges; restore it from a copy that has all of them.")
        self.study, self._seen = log.terms.study, log.entries
        return log
