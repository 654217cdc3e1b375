"""`analyze` as people and scripts see it: the page, the JSON of the contract, the numbers."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from tests.advisor.helpers import (
    SAMPLES,
    analysis,
    at_rates,
    environment,
    phasewise,
    prefixed,
)

if TYPE_CHECKING:
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

CHAT, SLOTS, VLLM = "llama-server-chat.log", "llama-server-four-slots.log", "vllm.log"


# --- the page


@pytest.mark.parametrize("log", [CHAT, SLOTS, VLLM, "."])
def test_the_page_fits_80_columns_and_is_plain_in_a_pipe(log: str) -> None:
    ran = phasewise(log, "--all", cwd=SAMPLES)
    assert (ran.status, ran.err) == (0, "")
    assert "THE ANSWER" in ran.out
    assert "\x1b" not in ran.out
    for line in ran.out.splitlines():
        assert len(line) <= 80
        assert line == line.rstrip()


def test_the_page_fits_a_narrow_window() -> None:
    ran = phasewise(CHAT, cwd=SAMPLES, env={"COLUMNS": "40"})
    assert max(map(len, ran.out.splitlines())) <= 40
    assert phasewise(CHAT, cwd=SAMPLES, env={"COLUMNS": "3"}).status == 0


@pytest.mark.skipif(sys.platform == "win32", reason="no pty there")
@pytest.mark.parametrize(
    ("env", "coloured", "styled"),
    [
        ({"TERM": "xterm-256color"}, True, True),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, False, True),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_colours_on_a_terminal(env: dict[str, str], coloured: bool, styled: bool) -> None:
    page = _on_terminal(env)
    assert "THE ANSWER" in page
    assert bool(re.search(r"\x1b\[[\d;]*3\d", page)) == coloured
    assert ("\x1b" in page) == styled


def _on_terminal(env: dict[str, str]) -> str:
    import pty

    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "advisor", CHAT],
        cwd=SAMPLES,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env=environment(**env),
    )
    os.close(theirs)
    page = b""
    try:
        while block := os.read(ours, 65536):
            page += block
    except OSError:
        pass  # Linux says so when the other side has closed
    os.close(ours)
    assert child.wait(10) == 0
    return page.decode()


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
@pytest.mark.parametrize("arguments", [[], ["--all"], ["--format", "md"], ["--format", "json"]])
def test_output_that_is_not_unicode(encoding: str, arguments: list[str]) -> None:
    log = prefixed([at_rates(12_000, 1500, 500, 40)] * 6, model="/models/模型-日本.gguf").encode()
    ran = phasewise("-", *arguments, stdin=log, env={"PYTHONIOENCODING": encoding})
    assert (ran.status, ran.err) == (0, "")
    assert ran.raw.isascii()
    if "json" in arguments:
        assert json.loads(ran.raw)["setup"]["model"] == "模型-日本.gguf"
    else:
        assert re.search(r"#{20,}={20,}", ran.out)


@pytest.mark.parametrize("arguments", [["--help"], ["analyze", "--help"], ["formats"], ["rules"], []])
def test_help_in_ascii(arguments: list[str]) -> None:
    ran = phasewise(*arguments, env={"PYTHONIOENCODING": "ascii"})
    assert (ran.status, ran.err) == (0, "")
    assert "phasewise" in ran.out or arguments in (["formats"], ["rules"])


@pytest.mark.parametrize("log", [CHAT, SLOTS, VLLM])
@pytest.mark.parametrize("form", ["terminal", "md"])
def test_whole_pages(log: str, form: str, snapshot: SnapshotAssertion) -> None:
    page = phasewise(log, "--format", form, cwd=SAMPLES).out
    assert re.sub(r"with Python .*? The log", "with Python … The log", page) == snapshot


# --- the JSON


@pytest.mark.parametrize("log", [CHAT, SLOTS, VLLM, "."])
def test_json_is_what_its_schema_says(log: str) -> None:
    schema = json.loads(phasewise("schema").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(analysis(log), schema)


CONTRACT = {
    "": "schema sources setups setup summary verdict findings caveats",
    "sources": "path engine engine_version bytes lines requests intervals events incomplete_requests"
    " aborted_requests failed_requests",
    "setup": "origin model architecture parameters quantization weights_bytes layers layers_offloaded"
    " kv_heads head_dim_k head_dim_v context context_total slots batch ubatch flash_attention kv_type_k"
    " kv_type_v kv_bytes kv_bytes_per_token devices threads prefix_caching speculative",
    "setups": "source line engine model context",
    "summary": "requests wall_ms phase_ms phase_share ttft_ms tpot_ms total_ms prefill_tok_s decode_tok_s"
    " cached_share",
    "verdict": "phase share healthy sentence",
    "findings": "rule phase confidence title why evidence requests saving fixes verify sources",
    "caveats": "id text",
}
DEEPER = {
    ("setup", "devices"): "name backend memory_bytes bandwidth_gb_s",
    ("summary", "phase_ms"): "queue load prefill decode other",
    ("summary", "phase_share"): "queue load prefill decode other",
    ("summary", "ttft_ms"): "p50 p90 p95 p99 max",
    ("summary", "tpot_ms"): "p50 p95",
    ("summary", "total_ms"): "p50 p95 max",
    ("summary", "prefill_tok_s"): "p50",
    ("summary", "decode_tok_s"): "p50",
    ("findings", "evidence"): "label value unit lines",
    ("findings", "fixes"): "title apply where",
    ("findings", "saving"): "ms share bound",
}


def test_json_has_the_contracts_keys() -> None:
    answers = [
        analysis(log) for log in (CHAT, SLOTS, "llama-server-rag.log", "llama-server-timestamp-first.log")
    ]
    assert answers[0]["schema"] == "phasewise.analysis/1"
    for part, keys in CONTRACT.items():
        found = [_first(data[part] if part else data) for data in answers]
        assert set(keys.split()) <= set(next(filter(None, found))), part
    for (part, inner), keys in DEEPER.items():
        found = [_first(_first(data[part]).get(inner)) for data in answers]
        assert set(keys.split()) <= set(next(filter(None, found))), (part, inner)


def _first(value: Any) -> dict[str, Any]:
    """The first of several; empty where there is none."""
    first: dict[str, Any] = next(iter(value), {}) if isinstance(value, list) else value
    return first or {}


_EVAL = re.compile(r"\| +(prompt )?(?:eval) time = +([\d.]+) ms / +(\d+) tokens")
_TOTAL = re.compile(r"total time = +([\d.]+) ms")


def test_numbers_equal_those_worked_out_by_hand() -> None:
    """The four-slots log has twelve whole requests and neither cancelled nor failed ones."""
    text = (SAMPLES / SLOTS).read_text("utf-8")
    timings = [(bool(p), float(ms), int(n)) for p, ms, n in _EVAL.findall(text)]
    prefills = [(ms, n) for is_prompt, ms, n in timings if is_prompt]
    decodes = [(ms, n) for is_prompt, ms, n in timings if not is_prompt]
    totals = [float(ms) for ms in _TOTAL.findall(text)]
    held = [int(n) for n in re.findall(r"n_tokens = (\d+), truncated", text)]
    prompts = [h + 1 - n for h, (_, n) in zip(held, decodes, strict=True)]
    data = analysis(SLOTS)
    summary, (source,) = data["summary"], data["sources"]
    assert (source["requests"], source["bytes"], source["lines"]) == (
        len(totals),
        len(text.encode()),
        text.count("\n"),
    )
    assert summary["wall_ms"] == pytest.approx(sum(totals), abs=0.001)
    assert summary["phase_ms"]["prefill"] == pytest.approx(sum(ms for ms, _ in prefills), abs=0.001)
    assert summary["phase_ms"]["decode"] == pytest.approx(sum(ms for ms, _ in decodes), abs=0.001)
    assert summary["phase_ms"]["queue"] is None
    assert summary["phase_share"]["decode"] == pytest.approx(
        sum(ms for ms, _ in decodes) / sum(totals), abs=1e-4
    )
    assert summary["ttft_ms"]["p50"] == pytest.approx(statistics.median(ms for ms, _ in prefills), abs=0.001)
    assert summary["ttft_ms"]["max"] == max(ms for ms, _ in prefills)
    assert summary["total_ms"]["p95"] == pytest.approx(_percentile(totals, 0.95), abs=0.001)
    rates = [1000 * (n - 1) / ms for ms, n in decodes if n >= 32 and ms >= 300]
    assert summary["decode_tok_s"] == {
        "n": len(rates),
        "p50": pytest.approx(statistics.median(rates), abs=0.01),
    }
    cached = sum(prompts) - sum(n for _, n in prefills)
    assert summary["cached_share"] == pytest.approx(cached / sum(prompts), abs=1e-4)


def _percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])


def test_unknown_is_null_not_zero() -> None:
    summary = analysis(VLLM)["summary"]
    assert summary["requests"] == 0
    assert all(value is None for value in summary["phase_ms"].values())
    assert summary["ttft_ms"]["p50"] is None
    assert summary["decode_tok_s"]["p50"] is None


def test_an_engine_that_logged_no_timings() -> None:
    data = analysis("-", stdin=prefixed([]).encode())
    assert data["sources"][0]["engine"] == "llama-server"
    assert data["verdict"]["phase"] == "unknown"
    assert data["verdict"]["healthy"] is None
    assert any(caveat["id"] == "log-hides-timings" for caveat in data["caveats"])


def test_filters_that_leave_nothing_are_told() -> None:
    data = analysis(SLOTS, "--slot", "9")
    assert data["verdict"]["phase"] == "unknown"
    assert "filters" in data["verdict"]["sentence"]
    assert data["findings"] == []


def test_a_slot_of_its_own() -> None:
    data = analysis(SLOTS, "--slot", "3")
    assert 0 < data["summary"]["requests"] < 12


def test_a_rotated_log_without_header_borrows_it(tmp_path: Path) -> None:
    """The second half says nothing of model and devices; both halves together say what the whole does."""
    whole = (SAMPLES / "llama-server-chat.log").read_bytes()
    cut = whole.index(b"\n", len(whole) // 2) + 1
    (tmp_path / "a.log").write_bytes(whole[:cut])
    (tmp_path / "b.log").write_bytes(whole[cut:])
    halves = json.loads(phasewise("a.log", "b.log", "--format", "json", cwd=tmp_path).out)
    alone = json.loads(phasewise("b.log", "--format", "json", cwd=tmp_path).out)
    assert halves["setup"]["quantization"] == "Q4_1"
    assert "cpu-only" in {finding["rule"] for finding in halves["findings"]}
    assert alone["setup"]["quantization"] is None


def test_naming_the_device_that_the_log_names_loses_nothing() -> None:
    plain = analysis("ollama-reload.log")["setup"]["devices"][0]
    named = analysis("ollama-reload.log", "--device", "RTX 4070")["setup"]["devices"]
    assert [d["name"] for d in named] == ["RTX 4070"]
    assert (named[0]["backend"], named[0]["memory_bytes"]) == (plain["backend"], plain["memory_bytes"])
    assert named[0]["bandwidth_gb_s"] == 504.2
