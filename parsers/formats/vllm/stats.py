"""The throughput line: what vLLM did in the window since the line before.

Both rates are tokens over the whole window, idle time included: a duty cycle, not a speed. Prompt tokens
are credited at once, in the step that makes the request's first token; up to 0.14 those that came from the
prefix cache are among them, from 0.17 on only computed ones are. Requests running and waiting and the
KV cache in use are those of the moment of printing; the prefix hit rate is over vLLM's own longer memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parsers.formats.base import line, number
from parsers.records import Interval

if TYPE_CHECKING:
    from datetime import datetime

    from parsers.formats.base import At

_STATS = rb"(?:(?P<label>Engine \d+|\d+ Engines Aggregated): )?(?P<fields>Avg prompt throughput: [\dni].*)"
STATS = line("stats", b"Avg prompt throughput: ", _STATS)
BARE_STATS = line("bare_stats", b"Avg prompt throughput: ", rb"(?:INFO: +)?" + _STATS)
"""At the very start of a line it needs no head: users make log formats of their own, and so did Aphrodite."""

ADDED = (
    line("hit_rate", b"Prefix cache hit rate: GPU: ", rb"Prefix cache hit rate: GPU: (?P<rate>-?[\d.]+)%"),
    line(
        "speculation",
        b"SpecDecoding metrics: ",
        rb"SpecDecoding metrics: Mean acceptance length: (?P<length>[\w.]+)",
    ),
    line(
        "speculation_v0",
        b"Speculative metrics: ",
        rb"Speculative metrics: Draft acceptance rate: [\w.]+, System efficiency: (?P<efficiency>[\w.]+), "
        rb"Number of speculative tokens: (?P<most>\d{1,12}), Number of accepted tokens: \d+, "
        rb"Number of draft tokens: (?P<drafted>\d{1,15}), Number of emitted tokens: (?P<emitted>\d{1,15})",
    ),
)
"""Lines that follow a stats line and belong to it: V0's prefix cache, and speculation.

V1 of 0.8 says ``SpecDecoding metrics: Draft acceptance rate: ...`` without a length: none follows, since a
draft may be shorter than the longest.
"""

DEFAULT_WINDOW_MS = 10_000.0
"""``VLLM_LOG_STATS_INTERVAL`` of V1 where nothing else is said; V0 prints every 5 s."""

_LONGEST_WINDOW = 1.5
"""Times the usual one."""
_TICK_MS = 1_000.0
_FEWEST_TICKS = 5

_FIELD = re.compile(rb"(?:^|, )([A-Za-z][A-Za-z ]*): (-?\d+(?:\.\d+)?|nan|inf)(?![.,]?\d|\w)")


def fields(message: bytes) -> dict[bytes, bytes]:
    """The ``key: number`` pairs of a stats message, whichever of the optional ones it has."""
    return dict(_FIELD.findall(message))


def share(percent: bytes | None) -> float | None:
    """A printed percentage as 0-1; ``None`` outside that."""
    value = number(percent)
    return round(value / 100, 6) if value is not None and 0 <= value <= 100 else None


def count(printed: bytes | None) -> int | None:
    """A printed count; ``None`` where there is none."""
    return int(printed) if printed is not None and printed.isdigit() else None


def window(found: dict[bytes, bytes], at: At) -> Interval:
    """The row of a stats line, before its span and phase.

    V0 prints two KV caches, ``GPU`` first; its ``CPU`` is swap space. V1 names the device it runs on.
    """
    kv = next((value for key, value in found.items() if key.endswith(b"KV cache usage")), None)
    return Interval(
        line=at.number,
        engine="vllm",
        time=at.time,
        kind="window",
        prefill_tok_s=number(found.get(b"Avg prompt throughput")),
        decode_tok_s=number(found.get(b"Avg generation throughput")),
        running=count(found.get(b"Running")),
        waiting=count(found.get(b"Waiting", found.get(b"Pending"))),
        kv_usage=share(kv),
        prefix_hit_rate=share(found.get(b"Prefix cache hit rate")),
    )


def phase(row: Interval) -> str:
    """What a window was spent on, as far as its line tells.

    The first that holds:

    - `unknown`: a rate or the number of running requests is missing;
    - `queue`: requests wait, and at least as many wait as run;
    - `prefill`: prompt tokens came in and no more tokens were generated than requests run: the first token
      of each is made by its prefill. Or none came in, and fewer tokens were generated than requests run: a
      long prompt is read, whose tokens are credited at its end, and decoding waits for it. Where the span
      is unknown, 10 s are taken, which errs towards the two below;
    - `mixed`: both rates are above 0;
    - `decode`: only tokens were generated (a long prompt may still be in the works beside them);
    - `idle`: nothing runs, nothing waits, nothing was done.
    """
    prompt, generated, running = row.prefill_tok_s, row.decode_tok_s, row.running
    if prompt is None or generated is None or running is None:
        return "unknown"
    if row.waiting and row.waiting >= running:
        return "queue"
    tokens = generated * (row.span_ms or DEFAULT_WINDOW_MS) / 1000
    if prompt > 0:
        return "prefill" if tokens <= running else "mixed"
    if tokens < running:
        return "prefill"
    return "decode" if generated > 0 else "idle"


@dataclass(slots=True)
class Speculation:
    """The tokens that V0 drafted and emitted since it started: the difference to the line before counts."""

    drafted: int = 0
    emitted: int = 0

    def accept_length(self, m: re.Match[bytes]) -> float | None:
        """Tokens that a step made, its own included; ``None`` where nothing was drafted.

        Each step drafts the same number of tokens; where the sum is no multiple of it, this is not so. The
        first V1 engines print the window's own sums and an efficiency of ``nan``.
        """
        drafted, emitted, most = int(m["drafted"]), int(m["emitted"]), int(m["most"])
        new_drafted, new_emitted = drafted, emitted
        if m["efficiency"] != b"nan":
            if drafted >= self.drafted and emitted >= self.emitted:
                new_drafted, new_emitted = drafted - self.drafted, emitted - self.emitted
            self.drafted, self.emitted = drafted, emitted
        if not new_drafted or not most or new_drafted % most:
            return None
        return round(new_emitted * most / new_drafted, 3)


@dataclass(slots=True)
class Cadence:
    """When one engine printed, so that a gap between two lines can be told from a window.

    An idle V1 engine drops to the DEBUG level and prints nothing, but only after a line with both rates 0:
    after a busy line none can be missing, after a quiet one some may. So a gap is a window when

    - the line before was busy, and the gap is at most 1.5 times the default 10 s, or as long as the gap
      after the busy line before that (a longer ``VLLM_LOG_STATS_INTERVAL``);
    - the line before was quiet, and the gap is at most 1.5 times the last window after a busy line.

    A clock that ticks in whole seconds, as vLLM's own does, must have ticked 5 times.
    """

    time: datetime | None = None
    busy: bool = False
    busy_gap_ms: float | None = None
    window_ms: float | None = None

    def span_ms(self, time: datetime | None, *, busy: bool) -> float | None:
        """Length of the window that a line printed at ``time`` closes; ``None`` when it can't be told."""
        before, was_busy = self.time, self.busy
        self.time, self.busy = time, busy
        if time is None or before is None or time <= before:
            return None
        gap_ms = (time - before).total_seconds() * 1000
        is_window = self._after_busy(gap_ms) if was_busy else self._after_quiet(gap_ms)
        whole_seconds = not (time.microsecond or before.microsecond)
        return gap_ms if is_window and not (whole_seconds and gap_ms < _FEWEST_TICKS * _TICK_MS) else None

    def _after_busy(self, gap_ms: float) -> bool:
        repeats = self.busy_gap_ms is not None and abs(gap_ms - self.busy_gap_ms) <= _TICK_MS
        self.busy_gap_ms = gap_ms
        if repeats or gap_ms <= _LONGEST_WINDOW * DEFAULT_WINDOW_MS:
            self.window_ms = gap_ms
            return True
        return False

    def _after_quiet(self, gap_ms: float) -> bool:
        return self.window_ms is not None and gap_ms <= _LONGEST_WINDOW * self.window_ms
