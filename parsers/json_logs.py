"""Programs that log a message as a value: in an object of JSON, or in quotes behind ``msg=``.

llama.cpp does the one with ``--log-jsonl`` (llama.cpp#28437, 2026-09), LM Studio with ``lms log stream
--json``. A message may hold several lines. llama.cpp's clock and level are put before it as llama.cpp does in
its text. Docker Model Runner does the other with each line of the engine that it runs.

Read in llama.cpp's common/log.cpp as llama-cpp-python 0.3.36 ships it, in lmstudio-js 6ec11db
(packages/lms-shared-types/src/diagnostics/DiagnosticsLogEvent.ts), and in model-runner 642c7211
(pkg/logging/logging.go; logrus before 2026-02).
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

_TEXT_OF = {"server.log": "content", "runtime.log": "message"}
_LEVELS = {"info": "I ", "warn": "W ", "error": "E ", "debug": "D "}
_EARLIEST_MS, _LATEST_MS = 1_000_000_000_000, 4_102_444_800_000
"""The years 2001 and 2100: a smaller number counts from a start, and a larger one is no time."""


_QUOTED = re.compile(
    rb'(?:\[\S+\] )?time="?(?P<time>[^"\s]{1,40})"? level=(?:INFO|info) msg="(?P<text>(?:[^"\\]|\\.)*)"'
    rb"(?: component=\S+)?\s*$"
)
QUOTING = (b' level=INFO msg="', b' level=info msg="')
"""What a line holds that quotes one of an engine. Ollama's own have their source before the message."""


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
    record = object_of(line)
    return None if record is None else message_in(record)


def message_in(record: dict[str, Any]) -> Message | None:
    """The same of an object."""
    if record.get("type") == "log" and isinstance(record.get("msg"), str):
        return Message(lines_of(_head(record) + record["msg"]))
    data = record.get("data")
    if not isinstance(data, dict):
        return None
    text = data.get(_TEXT_OF.get(str(data.get("type")), ""))
    return Message(lines_of(text), moment(record.get("timestamp"))) if isinstance(text, str) else None


def quoted_of(line: bytes) -> tuple[bytes, bytes] | None:
    """The engine's line that a line quotes, and the time beside it; ``None`` where it quotes none."""
    if (match := _QUOTED.match(line)) is None:
        return None
    try:
        return str(json.loads(b'"' + match["text"] + b'"')).encode(), match["time"]
    except (ValueError, UnicodeEncodeError):
        return None


def object_of(line: bytes) -> dict[str, Any] | None:
    """The JSON object that a line is; ``None`` if it is none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def lines_of(text: str) -> list[bytes]:
    """The lines of a text, at least one."""
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


def moment(ms: object) -> datetime | None:
    """Milliseconds since 1970, where they may be a time of day."""
    if not isinstance(ms, (int, float)) or isinstance(ms, bool) or not _EARLIEST_MS < ms < _LATEST_MS:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
