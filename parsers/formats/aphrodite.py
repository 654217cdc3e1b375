"""Aphrodite with `APHRODITE_REQUEST_LEVEL_METRICS=1`: one line for each finished request.

Without that switch it prints vLLM's lines, which `vllm/` reads. What the line calls TTFT goes from the
first scheduling to the first token: it is the prefill, without the queue. The rates are all prompt tokens
by it, and all generated tokens by the time from the first to the last. E2E holds the queue and the front
end as well, which are not told apart. Seconds have two digits, so a phase's time follows from its rate
where that is finer.

Up to 0.9 Rich writes the console's records and breaks them at the terminal's width: a piece waits for the
next line. Later versions have vLLM's head, or that of a Rust front end, which may add cache hits.

Read in aphrodite/v1/metrics/loggers.py (1a0ed14f), common/logger.py (0d4946da) and the Rust front end's
request_metrics (2026).
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from parsers.formats.base import At, Format, Reader, integer, line
from parsers.records import Request
from parsers.times import parse_iso

if TYPE_CHECKING:
    from datetime import datetime

    from parsers.formats.process import Process

_ENGINE = "aphrodite"
_HALF_A_DIGIT_S = 0.005
_HALF_A_RATE = 0.05
_SLACK_MS = 15.0
_COARSE = 0.05
"""A rate that is rounded by more than this share tells no time."""

_HEAD = (
    rb"(?:\([\w.-]+ pid=\d+\) *+)?"
    rb"(?:INFO:? +(?:\d\d-\d\d \d\d:\d\d:\d\d +)?(?:\[[\w./-]+:\d+\] +)?"
    rb"|(?:(?P<clock>\d{4}-[\dT:.-]+Z) )? *INFO +[\w:]+: )?"
)
_NUMBERS = re.compile(
    rb"(?P<total>\d+\.\d+)s, TTFT: (?P<prefill>\d+\.\d+)s, "
    rb"Prefill: (?P<prompt>\d{1,12}) tokens \((?P<prompt_rate>\d+\.\d+) tokens/s\), "
    rb"Decode: (?P<output>\d{1,12}) tokens \((?P<output_rate>\d+\.\d+) tokens/s\)"
    rb"(?:, Cache hits: (?P<cached>\d{1,12}) tokens \([\d.]+%\))?\s*$"
)
LINES = (
    line("completed", b"Request completed - ", _HEAD + rb"Request completed - E2E time: (?P<numbers>\d.*)$"),
    line("rest", b"tokens/s)", rb"(?P<numbers>[\w():,./ ]{0,80}tokens/s\))\s*$"),
)


class AphroditeReader(Reader):
    """The piece of a record that waits for its rest."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._piece: tuple[bytes, At, datetime | None] | None = None

    def completed(self, m: re.Match[bytes], at: At) -> None:
        """``Request completed - E2E time: 2.31s, TTFT: 0.24s, Prefill: 630 tokens (2625.0 ...``."""
        self.close()
        time = parse_iso(m["clock"]) or at.time
        if (numbers := _NUMBERS.match(m["numbers"])) is not None:
            self._emit(numbers, at, at, time)
        else:
            self._piece = m["numbers"].strip(), at, time

    def rest(self, m: re.Match[bytes], at: At) -> None:
        """``tokens (2625.0 tokens/s), Decode: 71 tokens (34.3 tokens/s)`` of a record that was broken."""
        if self._piece is None:
            return
        (piece, first, time), self._piece = self._piece, None
        numbers = _NUMBERS.match(piece + b" " + m["numbers"].strip())
        if numbers is None or at.own_number != first.own_number + 1:
            self.process.counts.incomplete_requests += 1
            return
        self._emit(numbers, first, at, time)

    def _emit(self, m: re.Match[bytes], first: At, last: At, time: datetime | None) -> None:
        row = Request(
            line=last.number,
            engine=_ENGINE,
            finished_at=time,
            prompt_tokens=int(m["prompt"]),
            cached_tokens=integer(m["cached"]),
            output_tokens=int(m["output"]),
            first_line=first.number,
            offset=first.offset,
        )
        if row.cached_tokens is not None:
            row.prefill_tokens = max(int(m["prompt"]) - row.cached_tokens, 0)
        total_ms = 1000 * float(m["total"])
        prefill_ms = _ms(int(m["prompt"]), float(m["prompt_rate"]), float(m["prefill"]))
        decode_ms = _ms(int(m["output"]), float(m["output_rate"]), None)
        if prefill_ms is None or (decode_ms or 0.0) + prefill_ms > total_ms + _SLACK_MS:
            self.process.counts.impossible_values += 1
        else:
            row.prefill_ms, row.decode_ms, row.total_ms = prefill_ms, decode_ms, round(total_ms, 1)
            row.ttft_ms, row.ttft_from = prefill_ms, "slot"
            row.decode_steps = None if decode_ms is None else max(int(m["output"]) - 1, 0)
            row.started_at = time and time - timedelta(milliseconds=total_ms)
        self.process.emit(row)

    def close(self) -> None:
        """The source or the process ends here; a piece without its rest was cut off."""
        self.process.counts.incomplete_requests += self._piece is not None
        self._piece = None


def _ms(tokens: int, rate: float, printed_s: float | None) -> float | None:
    """A phase's time, from its rate or as it is printed, whichever is finer; ``None`` if they contradict."""
    if not tokens or not rate:
        return None if printed_s is None else round(1000 * printed_s, 1)
    exact_s, error_s = tokens / rate, tokens * _HALF_A_RATE / rate**2
    if printed_s is None:
        return round(1000 * exact_s, 1) if error_s <= _COARSE * exact_s else None
    if abs(exact_s - printed_s) > 1.2 * _HALF_A_DIGIT_S + error_s:
        return None
    return round(1000 * (exact_s if error_s < _HALF_A_DIGIT_S else printed_s), 1)


FORMAT = Format(
    engine=_ENGINE,
    title="Aphrodite Engine (request-level metrics)",
    versions="0.9 and newer",
    grain="request",
    identify=(b"Request completed - E2E time: ",),
    lines=LINES,
    reader=AphroditeReader,
    splits="prefill, decode (queue only in the total)",
    ends=("incomplete",),
)
