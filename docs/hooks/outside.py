"""Files of the repository outside of docs/ that pages link to: they become pages of the site, from where they are.

A link such as ``../src/diprime/privacy/mechanisms/laplace.md`` works in the repository as it is. In the site, the file
is the page ``code/src/diprime/privacy/mechanisms/laplace.md``, and links from and to it are written anew. Markdown is
shown as a page, everything else as code, and a folder as the list of its files.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
FOLDER = "code"  # of the site, for all such pages
LANGUAGES = {".py": "python", ".toml": "toml", ".yml": "yaml", ".json": "json"}
LINK = re.compile(r"(\]\(|^\[[^\]]+\]: *)([^)#\s]+)((?:#[^)\s]*)?)", re.MULTILINE)


def place(src_uri: str) -> str:
    """Return where the source of a page is in the repository."""
    return src_uri.removeprefix(f"{FOLDER}/") if src_uri.startswith(f"{FOLDER}/") else f"docs/{src_uri}"


def target(src_uri: str, link: str) -> str | None:
    """Return the path in the repository that a link of a page leads to, or None if it leads elsewhere."""
    if re.match(r"\w+:|/|mailto:", link):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(place(src_uri)), link))
    return path if not path.startswith("..") and (ROOT / path).exists() else None


def site_uri(path: str) -> str:
    """Return the page or file of the site that a path of the repository is shown as."""
    if path.startswith("docs/"):
        page = path.removeprefix("docs/")
        return f"{page.removesuffix('.py')}.md" if page.endswith(".py") else page  # of a tutorial
    if (ROOT / path).is_dir():
        return f"{FOLDER}/{path}/index.md"
    return f"{FOLDER}/{path}" if path.endswith(".md") else f"{FOLDER}/{path}.md"


def links_outside(src_uri: str, markdown: str) -> set[str]:
    """Return the paths outside of docs/ that a page links to."""
    paths = {target(src_uri, found[2]) for found in LINK.finditer(markdown)}
    return {path for path in paths if path is not None and not path.startswith("docs/")}


def as_markdown(path: str) -> str:
    """Return a file of the repository as the Markdown of a page."""
    source = ROOT / path
    if source.is_dir():
        names = sorted(item.name for item in source.iterdir() if item.is_file() and not item.name.startswith("."))
        return f"# {path}/\n\n" + "\n".join(f"- [{name}]({name})" for name in names)
    text = source.read_text(encoding="utf-8")
    if source.suffix == ".md":
        return text
    return f"# {path}\n\n````{LANGUAGES.get(source.suffix, 'text')}\n{text}````\n"


def in_navigation(entries: Any) -> set[str]:
    """Return all pages that the navigation names."""
    if isinstance(entries, str):
        return {entries}
    items = entries.values() if isinstance(entries, dict) else entries
    return set().union(*(in_navigation(item) for item in items)) if items else set()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add every file that a page links to, that such a file links to, and so on."""
    pages = [(file.src_uri, file.content_string) for file in files.documentation_pages()]
    named = {place(uri) for uri in in_navigation(config.nav) if uri.startswith(f"{FOLDER}/")}
    waiting, added = named.union(*(links_outside(*page) for page in pages)), set()
    while waiting:
        path = waiting.pop()
        added.add(path)
        markdown = as_markdown(path)
        files.append(File.generated(config, site_uri(path), content=markdown))
        waiting |= links_outside(site_uri(path), markdown) - added
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write the links of a page anew, where they leave docs/ or come from outside of it."""
    here = page.file.src_uri

    def rewrite(found: re.Match[str]) -> str:
        path = target(here, found[2])
        if path is None or (place(here).startswith("docs/") and path == f"docs/{site_uri(path)}"):
            return found[0]
        return found[1] + posixpath.relpath(site_uri(path), posixpath.dirname(here) or ".") + found[3]

    return LINK.sub(rewrite, markdown)
