"""The requests as a page shows them: one table that the page lists and its charts draw."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl

from rules.attribution import PHASES
from rules.fits import CONTEXT_TOKENS
from rules.measures import FEW
from rules.samples import IS_VALID_DECODE, IS_VALID_PREFILL

if TYPE_CHECKING:
    from rules.measures import Measures

MOST_ROWS, MOST_POINTS = 10_000, 1_500
"""What a page lists, and what a chart draws; of more requests a sample."""

SLOWEST_OF_SAMPLE = 0.1
"""The part of a sample that its slowest requests take; the rest is spread evenly over the log."""

_SEED = 1
_CLOCKED = 0.9
"""A clock that places fewer of the requests is no axis for all."""

Clock = Literal["utc", "process", "order"]

WORDS = ("source", "engine", "model", "kind")
"""Columns of few distinct texts: one that is the same in every row is left out."""

COLUMNS = (
    "number",
    *WORDS,
    "line",
    "id",
    "slot",
    "at",
    "prompt",
    "cached",
    "evaluated",
    "output",
    "queue_ms",
    "load_ms",
    "prefill_ms",
    "decode_ms",
    "other_ms",
    "ttft_ms",
    "total_ms",
    "prefill_tok_s",
    "decode_tok_s",
    "depth",
    "ms_token",
)
"""What a page holds of each request."""

_PHASES_MS = [f"{phase}_ms" for phase in PHASES]
_GENERATES = pl.col("kind") == "generation"
DERIVED = {
    "other_ms": pl.when(pl.any_horizontal(pl.col(_PHASES_MS).is_not_null())).then(
        (pl.col("total_ms") - pl.sum_horizontal(_PHASES_MS)).clip(0.0)
    ),
    "prefill_tok_s": pl.when(_GENERATES & IS_VALID_PREFILL).then(
        1000 * pl.col("prefill_tokens") / pl.col("prefill_ms")
    ),
    "decode_tok_s": pl.when(_GENERATES & IS_VALID_DECODE).then(
        1000 * pl.col("decode_steps") / pl.col("decode_ms")
    ),
}
"""What follows from a request's own columns: time that no phase explains, and rates of valid samples."""

_DIGITS = 5
_RENAMED = {
    "request_id": "id",
    "prompt_tokens": "prompt",
    "cached_tokens": "cached",
    "output_tokens": "output",
}


@dataclass(frozen=True)
class Rows:
    """One log's requests for a page.

    Attributes:
        m: the log's measures.
    """

    m: Measures

    @cached_property
    def requests(self) -> pl.DataFrame:
        """Each request, in the log's order, with what is derived from it.

        ``at`` is when it began as `begins` says: ms since 1970 or since the process started (see `clock`),
        else null.
        ``prefill_tok_s`` and ``decode_tok_s`` are of valid samples only; ``depth`` and ``ms_token`` of
        answers that tell of the machine: such as ran alone, where any did.
        """
        rows = self.m.requests.filter(pl.col("kind") != "benchmark").with_row_index("number", offset=1)
        telling = self.telling.select("source", "line", telling=pl.lit(value=True)).unique()
        return (
            rows.join(telling, on=["source", "line"], how="left", maintain_order="left")
            .with_columns(
                **DERIVED,
                at=self._arrival(),
                depth=pl.when("telling").then(CONTEXT_TOKENS),
                ms_token=pl.when("telling").then(pl.col("decode_ms") / pl.col("decode_steps")),
            )
            .rename({**_RENAMED, "prefill_tokens": "evaluated"})
        )

    @cached_property
    def telling(self) -> pl.DataFrame:
        """Answers whose time per token is drawn against their context."""
        return self.m.decoding.alone if self.alone else self.m.valid_decode

    @property
    def alone(self) -> bool:
        """Whether enough answers ran alone to draw only those."""
        return self.m.decoding.alone.height >= FEW

    @cached_property
    def clock(self) -> Clock:
        """Which clock places the requests: the wall clock, the process's own, or only their order."""
        rows = self.m.requests.filter(pl.col("kind") != "benchmark")
        enough = max(_CLOCKED * rows.height, 1)
        if rows.select(_utc_ms()).to_series().count() >= enough:
            return "utc"
        one_process = rows.select(pl.struct("source", "run").n_unique()).item() == 1
        return "process" if one_process and rows["clock_start_ms"].count() >= enough else "order"

    @cached_property
    def slot_first(self) -> bool:
        """Whether the first that is logged of every request is that a slot took it."""
        return self.m.generations["ttft_from"].drop_nulls().unique().to_list() == ["slot"]

    @property
    def begins(self) -> str:
        """What happened to a request at its time ``at``."""
        return "taken by a slot" if self.slot_first else "arrived"

    def _arrival(self) -> pl.Expr:
        by_clock = {"utc": _utc_ms(), "process": pl.col("clock_start_ms"), "order": pl.lit(None, pl.Float64)}
        return by_clock[self.clock]

    @cached_property
    def listed(self) -> pl.DataFrame:
        """The requests of the page's table: all, or a sample."""
        return self._sampled(self.requests, MOST_ROWS)

    @cached_property
    def drawn(self) -> pl.DataFrame:
        """The requests that charts draw as points: of those listed."""
        return self._sampled(self.listed, MOST_POINTS)

    def columns(self) -> dict[str, list[Any]]:
        """The listed requests by column, rounded; columns that tell nothing are left out."""
        rows = _rounded(self.listed.select(COLUMNS))
        telling = (
            name
            for name in COLUMNS
            if rows[name].count() and not (name in WORDS and rows[name].n_unique() == 1)
        )
        return {name: rows[name].to_list() for name in telling}

    def drawn_records(self) -> list[dict[str, Any]]:
        """The drawn requests row by row, as the charts' data."""
        rows = _rounded(self.drawn.select(COLUMNS)).to_dicts()
        return [{**row, "at_said": said(row["at"])} for row in rows] if self.clock == "utc" else rows

    def drawn_places(self) -> list[int] | None:
        """Where the drawn requests are among the listed; ``None`` where they are the same."""
        if self.drawn.height == self.listed.height:
            return None
        drawn = self.listed["number"].is_in(self.drawn["number"].implode())
        return [int(place) for place in drawn.arg_true()]

    @staticmethod
    def _sampled(rows: pl.DataFrame, most: int) -> pl.DataFrame:
        """The slowest rows, and of each equally long stretch of the others one by chance, always the same."""
        if rows.height <= most:
            return rows
        slowest = rows["total_ms"].fill_null(-1.0).arg_sort(descending=True)[: int(SLOWEST_OF_SAMPLE * most)]
        kept = np.zeros(rows.height, dtype=bool)
        kept[slowest.to_numpy()] = True
        others = np.flatnonzero(~kept)
        edges = np.linspace(0, others.size, most - slowest.len() + 1).astype(np.int64)
        kept[others[np.random.default_rng(_SEED).integers(edges[:-1], edges[1:])]] = True
        return rows.filter(pl.Series(kept))


def said(at_ms: float | None) -> str | None:
    """``2026-11-29 19:39:17``."""
    return None if at_ms is None else f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def _rounded(rows: pl.DataFrame) -> pl.DataFrame:
    """Times with as many digits as anybody reads; those on a clock to the millisecond."""
    floats = [name for name, dtype in rows.schema.items() if dtype == pl.Float64 and name != "at"]
    return rows.with_columns(pl.col(floats).round_sig_figs(_DIGITS), pl.col("at").round(0))


def _utc_ms() -> pl.Expr:
    began = pl.coalesce(
        pl.col("started_at").dt.epoch("us") / 1000,
        pl.col("finished_at").dt.epoch("us") / 1000 - pl.col("total_ms"),
    )
    return pl.coalesce(began, pl.col("finished_at").dt.epoch("us") / 1000)
