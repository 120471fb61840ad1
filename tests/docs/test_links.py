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
def test_links_lead_somewhere(page):
    assert wrong_links(page) == []


@pytest.mark.parametrize("link", ["gone.md", "there.md#gone", "#gone"])
def test_a_wrong_link_is_noticed(tmp_path, link):
    (tmp_path / "there.md").write_text("# There\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n[right](there.md#there) [wrong]({link})\n", encoding="utf-8")
    assert wrong_links(page) == [link]


def test_every_page_of_the_documentation_is_reachable_from_the_readme():
    """A page that nobody links to is found by nobody who reads the repository."""
    seen, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        seen.add(page)
        links = (link for link, _ in LINK.findall(page.read_text("utf-8")) if not re.match(r"\w+:", link))
        found = {target(page, link) for link in links}
        waiting += [path for path in found - seen if path.suffix in {".md", ".py"}]
    assert {*ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/tutorials/*.py")} - seen == set()
