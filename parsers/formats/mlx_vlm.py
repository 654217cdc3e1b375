"""mlx-vlm's server: lines for each step of a request, tied by its name.

`Prefill completed` counts the whole prompt and says how much of it came from a cache; with a draft model
the line prints a fixed 0 there, so then what was evaluated is not known (mlx-vlm#1957). Its time is that of
the batch of prompts that were read together. The answer's time starts at the first token, which its count
includes; the time to first token starts when the request is queued. Diffusion models answer in blocks, so
there no count of steps fits the time.

Read in mlx-vlm of 2026-08-22 (9b13f52); these lines are there since 2026-07-19.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from parsers.formats.base import At, Format, Reader, line, text
from parsers.formats.clocks import STAMP, wall_clock
from parsers.formats.rates import agree
from parsers.records import Request

if TYPE_CHECKING:
    import re
    from datetime import datetime

    from parsers.formats.process import Process

_ENGINE = "mlx-vlm"
_HEAD = rb"(?:(?P<time>" + STAMP + rb") - INFO - )?"
_NAME = rb": request=(?P<id>\S{1,64})"
_TIMED = rb" elapsed=(?P<seconds>\d+\.\d{3})s rate=(?P<rate>\d+\.\d) tok/s"
_SECONDS_STEP, _RATE_STEP = 0.001, 0.1

LINES = (
    line("queued", b": request=", _HEAD + rb"Generation queued" + _NAME + rb" prompt_tokens=", b"n queued"),
    line(
        "started",
        b": request=",
        _HEAD + rb"Prefill started" + _NAME + rb" backend=(?P<backend>\S+) prompt_tokens=(?P<prompt>\d+) ",
        b"l started",
    ),
    line(
        "read",
        b": request=",
        _HEAD + rb"Prefill completed" + _NAME + rb" prompt_tokens=(?P<prompt>\d+) "
        rb"cached_tokens=(?P<cached>\d+)" + _TIMED,
        b"l completed",
    ),
    line(
        "first_token",
        b": request=",
        _HEAD + rb"Decode started" + _NAME + rb" time_to_first_token=(?P<seconds>\d+\.\d{3})s",
        b"e started",
    ),
    line(
        "answered",
        b": request=",
        _HEAD + rb"Decode completed" + _NAME + rb" generated_tokens=(?P<output>\d+)" + _TIMED + rb" "
        rb"finish_reason=(?P<reason>\w+)",
        b"e completed",
    ),
    line("cancelled", b": request=", _HEAD + rb"Generation cancelled" + _NAME + rb" ", b"cancelled"),
    line(
        "loading",
        b"oading ",
        _HEAD + rb"(?:Loading|Pre-loading language) model: (?P<model>\S.*)$",
        b" model: ",
    ),
)


@dataclass(slots=True)
class _Open:
    """A request that has not ended."""

    row: Request
    backend: bytes = b""

    @property
    def drafts(self) -> bool:
        return self.backend.startswith(b"speculative")


class VlmReader(Reader):
    """The requests that have not ended, by name."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._open: dict[bytes, _Open] = {}

    def _of(self, m: re.Match[bytes], at: At) -> _Open:
        if m["id"] not in self._open:
            row = Request(engine=_ENGINE, request_id=text(m["id"]), first_line=at.number, offset=at.offset)
            self._open[m["id"]] = _Open(row)
        return self._open[m["id"]]

    def loading(self, m: re.Match[bytes], at: At) -> None:
        """``Loading model: mlx-community/Qwen2.5-VL-7B-Instruct-4bit``."""
        self.process.learn(at, model=text(m["model"]))

    def queued(self, m: re.Match[bytes], at: At) -> None:
        """``Generation queued: request=7f3a prompt_tokens=1200 max_tokens=256 ...``: it has arrived."""
        self._of(m, at).row.started_at = self._now(m, at)

    def started(self, m: re.Match[bytes], at: At) -> None:
        """``Prefill started: request=7f3a backend=continuous_batching prompt_tokens=1200 images=1 ...``."""
        opened = self._of(m, at)
        opened.backend, opened.row.prompt_tokens = m["backend"], int(m["prompt"])

    def read(self, m: re.Match[bytes], at: At) -> None:
        """``Prefill completed: request=7f3a prompt_tokens=1200 cached_tokens=0 elapsed=1.100s rate=...``."""
        opened, prompt, cached = self._of(m, at), int(m["prompt"]), int(m["cached"])
        row = opened.row
        row.prompt_tokens = prompt
        if cached > prompt:
            self.process.counts.impossible_values += 1
        elif opened.backend and not opened.drafts:
            row.cached_tokens, row.prefill_tokens = cached, prompt - cached
        row.prefill_ms = self._time(m, prompt)

    def first_token(self, m: re.Match[bytes], at: At) -> None:
        """``Decode started: request=7f3a time_to_first_token=1.301s``."""
        row = self._of(m, at).row
        row.ttft_ms, row.ttft_from = _ms(m["seconds"]), "arrival"

    def answered(self, m: re.Match[bytes], at: At) -> None:
        """``Decode completed: request=7f3a generated_tokens=50 elapsed=2.450s rate=20.0 tok/s ...``."""
        opened = self._of(m, at)
        row, output = opened.row, int(m["output"])
        row.line, row.finished_at = at.number, self._now(m, at)
        row.output_tokens, row.finish_reason = output, text(m["reason"])
        if opened.drafts or opened.backend == b"diffusion":
            row.decode_ms = _ms(m["seconds"])
        elif output and opened.backend:
            row.decode_steps = output - 1
            row.decode_ms = self._time(m, output - 1)
        if row.ttft_ms is not None and (row.decode_ms is not None or output == 1):
            row.total_ms = round(row.ttft_ms + (row.decode_ms or 0.0), 3)
        del self._open[m["id"]]
        self.process.emit(row)

    def cancelled(self, m: re.Match[bytes], at: At) -> None:
        """``Generation cancelled: request=7f3a generated_tokens=12``: its client has left."""
        if self._open.pop(m["id"], None) is not None:
            self.process.counts.aborted_requests += 1
            at = at._replace(time=self._now(m, at))
            self.process.event(_ENGINE, at, "aborted", "the client went away", request_id=text(m["id"]))

    def _now(self, m: re.Match[bytes], at: At) -> datetime | None:
        return wall_clock(m["time"], at)

    def _time(self, m: re.Match[bytes], tokens: int) -> float | None:
        """The printed time, where the printed rate is of the same tokens; 0 is too short to be known."""
        seconds, rate = float(m["seconds"]), float(m["rate"])
        if seconds and not agree(tokens, seconds, rate, _SECONDS_STEP, _RATE_STEP):
            self.process.counts.impossible_values += 1
            return None
        return _ms(m["seconds"])

    def close(self) -> None:
        """The source or the process ends here."""
        self.process.counts.incomplete_requests += len(self._open)
        self._open.clear()


def _ms(seconds: bytes) -> float | None:
    return round(1000 * float(seconds), 3) or None


FORMAT = Format(
    engine=_ENGINE,
    title="mlx-vlm server",
    versions="2026-07 and newer",
    grain="request",
    identify=(
        b"Prefill started: request=",
        b"Prefill completed: request=",
        b"Decode completed: request=",
        b"Generation queued: request=",
        b"Pre-loading language model: ",
    ),
    lines=LINES,
    reader=VlmReader,
    splits="prefill, decode, time to first token",
    ends=("aborted", "incomplete"),
)
