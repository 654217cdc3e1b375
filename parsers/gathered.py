"""Records of what gathers logs: docker's files and its fluentd driver, the journal, and clusters.

What gathers the logs of a Kubernetes cluster (Fluent Bit, Fluentd, Vector, Filebeat) writes an object for
each line, or for several that it has joined, with the pod beside it. Where an engine logs objects itself, the
gatherer may have added its own members to them instead. Docker's fluentd driver names the container.

Read in Fluent Bit's kubernetes filter and CRI parser, Vector's kubernetes_logs source (its own examples of
output), OKD's and Elastic's exported fields, and Docker's page on its driver.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from parsers.json_logs import Message, lines_of, message_in, moment, object_of
from parsers.times import parse_iso, since_1970

if TYPE_CHECKING:
    from datetime import datetime

_NAMES = ("CONTAINER_NAME", "SYSLOG_IDENTIFIER", "_SYSTEMD_UNIT")
_JOURNAL = [re.compile(rb'(?<!\\)"%b" ?: ?"([^"\\]+)"' % name.encode()) for name in _NAMES]
_DRIVEN = {"container_id", "container_name", "source"}
_STREAMS = ("stdout", "stderr")
_CLOCKS = ("time", "timestamp", "@timestamp", "date")
_OWN = {"levelname", "severity_text", "target", "span"}
"""What engines' own objects have beside a message: vLLM's, and TGI's."""


class Record(NamedTuple):
    """What one record says.

    Attributes:
        lines: what was printed; none where the record is an engine's own object with more in it.
        label: who printed it; ``None`` where that is not told.
        time: when, where that is told.
    """

    lines: list[bytes]
    label: bytes | None
    time: datetime | None


def record_of(line: bytes) -> Record | None:
    """The record that a line is; ``None`` where it is none."""
    if (record := object_of(line)) is None:
        return None
    if who := _pod(record):
        return _of_a_pod(record, who)
    if "MESSAGE" in record:
        return _of_the_journal(record)
    text = record.get("log")
    if not isinstance(text, str) or not record.keys() & {"stream", "time"}:
        return None  # an answer that has a key of docker's has none of the others
    return Record([_whole(text)], None, _clock(record.get("time")))


def sender_of(line: bytes) -> bytes | None:
    """Who wrote a record of the journal or of a cluster; `record_of` calls it the same."""
    gathered = b'"kubernetes"' in line or b'"container_id"' in line
    if gathered and (record := object_of(line)) and (who := _pod(record)):
        return who
    if b'"MESSAGE"' in line and b'"__REALTIME_TIMESTAMP"' in line:
        return next((found[1] for name in _JOURNAL if (found := name.search(line))), None)
    return None


def _of_a_pod(record: dict[str, Any], who: bytes) -> Record:
    text, own = record.get("log"), message_in(record)
    if isinstance(text, str):
        lines = lines_of(text)
    elif own is not None:
        lines = own.lines
    else:
        text = None if _OWN & record.keys() else record.get("message")
        lines = lines_of(text) if isinstance(text, str) else []
    return Record(lines, who, _time(record, own))


def _time(record: dict[str, Any], own: Message | None) -> datetime | None:
    """What a record's clock says; a number in llama.cpp's own object counts from its start."""
    if own is not None and own.time is not None:
        return own.time
    values = (record.get(name) for name in _CLOCKS)
    clocks = (_clock(value) for value in values if own is None or isinstance(value, str))
    return next((clock for clock in clocks if clock is not None), None)


def _of_the_journal(record: dict[str, Any]) -> Record | None:
    """``journalctl -o json``; a message that is no text is a list of its bytes, in which nothing is found."""
    text, epoch_us = record["MESSAGE"], record.get("__REALTIME_TIMESTAMP")
    who = next((name for key in _NAMES if (name := _text(record, key))), None)
    if not isinstance(text, str) or epoch_us is None or who is None:
        return None
    return Record([_whole(text)], who, since_1970(epoch_us))


def _pod(record: dict[str, Any]) -> bytes | None:
    """Pod and container of a record of a cluster's logs, as ``kubectl logs --prefix`` has them.

    Elastic has each in an object of its own. Docker's fluentd driver knows a container only.
    """
    cluster = record.get("kubernetes")
    if isinstance(cluster, dict):
        names = (
            _text(cluster, f"{of}_name") or _text(cluster.get(of), "name") for of in ("pod", "container")
        )
        return b"/".join(name for name in names if name) or None
    if record.keys() >= _DRIVEN and record["source"] in _STREAMS and isinstance(record.get("log"), str):
        return (_text(record, "container_name") or b"").removeprefix(b"/") or None
    return None


def _text(of: object, key: str) -> bytes | None:
    value = of.get(key) if isinstance(of, dict) else None
    return value.encode("utf-8", "replace") if isinstance(value, str) else None


def _whole(text: str) -> bytes:
    return text.rstrip("\r\n").encode("utf-8", "replace")


def _clock(value: object) -> datetime | None:
    """ISO 8601 with a zone, or seconds since 1970."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return moment(value * 1000)
    return parse_iso(value.encode("ascii", "replace")) if isinstance(value, str) else None
