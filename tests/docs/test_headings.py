"""Headings of pages: one title, no skipped levels, and noun phrases instead of sentences."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.md")]
GUIDES = [path for path in ROOT.glob("docs/**/*.md") if path.parent.name not in {"reference", "tutorials", "proofs"}]
WITHOUT_LINKS = {"index.md", "privacy.md", "privacy-officers.md"}
FENCE = re.compile(r"^(```+).*?^\1$", re.MULTILINE | re.DOTALL)
SENTENCE = re.compile(r"^(what|how|why|when|where|who)\b|[.:!]$", re.IGNORECASE)


def headings(text):
    """Return the level and the text of each heading."""
    return [(len(marks), title) for marks, title in re.findall(r"^(#+) (.*)$", FENCE.sub("", text), re.MULTILINE)]


def faults(text):
    """Return the headings of a page that break a rule."""
    found = headings(text)
    levels = [level for level, _ in found]
    wrong = [title for _, title in found if SENTENCE.search(title)]
    wrong += [title for (level, title), before in zip(found[1:], levels, strict=False) if level > before + 1]
    if levels.count(1) != 1 or levels[0] != 1:
        wrong.append("not one title at the top")
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_headings_are_noun_phrases_in_order(page):
    assert faults(page.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("# Title\n\n## What it is\n", ["What it is"]),
        ("# Title\n\n## It works.\n", ["It works."]),
        ("# Title\n\n### Deep\n", ["Deep"]),
        ("# One\n\n# Two\n", ["not one title at the top"]),
        ("# Title\n\n```sh\n# What a comment\n```\n", []),
    ],
)
def test_wrong_headings_are_found(text, wrong):
    assert faults(text) == wrong


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_guides_end_with_links(page):
    assert page.name in WITHOUT_LINKS or headings(page.read_text("utf-8"))[-1][1] == "See also"
