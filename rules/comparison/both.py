"""The requests of both sides, and their measurements: which count, and what they must have in common.

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
from rules.comparison.ended import UNFINISHED
from rules.comparison.queueing import inseparable, unseen
from rules.comparison.samples import Samples
from rules.fits import CONTEXT_TOKENS
from rules.samples import VALID_DECODE_MS, VALID_DECODE_TOKENS, VALID_PREFILL_MS, VALID_PREFILL_TOKENS
from rules.sessions import EVALUATED

if TYPE_CHECKING:
    from rules.measures import Measures

_WARM_UPS = 0.2
"""Of the requests: up to this share of first ones is left out."""

_KV_STEEPNESS = 3.0
"""Attention costs up to some times what reading the KV cache should (rho in `rules.physics.decode`)."""

_EXACT = ("engine", "model")

_BEFORE = pl.sum_horizontal(
    pl.when(pl.col("ttft_from") == "arrival").then("queue_ms").fill_null(0), pl.col("load_ms").fill_null(0)
)
"""What waits hold before any work begins."""


class Both:
    """The requests of both sides.

    Args:
        before, after: the measures of each.
    """

    def __init__(self, before: Measures, after: Measures) -> None:
        self.before, self.after = before, after

    @cached_property
    def rows(self) -> pl.DataFrame:
        """The generations of both sides that came to an end, each side in the order of time."""
        sides = [
            sized(m.overlap.requests.filter(~UNFINISHED)).with_columns(after=pl.lit(value=late))
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

    @cached_property
    def unseen(self) -> str | None:
        """Why the waits of both sides are not what clients waited."""
        return unseen(self.before, self.after)

    @cached_property
    def waited(self) -> tuple[str, ...]:
        """What waits hold before any work begins."""
        names = {"queue_ms": "waiting for a slot", "load_ms": "loading"}
        return tuple(said for name, said in names.items() if (self.warm[name] > 0).any())

    @cached_property
    def inseparable(self) -> str | None:
        """Why no wait can be compared at like work."""
        return inseparable(self.before, self.after)

    @property
    def left_out(self) -> tuple[int, int]:
        """First requests of a process that are in no sample, before and after."""
        before, after = (
            self.rows.filter(pl.col("after") == late).height
            - self.warm.filter(pl.col("after") == late).height
            for late in (False, True)
        )
        return before, after

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
        return Samples(rows, (*self._same, EVALUATED_TOKENS, CACHE_STATE, COMPANY), (), (CACHE_STATE,))

    @cached_property
    def decode(self) -> Samples:
        """Time per generated token."""
        rows = _long_enough(self.warm, "decode_ms", "decode_steps", VALID_DECODE_TOKENS, VALID_DECODE_MS)
        depth = replace(DEPTH, slack=self._depth_slack)
        return Samples(rows, (*self._same, depth, LEVEL, STALLED), (), (depth,))

    @cached_property
    def first_token(self) -> Samples:
        """Time to first token without queue and load, at like prompts and cache."""
        norm = pl.col("evaluated").fill_null(1).clip(LEAST_TOKENS) ** 0.75
        rows = self.warm.with_columns(value=pl.col("ttft_ms") - _BEFORE, norm=norm)
        return Samples(rows, (*self._same, READ, BEHIND), (READ,), (BEHIND,))

    @cached_property
    def total(self) -> Samples:
        """Total time without queue and load, at like prompts, cache and answers."""
        work = pl.col("evaluated", "output_tokens").fill_null(1).clip(LEAST_TOKENS)
        norm = pl.fold(pl.lit(1.0), lambda product, tokens: product * tokens**0.5, work)
        rows = self.warm.with_columns(value=pl.col("total_ms") - _BEFORE, norm=norm)
        return Samples(rows, (*self._same, READ, BEHIND, ANSWER), (READ, ANSWER), (BEHIND,))

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


def sized(requests: pl.DataFrame) -> pl.DataFrame:
    """Requests side by side (`rules.concurrency.Overlap.requests`) with the sizes to match them by."""
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
