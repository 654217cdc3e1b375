"""The pages for contributors are true: their code runs, their paths exist."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from parsers import Stream, Tables, search
from parsers.formats import FORMATS
from parsers.formats.base import Counts, Format, Process
from parsers.records import columns_page
from rules.rule import Finding
from tests.rules.helpers import measures

ROOT = Path(__file__).parents[2]
TOY_LOG = b"request done: id=a1 prompt=630 in 2402.5 ms, out=32 in 375.4 ms\n"


def code(page: str) -> dict[str, Any]:
    """The names that the page's Python block defines."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    block = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert block is not None
    module = ModuleType("toy")
    exec(compile(block[1], page, "exec"), module.__dict__)
    return module.__dict__


def test_the_toy_format_reads_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    toy: Format = code("adding-a-format.md")["FORMAT"]
    monkeypatch.setattr("parsers.stream.FORMATS", (*FORMATS, toy))
    monkeypatch.setattr(search, "FORMATS", (*FORMATS, toy))
    stream, tables = Stream("toy.log"), Tables()
    tables.extend(stream.feed(TOY_LOG))
    tables.extend(stream.close())
    assert stream.engine == "toyserve"
    row = tables.requests.row(0, named=True)
    assert (row["request_id"], row["prefill_tokens"], row["decode_ms"], row["line"]) == ("a1", 630, 375.4, 1)


def test_the_toy_rule_finds_long_answers_and_leaves_short_ones() -> None:
    check = code("adding-a-rule.md")["check"]
    request = {"prefill_tokens": 300, "prefill_ms": 300.0, "decode_ms": 15_000.0}
    finding = check(measures([{**request, "output_tokens": 600}] * 6))
    assert isinstance(finding, Finding)
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(6 * 7_500, rel=0.01)
    assert not isinstance(check(measures([{**request, "output_tokens": 200}] * 6)), Finding)


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))])
def test_every_path_that_a_page_names_is_there(page: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text("utf-8"), flags=re.DOTALL)
    named = set(re.findall(r"`((?:advisor|rules|parsers|tests|docs|sample_logs|\.ci)/[\w./-]*)`", text))
    linked = set(re.findall(r"\]\(([^)#:]+)\)", text))
    missing = {p for p in named if not (ROOT / p).exists()}
    missing |= {p for p in linked if not (ROOT / page).parent.joinpath(p).exists()}
    assert not missing


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: str(fmt.engine))
def test_every_line_of_a_format_has_its_method(fmt: Format) -> None:
    """A name without a method would only be noticed by the first log that holds such a line."""
    reader = fmt.reader(Process("x.log", Counts(), [], [], 2026))
    assert all(callable(getattr(reader, line.name, None)) for line in fmt.lines)


def test_the_page_of_columns_is_what_the_records_say() -> None:
    """Write it anew: python -c "from parsers.records import columns_page as p; print(p(), end='')"."""
    assert (ROOT / "docs" / "columns.md").read_text("utf-8") == columns_page()
