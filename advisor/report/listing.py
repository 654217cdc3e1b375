"""The table of all requests: its columns, its data, and the first page for a browser without scripts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from advisor.report.page import VISIBLE
from advisor.report.rows import MOST_POINTS, WORDS, said
from rules.lines import MOST_SAMPLES
from rules.words import count

if TYPE_CHECKING:
    from advisor.report.rows import Rows

PAGE_ROWS = 50

_LABELS = {
    "number": "#",
    "at": "arrived",
    "engine": "engine",
    "model": "model",
    "kind": "kind",
    "prompt": "prompt",
    "cached": "cached",
    "evaluated": "evaluated",
    "output": "output",
    "ttft_ms": "TTFT s",
    "total_ms": "total s",
    "queue_ms": "queue s",
    "load_ms": "load s",
    "prefill_ms": "prefill s",
    "decode_ms": "decode s",
    "other_ms": "other s",
    "prefill_tok_s": "prefill tok/s",
    "decode_tok_s": "decode tok/s",
    "source": "log",
    "line": "line",
    "slot": "slot",
    "id": "id",
}
"""Tokens have no unit: they are what a prompt is counted in."""


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes:
        name: of the data.
        label: its heading.
        kind: how a cell is written: ``text``, ``count``, ``seconds`` (from ms), ``rate`` or ``time``.
    """

    name: str
    label: str
    kind: str


@dataclass(frozen=True)
class Listing:
    """The table of one log's requests."""

    rows: Rows

    @cached_property
    def _values(self) -> dict[str, list[Any]]:
        return self.rows.columns()

    @cached_property
    def columns(self) -> list[Column]:
        """Those that tell something."""
        unit = "" if self.rows.clock == "utc" else ", s" if self.rows.slot_first else " s"
        labels = _LABELS | {"at": f"{self.rows.begins}{unit}"}
        return [
            Column(name, label, self._kind(name))
            for name, label in labels.items()
            if name in self._values and name not in self._dull
        ]

    @property
    def _dull(self) -> set[str]:
        """Columns that repeat what others say: one slot, the whole prompt, a remainder that is rounding."""
        rows = self.rows.requests
        other, total = (float(rows[name].sum()) for name in ("other_ms", "total_ms"))
        dull = {
            "slot": rows["slot"].n_unique() == 1,
            "evaluated": rows.select(_repeats_prompt().all()).item(),
            "other_ms": other <= VISIBLE * total,
        }
        return {name for name, is_dull in dull.items() if is_dull}

    def _kind(self, name: str) -> str:
        if name in WORDS or name == "id":
            return "text"
        if name == "at":
            return "time" if self.rows.clock == "utc" else "seconds"
        return "seconds" if name.endswith("_ms") else "rate" if name.endswith("_s") else "count"

    @property
    def shown(self) -> int:
        """Requests in the table."""
        return self.rows.listed.height

    @property
    def of(self) -> int:
        """Requests in the log."""
        return self.rows.requests.height

    @property
    def sampled(self) -> str:
        """What is a sample, and how it was taken; empty where everything is there."""
        said = ""
        if self.shown < self.of:
            said = f"The table lists {count(self.shown)} of {count(self.of)} requests"
        if self.rows.drawn.height < self.shown:
            points = f"charts draw {count(MOST_POINTS)} of {count(self.of)} requests as points"
            said = f"{said}, and {points}" if said else points.capitalize()
        numbers = "Numbers and fits are of all requests."
        if self.of > MOST_SAMPLES:
            numbers = f"Numbers are of all requests, fits of {count(MOST_SAMPLES)} spread over the log."
        how = f"the slowest, and others spread evenly over the log. {numbers}"
        return f"{said}: {how}" if said else ""

    def first_page(self) -> list[list[str]]:
        """The first rows in words."""
        columns = [(column, self._values[column.name][:PAGE_ROWS]) for column in self.columns]
        return [[cell(values[row], column.kind) for column, values in columns] for row in range(self.head)]

    @property
    def head(self) -> int:
        """Rows on the first page."""
        return min(PAGE_ROWS, self.shown)

    def data(self) -> dict[str, Any]:
        """What the scripts of the page read."""
        return {
            "columns": [{"name": c.name, "label": c.label, "kind": c.kind} for c in self.columns],
            "values": {name: _packed(name, values) for name, values in self._values.items()},
            "drawn": self.rows.drawn_places(),
            "clock": self.rows.clock,
            "page": PAGE_ROWS,
        }


def _repeats_prompt() -> pl.Expr:
    evaluated = pl.col("evaluated")
    return evaluated.is_null() | evaluated.eq_missing(pl.col("prompt"))


def _packed(name: str, values: list[Any]) -> object:
    """A column; of few distinct texts each text once."""
    if name not in WORDS:
        return values
    words = list(dict.fromkeys(values))
    places = {word: place for place, word in enumerate(words)}
    return {"words": words, "places": [places[value] for value in values]}


def cell(value: Any, kind: str) -> str:
    """A cell in words, as `table.js` writes it."""
    if value is None:
        return ""
    match kind:
        case "text":
            return str(value)
        case "time":
            return said(value) or ""
        case "seconds":
            return _seconds(value / 1000)
        case "rate":
            return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
    return f"{value:,}"


def _seconds(value: float) -> str:
    if 0 < value < 0.005:
        return "<0.01"
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
