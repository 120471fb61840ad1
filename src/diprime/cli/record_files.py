"""Records in files, such as ``data/*.parquet``, read in batches as if they were one file."""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from diprime._util.regular_file import is_same_file, status_of
from diprime.cli.data_files import Advance, DataFile, InputError, NoRowsError
from diprime.domain import Domain

MAX_SHARE_OF_MEMORY = 1 / 16
"""Files that take more than this share of the memory are encoded on a disk: compressed files grow when read."""
_USUAL_MEMORY = 8 << 30


class RecordBatches:
    """The records of one file or several, and their targets, in batches; each iteration reads the files again.

    A file other than the first is opened when it is its turn. Its columns can be in any order, and it can have others
    besides. A file without rows adds nothing, but one of them has to have rows.

    Parameters
    ----------
    file : DataFile
        The first file.
    domain : Domain
        The domain, by which text is read.
    target : str
        The column of the target.
    advance : callable
        Is told the progress.
    persons : sequence of str, default=()
        The column that says whose each record is, if there is one.
    others : sequence of Path, default=()
        The other files, CSV or Parquet.
    """

    def __init__(
        self,
        file: DataFile,
        domain: Domain,
        target: str,
        advance: Advance,
        persons: Sequence[str] = (),
        others: Sequence[Path] = (),
    ) -> None:
        self._file = file
        self._domain = domain
        self._target = target
        self._advance = advance
        self._persons = persons
        self._others = others

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        sizes = [path.stat().st_size for path in (self._file.path, *self._others)]
        empty: list[NoRowsError] = []
        for file, size in zip(self._files(), sizes, strict=True):
            try:
                yield from self._batches(file, size / max(sum(sizes), 1))
            except NoRowsError as error:
                empty.append(error)
        if len(empty) == len(sizes):
            raise empty[0]

    def _files(self) -> Iterator[DataFile]:
        yield self._file
        yield from map(DataFile, self._others)

    def _batches(self, file: DataFile, share_of_file: float) -> Iterator[tuple[Any, ...]]:
        columns = {**self._domain.features, self._target: self._domain.target}

        def advance(share: float) -> None:
            self._advance(share * share_of_file)

        for batch in file.decoded_batches(columns, advance, self._persons):
            persons = (batch[name] for name in self._persons)
            yield batch.select(self._domain.columns), batch[self._target], *persons


def find_files(patterns: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the files that paths and patterns name; those of a pattern are sorted by name.

    A file that is named twice, be it through a link, is refused: each of its records would count as two.
    """
    paths: list[Path] = []
    for pattern in patterns:
        found = matches(Path(pattern))
        if not found:
            raise InputError(f"No file matches {pattern}; give CSV or Parquet files.")
        paths += found
    if not paths:
        raise InputError("No file is given; give CSV or Parquet files.")
    _refuse_same(paths)
    return paths


def _refuse_same(paths: Sequence[Path]) -> None:
    """Raise an error if two paths lead to the same file."""
    known: dict[tuple[int, int], tuple[Path, os.stat_result]] = {}
    for path in paths:
        status = status_of(path)
        if status is None:  # there is no such file, which is told when it is its turn
            continue
        place = status.st_dev, status.st_ino
        if place not in known:
            known[place] = path, status
            continue
        first, status_of_first = known[place]
        if is_same_file(status_of_first, status):
            what = f"{path} is given twice" if str(path) == str(first) else f"{first} and {path} are the same file"
            raise InputError(f"{what}, whose records would count twice; give it once.")


def matches(pattern: Path) -> list[Path]:
    """Return the files that match a pattern, sorted by name; a path that is none, or that exists, matches itself."""
    if not glob.has_magic(str(pattern)) or pattern.exists():
        return [pattern]
    return [Path(name) for name in sorted(glob.glob(str(pattern), recursive=True))]


def are_large(paths: Sequence[Path]) -> bool:
    """Return whether files take a large share of the memory of this machine."""
    return sum(path.stat().st_size for path in paths) > MAX_SHARE_OF_MEMORY * _memory()


def _memory() -> int:
    """Return the bytes of memory of this machine, or a usual number where it cannot be told."""
    if not hasattr(os, "sysconf"):
        return _USUAL_MEMORY
    return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES"))


def usual_scratch() -> Path:
    """Return a folder for scratch files: where the system keeps temporary files on a disk, rather than in memory."""
    on_disk = Path("/var/tmp")
    chosen = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    return on_disk if not chosen and on_disk.is_dir() else Path(tempfile.gettempdir())
