"""mistral.rs: answers with its usage, its access log, the statistics of its chat, and a window of 5 s.

- An answer's `usage` states the prompt's time, in whole ms. Until v0.8.9 the answer's time goes from the
  prompt's end to the answer's, and the total from the arrival to the end. Since v0.8.10 it is a sum over
  steps, each cut to whole ms, and the total is the sum of both: of a fast model a good part is missing. So
  both are kept only where a step takes 100 ms or more, and no more than 1 % is cut.
- ``request completed:`` (2026-08) has the same rates for streams, and the wall clock's time from the arrival
  to the end. `mistralrs run` prints them after each answer. The answer's rate is not read, for that reason.
- ``Throughput (T/s)`` counts tokens of prompts and of answers together, so no phase follows from it.

How much of a prompt came from the prefix cache is not said.

Read in mistral.rs v0.6.0, v0.8.0 and main of 2026-08-22 (9e92262): mistralrs-core/src/sequence.rs,
engine/logger.rs, mistralrs-server-core/src/metrics.rs, mistralrs-cli/src/commands/run/interactive.rs.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from parsers.documents.base import Document
from parsers.formats.base import At, Format, Reader, line, number
from parsers.formats.json_records import BODY, is_span, is_spread, moment, part, records, remember
from parsers.formats.json_records import number as stated
from parsers.formats.json_values import count, text
from parsers.formats.rates import time_ms
from parsers.records import Interval, Request
from parsers.times import parse_iso

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from parsers.formats.process import Counts, Process

_ENGINE = "mistral-rs"
_WINDOW_MS = 5000.0
_RATE_STEP, _STATS_STEP = 0.1, 0.01
_LONG_STEP_MS = 100.0
_SAME_MS = 1.5
_NEXT_LINES = 8
_NAMES = {"request_id": "id", "model": "model", "status": "status", "outcome": "outcome"}
_HEAD = rb"(?:(?P<time>\d{4}-\d\d-\d\dT[\d:.]+Z) +)?(?:INFO +)?(?:mistralrs[\w:]* *: +)?"

LINES = (
    line("body", b'"total_prompt_time_sec":', BODY, b'"usage":'),
    line(
        "window",
        b"Throughput (T/s) ",
        _HEAD + rb"Throughput \(T/s\) [\d.]+, Prefix cache hitrate (?P<hits>[\d.]+|NaN)%(?:, [A-Z][^,]*)*, "
        rb"(?P<running>\d+) running, (?P<waiting>\d+) waiting\s*$",
    ),
    line(
        "completed",
        b"request completed: request_id=",
        _HEAD + rb"request completed: request_id=(?P<id>\S+) method=\S+ route=\S+ model=(?P<model>\S+) "
        rb"status=(?P<status>\S+)(?: outcome=(?P<outcome>\w+))? duration_ms=(?P<total>[\d.]+)"
        rb"(?: prompt_tokens=(?P<prompt>\d+) completion_tokens=(?P<output>\d+)"
        rb" prefill_tok_s=(?P<rate>[\d.]+) decode_tok_s=\S+)?(?: error=.*+)?\s*+$",
    ),
    line("completed_json", b'"request_completed"', _HEAD + rb"(?P<json>\{.*\})\s*$"),
    line("chat", b"Starting interactive loop ", _HEAD + rb"Starting interactive loop with sampling params: "),
    line("first", b"CLI time to first token: ", rb"CLI time to first token: (?P<seconds>[\d.]+)s\s*$"),
    line("prompt", b" T/s", rb"Prompt: (?P<tokens>\d+) tokens, (?P<rate>[\d.]+) T/s\s*$", b"Prompt: "),
    *(line("left", name, rb"(?:\[[\w,:./-]+\] )?> [\\/]exit\s*$") for name in (b"> /exit", b"> \\exit")),
    line("answer", b" T/s", rb"Decode: (?P<tokens>\d+) tokens, [\d.]+ T/s\s*$", b"Decode: "),
)


class MistralReader(Reader):
    """The answers that were told, and the statistics that are being printed."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._told: dict[str, None] = {}
        self._open: Request | None = None
        self._last_number = 0
        self._chats = False
        self._told_at: int | None = None

    def body(self, m: re.Match[bytes], at: At) -> bool:
        """An answer, or the chunk of a stream that has the usage."""
        found = False
        for body in records(m["body"]):
            for row in _rows(body, self.process.counts):
                found = True
                if row.request_id is None or row.request_id not in self._told:
                    remember(self._told, row.request_id or "", None)
                    self._emit(row, at)
        return found

    def window(self, m: re.Match[bytes], at: At) -> None:
        """``Throughput (T/s) 123.45, Prefix cache hitrate 20.00%, 1 running, 0 waiting``, every 5 s."""
        running, waiting, hits = int(m["running"]), int(m["waiting"]), number(m["hits"])
        self.process.emit(
            Interval(
                line=at.number,
                engine=_ENGINE,
                time=_clock(m, at),
                span_ms=_WINDOW_MS,
                running=running,
                waiting=waiting,
                prefix_hit_rate=None if hits is None or hits > 100 else hits / 100,
                phase="queue" if waiting and waiting >= running else "unknown",
            )
        )

    def completed(self, m: re.Match[bytes], at: At) -> None:
        """``request completed: request_id=... duration_ms=2790.123 prompt_tokens=630 ...``."""
        told: dict[str, Any] = {
            name: m[group].decode("utf-8", "replace")
            for name, group in _NAMES.items()
            if m[group] is not None
        }
        told["duration_ms"] = float(m["total"])
        if m["output"] is not None:
            told |= {"prompt_tokens": int(m["prompt"]), "completion_tokens": int(m["output"])}
            told["prefill_tok_s"] = float(m["rate"])
        self._completed(told, m, at)

    def completed_json(self, m: re.Match[bytes], at: At) -> bool:
        """The same as an object: ``{"event":"request_completed",...}``."""
        try:
            told = json.loads(m["json"])
        except (ValueError, RecursionError):
            return False
        if not isinstance(told, dict) or told.get("event") != "request_completed":
            return False
        self._completed(told, m, at)
        return True

    def _completed(self, told: dict[str, Any], m: re.Match[bytes], at: At) -> None:
        counts, output = self.process.counts, count(told, "completion_tokens")
        if told.get("outcome") == "client_disconnected":
            counts.aborted_requests += 1
        elif told.get("outcome") == "error" or not str(told.get("status")).startswith("2"):
            counts.failed_requests += 1
        elif output is not None and text(told, "request_id") not in self._told:
            row = Request(engine=_ENGINE, request_id=text(told, "request_id"), model=text(told, "model"))
            row.prompt_tokens, row.output_tokens = count(told, "prompt_tokens"), output
            row.prefill_ms = time_ms(row.prompt_tokens or 0, stated(told, "prefill_tok_s"), _RATE_STEP)
            row.total_ms, row.finished_at = stated(told, "duration_ms"), _clock(m, at)
            self._emit(row, at)

    def chat(self, _m: re.Match[bytes], at: At) -> None:
        """``Starting interactive loop with sampling params: ...``: but for statistics only texts follow."""
        self._chats = True
        self.process.quote(at, _ENGINE)

    def first(self, m: re.Match[bytes], at: At) -> None:
        """``CLI time to first token: 0.51s``: the statistics of an answer begin."""
        self._drop()
        row = self._open = Request(engine=_ENGINE, first_line=at.number, offset=at.offset)
        row.ttft_ms = round(1000 * float(m["seconds"]), 3) or None
        row.ttft_from = None if row.ttft_ms is None else "arrival"
        self._last_number = at.own_number

    def prompt(self, m: re.Match[bytes], at: At) -> None:
        """``Prompt: 12 tokens, 331.20 T/s``."""
        if self._open is None or at.own_number != self._last_number + 1:
            self._drop()
            self._open = Request(engine=_ENGINE, first_line=at.number, offset=at.offset)
        self._last_number = at.own_number
        self._open.prompt_tokens = int(m["tokens"])
        self._open.prefill_ms = time_ms(int(m["tokens"]), number(m["rate"]), _STATS_STEP)

    def answer(self, m: re.Match[bytes], at: At) -> None:
        """``Decode: 128 tokens, 41.20 T/s`` ends the statistics."""
        row, self._open = self._open, None
        if self._chats:
            self.process.quote(at, _ENGINE)
        if row is None or row.prompt_tokens is None or at.own_number != self._last_number + 1:
            self.process.counts.incomplete_requests += 1
            return
        row.line, row.output_tokens = at.number, int(m["tokens"])
        self._told_at = at.own_number
        self.process.emit(row)

    def left(self, _m: re.Match[bytes], at: At) -> bool:
        """``> /exit``, at the prompt that follows the statistics: the chat is over."""
        if not self._chats or self._told_at is None or at.own_number - self._told_at > _NEXT_LINES:
            return False
        self._chats = False
        self.process.unquote()
        return True

    def _emit(self, row: Request, at: At) -> None:
        row.line = row.first_line = at.number
        row.offset = at.offset
        self.process.emit(row)

    def _drop(self) -> None:
        self.process.counts.incomplete_requests += self._open is not None
        self._open = None

    def close(self) -> None:
        """The source or the process ends here."""
        self._drop()
        self._chats, self._told_at = False, None


def _clock(m: re.Match[bytes], at: At) -> Any:
    return parse_iso(m["time"]) or at.time


def _rows(body: Any, counts: Counts) -> Iterator[Request]:
    """The row of an answer whose usage has times."""
    answer = body if isinstance(body, dict) else {}
    usage = part(answer, "usage")
    names = ("total_prompt_time_sec", "total_completion_time_sec", "total_time_sec")
    if not set(names) <= usage.keys():
        return
    first_ms, rest_ms, total_ms = (_ms(usage, name, counts) for name in names)
    row = Request(engine=_ENGINE, request_id=text(answer, "id"), model=text(answer, "model"))
    row.prompt_tokens, row.output_tokens = count(usage, "prompt_tokens"), count(usage, "completion_tokens")
    row.prefill_ms = first_ms
    row.ttft_ms, row.ttft_from = first_ms, "slot" if first_ms is not None else None
    row.started_at = moment(answer.get("created"))
    if first_ms is not None and rest_ms is not None and total_ms is not None and row.output_tokens:
        of_wall_clock = total_ms - first_ms - rest_ms > _SAME_MS
        if of_wall_clock or rest_ms >= _LONG_STEP_MS * row.output_tokens:
            row.decode_ms, row.decode_steps, row.total_ms = rest_ms, row.output_tokens - 1, total_ms
        if of_wall_clock:
            row.ttft_ms, row.ttft_from = round(total_ms - rest_ms, 3), "arrival"
    choices = answer.get("choices")
    if isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], dict):
        row.finish_reason = text(choices[0], "finish_reason")
    yield row


def _ms(usage: dict[str, Any], name: str, counts: Counts) -> float | None:
    """A time of the usage; one that is 0 was too short to count, or never taken."""
    seconds = stated(usage, name)
    ms = None if seconds is None else round(1000 * seconds)
    if ms is not None and not is_span(ms):
        counts.impossible_values += 1
        return None
    return float(ms) if ms else None


FORMAT = Format(
    engine=_ENGINE,
    title="mistral.rs (answers, access log, chat)",
    versions="0.1 and newer (answers), 0.6 and newer (log, chat)",
    grain="request",
    identify=(
        b'"total_prompt_time_sec":',
        b"mistralrs_",
        b"Throughput (T/s) ",
        b"Starting interactive loop ",
        b"CLI time to first token: ",
    ),
    lines=LINES,
    reader=MistralReader,
    splits="prefill; decode until 0.8.9",
    documents=(
        Document(
            name="mistral.rs answer",
            detect=lambda head: is_spread(head, "usage", "total_prompt_time_sec"),
            rows=_rows,
        ),
    ),
    ends=("aborted", "failed"),
)
