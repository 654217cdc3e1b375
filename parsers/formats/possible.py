"""Which numbers a row may hold: one that no engine can mean is text, cut or quoted."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from parsers.records import Aggregate, Event, Interval, Request

if TYPE_CHECKING:
    from parsers.records import Row

LARGEST = float(1 << 53)
"""No count and no time in ms is larger: from here on a float skips whole numbers, and a sum may overflow."""

LONGEST_MS = 31 * 86_400_000.0
"""No request and no window takes a month: a larger number is a time of day."""

_ROUNDING, _ROUNDING_MS = 1.02, 10.0
"""How far a part may be over its whole: what printing seconds with two digits makes of them."""

_TIMES = {
    Request: ("prefill_ms", "decode_ms", "queue_ms", "load_ms", "ttft_ms", "total_ms"),
    Interval: ("span_ms",),
    Event: (),
    Aggregate: tuple(f"{name}_p{percent}_ms" for name in ("ttft", "tpot") for percent in (50, 90, 95, 99)),
}
"""Times of one request or window."""

_NUMBERS = {
    Request: (
        *("prompt_tokens", "cached_tokens", "prefill_tokens", "output_tokens", "decode_steps", "slot"),
        *("context_tokens", "draft_tokens", "accepted_tokens", "clock_start_ms", "clock_end_ms"),
    ),
    Interval: (
        *("prefill_tokens", "cached_tokens", "decode_tokens", "prefill_tok_s", "decode_tok_s"),
        *("running", "waiting", "kv_usage", "prefix_hit_rate", "accept_length"),
    ),
    Event: ("slot", "value"),
    Aggregate: (
        *("span_ms", "requests", "prompt_tokens", "cached_tokens", "prefill_tokens", "output_tokens"),
        *("queue_ms", "prefill_ms", "decode_ms", "other_ms", "total_ms", "ttft_ms", "ttft_requests"),
        "decode_steps",
    ),
}
"""Counts, rates, clocks, and sums of times."""

_LIMITS = {
    row_type: [
        *((name, LONGEST_MS) for name in _TIMES[row_type]),
        *((name, LARGEST) for name in _NUMBERS[row_type]),
    ]
    for row_type in _NUMBERS
}
_VALUES = {row_type: attrgetter(*(name for name, _ in limits)) for row_type, limits in _LIMITS.items()}
_LEAST = {Request: 0.0, Interval: 0.0, Event: -LARGEST, Aggregate: 0.0}


def are_parts(parts_ms: Any, total_ms: Any) -> Any:
    """Whether parts can be of this total, but for rounding; of numbers, or of arrays of them."""
    return parts_ms <= total_ms * _ROUNDING + _ROUNDING_MS


def is_possible(value: object) -> bool:
    """False for a number that no engine can mean: it is text, cut or quoted."""
    return not isinstance(value, (int, float)) or -LARGEST <= value <= LARGEST


def leave_out_impossible(row: Row) -> int:
    """Make unknown what can't be, and what contradicts each other.

    Returns:
        How many values that were.
    """
    names: list[str] = []
    least = _LEAST[type(row)]
    for value in _VALUES[type(row)](row):
        if value is not None and not least <= value <= LONGEST_MS:  # the least of the limits
            names = _impossible(row)
            break
    for name in names:
        setattr(row, name, None)
    if isinstance(row, Request) and (groups := _contradicting(row)):
        for name in {name for group in groups for name in group}:
            setattr(row, name, None)
        if row.ttft_ms is None:
            row.ttft_from = None
        return len(names) + len(groups)
    return len(names)


def _impossible(row: Row) -> list[str]:
    least = _LEAST[type(row)]
    values = _VALUES[type(row)](row)
    return [
        name
        for (name, most), value in zip(_LIMITS[type(row)], values, strict=True)
        if value is not None and not least <= value <= most
    ]


def _contradicting(row: Request) -> list[tuple[str, ...]]:
    """Values of which one must be wrong: parts larger than their whole, an end before the start."""
    groups: list[tuple[str, ...]] = []
    if (prompt := row.prompt_tokens) is not None:
        if row.cached_tokens is not None and row.cached_tokens > prompt:
            groups.append(("cached_tokens", "prompt_tokens"))
        if row.prefill_tokens is not None and row.prefill_tokens > prompt:
            groups.append(("prefill_tokens", "prompt_tokens"))
    ttft_ms, total_ms = row.ttft_ms, row.total_ms
    if total_ms is not None:
        if not are_parts((row.prefill_ms or 0.0) + (row.decode_ms or 0.0), total_ms):
            of_prefill = ("ttft_ms",) if row.ttft_from == "slot" else ()
            groups.append(("prefill_ms", "decode_ms", "total_ms", *of_prefill))
        elif ttft_ms is not None and not are_parts(ttft_ms, total_ms):
            groups.append(("ttft_ms", "total_ms"))
    if row.started_at is not None and row.finished_at is not None and row.started_at > row.finished_at:
        groups.append(("started_at", "finished_at"))
    return groups
