"""SGLang: random batch lines and requests come back as they went in, and no prompt becomes a row."""

from __future__ import annotations

import json
import re
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import parsers.formats
from parsers.formats.sglang.batches import DECODE, Fields
from tests.parsers.reading import join, read

SAMPLES = Path(parsers.formats.__file__).parent / "samples"
HEAD = "[2026-03-02 10:01:10] "
QUOTED = (
    HEAD + "Prefill batch, #new-seq: 1, #new-token: 64, #cached-token: 0, token usage: 0.00, #running-req: 0",
    HEAD + "Decode batch, #running-req: 1, #token: 9, token usage: 0.00, gen throughput (token/s): 40.00",
    HEAD + "KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_token_ratio: 0.70 -> 0.89",
    HEAD + "ReqTimeStats(rid=q, input_len=6, cached_input_len=6, output_len=3, attempts=1, type=unified): "
    "queue_duration=0.00ms, forward_duration=175.25ms, entry_time=1772445670.005",
    ", out={'text': '', 'meta_info': {'id': 'q', 'prompt_tokens': 1, 'completion_tokens': 1}}",
    '"}}, "out": {"meta_info": {"id": "q", "prompt_tokens": 1, "completion_tokens": 1}}',
    "ValueError: Request is disconnected from the client side (type 1). Abort request obj.rid='q'",
)
COUNTS = st.integers(0, 10**6)
SECONDS = st.integers(0, 10**8).map(lambda microseconds: microseconds / 1e6)
TEXT = st.lists(st.sampled_from(["'", '"', "\\", "\n", "\r", "\x1b[0m", "{", "})", " ", "x", *QUOTED])).map(
    "".join
)


Counts = tuple[int, int, int]


def meta_of(
    queue_s: float, prefill_s: float, decode_s: float, counts: tuple[int, int, int]
) -> dict[str, Any]:
    """A request's numbers as 0.5.12 and newer keep them."""
    prompt, cached, output = counts
    received = 1_772_445_670.0
    entered = received + queue_s
    return {
        "id": "own",
        "finish_reason": {"type": "stop", "matched": "</s>"},
        "prompt_tokens": prompt + cached,
        "num_retractions": 0,
        "forward_entry_time": entered,
        "prefill_finished_time": entered + prefill_s,
        "queue_time": queue_s,
        "completion_tokens": output,
        "cached_tokens": cached,
        "e2e_latency": queue_s + prefill_s + decode_s,
        "request_received_ts": received,
        "request_finished_ts": entered + prefill_s + decode_s,
    }


def as_text(prompt: str, answer: str, meta: dict[str, Any]) -> str:
    sampling = {"stop": [answer], "max_new_tokens": 9}
    return (
        f"{HEAD}Finish: obj=GenerateReqInput(rid='own', text={prompt!r}, sampling_params={sampling!r}, "
        f"stream=False), out={{'text': {answer!r}, 'output_ids': [1, 2] ... [3], 'meta_info': {meta!r}}}"
    )


def as_json(prompt: str, answer: str, meta: dict[str, Any]) -> str:
    event = {"timestamp": "2026-03-02T10:01:21", "event": "request.finished", "rid": "own"}
    return HEAD + json.dumps(
        event | {"obj": {"text": prompt}, "out": {"text": answer, "meta_info": meta}}, ensure_ascii=False
    )


def as_export(prompt: str, answer: str, meta: dict[str, Any]) -> str:
    return json.dumps({"request_parameters": json.dumps({"text": prompt, "stop": answer}), **meta})


@given(
    shape=st.sampled_from([as_text, as_json, as_export]),
    prompt=TEXT,
    answer=TEXT,
    times=st.tuples(SECONDS, SECONDS, SECONDS),
    counts=st.tuples(COUNTS, COUNTS, st.integers(1, 10**6)),
)
@example(shape=as_text, prompt="", answer="", times=(0.000105, 0.0, 0.0), counts=(0, 0, 1))
def test_a_request_comes_back_whatever_its_texts_say(
    shape: Any, prompt: str, answer: str, times: tuple[float, float, float], counts: Counts
) -> None:
    log = read(join([shape(prompt, answer, meta_of(*times, counts))]))
    [row] = log.rows
    assert row in log.requests
    [row] = log.requests
    assert (row.request_id, row.finish_reason, row.kind) == ("own", "stop", "generation")
    assert (row.prefill_tokens, row.cached_tokens, row.output_tokens) == counts
    assert row.prompt_tokens == counts[0] + counts[1]
    assert (row.queue_ms, row.prefill_ms, row.decode_ms) == pytest.approx(
        [t * 1000 for t in times], abs=0.002
    )
    assert row.total_ms == pytest.approx(sum(times) * 1000, abs=0.002)
    assert row.decode_steps == counts[2] - 1
    assert log.stream.counts.incomplete_requests == log.stream.counts.impossible_values == 0


@given(shape=st.sampled_from([as_text, as_json, as_export]), prompt=TEXT, at=st.floats(0, 1))
def test_a_request_that_was_cut_off_is_counted_and_gives_no_row(shape: Any, prompt: str, at: float) -> None:
    whole = shape(prompt, "x", meta_of(1.0, 2.0, 3.0, (5, 6, 7)))
    known = len(HEAD) + 90
    log = read(join([whole[: known + int(at * (len(whole) - known - 1))]]))
    assert (log.rows, log.stream.counts.incomplete_requests) == ([], 1)


@pytest.mark.parametrize("shape", [as_text, as_json, as_export])
@pytest.mark.parametrize(
    "value", [-1, 1e300, 26_520_974.5, 10**30, float("nan"), float("inf"), True, "x", None]
)
def test_a_time_that_cannot_be_is_left_out(shape: Any, value: object) -> None:
    whole = meta_of(1.0, 2.0, 3.0, (5, 6, 7))
    for key in whole.keys() - {"id", "finish_reason", "prompt_tokens", "completion_tokens"}:
        for row in read(join([shape("p", "a", whole | {key: value})])).requests:
            found = (row.queue_ms, row.prefill_ms, row.decode_ms, row.total_ms)
            right = (1000.0, 2000.0, 3000.0, 6000.0)
            assert all(ms in (None, pytest.approx(truth)) for ms, truth in zip(found, right, strict=True))


def test_a_prompt_of_quotes_costs_no_time() -> None:
    line = as_text("'" * 60_000 + '"', "x", meta_of(1.0, 2.0, 3.0, (5, 6, 7)))
    started = time.perf_counter()
    assert read(join([line] * 5)).stream.counts.incomplete_requests == 5
    assert time.perf_counter() - started < 2


@given(
    kinds=st.lists(st.tuples(st.booleans(), st.integers(0, 3), COUNTS, st.integers(1, 10**6)), max_size=12),
    ranks=st.permutations([" TP0", " TP1", " TP2"]),
    spelling=st.sampled_from([". ", ", ", " [17], "]),
)
def test_batches_come_back_once_and_their_rates_only_without_a_pause(
    kinds: list[tuple[bool, int, int, int]], ranks: list[str], spelling: str
) -> None:
    lines = []
    for is_prefill, running, tokens, cents in kinds:
        body = (
            f"Prefill batch{spelling}#new-seq: 1, #new-token: {tokens}, #cached-token: 3, token usage: 0.25, "
            f"#running-req: {running}, #queue-req: 5, input throughput (token/s): {cents / 100:.2f}"
            if is_prefill
            else f"Decode batch{spelling}#running-req: {running}, #token: {tokens}, token usage: 0.25, "
            f"accept len: 1.50, cuda graph: True, gen throughput (token/s): {cents / 100:.2f}, "
            "#queue-req: 5, "
        )
        lines += [HEAD.replace("]", f"{rank}]") + body for rank in ranks]
    rows = read(join(lines)).intervals
    assert [row.kind == "prefill_batch" for row in rows] == [is_prefill for is_prefill, *_ in kinds]
    assert all((row.kv_usage, row.waiting, row.prefill_tok_s) == (0.25, 5, None) for row in rows)
    assert [row.running for row in rows] == [running for _, running, *_ in kinds]
    decodes = [at for at, (is_prefill, *_) in enumerate(kinds) if not is_prefill]
    expected: list[float | None] = [None] if decodes else []
    for before, at in pairwise(decodes):
        paused = any(running == 0 for _, running, *_ in kinds[before + 1 : at])
        expected.append(None if paused else kinds[at][3] / 100)
    assert [rows[at].decode_tok_s for at in decodes] == expected


def test_a_decode_server_without_prefills_gives_no_speed() -> None:
    line = (
        HEAD + "Decode batch, #running-req: 1, #token: 9, token usage: 0.00, pre-allocated usage: 0.00, "
        "#prealloc-req: 0, #transfer-req: 0, #retracted-req: 0, cuda graph: True, "
        "gen throughput (token/s): 41.00, #queue-req: 0"
    )
    assert [row.decode_tok_s for row in read(join([line] * 3)).intervals] == [None] * 3


def test_a_restart_starts_a_new_setup_and_forgets_the_old_batches() -> None:
    data = (SAMPLES / "sglang-0.3.log").read_bytes()
    log = read(data, data.replace(b"Dense-8B", b"Dense-9B"))
    assert [setup.model for setup in log.stream.setups] == ["acme/Dense-8B", "acme/Dense-9B"]
    assert [row.decode_tok_s for row in log.intervals] == [
        row.decode_tok_s for row in read(data).intervals
    ] * 2
    assert [row.run for row in log.intervals] == [0] * 6 + [1] * 6


def test_a_request_told_twice_is_one_row_wherever_the_log_begins() -> None:
    data = (SAMPLES / "sglang-0.5.23.log").read_bytes()
    headless = data[data.index(b"[2026-03-02 10:01:21 TP0] ReqTimeStats") :]
    [row] = read(headless).requests
    assert (row.request_id, row.queue_ms, row.total_ms) == ("req-a1", 4.1, 10_894.1)


def test_no_detail_and_no_setup_holds_what_it_should_not() -> None:
    ours = re.compile(r"[a-zKV ,\d]+|HTTP \d{3} on /[a-z\d/]+")
    for sample in SAMPLES.glob("sglang-*.log"):
        log = read(sample.read_bytes())
        assert all(ours.fullmatch(event.detail or "") for event in log.events)
        assert all("k-secret" not in setup.model_dump_json() for setup in log.stream.setups)


FIELDS = st.lists(
    st.tuples(
        st.sampled_from(
            ["#running-req", "token usage", "cuda graph", "gen throughput (token/s)", "accept len"]
        ),
        st.sampled_from(["0", "12", "0.25", "-1", "1.", "1,024", "35%", "True", "False", "nan", "", "7, x"]),
    ),
    max_size=4,
).map(lambda said: ", ".join(["#running-req: 1", *(f"{name}: {value}" for name, value in said)]))


@given(lines=st.lists(FIELDS, min_size=1, max_size=6))
def test_what_a_batch_line_says_depends_on_no_line_before_it(lines: list[str]) -> None:
    matches = [m for line in lines if (m := DECODE.pattern.match(f"{HEAD}Decode batch, {line}".encode()))]
    one = Fields()
    assert [one.of(m) for m in matches] == [Fields().of(m) for m in matches]
