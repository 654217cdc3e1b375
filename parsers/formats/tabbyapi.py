"""TabbyAPI (ExLlamaV2 and V3): one `Metrics` record for each request, split into queue, prompt and answer.

The record states the queue and the total in seconds and the other two phases as rates: the prompt's over
its new tokens alone, the answer's over all of its tokens (ExLlama's clock of the first token is read before
the step that makes it). So a phase's time is its tokens by its rate, and the total checks them: where they
do not add up, a rate means something else and both are left out. A rate is ``Indeterminate`` where the time
was rounded to nothing.

Rich writes the console's records and breaks them at the terminal's width, 80 columns where there is none,
so pieces are joined until the record is whole. With `log_prompt` the prompt is logged like any other
record; one that quotes the log names requests that are not open. Before 2024-03 records had no head.

Read: tabbyAPI 6b9af58 (2023-11), 083df7d, 2ebefe8, 06ff47e, ce5e2ec (2024-05) and main.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from parsers.formats.base import Format, Reader, integer, line, number, text
from parsers.records import Request

if TYPE_CHECKING:
    from parsers.formats.base import At
    from parsers.formats.process import Process

_ENGINE = "tabbyapi"
_MOST_PIECES = 12
_ROUNDING_S = 0.03
_HALF_A_DIGIT = 0.005
_COARSE_RATE = 0.5
_TOO_SHORT = b"Indeterminate"

_HEAD = (
    rb"(?:(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) (?:\| )?)?"
    rb"(?:INFO: +|INFO +\| )"
)
_WORD = (
    rb"(?:tokens,?\)?|generated|in|seconds|\(?Queue:|s,|Process:|cached|and|new|at|T/s,?\)?|Generate:|Draft:"
    rb"|[Cc]ontext:?|/|accepted|<--|Not|accurate|\(truncated\)|\(?Indeterminate|[^\s:|=]+\):|\(?[\d.]+%?\)*)"
)
_RATE = rb"(?:[\d.]+|Indeterminate)"
_RECORD = re.compile(
    rb"(?: \(ID: (?P<id>\S+)\))?: (?P<output>\d+) tokens generated in (?P<total>[\d.]+) seconds \("
    rb"(?:Queue: (?P<queue>[\d.]+) s, "
    rb"Process: (?:(?:(?P<cached>\d+) cached tokens and )?(?P<new>\d+) (?:new )?tokens at )?"
    rb"(?P<prompt_rate>" + _RATE + rb") T/s, "
    rb"Generate: (?P<answer_rate>" + _RATE + rb") T/s|" + _RATE + rb" T/s)"
    rb"(?:, [Cc]ontext:? (?P<context>\d+) tokens)?"
    rb"(?:, Draft: (?P<accepted>\d+) / (?P<drafted>\d+) tokens accepted \([\d.]+%\))?"
    rb"\)(?P<cut> <-- Not accurate \(truncated\))?$"
)

LINES = (
    line(
        "received",
        b"Received ",
        _HEAD + rb"Received (?:chat completion|completion|Kobold generation) (?:streaming )?request"
        rb"(?: (?P<id>\S+))? *$",
        b"request",
    ),
    line(
        "texted",
        b"INFO",
        _HEAD
        + rb"(?:(?:Raw |Negative )?[Pp]rompt(?: \(ID: \S+\))?:|Response(?: \(ID: \S+\))?:(?! \d+ tokens? ))",
        b": ",
    ),
    line("metrics", b"Metrics", _HEAD + rb"Metrics(?P<rest>(?: \(ID:|:).*+|) *+$"),
    line(
        "bare",
        b"tokens",
        rb"(?:Response|Metrics)(?P<rest>: \d+ tokens generated in [\d.]+ seconds "
        rb"\((?:[\d.]+|Indeterminate) T/s[^()]*\)(?: <-- .*+)?) *+$",
        b" tokens generated in ",
    ),
    *(
        line("more", needle, rb"(?P<rest>" + _WORD + rb"(?: " + _WORD + rb")*) *$")
        for needle in (b"tokens", b"T/s", b"Queue: ", b"seconds", b"%)", b"(truncated)")
    ),
)


class TabbyReader(Reader):
    """The requests that have arrived, and the record that is being joined."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._open: dict[str, tuple[At, datetime | None]] = {}
        self._named = self._unnamed = self._headed = False
        self._drop()

    def _drop(self) -> None:
        self._pieces: list[bytes] = []
        self._first: At | None = None
        self._last_number = 0
        self._time: datetime | None = None
        self._whole: Request | None = None

    # --- lines

    def received(self, m: re.Match[bytes], at: At) -> None:
        """``INFO:     Received chat completion streaming request 8d3c...``: a request has arrived.

        In a narrow terminal its name stands in the next line, out of reach.
        """
        self._headed = True
        self.process.unquote()
        self.flush()
        if name := text(m["id"]):
            self._named = True
            self._open[name] = at, _clock(m["time"], at)
        else:
            self._unnamed = True

    def texted(self, m: re.Match[bytes], at: At) -> None:
        """``INFO:     Raw prompt (ID: 8d3c...):``: a prompt or an answer follows (`log_prompt`)."""
        self.process.quote(at, _ENGINE)

    def metrics(self, m: re.Match[bytes], at: At) -> None:
        """``INFO:     Metrics (ID: 8d3c...): 196 tokens generated in 14.98 seconds (Queue: ...``."""
        self._headed = True
        self.process.unquote()
        self._begin(m["rest"], at, _clock(m["time"], at))

    def bare(self, m: re.Match[bytes], at: At) -> None:
        """``Response: 120 tokens generated in 6.11 seconds (19.64 T/s, context 900 tokens)``, up to 2024-03.

        Where records have a head, one without is text.
        """
        if not self._headed:
            self._begin(m["rest"], at, at.time)

    def _begin(self, rest: bytes, at: At, time: datetime | None) -> None:
        self.flush()
        self._drop()
        self._first, self._time = at, time
        self._join(rest, at)

    def more(self, m: re.Match[bytes], at: At) -> None:
        """``new tokens at 474.76 T/s, Generate: 55.68 T/s, Context: 5436 tokens)``: the record goes on."""
        if self._pieces and at.own_number == self._last_number + 1 and len(self._pieces) < _MOST_PIECES:
            self._join(m["rest"], at)
        else:
            self.flush()

    def _join(self, piece: bytes, at: At) -> None:
        self._pieces.append(piece.strip())
        self._last_number = at.own_number
        joined = b" ".join(filter(None, self._pieces))
        if m := _RECORD.match(joined if joined.startswith(b":") else b" " + joined):
            self._whole = self._row(m, at)
        elif self._whole is not None and b"<--" not in piece:
            self.flush()

    # --- the row

    def _row(self, m: re.Match[bytes], at: At) -> Request:
        first = self._first or at
        queue_s, total_s = number(m["queue"]), float(m["total"])
        row = Request(
            line=at.number,
            engine=_ENGINE,
            request_id=text(m["id"]),
            finished_at=self._time,
            prompt_tokens=integer(m["context"]),
            output_tokens=int(m["output"]),
            queue_ms=None if queue_s is None else _ms(queue_s),
            total_ms=_ms(total_s) or None,
            draft_tokens=integer(m["drafted"]),
            accepted_tokens=integer(m["accepted"]),
            truncated=True if m["cut"] else None,
            first_line=first.number,
            offset=first.offset,
        )
        if m["new"] and not m["cached"]:
            row.prefill_tokens = int(m["new"])
        elif m["new"]:
            row.cached_tokens, row.prefill_tokens = int(m["cached"]), int(m["new"])
            row.prompt_tokens = row.cached_tokens + row.prefill_tokens
        if row.prompt_tokens is not None:
            row.context_tokens = row.prompt_tokens + int(m["output"])
        if queue_s is not None:
            evaluated = row.prefill_tokens if m["new"] else row.prompt_tokens
            answer = _Phase(row.output_tokens, m["answer_rate"])
            self._split(row, queue_s, _Phase(evaluated, m["prompt_rate"]), answer)
        return row

    def _split(self, row: Request, queue_s: float, prompt: _Phase, answer: _Phase) -> None:
        """The phases' times, if they and the queue are the total."""
        rest_s = (row.total_ms or 0.0) / 1000 - queue_s - (prompt.seconds or 0.0) - (answer.seconds or 0.0)
        if prompt.known and answer.known and abs(rest_s) > _ROUNDING_S + prompt.error_s + answer.error_s:
            self.process.counts.impossible_values += 1
            return
        if prompt.seconds is not None:
            row.prefill_ms = _ms(prompt.seconds)
            row.ttft_ms, row.ttft_from = _ms(queue_s + prompt.seconds), "arrival"
        if answer.seconds is not None:
            row.decode_ms, row.decode_steps = _ms(answer.seconds), row.output_tokens

    # --- the way out

    def flush(self) -> None:
        """Emit the record that is whole; only the note that the prompt was cut might still have followed."""
        row, self._whole = self._whole, None
        if row is None:
            return
        self._drop()
        if row.request_id is None or self._arrived(row):
            self.process.emit(row)

    def _arrived(self, row: Request) -> bool:
        """Take the arrival that this record ends; several answers to one request end with ``-0``, ``-1``."""
        name = row.request_id or ""
        arrival = self._open.pop(name, None)
        if arrival is None:
            arrival = self._open.get(name.rpartition("-")[0])
        if arrival is None:
            return not self._named or self._unnamed
        at, row.started_at = arrival
        row.first_line, row.offset = at.number, at.offset
        return True

    def close(self) -> None:
        """The source or the process ends here; requests that only arrived were cut off."""
        self.flush()
        self.process.counts.incomplete_requests += len(self._open)
        self._open.clear()
        self._drop()


class _Phase:
    """A phase's tokens and its printed rate, and the time that follows from them.

    Attributes:
        known: true where the rate tells how long it took, or that it was too short to be measured.
        seconds: ``None`` where it was too short, or where the rate is too coarse to tell.
        error_s: how far off that time may be, since the rate is rounded.
    """

    def __init__(self, tokens: int | None, printed: bytes) -> None:
        self.seconds: float | None = None
        self.error_s = 0.0
        rate = number(printed) if printed != _TOO_SHORT else None
        if tokens and rate and rate >= _COARSE_RATE:
            self.seconds = tokens / rate
            self.error_s = self.seconds * _HALF_A_DIGIT / rate
        self.known = printed == _TOO_SHORT or self.seconds is not None


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 1)


def _clock(printed: bytes | None, at: At) -> datetime | None:
    """The carrier's clock, else the record's own, which names no zone and is taken as UTC."""
    if at.time is not None or printed is None:
        return at.time
    try:
        return datetime.strptime(printed.decode("ascii"), "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)
    except ValueError:
        return None


FORMAT = Format(
    engine=_ENGINE,
    title="TabbyAPI (ExLlamaV2, ExLlamaV3)",
    versions="2023-11 and newer",
    grain="request",
    identify=(
        b"Metrics (ID:",
        b" tokens generated in ",
        b"Received chat completion ",
        b"Received completion ",
    ),
    lines=LINES,
    reader=TabbyReader,
    splits="queue, prefill, decode",
    ends=("incomplete",),
)
