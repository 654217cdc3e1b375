"""The site of these pages: ``python -m sphinx -W --keep-going docs build/site``.

Sphinx with MyST and Furo: all three are released regularly, links between pages and to headings are checked
while building, and the pages load nothing from elsewhere, so that they open from a folder without a network.
(MkDocs has had no release since 2024, and Zensical is at 0.1.)

The pages are plain Markdown that reads the same on GitHub. What only a site needs, its navigation, is here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_HERE = Path(__file__).parent

project = "phasewise"
author = "the phasewise contributors"
project_copyright = "the phasewise contributors, Apache-2.0"
release = re.findall(r'__version__ = "(.+)"', (_HERE.parent / "advisor" / "__init__.py").read_text("utf-8"))[
    0
]

extensions = ["myst_parser"]
myst_heading_anchors = 4
root_doc = "index"
smartquotes = False  # it would turn the dashes of options into one

html_theme = "furo"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_use_index = False
html_show_sourcelink = False
html_show_sphinx = False


def pages_in(folder: str) -> tuple[str, ...]:
    """The pages of a folder below its README, in the order of their titles."""
    titles = {
        page: page.read_text("utf-8").partition("\n")[0].lower()
        for page in (_HERE / folder).glob("[a-z]*.md")
    }
    return tuple(f"{folder}/{page.stem}" for page in sorted(titles, key=lambda page: titles[page]))


NAVIGATION = {
    "index": (
        ("Start", ("quickstart", "reading-a-report", "watching", "two-phases", "faq")),
        ("Use", ("engines/README", "runner", "comparing", "ci-gate", "fleet", "sharing")),
        ("Look up", ("cli", "knobs", "rules/README", "formats", "columns", "performance")),
        ("Extend", ("adding-a-format", "adding-a-rule", "architecture", "testing", "fuzzing")),
    ),
    "engines/README": (("", pages_in("engines")),),
    "rules/README": (("", pages_in("rules")),),
}


def add_navigation(_app: Sphinx, page: str, text: list[str]) -> None:
    """Append the tables of contents of the pages that have pages below them."""
    for caption, below in NAVIGATION.get(page, ()):
        named = f":caption: {caption}\n" if caption else ""
        entries = "\n".join(f"/{entry}" for entry in below)
        text[0] += f"\n\n```{{toctree}}\n:hidden:\n{named}\n{entries}\n```\n"


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_navigation)
