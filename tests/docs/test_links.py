"""Links between the files of the repository: what they lead to is there, on GitHub as in the site."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("src/**/*.md"),
    *ROOT.glob("benchmarks/results/*.md"),
]
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
NAMED = re.compile(r"`((?!/)[\w./-]+(?:\.py|/))`")
FENCE = re.compile(r"^(```+).*?^\1$", re.MULTILINE | re.DOTALL)


def slug(heading):
    """Return the anchor that GitHub gives a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@cache
def anchors(path):
    text = FENCE.sub("", path.read_text("utf-8"))
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def target(page, link):
    """Return the file that a link leads to."""
    return (page.parent / link).resolve() if link else page


def wrong_links(page):
    """Return the links of a page to files or headings that are not there."""
    wrong = []
    for link, anchor in LINK.findall(FENCE.sub("", page.read_text("utf-8"))):
        if re.match(r"\w+:", link):
            continue
        path = target(page, link)
        if not path.exists() or (anchor and anchor not in anchors(path)):
            wrong.append(f"{link}#{anchor}" if anchor else link)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_resolve(page):
    assert wrong_links(page) == []


@pytest.mark.parametrize("link", ["gone.md", "there.md#gone", "#gone"])
def test_broken_link_is_detected(tmp_path, link):
    (tmp_path / "there.md").write_text("# There\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n[right](there.md#there) [wrong]({link})\n", encoding="utf-8")
    assert wrong_links(page) == [link]


@cache
def paths():
    """Return all paths of files and directories of the repository, each with a slash at its start."""
    files = [path for name in ("src", "tests", "benchmarks", "docs", "examples") for path in (ROOT / name).glob("**/*")]
    return [f"/{path.relative_to(ROOT).as_posix()}{'/' * path.is_dir()}" for path in files]


def missing_modules(text):
    """Return the modules and directories that a text names in backticks and that do not exist, under any parent."""
    return [name for name in NAMED.findall(FENCE.sub("", text)) if not any(p.endswith(f"/{name}") for p in paths())]


@pytest.mark.parametrize("page", [ROOT / "docs/privacy.md", *ROOT.glob("docs/proofs/*.md"), *ROOT.glob("src/**/*.md")])
def test_named_modules_exist(page):
    assert missing_modules(page.read_text("utf-8")) == []


def test_missing_modules_are_detected():
    assert missing_modules("See `forest/train.py`, `train.py`, `rain.py` and `forests/`.") == ["rain.py", "forests/"]


def test_map_of_the_packages_names_every_module_in_the_row_of_its_package():
    rows = re.findall(r"^\| (`.*?`) \|.*\|(.*)\|$", (ROOT / "docs/architecture.md").read_text("utf-8"), re.MULTILINE)
    named = {
        name: {*re.findall(r"\w+", modules)} - {"and"}
        for packages, modules in rows
        for name in re.findall(r"\w+", packages)
    }
    expected = {}
    for path in (ROOT / "src/diprime").rglob("*.py"):
        package, *inner = path.relative_to(ROOT / "src/diprime").with_suffix("").parts
        expected.setdefault(package, set()).update(inner)
    expected = {package: inner - {"__init__"} for package, inner in expected.items() if not package.startswith("__")}
    assert named == expected, "list every module in the table 'Packages and imports' of docs/architecture.md"


def test_every_page_is_reachable_from_the_readme():
    """A page that nobody links to is found by nobody who reads the repository."""
    seen, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        seen.add(page)
        links = (link for link, _ in LINK.findall(page.read_text("utf-8")) if not re.match(r"\w+:", link))
        found = {target(page, link) for link in links}
        waiting += [path for path in found - seen if path.suffix in {".md", ".py"}]
    assert {*ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/tutorials/*.py")} - seen == set()


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]
    named = re.findall(r"(\S+\.md)$", navigation, re.MULTILINE)
    assert len(named) == len(set(named))
    assert {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")} - set(named) == set()
