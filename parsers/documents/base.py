"""The shape of a document: a file of JSON that a serving benchmark writes.

A serving benchmark is a client. What it calls time to first token holds the queue, the prefill and the
network together, so `prefill_ms` and `queue_ms` of its rows stay unknown. From the first token to the last is
`decode_ms`, as the client saw it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from parsers.formats.possible import LARGEST
from parsers.records import Aggregate, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from parsers.formats.process import Counts
    from parsers.records import Row

HEAD = 1 << 16
"""How much of a source is looked at before a document claims it."""

_AT_ONCE_MS = 0.01
"""Less than this for each further token: the answer came in one piece, and no first token was seen."""

PERCENTILES = (50, 90, 95, 99)

_ROUNDING = 1e-6
"""How far a mean times its count may be from the whole number that it sums up, as a share of it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLAUSIBLE_S = range(1_500_000_000, 4_000_000_000)
"""Seconds since 1970 that may be when a benchmark of a language model ran."""


@dataclass(frozen=True, slots=True)
class Document:
    """One kind of file.

    Attributes:
        name: what a sentence calls it.
        detect: whether a source that begins with these bytes is one.
        rows: the rows of one record (a document, or an element of one that is an array); it counts what
            failed. Nothing in the record need be of the type that it should be.
        opens: what such a source may begin with, after white space.
    """

    name: str
    detect: Callable[[bytes], bool]
    rows: Callable[[Any, Counts], Iterator[Row]]
    opens: tuple[bytes, ...] = (b"{", b"[")


def has(head: bytes, *keys: str) -> bool:
    """Whether all of these are members of an object near the beginning of a document."""
    return all(re.search(rb'"%s"\s*:' % re.escape(key.encode()), head) for key in keys)


# --- values of decoded JSON, taken only where they are what they should be


def member(value: Any, *path: str) -> Any:
    """What stands at a path of keys; ``None`` where something on the way is no object."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def number(value: Any, *path: str) -> float | None:
    """A finite number that is not negative, also one in quotes; ``None`` for all else."""
    found = member(value, *path) if path else value
    if isinstance(found, str):
        found = _spelled(found)
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        return None
    return float(found) if 0 <= found <= LARGEST else None


def whole(value: Any, *path: str) -> int | None:
    """A whole number that is not negative; ``None`` for all else."""
    found = number(value, *path)
    return int(found) if found is not None and found.is_integer() else None


def text(value: Any, *path: str) -> str | None:
    """A string that is not empty, without what is no character; ``None`` for all else."""
    found = member(value, *path)
    return found.encode("utf-8", "replace").decode() if isinstance(found, str) and found else None


def items(value: Any, *path: str) -> list[Any]:
    """A list; an empty one for all else."""
    found = member(value, *path)
    return found if isinstance(found, list) else []


def _spelled(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


# --- from what a tool states to what a row holds


def ms(seconds: float | None) -> float | None:
    """Seconds as milliseconds, to the microsecond's thousandth."""
    return None if seconds is None else round(1000 * seconds, 6)


def utc(epoch_s: float | None) -> datetime | None:
    """Seconds since 1970, where they can be that: some clocks count from the machine's start."""
    if epoch_s is None or int(epoch_s) not in _PLAUSIBLE_S:
        return None
    return _EPOCH + timedelta(microseconds=round(epoch_s * 1e6))


def total(mean: float | None, count: int | None) -> float | None:
    """What a mean sums up: exact but for the digits that the mean was cut to."""
    return None if mean is None or not count else round(mean * count, 6)


def tokens(mean: float | None, count: int | None) -> int | None:
    """The number of tokens that a mean is of, where the two give a whole one."""
    product = total(mean, count)
    if product is None or abs(product - round(product)) > _ROUNDING * max(product, 1.0):
        return None
    return round(product)


def request(
    engine: str, ttft_ms: float | None, total_ms: float | None, counts: Counts, **more: Any
) -> Request:
    """A request as its client saw it.

    Args:
        engine: the tool.
        ttft_ms: from sending the request to the first piece of the answer; 0 is a default, not a time.
        total_ms: from sending it to the last piece.
        counts: takes note of a first token that comes after the last one.
        more: further columns.
    """
    row = Request(engine=engine, ttft_ms=ttft_ms or None, total_ms=total_ms or None, **more)
    if row.output_tokens is not None:
        row.decode_steps = max(row.output_tokens - 1, 0)
    if row.ttft_ms is not None and row.total_ms is not None:
        decode_ms = round(row.total_ms - row.ttft_ms, 6)
        if _came_at_once(abs(decode_ms), row.decode_steps):
            row.ttft_ms = None
        elif decode_ms < 0:
            counts.impossible_values += 1
            row.ttft_ms = row.total_ms = None
        else:
            row.decode_ms = decode_ms
    row.ttft_from = None if row.ttft_ms is None else "arrival"
    return row


def summary(row: Aggregate, counts: Counts, *, streamed: bool = True) -> Aggregate:
    """Complete a benchmark's sums.

    The decode time is what the totals have beyond the times to first token, where both are of the same
    requests. Where answers were not streamed, what is called a time to first token is the whole time.

    Args:
        row: what the benchmark states.
        counts: takes note of first tokens that come after the last ones.
        streamed: whether there were gaps between pieces of the answers.
    """
    row.kind = "benchmark"
    if row.ttft_requests is None and row.ttft_ms is not None:
        row.ttft_requests = row.requests
    steps = _steps(row)
    told = streamed or not steps
    if row.ttft_ms is not None and row.total_ms is not None and row.ttft_requests == row.requests:
        decode_ms = round(row.total_ms - row.ttft_ms, 6)
        if _came_at_once(abs(decode_ms), steps):
            told = False
        elif decode_ms < 0:
            counts.impossible_values += 1
            row.total_ms, told = None, False
        elif told and (decode_ms > 0 or steps == 0):
            row.decode_ms, row.decode_steps = decode_ms, steps
    if not told:
        row.ttft_ms = row.ttft_requests = None
        for percentile in PERCENTILES:
            setattr(row, f"ttft_p{percentile}_ms", None)
            setattr(row, f"tpot_p{percentile}_ms", None)
    if any(getattr(row, name) is not None for name in ("ttft_ms", *(f"ttft_p{p}_ms" for p in PERCENTILES))):
        row.ttft_from = "arrival"
    return row


def percentiles(row: Aggregate, column: str, of: Callable[[int], float | None]) -> None:
    """Set the percentiles of ``ttft`` or ``tpot``, in ms, as far as they are told."""
    for percentile in PERCENTILES:
        setattr(row, f"{column}_p{percentile}_ms", of(percentile))


def _steps(row: Aggregate) -> int | None:
    """Tokens after each answer's first."""
    if row.output_tokens is None or row.requests is None or row.output_tokens < row.requests:
        return None
    return row.output_tokens - row.requests


def _came_at_once(decode_ms: float, steps: int | None) -> bool:
    return bool(steps) and decode_ms < _AT_ONCE_MS * (steps or 0)
