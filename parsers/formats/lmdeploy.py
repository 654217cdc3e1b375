"""LMDeploy (PyTorch and TurboMind engines): a window every 10 s, and requests without phases.

With `--enable-metrics` a window's rates are tokens over the time since the line before, idle time included;
a prompt is credited whole with its first token. A window without tokens prints nothing, so only a gap of
about 10 s is one. Each data-parallel rank prints its own. Prompt tokens include those from the prefix
cache.

With `--log-level INFO` a request is logged when it is accepted and when it is done. Neither line times a
phase: the two clocks give the total, without tokenizing the prompt.

Read in lmdeploy/metrics/loggers.py and serve/core/async_engine.py at 1263d5cd (2026-08); the older label
``API server (completed/routed/waiting)`` is that of lmdeploy#4297.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from parsers.formats.base import Format, Reader, line, number, text
from parsers.formats.clocks import elapsed_ms
from parsers.formats.vllm.stats import phase, share
from parsers.records import Interval, Request

if TYPE_CHECKING:
    from parsers.formats.base import At
    from parsers.formats.process import Process

_ENGINE = "lmdeploy"
_WINDOW_MS = 10_000.0
_LONGEST_WINDOW_MS = 15_000.0
_MOST_OPEN = 4096

_CLOCK = rb"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d{3})?)"
_HEAD = _CLOCK + rb" - lmdeploy - [A-Z]+ - (?:\[pid=\d+ ppid=\d+\] - )?[\w.]+:\d+ - "

LINES = (
    line(
        "window",
        b"Avg thr (in/out): ",
        rb"\["
        + _CLOCK
        + rb" (?P<rank>DP\d+|Engine \d+)\] Avg thr \(in/out\): (?P<in>[\d.]+) / (?P<out>[\d.]+)"
        rb" tokens/s, (?:API server|Server) \([a-z/]+\): [\d/ ]+, "
        rb"Engine \(running/waiting\): (?P<running>\d+) / (?P<waiting>\d+), KV cache: (?P<kv>[\d.]+)%"
        rb"(?P<more>.*)$",
    ),
    line(
        "accepted",
        b"input_tokens=",
        _HEAD + rb"session=(?P<id>\d+), input_tokens=(?P<prompt>\d{1,12}), max_new",
    ),
    line(
        "finished",
        b" finished, ",
        _HEAD + rb'session (?P<id>\d+) finished, reason "(?P<reason>\w+)", '
        rb"input_tokens (?P<prompt>\d{1,12}), output_tokens (?P<output>\d{1,12})\s*$",
        b"output_tokens",
    ),
    line(
        "failed", b" finished, ", _HEAD + rb"session (?P<id>\d+) finished, .*reason \"error\"\s*$", b"error"
    ),
)
_HIT_RATE = re.compile(rb"Prefix cache hit rate: ([\d.]+)%")
_SPECULATION = b"SpecDecoding metrics: "
_LENGTH = re.compile(rb"Mean acceptance length: ([\d.]+|nan)")


class LmdeployReader(Reader):
    """When each rank printed last, and the requests that are open."""

    engine = _ENGINE

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._printed: dict[bytes, datetime] = {}
        self._open: dict[str, tuple[At, datetime | None]] = {}

    def window(self, m: re.Match[bytes], at: At) -> None:
        """``[2026-02-05 17:05:17 DP0] Avg thr (in/out): 461.5 / 275.3 tokens/s, Server (...``."""
        printed = _time(m["time"])
        hit_rate, length = _HIT_RATE.search(m["more"]), _LENGTH.search(m["more"].partition(_SPECULATION)[2])
        row = Interval(
            line=at.number,
            engine=_ENGINE,
            time=at.time or printed,
            span_ms=self._span_ms(m["rank"], printed),
            prefill_tok_s=number(m["in"]),
            decode_tok_s=number(m["out"]),
            running=int(m["running"]),
            waiting=int(m["waiting"]),
            kv_usage=share(m["kv"]),
            prefix_hit_rate=share(hit_rate[1]) if hit_rate else None,
            accept_length=number(length[1]) if length else None,
        )
        row.phase = phase(row)
        self.process.emit(row)

    def _span_ms(self, rank: bytes, time: datetime | None) -> float | None:
        before = self._printed.get(rank)
        if time is None:
            return None
        self._printed[rank] = time
        gap_ms = (time - before).total_seconds() * 1000 if before else 0.0
        return gap_ms if _WINDOW_MS / 2 <= gap_ms <= _LONGEST_WINDOW_MS else None

    def accepted(self, m: re.Match[bytes], at: At) -> None:
        """``session=3, input_tokens=630, max_new_tokens=512, prep=True``."""
        name = m["id"].decode()
        if self._open.pop(name, None) is not None:
            self.process.counts.incomplete_requests += 1
        self._open[name] = at, _time(m["time"])
        if len(self._open) > _MOST_OPEN:
            self._open.pop(next(iter(self._open)))
            self.process.counts.incomplete_requests += 1

    def finished(self, m: re.Match[bytes], at: At) -> None:
        """``session 3 finished, reason "stop", input_tokens 630, output_tokens 32``."""
        name, reason = m["id"].decode(), text(m["reason"])
        first, accepted = self._open.pop(name, (at, None))
        if reason == "abort":
            self.process.counts.aborted_requests += 1
            self.process.event(_ENGINE, at, "aborted", "aborted before it was done", request_id=name)
            return
        done = _time(m["time"])
        self.process.emit(
            Request(
                line=at.number,
                engine=_ENGINE,
                request_id=name,
                started_at=accepted and (first.time or accepted),
                finished_at=at.time or done,
                prompt_tokens=int(m["prompt"]),
                output_tokens=int(m["output"]),
                total_ms=elapsed_ms(accepted, done),
                finish_reason=reason,
                first_line=first.number,
                offset=first.offset,
            )
        )

    def failed(self, m: re.Match[bytes], at: At) -> None:
        """``session 3 finished, ResponseType.INTERNAL_ENGINE_ERROR, reason "error"``."""
        self._open.pop(m["id"].decode(), None)
        self.process.counts.failed_requests += 1
        self.process.event(_ENGINE, at, "error", "the engine gave up on it", request_id=m["id"].decode())

    def close(self) -> None:
        """The source or the process ends here; requests that were only accepted were cut off."""
        self.process.counts.incomplete_requests += len(self._open)
        self._open.clear()


def _time(printed: bytes) -> datetime | None:
    """The line's own clock, which names no zone and is taken as UTC."""
    try:
        return datetime.fromisoformat(printed.decode("ascii").replace(",", ".")).replace(tzinfo=UTC)
    except ValueError:
        return None


FORMAT = Format(
    engine=_ENGINE,
    title="LMDeploy",
    versions="0.9 and newer (--enable-metrics, --log-level INFO)",
    grain="interval",
    identify=(b"Avg thr (in/out): ", b" - lmdeploy - "),
    lines=LINES,
    reader=LmdeployReader,
    splits="none: a label for each window; totals of requests",
    ends=("aborted", "failed", "incomplete"),
)
