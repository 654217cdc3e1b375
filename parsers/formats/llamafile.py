"""llamafiler, llamafile's own server: how a prompt was read, and how many tokens were answered.

It prints no times, but its clock has microseconds: between the two lines of a request stand its answer's
tokens, each sampled and evaluated, and what sending them took. When the prompt came in is not said. Requests
are told apart by the thread that serves them. (llamafile's llama.cpp server is read as llama-server.)

Read in llamafile 0.9.3 (cfa861a).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import Format, Reader, line, text
from parsers.formats.clocks import wall_clock
from parsers.records import Request

if TYPE_CHECKING:
    import re
    from datetime import datetime

    from parsers.formats.base import At
    from parsers.formats.process import Process

_ENGINE = "llamafile"
_MOST_OPEN = 256
_HEAD = rb"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}) \S+\.cpp:\d+ (?P<thread>[^\n]{0,127}?) ?(?<= )"

LINES = (
    line(
        "read",
        b" prefilled ",
        _HEAD + rb"prefilled (?P<prompt>\d+) tokens \(after keeping (?P<kept>\d+), discarding \d+, "
        rb"relocating (?P<moved>\d+), and evaluating (?P<new>\d+)\)",
    ),
    line(
        "answered", b" predicted ", _HEAD + rb"predicted (?P<output>\d+) tokens finished on (?P<reason>\w+)"
    ),
)


class ThreadReader(Reader):
    """The requests whose prompts are read, by thread."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._open: dict[bytes, tuple[Request, datetime | None]] = {}

    def read(self, m: re.Match[bytes], at: At) -> None:
        """``... prefilled 512 tokens (after keeping 12, discarding 0, relocating 0, and evaluating 500)``."""
        if self._open.pop(m["thread"], None) is not None or len(self._open) >= _MOST_OPEN:
            self.process.counts.incomplete_requests += 1
        row = Request(engine=_ENGINE, first_line=at.number, offset=at.offset)
        row.prompt_tokens, row.prefill_tokens = int(m["prompt"]), int(m["new"])
        row.cached_tokens = int(m["kept"]) + int(m["moved"])
        self._open[m["thread"]] = row, wall_clock(m["time"], at._replace(time=None))

    def answered(self, m: re.Match[bytes], at: At) -> None:
        """``... predicted 78 tokens finished on stop``."""
        opened = self._open.pop(m["thread"], None)
        if opened is None:
            return
        row, began = opened
        ended = wall_clock(m["time"], at._replace(time=None))
        row.line, row.finished_at = at.number, at.time or ended
        row.output_tokens, row.finish_reason = int(m["output"]), text(m["reason"])
        if row.output_tokens and began is not None and ended is not None and ended > began:
            row.decode_ms = round((ended - began).total_seconds() * 1000, 3)
            row.decode_steps = row.output_tokens
        self.process.emit(row)

    def close(self) -> None:
        """The source or the process ends here."""
        self.process.counts.incomplete_requests += len(self._open)
        self._open.clear()


FORMAT = Format(
    engine=_ENGINE,
    title="llamafiler (llamafile)",
    versions="0.8.14 to 0.9.3",
    grain="request",
    identify=(b" tokens (after keeping ", b" tokens finished on "),
    lines=LINES,
    reader=ThreadReader,
    splits="decode",
    ends=("incomplete",),
)
