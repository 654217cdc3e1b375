"""OpenVINO GenAI: the means that `benchmark_genai` prints, and the iterations of `llm_bench`.

`benchmark_genai` runs one prompt several times and prints ``mean ± deviation`` in ms: a row is the mean
run. Its time to first token starts with `generate()`, tokenizing included, so prefill alone is not given.
Decode is the time per output token for all tokens but the first. Loading the pipeline is an event.

`llm_bench` prints each iteration: ``First token latency`` is the time to first token, ``First infer
latency`` the first inference alone, which is the prefill. Warm-ups are not measured and give no row. With a
batch of several prompts its latencies are per step of all of them and its output is their sum: no decode
time. Turns of a chat (``[C0]``) divide the first latency by the prompt and are not read.

Read in samples/{cpp,python,js}/text_generation/benchmark_genai and tools/llm_bench/llm_bench_utils/
metrics_print.py of openvino.genai at da1db864 (2026-08). -1 and ``NA`` are unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.formats.base import Format, Reader, integer, line, number
from parsers.records import Request

if TYPE_CHECKING:
    import re

    from parsers.formats.base import At
    from parsers.formats.process import Process

_ENGINE = "openvino-genai"
_NEXT_LINES = 12

_MEAN = rb"(?P<mean>-?\d[\d.]*) \xc2\xb1 (?:-?[\d.]+|-?nan|NaN)"
_BENCH = rb"\[ INFO \] \[(?P<run>\d+|warm-up)\](?P<prompt>\[P-?\d+\])? "
_LATENCY = rb"(?P<ms>[\d.]+|NA) ms"

LINES = (
    line("prompt_size", b"Prompt token size:", rb"Prompt token size: ?(?P<tokens>\d{1,9})\s*$"),
    line("output_size", b"Output token size:", rb"Output token size: ?(?P<tokens>\d{1,9})\s*$"),
    line("load_time", b"Load time: ", rb"Load time: (?P<ms>\d[\d.]*) ms\s*$"),
    *(
        line("mean", b" \xc2\xb1 ", rb"(?P<what>" + what + rb") ?: " + _MEAN + rb" " + unit + rb" *$", what)
        for what, unit in (
            (b"Generate time", rb"ms"),
            (b"TTFT", rb"ms"),
            (b"TPOT", rb"ms/token"),
            (b"Throughput", rb"tokens/s"),
        )
    ),
    line(
        "run",
        b"Input token size: ",
        _BENCH + rb"Input token size: (?P<input>\d{1,9}), (?:Output size: (?P<output>\d{1,9}), )?"
        rb"(?P<more>Infer count: .*)$",
    ),
    line(
        "first_token",
        b"First token latency: ",
        _BENCH + rb"First token latency: " + _LATENCY + rb"(?:/\w+)?, other tokens latency: "
        rb"(?:(?P<other>[\d.]+) ms/token|NA|[\d.]+ ms/\w+)"
        rb"(?:, len of(?: input)? tokens: \d+ \* (?P<batch>\d+))?\s*$",
    ),
    line("first_infer", b"First infer latency: ", _BENCH + rb"First infer latency: " + _LATENCY + rb", .*$"),
    line(
        "texted",
        b"[ INFO ] [",
        rb"\[ INFO \] \[(?:\d+|warm-up)\](?:\[C\d+\])?(?:\[P-?\d+\])? (?:Generated|Input text): ",
    ),
    line("logged", b"[ INFO ] ", rb"\[ INFO \] "),
)


class GenaiReader(Reader):
    """The block of means or the iteration that is open."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._row: Request | None = None
        self._last_number = 0
        self._run: tuple[bytes, bytes | None] | None = None
        self._tpot_ms: float | None = None

    def _begin(self, at: At, **known: int | None) -> Request:
        self.flush()
        row = Request(
            line=at.number, engine=_ENGINE, kind="benchmark", first_line=at.number, offset=at.offset
        )
        for name, value in known.items():
            setattr(row, name, value)
        self._row, self._last_number = row, at.own_number
        return row

    # --- benchmark_genai

    def prompt_size(self, m: re.Match[bytes], at: At) -> None:
        """``Prompt token size: 512``, the first line of a block."""
        self._begin(at, prompt_tokens=int(m["tokens"]))

    def output_size(self, m: re.Match[bytes], at: At) -> None:
        """``Output token size: 128``."""
        row = self._near(at) or self._begin(at)
        row.output_tokens = int(m["tokens"])

    def load_time(self, m: re.Match[bytes], at: At) -> None:
        """``Load time: 4212.00 ms``."""
        if self._near(at):
            self.process.event(_ENGINE, at, "model_load", "pipeline loaded", value=number(m["ms"]))

    def mean(self, m: re.Match[bytes], at: At) -> None:
        """``TTFT: 214.70 ± 3.10 ms``; ``Throughput`` ends the block."""
        row, value = self._near(at), number(m["mean"])
        if row is None:
            return
        row.line, self._last_number = at.number, at.own_number
        known = None if value is None or value < 0 else value
        if m["what"] == b"TTFT":
            row.ttft_ms, row.ttft_from = known, "arrival" if known is not None else None
        elif m["what"] == b"TPOT":
            self._tpot_ms = known
        elif m["what"] == b"Generate time":
            row.total_ms = known
        else:
            self.flush()

    def _near(self, at: At) -> Request | None:
        """The open block, if this line can belong to it."""
        if self._row is None or self._run is not None or at.own_number - self._last_number > _NEXT_LINES:
            return None
        return self._row

    # --- llm_bench

    def run(self, m: re.Match[bytes], at: At) -> None:
        """``[ INFO ] [1][P0] Input token size: 32, Output size: 128, Infer count: 128, ...``."""
        self.process.unquote()
        self.flush()
        if m["run"] == b"warm-up":
            return
        row = self._begin(at, prompt_tokens=int(m["input"]), output_tokens=integer(m["output"]))
        self._run = m["run"], m["prompt"]
        _, found, rest = m["more"].partition(b"Generation Time: ")
        seconds = number(rest.partition(b"s")[0]) if found else None
        row.total_ms = None if seconds is None else round(1000 * seconds, 1)

    def first_token(self, m: re.Match[bytes], at: At) -> None:
        """``[ INFO ] [1][P0] First token latency: 38.11 ms, other tokens latency: 22.62 ms/token, ...``."""
        if (row := self._of_run(m, at)) is None:
            return
        row.ttft_ms = number(m["ms"]) if m["ms"] != b"NA" else None
        row.ttft_from = None if row.ttft_ms is None else "arrival"
        if m["batch"] in (None, b"1"):
            self._tpot_ms = number(m["other"])

    def texted(self, m: re.Match[bytes], at: At) -> None:
        """``[ INFO ] [1][P0] Generated: ...``: a text follows, many lines."""
        self.process.quote(at, _ENGINE)

    def logged(self, m: re.Match[bytes], at: At) -> bool:
        """``[ INFO ] ...``: whatever it says, no text goes on."""
        self.process.unquote()
        return False

    def first_infer(self, m: re.Match[bytes], at: At) -> None:
        """``[ INFO ] [1][P0] First infer latency: 37.40 ms, other infers latency: 22.10 ms/infer, ...``."""
        if (row := self._of_run(m, at)) is not None and m["ms"] != b"NA":
            row.prefill_ms = number(m["ms"])

    def _of_run(self, m: re.Match[bytes], at: At) -> Request | None:
        if self._row is None or self._run != (m["run"], m["prompt"]):
            return None
        self._row.line = at.number
        return self._row

    # --- the way out

    def flush(self) -> None:
        """Emit the row that is open, if any time of it was told."""
        row, tpot_ms = self._row, self._tpot_ms
        self._row = self._run = self._tpot_ms = None
        if row is None:
            return
        if tpot_ms is not None and row.output_tokens:
            row.decode_steps = row.output_tokens - 1
            row.decode_ms = round(tpot_ms * row.decode_steps, 3)
        if row.total_ms is None and row.ttft_ms is None and row.decode_ms is None:
            self.process.counts.incomplete_requests += 1
            return
        self.process.emit(row)

    def close(self) -> None:
        """The output ends here."""
        self.flush()


FORMAT = Format(
    engine=_ENGINE,
    title="OpenVINO GenAI (benchmark_genai, llm_bench)",
    versions="2024.3 and newer",
    grain="request",
    identify=(b"Prompt token size:", b"Output token size:", b"] Input token size: "),
    lines=LINES,
    reader=GenaiReader,
    splits="time to first token, decode; prefill in llm_bench",
    ends=("incomplete",),
)
