"""The line on top: what is read, how far, and whether all of it goes on."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from advisor.live.session import Status
from advisor.tui.status_line import status_text

if TYPE_CHECKING:
    from advisor.live.view import View

LIVE = Status("/var/log/llm/llama-server.log", "llama-server", 4096, 40, is_live=True, ended=False, note="")
MISSING = Status(
    "typo.log", None, 0, 0, is_live=True, ended=False, note="typo.log: no such file yet; waiting for it."
)
FAILED = Status("broken.gz", None, 9, 0, is_live=False, ended=True, note="broken.gz: its data is damaged.")


def said(*sources: Status, width: int = 200, model: str = "llama-3.1-8b-instruct-q4_k_m.gguf") -> str:
    """The line over these sources, of which 1,234 requests are known."""
    view = SimpleNamespace(
        statuses=list(sources),
        ended=all(one.ended for one in sources),
        totals=SimpleNamespace(requests=1234, rows=Counter(intervals=2)),
        judged=SimpleNamespace(analysis=SimpleNamespace(setup=SimpleNamespace(model=model))),
    )
    return status_text(cast("View", cast("Any", view)), width, paused=False).plain


def test_names_are_cut_before_numbers() -> None:
    assert said(LIVE) == (
        "● live  /var/log/llm/llama-server.log  "
        "llama-server · llama-3.1-8b-instruct-q4_k_m.gguf · 1,234 requests · 2 intervals"
    )
    line = said(LIVE, width=78)
    assert cell_len(line) == 78
    assert line.endswith(" · 1,234 requests · 2 intervals")
    assert "live  /va…ver.log  llama-server · lla…_m.gguf" in line


@given(
    name=st.text(st.characters(exclude_categories=["C", "M", "Z"]), min_size=1), width=st.integers(78, 120)
)
def test_no_name_makes_the_line_too_long(name: str, width: int) -> None:
    assert cell_len(said(LIVE, width=width, model=name)) <= width


@pytest.mark.parametrize(
    ("sources", "begins", "holds"),
    [
        ((MISSING,), "◌ waiting  typo.log: no such file yet  ", ""),
        ((LIVE, MISSING), "◌ waiting  2 sources  ", "typo.log: no such file yet"),
        ((LIVE, FAILED), "● live  2 sources  ", "broken.gz: its data is damaged"),
        ((FAILED,), "■ ended  broken.gz: its data is damaged  ", ""),
    ],
)
def test_what_waits_or_has_failed_says_so(sources: tuple[Status, ...], begins: str, holds: str) -> None:
    line = said(*sources)
    assert line.startswith(begins)
    assert holds in line


def test_numbers_that_find_no_room_are_cut_by_the_screen() -> None:
    assert said(LIVE, LIVE, model="", width=20).startswith("● live  2 sources")
