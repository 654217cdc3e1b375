"""The HTML report as a file: complete, well formed, safe with any text, and honest about samples."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import polars as pl
import pytest

from advisor.analysis import Options, measure
from advisor.reading import read
from advisor.report import charts, tables
from advisor.report.charts import CSS, LIGHT, Chart, drawn
from advisor.report.html import json_block, render, words
from advisor.report.listing import Listing, cell
from advisor.report.page import pasted
from advisor.report.rows import MOST_POINTS, Rows
from advisor.ticket import report
from tests.advisor.helpers import ROOT, SAMPLES, Asked, prefixed

if TYPE_CHECKING:
    from pathlib import Path

    from rules.measures import Measures

FORMATS, DOCUMENTS = ROOT / "parsers" / "formats" / "samples", ROOT / "parsers" / "documents" / "samples"
SAMPLE_OF_EACH = {
    path.name.partition("-")[0]: path
    for path in sorted((*FORMATS.glob("*.log"), *DOCUMENTS.glob("*.json*")))
    if not path.name.endswith(".expected.json")
}
"""The last sample of each engine and benchmark by name."""

KINDS = [
    *sorted(SAMPLES.glob("*.log")),
    *(FORMATS / f"{name}.log" for name in ("llama-bench-table", "ollama-go-engine", "vllm-no-stats")),
    *(FORMATS / f"{name}.log" for name in ("sglang-0.3", "vllm-iterations", "vllm-metrics")),
    DOCUMENTS / "vllm-bench-latencies.json",
]
ALONE = {"br", "circle", "img", "input", "link", "meta", "path", "rect"}


def measures(text: str, folder: Path) -> Measures:
    log = folder / "server.log"
    log.write_text(text, "utf-8")
    return measure(read([str(log)]), Options(), once=True)


def html_of(path: Path) -> str:
    return render(*report(read([str(path)]), Options(), ["phasewise", "report", str(path)]))


class Page(HTMLParser):
    """What a page is made of, and what is wrong with it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.refers: list[str] = []
        self.inline: list[str] = []
        self.code: dict[str, list[str]] = {"script": [], "style": []}
        self.data = ""
        self.policy = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in ALONE:
            self.open.append(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.refers += [str(given[name]) for name in ("href", "src", "data", "action") if name in given]
        self.inline += [name for name in given if name.startswith("on") or name == "style"]
        if tag in self.code and given.get("type") != "application/json":
            self.code[tag].append("")
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = str(given["content"])
        self._is_data = given.get("type") == "application/json"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALONE
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.code:
            if self._is_data:
                self.data += data
            else:
                self.code[self.open[-1]][-1] += data


@pytest.mark.parametrize("path", KINDS, ids=lambda path: path.name)
def test_a_report_of_every_kind_is_one_complete_file(path: Path) -> None:
    page = Page(html_of(path))
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert page.inline == []
    assert all(refers.startswith("#") and refers[1:] in page.ids for refers in page.refers)
    assert page.policy.startswith("default-src 'none'; ")
    assert "unsafe" not in page.policy
    for code in (*page.code["script"], *page.code["style"]):
        assert b64encode(sha256(code.encode()).digest()).decode() in page.policy
    for chart in json.loads(page.data)["charts"]:
        text = json.dumps(chart["spec"])
        assert "http" not in text
        assert "#" not in re.sub(r'"#[0-9a-f]{32}"', "", text), "a colour that the theme can't change"


@pytest.mark.parametrize("path", [*KINDS, *SAMPLE_OF_EACH.values()], ids=lambda path: path.name)
def test_no_chart_is_empty(path: Path) -> None:
    rows = Rows(measure(read([str(path)]), Options(), once=True))
    pictures, missing = drawn(rows, CSS)
    assert pictures or missing
    assert len({chart.name for chart in pictures}) == len(pictures)
    for chart in pictures:
        assert chart.says.endswith(".")
        assert _values(chart, rows), chart.name
    for one in missing:
        assert one.title not in {chart.title for chart in pictures}


def _values(chart: Chart, rows: Rows) -> list[object]:
    """All rows that a chart draws."""
    spec = chart.spec(CSS, "container")
    layers = spec.get("layer", [spec])
    inline = [row for data in spec.get("datasets", {}).values() for row in data]
    shared = any(layer.get("data", spec.get("data", {})).get("name") == "requests" for layer in layers)
    return inline + (rows.drawn_records() if shared else [])


def test_no_text_ends_the_data_or_becomes_markup() -> None:
    attack = "</script><!--<script>alert(1)</script>{{7*7}}"
    block = json_block({"model": attack})
    assert "<" not in block
    assert json.loads(block) == {"model": attack}
    assert words("`a` <b>`c`</b>") == "<code>a</code> &lt;b&gt;<code>c</code>&lt;/b&gt;"


def test_a_sample_keeps_the_slowest_and_spreads_and_is_always_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("advisor.report.rows.MOST_ROWS", 400)
    monkeypatch.setattr("advisor.report.rows.MOST_POINTS", 100)
    asked = [Asked(300, 100.0, 40, 400.0 + (i * 7919) % 1009) for i in range(1_000)]
    m = measures(prefixed(asked), tmp_path)
    rows, again = Rows(m), Rows(m)
    slowest = m.requests.sort("total_ms", descending=True)["line"].head(40).to_list()
    assert (rows.listed.height, rows.drawn.height) == (400, 100)
    assert set(slowest) <= set(rows.listed["line"])
    assert set(slowest[:10]) <= set(rows.drawn["line"])
    assert rows.listed["number"].diff().drop_nulls().max() <= 8  # type: ignore[operator]
    assert rows.listed.equals(again.listed)
    assert rows.drawn.equals(again.drawn)
    assert [rows.listed["number"][place] for place in rows.drawn_places() or []] == rows.drawn[
        "number"
    ].to_list()
    assert "lists 400 of 1,000 requests" in Listing(rows).sampled
    assert "Numbers and fits are of all requests" in Listing(rows).sampled
    monkeypatch.setattr("advisor.report.listing.MOST_SAMPLES", 500)
    assert Listing(rows).sampled.endswith("Numbers are of all requests, fits of 500 spread over the log.")


def test_everything_is_there_where_there_is_little(tmp_path: Path) -> None:
    rows = Rows(measures(prefixed([Asked(300, 100.0, 40, 400.0)] * 3), tmp_path))
    assert rows.drawn_places() is None
    assert Listing(rows).sampled == ""
    assert rows.requests.height < MOST_POINTS


def test_a_request_that_is_not_split_fills_its_time_once(tmp_path: Path) -> None:
    rows = Rows(measure(read([str(FORMATS / "ollama-go-engine.log")]), Options(), once=True))
    clock = next(chart for chart in drawn(rows, CSS)[0] if chart.name == "waterfall")
    bars = pl.DataFrame(_values(clock, rows)).group_by("number").agg(pl.col("seconds").sum())
    totals = rows.requests.select(pl.col("number").cast(pl.Int64), pl.col("total_ms") / 1000)
    both = bars.join(totals, on="number")
    assert both.height == bars.height
    assert ((both["seconds"] - both["total_ms"]).abs() <= 0.01 * both["total_ms"] + 0.01).all()


def test_columns_that_say_nothing_are_left_out(tmp_path: Path) -> None:
    rows = Rows(measures(prefixed([Asked(300, 100.0, 40, 400.0)] * 3), tmp_path))
    labels = [column.label for column in Listing(rows).columns]
    assert {"#", "taken by a slot, s", "prompt", "output", "prefill s", "decode s", "total s"} <= set(labels)
    assert not {"log", "engine", "model", "kind", "slot", "queue s", "load s", "other s"} & set(labels)


def test_what_was_evaluated_is_told_where_prompts_are_not() -> None:
    path = ROOT / "tests" / "logs" / "llama-server-b11434" / "h_spec_draft_same_model" / "server.log"
    made, m = report(read([str(path)]), Options(), ["phasewise"])
    assert m.generations["prompt_tokens"].count() == 0
    labels = {column.label for column in Listing(Rows(m)).columns}
    assert "evaluated" in labels
    assert "prompt" not in labels
    told = {row[0]: row[1:] for row in tables.measured(made, tables.LONG)}
    evaluated = m.generations["prefill_tokens"].drop_nulls().to_list()
    assert told["prompt tokens evaluated"][-2:] == (f"{max(evaluated):,}", str(len(evaluated)))
    assert "prompt tokens" not in told
    whole = tables.measured(
        report(read([str(SAMPLES / "llama-server-rag.log")]), Options(), ["phasewise"])[0]
    )
    assert "prompt tokens evaluated" not in {row[0] for row in whole}


def test_a_benchmarks_tests_are_a_table_and_no_requests() -> None:
    path = FORMATS / "llama-bench-table.log"
    made, m = report(read([str(path)]), Options(), ["phasewise"])
    header, *rows = tables.measured(made)
    assert header[:3] == ("test", "prefill", "decode")
    assert len(rows) == m.requests.height
    said = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    assert said["pp512"]["evaluated"] == "512"
    assert said["tg128 @ d4096"]["context"] == "4,224"
    for name, phase in (("pp512", "prefill"), ("tg128 @ d4096", "decode")):
        printed = [line for line in path.read_text("utf-8").splitlines() if f" {name} |" in line][-1]
        tok_s = float(printed.split("|")[-2].split("±")[0])
        assert float(said[name][phase].split()[0].replace(",", "")) == pytest.approx(tok_s, rel=0.01)
    read_from = dict(zip(*tables.sources(made), strict=True))
    assert read_from["tests"] == str(len(rows))
    assert "requests" not in read_from


def test_only_what_can_be_pasted_looks_like_it() -> None:
    pastes = (
        "-fa on",
        "--chat-template-args '{\"enable_thinking\": false}'",
        "OLLAMA_FLASH_ATTENTION=1",
        "LLAMA_ARG_CTX_CHECKPOINTS=32 LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT=512",
        "n_batch=2048, n_ubatch=512",
        "num_ctx = 4096",
        '"chat_template_kwargs": {"enable_thinking": false}',
        "ollama ps",
        'curl localhost:8080/completion -d \'{"prompt": "...", "n_predict": 1}\'',
        "chunk_size: 512",
    )
    sentences = (
        "fixed text first; date, ids after it; --enable-prefix-caching (the default in V1)",
        '"stop": ["<|im_end|>"], or what ends a turn in this model\'s template',
        "a smaller -ngl, until 1 to 2 GiB are free",
        "no -md and no --spec-type",
        "vllm serve without --enforce-eager",
        'OLLAMA_MAX_LOADED_MODELS=2, and "num_gpu": 0 for embedding models',
        "Offload KV Cache to GPU Memory: on",
        "4 slots",
    )
    assert [text for text in pastes if not pasted(text)] == []
    assert [text for text in sentences if pasted(text)] == []


def test_a_sentence_has_no_button_that_copies_it() -> None:
    made, rows = report(read([str(SAMPLES / "llama-server-rag.log")]), Options(), ["phasewise"])
    copied = re.findall(r'aria-label="Copy: ([^"]*)"', render(made, rows))
    changes = [fix.apply for finding in made.findings for fix in finding.fixes]
    assert copied == [*filter(pasted, changes), "phasewise"]
    assert len(copied) < len(changes)


@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        (None, "seconds", ""),
        (0.0, "seconds", "0.00"),
        (4.0, "seconds", "<0.01"),
        (17_034.0, "seconds", "17.03"),
        (123_456.0, "seconds", "123"),
        (2332.5, "rate", "2,332"),
        (51.64, "rate", "51.6"),
        (3565, "count", "3,565"),
        (1_764_445_157_000.0, "time", "2025-11-29 19:39:17"),
        ("<b>", "text", "<b>"),
    ],
)
def test_cells(value: object, kind: str, said: str) -> None:
    assert cell(value, kind) == said


def test_charts_are_saved_as_svg_and_png(tmp_path: Path) -> None:
    path = SAMPLES / "llama-server-four-slots.log"
    made, rows = report(read([str(path)]), Options(), ["phasewise"])
    files = charts.save(made, rows, tmp_path / "new" / "charts")
    names = {chart.name for chart in drawn(Rows(rows), LIGHT)[0]}
    assert {file.name for file in files} == {f"{name}.{kind}" for name in names for kind in ("svg", "png")}
    for name in names:
        svg = (tmp_path / "new" / "charts" / f"{name}.svg").read_text("utf-8")
        assert re.search(LIGHT["prefill"] + "|" + LIGHT["decode"], svg, re.IGNORECASE)
        assert "var(" not in svg
        assert (tmp_path / "new" / "charts" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_has_the_colours_that_are_saved() -> None:
    css = (ROOT / "advisor" / "report" / "assets" / "page.css").read_text("utf-8")
    told = dict(re.findall(r"--(\w+): light-dark\((#\w+),", css))
    assert {name: told[name] for name in LIGHT} == LIGHT


def test_requests_of_several_models_get_no_common_line() -> None:
    paths = [str(SAMPLES / f"{name}.log") for name in ("llama-server-rag", "ollama-reload")]
    rows = Rows(measure(read(paths), Options(), once=True))
    pictures = {chart.name: chart for chart in drawn(rows, CSS)[0]}
    for name in ("prefill-length", "context-depth"):
        assert "several models" in pictures[name].says
        assert len(pictures[name].spec(CSS, "container")["layer"]) == 1
    assert "waterfall" not in pictures


def test_the_memory_limit_lies_below_what_was_measured() -> None:
    rows = Rows(measure(read([str(SAMPLES / "ollama-reload.log")]), Options(), once=True))
    chart = next(chart for chart in drawn(rows, CSS)[0] if chart.name == "context-depth")
    limit = [
        row for row in _values(chart, rows) if isinstance(row, dict) and row.get("line") == "memory limit"
    ]
    setup = rows.m.setup
    assert setup.weights_bytes is not None
    assert rows.m.bandwidth_gb_s is not None
    assert limit[0]["ms"] == pytest.approx(setup.weights_bytes / rows.m.bandwidth_gb_s / 1e6, rel=1e-3)
    assert limit[1]["ms"] < rows.requests["ms_token"].drop_nulls().min()
    assert "504 GB/s" in chart.says
