"""What is counted while files are read, and what is a finding."""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.fuzz.targets import Outcome, Target

MAX_SECONDS = 5.0  # of processor time for one file
BASE_BYTES = 200 << 20
BYTES_PER_BYTE = 10
"""A file may raise the peak of the process's memory by `BASE_BYTES`, and by `BYTES_PER_BYTE` for each of its bytes."""
SAVE_EVERY = 100  # inputs
MAX_FINDINGS = 50

# What a file must never cause. Other events, such as "open", are checked by their arguments.
FORBIDDEN_EVENTS = (
    "compile", "exec", "import", "pickle.find_class", "marshal.loads", "subprocess.Popen", "socket.connect",
    "ctypes.dlopen",
)  # fmt: skip
FORBIDDEN_PREFIXES = ("os.", "shutil.", "socket.")
HARMLESS_EVENTS = ("os.listdir", "os.scandir", "os.remove")


class CodeRunError(BaseException):
    """A file made the reader import, compile or start something."""


@dataclass
class Figures:
    """What was counted.

    Attributes
    ----------
    inputs, read, refused : int
        The number of files, of those that were read, and of those that were refused in one sentence.
    seconds : float
        The most processor time that a file took.
    megabytes : float
        The most memory that the process took.
    findings : dict
        What went wrong, by its kind and place: how often, and an example.
    last_run : str
        The date and the commit of the last run.
    """

    inputs: int = 0
    read: int = 0
    refused: int = 0
    seconds: float = 0.0
    megabytes: float = 0.0
    findings: dict[str, dict[str, Any]] = field(default_factory=dict)
    last_run: str = ""


class Watch:
    """Runs a target, and counts.

    Parameters
    ----------
    target : callable
        What to do with a file.
    folder : Path
        Where figures and findings are kept, and inputs are written.
    """

    def __init__(self, target: Target, folder: Path) -> None:
        self._target, self._folder = target, folder
        self.figures = Figures(megabytes=_peak_bytes() / 1e6)
        self._is_reading = False

    def begin(self) -> None:
        """Watch from now on what the process imports, compiles, opens and starts; this cannot be ended."""
        sys.addaudithook(self._audit)
        self.save()  # a file may end the process before its figures are written for the first time

    def run(self, data: bytes) -> None:
        """Run the target, and note what is wrong."""
        figures, before, peak = self.figures, time.process_time(), _peak_bytes()
        self._is_reading = True
        try:
            outcome: Outcome = self._target(data)
            figures.read += outcome == "read"
            figures.refused += outcome == "refused"
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 -- panics of polars are no exceptions
            self._is_reading = False
            self._find(_place(error), traceback.format_exc(), data)
        finally:
            self._is_reading = False
        seconds, growth = time.process_time() - before, _peak_bytes() - peak
        if seconds > MAX_SECONDS:
            self._find("takes too long", f"{seconds:.1f} s", data)
        if growth > BASE_BYTES + BYTES_PER_BYTE * len(data):
            self._find("takes too much memory", f"{growth / 1e6:.0f} MB for {len(data)} bytes", data)
        figures.seconds = max(figures.seconds, seconds)
        figures.megabytes = max(figures.megabytes, _peak_bytes() / 1e6)
        figures.inputs += 1
        if figures.inputs % SAVE_EVERY == 0:
            self.save()

    def save(self) -> None:
        """Write the figures, for the process that has started this one."""
        (self._folder / "figures.json").write_text(json.dumps(asdict(self.figures)))

    def _find(self, place: str, text: str, data: bytes) -> None:
        findings = self.figures.findings
        if place not in findings and len(findings) < MAX_FINDINGS:
            name = f"finding-{hashlib.sha256(place.encode()).hexdigest()[:12]}"
            (self._folder / name).write_bytes(data)
            findings[place] = {"times": 0, "text": text, "file": name}
        if place in findings:
            findings[place]["times"] += 1
        self.save()

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._is_reading:
            return
        if event == "open":
            path, mode = str(arguments[0]), str(arguments[1] or "")
            if path.startswith(str(self._folder)) or not set(mode) & set("wax+"):
                return
        elif event not in FORBIDDEN_EVENTS and (not event.startswith(FORBIDDEN_PREFIXES) or event in HARMLESS_EVENTS):
            return
        raise CodeRunError(f"{event} {arguments!r:.200}")


def _place(error: BaseException) -> str:
    """Return the type of an error and the last line of the library that it passed through."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "diprime" in f.filename]
    where = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"
    return f"{type(error).__name__} in {where}"


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
