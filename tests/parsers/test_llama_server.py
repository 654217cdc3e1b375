"""llama-server's rows against what its real logs print and what its real clients were told."""

from __future__ import annotations

import re
from statistics import median
from typing import TYPE_CHECKING

import pytest

from tests.parsers.reading import Read, join, read
from tests.parsers.scenarios import Scenario, scenario, scenarios

if TYPE_CHECKING:
    from parsers.records import Request

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
        (17, "context_shift", "4", 255.0),
        (19, "context_shift", "4", 255.0),
    ]
    gone = read(scenario("llama-server-b11434/f_client_disconnect").log).events
    assert [(e.kind, e.request_id, e.value) for e in gone] == [
        ("aborted", "1", 9.917),
        ("aborted", "9", 9.245),
        ("aborted", "33", 0.078),
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


LAUNCH = "slot launch_slot_: id  {slot} | task {task} | processing task"
RELEASE = "slot      release: id  {slot} | task {task} | stop processing: n_tokens = {n}, truncated = {cut}"
BLOCK = (
    "prompt eval time =     100.00 ms /    50 tokens (    2.00 ms per token,   500.00 tokens per second)",
    "       eval time =      90.00 ms /    10 tokens (    9.00 ms per token,   111.11 tokens per second)",
    "      total time =     190.00 ms /    60 tokens",
)
HEADER = "slot print_timing: id  {slot} | task {task} | "


def request(slot: int, task: int, n: int = 65, cut: int = 0, extra: tuple[str, ...] = ()) -> list[str]:
    lines = [LAUNCH, *extra, HEADER, *BLOCK, RELEASE]
    return [line.format(slot=slot, task=task, n=n, cut=cut) for line in lines]


SHIFT = "slot update_slots: id  0 | task 5 | slot context shift, n_keep = 0, n_left = 40, n_discard = 20"
DRAFT = "draft acceptance rate = 0.50000 (    5 accepted /    10 generated)"


@pytest.mark.parametrize(
    ("lines", "cached"),
    [
        (request(0, 5), 6),
        (request(0, 5, cut=1), None),
        (request(0, 5, n=40), None),
        (request(0, 5, extra=(SHIFT,)), None),
        ([*request(0, 5)[:-1], DRAFT, request(0, 5)[-1]], None),
        (request(0, 5)[1:], 6),
        (request(0, 5)[:-1], None),
    ],
    ids=["plain", "truncated", "impossible", "shifted", "drafted", "no launch", "no release"],
)
def test_cached_tokens_are_given_only_where_the_log_proves_them(lines: list[str], cached: int | None) -> None:
    [row] = read(join(lines)).requests
    assert row.cached_tokens == cached
    assert row.prompt_tokens == (None if cached is None else cached + 50)


def test_only_the_first_batch_says_what_was_cached() -> None:
    seq_rm = "slot update_slots: id  0 | task 5 | cached n_tokens = {0}, memory_seq_rm [{1}, end)"
    batches = [seq_rm.format(n, 3 * n) for n in (7, 2055)]
    [whole] = read(join([*request(0, 5)[:1], *batches, *request(0, 5)[1:]])).requests
    assert whole.cached_tokens == 7
    [headless] = read(join([batches[1], *request(0, 5)[1:]])).requests
    assert headless.cached_tokens == 6


def test_a_prompt_that_was_cached_whole_evaluates_one_token() -> None:
    lines = request(0, 5)
    update = "slot update_slots: id  0 | task 5 | "
    lines[1:1] = [
        update + "new prompt, n_ctx_slot = 4096, n_keep = 0, n_prompt_tokens = 812",
        update + "need to evaluate at least 1 token to generate logits, n_past = 812, n_prompt_tokens = 812",
        update + "kv cache rm [811, end)",
    ]
    lines[5] = lines[5].replace("   50 tokens", "    1 tokens")
    [row] = read(join(lines)).requests
    assert (row.prompt_tokens, row.cached_tokens, row.prefill_tokens) == (812, 811, 1)


def test_an_empty_prompt_reused_nothing() -> None:
    lines = request(0, 5, n=90)
    lines[2:4] = [
        "prompt eval time =       0.00 ms /     0 tokens (    -nan ms per token,     -nan tokens per second)",
        "       eval time =       0.00 ms /     0 tokens (    -nan ms per token,     -nan tokens per second)",
    ]
    [row] = read(join(lines)).requests
    assert (row.cached_tokens, row.prompt_tokens, row.decode_steps) == (None, None, 0)


@pytest.mark.parametrize(
    "line",
    [
        "srv  cancel_tasks: cancel task, id_task = 5",
        "srv          stop: cancel task, id_task = 5",
    ],
)
@pytest.mark.parametrize("unit", ["n_past", "n_tokens"])
def test_an_abandoned_request_is_no_embedding(line: str, unit: str) -> None:
    lines = [request(0, 5)[0], line, request(0, 5)[-1].replace("n_tokens", unit), *request(0, 9)]
    log = read(join(lines))
    assert [row.request_id for row in log.requests] == ["9"]
    assert log.stream.counts.aborted_requests == 1
    assert [event.kind for event in log.events] == ["aborted"]


def test_an_abandoned_request_that_ended_just_then_still_counts() -> None:
    lines = request(0, 5)
    lines.insert(-1, "srv          stop: cancel task, id_task = 5")
    log = read(join(lines))
    assert len(log.requests) == 1
    assert log.stream.counts.aborted_requests == 0


def test_a_client_that_left_before_a_slot_was_free() -> None:
    log = read(join([*request(0, 5), "srv          stop: cancel task, id_task = 77", *request(0, 99)]))
    assert len(log.requests) == 2
    assert [(event.kind, event.request_id) for event in log.events] == [("aborted", "77")]


TOO_LONG = (
    "request (900 tokens) exceeds the available context size (512 tokens), try increasing it",
    "the request exceeds the available context size. try increasing the context size or enable context shift",
    "input (900 tokens) is larger than the max context size (512 tokens). skipping",
    "Context size has been exceeded.",
    "Input prompt is too big compared to KV size. Please try increasing KV size.",
)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        *((error, "context_exceeded") for error in TOO_LONG),
        ("Compute error.", "error"),
        ("Failed to parse grammar", "error"),
    ],
)
@pytest.mark.parametrize("released_first", [True, False])
def test_failures(error: str, kind: str, released_first: bool) -> None:
    launch, *_, release = request(0, 5, n=0)
    release = release.replace("n_tokens", "n_past") if released_first else release
    failed = [release, f"srv    send_error: task id = 5, error: {error}"]
    log = read(join([launch, *(failed if released_first else reversed(failed)), *request(0, 6)]))
    assert [row.request_id for row in log.requests] == ["6"]
    assert log.stream.counts.failed_requests == 1
    assert [(event.kind, event.request_id) for event in log.events] == [(kind, "5")]
    assert error not in (log.events[0].detail or "")


def test_a_failed_decode_names_idle_slots_too_and_they_did_not_fail() -> None:
    failed = [f"srv    send_error: task id = {task}, error: Compute error." for task in (5, 6)]
    log = read(join([*request(0, 5), request(1, 6)[0], *failed]))
    assert len(log.requests) == 1
    assert log.stream.counts.failed_requests == 1


def test_children_launch_before_their_parent_and_nothing_restarts() -> None:
    launches = [request(slot, task)[0] + ", is_child = 1" for slot, task in ((1, 2), (2, 3), (0, 1))]
    ends = [line for slot, task in ((0, 1), (1, 2), (2, 3)) for line in request(slot, task)[1:]]
    log = read(join([*launches, *ends]))
    assert sorted(row.request_id or "" for row in log.requests) == ["1", "2", "3"]
    assert {row.run for row in log.requests} == {0}


def test_rerank_and_embedding_are_told_apart_by_their_route() -> None:
    log = read(
        join(
            [
                request(0, 5)[0],
                request(0, 5)[-1],
                "srv  log_server_r: done request: POST /v1/rerank 127.0.0.1 200",
                request(0, 6)[0],
                request(0, 6)[-1],
                "srv  log_server_r: done request: POST /v1/embeddings 127.0.0.1 200",
            ]
        )
    )
    assert [row.kind for row in log.requests] == ["rerank", "embedding"]
