"""llama-cpp-python, the binding and its server, with `verbose=True`: one timing block for each request.

The counters are reset when a request begins and printed when it ends, so a block is a request; a lock lets
one run at a time, and nothing is logged on arrival. What was reused of the previous request's context is
said before the block: `Llama.generate: 24 prefix-match hit, remaining 13 prompt tokens to eval` (numbers
since 2024-08-07); a miss prints nothing. A stream that ends early prints no block. Without `verbose` only
the web server logs, and tracebacks are all that tells who runs behind it.

Two kinds of blocks have false times. Those of 0.3.0 to 0.3.6 have none at all (`0.00 ms`). And with
`logits_all`, the server's default, a piece of the prompt (`n_batch`) that is larger than any before makes
newer builds read the clock before the piece is evaluated: its time is missing in the prompt eval time, and
only the block's total shows it. Seen with 0.3.36: 700 tokens, 1.37 s printed, 5.78 s waited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from parsers.formats.base import Format, integer, line
from parsers.formats.llama_cli import CliReader
from parsers.formats.llama_perf import Block, BlockReader, block_lines

if TYPE_CHECKING:
    import re

    from parsers.formats.base import At
    from parsers.formats.process import Process
    from parsers.records import Request

_ENGINE = "llama-cpp-python"
_DEFAULT_BATCH = 512
_MISSING_SHARE = 0.5
_GENERATE = rb" *Llama\.generate: "

LINES = (
    *block_lines(rb"llama_print_timings|llama_perf_context_print|llama_perf_print"),
    line(
        "hit",
        b"Llama.generate: ",
        _GENERATE + rb"(?:(?P<cached>\d+) )?prefix-match hit"
        rb"(?:, remaining (?P<remaining>\d+) prompt tokens to eval)?$",
        b"prefix-match hit",
    ),
    line("all_cached", b"Llama.generate: ", _GENERATE + rb"full prompt already cached", b"already cached"),
    line(
        "reprocess",
        b"Llama.generate: ",
        _GENERATE + rb"(?P<cached>\d+) prefix-match found but partial kv removal not supported",
        b"prefix-match found",
    ),
    line("noted", b"Llama._create_completion: ", rb" *Llama\._create_completion: cache (?:hit|miss|save)"),
    line("noted", b'llama.py", line ', rb'[ |]*File "[^"]*[/\\]llama_cpp[/\\]llama\.py", line \d+, in '),
    line("loaded", b"Model metadata: {", rb"Model metadata: \{"),
    line(
        "too_long",
        b"ValueError: Requested tokens",
        rb"ValueError: Requested tokens(?: \((?P<prompt>\d+)\))? exceed context window of (?P<context>\d+)$",
    ),
    line(
        "decode_failed",
        b"RuntimeError: llama_decode returned ",
        rb"RuntimeError: llama_decode returned (?P<code>-?\d+)$",
    ),
    line(
        "disconnected", b"Disconnected from client (via", rb"Disconnected from client \(via refresh/close\) "
    ),
    line("ended", b"Finished server process [", rb"INFO: +Finished server process \[\d+\]"),
)


@dataclass(frozen=True, slots=True)
class _Reuse:
    """What was said of the context before a block. Counts are ``None`` where the line gives none."""

    at: At
    cached: int | None = None
    remaining: int | None = None

    def fits(self, evaluated: int) -> bool:
        """True if the block can belong to it; a single last token may be booked as a step."""
        return self.remaining is None or self.remaining - evaluated in (0, 1)


class PythonReader(BlockReader):
    """The request that is running, which may have said what it reuses."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._begin()
        for reader in process.readers:
            if isinstance(reader, CliReader):
                whole, self._block, self._fresh = reader.hand_over()
                if whole is not None:
                    self.finished(whole)

    def _begin(self) -> None:
        self._reuse: _Reuse | None = None
        self._marked = self._timed = False
        self._new_context()

    def _new_context(self) -> None:
        self._fresh = True
        self._largest_piece = 0
        self._clock_waits = False

    def noted(self, m: re.Match[bytes], at: At) -> None:
        """A line that only this binding prints."""
        super().noted(m, at)
        self._marked = True

    def loaded(self, m: re.Match[bytes], at: At) -> None:
        """``Model metadata: {...``: a model with a new context."""
        self.noted(m, at)
        self._new_context()

    # --- what is reused

    def hit(self, m: re.Match[bytes], at: At) -> None:
        """``24 prefix-match hit, remaining 13 prompt tokens to eval``: a request begins."""
        self._open(m, _Reuse(at, integer(m["cached"]), integer(m["remaining"])))

    def all_cached(self, m: re.Match[bytes], at: At) -> None:
        """``full prompt already cached, skipping reset``: nothing is left to evaluate."""
        self._open(m, _Reuse(at, remaining=0))

    def reprocess(self, m: re.Match[bytes], at: At) -> None:
        """``24 prefix-match found but partial kv removal not supported``: all is evaluated again."""
        self._open(m, _Reuse(at, cached=0))
        cached = int(m["cached"])
        detail = f"{cached} cached tokens could not be used: the model's state can't be rolled back"
        self.process.event(_ENGINE, at, "full_reprocess", detail, value=float(cached))

    def _open(self, m: re.Match[bytes], reuse: _Reuse) -> None:
        self.noted(m, reuse.at)
        if self._reuse is not None:
            self._abort(self._reuse.at)
        self._reuse, self._timed, self._fresh = reuse, True, False

    # --- how it ends

    def _drop_block(self) -> None:
        self._fresh = self._fresh and self._block is None
        super()._drop_block()

    def finished(self, block: Block) -> None:
        """A request ended and printed its block."""
        row = block.request(_ENGINE)
        row.total_ms = None if b"total" in block.false else block.total_ms
        self._check_prefill(row, block)
        reuse, self._reuse = self._reuse, None
        if reuse is None:
            self._count_miss(row, block)
        else:
            self._count_reuse(row, block, reuse)
        if row.prefill_ms is not None and row.output_tokens is not None:
            row.ttft_ms, row.ttft_from = row.prefill_ms, "slot"
        self._timed, self._fresh = True, False
        self.process.emit(row)

    def _count_miss(self, row: Request, block: Block) -> None:
        """Nothing was said of the context. The prompt's length is as sure as what came out of it.

        Hits are printed since 2023-05, so their absence is a miss. But only a context's first request can
        have nothing to say, since all others begin alike; later, or where a log begins with a block, the
        line is lost.
        """
        if block.rated and self._fresh and (self._marked or not self.process.setup.is_empty):
            row.cached_tokens = 0
        if block.evaluated or self._fresh:
            row.output_tokens = block.generated(None, self.process.setup.batch)
        else:
            row.prefill_tokens = None
        if row.cached_tokens is not None and row.output_tokens is not None:
            row.prompt_tokens = row.prefill_tokens

    def _count_reuse(self, row: Request, block: Block, reuse: _Reuse) -> None:
        """A block that does not fit books drafts as prompt, or the line before it was another request's."""
        row.started_at, row.first_line, row.offset = reuse.at.time, reuse.at.number, reuse.at.offset
        if not reuse.fits(block.evaluated):
            row.prefill_ms = row.prefill_tokens = None
            return
        if reuse.remaining is not None:
            row.prefill_tokens = reuse.remaining
        row.cached_tokens = reuse.cached
        row.output_tokens = block.generated(reuse.remaining, self.process.setup.batch)
        if row.cached_tokens is not None and row.prefill_tokens is not None:
            row.prompt_tokens = row.cached_tokens + row.prefill_tokens

    def _check_prefill(self, row: Request, block: Block) -> None:
        """Take back a prefill time that is false, or that may lack its first piece.

        Only a piece larger than any before is in doubt, until one such was measured: then the clock waits
        for the work. The time that would be missing follows from that of the other pieces; the total tells
        whether there is room for it.
        """
        rest_ms = block.total_ms - (block.decode_ms or 0.0)
        piece = min(block.evaluated, self.process.setup.batch or _DEFAULT_BATCH)
        grown, self._largest_piece = piece > self._largest_piece, max(piece, self._largest_piece)
        others = block.evaluated - piece
        if grown and others and block.prefill_ms and not self._clock_waits:
            missing_ms = block.prefill_ms * piece / others
            if rest_ms - block.prefill_ms > missing_ms * _MISSING_SHARE:
                row.prefill_ms = None
                self.process.counts.impossible_values += 1
                return
        self._check_times(row, block, rest_ms)
        self._clock_waits |= grown and row.prefill_ms is not None

    def too_long(self, m: re.Match[bytes], at: At) -> None:
        """The prompt does not fit. A group of exceptions prints it twice, once behind ``|``."""
        self.noted(m, at)
        prompt, context = integer(m["prompt"]), int(m["context"])
        length = "a prompt" if prompt is None else f"a prompt of {prompt} tokens"
        self.process.counts.failed_requests += 1
        self.process.event(
            _ENGINE,
            at,
            "context_exceeded",
            f"{length} exceeds the context of {context}",
            value=None if prompt is None else float(prompt - context),
        )

    def decode_failed(self, m: re.Match[bytes], at: At) -> None:
        """``RuntimeError: llama_decode returned 1``: the running request failed."""
        self.noted(m, at)
        self._reuse = None
        self.process.counts.failed_requests += 1
        self.process.event(_ENGINE, at, "error", f"llama_decode returned {int(m['code'])}")

    def disconnected(self, m: re.Match[bytes], at: At) -> None:
        """The server gave up a stream: its client went away, or another request interrupts it.

        A stream that had its block by then was whole. In a log without timings every one counts.
        """
        self.noted(m, at)
        if self._reuse is not None or not self._timed:
            self._reuse = None
            self._abort(at)

    def _abort(self, at: At) -> None:
        self.process.counts.aborted_requests += 1
        self.process.event(_ENGINE, at, "aborted", "the stream was given up before it ended")

    def ended(self, m: re.Match[bytes], at: At) -> None:
        """The web server is down; what follows is another process."""
        self.process.restart(at)

    def close(self) -> None:
        """The source or the process ends here; a request still open may only be cut off.

        Where another program's start says so it may go on, and its block tells nothing of the context.
        """
        unended = self._reuse is not None or self._block is not None
        super().close()
        self.process.counts.incomplete_requests += self._reuse is not None
        self._begin()
        self._fresh = not unended


FORMAT = Format(
    engine=_ENGINE,
    title="llama-cpp-python (library and server, verbose)",
    versions="0.1.23 and newer",
    grain="request",
    identify=(
        b"Llama.generate: ",
        b"Llama._create_completion: ",
        b"Model metadata: {",
        b'/llama_cpp/llama.py", line ',
        b'\\llama_cpp\\llama.py", line ',
    ),
    lines=LINES,
    reader=PythonReader,
    splits="prefill, decode",
    ends=("aborted", "failed", "incomplete"),
)
