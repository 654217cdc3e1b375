"""The pictures of the README: a report's first screen, light and dark. Write them anew with
``python -m tests.browser.pictures``.
"""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from tests.advisor.helpers import ROOT
from tests.browser.pages import chromium, page

LOG = "sample_logs/ollama-reload.log"
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT, SCALE = 1180, 860, 1.5


def write(folder: Path = IMAGES) -> None:
    """Write ``report-light.png`` and ``report-dark.png``."""
    with TemporaryDirectory() as temporary, sync_playwright() as driver:
        file = Path(temporary) / "report.html"
        with chdir(ROOT):
            file.write_text(page(LOG), "utf-8")
        browser = driver.chromium.launch(**chromium())
        for theme in ("light", "dark"):
            window = browser.new_page(
                color_scheme=theme, viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=SCALE
            )
            window.goto(file.as_uri())
            window.wait_for_selector("html[data-drawn]")
            window.screenshot(path=folder / f"report-{theme}.png")
        browser.close()


if __name__ == "__main__":
    write()
