"""What wraps a log line on its way to us: containers, journals, terminals, pasted quotes.

A carrier is stripped before any engine's pattern is tried. What it knows is kept: its timestamp is the
clock of logs that have none, and its label (container, pod, port) keeps two services in one file apart.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

_ANSI = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_PASTED_ANSI = re.compile(rb"(?:\^\[|#x1[bB]|\\x1b|\\u001b)\[[0-9;]*m")

_ISO = rb"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d))"


_DIGITS = b"0123456789"
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CLOCK = rb"\d\d:\d\d:\d\d(?:\.\d+)?"
_WALL = rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
_STRUCTURED = rb"(?:- |(?:\[(?:[^\]\\]|\\.)*\])+ )(?:\xef\xbb\xbf)?"
_RAY = rb"(?!APIServer|ApiServer|EngineCore|Worker_|DPCoordinator)[A-Za-z]\w*(?::[\w.-]+)*"
"""An actor of Ray; the rest are names that vLLM's own processes give themselves."""
_UNIT = rb" \S+ (?P<label>[\w@./-]+)\[\d+\]: "


_LMSTUDIO = (
    rb"\[(?P<wall>" + _WALL + rb")\]\[(?:DEBUG|INFO|WARN|ERROR)\] ?"
    rb"|\[(?:DEBUG|INFO)\] ?(?=\d+\.\d\d\.\d{3}\.\d{3} |slot |srv  |LlamaV4|Prompt cache |\[)"
)


@dataclass(frozen=True, slots=True)
class _Carrier:
    """What stands before a line: the bytes it may start with, and its pattern."""

    starts: bytes
    pattern: re.Pattern[bytes]


_CARRIERS = {
    name: _Carrier(starts, re.compile(pattern))
    for name, starts, pattern in (
        ("cri", _DIGITS, _ISO + rb" (?:stdout|stderr) [FP] "),
        ("journald-iso", _DIGITS, _ISO + _UNIT),
        ("journald", _LETTERS, rb"[A-Z][a-z]{2} [ \d]\d " + _CLOCK + _UNIT),
        ("journald-full", _LETTERS, rb"[A-Z][a-z]{2} \d{4}-\d\d-\d\d " + _CLOCK + rb" [A-Z+-][\w:]*" + _UNIT),
        ("journald-monotonic", b"[", rb"\[ *\d+\.\d{6}\]" + _UNIT),
        ("kubectl", b"[", rb"\[pod/(?P<label>[^\]\s]+)\] "),
        ("lmstudio", b"[", _LMSTUDIO),
        ("docker-timestamps", _DIGITS, _ISO + rb" "),
        ("compose", _DIGITS + _LETTERS + b"_", rb"(?P<label>\w[\w.-]*(?:@[\w.-]+)?) +\| "),
        ("router", b"[", rb"\[ *(?P<label>\d{2,5})\] "),
        ("pm2", _DIGITS, rb"(?:\d{4}-\d\d-\d\d[T-][\d:]{8}: ?)?(?P<label>\d{1,4}\|[\w.@/-]+) +\| "),
        ("ray", b"(", rb"\((?P<label>\w+ pid=\d+, ip=[\d.]+|" + _RAY + rb" pid=\d+(?:, ip=[\d.]+)?)\) "),
        ("syslog", b"<", rb"<\d{1,3}>1 (?:-|" + _ISO + rb") \S+ (?P<label>\S+) \S+ \S+ " + _STRUCTURED),
        ("syslog-priority", b"<", rb"<\d{1,3}>(?=[A-Z][a-z]{2} [ \d]\d )"),
        ("journal-export", b"M", rb"MESSAGE="),
        (
            "stern",
            _DIGITS + _LETTERS,
            rb"(?P<label>(?=[a-z.-]*\d)[a-z\d.]+(?:-[a-z\d.]+)+ [a-z\d][a-z\d-]*) ",
        ),
        ("quote", b">", rb"> ?"),
        ("diff", b"<", rb"< "),
    )
}
_BY_FIRST_BYTE = {
    byte: tuple(carrier.pattern for carrier in _CARRIERS.values() if byte in carrier.starts)
    for byte in range(256)
}

_UNLABELLED = _ISO.replace(b"?P<time>", b"?:")
OUTERMOST = re.compile(
    rb"(?:\x1b\[[\d;]*m)*[ \t]*(?:"
    + _UNLABELLED
    + rb" (?:std(?:out|err) [FP] )?)?(?:"
    + b"|".join(
        carrier.pattern.pattern.replace(_ISO, _UNLABELLED).replace(b"?P<label>", b"")
        for carrier in _CARRIERS.values()
        if b"?P<label>" in carrier.pattern.pattern
    )
    + rb")?[^\n]*\n?"
)
"""A line; its last group, where it has one, is the first label on it."""

_LOCALAI = re.compile(
    rb"[\d:]{4,5}[AP]M DBG GRPC\((?P<label>[^)]{1,200})\): std(?:err|out) (?P<plain>.*)"
    rb"|(?:time=(?P<time>\S+) level=DEBUG msg=\"|[A-Z][a-z]{2} \d\d [\d:]{8} DEBUG )GRPC std(?:err|out)\"? "
    rb'id="?(?P<id>[^"\s]{1,200})"? line="(?P<quoted>(?:[^"\\]|\\.)*)"'
)
"""What LocalAI's debug log says that its engines print; at first by zerolog's console, later as slog does."""

_MAX_LAYERS = 4


class Carried(NamedTuple):
    """A line out of its wrapping.

    Attributes:
        body: the engine's own text.
        label: which container, pod, port or unit it came from, outermost first; ``None`` without one.
        time: the carrier's clock, UTC; ``None`` where it has none or gives no year.
    """

    body: bytes
    label: bytes | None = None
    time: datetime | None = None


def unwrap(line: bytes, needle: bytes = b"") -> Carried:
    """Take the wrapping off a line; ``needle`` says which part of a progress line is meant."""
    if b"\x1b" in line:
        line = _ANSI.sub(b"", line)
    if b"[" in line:
        line = _PASTED_ANSI.sub(b"", line)
    if may_be_json_record(line) and (carried := _json_record(line, needle)):
        return carried
    labels: list[bytes] = []
    time: datetime | None = None
    for _ in range(_MAX_LAYERS):
        if (match := _carrier(line)) is None:
            break
        found = match.groupdict()
        if label := found.get("label"):
            labels.append(label)
        time = parse_iso(found.get("time")) or _parse_wall(found.get("wall")) or time
        line = line[match.end() :]
    if b"GRPC" in line and (match := _LOCALAI.match(line)) and (text := _quoted(match)) is not None:
        labels.append(match["id"] or match["label"])
        line, time = text, time or parse_iso(match["time"])
    if b"\r" in line:
        line = _segment(line, needle)
    return Carried(line, b"/".join(labels) or None, time)


def may_be_json_record(line: bytes) -> bool:
    """True for a line of docker's own log files or of the journal as JSON, and for few others."""
    return line.startswith(b"{") and (b'"log":' in line or b'"MESSAGE"' in line)


def _carrier(line: bytes) -> re.Match[bytes] | None:
    """The outermost wrapping of a line."""
    for pattern in _BY_FIRST_BYTE[line[0]] if line else ():
        if match := pattern.match(line):
            return match
    return None


def _segment(line: bytes, needle: bytes) -> bytes:
    """The part between carriage returns that holds the needle; the last one was drawn over the others."""
    parts = [part for part in line.split(b"\r") if part]
    return next((part for part in reversed(parts) if needle in part), parts[-1] if parts else b"")


def _json_record(line: bytes, needle: bytes) -> Carried | None:
    """A line that a record of docker's log files or of the journal holds."""
    try:
        record = json.loads(line)
        if "MESSAGE" in record:
            return _journal_record(record, needle)
        text = record["log"].rstrip("\r\n").encode()
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return None
    if not record.keys() & {"stream", "time"}:  # an answer that has a key of docker's has none of the others
        return None
    inner = unwrap(text, needle)
    return Carried(inner.body, inner.label, inner.time or parse_iso(str(record.get("time")).encode()))


def _journal_record(record: dict[str, Any], needle: bytes) -> Carried | None:
    """``journalctl -o json``; a message that is no text is a list of its bytes, in which nothing is found."""
    epoch_us = record.get("__REALTIME_TIMESTAMP")
    names = (record.get(key) for key in ("CONTAINER_NAME", "SYSLOG_IDENTIFIER", "_SYSTEMD_UNIT"))
    who = next((name for name in names if isinstance(name, str)), None)
    if epoch_us is None or who is None:
        return None
    inner = unwrap(record["MESSAGE"].encode(), needle)
    label = b"/".join(part for part in (who.encode(), inner.label) if part)
    return Carried(inner.body, label, inner.time or _since_1970(epoch_us))


def _since_1970(epoch_us: object) -> datetime | None:
    """Microseconds as the journal writes them."""
    if not (isinstance(epoch_us, str) and epoch_us.isascii() and epoch_us.isdigit() and len(epoch_us) < 18):
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(epoch_us))


def _quoted(match: re.Match[bytes]) -> bytes | None:
    """The line that LocalAI quotes, with its escapes undone."""
    if match["plain"] is not None:
        return match["plain"]
    try:
        return str(json.loads(b'"' + match["quoted"] + b'"')).encode()
    except (ValueError, UnicodeEncodeError):
        return None


def parse_iso(text: bytes | None) -> datetime | None:
    """An ISO 8601 time with a zone as UTC to the microsecond; ``None`` if it is not one."""
    if not text:
        return None
    value = text.decode("ascii", "replace").replace(",", ".").replace(" ", "T", 1)
    value = re.sub(r"(\.\d{6})\d+", r"\1", value)
    try:
        time = datetime.fromisoformat(value)
        return time.astimezone(UTC) if time.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _parse_wall(text: bytes | None) -> datetime | None:
    """A wall clock without a zone, read as UTC."""
    return parse_iso(text + b"Z") if text else None


def parse_yearless(month: int, day: int, clock: str, year: int) -> datetime | None:
    """A wall clock without year or zone, such as vLLM's ``11-29 19:39:17``, read as UTC in ``year``."""
    try:
        hour, minute, second = (int(part) for part in clock.split(":"))
        return datetime(year, month, day, tzinfo=UTC) + timedelta(hours=hour, minutes=minute, seconds=second)
    except ValueError:
        return None
