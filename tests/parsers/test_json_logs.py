"""Logs whose lines are values: llama.cpp's and LM Studio's JSON, the quotes of Docker Model Runner."""

from __future__ import annotations

import json
import re

import pytest

from parsers.carriers import unwrap
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
