"""LiteLLM proxy: its table `LiteLLM_SpendLogs`, as `/spend/logs` or a database exports it, JSON or CSV.

A row is a call as the proxy saw it: waiting, prefill and the network are one time. ``completionStartTime``
is the first chunk of a stream and the end of everything else, so only where it lies before the end is there
a time to first token (litellm#25598 had it wrong for some streams). What follows is the answer's decode
time, as the proxy received it.

Failed calls are counted. Calls that LiteLLM answered from its own cache ran on no engine and are left out,
like the hourly sums of old rows. A count of 0 is the table's default and unknown. The clocks without a zone
are UTC. Messages, keys and users are not read.

The proxy's debug log times nothing itself. Answers that it dumps there as JSON (``RAW RESPONSE:``) are read
as those of the engine that gave them.

Read in litellm/proxy/schema.prisma at 0010143f and spend_tracking_utils.py at 00907c60.
"""

from __future__ import annotations

import csv
import json
import re
from typing import TYPE_CHECKING, Any

from parsers.documents.base import Document, whole
from parsers.formats.base import At, Format, Reader, line
from parsers.formats.json_records import BODY, is_span, is_spread, moment, part, records, remember
from parsers.formats.json_values import count, text
from parsers.records import Request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from parsers.formats.process import Counts, Process

_ENGINE = "litellm"
_KINDS = {"embedding": "embedding", "rerank": "rerank"}
_GENERATIONS = {"completion", "text_completion", "anthropic_messages", "responses", "generate_content"}
_NUMBERS = ("prompt_tokens", "completion_tokens")

_LARGEST = 1 << 22
csv.field_size_limit(max(csv.field_size_limit(), _LARGEST))  # long prompts make long fields
_BEGINNING = re.compile(rb'(?:"[\w.:+ -]+"|[\w.:+-]+(?: [\d:.+-]+)?),')
_MAY_BEGIN = re.compile(rb'(?:^|[^\w.:+-])[\w.:+-]+"?,"?[a-z_]+"?,')
"""The same behind what a carrier puts before it."""

_CSV_ROW = rb'(?P<values>"?[\w.:+-]+(?: [\d:.+-]+)?"?,.*)$'
LINES = (
    line("body", b'"completionStartTime"', BODY, b'"call_type"'),
    line("head", b"completionStartTime", rb'(?P<names>"?\w+"?(?:,"?\w+"?)*)\s*$', b"request_id"),
    line("values", b"completion,", _CSV_ROW),
    line("values", b'completion",', _CSV_ROW),
    line("values", b"anthropic_messages", _CSV_ROW),
    line("values", b"responses", _CSV_ROW),
    line("values", b"embedding", _CSV_ROW),
    line("more", b'"', rb"(?P<values>(?s:.*))$"),
)


class LitellmReader(Reader):
    """The names of the columns of a CSV file, and the calls that were told."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._names: list[str] = []
        self._begun: At | None = None
        self._pieces: list[bytes] = []
        self._quotes = self._size = 0
        self._told: dict[str, None] = {}
        self._held: list[Request] = []

    def body(self, m: re.Match[bytes], at: At) -> None:
        """``{"request_id":"chatcmpl-...","call_type":"acompletion",...,"completionStartTime":"..."}``."""
        for record in records(m["body"]):
            for call in _calls(record):
                self._call(call, at, at)

    def head(self, m: re.Match[bytes], _at: At) -> None:
        """``request_id,call_type,...,startTime,endTime,completionStartTime,...``: the columns."""
        self.close()
        self._names = m["names"].decode().replace('"', "").split(",")

    def values(self, m: re.Match[bytes], at: At) -> bool | None:
        """A line of CSV, or a piece of a record: one goes on over lines while its quotes don't balance.

        Lines inside that hold neither a quote nor a kind of call are not seen; they are text.
        """
        if not self._names:
            return False
        if self._begun is None:
            self.flush()
        first, self._begun = self._begun or at, None
        self._quotes += m["values"].count(b'"')
        self._size += len(m["values"])
        if self._size <= _LARGEST:
            self._pieces.append(m["values"])
        if self._quotes % 2:
            self._begun = first
            return None
        self._record(b"\n".join(self._pieces) if self._size <= _LARGEST else b"", first, at)
        self._forget()
        return None

    def more(self, m: re.Match[bytes], at: At) -> bool | None:
        """A line with quotes: it goes on with a record, or begins one that goes on."""
        opens = m["values"].count(b'"') % 2
        begins = opens and _BEGINNING.match(at.body)
        if self._held and opens and self._begun is None and not _MAY_BEGIN.search(at.body):
            self.process.counts.incomplete_requests += len(self._held)
            self._held = []
        return self.values(m, at) if self._begun or begins else False

    def _forget(self) -> None:
        self._begun, self._pieces = None, []
        self._quotes = self._size = 0

    def flush(self) -> None:
        """Emit the last record: no line has shown that it was a piece of a text whose beginning is lost."""
        for row in self._held:
            self.process.emit(row)
        self._held = []

    def close(self) -> None:
        """The source or the process ends; a record that is still open was cut."""
        self.flush()
        self.process.counts.incomplete_requests += self._begun is not None
        self._forget()

    def _record(self, joined: bytes, first: At, at: At) -> None:
        """A record with too few values was cut."""
        try:
            values = next(csv.reader([joined.decode("utf-8", "replace")]), [])
        except csv.Error:
            values = []
        if len(values) != len(self._names):
            self.process.counts.incomplete_requests += 1
            return
        call: dict[str, Any] = dict(zip(self._names, values, strict=True))
        for name in _NUMBERS:
            call[name] = whole(call, name)
        self._call(call, first, at, hold=True)

    def _call(self, call: dict[str, Any], first: At, at: At, *, hold: bool = False) -> None:
        name = _name(call)
        if name in self._told:
            return
        if name is not None:
            remember(self._told, name, None)
        for row in _rows(call, self.process.counts):
            row.line, row.first_line, row.offset = at.number, first.number, first.offset
            self._held.append(row)
        if not hold:
            self.flush()


def _calls(record: Any) -> list[dict[str, Any]]:
    """The calls of a page of ``/spend/logs/v2``, or the one that a record is."""
    if not isinstance(record, dict):
        return []
    page = record.get("data")
    return [call for call in (page if isinstance(page, list) else [record]) if isinstance(call, dict)]


def _name(call: dict[str, Any]) -> str | None:
    return text(call, "request_id") or text(call, "id")


def _rows(record: Any, counts: Counts) -> Iterator[Request]:
    """The rows of the calls in a record that an engine was asked for and answered."""
    for call in _calls(record):
        kind = _kind(text(call, "call_type") or "")
        if kind is None or "api_requests" in call or str(call.get("cache_hit")).lower() == "true":
            continue
        details = _object(call.get("metadata"))
        if "failure" in (call.get("status"), details.get("status")):
            counts.failed_requests += 1
            continue
        row = Request(engine=_ENGINE, request_id=_name(call), kind=kind, model=text(call, "model"))
        row.prompt_tokens = count(call, "prompt_tokens") or None
        row.output_tokens = (count(call, "completion_tokens") or None) if kind == "generation" else None
        row.cached_tokens = count(part(details, "usage_object", "prompt_tokens_details"), "cached_tokens")
        start, first, end = (moment(call.get(k)) for k in ("startTime", "completionStartTime", "endTime"))
        counts.impossible_values += not _time(row, start, first, end)
        yield row


def _time(row: Request, start: datetime | None, first: datetime | None, end: datetime | None) -> bool:
    """Set the times that follow from the clocks; false where the end is before the start."""
    row.started_at, row.finished_at = start, end
    if start is None or end is None:
        return True
    total_ms = (end - start).total_seconds() * 1000
    if not is_span(total_ms):
        row.started_at = row.finished_at = None
        return False
    row.total_ms = round(total_ms, 3)
    if first is not None and start < first < end and row.kind == "generation":
        row.ttft_ms, row.ttft_from = round((first - start).total_seconds() * 1000, 3), "arrival"
        row.decode_ms = round(row.total_ms - row.ttft_ms, 3)
        row.decode_steps = max(row.output_tokens - 1, 0) if row.output_tokens else None
    return True


def _kind(call_type: str) -> str | None:
    """What a call asked for; ``None`` for images, files and the rest. Asynchronous ones begin with ``a``."""
    for name in (call_type, call_type.removeprefix("a")):
        if name in _GENERATIONS:
            return "generation"
        if name in _KINDS:
            return _KINDS[name]
    return None


def _object(value: object) -> dict[str, Any]:
    """The metadata: an object, or its JSON in a string."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


FORMAT = Format(
    engine=_ENGINE,
    title="LiteLLM spend logs",
    versions="1.20 and newer (LiteLLM_SpendLogs as JSON, JSON Lines or CSV)",
    grain="request",
    identify=(b"completionStartTime",),
    lines=LINES,
    reader=LitellmReader,
    documents=(
        Document(
            name="LiteLLM spend log",
            detect=lambda head: is_spread(head, "completionStartTime", "call_type"),
            rows=_rows,
        ),
    ),
    splits="time to first token of streams (queue, prefill and network in it), the rest",
    ends=("failed", "incomplete"),
)
