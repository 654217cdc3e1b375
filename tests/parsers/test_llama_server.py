"""llama-server's rows against what its real logs print and what its real clients were told."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pytest

from tests.parsers.reading import Read, read
from tests.parsers.scenarios import Scenario, scenario, scenarios

if TYPE_CHECKING:
    from parsers.records import Request

LOGS = Path(__file__).parents[1] / "logs"

HALF_A_PRINTED_MS = 0.005 + 1e-9
ONE_SLOT_TTFT_SLACK_MS = 100

OUTCOMES = {
    "llama-server-b11434/e_overflow_context_shift": {"failed_requests": 1},
    "llama-server-b11434/f_client_disconnect": {"aborted_requests": 4},
    "llama-server-b11434/j_killed_midwrite": {"incomplete_requests": 1},
    "llama-server-mid2025/j_killed_midwrite": {"incomplete_requests": 1},
}
UNSAID = {
    "llama-server-b11434/e_overflow_context_shift": {"4"},
    "llama-server-b11434/h_spec_draft_same_model": {"1", "14", "25"},
}
"""Requests whose log can't tell what was cached: the context was shifted, or tokens were drafted."""


def generations(log: Read) -> list[Request]:
    return [row for row in log.requests if row.kind == "generation"]


def printed(log: bytes) -> list[tuple[float, int, float, int, float]]:
    """What grep finds: the numbers of each block, in the order of the log."""
    text = log.decode(errors="replace")
    prefill = re.findall(r"prompt eval time = +([\d.]+) ms / +(\d+) tokens", text)
    decode = re.findall(r"(?<!prompt )eval time = +([\d.]+) ms / +(\d+) tokens", text)
    total = re.findall(r"total time = +([\d.]+) ms", text)
    return [
        (float(p_ms), int(p_n), float(d_ms), int(d_n), float(ms))
        for (p_ms, p_n), (d_ms, d_n), ms in zip(prefill, decode, total, strict=True)
    ]


@pytest.mark.parametrize("run", scenarios(), ids=str)
def test_rows_are_what_the_engine_printed(run: Scenario) -> None:
    log = read(run.log)
    rows = sorted(generations(log), key=lambda row: row.line)
    found = [(r.prefill_ms, r.prefill_tokens, r.decode_ms, r.output_tokens, r.total_ms) for r in rows]
    assert found == printed(run.log)
    lines = run.log.splitlines()
    assert all(b"total time" in lines[row.line - 1] for row in rows)
    assert all(f"task {row.request_id} |".encode() in lines[row.first_line - 1] for row in rows)
    assert all(run.log[row.offset :].startswith(lines[row.first_line - 1]) for row in log.requests)
    assert log.stream.lines == len(lines)


@pytest.mark.parametrize("run", scenarios(), ids=str)
def test_rows_are_what_the_server_told_its_clients(run: Scenario) -> None:
    rows = generations(read(run.log))
    for client in run.answered:
        timings, usage = client["timings"], client.get("usage") or {}
        [row] = [
            row
            for row in rows
            if abs((row.prefill_ms or 0) - timings["prompt_ms"]) <= HALF_A_PRINTED_MS
            and abs((row.decode_ms or 0) - timings["predicted_ms"]) <= HALF_A_PRINTED_MS
        ]
        assert row.prefill_tokens == timings["prompt_n"]
        assert row.output_tokens == timings["predicted_n"]
        assert (row.draft_tokens or 0) == timings.get("draft_n", 0)
        assert (row.accepted_tokens or 0) == timings.get("draft_n_accepted", 0)
        if row.request_id in UNSAID.get(str(run), ()):
            assert row.cached_tokens is None
            assert row.prompt_tokens is None
        else:
            assert row.cached_tokens == timings.get("cache_n", row.cached_tokens)
            assert row.prompt_tokens == usage.get("prompt_tokens", row.prompt_tokens)


@pytest.mark.parametrize("run", scenarios(), ids=str)
def test_what_became_of_the_others(run: Scenario) -> None:
    counts = read(run.log).stream.counts
    wanted = {"aborted_requests": 0, "failed_requests": 0, "incomplete_requests": 0} | OUTCOMES.get(
        str(run), {}
    )
    assert {name: getattr(counts, name) for name in wanted} == wanted


@pytest.mark.parametrize("run", scenarios(), ids=str)
def test_time_to_first_token_is_the_clients_where_nobody_queued(run: Scenario) -> None:
    rows = {row.prefill_ms: row for row in generations(read(run.log))}
    waits = [
        client["ttft_ms"] - row.ttft_ms
        for client in run.answered
        if client.get("ttft_ms")
        and (row := rows.get(round(client["timings"]["prompt_ms"] + 1e-6, 2)))
        and row.ttft_ms is not None
    ]
    assert all(wait > 0 for wait in waits), "a client can't see a token before it is there"
    if waits and run.flag("-np") == "1" and "disconnect" not in str(run):
        assert median(waits) < ONE_SLOT_TTFT_SLACK_MS


@pytest.mark.parametrize("era", ["b11434", "mid2025"])
def test_embeddings(era: str) -> None:
    rows = read(scenario(f"llama-server-{era}/i_embeddings").log).requests
    assert [(row.kind, row.prompt_tokens) for row in rows[:-1]] == [
        ("embedding", n) for n in (32, 2, 88, 2, 144, 2, 2)
    ]
    assert all(row.prefill_ms is None and row.ttft_ms is None for row in rows[:-1])
    assert rows[-1].kind == "generation"


def test_what_happened_is_told_with_numbers() -> None:
    shifted = read(scenario("llama-server-b11434/e_overflow_context_shift").log)
    assert [(e.line, e.kind, e.request_id, e.value) for e in shifted.events] == [
        (11, "context_exceeded", "1", 839.0),
        (14, "cache_miss", "4", None),
        (17, "context_shift", "4", 255.0),
        (19, "context_shift", "4", 255.0),
        (25, "cache_miss", "605", None),
    ]
    gone = read(scenario("llama-server-b11434/f_client_disconnect").log).events
    assert [(e.kind, e.request_id, e.value) for e in gone] == [
        ("aborted", "1", 9.917),
        ("aborted", "9", 9.245),
        ("aborted", "33", 0.078),
        ("cache_miss", "75", None),
        ("aborted", "75", 9260.749),
    ]
    cut = read(scenario("llama-server-mid2025/e_overflow_default").log)
    assert cut.events[0].kind == "prompt_truncated"
    assert cut.events[0].value == 1330 - 306
    assert [row.truncated for row in cut.requests] == [True, True, True, False]


@pytest.mark.parametrize("run", scenarios(), ids=str)
def test_setup(run: Scenario) -> None:
    log = read(run.log)
    assert len(log.stream.setups) == 1
    setup = log.setup
    assert setup.line == 1
    assert setup.engine == "llama-server"
    if run.command:
        assert setup.model == run.flag("-m")
    if b"n_slots = " in run.log:
        slots = int(run.flag("-np") or setup.slots or 1)
        assert setup.slots == slots
        assert setup.context == int(run.flag("-c") or 0) // slots or setup.context
        assert setup.threads == int(run.flag("-t") or setup.threads or 0)
    if b"print_info: n_layer " in run.log:
        assert (setup.layers, setup.kv_heads, setup.head_dim_k) == (30, 3, 64)
        assert (setup.quantization, setup.context_trained) == ("Q4_1", 8192)
        assert setup.weights_bytes == setup.cpu_weights_bytes == round(92.10 * 2**20)
    if setup.kv_bytes:
        assert setup.kv_bytes_per_token == 2 * 30 * 3 * 64 * 2
        assert setup.kv_bytes == 23040 * (setup.context_total or 0)
        assert (setup.kv_type_k, setup.batch) == ("f16", min(2048, setup.context_total or 0))
    assert setup.speculative == ("draft" if "h_spec" in str(run) else None)
    assert (setup.engine_version == "b11434") == (b"build 11434 (" in run.log)


def test_a_queue_that_no_line_tells_of_is_not_invented() -> None:
    rows = generations(read(scenario("llama-server-b11434/d_parallel4_12req").log))
    assert {row.slot for row in rows} == {0, 1, 2, 3}
    assert all(row.queue_ms is None and row.ttft_from == "slot" for row in rows)
    assert all(row.ttft_ms == row.prefill_ms for row in rows)


@pytest.mark.parametrize(
    ("scenario", "cause"),
    [
        ("l_missing_gguf", "its file can't be opened"),
        ("l_bad_gguf", "its file is corrupted or incomplete"),
        ("l_ctx_too_large", "no memory for this context's KV cache (a smaller -c helps)"),
        ("g_kv_q8_0_fa_off_fails", "a quantized V cache needs flash attention (-fa on)"),
    ],
)
@pytest.mark.parametrize("build", ["llama-server-b11434", "llama-server-mid2025"])
def test_a_start_that_failed_says_why(build: str, scenario: str, cause: str) -> None:
    events = read((LOGS / build / scenario / "server.log").read_bytes()).events
    assert f"the model could not be loaded: {cause}" in {event.detail for event in events}


def test_no_slot_is_below_zero() -> None:
    head = "slot update_slots: id  -1 | task 0 | "
    prompt = f"{head}new prompt, n_ctx_slot = 8192, n_keep = 0, task.n_tokens = 1300\n"
    log = read(f"{prompt}image slice encoded in 412 ms\n".encode())
    assert [event.slot for event in log.events] == [None]
