"""Where a partition keeps its arrays: in the memory of the process, or in files without a name."""

from __future__ import annotations

import errno
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

_BLOCK_BYTES = 1 << 24


class Memory(Protocol):
    """A place for arrays."""

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return a new array, whose content does not matter."""


@dataclass(frozen=True)
class MainMemory:
    """The memory of the process."""

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return a new array, whose content does not matter."""
        return np.empty(shape, dtype=dtype)


@dataclass(frozen=True)
class Scratch:
    """Files in a folder, mapped into memory: the system keeps in memory as much of them as there is room for.

    The files have no name, or lose it before anything is written, and nobody else can open them. When the array is
    gone, or the process, for whatever reason, so is the file.

    Attributes
    ----------
    folder : Path
        The folder, on a disk with enough room.
    """

    folder: Path

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            raise ValueError(f"The scratch folder {self.folder} does not exist; make it, or choose another.")

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return a new array, whose content does not matter.

        Its room on the disk is taken at once: a page of a mapped file that finds none would end the process.
        """
        n_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if n_bytes == 0:
            return np.empty(shape, dtype=dtype)
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                _take_room(file.fileno(), n_bytes)
                mapped: npt.NDArray[Any] = np.memmap(file, dtype=dtype, mode="r+", shape=shape)
        except OSError as error:
            raise OSError(error.errno, f"{self._problem(error)} {self.folder}; {_ADVICE}") from None
        return mapped.view(np.ndarray)

    @staticmethod
    def _problem(error: OSError) -> str:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        return "There is no room left in the scratch folder" if full else "No file can be made in the scratch folder"


_ADVICE = "choose another folder as scratch, on a disk that holds all encoded values twice"


def _take_room(file: int, n_bytes: int) -> None:
    """Let a file have so many bytes on the disk."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, n_bytes)
        return
    for begin in range(0, n_bytes, _BLOCK_BYTES):
        os.write(file, bytes(min(_BLOCK_BYTES, n_bytes - begin)))


MAIN_MEMORY = MainMemory()
