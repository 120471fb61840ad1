"""Run a tutorial cell by cell: ``python docs/hooks/cells.py SCRIPT FOLDER`` prints JSON, and leaves figures in FOLDER.

A cell begins at a line ``# %%``. The comment below it is Markdown, and the rest is code, up to the next cell. What the
code prints and warns of belongs to the cell, and so do the figures that it leaves open. A comment ``# Figure: ...`` of
the code says in words what they show; it becomes their alternative text and is required.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

START = re.compile(r"^# %%\n", re.MULTILINE)
FIGURE = re.compile(r"^# Figure: (.*(?:\n# .*)*)\n", re.MULTILINE)


def split(script: str) -> list[tuple[str, str]]:
    """Return the Markdown and the code of each cell; what comes before the first one is its docstring, and left out."""
    return [separate(cell) for cell in START.split(script)[1:]]


def separate(cell: str) -> tuple[str, str]:
    """Return the comment at the top of a cell without its hashes, and the code below it."""
    lines = cell.splitlines(keepends=True)
    n_text = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    text = "".join(line[1:].removeprefix(" ") for line in lines[:n_text])
    return text, "".join(lines[n_text:]).strip("\n")


def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Print a warning without the line that it comes from, which is a path of this machine."""
    print(f"{category.__name__}: {message}")


def run(code: str, namespace: dict[str, Any], name: str) -> str:
    """Run the code of a cell, and return what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show_warning
        exec(compile(code, name, "exec"), namespace)
    return printed.getvalue()


def save_figures(stem: str, described: str | None) -> list[dict[str, str]]:
    """Write the open figures as SVG, and return their names with what they show."""
    from matplotlib import pyplot

    figures = []
    for number in pyplot.get_fignums():
        if described is None:
            raise ValueError("A cell with a figure needs a line '# Figure: ...' that says what it shows.")
        name = f"{stem}-{number}.svg"
        pyplot.figure(number).savefig(name, bbox_inches="tight", metadata={"Date": None})
        figures.append({"name": name, "alt": described})
    pyplot.close("all")
    return figures


def run_all(script: Path) -> list[dict[str, Any]]:
    """Run all cells in one namespace; return their text, code, output and figures."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    results = []
    for i, (text, code) in enumerate(split(script.read_text(encoding="utf-8"))):
        described = FIGURE.search(code + "\n")
        printed = run(code, namespace, f"{script.name}, cell {i + 1}") if code else ""
        figures = save_figures(f"{script.stem}-{i + 1}", described and described[1].replace("\n# ", " "))
        shown = FIGURE.sub("", code + "\n").strip("\n")
        results.append({"text": text, "code": shown, "output": printed, "figures": figures})
    return results


if __name__ == "__main__":
    os.environ["MPLBACKEND"] = "svg"
    path = Path(sys.argv[1]).resolve()
    os.chdir(sys.argv[2])
    print(json.dumps(run_all(path)))
