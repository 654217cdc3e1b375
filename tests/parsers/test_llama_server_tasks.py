"""What becomes of a task of llama-server, told from lines that no real log here holds together."""

from __future__ import annotations

import pytest

from tests.parsers.reading import join, read

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
