"""`phasewise report`: what a ticket gets."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import cmarkgfm
import pytest
from markdown_it import MarkdownIt

from advisor.model import Analysis
from advisor.report.markdown import MOST_CHARACTERS, render
from advisor.ticket import Report
from tests.advisor.helpers import SAMPLES, analysis, at_rates, one_sentence, phasewise, prefixed

if TYPE_CHECKING:
    from pathlib import Path

    from markdown_it.token import Token

RAG = "llama-server-rag.log"
ORDER = [
    "The answer",
    "What to change",
    "What was measured",
    "Setup",
    "Slowest requests",
    "What went wrong",
    "What this can't tell",
    "How to reproduce",
]


def rendered(page: str) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page)


def of_type(tokens: list[Token], kind: str) -> list[str]:
    return [token.content for token in tokens if token.type == kind]


def headings(tokens: list[Token], level: str = "h2") -> list[str]:
    opened = [i for i, t in enumerate(tokens) if t.type == "heading_open" and t.tag == level]
    return [tokens[i + 1].content for i in opened]


def made(*arguments: str, stdin: bytes = b"") -> dict[str, Any]:
    ran = phasewise("report", *arguments, "--format", "json", stdin=stdin, cwd=SAMPLES)
    assert (ran.status, ran.err) == (0, "")
    data: dict[str, Any] = json.loads(ran.out)
    return data


@pytest.mark.parametrize("log", ["llama-server-rag.log", "vllm.log", "ollama-reload.log", "."])
def test_markdown_has_the_parts_of_a_ticket_in_order(log: str) -> None:
    page = phasewise("report", log, cwd=SAMPLES).out
    tokens = rendered(page)
    parts = headings(tokens)
    assert parts == [part for part in ORDER if part in parts]
    assert {"The answer", "What was measured", "How to reproduce"} <= set(parts)
    assert len(page) < MOST_CHARACTERS
    data = made(log)
    assert len(headings(tokens, "h3")) == len(data["findings"])
    assert page.count("<details>") == page.count("</details>")
    assert "http://" not in page
    assert "https://" not in page
    rows = sum(token.type == "tr_open" for token in tokens)
    assert rows >= sum(len(finding["evidence"]) + 1 for finding in data["findings"])


def test_analyze_prints_the_same_markdown() -> None:
    ticket = phasewise("report", RAG, cwd=SAMPLES).out
    page = phasewise(RAG, "--format", "md", cwd=SAMPLES).out
    command = "phasewise report llama-server-rag.log"
    assert command in ticket
    assert ticket == page.replace("phasewise analyze llama-server-rag.log --format md", command)


def test_json_is_the_analysis_and_what_a_ticket_adds() -> None:
    data = made(RAG)
    assert {key: data[key] for key in Analysis.model_json_schema()["properties"]} == analysis(RAG)
    slowest = data["slowest"]
    assert [one["total_ms"] for one in slowest] == sorted((one["total_ms"] for one in slowest), reverse=True)
    assert slowest[0]["line"] == 449
    assert slowest[0]["prefill_ms"] + slowest[0]["decode_ms"] == pytest.approx(slowest[0]["total_ms"])
    assert data["reproduce"]["command"] == "phasewise report llama-server-rag.log --format json"
    assert data["reproduce"]["first_at"] is None


def test_reproduction_says_which_time_the_log_covers() -> None:
    data = made("ollama-reload.log")["reproduce"]
    assert data["first_at"] < data["last_at"]
    page = phasewise("report", "ollama-reload.log", cwd=SAMPLES).out
    assert f"The log covers {data['first_at'][:10]} " in page.replace("\\", "")


def test_time_that_only_some_logs_tell() -> None:
    page = phasewise("report", "ollama-reload.log", "llama-server-rag.log", cwd=SAMPLES).out
    assert "What has a clock (1 of 2 logs) covers 20" in page


def test_what_went_wrong_is_told_with_its_lines() -> None:
    told = {one["detail"]: [line["line"] for line in one["lines"]] for one in made("vllm.log")["incidents"]}
    assert 195 in told[next(detail for detail in told if "400" in detail)]
    page = phasewise("report", "vllm.log", cwd=SAMPLES).out
    assert "vllm.log:195" in page
    assert "What went wrong" not in phasewise("report", RAG, cwd=SAMPLES).out


def test_the_ending_decides(tmp_path: Path) -> None:
    for name, start in (("t.md", "# "), ("t.json", "{"), ("t.html", "<!doctype html>")):
        ran = phasewise("report", RAG, "-o", str(tmp_path / name), cwd=SAMPLES)
        assert (ran.status, ran.out, ran.err) == (0, "", "")
        assert (tmp_path / name).read_text("utf-8").startswith(start)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.html", "t.json", "t.md"]


def test_outputs_that_cannot_be_written(tmp_path: Path) -> None:
    one_sentence(phasewise("report", RAG, "-o", "ticket.doc", cwd=SAMPLES), "ticket.doc", ".html")
    one_sentence(phasewise("report", RAG, "-o", str(tmp_path / "no" / "t.md"), cwd=SAMPLES), "t.md")
    log = tmp_path / "server.md"
    log.write_text(prefixed([at_rates(900, 700, 100, 40)] * 6))
    ran = phasewise("report", str(log), "-o", str(log))
    assert ran.status == 2
    one_sentence(ran, "the log itself")
    assert log.read_text().startswith("0.00.000.907")


def test_a_ticket_stays_below_the_limit_and_says_what_is_left_out() -> None:
    whole = Report.model_validate(made("ollama-reload.log"))
    finding = whole.findings[0].model_copy(update={"why": "All of it. " * 300})
    long = whole.model_copy(update={"findings": [finding] * 30})
    page = render(long)
    shown = len(headings(rendered(page), "h3"))
    assert 5 < shown < 30
    assert len(page) <= MOST_CHARACTERS
    assert f"{30 - shown} more" in page


@pytest.mark.parametrize(
    "name", ["www.evil.zip", "https://evil.example/x", "x@octocat", "x#1", "![i](http://e)"]
)
def test_a_name_links_nothing_on_github(name: str) -> None:
    log = prefixed([at_rates(900, 700, 100, 40)] * 6, model=name).encode()
    page = phasewise("report", "-", "--no-redact", stdin=log).out
    html = cmarkgfm.github_flavored_markdown_to_html(page)
    assert "<a " not in html
    assert "<img" not in html
    shown = re.sub(r"<!--.*?-->", "", html)
    assert name.rpartition("/")[2].rstrip(")") in shown
    for mention in re.findall(r"[@#]\w+", re.sub(r"<!-- -->|<!-- raw HTML omitted -->", "|", html)):
        assert mention in ("#x27",), mention


def test_github_renders_all_of_it() -> None:
    html = cmarkgfm.github_flavored_markdown_to_html(phasewise("report", RAG, cwd=SAMPLES).out)
    assert html.count("<table>") == html.count("</table>") >= 4
    assert html.count("<h2>") == len(ORDER) - 1
    assert "|---" not in html


def test_command_line_keeps_secrets_out() -> None:
    log = prefixed([at_rates(900, 700, 100, 40)] * 6).encode()
    page = phasewise("report", "-", "--model", "sk-proj-abcdefghijklmnop1234", stdin=log).out
    assert "sk-proj" not in page
    assert "phasewise report -" in page
