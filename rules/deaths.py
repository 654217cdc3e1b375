"""Engines that died, or did not start: what their logs say of it.

They tell it as events of kind ``error`` or ``out_of_memory``, whose details begin in one of a few ways; other
errors are of one request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from rules.measures import Measures

NOT_STARTED = "the engine did not start"
NOT_LOADED = "the model could not be loaded"

WAYS = (
    NOT_STARTED,
    NOT_LOADED,
    "the engine died",
    "the server lost its engine",
    "the model's process ended unexpectedly",
)
"""How the detail of such an event begins."""

_KINDS = ("error", "out_of_memory")


def deaths(m: Measures) -> pl.DataFrame:
    """The events that tell of one; of models that could not be loaded only where nothing else was served."""
    ways = [way for way in WAYS if way != NOT_LOADED or not m.generations.height]
    told = pl.any_horizontal(_begins(way) for way in ways)
    return in_order(m.events.filter(pl.col("kind").is_in(_KINDS) & told))


def in_order(events: pl.DataFrame) -> pl.DataFrame:
    """Events in the order in which they happened, as far as several logs tell it."""
    return events.sort("line") if events["source"].n_unique() < 2 else events.sort("time", "source", "line")


def told(m: Measures) -> str:
    """What died, where, when and why, in a sentence or two; empty where nothing did."""
    rows = deaths(m)
    if not rows.height:
        return ""
    several = len({*m.events["source"].unique(), *(s.source for s in m.setups if s.source)}) > 1
    first, last = rows.row(0, named=True), rows.row(-1, named=True)
    text = f"At {_place(first, several=several)} {first['detail']}."
    if rows.height > 1:
        text += f" {rows.height:,} such failures in all; the last, at {_place(last, several=several)}: "
        text += f"{last['detail']}."
    return text


def none_lived(m: Measures) -> bool:
    """Whether each start that was read is one that failed, so that nothing was served."""
    rows = deaths(m)
    failed = pl.any_horizontal(_begins(way) for way in (NOT_STARTED, NOT_LOADED))
    starts = sum(not s.is_empty for s in m.setups)
    return 0 < rows.height == starts and rows.filter(failed).height == rows.height


def _begins(way: str) -> pl.Expr:
    return pl.col("detail").cast(pl.String).str.starts_with(way)


def _place(event: dict[str, Any], *, several: bool) -> str:
    """``line 4 (05-01 14:39:06)``; the log's name too where several were read."""
    at = f"{event['source']}:{event['line']}" if several else f"line {event['line']}"
    return at if event["time"] is None else f"{at} ({event['time']:%m-%d %H:%M:%S})"
