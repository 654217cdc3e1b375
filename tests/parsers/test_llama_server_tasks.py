"""What becomes of a task of llama-server, told from lines that no real log here holds together."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parsers.reading import join, read

if TYPE_CHECKING:
    from random import Random

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
    [whole] = read(join([*request(0, 5)[:1], *batches, *request(0, 5, n=66)[1:]])).requests
    assert whole.cached_tokens == 7
    [headless] = read(join([batches[1], *request(0, 5)[1:]])).requests
    assert headless.cached_tokens == 6


def test_a_prompt_that_was_cached_whole_evaluates_one_token() -> None:
    lines = request(0, 5, n=821)
    update = "slot update_slots: id  0 | task 5 | "
    lines[1:1] = [
        update + "new prompt, n_ctx_slot = 4096, n_keep = 0, n_prompt_tokens = 812",
        update + "need to evaluate at least 1 token to generate logits, n_past = 812, n_prompt_tokens = 812",
        update + "kv cache rm [811, end)",
    ]
    lines[5] = "prompt eval time =      34.10 ms /     1 tokens (   34.10 ms per token,    29.33 tokens per "
    lines[5] += "second)"
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


PROMPT = "slot operator(): id  {slot} | task {task} | new prompt, n_ctx_slot = 9, n_keep = 0, {tokens}"


def timed(slot: int, task: int) -> list[str]:
    """A request whose timing lines each carry slot and task (since b9230)."""
    prefix = HEADER.format(slot=slot, task=task)
    launch, *_, release = request(slot, task)
    prompt = PROMPT.format(slot=slot, task=task, tokens="task.n_tokens = 56")
    return [launch, prompt, *(prefix + line for line in BLOCK), release]


@pytest.mark.parametrize("lost", [{2}, {3}, {4}, {2, 3}, {2, 4}, {3, 4}, {2, 3, 4}])
def test_a_request_that_lost_timing_lines_is_no_embedding(lost: set[int]) -> None:
    damaged = [line for at, line in enumerate(timed(0, 70)) if at not in lost]
    log = read(join([*timed(0, 5), *damaged, *timed(0, 140)]))
    assert [row.request_id for row in log.requests] == ["5", "140"]
    assert {row.kind for row in log.requests} == {"generation"}
    assert log.stream.counts.incomplete_requests == 1


def test_a_slot_released_twice_ran_one_request() -> None:
    """Until b6722 the slot is released before its timing is printed; some builds release it again."""
    launch, *block, release = request(0, 5)
    early = release.replace("n_tokens", "n_past")
    log = read(join([launch, early, *block, early, *request(0, 60)]))
    assert [row.request_id for row in log.requests] == ["5", "60"]


SAID: dict[str, dict[str, object]] = {
    "slot is processing task": {},
    "kv cache rm [p0, end)": {"p0": 7},
    "prompt eval time     =     100.25 ms /    50 tokens (    2.01 ms per token,   498.75 t/s)": {
        "t_prompt_processing": 100.253,
        "n_prompt_tokens_processed": 50,
        "t_token": 2.00506,
    },
    "generation eval time =      90.00 ms /    10 runs   (    9.00 ms per token,   111.11 t/s)": {
        "t_token_generation": 90.0,
        "n_decoded": 10,
        "t_token": 9.0,
    },
    "          total time =     190.25 ms": {
        "t_prompt_processing": 100.253,
        "t_token_generation": 90.0,
        "t_total": 190.253,
    },
    "slot released": {"n_ctx": 512, "n_past": 66, "n_system_tokens": 0, "truncated": False},
}


def key_value(
    task: int, ids: tuple[str, str] = ("id_slot", "id_task"), n: int = 6
) -> list[dict[str, object]]:
    """The lines of one request of b2259 to b3760."""
    return [
        {"level": "INFO", "function": "print_timings", "line": 9, "msg": message}
        | {"tid": "1", "timestamp": 1700000000 + task, ids[0]: 0, ids[1]: task}
        | values
        for message, values in list(SAID.items())[:n]
    ]


def as_text(said: dict[str, object]) -> str:
    values = " ".join(
        f"{k}={json.dumps(v)}" for k, v in said.items() if k not in ("level", "function", "line", "msg")
    )
    return f"{said['level']} [{said['function']:>24}] {said['msg']} | {values}"


@given(st.randoms(use_true_random=False), st.sampled_from([("id_slot", "id_task"), ("slot_id", "task_id")]))
def test_values_count_whatever_their_order_and_spelling(random: Random, ids: tuple[str, str]) -> None:
    lines = key_value(5, ids)
    shuffled = [dict(random.sample(list(said.items()), len(said))) for said in lines]
    spelled = (
        [as_text(said) for said in shuffled],
        [json.dumps(said, separators=(",", ":")) for said in shuffled],
    )
    for log in spelled:
        [row] = read(join(log)).requests
        assert (row.request_id, row.slot, row.cached_tokens, row.prompt_tokens) == ("5", 0, 7, 57)
        assert (row.prefill_ms, row.decode_ms, row.total_ms) == (100.253, 90.0, 190.253)
        assert row.started_at == datetime.fromtimestamp(1700000005, UTC)


def test_before_b3761_a_task_without_timing_is_no_embedding_until_its_route_says_so() -> None:
    untimed = [as_text(said) for said in (*key_value(5, n=2), key_value(5)[-1])]
    after = [as_text(said) for said in key_value(9)]
    route = 'INFO [      log_server_request] request | tid="2" method="POST" path="/v1/{}" params={{}}'
    left = read(join([*untimed, route.format("completions"), *after]))
    assert [row.request_id for row in left.requests] == ["9"]
    assert left.stream.counts.incomplete_requests == 1
    embedded = read(join([*untimed, route.format("embeddings"), *after]))
    assert [(row.request_id, row.kind) for row in embedded.requests] == [
        ("5", "embedding"),
        ("9", "generation"),
    ]


def test_a_prompt_that_holds_such_lines_adds_nothing() -> None:
    inner = key_value(7)
    prompt = "\n".join([*map(as_text, inner), *map(json.dumps, inner)])
    said = {"level": "VERB", "function": "operator()", "msg": "data stream"}
    verbose: dict[str, object] = {**said, "to_send": prompt}
    own = [as_text(said) for said in key_value(5)]
    quoting = [own[0], as_text(verbose), json.dumps(verbose), *own[1:]]
    places = ("line", "first_line", "offset")
    assert read(join(quoting)).told(*places) == read(join(own)).told(*places)
