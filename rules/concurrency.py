"""Who ran beside whom: each request's company while it generated, and what the company cost in speed."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from rules.placed import GROUP, resolution_ms

if TYPE_CHECKING:
    from rules.measures import Measures

CURVE_TOKENS = 32
"""Shorter answers tell nothing of a rate."""

CURVE_STALLED = 0.2
"""Of the decode time: where other prompts were read for longer, the time per token is not that of a batch."""

STEADY = 0.1
"""Change in running requests between two windows below which the second ran at one concurrency."""


class Overlap:
    """One log's requests side by side.

    Args:
        m: the log's measures.
    """

    def __init__(self, m: Measures) -> None:
        self._m = m

    @property
    def requests(self) -> pl.DataFrame:
        """The generations with what ran beside them: see `rules.placed`."""
        return self._m.clocked

    @cached_property
    def known(self) -> bool:
        """Whether nearly every generation has its place on a clock, so that "alone" means alone."""
        told = self.requests["alone"].count()
        return told > 0 and told >= 0.9 * self.requests.height

    @cached_property
    def alone(self) -> pl.DataFrame:
        """Generations that nothing ran beside; none where the clock doesn't tell."""
        return self.requests.filter("alone") if self.known else self.requests.clear()

    @property
    def most(self) -> int | None:
        """Most requests that ran at once; ``None`` without a clock fine enough to see any of them run."""
        return self._m.most_at_once

    @cached_property
    def resolution_ms(self) -> float:
        """Pauses below this can't be told from none: a second where times are printed in whole seconds."""
        by_process = self._m.generations["clock_end_ms"].count() > 0
        return 0.0 if by_process else resolution_ms(self._m.generations["finished_at"].drop_nulls())

    @cached_property
    def curve(self) -> pl.DataFrame:
        """What all requests together generated, by how many ran: ``level``, ``samples``, ``tok_s``.

        From requests, each at the mean of what ran beside it, where hardly a prompt was read meanwhile; else
        from steps, batches and steady windows. ``level`` is a rounded count, ``tok_s`` the median of its
        samples.
        """
        samples = self._of_requests() if self.known else self._of_intervals()
        return (
            samples.filter(pl.col("level") >= 1)
            .with_columns(level=_rounded(pl.col("level")))
            .group_by("level")
            .agg(samples=pl.len(), tok_s=pl.col("tok_s").median())
            .sort("level")
        )

    def _of_requests(self) -> pl.DataFrame:
        told = self.requests.select("output_tokens", "decode_steps", "decode_ms", "stalled_ms", "level")
        steady = told.filter(
            (pl.col("output_tokens") >= CURVE_TOKENS)
            & (pl.col("decode_steps") > 0)
            & (pl.col("decode_ms") > 0)
            & (pl.col("stalled_ms") <= CURVE_STALLED * pl.col("decode_ms"))
        )
        return steady.select(
            level=pl.col("level").round().cast(pl.Int64),
            tok_s=1000 * pl.col("level") * pl.col("decode_steps") / pl.col("decode_ms"),
        )

    def _of_intervals(self) -> pl.DataFrame:
        rows = self._m.intervals.filter((pl.col("phase") == "decode") & (pl.col("running") > 0))
        steps = rows.filter((pl.col("kind") == "iteration") & (pl.col("span_ms") > 0)).select(
            level="running", tok_s=1000 * pl.col("decode_tokens") / pl.col("span_ms")
        )
        batches = rows.filter(pl.col("kind") == "decode_batch").select(level="running", tok_s="decode_tok_s")
        windows = steady_windows(self._m.intervals).select(level="running", tok_s="decode_tok_s")
        return pl.concat([steps, batches, windows]).drop_nulls()


def steady_windows(intervals: pl.DataFrame) -> pl.DataFrame:
    """Windows that only generated and as many requests as the one before them: their rate is a speed."""
    before = pl.col("running").shift(1).over(GROUP)
    return (
        intervals.filter(pl.col("kind") == "window")
        .filter(
            (pl.col("phase") == "decode")
            & (pl.col("running") > 0)
            & ((pl.col("running") - before).abs() <= STEADY * pl.col("running"))
            & (pl.col("phase").shift(1).over(GROUP) == "decode")
        )
        .drop_nulls("decode_tok_s")
    )


def _rounded(level: pl.Expr) -> pl.Expr:
    """Counts up to 8 as they are, up to 16 in twos, up to 32 in fours."""
    step = (level - 1).clip(1).log(2).floor().sub(2).clip(0).cast(pl.Int64)
    grain = pl.lit(2).pow(step).cast(pl.Int64)
    return ((level + grain // 2) // grain * grain).cast(pl.Int64)
