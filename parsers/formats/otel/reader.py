"""Which spans are requests, each told once.

A client's span and the engine's span of one trace tell of the same request: the engine's counts. Batches come
in any order, so a client's row waits until the log ends or a few hundred others have come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parsers.formats.base import At, Reader, line
from parsers.formats.json_records import objects_at_ends, records, remember
from parsers.formats.otel import jaeger
from parsers.formats.otel.spans import attributes, is_engine_span, kind_of, served, spans

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

    from parsers.formats.process import Process
    from parsers.records import Request

IDENTIFY = (b'"resourceSpans"', b'"operationName"')
LINES = (
    line("batch", b'"resourceSpans"', rb"(?P<body>\{(?s:.*))$", b'"resourceSpans"'),
    line("batch", b'"operationName"', rb"(?P<body>\{(?s:.*))$", b'"traceID"'),
)
_CUT = b"\n"
_MOST_TRACES = 256


class OtelReader(Reader):
    """The spans that were told, and the clients' rows that wait, by trace."""

    engine = "opentelemetry"

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._told: dict[str, None] = {}
        self._engines: dict[str, None] = {}
        self._clients: dict[str, list[Request]] = {}

    def batch(self, m: re.Match[bytes], at: At) -> None:
        """``{"resourceSpans":[{...,"scopeSpans":[{...,"spans":[{...}]}]}]}``, or ``{"data":[{...}]}``."""
        if _CUT in m["body"]:
            self._of_cut_line(m["body"], at)
            return
        for found in records(m["body"]):
            for span, named in spans(found):
                self._span(span, named, at)

    def _of_cut_line(self, body: bytes, at: At) -> None:
        """The spans at the ends of a line that was too long; those between them are lost."""
        self.process.counts.incomplete_requests += 1
        named = body[: body.find(b'"spans"')].decode("utf-8", "replace").lower()
        for span in objects_at_ends(body, b'{"traceId"'):
            self._span(span, named, at)
        for span in objects_at_ends(body, b'{"traceID"'):
            self._span(jaeger.as_otlp(span), jaeger.named(span, {}), at)

    def _span(self, span: dict[str, Any], named: str, at: At) -> None:
        known = attributes(span)
        if kind_of(known) is None:
            return
        name, trace = str(span.get("spanId") or ""), str(span.get("traceId") or "")
        if name and name in self._told:
            return
        if name:
            remember(self._told, name, None)
        row = served(span, known, named, self.process.counts)
        if row is None:
            return
        row.line = row.first_line = at.number
        row.offset = at.offset
        if is_engine_span(known):
            self._engine_row(row, trace)
        elif trace not in self._engines or not trace:
            self._clients.setdefault(trace, []).append(row)
            if len(self._clients) > _MOST_TRACES:
                self._emit(self._clients.pop(next(iter(self._clients))))

    def _engine_row(self, row: Request, trace: str) -> None:
        if trace:
            remember(self._engines, trace, None)
            self._clients.pop(trace, None)
        self.process.emit(row)

    def _emit(self, rows: Iterable[Request]) -> None:
        for row in rows:
            self.process.emit(row)

    def flush(self) -> None:
        """Emit the clients' rows: nothing more came for a while."""
        for rows in self._clients.values():
            self._emit(rows)
        self._clients.clear()

    def close(self) -> None:
        """The file ends here."""
        self.flush()
