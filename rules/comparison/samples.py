"""The measurements of both sides, and what two of them must have in common to be compared.

A speed is that of requests long enough to show it: the same least tokens on both sides, so that no request is
left out because it was fast. The first request of a process warms the machine up and is no sample, unless
processes are so short-lived that they are what is compared.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rules.comparison.dimensions import (
    ANSWER,
    BEHIND,
    CACHE_STATE,
    COMPANY,
    DEPTH,
    EVALUATED_TOKENS,
    GENTLE,
    LEAST_TOKENS,
    LEVEL,
    READ,
    STALLED,
    Dimension,
)
from rules.comparison.matching import Size, crossed, in_both
from rules.fits import CONTEXT_TOKENS, MOST_SAMPLES
from rules.measures import (
    VALID_DECODE_MS,
    VALID_DECODE_TOKENS,
    VALID_PREFILL_MS,
    VALID_PREFILL_TOKENS,
)
from rules.sessions import EVALUATED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rules.measures import Measures
    from rules.savings import Array

    Codes = NDArray[np.int64]
    Mask = NDArray[np.bool_]

_WARM_UPS = 0.2
"""Of the requests: up to this share of first ones is left out."""

KNOWN = 0.9
"""Of a side's samples: from here on a size is known there."""

_KV_STEEPNESS = 3.0
"""Attention costs up to some times what reading the KV cache should (rho in `rules.physics.decode`)."""

_EXACT = ("engine", "model")


class Samples:
    """One quantity on both sides.

    Args:
        frame: a row for each sample, in the order of time on each side: ``after``, ``value`` (what is
            measured), ``norm`` (by how much of it a size is divided out) and the dimensions' columns.
        dimensions: what samples must be alike in.
        needed: of these, what must be told on both sides; others are not matched on if they are not.
    """

    def __init__(
        self, frame: pl.DataFrame, dimensions: tuple[Dimension, ...], needed: tuple[Dimension, ...] = ()
    ) -> None:
        known = pl.col("value").is_finite() & (pl.col("value") > 0) & (pl.col("norm") > 0)
        self.frame = _thinned(frame.filter(known))
        self.dimensions = tuple(d for d in dimensions if self._knows(d))
        self.unknown = tuple(d for d in dimensions if d not in self.dimensions)
        self.missing = next((d for d in needed if d in self.unknown), None)

    @cached_property
    def after(self) -> Mask:
        """Which samples are after the change."""
        return self.frame["after"].to_numpy()

    @cached_property
    def counts(self) -> tuple[int, int]:
        """Samples before and after."""
        after = int(self.after.sum())
        return self.after.size - after, after

    @cached_property
    def log_value(self) -> Array:
        """Logarithms of what is compared."""
        values: Array = np.log(self.frame.select(pl.col("value") / pl.col("norm")).to_series().to_numpy())
        return values

    @cached_property
    def sizes(self) -> list[Size]:
        """The dimensions that are sizes."""
        return [self._size(d) for d in self.dimensions if d.width is not None]

    @cached_property
    def strata(self) -> Codes:
        """A number for each stratum."""
        return crossed([np.zeros(self.after.size, np.int64), *(self._codes(d) for d in self.dimensions)])

    def separating(self) -> Dimension | None:
        """The first dimension in which the sides have nothing in common; None where there is something."""
        together = np.zeros(self.after.size, np.int64)
        for dimension in self.dimensions:
            together = crossed([together, self._codes(dimension)])
            if not in_both(self.after, together).any():
                return dimension
        return None

    def _knows(self, dimension: Dimension) -> bool:
        if dimension.column not in self.frame.columns:
            return False
        told = self.frame.group_by("after").agg(pl.col(dimension.column).is_not_null().mean())
        return told.height == 2 and bool((told[dimension.column] >= KNOWN).all())

    def _size(self, dimension: Dimension) -> Size:
        values = self.frame[dimension.column].cast(pl.Float64).fill_null(np.nan).to_numpy()
        least = 1.0 if dimension.column in (LEVEL.column, STALLED.column) else LEAST_TOKENS
        return Size(np.maximum(values, least), dimension.width or 1.0, dimension.slack)

    def _codes(self, dimension: Dimension) -> Codes:
        if dimension.width is not None:
            return self._size(dimension).codes
        codes: Codes = self.frame[dimension.column].rank("dense").fill_null(0).cast(pl.Int64).to_numpy()
        return codes


class Both:
    """The requests of both sides.

    Args:
        before, after: the measures of each.
    """

    def __init__(self, before: Measures, after: Measures) -> None:
        self.before, self.after = before, after

    @cached_property
    def rows(self) -> pl.DataFrame:
        """The generations of both sides, each side in the order of time."""
        sides = [
            _sized(m.overlap.requests).with_columns(after=pl.lit(value=late))
            for late, m in ((False, self.before), (True, self.after))
        ]
        return pl.concat(sides)

    @cached_property
    def warm(self) -> pl.DataFrame:
        """The rows without each process's first request."""
        first = pl.col("shown") & (pl.col("line") == pl.col("line").min().over("after", "source", "run"))
        sides = [
            (late, [run for run, setup in enumerate(m.setups) if setup.origin])
            for late, m in ((False, self.before), (True, self.after))
        ]
        shown = pl.any_horizontal(
            (pl.col("after") == late) & pl.col("run").is_in(runs) for late, runs in sides
        )
        rows = self.rows.with_columns(shown=shown).with_columns(first=first)
        share = rows.group_by("after").agg(pl.col("first").mean())["first"].max()
        usual = isinstance(share, float) and share > _WARM_UPS
        return rows if usual else rows.filter(~pl.col("first"))

    @property
    def left_out(self) -> int:
        """First requests of a process that are in no sample."""
        return self.rows.height - self.warm.height

    @cached_property
    def replaced(self) -> tuple[str, ...]:
        """Which of engine and model the sides have no name of in common, though both have one."""
        told = {name: self._names(name) for name in _EXACT}
        return tuple(name for name, sides in told.items() if sides and not set.intersection(*sides))

    def _names(self, column: str) -> list[set[str]]:
        sides = [
            set(rows[column].drop_nulls().cast(pl.String).unique())
            for rows in self.rows.partition_by("after", as_dict=False)
        ]
        return sides if len(sides) == 2 and all(sides) else []

    @cached_property
    def _same(self) -> tuple[Dimension, ...]:
        return tuple(Dimension(name, name) for name in _EXACT if name not in self.replaced)

    @cached_property
    def prefill(self) -> Samples:
        """Time per evaluated token."""
        rows = _long_enough(self.warm, "prefill_ms", "prefill_tokens", VALID_PREFILL_TOKENS, VALID_PREFILL_MS)
        return Samples(rows, (*self._same, EVALUATED_TOKENS, CACHE_STATE, COMPANY))

    @cached_property
    def decode(self) -> Samples:
        """Time per generated token."""
        rows = _long_enough(self.warm, "decode_ms", "decode_steps", VALID_DECODE_TOKENS, VALID_DECODE_MS)
        depth = replace(DEPTH, slack=self._depth_slack)
        return Samples(rows, (*self._same, depth, LEVEL, STALLED))

    @cached_property
    def first_token(self) -> Samples:
        """Time to first token, at like prompts and cache."""
        norm = pl.col("evaluated").fill_null(1).clip(LEAST_TOKENS) ** 0.75
        rows = self.warm.with_columns(value=pl.col("ttft_ms"), norm=norm)
        return Samples(rows, (*self._same, READ, BEHIND), (READ,))

    @cached_property
    def total(self) -> Samples:
        """Total time, at like prompts, cache and answers."""
        work = pl.col("evaluated", "output_tokens").fill_null(1).clip(LEAST_TOKENS)
        norm = pl.fold(pl.lit(1.0), lambda product, tokens: product * tokens**0.5, work)
        rows = self.warm.with_columns(value=pl.col("total_ms"), norm=norm)
        return Samples(rows, (*self._same, READ, BEHIND, ANSWER), (READ, ANSWER))

    @property
    def _depth_slack(self) -> float:
        """How steep time per token may be in the context: by the bytes that a token reads, if known."""
        shares = []
        for m in (self.before, self.after):
            kv_bytes, weights_bytes = m.decoding.kv_read_bytes, m.setup.weights_bytes
            if kv_bytes is None or not weights_bytes:
                return GENTLE
            attention = _KV_STEEPNESS * kv_bytes
            shares.append(attention / (weights_bytes + attention))
        return float(np.clip(max(shares), 0.02, GENTLE))


def _sized(requests: pl.DataFrame) -> pl.DataFrame:
    reached = pl.col("cached_tokens") + EVALUATED / 2
    stalled = pl.col("stalled_ms") / pl.col("decode_ms")
    columns = ("source", "run", "line", "engine", "model", "prompt_tokens", "cached_tokens", "prefill_tokens")
    times = ("queue_ms", "load_ms", "prefill_ms", "decode_ms", "ttft_ms", "total_ms", "ttft_from")
    return requests.select(
        *columns,
        *times,
        "output_tokens",
        "decode_steps",
        "level",
        "alone",
        stalled=1 + stalled,
        stalled_share=stalled,
        evaluated=EVALUATED,
        reached=reached,
        context=CONTEXT_TOKENS,
    )


def _thinned(frame: pl.DataFrame) -> pl.DataFrame:
    """At most `MOST_SAMPLES` of each side: of more, every so many is taken."""
    place = pl.int_range(pl.len()).over("after")
    step = (pl.len().over("after") / MOST_SAMPLES).ceil()
    return frame.filter(place % step == 0) if frame.height > MOST_SAMPLES else frame


def _long_enough(
    rows: pl.DataFrame, ms: str, tokens: str, least_tokens: int, least_ms: float
) -> pl.DataFrame:
    """Samples of time per token, of requests that are long enough on the faster side."""
    long = rows.filter((pl.col(tokens) >= least_tokens) & (pl.col(ms) > 0))
    each = long.with_columns(value=pl.col(ms) / pl.col(tokens), norm=pl.lit(1.0))
    fastest = each.group_by("after").agg(pl.col("value").median())["value"].min()
    if not isinstance(fastest, float):
        return each
    return each.filter(pl.col(tokens) >= least_ms / fastest)
