"""llama-cli (`main`, `llama-completion`) and other programs that print libllama's timing block at the end.

One block tells of one process: it sums up all that its context did. Two things follow. The printed total
also holds loading, sampling and waiting for the user, so a row's total is prefill + decode. And in
interactive mode the wait for the first input may be inside the prompt eval time, and each turn's last token
is booked with the next turn's prompt: only the decode time is left then.

The newest llama-cli is a server with a prompt: it prints two rates after each answer and no counts. Between
those lines stands what was said; with ``-lv`` also what the server logs, which has llama.cpp's clock.

Read for that: tools/cli/cli-context.cpp of llama.cpp as of 2026-08-22.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import Format, line
from parsers.formats.llama_cpp import HEAD
from parsers.formats.llama_perf import Block, BlockReader, block_lines

if TYPE_CHECKING:
    import re

    from parsers.formats.base import At
    from parsers.formats.process import Process
    from parsers.records import Request

_ENGINE = "llama-cli"
_SERVER = ("llama-server", "llama.cpp")

LINES = (
    *block_lines(rb"llama_print_timings|llama_perf_context_print|llama_perf_print|common_perf_print"),
    line("chat", b"  /exit or Ctrl+C ", rb" *+/exit or Ctrl\+C +stop or exit\s*$"),
    line("left", b"Exiting...", rb"Exiting\.\.\.\s*$"),
    line("rates", b" t/s | Generation: ", rb"\[ Prompt: [\d.]+ t/s \| Generation: [\d.]+ t/s \]"),
    line("generate", b"generate: n_ctx = ", HEAD + rb"generate: n_ctx = \d+, n_batch = \d+, n_predict = "),
    line("interactive", b"interactive mode", HEAD + rb"== Running in interactive mode"),
    line(
        "session",
        b"session file ",
        HEAD + rb"main: session file (?:matches|has low similarity to prompt) "
        rb"\(?(?P<cached>\d+) / (?P<prompt>\d+) tokens",
    ),
    line("interactive", b"to interject at any time", HEAD + rb" - Press Ctrl\+C to interject at any time"),
    *(line("speculative", name, HEAD + name + rb"+= +\d+") for name in (b"n_drafted ", b"n_accept ")),
)


class CliReader(BlockReader):
    """Blocks, and what the program said of its run before it."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._pending: tuple[Block, Request] | None = None
        self._blocks = 0
        self._reset()

    def _reset(self) -> None:
        self._generating = self._interactive = self._speculative = self._chats = False
        self._session: tuple[int, int] | None = None

    def generate(self, m: re.Match[bytes], at: At) -> None:
        """``generate: n_ctx = 4096, n_batch = 2048, n_predict = 128, n_keep = 0``: a run begins."""
        self.process.leave_host(at)
        self.noted(m, at)
        self.flush()
        if self._generating:
            self.process.restart(at)
            self.noted(m, at)
        self._generating, self._speculative, self._chats = True, False, False
        self.process.quote(at, _ENGINE)

    def chat(self, _m: re.Match[bytes], at: At) -> None:
        """``  /exit or Ctrl+C     stop or exit``, among the commands: a chat begins."""
        self._chats = True
        self._says(at)

    def rates(self, m: re.Match[bytes], at: At) -> None:
        """``[ Prompt: 225.6 t/s | Generation: 76.3 t/s ]`` after each answer."""
        self.noted(m, at)
        if self._chats:
            self._says(at)

    def _says(self, at: At) -> None:
        """Prompts and answers follow."""
        self.process.quote(at, _ENGINE, *(_SERVER if self.process.clocked else ()))

    def left(self, _m: re.Match[bytes], _at: At) -> None:
        """``Exiting...``: the chat is over."""
        if self._chats:
            self.process.unquote()
        self._chats = False

    def interactive(self, m: re.Match[bytes], at: At) -> None:
        """``== Running in interactive mode. ==``: the block will be a sum over turns."""
        self.noted(m, at)
        self._interactive = True

    def session(self, m: re.Match[bytes], at: At) -> None:
        """``main: session file matches 96 / 128 tokens of prompt`` (`--prompt-cache`)."""
        self.noted(m, at)
        self._session = int(m["cached"]), int(m["prompt"])

    def speculative(self, m: re.Match[bytes], at: At) -> None:
        """``n_drafted = 120``: the blocks that follow are of two models and book drafts as prompt."""
        self._speculative = True

    def finished(self, block: Block) -> None:
        """One run has ended. The row waits until it's clear that llama-cpp-python did not print it.

        Under a host (Ollama printed this block for each request in 2023) there is nothing to wait for. In a
        chat with the newest llama-cli it is a quote.
        """
        if self._chats and self.process.label in self.process.quotes:
            return
        if self._generating:
            self.process.unquote()
        self.flush()
        self._blocks += 1
        if not self._speculative and (block.evaluated or block.steps or block.false):
            self._pending = block, self._row(block)
        if not self._speculative:
            self._reset()
        if self.process.on_request is not None:
            self.flush()

    def _row(self, block: Block) -> Request:
        row = block.request(_ENGINE)
        if self._interactive:
            row.prefill_ms = None
            return row
        self._check_times(row, block)
        expected = None
        if self._session and self._session[1] - self._session[0] == block.evaluated:
            row.cached_tokens, row.prompt_tokens = self._session
            expected = block.evaluated
        row.output_tokens = block.generated(expected, self.process.setup.batch)
        if row.output_tokens is not None and row.prefill_ms is not None:
            row.ttft_ms, row.ttft_from = row.prefill_ms, "slot"
        if row.prefill_ms is not None and row.decode_ms is not None:
            row.total_ms = round(row.prefill_ms + row.decode_ms, 2)
        return row

    def hand_over(self) -> tuple[Block | None, Block | None, bool]:
        """Give up the last whole block and an open one: another program turns out to have printed them.

        Returns:
            Both, and whether no block was there before them.
        """
        whole, opened = self._pending and self._pending[0], self._block
        first = self._blocks == (whole is not None)
        self._pending = self._block = None
        return whole, opened, first

    def _drop_run(self) -> None:
        if self._generating:
            self.process.counts.incomplete_requests += 1
        self._generating = False

    def flush(self) -> None:
        """Emit the row that only waited."""
        if self._pending is not None:
            row, self._pending = self._pending[1], None
            self.process.emit(row)

    def close(self) -> None:
        """The source or the process ends: a run without its block was cut off or killed."""
        self.flush()
        if self._block is not None:
            self._generating = False
        super().close()
        self._blocks = 0
        self._drop_run()
        self._reset()


FORMAT = Format(
    engine=_ENGINE,
    title="llama-cli and other llama.cpp programs (timing block at the end)",
    versions="b144 and newer",
    grain="request",
    identify=(
        b":        load time = ",
        b": prompt eval time = ",
        b" t/s | Generation: ",
        b"  /exit or Ctrl+C ",
        b"generate: n_ctx = ",
        b"main: session file ",
        b"== Running in interactive mode",
        b"n_drafted ",
        b"n_accept ",
    ),
    banner=rb"(?:\d[\d.]* [IWED] )?\w+: {8}load time = ",
    lines=LINES,
    reader=CliReader,
    splits="prefill, decode of the whole run",
    ends=("incomplete",),
)
