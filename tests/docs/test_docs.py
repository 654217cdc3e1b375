"""The pages for contributors are true: their code runs, their paths exist."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from advisor.pages import pages
from parsers import Stream, Tables
from parsers.formats import FORMATS
from parsers.formats.process import Counts, Process
from parsers.formats.user import parse
from parsers.formats.user.samples import problems
from parsers.setup import Setups
from rules.rule import Finding
from tests.docs.markdown import PAGES, ROOT, prose_of
from tests.rules.helpers import measures

if TYPE_CHECKING:
    from parsers.formats.base import Format

TOY_LOG = b"request done: id=a1 prompt=630 in 2402.5 ms, out=32 in 375.4 ms\n"


def code(page: str, place: int = 0) -> dict[str, Any]:
    """The names that one of the page's Python blocks defines."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    block = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[place]
    module = ModuleType("toy")
    exec(compile(block, page, "exec"), module.__dict__)
    return module.__dict__


def test_the_toy_format_reads_its_log() -> None:
    toy: Format = code("adding-a-format.md")["FORMAT"]
    stream, tables = Stream("toy.log", formats=(*FORMATS, toy)), Tables()
    tables.extend(stream.feed(TOY_LOG))
    tables.extend(stream.close())
    assert stream.engine == "toyserve"
    row = tables.requests.row(0, named=True)
    assert (row["request_id"], row["prefill_tokens"], row["decode_ms"], row["line"]) == ("a1", 630, 375.4, 1)


def test_the_toy_format_file_is_right() -> None:
    text = (ROOT / "docs" / "adding-a-format.md").read_text("utf-8")
    spec = parse(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0])
    assert problems(spec) == []


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: f"{fmt.engine}-{fmt.grain}")
def test_every_format_says_what_it_times(fmt: Format) -> None:
    assert fmt.splits


def test_the_toy_rule_finds_long_answers_and_leaves_short_ones() -> None:
    check = code("adding-a-rule.md")["check"]
    request = {"prefill_tokens": 300, "prefill_ms": 300.0, "decode_ms": 15_000.0}
    finding = check(measures([{**request, "output_tokens": 600}] * 6))
    assert isinstance(finding, Finding)
    assert finding.saving is not None
    assert finding.saving.ms == pytest.approx(6 * 7_500, rel=0.01)
    assert not isinstance(check(measures([{**request, "output_tokens": 200}] * 6)), Finding)


def test_the_toy_tests_of_a_rule_pass() -> None:
    tests = {name: test for name, test in code("adding-a-rule.md", 1).items() if name.startswith("test_")}
    assert len(tests) == 2
    for test in tests.values():
        test()


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_a_page_names_is_there(page: str) -> None:
    named = set(
        re.findall(r"`((?:advisor|rules|parsers|tests|docs|sample_logs|\.ci)/[\w./-]*)`", prose_of(page))
    )
    assert not {path for path in named if not (ROOT / path).exists()}


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: str(fmt.engine))
def test_every_line_of_a_format_has_its_method(fmt: Format) -> None:
    """A name without a method would only be noticed by the first log that holds such a line."""
    reader = fmt.reader(Process("x.log", Counts(), [], Setups()))
    assert all(callable(getattr(reader, line.name, None)) for line in fmt.lines)


def test_the_generated_pages_are_what_the_code_says() -> None:
    """Write them anew: python -m advisor.pages."""
    texts = pages()
    assert {p.name for p in (ROOT / "docs" / "rules").iterdir()} == {
        Path(name).name for name in texts if name.startswith("rules/")
    }
    stale = [name for name, text in texts.items() if (ROOT / "docs" / name).read_text("utf-8") != text]
    assert not stale
