"""The states of partitions in the Python workers of Spark's executors, each in one of them.

An executor that runs k tasks at a time has k Python workers, processes that do one task after the other, and gives a
task to any that is idle. If each of them kept states for itself, all would come to have all partitions of the executor,
and take all of their steps. So the worker that has made a state keeps it and listens at a socket. Whoever else gets a
task of this partition hands it on, and hands the answer back.

The sockets are in a folder that nobody but the user of the executor can open. Where there can be none, workers keep
states for themselves. If the one that has a state is gone, nobody answers, and the state is made anew: answers are the
same. Spark ends workers that have been idle for a minute, also in the middle of a task that was handed on to them.
"""

from __future__ import annotations

import gc
import os
import stat
import tempfile
import time
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from threading import Thread, current_thread

from diprime.engines.remote import Outcome, Sealed, work_on_rows

_BACKLOG = 128
_END_SECONDS = 1
_PAUSE_SECONDS = 0.1
_NO_ANSWER = (OSError, EOFError)

_of_process: dict[str, States] = {}  # those of one fit


def states_of(fit: str) -> States:
    """Return the states of a fit, and drop those of another one."""
    if fit not in _of_process:
        drop_all()
        # After each task, Spark lets a worker collect garbage, which takes longer than the task, because all objects of
        # the imported modules are looked at. Those that are there now are not, until the fit is over.
        gc.collect()
        gc.freeze()
        _of_process[fit] = States(fit)
    return _of_process[fit]


def forget(fit: str) -> None:
    """Let all workers of the executor drop the states of a fit."""
    (_of_process[fit] if fit in _of_process else States(fit)).drop_everywhere()


def drop_all() -> None:
    """Drop all states that this process has."""
    for states in list(_of_process.values()):
        states.drop()


class States:
    """The states of a fit, in this process and in the others of the executor.

    Parameters
    ----------
    fit : str
        The name of the fit, which is no other's.
    """

    def __init__(self, fit: str) -> None:
        self._fit = fit
        self._bundles: dict[int, tuple[bytes, Outcome]] = {}
        self._folder = Path(tempfile.gettempdir(), f"diprime-{fit}-{os.getppid()}")  # workers have the same parent
        self._listening: Thread | None = None

    @property
    def n_here(self) -> int:
        """The number of states in this process."""
        return len(self._bundles)

    def keep(self, number: int, digest: bytes, bundle: Outcome) -> None:
        """Keep the state of a partition, which was made of rows with a digest, and tell the other workers so."""
        self._bundles[number] = digest, bundle
        with suppress(OSError):  # then others make a state of their own
            self._listen()
            link = self._folder / f"{number}-{os.getpid()}"
            link.symlink_to(str(os.getpid()))
            link.replace(self._folder / f"of-{number}")  # whoever has had the partition before

    def work(self, number: int, digest: bytes, task: Sealed) -> Outcome | None:
        """Let a partition do a task, wherever its state is; return None if there is none that is made of these rows."""
        done = self._work_here(number, digest, task)
        return self._ask(f"of-{number}", (number, digest, task)) if done is None else done

    def _work_here(self, number: int, digest: bytes, task: Sealed) -> Outcome | None:
        of_rows, bundle = self._bundles.get(number, (b"", None))
        return None if bundle is None or of_rows != digest else work_on_rows(bundle, task)

    def drop_everywhere(self) -> None:
        """Let all workers of the executor drop their states; the fit is over."""
        with suppress(OSError):
            for name in [path.name for path in self._folder.iterdir() if path.name.isdigit()]:
                self._ask(name, None)
        self.drop()
        if _is_private(self._folder):
            with suppress(OSError):  # another worker may do the same now
                for path in filter(_is_dead, list(self._folder.iterdir())):
                    path.unlink(missing_ok=True)
                self._folder.rmdir()

    def drop(self) -> None:
        """Drop the states in this process, and listen no more; the fit is over."""
        if _of_process.get(self._fit) is self:
            del _of_process[self._fit]
            gc.unfreeze()
        numbers, self._bundles = list(self._bundles), {}
        thread, self._listening = self._listening, None
        if thread is not None:
            self._ask(str(os.getpid()), None)  # it wakes up, and ends
            thread.join(_END_SECONDS)
            with suppress(OSError):
                for number in numbers:
                    link = self._folder / f"of-{number}"
                    if str(link.readlink()) == str(os.getpid()):
                        link.unlink()
        with suppress(OSError):
            self._folder.rmdir()  # the last worker can, and one that could not listen

    def _listen(self) -> None:
        """Begin to do the tasks of other workers."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if not _is_private(self._folder):
            raise PermissionError
        if self._listening is None:
            listener = Listener(str(self._folder / str(os.getpid())), "AF_UNIX", _BACKLOG)
            self._listening = Thread(target=self._serve, args=[listener], daemon=True)
            self._listening.start()

    def _serve(self, listener: Listener) -> None:
        """Answer whoever comes, each in a thread of its own, until the states are dropped."""
        with suppress(OSError), listener:  # its socket may have been removed with the folder
            while self._listening is current_thread():
                try:
                    connection = listener.accept()
                except OSError:  # there are too many open files, say
                    time.sleep(_PAUSE_SECONDS)
                else:
                    Thread(target=self._answer, args=[connection], daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        """Do a task of another worker; without one, drop the states of this process."""
        with suppress(*_NO_ANSWER), connection:
            request = connection.recv()
            if request is None:
                self.drop()
                return
            connection.send(self._work_here(*request))

    def _ask(self, name: str, request: tuple[int, bytes, Sealed] | None) -> Outcome | None:
        """Return what the worker at a socket answers, or None if it does not."""
        if _is_private(self._folder):
            with suppress(*_NO_ANSWER), Client(str(self._folder / name), "AF_UNIX") as connection:
                connection.send(request)
                answer: Outcome | None = connection.recv()
                return answer
        return None


def _is_dead(path: Path) -> bool:
    """Whether nobody listens at a socket, or at the one that a link leads to."""
    try:
        Client(str(path), "AF_UNIX").close()
    except (ConnectionRefusedError, FileNotFoundError):
        return True
    return False


def _is_private(folder: Path) -> bool:
    """Whether a folder is there and nobody else can open it: what comes from its sockets is trusted.

    On Windows, which has no such sockets, none is.
    """
    try:
        found = folder.lstat()
    except OSError:
        return False
    of_others = stat.S_IRWXG | stat.S_IRWXO
    return (
        hasattr(os, "geteuid")
        and found.st_uid == os.geteuid()
        and stat.S_ISDIR(found.st_mode)
        and not found.st_mode & of_others
    )
