"""mlx-lm: what `mlx_lm.generate` prints, the server's progress, `mlx_lm.benchmark`.

`mlx_lm.generate` (`mlx_vlm.generate` prints the same) gives counts and rates, no times; a rate has three
digits, so tokens by rate is the time. The prompt's count is what was evaluated: with a prompt cache file
the rest of the prompt is not in it. The answer's clock starts at the first token, which its count
includes; until November 2024 its rate did not. Until 2024-10 there were rates and no counts: no row.

`mlx_lm.server` prints how far it has read a prompt, and nothing about the answer. The log's clock has
milliseconds, so a prompt that is read alone has a time: from `0/N` (requests that can't be batched), else
from the line about its caches, which is printed when a request is taken in, to `N/N`, which is printed with
the first token. No line names its request: of prompts that are read together there is no time.

Read in mlx-lm 0.32.0 (d78bf58), and in the versions of 2024-03, 2024-10, 2025-08 and 2026-01.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import At, Format, Reader, line, number
from parsers.formats.clocks import STAMP, elapsed_ms, wall_clock
from parsers.formats.rates import time_ms
from parsers.records import Request

if TYPE_CHECKING:
    import re
    from datetime import datetime

    from parsers.formats.process import Process

_ENGINE = "mlx-lm"
_RATE = rb"(?P<rate>\d+(?:\.\d+)?|inf|nan)"
_STEP = 0.001
_LOGGED = rb"(?P<time>" + STAMP + rb") - INFO - "
_COUNTED = rb": (?P<tokens>\d+) tokens, " + _RATE + rb" tokens-per-sec\s*$"
_BATCH = rb"(?P<batch>\[batch_generate\] )?"

LINES = (
    line("rule", b"==========", rb"={10}\s*$"),
    line("prompt", b" tokens-per-sec", _BATCH + rb"Prompt" + _COUNTED, b"Prompt: "),
    line("answer", b" tokens-per-sec", _BATCH + rb"Generation" + _COUNTED, b"Generation: "),
    line("silent", b"No text generated for this prompt", rb"No text generated for this prompt\s*$"),
    line("noted", b" tokens-per-sec", rb"(?:Prompt|Generation): [\d.]+ tokens-per-sec\s*$"),
    line(
        "progress",
        b" - INFO - Prompt processing progress: ",
        _LOGGED + rb"Prompt processing progress: (?P<done>\d+)/(?P<all>\d+)\s*$",
    ),
    line("taken", b" - INFO - Prompt Cache: ", _LOGGED + rb"Prompt Cache: \d+ sequences"),
    line("taken", b" - INFO - KV Caches: ", _LOGGED + rb"KV Caches: \d+ seq"),
    line("started", b" - INFO - Starting httpd at ", _LOGGED + rb"Starting httpd at \S+ on port \d+"),
    line(
        "settings",
        b"Timing with prompt_tokens=",
        rb"Timing with prompt_tokens=(?P<prompt>\d+), generation_tokens=(?P<output>\d+), "
        rb"batch_size=(?P<batch>\d+)\.",
    ),
    line(
        "trial",
        b"prompt_tps=",
        rb"Trial (?P<trial>\d+): +prompt_tps=(?P<prompt>[\d.]+), generation_tps=(?P<output>[\d.]+), "
        rb"peak_memory=",
    ),
)


class MlxReader(Reader):
    """The two lines of a run, the prompts that the server is reading, the settings of a benchmark."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._ruled = False
        self._rule_line: int | None = None
        self._prompt: tuple[Request, At] | None = None
        self._loose: Request | None = None
        self._bench: tuple[int, int, int] | None = None
        self._trial = 0
        self._forget()

    def _forget(self) -> None:
        self._taken: tuple[At, datetime | None] | None = None
        self._reading: dict[int, tuple[At, At]] = {}
        self._crowded = False

    # --- mlx_lm.generate

    def rule(self, m: re.Match[bytes], at: At) -> None:
        """``==========`` stands before the answer and after it."""
        self._ruled, self._rule_line = True, at.own_number
        self.process.quote(at, _ENGINE)

    def silent(self, m: re.Match[bytes], at: At) -> None:
        """``No text generated for this prompt``."""
        self.process.unquote()

    def noted(self, m: re.Match[bytes], at: At) -> None:
        """``Prompt: 123.456 tokens-per-sec``: rates without counts say who logged, no more."""
        self.process.setup.engine = self.process.setup.engine or _ENGINE

    def prompt(self, m: re.Match[bytes], at: At) -> None:
        """``Prompt: 1929 tokens, 767.674 tokens-per-sec``; without a rule before it, it may be quoted."""
        self._prompt = None
        if self._rule_line == at.own_number - 1:
            self._loose = None
            self.process.unquote()
        elif self._ruled and not m["batch"]:
            return
        elif self._loose is not None and not m["batch"]:
            self._loose = None
            self.process.counts.incomplete_requests += 1
            return
        tokens = int(m["tokens"])
        row = Request(engine=_ENGINE, first_line=at.number, offset=at.offset)
        row.kind = "benchmark" if m["batch"] else "generation"
        row.prefill_tokens, row.prefill_ms = tokens or None, time_ms(tokens, number(m["rate"]), _STEP)
        self._prompt = row, at

    def answer(self, m: re.Match[bytes], at: At) -> None:
        """``Generation: 256 tokens, 41.312 tokens-per-sec``."""
        opened, self._prompt = self._prompt, None
        if opened is None or opened[1].own_number != at.own_number - 1:
            return
        row, tokens = opened[0], int(m["tokens"])
        row.line, row.finished_at, row.output_tokens = at.number, at.time, tokens
        row.decode_steps = tokens if m["batch"] else max(tokens - 1, 0)
        if row.decode_steps:
            row.decode_ms = time_ms(tokens, number(m["rate"]), _STEP)
        self.flush()
        if self._ruled or m["batch"]:
            self._emit(row)
        else:
            self._loose = row

    def flush(self) -> None:
        """Emit the run that has no rule before it, unless it turned out to be part of an answer."""
        loose, self._loose = self._loose, None
        if loose is not None:
            self._emit(loose)

    def _emit(self, row: Request) -> None:
        if row.kind == "generation" and row.prefill_ms is not None:
            row.ttft_ms, row.ttft_from = row.prefill_ms, "slot"
        if row.prefill_ms is not None and row.decode_ms is not None:
            row.total_ms = round(row.prefill_ms + row.decode_ms, 3)
        self.process.emit(row)

    # --- mlx_lm.benchmark

    def settings(self, m: re.Match[bytes], at: At) -> None:
        """``Timing with prompt_tokens=4096, generation_tokens=128, batch_size=1.``."""
        self._bench, self._trial = (int(m["prompt"]), int(m["output"]), int(m["batch"])), 0
        self.noted(m, at)

    def trial(self, m: re.Match[bytes], at: At) -> None:
        """``Trial 1:  prompt_tps=1203.441, generation_tps=48.210, peak_memory=5.012``: of the whole batch."""
        if int(m["trial"]) <= self._trial:
            self._bench = None
        self._trial = int(m["trial"])
        if self._bench is None:
            self.noted(m, at)
            return
        prompt, output, batch = self._bench
        row = Request(
            line=at.number, engine=_ENGINE, first_line=at.number, offset=at.offset, kind="benchmark"
        )
        row.prefill_tokens, row.output_tokens = prompt * batch, output * batch
        row.prefill_ms = time_ms(row.prefill_tokens, number(m["prompt"]), _STEP)
        row.decode_steps = row.output_tokens if batch > 1 else max(output - 1, 0)
        if row.decode_steps:
            row.decode_ms = time_ms(row.output_tokens, number(m["output"]), _STEP)
        self._emit(row)

    # --- mlx_lm.server

    def started(self, m: re.Match[bytes], at: At) -> None:
        """``Starting httpd at 127.0.0.1 on port 8080...``."""
        self.process.start(at)
        self.noted(m, at)

    def taken(self, m: re.Match[bytes], at: At) -> None:
        """``Prompt Cache: 3 sequences, 1.20 GB``: a request is taken in."""
        self._crowded = self._crowded or self._taken is not None or bool(self._reading)
        self._taken = at, wall_clock(m["time"], at)

    def progress(self, m: re.Match[bytes], at: At) -> None:
        """``Prompt processing progress: 2048/6166``: of the tokens that no cache had."""
        done, tokens, now = int(m["done"]), int(m["all"]), wall_clock(m["time"], at)
        if done > tokens or not tokens:
            self.process.counts.impossible_values += 1
            return
        first = self._reading[tokens][0] if tokens in self._reading else self._first(at)
        self._reading[tokens] = first, at
        self._crowded = self._crowded or len(self._reading) > 1
        if done == 0:
            self._taken = at, now
        elif done == tokens:
            self._read(tokens, first, at, now)

    def _first(self, at: At) -> At:
        return at if self._taken is None else self._taken[0]

    def _read(self, tokens: int, first: At, at: At, now: datetime | None) -> None:
        """A prompt is read, and its first token there; what did not move meanwhile was given up."""
        row = Request(line=at.number, engine=_ENGINE, first_line=first.number, offset=first.offset)
        row.prefill_tokens = tokens
        began = None if self._taken is None or self._crowded else self._taken[1]
        if (elapsed := elapsed_ms(began, now)) is not None:
            row.started_at = began
            row.prefill_ms = elapsed or None
            row.ttft_ms, row.ttft_from = row.prefill_ms, "slot" if row.prefill_ms else None
        self.process.emit(row)
        del self._reading[tokens]
        for stale in [size for size, (_, last) in self._reading.items() if last.number < first.number]:
            del self._reading[stale]
            self.process.counts.incomplete_requests += 1
        if not self._reading:
            self._taken, self._crowded = None, False

    def close(self) -> None:
        """The source or the process ends here; prompts that were still being read were cut off."""
        self.flush()
        self.process.counts.incomplete_requests += len(self._reading)
        self._prompt = None
        self._forget()


FORMAT = Format(
    engine=_ENGINE,
    title="mlx-lm (mlx_lm.generate, mlx_lm.server, mlx_lm.benchmark)",
    versions="0.19 and newer; the server's prompts since 2025-08",
    grain="request",
    identify=(
        b" tokens-per-sec",
        b"Timing with prompt_tokens=",
        b"prompt_tps=",
        b" - INFO - Prompt processing progress: ",
        b" - INFO - Prompt Cache: ",
        b" - INFO - KV Caches: ",
        b" - INFO - Starting httpd at ",
    ),
    lines=LINES,
    reader=MlxReader,
    splits="prefill, decode; prefill alone for the server",
    ends=("incomplete",),
)
