"""The columns of the requests: what each says of a row, and which of them a log and a width leave."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.cells import cell_len, set_cell_size

from advisor.live.history import PLACED_AT
from advisor.report.listing import cell
from advisor.tui.requests.order import PLACE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Row = Mapping[str, Any]

UNKNOWN = "?"
LEAST_BAR, GOOD_BAR = 12, 24
"""What a bar needs, and what it should have before columns that tell little are shown."""

_DAY = timedelta(hours=23)
_GAP = 1


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        name: of the frame's column that it shows and is sorted by.
        title: its heading.
        width: in cells.
        say: a row's cell.
        is_text: it begins at the left and is sorted upwards first.
        missing: how a log that never tells it is said to lack it; empty if that needs no word.
    """

    name: str
    title: str
    width: int
    say: Callable[[Row], str]
    is_text: bool = False
    missing: str = ""

    def cell(self, row: Row) -> str:
        """A row's cell, as wide as the column."""
        return fitted(self.say(row), self.width, left=self.is_text)


def fitted(text: str, width: int, *, left: bool) -> str:
    """A text in so many cells, with an ellipsis where it is too long."""
    size = cell_len(text)
    if size > width:
        return f"{set_cell_size(text, max(width - 1, 0))}…"[: max(width, 0)]
    return text + " " * (width - size) if left else " " * (width - size) + text


def _amount(name: str, kind: str) -> Callable[[Row], str]:
    """A number as the report's table writes it; what a request that generates nothing lacks is no gap."""

    def say(row: Row) -> str:
        return cell(row[name], kind) or (UNKNOWN if row["kind"] == "generation" else "")

    return say


def _rate(name: str) -> Callable[[Row], str]:
    """Empty where the sample is too small to tell."""
    return lambda row: cell(row[name], "rate")


def _text(name: str) -> Callable[[Row], str]:
    return lambda row: str(row[name]) if row[name] is not None else UNKNOWN


def _ending(text: str, width: int) -> str:
    """The end of a path, which tells more than its begin."""
    while cell_len(text) > width:
        text = f"…{text[2:]}" if text.startswith("…") else f"…{text[1:]}"
    return text


def _time(form: str) -> Callable[[Row], str]:
    def say(row: Row) -> str:
        at: datetime | None = row[PLACED_AT]
        return UNKNOWN if at is None else f"{at:{form}}"

    return say


_NUMBERS = (
    Column("prompt_tokens", "prompt", 7, _amount("prompt_tokens", "count"), missing="prompt tokens"),
    Column("cached_tokens", "cached", 7, _amount("cached_tokens", "count"), missing="cached tokens"),
    Column("output_tokens", "output", 7, _amount("output_tokens", "count"), missing="output tokens"),
    Column("ttft_ms", "TTFT s", 7, _amount("ttft_ms", "seconds"), missing="time to first token"),
    Column("total_ms", "total s", 8, _amount("total_ms", "seconds"), missing="totals"),
    Column("decode_tok_s", "tok/s", 6, _rate("decode_tok_s")),
)
_PREFILL_RATE = Column("prefill_tok_s", "in tok/s", 9, _rate("prefill_tok_s"))
_WORDS = (
    Column("source", "log", 16, lambda row: _ending(row["source"], 16), is_text=True),
    Column("engine", "engine", 12, _text("engine"), is_text=True),
    Column("model", "model", 18, _text("model"), is_text=True),
)
_SLOT = Column("slot", "slot", 5, _text("slot"))
_ID = Column("request_id", "id", 10, _text("request_id"), is_text=True)
_GROWING = [column.name for column in (*_NUMBERS, _PREFILL_RATE)]
"""Columns that are as wide as their largest number, where that is wider than usual."""

_LEFT_OUT_FIRST = {
    **dict.fromkeys(("prefill_tok_s", "request_id", PLACE), GOOD_BAR),
    **dict.fromkeys(("source", "engine", "model", "cached_tokens", "slot"), LEAST_BAR),
}

SHOWN = [
    *(column.name for column in (*_NUMBERS, _PREFILL_RATE, *_WORDS, _SLOT, _ID)),
    *(f"{phase}_ms" for phase in ("queue", "load", "prefill", "decode", "other")),
    "kind",
    PLACED_AT,
]
"""What the cells and bars of a row are made of."""

SORT_ORDER = ("total_ms", "ttft_ms", *(name for name in SHOWN if name not in {"total_ms", "ttft_ms"}))
"""What to sort by, what matters most first."""

OF_PLACE = {PLACE, PLACED_AT}
"""Columns that say where a request stands: in the order of the log."""


class Facts:
    """What a log's rows tell of its columns, row by row looked at once.

    Attributes:
        differing: columns that are not the same in all rows.
        told: columns that some row tells.
        kinds: of the rows.
        days: whether the rows are of more than one day.
        largest: of the columns that are numbers, the largest number.
    """

    def __init__(self) -> None:
        self.differing: set[str] = set()
        self.told: set[str] = set()
        self.kinds: set[str] = set()
        self.days = False
        self.largest: dict[str, Any] = {}
        self._seen: dict[str, Any] = {}
        self._times: list[datetime] = []

    def add(self, rows: pl.DataFrame) -> None:
        """Look at the next rows."""
        if not rows.height:
            return
        self.told.update(name for name in SHOWN if rows[name].count())
        self.kinds.update(rows["kind"].unique())
        for name in {"source", "engine", "model", "slot"} - self.differing:
            first = self._seen.setdefault(name, rows[name][0])
            if rows[name].ne_missing(first).any():
                self.differing.add(name)
        for name, most in rows.select(pl.col(_GROWING).max()).row(0, named=True).items():
            if most is not None:
                self.largest[name] = max(most, self.largest.get(name, most))
        times = (*self._times, rows[PLACED_AT].min(), rows[PLACED_AT].max())
        known = [time for time in times if isinstance(time, datetime)]
        self._times = [min(known), max(known)] if known else []
        self.days = bool(known) and self._times[1] - self._times[0] > _DAY

    @property
    def noun(self) -> str:
        """What one of the rows is."""
        return "test" if self.kinds == {"benchmark"} else "row" if "benchmark" in self.kinds else "request"

    @property
    def missing(self) -> list[str]:
        """What this log tells of no request."""
        return [column.missing for column in _NUMBERS if column.missing and column.name not in self.told]


def columns(facts: Facts, last: int, width: int) -> list[Column]:
    """Those that tell something and leave the bar some room, in their order.

    Args:
        facts: of the log.
        last: the largest number of a request.
        width: of the table, in cells.
    """
    at = Column(PLACED_AT, "time", *((11, _time("%m-%d %H:%M")) if facts.days else (8, _time("%H:%M:%S"))))
    place = Column(PLACE, "#", max(len(f"{last + 1:,}"), 3), lambda row: f"{row[PLACE] + 1:,}")
    has_clock = PLACED_AT in facts.told
    chosen = [
        *([place] if facts.told else []),
        *([at] if has_clock else []),
        *(column for column in _WORDS if column.name in facts.differing),
        *([_SLOT] if "slot" in facts.differing else []),
        *(_wide(column, facts) for column in (_ID, *_NUMBERS, _PREFILL_RATE) if column.name in facts.told),
    ]
    for name, least in _LEFT_OUT_FIRST.items():
        if bar_width(chosen, width) < least and (name != PLACE or has_clock):
            chosen = [column for column in chosen if column.name != name]
    return chosen


def _wide(column: Column, facts: Facts) -> Column:
    """A column of numbers, none of which is cut."""
    if column.name not in facts.largest:
        return column
    most = column.say({column.name: facts.largest[column.name], "kind": ""})
    return replace(column, width=max(column.width, len(most)))


def bar_width(chosen: list[Column], width: int) -> int:
    """What columns leave the bar."""
    return width - 1 - sum(column.width + _GAP for column in chosen)
