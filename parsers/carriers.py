"""What wraps a log line on its way to us: containers, journals, terminals, pasted quotes.

A carrier is stripped before any engine's pattern is tried. What it knows is kept: its timestamp is the
clock of logs that have none, and its label (container, pod, port) keeps two services in one file apart.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from parsers.gathered import record_of
from parsers.json_logs import QUOTING, may_be_message, message_of, quoted_of
from parsers.times import parse_iso, since_1970

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

_ANSI = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_PASTED_ANSI = re.compile(rb"(?:\^\[|#x1[bB]|\\x1b|\\u001b)\[[0-9;]*m")

ISO_CLOCK = rb"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d))"


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
    rb"|\[(?:DEBUG|INFO|WARN|ERROR)\] [\w.+-]+@\d[\w.+-]* \(\w+\)(?:(?: \S+)? pid=\d+)? "
)
_JAN = rb"\[(?P<wall>\d{4}-\d\d-\d\d\]\[\d\d:\d\d:\d\d)\]\[[\w:.-]{1,80}\]\[INFO\] \[llamacpp(?: stdout)?\] "
"""Jan's app log around its llama-server, by tauri-plugin-log as it comes, in UTC."""


class _Carrier(NamedTuple):
    """What stands before a line: the bytes it may start with, its clock, and the rest of it.

    At one place no more than one carrier with a label matches, whatever follows.
    """

    starts: bytes
    clock: bytes
    rest: bytes


_CARRIERS = (
    # CRI, as kubectl prints it
    _Carrier(_DIGITS, ISO_CLOCK, rb" (?:stdout|stderr) [FP] "),
    # journald's and syslog's layouts
    _Carrier(_DIGITS, ISO_CLOCK, _UNIT),
    _Carrier(_LETTERS, rb"[A-Z][a-z]{2} [ \d]\d " + _CLOCK, _UNIT),
    _Carrier(_LETTERS, rb"[A-Z][a-z]{2} \d{4}-\d\d-\d\d " + _CLOCK + rb" [A-Z+-][\w:]*", _UNIT),
    _Carrier(_DIGITS, rb"(?P<unix>\d{10}\.\d{6})", _UNIT),
    _Carrier(b"[", rb"\[ *\d+\.\d{6}(?: <[ \d.]*>)?\]", _UNIT),
    _Carrier(b"[", b"", rb"\[pod/(?P<label>[^\]\s]+)\] "),
    _Carrier(b"[", b"", _LMSTUDIO),
    _Carrier(b"[", b"", _JAN),
    # docker's timestamps, docker compose, the ports of a router's children, pm2
    _Carrier(_DIGITS, ISO_CLOCK, b" "),
    _Carrier(_DIGITS + _LETTERS + b"_", b"", rb"(?P<label>\w[\w.-]*+(?:@[\w.-]++)?) ++\| "),
    _Carrier(b"[", b"", rb"\[ *(?P<label>\d{2,5})\] "),
    _Carrier(_DIGITS, rb"(?:\d{4}-\d\d-\d\d[T-][\d:]{8}: ?)?", rb"(?P<label>\d{1,4}\|[\w.@/-]+) +\| "),
    # Ray
    _Carrier(b"(", b"", rb"\((?P<label>\w+ pid=\d+, ip=[\d.]+|" + _RAY + rb" pid=\d+(?:, ip=[\d.]+)?)\) "),
    _Carrier(b"<", rb"<\d{1,3}>1 (?:-|" + ISO_CLOCK + b")", rb" \S+ (?P<label>\S+) \S+ \S+ " + _STRUCTURED),
    _Carrier(b"<", b"", rb"<\d{1,3}>(?=[A-Z][a-z]{2} [ \d]\d )"),
    # a message of the journal's export format, and stern
    _Carrier(b"M", b"", rb"MESSAGE="),
    _Carrier(
        _DIGITS + _LETTERS,
        b"",
        rb"(?P<label>(?=[a-z.-]*\d)[a-z\d.]++(?:-[a-z\d.]++)++ [a-z\d][a-z\d-]*+) ",
    ),
    # an issue's quote marks, and a diff's
    _Carrier(b">", b"", rb"> ?"),
    _Carrier(b"<", b"", rb"< "),
)
_NAMED = re.compile(rb"\?P<(label|time|wall|unix)>")


class _Heads:
    """Several carriers in one pattern.

    Attributes:
        match: of the pattern at a line's start.
        groups: by the match's last group, which of its groups are label and clock (0: none), and the
            clock's kind.
    """

    def __init__(self, carriers: Iterable[_Carrier]) -> None:
        patterns, last = [], 0
        self.groups: dict[int | None, tuple[int, int, bytes]] = {}
        for carrier in carriers:
            pattern = carrier.clock + carrier.rest
            names = [bytes(name) for name in _NAMED.findall(pattern)]
            places = {name: last + 2 + at for at, name in enumerate(names)}
            label = places.pop(b"label", 0)
            kind, clock = next(iter(places.items()), (b"", 0))
            self.groups[last + 1] = label, clock, kind
            patterns.append(b"(" + _NAMED.sub(b"", pattern) + b")")
            last += 1 + len(names)
        self.match = re.compile(b"|".join(patterns) or rb"(?!)").match


_NONE = _Heads(())
_BY_FIRST_BYTE = [_Heads(carrier for carrier in _CARRIERS if byte in carrier.starts) for byte in range(256)]


def _same_container() -> bytes:
    """A line with a label, and those after it that begin alike, clocks aside; or a line without one."""
    iso = ISO_CLOCK.replace(b"?P<time>", b"?:")
    before = (
        rb"((?:\x1b\[[\d;]*m)*[ \t]*(?:" + iso + rb" (?:std(?:out|err) [FP] )?(?!\S+ [\w@./-]+\[\d+\]: ))?)"
    )
    kinds, last = [], 1
    for carrier in _CARRIERS:
        if b"?P<label>" in carrier.rest:
            clock = carrier.clock.replace(b"?P<time>", b"?:").replace(b"?P<unix>", b"?:")
            rest = carrier.rest.replace(b"?P<label>", b"")
            again = rb"[^\n]*(?:\n\1" + clock + rb"\%d[^\n]*)*+" % (last + 1)
            kinds.append(clock + b"(" + rest + b")" + again)
            last += 2
    return before + b"(?:" + b"|".join(kinds) + rb"|[^\n]*)\n?"


SAME_CONTAINER = re.compile(_same_container())
"""Lines of one container, one after the other."""


def label_of(lines: re.Match[bytes]) -> bytes | None:
    """The outermost label of what `SAME_CONTAINER` matched; ``None`` where its start names none."""
    return lines[lines.lastindex + 1] if lines.lastindex and lines.lastindex > 1 else None


_LOCALAI = re.compile(
    rb"[\d:]{4,5}[AP]M DBG GRPC\((?P<label>[^)]{1,200})\): std(?:err|out) (?P<plain>.*)"
    rb"|(?:time=(?P<time>\S+) level=DEBUG msg=\"|[A-Z][a-z]{2} \d\d [\d:]{8} DEBUG )GRPC std(?:err|out)\"? "
    rb'id="?(?P<id>[^"\s]{1,200})"? line="(?P<quoted>(?:[^"\\]|\\.)*)"'
)
"""What LocalAI's debug log says that its engines print; at first by zerolog's console, later as slog does."""

UNUSUAL = (*QUOTING, b"GRPC(", b"GRPC std", b"\\x1b[", b"\\u001b[", b"#x1b[", b"#x1B[", b"^[[")
"""What lines hold that are seldom met: quotes by other programs, and colours that were pasted as text."""

_MAX_LAYERS = 4


class Carried(NamedTuple):
    """A line out of its wrapping.

    Attributes:
        body: the engine's own text.
        label: which container, pod, port or unit it came from, outermost first; ``None`` without one.
        time: the carrier's clock, UTC; ``None`` where it has none or gives no year.
        more: the lines after the first, of a message that holds several.
    """

    body: bytes
    label: bytes | None = None
    time: datetime | None = None
    more: tuple[bytes, ...] = ()


def unwrap(line: bytes, needle: bytes = b"", *, plain: bool = False) -> Carried:
    """Take the wrapping off a line.

    Args:
        line: without its newline.
        needle: says which part of a progress line is meant.
        plain: the line holds no escape, no carriage return and nothing `UNUSUAL`.
    """
    if not plain:
        line = _PASTED_ANSI.sub(b"", _ANSI.sub(b"", line) if b"\x1b" in line else line)
    if line[:1] == b"{" and may_be_json_record(line) and (carried := _json_record(line, needle, plain)):
        return carried
    who: bytes | None = None
    time: datetime | None = None
    for _ in range(_MAX_LAYERS):
        heads = _BY_FIRST_BYTE[line[0]] if line else _NONE
        if (match := heads.match(line)) is None:
            break
        label, clock, kind = heads.groups[match.lastindex]
        if label:
            who = _inside(who, match[label])
        if clock:
            time = _moment(kind, match[clock]) or time
        line = line[match.end() :]
    if (
        not plain
        and b"GRPC" in line
        and (match := _LOCALAI.match(line))
        and (text := _quoted(match)) is not None
    ):
        who = _inside(who, match["id"] or match["label"])
        line, time = text, time or parse_iso(match["time"])
    if not plain and b' msg="' in line and (quoted := quoted_of(line)) is not None:
        line, time = quoted[0], time or parse_iso(quoted[1])
    if line[:1] == b"{" and may_be_message(line) and (message := message_of(line)) is not None:
        lines = [unwrap(text, needle).body for text in message.lines]
        return Carried(lines[0], who, message.time or time, tuple(lines[1:]))
    if not plain and b"\r" in line:
        line = _segment(line, needle)
    return Carried(line, who, time)


def _inside(outer: bytes | None, label: bytes | None) -> bytes | None:
    """What is called so inside of another."""
    return b"/".join(name for name in (outer, label) if name is not None) or None


def may_be_json_record(line: bytes) -> bool:
    """True for a line of docker's files, a cluster, the journal or a program as JSON, and for few others."""
    return line.startswith(b"{") and (
        b'"log":' in line or b'"MESSAGE"' in line or b'"kubernetes"' in line or may_be_message(line)
    )


def _segment(line: bytes, needle: bytes) -> bytes:
    """The part between carriage returns that holds the needle; the last one was drawn over the others."""
    parts = [part for part in line.split(b"\r") if part]
    return next((part for part in reversed(parts) if needle in part), parts[-1] if parts else b"")


_DOCKER = re.compile(
    rb'\{"log":"([ !#-\[\]-~]*)(?:\\[rn])*+","stream":"std(?:out|err)","time":"([\d:TZ+.-]*)"\}'
)
"""The usual record of docker's log files, where only the line's end is escaped."""


def _json_record(line: bytes, needle: bytes, plain: bool) -> Carried | None:
    """A line that a record of docker's log files, of a cluster's logs or of the journal holds."""
    if usual := _DOCKER.fullmatch(line):
        body, label, time, more = unwrap(usual[1], needle, plain=plain)
        return Carried(body, label, time or parse_iso(usual[2]), more)
    if (record := record_of(line)) is None:
        return None
    if not record.lines:
        return Carried(line, record.label, record.time)
    first, *others = (unwrap(text, needle) for text in record.lines)
    more = (*first.more, *(other.body for other in others))
    return Carried(first.body, _inside(record.label, first.label), first.time or record.time, more)


def _moment(kind: bytes, text: bytes | None) -> datetime | None:
    """A carrier's clock: ISO 8601, one without a zone, which is read as UTC, or seconds since 1970."""
    if text is None or kind == b"time":
        return parse_iso(text)
    if kind == b"unix":
        return since_1970(text.replace(b".", b"").decode())
    return parse_iso(text.replace(b"][", b" ") + b"Z")


def _quoted(match: re.Match[bytes]) -> bytes | None:
    """The line that LocalAI quotes, with its escapes undone."""
    if match["plain"] is not None:
        return match["plain"]
    try:
        return str(json.loads(b'"' + match["quoted"] + b'"')).encode()
    except (ValueError, UnicodeEncodeError):
        return None
