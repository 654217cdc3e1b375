"""A browser for all tests here, and a page that reaches nothing and forgives nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.pages import chromium
from tests.required import skip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    try:
        from playwright import sync_api as playwright
    except ImportError:
        skip("playwright is not installed")
    with playwright.sync_playwright() as driver:
        try:
            started = driver.chromium.launch(**chromium())
        except playwright.Error as error:
            skip(f"no Chromium starts here: {str(error).splitlines()[0]}")
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens HTML in a window of its own, offline; at the end nothing was asked of any network, nor said."""
    said: list[str] = []
    contexts: list[Any] = []

    def open_page(html: str, **options: Any) -> Any:
        file = tmp_path / f"report-{len(contexts)}.html"
        file.write_text(html, "utf-8")
        context = browser.new_context(offline=True, **{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
        context.on("request", lambda request: said.extend({request.url} - {file.as_uri()}))
        page.goto(file.as_uri())
        if options.get("java_script_enabled", True):
            page.wait_for_selector("html[data-drawn]", timeout=30_000)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
