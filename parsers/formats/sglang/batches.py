"""Batch lines, and which of their rates mean a speed.

``gen throughput`` is tokens over the time since the decode line before: it holds every prefill and every
pause in between. A pause is only possible where no request ran, and there the next work is a prefill batch
with ``#running-req: 0``. So a decode line gives its rate unless such a prefill came in between, or no decode
line is known before it; where other prefills came in between, the line is `mixed`. A decode server without
prefills (disaggregated) shows no pauses, so its rate is never given.

``input throughput`` divides by the time since the prefill line before, pauses included. Some versions divide
the tokens of the batch before (0.5.4 to 0.5.9), some print when a batch is launched, and launch the second
while the first still runs (up to 0.5.6). All of them mean the same from the third full chunk of a chunked
prompt on: full chunks follow each other without a pause.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from parsers.formats.base import integer, line, number
from parsers.formats.sglang.record import HEAD
from parsers.records import Interval

if TYPE_CHECKING:
    from datetime import datetime

    from parsers.formats.base import At

PREFILL = line(
    "prefill", b"Prefill batch", HEAD + rb"Prefill batch(?: \[\d+\])?[.,] (?P<fields>#new-seq: \d.*)"
)
DECODE = line(
    "decode", b"Decode batch", HEAD + rb"Decode batch(?: \[\d+\])?[.,] (?P<fields>#running-req: \d.*)"
)

_VALUE = rb": (-?\d++(?:\.\d++)?+|True|False)%?+"
_FIELD = re.compile(rb", (#?[a-z][\w /()-]*+)" + _VALUE + rb"(?=,(?!\d)|[ \r]|$)")
_GRAPH_USED = {b"True": True, b"False": False}
_USAGES = (b"token usage", b"full token usage", b"swa token usage", b"gpu token usage")
_TICK_MS = 1_000.0
_FEWEST_TICKS = 5
_SETTLED_CHUNKS = 3


class Fields:
    """Reads the numbers and truths of one kind of batch lines: whichever of the optional ones they have.

    A server's lines have the same ones in the same order, so the next is tried as the ones before. A pattern
    for them is made once two lines agree, and only so often: it takes longer than many lines.
    """

    MOST_NAMES, MOST_PATTERNS = 32, 16

    def __init__(self) -> None:
        self._names: tuple[bytes, ...] = ()
        self._agreed = False
        self._made = 0

    def of(self, m: re.Match[bytes]) -> dict[bytes, bytes]:
        """What a line says, by its name for it."""
        text = m["fields"]
        if self._agreed and (same := _like(self._names).fullmatch(text)):
            return dict(zip(self._names, same.groups(), strict=False))
        found = _FIELD.findall(b", " + text)
        names = tuple(name for name, _ in found)
        agree = names == self._names and len(names) <= self.MOST_NAMES
        self._made += agree and not self._agreed
        self._names, self._agreed = names, agree and self._made <= self.MOST_PATTERNS
        return dict(found)


@lru_cache(maxsize=256)
def _like(names: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """What lines match that have these fields in this order, and nothing else."""
    return re.compile(b", ".join(re.escape(name) + _VALUE for name in names))


def graph_used(found: dict[bytes, bytes]) -> bool | None:
    """Whether a batch line says that it ran as a CUDA graph; a batch too big for the graphs does not."""
    return _GRAPH_USED.get(found.get(b"cuda graph", b""))


@dataclass(slots=True)
class Batches:
    """What the lines of one replica said so far.

    Attributes:
        chunk_tokens: ``chunked_prefill_size``, when the log has stated it.
        mixes: ``--enable-mixed-chunk``: prefill batches decode as well.
        lines: how many there were.
    """

    chunk_tokens: int | None = None
    mixes: bool = False
    lines: int = 0
    _full_chunks: int = 0
    _decoded_at: datetime | None = None
    _decoded: bool = False
    _prefilled: bool = False
    _paused: bool = False

    def prefill(self, found: dict[bytes, bytes], at: At, time: datetime | None) -> Interval:
        """The row of a prefill batch."""
        self.lines += 1
        row = _row(found, at, time, "prefill_batch")
        row.phase = "mixed" if self.mixes and row.running else "prefill"
        row.prefill_tokens = integer(found.get(b"#new-token"))
        row.cached_tokens = integer(found.get(b"#cached-token"))
        rate = number(found.get(b"input throughput (token/s)"))
        full = row.prefill_tokens is not None and row.prefill_tokens == self.chunk_tokens
        self._full_chunks = self._full_chunks + 1 if full else 0
        if rate and row.prefill_tokens and self._full_chunks >= _SETTLED_CHUNKS:
            row.prefill_tok_s = rate
            row.span_ms = round(1000 * row.prefill_tokens / rate, 3)
        self._prefilled = True
        self._paused = self._paused or not row.running
        return row

    def decode(self, found: dict[bytes, bytes], at: At, time: datetime | None) -> Interval:
        """The row of a decode line."""
        self.lines += 1
        row = _row(found, at, time, "decode_batch")
        row.accept_length = number(found.get(b"accept len"))
        if not self._decoded:
            row.phase = "unknown"
        elif b"pre-allocated usage" in found:
            row.phase = "decode"
        else:
            row.phase = "mixed" if self._prefilled else "decode"
            if not self._paused:
                row.decode_tok_s = number(found.get(b"gen throughput (token/s)"))
                row.span_ms = _span_ms(self._decoded_at, time)
        self._decoded, self._decoded_at = True, time
        self._prefilled = self._paused = False
        self._full_chunks = 0
        return row


def _row(found: dict[bytes, bytes], at: At, time: datetime | None, kind: str) -> Interval:
    """What both kinds of lines have."""
    hit_rate = number(found.get(b"cache hit rate"))
    return Interval(
        line=at.number,
        engine="sglang",
        time=time,
        kind=kind,
        running=integer(found.get(b"#running-req")),
        waiting=integer(found.get(b"#queue-req")),
        kv_usage=_fullest(found),
        prefix_hit_rate=None if hit_rate is None else round(hit_rate / 100, 6),
    )


def _fullest(found: dict[bytes, bytes]) -> float | None:
    """How full the KV cache is: of several pools the fullest counts, as it does for the scheduler."""
    fullest: float | None = None
    for pool in _USAGES:
        if pool in found and (usage := number(found[pool])) is not None and (fullest or 0) <= usage <= 1:
            fullest = usage
    return fullest


def _span_ms(before: datetime | None, now: datetime | None) -> float | None:
    """The time between two lines; a clock of whole seconds must have ticked 5 times."""
    if before is None or now is None or now <= before:
        return None
    gap_ms = (now - before).total_seconds() * 1000
    whole_seconds = not (before.microsecond or now.microsecond)
    return None if whole_seconds and gap_ms < _FEWEST_TICKS * _TICK_MS else gap_ms
