from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.formats.ollama.durations import go_duration_ms
from parsers.records import Event, Request, Row
from parsers.stream import Stream
from parsers.tables import Tables

RELOAD = Path(__file__).parents[2] / "sample_logs" / "ollama-reload.log"
START = (
    'time=2026-08-20T18:02:41.000+02:00 level=INFO source=llama_server.go:433 msg="starting llama-server"'
    ' cmd="/usr/lib/ollama/llama-server --model {model} --port 1 -c {context} -np {slots} -b 512{more}"'
)
STARTED = 'time={time} level=INFO source=llama_server.go:1362 msg="llama-server started in {seconds} seconds"'
LOADED = (
    'time=2026-08-20T18:02:50.600+02:00 level=INFO source=sched.go:728 msg="loaded runners" count={count}'
)
LOAD = (
    START.format(model="/blobs/sha256-aaaaaaaaaaaaaaaa", context=8192, slots=1, more=""),
    STARTED.format(time="2026-08-20T18:02:50.000+02:00", seconds="9.00"),
    LOADED.format(count=1),
)


def read(*lines: str) -> tuple[list[Row], Stream]:
    stream = Stream("ollama.log")
    rows = stream.feed("\n".join(lines).encode() + b"\n")
    return rows + stream.close(), stream


def requests(rows: list[Row]) -> list[Request]:
    return [row for row in rows if isinstance(row, Request)]


def gin(clock: str, latency: str, route: str = "/api/chat", status: int = 200) -> str:
    return f'[GIN] 2026/08/20 - {clock} | {status} | {latency:>13} |       127.0.0.1 | POST     "{route}"'


def launch(task: int, slot: int = 0) -> str:
    return f"slot launch_slot_: id  {slot} | task {task} | processing task, is_child = 0"


def timings(task: int, *, prefill_ms: float = 500.0, decode_ms: float = 1500.0, slot: int = 0) -> list[str]:
    head = f"slot print_timing: id  {slot} | task {task} | "
    return [
        f"{head}prompt eval time = {prefill_ms:10.2f} ms /   100 tokens (    5.00 ms per token)",
        f"{head}       eval time = {decode_ms:10.2f} ms /    31 tokens (   50.00 ms per token)",
        f"{head}      total time = {prefill_ms + decode_ms:10.2f} ms /   131 tokens",
        f"slot      release: id  {slot} | task {task} | stop processing: n_tokens = 130, truncated = 0",
    ]


@given(st.integers(0, 2**53))
def test_a_go_duration_reads_back(nanoseconds: int) -> None:
    minutes, rest = divmod(nanoseconds, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    printed = f"{hours}h{minutes}m{rest // 10**9}.{rest % 10**9:09d}s"
    assert go_duration_ms(printed.encode()) == pytest.approx(nanoseconds / 1e6, rel=1e-12, abs=1e-6)


@pytest.mark.parametrize("printed", ["", "12", "-1.5s", "1.5 s", "s", "1m2", "9" * 400 + "h", "1,5s"])
def test_what_is_no_duration_is_unknown(printed: str) -> None:
    assert go_duration_ms(printed.encode()) is None


@pytest.mark.parametrize(
    ("printed", "ms"), [("33.3µs", 0.0333), ("1m18s", 78_000), ("0s", 0), ("227.981ms", 227.981)]
)
def test_go_durations(printed: str, ms: float) -> None:
    assert go_duration_ms(printed.encode()) == pytest.approx(ms)


def test_every_request_of_the_sample_log_has_its_access_line_and_its_load() -> None:
    stream = Stream("ollama-reload.log")
    rows = stream.feed(RELOAD.read_bytes()) + stream.close()
    found = requests(rows)
    loads = [row for row in rows if isinstance(row, Event) and row.kind == "model_load"]
    assert len(found) == 10
    assert len(loads) == 8
    assert len({row.detail for row in loads}) == 8
    assert [row.value for row in loads] == [row.load_ms for row in found if row.load_ms is not None]
    for row in found:
        assert row.engine == "ollama"
        assert row.model == "llama3.1:8b"
        assert row.prefill_ms
        assert row.decode_ms
        assert row.total_ms
        assert row.started_at
        assert row.finished_at
        other_ms = row.total_ms - (row.load_ms or 0) - row.prefill_ms - row.decode_ms
        assert 0 < other_ms < 700
        assert row.finished_at - row.started_at == timedelta(milliseconds=row.total_ms)
    assert [setup.context for setup in stream.setups] == [
        11520,
        12288,
        13056,
        14848,
        15616,
        16384,
        18432,
        19712,
    ]
    assert {setup.engine_version for setup in stream.setups} == {"0.32.15"}


def test_access_times_are_in_the_zone_that_slog_prints() -> None:
    rows, _ = read(*LOAD, launch(0), *timings(0), gin("18:02:53", "12.5s"))
    [row] = requests(rows)
    assert row.finished_at == datetime(2026, 8, 20, 16, 2, 53, tzinfo=UTC)
    assert (row.load_ms, row.ttft_ms, row.total_ms) == (9000, 9500, 12500)


def test_an_access_line_may_come_before_the_timings_of_its_task() -> None:
    rows, _ = read(*LOAD, launch(0), gin("18:02:53", "12.5s"), *timings(0), launch(40), *timings(40))
    assert [row.load_ms for row in requests(rows)] == [9000, None]
    assert [row.finished_at is not None for row in requests(rows)] == [True, False]


@given(st.lists(st.integers(0, 40), min_size=2, max_size=4))
def test_an_early_access_line_finds_its_task_through_the_lines_of_another_pod(others: list[int]) -> None:
    own = (*LOAD, launch(0), gin("18:02:53", "12.5s"), *timings(0))
    chatter = "slot update_slots: id  3 | task 7 | new prompt, n_ctx_slot = 4096"
    both = []
    for number, said in enumerate(own):
        both += [f"ollama-c  | {chatter}"] * others[number % len(others)]
        both += [f"{pod}  | {said}" for pod in ("ollama-a", "ollama-b")]
    rows, _ = read(*both)
    assert [(row.load_ms, row.total_ms, row.finished_at is not None) for row in requests(rows)] == [
        (9000, 12500, True)
    ] * 2


def test_an_early_access_line_is_not_kept_for_a_task_that_began_after_it() -> None:
    rows, _ = read(*LOAD, gin("18:02:53", "12.5s", "/api/generate"), launch(0), *timings(0))
    [row] = requests(rows)
    assert (row.total_ms, row.load_ms, row.finished_at) == (2000, None, None)


def test_two_tasks_and_two_access_lines_that_fit_both_stay_apart() -> None:
    both = [launch(0), launch(1, slot=1), *timings(0), *timings(1, slot=1)]
    late = [gin("18:02:53", "2.5s"), launch(9), gin("18:02:53", "2.6s"), *timings(9), gin("18:02:56", "2.1s")]
    rows, stream = read(*LOAD, *both, *late)
    assert [row.total_ms for row in requests(rows)] == [2000, 2000, 2100]
    assert stream.counts.requests == 3


def test_a_latency_shorter_than_the_work_belongs_to_another_request() -> None:
    rows, _ = read(*LOAD, launch(0), *timings(0), gin("18:02:53", "1.9s"), gin("18:02:54", "2.001s"))
    assert [row.total_ms for row in requests(rows)] == [2001]


def test_a_missing_access_line_does_not_shift_the_next_ones() -> None:
    rows, _ = read(*LOAD, launch(0), *timings(0), launch(40), *timings(40), gin("18:03:03", "2.1s"))
    assert [row.total_ms for row in requests(rows)] == [2000, 2100]


def test_a_load_is_given_only_to_a_request_that_came_before_it() -> None:
    later = gin("18:03:30", "20s")
    rows, _ = read(*LOAD, launch(0), *timings(0), later)
    assert [row.load_ms for row in requests(rows)] == [None]


def test_two_loaded_models_that_generate_cannot_be_told_apart() -> None:
    other = START.format(model="/blobs/sha256-bbbbbbbbbbbbbbbb", context=4096, slots=1, more="")
    second = (other, STARTED.format(time="2026-08-20T18:03:00.000+02:00", seconds="5.00"))
    rows, stream = read(
        *LOAD, *second, LOADED.format(count=2), launch(0), *timings(0), gin("18:03:10", "2.2s")
    )
    [row] = requests(rows)
    assert row.model is None
    assert stream.setup_of_run[row.run].context is None


def test_a_model_that_embeds_does_not_hide_the_one_that_generates() -> None:
    other = START.format(model="/blobs/sha256-bbbbbbbbbbbbbbbb", context=512, slots=1, more=" --embedding")
    second = (other, STARTED.format(time="2026-08-20T18:03:00.000+02:00", seconds="1.00"))
    rows, stream = read(
        *LOAD, *second, LOADED.format(count=2), launch(0), *timings(0), gin("18:03:10", "2.2s")
    )
    [row] = requests(rows)
    assert (row.model, row.load_ms) == ("sha256-aaaaaaaaaaaa", None)
    assert stream.setup_of_run[row.run].context == 8192


def test_another_go_program_is_not_ollama() -> None:
    plain = "[GIN] 2026/08/20 - 18:03:30 | 200 | 2s | 10.0.0.1 | POST /api/chat"
    rows, stream = read(
        plain, gin("18:03:31", "2s", "/v1/chat/completions"), gin("18:03:32", "2s", "/api/user")
    )
    assert rows == []
    assert stream.counts.requests == 0


def test_paths_and_prompts_stay_out_of_the_rows() -> None:
    start = START.format(model="/home/jane/secret/sha256-cccccccccccccccc", context=8192, slots=1, more="")
    rows, stream = read(
        start,
        'time=2026-08-20T18:02:42.000+02:00 level=INFO source=sched.go:641 msg="Load failed"'
        ' error="/home/jane"',
        'time=2026-08-20T18:02:43.000+02:00 level=WARN source=runner.go:187 msg="truncating input prompt"'
        ' limit=2048 prompt=14570 keep=5 new=2048 text="jane"',
        gin("18:02:44", "3.2s", status=500),
    )
    assert [row.kind for row in rows if isinstance(row, Event)] == [
        "model_load",
        "error",
        "prompt_truncated",
        "error",
    ]
    assert "jane" not in repr(rows)
    assert stream.counts.failed_requests == 1


def test_answers_in_a_server_log_say_nothing_new() -> None:
    body = '{"model":"m","created_at":"2026-08-20T16:02:53Z","done":true,"total_duration":2000000000}'
    assert len(requests(read(body)[0])) == 1
    assert len(requests(read(*LOAD, launch(0), *timings(0), gin("18:02:53", "12.5s"), body)[0])) == 1


@pytest.mark.parametrize(
    ("prompt", "cached", "prefill", "impossible"),
    [
        (21, 16, 5, 0),
        (21, 0, 21, 0),
        (21, 21, 0, 0),
        (21, None, None, 0),
        (None, 16, None, 0),
        (5, 6, None, 1),
    ],
)
def test_what_was_cached_was_not_evaluated(
    prompt: int | None, cached: int | None, prefill: int | None, impossible: int
) -> None:
    said = {"total_duration": 10**9, "prompt_eval_count": prompt, "prompt_eval_cached_count": cached}
    rows, stream = read(json.dumps({name: value for name, value in said.items() if value is not None}))
    [row] = requests(rows)
    both = (None, None) if impossible else (prompt, cached)
    assert (row.prompt_tokens, row.cached_tokens, row.prefill_tokens) == (*both, prefill)
    assert stream.counts.impossible_values == impossible


VERBOSE = (
    "total duration:       1.6s",
    "load duration:        109.478042ms",
    "prompt eval count:    21 token(s)",
    "prompt eval cached:   16 token(s)",
    "prompt eval duration: 56.452ms",
    "prompt eval rate:     88.57 tokens/s",
    "eval count:           71 token(s)",
    "eval duration:        1.4s",
    "eval rate:            50.71 tokens/s",
)


@pytest.mark.parametrize(
    ("place", "said", "lost"),
    [
        (3, "prompt eval cached:   15 token(s)", "prefill_ms"),
        (5, "prompt eval rate:     371.99 tokens/s", "prefill_ms"),
        (6, "eval count:           17 token(s)", "decode_ms"),
    ],
)
def test_a_printed_rate_is_of_the_tokens_that_ran(place: int, said: str, lost: str) -> None:
    rows, stream = read(*VERBOSE)
    [row] = requests(rows)
    assert (row.prompt_tokens, row.cached_tokens, row.prefill_tokens) == (21, 16, 5)
    assert (row.prefill_ms, row.decode_ms, stream.counts.impossible_values) == (56.452, 1400.0, 0)
    rows, stream = read(*VERBOSE[:place], said, *VERBOSE[place + 1 :])
    [harmed] = requests(rows)
    times = {name: getattr(harmed, name) for name in ("prefill_ms", "decode_ms")}
    assert times == {"prefill_ms": 56.452, "decode_ms": 1400.0, lost: None}
    assert stream.counts.impossible_values == 1


def test_go_zero_time_is_no_time() -> None:
    [row] = requests(read('{"created_at":"0001-01-01T00:00:00Z","done":true,"total_duration":2000000000}')[0])
    assert (row.finished_at, row.started_at, row.total_ms) == (None, None, 2000)


_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(), st.text(max_size=5)
)
_DURATIONS = ("total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count")
_TIMINGS = ("cache_n", "prompt_n", "prompt_ms", "predicted_n", "predicted_ms", "draft_n")


@settings(deadline=None)
@given(st.fixed_dictionaries(dict.fromkeys((*_DURATIONS, *_TIMINGS), _VALUES)), _VALUES)
def test_no_answer_breaks_the_tables(values: dict[str, object], moment: object) -> None:
    ollama = {"done": True, "created_at": moment, **{key: values[key] for key in _DURATIONS}}
    server = {"stop": True, "created": moment, "timings": {key: values[key] for key in _TIMINGS}}
    rows, _ = read(json.dumps(ollama), json.dumps(server))
    tables = Tables()
    tables.extend(rows)
    for row in tables.requests.iter_rows(named=True):
        numbers = [value for value in row.values() if isinstance(value, int | float)]
        assert all(value >= 0 for value in numbers)


@given(st.lists(st.integers(0, len(RELOAD.read_bytes()) // 8), max_size=4))
def test_rows_do_not_depend_on_how_the_bytes_come(cuts: list[int]) -> None:
    log = RELOAD.read_bytes()[: len(RELOAD.read_bytes()) // 8]
    edges = [0, *sorted(cuts), len(log)]
    stream = Stream("ollama.log")
    rows = [row for start, end in pairwise(edges) for row in stream.feed(log[start:end])]
    whole = Stream("ollama.log")
    assert rows + stream.close() == whole.feed(log) + whole.close()


def test_a_stream_of_llama_server_is_one_request_and_a_torn_one_is_none() -> None:
    chunk = (
        'data: {{"choices":[{{"finish_reason":{end},"delta":{{}}}}],"id":"{id}","timings":'
        '{{"cache_n":5,"prompt_n":20,"prompt_ms":40.0,"predicted_n":{n},"predicted_ms":{ms}}}}}'
    )
    rows, stream = read(
        chunk.format(id="a", end="null", n=1, ms=0.01),
        chunk.format(id="b", end="null", n=1, ms=0.01),
        chunk.format(id="a", end='"stop"', n=11, ms=100.0),
        chunk.format(id="a", end='"stop"', n=11, ms=100.0),
    )
    [row] = requests(rows)
    assert (row.request_id, row.prompt_tokens, row.output_tokens, row.decode_steps) == ("a", 25, 11, 10)
    assert stream.counts.incomplete_requests == 1


def test_a_llama_server_log_that_repeats_its_answers_has_each_request_once() -> None:
    body = '{"stop":true,"timings":{"prompt_n":100,"prompt_ms":500.0,"predicted_n":31,"predicted_ms":1500.0}}'
    rows, stream = read(launch(0), body, *timings(0), body)
    assert len(requests(rows)) == 1
    assert stream.engine == "llama-server"


@pytest.mark.parametrize(
    ("more", "facts"),
    [
        (" --no-mmap", {"mmap": False}),
        (" --load-mode none", {"mmap": False}),
        (" --load-mode auto", {"mmap": None}),
        (" -ub 256 -t 6 -tb 12", {"ubatch": 256, "threads": 6, "threads_batch": 12}),
        (" --cache-ram 2048 --ctx-checkpoints 4", {"host_cache_bytes": 2 << 30, "checkpoints": 4}),
        (" --cache-ram -1", {"host_cache_bytes": None}),
        (" --spec-draft-n-max 5 --flash-attn off", {"draft_max": 5, "flash_attention": False}),
    ],
)
def test_a_command_line_states_facts(more: str, facts: dict[str, object]) -> None:
    stream = Stream("log")
    stream.feed(START.format(model="/m/sha256-00", context=4096, slots=1, more=more).encode())
    stream.close()
    setup = stream.setups[-1]
    assert {name: getattr(setup, name) for name in facts} == facts


ESTIMATE = (
    'time=2025-02-18T09:20:01.101+01:00 level=INFO msg="Listening on 127.0.0.1:11434 (version 0.6.5)"\n'
    'time=2025-02-18T09:21:25.646+01:00 level=INFO source=memory.go:356 msg="offload to cuda"'
    ' layers.requested=-1 layers.model=29 layers.offload=29 memory.required.kv="{kv}"'
)


@pytest.mark.parametrize(
    ("kv", "more", "on_host"),
    [
        ("1.5 GiB", " --no-kv-offload", 3 << 29),
        ("1.5 GiB", " -nkvo", 3 << 29),
        ("1.5 GiB", "", None),
        ("", " -nkvo", None),
    ],
)
def test_a_kv_cache_that_is_told_to_stay_in_main_memory(kv: str, more: str, on_host: int | None) -> None:
    started, settled = (
        STARTED.format(time="2026-08-20T18:02:50.000+02:00", seconds="9.00"),
        LOADED.format(count=1),
    )
    start = START.format(model="/m/sha256-00", context=4096, slots=1, more=more)
    _, stream = read(ESTIMATE.format(kv=kv), start, started, settled)
    assert stream.setups[-1].kv_cpu_bytes == on_host
