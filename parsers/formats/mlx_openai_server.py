"""mlx-openai-server with `--debug`: progress on the prompt, and a table of numbers after each answer.

`Processed N/N tokens` prints the mean speed since the request came in, so its time is the time to first
token, with whatever the request waited before. The log's own clock is in whole seconds: too coarse to tell
that wait from the reading. The answer's speed is mlx-lm's: its tokens by the time after the first of them.
Nothing names a request; one is answered at a time, or the lines of several are not told apart. Prompts and
answers are printed as they are, between two rules.

Read in mlx-openai-server of 2026-05-14 (4b7d4b6: app/utils/debug_logging.py), and in its issue 137.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import At, Format, Reader, integer, line, number
from parsers.formats.clocks import STAMP, wall_clock
from parsers.formats.rates import time_ms
from parsers.records import Request

if TYPE_CHECKING:
    import re

    from parsers.formats.process import Process

_ENGINE = "mlx-openai-server"
_STEP = 0.01
_RECORD = rb"(?P<time>" + STAMP + rb") \| INFO +\| [\w.]+:\w+:\d+ (?:\||-) (?:\xe2\x9c\xa6 )?"
_HEAD = _RECORD + rb"\S+ +"
_RULE = b"\xe2\x94\x81"
_COUNT = rb" +(?P<tokens>[\d,]+)\s*$"

LINES = (
    line(
        "progress",
        b" Processed ",
        _HEAD + rb"Processed +(?P<done>\d+)/(?P<all>\d+) tokens \( *(?P<rate>[\d.]+) tok/s\)",
        b" tok/s)",
    ),
    line("whole_prompt", b" Tokens: ", _HEAD + rb"Total Input Tokens:" + _COUNT, b"Total Input"),
    line("cached", b" Tokens: ", _HEAD + rb"Cached Tokens:" + _COUNT, b"Cached"),
    line("answer", b" Tokens: ", _HEAD + rb"Generation Tokens:" + _COUNT, b"Generation"),
    line("dump", b"INPUT PROMPT", _RECORD + rb"(?:" + _RULE + rb")+INPUT PROMPT"),
    line("dump", b"Raw text: ", _RECORD + rb"Raw text: ", b":log_debug_raw_text_response:"),
    line("dumped", 8 * _RULE, _RECORD + rb"(?:" + _RULE + rb")+\s*$"),
    line("speed", b"Generation Speed:", _HEAD + rb"Generation Speed: +(?P<rate>[\d.]+) tokens/sec\s*$"),
)


class DebugReader(Reader):
    """The request that is being answered."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._open: Request | None = None
        self._answer: int | None = None

    def dump(self, _m: re.Match[bytes], at: At) -> None:
        """``━━━━INPUT PROMPT━━━━``, ``Raw text: ``: somebody's text begins."""
        self.process.quote(at, _ENGINE)

    def dumped(self, _m: re.Match[bytes], _at: At) -> None:
        """``━━━━━━━━``: a rule."""
        self.process.unquote()

    def _row(self, at: At) -> Request:
        if self._open is None:
            self._open = Request(engine=_ENGINE, first_line=at.number, offset=at.offset)
        return self._open

    def whole_prompt(self, m: re.Match[bytes], at: At) -> None:
        """``Total Input Tokens:  9,487``: the next request begins."""
        self._drop()
        self._row(at).prompt_tokens = integer(m["tokens"])

    def cached(self, m: re.Match[bytes], at: At) -> None:
        """``Cached Tokens:       656``."""
        row, cached = self._row(at), integer(m["tokens"])
        if row.prompt_tokens is not None and cached is not None and cached <= row.prompt_tokens:
            row.cached_tokens, row.prefill_tokens = cached, row.prompt_tokens - cached

    def progress(self, m: re.Match[bytes], at: At) -> None:
        """``Processed   8831/8831 tokens (241.92 tok/s)``: the last comes with the first token."""
        done, tokens = int(m["done"]), int(m["all"])
        row = self._open
        if done == 0 and row is not None and (row.ttft_ms is not None or row.prompt_tokens is None):
            self._drop()
        row = self._row(at)
        if row.prefill_tokens not in (None, tokens):
            row.prompt_tokens = row.cached_tokens = None
            self.process.counts.impossible_values += 1
        row.prefill_tokens = tokens
        if done == tokens:
            row.ttft_ms = time_ms(tokens, number(m["rate"]), _STEP)
            row.ttft_from = None if row.ttft_ms is None else "arrival"

    def answer(self, m: re.Match[bytes], at: At) -> None:
        """``Generation Tokens: 1,024``."""
        self._answer = integer(m["tokens"])

    def speed(self, m: re.Match[bytes], at: At) -> None:
        """``Generation Speed:  41.20 tokens/sec`` ends the table of an answer."""
        row, self._open = self._row(at), None
        row.line, row.finished_at = at.number, wall_clock(m["time"], at)
        row.output_tokens, self._answer = self._answer, None
        if row.output_tokens:
            row.decode_steps = row.output_tokens - 1
        if row.decode_steps:
            row.decode_ms = time_ms(row.output_tokens or 0, number(m["rate"]), _STEP)
        if row.ttft_ms is not None and row.decode_ms is not None:
            row.total_ms = round(row.ttft_ms + row.decode_ms, 3)
        self.process.emit(row)

    def _drop(self) -> None:
        if self._open is not None:
            self.process.counts.incomplete_requests += 1
        self._open = self._answer = None

    def close(self) -> None:
        """The source or the process ends here."""
        self._drop()


FORMAT = Format(
    engine=_ENGINE,
    title="mlx-openai-server (--debug)",
    versions="2026",
    grain="request",
    identify=(b"debug_logging:",),
    banner=rb"[\d: -]{19} \| [A-Z]+ +\| app\.utils\.debug_logging:",
    lines=LINES,
    reader=DebugReader,
    splits="time to first token (queue in it), decode",
    ends=("incomplete",),
)
