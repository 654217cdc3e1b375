"""Jan's Cortex and Nitro (cortex.llamacpp): three lines when a slot is done, in digits as C++ prints doubles.

The prompt's count is what was evaluated, without what the slot had cached. The lines name no slot, only the
thread that logs, so those of slots that end at the same moment may be mixed: a row is only what stands in
order, and adds up.

Read in cortex.llamacpp (a73aa5a); no log of it was seen. Newer Jan runs llama-server, whose lines stand in
Jan's app log.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from parsers.formats.base import Format, Reader, line, number
from parsers.records import Request

if TYPE_CHECKING:
    import re

    from parsers.formats.base import At
    from parsers.formats.process import Process

_ENGINE = "cortex"
_NEXT_LINES = 3
_MOST_THREADS = 64
_HEAD = rb"(?:(?P<time>\d{8} \d\d:\d\d:\d\d\.\d{6}) UTC (?P<thread>\d+) INFO +(?:\[\w+\] )?)?PrintTimings: +"
_DIGITS = 1e-4
_RATE = rb"(?: +\([^,)]{1,40}, (?P<rate>\d+(?:\.\d+)?(?:e[+-]\d+)?) tokens per second\))?"
_MS = rb"(?P<ms>\d+(?:\.\d+)?(?:e[+-]\d+)?|-?nan|inf)"

LINES = (
    line(
        "prompt",
        b"PrintTimings: ",
        _HEAD + rb"prompt eval time = " + _MS + rb" ?ms / (?P<tokens>\d+) tokens" + _RATE,
    ),
    line(
        "answer", b"PrintTimings: ", _HEAD + rb"eval time = " + _MS + rb" ms / (?P<tokens>\d+) runs" + _RATE
    ),
    line("total", b"PrintTimings: ", _HEAD + rb"total time = " + _MS + rb" ms"),
)


class CortexReader(Reader):
    """The lines of one request of each thread so far."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._open: dict[bytes | None, tuple[Request, int]] = {}

    def prompt(self, m: re.Match[bytes], at: At) -> None:
        """``PrintTimings: prompt eval time = 1212.41ms / 23 tokens (...)``."""
        self._drop(m["thread"])
        if not self._fits(m):
            self.process.counts.incomplete_requests += 1
            return
        if len(self._open) >= _MOST_THREADS:
            self._drop(next(iter(self._open)))
        row = Request(engine=_ENGINE, line=at.number, first_line=at.number, offset=at.offset)
        self._open[m["thread"]] = row, at.own_number
        row.prefill_tokens, row.prefill_ms = int(m["tokens"]) or None, number(m["ms"])
        row.prefill_ms = row.prefill_ms if row.prefill_tokens else None

    def answer(self, m: re.Match[bytes], at: At) -> None:
        """``PrintTimings:        eval time = 3194.22 ms / 78 runs   (...)``."""
        row, number_of_prompt = self._open.get(m["thread"], (None, 0))
        row = row if self._fits(m) else None
        if row is None or row.output_tokens is not None or at.own_number - number_of_prompt > _NEXT_LINES:
            self._drop(m["thread"])
            return
        row.line, row.output_tokens, row.decode_ms = at.number, int(m["tokens"]), number(m["ms"])
        row.decode_steps = max(row.output_tokens - 1, 0)

    def total(self, m: re.Match[bytes], at: At) -> None:
        """``PrintTimings:       total time = 4406.63 ms``; one that is not the sum is another request's."""
        row, _ = self._open.pop(m["thread"], (None, 0))
        if row is None:
            return
        total_ms, parts_ms = number(m["ms"]), (row.prefill_ms or 0.0) + (row.decode_ms or 0.0)
        if row.output_tokens is None or total_ms is None or abs(total_ms - parts_ms) > 1e-3 * total_ms + 1e-3:
            self.process.counts.incomplete_requests += 1
            return
        row.line, row.total_ms, row.finished_at = at.number, total_ms, at.time or _clock(m["time"])
        if row.prefill_ms is not None:
            row.ttft_ms, row.ttft_from = row.prefill_ms, "slot"
        self.process.emit(row)

    def _fits(self, m: re.Match[bytes]) -> bool:
        """Whether time, count and rate are of one measurement."""
        ms, rate, tokens = number(m["ms"]), number(m["rate"]), int(m["tokens"])
        if ms is None or rate is None or abs(1000 * tokens - ms * rate) <= 1000 * tokens * _DIGITS:
            return True
        self.process.counts.impossible_values += 1
        return False

    def _drop(self, thread: bytes | None) -> None:
        if self._open.pop(thread, None) is not None:
            self.process.counts.incomplete_requests += 1

    def close(self) -> None:
        """The source or the process ends here."""
        for thread in list(self._open):
            self._drop(thread)


def _clock(printed: bytes | None) -> datetime | None:
    if printed is None:
        return None
    try:
        return datetime.strptime(printed.decode(), "%Y%m%d %H:%M:%S.%f").replace(tzinfo=UTC)
    except ValueError:
        return None


FORMAT = Format(
    engine=_ENGINE,
    title="Cortex, Nitro (Jan until 2025)",
    versions="cortex.llamacpp 0.1",
    grain="request",
    identify=(b"PrintTimings: ",),
    lines=LINES,
    reader=CortexReader,
    splits="prefill, decode",
    ends=("incomplete",),
)
