"""text-generation-webui: one line for each answer, with the time of the whole request.

``Output generated in 14.60 seconds (6.85 tokens/s, 100 tokens, context 1840, seed 7)``: reading the prompt
and writing the answer are one time, and the rate is over both, so no phase is known. The context is the
whole prompt, reused tokens included. The line was printed bare until 2025-05; since then Rich writes it
behind a clock without a date and breaks it at the terminal's width.

With the llama.cpp loaders the engine inside may log timings of the same request just before. They tell
more, so that row is the request then, and this line adds none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from parsers.formats.base import Format, Reader, integer, line
from parsers.records import Request

if TYPE_CHECKING:
    from parsers.formats.base import At
    from parsers.formats.process import Process

_ENGINE = "text-generation-webui"
_INSIDE = frozenset({"llama-server", "llama-cpp-python", "llama-cli"})
_PRINT_BLOCKS = ("llama-cpp-python", "llama-cli")
_MOST_PIECES = 4
_MOST_HELD = 8

_CLOCK = rb"\d\d:\d\d:\d\d-\d{6} "
_RECORD = re.compile(
    rb"Output generated in (?P<total>\d+\.\d+) seconds \(-?\d+\.\d+ (?:tokens|it)/s"
    rb"(?:, (?P<output>\d+) tokens)?(?:, context (?P<prompt>\d+)(?:,|\)$))?"
)
_WORD = rb"(?:Output|generated|in|seconds|\(?-?\d+\.\d+|tokens/s,|\d+[,)]?|tokens[,)]|context|seed)"

LINES = (
    line(
        "ended",
        b"Output generated in ",
        rb"(?P<clock>" + _CLOCK + rb"INFO +)?(?P<rest>Output generated in \d.*)$",
    ),
    *(
        line("more", needle, rb" {20,}(?P<rest>" + _WORD + rb"(?: " + _WORD + rb")*) *$")
        for needle in (b"tokens", b"context ", b"seed ")
    ),
    line("prompted", b"PROMPT=", _CLOCK + rb"INFO +PROMPT= *$"),
    line("parameters", b"GENERATE_PARAMS=", _CLOCK + rb"INFO +GENERATE_PARAMS= *$"),
    line(
        "failed",
        b"Failed to generate reply",
        _CLOCK + rb"ERROR +Failed to generate reply \((?:HF|custom)\)",
    ),
)


class WebuiReader(Reader):
    """Whether the engine inside has told of the request that ends, and the line that is being joined."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        for reader in self._inside():
            reader.flush()
        self._told = self._ever_told = process.counts.requests > 0
        self._held: list[tuple[int, Request]] = []
        self._ended_line = 0
        self._clocked = self._failed = False
        self._first: At | None = None
        self._pieces: list[bytes] = []
        self._last_number = 0
        process.partners |= {_ENGINE, *_INSIDE}
        if process.on_request is None:
            process.on_request = self._take

    def _inside(self) -> list[Reader]:
        return [reader for reader in self.process.readers if reader.engine in _INSIDE]

    def _take(self, row: Request) -> None:
        """A row of the engine inside is the request whose line comes next, be it read already or not."""
        if row.engine in _INSIDE:
            self._ever_told = True
            self._let_go(before=row.line)
            if self._held and self._held[0][0] < row.line:
                del self._held[0]
            else:
                self._told = True
        self.process.release(row)

    def _let_go(self, before: int | None = None) -> None:
        """Emit the rows that waited; those whose line stands before this one are settled."""
        while self._held and (before is None or self._held[0][1].line < before):
            _, row = self._held.pop(0)
            self.process.emit(row)

    def ended(self, m: re.Match[bytes], at: At) -> None:
        """A request ended. In a log with clocks a line without one is quoted."""
        self._pieces = []
        if self._clocked and not m["clock"]:
            return
        self.process.unquote()
        self._clocked |= m["clock"] is not None
        self._first = at
        self._join(m["rest"], at)

    def more(self, m: re.Match[bytes], at: At) -> None:
        """``                         tokens, context 1840, seed 7)``: the line goes on."""
        if self._pieces and at.own_number == self._last_number + 1 and len(self._pieces) < _MOST_PIECES:
            self._join(m["rest"], at)
        else:
            self._pieces = []

    def prompted(self, m: re.Match[bytes], at: At) -> None:
        """``INFO     PROMPT=``: the prompt follows, many lines (`--verbose`).

        The binding inside prints its block after it with nothing in between; the server inside doesn't.
        """
        self._clocked = True
        self.process.quote(at, _ENGINE, *_PRINT_BLOCKS)

    def parameters(self, m: re.Match[bytes], at: At) -> None:
        """``INFO     GENERATE_PARAMS=``: the server inside is asked."""
        self.process.unquote()

    def failed(self, m: re.Match[bytes], at: At) -> None:
        """``ERROR    Failed to generate reply (custom)``: a traceback follows, then the request's line."""
        self._failed = True

    def _join(self, piece: bytes, at: At) -> None:
        self._pieces.append(piece.strip())
        self._last_number = at.own_number
        joined = b" ".join(self._pieces)
        m = _RECORD.match(joined)
        if m and (m["prompt"] or joined.endswith((b"tokens)", b"/s)"))):
            self._pieces = []
            self._end(m, at)

    def _end(self, m: re.Match[bytes], at: At) -> None:
        inside = self._inside()
        for reader in inside:
            reader.flush()
        if len(self._held) >= _MOST_HELD:
            self._let_go()
        if self._failed:
            self.process.counts.failed_requests += 1
            self.process.event(_ENGINE, at, "error", "the answer failed")
        elif not self._told:
            self._held.append((self._ended_line, self._row(m, at)))
            if not inside:
                self._let_go()
        self._told = self._failed = False
        self._ended_line = at.number

    def _row(self, m: re.Match[bytes], at: At) -> Request:
        first = self._first or at
        return Request(
            line=at.number,
            engine=_ENGINE,
            finished_at=at.time,
            prompt_tokens=integer(m["prompt"]),
            output_tokens=integer(m["output"]),
            total_ms=round(1000 * float(m["total"]), 1) or None,
            first_line=first.number,
            offset=first.offset,
        )

    def flush(self) -> None:
        """Emit the rows that waited, unless the engine inside tells of its requests and may be about to."""
        if not self._ever_told:
            self._let_go()

    def close(self) -> None:
        """The source or the process ends here; nothing is said of requests that are running."""
        for reader in self._inside():
            reader.close()
        self._let_go()
        self._told = self._failed = False
        self._pieces = []


FORMAT = Format(
    engine=_ENGINE,
    title="text-generation-webui (oobabooga)",
    versions="2023-01 and newer",
    grain="request",
    identify=(b"Output generated in ", b"INFO     PROMPT=", b"INFO     GENERATE_PARAMS="),
    lines=LINES,
    reader=WebuiReader,
    splits="none: the whole request is one time",
    ends=("failed",),
)
