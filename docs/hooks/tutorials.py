"""Tutorials: scripts that are run whenever the site is built, and shown with what they printed and drew.

They cannot show what the library no longer does: a script that fails ends the build. Whatever a script writes into its
folder, such as a report, is a file of the site beside its page.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

RUNNER = Path(__file__).with_name("cells.py")
FOLDER = "tutorials"
SECONDS = 100
WIDTH = 84
AT_ONCE = 2


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put the page of each tutorial beside its script, with its figures and files."""
    scripts = [file for file in files if file.src_uri.startswith(f"{FOLDER}/") and file.src_uri.endswith(".py")]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(lambda script: run(Path(script.abs_src_path), script.content_string), scripts))
    for script, (cells, written) in zip(scripts, results, strict=True):
        page = Path(script.src_uri).with_suffix(".md").as_posix()
        files.append(File.generated(config, page, content=as_markdown(cells, Path(script.src_uri).name)))
        for name, content in written.items():
            files.append(File.generated(config, f"{FOLDER}/{name}", content=content))
    return files


@cache
def run(script: Path, _content: str) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """Run a script in a folder of its own, once for each content; return its cells and the files that it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(RUNNER), str(script), folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            raise PluginError(f"The tutorial {script.name} fails:\n{done.stderr}")
        written = {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.suffix in {".svg", ".html"}}
    return json.loads(done.stdout), written


def as_markdown(cells: list[dict[str, Any]], script: str) -> str:
    """Return the page of a tutorial: text, code, output, figures, and where to get the script."""
    blocks = []
    for cell in cells:
        output = "\n".join(map(wrapped, cell["output"].splitlines()))
        blocks += [cell["text"], fenced("python", cell["code"]), fenced("text", output, "{ .output }")]
        blocks += [f"![{figure['alt']}]({figure['name']})" for figure in cell["figures"]]
    link = f'<a href="{script}" download>{script}</a>'
    blocks.append(f"This page is the output of a script, {link}: it was run when the site was built.")
    return "\n\n".join(block for block in blocks if block.strip()) + "\n"


def wrapped(line: str) -> str:
    """Return a line as wide as pages are: sentences are wrapped, and tables, which have several spaces, are not."""
    return line if "  " in line.strip() else textwrap.fill(line, WIDTH)


def fenced(language: str, text: str, attributes: str = "") -> str:
    """Return text as a block of code, or nothing."""
    head = attributes.replace("{", f"{{ .{language}") if attributes else language
    return f"````{head}\n{text.rstrip()}\n````" if text.strip() else ""
