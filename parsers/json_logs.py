"""Programs that log a message as a value: in an object of JSON, or in quotes behind ``msg=``.

llama.cpp does the one with ``--log-jsonl`` (llama.cpp#28437, 2026-09), LM Studio with ``lms log stream
--json``. A message may hold several lines. llama.cpp's clock and level are put before it as llama.cpp does in
its text. Docker Model Runner does the other with each line of the engine that it runs.

What gathers the logs of a Kubernetes cluster (Fluent Bit, Fluentd, Vector, Filebeat) writes an object for
each line, or for several that it has joined, with the pod beside it. Where an engine logs objects itself, the
gatherer may have added its own members to them instead. Docker's fluentd driver names the container.

Read in llama.cpp's common/log.cpp as llama-cpp-python 0.3.36 ships it, in lmstudio-js 6ec11db
(packages/lms-shared-types/src/diagnostics/DiagnosticsLogEvent.ts), and in model-runner 642c7211
(pkg/logging/logging.go; logrus before 2026-02). The records of clusters: Fluent Bit's kubernetes filter and
CRI parser, Vector's kubernetes_logs source (its own examples of output), OKD's and Elastic's exported fields,
Docker's page on its driver.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

_TEXT_OF = {"server.log": "content", "runtime.log": "message"}
_LEVELS = {"info": "I ", "warn": "W ", "error": "E ", "debug": "D "}
_LATEST_MS = 4_102_444_800_000
"""The year 2100: a larger number is no time of day."""


_QUOTED = re.compile(
    rb'(?:\[\S+\] )?time="?(?P<time>[^"\s]{1,40})"? level=(?:INFO|info) msg="(?P<text>(?:[^"\\]|\\.)*)"'
    rb"(?: component=\S+)?\s*$"
)
QUOTING = (b' level=INFO msg="', b' level=info msg="')
"""What a line holds that quotes one of an engine. Ollama's own have their source before the message."""


_KUBERNETES = re.compile(rb'(?<!\\)"kubernetes" ?: ?\{')
_NAMES = [
    re.compile(
        rb'(?<!\\)"%b_name" ?: ?"([^"\\]+)"|(?<!\\)"%b" ?: ?\{[^{}]{0,500}?"name" ?: ?"([^"\\]+)"' % (of, of)
    )
    for of in (b"pod", b"container")
]
"""The names that all give but Elastic, and Elastic's."""
_CONTAINER = re.compile(rb'(?<!\\)"container_name" ?: ?"/?([^"\\]+)"')
_DRIVEN = re.compile(rb'(?<!\\)"source" ?: ?"std(?:out|err)"')
_CLOCKS = ("time", "timestamp", "@timestamp", "date")
_OWN = {"levelname", "severity_text", "target", "span"}
"""What engines' own objects have beside a message: vLLM's, and TGI's."""


class Message(NamedTuple):
    """What one object says: the lines that would be printed, at least one, and when, where that is told."""

    lines: list[bytes]
    time: datetime | None = None


def may_be_message(line: bytes) -> bool:
    """True for a line that such a program wrote, and for few others."""
    return line.startswith(b"{") and (
        (b'"type":"log"' in line and b'"msg":' in line)
        or b'"type":"server.log"' in line
        or b'"type":"runtime.log"' in line
    )


def message_of(line: bytes) -> Message | None:
    """The message that a line holds; ``None`` where it is none."""
    if (record := _object(line)) is None:
        return None
    if record.get("type") == "log" and isinstance(record.get("msg"), str):
        return Message(_lines(_head(record) + record["msg"]))
    data = record.get("data")
    if not isinstance(data, dict):
        return None
    text = data.get(_TEXT_OF.get(str(data.get("type")), ""))
    return Message(_lines(text), _moment(record.get("timestamp"))) if isinstance(text, str) else None


def pod_of(line: bytes) -> bytes | None:
    """Pod and container of a record of a cluster's logs, as ``kubectl logs --prefix`` has them.

    Docker's fluentd driver knows a container only.
    """
    if b'"kubernetes"' in line and (begin := _KUBERNETES.search(line)):
        found = [name.search(line, begin.end()) for name in _NAMES]
        return b"/".join(name[1] or name[2] for name in found if name) or None
    if b'"container_id"' in line and _DRIVEN.search(line) and (container := _CONTAINER.search(line)):
        return container[1]
    return None


def gathered_of(line: bytes) -> Message | None:
    """What such a record says; no lines where it is an engine's own object with more in it."""
    if (record := _object(line)) is None:
        return None
    text, pod = record.get("log"), isinstance(record.get("kubernetes"), dict)
    if not pod and not (
        isinstance(text, str) and {"container_id", "container_name", "source"} <= record.keys()
    ):
        return None
    clocks = (_clock(record.get(name)) for name in _CLOCKS)
    time = next((clock for clock in clocks if clock is not None), None)
    if not isinstance(text, str):
        text = None if _OWN & record.keys() else record.get("message")
    return Message(_lines(text) if isinstance(text, str) else [], time)


def quoted_of(line: bytes) -> tuple[bytes, bytes] | None:
    """The engine's line that a line quotes, and the time beside it; ``None`` where it quotes none."""
    if (match := _QUOTED.match(line)) is None:
        return None
    try:
        return str(json.loads(b'"' + match["text"] + b'"')).encode(), match["time"]
    except (ValueError, UnicodeEncodeError):
        return None


def _object(line: bytes) -> dict[str, Any] | None:
    """The JSON object that a line is; ``None`` if it is none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _lines(text: str) -> list[bytes]:
    return text.rstrip("\r\n").encode("utf-8", "replace").split(b"\n")


def _head(record: dict[str, Any]) -> str:
    """``12.07.345.678 I `` from the microseconds since the start, 0 where the clock is switched off."""
    level = _LEVELS.get(str(record.get("level")))
    if level is None:
        return ""
    us = record.get("time")
    if not isinstance(us, int) or us <= 0:
        return level
    seconds, us = divmod(us, 1_000_000)
    return f"{seconds // 60}.{seconds % 60:02d}.{us // 1000:03d}.{us % 1000:03d} {level}"


def _clock(value: object) -> datetime | None:
    """ISO 8601 with a zone, or seconds since 1970."""
    if not isinstance(value, str):
        return _moment(value * 1000) if isinstance(value, (int, float)) else None
    try:
        time = datetime.fromisoformat(value)
        return time.astimezone(UTC) if time.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _moment(ms: object) -> datetime | None:
    if not isinstance(ms, (int, float)) or isinstance(ms, bool) or not 0 < ms < _LATEST_MS:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
