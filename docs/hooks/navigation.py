"""Pages of docs/ that the navigation does not name yet: they are put at the end of the guides, and so can be found."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add such pages to the guides; their headings are their titles."""
    guides = next(section["Guides"] for section in config.nav or [] if "Guides" in section)
    named = str(config.nav)
    guides += sorted(page.name for page in Path(config.docs_dir).glob("*.md") if f"'{page.name}'" not in named)
    return config
