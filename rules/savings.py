"""Savings as counterfactuals: apply a change to this log's own requests and sum the difference.

A `Ledger` holds what each request did. A `Change` turns a ledger into the one it would have been. Several
changes together are applied one after the other and recomputed, never added up: two ways to halve the same
prefill do not save it twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from rules.rule import Bound, Saving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import polars as pl
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]


class PrefillCost(Protocol):
    """Anything that predicts prefill time: `rules.physics.prefill.PrefillModel`, fitted to this log."""

    def predict_ms(self, new_tokens: Array, cached_tokens: Array) -> Array:
        """Milliseconds for ``new_tokens`` evaluated on top of ``cached_tokens``."""
        ...


@dataclass(frozen=True, slots=True)
class Ledger:
    """Tokens and times of each request; unknown times are 0 here, so no change can save them.

    Attributes:
        new_tokens: evaluated prompt tokens.
        cached_tokens: reused prompt tokens.
        output_tokens: generated tokens.
        prefill_ms, decode_ms, load_ms, queue_ms: times per request.
        cost: predicts prefill time from tokens.
    """

    new_tokens: Array
    cached_tokens: Array
    output_tokens: Array
    prefill_ms: Array
    decode_ms: Array
    load_ms: Array
    queue_ms: Array
    cost: PrefillCost | None = None

    @classmethod
    def of(cls, requests: pl.DataFrame, cost: PrefillCost | None) -> Ledger:
        """The ledger of a requests frame."""

        def column(name: str) -> Array:
            return np.asarray(requests[name].fill_null(0).to_numpy(), dtype=np.float64)

        return cls(
            new_tokens=column("prefill_tokens"),
            cached_tokens=column("cached_tokens"),
            output_tokens=column("output_tokens"),
            prefill_ms=column("prefill_ms"),
            decode_ms=column("decode_ms"),
            load_ms=column("load_ms"),
            queue_ms=column("queue_ms"),
            cost=cost,
        )

    @property
    def request_ms(self) -> Array:
        """Time of each request in the phases a change can touch."""
        return self.prefill_ms + self.decode_ms + self.load_ms + self.queue_ms

    @property
    def total_ms(self) -> float:
        """Summed time of all requests in the phases a change can touch."""
        return float(np.sum(self.request_ms))

    def with_prompt(self, new_tokens: Array, cached_tokens: Array | None = None) -> Ledger:
        """The same requests with other prompts: prefill scales with the fitted cost, its noise stays."""
        cached = self.cached_tokens if cached_tokens is None else cached_tokens
        new = np.minimum(new_tokens, self.new_tokens)
        before, after = self._work(self.new_tokens, self.cached_tokens), self._work(new, cached)
        ratio = np.divide(after, before, out=np.ones_like(after), where=before > 0)
        return replace(
            self, new_tokens=new, cached_tokens=cached, prefill_ms=self.prefill_ms * np.clip(ratio, 0.0, 1.0)
        )

    def _work(self, new: Array, cached: Array) -> Array:
        return new if self.cost is None else np.asarray(self.cost.predict_ms(new, cached), dtype=np.float64)


Change: TypeAlias = "Callable[[Ledger], Ledger]"


def prompts_cut(new_tokens: Array) -> Change:
    """Each request evaluates only this many prompt tokens."""
    return lambda ledger: ledger.with_prompt(new_tokens)


def prefix_reused(reused_tokens: Array) -> Change:
    """This many of each request's evaluated tokens come from the cache instead; at least one is evaluated."""

    def change(ledger: Ledger) -> Ledger:
        reused = np.clip(reused_tokens, 0.0, np.maximum(ledger.new_tokens - 1.0, 0.0))
        return ledger.with_prompt(ledger.new_tokens - reused, ledger.cached_tokens + reused)

    return change


def output_capped(cap_tokens: float) -> Change:
    """Each request generates at most this many tokens."""

    def change(ledger: Ledger) -> Ledger:
        output = np.minimum(ledger.output_tokens, cap_tokens)
        ratio = np.divide(
            output, ledger.output_tokens, out=np.ones_like(output), where=ledger.output_tokens > 0
        )
        return replace(ledger, output_tokens=output, decode_ms=ledger.decode_ms * ratio)

    return change


def decode_scaled(factor: float | Array) -> Change:
    """Tokens take ``factor`` times as long to generate, one for all requests or one for each; at most 1."""
    bounded = np.clip(factor, 0.0, 1.0)
    return lambda ledger: replace(ledger, decode_ms=ledger.decode_ms * bounded)


def decode_limited(before: Ledger, factor: float) -> Change:
    """Each token takes at most ``factor`` of its time in ``before``; factors above 1 count as 1.

    For changes that take away the same slowness: of two, the faster counts, where scaling would count both.
    """
    bounded = min(max(factor, 0.0), 1.0)

    def change(ledger: Ledger) -> Ledger:
        kept = np.divide(
            ledger.output_tokens,
            before.output_tokens,
            out=np.ones_like(before.output_tokens),
            where=before.output_tokens > 0,
        )
        limit_ms = bounded * before.decode_ms * kept
        return replace(ledger, decode_ms=np.minimum(ledger.decode_ms, limit_ms))

    return change


def prefill_scaled(factor: float | Array) -> Change:
    """Prompts take ``factor`` times as long to read, one for all requests or one for each; at most 1."""
    bounded = np.clip(factor, 0.0, 1.0)
    return lambda ledger: replace(ledger, prefill_ms=ledger.prefill_ms * bounded)


def loads_avoided(mask: Array) -> Change:
    """The model is not loaded for the requests where ``mask`` is 1."""
    return lambda ledger: replace(ledger, load_ms=ledger.load_ms * (1.0 - mask))


def queue_scaled(factor: float) -> Change:
    """Each request waits ``factor`` times as long; factors above 1 count as 1."""
    bounded = min(max(factor, 0.0), 1.0)
    return lambda ledger: replace(ledger, queue_ms=ledger.queue_ms * bounded)


def together(changes: Iterable[Change]) -> Change:
    """Changes one after the other."""
    listed = tuple(changes)

    def change(ledger: Ledger) -> Ledger:
        for one in listed:
            ledger = one(ledger)
        return ledger

    return change


def saved_ms(ledger: Ledger, change: Change) -> Array:
    """What a change saves on each request."""
    return ledger.request_ms - change(ledger).request_ms


def saving(
    ledger: Ledger, change: Change, wall_ms: float, *, bound: Bound = "estimate", digits: int = 3
) -> Saving:
    """What a change saves on this ledger: clamped at 0, rounded to ``digits`` significant digits.

    Args:
        ledger: the requests as they were.
        change: what would be different.
        wall_ms: the summed request time that the share is of.
        bound: ``estimate`` or ``at_most``.
        digits: what the data supports.
    """
    ms = max(ledger.total_ms - change(ledger).total_ms, 0.0)
    return Saving(
        ms=significant(ms, digits),
        share=round(ms / wall_ms, 4) if wall_ms > 0 else 0.0,
        bound=bound,
    )


def significant(value: float, digits: int) -> float:
    """``value`` rounded to significant digits."""
    return float(f"{value:.{digits}g}") if value else 0.0
