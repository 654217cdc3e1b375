"""Whatever stands in a log, no output acts on it, and nothing private is in it."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from advisor.analysis import Options, measure
from advisor.export import write_frames
from advisor.output import json_text
from advisor.reading import read
from advisor.report import html, markdown, terminal
from advisor.ticket import report
from parsers.records import TABLES, columns
from tests.advisor.attacks import ATTACKS, SECRETS
from tests.advisor.helpers import Asked, prefixed
from tests.advisor.test_hostile import unsafe

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from advisor.ticket import Report
    from rules.measures import Measures

TOGETHER = [" ".join(ATTACKS.values()), " ".join(SECRETS)]


# --- logs that say a text wherever they can


def llama_server(said: str) -> str:
    """A model's path, a device, an architecture, and a prompt in a dump."""
    head, rest = prefixed([Asked(900, 700, 100, 2500)] * 3, model=f"/m/{said}").split("\n", 1)
    lines = [
        f"0.00.001.000 I cmn  common_param:   - CUDA0   : {said} (24080 MiB, 23000 MiB free)",
        f"0.00.002.000 I print_info: file type             = {said}",
        f"0.00.002.000 I print_info: arch                  = {said}",
        f"0.00.003.000 D srv  update_slots: prompt: {said}",
    ]
    return "\n".join([head, *lines, rest])


def answers(said: str) -> str:
    """Bodies with an id, a model, a content and a prompt."""
    timings = {"prompt_n": 900, "prompt_ms": 700.0, "predicted_n": 100, "predicted_ms": 2500.0}
    body = {"id": said, "model": said, "content": said, "prompt": said, "stop": True, "stop_type": said}
    lines = [
        json.dumps({**body, "id": f"{said} {n}", "timings": timings}, ensure_ascii=False) for n in range(3)
    ]
    return "\n".join(lines) + "\n"


def vllm(said: str) -> str:
    """A model, a request's id, a prompt, and windows."""
    rates = "Avg prompt throughput: 310.5 tokens/s, Avg generation throughput: 24.1 tokens/s"
    window = f"{rates}, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 14.8%"
    config = f"model='{said}', tokenizer='{said}', dtype=torch.bfloat16, max_seq_len=32768"
    lines = [
        f"INFO 11-29 10:00:00 [core.py:98] Initializing a V1 LLM engine (v0.17.1) with config: {config}",
        f"INFO 11-29 10:00:05 [logger.py:37] Received request {said}: prompt: '{said}', params: None",
        *(f"INFO 11-29 10:0{n}:10 [loggers.py:257] Engine 000: {window}" for n in range(3)),
        f"INFO 11-29 10:04:00 [async_llm.py:690] Aborted request(s) {said}.",
    ]
    return "\n".join(lines) + "\n"


LOGS = [llama_server, answers, vllm]


# --- outputs


def _reported(path: Path) -> tuple[Report, Measures]:
    return report(read([str(path)]), Options(), ["phasewise", "report", str(path)])


def _terminal(path: Path) -> str:
    out = io.StringIO()
    terminal.show(
        _reported(path)[0], everything=True, console=Console(file=out, width=80, force_terminal=False)
    )
    return out.getvalue()


def _svg(path: Path) -> str:
    terminal.save_svg(_reported(path)[0], path.with_suffix(".svg"))
    return path.with_suffix(".svg").read_text("utf-8")


def _csv(path: Path) -> str:
    rows, out = measure(read([str(path)]), Options()), path.with_suffix(".csv")
    texts = []
    for table in ("requests", "events"):
        write_frames([getattr(rows, table).select(columns(TABLES[table]))], out, "csv")
        texts.append(out.read_text("utf-8"))
    return "".join(texts)


OUTPUTS: dict[str, Callable[[Path], str]] = {
    "md": lambda path: markdown.render(_reported(path)[0]),
    "json": lambda path: json_text(_reported(path)[0]),
    "html": lambda path: html.render(*_reported(path)),
    "terminal": _terminal,
    "svg": _svg,
    "csv": _csv,
}


# --- what they must not be


def _plain(text: str, _harmless: str) -> None:
    assert unsafe(text) == set()


def _markdown(text: str, harmless: str) -> None:
    _plain(text, harmless)

    def kinds(page: str) -> set[str]:
        tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(page)
        inline = [child.type for token in tokens for child in token.children or []]
        html_tags = re.findall(r"</?\w+", " ".join(t.content for t in tokens if t.type == "html_block"))
        return {*(t.type for t in tokens), *inline, *html_tags}

    assert kinds(text) <= kinds(harmless)


def _json(text: str, harmless: str) -> None:
    _plain(text, harmless)
    assert json.loads(text).keys() == json.loads(harmless).keys()


class _Tags(HTMLParser):
    """The tags of a page with the names of their attributes, and where its links lead."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, ...]] = []
        self.links: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, *(name for name, _ in attrs)))
        self.links |= {value or "" for name, value in attrs if name in {"href", "src", "action"}}


def _html(text: str, harmless: str) -> None:
    page, plain = _Tags(text), _Tags(harmless)
    assert set(page.tags) <= set(plain.tags)
    assert page.links <= plain.links
    assert unsafe(re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)) == set()


def _drawn(text: str, _harmless: str) -> None:
    assert unsafe(text) == set()
    names = {element.tag.rpartition("}")[2] for element in ET.fromstring(text).iter()}
    assert names <= {
        "svg",
        "style",
        "defs",
        "clipPath",
        "rect",
        "text",
        "g",
        "circle",
        "line",
        "title",
        "path",
    }
    attributes = {name for element in ET.fromstring(text).iter() for name in element.attrib}
    assert not {name for name in attributes if name.startswith("on") or "href" in name}


def _cells(text: str, _harmless: str) -> None:
    assert unsafe(text) == set()
    cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row if len(cell) > 1]
    numbers = re.compile(r"-?[\d.]+(e-?\d+)?")
    assert [c for c in cells if c[0] in "=+-@\t\r" and not numbers.fullmatch(c)] == []


CHECKS: dict[str, Callable[[str, str], None]] = {
    "md": _markdown,
    "json": _json,
    "html": _html,
    "terminal": _plain,
    "svg": _drawn,
    "csv": _cells,
}


def _secrets(text: str) -> set[str]:
    """The secrets in a text, also where a line breaks in one."""
    flat = re.sub(r"[\\\s]+", "", text)
    return {secret for secret in SECRETS.values() if re.sub(r"[\\\s]+", "", secret) in flat}


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("log", LOGS)
def test_nothing_in_a_log_acts_or_is_told(tmp_path: Path, log: Callable[[str], str], output: str) -> None:
    path = tmp_path / "x.log"
    path.write_text(log("harmless"), "utf-8")
    harmless = OUTPUTS[output](path)
    for said in [*TOGETHER, *(ATTACKS.values() if output == "csv" else ())]:
        path.write_text(log(said), "utf-8", errors="replace", newline="\n")
        text = OUTPUTS[output](path)
        CHECKS[output](text, harmless)
        assert _secrets(text) - _secrets(harmless) == set()
