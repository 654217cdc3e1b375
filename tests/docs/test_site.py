"""The site builds without a warning, holds every page, and loads nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.markdown import PAGES, ROOT

_REMOTE = re.compile(r"""(?:src=|<link[^>]*href=|url\(|@import )["']?(?:https?:)?//[^"'>)]+""")

pytestmark = [
    pytest.mark.docs,
    pytest.mark.skipif(
        not all(map(find_spec, ("sphinx", "myst_parser", "furo"))),
        reason="the site's generator isn't installed",
    ),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", ROOT / "docs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (built.returncode, built.stderr) == (0, "")
    return folder


def test_every_page_is_there(site: Path) -> None:
    pages = {
        str(Path(page).relative_to("docs").with_suffix(".html")) for page in PAGES if page.startswith("docs/")
    }
    assert {page for page in pages if not (site / page).is_file()} == set()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loaded = [p for p in site.rglob("*") if p.suffix in (".html", ".css", ".svg")]
    assert [found for p in loaded for found in _REMOTE.findall(p.read_text("utf-8"))] == []
