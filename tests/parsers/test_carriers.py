"""A log gives the same rows in whatever it was carried."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.carriers import unwrap
from parsers.times import parse_iso
from tests.parsers.reading import TIMES, lines_of, read
from tests.parsers.scenarios import scenario

if TYPE_CHECKING:
    from collections.abc import Callable

LOGS = {
    "b11434": scenario("llama-server-b11434/d_parallel4_12req").log,
    "b11434 aborted": scenario("llama-server-b11434/f_client_disconnect").log,
    "b11434 verbose": scenario("llama-server-b11434/a_short_verbose").log,
    "mid-2025": scenario("llama-server-mid2025/h_spec_draft_same_model").log,
    "mid-2025 embeddings": scenario("llama-server-mid2025/i_embeddings").log,
}
LOGS["2024"] = LOGS["mid-2025"].replace(b"\nprompt eval", b"\n\rprompt eval").replace(
    b"\n       eval", b"\n\r       eval"
).replace(b"\n      total", b"\n\r      total")  # fmt: skip

START = datetime(2025, 11, 29, 20, 15, 30, tzinfo=UTC)


def clock(number: int) -> str:
    return (START + timedelta(milliseconds=137 * number)).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


def each(wrapping: Callable[[int, bytes], bytes]) -> Callable[[bytes], bytes]:
    """A carrier that wraps each line, its newline aside."""

    def carry(log: bytes) -> bytes:
        return b"".join(wrapping(n, line.removesuffix(b"\n")) + b"\n" for n, line in enumerate(lines_of(log)))

    return carry


def docker_json(number: int, line: bytes) -> bytes:
    record = {"log": line.decode() + "\n", "stream": "stderr", "time": clock(number)}
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()


def coloured(number: int, line: bytes) -> bytes:
    head, _, rest = line.partition(b" ")
    if not head[:1].isdigit():
        return line
    return b"\x1b[34m" + head + b"\x1b[0m \x1b[32m" + rest[:2] + b"\x1b[0m" + rest[2:] + b"\x1b[0m"


def journal_json(number: int, line: bytes) -> bytes:
    epoch_us = int((START + timedelta(milliseconds=137 * number)).timestamp() * 1_000_000)
    record = {"__REALTIME_TIMESTAMP": str(epoch_us), "_SYSTEMD_UNIT": "llama.service", "PRIORITY": "6"}
    return json.dumps(
        {**record, "MESSAGE": line.decode(), "SYSLOG_IDENTIFIER": "llama-server"}, ensure_ascii=False
    ).encode()


def gathered(number: int, line: bytes, *, text: str, clock: str) -> bytes:
    """A record of a cluster's logs, by Fluent Bit or Vector."""
    time = (START + timedelta(milliseconds=137 * number)).isoformat()
    pod = {"pod_labels": {"app": "pod_name"}, "container_name": "server", "pod_name": "llama-0"}
    record = {"file": "/var/log/pods/x", "kubernetes": pod, text: line.decode(), "stream": "stderr"}
    return json.dumps(record | {clock: time}, separators=(",", ":"), ensure_ascii=False).encode()


CARRIERS: dict[str, Callable[[bytes], bytes]] = {
    "docker compose": each(lambda n, line: b"llama-1  | " + line),
    "docker compose with times": each(lambda n, line: b"llama-1  | " + clock(n).encode() + b" " + line),
    "docker with times": each(lambda n, line: clock(n).encode() + b" " + line),
    "docker json-file": each(docker_json),
    "fluent bit json": each(lambda n, line: gathered(n, line, text="log", clock="time")),
    "fluent bit json for elasticsearch": each(
        lambda n, line: gathered(n, line, text="log", clock="@timestamp")
    ),
    "vector json": each(lambda n, line: gathered(n, line, text="message", clock="timestamp")),
    "docker's fluentd driver": each(
        lambda n, line: json.dumps(
            {"container_id": "59b7", "container_name": "/llama-1", "source": "stderr", "log": line.decode()},
            ensure_ascii=False,
        ).encode()
    ),
    "docker json-file with more in it": each(
        lambda n, line: json.dumps(
            {"stream": "stderr", "log": line.decode() + "\n", "attrs": {"tag": "x"}, "time": clock(n)},
            ensure_ascii=False,
        ).encode()
    ),
    "kubernetes": each(lambda n, line: clock(n).encode() + b" stderr F " + line),
    "kubectl": each(lambda n, line: b"[pod/llama-6d5f7c9b8-x2x4z/server] " + line),
    "kubectl with times": each(lambda n, line: b"[pod/llama-0/server] " + clock(n).encode() + b" " + line),
    "journald": each(lambda n, line: b"Nov 29 20:15:30 host llama-server[4711]: " + line.strip(b" ")),
    "journald iso": each(lambda n, line: b"2025-11-29T20:15:30+0100 host llama[1]: " + line.strip(b" ")),
    "journald precise": each(
        lambda n, line: b"Nov 29 20:15:30.123456 host llama-server[4711]: " + line.strip(b" ")
    ),
    "journald full": each(lambda n, line: b"Sat 2025-11-29 20:15:30 CET host llama[1]: " + line.strip(b" ")),
    "journald monotonic": each(lambda n, line: b"[ 1234.567890] host llama[1]: " + line.strip(b" ")),
    "journal as json with times": each(journal_json),
    "journal as json, compact": each(
        lambda n, line: json.dumps(
            json.loads(journal_json(n, line)), separators=(",", ":"), ensure_ascii=False
        ).encode()
    ),
    "journal as export, one field a line": each(lambda n, line: b"MESSAGE=" + line),
    "syslog with times": each(lambda n, line: b"<30>1 " + clock(n).encode() + b" host llama 47 - - " + line),
    "syslog with data": each(
        lambda n, line: b'<30>1 - host llama - ID47 [ex@1 a="b\\]"][x@2 c="1"] \xef\xbb\xbf' + line
    ),
    "journald with a priority": each(
        lambda n, line: b"<30>Nov 29 20:15:30 host llama[1]: " + line.strip(b" ")
    ),
    "pm2": each(lambda n, line: b"0|llama  | " + line),
    "pm2 with a clock": each(lambda n, line: b"2025-11-29T20:15:30: 0|llama-server  | " + line),
    "ray serve": each(lambda n, line: b"(ServeReplica:default:LLM pid=71, ip=10.0.0.2) " + line),
    "ray serve on one node": each(lambda n, line: b"(ServeReplica:default:LLM pid=71) " + line),
    "swarm": each(lambda n, line: b"ai_llama.1.7q92v0nr1hcg@node-1    | " + line),
    "stern": each(lambda n, line: b"llama-6d5f7c9b8-x2x4z server " + line if line.strip() else line),
    "jan": each(
        lambda n, line: (
            b"[2025-11-29][20:15:30][tauri_plugin_llamacpp::commands][INFO] [llamacpp] " + line.rstrip(b" ")
        )
    ),
    "indented": each(lambda n, line: b"    " + line),
    "indented with tabs": each(lambda n, line: b"\t" + line),
    "quoted": each(lambda n, line: b"> " + line),
    "quoted twice": each(lambda n, line: b"> > " + line),
    "colours": each(coloured),
    "colours in a container": each(lambda n, line: b"\x1b[36mllama-1  |\x1b[0m " + coloured(n, line)),
    "router": each(lambda n, line: b"[41219] " + line),
    "router, padded": each(lambda n, line: b"[ 8081] " + line),
    "router in a container": each(lambda n, line: b"llama-1  | [41219] " + line),
    "windows": lambda log: log.replace(b"\n", b"\r\n"),
    "a terminal's double returns": lambda log: log.replace(b"\n", b"\r\r\n"),
    "byte order mark": lambda log: b"\xef\xbb\xbf" + log,
    "powershell": lambda log: b"\xff\xfe" + log.decode().replace("\n", "\r\n").encode("utf-16-le"),
    "utf-16 big endian": lambda log: b"\xfe\xff" + log.decode().encode("utf-16-be"),
}
ENCODED = {"powershell": "utf-16-le", "utf-16 big endian": "utf-16-be"}


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("log", LOGS)
def test_carried_logs_give_the_same_rows(log: str, carrier: str) -> None:
    bare, data = LOGS[log], CARRIERS[carrier](LOGS[log])
    plain, carried = read(bare), read(data)
    assert carried.told("offset", *TIMES) == plain.told("offset", *TIMES)
    assert len(carried.requests) > 0
    assert carried.stream.counts == plain.stream.counts
    told, bare_told = (
        [s.model_dump(exclude={"label"}) for s in one.stream.setups] for one in (carried, plain)
    )
    assert told == bare_told
    assert {s.label for s in plain.stream.setups} == {None}
    labelled = unwrap(next(line for line in data.split(b"\n") if line.strip())).label is not None
    assert carrier in ENCODED or {s.label is not None for s in carried.stream.setups} == {labelled}
    starts = bare.split(b"\n")
    for row in carried.requests:
        here = data[row.offset :].decode(ENCODED.get(carrier, "utf-8"), "replace").split("\n")[0].encode()
        assert unwrap(here.strip(b"\r\t ")).body.startswith(starts[row.first_line - 1].strip(b" ")[:60])


@pytest.mark.parametrize("log", LOGS)
def test_ray_names_workers_as_vllm_does(log: str) -> None:
    carried = read(each(lambda n, line: b"(Worker pid=71) " + line)(LOGS[log]))
    assert carried.told("offset", *TIMES) == read(LOGS[log]).told("offset", *TIMES)


@pytest.mark.parametrize("carrier", [name for name in CARRIERS if "times" in name or "json" in name])
def test_the_carriers_clock_is_kept(carrier: str) -> None:
    rows = read(CARRIERS[carrier](LOGS["mid-2025"])).requests
    for row in rows:
        assert row.started_at == parse_iso(clock(row.first_line - 1).encode())
        assert row.finished_at is not None
        assert row.started_at is not None
        assert timedelta(0) < row.finished_at - row.started_at < timedelta(seconds=2)


def test_jan_prints_utc() -> None:
    line = b"[2025-11-29][20:15:30][app_lib::core::server][INFO] [llamacpp stdout] hello"
    assert unwrap(line) == (b"hello", None, START, ())


def test_a_log_without_a_clock_has_no_times() -> None:
    assert all(row.started_at is None and row.finished_at is None for row in read(LOGS["mid-2025"]).requests)


@pytest.mark.parametrize(
    ("line", "label"),
    [
        (b"llama-1  | hello", b"llama-1"),
        (b"a | [41219] hello", b"a/41219"),
        (b"[pod/x/y] [41219] hello", b"x/y/41219"),
        (b"Nov  9 20:15:30 host ollama[12]: hello", b"ollama"),
        (b"ai_llama.1.7q92v0@node    | hello", b"ai_llama.1.7q92v0@node"),
        (b"llama-0 server hello", b"llama-0 server"),
        (b"<30>1 - host ollama 12 - - hello", b"ollama"),
        (b"0|llama  | hello", b"0|llama"),
        (b'{"container_name":"/llama-1","source":"stderr","log":"hello","container_id":"5"}', b"llama-1"),
        (b'{"kubernetes":{"pod_name":"a-0","container_name":"b"},"log":"[41219] hello\\n"}', b"a-0/b/41219"),
        (b"(ServeReplica:a:B pid=1, ip=10.0.0.2) hello", b"ServeReplica:a:B pid=1, ip=10.0.0.2"),
        (b"hello", None),
    ],
)
def test_labels_name_who_wrote_a_line(line: bytes, label: bytes | None) -> None:
    assert unwrap(line) == (b"hello", label, None, ())


@pytest.mark.parametrize(
    "line",
    [
        b"slot print_timing: id  0 | task 2 | ",
        b"llama_memory_breakdown_print: |   - CUDA0 (RTX 5090)   | 32606 = 4334 + (21832",
        b"| model | size | test | t/s |",
        b"0.00.735.801 I slot print_timing: id  0 | task 1 | prompt eval time = 1",
        b"[INFO] hello",
        b"(EngineCore_DP0 pid=7) INFO 05-22 02:21:04 [core.py:1] hello",
        b'{"MESSAGE":"slot launch_slot_: id  0 | task 1 | processing task"}',
        b'{"MESSAGE":[115,108],"__REALTIME_TIMESTAMP":"1764447330000000","SYSLOG_IDENTIFIER":"a"}',
        b'{"MESSAGE":null,"__REALTIME_TIMESTAMP":7,"SYSLOG_IDENTIFIER":"a"}',
        b'{"log": 7}',
        b'{"log":"unfinished',
        b'{"content":"a","log":"slot launch_slot_: id  0 | task 1 | processing task"}',
        b"prompt eval time =       1.00 ms /     1 tokens (",
        b"       eval time =       1.00 ms /     1 tokens (",
        b"slot launch_slot_: id  0 | task 1 | processing task",
        b"llama_perf_context_print: prompt eval time =      88.50 ms",
        b"WARNING 01-01 00:00:00 [scheduler.py:1] Sequence group cmpl-1 is preempted by ",
        b'{"log":' + b"[" * 50_000,
        b"",
    ],
)
def test_an_engines_own_text_is_no_wrapping(line: bytes) -> None:
    assert unwrap(line).body == line


@pytest.mark.parametrize(
    ("text", "time"),
    [
        (b"2025-07-24T18:16:20.463-04:00", datetime(2025, 7, 24, 22, 16, 20, 463_000, tzinfo=UTC)),
        (b"2025-07-24T18:16:20.123456789Z", datetime(2025, 7, 24, 18, 16, 20, 123_456, tzinfo=UTC)),
        (b"2025-07-24 18:16:20,5+0200", datetime(2025, 7, 24, 16, 16, 20, 500_000, tzinfo=UTC)),
        (b"2025-07-24T18:16:20", None),
        (b"2025-13-24T18:16:20Z", None),
        (b"yesterday", None),
        (None, None),
    ],
)
def test_iso_times(text: bytes | None, time: datetime | None) -> None:
    assert parse_iso(text) == time


@pytest.mark.parametrize("name", ["b11434", "b11434 aborted", "mid-2025 embeddings"])
def test_localai_quotes_what_its_engines_print(name: str) -> None:
    def xlog(number: int, line: bytes) -> bytes:
        quoted = json.dumps(line.decode()).encode()
        return (
            b'Aug 05 15:27:04 DEBUG GRPC stderr id="m.gguf-127.0.0.1:42043" line='
            + quoted
            + b" caller={L=2} "
        )

    def zerolog(number: int, line: bytes) -> bytes:
        return b"4:23PM DBG GRPC(m.gguf-127.0.0.1:42043): stderr " + line

    bare = read(LOGS[name]).told("offset", *TIMES)
    for wrapping in (xlog, zerolog):
        assert read(each(wrapping)(LOGS[name])).told("offset", *TIMES) == bare


def test_a_line_that_quotes_localai_over_and_over_ends() -> None:
    assert unwrap(b"4:23PM DBG GRPC(m): stderr " * 2000).label == b"m"


def test_a_time_that_is_no_text_is_no_time() -> None:
    assert unwrap(b'{"log":"slot","stream":"stderr","time":"\\ud800"}').time is None


TEXTS = st.lists(
    st.sampled_from(
        ["x", " ", '"', "\\", "\n", "\r", "\t", "\0", "\x7f", "\u00fc", "\x1b[0m", "{", "web-1  | ", "msg="]
    )
).map("".join)
STAMPS = st.sampled_from(
    ["2026-11-29T10:00:00.123456789Z", "2026-11-29T10:00:00+02:00", "2026-11-29", "Z", ""]
)


@given(text=TEXTS, end=st.sampled_from(["", "\n", "\r\n", "\\n"]), stamp=STAMPS, ascii_only=st.booleans())
def test_dockers_usual_record_is_read_as_any_other(text: str, end: str, stamp: str, ascii_only: bool) -> None:
    """Spaces between the keys make it one that only a parser of JSON reads."""
    record = {"log": text + end, "stream": "stderr", "time": stamp}
    usual = json.dumps(record, separators=(",", ":"), ensure_ascii=ascii_only).encode()
    assert unwrap(usual) == unwrap(json.dumps(record, ensure_ascii=ascii_only).encode())
