"""Records as JSON: of ``--logging-config.formatter json``, of python-json-logger, or with OTel's names.

The message is the same as in text; what stands in the head of a text record are members of their own. Before
vllm#57957 workers put ``(Worker_TP0 pid=12) `` before the object. See vllm#58171 and vllm#54769.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from parsers.cut import json_object
from parsers.formats.base import line

if TYPE_CHECKING:
    from datetime import datetime

    from parsers.formats.vllm.record import Clock

_OBJECT = rb"(?:\((?P<process>[\w.-]+ pid=\d+)\) *)?(?P<body>\{(?s:.*)\})\s*$"
JSON_RECORDS = (
    line("json_record", b'"levelname":', _OBJECT, b'"message":'),
    line("json_record", b'"severity_text":', _OBJECT, b'"body":'),
)

_CLOCK = re.compile(
    rb"(?:(?P<year>\d{4})-)?(?P<month>\d\d)-(?P<day>\d\d)[ T](?P<clock>\d\d:\d\d:\d\d)(?P<fraction>[.,]\d+)?"
)


class JsonRecord(NamedTuple):
    """A record out of its object: the message, who wrote it and when, its level, and an error's traceback."""

    message: bytes
    process: bytes
    time: datetime | None
    level: bytes
    traceback: list[bytes]


def json_record(m: re.Match[bytes], clock: Clock) -> JsonRecord | None:
    """The record of a line; ``None`` for another program's."""
    record = json_object(m["body"]) or {}
    message, logger = record.get("message", record.get("body")), record.get("name", record.get("logger"))
    if not isinstance(message, str) or not str(logger).startswith("vllm"):
        return None
    who = f"{record.get('vllm_process_name', '')} pid={record.get('process', '')}".encode()
    printed = _CLOCK.match(str(record.get("asctime", record.get("timestamp"))).encode())
    level = record.get("levelname", record.get("severity_text"))
    trace = record.get("exc_info", record.get("exception.stacktrace"))
    return JsonRecord(
        message.encode(),
        m["process"] or who,
        clock.read(printed) if printed else None,
        str(level).encode(),
        trace.encode("utf-8", "replace").split(b"\n") if isinstance(trace, str) else [],
    )
