"""Logs whose lines are values: llama.cpp's and LM Studio's JSON, the quotes of Docker Model Runner."""

from __future__ import annotations

import json
import re

import pytest

from parsers.carriers import unwrap
from parsers.gathered import sender_of
from parsers.json_logs import message_of, quoted_of
from tests.parsers.reading import TIMES, join, read
from tests.parsers.scenarios import scenario

LOG = scenario("llama-server-b11434/d_parallel4_12req").log
_PREFIX = re.compile(rb"(\d+)\.(\d\d)\.(\d{3})\.(\d{3}) ([IWED]) (.*)")
_LEVELS = {b"I": "info", b"W": "warn", b"E": "error", b"D": "debug"}


def jsonl(line: bytes) -> str:
    """A line as llama.cpp prints it with ``--log-jsonl``."""
    record: dict[str, object] = {"type": "log", "time": 0, "level": "none", "msg": line.decode() + "\n"}
    if m := _PREFIX.match(line):
        minutes, seconds, ms, us = (int(part) for part in m.groups()[:4])
        record["time"] = ((60 * minutes + seconds) * 1000 + ms) * 1000 + us
        record["level"], record["msg"] = _LEVELS[m[5]], m[6].decode() + "\n"
    return json.dumps(record, separators=(",", ":"))


def quoted(line: bytes) -> str:
    """A line as Docker Model Runner prints it."""
    return f"time=2026-07-22T10:00:00.001Z level=INFO msg={json.dumps(line.decode())}"


def test_llama_cpp_says_the_same_as_json() -> None:
    bare = read(LOG)
    found = read(join(map(jsonl, LOG.splitlines())))
    assert len(found.requests) == 12
    assert found.told("offset") == bare.told("offset")
    assert found.stream.counts == bare.stream.counts


@pytest.mark.parametrize(
    "carry", [lambda line: f"llama-1  | {line}", lambda line: f"2026-07-22T10:00:00Z stderr F {line}"]
)
def test_json_in_a_container(carry: object) -> None:
    assert callable(carry)
    found = read(join(carry(jsonl(line)) for line in LOG.splitlines()))
    assert found.told("offset", *TIMES) == read(LOG).told("offset", *TIMES)


def test_docker_model_runner_quotes_the_same() -> None:
    found = read(join(map(quoted, LOG.splitlines())))
    assert found.told("offset", *TIMES) == read(LOG).told("offset", *TIMES)
    assert all(row.finished_at is not None for row in found.requests)


def test_a_clock_that_is_switched_off_is_none() -> None:
    line = b'{"type":"log","time":0,"level":"info","msg":"slot x\\n"}'
    assert unwrap(line).body == b"I slot x"
    assert unwrap(b'{"type":"log","time":61000002,"level":"cont","msg":"slot x"}').body == b"slot x"
    assert unwrap(b'{"type":"log","time":61000002,"level":"warn","msg":"a\\nb\\n"}').more == (b"b",)
    assert unwrap(b'{"type":"log","time":61000002,"level":"warn","msg":"a"}').body == b"1.01.000.002 W a"


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"log","msg":5}',
        b'{"type":"log","time":1,"level":"info","msg":"cut',
        b'{"timestamp":1,"data":{"type":"server.log","content":null}}',
        b'{"timestamp":1,"data":["server.log"],"x":{"type":"server.log"}}',
        b'[{"type":"log","msg":"x"}]',
        b"{" * 5000,
    ],
)
def test_what_is_no_message(line: bytes) -> None:
    assert message_of(line) is None
    assert unwrap(line).body == line


def test_a_time_that_can_not_be_is_none() -> None:
    for timestamp in ("1e300", "-1", "true", '"x"', "0"):
        found = message_of(
            b'{"timestamp":%s,"data":{"type":"server.log","content":"x"}}' % timestamp.encode()
        )
        assert found is not None
        assert found.time is None


def test_only_a_whole_message_is_a_quote() -> None:
    assert quoted_of(b'time=x level=INFO msg="a \\"b\\"" component=vllm') == (b'a "b"', b"x")
    for line in (
        b'time=x level=INFO source=a.go msg="a"',
        b'time=x level=INFO msg="a" other=1',
        b'time=x level=INFO msg="a',
    ):
        assert quoted_of(line) is None


POD = {"pod_name": "vllm-0", "container_name": "server", "labels": {"app": "x"}}
WINDOW = "Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 9 reqs"


@pytest.mark.parametrize(
    ("record", "time"),
    [
        ({"log": f"{WINDOW}\n", "kubernetes": POD, "date": 1764447330.5}, "2025-11-29T20:15:30.500000+00:00"),
        (
            {"kubernetes": POD, "message": WINDOW, "@timestamp": "2025-11-29T20:15:30Z"},
            "2025-11-29T20:15:30+00:00",
        ),
        (
            {"kubernetes": POD, "message": WINDOW, "timestamp": "2025-11-29T20:15:30.123456789Z"},
            "2025-11-29T20:15:30.123456+00:00",
        ),
        (
            {
                "log": f"2025-11-29T20:15:31Z stderr F {WINDOW}",
                "kubernetes": POD,
                "time": "2025-11-29T20:15:32Z",
            },
            "2025-11-29T20:15:31+00:00",
        ),
        (
            {
                "kubernetes": {"pod": {"uid": "1", "name": "vllm-0"}, "container": {"name": "server"}},
                "message": WINDOW,
                "@timestamp": "2025-11-29T20:15:30.000Z",
            },
            "2025-11-29T20:15:30+00:00",
        ),
        (
            {
                "levelname": "INFO",
                "name": "vllm.v1",
                "message": WINDOW,
                "kubernetes": POD,
                "time": "2025-11-29T20:15:30Z",
            },
            "2025-11-29T20:15:30+00:00",
        ),
        (
            {
                "log": json.dumps({"levelname": "INFO", "name": "vllm.v1", "message": WINDOW}),
                "kubernetes": POD,
                "levelname": "INFO",
                "message": WINDOW,
                "time": "2025-11-29T20:15:30Z",
            },
            "2025-11-29T20:15:30+00:00",
        ),
    ],
)
def test_a_pods_line_has_its_label_and_its_clock(record: dict[str, object], time: str) -> None:
    found = read(join([json.dumps(record, separators=(",", ":"))]))
    assert [(row.running, row.time.isoformat() if row.time else None) for row in found.intervals] == [
        (9, time)
    ]
    assert found.setup.label == "vllm-0/server"


def test_lines_that_a_gatherer_joined_are_read_one_by_one() -> None:
    record = {"log": f"INFO 1\n{WINDOW}\n{WINDOW}\n", "kubernetes": POD}
    assert len(read(join([json.dumps(record)])).intervals) == 2


@pytest.mark.parametrize(
    "record",
    [
        {"message": WINDOW, "kubernetes": "pod_name"},
        {"message": WINDOW, "content": '{"kubernetes":{"pod_name":"x"}}'},
        {"choices": [{"message": WINDOW}], "kubernetes": POD},
        {"log": 7, "kubernetes": POD},
        {"log": WINDOW, "container_name": "vllm"},
        {"log": WINDOW, "container_id": "5", "container_name": "vllm", "source": "a file"},
    ],
)
def test_what_has_no_pod_or_no_text_is_no_pods_line(record: dict[str, object]) -> None:
    assert not read(join([json.dumps(record)])).rows


@pytest.mark.parametrize("kept", [False, True])
def test_llama_cpps_objects_with_the_pod_in_them(kept: bool) -> None:
    def merged(line: bytes) -> str:
        record = json.loads(jsonl(line)) | {"kubernetes": POD}
        return json.dumps(record | {"log": jsonl(line)} if kept else record, separators=(",", ":"))

    found = read(join(map(merged, LOG.splitlines())))
    assert found.told("offset") == read(LOG).told("offset")
    assert found.setup.label == "vllm-0/server"


@pytest.mark.parametrize(
    "clock",
    [
        {"time": 339107},
        {"date": True},
        {"timestamp": 17.5},
        {"time": 1e300},
        {"time": 2_000_000_000, "type": "log", "msg": "hello"},
    ],
)
def test_what_is_no_seconds_since_1970_is_no_time(clock: dict[str, object]) -> None:
    record = {"log": "hello", "kubernetes": POD} | clock
    assert unwrap(json.dumps(record).encode()) == (b"hello", b"vllm-0/server", None, ())


def test_a_journals_record_with_a_pod_is_the_pods() -> None:
    journal = {"MESSAGE": "hello", "__REALTIME_TIMESTAMP": "1764447330000000", "_SYSTEMD_UNIT": "kubelet"}
    line = json.dumps(journal | {"log": "hello", "kubernetes": POD}).encode()
    assert unwrap(line).label == sender_of(line) == b"vllm-0/server"


@pytest.mark.parametrize(
    "pod",
    [
        {"pod_labels": {"pod_name": "evil", "container_name": "evil"}, **POD},
        {"annotations": {"container": {"name": "evil"}, "pod_name": "evil"}, **POD},
        {
            "pod": {"labels": {"name": "evil"}, "name": "vllm-0"},
            "container": {"image": {"name": "evil"}, "name": "server"},
        },
    ],
)
def test_a_pods_name_is_no_label_of_it(pod: dict[str, object]) -> None:
    line = json.dumps({"kubernetes": pod, "log": "hello"}).encode()
    assert unwrap(line).label == sender_of(line) == b"vllm-0/server"
