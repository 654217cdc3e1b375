"""Every link and anchor leads somewhere, on GitHub and on the site alike."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from parsers.formats import BUILTIN
from tests.docs.markdown import PAGES, ROOT, anchors_of, links_of, text_of


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    for link in links_of(page):
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent.joinpath(path).resolve() if path else ROOT / page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors_of(str(target.relative_to(ROOT))), link


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_no_link_leaves_the_site(page: str) -> None:
    docs = ROOT / "docs"
    targets = [(ROOT / page).parent.joinpath(link.partition("#")[0]).resolve() for link in links_of(page)]
    assert [t for t in targets if not t.is_relative_to(docs)] == []


@pytest.mark.parametrize("engine", sorted({fmt.engine for fmt in BUILTIN}))
def test_every_engine_has_a_page(engine: str) -> None:
    pages = [p for p in PAGES if p.startswith("docs/engines/") and Path(p).stem != "README"]
    named = re.compile(rf"(?<![\w.-]){re.escape(engine)}(?![\w-])")
    assert any(named.search(text_of(page)) for page in pages)


def test_every_engine_page_is_in_the_list() -> None:
    pages = {Path(p).name for p in PAGES if p.startswith("docs/engines/")} - {"README.md"}
    assert pages == {
        link for link in links_of("docs/engines/README.md") if "/" not in link and "#" not in link
    }
